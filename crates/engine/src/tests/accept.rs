//! An older store is accepted only when no endpoint's pool holds what it does not know.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256};
use landfall_core::attempt::{Attempt, SendHints};
use landfall_core::fees::Fees;
use landfall_core::ports::chain::{PoolLook, Pooled};
use landfall_core::ports::store::{
    Acquired, Admission, CommandKind, LaneCommit, LaneRow, Leases as _, Log as _, Reads as _, TxUpdate, Write,
};
use landfall_core::request::{AtOnce, CallId};
use landfall_core::settings::LaneSettings;
use landfall_core::transaction::{Status, TxState};
use landfall_core::{
    Account, CallerNonce, ContentVersion, Gas, LaneId, Millis, Price, SessionId, Slot, TxHash, Wei,
};

use super::{Counting, Down, Handled, LANE, TokioClock, parts, submission, submit};
use crate::{AcceptError, ChainParts, Despite, Engine, Parts, Submission, SubmitError, Told};

/// The chains of these tests make no blocks.
const POOLS: Despite = Despite { pool: false, old_head: true };

/// An engine on a store that was put back, whose chain has endpoints with these pools.
async fn put_back(pools: Vec<PoolLook>) -> Engine {
    put_back_on(&Handled::new(TokioClock::new()), pools).await
}

/// As [`put_back`], with a store that had this before it was copied.
async fn put_back_on(store: &Handled, pools: Vec<PoolLook>) -> Engine {
    let clock = TokioClock::new();
    let backup = store.memory.snapshot();
    let engine = Engine::start(parts(store, clock.clone())).await.unwrap();
    submit(&engine.handle()).await;
    engine.stop().await;
    store.memory.restore_marked(&backup);
    let mut parts = Parts { node: "two".to_owned(), ..parts(store, clock) };
    let chain = ChainParts { chain: Arc::new(Down { pools }), settings: LaneSettings::default() };
    parts.chains.insert(LANE.chain, chain);
    Engine::start(parts).await.unwrap()
}

/// A store with one transaction, whose bytes have nonce 0.
async fn with_bytes_at_0() -> Handled {
    let store = Handled::new(TokioClock::new());
    // Not the numbers of those that come after it.
    let random = Arc::new(Counting(AtomicU64::new(1_000)));
    let engine = Engine::start(Parts { random, ..parts(&store, TokioClock::new()) }).await.unwrap();
    let tx = submit(&engine.handle()).await;
    engine.stop().await;
    let session = SessionId::new(Millis(1), 7);
    store.memory.open_session(session, "before", Duration::from_secs(10)).await.unwrap();
    let Acquired::Yes { token } = store.memory.acquire(LANE, session).await.unwrap() else {
        panic!("somebody has the lane")
    };
    let status = Status { state: TxState::Signed, slot: Some(Slot(0)), ..Status::accepted(Millis(2)) };
    let attempt = Attempt {
        slot: Slot(0),
        ordinal: 0,
        tx: Some(tx),
        version: ContentVersion::FIRST,
        no_op: false,
        hash: TxHash(B256::repeat_byte(1)),
        raw: Bytes::from_static(&[2, 255]),
        gas: Gas(21_000),
        fees: Fees::Dynamic { max_fee: Price::gwei(30), tip: Price::gwei(1) },
        value: Wei(U256::from(1)),
        created_at: Millis(2),
        hints: SendHints::default(),
    };
    let commit = LaneCommit {
        lane: LANE,
        token,
        version: store.memory.load_lane(LANE).await.unwrap().version,
        row: LaneRow { cursor: Some(Slot(1)), ..LaneRow::default() },
        txs: vec![TxUpdate { id: tx, status: Box::new(status) }],
        attempts: vec![attempt],
        hints: Vec::new(),
        closed: Vec::new(),
        journal: Vec::new(),
        commands_done: Vec::new(),
    };
    store.memory.write(vec![Write::Lane(Box::new(commit))]).await.remove(0).unwrap();
    store.memory.close_session(session).await.unwrap();
    store
}

fn look(endpoint: &str, latest: u64, pending: u64, listed: &[u64]) -> PoolLook {
    let listed = listed.iter().copied().map(Slot).collect();
    let found = Ok(Pooled { latest: Slot(latest), pending: Slot(pending), listed });
    PoolLook { endpoint: endpoint.to_owned(), found }
}

fn holds(endpoint: &str, listed: &[u64]) -> PoolLook {
    look(endpoint, 0, 0, listed)
}

fn silent(endpoint: &str) -> PoolLook {
    PoolLook { endpoint: endpoint.to_owned(), found: Err("no answer".to_owned()) }
}

async fn refused(pools: Vec<PoolLook>) -> AcceptError {
    let engine = put_back(pools).await;
    let handle = engine.handle();
    let refused = handle.accept_store(POOLS, None).await.unwrap_err();
    assert!(handle.older().await.unwrap().is_some(), "nothing was accepted");
    handle.accept_store(Despite::ALL, None).await.unwrap();
    assert!(handle.older().await.unwrap().is_none());
    engine.stop().await;
    refused
}

