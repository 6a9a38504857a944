//! How much of everything is read. The OpenAPI document says the same numbers.

/// What geth takes in one transaction, less its envelope.
pub(crate) const LARGEST_DATA: usize = 127 * 1_024;
pub(crate) const LARGEST_METADATA: usize = 4_096;
pub(crate) const MOST_ACCESS_ITEMS: usize = 1_000;
pub(crate) const MOST_AUTHORIZATIONS: usize = 100;
pub(crate) const LONGEST_KEY_NAME: usize = 100;
pub(crate) const MOST_SIGNERS: usize = 1_000;
pub(crate) const MOST_CHAINS: usize = 100;
