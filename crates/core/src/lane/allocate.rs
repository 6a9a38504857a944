//! Allocate: slots are handed out last, after everything that can fail, and contiguously (E12, E13, L3).
//!
//! Returned slots go first, lowest first; then new ones from the cursor, as many as the window allows. With local
//! keys nothing is stored here: the slot is taken in the commit that stores its bytes ([`super::sign`]). With remote
//! signers the reservation is committed first.
//!
//! No slot is bound by an old count: somebody else may have used the key since. The account must have been seen at the head of
//! the newest view; a lane that has something to give a slot to and has not asks for it ([`super::Wants`]).

use std::collections::BTreeSet;
use std::ops::Range;

use alloy_primitives::U256;

use super::admit::first_prep;
use super::budget::worst_fee;
use super::funds::{NO_OP_BYTES, unsigned_bytes, worst_cost};
use super::{Expected, Hold, Lane, Means, Plan, Prep, SlotRecord, Tentative, Waiting};
use crate::attempt::{Attempt, Call, Draft};
use crate::fees::{Fees, content_ceiling, first_price};
use crate::journal::Entry;
use crate::request::{AskedFees, Speed};
use crate::transaction::{Transaction, TxState};
use crate::{ContentVersion, Gas, Millis, Price, Slot, TxId};

/// Slots that may be handed out: those that were given back go first, lowest first, then new ones.
#[derive(Default)]
struct Free {
    returned: BTreeSet<Slot>,
    new: Range<u64>,
}

/// A waiting transaction that may have a slot now.
struct Candidate {
    tx: TxId,
    call: Call,
    version: ContentVersion,
    gas: Gas,
    fees: Fees,
    cost: U256,
    fee: U256,
    two_slots: bool,
    /// Its caller waits for its hash.
    at_once: bool,
}

/// This attempt, if it wins, uses up the slot after its own.
pub(super) fn uses_two(tx: &Transaction, winner: &Attempt) -> bool {
    !winner.no_op && takes_next(tx, winner.version)
}

/// This content of it uses up the slot after its own. Asked of every slot that ends: it copies nothing.
pub(super) fn takes_next(tx: &Transaction, version: ContentVersion) -> bool {
    tx.takes_two_slots() && tx.payload_of(version).authorizes_sender()
}

impl Lane {
    /// Drafts for slots that were never used.
    pub(super) fn allocate(&mut self) -> Vec<Draft> {
        if !self.may_bind() || self.held().is_some() {
            return Vec::new();
        }
        let mut drafts = Vec::new();
        for (slot, candidate) in self.matched() {
            let serial = self.serial();
            self.waiting.set_prep(candidate.tx, Prep::Signing { slot, serial });
            self.tentative.insert(
                slot,
                Tentative {
                    serial,
                    tx: Some(candidate.tx),
                    two: candidate.two_slots,
                    signed: None,
                    cost: candidate.cost,
                    fee: candidate.fee,
                },
            );
            drafts.push(Draft {
                serial,
                lane: self.id,
                slot,
                tx: Some(candidate.tx),
                version: candidate.version,
                no_op: false,
                call: candidate.call,
                gas: candidate.gas,
                fees: candidate.fees,
            });
        }
        drafts
    }

    /// Reserves slots before signing: bound, without bytes, and committed before the signer is asked.
    pub(super) fn reserve(&mut self, now: Millis) {
        if !self.may_bind() || self.held().is_some() || self.awaits_prices() {
            return;
        }
        for (slot, candidate) in self.matched() {
            let Some(Waiting { mut tx, .. }) = self.leave_waiting(candidate.tx) else { continue };
            tx.status.slot = Some(slot);
            self.changes.tx(&mut tx, now);
            self.changes.journal(Some(tx.id), now, Entry::SlotReserved { slot });
            self.occupy(slot, tx.takes_two_slots());
            let mut record = SlotRecord { tx: Some(tx.id), ..SlotRecord::default() };
            record.work.gas = Some(candidate.gas);
            let Candidate { fee, cost, .. } = candidate;
            record.work.expected = Some(Box::new(Expected { fee, cost }));
            self.slots.insert(slot, record);
            self.bound.insert(tx);
        }
    }

