//! A world whose store is put back and nobody notices, while bytes are out that the copy has forgotten.
//!
//! The chain stands still, so that nothing lands of what is signed. Wishes are made, and a copy from between them takes the store's place,
//! without a mark. On it the lanes go on: other wishes get the slots of those that it has forgotten. Then no node runs, the forgotten bytes
//! land, and the nodes start again: each finds slots used that have bytes of its own. Now the wishes that have landed are handed in.
//!
//! Nobody can tell what lands while a node runs on such a copy from a stranger's, and what a copy signs again while the first bytes are
//! out may land twice: neither happens here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use landfall_core::ports::store::{CommandKind, Reads};
use landfall_core::{LaneId, TxHash};
use landfall_store::Memory;
use landfall_store::memory::Snapshot;

use crate::chain::wire::Wire;
use crate::checkers::Checkers;
use crate::node::Nodes;
use crate::persons::{self, Persons};
use crate::put_back::{self, FOR_EVER, MOST_LOOKS, Truth};
use crate::run::{LOOK_EVERY, next_day};
use crate::scenario::Fault;
use crate::world::World;

/// Lanes that may still be shown more by then are resumed: what took the slots is known by then, wherever that can be known.
const LONG_BEHIND: u64 = 90;

pub(crate) async fn unnoticed(world: &Arc<World>, nodes: &Arc<Nodes>, checkers: &Checkers, memory: &Memory) {
    put_back::halt(world, FOR_EVER);
    let mut truth = Truth { wishes: put_back::wishes(world), ..Truth::default() };
    let (copy, known) = make_wishes(world, nodes, memory, &mut truth).await;
    world.struck(Fault::UnnoticedCopy, format_args!("it knows {} wishes", known.len()));
    crash_all(world, nodes);
    remember_bytes(world, checkers, memory, &mut truth).await;
    memory.restore(&copy);
    nodes.database.was_replaced();
    let begun = begun_lanes(memory).await;
    start_all(world, nodes).await;
    let early = hand_in_some(world, nodes, &mut truth, &known).await;
    crash_all(world, nodes);
    let is_forgotten = |marker| !known.contains(&marker) && !early.contains(&marker);
    truth.kept.retain(|wire| begun.contains(&LaneId { chain: wire.chain, signer: wire.from }));
    land(world, &truth, is_forgotten).await;
    start_all(world, nodes).await;
    let mut persons = Persons::default();
    let mut looks = 0;
    while looks < MOST_LOOKS && world.lock().violations.is_empty() {
        looks += 1;
        put_back::hand_in(world, nodes, &mut truth, 300).await;
        tokio::time::sleep(LOOK_EVERY).await;
        if world.scenario.budget.is_some() && world.chance(250) {
            next_day(world);
        }
        put_back::restart_one(world, nodes, looks).await;
        if looks > LONG_BEHIND {
            go_over_what_is_behind(world, nodes).await;
        }
        persons.speak(world, nodes, &truth).await;
        let handed_in = truth.wishes.iter().all(|wish| wish.tx.is_some());
        if handed_in && checkers.unfinished().await == 0 {
            break;
        }
    }
    checkers.pays_nothing_twice(&truth);
    checkers.wishes_are_carried_out(&truth).await;
}

/// Hands the wishes in, and answers a copy from between them, and the markers of those that it may know.
async fn make_wishes(
    world: &Arc<World>,
    nodes: &Arc<Nodes>,
    memory: &Memory,
    truth: &mut Truth,
) -> (Snapshot, BTreeSet<u64>) {
    let copied_at = world.range(0, truth.wishes.len() as u64);
    let mut copy = memory.snapshot();
    let mut known = BTreeSet::new();
    for (place, wish) in (0_u64..).zip(&mut truth.wishes) {
        if place == copied_at {
            copy = memory.snapshot();
        }
        if place < copied_at {
            known.insert(wish.marker);
        }
        wish.first = put_back::submit(nodes, &wish.submission).await;
        tokio::time::sleep(Duration::from_millis(world.range(0, 3_000))).await;
        if world.chance(500) {
            persons::approve_all(world, nodes).await;
        }
    }
    persons::approve_all(world, nodes).await;
    tokio::time::sleep(LOOK_EVERY * 2).await;
    (copy, known)
}

