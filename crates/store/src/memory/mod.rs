//! The memory adapter: the same store in plain ordered maps, for the simulator and for tests.
//!
//! It is deterministic: nothing in it depends on hashing, threads or time. Several nodes share it by cloning, each with sessions of
//! its own; the given clock says only what people are shown of them. A [`Snapshot`] is a backup of all of it,
//! and putting one back is a restored backup.
//!
//! | file | what it holds |
//! |---|---|
//! | `space` | one namespace's rows and the look-up tables beside them |
//! | `admit`, `commit`, `forget`, `leases` | writes, as in the SQLite adapter |
//! | `reads` | look-ups |
//! | `records`, `audit` | small documents of the door, and the audit chain |

mod admit;
mod audit;
mod commit;
mod forget;
mod leases;
mod reads;
mod records;
mod space;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::audit::{Ends, Link, New, Row};
use landfall_core::journal::JournalRow;
use landfall_core::ports::audit::{AuditLog, Page};
use landfall_core::ports::clock::Clock;
use landfall_core::ports::records::{Record, RecordKind, RecordQuery, RecordWrite, Records, RecordsWritten};
use landfall_core::ports::store::{
    Acceptance, Acquired, Broken, ChainRecord, Command, Error, Holders, Kept, LaneRecord, LaneSummary,
    Leases, Log, Older, Pulse, Reads, TxQuery, TxRecord, Write, WriteError, Written,
};
use landfall_core::request::CallId;
use landfall_core::transaction::{Status, Transaction};
use landfall_core::{
    Account, CallerNonce, ChainId, CommandId, JournalSeq, LaneId, Millis, Namespace, RequestId, SessionId,
    Token, TxHash, TxId,
};

use crate::rules;
use space::Space;

/// A store in memory. Clones share it.
#[derive(Clone)]
pub struct Memory {
    spaces: Arc<Mutex<Spaces>>,
    namespace: Namespace,
    clock: Arc<dyn Clock>,
}

type Spaces = BTreeMap<Namespace, Space>;

/// Everything a memory store held at one moment.
#[derive(Clone)]
pub struct Snapshot(Spaces);

impl Memory {
    /// An empty store, in the default namespace.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { spaces: Arc::default(), namespace: Namespace::default(), clock }
    }

    /// Another namespace of the same store.
    #[must_use]
    pub fn in_namespace(&self, namespace: Namespace) -> Self {
        Self { namespace, ..self.clone() }
    }

    /// A copy of everything, as a backup would be.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.spaces.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Puts a backup back: everything since is gone, for every clone.
    pub fn restore(&self, snapshot: &Snapshot) {
        *self.spaces.lock().unwrap_or_else(PoisonError::into_inner) = snapshot.0.clone();
    }

    /// As [`Self::restore`], for a store with a mark beside it, which tells that it went back.
    pub fn restore_marked(&self, snapshot: &Snapshot) {
        let before = self.journal_ends();
        self.restore(snapshot);
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, mark) in before {
            let space = spaces.entry(name).or_default();
            let journal = space.journal_end();
            if journal < mark {
                space.went_back(Older::Behind { journal, mark });
            }
        }
    }

    fn journal_ends(&self) -> Vec<(Namespace, JournalSeq)> {
        let spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        spaces.iter().map(|(name, space)| (name.clone(), space.journal_end())).collect()
    }

    fn space<T>(&self, work: impl FnOnce(&mut Space) -> T) -> T {
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        work(spaces.entry(self.namespace.clone()).or_default())
    }
}

fn failed(doing: &'static str) -> impl FnOnce(String) -> Error {
    move |text| Error::Failed { doing, text }
}

fn apply(space: &mut Space, write: &Write) -> Result<Written, WriteError> {
    let refused = |text| WriteError::Failed(failed("write")(text));
    match write {
        Write::Admit(new) => {
            let admission = admit::admit(space, new).map_err(refused)?;
            Ok(Written::Admitted(Box::new(admission)))
        }
        Write::Lane(commit) => commit::commit(space, commit).map(Written::Lane),
        Write::Command(command) => {
            space.insert_command(command);
            Ok(Written::Command)
        }
        Write::Chain(record) => {
            space.chains.insert(record.chain, (**record).clone());
            Ok(Written::Chain)
        }
        Write::Forget(step) => Ok(Written::Forgotten(forget::forget(space, *step))),
    }
}

