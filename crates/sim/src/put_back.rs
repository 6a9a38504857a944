//! A world whose store is put back while bytes are out that the copy has forgotten.
//!
//! Wishes are made until the chain stands still: some land, some are signed and wait in pools. Then the pools lose them, and an older copy
//! takes the store's place. Whoever is paid has kept the bytes, and sends them when it suits. All wishes are handed in again, and people
//! accept the store and give their words ([`crate::persons`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::U256;
use landfall_core::ports::store::{Admission, Reads};
use landfall_core::request::{AskedFees, Options, Payload};
use landfall_core::{LaneId, RequestId, TxHash, TxId, Wei};
use landfall_engine::{Despite, Submission};
use landfall_store::Memory;
use landfall_store::memory::Snapshot;

use crate::callers;
use crate::chain::model::{ChainModel, Fate};
use crate::chain::wire::{Content, Wire};
use crate::checkers::Checkers;
use crate::node::{Nodes, accounts, chain_ids};
use crate::persons::{self, Persons};
use crate::rng::Rng;
use crate::run::{LOOK_EVERY, next_day};
use crate::scenario::Fault;
use crate::world::World;

/// Who makes the wishes.
const WISHER: u64 = 97;
/// When the persons have spoken, everything must have ended within this.
pub(crate) const MOST_LOOKS: u64 = 720;
/// The chain makes no blocks until the store is back.
pub(crate) const FOR_EVER: u64 = u64::MAX;

/// A payment that somebody wants, once.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) marker: u64,
    pub(crate) submission: Submission,
    /// Its transaction in the store before that was put back.
    pub(crate) first: Option<TxId>,
    /// Its transaction in the store, since that was put back.
    pub(crate) tx: Option<TxId>,
}

/// The truth, whatever the copy knows.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) wishes: Vec<Wish>,
    /// Whose bytes these were before the store was put back.
    pub(crate) by_hash: BTreeMap<TxHash, TxId>,
    /// Every hash that was signed before.
    pub(crate) before: BTreeSet<TxHash>,
    /// Bytes that somebody kept.
    pub(crate) kept: Vec<Wire>,
    /// The next slot of each lane, as the copy knows it.
    pub(crate) cursors: BTreeMap<LaneId, u64>,
    /// How much of each lane its owner had seen used when a reorganisation took it back.
    pub(crate) shown: BTreeMap<LaneId, u64>,
    /// How many of each were rejected or cancelled by people who had not looked at the chain.
    pub(crate) unwanted: BTreeMap<u64, usize>,
    /// The chain's counts when the store was accepted, if all wishes had been handed in again.
    pub(crate) compared_below: BTreeMap<LaneId, u64>,
}

impl Truth {
    /// How often a content is wanted.
    pub(crate) fn wanted(&self, content: Content) -> usize {
        self.wishes.iter().filter(|wish| wish.marker == content.marker).count().max(1)
    }

    pub(crate) fn is_wish(&self, content: Content) -> bool {
        self.wishes.iter().any(|wish| wish.marker == content.marker)
    }
}

/// When a reorganisation takes back what the copy has forgotten. Until then the chain stands still, so that it is not too deep for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TakesBack {
    Nothing,
    /// Before the store is accepted.
    Before,
    /// As soon as it is.
    After,
}

impl TakesBack {
    fn choose(world: &World) -> Self {
        match world.range(0, 3) {
            _ if world.scenario.rate(Fault::TakenBack) == 0 => Self::Nothing,
            0 => Self::Before,
            1 => Self::After,
            _ => Self::Nothing,
        }
    }
}

