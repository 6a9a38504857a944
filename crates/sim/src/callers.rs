//! Callers: they ask, hang up, ask again with the same key, repeat what was answered, and change their minds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::U256;
use landfall_core::ports::store::{Admission, CommandKind, Reads};
use landfall_core::request::{
    After, AfterState, AskedFees, AtOnce, Authorization, Finality, OnFailure, OnInsufficientFunds, OnReorg,
    Options, Payload, Speed,
};
use landfall_core::transaction::Terms;
use landfall_core::{Account, Gas, LaneId, Millis, Price, RequestId, TxId, Wei};
use landfall_engine::{Submission, SubmitError};

use crate::chain::wire::Content;
use crate::node::{Nodes, accounts, chain_ids};
use crate::nonces;
use crate::scenario::Fault;
use crate::world::{Asked, Rule, World};

/// A caller gives a node this long to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// A value that needs a person's yes.
pub(crate) const DEAR: Wei = Wei(U256::from_limbs([2_000_000, 0, 0, 0]));

pub(crate) async fn call(world: Arc<World>, nodes: Arc<Nodes>, caller: usize) {
    let scenario = &world.scenario;
    let spread = u64::try_from(scenario.trouble.as_millis()).unwrap_or(u64::MAX)
        / scenario.requests_per_caller.max(1) as u64;
    for number in 0..scenario.requests_per_caller {
        let pause = world.range(0, spread.saturating_mul(2));
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let marker = (caller as u64) << 32 | number as u64;
        let submission = request(&world, marker);
        let lane = submission.lane;
        let Some(tx) = until_known(&world, &nodes, marker, &submission).await else { continue };
        if world.strikes(Fault::Repeat) {
            until_known(&world, &nodes, marker, &submission).await;
        }
        if world.chance(40) {
            cancel_later(&world, &nodes, marker, lane, tx);
        }
        change_later(&world, &nodes, marker, lane, tx, &submission.payload);
    }
}

/// Who made a request.
pub(crate) fn caller_of(marker: u64) -> usize {
    usize::try_from(marker >> 32).unwrap_or(usize::MAX)
}

/// One of so many requests is to be bound and signed at once, however many are out.
const AT_ONCE: u64 = 7;
/// One of so many wants to fail at once where the account cannot pay.
const FAILS_DRY: u64 = 2;
/// One of so many is known by the nonce that its caller gives, and by no key.
const BY_NONCE: u64 = 6;

/// Hands a request over by the key or by the nonce that it has.
async fn until_known(
    world: &Arc<World>,
    nodes: &Arc<Nodes>,
    marker: u64,
    submission: &Submission,
) -> Option<TxId> {
    if nonces::is_given(submission) {
        nonces::until_told(world, nodes, marker, submission).await
    } else {
        until_accepted(world, nodes, marker, submission).await
    }
}

