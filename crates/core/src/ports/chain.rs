//! The chain port: what the engine and its watcher need from a chain, whatever nodes stand behind it.
//!
//! Every call has a time limit of its own inside the adapter; an error never is a verdict on a transaction.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{B256, Bytes};
use async_trait::async_trait;

use super::signer::{Preimage, Signature};
use crate::attempt::{Call, Draft, Sealed};
use crate::fees::FeeQuote;
use crate::outcome::{SendOutcome, SendReport};
use crate::request::Authorization;
use crate::view::{Block, BlockRef, Receipt};
use crate::witness::{SecondWord, Witness};
use crate::{Account, ChainId, Gas, Slot, TxHash, Wei};

/// A call to the chain did not give an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No endpoint answered in time.
    #[error("no endpoint of chain {chain} could {doing}: {text}")]
    Unreachable { chain: ChainId, doing: &'static str, text: String },
    /// An endpoint answered something that cannot be read.
    #[error("chain {chain} gave an answer to {doing} that cannot be read: {text}")]
    Unreadable { chain: ChainId, doing: &'static str, text: String },
}

/// Which block is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockAt {
    Latest,
    Safe,
    Finalized,
    Number(u64),
    Hash(B256),
}

/// Why a call could not be estimated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EstimateFailure {
    /// It would revert, with the decoded reason.
    Reverted { reason: String },
    /// The account could not pay for it.
    InsufficientFunds { text: String },
    /// It can never be valid.
    Invalid { text: String },
    /// No verdict: ask again.
    Unavailable { text: String },
}

/// A transaction of an account, as a block shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taker {
    pub hash: TxHash,
    pub to: Option<Account>,
    pub value: Wei,
    pub data: Bytes,
    /// Its authorizations (EIP-7702), each with its signature.
    pub authorizations: Vec<Authorization>,
    /// What became of it, where that is known.
    pub receipt: Option<Receipt>,
}

/// The pool of one endpoint, as far as one account is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolLook {
    /// The endpoint's URL without credentials.
    pub endpoint: String,
    /// An error says why the endpoint did not tell.
    pub found: Result<Pooled, String>,
}

/// Transactions of an account in one pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pooled {
    /// The account's count at the endpoint's newest block, and with what is ready in its pool.
    pub latest: Slot,
    pub pending: Slot,
    /// Every slot that the pool lists, ready or behind a gap.
    pub listed: BTreeSet<Slot>,
}

impl Pooled {
    /// The lowest slots in the pool that are not among these, at most so many.
    #[must_use]
    pub fn beside(&self, known: &BTreeSet<Slot>, most: usize) -> BTreeSet<Slot> {
        let counted = (self.latest.0..self.pending.0).map(Slot).filter(|slot| !known.contains(slot));
        let listed = self.listed.iter().copied().filter(|slot| !known.contains(slot));
        let both: BTreeSet<Slot> = counted.take(most).chain(listed.take(most)).collect();
        both.into_iter().take(most).collect()
    }
}

/// One endpoint's word on which block has a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownBlock {
    /// Its place in the configuration, and its URL without credentials.
    pub place: usize,
    pub endpoint: String,
    pub word: BlockWord,
    /// The newest head is one that this endpoint has shown.
    pub gave_head: bool,
}

/// The block that an endpoint shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockWord {
    Is(B256),
    /// It says that it has none.
    Lacks,
    NoAnswer,
}

/// A question that was passed on has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AskError {
    /// The node's own answer, as it gave it.
    #[error("{message}")]
    Node { code: i64, message: String, data: Option<serde_json::Value> },
    /// As many questions of callers wait already as may.
    #[error("{0}")]
    Busy(String),
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error(transparent)]
    NoAnswer(#[from] Error),
}

/// An answer is longer than there is room for; what was read of it is thrown away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct NoRoom {
    /// The key of the configuration that says how much room there is.
    pub setting: &'static str,
    pub text: String,
}

/// The way on which something of a caller's goes to the endpoints. Each has health, pace and places of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Questions that are passed on as they are.
    Questions,
    /// Bytes that callers signed, and what has to be known of them: no question of anybody holds these up.
    Sends,
}

