//! Everything a caller can do to a chain that runs. The same calls exist as JSON-RPC methods (`rpc::control`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::{Address, B256, Bytes, U256};
use tokio::sync::{Notify, broadcast};

use crate::{
    audit::{self, Landed, Stats},
    block::Block,
    chain::Chain,
    config::{Config, Mining},
    faults::{FaultCounts, Faults, Rule, RuleId},
    mine::Fill,
    pool::PoolSize,
    reject::Reject,
    reorg::{Removed, TooDeep},
    traffic::{Counter, Traffic},
    tx::Tx,
};

/// New heads a slow subscriber may fall behind before it misses some.
const HEADS_BUFFER: usize = 1024;

/// A handle to the chain inside; clones share it.
#[derive(Clone, Debug)]
pub struct Control {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    chain: Mutex<Chain>,
    faults: Mutex<Faults>,
    traffic: Counter,
    heads: broadcast::Sender<Arc<Block>>,
    /// Something executable came into the pool.
    wake: Notify,
    config: Arc<Config>,
}

impl Control {
    pub(crate) fn new(config: Config) -> Self {
        let config = Arc::new(config);
        let shared = Shared {
            chain: Mutex::new(Chain::new(config.clone())),
            faults: Mutex::new(Faults::new(config.seed)),
            traffic: Counter::default(),
            heads: broadcast::channel(HEADS_BUFFER).0,
            wake: Notify::new(),
            config,
        };
        Self { shared: Arc::new(shared) }
    }

    // A panic under the lock is a bug elsewhere; the data is still the best there is.
    pub(crate) fn chain(&self) -> MutexGuard<'_, Chain> {
        self.shared.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn traffic(&self) -> &Counter {
        &self.shared.traffic
    }

    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    pub(crate) fn heads(&self) -> broadcast::Receiver<Arc<Block>> {
        self.shared.heads.subscribe()
    }

    pub(crate) async fn woken(&self) {
        self.shared.wake.notified().await;
    }

    fn announce(&self, blocks: &[Arc<Block>]) {
        for block in blocks {
            // Fails only when nobody listens.
            self.shared.heads.send(block.clone()).ok();
        }
    }

    fn wake_miner(&self) {
        if self.config().mining == Mining::Instant {
            self.shared.wake.notify_one();
        }
    }

    /// Hands a raw signed transaction to the pool, as `eth_sendRawTransaction` does.
    pub fn send_raw(&self, raw: &[u8]) -> Result<B256, Reject> {
        let tx = Tx::decode(raw)?;
        let hash = tx.hash;
        self.chain().admit(tx)?;
        self.wake_miner();
        Ok(hash)
    }

    /// As `send_raw`, but the transaction is out of the pool again before anybody else can look.
    pub(crate) fn send_and_evict(&self, raw: &[u8]) -> Result<B256, Reject> {
        let tx = Tx::decode(raw)?;
        let hash = tx.hash;
        let mut chain = self.chain();
        chain.admit(tx)?;
        chain.pool.remove(&hash);
        Ok(hash)
    }

    /// Makes `blocks` blocks now, also while mining is stopped; returns the head's number.
    pub fn mine(&self, blocks: u64) -> u64 {
        let mut chain = self.chain();
        for _ in 0..blocks {
            let block = chain.mine(Fill::FromPool);
            self.announce(&[block]);
        }
        chain.head()
    }

    /// One block by the miner's own will: none while stopped, and no empty one in instant mode.
    pub(crate) fn mine_by_schedule(&self) {
        let mut chain = self.chain();
        let idle = self.config().mining == Mining::Instant && chain.pool.size().pending == 0;
        if !chain.paused && !idle {
            let block = chain.mine(Fill::FromPool);
            self.announce(&[block]);
        }
    }

    pub fn stop_mining(&self) {
        self.chain().paused = true;
    }

