//! Explain: one sentence for every transaction that waits, and for every lane that holds.

use super::finish::comes_again;
use super::{Lane, Prep, SlotRecord, Waiting};
use crate::journal::Entry;
use crate::transaction::{Transaction, TxState};
use crate::view::ChainStatus;
use crate::{Millis, Slot, TxId};

/// Why a lane hands out no slots. Slots that are out go on being carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// The chain was not seen since the start.
    NoView,
    /// The endpoints show another chain.
    ChainChanged,
    /// The chain has used slots for which we have stored no bytes.
    UnknownSlots { first: Slot, last: Slot },
    /// A slot that is history is open again: the chain took back more than it calls final itself.
    FinalReplaced { slot: Slot },
    /// An operator paused it.
    Paused,
}

impl Hold {
    /// The sentence for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::NoView => "the chain has not been reached since the start".to_owned(),
            Self::ChainChanged => "the endpoints show another chain than the one this lane was used on; \
                 if the chain was restarted on purpose, stop Landfall and run `landfall chain forget`"
                .to_owned(),
            Self::UnknownSlots { first, last } => format!(
                "the chain has used {} of this account, which Landfall did not send: another program uses the key, \
                 or the store is an older copy; check, then resume the lane",
                if first == last { format!("slot {first}") } else { format!("slots {first} to {last}") }
            ),
            Self::FinalReplaced { slot } => format!(
                "the chain took slot {slot} back after it was settled: a reorganisation deeper than what the chain itself \
                 calls final; what was confirmed there is not on the chain any more. Look, then resume the lane: the \
                 slot is filled by a no-op"
            ),
            Self::Paused => "an operator paused the lane".to_owned(),
        }
    }
}

impl Lane {
    /// Why no slots are handed out, if so.
    #[must_use]
    pub fn hold(&self) -> Option<Hold> {
        let Some(view) = &self.view else { return Some(Hold::NoView) };
        if view.status == ChainStatus::Changed {
            return Some(Hold::ChainChanged);
        }
        if let (Some(history), Some(count)) = (self.row.history, self.chain_count())
            && count <= history
        {
            return Some(Hold::FinalReplaced { slot: count });
        }
        if self.row.paused {
            return Some(Hold::Paused);
        }
        if self.row.cursor.is_none() || self.chain_count().is_none() {
            return Some(Hold::NoView);
        }
        let (first, last) = self.unknown_slots()?;
        Some(Hold::UnknownSlots { first, last })
    }

    /// The lowest and the highest slot that the chain has used and for which we have no bytes: never handed out,
    /// returned, or reserved.
    pub(super) fn unknown_slots(&self) -> Option<(Slot, Slot)> {
        let (cursor, count) = (self.row.cursor?, self.chain_count()?);
        let reserved = self.slots.bare().range(..count).copied();
        let returned = self.row.returned.range(..count).copied();
        let beyond = (count > cursor).then(|| [cursor, Slot(count.0 - 1)]).into_iter().flatten();
        let mut unknown = reserved.chain(returned).chain(beyond);
        let one = unknown.next()?;
        Some(unknown.fold((one, one), |(first, last), slot| (first.min(slot), last.max(slot))))
    }

