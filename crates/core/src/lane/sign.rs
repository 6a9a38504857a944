//! Sign: drafts become attempts. The commit that stores an attempt's bytes binds its slot for good (rules 1 and 2).
//!
//! | slot of the draft | signature came | signature failed |
//! |---|---|---|
//! | new, local key | bound when every slot below is bound, the lowest first, and by a count of the head | the batch is cut: it and those above are forgotten |
//! | returned, or a hole | bound | forgotten, stays as it was |
//! | reserved (remote signer) | first attempt | keeps its slot, asked again; refused for good: it fails and gives the slot back |
//! | has attempts (re-price, no-op, replace) | another attempt | keeps its attempts, asked again |
//!
//! A signature that comes back after its reason has gone (another draft took over, the transaction was cancelled)
//! is dropped: its bytes were never stored, so they were never sent.

use super::cheap::Cheap;
use super::{Action, Lane, Plan, Prep, SlotRecord, back_off};
use crate::attempt::{Attempt, Draft, Sealed, SendHints};
use crate::fees::{Fees, first_price};
use crate::journal::Entry;
use crate::ports::signer;
use crate::transaction::{Ending, Reason, ReasonCode, TxState};
use crate::view::ChainView;
use crate::{Millis, Slot};

/// At most this many signatures are asked for at once.
const BATCH: usize = 1_000;
/// More than the attempts that one life of a slot can have.
const REFILL_STEP: u32 = 1_000;

impl Lane {
    pub(super) fn plan_sign(&mut self, plan: &mut Plan, now: Millis) {
        let mut drafts = self.sign_reserved(plan, now);
        drafts.extend(self.reprice(plan, now));
        if !self.settings.reserve_before_signing {
            drafts.extend(self.allocate());
        }
        drafts.extend(self.fill(plan, now));
        while !drafts.is_empty() {
            let rest = drafts.split_off(drafts.len().min(BATCH));
            plan.actions.push(Action::Sign(std::mem::replace(&mut drafts, rest)));
        }
    }

    /// First signatures for slots that were reserved.
    fn sign_reserved(&mut self, plan: &mut Plan, now: Millis) -> Vec<Draft> {
        let Some(view) = self.live_view() else { return Vec::new() };
        let mut drafts = Vec::new();
        let mut left = self.budget_left();
        for slot in self.unsigned_slots() {
            let serial = self.serial();
            let Some(record) = self.slots.get(&slot) else { continue };
            if record.work.sign_at > now {
                plan.wake(record.work.sign_at);
                continue;
            }
            let Some(draft) = self.first_draft(slot, record, &view) else { continue };
            let expected = self.expected(&draft);
            let more = expected.fee.saturating_sub(self.slot_fee(record));
            // The next turn gives it back.
            if !draft.no_op && left.is_some_and(|left| more > left) {
                continue;
            }
            left = left.map(|left| left.saturating_sub(more));
            if let Some(record) = self.slots.get_mut(&slot) {
                record.work.signing = Some(serial);
                record.work.expected = Some(Box::new(expected));
            }
            drafts.push(Draft { serial, ..draft });
        }
        drafts
    }

    /// Slots that were reserved, and for which nothing is being signed.
    pub(super) fn unsigned_slots(&self) -> Vec<Slot> {
        let Some(count) = self.chain_count() else { return Vec::new() };
        let is_unsigned =
            |slot: &&Slot| self.slots.get(slot).is_some_and(|record| record.work.signing.is_none());
        self.slots.bare().range(count..).filter(is_unsigned).copied().collect()
    }

    /// What a reserved slot is to be signed for. After a restart the estimate is gone: it is asked for again first.
    pub(super) fn first_draft(&self, slot: Slot, record: &SlotRecord, view: &ChainView) -> Option<Draft> {
        let tx = record.tx.and_then(|id| self.bound.get(&id))?;
        let gas = record.work.gas.or(tx.payload().gas)?;
        let no_op = tx.is_no_op();
        if !no_op && self.unlisted(tx.payload()).is_some() {
            return None;
        }
        Some(Draft {
            serial: 0,
            lane: self.id,
            slot,
            tx: Some(tx.id),
            version: tx.version(),
            no_op,
            call: tx.call(),
            gas: if no_op { self.no_op_gas.unwrap_or(self.settings.no_op_gas) } else { gas },
            fees: first_price(&view.fees, tx.speed(), tx.asked_fees(), self.ceiling(Some(tx))),
        })
    }

