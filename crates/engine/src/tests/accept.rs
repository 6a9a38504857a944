//! An older store is accepted only when no endpoint's pool holds what it does not know.

use std::sync::Arc;

use landfall_core::Slot;
use landfall_core::ports::chain::{PoolLook, Pooled};
use landfall_core::settings::LaneSettings;

use super::{Down, Handled, LANE, TokioClock, parts, submit};
use crate::{AcceptError, ChainParts, Engine, Parts};

/// An engine on a store that was put back, whose chain has endpoints with these pools.
async fn put_back(pools: Vec<PoolLook>) -> Engine {
    let clock = TokioClock::new();
    let store = Handled::new(TokioClock::new());
    let backup = store.memory.snapshot();
    let engine = Engine::start(parts(&store, clock.clone())).await.unwrap();
    submit(&engine.handle()).await;
    engine.stop().await;
    store.memory.restore_marked(&backup);
    let mut parts = Parts { node: "two".to_owned(), ..parts(&store, clock) };
    let chain = ChainParts { chain: Arc::new(Down { pools }), settings: LaneSettings::default() };
    parts.chains.insert(LANE.chain, chain);
    Engine::start(parts).await.unwrap()
}

fn holds(endpoint: &str, listed: &[u64]) -> PoolLook {
    let listed = listed.iter().copied().map(Slot).collect();
    PoolLook {
        endpoint: endpoint.to_owned(),
        found: Ok(Pooled { latest: Slot(0), pending: Slot(0), listed }),
    }
}

fn silent(endpoint: &str) -> PoolLook {
    PoolLook { endpoint: endpoint.to_owned(), found: Err("no answer".to_owned()) }
}

async fn refused(pools: Vec<PoolLook>) -> AcceptError {
    let engine = put_back(pools).await;
    let handle = engine.handle();
    let refused = handle.accept_store(false).await.unwrap_err();
    assert!(handle.older().await.unwrap().is_some(), "nothing was accepted");
    handle.accept_store(true).await.unwrap();
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
    assert_eq!(engine.handle().accept_store(false).await.unwrap().len(), 1);
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
        let refused = engine.handle().accept_store(false).await.unwrap_err();
        engine.stop().await;
        refused
    };
    let pooled = refused(without).await;
    assert!(matches!(&pooled, AcceptError::InPool { lane: LANE, .. }), "{pooled}");
    let unknown = refused(without_chain).await;
    assert!(matches!(&unknown, AcceptError::PoolUnknown { lane: LANE, .. }), "{unknown}");
    assert!(unknown.to_string().contains("no endpoint of that chain"), "{unknown}");
}
