//! A store as the port describes it, which also checks what it is given.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::LANE;
use crate::attempt::Attempt;
use crate::journal::{Entry, NewEntry, replay};
use crate::lane::Loaded;
use crate::ports::store::{Command, CommandKind, LaneCommit, LaneRecord, LaneRow, Older};
use crate::request::Request;
use crate::settings::LaneSettings;
use crate::transaction::{Status, Transaction, TxState};
use crate::{CommandId, LaneVersion, Millis, Origin, QueueOrder, Slot, Token, TxId};

/// At most this many commands are shown at once.
pub(in super::super) const COMMANDS: usize = 8;

#[derive(Debug, Default)]
pub(in super::super) struct ModelStore {
    pub(in super::super) token: Token,
    pub(in super::super) version: LaneVersion,
    pub(in super::super) row: LaneRow,
    pub(in super::super) txs: BTreeMap<TxId, Transaction>,
    /// Every attempt ever stored.
    pub(in super::super) attempts: BTreeMap<(Slot, u32), Attempt>,
    pub(in super::super) closed: BTreeSet<Slot>,
    pub(in super::super) journal: Vec<NewEntry>,
    pub(in super::super) commands: Vec<(Command, bool)>,
    /// Transactions in the order in which they were bound to a new slot, with that slot.
    pub(in super::super) bindings: Vec<(TxId, Slot)>,
    /// Slots that an operator said are not ours, or that were proven to be a stranger's.
    pub(in super::super) waived: BTreeSet<Slot>,
    /// It went back, and nobody has accepted it yet.
    pub(in super::super) older: Option<Older>,
}

impl ModelStore {
    pub(in super::super) fn admit(&mut self, request: Request) -> TxId {
        let number = self.txs.len() as u128 + 1;
        let id = TxId::new(request.accepted_at, number);
        let order = QueueOrder(number as i64);
        let at = request.accepted_at;
        let status = Status::accepted(at);
        self.txs.insert(id, Transaction { id, lane: LANE, order, request: Arc::new(request), status });
        self.journal.push(NewEntry { tx: Some(id), at, entry: Entry::Accepted, by: None });
        id
    }

    pub(in super::super) fn command(&mut self, kind: CommandKind, at: Millis) -> CommandId {
        let id = CommandId::new(at, self.commands.len() as u128 + 1);
        let by = Origin { key: Some(id.to_string().into()), name: "an operator".into(), address: None };
        self.commands.push((Command { id, lane: LANE, kind, at, by: Some(Arc::new(by)) }, false));
        id
    }

    /// The transaction that was admitted as the nth, around the corner.
    pub(in super::super) fn nth(&self, nth: usize) -> Option<TxId> {
        let mut ids: Vec<_> = self.txs.values().map(|tx| (tx.order, tx.id)).collect();
        ids.sort_unstable();
        (!ids.is_empty()).then(|| ids[nth % ids.len()].1)
    }

    /// A person has accepted it, and the lane has not gone on yet.
    fn awaits_acceptance(&self) -> bool {
        self.commands
            .iter()
            .any(|(command, done)| !done && matches!(command.kind, CommandKind::AcceptStore { .. }))
    }

    /// What a new owner loads; every acquisition raises the token.
    pub(in super::super) fn acquire(&mut self) -> LaneRecord {
        self.token = Token(self.token.0 + 1);
        let bound = self.txs.values().filter(|tx| tx.status.slot.is_some() && !tx.status.state.is_terminal());
        let open = self.attempts.values().filter(|attempt| !self.closed.contains(&attempt.slot));
        let is_open = |tx: &&Transaction| {
            tx.status.state.is_terminal()
                && self.attempts.values().any(|a| a.tx == Some(tx.id) && !self.closed.contains(&a.slot))
        };
        LaneRecord {
            ended: self.txs.values().filter(is_open).cloned().collect(),
            lane: LANE,
            token: self.token,
            version: self.version,
            row: self.row.clone(),
            bound: bound.cloned().collect(),
            attempts: open.cloned().collect(),
            highest_signed: self.attempts.keys().map(|(slot, _)| *slot).max(),
            older: self.older.clone().or_else(|| self.awaits_acceptance().then_some(Older::Accepted)),
        }
    }

