//! Watch: what the chain shows of this lane (E5, E6, E10, H5).
//!
//! A view replaces the one before it as a whole. Receipts come by block, matched by hash, or by looking up every
//! attempt of a slot that the chain's count has passed. A receipt counts only while its block is part of the view; when
//! it no longer is, the transaction goes back to `broadcast` and its bytes are sent again.
//!
//! | block of the winner | what happens |
//! |---|---|
//! | among the recent ones | it counts |
//! | another one has its number | reorged |
//! | above the head | nothing, until a view can say |
//! | below the recent ones, view goes on from the one before | it counts: it was checked when seen |
//! | below the recent ones, after a start or a leap | it is looked up again before it counts |
//! | anywhere, and the receipt was in the store at the start | it shows as mined, and ends nothing before it is looked up again |
//!
//! What the endpoints show of another chain says nothing about this lane.

use std::sync::Arc;

use super::cheap::Cheap;
use super::prove::LOOKS_UNTIL_DISPLACED;
use super::{Action, Lane, Plan, back_off};
use crate::journal::Entry;
use crate::request::OnReorg;
use crate::transaction::{Content, TxState};
use crate::view::{AccountView, BlockRef, ChainStatus, ChainView, Receipt, Standing};
use crate::{Millis, Slot, TxId};

impl Lane {
    pub(super) fn take_view(&mut self, view: Arc<ChainView>, receipts: Vec<Receipt>, now: Millis) {
        let moves = self.view.as_ref().is_none_or(|before| moves(before, &view, self.id.signer));
        if moves {
            self.slots.look_at_all();
        }
        self.tell_head(&view, now);
        if view.status == ChainStatus::Changed {
            self.view = Some(view);
            self.sees_head = false;
            return;
        }
        let account = view.accounts.get(&self.id.signer).copied();
        if let Some(account) = account {
            self.take_count(account.count, account.agreed || view.witnessed.alone, now);
            self.take_facts(account.read, now);
        }
        self.sees_head = account.is_some_and(|account| account.at == view.head.at);
        let goes_on = self.live_view().is_some_and(|before| view.shows(&before.head.at));
        let head = view.head.at;
        self.view = Some(view);
        self.mend_day();
        if moves {
            self.check_winners(goes_on, now);
            self.check_taken(now);
        }
        self.account_for(now);
        self.watch_kept(goes_on, now);
        for receipt in receipts {
            self.take_receipt(receipt, head, now);
        }
    }

    /// When the head came. Whoever made the first view may have another clock than this lane: what it says of the future says
    /// nothing.
    fn tell_head(&mut self, view: &ChainView, now: Millis) {
        let before = self.view.as_ref().map(|before| before.head.at);
        match before {
            None => self.head_since = Some(view.head_since).filter(|since| *since <= now),
            Some(before) if before != view.head.at => self.head_since = Some(now),
            Some(_) => {}
        }
    }

    /// As far as others may be told that the chain's count goes, whatever it is by now: not past a transaction of ours whose
    /// receipt is not known yet.
    #[must_use]
    pub fn shown_up_to(&self) -> Option<Slot> {
        self.live_view().and(self.chain_count())?;
        let open = self.slots.iter().find(|(_, record)| record.tx.is_some() && record.mined.is_none());
        Some(open.map_or(Slot(u64::MAX), |(slot, _)| *slot))
    }

    /// What is known of the chain, unless the endpoints show another one.
    pub(super) fn live_view(&self) -> Option<Arc<ChainView>> {
        self.view.clone().filter(|view| view.status == ChainStatus::Live)
    }

    /// What is known of this lane's account, at the head or at an older one.
    pub(super) fn account(&self) -> Option<&AccountView> {
        self.view.as_ref()?.accounts.get(&self.id.signer)
    }

    fn take_count(&mut self, count: Slot, is_agreed: bool, now: Millis) {
        if self.seen_count.or(self.row.chain_count) != Some(count) {
            self.moved_at = now;
        }
        self.seen_count = Some(count);
        if self.is_older() && self.row.older_count < Some(count) {
            self.row.older_count = Some(count);
            self.changes.row();
        }
        self.keep_count();
        self.planted_cursor(count);
        self.planted_jump(count);
        // Nothing is stored of these yet: somebody else was faster.
        while let Some(passed) = self.tentative.keys().next().copied().filter(|slot| *slot < count) {
            self.cut_from(passed);
        }
        // The first count that two endpoints gave is where this lane begins (L3): by the word of one it could begin too high, and wait
        // for ever behind a gap. It is committed at once: an older copy of the store is recognised by a cursor that the chain has
        // passed, and one without a cursor is not.
        if self.begins() && is_agreed {
            self.row.cursor = Some(count);
            self.row.passed = count.0.checked_sub(1).map(Slot);
            self.changes.row();
        }
    }