fn request(world: &Arc<World>, marker: u64) -> Submission {
    let scenario = &world.scenario;
    let now = world.true_time();
    let mut inner = world.lock();
    let signers = accounts(scenario.signers);
    let chains: Vec<_> = chain_ids(scenario.chains).collect();
    let signer = inner.rng.pick(&signers).copied().unwrap_or(signers[0]);
    let chain = inner.rng.pick(&chains).copied().unwrap_or(chains[0]);
    let speeds = [Speed::Slow, Speed::Normal, Speed::Fast];
    let speed = inner.rng.pick(&speeds).copied().unwrap_or_default();
    let mut options = Options { speed, ..Options::default() };
    if inner.rng.chance(50) {
        options.deadline = Some(Millis(now.0 + inner.rng.range(5_000, 120_000)));
    }
    if inner.rng.chance(100) {
        options.on_reorg = OnReorg::Cancel;
    }
    if inner.rng.chance(100) {
        options.max_fee_per_gas = Some(Price(u128::from(inner.rng.range(5, 100)) * 1_000_000_000));
    }
    if inner.rng.chance(80) {
        let told = inner.told.clone();
        let state = if inner.rng.chance(500) { AfterState::Mined } else { AfterState::Confirmed };
        let on_failure = if inner.rng.chance(300) { OnFailure::Hold } else { OnFailure::Cancel };
        options.after = inner.rng.pick(&told).map(|tx| After { tx: *tx, state, on_failure });
    }
    // By the marker, so that the draws of all seeds are what they were.
    let fails_dry = scenario.some_fail_dry && marker.is_multiple_of(FAILS_DRY);
    if fails_dry {
        options.on_insufficient_funds = OnInsufficientFunds::Fail;
    }
    if scenario.some_choose_finality {
        options.finality = chosen_finality(marker);
    }
    let dear = inner.rng.chance(60);
    let delegates = inner.rng.chance(50);
    let address = if inner.rng.chance(500) { Account(alloy_primitives::Address::ZERO) } else { signer };
    let key = format!("request-{marker}");
    let payload = Payload {
        to: Some(signer),
        value: if dear { DEAR } else { Wei(U256::from(1)) },
        data: Content { marker, replaced: 0 }.data(),
        gas: inner.rng.chance(300).then_some(Gas(60_000)),
        fees: AskedFees::Market,
        access_list: Vec::new(),
        // By the sender itself: it takes two slots.
        authorization_list: match delegates {
            true => vec![Authorization { chain: None, address, signed: None }],
            false => Vec::new(),
        },
    };
    let by_nonce = marker.is_multiple_of(BY_NONCE) && options.after.is_none();
    // A person may say no to a dear one or to a delegation, and a call that gets no slot in time is taken back.
    let is_asked = dear || delegates;
    let may_end_otherwise =
        options.deadline.is_some() || options.after.is_some() || is_asked || by_nonce || fails_dry;
    let max_fee = options.max_fee_per_gas.map(|price| price.0);
    // Some callers wait for a hash, which nobody has whose transaction follows another.
    let at_once = match by_nonce {
        true => Some(AtOnce { call: Some(nonces::call_of(marker)) }),
        false => (marker.is_multiple_of(AT_ONCE) && options.after.is_none()).then(AtOnce::default),
    };
    let submission = Submission {
        lane: LaneId { chain, signer },
        request_id: RequestId::parse(&key).ok().filter(|_| !by_nonce),
        payload,
        options,
        at_once,
        origin: None,
    };
    let asked = Asked {
        key,
        submission: submission.clone(),
        tx: None,
        may_end_otherwise,
        max_fee,
        slot: None,
        hash: None,
        stood_for: BTreeSet::new(),
    };
    inner.asked.insert(marker, asked);
    submission
}

/// By the marker too. Where the chain has no such blocks, it is refused.
fn chosen_finality(marker: u64) -> Option<Finality> {
    match marker % 12 {
        1 => Some(Finality::Safe),
        5 => Some(Finality::Finalized),
        9 => Some(Finality::Blocks(7)),
        _ => None,
    }
}

/// Every request by key is made once more, to a store that may have forgotten it.
pub(crate) async fn hand_in_again(world: &Arc<World>, nodes: &Arc<Nodes>) {
    let asked = world.lock().asked.clone();
    let mut calls = Vec::new();
    for (_, asked) in asked.into_iter().filter(|(_, asked)| asked.tx.is_some()) {
        let Some(handle) = nodes.alive().first().and_then(|node| nodes.handle(*node)) else { return };
        // A call that was never told a hash may have ended, and was made anew by its caller, or not: nobody makes it again here.
        if !nonces::is_given(&asked.submission) {
            tokio::time::timeout(PATIENCE, handle.submit(asked.submission)).await.ok();
        } else if asked.hash.is_some() {
            calls.push(tokio::spawn(async move { nonces::call_again(&handle, asked.submission).await }));
        }
    }
    // All at once: each may wait for its hash as long as a caller does.
    for call in calls {
        call.await.ok();
    }
}

