//! Keep: a slot that has ended is watched until the chain itself can no longer take it back (H5, F18).
//!
//! A transaction ends at the finality its caller asked for, which may be less than what the chain calls final. Until
//! that is reached its slot is set aside with every attempt. If the chain takes it back, the slot is open again:
//!
//! | what had ended | what happens in the open slot |
//! |---|---|
//! | a transaction, by one of its attempts | an alarm, and the bytes that won are sent again; what it ended as stays |
//! | a no-op of nobody's | it is sent again |
//! | a stranger had taken the slot | a no-op above every attempt of ours, since its transaction waits elsewhere or has ended |
//!
//! Slots set aside cost nothing while the chain goes on: only the lowest blocks are looked at.

use std::collections::{BTreeMap, BTreeSet};

use super::transactions::Transactions;
use super::{Lane, SlotRecord, SlotWork};
use crate::attempt::Attempt;
use crate::journal::Entry;
use crate::transaction::{Reason, ReasonCode, Transaction, TxState};
use crate::view::{BlockRef, Receipt, Standing};
use crate::{ContentVersion, Millis, Slot, TxHash, TxId};

/// A slot that has ended, in the block that ended it.
#[derive(Debug)]
pub(super) struct KeptSlot {
    block: BlockRef,
    /// The transaction that ended there; absent where a stranger or a no-op of nobody's took the slot.
    tx: Option<Transaction>,
    pub(super) attempts: Vec<Attempt>,
}

/// Slots that have ended and are not history yet.
#[derive(Debug, Default)]
pub(super) struct Kept {
    slots: BTreeMap<Slot, KeptSlot>,
    by_block: BTreeSet<(u64, Slot)>,
    /// The last view was too short to say of all of them whether they still stand.
    unsure: bool,
}

impl Kept {
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn contains(&self, slot: Slot) -> bool {
        self.slots.contains_key(&slot)
    }

    /// Whether one of these slots is still watched.
    pub(super) fn any_of(&self, slots: std::ops::Range<Slot>) -> bool {
        self.slots.range(slots).next().is_some()
    }

    /// The slot's winner and its block, where it was one of ours.
    pub(super) fn winner(&self, slot: Slot) -> Option<(TxHash, BlockRef)> {
        let kept = self.slots.get(&slot)?;
        Some((kept.tx.as_ref()?.status.won.as_ref()?.hash, kept.block))
    }

    pub(super) fn attempts(&self, slot: Slot) -> &[Attempt] {
        self.slots.get(&slot).map_or(&[], |kept| &kept.attempts)
    }

    /// A transaction that ended in one of these slots.
    pub(super) fn tx(&self, id: TxId) -> Option<&Transaction> {
        self.slots.values().filter_map(|kept| kept.tx.as_ref()).find(|tx| tx.id == id)
    }

    /// The highest that may be used again with the bytes there are, also if as the second of two.
    pub(super) fn highest(&self) -> Option<Slot> {
        let (slot, kept) = self.slots.last_key_value()?;
        let two = kept.tx.as_ref().is_some_and(Transaction::takes_two_slots);
        Some(if two { slot.next() } else { *slot })
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut KeptSlot> {
        self.slots.get_mut(&slot)
    }

    fn insert(&mut self, slot: Slot, kept: KeptSlot) {
        self.by_block.insert((kept.block.number, slot));
        self.slots.insert(slot, kept);
    }

    fn remove(&mut self, slot: Slot) -> Option<KeptSlot> {
        let kept = self.slots.remove(&slot)?;
        self.by_block.remove(&(kept.block.number, slot));
        Some(kept)
    }
}

impl Lane {
    /// Transactions that have ended in slots that are not history.
    pub(super) fn load_ended(&mut self, ended: Vec<Transaction>) {
        for tx in ended {
            let (Some(slot), Some(_)) = (tx.status.slot, &tx.status.won) else { continue };
            match &tx.status.receipt {
                Some(receipt) => {
                    let block = receipt.block;
                    self.kept.insert(slot, KeptSlot { block, tx: Some(tx), attempts: Vec::new() });
                }
                None => {
                    self.slots.entry(slot).tx = Some(tx.id);
                    self.reopened.insert(tx);
                }
            }
        }
    }

