//! The PostgreSQL adapter: many processes on one database, each lane written by its owner alone.
//!
//! | file | what it holds |
//! |---|---|
//! | `open` | reaching the database, and what is said when it cannot be used |
//! | `pool`, `tls` | connections, how long anything may take, and how secure they are |
//! | `schema`, `migrations/` | tables and their versions |
//! | `group` | a group of writes as one transaction; what is done when it fails or its answer is lost |
//! | `admit`, `commit`, `forget`, `archive`, `small`, `leases`, `lanes` | writes |
//! | `reads/` | look-ups |
//! | `records`, `audit` | small documents of the door, and the audit chain |
//! | `hints` | what processes tell each other, and nothing depends on |
//! | `place`, `older` | where the database is, by which an older copy is noticed, and the words of a person about one |
//! | `moved_in`, `fill` | a store that is moved in from a file |
//! | `durability` | what a commit means, for those who measure |
//! | `rows`, `error` | columns to values, failures to sentences |
//!
//! What it relies on, of any database that speaks PostgreSQL's language: row locks that are held to the commit, and
//! statements that see what was committed before they began (READ COMMITTED, or stricter with retries). No advisory
//! locks, no transaction numbers; notifications only as hints.

mod admit;
mod archive;
mod audit;
mod commit;
mod durability;
mod error;
#[cfg(feature = "sqlite")]
pub(crate) mod fill;
mod forget;
mod group;
mod hints;
mod known;
mod lanes;
mod leases;
pub(crate) mod moved_in;
mod older;
mod open;
mod place;
mod pool;
mod reads;
mod records;
mod rows;
mod schema;
mod small;
mod tls;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};
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
use landfall_core::transaction::Transaction;
use landfall_core::{
    Account, CallerNonce, ChainId, CommandId, JournalSeq, LaneId, Millis, Namespace, RequestId, SessionId,
    Token, TxHash, TxId,
};

use hints::Hints;
use lanes::LaneNumbers;
pub use open::{OpenError, Options, without_password};
use pool::Connections;
use uuid::Uuid;

use crate::Archived;

/// A store in a PostgreSQL database. Clones are handles to the same connections.
#[derive(Clone)]
pub struct Postgres {
    inner: Arc<Inner>,
}

struct Inner {
    place: String,
    connections: Connections,
    namespace: i64,
    schema: String,
    numbers: LaneNumbers,
    known: known::Known,
    /// Begun by the first that tells or listens: most processes that open a store do neither.
    hints: OnceLock<Hints>,
}

