//! What is known of a chain: blocks, receipts and the view that the watcher makes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::B256;
use serde::{Deserialize, Serialize};

use crate::fees::FeeQuote;
use crate::request::Finality;
use crate::{Account, Gas, Millis, Price, Slot, TxHash, Wei};

/// A block by number and hash; the hash decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockRef {
    pub number: u64,
    pub hash: B256,
}

/// As much of a header as the watcher needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    pub at: BlockRef,
    pub parent: B256,
    pub timestamp: Millis,
    pub gas_limit: Gas,
    /// Absent before EIP-1559.
    pub base_fee: Option<Price>,
}

/// What the chain made of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    pub hash: TxHash,
    pub block: BlockRef,
    pub index: u64,
    pub success: bool,
    pub gas_used: Gas,
    pub gas_price: Price,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contract: Option<Account>,
}

/// May slots be handed out on this chain?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainStatus {
    Live,
    /// The endpoints show another chain than the one these lanes were used on.
    Changed,
}

/// How many blocks below the head slots are watched at most, also where `finalized` stands still.
pub const DEEPEST_WATCH: u64 = 1_024;

/// One consistent picture of a chain at one head. Shared by all lanes of the chain, replaced as a whole.
#[derive(Debug, Clone)]
pub struct ChainView {
    pub status: ChainStatus,
    pub head: Block,
    /// When the head last changed, by our clock.
    pub head_since: Millis,
    /// Hashes of the newest canonical blocks, oldest first, without holes.
    pub recent: Arc<BTreeMap<u64, B256>>,
    pub safe: Option<u64>,
    pub finalized: Option<u64>,
    pub fees: FeeQuote,
    /// Each account's count, at the head's hash or as it was when it was last asked for on this fork.
    pub counts: BTreeMap<Account, Slot>,
    /// Each account's balance, of the same block as its count, as far as it is known.
    pub balances: BTreeMap<Account, Wei>,
    /// Accounts whose code is a delegation (EIP-7702), as far as it is known.
    pub delegated: BTreeSet<Account>,
}

/// Where a block stands in a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Part of the chain.
    Canonical,
    /// Another block has its number.
    Orphaned,
    /// Above the head: this view cannot say.
    Ahead,
    /// Below the recent ones: this view alone cannot say.
    Older,
}

impl ChainView {
    /// Is this block part of the chain?
    #[must_use]
    pub fn standing(&self, block: &BlockRef) -> Standing {
        if block.number > self.head.at.number {
            return Standing::Ahead;
        }
        match self.recent.get(&block.number) {
            Some(hash) if *hash == block.hash => Standing::Canonical,
            Some(_) => Standing::Orphaned,
            None => Standing::Older,
        }
    }

    /// The block is among the recent ones: what was built on it still stands.
    #[must_use]
    pub fn shows(&self, block: &BlockRef) -> bool {
        self.recent.get(&block.number) == Some(&block.hash)
    }

    /// Blocks on top of the given one.
    #[must_use]
    pub fn confirmations(&self, block: &BlockRef) -> u64 {
        self.head.at.number.saturating_sub(block.number)
    }

    /// Has this block reached the wanted finality? One below the recent ones is taken to be part of the chain: who asks
    /// has checked it when it was seen.
    #[must_use]
    pub fn is_final(&self, block: &BlockRef, finality: Finality) -> bool {
        matches!(self.standing(block), Standing::Canonical | Standing::Older)
            && match finality {
                Finality::Blocks(depth) => self.confirmations(block) >= depth,
                Finality::Safe => self.safe.is_some_and(|safe| block.number <= safe),
                Finality::Finalized => self.finalized.is_some_and(|done| block.number <= done),
            }
    }

    /// The newest block that nobody needs to look at again: the chain's own `finalized`, or, where it has none or it
    /// has stopped, one that lies deeper than any reorganisation that is still answered by sending again.
    #[must_use]
    pub fn settled_number(&self, depth: u64) -> Option<u64> {
        let head = self.head.at.number;
        match self.finalized {
            Some(finalized) => Some(finalized.max(head.saturating_sub(DEEPEST_WATCH))),
            None => head.checked_sub(depth),
        }
    }
}
