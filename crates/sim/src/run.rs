//! One run: a world from a seed, trouble, then peace, then the questions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use landfall_core::Millis;
use landfall_core::ports::store::{CommandKind, Reads};
use landfall_core::transaction::Whose;
use landfall_engine::{Despite, Wish};
use landfall_store::Memory;
use landfall_store::memory::Snapshot;

use crate::callers;
use crate::chain::model::ChainModel;
use crate::checkers::Checkers;
use crate::nemesis;
use crate::node::{FORGET_EVERY, Nodes, accounts, chain_ids};
use crate::planted::Planted;
use crate::put_back::put_back;
use crate::reader::Reader;
use crate::replaced::replaced;
use crate::scenario::{Fault, Scenario};
use crate::unnoticed::unnoticed;
use crate::world::{DatabaseClock, Rule, Violation, World};

/// After the faults stop, everything must have ended within this.
const PEACE: Duration = Duration::from_secs(1_800);
/// Who asks after the chain started over.
const LATE_CALLER: usize = 99;
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What one run came to.
#[derive(Debug, Clone)]
pub struct Report {
    pub seed: u64,
    pub trace_hash: u64,
    pub events: u64,
    pub simulated: Duration,
    pub transactions: u64,
    pub nodes: usize,
    pub faults: BTreeMap<Fault, u64>,
    pub violations: Vec<Violation>,
    /// The scenario in a line, and what happened, where it was asked for or something was violated.
    pub scenario: String,
    pub lines: Vec<String>,
    /// The journal of the lane that a violation is about, newest last: of the first that names one.
    pub journal: Vec<String>,
}

/// How a run is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    pub planted: Option<Planted>,
    /// Keep a line for everything that happens.
    pub readable: bool,
}

/// Runs one seed to its end, on this thread, in simulated time.
pub fn run(scenario: Scenario, options: Options) -> std::io::Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let report = runtime.block_on(simulate(scenario, options));
    runtime.shutdown_background();
    Ok(report)
}

async fn simulate(scenario: Scenario, options: Options) -> Report {
    let world = World::new(scenario, options.planted, options.readable);
    let memory = Memory::new(Arc::new(DatabaseClock(world.clone())));
    make_chains(&world, 0);
    let nodes = Nodes::new(world.clone(), memory.clone());
    for node in 0..world.scenario.nodes {
        nodes.start(node).await;
    }
    let checkers = Checkers::new(world.clone(), memory.clone());
    for chain in chain_ids(world.scenario.chains) {
        tokio::spawn(make_blocks(world.clone(), chain));
    }
    let reader = Reader::new(nodes.store(0));
    let reading = tokio::spawn(reader.clone().run());
    let callers: Vec<_> = (0..world.scenario.callers)
        .map(|caller| tokio::spawn(callers::call(world.clone(), nodes.clone(), caller)))
        .collect();
    let nemesis = tokio::spawn(nemesis::strike(world.clone(), nodes.clone()));
    let operator = tokio::spawn(nemesis::operate(world.clone(), nodes.clone()));
    let until = world.now() + millis(world.scenario.trouble);
    let backup_at = world.range(0, until);
    let mut backup = None;
    while world.now() < until && world.lock().violations.is_empty() {
        tokio::time::sleep(LOOK_EVERY).await;
        checkers.always().await;
        checkers.back_in_the_pool().await;
        if backup.is_none() && world.now() >= backup_at {
            backup = Some(memory.snapshot());
        }
    }
    nemesis.abort();
    nemesis::heal(&world);
    settle(&world, &nodes, &checkers, callers).await;
    if let Some(keep) = world.scenario.keep.filter(|_| world.lock().violations.is_empty()) {
        late_retries(&world, &nodes, &checkers, keep).await;
    }
    if world.lock().violations.is_empty() {
        reader.has_missed_nothing().await;
    }
    reading.abort();
    operator.abort();
    if world.lock().violations.is_empty() {
        goes_on(&world, &nodes, &checkers, &memory, backup).await;
    }
    let journal = checkers.journal_of_the_first_violation().await;
    // Some may have no history any more.
    let accepted = world.lock().asked.values().filter(|asked| asked.tx.is_some()).count();
    report(&world, accepted as u64, journal)
}

/// Some runs go on: on an older copy of the store, or on a chain that went back or started over.
async fn goes_on(
    world: &Arc<World>,
    nodes: &Arc<Nodes>,
    checkers: &Checkers,
    memory: &Memory,
    backup: Option<Snapshot>,
) {
    let scenario = &world.scenario;
    let backup = backup.filter(|_| scenario.rate(Fault::RestoredStore) > 0);
    if scenario.unnoticed && scenario.rate(Fault::UnnoticedCopy) > 0 {
        unnoticed(world, nodes, checkers, memory).await;
    } else if scenario.replaced && scenario.rate(Fault::FinalReplaced) > 0 {
        replaced(world, nodes, checkers, memory).await;
    } else if let Some(backup) = backup.as_ref().filter(|_| scenario.wishes) {
        put_back(world, nodes, checkers, memory, backup).await;
    } else if let Some(backup) = backup {
        restored(world, nodes, checkers, memory, &backup).await;
    } else if scenario.rate(Fault::ChainRestart) > 0 {
        chain_restarts(world, nodes, checkers).await;
    }
}

