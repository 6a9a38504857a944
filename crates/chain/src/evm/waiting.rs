//! Pools: the transactions of an account that each endpoint holds, ready or behind a gap.
//!
//! The difference of the counts at `latest` and `pending` is what is ready. What waits behind a gap is in neither: a node
//! lists it with `txpool_contentFrom`, or, where it does not know that, among all that its pool has (`txpool_content`). Of a
//! list only slots are kept; how long it may be, the transport says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::Address;
use futures::future::join_all;
use landfall_core::ports::chain::{PoolLook, Pooled};
use landfall_core::{Account, Slot};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

use super::endpoint::Endpoint;
use super::pool::Pool;
use super::rpc::{Ask, Failure, read_some};
use super::wire::Quantity;

const FROM: &str = "txpool_contentFrom";
const ALL: &str = "txpool_content";

/// The parts that every node's pool has; erigon has `baseFee` beside them.
const PARTS: [&str; 2] = ["pending", "queued"];

/// An account's transactions by nonce, which is written as a decimal number.
type Listed = BTreeMap<String, IgnoredAny>;

/// Asks every endpoint at once, those too that are left alone otherwise.
pub(super) async fn of(pool: &Pool, account: Account) -> Vec<PoolLook> {
    let look = |endpoint: &Arc<Endpoint>| {
        let endpoint = Arc::clone(endpoint);
        async move {
            let found = at(&endpoint, account).await.map_err(|failure| failure.to_string());
            PoolLook { endpoint: endpoint.name.to_string(), found }
        }
    };
    join_all(pool.all().iter().map(look)).await
}

async fn at(endpoint: &Endpoint, account: Account) -> Result<Pooled, Failure> {
    endpoint.vet().await?;
    // The list first: what becomes ready meanwhile is in the count, then.
    let listed = listed(endpoint, account).await?;
    let count = |tag: &str| Ask::new("eth_getTransactionCount", json!([account.0, tag]));
    let pending: Quantity = endpoint.ask_for(&count("pending")).await?;
    let latest: Quantity = endpoint.ask_for(&count("latest")).await?;
    Ok(Pooled { latest: Slot(latest.as_u64()), pending: Slot(pending.as_u64()), listed })
}

async fn listed(endpoint: &Endpoint, account: Account) -> Result<BTreeSet<Slot>, Failure> {
    match parts::<Listed>(endpoint, FROM, json!([account.0])).await {
        Ok(parts) => return slots(FROM, parts.into_iter().flat_map(Listed::into_keys)),
        Err(Failure::Refused(_)) => {}
        Err(failure) => return Err(failure),
    }
    let all = match parts::<BTreeMap<Address, Listed>>(endpoint, ALL, json!([])).await {
        Err(Failure::Refused(error)) => {
            let text = format!("it offers neither {FROM} nor {ALL}: {}", error.message);
            return Err(Failure::Unreadable(text));
        }
        all => all?,
    };
    slots(ALL, all.into_iter().filter_map(|mut part| part.remove(&account.0)).flat_map(Listed::into_keys))
}

async fn parts<T: DeserializeOwned>(
    endpoint: &Endpoint,
    method: &'static str,
    params: Value,
) -> Result<Vec<T>, Failure> {
    let answer = endpoint.ask(&Ask::new(method, params)).await?;
    let parts: BTreeMap<String, T> = read_some(method, &answer)?;
    match PARTS.iter().find(|part| !parts.contains_key(**part)) {
        Some(part) => Err(Failure::Unreadable(format!("{method}: {part} is missing"))),
        None => Ok(parts.into_values().collect()),
    }
}

fn slots(method: &str, nonces: impl Iterator<Item = String>) -> Result<BTreeSet<Slot>, Failure> {
    let slot = |nonce: String| match nonce.parse() {
        Ok(number) => Ok(Slot(number)),
        Err(_) => Err(Failure::Unreadable(format!("{method}: {nonce} is no nonce"))),
    };
    nonces.map(slot).collect()
}
