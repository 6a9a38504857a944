//! How many transactions accounts have on chain at one block, in one batch.

use std::sync::atomic::Ordering;

use landfall_core::ports::chain::Error;
use landfall_core::view::BlockRef;
use landfall_core::{Account, Slot};
use serde_json::{Value, json};

use super::endpoint::Endpoint;
use super::pool::Pool;
use super::rpc::{Ask, Failure, read_some};
use super::wire::{Quantity, hex};

pub(super) async fn at(pool: &Pool, accounts: &[Account], block: BlockRef) -> Result<Vec<Slot>, Error> {
    if accounts.is_empty() {
        return Ok(Vec::new());
    }
    pool.first("count transactions", |endpoint| async move { ask(&endpoint, accounts, block).await }).await
}

/// Asked by the block's hash (EIP-1898), so that the counts belong to the block that was scanned; by its number
/// where the endpoint does not take hashes.
async fn ask(endpoint: &Endpoint, accounts: &[Account], block: BlockRef) -> Result<Vec<Slot>, Failure> {
    let quirk = &endpoint.quirks.no_count_by_hash;
    if !quirk.load(Ordering::Relaxed) {
        match batch(endpoint, accounts, &json!({ "blockHash": block.hash })).await {
            Err(Failure::Refused(error)) if endpoint.table().is_bad_parameter(error.code, &error.message) => {
                tracing::info!(endpoint = %endpoint.name, "endpoint takes no block hashes; asking by number");
                quirk.store(true, Ordering::Relaxed);
            }
            answer => return answer,
        }
    }
    batch(endpoint, accounts, &hex(block.number)).await
}

async fn batch(endpoint: &Endpoint, accounts: &[Account], at: &Value) -> Result<Vec<Slot>, Failure> {
    let asks: Vec<_> =
        accounts.iter().map(|account| Ask::new("eth_getTransactionCount", json!([account.0, at]))).collect();
    endpoint
        .ask_all(&asks)
        .await
        .into_iter()
        .map(|answer| read_some::<Quantity>("eth_getTransactionCount", &answer?).map(|n| Slot(n.as_u64())))
        .collect()
}
