//! Callers that give nonces, as `eth_sendTransaction` has them, and no key: they wait for a hash, hang up, are cut off by
//! crashes, and make the same call again at any node, sometimes at two at once.
//!
//! The nonces of a caller come in no order (1, 0, 3, 2, …) and are small, so that they are the slots of others' transactions.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::ports::store::{Admission, Reads as _};
use landfall_core::request::CallId;
use landfall_core::transaction::Transaction;
use landfall_core::{ApiKeyId, CallerNonce, TxHash, TxId};
use landfall_engine::{Handle, Listening, Submission, SubmitError, Told};

use crate::callers::{MOST_WITHOUT_SLOT, PATIENCE, caller_of};
use crate::node::Nodes;
use crate::scenario::Fault;
use crate::world::{Rule, World};

/// As long as the real door waits.
const HASH_LIMIT: Duration = Duration::from_secs(6);

/// Its caller gave a nonce.
pub(crate) fn is_given(submission: &Submission) -> bool {
    submission.at_once.as_ref().is_some_and(|at_once| at_once.call.is_some())
}

/// What names a request's call: every caller has a key of its own.
pub(crate) fn call_of(marker: u64) -> CallId {
    let api_key = Some(ApiKeyId(format!("caller-{}", caller_of(marker))));
    CallId { api_key, nonce: CallerNonce((marker & 0xffff_ffff) ^ 1) }
}

/// Makes the call until its hash was told, or it is refused.
pub(crate) async fn until_told(
    world: &Arc<World>,
    nodes: &Arc<Nodes>,
    marker: u64,
    submission: &Submission,
) -> Option<TxId> {
    if world.chance(150) {
        // An impatient caller asks two nodes: whichever is first, it is one call.
        let (one, other) =
            tokio::join!(told(world, nodes, marker, submission), told(world, nodes, marker, submission));
        return one.or(other);
    }
    told(world, nodes, marker, submission).await
}

async fn told(world: &Arc<World>, nodes: &Arc<Nodes>, marker: u64, submission: &Submission) -> Option<TxId> {
    let mut in_vain = 0;
    while in_vain < MOST_WITHOUT_SLOT {
        let alive = nodes.alive();
        let chosen = world.lock().rng.pick(&alive).copied();
        let Some(handle) = chosen.and_then(|node| nodes.handle(node)) else {
            tokio::time::sleep(Duration::from_millis(300)).await;
            continue;
        };
        let patience = if world.strikes(Fault::Disconnect) {
            Duration::from_millis(world.range(0, 3_000))
        } else {
            PATIENCE
        };
        let answered = tokio::time::timeout(patience, once(world, nodes, &handle, marker, submission)).await;
        match answered {
            Ok(Ok(tx)) => return Some(tx),
            Ok(Err(Vain::Refused)) => return None,
            // Nothing can land of it: the call may be made anew.
            Ok(Err(Vain::TakenBack)) => in_vain += 1,
            Ok(Err(Vain::NotKnown)) | Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(world.range(20, 1_500))).await;
    }
    None
}

/// Makes a call again, a few times, as libraries do that hear no hash. What it is told is not looked at: a store that went back may
/// know another hash of the same call.
pub(crate) async fn call_again(handle: &Handle, submission: Submission) {
    for _ in 0..3 {
        let Ok((admission, listening)) = handle.admit_at_once(submission.clone()).await else { continue };
        let (Admission::New(tx) | Admission::Replay(tx)) = admission else { return };
        let told = handle.hash_of(&tx, listening, HASH_LIMIT, std::future::pending()).await;
        if matches!(told, Told::Hash(_)) {
            return;
        }
    }
}

/// Why a call brought no hash.
enum Vain {
    /// It will not be taken in.
    Refused,
    /// Nothing of it was stored, or it ended unsigned.
    TakenBack,
    /// It may have been stored, and may land.
    NotKnown,
}

async fn once(
    world: &Arc<World>,
    nodes: &Arc<Nodes>,
    handle: &Handle,
    marker: u64,
    submission: &Submission,
) -> Result<TxId, Vain> {
    let (tx, listening): (Transaction, Option<Listening>) =
        match handle.admit_at_once(submission.clone()).await {
            Ok((Admission::New(tx) | Admission::Replay(tx), listening)) => (tx, listening),
            Ok((Admission::Removed(kept), _)) => {
                is_one(world, nodes, marker, kept.id).await;
                let Some(hash) = kept.status().told_hash() else { return Err(Vain::TakenBack) };
                hears(world, marker, hash);
                return Ok(kept.id);
            }
            Ok((Admission::NonceReused(tx) | Admission::Conflict(tx), _)) => {
                let text = format!("the call {marker:x} was told that {tx} asks for something else");
                world.violated(Rule::OneCallOneTransaction, text);
                return Err(Vain::Refused);
            }
            Err(SubmitError::Refused(_)) => return Err(Vain::Refused),
            Err(SubmitError::NoSlot { .. } | SubmitError::NotOwner { .. }) => return Err(Vain::TakenBack),
            Err(SubmitError::Store(_) | SubmitError::Unknown(_)) => return Err(Vain::NotKnown),
        };
    is_one(world, nodes, marker, tx.id).await;
    match handle.hash_of(&tx, listening, HASH_LIMIT, std::future::pending()).await {
        Told::Hash(hash) => {
            hears(world, marker, hash);
            Ok(tx.id)
        }
        Told::Ended(_) | Told::Withdrawn { .. } => Err(Vain::TakenBack),
        Told::Waiting { .. } => Err(Vain::NotKnown),
    }
}

/// A call stands for one transaction, and for another one only after the first has ended unsigned. Answers come in any order.
async fn is_one(world: &Arc<World>, nodes: &Arc<Nodes>, marker: u64, tx: TxId) {
    world.trace(format_args!("the call {marker:x} is {tx}"));
    let mut live = Vec::new();
    for id in stood_for(world, marker, tx) {
        let ended = match (nodes.memory.tx(id).await, nodes.memory.kept(id).await) {
            (Ok(Some(record)), _) => record.tx.status.ended_unsigned(),
            (_, Ok(Some(kept))) => kept.call.is_none(),
            _ => false,
        };
        if !ended {
            live.push(id);
        }
    }
    if live.len() > 1 {
        let text = format!("the call {marker:x} stands for {live:?}");
        world.violated(Rule::OneCallOneTransaction, text);
    }
    if let (Some(id), Some(asked)) = (live.last(), world.lock().asked.get_mut(&marker)) {
        asked.tx = Some(*id);
    }
}

/// Writes down what the call stands for now, and answers all that it ever stood for.
fn stood_for(world: &World, marker: u64, tx: TxId) -> Vec<TxId> {
    let mut inner = world.lock();
    let Some(asked) = inner.asked.get_mut(&marker) else { return Vec::new() };
    asked.tx = asked.tx.or(Some(tx));
    let is_new = asked.stood_for.insert(tx);
    let all = asked.stood_for.iter().copied().collect();
    if is_new {
        inner.told.push(tx);
    }
    all
}

/// However often it is made, a call hears one hash.
fn hears(world: &Arc<World>, marker: u64, hash: TxHash) {
    let before = world.lock().asked.get_mut(&marker).and_then(|asked| asked.hash.replace(hash));
    world.trace(format_args!("the call {marker:x} hears {hash}"));
    if let Some(before) = before.filter(|before| *before != hash) {
        let text = format!("the call {marker:x} heard {before} and then {hash}");
        world.violated(Rule::OneCallOneTransaction, text);
    }
}