    pub(super) fn take_signed(&mut self, results: Vec<(Draft, Result<Sealed, signer::Error>)>, now: Millis) {
        for (draft, result) in results {
            if self.slots.contains_key(&draft.slot) {
                self.signed_again(draft, result, now);
            } else {
                self.signed_first(draft, result, now);
            }
        }
    }

    /// Another attempt, or the first one of a reserved slot.
    fn signed_again(&mut self, draft: Draft, result: Result<Sealed, signer::Error>, now: Millis) {
        let Some(record) = self.slots.get_mut(&draft.slot) else { return };
        if record.work.signing != Some(draft.serial) {
            return;
        }
        record.work.signing = None;
        let wanted = record.tx.and_then(|id| self.bound.get(&id)).map(|tx| tx.version());
        let passed = record.attempts.is_empty() && self.seen_count.is_some_and(|count| draft.slot < count);
        let stale = record.mined.is_some()
            || passed
            || record.tx != draft.tx
            || wanted.is_some_and(|version| version != draft.version);
        match result {
            Err(signer::Error::Refused(text)) if record.attempts.is_empty() => {
                let Some(id) = record.tx else { return };
                let reason = Reason { code: ReasonCode::SignatureRefused, text };
                self.begin_ending(id, Ending::Fail(reason), now);
            }
            Err(_) => {
                record.work.sign_tries = record.work.sign_tries.saturating_add(1);
                record.work.sign_at = now.after(back_off(record.work.sign_tries, 500, 30_000));
            }
            Ok(_) if stale => {}
            Ok(sealed) => {
                record.work.sign_tries = 0;
                self.store_attempt(draft, sealed, now);
            }
        }
    }

    /// The first bytes of a slot that is not stored yet.
    fn signed_first(&mut self, draft: Draft, result: Result<Sealed, signer::Error>, now: Millis) {
        let Some(tentative) = self.tentative.get_mut(&draft.slot) else { return };
        if tentative.serial != draft.serial {
            return;
        }
        match result {
            Ok(sealed) => tentative.signed = Some((draft, sealed)),
            Err(error) => {
                let failed = draft.tx;
                self.cut_from(draft.slot);
                let Some(id) = failed else {
                    self.fill_tries = self.fill_tries.saturating_add(1);
                    self.fill_at = now.after(back_off(self.fill_tries, 500, 30_000));
                    return;
                };
                match error {
                    signer::Error::Refused(text) => {
                        self.fail_waiting(id, ReasonCode::SignatureRefused, text, now);
                    }
                    signer::Error::Unavailable(why) => {
                        let at = now.after(back_off(2, 100, 5_000));
                        self.waiting.set_prep(id, Prep::Retry { tries: 1, at, why });
                    }
                }
            }
        }
    }

    /// Forgets this slot and every new one above it that is being signed: slots stay contiguous (E14).
    pub(super) fn cut_from(&mut self, slot: Slot) {
        let is_returned = self.row.returned.contains(&slot);
        let cut: Vec<Slot> = self
            .tentative
            .keys()
            .filter(|s| **s == slot || (!is_returned && **s > slot && !self.row.returned.contains(s)))
            .copied()
            .collect();
        for slot in cut {
            let Some(tentative) = self.tentative.remove(&slot) else { continue };
            let Some(waiting) = tentative.tx.and_then(|id| self.waiting.by_id(id)) else { continue };
            if matches!(waiting.prep(), Prep::Signing { serial, .. } if *serial == tentative.serial) {
                // Its gas is known no more; estimates are cheap next to a cut.
                let prep = waiting.tx.payload().gas.map_or(Prep::New, |gas| Prep::Ready { gas });
                self.waiting.set_prep(waiting.tx.id, prep);
            }
        }
    }

