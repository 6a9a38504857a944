//! What is asked of the endpoints as it came, and what is not.
//!
//! Questions about the chain are passed on. What would send, sign or steer a node is not: a door that is open to callers must
//! not be a door to the node behind it. Filters live in one node's memory, and there may be several.

use landfall_core::ports::chain::AskError;
use serde_json::Value;

use super::Asker;
use super::error::{NO_METHOD, RpcError, UNSUPPORTED};

/// Families whose questions are passed on.
const FAMILIES: [&str; 3] = ["eth_", "net_", "web3_"];
/// What signs: keys are used for transactions only.
const SIGNS: [&str; 3] = ["eth_sign", "personal_", "eth_decrypt"];
/// What would act on a node, or needs its memory.
const NOT_PASSED: [&str; 9] = [
    "eth_send",
    "eth_submit",
    "eth_new",
    "eth_getFilter",
    "eth_uninstallFilter",
    "eth_getWork",
    "eth_resend",
    "eth_pendingTransactions",
    "eth_set",
];

pub(super) fn is_passed(method: &str) -> bool {
    let begins = |list: &[&str]| list.iter().any(|start| method.starts_with(start));
    begins(&FAMILIES) && !begins(&NOT_PASSED) && !begins(&SIGNS)
}

/// Why a method is not there.
pub(super) fn refused(method: &str) -> RpcError {
    if SIGNS.iter().any(|start| method.starts_with(start)) {
        let text =
            format!("{method} is not done here: managed keys sign transactions only, by eth_sendTransaction");
        return RpcError::coded(UNSUPPORTED, text, "unsupported");
    }
    // Libraries look for these words to go on without it.
    RpcError::coded(NO_METHOD, format!("the method {method} does not exist/is not available"), "unsupported")
}

pub(super) async fn on(asker: &Asker, method: &str, params: &Value) -> Result<String, RpcError> {
    Ok(asker.adapter.ask(method, params).await?)
}

/// As [`on`], read.
pub(super) async fn read(asker: &Asker, method: &str, params: &Value) -> Result<Value, RpcError> {
    let text = on(asker, method, params).await?;
    serde_json::from_str(&text).map_err(|error| {
        let text = format!("an endpoint answered {method} with something that is not JSON: {error}");
        RpcError::from(AskError::Node { code: super::error::INTERNAL, message: text, data: None })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_passed_on_and_what_acts_on_a_node_is_not() {
        for method in ["eth_call", "eth_getLogs", "eth_feeHistory", "net_listening", "web3_sha3"] {
            assert!(is_passed(method), "{method}");
        }
        let acting = [
            "anvil_setBalance",
            "evm_mine",
            "debug_traceTransaction",
            "admin_addPeer",
            "miner_start",
            "hardhat_reset",
            "txpool_content",
            "eth_sendBundle",
            "eth_newFilter",
            "eth_getFilterChanges",
            "eth_signTypedData_v4",
            "personal_sign",
            "eth",
            "",
        ];
        for method in acting {
            assert!(!is_passed(method), "{method}");
        }
        assert_eq!(refused("personal_sign").code, UNSUPPORTED);
        assert_eq!(refused("eth_signTransaction").code, UNSUPPORTED);
        assert_eq!(refused("debug_traceCall").code, NO_METHOD);
    }
}
