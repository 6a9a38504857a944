//! PostgreSQL as far as the fence needs it (decisions 19 and 20): rows that are locked, sessions that end when another process ends
//! them, commits that go on without the one who asked for them, and journal numbers.
//!
//! | in PostgreSQL | here |
//! |---|---|
//! | the lane's row, locked by whoever writes or takes it | one fair lock for each lane |
//! | a transaction whose connection broke before COMMIT | its locks are dropped, and nothing was written |
//! | a COMMIT whose answer is lost | a task of the database's own, which holds the locks until it is done |
//! | `clock_timestamp()` | a clock of its own, which steps |
//! | `idle_in_transaction_session_timeout`, `lock_timeout` | [`IDLE_LIMIT`], [`LOCK_LIMIT`] |
//! | journal numbers under one row | numbers are given when the rows become visible |
//!
//! What is stored is in the memory store. Who really holds which lane is written down beside it, by the rules' own
//! hand: planted bugs confuse the store, not that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use landfall_core::ports::store::{LaneCommit, Log, Reads, Write, WriteError, Written};
use landfall_core::{JournalSeq, LaneId, LaneVersion, Millis, SessionId, Token, TxHash};
use landfall_store::Memory;
use tokio::sync::OwnedMutexGuard;

use crate::planted::Planted;
use crate::world::{Rule, World};

/// In peace a dead process's session is ended within this: its lease, and a few looks.
const DEAD_FOR_MOST: Duration = Duration::from_secs(60);
/// How long a transaction waits for a row.
const LOCK_LIMIT: Duration = Duration::from_secs(2);
/// How long a transaction may stand still between two statements.
pub(crate) const IDLE_LIMIT: Duration = Duration::from_secs(2);

/// Rows that a transaction has locked.
pub(crate) type Locks = Vec<OwnedMutexGuard<()>>;

pub(crate) struct Database {
    world: Arc<World>,
    pub(crate) memory: Memory,
    rows: Mutex<BTreeMap<LaneId, Arc<tokio::sync::Mutex<()>>>>,
    truth: Mutex<Truth>,
}

/// What is so, whatever the store believes.
#[derive(Default)]
struct Truth {
    /// Which process took a lane last and has not given it back.
    held: BTreeMap<LaneId, SessionId>,
    /// Sessions that were ended, and when.
    ended: BTreeMap<SessionId, u64>,
    /// Until when a session lasts, as the database's clock was when it was asked for.
    until: BTreeMap<SessionId, Millis>,
    /// Commits that were applied, by the version that they were made for.
    applied: BTreeSet<(LaneId, Token, LaneVersion)>,
    /// The last token that a lane's owners were told, where takeovers do not raise it.
    told: BTreeMap<LaneId, Token>,
    /// The first session under a name, where the name stands for the session.
    by_name: BTreeMap<String, SessionId>,
    /// Entries that have their number and are not visible yet, where numbers are given too early.
    hidden: BTreeMap<JournalSeq, u64>,
    last_entry: JournalSeq,
}

/// A lane's commit as it was asked for.
#[derive(Clone)]
pub(crate) struct Asked {
    lane: LaneId,
    token: Token,
    version: LaneVersion,
    hashes: Vec<TxHash>,
}

impl Asked {
    pub(crate) fn of(write: &Write) -> Option<Self> {
        let Write::Lane(commit) = write else { return None };
        let hashes = commit.attempts.iter().map(|attempt| attempt.hash).collect();
        Some(Self { lane: commit.lane, token: commit.token, version: commit.version, hashes })
    }
}

impl Database {
    #[must_use]
    pub(crate) fn new(world: Arc<World>, memory: Memory) -> Arc<Self> {
        Arc::new(Self { world, memory, rows: Mutex::default(), truth: Mutex::default() })
    }

    fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks lanes' rows in their order; none if somebody does not let go of one.
    pub(crate) async fn lock(&self, lanes: impl IntoIterator<Item = LaneId>) -> Option<Locks> {
        let lanes: BTreeSet<LaneId> = lanes.into_iter().collect();
        let rows: Vec<_> = {
            let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            lanes.into_iter().map(|lane| rows.entry(lane).or_default().clone()).collect()
        };
        let all = async {
            let mut locks = Vec::with_capacity(rows.len());
            for row in rows {
                locks.push(row.lock_owned().await);
            }
            locks
        };
        tokio::time::timeout(LOCK_LIMIT, all).await.ok()
    }

    /// A look at a locked lane: may the commit be written, or was it before?
    pub(crate) async fn judge(&self, commit: &LaneCommit, again: bool) -> Result<Verdict, WriteError> {
        let fenced = WriteError::Fenced { lane: commit.lane };
        let Some(row) = self.memory.lane(commit.lane).await.ok().flatten() else { return Err(fenced) };
        let token = self.truth().told.get(&commit.lane).copied().unwrap_or(row.token);
        if token != commit.token {
            return Err(fenced);
        }
        if row.version == commit.version {
            return if self.is_live(commit.lane) { Ok(Verdict::Write) } else { Err(fenced) };
        }
        let landed = again && row.version.0 == commit.version.0 + 1;
        if landed { Ok(Verdict::Landed) } else { Err(fenced) }
    }

    /// The lane was given back, or its owner's session has not ended.
    pub(crate) fn is_live(&self, lane: LaneId) -> bool {
        let truth = self.truth();
        let holder = truth.held.get(&lane);
        self.world.has(Planted::SessionUnchecked)
            || holder.is_none_or(|holder| !truth.ended.contains_key(holder))
    }

    /// A session was begun or renewed.
    pub(crate) fn was_heard_of(&self, session: SessionId, lasting: Duration) {
        let until = self.world.database_time().after(lasting);
        let mut truth = self.truth();
        truth.ended.remove(&session);
        truth.until.insert(session, until);
    }

    /// Another process has ended a session.
    pub(crate) fn was_ended(&self, session: SessionId, by: Option<SessionId>) {
        if self.lasts(session) {
            self.world.violated(Rule::LiveOwnerKeeps, format!("{by:?} ended {session}"));
        }
        let now = self.world.now();
        self.truth().ended.insert(session, now);
    }

    /// By the database's clock its time is over.
    pub(crate) fn is_over_by_its_clock(&self, session: SessionId) -> bool {
        let now = self.world.database_time();
        self.truth().until.get(&session).is_none_or(|until| *until <= now)
    }

    /// Nobody who died still holds a lane, once the faults have stopped for long enough.
    pub(crate) fn dead_owners_go(&self) {
        let Some(healed) = self.world.lock().healed_at else { return };
        let now = self.world.now();
        let is_late = |session: &SessionId| {
            let ends = self.world.session_ends(*session).unwrap_or(0).max(healed);
            now.saturating_sub(ends) > u64::try_from(DEAD_FOR_MOST.as_millis()).unwrap_or(u64::MAX)
        };
        let truth = self.truth();
        let held = truth.held.iter().filter(|(_, holder)| !truth.ended.contains_key(*holder));
        let late = held.map(|(lane, holder)| (*lane, *holder)).find(|(_, holder)| is_late(holder));
        drop(truth);
        if let Some((lane, holder)) = late {
            self.world.violated(Rule::DeadOwnerGoes, format!("{holder} is dead and still holds {lane}"));
        }
    }

    fn lasts(&self, session: SessionId) -> bool {
        self.world.session_ends(session).is_some_and(|ends| ends > self.world.now())
    }

