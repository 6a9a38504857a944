//! The store port as a node sees it: one [`Database`] for all nodes, behind a network that can be cut, and what a
//! PostgreSQL adapter does when an answer is lost.
//!
//! A group is one transaction: its lanes are locked, looked at, written, fenced and committed, with time between each of
//! these. After a lost answer it is tried again, which waits for the lanes' locks and so finds out what became of it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::journal::JournalRow;
use landfall_core::ports::store::{
    Acceptance, Acquired, Admission, Broken, ChainRecord, Command, Error, Holders, Kept, LaneRecord,
    LaneSummary, Leases, Log, Older, Pulse, Reads, TxQuery, TxRecord, Write, WriteError, Written,
};
use landfall_core::request::{AtOnce, CallId, NewTransaction};
use landfall_core::transaction::{Status, Transaction};
use landfall_core::{
    Account, CallerNonce, ChainId, CommandId, JournalSeq, LaneId, LaneVersion, Millis, RequestId, SessionId,
    Slot, Token, TxHash, TxId,
};
use landfall_store::Memory;

use crate::database::{Asked, Database, IDLE_LIMIT, Locks, Verdict};
use crate::planted::Planted;
use crate::scenario::Fault;
use crate::world::World;

/// How long a cut-off store call takes to fail.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// How often a group is tried.
const TRIES: u32 = 3;

#[derive(Clone)]
pub(crate) struct SimStore {
    pub(crate) world: Arc<World>,
    pub(crate) node: usize,
    pub(crate) name: String,
    pub(crate) database: Arc<Database>,
    pub(crate) memory: Memory,
    /// The session of the process that has this.
    pub(crate) session: ProcessSession,
}

/// The session of one process, once it has begun.
#[derive(Clone, Default)]
pub(crate) struct ProcessSession(Arc<Mutex<Option<SessionId>>>);

impl ProcessSession {
    #[must_use]
    pub(crate) fn get(&self) -> Option<SessionId> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, session: SessionId) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
    }
}

type Answers = Vec<Result<Written, WriteError>>;

/// Why a try gave no answers.
enum Lost {
    /// COMMIT was not sent: nothing of it is on disk.
    Before,
    /// It was: nobody knows.
    After,
}

impl SimStore {
    async fn reach(&self, doing: &'static str) -> Result<(), Error> {
        self.world.pass(self.node).await;
        if self.world.gate(self.node).store_cut_until > self.world.now() {
            tokio::time::sleep(TIME_LIMIT).await;
            return Err(Error::Failed { doing, text: "cut off".into() });
        }
        Ok(())
    }

    /// The answer takes its time.
    async fn answer(&self) {
        if self.world.strikes(Fault::SlowAnswer) {
            let late = self.world.range(500, 2_900);
            tokio::time::sleep(Duration::from_millis(late)).await;
        }
        self.world.pass(self.node).await;
    }

    /// Tries until there is an answer, it is given up, or nobody can know.
    async fn commit(&self, mut group: Vec<Write>) -> Answers {
        let count = group.len();
        let asked: Vec<Option<Asked>> = group.iter().map(Asked::of).collect();
        let mut again = false;
        for _ in 0..TRIES {
            match self.attempt(group.clone(), &asked, again).await {
                Ok(answers) => return answers,
                Err(Lost::Before) => {}
                Err(Lost::After) if self.world.has(Planted::LostCommitAssumedDone) => {
                    return group.iter().map(assumed_done).collect();
                }
                Err(Lost::After) if self.world.has(Planted::LostCommitRepeated) => {
                    // As if it had failed: it is made again, on what is there now.
                    self.renumber(&mut group).await;
                }
                Err(Lost::After) => again = true,
            }
            // The connection is not to be had again in time, or it is and the next try looks.
            if self.world.chance(500) || self.reach("write").await.is_err() {
                break;
            }
        }
        if again { all_unknown(count) } else { all_failed(count) }
    }