#[tokio::test(start_paused = true)]
async fn a_nonce_behind_a_gap_in_the_second_endpoints_pool_refuses_the_store() {
    let refused = refused(vec![holds("one", &[]), holds("two", &[5, 9])]).await;
    assert!(matches!(&refused, AcceptError::InPool { endpoint, .. } if endpoint == "two"), "{refused}");
    assert!(refused.to_string().contains("with the nonces 5, 9: they may be ours"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn one_pool_that_is_not_known_refuses_the_store_unless_another_is_known_to_hold_something() {
    let unknown = refused(vec![holds("one", &[]), silent("two")]).await;
    assert!(matches!(&unknown, AcceptError::PoolUnknown { endpoint, .. } if endpoint == "two"), "{unknown}");
    assert!(unknown.to_string().contains("no answer") && unknown.to_string().contains("--despite-pool"));
    let known = refused(vec![silent("one"), holds("two", &[3])]).await;
    assert!(matches!(&known, AcceptError::InPool { .. }), "{known}");
    let nobody = refused(Vec::new()).await;
    assert!(matches!(&nobody, AcceptError::PoolUnknown { .. }), "{nobody}");
}

#[tokio::test(start_paused = true)]
async fn a_store_is_accepted_when_every_pool_is_empty() {
    let engine = put_back(vec![holds("one", &[]), holds("two", &[])]).await;
    assert_eq!(engine.handle().accept_store(POOLS, None).await.unwrap().len(), 1);
    engine.stop().await;
}

/// Another node has the signer, and maybe the chain; this one accepts its lane as well.
#[tokio::test(start_paused = true)]
async fn a_lane_that_only_another_node_has_a_signer_for_is_looked_at_too() {
    let clock = TokioClock::new();
    let store = Handled::new(TokioClock::new());
    let engine = Engine::start(parts(&store, clock.clone())).await.unwrap();
    submit(&engine.handle()).await;
    let backup = store.memory.snapshot();
    submit(&engine.handle()).await;
    engine.stop().await;
    store.memory.restore_marked(&backup);

    let mut without = Parts { node: "two".to_owned(), ..parts(&store, clock) };
    without.signers.clear();
    let mut without_chain = without.clone();
    without_chain.chains.clear();
    let chain = Down { pools: vec![holds("one", &[5])] };
    let chain = ChainParts { chain: Arc::new(chain), settings: LaneSettings::default() };
    without.chains.insert(LANE.chain, chain);
    let refused = async |parts: Parts| {
        let engine = Engine::start(parts).await.unwrap();
        let refused = engine.handle().accept_store(POOLS, None).await.unwrap_err();
        engine.stop().await;
        refused
    };
    let pooled = refused(without).await;
    assert!(matches!(&pooled, AcceptError::InPool { lane: LANE, .. }), "{pooled}");
    let unknown = refused(without_chain).await;
    assert!(matches!(&unknown, AcceptError::PoolUnknown { lane: LANE, .. }), "{unknown}");
    assert!(unknown.to_string().contains("no endpoint of that chain"), "{unknown}");
}

/// The nonces that refuse a store.
fn in_pool(refused: &AcceptError) -> BTreeSet<u64> {
    match refused {
        AcceptError::InPool { slots, .. } => slots.iter().map(|slot| slot.0).collect(),
        other => panic!("not for a pool: {other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_nonce_that_only_the_count_of_what_is_pending_tells_of_refuses_the_store() {
    let refused = refused(vec![look("one", 3, 4, &[])]).await;
    assert_eq!(in_pool(&refused), BTreeSet::from([3]));
}

#[tokio::test(start_paused = true)]
async fn a_nonce_that_the_store_has_bytes_of_does_not_refuse_it_and_one_beside_it_does() {
    let engine = put_back_on(&with_bytes_at_0().await, vec![look("one", 0, 1, &[0])]).await;
    assert_eq!(engine.handle().accept_store(POOLS, None).await.unwrap().len(), 1);
    engine.stop().await;
    let engine = put_back_on(&with_bytes_at_0().await, vec![look("one", 0, 2, &[0, 1])]).await;
    let refused = engine.handle().accept_store(POOLS, None).await.unwrap_err();
    assert_eq!(in_pool(&refused), BTreeSet::from([1]));
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_word_that_accepts_a_store_tells_the_highest_count_that_an_endpoint_showed() {
    for counts in [[3, 6], [6, 3]] {
        let looks = counts.map(|count| look("one", count, count, &[]));
        let engine = put_back(looks.to_vec()).await;
        let handle = engine.handle();
        let ids = handle.accept_store(POOLS, None).await.unwrap();
        let stored = handle.store().command(ids[&LANE]).await.unwrap().unwrap();
        assert_eq!(stored.kind, CommandKind::AcceptStore { seen: Some(Slot(6)) }, "{counts:?}");
        engine.stop().await;
    }
}

/// It may have landed, and is compared when the store is accepted. One that ends before that would be lost.
#[tokio::test(start_paused = true)]
async fn a_call_with_a_nonce_on_a_store_that_went_back_is_stored_and_not_withdrawn() {
    let engine = put_back(Vec::new()).await;
    let handle = engine.handle();
    let call = CallId { api_key: None, nonce: CallerNonce(3) };
    let call = Submission { at_once: Some(AtOnce { call: Some(call) }), ..submission() };
    let Admission::New(tx) = handle.admit_at_once(call).await.unwrap().0 else { panic!("not new") };
    let told = handle.hash_of(&tx, None, Duration::from_secs(1), std::future::pending()).await;
    assert!(matches!(told, Told::Waiting { .. }), "{told:?}");
    let open = handle.store().open_commands(LANE, &BTreeSet::new(), 10).await.unwrap();
    assert!(open.is_empty(), "{open:?}");
    engine.stop().await;
}

/// Another node begins it when the lanes were read and their pools looked at. It was loaded before the store is accepted, so it goes on
/// by a word of its own alone.
#[tokio::test(start_paused = true)]
async fn a_lane_that_is_begun_while_the_store_is_accepted_is_looked_at_and_told_too() {
    let store = Handled::new(TokioClock::new());
    let engine = put_back_on(&store, vec![look("one", 3, 3, &[])]).await;
    let handle = engine.handle();
    let late = LaneId { chain: LANE.chain, signer: Account(Address::repeat_byte(9)) };
    store.begun.lock().unwrap().push(late);
    let told = handle.accept_store(POOLS, None).await.unwrap();
    assert_eq!(told.keys().copied().collect::<BTreeSet<_>>(), BTreeSet::from([LANE, late]));
    for id in told.values() {
        let stored = handle.store().command(*id).await.unwrap().unwrap();
        assert_eq!(stored.kind, CommandKind::AcceptStore { seen: Some(Slot(3)) });
    }
    assert!(handle.older().await.unwrap().is_none());
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_in_which_lanes_are_begun_again_and_again_is_not_accepted() {
    let store = Handled::new(TokioClock::new());
    let engine = put_back_on(&store, vec![look("one", 3, 3, &[])]).await;
    let handle = engine.handle();
    let late = |n| LaneId { chain: LANE.chain, signer: Account(Address::repeat_byte(n)) };
    store.begun.lock().unwrap().extend((9..60).map(late));
    let refused = handle.accept_store(Despite::ALL, None).await.unwrap_err();
    assert!(matches!(&refused, AcceptError::Begun { .. }), "{refused}");
    assert!(refused.to_string().contains("again"), "{refused}");
    assert!(handle.older().await.unwrap().is_some(), "nothing was accepted");
    engine.stop().await;
}

/// Endpoints that have to catch up do not show what was forgotten.
#[tokio::test(start_paused = true)]
async fn a_store_is_not_accepted_by_a_head_that_is_not_of_the_present() {
    let engine = put_back(vec![holds("one", &[])]).await;
    let refused =
        engine.handle().accept_store(Despite { pool: true, old_head: false }, None).await.unwrap_err();
    assert!(matches!(refused, AcceptError::OldHead { age: None, .. }), "{refused}");
    assert!(refused.to_string().contains("--despite-old-head"), "{refused}");
    engine.stop().await;
}

/// Nobody could tell it from another payment, and its caller does not hear of it again. The lane does not run: nothing of it is stored.
#[tokio::test(start_paused = true)]
async fn a_call_without_a_nonce_on_a_store_that_went_back_is_refused_also_before_its_lane_is_loaded() {
    let engine = put_back(Vec::new()).await;
    let handle = engine.handle();
    let call = Submission { at_once: Some(AtOnce { call: None }), ..submission() };
    let refused = handle.admit_at_once(call).await.map(|(told, _)| told);
    assert!(matches!(&refused, Err(SubmitError::NoSlot { .. })), "{refused:?}");
    assert!(handle.store().waiting(LANE, 10).await.unwrap().is_empty());
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_an_earlier_run_of_the_same_node_held_is_not_asked_for_there() {
    let engine = put_back(Vec::new()).await;
    let handle = engine.handle();
    let earlier = SessionId::new(Millis(1), 7);
    let why = |node: &str| {
        let owner = (node.to_owned(), earlier);
        let handle = handle.clone();
        async move { handle.unknown_nonces(LANE, Some(&owner)).await.unwrap_err() }
    };
    assert!(why("two").await.contains("an earlier run of this node"), "it is called so itself");
    assert!(why("three").await.contains("node three runs it: ask there"));
    engine.stop().await;
}
