//! The store port: three small traits. [`Log`] writes, [`Leases`] says who may, [`Reads`] looks things up.
//!
//! What every adapter must hold to, and what the conformance suite checks:
//!
//! - A group of writes is one database transaction where it can be; a write that is refused or poisoned fails alone.
//! - A lane's write raises the lane's version under the given token, or is refused ([`WriteError::Fenced`]).
//! - There is one transaction per (signer, requestId) in a namespace, for ever; a replay writes nothing.
//! - There is one transaction per call, which is a lane, an API key and the caller's nonce, for as long as the transaction or
//!   what stayed of it is known. One that ended without stored bytes frees its nonce, in the commit that ends it. A call that has a
//!   key and is not known is a replay of one without a key, if that asked for the same ([`CallId::before_keys`]).
//! - A transaction that has ended stays so: neither its state nor its slot changes again, and a write that would is
//!   refused whole. Its receipt may, when the chain takes it back and lands it again.
//! - Removing history ([`Write::Forget`]) takes finished transactions only, and leaves a [`Kept`] of each: its key stays
//!   taken. Numbers that were given out (order, journal) never come back.
//! - There is at most one live transaction per slot of a lane, and one attempt per slot and ordinal, for ever.
//! - What was answered as committed is on disk.
//! - Journal numbers become visible in order: a reader never passes one whose predecessor may still commit.
//! - A store that can tell that it went back says so ([`Older`]) until a person accepts it ([`Log::accept`]), also when it is closed
//!   and opened in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::B256;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use super::leases::{Acquired, Broken, Holders, Leases, Pulse};
pub use super::older::Older;
use crate::attempt::{Attempt, SendHints};
use crate::journal::{JournalRow, NewEntry};
use crate::request::{AskedFees, CallId, NewTransaction, Payload, Speed};
use crate::transaction::{Reason, Status, Terms, Transaction, TxState, Whose};
use crate::view::BlockRef;
use crate::{
    Account, CallerNonce, ChainId, CommandId, ContentVersion, Fingerprint, JournalSeq, LaneId, LaneVersion,
    Millis, Origin, QueueOrder, RequestId, SessionId, Slot, Token, TxHash, TxId, Wei,
};

/// The store could not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// It cannot be used at all; the sentence says why and what to do.
    #[error("{0}")]
    Unusable(String),
    /// It failed while doing something; trying again may work.
    #[error("the store failed to {doing}: {text}")]
    Failed { doing: &'static str, text: String },
    /// A row says something that cannot be true.
    #[error("the store holds a row that cannot be read ({what}): {text}")]
    Corrupt { what: &'static str, text: String },
}

/// The stored part of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LaneRow {
    /// The next slot that was never handed out; absent until the chain's count was first seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Slot>,
    /// The last count the chain showed when every command had been read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_count: Option<Slot>,
    /// The highest slot whose attempts are history. It and all below it are used up for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Slot>,
    /// Slots below the cursor that were given back without stored bytes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub returned: BTreeSet<Slot>,
    /// An operator stopped it.
    pub paused: bool,
    /// No new transactions are taken in; those that are here are finished.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// A resume that has ended the pause and is not done: it must not end a later one, also when it is read again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resuming: Option<CommandId>,
    /// The last resets, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resets: Vec<ResetRecord>,
    /// How often a slot below the cursor was filled although it may have ended before. Attempts of such a slot are
    /// numbered from here, so that they never meet those of its first life, which are history.
    #[serde(skip_serializing_if = "is_zero")]
    pub refilled: u32,
    /// The fees of what became final on the last day on which something did.
    #[serde(skip_serializing_if = "Spend::is_nothing")]
    pub spend: Spend,
    /// Slots below this one were used or given out before a person accepted the store, which is an older copy: what takes them may be
    /// ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_below: Option<Slot>,
    /// How far above these slots bytes may be out that the store has forgotten, as was known when it was accepted.
    #[serde(skip_serializing_if = "is_nothing")]
    pub accepted_ahead: u64,
    /// The widest window in which slots were given out: so far ahead of the chain bytes may be out.
    #[serde(skip_serializing_if = "is_nothing")]
    pub widest: u64,
    /// The highest slot that was left to a stranger. If the chain takes it back a no-op fills it, never a transaction: a copy of
    /// the store from before would take it for the stranger's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<Slot>,
    /// The highest count that the chain showed since the store was taken for an older copy, until the lane has gone on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older_count: Option<Slot>,
    /// The first slot whose use was looked up when a store was accepted that had never used the lane. Of those below nobody knows
    /// what they did, until a person resumes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared_from: Option<Slot>,
    /// What was done in slots that this store has forgotten and that no waiting transaction was found for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub forgotten: BTreeMap<Slot, u64>,
}

