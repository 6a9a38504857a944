//! One namespace's rows, and beside them the tables that stand for SQLite's indexes.

use std::collections::{BTreeMap, BTreeSet};

use landfall_core::attempt::Attempt;
use landfall_core::journal::{JournalRow, NewEntry};
use landfall_core::ports::store::{ChainRecord, Command, Kept, LaneRow, Older, Pulse};
use landfall_core::request::CallId;
use landfall_core::transaction::{Status, Transaction};
use landfall_core::{
    Account, ChainId, CommandId, JournalSeq, LaneId, LaneVersion, Millis, QueueOrder, RequestId, SessionId,
    Slot, Token, TxHash, TxId,
};

use super::audit::Chain;
use super::records::Documents;
use crate::rules::Phase;

/// A lane's row.
#[derive(Clone, Default)]
pub(super) struct StoredLane {
    pub(super) token: Token,
    pub(super) version: LaneVersion,
    pub(super) session: Option<SessionId>,
    pub(super) row: LaneRow,
}

/// A session's row.
#[derive(Clone)]
pub(super) struct StoredSession {
    pub(super) node: String,
    pub(super) pulse: Pulse,
    /// By the given clock, for people.
    pub(super) until: Millis,
}

/// A transaction and the phase its status stands for.
#[derive(Clone)]
pub(super) struct StoredTx {
    pub(super) tx: Transaction,
    pub(super) phase: Phase,
}

/// An attempt; open until its slot is closed.
#[derive(Clone)]
pub(super) struct StoredAttempt {
    pub(super) attempt: Attempt,
    pub(super) open: bool,
}

/// A command; done once.
#[derive(Clone)]
pub(super) struct StoredCommand {
    pub(super) seq: u64,
    pub(super) command: Command,
    /// The transaction with whose history it goes.
    pub(super) tx: Option<TxId>,
    pub(super) done: bool,
}

/// Where an attempt is.
pub(super) type AttemptKey = (LaneId, Slot, u32);

/// One namespace.
#[derive(Clone, Default)]
pub(super) struct Space {
    pub(super) lanes: BTreeMap<LaneId, StoredLane>,
    pub(super) sessions: BTreeMap<SessionId, StoredSession>,
    /// The last number that a sign of life had.
    pub(super) last_pulse: u64,
    pub(super) txs: BTreeMap<TxId, StoredTx>,
    pub(super) attempts: BTreeMap<AttemptKey, StoredAttempt>,
    /// By number.
    pub(super) journal: BTreeMap<JournalSeq, JournalRow>,
    pub(super) commands: BTreeMap<CommandId, StoredCommand>,
    /// The last number that a command had.
    pub(super) last_command: u64,
    pub(super) chains: BTreeMap<ChainId, ChainRecord>,
    pub(super) kept: BTreeMap<TxId, Kept>,
    pub(super) kept_by_key: BTreeMap<(Account, RequestId), TxId>,
    pub(super) kept_by_call: BTreeMap<(LaneId, CallId), TxId>,
    pub(super) documents: Documents,
    pub(super) audit: Chain,
    /// It went back, and nobody has accepted it yet.
    pub(super) older: Option<Older>,

    pub(super) by_order: BTreeMap<QueueOrder, TxId>,
    pub(super) by_key: BTreeMap<(Account, RequestId), TxId>,
    pub(super) by_call: BTreeMap<(LaneId, CallId), TxId>,
    pub(super) waiting: BTreeSet<(LaneId, QueueOrder)>,
    pub(super) bound: BTreeMap<(LaneId, Slot), TxId>,
    pub(super) open_attempts: BTreeSet<AttemptKey>,
    pub(super) attempts_of: BTreeMap<TxId, BTreeSet<AttemptKey>>,
    pub(super) by_hash: BTreeMap<TxHash, BTreeSet<AttemptKey>>,
    pub(super) journal_of: BTreeMap<TxId, Vec<JournalSeq>>,
    pub(super) open_commands: BTreeMap<(LaneId, u64), CommandId>,
}

impl Space {
    pub(super) fn tx(&self, id: TxId) -> Option<&Transaction> {
        self.txs.get(&id).map(|stored| &stored.tx)
    }

    /// The order the next admission gets.
    pub(super) fn next_order(&self) -> QueueOrder {
        QueueOrder(self.by_order.last_key_value().map_or(0, |(last, _)| last.0).saturating_add(1))
    }