    /// One transaction, from BEGIN to the answer to COMMIT.
    async fn attempt(
        &self,
        group: Vec<Write>,
        asked: &[Option<Asked>],
        again: bool,
    ) -> Result<Answers, Lost> {
        let lanes = group.iter().filter_map(|write| match write {
            Write::Lane(commit) => Some(commit.lane),
            Write::Admit(_) | Write::Command(_) | Write::Chain(_) | Write::Forget(_) => None,
        });
        let mut locks = self.database.lock(lanes).await.ok_or(Lost::Before)?;
        self.statement().await?;
        // The look. What is stale is left out, and what landed before is answered.
        let mut left_out: Vec<Option<Result<Written, WriteError>>> = Vec::with_capacity(group.len());
        for write in &group {
            let Write::Lane(commit) = write else {
                left_out.push(None);
                continue;
            };
            left_out.push(match self.look(write, again).await {
                Ok(Verdict::Write) => None,
                Ok(Verdict::Landed) => Some(Ok(Written::Lane(LaneVersion(commit.version.0 + 1)))),
                Err(error) => Some(Err(error)),
            });
        }
        if self.world.has(Planted::FenceBeforeCommit) {
            locks.clear();
            tokio::time::sleep(Duration::from_millis(self.world.range(0, 400))).await;
        } else {
            self.statement().await?;
        }
        // The fence, in the transaction that writes.
        let ended =
            |write: &Write| matches!(write, Write::Lane(commit) if !self.database.is_live(commit.lane));
        let written = group.iter().zip(&left_out).filter(|(_, out)| out.is_none());
        if !self.unfenced() && written.map(|(write, _)| write).any(ended) {
            return Err(Lost::Before);
        }
        let fenced_at = self.world.now();
        let passed = group.into_iter().zip(asked.iter().cloned()).zip(&left_out);
        let passed = passed.filter(|(_, out)| out.is_none()).map(|(write, _)| write);
        let (mut todo, asked): (Vec<_>, Vec<_>) = passed.unzip();
        if self.unfenced() {
            self.renumber(&mut todo).await;
        }
        let mut done = self.send_commit(todo, asked, fenced_at, locks).await?.into_iter();
        let missing = || Err(WriteError::Unknown("no answer".into()));
        Ok(left_out
            .into_iter()
            .map(|out| out.unwrap_or_else(|| done.next().unwrap_or_else(missing)))
            .collect())
    }

    /// From when COMMIT is sent until its answer comes nobody knows.
    async fn send_commit(
        &self,
        todo: Vec<Write>,
        asked: Vec<Option<Asked>>,
        fenced_at: u64,
        locks: Locks,
    ) -> Result<Answers, Lost> {
        if self.world.strikes(Fault::LostCommit) {
            return Err(Lost::After);
        }
        let (database, by) = (self.database.clone(), self.session.get());
        if self.world.strikes(Fault::LateCommit) {
            let late = Duration::from_millis(self.world.range(100, 12_000));
            tokio::spawn(async move {
                tokio::time::sleep(late).await;
                database.apply(todo, asked, by, fenced_at).await;
                drop(locks);
            });
            return Err(Lost::After);
        }
        let answers = database.apply(todo, asked, by, fenced_at).await;
        drop(locks);
        if self.world.strikes(Fault::LostCommitAnswer) {
            return Err(Lost::After);
        }
        self.answer().await;
        Ok(answers)
    }

    /// The way to the database and back within a transaction. One that stands still for too long is ended there.
    async fn statement(&self) -> Result<(), Lost> {
        tokio::time::timeout(IDLE_LIMIT, self.world.pass(self.node)).await.map_err(|_| Lost::Before)
    }

    async fn look(&self, write: &Write, again: bool) -> Result<Verdict, WriteError> {
        match write {
            Write::Lane(_) if self.world.has(Planted::FenceSkipped) && !again => Ok(Verdict::Write),
            Write::Lane(commit) => self.database.judge(commit, again).await,
            Write::Admit(_) | Write::Command(_) | Write::Chain(_) | Write::Forget(_) => Ok(Verdict::Write),
        }
    }

    /// Nothing stops a write at the commit.
    fn unfenced(&self) -> bool {
        self.world.has(Planted::FenceSkipped) || self.world.has(Planted::FenceBeforeCommit)
    }