impl Inner {
    fn hints(&self) -> &Hints {
        self.hints.get_or_init(|| {
            let Connections { config, tls, .. } = &self.connections;
            let (config, tls) = (config.clone(), tls.clone());
            Hints::start(hints::Place { config, tls, schema: self.schema.clone(), namespace: self.namespace })
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.connections.close();
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Postgres").field(&self.inner.place).finish()
    }
}

impl Postgres {
    /// Connects to the database that a `postgres://` URL names, brings its schema up to date and enters a namespace.
    pub async fn open(url: &str, namespace: &Namespace, options: &Options) -> Result<Self, OpenError> {
        let connections = open::connections_of(url, options)?;
        let namespace = open::open(&connections, url, namespace, options).await?;
        let place = without_password(url);
        let inner = Inner {
            place,
            connections,
            namespace,
            schema: options.schema.clone(),
            numbers: LaneNumbers::default(),
            known: known::Known::default(),
            hints: OnceLock::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }
}

/// Runs a look-up or another small piece of work on a connection: `run!(self, "what", |db, inner| work)`. Further
/// names are values in an `Arc` that the work shares.
macro_rules! run {
    ($self:ident, $doing:literal, |$db:ident, $inner:ident $(, $shared:ident)*| $work:expr) => {{
        let shared = Arc::clone(&$self.inner);
        let work = shared.clone();
        shared
            .connections
            .run($doing, move |$db| {
                let $inner = Arc::clone(&work);
                $(let $shared = Arc::clone(&$shared);)*
                Box::pin(async move { $work.await })
            })
            .await
    }};
}

impl Postgres {
    /// Puts a chain away, so that one that was started over can be used anew; none if nothing is known of it. Refused
    /// while any node is at work. A node that left a session and may have died is waited for.
    pub async fn archive_chain(&self, chain: ChainId) -> Result<Option<Archived>, Error> {
        self.end_silent(Some(self.inner.namespace)).await?;
        run!(self, "put a chain away", |db, inner| archive::archive(db, inner.namespace, chain))
    }

    /// Takes the database for an older copy of itself, in every namespace, by the word of a person. Refused while any node is at work. A
    /// node that left a session and may have died is waited for.
    pub async fn take_for_older(&self) -> Result<(), Error> {
        self.end_silent(None).await?;
        run!(self, "take it for an older copy", |db, _inner| older::take_for(db))
    }

    /// Of one namespace, or of all.
    async fn end_silent(&self, namespace: Option<i64>) -> Result<(), Error> {
        let end = async {
            let connection = self.inner.connections.get().await?;
            leases::end_silent(connection.db()?, namespace).await
        };
        end.await.map_err(|fault: error::Fault| fault.into_error("see who is at work"))
    }
}

#[async_trait]
impl Log for Postgres {
    async fn write(&self, writes: Vec<Write>) -> Vec<Result<Written, WriteError>> {
        group::write(&self.inner, &writes).await
    }

    async fn accept(&self, commands: Vec<Command>) -> Result<Acceptance, WriteError> {
        let commands: Arc<[Command]> = commands.into();
        let accepted = run!(self, "accept the store", |db, inner, commands| older::accept(
            db,
            inner.namespace,
            &inner.numbers,
            &commands
        ));
        accepted.map_err(WriteError::Failed)
    }

    /// Each on a connection of its own. They wait for each other only to number their journal entries.
    fn writes_at_once(&self) -> bool {
        true
    }

    fn is_alone(&self) -> bool {
        self.inner.known.is_alone()
    }
}

#[async_trait]
impl Leases for Postgres {
    async fn open_session(&self, session: SessionId, node: &str, lasting: Duration) -> Result<(), Error> {
        let node: Arc<str> = node.into();
        self.inner.known.opens(session);
        run!(self, "open a session", |db, inner, node| leases::open_session(
            db,
            inner.namespace,
            session,
            &node,
            lasting
        ))
    }

    async fn renew_session(&self, session: SessionId, lasting: Duration) -> Result<bool, Error> {
        run!(self, "renew a session", |db, inner| leases::renew_session(
            db,
            inner.namespace,
            session,
            lasting
        ))
    }

    async fn close_session(&self, session: SessionId) -> Result<(), Error> {
        run!(self, "close a session", |db, inner| leases::close_session(db, inner.namespace, session))
    }

    async fn end_session(&self, session: SessionId, pulse: Pulse) -> Result<bool, Error> {
        run!(self, "end a session", |db, inner| leases::end_session(db, inner.namespace, session, pulse))
    }

    async fn break_lease(&self, lane: LaneId, session: SessionId) -> Result<Broken, Error> {
        run!(self, "break a lease", |db, inner| leases::break_lease(
            db,
            inner.namespace,
            &inner.numbers,
            lane,
            session
        ))
    }

    async fn acquire(&self, lane: LaneId, session: SessionId) -> Result<Acquired, Error> {
        run!(self, "acquire a lane", |db, inner| leases::acquire(
            db,
            inner.namespace,
            &inner.numbers,
            lane,
            session
        ))
    }

    async fn release(&self, lane: LaneId, session: SessionId, token: Token) -> Result<(), Error> {
        run!(self, "release a lane", |db, inner| leases::release(
            db,
            inner.namespace,
            &inner.numbers,
            lane,
            session,
            token
        ))
    }

    async fn advertise(&self, session: SessionId, address: &str) -> Result<(), Error> {
        let address: Arc<str> = address.into();
        run!(self, "store an address", |db, inner, address| leases::advertise(
            db,
            inner.namespace,
            session,
            &address
        ))
    }

    async fn address(&self, session: SessionId) -> Result<Option<String>, Error> {
        run!(self, "look an address up", |db, inner| leases::address(db, inner.namespace, session))
    }

    async fn holders(&self) -> Result<Holders, Error> {
        run!(self, "see who holds what", |db, inner| leases::holders(db, inner.namespace))
    }

    fn announce(&self, lane: LaneId) {
        self.inner.hints().tell(lane);
    }

    async fn announced(&self) -> LaneId {
        self.inner.hints().next().await
    }
}

#[async_trait]
impl Reads for Postgres {
    async fn load_lane(&self, lane: LaneId) -> Result<LaneRecord, Error> {
        run!(self, "load a lane", |db, inner| reads::lanes::load(db, inner.namespace, &inner.numbers, lane))
    }

    async fn waiting(&self, lane: LaneId, limit: u32) -> Result<Vec<Transaction>, Error> {
        run!(self, "read what waits", |db, inner| reads::lanes::waiting(
            db,
            inner.namespace,
            &inner.numbers,
            lane,
            limit
        ))
    }

    async fn waiting_bytes(&self, lane: LaneId) -> Result<u64, Error> {
        run!(self, "measure what waits", |db, inner| reads::lanes::waiting_bytes(
            db,
            inner.namespace,
            &inner.numbers,
            lane
        ))
    }

    async fn command(&self, id: CommandId) -> Result<Option<Command>, Error> {
        run!(self, "read a command", |db, inner| reads::lanes::command(db, inner.namespace, id))
    }

    async fn disabled_lanes(&self) -> Result<Vec<LaneId>, Error> {
        run!(self, "find disabled lanes", |db, inner| reads::lanes::disabled(db, inner.namespace))
    }

    async fn open_commands(
        &self,
        lane: LaneId,
        taken: &BTreeSet<CommandId>,
        limit: u32,
    ) -> Result<Vec<Command>, Error> {
        let taken: Arc<Vec<Uuid>> = Arc::new(taken.iter().map(|id| id.0).collect());
        run!(self, "read commands", |db, inner, taken| reads::lanes::open_commands(
            db,
            inner.namespace,
            &inner.numbers,
            lane,
            &taken,
            limit
        ))
    }

    async fn lanes_with_work(&self) -> Result<Vec<LaneId>, Error> {
        run!(self, "find lanes with work", |db, inner| reads::lanes::with_work(db, inner.namespace))
    }

    async fn tx(&self, id: TxId) -> Result<Option<TxRecord>, Error> {
        run!(self, "read a transaction", |db, inner| reads::txs::by_id(db, inner.namespace, id))
    }

    async fn tx_by_request(&self, signer: Account, request: &RequestId) -> Result<Option<TxRecord>, Error> {
        let request = Arc::new(request.clone());
        run!(self, "read a transaction", |db, inner, request| reads::txs::by_request(
            db,
            inner.namespace,
            signer,
            &request
        ))
    }

    async fn kept(&self, id: TxId) -> Result<Option<Kept>, Error> {
        run!(self, "read what stayed", |db, inner| forget::by_id(db, inner.namespace, id))
    }

    async fn kept_by_request(&self, signer: Account, request: &RequestId) -> Result<Option<Kept>, Error> {
        let request = Arc::new(request.clone());
        run!(self, "read what stayed", |db, inner, request| forget::by_request(
            db,
            inner.namespace,
            signer,
            &request
        ))
    }

    async fn tx_by_call(&self, lane: LaneId, call: &CallId) -> Result<Option<Transaction>, Error> {
        let call = Arc::new(call.clone());
        run!(self, "read a transaction", |db, inner, call| reads::txs::by_call(
            db,
            inner.namespace,
            &inner.numbers,
            lane,
            &call
        ))
    }

    async fn kept_by_call(&self, lane: LaneId, call: &CallId) -> Result<Option<Kept>, Error> {
        let call = Arc::new(call.clone());
        run!(self, "read what stayed", |db, inner, call| forget::by_call(
            db,
            inner.namespace,
            &inner.numbers,
            lane,
            &call
        ))
    }

    async fn nonces_from(&self, lane: LaneId, from: &CallId, limit: u32) -> Result<Vec<CallerNonce>, Error> {
        let from = Arc::new(from.clone());
        run!(self, "read nonces", |db, inner, from| reads::txs::nonces_from(
            db,
            inner.namespace,
            &inner.numbers,
            lane,
            &from,
            limit
        ))
    }

    async fn kept_by_first_hash(&self, chain: ChainId, hash: TxHash) -> Result<Option<Kept>, Error> {
        run!(self, "read what stayed", |db, inner| forget::by_first_hash(db, inner.namespace, chain, hash))
    }

    async fn txs(&self, query: &TxQuery) -> Result<Vec<Transaction>, Error> {
        let query = Arc::new(query.clone());
        run!(self, "list transactions", |db, inner, query| reads::txs::list(db, inner.namespace, &query))
    }

    async fn journal(&self, tx: TxId) -> Result<Vec<JournalRow>, Error> {
        run!(self, "read a journal", |db, inner| reads::journal::of_tx(db, inner.namespace, tx))
    }

    async fn journal_after(&self, after: JournalSeq, limit: u32) -> Result<Vec<JournalRow>, Error> {
        run!(self, "read the journal", |db, inner| reads::journal::after(db, inner.namespace, after, limit))
    }

    async fn lanes(&self) -> Result<Vec<LaneSummary>, Error> {
        run!(self, "list lanes", |db, inner| reads::lanes::summaries(db, inner.namespace))
    }

    async fn lane(&self, lane: LaneId) -> Result<Option<LaneSummary>, Error> {
        run!(self, "read a lane", |db, inner| reads::lanes::one(db, inner.namespace, lane))
    }

    async fn chain(&self, chain: ChainId) -> Result<Option<ChainRecord>, Error> {
        run!(self, "read a chain", |db, inner| reads::lanes::chain(db, inner.namespace, chain))
    }

    async fn older(&self) -> Result<Option<Older>, Error> {
        run!(self, "see whether it is an older copy", |db, inner| older::why(db, inner.namespace))
    }

    /// Commits one small row: whatever would stop an admission stops this too.
    async fn writable(&self) -> Result<(), Error> {
        run!(self, "store a probe", |db, inner| async move {
            let probe = "UPDATE namespace SET probes = probes + 1 WHERE id = $1";
            let probe = db.prepare_cached(probe).await?;
            db.execute(&probe, &[&inner.namespace]).await?;
            Ok(())
        })
    }
}

#[async_trait]
impl Records for Postgres {
    async fn write_records(&self, writes: Vec<RecordWrite>) -> Result<RecordsWritten, Error> {
        let writes: Arc<[RecordWrite]> = writes.into();
        run!(self, "write records", |db, inner, writes| records::write(db, inner.namespace, &writes))
    }

    async fn record(&self, kind: RecordKind, id: &str) -> Result<Option<Record>, Error> {
        let id: Arc<str> = id.into();
        run!(self, "read a record", |db, inner, id| records::one(db, inner.namespace, kind, &id))
    }

    async fn records(&self, query: &RecordQuery) -> Result<Vec<Record>, Error> {
        let query = Arc::new(query.clone());
        run!(self, "list records", |db, inner, query| records::list(db, inner.namespace, &query))
    }

    async fn trim_records(&self, kind: RecordKind, below: &str, limit: u32) -> Result<u64, Error> {
        let below: Arc<str> = below.into();
        run!(self, "remove old records", |db, inner, below| records::trim(
            db,
            inner.namespace,
            kind,
            &below,
            limit
        ))
    }
}

#[async_trait]
impl AuditLog for Postgres {
    async fn append_audit(&self, entries: Vec<New>) -> Result<Link, Error> {
        let entries: Arc<[New]> = entries.into();
        run!(self, "write the audit log", |db, inner, entries| audit::append(db, inner.namespace, &entries))
    }

    async fn audit_ends(&self) -> Result<Ends, Error> {
        run!(self, "read the ends of the audit log", |db, inner| audit::ends(db, inner.namespace))
    }

    async fn audit_rows(&self, page: Page, limit: u32) -> Result<Vec<Row>, Error> {
        run!(self, "read the audit log", |db, inner| audit::list(db, inner.namespace, page, limit))
    }

    async fn unnumbered_audit(&self) -> Result<u64, Error> {
        run!(self, "read the audit log", |db, inner| audit::unnumbered(db, inner.namespace))
    }

    async fn trim_audit(&self, before: Millis, limit: u32, now: Millis) -> Result<u64, Error> {
        run!(self, "remove old rows of the audit log", |db, inner| audit::trim(
            db,
            inner.namespace,
            before,
            limit,
            now
        ))
    }
}
