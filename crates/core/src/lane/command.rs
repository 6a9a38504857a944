//! Commands: what callers and operators ask for on the way. Each is a stored row. Most are applied when they are read;
//! those that take longer stay open until they are done, and are read again after a crash.
//!
//! They are taken in their order, a page at a time. Those that stay open are left out of the next page, so that however many wait,
//! the one behind them that frees the lane is read.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Lane, Prep};
use crate::journal::Entry;
use crate::ports::store::{Command, CommandKind};
use crate::transaction::{Ending, Reason, ReasonCode, Transaction, TxState};
use crate::{CommandId, ContentVersion, Millis, Origin, QueueOrder, Slot, TxId};

impl Lane {
    /// `reach` is how far the load that brought them has read the queue; none if to its end.
    pub(super) fn take_commands(&mut self, commands: Vec<Command>, reach: Option<QueueOrder>, now: Millis) {
        for command in commands {
            if self.is_older() && !self.is_heard(&command.kind) {
                self.left_open.insert(command.id);
                self.note_spoken_of(&command.kind);
                continue;
            }
            self.speak_for(command.id, command.by);
            match command.kind {
                CommandKind::Cancel { tx } => self.cancel(tx, now),
                CommandKind::Withdraw { tx } => self.withdraw(tx, now),
                CommandKind::Replace { tx, payload, terms } => self.replace(tx, *payload, terms, now),
                CommandKind::SpeedUp { tx, fees, speed } => self.speed_up(tx, fees, speed, now),
                CommandKind::Approve { tx, version, held_for } => self.approve(tx, version, held_for, now),
                CommandKind::Reject { tx, version, held_for } => self.reject(tx, version, held_for, now),
                CommandKind::Pause => self.pause(now),
                CommandKind::Resume => {
                    self.resume(command.id, now);
                    continue;
                }
                CommandKind::AcceptStore { seen } => {
                    self.accept_store(command.id, seen, command.at, now);
                    continue;
                }
                CommandKind::Disable => self.disable(now),
                CommandKind::CancelAll { up_to } => {
                    self.cancel_all(command.id, up_to, reach, now);
                    continue;
                }
                CommandKind::Fill { from, to } => {
                    self.fill_range(command.id, from, to, now);
                    continue;
                }
                CommandKind::Reset => {
                    self.ask_reset(command.id);
                    continue;
                }
                CommandKind::Settle { tx, whose, hash } => {
                    self.ask_settle(command.id, tx, whose, hash);
                    continue;
                }
            }
            self.finish_command(command.id);
        }
        self.changes.by = None;
    }

    /// Journal entries from here on were asked for by the caller of this command, until the command is done.
    fn speak_for(&mut self, command: CommandId, by: Option<Arc<Origin>>) {
        self.changes.by.clone_from(&by);
        if let Some(by) = by {
            self.asked_by.insert(command, by);
        }
    }

    /// The same for a command that was read before and is done now.
    pub(super) fn speak_again_for(&mut self, command: CommandId) {
        self.changes.by = self.asked_by.get(&command).cloned();
    }

    /// It may not be wanted any more: that is heard when the store was accepted, and what landed was compared.
    fn note_spoken_of(&mut self, kind: &CommandKind) {
        match kind {
            CommandKind::Cancel { tx } | CommandKind::Withdraw { tx } | CommandKind::Reject { tx, .. } => {
                self.spoken_of.insert(Some(*tx));
            }
            CommandKind::CancelAll { .. } => {
                self.spoken_of.insert(None);
            }
            _ => {}
        }
    }

    /// Commands that were read and are not done. What a cancel of everything is still to do is found by reading it again.
    pub(super) fn taken_commands(&self) -> BTreeSet<CommandId> {
        if self.planted_page() {
            return BTreeSet::new();
        }
        let mut taken = self.left_open.clone();
        taken.extend(&self.accepted);
        taken.extend(self.fills.keys());
        taken.extend(self.reset.commands());
        taken.extend(self.settles.keys());
        taken.extend(self.strangers.resuming());
        taken
    }

    /// A transaction that has ended meanwhile is not here, and nothing is done.
    fn cancel(&mut self, id: TxId, now: Millis) {
        if self.planted_cancel(id, now) {
            return;
        }
        let text = "cancelled by the caller".to_owned();
        self.begin_ending(id, Ending::Cancel(Reason { code: ReasonCode::CancelledByCaller, text }), now);
    }

    /// Its caller was not told its hash and gave up: what has no bytes yet ends, and nothing else is touched. One that may have
    /// landed already waits for a person: its caller will ask again.
    fn withdraw(&mut self, id: TxId, now: Millis) {
        let waits = self.waiting.by_id(id).is_some_and(|waiting| !waiting.tx.status.may_have_landed());
        if waits || self.is_reserved(id) {
            let text = "its caller waited for its hash, which did not come in time".to_owned();
            self.begin_ending(id, Ending::Cancel(Reason { code: ReasonCode::CancelledByCaller, text }), now);
        }
    }

