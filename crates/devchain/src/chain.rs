//! The chain itself: canonical blocks, the state at their head and the pool. It knows no clock but the configured one,
//! no network and no tasks; everything here is called under one lock.

use std::sync::Arc;

use alloy_eips::eip1559::BaseFeeParams;
use alloy_primitives::{B256, map::B256Map};

use crate::{
    block::{Block, Roots},
    config::Config,
    pool::Pool,
    rng::Rng,
    state::State,
};

/// So many blocks keep what was written of them; nobody asks for older ones often.
const TEXTS_KEPT: usize = 32;

#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) config: Arc<Config>,
    /// Canonical blocks; the index is the number.
    pub(crate) blocks: Vec<Arc<Block>>,
    pub(crate) by_hash: B256Map<u64>,
    /// Where a canonical transaction is: block and index.
    pub(crate) places: B256Map<(u64, usize)>,
    pub(crate) state: State,
    pub(crate) pool: Pool,
    /// Base fee of the next block only.
    pub(crate) base_fee_once: Option<u64>,
    /// Base fee of every block until taken away.
    pub(crate) base_fee_held: Option<u64>,
    /// How many reorgs there were; part of every block's hash.
    pub(crate) forks: u64,
    pub(crate) paused: bool,
    pub(crate) rng: Rng,
}

impl Chain {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        let header = Block::draft(0, B256::ZERO, (config.clock)(), config.gas_limit, config.base_fee);
        let genesis = Arc::new(Block::seal(
            header,
            B256::from(alloy_primitives::U256::from(config.chain_id)),
            0,
            Vec::new(),
            Roots::Real,
        ));
        Self {
            by_hash: B256Map::from_iter([(genesis.hash, 0)]),
            blocks: vec![genesis],
            places: B256Map::default(),
            state: State::new(&config.funded, config.history),
            pool: Pool::default(),
            base_fee_once: Some(config.base_fee),
            base_fee_held: None,
            forks: 0,
            paused: false,
            // Another stream than the faults', which start from the seed itself.
            rng: Rng::new(config.seed ^ 0x5eed),
            config,
        }
    }

    pub(crate) fn head(&self) -> u64 {
        self.blocks.len() as u64 - 1
    }

    /// There is always a genesis block, so the slice is never empty.
    pub(crate) fn head_block(&self) -> &Arc<Block> {
        &self.blocks[self.blocks.len() - 1]
    }

    pub(crate) fn next_base_fee(&self) -> u64 {
        self.base_fee_held.or(self.base_fee_once).unwrap_or_else(|| {
            let header = &self.head_block().header;
            header.next_block_base_fee(BaseFeeParams::ethereum()).unwrap_or_default()
        })
    }

    /// Makes a sealed block the head.
    pub(crate) fn append(&mut self, block: Block) -> Arc<Block> {
        let block = Arc::new(block);
        let number = block.header.number;
        self.by_hash.insert(block.hash, number);
        for (index, mined) in block.txs.iter().enumerate() {
            self.places.insert(mined.tx.hash, (number, index));
        }
        self.blocks.push(block.clone());
        if let Some(old) = self.blocks.len().checked_sub(TEXTS_KEPT).and_then(|at| self.blocks.get(at)) {
            old.with_hashes.forget();
            old.receipts.forget();
        }
        self.state.seal();
        self.follow();
        block
    }

    /// Brings the pool in line with the state.
    pub(crate) fn follow(&mut self) {
        let (state, execute) = (&self.state, self.config.execute);
        self.pool.follow(|a| state.nonce(a), |tx| !execute || state.balance(tx.sender) >= tx.cost);
    }
}
