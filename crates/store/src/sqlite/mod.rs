//! The SQLite adapter: everything in one file, written by one thread, used by one process.
//!
//! | file | what it holds |
//! |---|---|
//! | `open` | who may open the file, and what is said when it cannot be used |
//! | `schema`, `migrations/` | tables and their versions |
//! | `mark`, `accept` | the mark beside the file, by which an older copy is noticed, and a person's word that it is to be used |
//! | `keeper`, `log` | the thread that writes the mark and moves the write-ahead log into the file at rest; how that is moved |
//! | `writer`, `scope`, `known` | the thread that writes, what a write works in, and what the thread remembers |
//! | `group`, `admit`, `commit`, `forget`, `archive`, `leases` | writes |
//! | `readers`, `reads/` | connections that read, and the look-ups |
//! | `records`, `audit` | small documents of the door, and the audit chain |
//! | `moved` | whether the store was moved to another database |
//! | `backup` | a copy of a store that may be running |
//! | `durability` | what a commit means, for those who measure |
//! | `rows`, `error` | columns to values, failures to sentences |
//!
//! The write-ahead log is synced by every commit, so what was answered is on disk. Leases need no clock: the file's
//! lock is held for the life of the process.

mod accept;
mod admit;
mod archive;
mod audit;
mod backup;
mod commit;
mod durability;
mod error;
mod forget;
mod group;
mod keeper;
mod known;
mod leases;
mod log;
mod mark;
pub(crate) mod moved;
mod open;
mod place;
mod private;
mod readers;
mod reads;
mod records;
mod rows;
mod schema;
mod scope;
mod writer;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::audit::{Ends, Link, New, Row};
use landfall_core::journal::JournalRow;
use landfall_core::ports::audit::{AuditLog, Page};
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

pub use backup::{BackedUp, BackupError, backup};
pub use open::{OpenError, Options};
use readers::Readers;
use writer::Writer;

use crate::Archived;

/// A store in one SQLite file. Clones are handles to the same one; the file is closed with the last of them.
#[derive(Clone)]
pub struct Sqlite {
    inner: Arc<Inner>,
}

struct Inner {
    file: PathBuf,
    /// The identity of the file that was opened.
    opened: (u64, u64),
    readers: Arc<Readers>,
    writer: Writer,
}

impl Inner {
    /// The file under its name is the one that is open: what went into a file that is gone would be lost.
    fn is_there(&self) -> Result<(), Error> {
        if identity(&self.file).is_some_and(|now| now == self.opened) {
            return Ok(());
        }
        Err(Error::Unusable(format!(
            "the database {} was removed or replaced while it is in use, so what is written now would be lost. Stop, and \
             put the file back or restore a backup",
            self.file.display()
        )))
    }
}

/// Which file this is, whatever its name.
fn identity(file: &std::path::Path) -> Option<(u64, u64)> {
    let meta = std::fs::metadata(file).ok()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        Some((meta.dev(), meta.ino()))
    }
    #[cfg(not(unix))]
    {
        Some((0, u64::from(meta.is_file())))
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sqlite").field(&self.inner.file).finish()
    }
}

impl Sqlite {
    /// Opens or makes the file that a path or an `sqlite:` URL names, for one namespace. It blocks for a moment.
    pub fn open(location: &str, namespace: &Namespace, options: &Options) -> Result<Self, OpenError> {
        let file = open::resolve(&open::file_of(location)?)?;
        let side = open::open(&file, namespace, options)?;
        let readers = Readers::new(&file, side.namespace, options.readers);
        let writer = Writer::start(side)
            .map_err(|error| OpenError::Failed { file: file.clone(), detail: error.to_string() })?;
        let opened = identity(&file).unwrap_or_default();
        Ok(Self { inner: Arc::new(Inner { file, opened, readers, writer }) })
    }

    /// As [`Sqlite::open`], and refuses where there is no file yet.
    pub fn open_existing(
        location: &str,
        namespace: &Namespace,
        options: &Options,
    ) -> Result<Self, OpenError> {
        let file = open::file_of(location)?;
        if !file.exists() {
            return Err(OpenError::Missing { file });
        }
        Self::open(location, namespace, options)
    }