#[async_trait]
impl Log for Memory {
    async fn write(&self, group: Vec<Write>) -> Vec<Result<Written, WriteError>> {
        self.space(|space| {
            let mut answers: BTreeMap<usize, _> = BTreeMap::new();
            for index in rules::order(&group) {
                if let Some(write) = group.get(index) {
                    answers.insert(index, apply(space, write));
                }
            }
            answers.into_values().collect()
        })
    }

    async fn accept(&self, commands: Vec<Command>) -> Result<Acceptance, WriteError> {
        Ok(self.space(|space| {
            if Older::unaccepted(space.older.clone()).is_none() {
                return Acceptance::NotOlder;
            }
            if let Some(lane) = rules::untold(space.lanes.keys().copied(), &commands) {
                return Acceptance::Untold(lane);
            }
            space.older = Some(Older::Accepted);
            commands.iter().for_each(|command| space.insert_command(command));
            Acceptance::Yes
        }))
    }
}

#[async_trait]
impl Leases for Memory {
    async fn open_session(&self, session: SessionId, node: &str, lasting: Duration) -> Result<(), Error> {
        let now = self.clock.now();
        self.space(|space| leases::open_session(space, session, node, now, lasting));
        Ok(())
    }

    async fn renew_session(&self, session: SessionId, lasting: Duration) -> Result<bool, Error> {
        let now = self.clock.now();
        Ok(self.space(|space| leases::renew_session(space, session, now, lasting)))
    }

    async fn close_session(&self, session: SessionId) -> Result<(), Error> {
        self.space(|space| leases::close_session(space, session));
        Ok(())
    }

    async fn end_session(&self, session: SessionId, pulse: Pulse) -> Result<bool, Error> {
        Ok(self.space(|space| leases::end_session(space, session, pulse)))
    }

    async fn break_lease(&self, lane: LaneId, session: SessionId) -> Result<Broken, Error> {
        Ok(self.space(|space| leases::break_lease(space, lane, session)))
    }

    async fn acquire(&self, lane: LaneId, session: SessionId) -> Result<Acquired, Error> {
        self.space(|space| leases::acquire(space, lane, session)).map_err(failed("acquire a lane"))
    }

    async fn release(&self, lane: LaneId, session: SessionId, token: Token) -> Result<(), Error> {
        self.space(|space| leases::release(space, lane, session, token));
        Ok(())
    }

    async fn holders(&self) -> Result<Holders, Error> {
        Ok(self.space(|space| leases::holders(space)))
    }
}

#[async_trait]
impl Reads for Memory {
    async fn load_lane(&self, lane: LaneId) -> Result<LaneRecord, Error> {
        Ok(self.space(|space| reads::load_lane(space, lane)))
    }

    async fn waiting(&self, lane: LaneId, limit: u32) -> Result<Vec<Transaction>, Error> {
        Ok(self.space(|space| reads::waiting(space, lane, limit)))
    }

    async fn waiting_bytes(&self, lane: LaneId) -> Result<u64, Error> {
        let failed =
            |error: serde_json::Error| Error::Failed { doing: "measure what waits", text: error.to_string() };
        self.space(|space| reads::waiting_bytes(space, lane)).map_err(failed)
    }

    async fn open_commands(
        &self,
        lane: LaneId,
        taken: &BTreeSet<CommandId>,
        limit: u32,
    ) -> Result<Vec<Command>, Error> {
        Ok(self.space(|space| reads::open_commands(space, lane, taken, limit)))
    }

    async fn command(&self, id: CommandId) -> Result<Option<Command>, Error> {
        Ok(self.space(|space| space.commands.get(&id).map(|stored| stored.command.clone())))
    }

    async fn statuses(&self, ids: &[TxId]) -> Result<Vec<(TxId, Status)>, Error> {
        Ok(self.space(|space| {
            let status = |id: &TxId| match space.tx(*id) {
                Some(tx) => Some((*id, tx.status.clone())),
                None => space.kept.get(id).map(|kept| (*id, kept.status())),
            };
            ids.iter().filter_map(status).collect()
        }))
    }

    async fn disabled_lanes(&self) -> Result<Vec<LaneId>, Error> {
        Ok(self.space(|space| {
            let disabled = space.lanes.iter().filter(|(_, stored)| stored.row.disabled);
            disabled.map(|(lane, _)| *lane).collect()
        }))
    }

    async fn lanes_with_work(&self) -> Result<Vec<LaneId>, Error> {
        Ok(self.space(|space| reads::lanes_with_work(space)))
    }

