//! Cheap: a node says that bytes offer too little (E7, F8, R6).
//!
//! | what is refused | what it means |
//! |---|---|
//! | the first send of bytes that were signed since the load | nobody can have them: the price is too low |
//! | bytes that a node has taken, called a replacement that is too cheap | known, in other words: they replace themselves |
//! | any others | a node may have them, so they are looked up ([`super::probe`]); if nobody shows them, the price is too low |
//!
//! Where the price is too low the lowest open slot is re-priced: at once the first time, then with growing pauses. None above it
//! can land first, so those keep the refusal in mind: they go on being sent, and are re-priced when one of them is the lowest
//! and no node has taken it by then. One exception: while an older content of the slot may land with those below it, what is to
//! replace that is re-priced wherever it stands.

use super::keep::current;
use super::{Lane, SlotRecord, SlotWork, back_off};
use crate::attempt::Attempt;
use crate::{Millis, Slot};

/// What nodes say of the newest attempt's price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Cheap {
    /// Nothing that counts.
    #[default]
    No,
    /// Too low, and one of them may have the bytes.
    InDoubt,
    /// Too low, and none of them has the bytes.
    Yes,
}

impl SlotWork {
    /// A node refused the newest attempt as too cheap. `is_new`: nobody can have it.
    pub(super) fn refused_as_cheap(&mut self, is_new: bool, now: Millis) {
        if self.cheap == Cheap::Yes {
            return;
        }
        if is_new {
            self.is_cheap(now);
        } else {
            self.cheap = Cheap::InDoubt;
            self.probe_at = Some(now);
        }
    }

    /// The price is too low.
    pub(super) fn is_cheap(&mut self, now: Millis) {
        self.cheap = Cheap::Yes;
        if self.cheap_refusals > 0 {
            self.sign_at = now.after(back_off(self.cheap_refusals, 500, 30_000));
        }
        self.cheap_refusals = self.cheap_refusals.saturating_add(1);
    }
}

impl Lane {
    /// The slot is to be re-priced, since a node refused its newest attempt as too cheap.
    pub(super) fn is_too_cheap(&self, slot: Slot, lowest: Option<Slot>) -> bool {
        let Some(record) = self.slots.get(&slot).filter(|record| record.work.cheap == Cheap::Yes) else {
            return false;
        };
        let may_wait = lowest != Some(slot) && !self.is_behind_older(record) && !self.planted_cheap();
        !may_wait && self.may_climb(record)
    }

    /// Its newest content is in no pool, and an older one may be.
    fn is_behind_older(&self, record: &SlotRecord) -> bool {
        let Some(newest) = current(&self.reopened, record) else { return false };
        let taken = |attempt: &Attempt| attempt.version == newest.version && attempt.hints.accepted;
        record.attempts.iter().any(|attempt| attempt.version < newest.version)
            && !record.attempts.iter().any(taken)
    }
}

/// The sentence for people.
pub(super) fn explain_cheap(work: &SlotWork) -> &'static str {
    match work.cheap {
        Cheap::No => "",
        Cheap::InDoubt => "a node refuses it as too cheap; whether another has it is being looked up; ",
        Cheap::Yes => "nodes refuse it as too cheap; ",
    }
}
