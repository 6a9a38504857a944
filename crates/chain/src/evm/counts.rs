//! How many transactions, how much money and what code accounts have at one block, each in one batch.

use std::sync::atomic::Ordering;

use alloy_primitives::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use landfall_core::ports::chain::Error;
use landfall_core::view::BlockRef;
use landfall_core::{Account, Slot, Wei};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::endpoint::Endpoint;
use super::health::Standing;
use super::planted::{self, Planted};
use super::pool::Pool;
use super::receipts::unknown_block;
use super::rpc::{Ask, Failure, read_some};
use super::wire::{Quantity, hex};

/// How many endpoints must agree on a first count.
const WITNESSES: usize = 2;

pub(super) async fn at(pool: &Pool, accounts: &[Account], block: BlockRef) -> Result<Vec<Slot>, Error> {
    let counts: Vec<Quantity> =
        ask_all(pool, "count transactions", "eth_getTransactionCount", accounts, block).await?;
    Ok(counts.into_iter().map(|count| Slot(count.as_u64())).collect())
}

/// Whether two endpoints say these counts. Asked of their newest blocks: one that is a block behind mostly knows the same count, and
/// would not know the block. Each may take as long as any answer of it.
pub(super) async fn agreed(pool: &Pool, counts: &[(Account, Slot)]) -> Vec<bool> {
    if pool.all().len() < WITNESSES {
        return vec![true; counts.len()];
    }
    let latest = json!("latest");
    let accounts: Vec<Account> = counts.iter().map(|(account, _)| *account).collect();
    let awake = pool.all().iter().filter(|endpoint| endpoint.standing() != Standing::Resting);
    let mut asking: FuturesUnordered<_> = awake
        .map(|endpoint| batch::<Quantity>(endpoint, "eth_getTransactionCount", &accounts, &latest))
        .collect();
    let mut votes = vec![0; counts.len()];
    while let Some(answer) = asking.next().await {
        for ((vote, (_, wanted)), said) in votes.iter_mut().zip(counts).zip(answer.unwrap_or_default()) {
            *vote += usize::from(said.as_u64() == wanted.0);
        }
        if votes.iter().all(|vote| *vote >= WITNESSES) {
            break;
        }
    }
    votes.into_iter().map(|vote| vote >= WITNESSES).collect()
}

pub(super) async fn balances(pool: &Pool, accounts: &[Account], block: BlockRef) -> Result<Vec<Wei>, Error> {
    let balances: Vec<Quantity> = ask_all(pool, "read balances", "eth_getBalance", accounts, block).await?;
    Ok(balances.into_iter().map(Quantity::as_wei).collect())
}

/// What delegated code begins with (EIP-7702).
const DELEGATION: [u8; 3] = [0xef, 0x01, 0x00];

pub(super) async fn delegated(
    pool: &Pool,
    accounts: &[Account],
    block: BlockRef,
) -> Result<Vec<bool>, Error> {
    let codes: Vec<Bytes> = ask_all(pool, "read code", "eth_getCode", accounts, block).await?;
    Ok(codes.iter().map(is_delegation).collect())
}

pub(super) fn is_delegation(code: &Bytes) -> bool {
    code.starts_with(&DELEGATION)
}

async fn ask_all<T: DeserializeOwned + Send>(
    pool: &Pool,
    doing: &'static str,
    method: &'static str,
    accounts: &[Account],
    block: BlockRef,
) -> Result<Vec<T>, Error> {
    if accounts.is_empty() {
        return Ok(Vec::new());
    }
    pool.first(doing, |endpoint| async move { ask(&endpoint, method, accounts, block).await }).await
}

/// Asked by the block's hash (EIP-1898), so that the answers belong to the block that was scanned; by its number
/// where the endpoint does not take hashes.
pub(super) async fn ask<T: DeserializeOwned>(
    endpoint: &Endpoint,
    method: &'static str,
    accounts: &[Account],
    block: BlockRef,
) -> Result<Vec<T>, Failure> {
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
    // By number an endpoint that has not got there yet may answer for the block it has.
    let behind = endpoint.head().is_some_and(|head| head < block.number);
    if behind && !planted::has(Planted::OlderCountTaken) {
        return Err(unknown_block(block));
    }
    batch(endpoint, method, accounts, &hex(block.number)).await
}

async fn batch<T: DeserializeOwned>(
    endpoint: &Endpoint,
    method: &'static str,
    accounts: &[Account],
    at: &Value,
) -> Result<Vec<T>, Failure> {
    let asks: Vec<_> = accounts.iter().map(|account| Ask::new(method, json!([account.0, at]))).collect();
    endpoint.ask_all(&asks).await.into_iter().map(|answer| read_some::<T>(method, &answer?)).collect()
}