    /// The planted ways of making a commit pass: on what is there now, instead of what it was made for.
    async fn renumber(&self, group: &mut [Write]) {
        for write in group {
            match write {
                Write::Lane(commit) => {
                    if let Ok(now) = self.memory.load_lane(commit.lane).await {
                        if self.unfenced() {
                            commit.token = now.token;
                        }
                        commit.version = now.version;
                    }
                }
                Write::Admit(new) => {
                    if self.world.has(Planted::LostCommitRepeated) {
                        let bits = self.world.lock().rng.next();
                        new.id = TxId::new(Millis(self.world.true_time().0), u128::from(bits));
                    }
                }
                Write::Command(_) | Write::Chain(_) | Write::Forget(_) => {}
            }
        }
    }

    /// The planted way of looking for a call: whoever has the slot of that number and does the same is the first one.
    async fn by_slot(&self, new: &mut NewTransaction) -> Option<Admission> {
        let call = new.request.at_once.as_mut()?.call.take()?;
        let record = self.memory.load_lane(new.lane).await.ok()?;
        let slot = Some(Slot(call.nonce.0));
        let mut known = record.bound.into_iter().chain(record.ended);
        known
            .find(|tx| tx.status.slot == slot && tx.request.payload.does_the_same(&new.request.payload))
            .map(Admission::Replay)
    }

    /// The planted way of removing history: a key or a call that stands for what was removed is as good as new.
    async fn forget_key(&self, write: &mut Write) {
        let Write::Admit(new) = write else { return };
        if let Some(call) = new.request.call().cloned()
            && self.memory.kept_by_call(new.lane, &call).await.ok().flatten().is_some()
        {
            new.request.at_once = Some(AtOnce::default());
        }
        let Some(key) = new.request.request_id.clone() else { return };
        if self.memory.kept_by_request(new.lane.signer, &key).await.ok().flatten().is_some() {
            new.request.request_id = RequestId::parse(&format!("{}, again", key.as_str())).ok();
        }
    }

    /// The planted way of looking a key up first and inserting it a moment later.
    async fn admit_unguarded(&self, new: &mut NewTransaction) -> Option<Admission> {
        let key = new.request.request_id.clone()?;
        let known = self.memory.tx_by_request(new.lane.signer, &key).await.ok().flatten();
        if let Some(record) = known {
            return Some(Admission::Replay(record.tx));
        }
        tokio::time::sleep(Duration::from_millis(self.world.range(0, 60))).await;
        if self.memory.tx_by_request(new.lane.signer, &key).await.ok().flatten().is_some() {
            // Nothing in the table stops the second row.
            new.request.request_id = None;
        }
        None
    }
}

fn hashes_of(write: &Write) -> Vec<landfall_core::TxHash> {
    match write {
        Write::Lane(commit) => commit.attempts.iter().map(|attempt| attempt.hash).collect(),
        Write::Admit(_) | Write::Command(_) | Write::Chain(_) | Write::Forget(_) => Vec::new(),
    }
}

/// The planted answer to a commit of which nobody knows.
fn assumed_done(write: &Write) -> Result<Written, WriteError> {
    match write {
        Write::Lane(commit) => Ok(Written::Lane(LaneVersion(commit.version.0 + 1))),
        Write::Command(_) => Ok(Written::Command),
        Write::Chain(_) => Ok(Written::Chain),
        Write::Admit(_) | Write::Forget(_) => Err(WriteError::Unknown("no answer".into())),
    }
}

fn all_unknown(count: usize) -> Vec<Result<Written, WriteError>> {
    (0..count).map(|_| Err(WriteError::Unknown("no answer".into()))).collect()
}

fn all_failed(count: usize) -> Vec<Result<Written, WriteError>> {
    let failed = || WriteError::Failed(Error::Failed { doing: "write", text: "made to fail".into() });
    (0..count).map(|_| Err(failed())).collect()
}

#[async_trait]
impl Log for SimStore {
    async fn accept(&self, commands: Vec<Command>) -> Result<Acceptance, WriteError> {
        self.reach("accept the store").await.map_err(WriteError::Failed)?;
        self.memory.accept(commands).await
    }

