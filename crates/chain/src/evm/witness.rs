//! Which blocks each endpoint has shown, and how far that is the chain which is followed.
//!
//! Every look asks all endpoints for their heads, and mostly that says it all: a head that is one of our blocks is that
//! endpoint's word for everything below it. Only one that is on another fork, or ahead of us, is asked for the blocks at
//! our numbers, in one packet, once for as long as it stays on that fork. Nobody waits for it: what comes late counts at
//! the next look.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use landfall_core::ports::chain::BlockAt;
use landfall_core::view::{Block, BlockRef};
use landfall_core::witness::Witness;
use landfall_core::{Gas, Millis};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::health::Standing;
use super::pool::Pool;
use super::rpc::{Ask, read};
use super::wire::{RawBlock, hex};

/// So many of an endpoint's blocks are remembered.
const KEPT: usize = 128;
/// An endpoint is asked for more not oftener than this.
const ASKED_EVERY: Duration = Duration::from_secs(2);

/// The blocks that one endpoint has shown, as far as they are of one chain.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// The highest is its head.
    blocks: BTreeMap<u64, B256>,
    /// When the question was asked whose answer is the newest.
    asked: Option<Instant>,
    /// That question was answered.
    up: bool,
    /// When it was last asked for more than its head.
    asked_more: Option<Instant>,
    /// The time of its head, as it gave it.
    time: Option<Millis>,
    /// The most gas that a block could hold at its head.
    gas_limit: Option<Gas>,
    /// The newest blocks that it has called safe and finalized.
    safe: Option<BlockRef>,
    finalized: Option<BlockRef>,
}

impl Shown {
    /// Its head, as it answered a question that was asked then; none: it did not answer.
    pub(super) fn head(&mut self, head: Option<&Block>, asked: Instant) {
        if self.asked.is_some_and(|newest| asked < newest) {
            return;
        }
        self.asked = Some(asked);
        self.up = head.is_some();
        let Some(Block { at, parent, timestamp, gas_limit, .. }) = head else { return };
        (self.time, self.gas_limit) = (Some(*timestamp), Some(*gas_limit));
        if self.newest() == Some(*at) {
            return;
        }
        let below = at.number.checked_sub(1);
        if below.and_then(|below| self.blocks.get(&below)) == Some(parent) {
            self.blocks.split_off(&at.number);
        } else {
            // It may be on another fork: what it showed before says nothing of it.
            self.blocks.clear();
            self.asked_more = None;
        }
        self.blocks.insert(at.number, at.hash);
        if self.blocks.len() > KEPT {
            self.blocks.pop_first();
        }
    }

    /// A block that it calls safe, or finalized.
    pub(super) fn called(&mut self, tag: BlockAt, block: BlockRef) {
        match tag {
            BlockAt::Safe => self.safe = Some(block),
            BlockAt::Finalized => self.finalized = Some(block),
            BlockAt::Latest | BlockAt::Number(_) | BlockAt::Hash(_) => {}
        }
    }

    /// It serves another chain.
    pub(super) fn forget(&mut self) {
        *self = Self { asked: self.asked, ..Self::default() };
    }

    /// The most gas that a block can hold, by its newest head.
    pub(super) fn gas_limit(&self) -> Option<Gas> {
        self.gas_limit
    }

    fn newest(&self) -> Option<BlockRef> {
        self.blocks.last_key_value().map(|(number, hash)| BlockRef { number: *number, hash: *hash })
    }

    /// The newest block that is ours as well, and the lowest above it that is not.
    fn compared(&self, ours: &BTreeMap<u64, B256>) -> (Option<u64>, Option<u64>) {
        let mut differs = None;
        for (number, hash) in self.blocks.iter().rev() {
            match ours.get(number) {
                Some(our) if our == hash => return (Some(*number), differs),
                Some(_) => differs = Some(*number),
                None => {}
            }
        }
        (None, differs)
    }

