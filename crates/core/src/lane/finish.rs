//! Finish: what is final ends, as the winner says (rule 2).
//!
//! | winner | state |
//! |---|---|
//! | carries the content, succeeded | confirmed |
//! | carries the content, reverted | reverted |
//! | the no-op of a cancel, expiry or failure | cancelled, expired, failed |
//! | the no-op after a reorganisation, where the caller wants it checked anew | accepted again, for another slot, once the chain cannot take the no-op back |
//! | provably foreign | queued again or failed, as the caller said; an ending one ends |
//!
//! What has ended is kept in sight until the chain itself cannot take it back ([`super::keep`]).

use super::allocate::uses_two;
use super::prove::settled_for;
use super::second::GivenBy;
use super::{Lane, Prep, SlotRecord, Waiting};
use crate::attempt::Attempt;
use crate::journal::Entry;
use crate::request::OnDisplaced;
use crate::transaction::{Content, Ending, Reason, ReasonCode, Transaction, TxState, Won};
use crate::view::{BlockRef, ChainView, Receipt};
use crate::{Millis, Slot, TxId};

/// A slot whose winner is final.
struct Done {
    slot: Slot,
    receipt: Receipt,
    /// By the word of one endpoint, where there are several.
    by_one: bool,
}

impl Lane {
    /// Ends every transaction whose winner is final and lets go of its slot.
    pub(super) fn settle(&mut self, now: Millis) {
        let Some(view) = self.live_view() else { return };
        self.note_lost_seconds();
        let looked_at = self.slots.to_look_at(..);
        let mut done: Vec<Done> =
            looked_at.filter_map(|(slot, record)| self.done(slot, record, &view, now)).collect();
        // One that waits for its second slot rests while that ends.
        for first in self.mined_firsts() {
            if let Err(at) = done.binary_search_by_key(&first, |done| done.slot)
                && let Some(record) = self.slots.get(&first)
            {
                done.splice(at..at, self.done(first, record, &view, now));
            }
        }
        if self.slots.any_double() {
            let ending: Vec<Slot> = done.iter().map(|done| done.slot).collect();
            let ends = |slot: Slot| ending.binary_search(&slot).is_ok();
            done.retain(|done| self.second_is_used(done.slot, &done.receipt, ends));
        }
        for done in done {
            let Done { slot, receipt, .. } = &done;
            let slot = *slot;
            self.spend(slot, receipt, now);
            let id = self.slots.get(&slot).and_then(|record| record.tx);
            if id.is_some_and(|id| self.bound.contains_key(&id)) {
                self.finish(&done, now);
            } else {
                let tx = id.and_then(|id| self.reopened.remove(&id));
                self.keep(slot, receipt.block, tx);
            }
        }
    }

    /// The slot's winner, where it is final.
    fn done(&self, slot: Slot, record: &SlotRecord, view: &ChainView, now: Millis) -> Option<Done> {
        let receipt = record.mined.as_ref()?;
        let tx = record.tx.and_then(|id| self.bound.get(&id).or_else(|| self.reopened.get(&id)));
        let finality = tx.and_then(|tx| tx.request.options.finality).unwrap_or(self.settings.finality);
        let is_final = view.is_final(&receipt.block, finality)
            || (self.planted_no_hash() && view.confirmations(&receipt.block) >= 8)
            || self.planted_final(now);
        // Most receipts that are looked at are not final yet.
        if !is_final {
            return None;
        }
        let bound = tx.filter(|tx| self.bound.contains_key(&tx.id));
        let given = self.given_by(slot, record, receipt, view);
        let again = comes_again(bound, record, receipt);
        let ends = match given {
            GivenBy::Two => !again || settled_for(tx, view, &self.settings) >= Some(receipt.block.number),
            // What sends a transaction to another slot is not left to one endpoint.
            GivenBy::One => !again,
            GivenBy::Nobody => false,
        };
        let by_one = given == GivenBy::One
            || (view.witnessed.several && view.final_by_two(finality) < Some(receipt.block.number));
        ends.then(|| Done { slot, receipt: receipt.clone(), by_one })
    }

