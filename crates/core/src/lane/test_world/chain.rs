//! A chain with one account that matters: blocks, a pool, reorgs and strangers who use the key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::{B256, U256, keccak256};

use super::{LANE, seal};
use crate::attempt::{Draft, Sealed};
use crate::fees::FeeQuote;
use crate::outcome::SendOutcome;
use crate::view::{AccountView, Block, BlockRef, ChainStatus, ChainView, Look, Receipt, Tags};
use crate::witness::{SecondWord, Witnessed};
use crate::{Gas, Millis, Price, Slot, TxHash, TxId};

/// A transaction in a block; a stranger's has no draft.
#[derive(Debug, Clone)]
pub(in super::super) struct Mined {
    pub(in super::super) slot: Slot,
    pub(in super::super) hash: TxHash,
    pub(in super::super) draft: Option<Draft>,
    pub(in super::super) success: bool,
}

impl Mined {
    /// How many it uses up: an authorization by the sender itself is one more.
    fn slots(&self) -> u64 {
        let own =
            |draft: &Draft| draft.call.authorization_list.iter().filter(|item| item.signed.is_none()).count();
        1 + self.draft.as_ref().map_or(0, own) as u64
    }
}

#[derive(Debug, Clone)]
pub(in super::super) struct ModelBlock {
    pub(in super::super) at: BlockRef,
    parent: B256,
    pub(in super::super) timestamp: Millis,
    pub(in super::super) txs: Vec<Mined>,
}

#[derive(Debug)]
pub(in super::super) struct ModelChain {
    /// By number.
    pub(in super::super) blocks: Vec<ModelBlock>,
    pub(in super::super) first: Slot,
    pub(in super::super) pool: BTreeMap<Slot, TxHash>,
    /// What strangers did in the slots that they took, where a test says so.
    pub(in super::super) takers: BTreeMap<Slot, crate::ports::chain::Taker>,
    /// Everything that was ever signed.
    signed: BTreeMap<TxHash, Draft>,
    pub(in super::super) base_fee: Price,
    /// Blocks on top that make one final for callers.
    finality: u64,
    /// As many blocks of what is final for callers the chain may still take back; it calls those below `finalized`.
    pub(in super::super) deep: u64,
    settled: u64,
    salt: u64,
    head_since: Millis,
    /// How far the lane's clock is ahead of the chain's.
    pub(in super::super) behind_ms: i64,
    /// How many hashes a view shows.
    recent: u64,
    /// This node refuses what is under the base fee.
    pub(in super::super) refuses_below_base: bool,
    /// This node keeps nothing above a gap.
    pub(in super::super) refuses_gaps: bool,
    /// What views show of the account's balance.
    pub(in super::super) balance: Option<crate::Wei>,
    pub(in super::super) data_fee: Option<crate::fees::DataFee>,
    /// What receipts say of it.
    pub(in super::super) data_fee_told: Option<crate::Wei>,
    /// The account's code is a delegation.
    pub(in super::super) delegated: bool,
    /// What an estimate says.
    pub(in super::super) gas: Gas,
    /// The last look that has begun.
    pub(in super::super) looks: Look,
    /// What several endpoints have shown; none: there is one.
    pub(in super::super) witnessed: Option<Witnessed>,
    /// Words of a second endpoint on receipts; none: the same.
    pub(in super::super) second: Option<SecondWord>,
    /// A second endpoint says the same count.
    pub(in super::super) agreed: bool,
    pub(in super::super) tags: Tags,
}

impl ModelChain {
    pub(in super::super) fn new(first: Slot, finality: u64, now: Millis) -> Self {
        let mut chain = Self {
            blocks: Vec::new(),
            first,
            pool: BTreeMap::new(),
            takers: BTreeMap::new(),
            signed: BTreeMap::new(),
            base_fee: Price::gwei(1),
            finality,
            deep: 0,
            settled: 0,
            salt: 0,
            head_since: now,
            behind_ms: 0,
            recent: finality + 3,
            refuses_below_base: false,
            refuses_gaps: false,
            balance: None,
            data_fee: None,
            data_fee_told: None,
            gas: Gas(40_000),
            looks: Look::default(),
            delegated: false,
            witnessed: None,
            second: None,
            agreed: true,
            tags: Tags::default(),
        };
        chain.push_block(Vec::new(), now);
        chain
    }

    pub(in super::super) fn know(&mut self, draft: &Draft, sealed: &Sealed) {
        self.signed.insert(sealed.hash, draft.clone());
    }

    pub(in super::super) fn head(&self) -> &ModelBlock {
        self.blocks.last().expect("there is a first block")
    }