    /// It has never had a slot, and waits for the count that says where it begins.
    #[must_use]
    pub fn begins(&self) -> bool {
        self.row.cursor.is_none() && !self.is_older()
    }

    /// The stored count of the chain is the one that was seen when every command had been read: those that come later were given by
    /// people who could know of it.
    pub(super) fn keep_count(&mut self) {
        let is_known = self.seen_count.is_none() || self.row.chain_count == self.seen_count;
        if is_known || !self.load.heard_all || self.is_older() {
            return;
        }
        self.row.chain_count = self.seen_count;
        // Somebody is told of these, and may speak of them before anything else is written.
        if self.unknown_slots().is_some() {
            self.changes.row();
        }
    }

    /// Winners whose block is gone are winners no more; those that cannot be judged are looked up again.
    fn check_winners(&mut self, goes_on: bool, now: Millis) {
        let Some(view) = self.live_view().filter(|_| !self.planted_no_hash()) else { return };
        let count = self.chain_count();
        let mut rechecked = Vec::new();
        for (slot, record) in self.slots.each_mut(..) {
            let has_ended = record.tx.is_some_and(|id| self.reopened.contains_key(&id));
            let txs = if has_ended { &mut self.reopened } else { &mut self.bound };
            let tx = record.tx.and_then(|id| txs.get_mut(&id));
            let shown = tx.as_ref().and_then(|tx| tx.status.receipt.clone());
            let Some(receipt) = record.mined.clone().or(shown) else { continue };
            let gone = match view.standing(&receipt.block) {
                Standing::Canonical | Standing::Ahead => continue,
                Standing::Orphaned => true,
                // The slot is open again, so nothing of it is in a block.
                Standing::Older => count.is_some_and(|count| *slot >= count),
            };
            if gone || (record.mined.is_some() && !goes_on) {
                record.mined = None;
                record.work.send_at = now;
                record.work.look_at = now;
                record.work.looks = 0;
            }
            let Some(tx) = tx.filter(|_| gone) else { continue };
            let (hash, block) = (receipt.hash, receipt.block);
            tx.status.receipt = None;
            let entry = if has_ended {
                Entry::FinalReorged { hash, block }
            } else {
                tx.status.state = TxState::Broadcast;
                tx.status.look_for(record.attempts.last().map(|newest| newest.hash));
                if tx.request.options.on_reorg == OnReorg::Cancel {
                    rechecked.push(tx.id);
                }
                Entry::Reorged { hash, block }
            };
            self.changes.tx(tx, now);
            self.changes.journal(Some(tx.id), now, entry);
        }
        for id in rechecked {
            if !self.planted_recheck(id, now) {
                self.begin_recheck(id, now);
            }
        }
    }

    /// Its caller wants it checked anew after a reorganisation: a no-op takes its slot first, so that what was signed
    /// before cannot land beside what is signed then (F9).
    fn begin_recheck(&mut self, id: TxId, now: Millis) {
        let Some(tx) = self.bound.get_mut(&id) else { return };
        let Some(slot) = tx.status.slot.filter(|_| tx.status.ending.is_none() && !tx.status.rechecking)
        else {
            return;
        };
        tx.status.rechecking = true;
        tx.status.later.push(Content::NoOp);
        self.changes.tx(tx, now);
        self.changes.journal(Some(id), now, Entry::RecheckBegan { slot });
    }

    /// `seen_at` is a head that the one who found the receipt knew.
    pub(super) fn take_receipt(&mut self, receipt: Receipt, seen_at: BlockRef, now: Millis) {
        let Some(view) = self.live_view() else { return };
        let counts = match view.standing(&receipt.block) {
            Standing::Canonical => true,
            Standing::Older => view.shows(&seen_at),
            Standing::Orphaned | Standing::Ahead => false,
        };
        if !counts {
            return;
        }
        self.forget_stored(&receipt);
        self.note_winner(&receipt);
        let Some(record) = self.by_hash.get(&receipt.hash).and_then(|slot| self.slots.get_mut(slot)) else {
            return;
        };
        if record
            .mined
            .as_ref()
            .is_some_and(|mined| mined.block == receipt.block && is_alike(mined, &receipt))
        {
            return;
        }
        let Some(attempt) = record.attempts.iter_mut().find(|attempt| attempt.hash == receipt.hash) else {
            return;
        };
        // Also if the chain takes the block back: a node had it.
        attempt.hints.accepted = true;
        let (slot, version, no_op) = (attempt.slot, attempt.version, attempt.no_op);
        record.mined = Some(receipt.clone());
        record.work.looks = 0;
        record.work.cheap = Cheap::No;
        self.moved_at = now;
        let Some(tx) = record.tx.and_then(|id| self.bound.get_mut(&id)) else {
            return self.landed_after_its_end(slot, &receipt, version, now);
        };
        if tx.status.receipt.as_ref() == Some(&receipt) && !tx.status.displaced {
            // It was looked up again, and nothing has changed.
            return;
        }
        tx.status.state = TxState::Mined;
        tx.status.displaced = false;
        tx.status.taken = None;
        // The receipt may belong to any earlier hash of the slot (R8).
        tx.status.look_for(Some(receipt.hash));
        tx.status.receipt = Some(receipt.clone());
        self.changes.tx(tx, now);
        self.changes.journal(Some(tx.id), now, Entry::Mined { receipt, version, no_op });
    }