/// From the wishes to the end. `backup` is a copy from the time of trouble.
pub(crate) async fn put_back(
    world: &Arc<World>,
    nodes: &Arc<Nodes>,
    checkers: &Checkers,
    memory: &Memory,
    backup: &Snapshot,
) {
    let mut truth = Truth { wishes: wishes(world), ..Truth::default() };
    let copy = make_wishes(world, nodes, memory, backup, &mut truth.wishes).await;
    world.struck(Fault::RestoredStore, format_args!("all nodes start on it"));
    keep_bytes(world, &mut truth);
    for tx in checkers.all().await {
        for attempt in memory.tx(tx.id).await.ok().flatten().map(|record| record.attempts).unwrap_or_default()
        {
            truth.by_hash.insert(attempt.hash, tx.id);
        }
    }
    for node in 0..world.scenario.nodes {
        nodes.crash(node);
    }
    memory.restore_marked(&copy);
    if world.scenario.narrowed {
        narrow(world, memory, &truth).await;
    }
    nodes.database.was_replaced();
    for summary in memory.lanes().await.unwrap_or_default() {
        truth.cursors.insert(summary.lane, summary.row.cursor.map_or(0, |cursor| cursor.0));
    }
    let takes_back = TakesBack::choose(world);
    if takes_back == TakesBack::Nothing {
        go_on(world);
    }
    for node in 0..world.scenario.nodes {
        nodes.start(node).await;
    }
    let mut persons = Persons::default();
    until_accepted(world, nodes, &mut truth, takes_back).await;
    go_on(world);
    // Out of a thousand, at every look. What was forgotten is used up within a few blocks: some are quicker.
    let eager = world.range(100, 700);
    send_late(world, &mut truth, eager);
    let mut looks = 0;
    while looks < MOST_LOOKS && world.lock().violations.is_empty() {
        looks += 1;
        tokio::time::sleep(LOOK_EVERY).await;
        if world.scenario.budget.is_some() && world.chance(250) {
            next_day(world);
        }
        send_late(world, &mut truth, eager);
        hand_in(world, nodes, &mut truth, 300).await;
        restart_one(world, nodes, looks).await;
        persons.speak(world, nodes, &truth).await;
        let handed_in = truth.wishes.iter().all(|wish| wish.tx.is_some());
        if truth.kept.is_empty() && handed_in && checkers.unfinished().await == 0 {
            break;
        }
    }
    checkers.pays_nothing_twice(&truth);
    checkers.wishes_are_carried_out(&truth).await;
    checkers.tells_apart(&truth).await;
    checkers.gives_out_nothing_seen(&truth).await;
}

/// From now on fewer may be out at once. A copy from before a lane gave out its first slot cannot know how many were.
async fn narrow(world: &World, memory: &Memory, truth: &Truth) {
    let lanes = memory.lanes().await.unwrap_or_default();
    let is_known = |lane| lanes.iter().any(|summary| summary.lane == lane && summary.row.widest > 0);
    if truth.wishes.iter().all(|wish| is_known(wish.submission.lane)) {
        let window = world.range(1, 3);
        world.lock().window = Some(window);
        world.struck(Fault::Narrowed, format_args!("to {window}"));
    }
}

/// Plain ones, dear ones, and several that do the same.
pub(crate) fn wishes(world: &World) -> Vec<Wish> {
    let scenario = &world.scenario;
    let mut inner = world.lock();
    let rng = &mut inner.rng;
    let lanes: Vec<LaneId> = chain_ids(scenario.chains)
        .flat_map(|chain| accounts(scenario.signers).into_iter().map(move |signer| LaneId { chain, signer }))
        .collect();
    let first = rng.pick(&lanes).copied();
    let mut wishes = Vec::new();
    for number in 0..rng.range(6, 20) {
        let lane = if rng.chance(700) { first } else { rng.pick(&lanes).copied() };
        let Some(LaneId { chain, signer }) = lane else { continue };
        // Several wishes may do the same, and each is another payment.
        let alike = if rng.chance(350) { rng.range(2, 5) } else { 1 };
        let dear = rng.chance(300);
        let marker = WISHER << 32 | number;
        for again in 0..alike {
            let payload = Payload {
                to: Some(signer),
                value: if dear { callers::DEAR } else { Wei(U256::from(1)) },
                data: Content { marker, replaced: 0 }.data(),
                gas: None,
                fees: AskedFees::Market,
                access_list: Vec::new(),
                authorization_list: Vec::new(),
            };
            let submission = Submission {
                lane: LaneId { chain, signer },
                request_id: RequestId::parse(&format!("wish-{number}-{again}")).ok(),
                payload,
                options: Options::default(),
                at_once: None,
                origin: None,
            };
            wishes.push(Wish { marker, submission, first: None, tx: None });
        }
    }
    shuffle(rng, &mut wishes);
    wishes
}

pub(crate) fn shuffle<T>(rng: &mut Rng, of: &mut [T]) {
    for place in (1..of.len()).rev() {
        let other = usize::try_from(rng.range(0, place as u64 + 1)).unwrap_or(0);
        of.swap(place, other);
    }
}