    /// Stored bytes may go out: on any hold but another chain.
    pub(super) fn may_send(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.status == ChainStatus::Live)
    }

    /// Holds that need a person are written down, once, however their numbers change.
    pub(super) fn note_hold(&mut self, now: Millis) {
        let hold = self.hold();
        let kind = hold.as_ref().map(std::mem::discriminant);
        if kind == self.hold_noted {
            return;
        }
        if let Some(hold @ (Hold::ChainChanged | Hold::UnknownSlots { .. } | Hold::FinalReplaced { .. })) =
            &hold
        {
            self.changes.journal(None, now, Entry::LaneHeld { text: hold.sentence() });
        }
        self.hold_noted = kind;
    }

    /// Why this transaction has not moved on. None for one that is not here or has ended.
    #[must_use]
    pub fn explain(&self, id: TxId, now: Millis) -> Option<String> {
        if let Some(waiting) = self.waiting.by_id(id) {
            return Some(self.explain_waiting(waiting, now));
        }
        if let Some(tx) = self.reopened.get(&id) {
            let slot = tx.status.slot?;
            let said = self.explain_bound(tx, slot, self.slots.get(&slot)?, now);
            return Some(format!(
                "it had ended and the chain took its block back, deeper than the finality asked for; {said}"
            ));
        }
        let tx = self.bound.get(&id)?;
        let slot = tx.status.slot?;
        let record = self.slots.get(&slot)?;
        Some(self.explain_bound(tx, slot, record, now))
    }

    fn explain_waiting(&self, waiting: &Waiting, now: Millis) -> String {
        let (tx, prep) = (&waiting.tx, waiting.prep());
        if let Some(hold) = self.hold() {
            return format!("waiting for a slot: {}", hold.sentence());
        }
        if tx.status.state == TxState::AwaitingApproval {
            return "waiting for a person to approve it".to_owned();
        }
        if let Some(why) = self.explain_behind(waiting) {
            return why;
        }
        match prep {
            Prep::New | Prep::Running { .. } => "its gas is being estimated".to_owned(),
            Prep::Retry { tries, at, why } => format!(
                "it could not be prepared ({why}); try {} in {}, others may go first",
                tries.saturating_add(1),
                span(at.since(now))
            ),
            Prep::Signing { slot, .. } => format!("it is being signed for slot {slot}"),
            Prep::Ready { .. } => match self.lacks_funds(waiting, self.funds_left()) {
                Some((needs, left)) => format!(
                    "it needs up to {needs} wei, and the account has {left} left beside what is out; it waits for funds, \
                     others may go first"
                ),
                None => match self.lacks_budget(waiting, self.budget_left()) {
                    Some((needs, left)) => format!(
                        "its fee may come to {needs} wei, and {left} are left of what this lane may spend today; it goes on \
                         when slots that are out have cost less, or tomorrow (UTC)"
                    ),
                    None => self.explain_ready(tx),
                },
            },
        }
    }

    fn explain_ready(&self, tx: &Transaction) -> String {
        if let Some(base) = self.view.as_ref().and_then(|view| view.fees.base_fee)
            && self.is_priced_out(tx)
        {
            return format!(
                "the base fee is {}, above what it may offer; it waits until fees fall",
                base.in_gwei()
            );
        }
        if self.fills_come_first() {
            return "waiting for a slot: those that an operator wants filled come first".to_owned();
        }
        let out = self.slots.values().filter(|record| record.mined.is_none()).count();
        let ahead = self.waiting.values().filter(|other| other.tx.order < tx.order).count();
        let learned = match self.learned {
            Some(_) => "; nodes refused to take more of this account at once",
            None => "",
        };
        format!(
            "waiting for a slot: {out} of {} are out and {ahead} wait before it{learned}",
            self.bound_ahead()
        )
    }

    fn explain_bound(&self, tx: &Transaction, slot: Slot, record: &SlotRecord, now: Millis) -> String {
        if let Some(receipt) = &record.mined {
            let on_top = self.view.as_ref().map_or(0, |view| view.confirmations(&receipt.block));
            let number = receipt.block.number;
            return if comes_again(self.bound.get(&tx.id), record, receipt) {
                format!(
                    "its slot went to a no-op in block {number}, with {on_top} blocks on top; it is checked anew when the chain cannot \
                     take that back"
                )
            } else {
                format!("in block {number}, with {on_top} blocks on top; not final yet")
            };
        }
        if let Some(hold @ (Hold::NoView | Hold::ChainChanged | Hold::FinalReplaced { .. })) = self.hold() {
            return format!("slot {slot} is kept: {}", hold.sentence());
        }
        let Some(newest) = record.attempts.last() else {
            return match self.hold() {
                Some(hold) => format!("slot {slot} is reserved: {}", hold.sentence()),
                None => format!("slot {slot} is reserved and its signature is awaited"),
            };
        };
        if let Some(taker) = record.work.taken_alike {
            return format!(
                "slot {slot} was taken by {taker}, which does the same and is not known here: the store may be an older \
                 copy, so it is not sent again; a person must look"
            );
        }
        if self.chain_count().is_some_and(|count| slot < count) {
            let mut said = format!(
                "the chain has used slot {slot}, but shows no receipt for any of our {} attempts; \
                 looked {} times, next look in {}",
                record.attempts.len(),
                record.work.looks,
                span(record.work.look_at.since(now))
            );
            if record.work.proofs > 0 {
                said.push_str(&format!(
                    "; no final block could be read yet that shows who took it, tried {} times",
                    record.work.proofs
                ));
            }
            return said;
        }
        let landed = |lower: &Slot| self.slots.get(lower).is_some_and(|record| record.mined.is_some());
        let first = self.chain_count().unwrap_or(slot);
        if let Some(lower) = (first.0..slot.0).map(Slot).find(|lower| !landed(lower)) {
            return format!("slot {slot} waits for slot {lower}, which must land first");
        }
        let mut said = String::new();
        said.push_str(&self.explain_fresh(record, now).unwrap_or_default());
        if tx.status.ending.is_some() {
            said.push_str("a no-op is to take its slot; ");
        }
        if let Some(base) = self.view.as_ref().and_then(|view| view.fees.base_fee)
            && newest.fees.cap() < base
        {
            let under = crate::Price(base.0 - newest.fees.cap().0);
            said.push_str(&format!("slot {slot} is {} under the base fee; ", under.in_gwei()));
        }
        if record.work.at_ceiling == Some(tx.version()) && self.unsigned_content(record).is_none() {
            said.push_str("its price is at the ceiling; ");
        }
        if record.work.beyond_budget {
            said.push_str("a dearer attempt would go beyond what this lane may spend today; ");
        }
        match newest.hints.last() {
            Some(report) if report.outcome.is_taken() => said.push_str("the pool has it"),
            Some(report) => said.push_str(&format!(
                "the last answer was {}{}",
                report.outcome.name(),
                report.text.as_deref().map_or(String::new(), |text| format!(" ({text})"))
            )),
            None => said.push_str("it is being sent"),
        }
        said.push_str(&format!("; next send in {}", span(record.work.send_at.since(now))));
        said
    }
}

pub(super) fn span(time: std::time::Duration) -> String {
    if time.as_secs() >= 1 { format!("{} s", time.as_secs()) } else { format!("{} ms", time.as_millis()) }
}
