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
/// Beginnings that can never be listed beside those: what sends past the lanes, steers a node or a test chain, or is Landfall's own.
const NEVER: [&str; 35] = [
    "eth_send",
    "eth_resend",
    "eth_submit",
    "eth_subscribe",
    "eth_unsubscribe",
    "eth_cancel",
    "eth_unlock",
    "account_",
    "admin_",
    "anvil_",
    "builder_",
    "clef_",
    "db_",
    "dev_",
    "eea_",
    "engine_",
    "evm_",
    "flashbots_",
    "ganache_",
    "hardhat_",
    "landfall_",
    "les_",
    "mev_",
    "miner_",
    "perm_",
    "priv_",
    "quorumPermission_",
    "raft_",
    "secretstore_",
    "shh_",
    "signer_",
    "tenderly_",
    "test_",
    "testing_",
    "wallet_",
];

/// Namespaces that read and steer: of these only what begins so can be listed.
const ONLY: [(&str, &[&str]); 5] = [
    ("debug_", &["debug_trace", "debug_get", "debug_storageRange"]),
    ("clique_", &["clique_get", "clique_status"]),
    ("ibft_", &["ibft_get"]),
    ("qbft_", &["qbft_get"]),
    (
        "parity_",
        &[
            "parity_get",
            "parity_allTransaction",
            "parity_pendingTransactions",
            "parity_nextNonce",
            "parity_listStorageKeys",
        ],
    ),
];

/// Beginnings that no method has that only reads, behind its namespace.
const VERBS: [&str; 22] = [
    "add", "cancel", "delete", "discard", "drop", "import", "kill", "mine", "post", "propose", "prune",
    "put", "remove", "reset", "resend", "send", "set", "sign", "start", "stop", "submit", "write",
];

/// Reads a file of the node's machine.
const OF_FILES: &str = "debug_traceBlockFromFile";

/// It would sign.
pub(super) fn signs(method: &str) -> bool {
    SIGNS.iter().any(|start| method.starts_with(start))
}

fn never(method: &str) -> bool {
    signs(method) || NEVER.iter().any(|start| method.starts_with(start)) || steers(method).is_some()
}

/// Why a method, or all that begin so, are taken to steer a node.
fn steers(method: &str) -> Option<String> {
    let restricted = ONLY.iter().find(|(namespace, _)| method.starts_with(namespace));
    if let Some((namespace, reads)) = restricted
        && !reads.iter().any(|start| method.starts_with(start))
    {
        return Some(format!(
            "of {namespace} only what begins with {} is passed on to a node",
            reads.join(", ")
        ));
    }
    if method.starts_with(OF_FILES) {
        return Some("what reads files of a node is never passed on to it".to_owned());
    }
    let (namespace, name) = method.split_once('_')?;
    let verb = VERBS.iter().find(|verb| name.starts_with(**verb))?;
    Some(format!("what begins with {namespace}_{verb} is never passed on to a node"))
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

/// Whether an entry may be listed: none may stand for something that is never passed on, or for nothing at all.
fn check(role: Role, entry: &str) -> Result<(), String> {
    let (start, is_start) = entry.strip_suffix('*').map_or((entry, false), |start| (start, true));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_method = start
        .split_once('_')
        .is_some_and(|(namespace, name)| !namespace.is_empty() && (is_start || !name.is_empty()));
    let covers = |refused: &&str| start.starts_with(*refused) || (is_start && refused.starts_with(start));
    let refused = SIGNS.iter().chain(&NEVER).find(|refused| covers(refused));
    let refused = refused.map(|refused| format!("what begins with {refused} is never passed on to a node"));
    if let Some(why) = refused.or_else(|| steers(start)) {
        return Err(format!(
            "rpc.allow.{role} has {entry:?}, and {why}: it signs, sends or steers the node. Name the methods that only read"
        ));
    }
    if !is_method || !start.chars().all(is_name) {
        return Err(format!(
            "rpc.allow.{role} has {entry:?}, which stands for no method; name one, such as eth_call, or the beginning of several, such \
             as debug_trace*"
        ));
    }
    Ok(())
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
            "debug_setHead",
            "debug_*",
            "debug_",
            "debug_s*",
            "debug_chaindbCompact",
            "debug_traceBlockFromFile",
            "anvil_setBalance",
            "anvil_*",
            "evm_mine",
            "hardhat_reset",
            "tenderly_setBalance",
            "clique_propose",
            "parity_setEngineSigner",
            "parity_*",
            "eth_cancelBundle",
            "eth_cancelPrivateTransaction",
            "mev_sendBundle",
            "flashbots_getUserStats",
            "zks_sendRawTransactionWithDetailedOutput",
            "qbft_proposeValidatorVote",
            "net_addPeer",
        ] {
            let refused = Allow::with([(Role::Admin, &list(&[entry])[..])]).unwrap_err();
            assert!(refused.starts_with("rpc.allow.admin has "), "{refused}");
        }
        for nothing in ["eth_", "eth", "call", "_call", "tr*"] {
            let refused = Allow::with([(Role::Admin, &list(&[nothing])[..])]).unwrap_err();
            assert!(refused.contains("stands for no method"), "{nothing}: {refused}");
        }
        let reads = [
            "debug_trace*",
            "debug_getRawBlock",
            "debug_storageRangeAt",
            "trace_*",
            "txpool_*",
            "parity_pendingTransactions",
        ];
        let allow = Allow::with([(Role::Admin, &list(&reads)[..])]).unwrap();
        for method in ["debug_traceCall", "debug_getRawBlock", "trace_block", "txpool_content"] {
            assert!(allow.passes(|_| true, method), "{method}");
        }
        // Not even where a star stands for it.
        for method in ["debug_traceBlockFromFile", "trace_setFilter", "txpool_sendAll"] {
            assert!(!allow.passes(|_| true, method), "{method}");
        }
        for method in READS {
            Allow::with([(Role::Viewer, &list(&[method])[..])]).unwrap();
        }
    }
}
