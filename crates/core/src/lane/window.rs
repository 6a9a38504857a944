//! Window: how many slots may be out at once, and which of them may be sent now.
//!
//! Slots are handed out up to the window, or, in a lane that hands them out at admission, further: those above the window
//! are signed and stored, and sent when it reaches them. A transaction whose caller waits for its hash goes beyond the
//! window in any lane, and takes those before it along: the order stays, and nothing is overtaken for ever.
//!
//! An account whose code is a delegation (EIP-7702) has the smaller window that its chain's pools allow (E24), and they
//! refuse it a slot whose predecessor is missing, as a chain without a mempool does. There a slot is sent only when
//! every lower one was taken.
//!
//! Some gateways drop what races to be an account's first transaction: there the first slot goes out alone.
//!
//! Pools have limits of their own, which no setting knows. When every node refuses a slot since the account has enough in
//! its pool, the window shrinks to what is below that slot, and grows by one after each resubmit interval without
//! another such refusal.

use super::{Lane, Plan, SlotRecord};
use crate::settings::Allocation;
use crate::{Millis, Slot};

/// The most waiting transactions that are held in memory, however wide the window: more come while these are signed.
pub(super) const MOST_AHEAD: u64 = 2_000;

/// What refusals have taught about the window; not stored, since a start may meet other nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Learned {
    most: u64,
    grows_at: Millis,
}

impl Lane {
    /// How many slots may be out, counted from the chain's own count.
    pub(super) fn window(&self) -> u64 {
        let configured = self.configured_window();
        self.learned.map_or(configured, |learned| learned.most.min(configured))
    }

    /// How many slots may be bound, counted from the chain's own count.
    pub(super) fn bound_ahead(&self) -> u64 {
        match self.settings.allocation {
            Allocation::Dispatch => self.window(),
            Allocation::Admission => self.signed_ahead(),
        }
    }

    /// How many slots may be bound if somebody waits for a hash, counted from the chain's own count.
    pub(super) fn signed_ahead(&self) -> u64 {
        self.window().max(self.settings.max_signed_ahead)
    }

    /// How many waiting transactions are held in memory and prepared: twice what can be bound, within reason.
    pub(super) fn prepared_ahead(&self) -> u64 {
        let bound = match self.settings.allocation {
            Allocation::Dispatch => self.settings.max_in_flight,
            Allocation::Admission => self.settings.max_in_flight.max(self.settings.max_signed_ahead),
        };
        bound.saturating_mul(2).min(MOST_AHEAD)
    }

    fn configured_window(&self) -> u64 {
        if self.settings.first_alone && self.chain_count() == Some(Slot(0)) {
            1
        } else if self.is_delegated() {
            self.settings.max_in_flight.min(self.settings.delegated_in_flight.max(1))
        } else {
            self.settings.max_in_flight
        }
    }

    /// No node takes this slot beside those below it.
    pub(super) fn learn_limit(&mut self, refused: Slot, now: Millis) {
        let Some(count) = self.chain_count() else { return };
        let least = if self.planted_limit() { 0 } else { 1 };
        let below = refused.0.saturating_sub(count.0).max(least);
        let grows_at = now.after(self.settings.resubmit_after);
        self.learned = Some(Learned { most: self.window().min(below), grows_at });
        self.slots.look_at_all();
    }

    /// One more for each interval that has passed, until it is what was configured.
    pub(super) fn grow_window(&mut self, now: Millis) {
        let configured = self.configured_window();
        let stays = self.planted_limit();
        let Some(learned) = self.learned.as_mut().filter(|_| !stays) else { return };
        while learned.grows_at <= now && learned.most < configured {
            learned.most += 1;
            learned.grows_at = learned.grows_at.after(self.settings.resubmit_after);
            self.slots.look_at_all();
        }
        if learned.most >= configured {
            self.learned = None;
        }
    }

    /// What is beyond the window is thought of again when that has grown.
    pub(super) fn wake_for_window(&self, plan: &mut Plan) {
        if let Some(learned) = self.learned.filter(|_| !self.slots.is_empty() || !self.waiting.is_empty())
            && !self.planted_limit()
        {
            plan.wake(learned.grows_at);
        }
    }

    fn is_delegated(&self) -> bool {
        self.account().is_some_and(|account| account.delegated)
    }

    /// No slot may be sent before those below it are known to be taken.
    pub(super) fn in_order_only(&self) -> bool {
        self.settings.gapless || self.is_delegated()
    }

    /// The first slot from `count` on that may not be sent yet, where only what is in order may be.
    pub(super) fn first_out_of_order(&self, count: Slot) -> Option<Slot> {
        if !self.in_order_only() {
            return None;
        }
        let mut next = count;
        for (slot, record) in self.slots.range(count..) {
            if *slot != next {
                break;
            }
            next = slot.next();
            if !is_taken(record) {
                return Some(next);
            }
        }
        Some(next)
    }
}

/// It is in a block, or a node said that it has bytes for it.
fn is_taken(record: &SlotRecord) -> bool {
    record.mined.is_some() || record.attempts.iter().any(|attempt| attempt.hints.accepted)
}
