//! Cancel all: everything of the lane that was admitted up to a moment and has not ended.
//!
//! What holds a slot gets its no-op at once. What waits is ended a window at a time, also what is still in the store only:
//! the command stays open until a load has shown that nothing is left, so a crash in the middle loses nothing.

use super::Lane;
use crate::journal::Entry;
use crate::transaction::{Ending, Reason, ReasonCode};
use crate::{CommandId, Millis, QueueOrder, TxId};

/// How many waiting transactions are read at once while everything is being cancelled.
pub(super) const STEP: u64 = 500;

impl Lane {
    /// `reach` is how far the load that brought the command has read; none if it read everything that waits.
    pub(super) fn cancel_all(
        &mut self,
        command: CommandId,
        up_to: QueueOrder,
        reach: Option<QueueOrder>,
        now: Millis,
    ) {
        let all = self.waiting.values().map(|waiting| &waiting.tx).chain(self.bound.values());
        let mut ids: Vec<TxId> = all.filter(|tx| tx.order <= up_to).map(|tx| tx.id).collect();
        ids.sort_unstable();
        for id in ids {
            let text = "everything in its lane was cancelled".to_owned();
            let reason = Reason { code: ReasonCode::CancelledByCaller, text };
            self.begin_ending(id, Ending::Cancel(reason), now);
        }
        if reach.is_none_or(|reach| reach >= up_to) || self.planted_cancel_all() {
            self.cancelling_all = false;
            let text =
                "everything admitted before was cancelled, or is being cancelled by a no-op".to_owned();
            self.changes.journal(None, now, Entry::AllCancelled { up_to, text });
            self.finish_command(command);
        } else {
            self.cancelling_all = true;
            self.load.news = true;
        }
    }
}