    fn push_block(&mut self, txs: Vec<Mined>, now: Millis) {
        self.salt += 1;
        let number = self.blocks.len() as u64;
        let hash = keccak256(format!("block {number} {}", self.salt));
        let parent = self.blocks.last().map_or(B256::ZERO, |block| block.at.hash);
        let time = Millis(now.0.saturating_add_signed(-self.behind_ms));
        let timestamp = self.blocks.last().map_or(time, |block| time.max(Millis(block.timestamp.0 + 1)));
        self.blocks.push(ModelBlock { at: BlockRef { number, hash }, parent, timestamp, txs });
        self.head_since = now;
        self.settled = self.settled.max(number.saturating_sub(self.finality));
        self.check_content();
    }

    /// The promise itself: nothing that was asked for once is in the chain twice.
    fn check_content(&self) {
        let mut seen: BTreeSet<TxId> = BTreeSet::new();
        let all = self.blocks.iter().flat_map(|block| &block.txs);
        for draft in all.filter_map(|mined| mined.draft.as_ref()).filter(|draft| !draft.no_op) {
            let id = draft.tx.expect("content belongs to a transaction");
            assert!(seen.insert(id), "{id} landed twice: {:#?}", self.blocks);
        }
    }

    pub(in super::super) fn count_at(&self, number: u64) -> Slot {
        let upto = self.blocks.iter().take(number as usize + 1);
        Slot(self.first.0 + upto.flat_map(|block| &block.txs).map(Mined::slots).sum::<u64>())
    }

    pub(in super::super) fn count(&self) -> Slot {
        self.count_at(self.head().at.number)
    }

    /// A block of up to `most` transactions from the pool.
    pub(in super::super) fn mine(&mut self, most: usize, success: bool, now: Millis) {
        let mut txs = Vec::new();
        let mut slot = self.count();
        while txs.len() < most
            && let Some(hash) = self.pool.get(&slot).copied()
            && self.signed[&hash].fees.cap() >= self.base_fee
            && self.can_pay(&self.signed[&hash])
        {
            let draft = self.signed[&hash].clone();
            let mined = Mined { slot, hash, success: success || draft.no_op, draft: Some(draft) };
            self.pool.remove(&slot);
            slot = Slot(slot.0 + mined.slots());
            txs.push(mined);
        }
        self.push_block(txs, now);
    }

    /// A block in which somebody else used the key.
    pub(in super::super) fn mine_foreign(&mut self, now: Millis) {
        let slot = self.count();
        self.pool.remove(&slot);
        let hash = TxHash(keccak256(format!("stranger {} {}", slot, self.salt)));
        self.push_block(vec![Mined { slot, hash, draft: None, success: true }], now);
    }

    /// What the chain never takes back.
    pub(in super::super) fn finalized(&self) -> u64 {
        self.settled.saturating_sub(self.deep)
    }

    /// Other blocks take the place of up to `depth` that were not final.
    pub(in super::super) fn reorg(&mut self, depth: u64, keep: bool, refill: u64, now: Millis) {
        let mut lost = Vec::new();
        for _ in 0..depth {
            if self.head().at.number <= self.finalized() {
                break;
            }
            lost.extend(self.blocks.pop().into_iter().flat_map(|block| block.txs));
        }
        for mined in lost.into_iter().filter(|mined| keep && mined.draft.is_some()) {
            self.pool.entry(mined.slot).or_insert(mined.hash);
        }
        self.head_since = now;
        for _ in 0..refill {
            self.push_block(Vec::new(), now);
        }
    }

    /// As [`Self::reorg`], and what was final is no obstacle.
    pub(in super::super) fn reorg_past_finality(&mut self, depth: u64, refill: u64, now: Millis) {
        self.settled = self.head().at.number.saturating_sub(depth);
        self.reorg(depth, false, refill, now);
    }

    pub(in super::super) fn evict(&mut self, nth: usize) {
        if let Some(slot) = self.pool.keys().nth(nth % self.pool.len().max(1)).copied() {
            self.pool.remove(&slot);
        }
    }

    /// What an honest node does with bytes, and says.
    pub(in super::super) fn send(&mut self, sealed: &Sealed) -> SendOutcome {
        let draft = self.signed.get(&sealed.hash).expect("bytes are signed before they are sent");
        let (slot, fees) = (draft.slot, draft.fees);
        if slot < self.count() {
            return SendOutcome::NonceTooLow;
        }
        if self.refuses_below_base && fees.cap() < self.base_fee {
            return SendOutcome::FeeBelowBase;
        }
        let gap = (self.count().0..slot.0).any(|lower| !self.pool.contains_key(&Slot(lower)));
        if self.refuses_gaps && gap {
            return SendOutcome::NonceTooHigh;
        }
        let can_pay = self.can_pay(draft);
        match self.pool.get(&slot) {
            Some(hash) if *hash == sealed.hash => return SendOutcome::AlreadyKnown,
            _ if !can_pay => return SendOutcome::InsufficientFunds,
            Some(hash) => {
                let old = self.signed[hash].fees;
                let dear = |new: Price, old: Price| new.0 * 100 >= old.0 * 110;
                if !dear(fees.cap(), old.cap()) || !dear(fees.tip(), old.tip()) {
                    return SendOutcome::ReplacementUnderpriced;
                }
            }
            None => {}
        }
        self.pool.insert(slot, sealed.hash);
        SendOutcome::Accepted
    }