    /// Takes the store for an older copy of itself, by the word of a person. The file's lock says that no server runs on it.
    pub async fn take_for_older(&self) -> Result<(), Error> {
        self.inner.writer.transaction("take it for an older copy", accept::take_for_older).await
    }

    /// Puts a chain away, so that one that was started over can be used anew; none if nothing is known of it.
    pub async fn archive_chain(&self, chain: ChainId) -> Result<Option<Archived>, Error> {
        let archive = move |scope: &mut scope::Scope<'_>| archive::archive(scope, chain);
        self.inner.writer.transaction("put a chain away", archive).await
    }
}

#[async_trait]
impl Log for Sqlite {
    async fn write(&self, writes: Vec<Write>) -> Vec<Result<Written, WriteError>> {
        let count = writes.len();
        if let Err(gone) = self.inner.is_there() {
            tracing::error!(error = %gone, "nothing is written");
            return (0..count).map(|_| Err(WriteError::Failed(gone.clone()))).collect();
        }
        match self.inner.writer.run(move |side| group::write(side, &writes)).await {
            Ok(answers) => answers,
            Err(none) => (0..count).map(|_| Err(none.to_write_error())).collect(),
        }
    }

    async fn accept(&self, commands: Vec<Command>) -> Result<Acceptance, WriteError> {
        self.inner.is_there().map_err(WriteError::Failed)?;
        match self.inner.writer.run(move |side| accept::accept(side, &commands)).await {
            Ok(accepted) => accepted,
            Err(none) => Err(none.to_write_error()),
        }
    }

    /// The lock on the file keeps others out.
    fn is_alone(&self) -> bool {
        true
    }
}

#[async_trait]
impl Leases for Sqlite {
    async fn open_session(&self, session: SessionId, node: &str, _lasting: Duration) -> Result<(), Error> {
        let node = node.to_owned();
        let work = move |scope: &mut scope::Scope<'_>| leases::open_session(scope, session, &node);
        self.inner.writer.transaction("open a session", work).await
    }

    async fn renew_session(&self, session: SessionId, _lasting: Duration) -> Result<bool, Error> {
        let work = move |scope: &mut scope::Scope<'_>| leases::is_open(scope, session);
        self.inner.writer.transaction("renew a session", work).await
    }

    async fn close_session(&self, session: SessionId) -> Result<(), Error> {
        let work = move |scope: &mut scope::Scope<'_>| leases::close_session(scope, session);
        self.inner.writer.transaction("close a session", work).await
    }

    /// Nobody else can have one that lives.
    async fn end_session(&self, _session: SessionId, _pulse: Pulse) -> Result<bool, Error> {
        Ok(false)
    }

    async fn break_lease(&self, _lane: LaneId, _session: SessionId) -> Result<Broken, Error> {
        Ok(Broken::NoLeases)
    }

    async fn acquire(&self, lane: LaneId, session: SessionId) -> Result<Acquired, Error> {
        let work = move |scope: &mut scope::Scope<'_>| leases::acquire(scope, lane, session);
        self.inner.writer.transaction("acquire a lane", work).await
    }

    async fn release(&self, lane: LaneId, session: SessionId, token: Token) -> Result<(), Error> {
        let work = move |scope: &mut scope::Scope<'_>| leases::release(scope, lane, session, token);
        self.inner.writer.transaction("release a lane", work).await
    }

    async fn holders(&self) -> Result<Holders, Error> {
        self.inner.readers.read("see who holds what", reads::lanes::holders).await
    }
}

#[async_trait]
impl Reads for Sqlite {
    async fn load_lane(&self, lane: LaneId) -> Result<LaneRecord, Error> {
        self.inner.readers.read("load a lane", move |look| reads::lanes::load(look, lane)).await
    }

    async fn waiting(&self, lane: LaneId, limit: u32) -> Result<Vec<Transaction>, Error> {
        let look = move |look: &readers::Look<'_>| reads::lanes::waiting(look, lane, limit);
        self.inner.readers.read("read what waits", look).await
    }

