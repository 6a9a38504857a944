//! The methods that are answered here, and what each needs. A test of all doors goes by this table, so none can be left out of it.

use crate::access::Role;

/// Every method that is not passed on as it is, and the least role that it needs.
pub const METHODS: &[(&str, Role)] = &[
    ("eth_sendTransaction", Role::Submitter),
    ("wallet_sendTransaction", Role::Submitter),
    ("eth_sendRawTransaction", Role::Submitter),
    ("wallet_sendCalls", Role::Submitter),
    ("eth_chainId", Role::Viewer),
    ("net_version", Role::Viewer),
    ("web3_clientVersion", Role::Viewer),
    ("eth_accounts", Role::Viewer),
    ("eth_requestAccounts", Role::Viewer),
    ("eth_blockNumber", Role::Viewer),
    ("eth_getBlockByNumber", Role::Viewer),
    ("eth_getTransactionCount", Role::Viewer),
    ("eth_getTransactionReceipt", Role::Viewer),
    ("eth_getTransactionByHash", Role::Viewer),
    ("eth_subscribe", Role::Viewer),
    ("eth_unsubscribe", Role::Viewer),
    ("wallet_getCallsStatus", Role::Viewer),
    ("wallet_getCapabilities", Role::Viewer),
    ("landfall_getTransaction", Role::Viewer),
    ("landfall_getJournal", Role::Viewer),
    ("landfall_cancel", Role::Submitter),
    ("landfall_speedUp", Role::Submitter),
];

/// The role that a method needs. What is passed on to nodes has a list of its own.
pub(super) fn needed(method: &str) -> Role {
    METHODS.iter().find(|(name, _)| *name == method).map_or(Role::Viewer, |(_, role)| *role)
}

#[cfg(test)]
mod tests {
    use super::METHODS;

    /// The names in front of the arrows of the dispatcher.
    fn dispatched() -> Vec<&'static str> {
        let arms = include_str!("dispatch.rs").lines().filter_map(|line| line.split_once("=>"));
        let names = arms.flat_map(|(left, _)| left.split('"').skip(1).step_by(2));
        names.filter(|name| name.contains('_') && !name.contains(' ')).collect()
    }

    #[test]
    fn the_table_has_every_method_that_the_dispatcher_knows() {
        let mut found = dispatched();
        let mut listed: Vec<&str> = METHODS.iter().map(|(name, _)| *name).collect();
        found.sort_unstable();
        found.dedup();
        listed.sort_unstable();
        assert_eq!(found, listed);
    }
}
