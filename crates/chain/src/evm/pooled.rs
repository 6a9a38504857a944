//! Whether endpoints still show what was sent to them, in their pool or in a block.

use landfall_core::TxHash;
use landfall_core::ports::chain::Error;
use serde_json::json;

use super::endpoint::Endpoint;
use super::pool::Pool;
use super::rpc::{Ask, Failure, read};

/// Asks one endpoint after the other for those that none has shown yet: one that shows it is enough, and a node that
/// does not may only be slow to hear of it.
pub(super) async fn shown(pool: &Pool, hashes: &[TxHash]) -> Result<Vec<bool>, Error> {
    let mut shown = vec![false; hashes.len()];
    let mut failures = Vec::new();
    let mut anyone_answered = hashes.is_empty();
    for endpoint in pool.by_health() {
        let open: Vec<usize> =
            shown.iter().enumerate().filter(|(_, shown)| !**shown).map(|(position, _)| position).collect();
        if open.is_empty() {
            break;
        }
        let asked: Vec<TxHash> = open.iter().filter_map(|&position| hashes.get(position).copied()).collect();
        match ask(&endpoint, &asked).await {
            Ok(answers) => {
                anyone_answered = true;
                for (position, answer) in open.into_iter().zip(answers) {
                    if let Some(known) = shown.get_mut(position) {
                        *known |= answer;
                    }
                }
            }
            Err(failure) => failures.push((endpoint, failure)),
        }
    }
    if anyone_answered { Ok(shown) } else { Err(pool.none("show what was sent", &failures)) }
}

async fn ask(endpoint: &Endpoint, hashes: &[TxHash]) -> Result<Vec<bool>, Failure> {
    endpoint.vet().await?;
    let asks: Vec<_> =
        hashes.iter().map(|hash| Ask::new("eth_getTransactionByHash", json!([hash.0]))).collect();
    endpoint
        .ask_all(&asks)
        .await
        .into_iter()
        .map(|answer| Ok(read::<serde_json::Value>("eth_getTransactionByHash", &answer?)?.is_some()))
        .collect()
}
