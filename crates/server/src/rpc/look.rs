//! Heads, counts, receipts and look-ups, all from one picture of the chain ([`landfall_engine::Handle::shown`]).
//!
//! Libraries put these together: a count that is ahead of a receipt is a replaced transaction to ethers, and a head whose
//! receipts come later is a receipt that viem never asks for. So nothing above the head that is shown here is told: a block
//! is not there yet, a receipt is not there yet, and a transaction in it is still waiting.
//!
//! A hash of any attempt of ours leads to the attempt that won.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{B256, U256};
use landfall_core::ports::store::{TxQuery, TxRecord};
use landfall_core::view::{ChainView, Receipt};
use landfall_core::{Account, CallerNonce, LaneId, Slot, TxHash};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::error::{RpcError, UNAVAILABLE};
use super::params::{Params, hex, quantity};
use super::{Asker, pass, send};
use crate::access::turn_to_look;

/// How long a caller waits for the first look at a chain after a start.
const FIRST_LOOK: Duration = Duration::from_secs(4);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How many nonces that a caller gave are read at once, and how often, to find one that it did not.
const PAGE: u32 = 256;
const MOST_PAGES: u32 = 64;

/// The picture of the chain that everything here is told from.
pub(super) async fn head(asker: &Asker) -> Result<Arc<ChainView>, RpcError> {
    let until = Instant::now() + FIRST_LOOK;
    loop {
        if let Some(view) = asker.app.handle.shown(asker.chain) {
            return Ok(view);
        }
        if Instant::now() >= until {
            let text = format!("chain {} has not been seen yet since the start; ask again", asker.chain);
            return Err(RpcError::coded(UNAVAILABLE, text, "chain_unavailable"));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

pub(super) async fn block_number(asker: &Asker) -> Result<Value, RpcError> {
    Ok(hex(head(asker).await?.head.at.number))
}

pub(super) async fn block_by_number(asker: &Asker, params: Value) -> Result<String, RpcError> {
    let which = params.get(0).and_then(Value::as_str).unwrap_or_default();
    let head = head(asker).await?.head.at;
    if which == "latest" {
        let whole = params.get(1).cloned().unwrap_or(Value::Bool(false));
        return pass::on(asker, "eth_getBlockByHash", &json!([head.hash, whole])).await;
    }
    if quantity(which).is_some_and(|number| number > head.number) {
        return Ok("null".to_owned());
    }
    pass::on(asker, "eth_getBlockByNumber", &params).await
}

pub(super) async fn count(asker: &Asker, params: Value) -> Result<Value, RpcError> {
    let mut read = Params::of(params.clone())?;
    let account = read.account()?;
    let at = read.next().unwrap_or_else(|| json!("latest"));
    let lane = LaneId { chain: asker.chain, signer: account };
    let managed = asker.app.handle.parts().signers.contains_key(&lane) && asker.caller.sees_lane(lane);
    match (at.as_str(), managed) {
        (Some("latest"), false) => Ok(hex(counted(asker, &*head(asker).await?, account).await?.0)),
        (Some("latest"), true) => Ok(hex(latest(asker, lane).await?.0)),
        (Some("pending"), true) => {
            let summary = asker.app.handle.store().lane(lane).await?;
            let next = summary.and_then(|summary| summary.row.cursor).unwrap_or_default();
            Ok(hex(not_given(asker, lane, next.max(latest(asker, lane).await?)).await?.0))
        }
        _ => pass::read(asker, "eth_getTransactionCount", &params).await,
    }
}

/// The first number from here on that this caller has not given with a call: one that it gave would be taken for a retry.
async fn not_given(asker: &Asker, lane: LaneId, next: Slot) -> Result<CallerNonce, RpcError> {
    let store = asker.app.handle.store();
    let given = |from| async move { store.nonces_from(lane, &send::call_id(asker, from), PAGE).await };
    first_free(CallerNonce(next.0), given).await?.ok_or_else(|| {
        let text = format!(
            "the {} nonces from {} on were all given with calls, and no free one was looked for beyond them; leave the nonce out",
            PAGE * MOST_PAGES,
            next.0
        );
        RpcError::coded(UNAVAILABLE, text, "no_free_nonce")
    })
}

/// The first number from here on that is not among those given, which are read page by page; none if it is beyond the last page.
async fn first_free<E, Fut: Future<Output = Result<Vec<CallerNonce>, E>>>(
    from: CallerNonce,
    given: impl Fn(CallerNonce) -> Fut,
) -> Result<Option<CallerNonce>, E> {
    let mut free = from;
    for _ in 0..MOST_PAGES {
        let page = given(free).await?;
        let whole = page.len() == PAGE as usize;
        for nonce in page {
            if nonce != free {
                return Ok(Some(free));
            }
            free = free.next();
        }
        if !whole {
            return Ok(Some(free));
        }
    }
    Ok(None)
}

async fn counted(asker: &Asker, head: &ChainView, account: Account) -> Result<Slot, RpcError> {
    if let Some(count) = known(head, account) {
        return Ok(count);
    }
    let at_head = json!([account.0, { "blockHash": head.head.at.hash }]);
    if let Ok(count) = pass::read(asker, "eth_getTransactionCount", &at_head).await
        && let Some(count) = count.as_str().and_then(quantity)
    {
        return Ok(Slot(count));
    }
    counted_now(asker, account).await
}

/// The count that the engine knows at this head.
pub(super) fn known(head: &ChainView, account: Account) -> Option<Slot> {
    head.accounts.get(&account).filter(|known| known.at == head.head.at).map(|known| known.count)
}

/// A node that keeps no older state says what it has now. Nothing of ours is under way for this account.
pub(super) async fn counted_now(asker: &Asker, account: Account) -> Result<Slot, RpcError> {
    let latest = pass::read(asker, "eth_getTransactionCount", &json!([account.0, "latest"])).await?;
    latest.as_str().and_then(quantity).map(Slot).ok_or_else(|| {
        RpcError::coded(UNAVAILABLE, format!("a node answered {latest} as a count"), "chain_unavailable")
    })
}

/// A managed account's count: not past a transaction of ours whose receipt is not shown yet.
async fn latest(asker: &Asker, lane: LaneId) -> Result<Slot, RpcError> {
    let at_head = counted(asker, &*head(asker).await?, lane.signer).await?;
    if let Some(up_to) = asker.app.handle.shown_up_to(lane) {
        return Ok(at_head.min(up_to));
    }
    // It runs on another node, or on none.
    let summary = asker.app.handle.store().lane(lane).await?.filter(|summary| summary.bound > 0);
    Ok(summary.and_then(|summary| summary.row.chain_count).map_or(at_head, |stored| at_head.min(stored)))
}

/// A transaction of ours, by the hash of any of its attempts.
struct Ours {
    record: TxRecord,
    /// Of the attempt that won, if it is in a block that is shown.
    landed: Option<Landed>,
}

/// Where an attempt landed, and at which price.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Landed {
    #[serde(rename = "transactionHash")]
    hash: TxHash,
    block_hash: B256,
    block_number: U256,
    transaction_index: U256,
    effective_gas_price: Option<U256>,
}

impl From<&Receipt> for Landed {
    fn from(receipt: &Receipt) -> Self {
        Self {
            hash: receipt.hash,
            block_hash: receipt.block.hash,
            block_number: U256::from(receipt.block.number),
            transaction_index: U256::from(receipt.index),
            effective_gas_price: Some(U256::from(receipt.gas_price.0)),
        }
    }
}

/// The record behind a hash, if the caller may know of it.
pub(super) async fn record(asker: &Asker, hash: TxHash) -> Result<Option<TxRecord>, RpcError> {
    let store = asker.app.handle.store();
    let query = TxQuery { hash: Some(hash), chain: Some(asker.chain), limit: 1, ..TxQuery::default() };
    let found = store.txs(&query).await?.into_iter().next();
    match found.filter(|tx| asker.caller.sees_lane(tx.lane)) {
        Some(tx) => Ok(store.tx(tx.id).await?),
        None => Ok(None),
    }
}

/// The hash that won for one whose caller was told another, and whose history was removed since.
async fn stayed(asker: &Asker, hash: TxHash) -> Result<Option<TxHash>, RpcError> {
    let kept = asker.app.handle.store().kept_by_first_hash(asker.chain, hash).await?;
    Ok(kept.filter(|kept| asker.caller.sees_lane(kept.lane)).and_then(|kept| kept.hash))
}

async fn ours(asker: &Asker, hash: TxHash) -> Result<Option<Ours>, RpcError> {
    let turn = turn_to_look(&asker.app, &asker.caller).await?;
    let Some(record) = record(asker, hash).await? else { return Ok(None) };
    drop(turn);
    let head = head(asker).await?;
    let shown = |landed: &Landed| landed.block_number <= U256::from(head.head.at.number);
    let mut landed = record.tx.status.receipt.as_ref().map(Landed::from).filter(shown);
    let is_open = landed.is_none() && !record.tx.status.state.is_terminal();
    if is_open && !asker.app.handle.runs(record.tx.lane) {
        // Another node stores its receipts when it sees them; what is shown here has its own head.
        let mut not_told = None;
        for attempt in record.attempts.iter().rev() {
            match pass::read(asker, RECEIPT, &json!([attempt.hash])).await {
                Ok(receipt) => landed = serde_json::from_value(receipt).ok().flatten().filter(shown),
                Err(error) => not_told = Some(error),
            }
            if landed.is_some() {
                break;
            }
        }
        // "It has not landed" is said only if all were asked.
        if let (None, Some(error)) = (&landed, not_told) {
            return Err(error);
        }
    }
    Ok(Some(Ours { record, landed }))
}

const RECEIPT: &str = "eth_getTransactionReceipt";

/// As much of an answer as says in which block something is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InBlock {
    block_number: Option<U256>,
}

pub(super) async fn receipt(asker: &Asker, params: Value) -> Result<String, RpcError> {
    let hash = Params::of(params)?.hash()?;
    let winner = match ours(asker, hash).await? {
        None => stayed(asker, hash).await?.unwrap_or(hash),
        Some(Ours { landed: Some(landed), .. }) => landed.hash,
        Some(Ours { landed: None, record }) => match record.carried_out_by() {
            Some(hash) => hash,
            None => return Ok("null".to_owned()),
        },
    };
    let receipt = pass::on(asker, RECEIPT, &json!([winner])).await?;
    let read: Option<InBlock> = pass::parsed(RECEIPT, &receipt)?;
    let is_ahead = is_ahead(asker, read.and_then(|read| read.block_number));
    Ok(if is_ahead { "null".to_owned() } else { receipt })
}

pub(super) async fn transaction(asker: &Asker, params: Value) -> Result<Value, RpcError> {
    let hash = Params::of(params)?.hash()?;
    let Some(ours) = ours(asker, hash).await? else {
        return foreign(asker, stayed(asker, hash).await?.unwrap_or(hash)).await;
    };
    let Ours { record, landed } = ours;
    if record.tx.status.state.is_terminal() && record.tx.status.won.is_none() {
        // It ended and nothing of it has landed: as nodes show what they dropped.
        return Ok(Value::Null);
    }
    if let Some(landed) = landed {
        let shown = pass::read(asker, "eth_getTransactionByHash", &json!([landed.hash])).await?;
        if !shown.is_null() {
            return Ok(shown);
        }
        // An endpoint that is behind does not know it.
        if let Some(mut shown) = signed(asker, &record, landed.hash) {
            shown["blockHash"] = json!(landed.block_hash);
            shown["blockNumber"] = json!(landed.block_number);
            shown["transactionIndex"] = json!(landed.transaction_index);
            shown["gasPrice"] = json!(landed.effective_gas_price);
            return Ok(shown);
        }
        return Ok(Value::Null);
    }
    if let Some(hash) = record.carried_out_by() {
        return foreign(asker, hash).await;
    }
    let Some(mut shown) = signed(asker, &record, hash) else { return Ok(Value::Null) };
    if !was_sent(asker, &record, hash).await? {
        without_signature(&mut shown);
    }
    Ok(shown)
}

/// Whether a node was ever given the bytes of this hash, as far as it is written.
async fn was_sent(asker: &Asker, record: &TxRecord, hash: TxHash) -> Result<bool, RpcError> {
    let Some(mut attempt) = record.attempts.iter().find(|attempt| attempt.hash == hash).cloned() else {
        return Ok(false);
    };
    if attempt.hints.sends == 0 {
        let journal = asker.app.handle.store().journal(record.tx.id).await?;
        attempt.told_by(journal.iter().map(|row| (row.at, &row.entry)));
    }
    Ok(attempt.hints.sends > 0)
}

/// Bytes that no node was given are nobody's but ours: whoever kept their signature could send them when the slot was given to
/// something else. Zeros, since libraries cannot read a transaction without these fields.
fn without_signature(shown: &mut Value) {
    for name in ["r", "s", "v", "yParity"] {
        if let Some(value) = shown.get_mut(name) {
            *value = json!("0x0");
        }
    }
    // Those by which an account delegates its code are as good by themselves.
    if let Some(Value::Array(items)) = shown.get_mut("authorizationList") {
        items.iter_mut().for_each(without_signature);
    }
}

/// An attempt as nodes show one that is in no block.
fn signed(asker: &Asker, record: &TxRecord, hash: TxHash) -> Option<Value> {
    let attempt = record.attempts.iter().find(|attempt| attempt.hash == hash)?;
    asker.adapter.codec().read(&attempt.raw).ok().map(|read| read.shown)
}

/// What is not ours: as the endpoint shows it, or as it is kept here.
async fn foreign(asker: &Asker, hash: TxHash) -> Result<Value, RpcError> {
    let mut shown = pass::read(asker, "eth_getTransactionByHash", &json!([hash])).await?;
    if shown.is_null() {
        let kept = asker.app.keeper.raw(asker.chain, hash);
        let read = kept.and_then(|raw| asker.adapter.codec().read(&raw).ok());
        let Some(mut shown) = read.map(|read| read.shown) else { return Ok(Value::Null) };
        // No node may have been given it yet: it waits for a lower nonce.
        without_signature(&mut shown);
        return Ok(shown);
    }
    let block = shown["blockNumber"].as_str().and_then(|number| number.parse().ok());
    if is_ahead(asker, block) {
        for name in ["blockHash", "blockNumber", "transactionIndex"] {
            shown[name] = Value::Null;
        }
    }
    Ok(shown)
}

/// It is in a block above the head that is shown.
fn is_ahead(asker: &Asker, block: Option<U256>) -> bool {
    let head = asker.app.handle.shown(asker.chain).map(|view| view.head.at.number);
    block.zip(head).is_some_and(|(block, head)| block > U256::from(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first free one from a number on, where all from 5 up to this one but one were given.
    async fn free(from: u64, last: u64, but: u64) -> Option<u64> {
        let given = |from: CallerNonce| async move {
            let all = (from.0.max(5)..=last).filter(|nonce| *nonce != but);
            Ok::<_, RpcError>(all.take(PAGE as usize).map(CallerNonce).collect())
        };
        first_free(CallerNonce(from), given).await.unwrap().map(|CallerNonce(nonce)| nonce)
    }

    #[test]
    fn a_transaction_without_its_signature_has_zeros_there_and_in_its_authorizations() {
        let signature = json!({ "r": "0x7", "s": "0x8", "v": "0x1", "yParity": "0x1", "nonce": "0x3" });
        let mut shown = signature.clone();
        shown["authorizationList"] = json!([signature]);
        without_signature(&mut shown);
        let zeros = json!({ "r": "0x0", "s": "0x0", "v": "0x0", "yParity": "0x0", "nonce": "0x3" });
        assert_eq!(shown["authorizationList"], json!([zeros]));
        assert_eq!(
            (&shown["r"], &shown["s"], &shown["nonce"]),
            (&json!("0x0"), &json!("0x0"), &json!("0x3"))
        );
    }

    #[tokio::test]
    async fn a_nonce_is_told_only_if_it_is_known_to_be_free() {
        let most = u64::from(PAGE * MOST_PAGES);
        assert_eq!(free(3, 9, 0).await, Some(3));
        assert_eq!(free(5, 9, 0).await, Some(10));
        assert_eq!(free(5, 9, 7).await, Some(7));
        assert_eq!(free(5, 2_000, 1_500).await, Some(1_500));
        assert_eq!(free(5, 3 + most, 0).await, Some(4 + most));
        assert_eq!(free(5, 4 + most, 0).await, None, "the next one may have been given, too");
        assert_eq!(free(5, 20 + most, 0).await, None);
    }
}