    /// The stored receipt of a slot has been looked up again: what was found counts.
    fn forget_stored(&mut self, receipt: &Receipt) {
        // Of most lanes there is none, and every receipt comes this way.
        if self.stored_receipts == 0 {
            return;
        }
        let slot = self.by_hash.get(&receipt.hash);
        let Some(record) = slot.and_then(|slot| self.slots.get_mut(slot)) else { return };
        if std::mem::take(&mut record.work.stored) {
            self.stored_receipts = self.stored_receipts.saturating_sub(1);
            record.mined.take_if(|mined| !is_alike(mined, receipt));
        }
    }

    /// Slots that the count has passed without a receipt, or with one that the store had: ask for every attempt's.
    pub(super) fn plan_look(&mut self, plan: &mut Plan, now: Millis) {
        let Some(head) = self.live_view().map(|view| view.head.at) else { return };
        let Some(count) = self.chain_count() else { return };
        let mut looks = Vec::new();
        self.slots.each_to_look_at(..count, |slot, record| {
            let work = &mut record.work;
            let is_known = record.mined.is_some() && !work.stored;
            if is_known || work.looking.is_some() || record.attempts.is_empty() {
                return;
            }
            if work.look_at > now {
                plan.wake(work.look_at);
                return;
            }
            work.looking = Some(head);
            looks.push((slot, record.attempts.iter().map(|attempt| attempt.hash).collect()));
        });
        if !looks.is_empty() {
            plan.actions.push(Action::Look(looks));
        }
    }

    /// Nobody could be asked: that is no look, and says nothing about the slots.
    pub(super) fn look_failed(&mut self, slots: &[Slot], now: Millis) {
        for slot in slots {
            if let Some(record) = self.slots.get_mut(slot) {
                record.work.looking = None;
                record.work.look_at = now.after(back_off(1, 250, 1_000));
            }
        }
    }

    pub(super) fn take_look(&mut self, slots: &[Slot], found: Vec<Receipt>, now: Millis) {
        for receipt in found {
            let slot = self.by_hash.get(&receipt.hash);
            let asked_at = slot.and_then(|slot| self.slots.get(slot)).and_then(|record| record.work.looking);
            if let Some(asked_at) = asked_at {
                self.take_receipt(receipt, asked_at, now);
            }
        }
        let count = self.chain_count();
        for slot in slots {
            let Some(record) = self.slots.get_mut(slot) else { continue };
            record.work.looking = None;
            let is_known = record.mined.is_some() && !record.work.stored;
            if is_known || count.is_none_or(|count| *slot >= count) {
                continue;
            }
            record.work.looks = record.work.looks.saturating_add(1);
            record.work.look_at = now.after(back_off(record.work.looks, 250, 5_000));
            if record.mined.is_some() {
                continue;
            }
            let Some(tx) = record.tx.and_then(|id| self.bound.get_mut(&id)) else { continue };
            if record.work.looks >= LOOKS_UNTIL_DISPLACED && !tx.status.displaced {
                tx.status.displaced = true;
                self.changes.tx(tx, now);
                self.changes.journal(Some(tx.id), now, Entry::Displaced { slot: *slot });
            }
            self.planted_null_receipt(*slot, now);
        }
    }
}

/// They end a slot alike, if they are in the same block.
fn is_alike(one: &Receipt, other: &Receipt) -> bool {
    (one.hash, one.success) == (other.hash, other.success)
}

/// Another picture of what slots are judged by.
fn moves(before: &ChainView, after: &ChainView, signer: crate::Account) -> bool {
    let seen = |view: &ChainView| {
        let account = view.accounts.get(&signer);
        account.map(|account| (account.count, account.balance, account.delegated))
    };
    before.head != after.head
        || before.time() != after.time()
        || (before.safe, before.finalized) != (after.safe, after.finalized)
        || !before.witnessed.counts_alike(&after.witnessed)
        || before.fees != after.fees
        || before.status != after.status
        || seen(before) != seen(after)
}