    /// Who gets which slot now.
    fn matched(&self) -> Vec<(Slot, Candidate)> {
        if !self.waiting.has_ready() {
            return Vec::new();
        }
        let Free { mut returned, mut new } = self.free_slots();
        let has_new = !new.is_empty();
        let free = usize::try_from(new.end - new.start).unwrap_or(usize::MAX).saturating_add(returned.len());
        // One whose hash is waited for may stand behind more than there are slots for.
        let most = if self.waiting.hurries() && free > 0 { usize::MAX } else { free };
        let candidates = self.candidates(most, has_new);
        // Up to the last one whose caller waits for its hash, slots beyond the window are handed out too.
        let hurried = candidates.iter().rposition(|candidate| candidate.at_once).map_or(0, |last| last + 1);
        let window_end = self.chain_count().map_or(0, |count| count.0.saturating_add(self.bound_ahead()));
        let mut matched = Vec::new();
        for (position, candidate) in candidates.into_iter().enumerate() {
            let two = candidate.two_slots;
            // One that uses up the slot after its own needs a new one, and nothing goes above it until it is in a block.
            let slot = if two { None } else { returned.pop_first() };
            let Some(slot) = slot.or_else(|| new.next().map(Slot)) else { break };
            if position >= hurried && slot.0 >= window_end {
                break;
            }
            matched.push((slot, candidate));
            if two {
                break;
            }
        }
        matched
    }

    /// A transaction that takes two slots is out, or being signed, and has not landed: what the next slot is, it decides.
    pub(super) fn next_is_open_for(&self) -> Option<(TxId, Slot)> {
        if self.planted_one_slot() {
            return None;
        }
        let mut out = self.slots.double().filter_map(|record| {
            let tx = record.tx.and_then(|id| self.bound.get(&id)).filter(|tx| tx.takes_two_slots())?;
            let winner = record
                .mined
                .as_ref()
                .and_then(|receipt| record.attempts.iter().find(|attempt| attempt.hash == receipt.hash));
            (!winner.is_some_and(|winner| uses_two(tx, winner))).then_some((tx.id, tx.status.slot?))
        });
        let signing = || {
            let mut two = self.tentative.iter().filter(|(_, tentative)| tentative.two);
            two.find_map(|(slot, tentative)| Some((tentative.tx?, *slot)))
        };
        out.next().or_else(signing)
    }

    /// The slot after this one was kept for its transaction, and the chain did not use it: others may have it. If the chain used it for
    /// something else, it is looked up like every slot that nobody knows.
    pub(super) fn free_second_slot(&mut self, slot: Slot) {
        let second = slot.next();
        // A no-op may have been signed for it already, where the chain stood before it as before a hole.
        let is_known = self.slots.contains_key(&second)
            || self.kept.contains(second)
            || self.row.history.is_some_and(|history| history >= second);
        if is_known || self.row.cursor.is_none_or(|cursor| second >= cursor) {
            return;
        }
        if self.chain_count().is_some_and(|count| count > second) && !self.strangers.note_second(second) {
            return;
        }
        self.row.returned.insert(second);
        self.changes.row();
    }

    /// The slot is in use from here on, and the one after it too where the transaction takes two.
    pub(super) fn occupy(&mut self, slot: Slot, two: bool) {
        let two = two && !self.planted_one_slot();
        if two {
            self.slots.mark_double(slot);
        }
        self.row.widest = self.row.widest.max(self.settings.max_in_flight);
        if !self.row.returned.remove(&slot) {
            let end = if two { slot.next().next() } else { slot.next() };
            self.row.cursor = Some(self.row.cursor.map_or(end, |cursor| cursor.max(end)));
        }
        self.changes.row();
    }

