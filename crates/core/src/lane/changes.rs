//! What a turn of the loop has changed and not yet committed, and the invariants that hold between turns.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Lane;
use crate::attempt::Attempt;
use crate::journal::{Entry, NewEntry};
use crate::ports::store::{HintUpdate, LaneCommit, TxUpdate};
use crate::transaction::{Status, Transaction};
use crate::{CommandId, LaneId, Millis, Slot, TxId};

/// Hints wait this long for a commit they can go with.
const HINTS_WAIT: Duration = Duration::from_secs(1);

/// Changes that are not on disk yet.
#[derive(Debug, Default)]
pub(super) struct Changes {
    txs: BTreeMap<TxId, Status>,
    attempts: Vec<Attempt>,
    hints: BTreeSet<(Slot, u32)>,
    /// Hints of attempts whose slots this very commit closes or sets aside.
    last_hints: Vec<HintUpdate>,
    closed: Vec<Slot>,
    journal: Vec<NewEntry>,
    commands_done: Vec<CommandId>,
    /// Something here must be on disk before anything is done.
    urgent: bool,
    /// The oldest hint that waits.
    hinted_at: Option<Millis>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        !self.urgent && self.hinted_at.is_none()
    }

    /// When waiting hints are to be written.
    pub(super) fn due(&self) -> Option<Millis> {
        self.hinted_at.map(|at| at.after(HINTS_WAIT))
    }

    pub(super) fn take(&mut self, now: Millis) -> Option<Self> {
        let due = self.urgent || self.due().is_some_and(|at| at <= now);
        due.then(|| std::mem::take(self))
    }

    pub(super) fn into_commit(self, lane: &Lane) -> LaneCommit {
        let hints = self
            .hints
            .into_iter()
            .filter_map(|(slot, ordinal)| {
                let attempt =
                    lane.slots.get(&slot)?.attempts.iter().find(|attempt| attempt.ordinal == ordinal)?;
                Some(HintUpdate { slot, ordinal, hints: attempt.hints.clone() })
            })
            .chain(self.last_hints)
            .collect();
        LaneCommit {
            lane: lane.id,
            token: lane.token,
            version: lane.version,
            row: lane.row.clone(),
            txs: self.txs.into_iter().map(|(id, status)| TxUpdate { id, status }).collect(),
            attempts: self.attempts,
            hints,
            closed: self.closed,
            journal: self.journal,
            commands_done: self.commands_done,
        }
    }

    /// The transaction's row is to be written as it is now.
    pub(super) fn tx(&mut self, tx: &mut Transaction, now: Millis) {
        tx.status.updated_at = now;
        self.txs.insert(tx.id, tx.status.clone());
        self.urgent = true;
    }

    /// As [`Self::tx`], but it may wait for company.
    pub(super) fn tx_hint(&mut self, tx: &mut Transaction, now: Millis) {
        tx.status.updated_at = now;
        self.txs.insert(tx.id, tx.status.clone());
        self.hinted_at.get_or_insert(now);
    }

    pub(super) fn attempt(&mut self, attempt: Attempt) {
        self.attempts.push(attempt);
        self.urgent = true;
    }

    pub(super) fn attempt_hint(&mut self, slot: Slot, ordinal: u32, now: Millis) {
        self.hints.insert((slot, ordinal));
        self.hinted_at.get_or_insert(now);
    }

    /// The slot is out of the way; what was said of its attempts since the last commit is written now.
    pub(super) fn last_hints(&mut self, slot: Slot, attempts: &[Attempt]) {
        for attempt in attempts.iter().filter(|attempt| self.hints.remove(&(slot, attempt.ordinal))) {
            let hints = attempt.hints.clone();
            self.last_hints.push(HintUpdate { slot, ordinal: attempt.ordinal, hints });
        }
    }

    /// The slot is history.
    pub(super) fn close(&mut self, slot: Slot, attempts: &[Attempt]) {
        self.last_hints(slot, attempts);
        self.closed.push(slot);
        self.urgent = true;
    }

    pub(super) fn command_done(&mut self, id: CommandId) {
        self.commands_done.push(id);
        self.urgent = true;
    }

    /// The lane's own row changed.
    pub(super) fn row(&mut self) {
        self.urgent = true;
    }

    pub(super) fn journal(&mut self, tx: Option<TxId>, at: Millis, entry: Entry) {
        self.journal.push(NewEntry { tx, at, entry });
        self.urgent = true;
    }

    pub(super) fn journal_hint(&mut self, tx: Option<TxId>, at: Millis, entry: Entry) {
        self.journal.push(NewEntry { tx, at, entry });
        self.hinted_at.get_or_insert(at);
    }
}

/// An invariant of a lane does not hold: it must not act, and nothing of it may be committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("lane {lane} contradicts itself: {what}")]
pub struct Broken {
    pub lane: LaneId,
    pub what: String,
}

impl Lane {
    /// What must hold between turns. Checked before every commit: a lane that contradicts itself stops.
    pub fn verify(&self) -> Result<(), Broken> {
        let broken = |what: String| Err(Broken { lane: self.id, what });
        let mut seen = BTreeSet::new();
        for (slot, record) in &self.slots {
            if self.row.cursor.is_none_or(|cursor| *slot >= cursor) {
                return broken(format!("slot {slot} is in use but was never handed out"));
            }
            if self.row.returned.contains(slot) {
                return broken(format!("slot {slot} is in use and returned at once"));
            }
            if record.attempts.is_empty() && record.tx.is_none() {
                return broken(format!("slot {slot} is in use by nothing"));
            }
            let Some(id) = record.tx else { continue };
            if !seen.insert(id) {
                return broken(format!("transaction {id} is bound to two slots"));
            }
            match self.bound.get(&id).or_else(|| self.reopened.get(&id)) {
                Some(tx) if tx.status.slot == Some(*slot) => {}
                Some(_) => return broken(format!("transaction {id} does not know its slot {slot}")),
                None => return broken(format!("slot {slot} is bound to {id}, which is not there")),
            }
        }
        if let Some(lost) = self.bound.keys().chain(self.reopened.keys()).find(|id| !seen.contains(id)) {
            return broken(format!("transaction {lost} is bound to a slot that is not there"));
        }
        Ok(())
    }
}
