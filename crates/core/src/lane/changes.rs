//! What a turn of the loop has changed and not yet committed, and the invariants that hold between turns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::Lane;
use crate::attempt::Attempt;
use crate::journal::{Entry, NewEntry};
use crate::ports::store::{HintUpdate, LaneCommit, TxUpdate};
use crate::transaction::{Status, Transaction};
use crate::{CommandId, LaneId, Millis, Origin, Slot, TxId};

/// Hints wait this long for a commit they can go with.
const HINTS_WAIT: Duration = Duration::from_secs(1);

/// What is known of an attempt's sends, and not written yet.
#[derive(Debug, Clone, Copy)]
struct Hint {
    since: Millis,
    /// The journal says all of it.
    told: bool,
}

/// What may wait of one transaction.
#[derive(Debug)]
struct Held {
    since: Millis,
    status: Option<Box<Status>>,
    journal: Vec<NewEntry>,
}

/// Changes that are not on disk yet.
///
/// What must be there before anything is done is urgent. What may be lost in a crash is a hint: it waits a while, also
/// when others' changes are written, so that most transactions are written once for "a node has it" and "it is in a block".
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Of transactions of which something is urgent.
    txs: BTreeMap<TxId, Option<Box<Status>>>,
    attempts: Vec<Attempt>,
    hints: BTreeMap<(Slot, u32), Hint>,
    /// The same, the oldest first.
    oldest_hints: BTreeSet<(Millis, (Slot, u32))>,
    /// Hints that this very commit writes.
    last_hints: Vec<HintUpdate>,
    closed: Vec<Slot>,
    journal: Vec<NewEntry>,
    commands_done: Vec<CommandId>,
    /// Transactions of which nothing is urgent.
    patient: BTreeMap<TxId, Held>,
    /// The same, the oldest first.
    oldest: BTreeSet<(Millis, TxId)>,
    /// A hint of no transaction waits since then.
    hinted_at: Option<Millis>,
    /// Something here must be on disk before anything is done.
    urgent: bool,
    /// Who asked for what is being done now; none while the lane acts by itself.
    pub(super) by: Option<Arc<Origin>>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        !self.urgent && self.patient.is_empty() && self.hints.is_empty() && self.hinted_at.is_none()
    }

    /// The transactions of which something is to be written.
    pub(super) fn about(&self) -> impl Iterator<Item = &TxId> {
        self.txs.keys().chain(self.patient.keys())
    }

    /// When waiting hints are to be written.
    pub(super) fn due(&self) -> Option<Millis> {
        let tx = self.oldest.first().map(|(at, _)| *at);
        let hint = self.oldest_hints.first().map(|(at, _)| *at);
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
        while let Some((_, tx)) = self.oldest.first().copied().filter(|(at, _)| !waits(*at)) {
            self.hurry(tx);
        }
        let mut ripe_hints = BTreeMap::new();
        while let Some((_, of)) = self.oldest_hints.first().copied().filter(|(at, _)| !waits(*at)) {
            ripe_hints.extend(self.drop_hint(of).map(|hint| (of, hint)));
        }
        let later = Self {
            hints: std::mem::take(&mut self.hints),
            oldest_hints: std::mem::take(&mut self.oldest_hints),
            patient: std::mem::take(&mut self.patient),
            oldest: std::mem::take(&mut self.oldest),
            ..Self::default()
        };
        let taken = std::mem::replace(self, later);
        Some(Self { hints: ripe_hints, ..taken })
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
        let mut txs = Vec::with_capacity(self.txs.len());
        txs.extend(self.txs.into_iter().filter_map(|(id, status)| Some(TxUpdate { id, status: status? })));
        LaneCommit {
            lane: lane.id,
            token: lane.token,
            version: lane.version,
            row: lane.row.clone(),
            txs,
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
        *self.hurry(tx.id) = Some(Box::new(tx.status.clone()));
    }

    /// As [`Self::tx`], but it may wait for company.
    pub(super) fn tx_hint(&mut self, tx: &mut Transaction, now: Millis) {
        tx.status.updated_at = now;
        let status = Some(Box::new(tx.status.clone()));
        match self.may_wait(tx.id, now) {
            Some(held) => held.status = status,
            None => *self.hurry(tx.id) = status,
        }
    }

    /// What waits of this transaction goes with the next commit, before what comes now.
    fn hurry(&mut self, tx: TxId) -> &mut Option<Box<Status>> {
        self.urgent = true;
        let status = self.txs.entry(tx).or_default();
        if let Some(held) = self.patient.remove(&tx) {
            self.oldest.remove(&(held.since, tx));
            *status = held.status.or(status.take());
            self.journal.extend(held.journal);
        }
        status
    }

    /// What waits of this transaction; none if something of it is urgent already.
    fn may_wait(&mut self, tx: TxId, now: Millis) -> Option<&mut Held> {
        if self.txs.contains_key(&tx) {
            return None;
        }
        let oldest = &mut self.oldest;
        Some(self.patient.entry(tx).or_insert_with(|| {
            oldest.insert((now, tx));
            Held { since: now, status: None, journal: Vec::new() }
        }))
    }

    pub(super) fn attempt(&mut self, attempt: Attempt) {
        self.attempts.push(attempt);
        self.urgent = true;
    }

    /// A node answered. `told`: the journal says so, and this is all that is known of its sends.
    pub(super) fn attempt_hint(&mut self, slot: Slot, ordinal: u32, told: bool, now: Millis) {
        let oldest = &mut self.oldest_hints;
        let hint = self.hints.entry((slot, ordinal)).or_insert_with(|| {
            oldest.insert((now, (slot, ordinal)));
            Hint { since: now, told }
        });
        hint.told = told;
    }

    fn drop_hint(&mut self, of: (Slot, u32)) -> Option<Hint> {
        let hint = self.hints.remove(&of)?;
        self.oldest_hints.remove(&(hint.since, of));
        Some(hint)
    }

    /// The slot is out of the way; what was said of its attempts since the last commit is written now, except where the journal
    /// says it already.
    pub(super) fn last_hints(&mut self, slot: Slot, attempts: &[Attempt]) {
        for attempt in attempts {
            let hint = self.drop_hint((slot, attempt.ordinal));
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
        if let Some(tx) = tx {
            self.hurry(tx);
        }
        self.urgent = true;
        self.journal.push(NewEntry { tx, at, entry, by: self.by.clone() });
    }

    pub(super) fn journal_hint(&mut self, tx: Option<TxId>, at: Millis, entry: Entry) {
        let new = NewEntry { tx, at, entry, by: self.by.clone() };
        let Some(tx) = tx else {
            self.hinted_at.get_or_insert(at);
            return self.journal.push(new);
        };
        match self.may_wait(tx, at) {
            Some(held) => held.journal.push(new),
            None => self.journal.push(new),
        }
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
    /// What must hold between turns. Checked before every commit: a lane that contradicts itself stops. Of slots at rest it
    /// was checked before.
    pub fn verify(&self) -> Result<(), Broken> {
        let broken = |what: String| Err(Broken { lane: self.id, what });
        for (slot, record) in self.slots.to_look_at(..) {
            if self.row.cursor.is_none_or(|cursor| slot >= cursor) {
                return broken(format!("slot {slot} is in use but was never handed out"));
            }
            if self.row.returned.contains(&slot) {
                return broken(format!("slot {slot} is in use and returned at once"));
            }
            if record.attempts.is_empty() && record.tx.is_none() {
                return broken(format!("slot {slot} is in use by nothing"));
            }
            let Some(id) = record.tx else { continue };
            match self.bound.get(&id).or_else(|| self.reopened.get(&id)) {
                Some(tx) if tx.status.slot == Some(slot) => {}
                Some(_) => return broken(format!("transaction {id} does not know its slot {slot}")),
                None => return broken(format!("slot {slot} is bound to {id}, which is not there")),
            }
        }
        let (all, changed) = if self.slots.looks_at_all() {
            (Some(self.bound.values().chain(self.reopened.values())), None)
        } else {
            let ids = self.changes.about();
            (None, Some(ids.filter_map(|id| self.bound.get(id).or_else(|| self.reopened.get(id)))))
        };
        for tx in all.into_iter().flatten().chain(changed.into_iter().flatten()) {
            let record = tx.status.slot.and_then(|slot| self.slots.get(&slot));
            if record.is_none_or(|record| record.tx != Some(tx.id)) {
                return broken(format!("transaction {} is bound to a slot that is not there", tx.id));
            }
        }
        Ok(())
    }
}