/// What a lane has spent on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spend {
    /// Days since 1970, in UTC.
    pub day: u64,
    pub fees: Wei,
}

impl Spend {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_nothing(number: &u64) -> bool {
    *number == 0
}

/// A reset that changed something (E20).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResetRecord {
    pub at: Millis,
    /// The cursor before and after.
    pub from: Slot,
    pub to: Slot,
    /// Returned and reserved slots that were given up.
    pub given_up: u64,
}

/// A change to one transaction's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxUpdate {
    pub id: TxId,
    pub status: Box<Status>,
}

/// A change to what is known of an attempt's sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HintUpdate {
    pub slot: Slot,
    pub ordinal: u32,
    pub hints: SendHints,
}

/// Everything one turn of a lane's loop changes: committed whole, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneCommit {
    pub lane: LaneId,
    pub token: Token,
    /// The version the lane was at; the commit makes it one more.
    pub version: LaneVersion,
    pub row: LaneRow,
    pub txs: Vec<TxUpdate>,
    pub attempts: Vec<Attempt>,
    pub hints: Vec<HintUpdate>,
    /// Slots that are final: their attempts are history.
    pub closed: Vec<Slot>,
    pub journal: Vec<NewEntry>,
    pub commands_done: Vec<CommandId>,
}

/// What an operator or a caller wants done to something that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CommandKind {
    Cancel {
        tx: TxId,
    },
    /// Cancel it if it has no slot yet; one that has goes on.
    Withdraw {
        tx: TxId,
    },
    /// A new content for the transaction.
    Replace {
        tx: TxId,
        payload: Box<Payload>,
        terms: Terms,
    },
    /// A dearer attempt now.
    SpeedUp {
        tx: TxId,
        fees: AskedFees,
        speed: Option<Speed>,
    },
    /// A person says yes to this content.
    Approve {
        tx: TxId,
        #[serde(default)]
        version: Option<ContentVersion>,
        /// The forgotten slot that the person was shown, if it was held as one that may have landed in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_for: Option<Slot>,
    },
    Reject {
        tx: TxId,
        #[serde(default)]
        version: Option<ContentVersion>,
        /// The forgotten slot that the person was shown, if it was held as one that may have landed in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_for: Option<Slot>,
    },
    /// A person says whose the transaction was that took its slot and does the same.
    Settle {
        tx: TxId,
        whose: Whose,
        /// The one that was looked at.
        hash: TxHash,
    },
    Pause,
    Resume,
    /// A person accepted a store that is an older copy of itself. Stored by [`Log::accept`] alone. A pause stays.
    AcceptStore {
        /// The chain's count when the pools were seen to hold nothing that the store does not know: by less nothing is compared.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seen: Option<Slot>,
    },
    /// Take no new transactions in.
    Disable,
    /// Cancel everything that was admitted up to this one and has not ended.
    CancelAll {
        up_to: QueueOrder,
    },
    /// Use these slots up by no-ops, both ends included.
    Fill {
        from: Slot,
        to: Slot,
    },
    /// Re-read the chain, and give up slots without stored bytes.
    Reset,
}

impl CommandKind {
    /// The transaction that it is about.
    #[must_use]
    pub fn tx(&self) -> Option<TxId> {
        match self {
            Self::Cancel { tx }
            | Self::Withdraw { tx }
            | Self::Replace { tx, .. }
            | Self::SpeedUp { tx, .. }
            | Self::Approve { tx, .. }
            | Self::Reject { tx, .. }
            | Self::Settle { tx, .. } => Some(*tx),
            Self::Pause
            | Self::Resume
            | Self::AcceptStore { .. }
            | Self::Disable
            | Self::CancelAll { .. }
            | Self::Fill { .. }
            | Self::Reset => None,
        }
    }
}