    /// A yes is for one content: whoever looked at another one has not said it.
    fn is_asked(&self, id: TxId, version: Option<ContentVersion>) -> bool {
        let tx = self.known(id).filter(|tx| version.is_none_or(|version| version == tx.version()));
        tx.is_some_and(|tx| tx.status.state == TxState::AwaitingApproval || tx.status.asks_approval)
    }

    /// Whoever spoke of it knew why it waits. A word from before it was held as one that may have landed says nothing of that, and a word on
    /// one nonce says nothing of another that is shown by now.
    fn was_shown(&self, id: TxId, held_for: Option<Slot>) -> bool {
        let Some(tx) = self.known(id).filter(|tx| tx.status.may_have_landed()) else { return true };
        let held_for = self.planted_shown(id, held_for);
        if tx.status.forgotten_as.is_none() {
            return true;
        }
        held_for.is_some_and(|slot| tx.status.forgotten_as == Some(slot) || self.held_for(tx).is_none())
    }

    fn approve(&mut self, id: TxId, version: Option<ContentVersion>, held_for: Option<Slot>, now: Millis) {
        if (self.was_shown(id, held_for) && self.release(id, version, now)) || !self.is_asked(id, version) {
            return;
        }
        if let Some(tx) = self.bound.get_mut(&id) {
            tx.status.approved = true;
            tx.status.asks_approval = false;
            self.changes.tx(tx, now);
            self.changes.journal(Some(id), now, Entry::VersionApproved { version: tx.version() });
            let slot = tx.status.slot;
            if let Some(record) = slot.and_then(|slot| self.slots.get_mut(&slot)) {
                record.work.fresh = Prep::New;
            }
            return;
        }
        let Some(waiting) = self.waiting.by_id_mut(id) else { return };
        waiting.tx.status.state = TxState::Simulated;
        waiting.tx.status.approved = true;
        waiting.tx.status.asks_approval = false;
        self.changes.tx(&mut waiting.tx, now);
        // The chain may have moved while the person thought: it is checked again before it is signed (F4).
        self.waiting.set_prep(id, Prep::New);
        self.changes.journal(Some(id), now, Entry::Approved);
    }

    fn reject(&mut self, id: TxId, version: Option<ContentVersion>, held_for: Option<Slot>, now: Millis) {
        let is_meant = |tx: &&Transaction| version.is_none_or(|version| version == tx.version());
        let held = self.known(id).filter(is_meant).is_some_and(|tx| tx.status.held.is_some());
        if !held && !self.is_asked(id, version) {
            return;
        }
        let held_for = self.planted_shown(id, held_for);
        let shown = held_for.filter(|_| self.known(id).is_some_and(|tx| tx.status.may_have_landed()));
        // Another transaction was that one, by a word that came first: whoever looks again sees what is left.
        if shown.is_some_and(|slot| !self.row.forgotten.contains_key(&slot)) {
            return self.show_next(id, None, now);
        }
        let (code, text) = match shown {
            Some(_) => (ReasonCode::LandedBefore, "a person said that it has landed already"),
            None => (ReasonCode::Rejected, "an approver said no"),
        };
        let text = text.to_owned();
        if let Some(slot) = shown {
            self.remember_no_more(id, slot, now);
        }
        if self.bound.contains_key(&id) {
            self.drop_content(id, Reason { code, text }, now);
        } else {
            self.fail_waiting(id, code, text, now);
        }
    }

    fn pause(&mut self, now: Millis) {
        if !std::mem::replace(&mut self.row.paused, true) {
            let text = "an operator paused it: no new nonces are assigned".to_owned();
            self.changes.journal(None, now, Entry::LanePaused { text });
        }
    }

    fn disable(&mut self, now: Millis) {
        if !std::mem::replace(&mut self.row.disabled, true) {
            let text = "an operator disabled it: no new transactions are taken in".to_owned();
            self.changes.journal(None, now, Entry::LaneDisabled { text });
        }
    }

    /// Ends a pause and lets transactions in again, once: a pause that comes after it counts, however long the rest of it takes.
    /// That rest is about what the chain has used or taken back: [`super::stranger`].
    fn resume(&mut self, command: CommandId, now: Millis) {
        let is_new = self.row.resuming != Some(command);
        if is_new && (self.row.paused || self.row.disabled) {
            (self.row.paused, self.row.disabled) = (false, false);
            let text = "an operator resumed it".to_owned();
            self.changes.journal(None, now, Entry::LaneResumed { text });
        }
        self.ask_resume(command, is_new);
    }
}
