//! What an endpoint can do: asked when it is first used and after every reconnect, corrected whenever it says otherwise.
//!
//! | it lacks | instead |
//! |---|---|
//! | batches | one request at a time, or smaller batches |
//! | `eth_getBlockReceipts` | the block, and a receipt for each of its transactions |
//! | state by block hash | by number, from an endpoint that has that block |
//! | the pending block | estimates on the head |
//! | `eth_feeHistory` | the node's own suggestions |
//! | `safe`, `finalized` | another endpoint's, or none |
//! | subscriptions | polling |

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

use super::endpoint::Endpoint;
use super::rpc::{Answer, Ask, Failure};

/// The most questions in one batch: what the strictest of the usual gateways take.
pub(crate) const MAX_BATCH: usize = 100;

/// What an endpoint turned out not to do.
#[derive(Debug)]
pub(crate) struct Quirks {
    pub(crate) no_batches: AtomicBool,
    /// The largest batch that it takes, as far as it is known.
    pub(crate) max_batch: AtomicUsize,
    pub(crate) no_block_receipts: AtomicBool,
    pub(crate) no_count_by_hash: AtomicBool,
    pub(crate) no_pending_estimate: AtomicBool,
    pub(crate) no_fee_history: AtomicBool,
    pub(crate) no_safe: AtomicBool,
    pub(crate) no_finalized: AtomicBool,
    pub(crate) no_subscriptions: AtomicBool,
    /// It has been asked since it was last identified.
    pub(crate) probed: AtomicBool,
}

impl Quirks {
    /// Everything, until it says otherwise.
    pub(crate) fn new(subscriptions: bool) -> Self {
        Self {
            no_batches: AtomicBool::new(false),
            max_batch: AtomicUsize::new(MAX_BATCH),
            no_block_receipts: AtomicBool::new(false),
            no_count_by_hash: AtomicBool::new(false),
            no_pending_estimate: AtomicBool::new(false),
            no_fee_history: AtomicBool::new(false),
            no_safe: AtomicBool::new(false),
            no_finalized: AtomicBool::new(false),
            no_subscriptions: AtomicBool::new(!subscriptions),
            probed: AtomicBool::new(false),
        }
    }

    /// In words, for health pages.
    pub(crate) fn lacks(&self) -> Vec<&'static str> {
        [
            (&self.no_batches, "batches"),
            (&self.no_block_receipts, "eth_getBlockReceipts"),
            (&self.no_count_by_hash, "state by block hash"),
            (&self.no_pending_estimate, "pending block"),
            (&self.no_fee_history, "eth_feeHistory"),
            (&self.no_safe, "safe block"),
            (&self.no_finalized, "finalized block"),
            (&self.no_subscriptions, "subscriptions"),
        ]
        .into_iter()
        .filter(|(lacks, _)| lacks.load(Ordering::Relaxed))
        .map(|(_, name)| name)
        .collect()
    }
}

/// Asks what it can do, unless that was done since it was identified. One packet; trouble leaves what is known.
pub(crate) async fn probe(endpoint: &Endpoint) {
    let quirks = &endpoint.quirks;
    if quirks.probed.swap(true, Ordering::Relaxed) {
        return;
    }
    quirks.no_batches.store(false, Ordering::Relaxed);
    quirks.max_batch.store(MAX_BATCH, Ordering::Relaxed);
    let block = |tag: &str| Ask::new("eth_getBlockByNumber", json!([tag, false]));
    let asks = [
        block("pending"),
        block("safe"),
        block("finalized"),
        Ask::new("eth_getBlockReceipts", json!(["latest"])),
        Ask::new("eth_feeHistory", json!(["0x1", "latest", [50]])),
    ];
    let lacking = [
        &quirks.no_pending_estimate,
        &quirks.no_safe,
        &quirks.no_finalized,
        &quirks.no_block_receipts,
        &quirks.no_fee_history,
    ];
    for (answer, lacks) in endpoint.ask_all(&asks).await.iter().zip(lacking) {
        if let Some(lacking) = says(endpoint, answer) {
            lacks.store(lacking, Ordering::Relaxed);
        }
    }
    let lacks = quirks.lacks();
    if !lacks.is_empty() {
        let told: Vec<String> =
            lacks.iter().map(|lack| format!("no {lack}, {} instead", instead(lack))).collect();
        tracing::info!(endpoint = %endpoint.name, "endpoint has {}", told.join("; "));
    }
}

/// How it is done with an endpoint that lacks this.
fn instead(lack: &str) -> &'static str {
    match lack {
        "batches" => "single calls",
        "eth_getBlockReceipts" => "receipts one by one",
        "state by block hash" => "state by block number",
        "pending block" => "the latest block",
        "eth_feeHistory" => "eth_gasPrice",
        "safe block" | "finalized block" => "finality by depth",
        "subscriptions" => "polling",
        _ => "another endpoint",
    }
}

/// Whether it lacks what was asked for; none if the answer does not tell.
fn says(endpoint: &Endpoint, answer: &Answer) -> Option<bool> {
    match answer {
        Ok(_) => Some(false),
        Err(Failure::Refused(error)) => {
            let table = endpoint.table();
            let cannot = table.is_unsupported(error.code, &error.message)
                || table.is_bad_parameter(error.code, &error.message);
            cannot.then_some(true)
        }
        Err(Failure::Lost(_) | Failure::TurnedAway { .. } | Failure::Unreadable(_)) => None,
    }
}
