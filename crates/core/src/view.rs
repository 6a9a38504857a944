//! What is known of a chain: blocks, receipts and the view that the watcher makes of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use serde::{Deserialize, Serialize};

use crate::fees::FeeQuote;
use crate::request::Finality;
use crate::witness::Witnessed;
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
    /// What a rollup charged on top for the bytes on its parent chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_fee: Option<Wei>,
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

/// The number of a look at a chain, which begins with asking for the newest block. Later looks have higher numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Look(pub u64);

/// An account as it was at one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountView {
    pub count: Slot,
    /// Of the same block, if it could be read.
    pub balance: Option<Wei>,
    /// Its code is a delegation (EIP-7702), as far as is known.
    pub delegated: bool,
    /// The head at which the count and the balance were read.
    pub at: BlockRef,
    /// The look that read them.
    pub read: Look,
    /// Two endpoints gave the count, or one is all there is. Only asked where it is to be a lane's first.
    pub agreed: bool,
}

/// Does a chain say which of its blocks are safe, or finalized?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tag {
    /// Nobody could say since the start.
    #[default]
    Unknown,
    /// Whoever answered has no such block.
    Lacking,
    /// One was seen.
    Known,
}

impl Tag {
    /// After an answer; none where nobody gave one. What was seen once is there, also if it is not shown this time.
    #[must_use]
    pub fn after(self, answer: Option<bool>) -> Self {
        match (self, answer) {
            (_, Some(true)) => Self::Known,
            (Self::Unknown, Some(false)) => Self::Lacking,
            (known, _) => known,
        }
    }
}

/// What a chain says of its own blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tags {
    pub safe: Tag,
    pub finalized: Tag,
}

impl Tags {
    /// Is there such a finality? Depth there always is.
    #[must_use]
    pub fn of(self, finality: Finality) -> Tag {
        match finality {
            Finality::Blocks(_) => Tag::Known,
            Finality::Safe => self.safe,
            Finality::Finalized => self.finalized,
        }
    }
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
    /// How far up all this is known to two endpoints: what becomes final is counted from there, not from the head.
    pub witnessed: Witnessed,
    pub safe: Option<u64>,
    pub finalized: Option<u64>,
    /// Whether there are such blocks at all.
    pub tags: Tags,
    pub fees: FeeQuote,
    /// Each account, at the head or as it was when it was last asked for on this fork.
    pub accounts: BTreeMap<Account, AccountView>,
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

/// A head that is older than this is not the present: the chain stands still, or its endpoints have to catch up.
pub const PRESENT: Duration = Duration::from_secs(120);

impl ChainView {
    /// Whether the head is from long ago, by this clock. A clock that is ahead calls every head old, which costs a person's word and no more.
    #[must_use]
    pub fn is_old(&self, now: Millis) -> bool {
        self.head.timestamp.after(PRESENT) < now
    }

    /// Whether what is shown is the present, by this clock. By a clock that is behind, a head from long ago would be of today or of
    /// tomorrow: one that is ahead of the clock shows nothing of the kind.
    #[must_use]
    pub fn is_present(&self, now: Millis) -> bool {
        self.time().is_some_and(|time| time.after(PRESENT) >= now && time <= now.after(PRESENT))
    }

    /// The account's count, also if it is of an older head.
    #[must_use]
    pub fn count(&self, account: &Account) -> Option<Slot> {
        self.accounts.get(account).map(|account| account.count)
    }

    /// The account's balance, also if it is of an older head.
    #[must_use]
    pub fn balance(&self, account: &Account) -> Option<Wei> {
        self.accounts.get(account)?.balance
    }

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

    /// The time by which deadlines and days are judged: that of the head where there is one endpoint, else one that two have reached. None
    /// while that is not known.
    #[must_use]
    pub fn time(&self) -> Option<Millis> {
        if self.witnessed.several { self.witnessed.time } else { Some(self.head.timestamp) }
    }

    /// The block from which depth is counted where it makes something final: the newest that two endpoints have shown, or
    /// the head where one endpoint's word is to do.
    #[must_use]
    pub fn counted_from(&self) -> Option<u64> {
        if self.witnessed.alone { Some(self.head.at.number) } else { self.witnessed.by_two }
    }