    pub(super) fn insert_tx(&mut self, tx: Transaction) {
        self.lanes.entry(tx.lane).or_default();
        self.by_order.insert(tx.order, tx.id);
        if let Some(key) = &tx.request.request_id {
            self.by_key.insert((tx.lane.signer, key.clone()), tx.id);
        }
        if let Some(call) = tx.request.call() {
            self.by_call.insert((tx.lane, call.clone()), tx.id);
        }
        self.waiting.insert((tx.lane, tx.order));
        self.txs.insert(tx.id, StoredTx { tx, phase: Phase::Waiting });
    }

    /// Takes a transaction out of the tables of its phase, before it is put into those of another.
    pub(super) fn leave_phase(&mut self, id: TxId) {
        let Some(StoredTx { tx, phase }) = self.txs.get(&id) else { return };
        match (phase, tx.status.slot) {
            (Phase::Waiting, _) => {
                self.waiting.remove(&(tx.lane, tx.order));
            }
            (Phase::Bound, Some(slot)) => {
                self.bound.remove(&(tx.lane, slot));
            }
            (Phase::Bound, None) | (Phase::Done, _) => {}
        }
    }

    /// Sets a status and enters the tables of its phase.
    pub(super) fn enter_phase(&mut self, id: TxId, status: &Status, phase: Phase) {
        let Some(stored) = self.txs.get_mut(&id) else { return };
        stored.tx.status = status.clone();
        stored.phase = phase;
        match (phase, status.slot) {
            (Phase::Waiting, _) => {
                self.waiting.insert((stored.tx.lane, stored.tx.order));
            }
            (Phase::Bound, Some(slot)) => {
                self.bound.insert((stored.tx.lane, slot), id);
            }
            (Phase::Bound, None) | (Phase::Done, _) => {}
        }
        let freed = stored.tx.request.call().filter(|_| status.ended_unsigned());
        if let Some(call) = freed.map(|call| (stored.tx.lane, call.clone()))
            && self.by_call.get(&call) == Some(&id)
        {
            self.by_call.remove(&call);
        }
    }

    pub(super) fn insert_attempt(&mut self, lane: LaneId, attempt: &Attempt) {
        let key = (lane, attempt.slot, attempt.ordinal);
        self.open_attempts.insert(key);
        self.by_hash.entry(attempt.hash).or_default().insert(key);
        if let Some(tx) = attempt.tx {
            self.attempts_of.entry(tx).or_default().insert(key);
        }
        self.attempts.insert(key, StoredAttempt { attempt: attempt.clone(), open: true });
    }

    pub(super) fn close(&mut self, lane: LaneId, slot: Slot) {
        for (key, stored) in self.attempts.range_mut((lane, slot, 0)..=(lane, slot, u32::MAX)) {
            stored.open = false;
            self.open_attempts.remove(key);
        }
    }

    pub(super) fn write_entry(&mut self, lane: LaneId, new: NewEntry) {
        let NewEntry { tx, at, entry, by } = new;
        let last = self.journal.last_key_value().map_or(0, |(last, _)| last.0);
        let seq = JournalSeq(last.saturating_add(1));
        if let Some(tx) = tx {
            self.journal_of.entry(tx).or_default().push(seq);
        }
        self.journal.insert(seq, JournalRow { seq, lane, tx, at, entry, by });
    }

    /// A command is accepted once, however often it is inserted.
    pub(super) fn insert_command(&mut self, command: &Command) {
        self.lanes.entry(command.lane).or_default();
        if self.commands.contains_key(&command.id) {
            return;
        }
        let seq = self.last_command + 1;
        self.last_command = seq;
        self.open_commands.insert((command.lane, seq), command.id);
        let (tx, command) = (command.kind.tx(), command.clone());
        self.commands.insert(command.id, StoredCommand { seq, command, tx, done: false });
    }

    pub(super) fn finish_command(&mut self, id: CommandId) {
        if let Some(stored) = self.commands.get_mut(&id) {
            stored.done = true;
            self.open_commands.remove(&(stored.command.lane, stored.seq));
        }
    }

    pub(super) fn journal_end(&self) -> JournalSeq {
        self.journal.last_key_value().map_or(JournalSeq(0), |(seq, _)| *seq)
    }

    /// An acceptance that lanes have not heard of was of an earlier time.
    pub(super) fn went_back(&mut self, why: Older) {
        self.older = Some(why);
        let is_acceptance = |stored: &&StoredCommand| {
            !stored.done
                && matches!(stored.command.kind, landfall_core::ports::store::CommandKind::AcceptStore { .. })
        };
        let open: Vec<CommandId> =
            self.commands.values().filter(is_acceptance).map(|stored| stored.command.id).collect();
        open.into_iter().for_each(|id| self.finish_command(id));
    }
}
