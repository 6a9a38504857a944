//! Older: the store went back, and what it has forgotten may have been sent. Until a person accepts it, the lane decides nothing that
//! the forgotten part may have decided otherwise.
//!
//! | goes on | waits for the person |
//! |---|---|
//! | admissions: what callers hand in again is there to be compared | slots, estimates, signatures, fee bumps, no-ops |
//! | stored bytes are sent again: the same slot, so nothing new can land | ends without the chain: expired, refused, too poor |
//! | receipts of stored bytes count, and what is final ends | proofs that a slot is foreign: its taker may be ours |
//! | | commands: a cancel may come for what has landed |

use super::Lane;
use crate::journal::Entry;
use crate::ports::store::Older;
use crate::{CommandId, Millis, Slot};

/// Where the store has no cursor, so many of the newest slots may be forgotten ones.
const MOST_FORGOTTEN: u64 = 256;

impl Lane {
    /// Why the store is an older copy, until a person has accepted it.
    pub(super) fn is_older(&self) -> bool {
        self.older.is_some()
    }

    pub(super) fn older(&self) -> Option<&Older> {
        self.older.as_ref()
    }

    /// A person has accepted the store as it is. It is older no more when the chain was seen: then slots that are not known hold the
    /// lane in their own right.
    pub(super) fn accept_store(&mut self, command: CommandId) {
        self.accepted.insert(command);
    }

    /// The chain was seen, or a command was read.
    pub(super) fn take_acceptance(&mut self, now: Millis) {
        let Some(count) = self.chain_count().filter(|_| !self.accepted.is_empty()) else { return };
        self.older = None;
        if self.row.cursor.is_none() {
            // The copy is of a time before this lane was used, or it was never used: only the chain can tell.
            self.row.cursor = Some(Slot(count.0.saturating_sub(MOST_FORGOTTEN)));
            self.changes.row();
        }
        let text = "an operator accepted the store, which is an older copy of itself".to_owned();
        self.changes.journal(None, now, Entry::LaneResumed { text });
        // Commands that were left where they are.
        self.load.news = true;
        for command in std::mem::take(&mut self.accepted) {
            self.finish_command(command);
        }
    }
}
