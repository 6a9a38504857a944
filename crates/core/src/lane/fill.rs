//! Fill: slots that an operator wants used up by no-ops (K7), such as those that another program left stuck in a pool.
//!
//! The command stays open until every slot of its range is used: by a no-op, by the chain, or by a transaction of ours that
//! was there first. Slots that are in use are never touched. New slots are filled before any other is handed out, and
//! only from the cursor up, so that no hole is left.

use std::collections::BTreeSet;

use super::{Hold, Lane};
use crate::journal::Entry;
use crate::{CommandId, Millis, Slot};

/// The most slots of one command.
pub const MOST_SLOTS: u64 = 1_000;

impl Lane {
    pub(super) fn fill_range(&mut self, command: CommandId, from: Slot, to: Slot, now: Millis) {
        self.planted_fill(from, to, now);
        self.fills.insert(command, (from, to));
    }

    /// Slots that are to be filled and are free: not in use and not passed by the chain.
    pub(super) fn to_fill(&self) -> BTreeSet<Slot> {
        let may = matches!(self.held(), None | Some(Hold::Paused));
        let late = self.late_to_fill();
        let (Some(cursor), Some(count)) = (self.row.cursor, self.chain_count()) else {
            return BTreeSet::new();
        };
        if (self.fills.is_empty() && late.is_none()) || !may {
            return BTreeSet::new();
        }
        let mut wanted: BTreeSet<Slot> = self
            .fills
            .values()
            .flat_map(|(from, to)| (from.0.max(count.0)..=to.0).map(Slot))
            .chain(late.into_iter().flat_map(|end| (count.0..end.0).map(Slot)))
            .filter(|slot| !self.slots.contains_key(slot) && !self.kept.contains(*slot))
            .collect();
        // Above the cursor only what follows it without a hole; transactions that are being signed count.
        let mut end = cursor;
        while wanted.contains(&end) || self.tentative.contains_key(&end) {
            end = end.next();
        }
        wanted.retain(|slot| *slot < end && !self.tentative.contains_key(slot));
        wanted
    }

    /// A new slot is to be filled: nothing else is handed out first.
    pub(super) fn fills_come_first(&self) -> bool {
        let Some(cursor) = self.row.cursor else { return false };
        self.to_fill().range(cursor..).next().is_some()
            || self.tentative.range(cursor..).any(|(_, tentative)| tentative.tx.is_none())
    }

    /// Commands whose slots are all used are done.
    pub(super) fn finish_fills(&mut self, now: Millis) {
        let (Some(cursor), Some(count)) = (self.row.cursor, self.chain_count()) else { return };
        let open: Vec<(CommandId, (Slot, Slot))> =
            self.fills.iter().map(|(id, range)| (*id, *range)).collect();
        for (command, (from, to)) in open {
            let used =
                |slot: Slot| slot < count || self.slots.contains_key(&slot) || self.kept.contains(slot);
            let gap = from > cursor.max(count);
            if !gap && !(from.0.max(count.0)..=to.0).map(Slot).all(used) {
                continue;
            }
            let text = if gap {
                format!(
                    "nonces {from} to {to} were not filled: nonce {cursor} comes first, and a hole would be left"
                )
            } else {
                format!("nonces {from} to {to} are in use now, by no-ops where they were free")
            };
            self.fills.remove(&command);
            self.speak_again_for(command);
            self.changes.journal(None, now, Entry::LaneFilled { text });
            self.finish_command(command);
        }
    }
}