/// A command: a row that any node inserts and the lane's owner applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub id: CommandId,
    pub lane: LaneId,
    pub kind: CommandKind,
    pub at: Millis,
    /// Who asked for it. None in commands that were stored before it was.
    pub by: Option<Arc<Origin>>,
}

/// What is remembered of a chain, so that another one is not taken for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainRecord {
    pub chain: ChainId,
    pub genesis: B256,
    /// The last block whose receipts were looked at.
    pub scanned: BlockRef,
    /// The last block seen to be final.
    pub settled: Option<BlockRef>,
}

/// What stays, for ever, of a transaction whose history was removed: enough to answer a late retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    pub id: TxId,
    pub lane: LaneId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    pub fingerprint: Fingerprint,
    pub state: TxState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<TxHash>,
    /// The first hash of all, if it was another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_hash: Option<TxHash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    pub accepted_at: Millis,
    pub ended_at: Millis,
    /// The call that it answers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<KeptCall>,
    /// Who asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::origin::shared")]
    pub origin: Option<Arc<Origin>>,
}

/// What stays of a call: who made it, and what it was to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptCall {
    #[serde(flatten)]
    pub id: CallId,
    pub effect: Fingerprint,
}

impl Kept {
    /// How it ended, as far as that is still known.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            state: self.state,
            slot: self.slot,
            hash: self.hash,
            first_hash: self.first_hash,
            reason: self.reason.clone(),
            ..Status::accepted(self.ended_at)
        }
    }

    /// What is to stay of a transaction that has ended.
    #[must_use]
    pub fn of(tx: &Transaction) -> Self {
        Self {
            id: tx.id,
            lane: tx.lane,
            request_id: tx.request.request_id.clone(),
            fingerprint: tx.request.fingerprint,
            state: tx.status.state,
            slot: tx.status.slot,
            hash: tx.status.hash,
            first_hash: tx.status.first_hash.filter(|first| tx.status.hash != Some(*first)),
            reason: tx.status.reason.clone(),
            accepted_at: tx.request.accepted_at,
            ended_at: tx.status.updated_at,
            call: tx.call_id().map(|id| KeptCall { id: id.clone(), effect: tx.request.payload.effect() }),
            origin: tx.request.origin.clone(),
        }
    }
}

/// One small step of removing history: the oldest transactions after a place in the order are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forget {
    /// Those that ended before this time go.
    pub before: Millis,
    pub after: QueueOrder,
    /// How many are looked at.
    pub limit: u32,
}

/// What a step has removed, and where the next one goes on; none when it has seen all that are old enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forgotten {
    pub removed: u32,
    pub next: Option<QueueOrder>,
}

/// One write. Those of a group are independent of each other.
#[derive(Debug, Clone)]
pub enum Write {
    Admit(Box<NewTransaction>),
    Lane(Box<LaneCommit>),
    Command(Box<Command>),
    Chain(Box<ChainRecord>),
    Forget(Forget),
}

/// What became of an admission.
#[derive(Debug, Clone)]
pub enum Admission {
    New(Transaction),
    /// The key or the nonce is known and asks for the same: this is what exists.
    Replay(Transaction),
    /// The key or the nonce is known and asks for the same, and the history of what it stands for was removed: this is what stayed.
    Removed(Kept),
    /// The key is known and asked for something else.
    Conflict(TxId),
    /// The caller gave this nonce before, for something else or under another key.
    NonceReused(TxId),
}

impl Admission {
    /// What is said to a call with a nonce that its caller gave before: this exists.
    #[must_use]
    pub fn under_nonce(known: Transaction, key: Option<&RequestId>, payload: &Payload) -> Self {
        let same_call = are_one(known.request.request_id.as_ref(), key);
        if same_call && known.request.payload.does_the_same(payload) {
            Self::Replay(known)
        } else {
            Self::NonceReused(known.id)
        }
    }

    /// The same where this stayed.
    #[must_use]
    pub fn under_kept_nonce(kept: Kept, key: Option<&RequestId>, payload: &Payload) -> Self {
        let same_call = are_one(kept.request_id.as_ref(), key);
        let same_effect = kept.call.as_ref().is_some_and(|call| call.effect == payload.effect());
        if same_call && same_effect { Self::Removed(kept) } else { Self::NonceReused(kept.id) }
    }

