//! Alarm: what must never happen, looked for in what the chain shows (E21). Nothing is decided here.
//!
//! | alarm | what it means |
//! |---|---|
//! | two winners | two attempts of one slot are in blocks that the chain has at once |
//! | won twice | two attempts that carry a transaction's content are, in different slots |
//!
//! Only blocks that the view shows count, so that a reorganisation raises none.

use std::collections::{BTreeMap, BTreeSet};

use super::Lane;
use crate::attempt::Attempt;
use crate::transaction::Transaction;
use crate::view::{BlockRef, Receipt, Standing};
use crate::{Slot, TxHash, TxId};

/// Something that must never happen has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Alarm {
    #[error("two of our attempts won nonce {slot}: {first} and {second}")]
    TwoWinners { slot: Slot, first: TxHash, second: TxHash },
    #[error("transaction {tx} won with nonce {one} and with nonce {other}")]
    WonTwice { tx: TxId, one: Slot, other: Slot },
}

/// The most that are remembered: the first says enough.
const MOST: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Alarms {
    raised: Vec<Alarm>,
    /// Receipts that have raised one.
    known: BTreeSet<TxHash>,
    /// Contents that landed in a slot that was not their transaction's any more.
    strays: BTreeMap<TxId, (Slot, BlockRef)>,
}

impl Lane {
    /// Alarms since the last time.
    pub fn take_alarms(&mut self) -> Vec<Alarm> {
        std::mem::take(&mut self.alarms.raised)
    }

    /// This receipt counts. Does another of ours have its slot, or has its transaction won elsewhere?
    pub(super) fn note_winner(&mut self, receipt: &Receipt) {
        let Some(slot) = self.by_hash.get(&receipt.hash).copied() else { return };
        if !self.is_canonical(&receipt.block) || self.alarms.known.contains(&receipt.hash) {
            return;
        }
        if let Some((first, _)) =
            self.winner(slot).filter(|(hash, block)| *hash != receipt.hash && self.is_canonical(block))
        {
            self.raise(receipt.hash, Alarm::TwoWinners { slot, first, second: receipt.hash });
        }
        let attempt = self.attempts(slot).iter().find(|attempt| attempt.hash == receipt.hash);
        let Some(tx) = attempt.filter(|attempt| !attempt.no_op).and_then(|attempt| attempt.tx) else {
            return;
        };
        let home = self.bound.get(&tx).or_else(|| self.reopened.get(&tx));
        if home.is_some_and(|home| home.status.slot == Some(slot)) {
            let stray = self.alarms.strays.get(&tx).copied();
            if let Some((other, _)) =
                stray.filter(|(other, block)| *other != slot && self.is_canonical(block))
            {
                self.raise(receipt.hash, Alarm::WonTwice { tx, one: other, other: slot });
            }
            return;
        }
        let home = home.or_else(|| self.kept.tx(tx)).filter(|home| home.status.slot != Some(slot));
        if let Some(one) = home.and_then(|home| self.won_at(home)) {
            self.raise(receipt.hash, Alarm::WonTwice { tx, one, other: slot });
        }
        if self.kept.winner(slot).is_none() && self.alarms.strays.len() < MOST {
            self.alarms.strays.insert(tx, (slot, receipt.block));
        }
    }

    /// The slot in which a transaction's content is in a block.
    fn won_at(&self, tx: &Transaction) -> Option<Slot> {
        let receipt = tx.status.receipt.as_ref().filter(|receipt| self.is_canonical(&receipt.block))?;
        let slot = tx.status.slot?;
        let attempt = self.attempts(slot).iter().find(|attempt| attempt.hash == receipt.hash)?;
        (!attempt.no_op).then_some(slot)
    }

    fn winner(&self, slot: Slot) -> Option<(TxHash, BlockRef)> {
        let mined = self.slots.get(&slot).and_then(|record| record.mined.as_ref());
        mined.map(|mined| (mined.hash, mined.block)).or_else(|| self.kept.winner(slot))
    }

    fn attempts(&self, slot: Slot) -> &[Attempt] {
        self.slots.get(&slot).map_or_else(|| self.kept.attempts(slot), |record| &record.attempts)
    }

    fn is_canonical(&self, block: &BlockRef) -> bool {
        self.live_view().is_some_and(|view| view.standing(block) == Standing::Canonical)
    }

    fn raise(&mut self, by: TxHash, alarm: Alarm) {
        if self.alarms.known.len() < MOST {
            self.alarms.known.insert(by);
            self.alarms.raised.push(alarm);
        }
    }
}
