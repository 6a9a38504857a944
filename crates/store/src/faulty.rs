//! A store that fails on purpose, around any other: for the conformance suite and the simulator.
//!
//! It makes the two failures of a commit that look alike to a caller: one that was not done, and one that was done
//! but whose answer never came.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::journal::JournalRow;
use landfall_core::ports::store::{
    Acceptance, Acquired, Broken, ChainRecord, Command, Error, Holders, Kept, LaneRecord, LaneSummary,
    Leases, Log, Older, Pulse, Reads, Store, TxQuery, TxRecord, Write, WriteError, Written,
};
use landfall_core::request::CallId;
use landfall_core::transaction::{Status, Transaction};
use landfall_core::{
    Account, CallerNonce, ChainId, CommandId, JournalSeq, LaneId, RequestId, SessionId, Token, TxHash, TxId,
};

/// What goes wrong with one group of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The group is committed, and every answer is [`WriteError::Unknown`].
    LoseAnswer,
    /// The group is not committed, and every answer is [`WriteError::Failed`].
    FailBefore,
    /// The group is not committed, and every answer is [`WriteError::Unknown`].
    LoseRequest,
}

type Decide = Box<dyn FnMut(&[Write]) -> Option<Fault> + Send>;

/// A store whose commits can be made to fail.
pub struct Faulty {
    store: Arc<dyn Store>,
    next: Mutex<VecDeque<Fault>>,
    decide: Mutex<Decide>,
}

impl Faulty {
    /// Fails only as told by [`Faulty::fail_next`].
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::deciding(store, |_| None)
    }

    /// Asks for every group whether it is to fail; a simulator decides by its seed.
    pub fn deciding(
        store: Arc<dyn Store>,
        decide: impl FnMut(&[Write]) -> Option<Fault> + Send + 'static,
    ) -> Self {
        Self { store, next: Mutex::new(VecDeque::new()), decide: Mutex::new(Box::new(decide)) }
    }

    /// Makes the next group that has no fault yet fail like this.
    pub fn fail_next(&self, fault: Fault) {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).push_back(fault);
    }

    fn fault(&self, group: &[Write]) -> Option<Fault> {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        next.or_else(|| {
            let mut decide = self.decide.lock().unwrap_or_else(PoisonError::into_inner);
            (*decide)(group)
        })
    }
}

#[async_trait]
impl Log for Faulty {
    async fn write(&self, group: Vec<Write>) -> Vec<Result<Written, WriteError>> {
        let count = group.len();
        let unknown = || Err(WriteError::Unknown("the answer was dropped on purpose".to_owned()));
        let failed = || {
            let text = "made to fail on purpose".to_owned();
            Err(WriteError::Failed(Error::Failed { doing: "write", text }))
        };
        match self.fault(&group) {
            None => self.store.write(group).await,
            Some(Fault::LoseAnswer) => {
                let answers = self.store.write(group).await;
                answers.into_iter().map(|_| unknown()).collect()
            }
            Some(Fault::FailBefore) => (0..count).map(|_| failed()).collect(),
            Some(Fault::LoseRequest) => (0..count).map(|_| unknown()).collect(),
        }
    }

    async fn accept(&self, commands: Vec<Command>) -> Result<Acceptance, WriteError> {
        self.store.accept(commands).await
    }

    fn writes_at_once(&self) -> bool {
        self.store.writes_at_once()
    }

    fn is_alone(&self) -> bool {
        self.store.is_alone()
    }
}

#[async_trait]
impl Leases for Faulty {
    async fn open_session(&self, session: SessionId, node: &str, lasting: Duration) -> Result<(), Error> {
        self.store.open_session(session, node, lasting).await
    }

    async fn renew_session(&self, session: SessionId, lasting: Duration) -> Result<bool, Error> {
        self.store.renew_session(session, lasting).await
    }

    async fn close_session(&self, session: SessionId) -> Result<(), Error> {
        self.store.close_session(session).await
    }

    async fn end_session(&self, session: SessionId, pulse: Pulse) -> Result<bool, Error> {
        self.store.end_session(session, pulse).await
    }

    async fn break_lease(&self, lane: LaneId, session: SessionId) -> Result<Broken, Error> {
        self.store.break_lease(lane, session).await
    }

    async fn acquire(&self, lane: LaneId, session: SessionId) -> Result<Acquired, Error> {
        self.store.acquire(lane, session).await
    }

