//! The store port as a node sees it: one shared memory store, behind a network that can be cut and a disk that can
//! fail. Every commit that is done is checked against the lease as it stands at that moment.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::journal::JournalRow;
use landfall_core::ports::store::{
    Acquired, Admission, ChainRecord, Command, Error, Holders, Kept, LaneRecord, LaneSummary, Leases, Log,
    Reads, TxQuery, TxRecord, Write, WriteError, Written,
};
use landfall_core::request::NewTransaction;
use landfall_core::transaction::{Status, Transaction};
use landfall_core::{Account, ChainId, CommandId, JournalSeq, LaneId, RequestId, SessionId, Token, TxId};
use landfall_store::Memory;

use crate::planted::Planted;
use crate::scenario::Fault;
use crate::world::{Rule, World};

/// How long a cut-off store call takes to fail.
const TIME_LIMIT: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(crate) struct SimStore {
    pub(crate) world: Arc<World>,
    pub(crate) node: usize,
    pub(crate) memory: Memory,
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

    /// Really writes, and checks what was written against the leases as they are at that moment.
    async fn commit(&self, group: Vec<Write>) -> Vec<Result<Written, WriteError>> {
        let carried = group.iter().map(token_of).collect();
        self.commit_carrying(group, carried).await
    }

    async fn commit_carrying(
        &self,
        group: Vec<Write>,
        carried: Vec<Option<(LaneId, Token)>>,
    ) -> Vec<Result<Written, WriteError>> {
        let mut current = Vec::new();
        for lane in carried.iter().flatten().map(|(lane, _)| *lane) {
            if let Ok(record) = self.memory.load_lane(lane).await {
                current.push((lane, record.token));
            }
        }
        let hashes: Vec<Vec<_>> = group.iter().map(hashes_of).collect();
        let results = self.memory.write(group).await;
        for ((result, hashes), carried) in results.iter().zip(hashes).zip(carried) {
            let Some((lane, token)) = carried else { continue };
            match result {
                Ok(_) => {
                    self.world.trace(format_args!("node {} commits {lane} under {token}", self.node));
                    self.world.lock().stored.extend(hashes);
                    if current.iter().any(|(other, now)| *other == lane && *now != token) {
                        self.world
                            .violated(Rule::Fenced, format!("node {} wrote {lane} under {token}", self.node));
                    }
                }
                Err(error) => self.world.trace(format_args!("node {} commits {lane}: {error}", self.node)),
            }
        }
        results
    }

    /// The planted ways of getting around the fence.
    async fn commit_unfenced(&self, mut group: Vec<Write>) -> Vec<Result<Written, WriteError>> {
        let carried = group.iter().map(token_of).collect();
        for write in &mut group {
            let Write::Lane(commit) = write else { continue };
            let Ok(seen) = self.memory.load_lane(commit.lane).await else { continue };
            if self.world.has(Planted::FenceBeforeCommit) {
                if seen.token != commit.token {
                    continue;
                }
                tokio::time::sleep(Duration::from_millis(self.world.range(0, 400))).await;
            }
            if let Ok(now) = self.memory.load_lane(commit.lane).await {
                commit.token = now.token;
                commit.version = now.version;
            }
        }
        self.commit_carrying(group, carried).await
    }

    /// The planted way of removing history: a key that stands for what was removed is as good as new.
    async fn forget_key(&self, write: &mut Write) {
        let Write::Admit(new) = write else { return };
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

fn token_of(write: &Write) -> Option<(LaneId, Token)> {
    match write {
        Write::Lane(commit) => Some((commit.lane, commit.token)),
        Write::Admit(_) | Write::Command(_) | Write::Chain(_) | Write::Forget(_) => None,
    }
}

fn hashes_of(write: &Write) -> Vec<landfall_core::TxHash> {
    match write {
        Write::Lane(commit) => commit.attempts.iter().map(|attempt| attempt.hash).collect(),
        Write::Admit(_) | Write::Command(_) | Write::Chain(_) | Write::Forget(_) => Vec::new(),
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
    async fn write(&self, mut group: Vec<Write>) -> Vec<Result<Written, WriteError>> {
        let count = group.len();
        if self.reach("write").await.is_err() {
            return all_failed(count);
        }
        if self.world.strikes(Fault::FailedCommit) {
            return all_failed(count);
        }
        if self.world.strikes(Fault::LostCommit) {
            return all_unknown(count);
        }
        if self.world.has(Planted::IdempotencyOutside) {
            let mut answers = Vec::new();
            for write in &mut group {
                let known = match write {
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
        if self.world.has(Planted::FenceSkipped) || self.world.has(Planted::FenceBeforeCommit) {
            return self.commit_unfenced(group).await;
        }
        if self.world.has(Planted::StoredAfterSent) && group.iter().any(|write| !hashes_of(write).is_empty())
        {
            return self.acknowledge_first(group).await;
        }
        let results = self.commit(group).await;
        if self.world.strikes(Fault::LostCommitAnswer) {
            return all_unknown(count);
        }
        self.world.pass(self.node).await;
        results
    }
}

impl SimStore {
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
        let opened = self.memory.open_session(session, node, lasting).await;
        self.world.session_lasts(session, lasting, opened.is_ok());
        opened
    }

    async fn renew_session(&self, session: SessionId, lasting: Duration) -> Result<bool, Error> {
        self.reach("renew a session").await?;
        let renewed = self.memory.renew_session(session, lasting).await;
        self.world.session_lasts(session, lasting, matches!(renewed, Ok(true)));
        renewed
    }

    async fn close_session(&self, session: SessionId) -> Result<(), Error> {
        self.reach("close a session").await?;
        self.world.session_lasts(session, Duration::ZERO, true);
        self.memory.close_session(session).await
    }

    async fn acquire(&self, lane: LaneId, session: SessionId) -> Result<Acquired, Error> {
        self.reach("acquire a lane").await?;
        let owner = self.memory.lane(lane).await?.and_then(|summary| summary.owner).map(|(_, owner)| owner);
        let owner = owner.filter(|owner| *owner != session);
        if let Some(owner) = owner
            && self.world.has(Planted::LeaseByLocalClock)
        {
            // As if this node's own clock were asked whether the other's session has ended.
            let local = self.world.now().saturating_add_signed(self.world.gate(self.node).skew_ms);
            if self.world.session_ends(owner).is_none_or(|ends| ends <= local) {
                self.memory.close_session(owner).await?;
            }
        }
        let acquired = self.memory.acquire(lane, session).await;
        self.world.trace(format_args!("node {} asks for {lane}: {acquired:?}", self.node));
        if let (Ok(Acquired::Yes { .. }), Some(owner)) = (&acquired, owner)
            && self.world.session_ends(owner).is_some_and(|ends| ends > self.world.now())
        {
            self.world.violated(Rule::LiveOwnerKeeps, format!("node {} took {lane} from {owner}", self.node));
        }
        acquired
    }

    async fn release(&self, lane: LaneId, session: SessionId, token: Token) -> Result<(), Error> {
        self.reach("release a lane").await?;
        self.memory.release(lane, session, token).await
    }

    async fn holders(&self) -> Result<Holders, Error> {
        self.reach("see who holds what").await?;
        let mut holders = self.memory.holders().await?;
        if self.world.has(Planted::LeaseByLocalClock) {
            let local = self.world.now().saturating_add_signed(self.world.gate(self.node).skew_ms);
            holders.live.retain(|session| self.world.session_ends(*session).is_some_and(|ends| ends > local));
            holders.held.retain(|_, session| holders.live.contains(session));
        }
        Ok(holders)
    }
}

#[async_trait]
impl Reads for SimStore {
    async fn load_lane(&self, lane: LaneId) -> Result<LaneRecord, Error> {
        self.reach("load a lane").await?;
        self.memory.load_lane(lane).await
    }

    async fn waiting(&self, lane: LaneId, limit: u32) -> Result<Vec<Transaction>, Error> {
        self.reach("read waiting transactions").await?;
        let read = self.memory.waiting(lane, limit).await;
        self.world.pass(self.node).await;
        read
    }

    async fn commands(&self, lane: LaneId, limit: u32) -> Result<Vec<Command>, Error> {
        self.reach("read commands").await?;
        self.memory.commands(lane, limit).await
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

    async fn txs(&self, query: &TxQuery) -> Result<Vec<Transaction>, Error> {
        self.memory.txs(query).await
    }

    async fn journal(&self, tx: TxId) -> Result<Vec<JournalRow>, Error> {
        self.memory.journal(tx).await
    }

    async fn journal_after(&self, after: JournalSeq, limit: u32) -> Result<Vec<JournalRow>, Error> {
        self.memory.journal_after(after, limit).await
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

    async fn writable(&self) -> Result<(), Error> {
        self.reach("write").await
    }
}
