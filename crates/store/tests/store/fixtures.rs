//! Transactions, commits and attempts to store, from small numbers.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256};
use landfall_core::attempt::{Attempt, SendHints};
use landfall_core::fees::Fees;
use landfall_core::journal::{Entry, NewEntry};
use landfall_core::ports::store::{
    Acceptance, Acquired, Admission, Command, CommandKind, LaneCommit, LaneRow, Leases as _, Store, TxUpdate,
    Write, WriteError, Written,
};
use landfall_core::request::{AtOnce, CallId, NewTransaction, Options, Payload, Request, fingerprint};
use landfall_core::transaction::{Reason, ReasonCode, Status, Transaction, TxState};
use landfall_core::{
    Account, ApiKeyId, CallerNonce, ChainId, CommandId, ContentVersion, Gas, LaneId, LaneVersion, Millis,
    Origin, Price, RequestId, SessionId, Slot, Token, TxHash, TxId, Wei,
};

pub(crate) const LEASE: Duration = Duration::from_secs(10);

pub(crate) fn account(n: u8) -> Account {
    Account(Address::repeat_byte(n))
}

pub(crate) fn lane(n: u8) -> LaneId {
    lane_on(1, n)
}

pub(crate) fn lane_on(chain: u64, n: u8) -> LaneId {
    LaneId { chain: ChainId(chain), signer: account(n) }
}

pub(crate) fn tx_id(n: u64) -> TxId {
    TxId::new(Millis(n), u128::from(n))
}

pub(crate) fn session(n: u64) -> SessionId {
    SessionId::new(Millis(n), u128::from(n))
}

pub(crate) fn command_id(n: u64) -> CommandId {
    CommandId::new(Millis(n), u128::from(n))
}

pub(crate) fn key(text: &str) -> RequestId {
    RequestId::parse(text).unwrap()
}

pub(crate) fn hash(n: u64) -> TxHash {
    TxHash(B256::from(U256::from(n)))
}

/// A request number `n` for a lane, without a key, that pays `n` wei.
/// Who asked: somebody with a key, or without one.
pub(crate) fn origin(n: u64) -> Arc<Origin> {
    let key = n.is_multiple_of(2).then(|| format!("{n:016x}").into());
    Arc::new(Origin { key, name: format!("caller {n}").into(), address: Some([192, 0, 2, 1].into()) })
}

pub(crate) fn request(lane: LaneId, n: u64) -> NewTransaction {
    let payload = Payload { to: Some(account(200)), value: Wei(U256::from(n)), ..Payload::default() };
    let options = Options { metadata: Some(format!("{{\"n\":{n}}}")), ..Options::default() };
    let fingerprint = fingerprint(&lane, &payload, &options).unwrap();
    let request = Request {
        request_id: None,
        payload,
        options,
        fingerprint,
        accepted_at: Millis(1_000 + n),
        retry_of: None,
        at_once: None,
        origin: Some(origin(n)),
    };
    NewTransaction { id: tx_id(n), lane, request }
}

/// The same, under a key.
pub(crate) fn keyed(lane: LaneId, n: u64, text: &str) -> NewTransaction {
    let mut new = request(lane, n);
    new.request.request_id = Some(key(text));
    new
}

/// A call: the nonce that its caller gave, and the API key that it came with.
pub(crate) fn call(api_key: Option<&str>, nonce: u64) -> CallId {
    CallId { api_key: api_key.map(|id| ApiKeyId(id.to_owned())), nonce: CallerNonce(nonce) }
}

/// Request number `n`, whose caller gave a nonce.
pub(crate) fn called(lane: LaneId, n: u64, call: CallId) -> NewTransaction {
    let mut new = request(lane, n);
    new.request.at_once = Some(AtOnce { call: Some(call) });
    new
}

/// The same request as another caller's retry would bring it: under a new id.
pub(crate) fn retried(new: &NewTransaction, id: u64) -> NewTransaction {
    NewTransaction { id: tx_id(id), ..new.clone() }
}

/// A commit that changes nothing yet.
pub(crate) fn turn(lane: LaneId, token: Token, version: u64) -> LaneCommit {
    LaneCommit {
        lane,
        token,
        version: LaneVersion(version),
        row: LaneRow::default(),
        txs: Vec::new(),
        attempts: Vec::new(),
        hints: Vec::new(),
        closed: Vec::new(),
        journal: Vec::new(),
        commands_done: Vec::new(),
    }
}

pub(crate) fn in_state(state: TxState, slot: Option<u64>) -> Status {
    Status { state, slot: slot.map(Slot), ..Status::accepted(Millis(2_000)) }
}

pub(crate) fn update(n: u64, state: TxState, slot: Option<u64>) -> TxUpdate {
    TxUpdate { id: tx_id(n), status: Box::new(in_state(state, slot)) }
}

/// Attempt `ordinal` of a slot, with the hash of number `slot * 100 + ordinal`.
pub(crate) fn attempt(slot: u64, ordinal: u32, tx: Option<u64>) -> Attempt {
    Attempt {
        slot: Slot(slot),
        ordinal,
        tx: tx.map(tx_id),
        version: ContentVersion::FIRST,
        no_op: tx.is_none(),
        hash: hash(slot * 100 + u64::from(ordinal)),
        raw: Bytes::from(vec![0x02, 0xff, ordinal.to_le_bytes()[0]]),
        gas: Gas(21_000),
        fees: Fees::Dynamic { max_fee: Price::gwei(30), tip: Price::gwei(1) },
        value: Wei(U256::from(5)),
        created_at: Millis(2_000),
        hints: SendHints::default(),
    }
}