    /// What [`crate::lane::Action::Load`] is answered with.
    pub(in super::super) fn load(&self, limit: u32, taken: &BTreeSet<CommandId>) -> Loaded {
        let mut waiting: Vec<_> = self.txs.values().filter(|tx| tx.is_waiting()).cloned().collect();
        waiting.sort_by_key(|tx| tx.order);
        waiting.truncate(limit as usize);
        let open = self.commands.iter().filter(|(command, done)| !done && !taken.contains(&command.id));
        let open = open.map(|(command, _)| command.clone());
        let commands: Vec<Command> = open.take(COMMANDS).collect();
        let mentioned =
            commands.iter().filter_map(|command| self.txs.get(&command.kind.tx()?).cloned()).collect();
        Loaded { waiting, asked: limit, more_commands: commands.len() == COMMANDS, commands, mentioned }
    }

    /// All of it, or nothing if the lane has another owner or moved on.
    pub(in super::super) fn commit(
        &mut self,
        commit: LaneCommit,
        settings: &LaneSettings,
    ) -> Option<LaneVersion> {
        if commit.token != self.token || commit.version != self.version {
            return None;
        }
        self.version = LaneVersion(self.version.0 + 1);
        let resumed = commit
            .journal
            .iter()
            .any(|new| matches!(new.entry, Entry::LaneResumed { .. } | Entry::LaneAdopted { .. }));
        self.row = commit.row;
        for attempt in commit.attempts {
            self.store_attempt(attempt, settings);
        }
        for hint in commit.hints {
            let attempt = self.attempts.get_mut(&(hint.slot, hint.ordinal)).expect("hints are of an attempt");
            attempt.hints = hint.hints;
        }
        for slot in commit.closed {
            assert!(self.closed.insert(slot), "slot {slot} ends twice");
        }
        self.journal.extend(commit.journal);
        for id in commit.commands_done {
            let row =
                self.commands.iter_mut().find(|(command, _)| command.id == id).expect("a known command");
            assert!(!std::mem::replace(&mut row.1, true), "command {id} was applied twice");
        }
        let mut updates = commit.txs;
        updates.sort_by_key(|update| update.status.slot);
        for update in updates {
            self.update(update.id, *update.status);
        }
        if resumed {
            self.waive();
        }
        self.check_slots();
        Some(self.version)
    }

    fn waive(&mut self) {
        let (Some(from), Some(to)) = (self.first_slot(), self.row.cursor) else { return };
        for slot in (from.0..to.0).map(Slot) {
            let bound = self.live().any(|tx| tx.status.slot == Some(slot));
            if !bound && !self.has_attempts(slot) && !self.row.returned.contains(&slot) {
                self.waived.insert(slot);
            }
        }
    }

    fn has_attempts(&self, slot: Slot) -> bool {
        self.attempts.range((slot, 0)..=(slot, u32::MAX)).next().is_some()
    }

    fn live(&self) -> impl Iterator<Item = &Transaction> {
        self.txs.values().filter(|tx| !tx.status.state.is_terminal())
    }

