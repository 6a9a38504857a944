//! Receipts: all of one block, asked by its hash, or those of some hashes.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use landfall_core::TxHash;
use landfall_core::ports::chain::Error;
use landfall_core::view::{BlockRef, Receipt};
use serde_json::{Value, json};

use super::classify::Trouble;
use super::endpoint::Endpoint;
use super::planted::{self, Planted};
use super::pool::Pool;
use super::rpc::{Ask, Failure, read};
use super::second::Words;
use super::wire::{RawBlock, RawReceipt};

const DOING: &str = "read receipts";

pub(super) async fn of_block(pool: &Pool, words: &Words, block: BlockRef) -> Result<Vec<Receipt>, Error> {
    pool.first("read the receipts of a block", |endpoint| async move {
        let receipts = match whole_block(&endpoint, block).await? {
            Some(receipts) => receipts,
            None => checked(block, one_by_one(&endpoint, block, None).await?)?,
        };
        words.gave_block(pool, &endpoint, block, &receipts);
        Ok(receipts)
    })
    .await
}

/// A block is known by its hash: receipts of another one with its number are worse than none.
fn checked(block: BlockRef, receipts: Vec<Receipt>) -> Result<Vec<Receipt>, Failure> {
    match receipts.iter().find(|receipt| receipt.block.hash != block.hash) {
        Some(other) if !planted::has(Planted::AnyBlockWillDo) => Err(Failure::Unreadable(format!(
            "asked for the receipts of block {:#x}, it answered with one of {:#x}",
            block.hash, other.block.hash
        ))),
        Some(_) | None => Ok(receipts),
    }
}

/// All receipts of a block in one answer; none where the endpoint does not give them so.
pub(super) async fn whole_block(
    endpoint: &Endpoint,
    block: BlockRef,
) -> Result<Option<Vec<Receipt>>, Failure> {
    let quirk = &endpoint.quirks.no_block_receipts;
    if quirk.load(Ordering::Relaxed) {
        return Ok(None);
    }
    match endpoint.ask(&Ask::new("eth_getBlockReceipts", json!([block.hash]))).await {
        Ok(raw) => {
            let receipts: Vec<RawReceipt> =
                read("eth_getBlockReceipts", &raw)?.ok_or_else(|| unknown_block(block))?;
            let receipts = receipts.into_iter().map(mined).collect::<Result<_, _>>()?;
            checked(block, receipts).map(Some)
        }
        Err(Failure::Refused(error)) if cannot(endpoint, error.code, &error.message) => {
            tracing::info!(endpoint = %endpoint.name, "endpoint has no eth_getBlockReceipts; asking one by one");
            quirk.store(true, Ordering::Relaxed);
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// Receipts of a block, where the endpoint does not give them all at once: those of these hashes that the block lists.
pub(super) async fn listed(
    endpoint: &Endpoint,
    block: BlockRef,
    hashes: &[TxHash],
) -> Result<Vec<Receipt>, Failure> {
    checked(block, one_by_one(endpoint, block, Some(hashes)).await?)
}

/// Neither by name nor by hash: either way the other calls will do.
fn cannot(endpoint: &Endpoint, code: i64, text: &str) -> bool {
    endpoint.table().is_unsupported(code, text) || endpoint.table().is_bad_parameter(code, text)
}

/// The block's transactions, and the receipt of each, or of each of these.
async fn one_by_one(
    endpoint: &Endpoint,
    block: BlockRef,
    wanted: Option<&[TxHash]>,
) -> Result<Vec<Receipt>, Failure> {
    let raw = endpoint.ask(&Ask::new("eth_getBlockByHash", json!([block.hash, false]))).await?;
    let found: RawBlock = read("eth_getBlockByHash", &raw)?.ok_or_else(|| unknown_block(block))?;
    let wanted: Option<Vec<Value>> = wanted.map(|hashes| hashes.iter().map(|hash| json!(hash.0)).collect());
    let listed = found.transactions()?;
    let asks: Vec<_> = listed
        .iter()
        .filter(|hash| wanted.as_ref().is_none_or(|wanted| wanted.contains(hash)))
        .map(receipt_ask)
        .collect();
    endpoint
        .ask_all(&asks)
        .await
        .into_iter()
        .map(|answer| {
            let receipt: RawReceipt =
                read("eth_getTransactionReceipt", &answer?)?.ok_or_else(|| unknown_block(block))?;
            mined(receipt)
        })
        .collect()
}

fn receipt_ask(hash: &Value) -> Ask {
    Ask::new("eth_getTransactionReceipt", json!([hash]))
}

fn mined(receipt: RawReceipt) -> Result<Receipt, Failure> {
    receipt.read()?.ok_or_else(|| Failure::Unreadable("a receipt without a block".to_owned()))
}

pub(super) fn unknown_block(block: BlockRef) -> Failure {
    let text = format!("it does not know block {} ({:#x}) or not all of it", block.number, block.hash);
    Failure::TurnedAway { trouble: Trouble::Behind, code: None, text, wait: None }
}

/// Asks for each; those that an endpoint does not know are asked of the next, since nodes forget and lag.
pub(super) async fn of_hashes(pool: &Pool, words: &Words, hashes: &[TxHash]) -> Result<Vec<Receipt>, Error> {
    let mut missing: Vec<TxHash> = hashes.to_vec();
    let mut found: HashMap<TxHash, Receipt> = HashMap::new();
    let mut failures = Vec::new();
    let mut anyone_answered = missing.is_empty();
    for endpoint in pool.by_health() {
        if missing.is_empty() {
            break;
        }
        match some(&endpoint, &missing).await {
            Ok(receipts) => {
                // One that is behind cannot say that there is none.
                anyone_answered |= !pool.lags(&endpoint) || planted::has(Planted::LaggingSaysNone);
                words.gave(pool, &endpoint, &receipts);
                found.extend(receipts.into_iter().map(|receipt| (receipt.hash, receipt)));
                missing.retain(|hash| !found.contains_key(hash));
            }
            Err(failure) => failures.push((endpoint, failure)),
        }
    }
    // What one that is behind has does not make its "none" of the others any better.
    if !anyone_answered && !missing.is_empty() {
        return Err(pool.none(DOING, &failures));
    }
    // In the order asked, each once.
    Ok(hashes.iter().filter_map(|hash| found.remove(hash)).collect())
}

async fn some(endpoint: &Endpoint, hashes: &[TxHash]) -> Result<Vec<Receipt>, Failure> {
    endpoint.vet().await?;
    let asks: Vec<_> = hashes.iter().map(|hash| receipt_ask(&json!(hash.0))).collect();
    let answers = endpoint.ask_all(&asks).await;
    let mut receipts = Vec::new();
    let mut failure = None;
    for (answer, asked) in answers.into_iter().zip(hashes) {
        let receipt = answer
            .and_then(|raw| read::<RawReceipt>("eth_getTransactionReceipt", &raw))
            .and_then(|raw| raw.map_or(Ok(None), RawReceipt::read));
        match receipt {
            Ok(Some(receipt)) if receipt.hash == *asked => receipts.push(receipt),
            Ok(Some(_) | None) => {}
            Err(why) => failure = Some(why),
        }
    }
    // What did come counts; an endpoint that gave nothing but trouble did not answer.
    match failure {
        Some(failure) if receipts.is_empty() => Err(failure),
        Some(_) | None => Ok(receipts),
    }
}