    /// Gives a slot without stored bytes back: the cursor falls if it was the highest, else others may use it.
    pub(super) fn give_back(&mut self, slot: Slot, tx: TxId, now: Millis) {
        self.slots.remove(&slot);
        self.row.returned.insert(slot);
        while let (Some(cursor), Some(highest)) = (self.row.cursor, self.row.returned.last().copied()) {
            if highest.next() != cursor {
                break;
            }
            self.row.returned.remove(&highest);
            self.row.cursor = Some(highest);
            // A no-op that was being signed for it is not needed any more.
            self.cut_from(highest);
        }
        self.changes.row();
        self.changes.journal(Some(tx), now, Entry::SlotReturned { slot });
    }

    /// Its slot was set aside, and has no bytes.
    pub(super) fn is_reserved(&self, id: TxId) -> bool {
        let slot = self.bound.get(&id).and_then(|tx| tx.status.slot);
        slot.and_then(|slot| self.slots.get(&slot)).is_some_and(|record| record.attempts.is_empty())
    }

    /// A transaction whose slot has no stored bytes gives it back and waits again.
    pub(super) fn unreserve(&mut self, id: TxId, now: Millis) {
        let Some(mut tx) = self.bound.remove(&id) else { return };
        if let Some(slot) = tx.status.slot.take() {
            if tx.takes_two_slots() {
                self.free_second_slot(slot);
            }
            self.give_back(slot, id, now);
        }
        self.changes.tx(&mut tx, now);
        let prep = first_prep(&tx, &self.settings);
        self.waiting.add(tx, prep);
    }

    /// Slots that may be handed out now.
    fn free_slots(&self) -> Free {
        let (Some(cursor), Some(count)) = (self.row.cursor, self.chain_count()) else {
            return Free::default();
        };
        if self.awaits_late().is_some() {
            return Free::default();
        }
        let mut returned = self.row.returned.clone();
        returned.retain(|slot| !self.tentative.contains_key(slot));
        if !self.fills.is_empty() {
            let to_fill = self.to_fill();
            returned.retain(|slot| !to_fill.contains(slot));
            if self.fills_come_first() {
                return Free { returned, new: 0..0 };
            }
        }
        let next = self.tentative.last_key_value().map_or(cursor, |(last, _)| cursor.max(last.next()));
        let ahead = if self.waiting.hurries() { self.signed_ahead() } else { self.bound_ahead() };
        let end = if self.next_is_open_for().is_some() { 0 } else { count.0.saturating_add(ahead) };
        Free { returned, new: next.0..end.max(next.0) }
    }

    /// Waiting transactions that are ready, first in first out. One whose first preparation is still running holds
    /// those behind it; one that is being retried, awaits a person, is in doubt or cannot pay today's fee is overtaken (E2).
    /// One that needs a new slot is overtaken too while there is none: a returned slot must not wait for it, since those
    /// above that slot cannot land first.
    fn candidates(&self, most: usize, has_new: bool) -> Vec<Candidate> {
        let Some(view) = &self.view else { return Vec::new() };
        let mut ready = Vec::with_capacity(self.waiting.unsigned().min(most));
        let funds = self.funds_left().filter(|_| !self.planted_funds());
        let budget = self.budget_left();
        let mut spent = U256::ZERO;
        let mut fees_spent = U256::ZERO;
        let barred = |tx: &Transaction| {
            tx.status.state == TxState::AwaitingApproval
                || self.is_behind(tx)
                || (tx.takes_two_slots() && (!has_new || self.unlisted(tx.payload()).is_some()))
                || self.doubts.is_doubtful(tx.id)
        };
        let holds = |(_, waiting): &(_, &Waiting)| {
            matches!(waiting.prep(), Prep::New | Prep::Running { tries: 0 }) && !barred(&waiting.tx)
        };
        let first_held = self.waiting.unready().find(holds).map(|(place, _)| place);
        for waiting in self.waiting.ready(first_held) {
            if ready.len() == most {
                break;
            }
            let tx = &waiting.tx;
            let Prep::Ready { gas } = *waiting.prep() else { continue };
            if barred(tx) {
                continue;
            }
            if self.is_priced_out(tx) {
                continue;
            }
            let fees = first_price(&view.fees, tx.speed(), tx.asked_fees(), self.ceiling(Some(tx)));
            let data = view.fees.data_cost(unsigned_bytes(tx));
            let cost = worst_cost(&fees, gas, tx.payload().value, data);
            if funds.is_some_and(|funds| spent.saturating_add(cost) > funds) {
                continue;
            }
            let fee = worst_fee(&fees, gas, self.data_fee(unsigned_bytes(tx)));
            if budget.is_some_and(|budget| fees_spent.saturating_add(fee) > budget) {
                continue;
            }
            spent = spent.saturating_add(cost);
            fees_spent = fees_spent.saturating_add(fee);
            let (call, version, two_slots) = (tx.call(), tx.version(), tx.takes_two_slots());
            let at_once = tx.request.at_once.is_some();
            ready.push(Candidate { tx: tx.id, call, version, gas, fees, cost, fee, two_slots, at_once });
        }
        ready
    }

