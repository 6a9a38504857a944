//! Commands: what callers and operators ask for on the way. Each is a stored row that is applied once.

use super::{Lane, Prep, Waiting};
use crate::journal::Entry;
use crate::ports::store::{Command, CommandKind};
use crate::transaction::{Ending, Reason, ReasonCode, TxState};
use crate::{Millis, Slot, TxId};

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
        if self.planted_cancel(id, now) {
            return;
        }
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

    /// Ends a pause; and where the chain has used slots that we do not know, it is an operator's word that they are not
    /// ours. Transactions that had reserved one of them wait for another.
    fn resume(&mut self, now: Millis) {
        self.row.paused = false;
        // Also an operator's word that a final slot which the chain took back may be filled.
        if let (Some(history), Some(count)) = (self.row.history, self.chain_count())
            && count <= history
        {
            self.row.history = count.0.checked_sub(1).map(Slot);
            let text = format!("an operator resumed it: slot {count}, which was final, may be filled");
            self.changes.journal(None, now, Entry::LaneResumed { text });
        }
        let (Some((first, last)), Some(count)) = (self.unknown_slots(), self.chain_count()) else { return };
        let reserved = self.slots.range(..count).filter(|(_, record)| record.attempts.is_empty());
        for (slot, id) in reserved.filter_map(|(slot, record)| Some((*slot, record.tx?))).collect::<Vec<_>>()
        {
            self.slots.remove(&slot);
            let Some(mut tx) = self.bound.remove(&id) else { continue };
            tx.status.slot = None;
            self.changes.tx(&mut tx, now);
            self.changes.journal(Some(id), now, Entry::SlotReturned { slot });
            self.waiting.insert((tx.order, id), Waiting { tx, prep: Prep::New });
        }
        self.row.returned.retain(|slot| *slot >= count);
        self.row.cursor = self.row.cursor.max(Some(count));
        let text = format!("an operator resumed it: slots {first} to {last} are not ours");
        self.changes.journal(None, now, Entry::LaneResumed { text });
    }
}