    fn finish(&mut self, done: &Done, now: Millis) {
        let Done { slot, receipt, by_one } = done;
        let slot = *slot;
        self.tell_left_second(slot, now);
        let is_pair = self.spoke_for_second(slot);
        let Some(record) = self.slots.get(&slot) else { return };
        let Some(winner) = record.attempts.iter().find(|attempt| attempt.hash == receipt.hash).cloned()
        else {
            return;
        };
        let Some(mut tx) = record.tx.and_then(|id| self.bound.remove(&id)) else { return };
        if uses_two(&tx, &winner) {
            self.end_second(slot, receipt.block);
        } else if tx.takes_two_slots() && !is_pair {
            self.free_second_slot(slot);
        }
        if is_asked_for_again(&tx, &winner) {
            self.keep(slot, receipt.block, None);
            self.check_anew(tx, slot, receipt.block, now);
            return;
        }
        let newest = tx.version();
        let status = &mut tx.status;
        status.won = Some(Won { version: winner.version, hash: winner.hash });
        status.look_for(Some(winner.hash));
        status.displaced = false;
        status.single_witness = *by_one;
        let entry = match (&status.ending, winner.no_op, receipt.success) {
            (Some(ending), true, _) => {
                status.state = ending.state();
                status.reason = Some(ending.reason().clone());
                ended_entry(ending)
            }
            (_, _, true) => {
                status.state = TxState::Confirmed;
                Entry::Confirmed { hash: winner.hash, block: receipt.block, version: winner.version }
            }
            (_, _, false) => {
                let reason = has_reverted();
                status.state = TxState::Reverted;
                status.reason = Some(reason.clone());
                Entry::Reverted { hash: winner.hash, block: receipt.block, reason }
            }
        };
        self.changes.tx(&mut tx, now);
        if winner.version < newest {
            let entry = Entry::EarlierWon { won: winner.version, newest };
            self.changes.journal(Some(tx.id), now, entry);
        }
        if *by_one {
            let entry = Entry::SingleWitness { hash: winner.hash, block: receipt.block };
            self.changes.journal(Some(tx.id), now, entry);
        }
        self.changes.journal(Some(tx.id), now, entry);
        self.keep(slot, receipt.block, Some(tx));
    }

    /// Its slot was used up without its content: it waits for another one, in its old place, and goes through the
    /// checks again.
    fn check_anew(&mut self, mut tx: Transaction, slot: Slot, block: BlockRef, now: Millis) {
        if tx.is_no_op() {
            tx.status.later.push(Content::Payload(tx.payload().clone()));
        }
        tx.status.rechecking = false;
        tx.status.approved = false;
        tx.status.displaced = false;
        tx.status.receipt = None;
        tx.status.state = TxState::Accepted;
        tx.status.slot = None;
        tx.status.look_for(None);
        self.changes.tx(&mut tx, now);
        let id = tx.id;
        self.changes.journal(Some(id), now, Entry::Requeued { slot, block });
        self.waiting.add(tx, Prep::New);
        self.hold_if_forgotten(id, now);
    }

    /// The slot went to somebody else's transaction, for good.
    pub(super) fn slot_is_foreign(&mut self, slot: Slot, block: BlockRef, now: Millis) {
        let Some(record) = self.slots.get(&slot) else { return };
        // Without bytes of ours it is not a lost race but a slot that we do not know: the lane holds.
        if record.mined.is_some() || record.attempts.is_empty() {
            return;
        }
        // Whoever has seen its authorization could use the next slot: that gets a no-op first.
        if self.second_is_open(slot) {
            return self.take_unproven(slot, now);
        }
        let id = record.tx;
        self.tell_used_second(slot, block, now);
        let tx = id.and_then(|id| self.bound.remove(&id));
        if id.is_some_and(|id| self.reopened.remove(&id).is_some()) {
            self.changes.journal(id, now, Entry::FinalLost { slot, block });
        }
        self.keep(slot, block, None);
        let Some(mut tx) = tx else { return };
        if tx.takes_two_slots() {
            self.free_second_slot(slot);
        }
        // What a chain calls final it does not take back, so nothing can land beside it (E11).
        let has_tag = self.live_view().is_some_and(|view| view.finalized.is_some());
        let default = if has_tag { OnDisplaced::Requeue } else { self.settings.on_displaced };
        let wish = tx.request.options.on_displaced.unwrap_or(default);
        tx.status.displaced = false;
        tx.status.receipt = None;
        if let Some(ending) = tx.status.ending.clone() {
            self.end(tx, ending, now);
        } else if wish == OnDisplaced::Fail {
            let text = format!("nonce {slot} was taken by another transaction in block {}", block.number);
            self.end(tx, Ending::Fail(Reason { code: ReasonCode::Displaced, text }), now);
        } else {
            self.check_anew(tx, slot, block, now);
        }
    }