    /// Binds what is signed: returned slots at once, new ones from the cursor up without a hole. Done when all that has happened was
    /// taken: a newer count may have come with the signatures.
    pub(super) fn bind_signed(&mut self, now: Millis) {
        if self.tentative.is_empty() || !self.may_bind() {
            return;
        }
        let ready: Vec<Slot> =
            self.tentative.iter().filter(|(_, t)| t.signed.is_some()).map(|(slot, _)| *slot).collect();
        for slot in ready {
            if !self.row.returned.contains(&slot) && self.row.cursor.is_none_or(|cursor| slot > cursor) {
                continue;
            }
            let Some((draft, sealed)) = self.tentative.remove(&slot).and_then(|t| t.signed) else { continue };
            let mut two = false;
            if let Some(id) = draft.tx {
                let Some(mut waiting) = self.leave_waiting(id) else { continue };
                two = waiting.tx.takes_two_slots();
                waiting.tx.status.slot = Some(slot);
                self.bound.insert(waiting.tx);
            } else {
                self.fill_tries = 0;
            }
            let mut record = SlotRecord { tx: draft.tx, ..SlotRecord::default() };
            let is_hole =
                !self.row.returned.contains(&slot) && self.row.cursor.is_some_and(|cursor| slot < cursor);
            if is_hole {
                // It may have ended once, and its attempts of then are still stored under their numbers.
                self.row.refilled = self.row.refilled.saturating_add(1);
                record.work.first_ordinal = self.row.refilled.saturating_mul(REFILL_STEP);
            }
            self.occupy(slot, two);
            self.slots.insert(slot, record);
            self.store_attempt(draft, sealed, now);
        }
    }

    /// From the commit of this on, the slot ends only on chain.
    fn store_attempt(&mut self, draft: Draft, sealed: Sealed, now: Millis) {
        let Some(record) = self.slots.get_mut(&draft.slot) else { return };
        let first = record.work.first_ordinal;
        let ordinal = record.attempts.last().map_or(first, |last| last.ordinal.saturating_add(1));
        let attempt = Attempt {
            slot: draft.slot,
            ordinal,
            tx: draft.tx,
            version: draft.version,
            no_op: draft.no_op,
            hash: sealed.hash,
            raw: sealed.raw,
            gas: draft.gas,
            fees: draft.fees,
            value: draft.call.value,
            created_at: now,
            hints: SendHints::default(),
        };
        let entry = Entry::Signed {
            slot: draft.slot,
            attempt: ordinal,
            version: draft.version,
            no_op: draft.no_op,
            hash: attempt.hash,
            fees: draft.fees,
            gas: draft.gas,
        };
        record.work.made_from.get_or_insert(ordinal);
        record.work.refused.take_if(|refused| refused.is_of_another(draft.version));
        record.work.expected = None;
        record.work.cheap = Cheap::No;
        record.work.send_at = now;
        record.work.unclear_sends = 0;
        record.work.probes = 0;
        record.work.probe_at = None;
        self.highest_signed = self.highest_signed.max(Some(draft.slot));
        self.slots.add_attempt(draft.slot, attempt.clone());
        self.by_hash.insert(attempt.hash, draft.slot);
        if let Some(tx) = draft.tx.and_then(|id| self.bound.get_mut(&id)) {
            if tx.status.state.is_waiting() {
                tx.status.state = TxState::Signed;
            }
            tx.status.look_for(Some(attempt.hash));
            self.changes.tx(tx, now);
        }
        self.changes.journal(draft.tx, now, entry);
        self.changes.attempt(attempt);
    }

    /// What every live attempt of a slot offers, oldest first.
    pub(super) fn live_fees(&self, slot: Slot) -> Vec<Fees> {
        self.slots.get(&slot).map_or_else(Vec::new, |r| r.attempts.iter().map(|a| a.fees).collect())
    }
}