    /// The numbers at which its blocks must be known to say how far it goes along with ours; none if that is known, or was
    /// asked for a moment ago.
    fn unclear(&mut self, ours: &BTreeMap<u64, B256>, now: Instant) -> Vec<u64> {
        let (Some(head), Some((lowest, _)), Some((highest, _))) =
            (self.newest(), ours.first_key_value(), ours.last_key_value())
        else {
            return Vec::new();
        };
        let (agrees, differs) = self.compared(ours);
        let is_ahead = head.number > *highest && agrees != Some(*highest);
        let is_elsewhere = differs.is_some() && agrees.is_none();
        let lately = self.asked_more.is_some_and(|at| now.saturating_duration_since(at) < ASKED_EVERY);
        if !(is_ahead || is_elsewhere) || head.number < *lowest || lately || !self.up {
            return Vec::new();
        }
        self.asked_more = Some(now);
        let top = head.number.min(*highest);
        let strides = std::iter::successors(Some(1_u64), |stride| stride.checked_mul(2));
        let below = strides.map_while(|stride| top.checked_sub(stride)).take_while(|number| number >= lowest);
        let mut numbers: Vec<u64> = std::iter::once(top).chain(below).collect();
        if *numbers.last().unwrap_or(&top) != *lowest {
            numbers.push(*lowest);
        }
        numbers
    }

    /// What it answered when its head was this one.
    fn learn(&mut self, head: BlockRef, blocks: Vec<BlockRef>) {
        if self.newest() == Some(head) {
            self.blocks.extend(blocks.into_iter().map(|block| (block.number, block.hash)));
        }
    }
}

/// What each endpoint has shown of the chain with these blocks.
pub(super) async fn of(pool: &Arc<Pool>, ours: &BTreeMap<u64, B256>) -> Vec<Witness> {
    if pool.all().len() < 2 {
        return Vec::new();
    }
    let now = Instant::now();
    let asking: FuturesUnordered<JoinHandle<()>> = pool
        .all()
        .iter()
        .filter_map(|endpoint| {
            let mut shown = endpoint.shown();
            let (numbers, head) = (shown.unclear(ours, now), shown.newest()?);
            drop(shown);
            // Tasks of their own: a slow endpoint's answer still counts at the next look.
            let endpoint = Arc::clone(endpoint);
            (!numbers.is_empty()).then(|| tokio::spawn(async move { ask(&endpoint, head, &numbers).await }))
        })
        .collect();
    if !asking.is_empty() {
        let all = asking.for_each(|_| std::future::ready(()));
        tokio::time::timeout(pool.straggler_grace, all).await.ok();
    }
    let each = pool.all().iter().enumerate();
    each.map(|(place, endpoint)| match pool.elsewhere(place) {
        Some(block) => of_another_chain(endpoint, block),
        None => of_one(endpoint, ours),
    })
    .collect()
}

/// An endpoint that shows another block than this one. With another first block it serves another chain, and is as good as none. In the
/// place of one that was final it may be right: one endpoint's word never counts beside it.
fn of_another_chain(endpoint: &Endpoint, block: BlockRef) -> Witness {
    let replaced = (block.number > 0).then_some(block.number);
    Witness {
        endpoint: endpoint.name.to_string(),
        up: replaced.is_some(),
        head: replaced,
        agrees: None,
        differs: replaced,
        time: None,
        safe: None,
        finalized: None,
    }
}

fn of_one(endpoint: &Endpoint, ours: &BTreeMap<u64, B256>) -> Witness {
    let rests = endpoint.standing() == Standing::Resting;
    let shown = endpoint.shown();
    let (agrees, differs) = shown.compared(ours);
    Witness {
        endpoint: endpoint.name.to_string(),
        up: shown.up && !rests,
        head: shown.newest().map(|head| head.number),
        agrees,
        differs,
        time: shown.time,
        safe: shown.safe,
        finalized: shown.finalized,
    }
}

