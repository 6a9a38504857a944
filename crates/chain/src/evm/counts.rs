//! How many transactions and how much money accounts have at one block, each in one batch.

use std::sync::atomic::Ordering;

use landfall_core::ports::chain::Error;
use landfall_core::view::BlockRef;
use landfall_core::{Account, Slot, Wei};
use serde_json::{Value, json};

use super::endpoint::Endpoint;
use super::pool::Pool;
use super::rpc::{Ask, Failure, read_some};
use super::wire::{Quantity, hex};

pub(super) async fn at(pool: &Pool, accounts: &[Account], block: BlockRef) -> Result<Vec<Slot>, Error> {
    let counts = ask_all(pool, "count transactions", "eth_getTransactionCount", accounts, block).await?;
    Ok(counts.into_iter().map(|count| Slot(count.as_u64())).collect())
}

pub(super) async fn balances(pool: &Pool, accounts: &[Account], block: BlockRef) -> Result<Vec<Wei>, Error> {
    let balances = ask_all(pool, "read balances", "eth_getBalance", accounts, block).await?;
    Ok(balances.into_iter().map(Quantity::as_wei).collect())
}

async fn ask_all(
    pool: &Pool,
    doing: &'static str,
    method: &'static str,
    accounts: &[Account],
    block: BlockRef,
) -> Result<Vec<Quantity>, Error> {
    if accounts.is_empty() {
        return Ok(Vec::new());
    }
    pool.first(doing, |endpoint| async move { ask(&endpoint, method, accounts, block).await }).await
}

/// Asked by the block's hash (EIP-1898), so that the answers belong to the block that was scanned; by its number
/// where the endpoint does not take hashes.
async fn ask(
    endpoint: &Endpoint,
    method: &'static str,
    accounts: &[Account],
    block: BlockRef,
) -> Result<Vec<Quantity>, Failure> {
    let quirk = &endpoint.quirks.no_count_by_hash;
    if !quirk.load(Ordering::Relaxed) {
        match batch(endpoint, method, accounts, &json!({ "blockHash": block.hash })).await {
            Err(Failure::Refused(error)) if endpoint.table().is_bad_parameter(error.code, &error.message) => {
                tracing::info!(endpoint = %endpoint.name, "endpoint takes no block hashes; asking by number");
                quirk.store(true, Ordering::Relaxed);
            }
            answer => return answer,
        }
    }
    batch(endpoint, method, accounts, &hex(block.number)).await
}

async fn batch(
    endpoint: &Endpoint,
    method: &'static str,
    accounts: &[Account],
    at: &Value,
) -> Result<Vec<Quantity>, Failure> {
    let asks: Vec<_> = accounts.iter().map(|account| Ask::new(method, json!([account.0, at]))).collect();
    endpoint.ask_all(&asks).await.into_iter().map(|answer| read_some::<Quantity>(method, &answer?)).collect()
}
