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

/// So often in a row is a block asked for before the one above it is read anew.
const OFTEN_MISSING: u32 = 3;

pub(crate) struct Reader {
    chain: Arc<dyn Chain>,
    /// The block below another one that was missing last, and how often in a row.
    missing: Option<(B256, u32)>,
    blocks: BTreeMap<B256, Block>,
    receipts: BTreeMap<B256, Vec<Receipt>>,
}

impl Reader {
    pub(crate) fn new(chain: Arc<dyn Chain>) -> Self {
        Self { chain, missing: None, blocks: BTreeMap::new(), receipts: BTreeMap::new() }
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

    /// The block below another one; none if no endpoint knows it now. If that lasts, whoever showed the block above may have named
    /// one that does not exist: that block alone is read anew, perhaps from another endpoint. All others stay, since where answers are
    /// often missing a look that begins anew never ends.
    pub(crate) async fn parent(&mut self, of: &Block) -> Result<Option<Block>, Error> {
        let below = of.at.number.checked_sub(1);
        let parent = self.block(of.parent).await?.filter(|parent| Some(parent.at.number) == below);
        if parent.is_some() {
            return Ok(parent);
        }
        let times = match self.missing {
            Some((hash, times)) if hash == of.parent => times + 1,
            Some(_) | None => 1,
        };
        self.missing = Some((of.parent, times));
        if times >= OFTEN_MISSING {
            self.missing = None;
            self.blocks.remove(&of.at.hash);
        }
        Ok(None)
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