    /// Applies what a transaction has written, and looks whether it may have been. `fenced_at` is when the fence was
    /// passed: from then on nobody else can have had the locks.
    pub(crate) async fn apply(
        &self,
        mut group: Vec<Write>,
        asked: Vec<Option<Asked>>,
        by: Option<SessionId>,
        fenced_at: u64,
    ) -> Vec<Result<Written, WriteError>> {
        if self.world.has(Planted::TokenKept) {
            self.translate_tokens(&mut group).await;
        }
        let results = self.memory.write(group).await;
        for (result, asked) in results.iter().zip(asked) {
            let Some(Asked { lane, token, version, hashes }) = asked else { continue };
            match result {
                Ok(_) => {
                    self.world
                        .trace(format_args!("{by:?} commits {lane} under {token} after version {version}"));
                    self.world.lock().stored.extend(hashes);
                    self.was_fenced(lane, by, fenced_at);
                    if !self.truth().applied.insert((lane, token, version)) {
                        let text = format!("what {lane} was to be after version {version} was written twice");
                        self.world.violated(Rule::CommittedOnce, text);
                    }
                }
                Err(error) => self.world.trace(format_args!("{by:?} commits {lane}: {error}")),
            }
        }
        if self.world.has(Planted::JournalBySequence) {
            self.hide_new_entries().await;
        }
        results
    }

    fn was_fenced(&self, lane: LaneId, by: Option<SessionId>, fenced_at: u64) {
        let Some(holder) = self.truth().held.get(&lane).copied() else { return };
        if Some(holder) != by {
            let text = format!("{by:?} wrote {lane}, which {holder} holds");
            self.world.violated(Rule::Fenced, text);
        } else if self.truth().ended.get(&holder).is_some_and(|ended| *ended <= fenced_at) {
            self.world.violated(Rule::Fenced, format!("{holder} wrote {lane} after its session had ended"));
        }
    }

    /// A lane was taken, by the rules' own book. Was it anybody's?
    pub(crate) fn was_taken(&self, lane: LaneId, by: SessionId) {
        let before = self.truth().held.insert(lane, by);
        if let Some(owner) = before.filter(|owner| *owner != by && self.lasts(*owner)) {
            self.world.violated(Rule::LiveOwnerKeeps, format!("{by} took {lane} from {owner}"));
        }
    }

    pub(crate) fn was_given_back(&self, lane: LaneId, by: SessionId) {
        let mut truth = self.truth();
        if truth.held.get(&lane) == Some(&by) {
            truth.held.remove(&lane);
        }
    }

    /// The store is another one from now on, and nobody who used the old one lives.
    pub(crate) fn was_replaced(&self) {
        *self.truth() = Truth::default();
    }

    /// The lanes of a session.
    pub(crate) fn held_by(&self, session: SessionId) -> Vec<LaneId> {
        let truth = self.truth();
        truth.held.iter().filter(|(_, holder)| **holder == session).map(|(lane, _)| *lane).collect()
    }

    /// What the database takes a session for: itself, unless its node's name is planted to be enough.
    pub(crate) fn row_of(&self, session: SessionId, node: &str) -> SessionId {
        if !self.world.has(Planted::NameIsSession) {
            return session;
        }
        *self.truth().by_name.entry(node.to_owned()).or_insert(session)
    }

    /// What a new owner is told: the token, unless takeovers are planted not to raise it.
    pub(crate) fn told(&self, lane: LaneId, token: Token) -> Token {
        if !self.world.has(Planted::TokenKept) {
            return token;
        }
        *self.truth().told.entry(lane).or_insert(token)
    }

    async fn translate_tokens(&self, group: &mut [Write]) {
        for write in group {
            let Write::Lane(commit) = write else { continue };
            if let Ok(Some(row)) = self.memory.lane(commit.lane).await {
                commit.token = row.token;
            }
        }
    }

    async fn hide_new_entries(&self) {
        let last = self.truth().last_entry;
        let new = self.memory.journal_after(last, u32::MAX).await.unwrap_or_default();
        let visible_at = self.world.now() + self.world.range(0, 400);
        let mut truth = self.truth();
        for row in new {
            truth.last_entry = row.seq;
            truth.hidden.insert(row.seq, visible_at);
        }
    }

    /// Entries that are not visible yet.
    pub(crate) fn is_hidden(&self, seq: JournalSeq) -> bool {
        self.truth().hidden.get(&seq).is_some_and(|visible_at| *visible_at > self.world.now())
    }
}

/// What a look at a locked lane says of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Write,
    /// An earlier try of it is on disk.
    Landed,
}