    pub fn resume_mining(&self) {
        self.chain().paused = false;
        self.wake_miner();
    }

    /// Base fee of the next block, in wei; from there it follows the usual rule.
    pub fn set_next_base_fee(&self, wei: u64) {
        self.chain().base_fee_once = Some(wei);
    }

    /// Base fee of every block until called with `None`.
    pub fn hold_base_fee(&self, wei: Option<u64>) {
        let mut chain = self.chain();
        chain.base_fee_held = wei;
        chain.base_fee_once = None;
    }

    /// Base fee that the next block will have.
    pub fn next_base_fee(&self) -> u64 {
        self.chain().next_base_fee()
    }

    /// Throws a transaction out of the pool; false if it was not there.
    pub fn evict(&self, hash: B256) -> bool {
        self.chain().pool.remove(&hash).is_some()
    }

    /// Empties the pool; returns how many were thrown out.
    pub fn evict_all(&self) -> usize {
        self.chain().pool.clear()
    }

    /// Throws out up to `count` transactions by lot.
    pub fn evict_random(&self, count: usize) -> Vec<B256> {
        let mut chain = self.chain();
        // The map's order differs between runs; the lot must not.
        let mut hashes: Vec<B256> = chain.pool.hashes().collect();
        hashes.sort_unstable();
        let mut evicted = Vec::new();
        for _ in 0..count.min(hashes.len()) {
            let index = chain.rng.below(hashes.len());
            let hash = hashes.swap_remove(index);
            chain.pool.remove(&hash);
            evicted.push(hash);
        }
        evicted
    }

    /// Replaces the last `depth` blocks by `depth + 1` others; returns the new head's number.
    pub fn reorg(&self, depth: u64, removed: Removed) -> Result<u64, TooDeep> {
        let mut chain = self.chain();
        let blocks = chain.reorg(depth, removed)?;
        self.announce(&blocks);
        let head = chain.head();
        drop(chain);
        self.wake_miner();
        Ok(head)
    }

    /// Writes a balance into the newest state. A reorg below the next block takes it back.
    pub fn set_balance(&self, address: Address, wei: U256) {
        self.chain().state.set_balance(address, wei);
    }

    /// Writes code into the newest state. A reorg below the next block takes it back.
    pub fn set_code(&self, address: Address, code: Bytes) {
        self.chain().state.set_code(address, code);
    }

    pub fn add_fault(&self, rule: Rule) -> RuleId {
        self.faults().add(rule)
    }

    /// False if there was no such rule.
    pub fn remove_fault(&self, id: RuleId) -> bool {
        self.faults().remove(id)
    }

    /// Takes all rules away; the counts stay.
    pub fn clear_faults(&self) {
        self.faults().clear();
    }

    pub fn fault_rules(&self) -> Vec<(RuleId, Rule)> {
        self.faults().rules()
    }

    pub fn fault_counts(&self) -> FaultCounts {
        self.faults().counts()
    }

    /// All transactions in canonical blocks from `from_block` on, as of now.
    pub fn landed(&self, from_block: u64) -> impl Iterator<Item = Landed> + use<> {
        let blocks = self.chain().blocks.iter().skip(from_block as usize).cloned().collect();
        audit::landed(blocks)
    }

    /// Number of transactions in canonical blocks.
    pub fn tx_count(&self) -> u64 {
        self.chain().places.len() as u64
    }

    pub fn pool_size(&self) -> PoolSize {
        self.chain().pool.size()
    }

    /// Number of the newest block.
    pub fn head(&self) -> u64 {
        self.chain().head()
    }

    pub fn stats(&self) -> Stats {
        let chain = self.chain();
        Stats {
            head: chain.head(),
            tx_count: chain.places.len() as u64,
            pool: chain.pool.size(),
            reorgs: chain.forks,
        }
    }

    /// What was asked of the chain since it was started.
    pub fn asked(&self) -> Traffic {
        self.traffic().read()
    }
}
