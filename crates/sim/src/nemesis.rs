//! What strikes by time: crashes, partitions, reorgs, halts, empty accounts. Ends when faults are switched off.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Bytes, U256};
use landfall_core::ports::store::{CommandKind, LaneSummary, Reads, TxQuery};
use landfall_core::transaction::TxState;
use landfall_core::{Account, ChainId, LaneId, QueueOrder, Slot};
use landfall_engine::{Handle, Wish};

use crate::chain::model::{BASE_FEE, FIRST_BALANCE, Fate};
use crate::chain::wire::{Content, Wire};
use crate::node::{MAX_FEE, Nodes, accounts, chain_ids};
use crate::scenario::Fault;
use crate::world::{Gate, Inner, World};

/// The faults that strike by time.
const TIMED: &[Fault] = &[
    Fault::Crash,
    Fault::Leave,
    Fault::Pause,
    Fault::StorePartition,
    Fault::LeaseCut,
    Fault::RpcPartition,
    Fault::StaleEndpoint,
    Fault::EndpointDown,
    Fault::Eviction,
    Fault::FeeSpike,
    Fault::EmptyAccount,
    Fault::Reorg,
    Fault::DeepReorg,
    Fault::ForeignUse,
    Fault::Halt,
    Fault::ClockStep,
    Fault::DatabaseClock,
    Fault::LoneFork,
];

const HALF_AN_HOUR: u64 = 30 * 60 * 1_000;

pub(crate) async fn strike(world: Arc<World>, nodes: Arc<Nodes>) {
    let chosen: Vec<Fault> = TIMED.iter().copied().filter(|fault| world.scenario.rate(*fault) > 0).collect();
    if chosen.is_empty() {
        return;
    }
    if world.scenario.long_halt {
        // Once, in the middle of its work.
        let wait = world.range(60_000, 240_000);
        tokio::time::sleep(Duration::from_millis(wait)).await;
        one(&world, &nodes, Fault::Halt);
        return;
    }
    // Each fault that the seed chose strikes at least once; after that, by chance.
    let mut next = 0;
    loop {
        let wait = world.range(200, 6_000) * if world.scenario.quiet { 6 } else { 1 };
        tokio::time::sleep(Duration::from_millis(wait)).await;
        if !world.lock().faults_on {
            return;
        }
        let fault = match chosen.get(next) {
            Some(fault) => *fault,
            None => world.lock().rng.pick(&chosen).copied().unwrap_or(Fault::Crash),
        };
        next += 1;
        one(&world, &nodes, fault);
    }
}

fn one(world: &Arc<World>, nodes: &Arc<Nodes>, fault: Fault) {
    let now = world.now();
    let node = usize::try_from(world.range(0, world.scenario.nodes as u64)).unwrap_or(0);
    let chains: Vec<ChainId> = chain_ids(world.scenario.chains).collect();
    let chain = world.lock().rng.pick(&chains).copied().unwrap_or(ChainId(1));
    let long = world.range(500, 30_000);
    match fault {
        Fault::Crash => crash(world, nodes, node),
        Fault::Leave => leave(world, nodes, node),
        Fault::Pause => {
            let long = world.range(8_000, 40_000);
            world.struck(fault, format_args!("node {node} for {long} ms"));
            gate(world, node, |gate| gate.paused_until = now + long);
        }
        Fault::StorePartition => {
            world.struck(fault, format_args!("node {node} for {long} ms"));
            gate(world, node, |gate| gate.store_cut_until = now + long);
        }
        Fault::LeaseCut => {
            let long = world.range(8_000, 30_000);
            world.struck(fault, format_args!("node {node} for {long} ms"));
            gate(world, node, |gate| gate.renewals_lost_until = now + long);
        }
        Fault::RpcPartition => {
            world.struck(fault, format_args!("node {node} for {long} ms"));
            gate(world, node, |gate| gate.rpc_cut_until = now + long);
        }
        Fault::ClockStep => {
            let skew = skew(world);
            world.struck(fault, format_args!("node {node} is {skew} ms off"));
            gate(world, node, |gate| gate.skew_ms = skew);
        }
        Fault::DatabaseClock => {
            let skew = skew(world);
            world.struck(fault, format_args!("it is {skew} ms off"));
            world.lock().database_skew_ms = skew;
        }
        Fault::StaleEndpoint | Fault::EndpointDown => endpoint(world, chain, fault, now + long),
        Fault::Eviction => evict(world, chain),
        Fault::FeeSpike => spike(world, chain),
        Fault::EmptyAccount => empty(world, chain, long),
        Fault::Reorg => {
            let depth = world.range(1, world.scenario.finality + 1);
            reorg(world, chain, fault, depth);
        }
        Fault::DeepReorg => {
            let (least, most) = (world.scenario.finality + 1, world.scenario.finality + world.scenario.deep);
            let depth = world.range(least, most + 1);
            reorg(world, chain, fault, depth);
        }
        Fault::LoneFork => lone_fork(world, chain),
        Fault::ForeignUse => foreign(world, chain),
        Fault::Halt => {
            let long = if world.scenario.long_halt { HALF_AN_HOUR } else { long };
            world.halted(chain, now, now + long);
            world.struck(fault, format_args!("chain {chain} for {long} ms"));
            if let Some(chain) = world.lock().chains.get_mut(&chain) {
                chain.halted_until = now + long;
            }
        }
        _ => {}
    }
}

