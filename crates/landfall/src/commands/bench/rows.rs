//! Rows written straight into a store: what a step of many transactions costs there, and a store that is full before
//! the server starts.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use anyhow::{Context, Result, bail};
use landfall_core::attempt::{Attempt, SendHints};
use landfall_core::fees::Fees;
use landfall_core::journal::{Entry, NewEntry};
use landfall_core::ports::store::{Acquired, LaneCommit, LaneRow, Store, TxUpdate, Write};
use landfall_core::request::{NewTransaction, Options, Payload, Request, fingerprint};
use landfall_core::transaction::{Status, TxState, Won};
use landfall_core::view::{BlockRef, Receipt};
use landfall_core::{
    Account, ChainId, ContentVersion, Gas, LaneId, LaneVersion, Millis, Price, RequestId, SessionId, Slot,
    Token, TxHash, TxId, Wei,
};

use crate::system::moment;

pub(super) const GROUP: u64 = 1_024;
const LANES: u64 = 64;
const PER_LANE: u64 = GROUP / LANES;
/// Nobody renews.
const LEASE: Duration = Duration::from_secs(3_600);

/// A step of a transaction's life.
#[derive(Debug, Clone, Copy)]
enum Step {
    Sign,
    Mine,
    Confirm,
}

/// Writes groups of 1,024 transactions of 64 lanes, of accounts that no server here has the keys of.
pub(super) struct Rows<'a> {
    store: &'a dyn Store,
    session: SessionId,
    chain: ChainId,
    tokens: Vec<Token>,
    versions: LaneVersion,
    at: Millis,
}

impl<'a> Rows<'a> {
    pub(super) async fn new(store: &'a dyn Store, chain: u64, at: Millis) -> Result<Self> {
        let session = SessionId::new(at, u128::from(std::process::id()));
        store.open_session(session, "bench", LEASE).await?;
        let chain = ChainId(chain);
        let mut tokens = Vec::new();
        for n in 0..LANES {
            match store.acquire(lane(chain, n), session).await? {
                Acquired::Yes { token } => tokens.push(token),
                Acquired::HeldBy { .. } => bail!("a lane of the fill is held by somebody"),
            }
        }
        Ok(Self { store, session, chain, tokens, versions: LaneVersion(0), at })
    }

    /// Fenced commits per second: for each transaction its row changed, an attempt and a journal entry inserted.
    pub(super) async fn fenced_per_s(&mut self, groups: u64) -> Result<f64> {
        let mut took = Duration::ZERO;
        for group in 0..groups {
            self.admit(group).await?;
            let writes = self.group(group, Step::Sign)?;
            let begun = moment();
            self.write(writes).await?;
            took += begun.elapsed();
        }
        Ok((groups * GROUP) as f64 / took.as_secs_f64())
    }

    /// One group of transactions with their whole life.
    pub(super) async fn finish(&mut self, group: u64) -> Result<()> {
        self.admit(group).await?;
        for step in [Step::Sign, Step::Mine, Step::Confirm] {
            let writes = self.group(group, step)?;
            self.write(writes).await?;
        }
        Ok(())
    }

    pub(super) async fn close(self) -> Result<()> {
        Ok(self.store.close_session(self.session).await?)
    }

    async fn write(&self, writes: Vec<Write>) -> Result<()> {
        for answer in self.store.write(writes).await {
            answer.context("the store refused a row of the fill")?;
        }
        Ok(())
    }

    async fn admit(&self, group: u64) -> Result<()> {
        let mut writes = Vec::new();
        for n in group * GROUP..(group + 1) * GROUP {
            let lane = lane(self.chain, n / PER_LANE % LANES);
            let payload =
                Payload { to: Some(lane.signer), data: n.to_be_bytes().into(), ..Payload::default() };
            let options = Options::default();
            let request = Request {
                request_id: Some(RequestId::parse(&format!("fill-{n}"))?),
                fingerprint: fingerprint(&lane, &payload, &options)?,
                payload,
                options,
                accepted_at: self.at,
                retry_of: None,
                at_once: None,
                origin: None,
            };
            writes.push(Write::Admit(Box::new(NewTransaction { id: tx_id(self.at, n), lane, request })));
        }
        self.write(writes).await
    }

    fn group(&mut self, group: u64, step: Step) -> Result<Vec<Write>> {
        let mut writes = Vec::new();
        for (n, token) in (0..).zip(&self.tokens) {
            let first = group * GROUP + n * PER_LANE;
            let mut commit = LaneCommit {
                lane: lane(self.chain, n),
                token: *token,
                version: self.versions,
                row: LaneRow { cursor: Some(Slot((group + 1) * PER_LANE)), ..LaneRow::default() },
                txs: Vec::new(),
                attempts: Vec::new(),
                hints: Vec::new(),
                closed: Vec::new(),
                journal: Vec::new(),
                commands_done: Vec::new(),
            };
            for k in 0..PER_LANE {
                add(&mut commit, step, self.at, first + k, Slot(group * PER_LANE + k));
            }
            writes.push(Write::Lane(Box::new(commit)));
        }
        self.versions = LaneVersion(self.versions.0 + 1);
        Ok(writes)
    }
}

fn lane(chain: ChainId, n: u64) -> LaneId {
    LaneId { chain, signer: Account(Address::from_word(keccak256(n.to_be_bytes()))) }
}

fn tx_id(at: Millis, n: u64) -> TxId {
    let random = u128::from_be_bytes(keccak256(n.to_be_bytes())[..16].try_into().unwrap_or_default());
    TxId::new(at, random)
}

fn add(commit: &mut LaneCommit, step: Step, at: Millis, n: u64, slot: Slot) {
    let hash = TxHash(B256::from(keccak256(n.to_le_bytes())));
    let version = ContentVersion::FIRST;
    let fees = Fees::Dynamic { max_fee: Price::gwei(30), tip: Price::gwei(1) };
    let gas = Gas(30_000);
    let receipt = Receipt {
        hash,
        block: BlockRef { number: 1, hash: keccak256(1_u64.to_le_bytes()) },
        index: n,
        success: true,
        gas_used: Gas(21_000),
        gas_price: Price::gwei(2),
        data_fee: None,
        contract: None,
    };
    let mut status = Status { slot: Some(slot), hash: Some(hash), ..Status::accepted(at) };
    let entry = match step {
        Step::Sign => {
            status.state = TxState::Signed;
            commit.attempts.push(Attempt {
                slot,
                ordinal: 0,
                tx: Some(tx_id(at, n)),
                version,
                no_op: false,
                hash,
                raw: Bytes::from(vec![2; 120]),
                gas,
                fees,
                value: Wei(U256::ZERO),
                created_at: at,
                hints: SendHints::default(),
            });
            Entry::Signed { slot, attempt: 0, version, no_op: false, hash, fees, gas }
        }
        Step::Mine => {
            status.state = TxState::Mined;
            status.receipt = Some(receipt.clone());
            Entry::Mined { receipt, version, no_op: false }
        }
        Step::Confirm => {
            status.state = TxState::Confirmed;
            status.won = Some(Won { version, hash });
            commit.closed.push(slot);
            let block = receipt.block;
            status.receipt = Some(receipt);
            Entry::Confirmed { hash, block, version }
        }
    };
    commit.txs.push(TxUpdate { id: tx_id(at, n), status: Box::new(status) });
    commit.journal.push(NewEntry { tx: Some(tx_id(at, n)), at, entry, by: None });
}