/// Room for the bytes of one answer, taken while it is read.
pub trait Room: Send + Sync {
    /// Takes room for so many more bytes.
    fn take(&self, bytes: usize) -> Result<(), NoRoom>;
    /// The answer is thrown away, and is read anew from elsewhere: all of it is free again.
    fn begin_anew(&self);
    /// Whose question it is, for a share of what questions may take at once. All without a name share everything.
    fn owner(&self) -> &str {
        ""
    }
    fn way(&self) -> Way {
        Way::Questions
    }
}

/// Signed bytes, read.
#[derive(Debug, Clone, PartialEq)]
pub struct SignedTx {
    pub hash: TxHash,
    pub from: Account,
    pub slot: Slot,
    /// None: it says no chain, and would be valid on any.
    pub chain: Option<ChainId>,
    pub gas: Gas,
    /// The most that it can take from its sender: value, and gas and blobs at their highest price.
    pub most: Wei,
    /// The transaction as nodes show one that is in no block.
    pub shown: serde_json::Value,
}

/// How one endpoint is doing, for health pages and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointHealth {
    /// Its URL without credentials.
    pub name: String,
    pub usable: bool,
    pub head: Option<u64>,
    pub finalized: Option<u64>,
    /// What it turned out not to do; done otherwise, or by another.
    pub lacks: Vec<&'static str>,
    pub latency_ms: Option<u64>,
    /// It lost too many answers in a row and is left alone.
    pub breaker_open: bool,
    /// What it answered to sends since the start, counted by class.
    pub answers: BTreeMap<SendOutcome, u64>,
    /// The newest trouble, in words.
    pub trouble: Option<String>,
}

/// Turns drafts into bytes. Pure.
pub trait Codec: Send + Sync {
    /// What the key must sign.
    fn preimage(&self, draft: &Draft) -> Preimage;
    /// The bytes to send, once signed.
    fn seal(&self, draft: &Draft, signature: &Signature) -> Sealed;
    /// What the key must sign first, if the draft delegates the sender's own code (EIP-7702).
    fn authorization(&self, _draft: &Draft) -> Option<Preimage> {
        None
    }
    /// What signed bytes say; or why they cannot be read.
    fn read(&self, _raw: &[u8]) -> Result<SignedTx, String> {
        Err("this chain's transactions cannot be read here".to_owned())
    }
    /// Whose word a signed authorization is; none if that cannot be told.
    fn authority(&self, _authorization: &Authorization) -> Option<Account> {
        None
    }
}

/// One chain behind one or more endpoints.
#[async_trait]
pub trait Chain: Send + Sync {
    fn id(&self) -> ChainId;
    fn codec(&self) -> &dyn Codec;