/// A commit that binds a transaction to a slot with its first attempt.
pub(crate) fn bind(lane: LaneId, token: Token, version: u64, n: u64, slot: u64) -> LaneCommit {
    let first = attempt(slot, 0, Some(n));
    let entry = Entry::Signed {
        slot: Slot(slot),
        attempt: 0,
        version: first.version,
        no_op: false,
        hash: first.hash,
        fees: first.fees,
        gas: first.gas,
    };
    LaneCommit {
        row: LaneRow { cursor: Some(Slot(slot + 1)), ..LaneRow::default() },
        txs: vec![update(n, TxState::Signed, Some(slot))],
        journal: vec![NewEntry { tx: Some(tx_id(n)), at: Millis(2_000), entry, by: None }],
        attempts: vec![first],
        ..turn(lane, token, version)
    }
}

/// An entry about a transaction that ended without bytes.
pub(crate) fn failed_entry(n: u64) -> NewEntry {
    let reason = Reason { code: ReasonCode::WouldRevert, text: "it would revert".to_owned() };
    NewEntry { tx: Some(tx_id(n)), at: Millis(3_000), entry: Entry::Failed { reason }, by: Some(origin(n)) }
}

pub(crate) fn command(lane: LaneId, n: u64, kind: CommandKind) -> Command {
    Command { id: command_id(n), lane, kind, at: Millis(n), by: Some(origin(n)) }
}

/// Writes one thing.
pub(crate) async fn write_one(store: &dyn Store, write: Write) -> Result<Written, WriteError> {
    let mut answers = store.write(vec![write]).await;
    assert_eq!(answers.len(), 1);
    answers.pop().unwrap()
}

pub(crate) async fn admit(store: &dyn Store, new: NewTransaction) -> Admission {
    admission(write_one(store, Write::Admit(Box::new(new))).await)
}

pub(crate) fn admission(answer: Result<Written, WriteError>) -> Admission {
    match answer.unwrap() {
        Written::Admitted(admission) => *admission,
        other => panic!("not an admission: {other:?}"),
    }
}

/// Admits what must be new.
pub(crate) async fn admit_new(store: &dyn Store, new: NewTransaction) -> Transaction {
    match admit(store, new).await {
        Admission::New(tx) => tx,
        other => panic!("not new: {other:?}"),
    }
}

pub(crate) async fn commit(store: &dyn Store, commit: LaneCommit) -> Result<LaneVersion, WriteError> {
    match write_one(store, Write::Lane(Box::new(commit))).await? {
        Written::Lane(version) => Ok(version),
        other => panic!("not a lane's answer: {other:?}"),
    }
}

/// Opens session 1 and takes the lane with it.
pub(crate) async fn own(store: &dyn Store, lane: LaneId) -> Token {
    if !store.renew_session(session(1), LEASE).await.unwrap() {
        store.open_session(session(1), "node-1", LEASE).await.unwrap();
    }
    acquire(store, lane, 1).await
}

/// Renews a session again and again, as a process does that lives, until this is aborted.
pub(crate) fn keep_alive(store: landfall_store::Postgres, by: u64) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        while store.renew_session(session(by), LEASE).await.unwrap() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
}

pub(crate) async fn acquire(store: &dyn Store, lane: LaneId, by: u64) -> Token {
    match store.acquire(lane, session(by)).await.unwrap() {
        Acquired::Yes { token } => token,
        held @ Acquired::HeldBy { .. } => panic!("not acquired: {held:?}"),
    }
}

/// A person accepts the store, for every lane that it has.
pub(crate) async fn accept_all(store: &dyn Store) -> bool {
    let lanes = store.lanes().await.unwrap();
    let word = |(n, lane): (u64, LaneId)| command(lane, 5_000 + n, CommandKind::AcceptStore { seen: None });
    let lanes = lanes.into_iter().map(|summary| summary.lane);
    store.accept((0..).zip(lanes).map(word).collect()).await.unwrap() == Acceptance::Yes
}

/// The row of a lane of an older copy, which has seen the chain's count and what it did in a slot.
pub(crate) fn with_older_count() -> LaneRow {
    let forgotten = std::collections::BTreeMap::from([(Slot(3), u64::MAX)]);
    LaneRow { cursor: Some(Slot(4)), older_count: Some(Slot(6)), forgotten, ..LaneRow::default() }
}

pub(crate) async fn store_older_count(store: &dyn Store) {
    let token = own(store, lane(1)).await;
    let mut change = turn(lane(1), token, 0);
    change.row = with_older_count();
    commit(store, change).await.unwrap();
    store.close_session(session(1)).await.unwrap();
}

pub(crate) fn ids(txs: &[Transaction]) -> Vec<TxId> {
    txs.iter().map(|tx| tx.id).collect()
}

pub(crate) fn is_fenced<T>(answer: &Result<T, WriteError>) -> bool {
    matches!(answer, Err(WriteError::Fenced { .. }))
}

pub(crate) fn is_failed<T>(answer: &Result<T, WriteError>) -> bool {
    matches!(answer, Err(WriteError::Failed(_)))
}
