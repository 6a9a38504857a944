//! Who used a count of an account, as a final block shows it (E11).
//!
//! What follows from the answer cannot be taken back: a transaction whose slot went to somebody else is queued again. So
//! two endpoints must say the same where there are two, and that no transaction took the slot is believed only if
//! something else in that very block did. A gateway that shows an old count at one block leads to a later block, which
//! has nothing of the account's; that must not read as "somebody else".

use std::collections::BTreeSet;

use landfall_core::ports::chain::{BlockAt, Error, Taker};
use landfall_core::view::BlockRef;
use landfall_core::{Account, ChainId, Slot};
use serde_json::json;

use super::endpoint::Endpoint;
use super::pool::Pool;
use super::receipts::unknown_block;
use super::rpc::{Ask, Failure, read};
use super::wire::{Quantity, RawBlock, RawTransaction};
use super::{counts, heads};

/// How many endpoints must agree.
const WITNESSES: usize = 2;

/// What is asked of each endpoint.
#[derive(Clone, Copy)]
struct Question {
    chain: ChainId,
    block: BlockRef,
    account: Account,
    slot: Slot,
}

/// The account's transaction with that count in a block, which is read whole; none if the count was passed in it by an
/// authorization of the account's (EIP-7702), or by what its delegated code created.
pub(super) async fn find(
    pool: &Pool,
    block: BlockRef,
    account: Account,
    slot: Slot,
) -> Result<Option<Taker>, Error> {
    let doing = "say who took a slot";
    let wanted = pool.all().len().min(WITNESSES);
    let question = Question { chain: pool.chain(), block, account, slot };
    let mut failures = Vec::new();
    let mut said: Vec<Option<Taker>> = Vec::new();
    for endpoint in pool.by_health() {
        match witness(&endpoint, question).await {
            Ok(taker) => said.push(taker),
            Err(failure) => failures.push((endpoint, failure)),
        }
        if said.len() == wanted {
            break;
        }
    }
    match said.as_slice() {
        [first, rest @ ..] if said.len() == wanted => {
            if rest.iter().all(|other| other == first) {
                return Ok(first.clone());
            }
            let text = format!("two endpoints disagree on who used slot {slot} in block {}", block.number);
            Err(Error::Unreadable { chain: pool.chain(), doing, text })
        }
        [_, ..] => {
            let why = pool.none(doing, &failures);
            let text = format!("{} of {wanted} endpoints said so, and two must agree: {why}", said.len());
            Err(Error::Unreachable { chain: pool.chain(), doing, text })
        }
        [] => Err(pool.none(doing, &failures)),
    }
}

/// What one endpoint says, if the block is part of its chain. None: the slot was used there, but not by a transaction of
/// the account's.
async fn witness(endpoint: &Endpoint, question: Question) -> Result<Option<Taker>, Failure> {
    let Question { block, account, slot, .. } = question;
    let shown = heads::one(endpoint, BlockAt::Number(block.number)).await?;
    if shown.is_none_or(|shown| shown.at != block) {
        return Err(unknown_block(block));
    }
    let raw = endpoint.ask(&Ask::new("eth_getBlockByHash", json!([block.hash, true]))).await?;
    let found: RawBlock = read("eth_getBlockByHash", &raw)?.ok_or_else(|| unknown_block(block))?;
    // What is not in the block is said to be foreign: another block, or a header alone, must not say so.
    let header = found.read()?;
    if header.at.hash != block.hash {
        let text = format!("asked for block {:#x}, it answered with {:#x}", block.hash, header.at.hash);
        return Err(Failure::Unreadable(text));
    }
    let mut used = BTreeSet::new();
    for value in found.transactions()? {
        let tx: RawTransaction = serde_json::from_value(value)
            .map_err(|error| Failure::Unreadable(format!("a transaction of a block: {error}")))?;
        used.extend(tx.authorized_by(account, question.chain));
        if tx.from == account.0 {
            if tx.nonce.as_u64() == slot.0 {
                return Ok(Some(tx.taker()));
            }
            used.insert(Slot(tx.nonce.as_u64()));
        }
    }
    let before = BlockRef { number: block.number.saturating_sub(1), hash: header.parent };
    passed_otherwise(endpoint, question, before, &used).await.map(|()| None)
}

/// No transaction took the slot. Then the count must have passed it between the block before and this one, and each
/// count in between have a use in the block; what delegated code created shows in no list, so there it needs none.
async fn passed_otherwise(
    endpoint: &Endpoint,
    question: Question,
    before: BlockRef,
    used: &BTreeSet<Slot>,
) -> Result<(), Failure> {
    let Question { block, account, slot, .. } = question;
    let first = count(endpoint, account, before).await?;
    let end = count(endpoint, account, block).await?;
    if !(first..end).contains(&slot) {
        let text = format!(
            "block {} does not use slot {slot}: the account's count goes from {first} to {end} in it",
            block.number
        );
        return Err(Failure::Unreadable(text));
    }
    let explained = (first.0..end.0).all(|slot| used.contains(&Slot(slot)));
    if explained
        || is_delegated(endpoint, account, before).await?
        || is_delegated(endpoint, account, block).await?
    {
        return Ok(());
    }
    let text = format!(
        "the account's count goes from {first} to {end} in block {}, and not everything that used it is there",
        block.number
    );
    Err(Failure::Unreadable(text))
}

async fn count(endpoint: &Endpoint, account: Account, at: BlockRef) -> Result<Slot, Failure> {
    let counts: Vec<Quantity> = counts::ask(endpoint, "eth_getTransactionCount", &[account], at).await?;
    let count = counts.first().ok_or_else(|| Failure::Unreadable("no count was given".to_owned()))?;
    Ok(Slot(count.as_u64()))
}

async fn is_delegated(endpoint: &Endpoint, account: Account, at: BlockRef) -> Result<bool, Failure> {
    let codes = counts::ask(endpoint, "eth_getCode", &[account], at).await?;
    Ok(codes.first().is_some_and(counts::is_delegation))
}
