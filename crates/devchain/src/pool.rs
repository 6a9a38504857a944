//! The transactions that wait, by sender and nonce. This file keeps them in order; `admit` decides what gets in.
//!
//! Executable ("pending" in geth's words) is the unbroken run of nonces that starts at the sender's chain nonce;
//! everything behind a gap is queued.

use std::{collections::BTreeMap, sync::Arc};

use alloy_primitives::{
    Address, B256, U256,
    map::{AddressMap, B256Map},
};

use crate::tx::Tx;

#[derive(Debug, Default)]
pub(crate) struct Pool {
    senders: AddressMap<Sender>,
    by_hash: B256Map<(Address, u64)>,
    arrivals: u64,
}

#[derive(Debug, Default)]
struct Sender {
    txs: BTreeMap<u64, Waiting>,
    /// The sender's nonce on the chain.
    next: u64,
    /// Length of the executable run.
    ready: u64,
    /// What the executable run may cost.
    ready_cost: U256,
}

#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) tx: Arc<Tx>,
    /// Number of arrival: the earlier one goes first at equal price.
    pub(crate) arrival: u64,
}

/// How many transactions wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PoolSize {
    pub pending: u64,
    pub queued: u64,
}

impl Sender {
    fn ready_end(&self) -> u64 {
        self.next + self.ready
    }

    /// Extends the run over what has become contiguous.
    fn extend(&mut self) {
        while let Some(waiting) = self.txs.get(&self.ready_end()) {
            self.ready_cost = self.ready_cost.saturating_add(waiting.tx.cost);
            self.ready += 1;
        }
    }

    fn recount(&mut self, next: u64) {
        self.next = next;
        self.ready = 0;
        self.ready_cost = U256::ZERO;
        self.extend();
    }

    fn queued(&self) -> u64 {
        self.txs.len() as u64 - self.ready
    }
}

impl Pool {
    pub(crate) fn len(&self) -> usize {
        self.by_hash.len()
    }

    pub(crate) fn size(&self) -> PoolSize {
        let pending = self.senders.values().map(|s| s.ready).sum();
        PoolSize { pending, queued: self.len() as u64 - pending }
    }

    pub(crate) fn get(&self, hash: &B256) -> Option<&Arc<Tx>> {
        let (sender, nonce) = self.by_hash.get(hash)?;
        self.at(*sender, *nonce)
    }

    pub(crate) fn at(&self, sender: Address, nonce: u64) -> Option<&Arc<Tx>> {
        self.senders.get(&sender)?.txs.get(&nonce).map(|w| &w.tx)
    }

