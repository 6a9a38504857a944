//! Which methods are passed on, and for whom. Pure.
//!
//! What is not listed is not passed on: a door that is open to callers must not be a door to the node behind it. What sends,
//! signs or administers a node cannot be listed.

use std::collections::BTreeSet;

use crate::access::Role;

/// Questions that read a chain, and leave nothing behind at a node. Passed on for viewers unless the configuration says otherwise.
pub const READS: &[&str] = &[
    "eth_baseFee",
    "eth_blobBaseFee",
    "eth_call",
    "eth_callMany",
    "eth_config",
    "eth_createAccessList",
    "eth_estimateGas",
    "eth_feeHistory",
    "eth_gasPrice",
    "eth_getAccount",
    "eth_getAccountInfo",
    "eth_getBalance",
    "eth_getBlockByHash",
    "eth_getBlockByNumber",
    "eth_getBlockReceipts",
    "eth_getBlockTransactionCountByHash",
    "eth_getBlockTransactionCountByNumber",
    "eth_getCode",
    "eth_getHeaderByHash",
    "eth_getHeaderByNumber",
    "eth_getLogs",
    "eth_getProof",
    "eth_getRawTransactionByBlockHashAndIndex",
    "eth_getRawTransactionByBlockNumberAndIndex",
    "eth_getRawTransactionByHash",
    "eth_getStorageAt",
    "eth_getStorageValues",
    "eth_getTransactionByBlockHashAndIndex",
    "eth_getTransactionByBlockNumberAndIndex",
    "eth_getTransactionByHash",
    "eth_getTransactionBySenderAndNonce",
    "eth_getTransactionCount",
    "eth_getTransactionReceipt",
    "eth_getUncleByBlockHashAndIndex",
    "eth_getUncleByBlockNumberAndIndex",
    "eth_getUncleCountByBlockHash",
    "eth_getUncleCountByBlockNumber",
    "eth_hashrate",
    "eth_maxPriorityFeePerGas",
    "eth_mining",
    "eth_protocolVersion",
    "eth_simulateV1",
    "eth_syncing",
    "net_listening",
    "net_peerCount",
    "web3_sha3",
];

/// Methods that use a key which a node may hold.
const SIGNS: [&str; 3] = ["eth_sign", "personal_", "eth_decrypt"];
/// Methods that can never be listed beside those: they send past the lanes, steer a node, or are Landfall's own.
const NEVER: [&str; 11] = [
    "eth_send",
    "eth_resend",
    "eth_submit",
    "eth_subscribe",
    "eth_unsubscribe",
    "admin_",
    "engine_",
    "miner_",
    "wallet_",
    "landfall_",
    "eth_unlock",
];

/// It would sign.
pub(super) fn signs(method: &str) -> bool {
    SIGNS.iter().any(|start| method.starts_with(start))
}

fn never(method: &str) -> bool {
    signs(method) || NEVER.iter().any(|start| method.starts_with(start))
}

/// The methods that each role may have passed on, beside those of the roles below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allow {
    by_role: Vec<(Role, Methods)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Methods {
    names: BTreeSet<String>,
    /// The beginnings of names that end in `*`.
    starts: Vec<String>,
}

impl Default for Allow {
    fn default() -> Self {
        let names = READS.iter().map(|name| (*name).to_owned()).collect();
        Self { by_role: vec![(Role::Viewer, Methods { names, starts: Vec::new() })] }
    }
}

impl Allow {
    /// The lists of these roles instead of the usual ones; why they cannot be used.
    pub fn with<'a>(lists: impl IntoIterator<Item = (Role, &'a [String])>) -> Result<Self, String> {
        let mut allow = Self::default();
        for (role, list) in lists {
            let mut methods = Methods::default();
            for entry in list {
                check(role, entry)?;
                match entry.strip_suffix('*') {
                    Some(start) => methods.starts.push(start.to_owned()),
                    None => {
                        methods.names.insert(entry.clone());
                    }
                }
            }
            allow.by_role.retain(|(of, _)| *of != role);
            allow.by_role.push((role, methods));
        }
        Ok(allow)
    }

    /// Whether a method is passed on for somebody who has these roles.
    pub(super) fn passes(&self, has: impl Fn(Role) -> bool, method: &str) -> bool {
        let listed = |methods: &Methods| {
            methods.names.contains(method)
                || methods.starts.iter().any(|start| method.starts_with(start.as_str()))
        };
        !never(method) && self.by_role.iter().any(|(role, methods)| has(*role) && listed(methods))
    }
}