/// Hands the wishes in, stops the chain on the way, and answers the copy that will be put back: from the time of trouble, or from
/// just before or between the wishes.
async fn make_wishes(
    world: &Arc<World>,
    nodes: &Arc<Nodes>,
    memory: &Memory,
    backup: &Snapshot,
    wishes: &mut [Wish],
) -> Snapshot {
    let is_old = world.chance(300);
    let copied_at = world.range(0, wishes.len() as u64);
    let halted_at = world.range(0, wishes.len() as u64 * 2 / 3);
    let mut copy = backup.clone();
    for (place, wish) in (0_u64..).zip(wishes) {
        if place == copied_at && !is_old {
            copy = memory.snapshot();
        }
        if place == halted_at {
            halt(world, FOR_EVER);
        }
        wish.first = submit(nodes, &wish.submission).await;
        let pause = world.range(0, 3_000);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        if world.chance(500) {
            persons::approve_all(world, nodes).await;
        }
    }
    persons::approve_all(world, nodes).await;
    tokio::time::sleep(LOOK_EVERY * 2).await;
    copy
}

pub(crate) fn halt(world: &World, until: u64) {
    for chain in world.lock().chains.values_mut() {
        chain.halted_until = until;
    }
    world.trace(format_args!("the chains stand still until {until}"));
}

pub(crate) fn go_on(world: &World) {
    halt(world, 0);
}

pub(crate) async fn submit(nodes: &Arc<Nodes>, submission: &Submission) -> Option<TxId> {
    let handle = nodes.alive().first().and_then(|node| nodes.handle(*node))?;
    let answer =
        tokio::time::timeout(callers::PATIENCE, handle.submit(submission.clone())).await.ok()?.ok()?;
    match answer {
        Admission::New(tx) | Admission::Replay(tx) => Some(tx.id),
        Admission::Removed(kept) => Some(kept.id),
        Admission::Conflict(tx) | Admission::NonceReused(tx) => Some(tx),
    }
}

/// Bytes that have not landed are kept by those whom they pay, and the pools lose them.
fn keep_bytes(world: &World, truth: &mut Truth) {
    let loses = world.scenario.rate(Fault::LateBytes) > 0;
    let mut inner = world.lock();
    truth.before.clone_from(&inner.stored);
    if !loses {
        return;
    }
    let sent: Vec<Wire> = inner.sent.values().cloned().collect();
    for chain in inner.chains.values_mut() {
        for at in &mut chain.endpoints {
            at.pool.clear();
        }
    }
    let is_open = |wire: &Wire| {
        inner.chains.get(&wire.chain).is_some_and(|chain| chain.account(&wire.from).count <= wire.nonce)
    };
    truth.kept = sent.into_iter().filter(is_open).collect();
    drop(inner);
    world.trace(format_args!("{} byte strings are kept", truth.kept.len()));
}