    /// The transaction is to end without its content. Without stored bytes it ends here; with them its slot gets a
    /// no-op, and the chain decides. An ending that has begun stays.
    pub(super) fn begin_ending(&mut self, id: TxId, ending: Ending, now: Millis) {
        if let Some(tx) = self.bound.get_mut(&id) {
            if tx.status.ending.is_some() {
                return;
            }
            let slot = tx.status.slot;
            let has_bytes = slot.and_then(|s| self.slots.get(&s)).is_some_and(|r| !r.attempts.is_empty());
            if has_bytes {
                let entry = Entry::EndingBegan { state: ending.state(), reason: ending.reason().clone() };
                tx.status.ending = Some(ending);
                if !tx.is_no_op() {
                    tx.status.later.push(Content::NoOp);
                }
                self.changes.tx(tx, now);
                self.changes.journal(Some(id), now, entry);
            } else if let Some(mut tx) = self.bound.remove(&id) {
                if let Some(slot) = tx.status.slot.take() {
                    if tx.takes_two_slots() {
                        self.free_second_slot(slot);
                    }
                    self.give_back(slot, id, now);
                }
                self.end(tx, ending, now);
            }
        } else if self.waiting.contains(id) {
            let (state, reason, entry) = (ending.state(), ending.reason().clone(), ended_entry(&ending));
            self.end_waiting(id, state, reason, entry, now);
        }
    }

    /// Ends a transaction that holds no slot. A signature that is under way for it is forgotten.
    pub(super) fn end_waiting(
        &mut self,
        id: TxId,
        state: TxState,
        reason: Reason,
        entry: Entry,
        now: Millis,
    ) {
        self.stop_signing(id);
        let Some(Waiting { mut tx, .. }) = self.leave_waiting(id) else { return };
        tx.status.state = state;
        let mut reason = reason;
        if let Some(slot) = tx.status.forgotten_as.filter(|_| tx.status.may_have_landed()) {
            reason.text = match reason.code {
                ReasonCode::LandedBefore => format!("{}, with nonce {slot}", reason.text),
                _ => format!("{}; nonce {slot} did the same and stays remembered", reason.text),
            };
        }
        tx.status.reason = Some(reason);
        self.changes.tx(&mut tx, now);
        self.changes.journal(Some(id), now, entry);
    }

    pub(super) fn end(&mut self, mut tx: Transaction, ending: Ending, now: Millis) {
        tx.status.state = ending.state();
        tx.status.reason = Some(ending.reason().clone());
        self.changes.tx(&mut tx, now);
        self.changes.journal(Some(tx.id), now, ended_entry(&ending));
    }

    /// Deadlines, judged by block time: a chain that stands still lets nothing expire (E7).
    pub(super) fn expire(&mut self, now: Millis) {
        let Some(head) = self.live_view().and_then(|view| view.time()) else { return };
        let head = self.planted_time(head, now);
        let late = |tx: &Transaction| {
            tx.status.ending.is_none()
                && tx.status.state != TxState::Mined
                && tx.deadline().is_some_and(|deadline| deadline < head)
        };
        let waiting = self.waiting.to_judge(self.slots.looks_at_all()).map(|waiting| &waiting.tx);
        let bound = self.slots.to_look_at(..).filter_map(|(_, record)| self.bound.get(&record.tx?));
        let ids: Vec<TxId> = waiting.chain(bound).filter(|tx| late(tx)).map(|tx| tx.id).collect();
        for id in ids {
            let text = "its deadline passed before it was in a block".to_owned();
            let reason = Reason { code: ReasonCode::DeadlinePassed, text };
            self.begin_ending(id, Ending::Expire(reason), now);
        }
    }
}

pub(super) fn has_reverted() -> Reason {
    Reason { code: ReasonCode::Reverted, text: "it was mined and its execution reverted".to_owned() }
}

/// Nobody asked for it to end, and nothing of its content has landed.
fn is_asked_for_again(tx: &Transaction, winner: &Attempt) -> bool {
    tx.status.ending.is_none() && winner.no_op
}

/// What has won sends its transaction to another slot. Then two slots have its content, so the first must be one that the chain cannot
/// take back, whatever finality its caller asked for.
pub(super) fn comes_again(tx: Option<&Transaction>, record: &SlotRecord, receipt: &Receipt) -> bool {
    let winner = record.attempts.iter().find(|attempt| attempt.hash == receipt.hash);
    tx.zip(winner).is_some_and(|(tx, winner)| is_asked_for_again(tx, winner))
}

fn ended_entry(ending: &Ending) -> Entry {
    let reason = ending.reason().clone();
    match ending {
        Ending::Cancel(_) => Entry::Cancelled { reason },
        Ending::Expire(_) => Entry::Expired { reason },
        Ending::Fail(_) => Entry::Failed { reason },
    }
}