    async fn waiting_bytes(&self, lane: LaneId) -> Result<u64, Error> {
        let look = move |look: &readers::Look<'_>| reads::lanes::waiting_bytes(look, lane);
        self.inner.readers.read("measure what waits", look).await
    }

    async fn open_commands(
        &self,
        lane: LaneId,
        taken: &BTreeSet<CommandId>,
        limit: u32,
    ) -> Result<Vec<Command>, Error> {
        let taken = taken.clone();
        let look = move |look: &readers::Look<'_>| reads::lanes::open_commands(look, lane, &taken, limit);
        self.inner.readers.read("read commands", look).await
    }

    async fn command(&self, id: CommandId) -> Result<Option<Command>, Error> {
        self.inner.readers.read("read a command", move |look| reads::lanes::command(look, id)).await
    }

    async fn disabled_lanes(&self) -> Result<Vec<LaneId>, Error> {
        self.inner.readers.read("find disabled lanes", reads::lanes::disabled).await
    }

    async fn statuses(&self, ids: &[TxId]) -> Result<Vec<(TxId, Status)>, Error> {
        let ids = ids.to_vec();
        self.inner.readers.read("read statuses", move |look| reads::txs::statuses(look, &ids)).await
    }

    async fn lanes_with_work(&self) -> Result<Vec<LaneId>, Error> {
        self.inner.readers.read("find lanes with work", reads::lanes::with_work).await
    }

    async fn tx(&self, id: TxId) -> Result<Option<TxRecord>, Error> {
        self.inner.readers.read("read a transaction", move |look| reads::txs::by_id(look, id)).await
    }

    async fn tx_by_request(&self, signer: Account, request: &RequestId) -> Result<Option<TxRecord>, Error> {
        let request = request.clone();
        let look = move |look: &readers::Look<'_>| reads::txs::by_request(look, signer, &request);
        self.inner.readers.read("read a transaction", look).await
    }

    async fn kept(&self, id: TxId) -> Result<Option<Kept>, Error> {
        let look = move |look: &readers::Look<'_>| forget::by_id(look.db, look.namespace, id);
        self.inner.readers.read("read a transaction", look).await
    }

    async fn kept_by_request(&self, signer: Account, request: &RequestId) -> Result<Option<Kept>, Error> {
        let request = request.clone();
        let look =
            move |look: &readers::Look<'_>| forget::by_request(look.db, look.namespace, signer, &request);
        self.inner.readers.read("read a transaction", look).await
    }

