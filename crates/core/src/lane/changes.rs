//! What a turn of the loop has changed and not yet committed, and the invariants that hold between turns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::Lane;
use crate::attempt::Attempt;
use crate::journal::{Entry, NewEntry};
use crate::ports::store::{HintUpdate, LaneCommit, TxUpdate};
use crate::transaction::{Status, Transaction};
use crate::{CommandId, LaneId, Millis, Slot, TxId};

/// Hints wait this long for a commit they can go with.
const HINTS_WAIT: Duration = Duration::from_secs(1);

/// What is known of an attempt's sends, and not written yet.
#[derive(Debug, Clone, Copy)]
struct Hint {
    since: Millis,
    /// The journal says all of it.
    told: bool,
}

/// Changes that are not on disk yet.
///
/// What must be there before anything is done is urgent. What may be lost in a crash is a hint: it waits a while, also
/// when others' changes are written, so that most transactions are written once for "a node has it" and "it is in a block".
#[derive(Debug, Default)]
pub(super) struct Changes {
    txs: BTreeMap<TxId, Status>,
    attempts: Vec<Attempt>,
    hints: BTreeMap<(Slot, u32), Hint>,
    /// Hints of attempts whose slots this very commit closes or sets aside.
    last_hints: Vec<HintUpdate>,
    closed: Vec<Slot>,
    journal: Vec<NewEntry>,
    commands_done: Vec<CommandId>,
    /// Transactions of which something is urgent.
    hasty: BTreeSet<TxId>,
    /// Those of which nothing is, and since when they wait.
    patient: BTreeMap<TxId, Millis>,
    /// The same, the oldest first. One that is not patient any more, or patient anew, is passed over.
    oldest: VecDeque<(Millis, TxId)>,
    /// A hint of no transaction waits since then.
    hinted_at: Option<Millis>,
    /// Something here must be on disk before anything is done.
    urgent: bool,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        !self.urgent && self.patient.is_empty() && self.hints.is_empty() && self.hinted_at.is_none()
    }

    /// When waiting hints are to be written.
    pub(super) fn due(&self) -> Option<Millis> {
        let tx = self.oldest.iter().find(|(at, tx)| self.patient.get(tx) == Some(at)).map(|(at, _)| *at);
        let hint = self.hints.values().map(|hint| hint.since).min();
        [tx, hint, self.hinted_at].into_iter().flatten().min().map(|at| at.after(HINTS_WAIT))
    }

    /// What is to be written now. Hints that have waited long enough take along what has waited half as long.
    pub(super) fn take(&mut self, now: Millis) -> Option<Self> {
        let due = self.due().is_some_and(|at| at <= now);
        if !self.urgent && !due {
            return None;
        }
        let ripe = if due { HINTS_WAIT / 2 } else { HINTS_WAIT };
        let waits = |at: Millis| at.after(ripe) > now;
        let mut taken = std::mem::take(self);
        self.patient = std::mem::take(&mut taken.patient);
        self.patient.retain(|_, at| waits(*at));
        self.oldest = std::mem::take(&mut taken.oldest);
        self.oldest.retain(|(at, tx)| self.patient.get(tx) == Some(at));
        (self.hints, taken.hints) = taken.hints.into_iter().partition(|(_, hint)| waits(hint.since));
        if !self.patient.is_empty() {
            let held = |tx: &TxId| self.patient.contains_key(tx);
            let of_held = |entry: &NewEntry| entry.tx.as_ref().is_some_and(held);
            let (later_txs, txs) = taken.txs.into_iter().partition(|(tx, _)| held(tx));
            let (later_entries, journal) = taken.journal.into_iter().partition(of_held);
            (self.txs, self.journal) = (later_txs, later_entries);
            (taken.txs, taken.journal) = (txs, journal);
        }
        Some(taken)
    }

    pub(super) fn into_commit(self, lane: &Lane) -> LaneCommit {
        let hints = self
            .hints
            .into_keys()
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
        self.hurry(tx.id);
    }

    /// As [`Self::tx`], but it may wait for company.
    pub(super) fn tx_hint(&mut self, tx: &mut Transaction, now: Millis) {
        tx.status.updated_at = now;
        self.may_wait(tx.id, now);
        self.txs.insert(tx.id, tx.status.clone());
    }

    /// What waits of this transaction goes with the next commit, before what comes now.
    fn hurry(&mut self, tx: TxId) {
        self.patient.remove(&tx);
        self.hasty.insert(tx);
        self.urgent = true;
    }

    /// Unless something of this transaction is urgent already, it may wait.
    fn may_wait(&mut self, tx: TxId, now: Millis) {
        if !self.hasty.contains(&tx) && !self.patient.contains_key(&tx) {
            self.patient.insert(tx, now);
            self.oldest.push_back((now, tx));
        }
    }

    pub(super) fn attempt(&mut self, attempt: Attempt) {
        self.attempts.push(attempt);
        self.urgent = true;
    }

    /// A node answered. `told`: the journal says so, and this is all that is known of its sends.
    pub(super) fn attempt_hint(&mut self, slot: Slot, ordinal: u32, told: bool, now: Millis) {
        let hint = self.hints.entry((slot, ordinal)).or_insert(Hint { since: now, told });
        hint.told = told;
    }

    /// The slot is out of the way; what was said of its attempts since the last commit is written now, except where the journal
    /// says it already.
    pub(super) fn last_hints(&mut self, slot: Slot, attempts: &[Attempt]) {
        for attempt in attempts {
            let hint = self.hints.remove(&(slot, attempt.ordinal));
            if hint.is_some_and(|hint| !hint.told) {
                let hints = attempt.hints.clone();
                self.last_hints.push(HintUpdate { slot, ordinal: attempt.ordinal, hints });
            }
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
        match tx {
            Some(tx) => self.hurry(tx),
            None => self.urgent = true,
        }
    }

    pub(super) fn journal_hint(&mut self, tx: Option<TxId>, at: Millis, entry: Entry) {
        match tx {
            Some(tx) => self.may_wait(tx, at),
            None => drop(self.hinted_at.get_or_insert(at)),
        }
        self.journal.push(NewEntry { tx, at, entry });
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