    /// What it may offer is under today's base fee.
    pub(super) fn is_priced_out(&self, tx: &Transaction) -> bool {
        let Some(quote) = self.view.as_ref().map(|view| &view.fees) else { return false };
        let fees = first_price(quote, tx.speed(), tx.asked_fees(), self.ceiling(Some(tx)));
        quote.base_fee.is_some_and(|base| fees.cap() < base)
    }

    /// Cannot have a slot for now, for a reason of its own: others go first.
    pub(super) fn is_held_up(&self, waiting: &Waiting, means: &Means) -> bool {
        let retried = match waiting.prep() {
            Prep::Retry { .. } => true,
            Prep::Running { tries } => *tries > 0,
            Prep::New | Prep::Ready { .. } | Prep::Signing { .. } => false,
        };
        retried
            || waiting.tx.status.state == TxState::AwaitingApproval
            || self.is_behind(&waiting.tx)
            || self.doubts.is_doubtful(waiting.tx.id)
            || self.is_priced_out(&waiting.tx)
            || self.lacks_funds(waiting, means.funds).is_some()
            || self.lacks_budget(waiting, means.budget).is_some()
    }

    /// Slots that nothing waits for are used up by no-ops, or those above them would never land (E9, E12).
    pub(super) fn fill(&mut self, plan: &mut Plan, now: Millis) -> Vec<Draft> {
        if !self.may_bind() {
            return Vec::new();
        }
        let mut gaps: BTreeSet<Slot> = self.leftover().into_iter().collect();
        gaps.extend(self.holes(plan, now));
        gaps.extend(self.to_fill());
        let seconds = self.seconds_to_fill();
        gaps.extend(&seconds);
        let (Some(view), Some(gas)) = (self.live_view(), self.no_op_gas) else { return Vec::new() };
        if gaps.is_empty() {
            return Vec::new();
        }
        if self.fill_at > now {
            plan.wake(self.fill_at);
            return Vec::new();
        }
        let mut drafts = Vec::new();
        for slot in gaps {
            let serial = self.serial();
            // A second slot is to land with its first one.
            let speed = if seconds.contains(&slot) { Speed::Fast } else { Speed::Normal };
            let fees = first_price(&view.fees, speed, AskedFees::Market, self.settings.max_fee);
            let cost = worst_cost(&fees, gas, crate::Wei::default(), view.fees.data_cost(NO_OP_BYTES));
            self.tentative
                .insert(slot, Tentative { serial, tx: None, two: false, signed: None, cost, fee: cost });
            drafts.push(Draft {
                serial,
                lane: self.id,
                slot,
                tx: None,
                version: ContentVersion::FIRST,
                no_op: true,
                call: Call::no_op(self.id.signer),
                gas,
                fees,
            });
        }
        drafts
    }