    async fn write(&self, mut group: Vec<Write>) -> Vec<Result<Written, WriteError>> {
        let count = group.len();
        if self.reach("write").await.is_err() {
            return all_failed(count);
        }
        if self.world.strikes(Fault::FailedCommit) {
            return all_failed(count);
        }
        if self.world.has(Planted::IdempotencyOutside) || self.world.has(Planted::NonceIsSlot) {
            let mut answers = Vec::new();
            for write in &mut group {
                let known = match write {
                    Write::Admit(new) if self.world.has(Planted::NonceIsSlot) => self.by_slot(new).await,
                    Write::Admit(new) => self.admit_unguarded(new).await,
                    Write::Lane(_) | Write::Command(_) | Write::Chain(_) | Write::Forget(_) => None,
                };
                answers.push(known);
            }
            let results = self.commit(group).await;
            let known = |answer: Option<Admission>, result| match answer {
                Some(admission) => Ok(Written::Admitted(Box::new(admission))),
                None => result,
            };
            return answers.into_iter().zip(results).map(|(answer, result)| known(answer, result)).collect();
        }
        if self.world.has(Planted::RemovalForgetsKey) {
            for write in &mut group {
                self.forget_key(write).await;
            }
        }
        if self.world.has(Planted::StoredAfterSent) && group.iter().any(|write| !hashes_of(write).is_empty())
        {
            return self.acknowledge_first(group).await;
        }
        self.commit(group).await
    }

    fn writes_at_once(&self) -> bool {
        self.world.scenario.seed.is_multiple_of(2)
    }

    fn is_alone(&self) -> bool {
        self.world.scenario.nodes == 1
    }
}

impl SimStore {
    async fn locked(
        &self,
        doing: &'static str,
        lanes: impl IntoIterator<Item = LaneId>,
    ) -> Result<Locks, Error> {
        let locks = self.database.lock(lanes).await;
        locks.ok_or_else(|| Error::Failed { doing, text: "a row is locked".into() })
    }

    /// The planted ways of asking a clock whether another's session has ended: this node's own, or the database's.
    fn is_over_by_a_clock(&self, session: SessionId) -> bool {
        let local = self.world.now().saturating_add_signed(self.world.gate(self.node).skew_ms);
        let locally = || self.world.session_ends(session).is_none_or(|ends| ends <= local);
        (self.world.has(Planted::LeaseByLocalClock) && locally())
            || (self.world.has(Planted::LeaseByDatabaseClock) && self.database.is_over_by_its_clock(session))
    }

    /// The planted way of answering before the disk has it.
    async fn acknowledge_first(&self, group: Vec<Write>) -> Vec<Result<Written, WriteError>> {
        let mut answers = Vec::new();
        let mut later = Vec::new();
        for write in group {
            match &write {
                Write::Lane(commit) => {
                    answers.push(Ok(Written::Lane(landfall_core::LaneVersion(commit.version.0 + 1))));
                    later.push(write);
                }
                Write::Admit(_) | Write::Command(_) | Write::Chain(_) | Write::Forget(_) => {
                    answers.extend(self.commit(vec![write]).await);
                }
            }
        }
        let behind = self.clone();
        let delay = Duration::from_millis(self.world.range(1, 200));
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            behind.commit(later).await;
        });
        answers
    }
}

#[async_trait]
impl Leases for SimStore {
    async fn open_session(&self, session: SessionId, node: &str, lasting: Duration) -> Result<(), Error> {
        self.reach("open a session").await?;
        self.session.set(session);
        let lanes = self.database.held_by(session);
        let locks = self.locked("open a session", lanes.iter().copied()).await?;
        let row = self.database.row_of(session, node);
        let opened = self.memory.open_session(row, node, lasting).await;
        self.world.session_lasts(session, lasting, opened.is_ok());
        self.database.was_heard_of(session, lasting);
        for lane in lanes {
            self.database.was_given_back(lane, session);
        }
        drop(locks);
        self.answer().await;
        opened
    }

    async fn renew_session(&self, session: SessionId, lasting: Duration) -> Result<bool, Error> {
        self.reach("renew a session").await?;
        if self.world.gate(self.node).renewals_lost_until > self.world.now() {
            tokio::time::sleep(TIME_LIMIT).await;
            return Err(Error::Failed { doing: "renew a session", text: "lost on the way".into() });
        }
        let renewed = self.memory.renew_session(self.database.row_of(session, &self.name), lasting).await;
        self.world.session_lasts(session, lasting, matches!(renewed, Ok(true)));
        if matches!(renewed, Ok(true)) {
            self.database.was_heard_of(session, lasting);
        }
        if self.world.scenario.rate(Fault::SlowAnswer) > 0
            && self.world.lock().faults_on
            && self.world.chance(500)
        {
            tokio::time::sleep(Duration::from_millis(self.world.range(500, 2_900))).await;
        }
        self.answer().await;
        renewed
    }