    /// The newest block that the chain will not take back any more.
    pub(super) fn settled(&self) -> Option<u64> {
        self.live_view().and_then(|view| view.settled_number(self.settings.watch_depth))
    }

    /// The slot has ended in that block, with this transaction or with none.
    pub(super) fn keep(&mut self, slot: Slot, block: BlockRef, tx: Option<Transaction>) {
        let Some(record) = self.slots.remove(&slot) else { return };
        self.unclaimed.retain(|_, of| *of != slot);
        self.changes.last_hints(slot, &record.attempts);
        self.kept.insert(slot, KeptSlot { block, tx, attempts: record.attempts });
        if self.planted_forget() || self.settled().is_some_and(|settled| block.number <= settled) {
            self.close(slot);
        }
    }

    /// The slot is history: its attempts are watched no more.
    fn close(&mut self, slot: Slot) {
        let Some(kept) = self.kept.remove(slot) else { return };
        for attempt in &kept.attempts {
            self.by_hash.remove(&attempt.hash);
            self.closed_hashes.push(attempt.hash);
        }
        self.changes.close(slot, &kept.attempts);
        self.row.history = self.row.history.max(Some(slot));
    }

    /// Closes what is settled and opens again what the chain took back. `goes_on` says that the view is built on the
    /// one before, so that nothing can have been.
    pub(super) fn watch_kept(&mut self, goes_on: bool, now: Millis) {
        if !goes_on || self.kept.unsure {
            self.reopen_orphans(now);
        }
        let Some(settled) = self.settled() else { return };
        while let Some((_, slot)) = self.kept.by_block.first().copied().filter(|(block, _)| *block <= settled)
        {
            self.close(slot);
        }
    }

    fn reopen_orphans(&mut self, now: Millis) {
        let Some(view) = self.live_view().filter(|_| !self.planted_no_hash()) else { return };
        let count = self.chain_count();
        let ahead = |kept: &KeptSlot| view.standing(&kept.block) == Standing::Ahead;
        self.kept.unsure = self.kept.slots.values().any(ahead);
        let open_again: Vec<(Slot, bool)> = self
            .kept
            .slots
            .iter()
            .filter_map(|(slot, kept)| match view.standing(&kept.block) {
                Standing::Canonical | Standing::Ahead => None,
                Standing::Orphaned => Some((*slot, true)),
                // This view cannot say, unless the count does: the slot is looked up again before it counts.
                Standing::Older => Some((*slot, count.is_some_and(|count| *slot >= count))),
            })
            .collect();
        for (slot, gone) in open_again {
            self.reopen(slot, gone, now);
        }
    }

    fn reopen(&mut self, slot: Slot, gone: bool, now: Millis) {
        let Some(KeptSlot { block, tx, attempts }) = self.kept.remove(slot) else { return };
        let work = SlotWork { send_at: now, look_at: now, ..SlotWork::default() };
        let id = tx.as_ref().map(|tx| tx.id);
        self.slots.insert(slot, SlotRecord { tx: id, attempts, mined: None, work });
        let Some(mut tx) = tx else { return };
        if let Some(won) = tx.status.won.as_ref().filter(|_| gone) {
            self.changes.journal(id, now, Entry::FinalReorged { hash: won.hash, block });
            tx.status.receipt = None;
            self.changes.tx(&mut tx, now);
        }
        self.reopened.insert(tx);
    }

