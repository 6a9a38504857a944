//! How fast an adapter is on this machine, in transactions per second for each step of a life:
//!
//! ```sh
//! cargo run --release -p landfall-store --example throughput -- [transactions] [lanes] [folder or postgres://…]
//! ```
//!
//! Groups are of 1,024 admissions, or of 64 lanes that commit 16 transactions each. At the end, lanes that commit one
//! transaction each: three rows and a fence per commit, in groups of 128 and of 1,024.

#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::error::Error;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use landfall_core::attempt::{Attempt, SendHints};
use landfall_core::fees::Fees;
use landfall_core::journal::{Entry, NewEntry};
use landfall_core::ports::store::{Acquired, LaneCommit, LaneRow, Store, TxUpdate, Write};
use landfall_core::request::{NewTransaction, Options, Payload, Request, fingerprint};
use landfall_core::transaction::{Status, TxState, Won};
use landfall_core::view::{BlockRef, Receipt};
use landfall_core::{
    Account, ChainId, ContentVersion, Gas, LaneId, LaneVersion, Millis, Namespace, Price, RequestId,
    SessionId, Slot, Token, TxHash, TxId, Wei,
};
use landfall_store::{Postgres, Sqlite, postgres, sqlite};

/// Longer than any run: nobody renews.
const LEASE: Duration = Duration::from_secs(600);
const GROUP: u64 = 1_024;
const LANES_PER_GROUP: u64 = 64;
const PER_LANE: u64 = GROUP / LANES_PER_GROUP;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let total: u64 = args.next().map_or(Ok(102_400), |text| text.parse())?;
    let lanes: u64 = args.next().map_or(Ok(LANES_PER_GROUP), |text| text.parse())?;
    let total = total.next_multiple_of(GROUP);
    println!("{total} transactions in {lanes} lanes, groups of {GROUP}");
    match args.next() {
        Some(url) if url.starts_with("postgres") => {
            let options = postgres::Options { lease: LEASE, ..postgres::Options::default() };
            // A namespace of its own, so that it can be run again.
            let namespace = Namespace(format!("throughput-{}", std::process::id()));
            let store = Postgres::open(&url, &namespace, &options).await?;
            run(&store, lanes, total).await
        }
        folder => {
            let folder = match folder {
                Some(folder) => tempfile::tempdir_in(folder)?,
                None => tempfile::tempdir()?,
            };
            let file = folder.path().join("throughput.db");
            let location = file.to_str().ok_or("the folder's name is not UTF-8")?;
            let store = Sqlite::open(location, &Namespace::default(), &sqlite::Options::default())?;
            run(&store, lanes, total).await?;
            let size = std::fs::metadata(&file)?.len();
            println!("{:>9}: {} bytes per transaction", "on disk", size / total);
            Ok(())
        }
    }
}

async fn run(store: &dyn Store, lanes: u64, total: u64) -> Outcome<()> {
    let session = SessionId::new(Millis(1), u128::from(std::process::id()));
    store.open_session(session, "bench", LEASE).await?;
    let mut bench = Bench { store, session, lanes, total, turns: 0 };
    bench.admit().await?;
    let tokens = bench.own().await?;
    for step in [Step::Sign, Step::Mine, Step::Confirm] {
        bench.commit(step, &tokens).await?;
    }
    for (batch, from) in [(128, 1_000_000), (1_024, 2_000_000)] {
        bench.fenced(batch, from).await?;
    }
    Ok(())
}

/// A step of a transaction's life that its lane commits.
#[derive(Debug, Clone, Copy)]
enum Step {
    Sign,
    Mine,
    Confirm,
}

struct Bench<'a> {
    store: &'a dyn Store,
    session: SessionId,
    lanes: u64,
    total: u64,
    turns: u64,
}

fn lane(n: u64) -> LaneId {
    let signer = Account(Address::from_word(keccak256(n.to_be_bytes())));
    LaneId { chain: ChainId(1), signer }
}

fn tx_id(n: u64) -> TxId {
    let random = u128::from_be_bytes(keccak256(n.to_be_bytes())[..16].try_into().unwrap_or_default());
    TxId::new(Millis(1_700_000_000_000 + n / 20), random)
}

fn block(n: u64) -> BlockRef {
    BlockRef { number: n, hash: keccak256(n.to_le_bytes()) }
}

