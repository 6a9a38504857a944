//! Building a block: executable transactions by what they pay, each sender's in nonce order, as far as the gas reaches.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, btree_map::Range},
    sync::Arc,
};

use alloy_consensus::Transaction as _;

use crate::{
    admit::intrinsic_gas,
    block::{Block, Body, Roots},
    chain::Chain,
    execute::{BlockRunner, Outcome},
    pool::{Pool, Waiting},
    state::State,
    tx::Tx,
};

/// What goes into a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    FromPool,
    Nothing,
}

impl Chain {
    pub(crate) fn mine(&mut self, fill: Fill) -> Arc<Block> {
        let parent = self.head_block();
        let (parent_hash, parent_root) = (parent.hash, parent.header.state_root);
        let timestamp = (self.config.clock)().max(parent.header.timestamp + 1);
        let base_fee = self.next_base_fee();
        self.base_fee_once = None;
        let header = Block::draft(self.head() + 1, parent_hash, timestamp, self.config.gas_limit, base_fee);
        let mut body = Body::default();
        if fill == Fill::FromPool {
            let mut best = Best::new(&self.pool, base_fee);
            if self.config.execute {
                let mut runner =
                    BlockRunner::new(&mut self.state, &self.blocks, &header, self.config.chain_id);
                fill_block(&mut best, &mut body, header.gas_limit, base_fee, |tx| runner.run(tx).ok());
            } else {
                let state = &mut self.state;
                fill_block(&mut best, &mut body, header.gas_limit, base_fee, |tx| Some(count(state, tx)));
            }
        }
        let roots = Roots::of(&self.config);
        self.append(Block::seal(header, parent_root, self.forks, body.txs, roots))
    }
}

fn fill_block(
    best: &mut Best<'_>,
    body: &mut Body,
    gas_limit: u64,
    base_fee: u64,
    mut run: impl FnMut(&Tx) -> Option<Outcome>,
) {
    while let Some(candidate) = best.pop() {
        let tx = &candidate.waiting.tx;
        if tx.body().gas_limit() > gas_limit - body.gas_used {
            continue;
        }
        // A transaction that cannot run holds up the rest of its sender for this block.
        let Some(outcome) = run(tx) else { continue };
        body.push(tx.clone(), outcome, base_fee);
        best.push_next(candidate);
    }
}

/// Without execution a transaction uses its nonce and its intrinsic gas, and nothing else.
fn count(state: &mut State, tx: &Tx) -> Outcome {
    let mut info = state.info(tx.sender).cloned().unwrap_or_default();
    info.nonce += 1;
    state.write_info(tx.sender, Some(info));
    let created = tx.body().is_create().then(|| tx.sender.create(tx.nonce()));
    Outcome { success: true, gas_used: intrinsic_gas(tx).0, logs: Vec::new(), created }
}

/// The dearest executable transaction whose predecessors were taken.
struct Best<'a> {
    heap: BinaryHeap<Candidate<'a>>,
    base_fee: u64,
}

struct Candidate<'a> {
    /// Tip first, then the earlier arrival.
    rank: (u128, Reverse<u64>),
    waiting: &'a Waiting,
    rest: Range<'a, u64, Waiting>,
}

impl PartialEq for Candidate<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}
impl Eq for Candidate<'_> {}
impl PartialOrd for Candidate<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Candidate<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl<'a> Best<'a> {
    fn new(pool: &'a Pool, base_fee: u64) -> Self {
        let mut best = Self { heap: BinaryHeap::new(), base_fee };
        for run in pool.runs() {
            best.push(run);
        }
        best
    }

    fn push(&mut self, mut rest: Range<'a, u64, Waiting>) {
        let Some((_, waiting)) = rest.next() else { return };
        // Under the base fee: it stays in the pool, and so does everything behind it.
        let Some(tip) = waiting.tx.tip_at(self.base_fee) else { return };
        self.heap.push(Candidate { rank: (tip, Reverse(waiting.arrival)), waiting, rest });
    }

    fn pop(&mut self) -> Option<Candidate<'a>> {
        self.heap.pop()
    }

    fn push_next(&mut self, taken: Candidate<'a>) {
        self.push(taken.rest);
    }
}