    async fn close_session(&self, session: SessionId) -> Result<(), Error> {
        self.reach("close a session").await?;
        let lanes = self.database.held_by(session);
        let locks = self.locked("close a session", lanes.iter().copied()).await?;
        self.world.session_lasts(session, Duration::ZERO, true);
        for lane in lanes {
            self.database.was_given_back(lane, session);
        }
        let closed = self.memory.close_session(self.database.row_of(session, &self.name)).await;
        drop(locks);
        closed
    }

    async fn end_session(&self, session: SessionId, pulse: Pulse) -> Result<bool, Error> {
        self.reach("end a session").await?;
        if self.world.has(Planted::DeadByDatabaseClock) && !self.database.is_over_by_its_clock(session) {
            return Ok(false);
        }
        let ended = self.memory.end_session(session, pulse).await;
        if matches!(ended, Ok(true)) {
            self.world.trace(format_args!("node {} ends {session}", self.node));
            self.database.was_ended(session, self.session.get());
        }
        self.answer().await;
        ended
    }

    async fn break_lease(&self, lane: LaneId, session: SessionId) -> Result<Broken, Error> {
        self.reach("break a lease").await?;
        self.memory.break_lease(lane, session).await
    }

    async fn acquire(&self, lane: LaneId, session: SessionId) -> Result<Acquired, Error> {
        self.reach("acquire a lane").await?;
        let locks = self.locked("acquire a lane", [lane]).await?;
        let owner = self.memory.lane(lane).await?.and_then(|summary| summary.owner).map(|(_, owner)| owner);
        if let Some(owner) = owner.filter(|owner| *owner != session && self.is_over_by_a_clock(*owner)) {
            self.memory.close_session(owner).await?;
        }
        let acquired = self.memory.acquire(lane, self.database.row_of(session, &self.name)).await;
        self.world.trace(format_args!("node {} asks for {lane}: {acquired:?}", self.node));
        let acquired = match acquired? {
            Acquired::Yes { token } => {
                self.database.was_taken(lane, session);
                Acquired::Yes { token: self.database.told(lane, token) }
            }
            held => held,
        };
        drop(locks);
        if self.world.strikes(Fault::LostCommitAnswer) {
            return Err(Error::Failed { doing: "acquire a lane", text: "no answer".into() });
        }
        self.answer().await;
        Ok(acquired)
    }

    async fn release(&self, lane: LaneId, session: SessionId, token: Token) -> Result<(), Error> {
        self.reach("release a lane").await?;
        let locks = self.locked("release a lane", [lane]).await?;
        let row = self.memory.load_lane(lane).await?;
        let held = self.database.told(lane, row.token) == token;
        if held {
            self.database.was_given_back(lane, session);
        }
        let token = if held { row.token } else { token };
        let released = self.memory.release(lane, self.database.row_of(session, &self.name), token).await;
        drop(locks);
        released
    }

    async fn holders(&self) -> Result<Holders, Error> {
        self.reach("see who holds what").await?;
        let mut holders = self.memory.holders().await?;
        holders.live.retain(|session| !self.is_over_by_a_clock(*session));
        holders.held.retain(|_, session| holders.live.contains(session));
        Ok(holders)
    }
}

#[async_trait]
impl Reads for SimStore {
    async fn load_lane(&self, lane: LaneId) -> Result<LaneRecord, Error> {
        self.reach("load a lane").await?;
        let mut record = self.memory.load_lane(lane).await?;
        record.token = self.database.told(lane, record.token);
        Ok(record)
    }

    async fn waiting(&self, lane: LaneId, limit: u32) -> Result<Vec<Transaction>, Error> {
        self.reach("read waiting transactions").await?;
        let read = self.memory.waiting(lane, limit).await;
        self.world.pass(self.node).await;
        read
    }