fn make_chains(world: &Arc<World>, salt: u64) {
    let scenario = &world.scenario;
    let accounts = accounts(scenario.signers);
    let now = world.now();
    let at = world.block_time();
    let mut inner = world.lock();
    for id in chain_ids(scenario.chains) {
        let mut chain = ChainModel::new(salt + id.0, &accounts, scenario.endpoints, at);
        chain.data_fee = scenario.data_fee;
        inner.chains.insert(id, chain);
    }
    drop(inner);
    world.trace(format_args!("chains begin at {now}"));
}

/// A block at every interval, unless the chain stands still.
async fn make_blocks(world: Arc<World>, id: landfall_core::ChainId) {
    loop {
        tokio::time::sleep(Duration::from_millis(world.scenario.block_ms)).await;
        let now = world.now();
        let at = world.block_time();
        let mut inner = world.lock();
        let gossips = inner.rng.chance(700);
        let Some(chain) = inner.chains.get_mut(&id) else { return };
        if chain.halted_until > now {
            continue;
        }
        chain.show(now);
        if gossips {
            chain.gossip();
        }
        let endpoints = chain.endpoints.len() as u64;
        let mut maker = usize::try_from(inner.rng.range(0, endpoints)).unwrap_or(0);
        let Some(chain) = inner.chains.get_mut(&id) else { return };
        if chain.alone.as_ref().is_some_and(|alone| alone.endpoint == maker) {
            maker = (maker + 1) % chain.endpoints.len();
        }
        chain.mine_alone(at);
        let block = chain.mine(maker, at, false);
        chain.show(now);
        drop(inner);
        world.trace(format_args!("chain {id} block {} with {}", block.header.at.number, block.txs.len()));
    }
}

/// Peace: every node is up, callers get their answers, and everything must end.
async fn settle(
    world: &Arc<World>,
    nodes: &Arc<Nodes>,
    checkers: &Checkers,
    callers: Vec<tokio::task::JoinHandle<()>>,
) {
    let peace = if world.planted.is_some() { PEACE / 6 } else { PEACE };
    let until = world.now() + millis(peace);
    let mut callers = callers;
    while world.now() < until && world.lock().violations.is_empty() {
        tokio::time::sleep(LOOK_EVERY).await;
        checkers.back_in_the_pool().await;
        nodes.database.dead_owners_go();
        if world.scenario.budget.is_some() && world.chance(250) {
            next_day(world);
        }
        callers.retain(|caller| !caller.is_finished());
        let all_up = nodes.alive().len() == world.scenario.nodes;
        if callers.is_empty() && all_up && checkers.unfinished().await == 0 {
            // Commands and no-ops that are under way come to their end as well.
            tokio::time::sleep(LOOK_EVERY * 4).await;
            if checkers.unfinished().await == 0 {
                break;
            }
        }
    }
    for caller in &callers {
        caller.abort();
    }
    if world.lock().violations.is_empty() {
        checkers.at_the_end().await;
    }
}

/// By block time the next day begins: budgets are whole again.
pub(crate) fn next_day(world: &World) {
    world.lock().days += 1;
    world.trace(format_args!("the next day begins"));
}

/// Everything that ended loses its history, and then every caller asks once more.
async fn late_retries(world: &Arc<World>, nodes: &Arc<Nodes>, checkers: &Checkers, keep: Duration) {
    tokio::time::sleep(keep + FORGET_EVERY * 4).await;
    let left = checkers.all().await.len();
    world.trace(format_args!("{left} transactions still have their history"));
    callers::repeat_all(world, nodes).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    checkers.at_the_end().await;
}