    /// This, if it is what was asked for: of a call from before keys nothing else is told ([`CallId::before_keys`]).
    #[must_use]
    pub fn if_the_same(self) -> Option<Self> {
        matches!(self, Self::Replay(_) | Self::Removed(_)).then_some(self)
    }
}

/// Two keys say that these are two requests. Where only one has a key, its caller may have added it or left it out.
fn are_one(known: Option<&RequestId>, asked: Option<&RequestId>) -> bool {
    known.zip(asked).is_none_or(|(known, asked)| known == asked)
}

/// A write that is on disk.
#[derive(Debug, Clone)]
pub enum Written {
    Admitted(Box<Admission>),
    Lane(LaneVersion),
    Command,
    Chain,
    Forgotten(Forgotten),
}

/// A write that is not, or may not be, on disk.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// Somebody else owns the lane, or it has moved on: the writer must forget what it knows of the lane.
    #[error("the write was refused: lane {lane} is at another token or version")]
    Fenced { lane: LaneId },
    /// The answer was lost: it may be on disk.
    #[error("the answer to a commit was lost: {0}")]
    Unknown(String),
    /// It is not on disk.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// Whether a store that is an older copy was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acceptance {
    Yes,
    /// It is not an older copy, or was accepted before.
    NotOlder,
    /// It has this lane, and no command for it was given.
    Untold(LaneId),
}

/// Writes.
#[async_trait]
pub trait Log: Send + Sync {
    /// Commits a group; the answers are in its order.
    async fn write(&self, group: Vec<Write>) -> Vec<Result<Written, WriteError>>;

    /// A person takes the store as it is, although it is an older copy: it is older no more, and the commands are stored, both or
    /// neither. There is one for every lane that the store has at that moment, or nothing is done: a lane that was loaded before goes on
    /// by its command alone.
    async fn accept(&self, commands: Vec<Command>) -> Result<Acceptance, WriteError>;

    /// Groups that are written at once go through beside each other. Where they do not, one larger group is cheaper.
    fn writes_at_once(&self) -> bool {
        false
    }

    /// When this process last admitted something, no other one could have stored anything. Then whoever has seen everything that this
    /// process stored has seen everything.
    fn is_alone(&self) -> bool {
        false
    }
}

/// A lane as its owner loads it.
#[derive(Debug, Clone)]
pub struct LaneRecord {
    pub lane: LaneId,
    pub token: Token,
    pub version: LaneVersion,
    pub row: LaneRow,
    /// Transactions bound to a slot and not final.
    pub bound: Vec<Transaction>,
    /// Transactions that have ended and whose attempts are not closed yet, by slot and order.
    pub ended: Vec<Transaction>,
    /// Attempts of slots that are not closed, by slot and ordinal.
    pub attempts: Vec<Attempt>,
    /// The highest slot that has attempts, also if they are history.
    pub highest_signed: Option<Slot>,
    /// The store is an older copy of itself.
    pub older: Option<Older>,
}

/// A lane as shown to people.
#[derive(Debug, Clone)]
pub struct LaneSummary {
    pub lane: LaneId,
    pub token: Token,
    pub version: LaneVersion,
    pub owner: Option<(String, SessionId)>,
    /// Until when its owner counts on it, by the store's clock; none where a lock stands for leases.
    pub owned_until: Option<Millis>,
    pub row: LaneRow,
    pub waiting: u64,
    pub bound: u64,
}

/// A transaction with everything that was signed for it.
#[derive(Debug, Clone)]
pub struct TxRecord {
    pub tx: Transaction,
    pub attempts: Vec<Attempt>,
}

impl TxRecord {
    /// The hash by which it ended although nothing that was signed for it has that: a person said that it was carried out.
    #[must_use]
    pub fn carried_out_by(&self) -> Option<TxHash> {
        let won = self.tx.status.won.as_ref().filter(|_| self.tx.status.state.is_terminal())?;
        self.attempts.iter().all(|attempt| attempt.hash != won.hash).then_some(won.hash)
    }
}

/// Which transactions to list; newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TxQuery {
    pub state: Option<TxState>,
    pub signer: Option<Account>,
    pub chain: Option<ChainId>,
    pub hash: Option<TxHash>,
    /// Only those older than this one.
    pub before: Option<QueueOrder>,
    pub limit: u32,
}