/// Wishes are handed in again before, after, or on the way.
async fn until_accepted(world: &Arc<World>, nodes: &Arc<Nodes>, truth: &mut Truth, takes_back: TakesBack) {
    let early = world.range(0, 3);
    if early == 0 {
        hand_in(world, nodes, truth, 1_000).await;
        callers::hand_in_again(world, nodes).await;
    } else if early == 1 {
        hand_in(world, nodes, truth, 300).await;
    }
    tokio::time::sleep(Duration::from_millis(world.range(1_000, 60_000))).await;
    if world.scenario.rate(Fault::EarlyWord) > 0 {
        persons::speak_early(world, nodes, truth).await;
    }
    if takes_back == TakesBack::Before {
        take_back(world, nodes, truth).await;
    }
    for _ in 0..20 {
        let handle = nodes.alive().first().and_then(|node| nodes.handle(*node));
        if let Some(handle) = handle
            && handle.accept_store(Despite::ALL, None).await.is_ok()
        {
            world.trace(format_args!("an operator accepts the store"));
            if early == 0 {
                truth.compared_below = counts_of(world, truth);
            }
            if takes_back == TakesBack::After {
                take_back(world, nodes, truth).await;
            }
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    if early != 0 {
        tokio::time::sleep(Duration::from_millis(world.range(0, 60_000))).await;
        callers::hand_in_again(world, nodes).await;
    }
}

/// A reorganisation takes back what the copy has forgotten: it is in the pools again, or only with those whom it pays. Nothing of ours
/// that was signed since is in a block yet.
async fn take_back(world: &Arc<World>, nodes: &Arc<Nodes>, truth: &mut Truth) {
    for summary in nodes.memory.lanes().await.unwrap_or_default() {
        if let Some(count) = summary.row.older_count {
            truth.shown.insert(summary.lane, count.0);
        }
    }
    let mut depth = world.range(1, world.scenario.finality + 1);
    let (now, at) = (world.now(), world.block_time());
    let mut inner = world.lock();
    while depth > 1
        && inner.chains.values().any(|chain| most_taken(chain, depth) > world.scenario.max_in_flight)
    {
        depth -= 1;
    }
    let fate = if inner.rng.chance(300) { Fate::Pooled } else { Fate::Lost };
    let salt = inner.rng.next();
    let mut taken = Vec::new();
    for chain in inner.chains.values_mut() {
        let stay = chain.fork.len().saturating_sub(usize::try_from(depth).unwrap_or(usize::MAX)).max(1);
        taken.extend(chain.fork.iter().skip(stay).flat_map(|block| &block.txs).map(|(_, wire)| wire.clone()));
        chain.reorg(depth, fate, salt);
        for _ in 0..=depth {
            chain.mine(0, at, true);
        }
        chain.show(now);
    }
    drop(inner);
    world
        .struck(Fault::TakenBack, format_args!("{depth} blocks with {} transactions: {fate:?}", taken.len()));
    truth.kept.extend(taken);
    go_on(world);
}

/// So much of one account is in the newest blocks. Of more than a window nobody could know, if no node has looked.
fn most_taken(chain: &ChainModel, depth: u64) -> u64 {
    let mut taken: BTreeMap<_, u64> = BTreeMap::new();
    let blocks = chain.fork.iter().rev().take(usize::try_from(depth).unwrap_or(usize::MAX));
    for (_, wire) in blocks.flat_map(|block| &block.txs) {
        *taken.entry(wire.from).or_default() += 1;
    }
    taken.into_values().max().unwrap_or(0)
}

fn counts_of(world: &World, truth: &Truth) -> BTreeMap<LaneId, u64> {
    let inner = world.lock();
    let count =
        |lane: LaneId| inner.chains.get(&lane.chain).map_or(0, |chain| chain.account(&lane.signer).count);
    truth.wishes.iter().map(|wish| (wish.submission.lane, count(wish.submission.lane))).collect()
}

/// Some wishes are handed in again, in any order.
pub(crate) async fn hand_in(world: &Arc<World>, nodes: &Arc<Nodes>, truth: &mut Truth, permille: u64) {
    let mut open: Vec<&mut Wish> = truth.wishes.iter_mut().filter(|wish| wish.tx.is_none()).collect();
    shuffle(&mut world.lock().rng, &mut open);
    for wish in open {
        if world.chance(permille) {
            wish.tx = submit(nodes, &wish.submission).await;
            world.trace(format_args!("wish {:x} is handed in again as {:?}", wish.marker, wish.tx));
        }
    }
}

/// Some kept bytes reach the pools: whoever makes the next block has these first, or has them as any other.
fn send_late(world: &World, truth: &mut Truth, eager: u64) {
    let mut inner = world.lock();
    let mut sent = Vec::new();
    let inner_mut = &mut *inner;
    truth.kept.retain(|wire| {
        if !inner_mut.rng.chance(eager) {
            return true;
        }
        let first = inner_mut.rng.chance(500);
        let Some(chain) = inner_mut.chains.get_mut(&wire.chain) else { return false };
        let is_open = chain.account(&wire.from).count <= wire.nonce;
        if is_open && first {
            chain.push_aside(wire);
        } else if is_open {
            for endpoint in 0..chain.endpoints.len() {
                chain.admit(endpoint, wire);
            }
        }
        if is_open {
            sent.push((wire.nonce, wire.from, wire.content()));
        }
        false
    });
    drop(inner);
    for (nonce, from, content) in sent {
        let marker = content.map_or(0, |content| content.marker);
        world.struck(Fault::LateBytes, format_args!("request {marker:x} in slot {nonce} of {from}"));
    }
}

/// A node is started again, in the first minutes: what it knows must be in the store.
pub(crate) async fn restart_one(world: &Arc<World>, nodes: &Arc<Nodes>, looks: u64) {
    if looks < 40 && world.chance(40) {
        let node = usize::try_from(world.range(0, world.scenario.nodes as u64)).unwrap_or(0);
        world.trace(format_args!("node {node} is started again"));
        nodes.crash(node);
        nodes.start(node).await;
    }
}