/// How far a clock is off from now on: seconds to years, ahead or behind.
fn skew(world: &World) -> i64 {
    const MINUTE: u64 = 60_000;
    const DAY: u64 = 24 * 60 * MINUTE;
    let most = [MINUTE / 3, 10 * MINUTE, 3 * 60 * MINUTE, 3 * DAY, 10 * 365 * DAY];
    let most = world.lock().rng.pick(&most).copied().unwrap_or(MINUTE);
    let skew = i64::try_from(world.range(0, most)).unwrap_or(0);
    if world.chance(500) { skew } else { -skew }
}

fn gate(world: &World, node: usize, change: impl FnOnce(&mut Gate)) {
    if let Some(gate) = world.lock().gates.get_mut(node) {
        change(gate);
    }
}

fn crash(world: &Arc<World>, nodes: &Arc<Nodes>, node: usize) {
    if !nodes.crash(node) {
        return;
    }
    let down = world.range(100, 25_000);
    world.struck(Fault::Crash, format_args!("node {node}, back after {down} ms"));
    let nodes = nodes.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(down)).await;
        nodes.start(node).await;
    });
}

fn leave(world: &Arc<World>, nodes: &Arc<Nodes>, node: usize) {
    let Some(engine) = nodes.take(node) else { return };
    let down = world.range(100, 25_000);
    world.struck(Fault::Leave, format_args!("node {node}, back {down} ms after"));
    let nodes = nodes.clone();
    tokio::spawn(async move {
        engine.stop().await;
        tokio::time::sleep(Duration::from_millis(down)).await;
        nodes.start(node).await;
    });
}

fn endpoint(world: &World, chain: ChainId, fault: Fault, until: u64) {
    let mut inner = world.lock();
    let count = inner.chains.get(&chain).map_or(0, |chain| chain.endpoints.len());
    let chosen = usize::try_from(inner.rng.range(0, count as u64)).unwrap_or(0);
    if let Some(endpoint) = inner.chains.get_mut(&chain).and_then(|chain| chain.endpoints.get_mut(chosen)) {
        match fault {
            Fault::StaleEndpoint => endpoint.stale_until = until,
            _ => endpoint.down_until = until,
        }
    }
    drop(inner);
    world.struck(fault, format_args!("endpoint {chosen} of chain {chain}"));
}

/// An endpoint goes its own way, with blocks that nobody else will ever have.
fn lone_fork(world: &World, chain: ChainId) {
    let long = world.range(10_000, 60_000);
    let back = world.range(0, world.scenario.finality + 2);
    let (now, at) = (world.now(), world.block_time());
    let mut inner = world.lock();
    let salt = inner.rng.next();
    let count = inner.chains.get(&chain).map_or(0, |chain| chain.endpoints.len());
    let chosen = usize::try_from(inner.rng.range(0, count as u64)).unwrap_or(0);
    let Some(of) = inner.chains.get_mut(&chain).filter(|chain| chain.alone.is_none()) else { return };
    of.leave(chosen, back, salt, now + long, at);
    drop(inner);
    world.struck(
        Fault::LoneFork,
        format_args!("endpoint {chosen} of chain {chain} from {back} blocks back, for {long} ms"),
    );
}

fn evict(world: &World, chain: ChainId) {
    let mut evicted = 0;
    let mut inner = world.lock();
    let keep = inner.rng.range(0, 1_000);
    let mut rng = inner.rng.clone();
    if let Some(chain) = inner.chains.get_mut(&chain) {
        for endpoint in &mut chain.endpoints {
            let before = endpoint.pool.len();
            endpoint.pool.retain(|_, _| rng.chance(keep));
            evicted += before - endpoint.pool.len();
        }
    }
    inner.rng = rng;
    drop(inner);
    world.struck(Fault::Eviction, format_args!("{evicted} on chain {chain}"));
}