/// Looks things up.
#[async_trait]
pub trait Reads: Send + Sync {
    /// Everything a lane's owner needs to go on. An unknown lane is an empty one with token 0.
    async fn load_lane(&self, lane: LaneId) -> Result<LaneRecord, Error>;
    /// The oldest waiting transactions of a lane, found by state.
    async fn waiting(&self, lane: LaneId, limit: u32) -> Result<Vec<Transaction>, Error>;
    /// The bytes of the requests that wait in a lane, as they are stored. It looks at every one of them.
    async fn waiting_bytes(&self, lane: LaneId) -> Result<u64, Error>;
    /// Commands of a lane that were not applied yet, oldest first, without those that were taken: commands that wait must not hide
    /// those behind them.
    async fn open_commands(
        &self,
        lane: LaneId,
        taken: &BTreeSet<CommandId>,
        limit: u32,
    ) -> Result<Vec<Command>, Error>;
    /// The same for one who has taken none.
    async fn commands(&self, lane: LaneId, limit: u32) -> Result<Vec<Command>, Error> {
        self.open_commands(lane, &BTreeSet::new(), limit).await
    }
    /// Lanes with unfinished transactions or commands.
    async fn lanes_with_work(&self) -> Result<Vec<LaneId>, Error>;

    /// A command by its id, done or not.
    async fn command(&self, id: CommandId) -> Result<Option<Command>, Error>;
    /// How far these transactions are, whatever their lanes, also of those whose history was removed; unknown ones are
    /// left out.
    async fn statuses(&self, ids: &[TxId]) -> Result<Vec<(TxId, Status)>, Error> {
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            let status = match self.tx(*id).await? {
                Some(record) => Some(record.tx.status),
                None => self.kept(*id).await?.map(|kept| kept.status()),
            };
            found.extend(status.map(|status| (*id, status)));
        }
        Ok(found)
    }
    /// Lanes that take no new transactions in.
    async fn disabled_lanes(&self) -> Result<Vec<LaneId>, Error> {
        let lanes = self.lanes().await?;
        Ok(lanes.into_iter().filter(|lane| lane.row.disabled).map(|lane| lane.lane).collect())
    }

    async fn tx(&self, id: TxId) -> Result<Option<TxRecord>, Error>;
    async fn tx_by_request(&self, signer: Account, request: &RequestId) -> Result<Option<TxRecord>, Error>;
    /// What stayed of a transaction whose history was removed.
    async fn kept(&self, id: TxId) -> Result<Option<Kept>, Error>;
    async fn kept_by_request(&self, signer: Account, request: &RequestId) -> Result<Option<Kept>, Error>;
    /// The transaction that a call of this lane stands for, under this very key.
    async fn tx_by_call(&self, lane: LaneId, call: &CallId) -> Result<Option<Transaction>, Error>;
    async fn kept_by_call(&self, lane: LaneId, call: &CallId) -> Result<Option<Kept>, Error>;
    /// The nonces of known calls with this API key or with none, from the given one upwards: those that may be taken for a retry.
    async fn nonces_from(&self, lane: LaneId, from: &CallId, limit: u32) -> Result<Vec<CallerNonce>, Error>;
    /// What stayed of a call whose caller was told this hash, if another one won.
    async fn kept_by_first_hash(&self, chain: ChainId, hash: TxHash) -> Result<Option<Kept>, Error>;
    async fn txs(&self, query: &TxQuery) -> Result<Vec<Transaction>, Error>;
    /// A transaction's time line, oldest first.
    async fn journal(&self, tx: TxId) -> Result<Vec<JournalRow>, Error>;
    /// Entries after a number, over all transactions: the outbox.
    async fn journal_after(&self, after: JournalSeq, limit: u32) -> Result<Vec<JournalRow>, Error>;
    async fn lanes(&self) -> Result<Vec<LaneSummary>, Error>;
    async fn lane(&self, lane: LaneId) -> Result<Option<LaneSummary>, Error>;
    async fn chain(&self, chain: ChainId) -> Result<Option<ChainRecord>, Error>;
    /// Why the store is an older copy of itself, if it is.
    async fn older(&self) -> Result<Option<Older>, Error>;
    /// Fails if nothing could be written now.
    async fn writable(&self) -> Result<(), Error>;
}

/// A whole store.
pub trait Store: Log + Leases + Reads {}
impl<T: Log + Leases + Reads> Store for T {}
