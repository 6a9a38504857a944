//! A world whose chain takes back more than it called final.
//!
//! Payments land, and are history. Then the blocks that they were in are replaced, and what was in those is in the pools again, or lost for
//! good. Where the chain is still known by an older block, a lane whose history is open again holds until a person resumes it; people also
//! reset lanes. Where even that block is replaced, every lane holds until all nodes were stopped and a person has said that it is the same
//! chain; then every caller asks once more, and is told the same. What comes after that is carried out.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::ports::reorg;
use landfall_core::ports::store::{CommandKind, Reads};
use landfall_core::view::BlockRef;
use landfall_core::{ChainId, LaneId};
use landfall_store::Memory;

use crate::callers;
use crate::chain::model::Fate;
use crate::checkers::Checkers;
use crate::node::{Nodes, chain_ids};
use crate::persons::{self, Persons};
use crate::planted::Planted;
use crate::put_back::{self, FOR_EVER, MOST_LOOKS, Truth};
use crate::run::LOOK_EVERY;
use crate::scenario::Fault;
use crate::world::{Rule, World};

/// How often it is looked where the newest payment lies.
const OFTEN: Duration = Duration::from_millis(200);
/// As long as all callers may need to be told again what they were told.
const ALL_ASK: Duration = Duration::from_secs(300);

pub(crate) async fn replaced(world: &Arc<World>, nodes: &Arc<Nodes>, checkers: &Checkers, memory: &Memory) {
    let mut truth = Truth { wishes: put_back::wishes(world), ..Truth::default() };
    let first = truth.wishes.len() / 2;
    for wish in truth.wishes.iter_mut().take(first) {
        wish.tx = put_back::submit(nodes, &wish.submission).await;
    }
    until_history(world, nodes, checkers).await;
    truth.before.clone_from(&world.lock().stored);
    replace(world);
    let mut persons = Persons::default();
    let mut looks = 0;
    while looks < MOST_LOOKS && world.lock().violations.is_empty() {
        looks += 1;
        tokio::time::sleep(LOOK_EVERY).await;
        for lane in held_lanes(nodes, "the chain took nonce").await {
            say(world, nodes, lane, CommandKind::Resume).await;
            if world.chance(700) {
                say(world, nodes, lane, CommandKind::Reset).await;
            }
        }
        if !held_lanes(nodes, "show another chain than the one").await.is_empty() {
            accept(world, nodes, memory).await;
        }
        put_back::hand_in(world, nodes, &mut truth, 300).await;
        persons.speak(world, nodes, &truth).await;
        let handed_in = truth.wishes.iter().all(|wish| wish.tx.is_some());
        if handed_in && checkers.unfinished().await == 0 {
            break;
        }
    }
    checkers.pays_nothing_twice(&truth);
    // What was final may be lost: the chain has taken it back.
    let lost: Vec<u64> = truth.wishes.iter().take(first).map(|wish| wish.marker).collect();
    truth.wishes.retain(|wish| !lost.contains(&wish.marker));
    checkers.wishes_are_carried_out(&truth).await;
}

/// Waits until all is final and so deep that it is watched no more, and stops the chain there.
async fn until_history(world: &Arc<World>, nodes: &Arc<Nodes>, checkers: &Checkers) {
    let deep = world.scenario.finality + world.scenario.deep + 2;
    for _ in 0..600 {
        persons::approve_all(world, nodes).await;
        if built_on(world) >= deep && checkers.unfinished().await == 0 {
            break;
        }
        tokio::time::sleep(OFTEN).await;
    }
    put_back::halt(world, FOR_EVER);
    tokio::time::sleep(LOOK_EVERY).await;
}

/// How many blocks lie on top of the newest one that holds anything.
fn built_on(world: &World) -> u64 {
    let inner = world.lock();
    let newest = |fork: &crate::chain::model::Fork| {
        let empty = fork.iter().rev().take_while(|block| block.txs.is_empty()).count();
        u64::try_from(empty).unwrap_or(0)
    };
    inner.chains.values().map(|chain| newest(&chain.fork)).min().unwrap_or(0)
}

fn replace(world: &World) {
    let least = built_on(world) + 1;
    let depth = if world.chance(500) { least } else { least + world.range(6, 16) };
    let (now, at) = (world.now(), world.block_time());
    let fate = if world.chance(400) { Fate::Pooled } else { Fate::Lost };
    let mut inner = world.lock();
    let salt = inner.rng.next();
    for chain in inner.chains.values_mut() {
        chain.reorg(depth, fate, salt);
        for _ in 0..=depth {
            chain.mine(0, at, true);
        }
        chain.show(now);
    }
    drop(inner);
    world.struck(Fault::FinalReplaced, format_args!("{depth} blocks: {fate:?}"));
    put_back::go_on(world);
}

/// Lanes that hold, and say so with these words.
async fn held_lanes(nodes: &Nodes, words: &str) -> Vec<LaneId> {
    let mut held = Vec::new();
    for summary in nodes.memory.lanes().await.unwrap_or_default() {
        for handle in nodes.alive().into_iter().filter_map(|node| nodes.handle(node)) {
            let hold = handle.explain_lane(summary.lane).await;
            if hold.is_some_and(|hold| hold.contains(words)) && !held.contains(&summary.lane) {
                held.push(summary.lane);
            }
        }
    }
    held
}

async fn say(world: &World, nodes: &Nodes, lane: LaneId, kind: CommandKind) {
    let Some(handle) = nodes.alive().first().and_then(|node| nodes.handle(*node)) else { return };
    world.trace(format_args!("a person asks {lane} for {kind:?}"));
    tokio::time::timeout(LOOK_EVERY, handle.command(lane, kind)).await.ok();
}

/// All nodes are stopped, a person says that it is the same chain, and everybody asks once more.
async fn accept(world: &Arc<World>, nodes: &Arc<Nodes>, memory: &Memory) {
    for node in 0..world.scenario.nodes {
        if let Some(engine) = nodes.take(node) {
            engine.stop().await;
        }
    }
    for chain in chain_ids(world.scenario.chains) {
        if world.has(Planted::AcceptForgets) {
            memory.restore(&Memory::new(Arc::new(crate::world::DatabaseClock(world.clone()))).snapshot());
            nodes.database.was_replaced();
            continue;
        }
        let accepted = accept_chain(world, nodes, chain).await;
        world.trace(format_args!("a person accepts what chain {chain} shows: {accepted:?}"));
    }
    for node in 0..world.scenario.nodes {
        nodes.start(node).await;
    }
    let all = tokio::time::timeout(ALL_ASK, callers::repeat_all(world, nodes)).await;
    if all.is_err() {
        let text = "callers are not told again what they were told".to_owned();
        world.violated(Rule::AcceptedIsKept, text);
    }
}

async fn accept_chain(world: &Arc<World>, nodes: &Nodes, chain: ChainId) -> Result<(), reorg::Error> {
    let store = nodes.store(0);
    let (_, settled) = reorg::known(&store, chain).await?;
    let at = |number: u64| -> Option<BlockRef> {
        let inner = world.lock();
        let block = inner.chains.get(&chain)?.fork.get(usize::try_from(number).ok()?)?;
        Some(block.header.at)
    };
    let (Some(genesis), Some(shown)) = (at(0), at(settled.number)) else { return Ok(()) };
    reorg::accept(&store, chain, genesis.hash, shown).await.map(|_| ())
}