    /// Has this block reached the wanted finality? One below the recent ones is taken to be part of the chain: who asks
    /// has checked it when it was seen.
    #[must_use]
    pub fn is_final(&self, block: &BlockRef, finality: Finality) -> bool {
        matches!(self.standing(block), Standing::Canonical | Standing::Older)
            && self.final_number(finality).is_some_and(|newest| block.number <= newest)
    }

    /// The newest block that has this finality; none while the chain is too short for it, or has no such tag.
    #[must_use]
    pub fn final_number(&self, finality: Finality) -> Option<u64> {
        self.final_below(finality, self.counted_from()?)
    }

    /// The same as far as two endpoints say so. Time changes nothing about it.
    #[must_use]
    pub fn final_by_two(&self, finality: Finality) -> Option<u64> {
        let by_two = self.final_below(finality, self.witnessed.by_two?)?;
        let called = match finality {
            Finality::Safe if self.witnessed.several => self.witnessed.safe.by_two?,
            Finality::Finalized if self.witnessed.several => self.witnessed.finalized.by_two?,
            Finality::Blocks(_) | Finality::Safe | Finality::Finalized => by_two,
        };
        Some(by_two.min(called))
    }

    fn final_below(&self, finality: Finality, top: u64) -> Option<u64> {
        match finality {
            Finality::Blocks(depth) => top.checked_sub(depth),
            Finality::Safe => self.safe.map(|safe| safe.min(top)),
            Finality::Finalized => self.finalized.map(|finalized| finalized.min(top)),
        }
    }

    /// The chain calls blocks final, also if only one of several endpoints has said which: what it would not call so yet is not
    /// decided by depth then.
    fn calls_final(&self) -> bool {
        self.finalized.is_some() || (self.witnessed.several && self.tags.finalized == Tag::Known)
    }

    /// The newest block by which something may be decided that a reorganisation must not undo: that a slot is a stranger's,
    /// or that its transaction may have another one. It has each of these finalities, and the chain itself calls it final
    /// or, where the chain says no such thing, it lies at that depth; and two endpoints say so, where there are two.
    ///
    /// Whatever sends a transaction to another slot asks here, and only here: if two such decisions waited for different
    /// depths, what the shallower one gave up could come back and land beside what the deeper one still holds.
    #[must_use]
    pub fn settled_for(&self, finalities: impl IntoIterator<Item = Finality>, depth: u64) -> Option<u64> {
        let of_chain = match self.calls_final() {
            true => self.final_by_two(Finality::Finalized),
            false => self.final_by_two(Finality::Blocks(depth)),
        };
        let mut asked = finalities.into_iter().map(|finality| self.final_by_two(finality));
        asked.try_fold(of_chain?, |settled, number| Some(settled.min(number?)))
    }

    /// The newest block that nobody needs to look at again: the chain's own `finalized`, or, where it has none or it
    /// has stopped, one that lies deeper than any reorganisation that is still answered by sending again. What
    /// [`Self::settled_for`] decides by is never newer.
    #[must_use]
    pub fn settled_number(&self, depth: u64) -> Option<u64> {
        let top = self.counted_from()?;
        match self.finalized {
            Some(finalized) => Some(finalized.min(top).max(top.saturating_sub(DEEPEST_WATCH))),
            None if self.calls_final() => top.checked_sub(DEEPEST_WATCH),
            None => top.checked_sub(depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_that_was_stored_before_data_fees_were_reads_as_one_without() {
        let stored = r#"{"hash":"0x0101010101010101010101010101010101010101010101010101010101010101",
            "block":{"number":5,"hash":"0x0202020202020202020202020202020202020202020202020202020202020202"},
            "index":0,"success":true,"gasUsed":21000,"gasPrice":"9"}"#;
        let receipt: Receipt = serde_json::from_str(stored).unwrap();
        assert_eq!((receipt.gas_price, receipt.data_fee), (Price(9), None));
        let written = serde_json::to_value(&receipt).unwrap();
        assert_eq!(
            written,
            serde_json::from_str::<serde_json::Value>(stored).unwrap(),
            "nor does it cost a byte"
        );
        let told = Receipt { data_fee: Some(Wei(alloy_primitives::U256::from(7))), ..receipt };
        let again: Receipt = serde_json::from_value(serde_json::to_value(&told).unwrap()).unwrap();
        assert_eq!(again, told);
    }
}