    /// What cannot be paid any more is dropped from the pool.
    pub(in super::super) fn set_balance(&mut self, balance: crate::Wei) {
        self.balance = Some(balance);
        let unpaid: Vec<Slot> = self
            .pool
            .iter()
            .filter(|(_, hash)| !self.can_pay(&self.signed[*hash]))
            .map(|(slot, _)| *slot)
            .collect();
        for slot in unpaid {
            self.pool.remove(&slot);
        }
    }

    /// The whole balance is enough for it, at worst.
    fn can_pay(&self, draft: &Draft) -> bool {
        let data = self.data_fee.map_or(U256::ZERO, |fee| fee.of(seal(draft).raw.len()));
        let cost = draft.fees.cap().cost(draft.gas).0.saturating_add(draft.call.value.0).saturating_add(data);
        self.balance.is_none_or(|balance| cost <= balance.0)
    }

    /// Who has the slot in the chain as it is.
    pub(in super::super) fn winner(&self, slot: Slot) -> Option<(&ModelBlock, &Mined)> {
        self.blocks.iter().find_map(|block| Some((block, block.txs.iter().find(|mined| mined.slot == slot)?)))
    }

    pub(in super::super) fn is_final(&self, block: &ModelBlock) -> bool {
        block.at.number <= self.settled
    }

    fn receipt_of(&self, block: &ModelBlock, index: usize) -> Receipt {
        let mined = &block.txs[index];
        Receipt {
            hash: mined.hash,
            block: block.at,
            index: index as u64,
            success: mined.success,
            gas_used: Gas(21_000),
            gas_price: Price::gwei(1),
            data_fee: self.data_fee_told,
            contract: None,
        }
    }

    pub(in super::super) fn receipts(&self, hashes: &[TxHash]) -> Vec<Receipt> {
        self.blocks
            .iter()
            .flat_map(|block| (0..block.txs.len()).map(move |index| self.receipt_of(block, index)))
            .filter(|receipt| hashes.contains(&receipt.hash))
            .collect()
    }

    /// In the pool or in a block.
    pub(in super::super) fn shows(&self, hash: &TxHash) -> bool {
        self.pool.values().any(|pooled| pooled == hash) || !self.receipts(&[*hash]).is_empty()
    }

    /// The chain as a node sees it that is `lag` blocks behind, though never behind a final block: such a node is not
    /// used.
    pub(in super::super) fn view(&self, lag: u64) -> ChainView {
        let head = self.head().at.number;
        let number = head.saturating_sub(lag).max(self.settled.min(head));
        let head = &self.blocks[number as usize];
        let recent = self.blocks[..=number as usize].iter().rev().take(self.recent as usize);
        ChainView {
            status: ChainStatus::Live,
            head: Block {
                at: head.at,
                parent: head.parent,
                timestamp: head.timestamp,
                gas_limit: Gas(30_000_000),
                base_fee: Some(self.base_fee),
            },
            head_since: self.head_since,
            recent: Arc::new(recent.map(|block| (block.at.number, block.at.hash)).collect()),
            witnessed: self.witnessed.clone().unwrap_or(Witnessed::by_one(number)),
            safe: None,
            finalized: (self.deep > 0).then(|| self.finalized()),
            tags: self.tags,
            fees: FeeQuote {
                base_fee: Some(self.base_fee),
                slow: Price::gwei(1),
                normal: Price::gwei(2),
                fast: Price::gwei(3),
                data_fee: self.data_fee,
            },
            accounts: [(LANE.signer, self.account_at(number))].into(),
        }
    }

    /// The account at a block.
    fn account_at(&self, number: u64) -> AccountView {
        AccountView {
            count: self.count_at(number),
            balance: self.balance,
            delegated: self.delegated,
            at: self.blocks[number as usize].at,
            read: self.looks,
            agreed: self.agreed,
        }
    }

    /// What endpoints of another chain show.
    pub(in super::super) fn other_view(&self, now: Millis) -> ChainView {
        let hash = keccak256("another chain");
        let number = self.head().at.number + 1_000;
        ChainView {
            status: ChainStatus::Changed,
            head: Block {
                at: BlockRef { number, hash },
                parent: hash,
                timestamp: Millis(now.0 + 1_000_000_000),
                gas_limit: Gas(30_000_000),
                base_fee: Some(Price::gwei(1)),
            },
            head_since: now,
            recent: Arc::new((number - 3..=number).map(|number| (number, hash)).collect()),
            accounts: [(LANE.signer, AccountView { count: Slot(0), balance: None, ..self.account_at(0) })]
                .into(),
            ..self.view(0)
        }
    }
}