fn spike(world: &Arc<World>, chain: ChainId) {
    let times = world.range(2, 60);
    let long = world.range(5_000, 60_000);
    world.struck(Fault::FeeSpike, format_args!("×{times} on chain {chain} for {long} ms"));
    set_base_fee(world, chain, BASE_FEE * u128::from(times));
    let world = world.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(long)).await;
        set_base_fee(&world, chain, BASE_FEE);
    });
}

fn set_base_fee(world: &World, chain: ChainId, fee: u128) {
    if let Some(chain) = world.lock().chains.get_mut(&chain) {
        chain.base_fee = fee;
    }
}

fn empty(world: &Arc<World>, chain: ChainId, long: u64) {
    let accounts = accounts(world.scenario.signers);
    let account = world.lock().rng.pick(&accounts).copied().unwrap_or(accounts[0]);
    world.struck(Fault::EmptyAccount, format_args!("{account} on chain {chain} for {long} ms"));
    set_balance(world, chain, account, U256::ZERO);
    let now = world.true_time();
    world.lock().empties.push((
        LaneId { chain, signer: account },
        now,
        now.after(Duration::from_millis(long)),
    ));
    let world = world.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(long)).await;
        set_balance(&world, chain, account, U256::from(FIRST_BALANCE));
        // Also if it was emptied again meanwhile.
        let now = world.true_time();
        let lane = LaneId { chain, signer: account };
        for (_, _, until) in world.lock().empties.iter_mut().filter(|(empty, _, _)| *empty == lane) {
            *until = now.min(*until);
        }
    });
}

fn set_balance(world: &World, chain: ChainId, account: Account, balance: U256) {
    let now = world.now();
    if let Some(chain) = world.lock().chains.get_mut(&chain) {
        chain.set_balance(account, balance);
        chain.show(now);
    }
}

/// Another program sends from one of our accounts, at the next count, and pays more than anyone.
fn foreign(world: &World, id: ChainId) {
    let accounts = accounts(world.scenario.signers);
    let mut inner = world.lock();
    let from = inner.rng.pick(&accounts).copied().unwrap_or(accounts[0]);
    let value = U256::from(inner.rng.range(2, 1_000_000));
    let Some(chain) = inner.chains.get_mut(&id) else { return };
    let nonce = chain.account(&from).count;
    let price = MAX_FEE.0 * 2;
    let wire = Wire {
        chain: id,
        from,
        nonce,
        data: Bytes::new(),
        value,
        gas: 21_000,
        cap: price,
        tip: price,
        delegates: None,
    };
    chain.push_aside(&wire);
    drop(inner);
    world.struck(Fault::ForeignUse, format_args!("slot {nonce} of {from} on chain {id}"));
}

/// A person who tries out what an operator can do, looks at lanes that hold for slots nobody here sent, and lets them go on.
pub(crate) async fn operate(world: Arc<World>, nodes: Arc<Nodes>) {
    loop {
        tokio::time::sleep(Duration::from_secs(7)).await;
        meddle(&world, &nodes).await;
        let faults_on = world.lock().faults_on;
        for lane in nodes.memory.lanes().await.unwrap_or_default() {
            for node in nodes.alive() {
                let Some(handle) = nodes.handle(node) else { continue };
                let hold = handle.explain_lane(lane.lane).await.unwrap_or_default();
                // By other means this person knows that the endpoints show everything by now.
                let has_seen_all = !faults_on && hold.contains("may not have shown all of it yet");
                if has_seen_all || hold.contains("this store does not know") {
                    flood(&world, &handle, &lane).await;
                    world.trace(format_args!("an operator resumes {}", lane.lane));
                    // Refused by a node in trouble: the next round asks again.
                    handle.command(lane.lane, CommandKind::Resume).await.ok();
                }
            }
        }
    }
}

/// More commands than are read at once.
const FLOOD: usize = 300;

/// More fills than one reading of commands shows wait for the resume that comes after them; once for each lane.
async fn flood(world: &World, handle: &Handle, lane: &LaneSummary) {
    if !world.scenario.flooded || !world.lock().flooded_lanes.insert(lane.lane) {
        return;
    }
    world.trace(format_args!("an operator asks {} for many fills", lane.lane));
    let slot = lane.row.chain_count.unwrap_or_default();
    for _ in 0..FLOOD {
        // Refused by a node in trouble: it is one less.
        handle.command(lane.lane, CommandKind::Fill { from: slot, to: slot }).await.ok();
    }
}