    /// Returned slots that no waiting transaction can take. A paused lane's are, since those above go on.
    fn leftover(&self) -> Vec<Slot> {
        let Some(count) = self.chain_count() else { return Vec::new() };
        let free = self.row.returned.range(count..).filter(|slot| !self.tentative.contains_key(slot));
        let free: Vec<Slot> = free.copied().collect();
        if free.is_empty() {
            return free;
        }
        let wanted = match self.held() {
            None => self.is_slot_wanted(),
            Some(Hold::Paused) => false,
            Some(
                Hold::StoreOlder { .. }
                | Hold::NoView
                | Hold::Reading
                | Hold::Behind
                | Hold::LookingUp { .. }
                | Hold::ChainChanged
                | Hold::FirstCount { .. }
                | Hold::Comparing { .. }
                | Hold::TakenBack { .. }
                | Hold::NotCompared { .. }
                | Hold::UnknownSlots { .. }
                | Hold::NoOpTooDear { .. }
                | Hold::FinalReplaced { .. },
            ) => true,
        };
        if wanted { Vec::new() } else { free }
    }

    /// A transaction that waits here, or that is still to be read, can take a returned slot. One that takes two slots cannot; where so many of those
    /// are here that nothing more is read, nothing else comes, and the slot would keep them waiting for ever.
    fn is_slot_wanted(&self) -> bool {
        let means = self.means();
        let able = || self.waiting.values().filter(|waiting| !self.is_held_up(waiting, &means));
        let comes = self.load.news || self.load.more || self.load.running;
        let unsigned = || able().filter(|waiting| !matches!(waiting.prep(), Prep::Signing { .. }));
        able().any(|waiting| !waiting.tx.takes_two_slots())
            || (comes && !self.are_enough(unsigned().count() as u64))
    }

    /// Slots below our own, or below the next one, that the chain has not used and that were never ours: a stranger's transaction, which had
    /// them, was reorged away. A count that fell may also be a node's lag, so this waits for a stall.
    pub(super) fn holes(&self, plan: &mut Plan, now: Millis) -> Vec<Slot> {
        let Some(count) = self.chain_count() else { return Vec::new() };
        let open =
            self.slots.range(count..).find(|(_, record)| record.mined.is_none()).map(|(slot, _)| *slot);
        let waited_for = self.row.cursor.filter(|_| !self.waiting.is_empty() && self.held().is_none());
        let Some(lowest) = open.or(waited_for) else { return Vec::new() };
        let free = |slot: &Slot| {
            self.row.history.is_none_or(|history| *slot > history)
                && !self.kept.contains(*slot)
                && !self.slots.contains_key(slot)
                && !self.row.returned.contains(slot)
                && !self.tentative.contains_key(slot)
        };
        let holes: Vec<Slot> = (count.0..lowest.0).map(Slot).filter(free).collect();
        let stalls_at = self.moved_at.after(self.settings.resubmit_after);
        if stalls_at > now && !holes.is_empty() {
            plan.wake(stalls_at);
        }
        if stalls_at > now || !self.chain_moves(now) { Vec::new() } else { holes }
    }

    /// The most that an attempt may offer per gas. Contents leave room for the no-op that may have to replace them.
    pub(super) fn ceiling(&self, tx: Option<&Transaction>) -> Price {
        tx.filter(|tx| !tx.is_no_op()).map_or(self.settings.max_fee, |tx| self.ceiling_of_content(tx))
    }

    /// The same for a content of it, also where its newest one is a no-op.
    pub(super) fn ceiling_of_content(&self, tx: &Transaction) -> Price {
        let top = content_ceiling(self.settings.max_fee, self.settings.replacement_percent);
        tx.max_fee_per_gas().filter(|_| !self.planted_ceiling()).map_or(top, |asked| asked.min(top))
    }
}
