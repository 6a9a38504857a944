//! People after a store was put back: they look at the chain, and say what has landed and what is another payment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use landfall_core::ports::store::{CommandKind, Reads, TxQuery};
use landfall_core::transaction::{Transaction, TxState, Whose};
use landfall_core::{LaneId, Slot, TxId};
use landfall_engine::Wish as Word;

use crate::chain::wire::{Content, Wire};
use crate::node::Nodes;
use crate::put_back::Truth;
use crate::scenario::Fault;
use crate::world::World;

static ALL: LazyLock<TxQuery> = LazyLock::new(|| TxQuery { limit: u32::MAX, ..TxQuery::default() });
const PATIENCE: Duration = Duration::from_secs(5);

/// Their words so far.
#[derive(Debug, Default)]
pub(crate) struct Persons {
    /// Nonces of which somebody said that they were one of the requests.
    accounted: BTreeSet<(LaneId, Slot)>,
    /// The nonce that was shown when somebody spoke of a transaction.
    said: BTreeMap<TxId, (LaneId, Slot)>,
}

impl Persons {
    /// Whatever waits for a person gets its word.
    pub(crate) async fn speak(&mut self, world: &Arc<World>, nodes: &Arc<Nodes>, truth: &Truth) {
        self.resume(world, nodes).await;
        for tx in nodes.memory.txs(&ALL).await.unwrap_or_default() {
            if tx.status.taken.is_some() {
                settle(world, nodes, truth, &tx).await;
            }
            if tx.status.state.is_terminal() {
                continue;
            }
            let asks = tx.status.state == TxState::AwaitingApproval || tx.status.asks_approval;
            if tx.status.may_have_landed() {
                self.tell_apart(world, nodes, truth, &tx).await;
            } else if asks || tx.status.held.is_some() {
                decide(world, nodes, &tx, true).await;
            }
        }
    }

    /// The first for which a nonce is shown was it; whoever is shown a nonce that is accounted for is another payment. What is not
    /// several wishes has landed, if the chain shows any content of it.
    async fn tell_apart(&mut self, world: &Arc<World>, nodes: &Arc<Nodes>, truth: &Truth, tx: &Transaction) {
        let Some(slot) = tx.status.forgotten_as else {
            // Each nonce is accounted for.
            let wish = Content::read(&tx.request.payload.data).is_some_and(|content| truth.is_wish(content));
            decide(world, nodes, tx, wish).await;
            return;
        };
        let shown = (tx.lane, slot);
        // What was taken back may land again.
        let Some(wire) = landed_at(world, shown) else { return };
        let Some(content) = Content::read(&tx.request.payload.data) else { return };
        let is_other = truth.is_wish(content) && self.accounted.contains(&shown);
        // One word is enough, however long it takes to be followed.
        if self.said.get(&tx.id) == Some(&shown) {
            return;
        }
        if wire.content().is_none_or(|landed| landed.marker != content.marker) {
            return;
        }
        if decide(world, nodes, tx, is_other).await {
            self.said.insert(tx.id, shown);
            self.accounted.insert(shown);
        }
    }

    /// Lanes that were stopped go on, and those that hold for slots nobody here sent.
    async fn resume(&self, world: &Arc<World>, nodes: &Arc<Nodes>) {
        let Some(handle) = nodes.alive().first().and_then(|node| nodes.handle(*node)) else { return };
        for summary in nodes.memory.lanes().await.unwrap_or_default() {
            let mut stops = summary.row.paused || summary.row.disabled;
            for handle in nodes.alive().into_iter().filter_map(|node| nodes.handle(node)) {
                let hold = handle.explain_lane(summary.lane).await;
                stops |= hold.is_some_and(|text| text.contains("this store does not know who used"));
            }
            if stops {
                world.trace(format_args!("a person resumes {}", summary.lane));
                tokio::time::timeout(PATIENCE, handle.command(summary.lane, CommandKind::Resume)).await.ok();
            }
        }
    }
}