/// The store is an older copy: what the chain has beyond it must not be sent again.
async fn restored(
    world: &Arc<World>,
    nodes: &Arc<Nodes>,
    checkers: &Checkers,
    memory: &Memory,
    backup: &Snapshot,
) {
    world.struck(Fault::RestoredStore, format_args!("all nodes start on it"));
    for node in 0..world.scenario.nodes {
        nodes.crash(node);
    }
    // Where a mark lies beside the store, everybody knows that it went back.
    let marked = world.chance(500);
    if marked {
        memory.restore_marked(backup);
    } else {
        memory.restore(backup);
    }
    let since = world.true_time();
    nodes.database.was_replaced();
    let mut before = BTreeMap::new();
    let mut resumed = BTreeMap::new();
    for lane in memory.lanes().await.unwrap_or_default() {
        before.insert(lane.lane, lane.row.cursor);
        let commands = memory.commands(lane.lane, u32::MAX).await.unwrap_or_default();
        if commands.iter().any(|command| command.kind == CommandKind::Resume) {
            resumed.insert(lane.lane, lane.row.chain_count);
        }
    }
    for node in 0..world.scenario.nodes {
        nodes.start(node).await;
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    // A copy from before a lane first saw the chain cannot be told from a new lane; docs/simulation.md says so.
    let blind: Vec<u64> = checkers.markers_of(|lane| before.get(&lane).copied().flatten().is_none()).await;
    for (marker, times) in checkers.landed() {
        if times > 1 && !blind.contains(&marker) {
            world.violated(
                Rule::LandsOnce,
                format!("request {marker:x} landed {times} times after a restore"),
            );
        }
    }
    checkers.nothing_is_given_up_that_landed(since).await;
    for lane in memory.lanes().await.unwrap_or_default() {
        let cursor = before.get(&lane.lane).copied().flatten();
        // A person's word that the copy holds is about what was used when it was given.
        let cursor =
            cursor.map(|cursor| cursor.max(resumed.get(&lane.lane).copied().flatten().unwrap_or(cursor)));
        let passed = cursor.is_some_and(|cursor| checkers.count(lane.lane) > cursor.0);
        if passed && lane.row.cursor > cursor {
            let text = format!("lane {} went on although the chain has slots it does not know", lane.lane);
            world.violated(Rule::HoldsWhenUnsure, text);
        }
    }
    if world.lock().violations.is_empty() {
        settle_taken(world, nodes, checkers, since).await;
    }
    if marked && world.lock().violations.is_empty() {
        accepted(world, nodes, checkers).await;
    }
}

/// A person looks at what took slots and does the same as transactions of the copy, and says that it was ours: nothing else does that here.
async fn settle_taken(world: &Arc<World>, nodes: &Arc<Nodes>, checkers: &Checkers, since: Millis) {
    let mut settled = Vec::new();
    for tx in checkers.all().await.into_iter().filter(|tx| tx.status.taken.is_some()) {
        let handles = nodes.alive().into_iter().filter_map(|node| nodes.handle(node));
        for handle in handles {
            if handle.settle(&tx, Whose::Ours, None, &Wish::default()).await.is_ok() {
                world.trace(format_args!("an operator settles {} as ours", tx.id));
                settled.push(tx.id);
                break;
            }
        }
    }
    if settled.is_empty() {
        return;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    checkers.nothing_is_given_up_that_landed(since).await;
    for tx in checkers.all().await.into_iter().filter(|tx| settled.contains(&tx.id)) {
        if !tx.status.state.is_terminal() {
            let text = format!("{} was settled by a person and has not ended", tx.id);
            world.violated(Rule::Ends, text);
        }
    }
}

/// A person accepts the store, before or after the callers have handed in everything again: no content lands a second time.
async fn accepted(world: &Arc<World>, nodes: &Arc<Nodes>, checkers: &Checkers) {
    let early = world.chance(500);
    if !early {
        callers::hand_in_again(world, nodes).await;
    }
    if let Some(handle) = nodes.alive().first().and_then(|node| nodes.handle(*node)) {
        world.trace(format_args!("an operator accepts the store"));
        handle.accept_store(Despite::ALL, None).await.ok();
    }
    if early {
        tokio::time::sleep(Duration::from_secs(60)).await;
        callers::hand_in_again(world, nodes).await;
    }
    tokio::time::sleep(Duration::from_secs(300)).await;
    for (content, times) in checkers.landed_contents() {
        if times > 1 {
            let (marker, replaced) = (content.marker, content.replaced);
            let text = format!(
                "request {marker:x} (replaced {replaced} times) landed {times} times after a restore was accepted"
            );
            world.violated(Rule::LandsOnce, text);
        }
    }
}

/// Another chain with the same id: nothing may be sent there.
async fn chain_restarts(world: &Arc<World>, nodes: &Arc<Nodes>, checkers: &Checkers) {
    world.struck(Fault::ChainRestart, format_args!("all chains"));
    let now = world.now();
    world.lock().started_over_at = Some(now);
    let restart_nodes = world.chance(500);
    make_chains(world, 1_000);
    if restart_nodes {
        for node in 0..world.scenario.nodes {
            nodes.crash(node);
            nodes.start(node).await;
        }
    }
    // Until the next look at the chain nobody can know; from then on nothing may go there.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let caller = tokio::spawn(callers::call(world.clone(), nodes.clone(), LATE_CALLER));
    tokio::time::sleep(Duration::from_secs(120)).await;
    caller.abort();
    // Bytes that were on their way before may still arrive, and are as good on a chain with the same id.
    let landed =
        checkers.landed().keys().filter(|marker| callers::caller_of(**marker) == LATE_CALLER).count();
    if landed > 0 {
        let text = format!("{landed} transactions were sent to a chain that started over");
        world.violated(Rule::HoldsWhenUnsure, text);
    }
}

fn report(world: &Arc<World>, transactions: u64, journal: Vec<String>) -> Report {
    let simulated = Duration::from_millis(world.now());
    let mut inner = world.lock();
    Report {
        seed: world.scenario.seed,
        trace_hash: inner.trace.hash(),
        events: inner.trace.events(),
        simulated,
        transactions,
        nodes: world.scenario.nodes,
        faults: inner.struck.clone(),
        violations: inner.violations.clone(),
        scenario: world.scenario.sentence(),
        lines: inner.trace.take_lines(),
        journal,
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