impl Bench<'_> {
    /// The lane of a transaction: its group's lanes in turn, `PER_LANE` in a row.
    fn lane_of(&self, n: u64) -> u64 {
        n / PER_LANE % self.lanes
    }

    async fn write(&self, group: Vec<Write>) -> Outcome<Duration> {
        let from = Instant::now();
        let answers = self.store.write(group).await;
        let took = from.elapsed();
        answers.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(took)
    }

    async fn admit(&self) -> Outcome<()> {
        let mut took = Vec::new();
        for first in (0..self.total).step_by(usize::try_from(GROUP)?) {
            let mut group = Vec::new();
            for n in first..first + GROUP {
                group.push(Write::Admit(Box::new(self.request(n)?)));
            }
            took.push(self.write(group).await?);
        }
        self.report("admit", took);
        Ok(())
    }

    fn request(&self, n: u64) -> Outcome<NewTransaction> {
        let lane = lane(self.lane_of(n));
        let data = Bytes::from(vec![7; 68]);
        let payload =
            Payload { to: Some(lane.signer), value: Wei(U256::from(n)), data, ..Payload::default() };
        let options = Options::default();
        let fingerprint = fingerprint(&lane, &payload, &options)?;
        let request_id = Some(RequestId::parse(&format!("order-{n}"))?);
        let request = Request {
            request_id,
            payload,
            options,
            fingerprint,
            accepted_at: Millis(n),
            retry_of: None,
            at_once: None,
        };
        Ok(NewTransaction { id: tx_id(n), lane, request })
    }

    async fn own(&self) -> Outcome<Vec<Token>> {
        let mut tokens = Vec::new();
        for n in 0..self.lanes {
            tokens.push(self.acquire(n).await?);
        }
        Ok(tokens)
    }

    async fn acquire(&self, n: u64) -> Outcome<Token> {
        match self.store.acquire(lane(n), self.session).await? {
            Acquired::Yes { token } => Ok(token),
            Acquired::HeldBy { .. } => Err("the lane is held".into()),
        }
    }

    /// Groups of lanes that commit one transaction each: a row updated, an attempt and an entry inserted, and a fence.
    async fn fenced(&self, batch: u64, from: u64) -> Outcome<()> {
        let mut tokens = Vec::new();
        for n in from..from + batch {
            tokens.push(self.acquire(n).await?);
        }
        let mut took = Vec::new();
        let rounds = self.total.div_ceil(batch).min(64);
        for round in 0..rounds {
            let mut admissions = Vec::new();
            let mut group = Vec::new();
            for (n, token) in (from..from + batch).zip(&tokens) {
                let number = n + round * batch;
                let new = NewTransaction { lane: lane(n), ..self.request(number)? };
                admissions.push(Write::Admit(Box::new(new)));
                let mut commit = empty(lane(n), *token, LaneVersion(round), Slot(round + 1));
                add(&mut commit, Step::Sign, number, Slot(round));
                group.push(Write::Lane(Box::new(commit)));
            }
            self.write(admissions).await?;
            took.push(self.write(group).await?);
        }
        let sum: Duration = took.iter().sum();
        let rate = (rounds * batch) as f64 / sum.as_secs_f64();
        println!(
            "{:>9}: {rate:>7.0} fenced commits of three rows per second, in groups of {batch}",
            "fenced"
        );
        Ok(())
    }

    async fn commit(&mut self, step: Step, tokens: &[Token]) -> Outcome<()> {
        let mut took = Vec::new();
        let mut versions = std::collections::BTreeMap::new();
        for first in (0..self.total).step_by(usize::try_from(GROUP)?) {
            let mut group = Vec::new();
            for from in (first..first + GROUP).step_by(usize::try_from(PER_LANE)?) {
                let number = self.lane_of(from);
                let version = match versions.get(&number) {
                    Some(version) => *version,
                    None => self.store.load_lane(lane(number)).await?.version,
                };
                versions.insert(number, LaneVersion(version.0 + 1));
                let token = *tokens.get(usize::try_from(number)?).ok_or("no token")?;
                group.push(Write::Lane(Box::new(self.turn(step, from, token, version))));
            }
            took.push(self.write(group).await?);
        }
        self.turns += 1;
        self.report(
            match step {
                Step::Sign => "sign",
                Step::Mine => "mine",
                Step::Confirm => "confirm",
            },
            took,
        );
        Ok(())
    }

    fn turn(&self, step: Step, from: u64, token: Token, version: LaneVersion) -> LaneCommit {
        let mut commit = empty(lane(self.lane_of(from)), token, version, Slot(from));
        for n in from..from + PER_LANE {
            let slot = Slot(n / (PER_LANE * self.lanes) * PER_LANE + n % PER_LANE);
            add(&mut commit, step, n, slot);
        }
        commit
    }

    fn report(&self, what: &str, mut took: Vec<Duration>) {
        took.sort();
        let sum: Duration = took.iter().sum();
        let worst = took.last().copied().unwrap_or_default();
        let middle = took.get(took.len() / 2).copied().unwrap_or_default();
        let rate = self.total as f64 / sum.as_secs_f64();
        println!("{what:>9}: {rate:>7.0} tx/s, group median {middle:.1?}, worst {worst:.1?}");
    }
}

fn empty(lane: LaneId, token: Token, version: LaneVersion, cursor: Slot) -> LaneCommit {
    LaneCommit {
        lane,
        token,
        version,
        row: LaneRow { cursor: Some(cursor), ..LaneRow::default() },
        txs: Vec::new(),
        attempts: Vec::new(),
        hints: Vec::new(),
        closed: Vec::new(),
        journal: Vec::new(),
        commands_done: Vec::new(),
    }
}

fn add(commit: &mut LaneCommit, step: Step, n: u64, slot: Slot) {
    let hash = TxHash(B256::from(keccak256(n.to_le_bytes())));
    let fees = Fees::Dynamic { max_fee: Price::gwei(30), tip: Price::gwei(1) };
    let receipt = Receipt {
        hash,
        block: block(n / 100),
        index: n % 100,
        success: true,
        gas_used: Gas(52_000),
        gas_price: Price::gwei(20),
        contract: None,
    };
    let version = ContentVersion::FIRST;
    let mut status = Status { slot: Some(slot), hash: Some(hash), ..Status::accepted(Millis(n)) };
    let entry = match step {
        Step::Sign => {
            status.state = TxState::Signed;
            commit.attempts.push(Attempt {
                slot,
                ordinal: 0,
                tx: Some(tx_id(n)),
                version,
                no_op: false,
                hash,
                raw: Bytes::from(vec![2; 180]),
                gas: Gas(60_000),
                fees,
                value: Wei(U256::from(n)),
                created_at: Millis(n),
                hints: SendHints::default(),
            });
            Entry::Signed { slot, attempt: 0, version, no_op: false, hash, fees, gas: Gas(60_000) }
        }
        Step::Mine => {
            status.state = TxState::Mined;
            status.receipt = Some(receipt.clone());
            Entry::Mined { receipt, version }
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
    commit.txs.push(TxUpdate { id: tx_id(n), status });
    commit.journal.push(NewEntry { tx: Some(tx_id(n)), at: Millis(n), entry });
}