/// Bytes that are out are only with those whom they pay.
async fn remember_bytes(world: &World, checkers: &Checkers, memory: &Memory, truth: &mut Truth) {
    for tx in checkers.all().await {
        let record = memory.tx(tx.id).await.ok().flatten();
        for attempt in record.map(|record| record.attempts).unwrap_or_default() {
            truth.by_hash.insert(attempt.hash, tx.id);
        }
    }
    let mut inner = world.lock();
    truth.before.clone_from(&inner.stored);
    truth.kept = inner.sent.values().cloned().collect();
    for chain in inner.chains.values_mut() {
        chain.endpoints.iter_mut().for_each(|at| at.pool.clear());
    }
    truth.kept.retain(|wire| {
        let chain = inner.chains.get(&wire.chain);
        chain.is_some_and(|chain| chain.account(&wire.from).count <= wire.nonce)
    });
}

/// Lanes that have seen the chain. A copy from before that cannot be told from one of a new lane; docs/simulation.md says so.
async fn begun_lanes(memory: &Memory) -> BTreeSet<LaneId> {
    let lanes = memory.lanes().await.unwrap_or_default();
    lanes.into_iter().filter(|summary| summary.row.cursor.is_some()).map(|summary| summary.lane).collect()
}

/// Some that the copy does not know are handed in again before the others, and get slots: their forgotten bytes are lost for good.
async fn hand_in_some(
    world: &Arc<World>,
    nodes: &Arc<Nodes>,
    truth: &mut Truth,
    known: &BTreeSet<u64>,
) -> BTreeSet<u64> {
    let mut early = BTreeSet::new();
    for marker in truth.wishes.iter().map(|wish| wish.marker).collect::<BTreeSet<u64>>() {
        if !known.contains(&marker) && world.chance(400) {
            early.insert(marker);
        }
    }
    tokio::time::sleep(Duration::from_millis(world.range(0, 10_000))).await;
    for wish in truth.wishes.iter_mut().filter(|wish| early.contains(&wish.marker)) {
        wish.tx = put_back::submit(nodes, &wish.submission).await;
    }
    persons::approve_all(world, nodes).await;
    tokio::time::sleep(Duration::from_millis(world.range(5_000, 30_000))).await;
    early
}

/// While no node runs, forgotten bytes land, and what could not land then is lost for good.
async fn land(world: &Arc<World>, truth: &Truth, may_land: impl Fn(u64) -> bool) {
    let chosen: Vec<&Wire> = truth
        .kept
        .iter()
        .filter(|wire| wire.content().is_some_and(|content| may_land(content.marker)))
        .collect();
    {
        let mut inner = world.lock();
        for wire in &chosen {
            if inner.rng.chance(900)
                && let Some(chain) = inner.chains.get_mut(&wire.chain)
            {
                chain.push_aside(wire);
            }
        }
    }
    put_back::go_on(world);
    let most = world.scenario.finality + world.scenario.deep + 4;
    let blocks = world.range(2, most);
    tokio::time::sleep(Duration::from_millis(world.scenario.block_ms * blocks)).await;
    let forgotten: BTreeSet<TxHash> = chosen.iter().map(|wire| wire.hash()).collect();
    let mut inner = world.lock();
    for chain in inner.chains.values_mut() {
        for at in &mut chain.endpoints {
            at.pool.retain(|_, (hash, _)| !forgotten.contains(hash));
        }
        chain.rivals.clear();
    }
    drop(inner);
    world.trace(format_args!("{} forgotten byte strings may have landed", chosen.len()));
}

/// A lane says that an endpoint may not have shown everything: by other means a person knows that all is shown.
async fn go_over_what_is_behind(world: &Arc<World>, nodes: &Arc<Nodes>) {
    let mut behind: BTreeSet<LaneId> = BTreeSet::new();
    for summary in nodes.memory.lanes().await.unwrap_or_default() {
        for handle in nodes.alive().into_iter().filter_map(|node| nodes.handle(node)) {
            let hold = handle.explain_lane(summary.lane).await.unwrap_or_default();
            if hold.contains("may not have shown all of it yet") && behind.insert(summary.lane) {
                world.trace(format_args!("a person resumes {}", summary.lane));
                let resume = handle.command(summary.lane, CommandKind::Resume);
                tokio::time::timeout(LOOK_EVERY, resume).await.ok();
            }
        }
    }
}

fn crash_all(world: &World, nodes: &Nodes) {
    for node in 0..world.scenario.nodes {
        nodes.crash(node);
    }
    world.trace(format_args!("no node runs"));
}

async fn start_all(world: &World, nodes: &Nodes) {
    for node in 0..world.scenario.nodes {
        nodes.start(node).await;
    }
}