    fn store_attempt(&mut self, attempt: Attempt, settings: &LaneSettings) {
        // A slot that ended and that the chain took back is filled by a no-op of nobody's, and by nothing else.
        let reopened = self.closed.remove(&attempt.slot);
        assert!(!reopened || (attempt.no_op && attempt.tx.is_none()), "slot {} has ended", attempt.slot);
        assert!(
            self.attempts.values().all(|other| other.hash != attempt.hash),
            "the same bytes were signed twice for slot {}",
            attempt.slot
        );
        let asked = attempt.tx.and_then(|id| self.txs[&id].max_fee_per_gas());
        let ceiling = match asked {
            Some(asked) if !attempt.no_op => asked.min(settings.max_fee),
            Some(_) | None => settings.max_fee,
        };
        assert!(attempt.fees.cap() <= ceiling, "{:?} is above the ceiling {ceiling}", attempt.fees);
        let of_content =
            self.attempts.values().filter(|a| a.slot == attempt.slot && a.version == attempt.version).count();
        assert!(of_content < settings.max_attempts as usize, "slot {} has no bound", attempt.slot);
        let mut earlier = self.attempts.range((attempt.slot, 0)..=(attempt.slot, u32::MAX));
        let last = earlier.next_back().map(|((_, ordinal), _)| *ordinal);
        if reopened || (last.is_none() && attempt.no_op) {
            assert!(
                last.is_none_or(|last| attempt.ordinal > last),
                "the store has attempt {}",
                attempt.ordinal
            );
        } else {
            assert_eq!(
                attempt.ordinal,
                last.map_or(0, |last| last + 1),
                "attempts are numbered without holes"
            );
        }
        self.attempts.insert((attempt.slot, attempt.ordinal), attempt);
    }

    fn update(&mut self, id: TxId, status: Status) {
        let tx = self.txs.get_mut(&id).expect("a known transaction");
        let stays = tx.status.state == status.state && tx.status.slot == status.slot;
        assert!(
            !tx.status.state.is_terminal() || stays,
            "{id} had ended as {:?} and becomes {:?}",
            tx.status.state,
            status.state
        );
        if let Some(slot) = status.slot
            && tx.status.slot != Some(slot)
        {
            self.bindings.push((id, slot));
        }
        tx.status = status;
        let tx = &self.txs[&id];
        let told = replay(self.journal_of(id)).expect("it was accepted");
        let stored = (tx.status.state, tx.status.slot, tx.status.displaced, tx.status.ending.is_some());
        assert_eq!(
            (told.state, told.slot, told.displaced, told.ending),
            stored,
            "the journal of {id} tells something else: {:#?}",
            self.journal_of(id).collect::<Vec<_>>()
        );
    }

    pub(in super::super) fn journal_of(&self, id: TxId) -> impl Iterator<Item = &Entry> {
        self.journal.iter().filter(move |row| row.tx == Some(id)).map(|row| &row.entry)
    }

    /// The lowest slot that a transaction ever had. An operator may fill one below it, among holes that strangers left.
    fn first_slot(&self) -> Option<Slot> {
        let signed =
            self.attempts.values().filter(|attempt| attempt.tx.is_some()).map(|attempt| attempt.slot).min();
        let bound = self.bindings.iter().map(|(_, slot)| *slot).min();
        [signed, bound].into_iter().flatten().min()
    }

    /// One live transaction per slot, and no hole below the cursor.
    fn check_slots(&self) {
        let mut taken = BTreeSet::new();
        for tx in self.live() {
            if let Some(slot) = tx.status.slot {
                assert!(taken.insert(slot), "two live transactions have slot {slot}");
            }
        }
        let (Some(first), Some(cursor)) = (self.first_slot(), self.row.cursor) else { return };
        for slot in (first.0..cursor.0).map(Slot) {
            let used = taken.contains(&slot) || self.has_attempts(slot);
            let free = self.row.returned.contains(&slot);
            let waived = self.waived.contains(&slot);
            // Kept for the transaction below it, whose sender delegates its own code.
            let second = |(id, below): &(TxId, Slot)| below.next() == slot && self.txs[id].takes_two_slots();
            let kept = self.bindings.iter().any(second);
            assert!(used || free || waived || kept, "slot {slot} is a hole below {cursor}");
            assert!(!(used && free), "slot {slot} is in use and returned");
        }
        assert!(self.row.returned.iter().all(|slot| *slot < cursor), "returned above the cursor");
    }

    pub(in super::super) fn tx(&self, id: TxId) -> &Transaction {
        &self.txs[&id]
    }

    pub(in super::super) fn state(&self, id: TxId) -> TxState {
        self.txs[&id].status.state
    }
}
