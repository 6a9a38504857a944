//! Window: how many slots may be out at once, and which of them may be sent now.
//!
//! An account whose code is a delegation (EIP-7702) has the smaller window that its chain's pools allow (E24), and they
//! refuse it a slot whose predecessor is missing, as a chain without a mempool does. There a slot is sent only when
//! every lower one was taken.

use super::{Lane, SlotRecord};
use crate::Slot;

impl Lane {
    /// How many slots may be out, counted from the chain's own count.
    pub(super) fn window(&self) -> u64 {
        if self.is_delegated() {
            self.settings.max_in_flight.min(self.settings.delegated_in_flight.max(1))
        } else {
            self.settings.max_in_flight
        }
    }

    fn is_delegated(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.delegated.contains(&self.id.signer))
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
