//! Commands: what callers and operators ask for on the way. Each is a stored row that is applied once.

use super::{Lane, Prep};
use crate::journal::Entry;
use crate::ports::store::{Command, CommandKind};
use crate::transaction::{Ending, Reason, ReasonCode, TxState};
use crate::{Millis, TxId};

impl Lane {
    pub(super) fn take_commands(&mut self, commands: Vec<Command>, now: Millis) {
        for command in commands {
            match command.kind {
                CommandKind::Cancel { tx } => self.cancel(tx, now),
                CommandKind::Approve { tx } => self.approve(tx, now),
                CommandKind::Reject { tx } => self.reject(tx, now),
                CommandKind::Pause => self.row.paused = true,
                CommandKind::Resume => self.resume(now),
            }
            self.changes.command_done(command.id);
        }
    }

    /// A transaction that has ended meanwhile is not here, and nothing is done.
    fn cancel(&mut self, id: TxId, now: Millis) {
        let text = "cancelled by the caller".to_owned();
        self.begin_ending(id, Ending::Cancel(Reason { code: ReasonCode::CancelledByCaller, text }), now);
    }

    fn approve(&mut self, id: TxId, now: Millis) {
        let Some(waiting) = self.waiting_mut(id) else { return };
        if waiting.tx.status.state != TxState::AwaitingApproval {
            return;
        }
        waiting.tx.status.state = TxState::Simulated;
        waiting.tx.status.approved = true;
        // The chain may have moved while the person thought: it is checked again before it is signed (F4).
        waiting.prep = Prep::New;
        let mut tx = waiting.tx.clone();
        self.changes.tx(&mut tx, now);
        self.changes.journal(Some(id), now, Entry::Approved);
    }

    fn reject(&mut self, id: TxId, now: Millis) {
        let Some(waiting) = self.waiting_mut(id) else { return };
        if waiting.tx.status.state == TxState::AwaitingApproval {
            self.fail_waiting(id, ReasonCode::Rejected, "an approver said no".to_owned(), now);
        }
    }

    /// Ends a pause, and an operator's word that slots which the chain has and we do not know are not ours.
    fn resume(&mut self, now: Millis) {
        self.row.paused = false;
        if let (Some(count), Some(cursor)) = (self.chain_count(), self.row.cursor)
            && count > cursor
        {
            self.row.cursor = Some(count);
            let text = format!("an operator resumed it: slots {cursor} to {} are not ours", count.0 - 1);
            self.changes.journal(None, now, Entry::LaneResumed { text });
        }
    }
}
