//! The methods that are answered here. A test of all doors goes by this table, so none can be left out of it.

/// Every method that is not passed on as it is.
pub const METHODS: &[&str] = &[
    "eth_sendTransaction",
    "wallet_sendTransaction",
    "eth_sendRawTransaction",
    "wallet_sendCalls",
    "eth_chainId",
    "net_version",
    "web3_clientVersion",
    "eth_accounts",
    "eth_requestAccounts",
    "eth_blockNumber",
    "eth_getBlockByNumber",
    "eth_getTransactionCount",
    "eth_getTransactionReceipt",
    "eth_getTransactionByHash",
    "eth_subscribe",
    "eth_unsubscribe",
    "wallet_getCallsStatus",
    "wallet_getCapabilities",
    "landfall_getTransaction",
    "landfall_getJournal",
    "landfall_cancel",
    "landfall_speedUp",
];

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
        let mut listed = METHODS.to_vec();
        found.sort_unstable();
        found.dedup();
        listed.sort_unstable();
        assert_eq!(found, listed);
    }
}
