//! How many transactions, how much money and what code accounts have at one block, each in one batch.
//!
//! Counts and balances of accounts for which two endpoints were not heard lately are asked of a second one as well, where one is up, and
//! the higher answer is taken: a count that is too low hides what a newer copy of the store has sent, and a balance that is too low ends
//! transactions. What is too high only makes a lane wait, or a node refuse.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alloy_primitives::{Bytes, U256};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use landfall_core::ports::chain::Error;
use landfall_core::view::BlockRef;
use landfall_core::{Account, Slot, Wei};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::health::Standing;
use super::planted::{self, Planted};
use super::pool::Pool;
use super::receipts::unknown_block;
use super::rpc::{Ask, Failure, read_some};
use super::wire::{Quantity, hex};

/// How many endpoints must agree on a first count.
const WITNESSES: usize = 2;

/// How long the word of two about an account holds.
const AGREED_FOR: Duration = Duration::from_secs(60);
/// After this time a second endpoint that said nothing is asked again.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// How long a second word is waited for.
const SECOND_WAIT: Duration = Duration::from_secs(1);

/// Until when no second word is needed, for each account that was asked about.
#[derive(Default)]
pub(super) struct Heard(Mutex<BTreeMap<Account, Instant>>);

impl Heard {
    /// Those for which a second word is due.
    fn due(&self, accounts: &[Account], now: Instant) -> Vec<usize> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = |account| heard.get(account).is_none_or(|until| *until <= now);
        (0..).zip(accounts).filter(|(_, account)| is_due(account)).map(|(place, _)| place).collect()
    }

    fn note(&self, accounts: impl IntoIterator<Item = Account>, until: Instant, now: Instant) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.retain(|_, until| *until > now);
        heard.extend(accounts.into_iter().map(|account| (account, until)));
    }
}

pub(super) async fn at(pool: &Pool, accounts: &[Account], block: BlockRef) -> Result<Vec<Slot>, Error> {
    let doing = ("count transactions", "eth_getTransactionCount");
    let counts = higher(pool, doing, &pool.heard_counts, accounts, block).await?;
    Ok(counts.into_iter().map(|count| Slot(count.saturating_to())).collect())
}

/// The higher of two endpoints' answers, where a second word is due and one is up.
async fn higher(
    pool: &Pool,
    (doing, method): (&'static str, &'static str),
    heard: &Heard,
    accounts: &[Account],
    block: BlockRef,
) -> Result<Vec<U256>, Error> {
    if accounts.is_empty() {
        return Ok(Vec::new());
    }
    let (by, first) = pool
        .first(doing, |endpoint| async move {
            let answers: Vec<Quantity> = ask(&endpoint, method, accounts, block).await?;
            Ok((endpoint, answers))
        })
        .await?;
    let mut first: Vec<U256> = first.into_iter().map(|quantity| quantity.as_wei().0).collect();
    let now = Instant::now();
    let due = if pool.all().len() < WITNESSES { Vec::new() } else { heard.due(accounts, now) };
    if due.is_empty() {
        return Ok(first);
    }
    let asked: Vec<Account> = due.iter().filter_map(|place| accounts.get(*place).copied()).collect();
    let second = tokio::time::timeout(SECOND_WAIT, second(pool, &by, method, &asked, block)).await;
    let Some(answered) = second.ok().flatten() else {
        heard.note(asked, now + ASKED_AGAIN_AFTER, now);
        return Ok(first);
    };
    let mut alike = Vec::new();
    for ((place, account), said) in due.into_iter().zip(asked).zip(answered) {
        let Some(known) = first.get_mut(place) else { continue };
        // While they differ both are asked each time.
        if *known == said.as_wei().0 {
            alike.push(account);
        }
        *known = (*known).max(said.as_wei().0);
    }
    heard.note(alike, now + AGREED_FOR, now);
    Ok(first)
}

/// The answers of another endpoint that is up and has the block.
async fn second(
    pool: &Pool,
    by: &Arc<Endpoint>,
    method: &'static str,
    accounts: &[Account],
    block: BlockRef,
) -> Option<Vec<Quantity>> {
    for endpoint in pool.by_health() {
        if Arc::ptr_eq(&endpoint, by) || endpoint.standing() != Standing::Ready || pool.lags(&endpoint) {
            continue;
        }
        if endpoint.vet().await.is_err() {
            continue;
        }
        if let Ok(answers) = ask::<Quantity>(&endpoint, method, accounts, block).await {
            return Some(answers);
        }
    }
    None
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
    let doing = ("read balances", "eth_getBalance");
    let balances = higher(pool, doing, &pool.heard_balances, accounts, block).await?;
    Ok(balances.into_iter().map(Wei).collect())
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