    async fn release(&self, lane: LaneId, session: SessionId, token: Token) -> Result<(), Error> {
        self.store.release(lane, session, token).await
    }

    async fn advertise(&self, session: SessionId, address: &str) -> Result<(), Error> {
        self.store.advertise(session, address).await
    }

    async fn address(&self, session: SessionId) -> Result<Option<String>, Error> {
        self.store.address(session).await
    }

    async fn holders(&self) -> Result<Holders, Error> {
        self.store.holders().await
    }

    fn announce(&self, lane: LaneId) {
        self.store.announce(lane);
    }

    async fn announced(&self) -> LaneId {
        self.store.announced().await
    }
}

#[async_trait]
impl Reads for Faulty {
    async fn load_lane(&self, lane: LaneId) -> Result<LaneRecord, Error> {
        self.store.load_lane(lane).await
    }

    async fn waiting(&self, lane: LaneId, limit: u32) -> Result<Vec<Transaction>, Error> {
        self.store.waiting(lane, limit).await
    }

    async fn waiting_bytes(&self, lane: LaneId) -> Result<u64, Error> {
        self.store.waiting_bytes(lane).await
    }

    async fn open_commands(
        &self,
        lane: LaneId,
        taken: &BTreeSet<CommandId>,
        limit: u32,
    ) -> Result<Vec<Command>, Error> {
        self.store.open_commands(lane, taken, limit).await
    }

    async fn command(&self, id: CommandId) -> Result<Option<Command>, Error> {
        self.store.command(id).await
    }

    async fn statuses(&self, ids: &[TxId]) -> Result<Vec<(TxId, Status)>, Error> {
        self.store.statuses(ids).await
    }

    async fn disabled_lanes(&self) -> Result<Vec<LaneId>, Error> {
        self.store.disabled_lanes().await
    }

    async fn lanes_with_work(&self) -> Result<Vec<LaneId>, Error> {
        self.store.lanes_with_work().await
    }

    async fn tx(&self, id: TxId) -> Result<Option<TxRecord>, Error> {
        self.store.tx(id).await
    }

    async fn tx_by_request(&self, signer: Account, request: &RequestId) -> Result<Option<TxRecord>, Error> {
        self.store.tx_by_request(signer, request).await
    }

    async fn kept(&self, id: TxId) -> Result<Option<Kept>, Error> {
        self.store.kept(id).await
    }

    async fn kept_by_request(&self, signer: Account, request: &RequestId) -> Result<Option<Kept>, Error> {
        self.store.kept_by_request(signer, request).await
    }

    async fn tx_by_call(&self, lane: LaneId, call: &CallId) -> Result<Option<Transaction>, Error> {
        self.store.tx_by_call(lane, call).await
    }

    async fn kept_by_call(&self, lane: LaneId, call: &CallId) -> Result<Option<Kept>, Error> {
        self.store.kept_by_call(lane, call).await
    }

    async fn nonces_from(&self, lane: LaneId, from: &CallId, limit: u32) -> Result<Vec<CallerNonce>, Error> {
        self.store.nonces_from(lane, from, limit).await
    }

    async fn kept_by_first_hash(&self, chain: ChainId, hash: TxHash) -> Result<Option<Kept>, Error> {
        self.store.kept_by_first_hash(chain, hash).await
    }

    async fn txs(&self, query: &TxQuery) -> Result<Vec<Transaction>, Error> {
        self.store.txs(query).await
    }

    async fn journal(&self, tx: TxId) -> Result<Vec<JournalRow>, Error> {
        self.store.journal(tx).await
    }

    async fn journal_after(&self, after: JournalSeq, limit: u32) -> Result<Vec<JournalRow>, Error> {
        self.store.journal_after(after, limit).await
    }

    async fn lanes(&self) -> Result<Vec<LaneSummary>, Error> {
        self.store.lanes().await
    }

    async fn lane(&self, lane: LaneId) -> Result<Option<LaneSummary>, Error> {
        self.store.lane(lane).await
    }

    async fn chain(&self, chain: ChainId) -> Result<Option<ChainRecord>, Error> {
        self.store.chain(chain).await
    }

    async fn older(&self) -> Result<Option<Older>, Error> {
        self.store.older().await
    }

    async fn writable(&self) -> Result<(), Error> {
        self.store.writable().await
    }
}
