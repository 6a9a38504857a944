//! Counts: where the transactions of a lane stand (E27), for gauges. Only what is in memory is looked at.

use super::{Lane, SlotRecord};
use crate::Millis;

/// How many stand where, in one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneCounts {
    /// Waiting for a slot, as far as they are in memory.
    pub waiting: u64,
    /// The store has more waiting ones.
    pub more: bool,
    /// When the one was accepted that waits for longest.
    pub oldest_waiting: Option<Millis>,
    /// Slots with stored bytes that no node is known to have taken.
    pub signed: u64,
    /// Slots whose bytes some node took, and that are in no block.
    pub out: u64,
    /// Slots in a block that is not final.
    pub mined: u64,
    /// Slots that the chain's count has passed without a receipt of ours.
    pub without_receipt: u64,
    /// Slots that were given back without stored bytes.
    pub returned: u64,
    /// How many slots may be out at once.
    pub window: u64,
    /// No slots are handed out.
    pub held: bool,
}

impl Lane {
    /// Where this lane's transactions stand.
    #[must_use]
    pub fn counts(&self) -> LaneCounts {
        let count = self.chain_count();
        let mut counts = LaneCounts {
            waiting: self.waiting.len() as u64,
            more: self.load.more,
            oldest_waiting: self.waiting.values().next().map(|waiting| waiting.tx.request.accepted_at),
            returned: self.row.returned.len() as u64,
            window: self.window(),
            held: self.held().is_some(),
            ..LaneCounts::default()
        };
        for (slot, record) in self.slots.iter().filter(|(_, record)| !record.attempts.is_empty()) {
            if record.mined.is_some() {
                counts.mined += 1;
                continue;
            }
            if is_out(record) {
                counts.out += 1;
            } else {
                counts.signed += 1;
            }
            if count.is_some_and(|count| *slot < count) {
                counts.without_receipt += 1;
            }
        }
        counts
    }
}

fn is_out(record: &SlotRecord) -> bool {
    record.attempts.iter().any(|attempt| attempt.hints.accepted)
}
