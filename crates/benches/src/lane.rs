//! A lane and the world around it, as little of it as lets transactions live: a store that takes everything, a node that
//! accepts everything, and blocks that are made when they are asked for.
//!
//! A turn is what the engine's loop does with a lane (`engine/src/lane_task.rs`): apply, verify, commit, plan. The world's
//! own work is kept small, so that what is measured is the lane's.

use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256};
use anyhow::{Result, bail};
use landfall_core::attempt::Sealed;
use landfall_core::fees::FeeQuote;
use landfall_core::lane::{Action, Lane, LaneEvent, Loaded, Pooled, Prepared, Sent};
use landfall_core::outcome::{SendOutcome, SendReport};
use landfall_core::ports::store::{LaneRecord, LaneRow};
use landfall_core::request::{Finality, Options, Payload, Request};
use landfall_core::settings::LaneSettings;
use landfall_core::transaction::{Status, Transaction};
use landfall_core::view::{AccountView, Block, BlockRef, ChainStatus, ChainView, Look, Receipt, Tags};
use landfall_core::witness::Witnessed;
use landfall_core::{
    Account, ChainId, Fingerprint, Gas, LaneId, LaneVersion, Millis, Price, QueueOrder, Slot, Token, TxHash,
    TxId, Wei,
};

const LANE: LaneId = LaneId { chain: ChainId(7), signer: Account(Address::repeat_byte(0xaa)) };
const START: Millis = Millis(1_700_000_000_000);
const BLOCK_TIME: Duration = Duration::from_millis(250);
/// Blocks on top that make a transaction final, and its slot history.
const FINALITY: u64 = 2;
/// How many hashes a view shows.
const RECENT: u64 = 16;
/// As long as those of a token transfer.
static RAW: [u8; 180] = [2; 180];

/// Takes that many transactions of one lane from the store to their end, a tenth of them with each block. Says how many
/// ended.
pub fn life(count: u64) -> Result<u64> {
    let mut desk = Desk::filled(count)?;
    let per_block = count.div_ceil(10);
    // Ten blocks for all of them, and a few more until the last are final.
    for _ in 0..10 + 2 * (FINALITY + 1) {
        desk.mine(per_block)?;
    }
    if !desk.lane.is_idle() {
        bail!("the lane still has something to do: {:?}", desk.lane.counts());
    }
    Ok(desk.ended)
}

/// A lane, its store and its chain.
pub struct Desk {
    lane: Lane,
    now: Millis,
    request: Arc<Request>,
    /// How many transactions the store has taken in, and how many of them have a slot.
    admitted: u64,
    bound: u64,
    ended: u64,
    /// What was sent and is in no block, by slot.
    pool: VecDeque<TxHash>,
    /// The account's count.
    count: Slot,
    head: Block,
    recent: Arc<BTreeMap<u64, B256>>,
}

impl Desk {
    /// A lane in which that many transactions were sent, and none is in a block.
    pub fn filled(in_flight: u64) -> Result<Self> {
        let mut desk = Self::new(in_flight, LaneRow::default())?;
        desk.admit(in_flight)?;
        if desk.pool.len() as u64 != in_flight {
            bail!("{} of {in_flight} transactions were sent", desk.pool.len());
        }
        Ok(desk)
    }

    /// A paused lane for which that many wait in the store.
    pub fn backlog(waiting: u64) -> Result<Self> {
        let mut desk = Self::new(waiting, LaneRow { paused: true, ..LaneRow::default() })?;
        desk.admit(waiting)?;
        if desk.bound > 0 || desk.lane.counts().waiting == 0 {
            bail!("the lane should hold some and bind none: {:?}", desk.lane.counts());
        }
        Ok(desk)
    }

    fn new(max_in_flight: u64, row: LaneRow) -> Result<Self> {
        let settings =
            LaneSettings { finality: Finality::Blocks(FINALITY), max_in_flight, ..LaneSettings::default() };
        let record = LaneRecord {
            lane: LANE,
            token: Token(1),
            version: LaneVersion(0),
            row,
            bound: Vec::new(),
            ended: Vec::new(),
            attempts: Vec::new(),
            highest_signed: None,
            older: None,
        };
        let mut desk = Self {
            lane: Lane::load(record, Arc::new(settings), START),
            now: START,
            request: Arc::new(request()),
            admitted: 0,
            bound: 0,
            ended: 0,
            pool: VecDeque::new(),
            count: Slot(0),
            head: block(0),
            recent: Arc::new(BTreeMap::from([(0, word(0))])),
        };
        let view = desk.view();
        desk.happen(LaneEvent::Chain { view, receipts: Vec::new() })?;
        Ok(desk)
    }

    /// That many come in, and a block with as many: as many as before are in flight afterwards.
    pub fn block_of(&mut self, transactions: u64) -> Result<()> {
        let before = self.pool.len();
        self.admit(transactions)?;
        self.mine(transactions)?;
        if self.pool.len() != before {
            bail!("{before} were in flight, and now {}", self.pool.len());
        }
        Ok(())
    }

    /// That many come in.
    pub fn admit(&mut self, transactions: u64) -> Result<()> {
        self.admitted += transactions;
        self.happen(LaneEvent::Work)
    }

    /// A block with the next of the pool.
    fn mine(&mut self, most: u64) -> Result<()> {
        self.now = self.now.after(BLOCK_TIME);
        let number = self.head.at.number + 1;
        self.head = block(number);
        let recent = Arc::make_mut(&mut self.recent);
        recent.insert(number, self.head.at.hash);
        if let Some(old) = number.checked_sub(RECENT) {
            recent.remove(&old);
        }
        let mined = usize::try_from(most)?.min(self.pool.len());
        let receipts: Vec<_> = self
            .pool
            .drain(..mined)
            .zip(0..)
            .map(|(hash, index)| receipt(hash, self.head.at, index))
            .collect();
        self.count = Slot(self.count.0 + receipts.len() as u64);
        let view = self.view();
        self.happen(LaneEvent::Chain { view, receipts })
    }