/// Every request is made again, long after it was answered.
pub(crate) async fn repeat_all(world: &Arc<World>, nodes: &Arc<Nodes>) {
    let asked = world.lock().asked.clone();
    for (marker, asked) in asked.into_iter().filter(|(_, asked)| asked.tx.is_some()) {
        // A call that ended unsigned may be made anew, and lands then: that is no retry.
        if nonces::is_given(&asked.submission) && asked.hash.is_none() {
            continue;
        }
        if until_known(world, nodes, marker, &asked.submission).await.is_none() {
            let text = format!("{} was accepted once and is refused now", asked.key);
            world.violated(Rule::OneKeyOneTransaction, text);
        }
    }
}

/// How often a caller asks a lane that has no slots to give.
pub(crate) const MOST_WITHOUT_SLOT: u32 = 10;

/// Asks one node after another until one says yes.
async fn until_accepted(
    world: &Arc<World>,
    nodes: &Arc<Nodes>,
    marker: u64,
    submission: &Submission,
) -> Option<TxId> {
    let mut without_slot = 0;
    loop {
        let alive = nodes.alive();
        let chosen = world.lock().rng.pick(&alive).copied();
        let Some(handle) = chosen.and_then(|node| nodes.handle(node)) else {
            tokio::time::sleep(Duration::from_millis(300)).await;
            continue;
        };
        let patience = if world.strikes(Fault::Disconnect) {
            Duration::from_millis(world.range(0, 60))
        } else {
            PATIENCE
        };
        match tokio::time::timeout(patience, handle.submit(submission.clone())).await {
            Ok(Ok(Admission::New(tx) | Admission::Replay(tx))) => {
                if let Some(asked) = world.lock().asked.get_mut(&marker) {
                    asked.slot = asked.slot.or(tx.status.slot);
                }
                return told(world, marker, tx.id);
            }
            Ok(Ok(Admission::Removed(kept))) => return told(world, marker, kept.id),
            Ok(Ok(Admission::Conflict(tx) | Admission::NonceReused(tx))) => {
                world.violated(
                    Rule::OneKeyOneTransaction,
                    format!("{marker:x} was told that {tx} asks for something else"),
                );
                return None;
            }
            // A deadline that has passed or a lane that is disabled is refused before anything is stored.
            Ok(Err(SubmitError::Refused(_))) => return None,
            // A lane that holds gives no slots, maybe for ever; nothing was stored.
            Ok(Err(SubmitError::NoSlot { .. })) if without_slot >= MOST_WITHOUT_SLOT => return None,
            Ok(Err(SubmitError::NoSlot { .. })) => {
                without_slot += 1;
                tokio::time::sleep(Duration::from_millis(world.range(50, 1_500))).await;
            }
            Ok(Err(SubmitError::Store(_) | SubmitError::Unknown(_) | SubmitError::NotOwner { .. }))
            | Err(_) => {
                let wait = if patience == PATIENCE { world.range(50, 1_500) } else { world.range(0, 50) };
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
        }
    }
}

fn told(world: &Arc<World>, marker: u64, tx: TxId) -> Option<TxId> {
    let mut inner = world.lock();
    let before = inner.asked.get_mut(&marker).and_then(|asked| asked.tx.replace(tx));
    if before.is_none() {
        inner.told.push(tx);
    }
    drop(inner);
    if let Some(before) = before.filter(|before| *before != tx) {
        world.violated(Rule::OneKeyOneTransaction, format!("{marker:x} was told {before} and then {tx}"));
    }
    world.trace(format_args!("caller is told {marker:x} is {tx}"));
    Some(tx)
}

fn cancel_later(world: &Arc<World>, nodes: &Arc<Nodes>, marker: u64, lane: LaneId, tx: TxId) {
    if let Some(asked) = world.lock().asked.get_mut(&marker) {
        asked.may_end_otherwise = true;
    }
    command_later(world, nodes, lane, CommandKind::Cancel { tx }, 20_000);
}

/// Sends a command to some node, until one takes it.
fn command_later(world: &Arc<World>, nodes: &Arc<Nodes>, lane: LaneId, kind: CommandKind, within: u64) {
    let (world, nodes) = (world.clone(), nodes.clone());
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(world.range(0, within))).await;
        for _ in 0..10 {
            let alive = nodes.alive();
            let chosen = world.lock().rng.pick(&alive).copied();
            if let Some(handle) = chosen.and_then(|node| nodes.handle(node))
                && let Ok(Ok(_)) = tokio::time::timeout(PATIENCE, handle.command(lane, kind.clone())).await
            {
                world.trace(format_args!("caller asks for {kind:?}"));
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
}

/// Callers change their minds: another content, more haste, once more.
fn change_later(
    world: &Arc<World>,
    nodes: &Arc<Nodes>,
    marker: u64,
    lane: LaneId,
    tx: TxId,
    first: &Payload,
) {
    if world.chance(60) {
        for replaced in 1..=u8::try_from(world.range(1, 4)).unwrap_or(1) {
            let data = Content { marker, replaced }.data();
            let dear = world.chance(300);
            let value = if dear { DEAR } else { first.value };
            if dear && let Some(asked) = world.lock().asked.get_mut(&marker) {
                asked.may_end_otherwise = true;
            }
            let payload = Box::new(Payload { data, value, ..first.clone() });
            let kind = CommandKind::Replace { tx, payload, terms: Terms::default() };
            command_later(world, nodes, lane, kind, 20_000);
        }
    }
    if world.chance(80) {
        let gwei = world.range(1, 150);
        let fees = match world.chance(500) {
            true => AskedFees::Market,
            false => AskedFees::Dynamic { max_fee: Some(Price::gwei(gwei)), tip: None },
        };
        let speed = world.chance(500).then_some(Speed::Fast);
        command_later(world, nodes, lane, CommandKind::SpeedUp { tx, fees, speed }, 20_000);
    }
    // After a reorg deeper than finality an old content may land that had lost; doing it again is then no retry.
    if world.chance(100) && world.scenario.rate(Fault::DeepReorg) == 0 {
        retry_later(world, nodes, tx);
    }
}

/// Does it again if it ended without success meanwhile.
fn retry_later(world: &Arc<World>, nodes: &Arc<Nodes>, id: TxId) {
    let (world, nodes) = (world.clone(), nodes.clone());
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(world.range(20_000, 60_000))).await;
        let alive = nodes.alive();
        let chosen = world.lock().rng.pick(&alive).copied();
        let Ok(Some(record)) = nodes.memory.tx(id).await else { return };
        // Also if the answer is lost it may have been done.
        world.lock().retried.insert(id);
        if let Some(handle) = chosen.and_then(|node| nodes.handle(node))
            && world.lock().faults_on
            // Twice, as an impatient caller would: it is one transaction.
            && let Ok(Ok(first)) = tokio::time::timeout(PATIENCE, handle.retry(&record.tx, None, None)).await
            && let Ok(Ok(again)) = tokio::time::timeout(PATIENCE, handle.retry(&record.tx, None, None)).await
        {
            let id_of = |admission: &Admission| match admission {
                Admission::New(tx) | Admission::Replay(tx) => tx.id,
                Admission::Conflict(tx) | Admission::NonceReused(tx) => *tx,
                Admission::Removed(kept) => kept.id,
            };
            world.trace(format_args!("caller does {id} again as {}", id_of(&first)));
            if id_of(&first) != id_of(&again) {
                world.violated(Rule::OneKeyOneTransaction, format!("{id} was done again twice"));
            }
        }
    });
}