    /// A block, or none if no endpoint knows it.
    async fn block(&self, at: BlockAt) -> Result<Option<Block>, Error>;
    /// Is the block part of the chain that ends in this head? One endpoint that has the head says so: another may still show a fork
    /// that was left, with blocks and receipts of its own.
    async fn leads_to(&self, block: &BlockRef, head: &BlockRef) -> Result<bool, Error>;
    /// Blocks with this number, as each endpoint that is up shows them.
    async fn shown(&self, number: u64) -> Vec<ShownBlock> {
        let word = match self.block(BlockAt::Number(number)).await {
            Ok(Some(block)) => BlockWord::Is(block.at.hash),
            Ok(None) => BlockWord::Lacks,
            Err(_) => BlockWord::NoAnswer,
        };
        vec![ShownBlock { place: 0, endpoint: "the endpoint".to_owned(), word, gave_head: true }]
    }
    /// The endpoint at this place does not serve the chain with this block: nothing is asked of it, and nothing sent to it, until it
    /// shows the block.
    fn set_aside(&self, _place: usize, _block: &BlockRef) {}
    /// What each endpoint has shown of the chain whose newest blocks are these, by number; nothing where there is only one
    /// endpoint. What they said when they were last asked for their heads is used, and only one that shows something else
    /// is asked for more.
    async fn witnesses(&self, _recent: &BTreeMap<u64, B256>) -> Vec<Witness> {
        Vec::new()
    }
    /// Returns when there may be a new head: at a subscription's word, or after the polling interval.
    async fn head_hint(&self);
    /// Every receipt of one block, asked by its hash.
    async fn block_receipts(&self, block: &BlockRef) -> Result<Vec<Receipt>, Error>;
    /// The receipts of these hashes, as far as there are any. Missing proves nothing.
    async fn receipts(&self, hashes: &[TxHash]) -> Result<Vec<Receipt>, Error>;
    /// Words of a second endpoint on receipts that one gave, in the order asked; the same where one endpoint is all there is. Asked once
    /// for a block, and remembered.
    async fn second(&self, receipts: &[Receipt]) -> Vec<SecondWord> {
        vec![SecondWord::Same; receipts.len()]
    }
    /// Each account's count at that block, in the order asked.
    async fn counts(&self, accounts: &[Account], at: &BlockRef) -> Result<Vec<Slot>, Error>;
    /// Whether two endpoints say now that an account has this count, in the order asked; always so where one endpoint is all
    /// there is.
    async fn agreed(&self, counts: &[(Account, Slot)]) -> Vec<bool> {
        vec![true; counts.len()]
    }
    /// Each account's balance at that block, in the order asked.
    async fn balances(&self, accounts: &[Account], at: &BlockRef) -> Result<Vec<Wei>, Error>;
    /// Whether each account's code is a delegation (EIP-7702) at that block, in the order asked.
    async fn delegated(&self, accounts: &[Account], at: &BlockRef) -> Result<Vec<bool>, Error>;
    /// Whether any endpoint shows each of these, in its pool or in a block, in the order asked. Absence proves nothing.
    async fn pooled(&self, hashes: &[TxHash]) -> Result<Vec<bool>, Error>;
    /// The account's transaction with that count in the block; none only if the count was passed in that very block, and
    /// otherwise than by a transaction.
    async fn taker(&self, block: &BlockRef, account: Account, slot: Slot) -> Result<Option<Taker>, Error>;
    /// What the chain asks now.
    async fn fees(&self, head: &Block) -> Result<FeeQuote, Error>;
    /// The gas each call needs, in the order asked.
    async fn estimate(&self, calls: &[Call]) -> Vec<Result<Gas, EstimateFailure>>;
    /// Sends each byte string to the endpoints and merges their answers; one report for each, in the order asked.
    async fn send(&self, raw: &[Sealed]) -> Vec<SendReport>;
    /// Sends bytes that a caller signed, for whom this is; the report is for that caller. It goes by [`Way::Sends`] and, as
    /// [`Self::ask`], changes nothing of what the engine knows of its endpoints.
    async fn send_for(&self, raw: &Sealed, _owner: &str) -> SendReport {
        let reports = self.send(std::slice::from_ref(raw)).await;
        reports.into_iter().next().unwrap_or_else(SendReport::unheard)
    }
    /// Passes a question of a caller's on, and gives the JSON of its result as the endpoint wrote it. It changes nothing of what
    /// [`Self::endpoints`] shows, nor of how the other questions here are asked.
    async fn ask(
        &self,
        method: &str,
        _params: &serde_json::Value,
        _room: &dyn Room,
    ) -> Result<String, AskError> {
        let (chain, text) = (self.id(), format!("{method} cannot be passed on here"));
        Err(AskError::NoAnswer(Error::Unreachable { chain, doing: "answer a caller", text }))
    }
    /// The same of every endpoint for callers, and the answer of each: for what one endpoint's word is not enough. Each of them
    /// may answer a little; the room only says whose turn it is.
    async fn ask_each(
        &self,
        method: &str,
        params: &serde_json::Value,
        room: &dyn Room,
    ) -> Vec<Result<String, AskError>> {
        vec![self.ask(method, params, room).await]
    }
    /// The transactions of an account in the pool of each configured endpoint, whether it is ready or behind a gap; one look for each. An
    /// endpoint that is down or does not tell is among them: nobody knows what its pool holds.
    async fn pools(&self, _account: Account) -> Vec<PoolLook> {
        Vec::new()
    }
    /// How the endpoints are doing.
    fn endpoints(&self) -> Vec<EndpointHealth>;
}