    /// One event, and everything that follows from it at once.
    fn happen(&mut self, event: LaneEvent) -> Result<()> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for action in self.turn(event)? {
                events.push_back(self.carry_out(action)?);
            }
        }
        Ok(())
    }

    fn turn(&mut self, event: LaneEvent) -> Result<Vec<Action>> {
        self.lane.apply(vec![event], self.now);
        self.lane.verify()?;
        if let Some(commit) = self.lane.take_commit(self.now) {
            self.bound += commit.attempts.len() as u64;
            self.ended += commit.txs.iter().filter(|tx| tx.status.state.is_terminal()).count() as u64;
            let version = LaneVersion(commit.version.0 + 1);
            black_box(commit);
            self.lane.committed(version);
            black_box(self.lane.take_closed_hashes());
        }
        let plan = self.lane.plan(self.now);
        black_box(self.lane.counts());
        Ok(plan.actions)
    }

    fn carry_out(&mut self, action: Action) -> Result<LaneEvent> {
        Ok(match action {
            Action::Load { limit, .. } => {
                let waiting = (self.bound..self.admitted).take(usize::try_from(limit)?);
                let waiting = waiting.map(|number| transaction(number, &self.request)).collect();
                LaneEvent::Loaded(Loaded { waiting, asked: limit, ..Loaded::default() })
            }
            Action::Prepare(jobs) => LaneEvent::Prepared(
                jobs.into_iter()
                    .map(|job| Prepared { target: job.target, result: Ok(Gas(52_000)) })
                    .collect(),
            ),
            Action::Sign(drafts) => LaneEvent::Signed(
                drafts
                    .into_iter()
                    .map(|draft| {
                        let sealed =
                            Sealed { raw: Bytes::from_static(&RAW), hash: TxHash(word(draft.slot.0)) };
                        (draft, Ok(sealed))
                    })
                    .collect(),
            ),
            Action::Send(outgoing) => {
                self.pool.extend(outgoing.iter().filter(|one| !one.again).map(|one| one.sealed.hash));
                LaneEvent::Sent(
                    outgoing
                        .into_iter()
                        .map(|one| Sent { slot: one.slot, hash: one.sealed.hash, report: accepted() })
                        .collect(),
                )
            }
            Action::Probe(wanted) => LaneEvent::Pooled(
                wanted.into_iter().map(|(slot, hash)| Pooled { slot, hash, shown: Some(true) }).collect(),
            ),
            other @ (Action::Look(_) | Action::Second(_) | Action::Prove(_) | Action::Follow(_)) => {
                bail!("nothing goes wrong here, and yet the lane asks for {other:?}")
            }
        })
    }

    fn view(&self) -> Arc<ChainView> {
        let account = AccountView {
            count: self.count,
            balance: Some(Wei(U256::MAX >> 1)),
            delegated: false,
            at: self.head.at,
            read: Look::default(),
            agreed: true,
        };
        Arc::new(ChainView {
            status: ChainStatus::Live,
            head: self.head,
            head_since: self.now,
            recent: Arc::clone(&self.recent),
            witnessed: Witnessed::by_one(self.head.at.number),
            safe: None,
            finalized: self.head.at.number.checked_sub(FINALITY),
            tags: Tags::default(),
            fees: FeeQuote {
                base_fee: self.head.base_fee,
                slow: Price::gwei(1),
                normal: Price::gwei(2),
                fast: Price::gwei(3),
                data_fee: None,
            },
            accounts: BTreeMap::from([(LANE.signer, account)]),
        })
    }
}

fn request() -> Request {
    let payload = Payload {
        to: Some(Account(Address::repeat_byte(0xbb))),
        data: Bytes::from_static(&[7; 68]),
        ..Payload::default()
    };
    Request {
        request_id: None,
        payload,
        options: Options::default(),
        fingerprint: Fingerprint(B256::ZERO),
        accepted_at: START,
        retry_of: None,
        at_once: None,
        origin: None,
    }
}

fn transaction(number: u64, request: &Arc<Request>) -> Transaction {
    Transaction {
        id: TxId::new(Millis(START.0 + number / 20), u128::from(number) << 32),
        lane: LANE,
        order: QueueOrder(i64::try_from(number).unwrap_or(i64::MAX)),
        request: Arc::clone(request),
        status: Status::accepted(START),
    }
}

fn accepted() -> SendReport {
    SendReport {
        outcome: SendOutcome::Accepted,
        endpoint: "https://node.example".to_owned(),
        code: None,
        text: None,
        latency_ms: 1,
    }
}

fn block(number: u64) -> Block {
    Block {
        at: BlockRef { number, hash: word(!number) },
        parent: word(!number.saturating_sub(1)),
        timestamp: Millis(START.0 + number * 250),
        gas_limit: Gas(30_000_000),
        base_fee: Some(Price::gwei(1)),
    }
}

fn receipt(hash: TxHash, block: BlockRef, index: u64) -> Receipt {
    Receipt {
        hash,
        block,
        index,
        success: true,
        gas_used: Gas(43_000),
        gas_price: Price::gwei(2),
        data_fee: None,
        contract: None,
    }
}

/// 32 bytes that look like a hash, for less than one costs (the last step of splitmix64).
fn word(number: u64) -> B256 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let mut bytes = [0; 32];
    for (part, shift) in bytes.chunks_exact_mut(8).zip([31, 29, 23, 17]) {
        part.copy_from_slice(&(mixed ^ (mixed >> shift)).to_be_bytes());
    }
    B256::from(bytes)
}
