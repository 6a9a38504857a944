//! Blocks and receipts by hash, each asked for once.
//!
//! A look at the chain keeps nothing before all of it was read. Where every third answer is lost, a look at many blocks
//! would never end if it began anew each time, and the further behind the longer it would be. What a hash names never
//! changes, so what was read for a look that failed serves the next one.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::B256;
use landfall_core::ports::chain::{BlockAt, Chain, Error};
use landfall_core::view::{Block, BlockRef, Receipt};

#[cfg(test)]
mod tests;

/// The most blocks that are kept: more than one look reads.
const MOST: usize = 1_024;

pub(crate) struct Reader {
    chain: Arc<dyn Chain>,
    blocks: BTreeMap<B256, Block>,
    receipts: BTreeMap<B256, Vec<Receipt>>,
}

impl Reader {
    pub(crate) fn new(chain: Arc<dyn Chain>) -> Self {
        Self { chain, blocks: BTreeMap::new(), receipts: BTreeMap::new() }
    }

    /// A block; none if no endpoint knows it now, which is asked again.
    pub(crate) async fn block(&mut self, hash: B256) -> Result<Option<Block>, Error> {
        if let Some(block) = self.blocks.get(&hash) {
            return Ok(Some(*block));
        }
        let block = self.chain.block(BlockAt::Hash(hash)).await?;
        // An endpoint may show another block than the one asked for; that one is not kept under this name.
        if let Some(block) = block.filter(|block| block.at.hash == hash) {
            self.make_room();
            self.blocks.insert(hash, block);
        }
        Ok(block)
    }

    /// Every receipt of a block.
    pub(crate) async fn receipts(&mut self, at: &BlockRef) -> Result<&[Receipt], Error> {
        if !self.receipts.contains_key(&at.hash) {
            let receipts = self.chain.block_receipts(at).await?;
            self.make_room();
            self.receipts.insert(at.hash, receipts);
        }
        Ok(self.receipts.get(&at.hash).map_or(&[], Vec::as_slice))
    }

    /// A look has ended well: the next one begins above it.
    pub(crate) fn forget(&mut self) {
        self.blocks.clear();
        self.receipts.clear();
    }

    fn make_room(&mut self) {
        if self.blocks.len() + self.receipts.len() >= MOST {
            self.forget();
        }
    }
}
