//! Bugs that the simulator plants in itself (`LaneSettings::planted`), one function for each. With nothing planted,
//! and nothing but the simulator plants anything, none of this is reached.

use super::{Lane, Prep, Waiting};
use crate::journal::Entry;
use crate::outcome::SendOutcome;
use crate::settings::PlantedInLane;
use crate::transaction::{Transaction, TxState};
use crate::view::BlockRef;
use crate::{Millis, Slot, TxId};

impl Lane {
    fn has_planted(&self, bug: PlantedInLane) -> bool {
        self.settings.planted == Some(bug)
    }

    /// A send that was not answered gives its slot back.
    pub(super) fn planted_recycle(&mut self, slot: Slot, outcome: SendOutcome, now: Millis) {
        if outcome == SendOutcome::Unknown && self.has_planted(PlantedInLane::RecycleOnTimeout) {
            self.planted_requeue(slot, now);
            self.row.returned.insert(slot);
        }
    }

    /// A passed slot without a receipt sends its transaction back to the queue.
    pub(super) fn planted_null_receipt(&mut self, slot: Slot, now: Millis) {
        if self.has_planted(PlantedInLane::RequeueOnNullReceipt) {
            self.planted_requeue(slot, now);
        }
    }

    /// A re-price takes a new slot. True if it did.
    pub(super) fn planted_bump(&mut self, slot: Slot, now: Millis) -> bool {
        let planted = self.has_planted(PlantedInLane::BumpTakesNewSlot);
        if planted {
            self.planted_requeue(slot, now);
        }
        planted
    }

    /// The next slot is what the node counts.
    pub(super) fn planted_cursor(&mut self, count: Slot) {
        if self.has_planted(PlantedInLane::CursorFollowsCount) {
            self.row.cursor = Some(count);
        }
    }

    /// A receipt counts by its block's number alone.
    pub(super) fn planted_no_hash(&self) -> bool {
        self.has_planted(PlantedInLane::NoBlockHash)
    }

    /// A slot is forgotten when its transaction ends.
    pub(super) fn planted_forget(&self) -> bool {
        self.has_planted(PlantedInLane::ForgottenAtFinality)
    }

    /// A cancel is done when it was asked for. True if it was.
    pub(super) fn planted_cancel(&mut self, id: TxId, now: Millis) -> bool {
        let slot = self.bound.get(&id).and_then(|tx| tx.status.slot);
        let Some(slot) = slot.filter(|_| self.has_planted(PlantedInLane::CancelAtOnce)) else { return false };
        let Some(mut tx) = self.planted_abandon(slot) else { return false };
        let reason = crate::transaction::Reason {
            code: crate::transaction::ReasonCode::CancelledByCaller,
            text: "cancelled by the caller".to_owned(),
        };
        tx.status.state = TxState::Cancelled;
        self.changes.tx(&mut tx, now);
        self.changes.journal(Some(id), now, Entry::Cancelled { reason });
        true
    }

    fn planted_requeue(&mut self, slot: Slot, now: Millis) {
        let Some(mut tx) = self.planted_abandon(slot) else { return };
        tx.status.state = TxState::Accepted;
        tx.status.slot = None;
        tx.status.displaced = false;
        self.changes.tx(&mut tx, now);
        let block = BlockRef { number: 0, hash: alloy_primitives::B256::ZERO };
        self.changes.journal(Some(tx.id), now, Entry::Requeued { slot, block });
        self.waiting.insert((tx.order, tx.id), Waiting { tx, prep: Prep::New });
    }

    fn planted_abandon(&mut self, slot: Slot) -> Option<Transaction> {
        let id = self.slots.get(&slot)?.tx?;
        let record = self.slots.remove(&slot)?;
        for attempt in &record.attempts {
            self.by_hash.remove(&attempt.hash);
        }
        self.changes.close(slot, &record.attempts);
        self.bound.remove(&id)
    }
}