/// Whether an entry may be listed: none may stand for something that is never passed on.
fn check(role: Role, entry: &str) -> Result<(), String> {
    let (start, is_start) = entry.strip_suffix('*').map_or((entry, false), |start| (start, true));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if start.is_empty() || !start.chars().all(is_name) {
        return Err(format!(
            "rpc.allow.{role} has {entry:?}; name a method, such as eth_call, or the beginning of several, such as debug_trace*"
        ));
    }
    let covers = |refused: &&str| start.starts_with(*refused) || (is_start && refused.starts_with(start));
    let refused = SIGNS.iter().chain(&NEVER).find(|refused| covers(refused));
    refused.map_or(Ok(()), |refused| {
        Err(format!(
            "rpc.allow.{role} has {entry:?}, and what begins with {refused} is never passed on to a node: it signs, sends or \
             steers the node. Name the methods that only read"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up_to(highest: Role) -> impl Fn(Role) -> bool {
        move |role| highest.covers(role)
    }

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn reads_are_passed_on_for_viewers_and_nothing_else_is() {
        let allow = Allow::default();
        for method in ["eth_call", "eth_getLogs", "eth_feeHistory", "net_listening", "web3_sha3"] {
            assert!(allow.passes(up_to(Role::Viewer), method), "{method}");
            assert!(!allow.passes(|_| false, method), "nobody may have {method}");
        }
        let others = [
            "anvil_setBalance",
            "evm_mine",
            "debug_traceTransaction",
            "admin_addPeer",
            "miner_start",
            "hardhat_reset",
            "txpool_content",
            "eth_sendBundle",
            "eth_cancelBundle",
            "eth_unlockAccount",
            "eth_newFilter",
            "eth_getFilterChanges",
            "eth_signTypedData_v4",
            "eth_unauthorized",
            "eth_callx",
            "personal_sign",
            "eth",
            "",
        ];
        for method in others {
            assert!(!allow.passes(|_| true, method), "{method}");
        }
    }

    #[test]
    fn a_role_has_its_own_list_and_those_below_it() {
        let (viewer, admin) = (list(&["eth_call"]), list(&["debug_trace*", "txpool_content"]));
        let allow = Allow::with([(Role::Viewer, &viewer[..]), (Role::Admin, &admin[..])]).unwrap();
        assert!(allow.passes(up_to(Role::Viewer), "eth_call"));
        assert!(!allow.passes(up_to(Role::Admin), "eth_getLogs"), "the usual list was replaced");
        for method in ["debug_traceCall", "txpool_content"] {
            assert!(allow.passes(up_to(Role::Admin), method) && !allow.passes(up_to(Role::Operator), method));
        }
        let more = list(&["trace_block"]);
        let allow = Allow::with([(Role::Submitter, &more[..])]).unwrap();
        assert!(allow.passes(up_to(Role::Submitter), "eth_call"), "the usual list stays");
        assert!(allow.passes(up_to(Role::Submitter), "trace_block"));
    }

    #[test]
    fn what_signs_sends_or_steers_a_node_cannot_be_listed() {
        for entry in [
            "eth_sign",
            "eth_signTypedData_v4",
            "eth_sendBundle",
            "eth_sendRawTransaction",
            "personal_sign",
            "personal_*",
            "pers*",
            "eth_*",
            "eth_s*",
            "e*",
            "*",
            "",
            "admin_peers",
            "wallet_sendCalls",
            "eth call",
        ] {
            let refused = Allow::with([(Role::Admin, &list(&[entry])[..])]).unwrap_err();
            assert!(refused.starts_with("rpc.allow.admin has "), "{refused}");
        }
        for method in READS {
            Allow::with([(Role::Viewer, &list(&[method])[..])]).unwrap();
        }
    }
}