/// An operator's commands, by chance; and what they stopped goes on after a while.
async fn meddle(world: &Arc<World>, nodes: &Arc<Nodes>) {
    let alive = nodes.alive();
    let chosen = world.lock().rng.pick(&alive).copied();
    let Some(handle) = chosen.and_then(|node| nodes.handle(node)) else { return };
    let faults_on = world.lock().faults_on;
    for summary in nodes.memory.lanes().await.unwrap_or_default() {
        let lane = summary.lane;
        let count = summary.row.chain_count.unwrap_or_default().0;
        let stopped = summary.row.paused || summary.row.disabled;
        let kind = match world.range(0, 40) {
            0 if stopped => Some(CommandKind::CancelAll { up_to: newest(nodes, lane).await }),
            _ if stopped && (!faults_on || world.chance(500)) => Some(CommandKind::Resume),
            _ if !faults_on => None,
            1 => Some(CommandKind::Pause),
            2 => Some(CommandKind::Disable),
            3 | 4 => Some(CommandKind::Reset),
            5 | 6 => {
                let from = Slot(count + world.range(0, 4));
                Some(CommandKind::Fill { from, to: Slot(from.0 + world.range(0, 3)) })
            }
            _ => None,
        };
        let Some(kind) = kind else { continue };
        if matches!(kind, CommandKind::CancelAll { .. }) {
            world.lock().cancelled_lanes.insert(lane);
        }
        world.trace(format_args!("an operator asks {lane} for {kind:?}"));
        // Refused by a node in trouble: the next round asks again.
        tokio::time::timeout(Duration::from_secs(5), handle.command(lane, kind)).await.ok();
    }
    let all = TxQuery { limit: u32::MAX, ..TxQuery::default() };
    for tx in nodes.memory.txs(&all).await.unwrap_or_default() {
        let asks = tx.status.state == TxState::AwaitingApproval || tx.status.asks_approval;
        if (tx.status.held.is_some() || asks) && !tx.status.state.is_terminal() {
            let yes = world.chance(600);
            if let Some(content) = Content::read(&tx.payload().data).filter(|_| yes) {
                world.lock().says_yes(content, asks);
            }
            tokio::time::timeout(
                Duration::from_secs(5),
                handle.decide(&tx, yes, Some(tx.version()), &Wish::default()),
            )
            .await
            .ok();
        }
    }
}

async fn newest(nodes: &Nodes, lane: LaneId) -> QueueOrder {
    let query =
        TxQuery { signer: Some(lane.signer), chain: Some(lane.chain), limit: 1, ..TxQuery::default() };
    let newest = nodes.memory.txs(&query).await.unwrap_or_default();
    newest.first().map_or(QueueOrder(0), |tx| tx.order)
}

/// Other blocks take the place of the newest ones.
fn reorg(world: &World, chain: ChainId, fault: Fault, depth: u64) {
    let fate = match world.range(0, 1_000) {
        0..300 => Fate::Pooled,
        300..600 => Fate::RivalsWin,
        _ => Fate::Lost,
    };
    let now = world.now();
    let at = world.block_time();
    let mut inner = world.lock();
    let salt = inner.rng.next();
    if let Some(chain) = inner.chains.get_mut(&chain) {
        chain.reorg(depth, fate, salt);
        // The new fork is as long as the old one at once, so that no head falls.
        for height in 0..=depth {
            let empty = height > 0 || fate != Fate::RivalsWin;
            chain.mine(0, at, empty);
        }
        chain.show(now);
    }
    drop(inner);
    world.struck(fault, format_args!("{depth} blocks of chain {chain}: {fate:?}"));
}

/// Everything is well again.
pub(crate) fn heal(world: &Arc<World>) {
    let mut inner = world.lock();
    inner.faults_on = false;
    // A clock may be off for ever, and is right again on the other nodes.
    let Inner { gates, rng, .. } = &mut *inner;
    for gate in gates {
        // Where days are about to pass quickly, a clock that is off as well would never be seen to keep up with the blocks.
        let stays_off = gate.skew_ms != 0 && rng.chance(500) && world.scenario.budget.is_none();
        let skew_ms = if stays_off { gate.skew_ms } else { 0 };
        *gate = Gate { skew_ms, ..Gate::default() };
    }
    let accounts = accounts(world.scenario.signers);
    let now = world.now();
    inner.healed_at = Some(now);
    let healed = world.true_time();
    for (_, _, until) in &mut inner.halts {
        *until = healed.min(*until);
    }
    for (_, _, until) in &mut inner.empties {
        *until = healed.min(*until);
    }
    for chain in inner.chains.values_mut() {
        chain.halted_until = 0;
        chain.base_fee = BASE_FEE;
        for account in &accounts {
            chain.set_balance(*account, U256::from(FIRST_BALANCE));
        }
        chain.alone = None;
        for endpoint in &mut chain.endpoints {
            endpoint.stale_until = 0;
            endpoint.down_until = 0;
        }
        chain.show(now);
    }
    drop(inner);
    world.trace(format_args!("the faults stop"));
}