    /// An attempt of an open slot is in a block, and its transaction is not bound there: it has ended, or waits for
    /// another slot, since a stranger had taken this one.
    pub(super) fn landed_after_its_end(
        &mut self,
        slot: Slot,
        receipt: &Receipt,
        version: ContentVersion,
        now: Millis,
    ) {
        let Some(record) = self.slots.get(&slot) else { return };
        if let Some(tx) = record.tx.and_then(|id| self.reopened.get_mut(&id)) {
            if tx.status.receipt.as_ref() == Some(receipt) {
                return;
            }
            tx.status.receipt = Some(receipt.clone());
            tx.status.taken = None;
            self.changes.tx(tx, now);
            let entry = Entry::LandedAgain { receipt: receipt.clone(), version };
            self.changes.journal(Some(tx.id), now, entry);
            return;
        }
        let landed = record.attempts.iter().find(|attempt| attempt.hash == receipt.hash);
        let Some(id) = landed.filter(|attempt| !attempt.no_op).and_then(|attempt| attempt.tx) else { return };
        let entry = Entry::LandedAgain { receipt: receipt.clone(), version };
        self.changes.journal(Some(id), now, entry);
        if self.waiting.contains(id) {
            self.bind_back(id, slot, receipt.clone(), version, now);
        } else if self.bound.contains_key(&id) {
            let text = format!("an earlier attempt landed with nonce {slot} after all");
            let reason = Reason { code: ReasonCode::Displaced, text };
            self.begin_ending(id, crate::transaction::Ending::Fail(reason), now);
        } else {
            // After a load the chain may be seen before the queue is read.
            self.unclaimed.insert(id, slot);
        }
    }

    /// It comes from the store and waits for a slot. If its content is in a block, in a slot of nobody's, it belongs there.
    pub(super) fn claim_landed(&mut self, id: TxId, now: Millis) {
        let Some(slot) = self.unclaimed.remove(&id) else { return };
        let Some(record) = self.slots.get(&slot).filter(|record| record.tx.is_none()) else { return };
        let Some(receipt) = record.mined.clone() else { return };
        let landed =
            |attempt: &&Attempt| attempt.hash == receipt.hash && attempt.tx == Some(id) && !attempt.no_op;
        if let Some(version) = record.attempts.iter().find(landed).map(|attempt| attempt.version) {
            self.bind_back(id, slot, receipt, version, now);
        }
    }

    /// It waited for another slot, and landed in its old one: there it belongs.
    fn bind_back(&mut self, id: TxId, slot: Slot, receipt: Receipt, version: ContentVersion, now: Millis) {
        self.stop_signing(id);
        let Some(super::Waiting { mut tx, .. }) = self.leave_waiting(id) else { return };
        if let Some(record) = self.slots.get_mut(&slot) {
            record.tx = Some(id);
        }
        if tx.takes_two_slots() {
            self.slots.mark_double(slot);
        }
        tx.status.slot = Some(slot);
        tx.status.state = TxState::Mined;
        tx.status.look_for(Some(receipt.hash));
        tx.status.receipt = Some(receipt.clone());
        self.changes.tx(&mut tx, now);
        self.changes.journal(Some(id), now, Entry::BoundBack { slot });
        self.changes.journal(Some(id), now, Entry::Mined { receipt, version, no_op: false });
        self.bound.insert(tx);
    }
}

/// The attempt of a slot that is to be sent, and that a dearer one must beat.
///
/// Of a transaction that had ended it is the content that won, whatever was signed after it. Of nobody's slot it is a
/// no-op and nothing else: what was signed for a transaction that waits elsewhere must not go out again.
pub(super) fn current<'a>(reopened: &Transactions, record: &'a SlotRecord) -> Option<&'a Attempt> {
    let newest = record.attempts.last();
    let Some(id) = record.tx else { return newest.filter(|attempt| attempt.no_op) };
    let Some(won) = reopened.get(&id).and_then(|tx| tx.status.won.as_ref()) else { return newest };
    record.attempts.iter().rev().find(|attempt| attempt.version == won.version)
}
