//! Putting a chain away: everything that is stored of it moves to a namespace of its own, and the chain can be used anew.
//!
//! For a development chain that was started over, under the same id. Nothing is lost: a server that is configured with
//! the archive's namespace shows it. It must not be done to a chain that goes on, since keys and slots become free.

/// What was put away, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived {
    /// The namespace that holds it now.
    pub namespace: String,
    pub lanes: u64,
    pub transactions: u64,
}

/// The name of the `n`th archive of a chain.
pub(crate) fn name(namespace: &str, chain: landfall_core::ChainId, n: u64) -> String {
    format!("{namespace}~{chain}~{n}")
}