/// A yes to all that ask for one.
pub(crate) async fn approve_all(world: &Arc<World>, nodes: &Arc<Nodes>) {
    for tx in nodes.memory.txs(&ALL).await.unwrap_or_default() {
        if tx.status.state == TxState::AwaitingApproval {
            decide(world, nodes, &tx, true).await;
        }
    }
}

/// People who have not looked at the chain speak before the store is accepted: of amounts, of what is not wanted any more, of lanes.
pub(crate) async fn speak_early(world: &Arc<World>, nodes: &Arc<Nodes>, truth: &mut Truth) {
    let Some(handle) = nodes.alive().first().and_then(|node| nodes.handle(*node)) else { return };
    for tx in nodes.memory.txs(&ALL).await.unwrap_or_default() {
        let waits = !tx.status.state.is_terminal() && tx.status.slot.is_none();
        let Some(content) = Content::read(&tx.request.payload.data).filter(|_| waits) else { continue };
        let asks = tx.status.state == TxState::AwaitingApproval;
        let (yes, speaks) = (world.chance(700), world.chance(if asks { 700 } else { 60 }));
        if !speaks {
            continue;
        }
        world.struck(Fault::EarlyWord, format_args!("of {}, which asks: {asks}, yes: {yes}", tx.id));
        if asks {
            decide(world, nodes, &tx, yes).await;
        } else {
            let cancel = CommandKind::Cancel { tx: tx.id };
            tokio::time::timeout(PATIENCE, handle.command(tx.lane, cancel)).await.ok();
        }
        if !asks || !yes {
            *truth.unwanted.entry(content.marker).or_default() += 1;
        }
    }
    for summary in nodes.memory.lanes().await.unwrap_or_default() {
        if world.chance(200) {
            world.trace(format_args!("a person resumes {} early", summary.lane));
            tokio::time::timeout(PATIENCE, handle.command(summary.lane, CommandKind::Resume)).await.ok();
        }
    }
}

/// Content of a slot on the chain.
fn landed_at(world: &World, (lane, slot): (LaneId, Slot)) -> Option<Wire> {
    let inner = world.lock();
    let chain = inner.chains.get(&lane.chain)?;
    let mut wires = chain.fork.iter().flat_map(|block| &block.txs).map(|(_, wire)| wire);
    wires.find(|wire| wire.from == lane.signer && wire.nonce == slot.0).cloned()
}

/// A yes or a no; true if it was taken.
async fn decide(world: &Arc<World>, nodes: &Arc<Nodes>, tx: &Transaction, yes: bool) -> bool {
    let Some(handle) = nodes.alive().first().and_then(|node| nodes.handle(*node)) else { return false };
    if let Some(content) = Content::read(&tx.payload().data).filter(|_| yes) {
        world.lock().approved.insert(content);
    }
    let word = Word::default();
    let said = tokio::time::timeout(PATIENCE, handle.decide(tx, yes, Some(tx.version()), &word)).await;
    let shown = tx.status.forgotten_as;
    world.trace(format_args!("a person says {yes} to {} for {shown:?}: {said:?}", tx.id));
    matches!(said, Ok(Ok(_)))
}

/// It was ours if its bytes were made for this request, or do what it asks for.
async fn settle(world: &Arc<World>, nodes: &Arc<Nodes>, truth: &Truth, tx: &Transaction) {
    let Some(taken) = tx.status.taken.as_deref() else { return };
    let shown = tx.status.slot.and_then(|slot| landed_at(world, (tx.lane, slot)));
    let Some(wire) = shown.filter(|wire| wire.hash() == taken.hash) else { return };
    let marker = |content: Content| content.marker;
    let same = wire.content().map(marker) == Content::read(&tx.request.payload.data).map(marker);
    let ours = same || truth.by_hash.get(&taken.hash) == Some(&tx.id);
    let whose = if ours { Whose::Ours } else { Whose::Foreign };
    let handles = nodes.alive().into_iter().filter_map(|node| nodes.handle(node));
    for handle in handles {
        if handle.settle(tx, whose, Some(taken.hash), &Word::default()).await.is_ok() {
            world.trace(format_args!("a person settles {} as {whose:?}", tx.id));
            return;
        }
    }
}
