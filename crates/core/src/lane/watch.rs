//! Watch: what the chain shows of this lane (E5, E6, E10, H5).
//!
//! A view replaces the one before it as a whole. Receipts come by block, matched by hash, or by looking up every
//! attempt of a slot that the chain's count has passed. A receipt counts only while its block is part of the view; when
//! it no longer is, the transaction goes back to `broadcast` and its bytes are sent again.

use std::sync::Arc;

use super::{Action, Lane, Plan, back_off};
use crate::journal::Entry;
use crate::transaction::TxState;
use crate::view::{ChainStatus, ChainView, Receipt, Standing};
use crate::{Millis, Slot};

/// After this many looks without a receipt a passed slot is shown as displaced.
const LOOKS_UNTIL_DISPLACED: u32 = 3;

impl Lane {
    pub(super) fn take_view(&mut self, view: Arc<ChainView>, receipts: Vec<Receipt>, now: Millis) {
        if view.status == ChainStatus::Live
            && let Some(count) = view.counts.get(&self.id.signer).copied()
        {
            self.take_count(count, now);
        }
        self.view = Some(view);
        self.drop_orphans(now);
        for receipt in receipts {
            self.take_receipt(receipt, now);
        }
    }

    fn take_count(&mut self, count: Slot, now: Millis) {
        if self.row.chain_count != Some(count) {
            self.row.chain_count = Some(count);
            self.moved_at = now;
        }
        // The first count ever seen is where this lane begins (L3).
        if self.row.cursor.is_none() {
            self.row.cursor = Some(count);
        }
    }

    /// Winners whose block is gone are winners no more.
    fn drop_orphans(&mut self, now: Millis) {
        let Some(view) = self.view.clone() else { return };
        for record in self.slots.values_mut() {
            let Some(receipt) = &record.mined else { continue };
            if view.standing(&receipt.block) != Standing::Orphaned {
                continue;
            }
            let entry = Entry::Reorged { hash: receipt.hash, block: receipt.block };
            record.mined = None;
            record.work.send_at = now;
            record.work.look_at = now;
            record.work.looks = 0;
            if let Some(tx) = record.tx.and_then(|id| self.bound.get_mut(&id)) {
                tx.status.state = TxState::Broadcast;
                tx.status.receipt = None;
                self.changes.tx(tx, now);
                self.changes.journal(Some(tx.id), now, entry);
            }
        }
    }

    fn take_receipt(&mut self, receipt: Receipt, now: Millis) {
        let Some(view) = &self.view else { return };
        if view.standing(&receipt.block) != Standing::Canonical {
            return;
        }
        let Some(record) = self.by_hash.get(&receipt.hash).and_then(|slot| self.slots.get_mut(slot)) else {
            return;
        };
        if record.mined.as_ref().is_some_and(|mined| mined.block == receipt.block) {
            return;
        }
        let Some(attempt) = record.attempts.iter().find(|attempt| attempt.hash == receipt.hash) else {
            return;
        };
        let version = attempt.version;
        record.mined = Some(receipt.clone());
        record.work.looks = 0;
        self.moved_at = now;
        if let Some(tx) = record.tx.and_then(|id| self.bound.get_mut(&id)) {
            tx.status.state = TxState::Mined;
            tx.status.displaced = false;
            // The receipt may belong to any earlier hash of the slot (R8).
            tx.status.hash = Some(receipt.hash);
            tx.status.receipt = Some(receipt.clone());
            self.changes.tx(tx, now);
            self.changes.journal(Some(tx.id), now, Entry::Mined { receipt, version });
        }
    }

    /// Slots that the count has passed without a receipt: ask for every attempt's.
    pub(super) fn plan_look(&mut self, plan: &mut Plan, now: Millis) {
        if self.view.as_ref().is_none_or(|view| view.status != ChainStatus::Live) {
            return;
        }
        let Some(count) = self.chain_count() else { return };
        let mut looks = Vec::new();
        for (slot, record) in self.slots.range_mut(..count) {
            let work = &mut record.work;
            if record.mined.is_some() || work.looking || record.attempts.is_empty() {
                continue;
            }
            if work.look_at > now {
                plan.wake(work.look_at);
                continue;
            }
            work.looking = true;
            looks.push((*slot, record.attempts.iter().map(|attempt| attempt.hash).collect()));
        }
        if !looks.is_empty() {
            plan.actions.push(Action::Look(looks));
        }
    }

    pub(super) fn take_look(&mut self, slots: &[Slot], found: Vec<Receipt>, now: Millis) {
        for receipt in found {
            self.take_receipt(receipt, now);
        }
        for slot in slots {
            let Some(record) = self.slots.get_mut(slot) else { continue };
            record.work.looking = false;
            if record.mined.is_some() {
                continue;
            }
            record.work.looks = record.work.looks.saturating_add(1);
            record.work.look_at = now.after(back_off(record.work.looks, 250, 15_000));
            let Some(tx) = record.tx.and_then(|id| self.bound.get_mut(&id)) else { continue };
            if record.work.looks >= LOOKS_UNTIL_DISPLACED && !tx.status.displaced {
                tx.status.displaced = true;
                self.changes.tx(tx, now);
                self.changes.journal(Some(tx.id), now, Entry::Displaced { slot: *slot });
            }
        }
    }
}