    async fn tx_by_call(&self, lane: LaneId, call: &CallId) -> Result<Option<Transaction>, Error> {
        let call = call.clone();
        let look = move |look: &readers::Look<'_>| match scope::find_lane(look.db, look.namespace, lane)? {
            Some(key) => admit::by_call(look.db, key.lane, &call),
            None => Ok(None),
        };
        self.inner.readers.read("read a transaction", look).await
    }

    async fn kept_by_call(&self, lane: LaneId, call: &CallId) -> Result<Option<Kept>, Error> {
        let call = call.clone();
        let look = move |look: &readers::Look<'_>| match scope::find_lane(look.db, look.namespace, lane)? {
            Some(key) => forget::by_call(look.db, key.lane, &call),
            None => Ok(None),
        };
        self.inner.readers.read("read a transaction", look).await
    }

    async fn nonces_from(&self, lane: LaneId, from: &CallId, limit: u32) -> Result<Vec<CallerNonce>, Error> {
        let from = from.clone();
        let look = move |look: &readers::Look<'_>| reads::txs::nonces_from(look, lane, &from, limit);
        self.inner.readers.read("read nonces", look).await
    }

    async fn kept_by_first_hash(&self, chain: ChainId, hash: TxHash) -> Result<Option<Kept>, Error> {
        let look =
            move |look: &readers::Look<'_>| forget::by_first_hash(look.db, look.namespace, chain, hash);
        self.inner.readers.read("read a transaction", look).await
    }

    async fn txs(&self, query: &TxQuery) -> Result<Vec<Transaction>, Error> {
        let query = query.clone();
        self.inner.readers.read("list transactions", move |look| reads::txs::list(look, &query)).await
    }

    async fn journal(&self, tx: TxId) -> Result<Vec<JournalRow>, Error> {
        self.inner.readers.read("read a journal", move |look| reads::journal::of_tx(look, tx)).await
    }

    async fn journal_after(&self, after: JournalSeq, limit: u32) -> Result<Vec<JournalRow>, Error> {
        let look = move |look: &readers::Look<'_>| reads::journal::after(look, after, limit);
        self.inner.readers.read("read the journal", look).await
    }

    async fn lanes(&self) -> Result<Vec<LaneSummary>, Error> {
        self.inner.readers.read("list lanes", reads::lanes::summaries).await
    }

    async fn lane(&self, lane: LaneId) -> Result<Option<LaneSummary>, Error> {
        self.inner.readers.read("read a lane", move |look| reads::lanes::one(look, lane)).await
    }

    async fn chain(&self, chain: ChainId) -> Result<Option<ChainRecord>, Error> {
        self.inner.readers.read("read a chain", move |look| reads::lanes::chain(look, chain)).await
    }

    async fn older(&self) -> Result<Option<Older>, Error> {
        let look = |look: &readers::Look<'_>| accept::older(look.db, look.namespace).map(Older::unaccepted);
        self.inner.readers.read("see whether it is an older copy", look).await
    }

    /// Commits one small row: whatever would stop an admission stops this too.
    async fn writable(&self) -> Result<(), Error> {
        self.inner.is_there()?;
        let probe = |scope: &mut scope::Scope<'_>| {
            scope
                .db
                .prepare_cached("UPDATE namespace SET probes = probes + 1 WHERE id = ?1")?
                .execute([scope.namespace])?;
            Ok(())
        };
        self.inner.writer.probe("store a probe", probe).await
    }
}

#[async_trait]
impl Records for Sqlite {
    async fn write_records(&self, writes: Vec<RecordWrite>) -> Result<RecordsWritten, Error> {
        self.inner.is_there()?;
        let work = move |scope: &mut scope::Scope<'_>| records::write(scope, &writes);
        self.inner.writer.transaction("write records", work).await
    }

    async fn record(&self, kind: RecordKind, id: &str) -> Result<Option<Record>, Error> {
        let id = id.to_owned();
        self.inner.readers.read("read a record", move |look| records::one(look, kind, &id)).await
    }

    async fn records(&self, query: &RecordQuery) -> Result<Vec<Record>, Error> {
        let query = query.clone();
        self.inner.readers.read("list records", move |look| records::list(look, &query)).await
    }

    async fn trim_records(&self, kind: RecordKind, below: &str, limit: u32) -> Result<u64, Error> {
        let below = below.to_owned();
        let work = move |scope: &mut scope::Scope<'_>| records::trim(scope, kind, &below, limit);
        self.inner.writer.transaction("remove old records", work).await
    }
}

#[async_trait]
impl AuditLog for Sqlite {
    async fn append_audit(&self, entries: Vec<New>) -> Result<Link, Error> {
        self.inner.is_there()?;
        let work = move |scope: &mut scope::Scope<'_>| audit::append(scope, entries);
        self.inner.writer.transaction("write the audit log", work).await
    }

    async fn audit_ends(&self) -> Result<Ends, Error> {
        let look = |look: &readers::Look<'_>| audit::ends(look.db, look.namespace);
        self.inner.readers.read("read the ends of the audit log", look).await
    }

    async fn audit_rows(&self, page: Page, limit: u32) -> Result<Vec<Row>, Error> {
        self.inner.readers.read("read the audit log", move |look| audit::list(look, page, limit)).await
    }

    async fn unnumbered_audit(&self) -> Result<u64, Error> {
        self.inner.readers.read("read the audit log", audit::unnumbered).await
    }

    async fn trim_audit(&self, before: Millis, limit: u32, now: Millis) -> Result<u64, Error> {
        let work = move |scope: &mut scope::Scope<'_>| audit::trim(scope, before, limit, now);
        self.inner.writer.transaction("remove old rows of the audit log", work).await
    }
}
