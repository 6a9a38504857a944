//! Reset: what holds a slot without stored bytes gives it up, and the cursor falls to one above the highest slot with stored
//! bytes (E20, E23). Slots with stored bytes are untouched: they end only on chain.
//!
//! It is done at the next view of the chain, by an operator's word or when too many slots were given back. With nothing to
//! change it does nothing, once.

use std::collections::BTreeSet;

use super::{Lane, SlotRecord};
use crate::journal::Entry;
use crate::ports::store::ResetRecord;
use crate::transaction::Transaction;
use crate::{CommandId, Millis, Slot, TxId};

/// This many resets are remembered.
const KEPT: usize = 5;

/// Who wants a reset.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    /// Operators' commands: one reset serves them all.
    commands: BTreeSet<CommandId>,
    /// The lane itself.
    by_itself: bool,
}

impl Asked {
    pub(super) fn is_none(&self) -> bool {
        self.commands.is_empty() && !self.by_itself
    }

    pub(super) fn commands(&self) -> impl Iterator<Item = CommandId> + '_ {
        self.commands.iter().copied()
    }
}

impl Lane {
    pub(super) fn ask_reset(&mut self, command: CommandId) {
        self.reset.commands.insert(command);
    }

    /// A slot with stored bytes is never new, also if they are history: the store has its first attempt. An earlier version let the
    /// cursor fall there when final slots had been taken back by the chain; those are holes, for no-ops to fill.
    pub(super) fn keep_above_signed(&mut self) {
        if let (Some(cursor), Some(highest)) = (self.row.cursor, self.highest_signed)
            && cursor <= highest
            && !self.planted_into_history()
        {
            self.row.cursor = Some(highest.next());
            self.changes.row();
        }
    }

    /// Too many slots were given back: once for each number of them.
    pub(super) fn want_reset(&mut self) {
        let returned = self.row.returned.len();
        let too_many = self.settings.reset_above_returned.is_some_and(|most| returned > most);
        if too_many && self.reset_at != Some(returned) {
            self.reset_at = Some(returned);
            self.reset.by_itself = true;
        }
    }

    /// The chain was just seen.
    pub(super) fn reset_if_asked(&mut self, now: Millis) {
        let (Some(cursor), Some(count)) = (self.row.cursor, self.chain_count()) else { return };
        if self.reset.is_none() {
            return;
        }
        let asked = std::mem::take(&mut self.reset);
        if let Some(first) = asked.commands.first() {
            self.speak_again_for(*first);
        }
        let with_bytes = self.slots.iter().filter(|(_, record)| !record.attempts.is_empty());
        // One by which the sender delegates its own code uses up the slot after its own as well.
        let takes_two = |record: &SlotRecord| {
            let tx = record.tx.and_then(|id| self.bound.get(&id).or_else(|| self.reopened.get(&id)));
            tx.is_some_and(Transaction::takes_two_slots)
        };
        let last = |slot: &Slot, record: &SlotRecord| if takes_two(record) { slot.next() } else { *slot };
        let highest = with_bytes.map(|(slot, record)| last(slot, record)).max();
        // Slots that have ended may be taken back by the chain, and then their bytes are sent again.
        let signed = self.highest_signed.filter(|_| !self.planted_into_history());
        let highest = highest.max(self.kept.highest()).max(self.row.history).max(signed);
        let highest = highest.max(self.row.passed);
        let lowest_free = highest.map_or(count, |highest| highest.next().max(count));
        let reserved: Vec<TxId> =
            self.slots.bare().range(lowest_free..).filter_map(|slot| self.slots.get(slot)?.tx).collect();
        let before = self.row.returned.len();
        let mut given_up = reserved.len();
        for id in reserved.into_iter().rev() {
            self.unreserve(id, now);
        }
        self.row.returned.retain(|slot| *slot < lowest_free);
        given_up += before.saturating_sub(self.row.returned.len());
        // What was given up may lie below what the chain has used: the cursor has fallen there, and the lane holds until a
        // person has seen by whom (E11). A reset must not step over that.
        let fallen = self.row.cursor.unwrap_or(cursor);
        let to = self.planted_reset(count).unwrap_or(lowest_free.min(fallen));
        if to < cursor {
            if let Some(signing) = self.tentative.range(to..).next().map(|(slot, _)| *slot) {
                self.cut_from(signing);
            }
            self.row.cursor = Some(to);
            let record = ResetRecord { at: now, from: cursor, to, given_up: given_up as u64 };
            self.row.resets.push(record);
            let surplus = self.row.resets.len().saturating_sub(KEPT);
            self.row.resets.drain(..surplus);
            self.changes.row();
        }
        if !asked.commands.is_empty() || to < cursor {
            self.changes.journal(None, now, Entry::LaneReset { text: sentence(cursor, to, given_up) });
        }
        for command in asked.commands {
            self.finish_command(command);
        }
    }
}

fn sentence(from: Slot, to: Slot, given_up: usize) -> String {
    if to < from {
        format!(
            "the next new nonce is {to}, not {from}; {given_up} nonces without stored bytes were given up"
        )
    } else {
        format!("nothing to change: every nonce below {from} is used, or must be used by a no-op")
    }
}