/// Asks an endpoint for its blocks at these numbers, and for its head again in the same packet: if that has changed, the
/// blocks may be of another fork.
async fn ask(endpoint: &Endpoint, head: BlockRef, numbers: &[u64]) {
    let by_number = |number: u64| Ask::new("eth_getBlockByNumber", json!([hex(number), false]));
    let asks: Vec<Ask> = std::iter::once(head.number).chain(numbers.iter().copied()).map(by_number).collect();
    let answers = endpoint.ask_all(&asks).await;
    let mut blocks = answers.into_iter().map(|answer| {
        let block = read::<RawBlock>("eth_getBlockByNumber", &answer.ok()?).ok()??;
        Some(block.read().ok()?.at)
    });
    if blocks.next().flatten() == Some(head) {
        endpoint.shown().learn(head, blocks.flatten().collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64, fork: u8) -> B256 {
        let mut bytes = [fork; 32];
        bytes[24..].copy_from_slice(&number.to_be_bytes());
        B256::from(bytes)
    }

    fn block(number: u64, fork: u8) -> Block {
        Block {
            at: BlockRef { number, hash: hash(number, fork) },
            parent: hash(number - 1, fork),
            timestamp: Millis(number),
            gas_limit: Gas(30_000_000),
            base_fee: None,
        }
    }

    fn ours(numbers: std::ops::RangeInclusive<u64>) -> BTreeMap<u64, B256> {
        numbers.map(|number| (number, hash(number, 1))).collect()
    }

    fn at(seconds: u64) -> Instant {
        // Any beginning will do.
        static BEGUN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *BEGUN.get_or_init(Instant::now) + Duration::from_secs(seconds)
    }

    #[test]
    fn a_head_of_ours_says_it_all_and_nothing_more_is_asked() {
        let mut shown = Shown::default();
        shown.head(Some(&block(98, 1)), at(0));
        assert_eq!(shown.compared(&ours(50..=100)), (Some(98), None));
        assert_eq!(shown.unclear(&ours(50..=100), at(0)), [0_u64; 0]);
        // Far behind: nothing can be said, and nothing is asked.
        assert_eq!(shown.compared(&ours(99..=120)), (None, None));
        assert_eq!(shown.unclear(&ours(99..=120), at(0)), [0_u64; 0]);
    }

    #[test]
    fn one_that_is_ahead_or_elsewhere_is_asked_for_our_numbers_once() {
        let mut shown = Shown::default();
        shown.head(Some(&block(100, 2)), at(0));
        assert_eq!(shown.compared(&ours(80..=103)), (None, Some(100)));
        assert_eq!(shown.unclear(&ours(80..=103), at(0)), [100, 99, 98, 96, 92, 84, 80]);
        assert_eq!(shown.unclear(&ours(80..=103), at(1)), [0_u64; 0]);
        let head = block(100, 2).at;
        let answers = [98, 96, 92].map(|number| block(number, if number > 96 { 2 } else { 1 }).at);
        shown.learn(head, answers.to_vec());
        assert_eq!(shown.compared(&ours(80..=103)), (Some(96), Some(98)));
        // Its fork grows: what is known of it below still holds.
        for number in 101..=120 {
            shown.head(Some(&block(number, 2)), at(number));
        }
        assert_eq!(shown.compared(&ours(80..=121)), (Some(96), Some(98)));
        assert_eq!(shown.unclear(&ours(80..=121), at(1_000)), [0_u64; 0]);
        assert_eq!(shown.unclear(&ours(100..=118), at(1_001)), [118, 117, 116, 114, 110, 102, 100]);
    }

    #[test]
    fn after_another_fork_nothing_of_the_old_one_counts() {
        let mut shown = Shown::default();
        shown.head(Some(&block(99, 1)), at(0));
        shown.head(Some(&block(100, 1)), at(1));
        shown.head(Some(&block(101, 2)), at(2));
        assert_eq!(shown.compared(&ours(80..=103)), (None, Some(101)));
        // Answers that belong to a head that it has left, and answers that come late, say nothing.
        shown.learn(block(100, 1).at, vec![block(90, 1).at]);
        shown.head(Some(&block(100, 1)), at(1));
        assert_eq!(shown.compared(&ours(80..=103)), (None, Some(101)));
        shown.head(None, at(3));
        assert!(!shown.up);
        assert_eq!(shown.compared(&ours(80..=103)), (None, Some(101)));
    }
}