    async fn tx(&self, id: TxId) -> Result<Option<TxRecord>, Error> {
        Ok(self.space(|space| reads::tx(space, id)))
    }

    async fn tx_by_request(&self, signer: Account, request: &RequestId) -> Result<Option<TxRecord>, Error> {
        Ok(self.space(|space| reads::tx_by_request(space, signer, request)))
    }

    async fn kept(&self, id: TxId) -> Result<Option<Kept>, Error> {
        Ok(self.space(|space| space.kept.get(&id).cloned()))
    }

    async fn kept_by_request(&self, signer: Account, request: &RequestId) -> Result<Option<Kept>, Error> {
        Ok(self.space(|space| forget::by_request(space, signer, request)))
    }

    async fn tx_by_call(&self, lane: LaneId, call: &CallId) -> Result<Option<Transaction>, Error> {
        Ok(self.space(|space| reads::tx_by_call(space, lane, call)))
    }

    async fn kept_by_call(&self, lane: LaneId, call: &CallId) -> Result<Option<Kept>, Error> {
        Ok(self.space(|space| reads::kept_by_call(space, lane, call)))
    }

    async fn nonces_from(&self, lane: LaneId, from: &CallId, limit: u32) -> Result<Vec<CallerNonce>, Error> {
        Ok(self.space(|space| reads::nonces_from(space, lane, from, limit)))
    }

    async fn kept_by_first_hash(&self, chain: ChainId, hash: TxHash) -> Result<Option<Kept>, Error> {
        Ok(self.space(|space| reads::kept_by_first_hash(space, chain, hash)))
    }

    async fn txs(&self, query: &TxQuery) -> Result<Vec<Transaction>, Error> {
        Ok(self.space(|space| reads::txs(space, query)))
    }

    async fn journal(&self, tx: TxId) -> Result<Vec<JournalRow>, Error> {
        Ok(self.space(|space| reads::journal(space, tx)))
    }

    async fn journal_after(&self, after: JournalSeq, limit: u32) -> Result<Vec<JournalRow>, Error> {
        Ok(self.space(|space| reads::journal_after(space, after, limit)))
    }

    async fn lanes(&self) -> Result<Vec<LaneSummary>, Error> {
        Ok(self.space(|space| reads::lanes(space)))
    }

    async fn lane(&self, lane: LaneId) -> Result<Option<LaneSummary>, Error> {
        Ok(self.space(|space| reads::lane(space, lane)))
    }

    async fn chain(&self, chain: ChainId) -> Result<Option<ChainRecord>, Error> {
        Ok(self.space(|space| space.chains.get(&chain).cloned()))
    }

    async fn older(&self) -> Result<Option<Older>, Error> {
        Ok(self.space(|space| Older::unaccepted(space.older.clone())))
    }

    async fn writable(&self) -> Result<(), Error> {
        Ok(())
    }
}

#[async_trait]
impl Records for Memory {
    async fn write_records(&self, writes: Vec<RecordWrite>) -> Result<RecordsWritten, Error> {
        Ok(self.space(|space| space.documents.write(writes)))
    }

    async fn record(&self, kind: RecordKind, id: &str) -> Result<Option<Record>, Error> {
        Ok(self.space(|space| space.documents.one(kind, id)))
    }

    async fn records(&self, query: &RecordQuery) -> Result<Vec<Record>, Error> {
        Ok(self.space(|space| space.documents.list(query)))
    }

    async fn trim_records(&self, kind: RecordKind, below: &str, limit: u32) -> Result<u64, Error> {
        Ok(self.space(|space| space.documents.trim(kind, below, limit)))
    }
}

#[async_trait]
impl AuditLog for Memory {
    async fn append_audit(&self, entries: Vec<New>) -> Result<Link, Error> {
        Ok(self.space(|space| space.audit.append(entries)))
    }

    async fn audit_ends(&self) -> Result<Ends, Error> {
        Ok(self.space(|space| space.audit.ends()))
    }

    async fn audit_rows(&self, page: Page, limit: u32) -> Result<Vec<Row>, Error> {
        Ok(self.space(|space| space.audit.list(page, limit)))
    }

    async fn unnumbered_audit(&self) -> Result<u64, Error> {
        Ok(0)
    }

    async fn trim_audit(&self, before: Millis, limit: u32, now: Millis) -> Result<u64, Error> {
        let trimmed = self.space(|space| space.audit.trim(before, limit, now));
        let doing = "remove old rows of the audit log";
        trimmed.map_err(|error| Error::Failed { doing, text: error.to_string() })
    }
}