    async fn waiting_bytes(&self, lane: LaneId) -> Result<u64, Error> {
        self.reach("measure what waits").await?;
        self.memory.waiting_bytes(lane).await
    }

    async fn open_commands(
        &self,
        lane: LaneId,
        taken: &BTreeSet<CommandId>,
        limit: u32,
    ) -> Result<Vec<Command>, Error> {
        self.reach("read commands").await?;
        self.memory.open_commands(lane, taken, limit).await
    }

    async fn command(&self, id: CommandId) -> Result<Option<Command>, Error> {
        self.reach("read a command").await?;
        self.memory.command(id).await
    }

    async fn statuses(&self, ids: &[TxId]) -> Result<Vec<(TxId, Status)>, Error> {
        self.reach("read statuses").await?;
        self.memory.statuses(ids).await
    }

    async fn disabled_lanes(&self) -> Result<Vec<LaneId>, Error> {
        self.reach("find disabled lanes").await?;
        self.memory.disabled_lanes().await
    }

    async fn lanes_with_work(&self) -> Result<Vec<LaneId>, Error> {
        self.reach("find lanes with work").await?;
        if self.world.has(Planted::LostWakeUp) && self.world.now() > 5_000 {
            return Ok(Vec::new());
        }
        self.memory.lanes_with_work().await
    }

    async fn tx(&self, id: TxId) -> Result<Option<TxRecord>, Error> {
        self.reach("read a transaction").await?;
        self.memory.tx(id).await
    }

    async fn tx_by_request(&self, signer: Account, request: &RequestId) -> Result<Option<TxRecord>, Error> {
        self.reach("read a transaction").await?;
        self.memory.tx_by_request(signer, request).await
    }

    async fn kept(&self, id: TxId) -> Result<Option<Kept>, Error> {
        self.reach("read a transaction").await?;
        self.memory.kept(id).await
    }

    async fn kept_by_request(&self, signer: Account, request: &RequestId) -> Result<Option<Kept>, Error> {
        self.reach("read a transaction").await?;
        self.memory.kept_by_request(signer, request).await
    }

    async fn tx_by_call(&self, lane: LaneId, call: &CallId) -> Result<Option<Transaction>, Error> {
        self.reach("read a transaction").await?;
        self.memory.tx_by_call(lane, call).await
    }

    async fn kept_by_call(&self, lane: LaneId, call: &CallId) -> Result<Option<Kept>, Error> {
        self.reach("read a transaction").await?;
        self.memory.kept_by_call(lane, call).await
    }

    async fn nonces_from(&self, lane: LaneId, from: &CallId, limit: u32) -> Result<Vec<CallerNonce>, Error> {
        self.reach("read nonces").await?;
        self.memory.nonces_from(lane, from, limit).await
    }

    async fn kept_by_first_hash(&self, chain: ChainId, hash: TxHash) -> Result<Option<Kept>, Error> {
        self.reach("read a transaction").await?;
        self.memory.kept_by_first_hash(chain, hash).await
    }

    async fn txs(&self, query: &TxQuery) -> Result<Vec<Transaction>, Error> {
        self.memory.txs(query).await
    }

    async fn journal(&self, tx: TxId) -> Result<Vec<JournalRow>, Error> {
        self.memory.journal(tx).await
    }

    async fn journal_after(&self, after: JournalSeq, limit: u32) -> Result<Vec<JournalRow>, Error> {
        let mut rows = self.memory.journal_after(after, limit).await?;
        rows.retain(|row| !self.database.is_hidden(row.seq));
        Ok(rows)
    }

    async fn lanes(&self) -> Result<Vec<LaneSummary>, Error> {
        self.memory.lanes().await
    }

    async fn lane(&self, lane: LaneId) -> Result<Option<LaneSummary>, Error> {
        self.memory.lane(lane).await
    }

    async fn chain(&self, chain: ChainId) -> Result<Option<ChainRecord>, Error> {
        self.reach("read a chain").await?;
        self.memory.chain(chain).await
    }

    async fn older(&self) -> Result<Option<Older>, Error> {
        self.reach("see whether it is an older copy").await?;
        self.memory.older().await
    }

    async fn writable(&self) -> Result<(), Error> {
        self.reach("write").await
    }
}
