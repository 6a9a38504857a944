//! The chain as a caller sees it. With a lag it ends some blocks before the real head: nothing later exists.

use std::sync::Arc;

use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256};
use revm::state::AccountInfo;

use super::{Call, RpcError};
use crate::{
    block::{Block, Mined},
    chain::Chain,
};

pub(crate) struct View<'a> {
    pub(crate) chain: &'a Chain,
    pub(crate) head: u64,
    pub(crate) lagging: bool,
}

impl<'a> View<'a> {
    pub(crate) fn new(chain: &'a Chain, call: &Call<'_>) -> Self {
        let head = chain.head().saturating_sub(call.plan.lag);
        Self { chain, head, lagging: call.plan.lag > 0 }
    }

    pub(crate) fn block(&self, number: u64) -> Option<&'a Arc<Block>> {
        self.chain.blocks.get(number as usize).filter(|_| number <= self.head)
    }

    pub(crate) fn head_block(&self) -> &'a Arc<Block> {
        &self.chain.blocks[self.head as usize]
    }

    pub(crate) fn number_of_tag(&self, tag: BlockNumberOrTag) -> u64 {
        let config = &self.chain.config;
        match tag {
            BlockNumberOrTag::Latest | BlockNumberOrTag::Pending => self.head,
            BlockNumberOrTag::Safe => self.head.saturating_sub(config.safe_depth),
            BlockNumberOrTag::Finalized => self.head.saturating_sub(config.finalized_depth),
            BlockNumberOrTag::Earliest => 0,
            BlockNumberOrTag::Number(number) => number,
        }
    }

    pub(crate) fn find(&self, id: BlockId) -> Option<&'a Arc<Block>> {
        let number = match id {
            BlockId::Hash(hash) => *self.chain.by_hash.get(&hash.block_hash)?,
            BlockId::Number(tag) => self.number_of_tag(tag),
        };
        self.block(number)
    }

    /// As `find`, where a missing block is an error.
    pub(crate) fn require(&self, id: BlockId) -> Result<&'a Arc<Block>, RpcError> {
        self.find(id).ok_or_else(|| match id {
            BlockId::Hash(_) => RpcError::server("header for hash not found"),
            BlockId::Number(_) => RpcError::server("header not found"),
        })
    }

    /// A canonical transaction that is not newer than the view.
    pub(crate) fn mined(&self, hash: &B256) -> Option<(&'a Arc<Block>, usize, &'a Mined)> {
        let (number, index) = *self.chain.places.get(hash)?;
        let block = self.block(number)?;
        Some((block, index, block.txs.get(index)?))
    }

    pub(crate) fn account(&self, block: u64, address: Address) -> Result<AccountInfo, RpcError> {
        Ok(self.chain.state.info_at(block, address)?.unwrap_or_default())
    }
}