    pub(crate) fn hashes(&self) -> impl Iterator<Item = B256> {
        self.by_hash.keys().copied()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Waiting> {
        self.senders.values().flat_map(|s| s.txs.values())
    }

    /// Executable transactions of one sender.
    pub(crate) fn ready(&self, sender: Address) -> u64 {
        self.senders.get(&sender).map_or(0, |s| s.ready)
    }

    /// What the executable ones of one sender may cost together.
    pub(crate) fn ready_cost(&self, sender: Address) -> U256 {
        self.senders.get(&sender).map_or(U256::ZERO, |s| s.ready_cost)
    }

    pub(crate) fn is_ready(&self, sender: Address, nonce: u64) -> bool {
        self.senders.get(&sender).is_some_and(|s| nonce >= s.next && nonce < s.ready_end())
    }

    /// Puts a transaction in its place; whoever had the place is returned.
    pub(crate) fn insert(&mut self, tx: Arc<Tx>, chain_nonce: u64) -> Option<Arc<Tx>> {
        let (address, nonce) = (tx.sender, tx.nonce());
        self.arrivals += 1;
        self.by_hash.insert(tx.hash, (address, nonce));
        let cost = tx.cost;
        let sender = self.senders.entry(address).or_default();
        if sender.txs.is_empty() {
            sender.recount(chain_nonce);
        }
        let in_run = nonce < sender.ready_end();
        let old = sender.txs.insert(nonce, Waiting { tx, arrival: self.arrivals });
        if let (Some(old), true) = (&old, in_run) {
            sender.ready_cost = sender.ready_cost.saturating_sub(old.tx.cost).saturating_add(cost);
        }
        sender.extend();
        let old = old.map(|w| w.tx)?;
        self.by_hash.remove(&old.hash);
        Some(old)
    }

    pub(crate) fn remove(&mut self, hash: &B256) -> Option<Arc<Tx>> {
        let (address, nonce) = self.by_hash.remove(hash)?;
        let sender = self.senders.get_mut(&address)?;
        let removed = sender.txs.remove(&nonce);
        if sender.txs.is_empty() {
            self.senders.remove(&address);
        } else if nonce < sender.ready_end() {
            sender.recount(sender.next);
        }
        removed.map(|w| w.tx)
    }

    pub(crate) fn clear(&mut self) -> usize {
        let count = self.len();
        self.senders.clear();
        self.by_hash.clear();
        count
    }

    /// Drops the furthest gapped transactions of a sender beyond `limit`.
    pub(crate) fn cap_queue(&mut self, address: Address, limit: usize) {
        while let Some(sender) = self.senders.get_mut(&address)
            && sender.queued() > limit as u64
        {
            let Some((_, last)) = sender.txs.pop_last() else { return };
            self.by_hash.remove(&last.tx.hash);
        }
    }

    /// Follows the chain after a block or a reorg: forgets used nonces and drops what can no longer be paid.
    pub(crate) fn follow(&mut self, nonce_of: impl Fn(Address) -> u64, affords: impl Fn(&Tx) -> bool) {
        let by_hash = &mut self.by_hash;
        self.senders.retain(|address, sender| {
            let next = nonce_of(*address);
            let count = sender.txs.len();
            sender.txs.retain(|nonce, waiting| {
                let keep = *nonce >= next && affords(&waiting.tx);
                if !keep {
                    by_hash.remove(&waiting.tx.hash);
                }
                keep
            });
            if sender.txs.len() != count || sender.next != next {
                sender.recount(next);
            }
            !sender.txs.is_empty()
        });
    }

    /// The executable run of every sender.
    pub(crate) fn runs(&self) -> impl Iterator<Item = std::collections::btree_map::Range<'_, u64, Waiting>> {
        self.senders.values().filter(|s| s.ready > 0).map(|s| s.txs.range(s.next..s.ready_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// What the pool must say, counted from scratch.
    fn check(pool: &Pool, nonces: &[u64; 2]) {
        let mut total = PoolSize::default();
        for (index, next) in nonces.iter().enumerate() {
            let sender = Address::repeat_byte(index as u8);
            let run: Vec<_> = (*next..).map_while(|nonce| pool.at(sender, nonce)).collect();
            let cost = run.iter().fold(U256::ZERO, |sum, tx| sum + tx.cost);
            assert_eq!((pool.ready(sender), pool.ready_cost(sender)), (run.len() as u64, cost));
            let all = (0..64).filter(|nonce| pool.at(sender, *nonce).is_some()).count() as u64;
            total.pending += run.len() as u64;
            total.queued += all - run.len() as u64;
        }
        assert_eq!(pool.size(), total);
        assert!(pool.all().all(|w| pool.get(&w.tx.hash).is_some_and(|tx| tx.hash == w.tx.hash)));
    }

    #[test]
    fn the_executable_run_is_what_a_count_from_scratch_says() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let mut pool = Pool::default();
            let mut nonces = [0u64; 2];
            for _ in 0..200 {
                let index = rng.below(2);
                let sender = Address::repeat_byte(index as u8);
                let nonce = nonces[index] + rng.below(8) as u64;
                match rng.below(6) {
                    0 => {
                        let hash = pool.at(sender, nonce).map(|tx| tx.hash);
                        hash.and_then(|hash| pool.remove(&hash));
                    }
                    1 => {
                        // A block, or a reorg.
                        nonces[index] = (nonces[index] + 2).saturating_sub(rng.below(4) as u64).min(40);
                        pool.follow(|a| nonces[a[0] as usize], |_| true);
                    }
                    2 => pool.cap_queue(sender, 3),
                    _ => {
                        let tx = Tx::unsigned(sender, nonce, rng.next_u64().into());
                        pool.insert(Arc::new(tx), nonces[index]);
                    }
                }
                check(&pool, &nonces);
            }
        }
    }
}
