//! What an engine makes of what two endpoints show, on a chain of empty blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::B256;
use async_trait::async_trait;
use landfall_core::attempt::{Call, Sealed};
use landfall_core::fees::FeeQuote;
use landfall_core::outcome::SendReport;
use landfall_core::ports::chain::{BlockAt, Chain, Codec, EndpointHealth, Error, EstimateFailure, Taker};
use landfall_core::ports::clock::{Clock, Random};
use landfall_core::ports::store::Reads;
use landfall_core::request::Finality;
use landfall_core::settings::LaneSettings;
use landfall_core::view::{Block, BlockRef, Receipt, Tag, Tags};
use landfall_core::witness::{Witness, Witnessed};
use landfall_core::{Account, ChainId, Gas, Millis, Price, Slot, TxHash, Wei};
use landfall_store::Memory;
use tokio::time::Instant;

use crate::{ChainParts, Engine, Parts, Telemetry, Timings};

const CHAIN: ChainId = ChainId(7);

/// The time of day, which may leap.
struct Leaping(Instant, AtomicU64);

impl Clock for Leaping {
    fn now(&self) -> Millis {
        Millis(1_000_000 + self.1.load(Ordering::SeqCst)).after(self.0.elapsed())
    }
}

struct Same;

impl Random for Same {
    fn bits(&self) -> u128 {
        7
    }
}

/// Nobody says what is final.
const DOWN: u64 = 0;
/// Nothing is called final.
const NONE: u64 = u64::MAX;

/// A chain of empty blocks: its head, and what the other endpoint has of it.
#[derive(Default)]
struct Empty {
    head: AtomicU64,
    /// Its final block, or one of these.
    finalized: AtomicU64,
    other: Mutex<Option<Witness>>,
    /// The times that the two give for their newest blocks.
    times: Mutex<(Millis, Millis)>,
    /// A head about which nobody can say anything.
    unreadable: AtomicU64,
    asked: Mutex<Vec<BlockAt>>,
}

fn hash(number: u64) -> B256 {
    B256::from(alloy_primitives::U256::from(number + 1))
}

/// A final block, if it is one.
fn called(number: u64) -> Option<BlockRef> {
    (number != DOWN && number != NONE).then(|| BlockRef { number, hash: hash(number) })
}

impl Empty {
    /// The other endpoint calls this block final.
    fn other_calls_final(&self, number: u64) {
        if let Some(other) = self.other.lock().unwrap().as_mut() {
            other.finalized = called(number);
        }
    }

    fn other(&self, agrees: u64, differs: Option<u64>, up: bool) {
        let head = differs.map_or(agrees, |differs| differs + 20);
        *self.other.lock().unwrap() = Some(Witness {
            endpoint: "http://b".into(),
            up,
            head: Some(head),
            agrees: Some(agrees),
            differs,
            time: Some(self.times.lock().unwrap().1),
            safe: None,
            finalized: None,
        });
    }
}

#[async_trait]
impl Chain for Empty {
    fn id(&self) -> ChainId {
        CHAIN
    }

    fn codec(&self) -> &dyn Codec {
        panic!("nothing is signed here")
    }

    async fn block(&self, at: BlockAt) -> Result<Option<Block>, Error> {
        let head = self.head.load(Ordering::SeqCst);
        self.asked.lock().unwrap().push(at);
        let number = match at {
            BlockAt::Latest => Some(head),
            BlockAt::Number(number) => Some(number),
            BlockAt::Hash(wanted) => (0..=head).find(|number| hash(*number) == wanted),
            BlockAt::Safe => None,
            BlockAt::Finalized => match self.finalized.load(Ordering::SeqCst) {
                DOWN => {
                    let text = "nobody answers".to_owned();
                    return Err(Error::Unreachable { chain: CHAIN, doing: "read a block", text });
                }
                NONE => None,
                number => Some(number),
            },
        };
        Ok(number.filter(|number| *number <= head).map(|number| Block {
            at: BlockRef { number, hash: hash(number) },
            parent: number.checked_sub(1).map_or(B256::ZERO, hash),
            timestamp: Millis(number),
            gas_limit: Gas(30_000_000),
            base_fee: None,
        }))
    }

    async fn leads_to(&self, _: &BlockRef, _: &BlockRef) -> Result<bool, Error> {
        Ok(true)
    }

    async fn witnesses(&self, recent: &BTreeMap<u64, B256>) -> Vec<Witness> {
        let head = recent.last_key_value().map(|(number, _)| *number);
        let own = Witness {
            endpoint: "http://a".into(),
            up: true,
            head,
            agrees: head,
            differs: None,
            time: Some(self.times.lock().unwrap().0),
            safe: None,
            finalized: called(self.finalized.load(Ordering::SeqCst)),
        };
        self.other.lock().unwrap().clone().map_or(Vec::new(), |other| vec![own, other])
    }

    async fn head_hint(&self) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    async fn block_receipts(&self, _: &BlockRef) -> Result<Vec<Receipt>, Error> {
        Ok(Vec::new())
    }

    async fn receipts(&self, _: &[TxHash]) -> Result<Vec<Receipt>, Error> {
        Ok(Vec::new())
    }

    async fn counts(&self, accounts: &[Account], _: &BlockRef) -> Result<Vec<Slot>, Error> {
        Ok(vec![Slot(0); accounts.len()])
    }

    async fn balances(&self, accounts: &[Account], _: &BlockRef) -> Result<Vec<Wei>, Error> {
        Ok(vec![Wei::default(); accounts.len()])
    }

    async fn delegated(&self, accounts: &[Account], _: &BlockRef) -> Result<Vec<bool>, Error> {
        Ok(vec![false; accounts.len()])
    }

    async fn pooled(&self, hashes: &[TxHash]) -> Result<Vec<bool>, Error> {
        Ok(vec![false; hashes.len()])
    }

    async fn taker(&self, _: &BlockRef, _: Account, _: Slot) -> Result<Option<Taker>, Error> {
        Ok(None)
    }

    async fn fees(&self, head: &Block) -> Result<FeeQuote, Error> {
        if self.unreadable.load(Ordering::SeqCst) == head.at.number {
            let text = "nobody knows the block".to_owned();
            return Err(Error::Unreachable { chain: CHAIN, doing: "read fees", text });
        }
        let price = Price(1);
        Ok(FeeQuote { base_fee: None, slow: price, normal: price, fast: price, data_fee: None })
    }

    async fn estimate(&self, calls: &[Call]) -> Vec<Result<Gas, EstimateFailure>> {
        calls.iter().map(|_| Ok(Gas(21_000))).collect()
    }

    async fn send(&self, _: &[Sealed]) -> Vec<SendReport> {
        panic!("nothing is sent here")
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        Vec::new()
    }
}

struct World {
    engine: Engine,
    chain: Arc<Empty>,
    clock: Arc<Leaping>,
    store: Memory,
}

impl World {
    /// Blocks are final ten below the head, and are remembered from there on.
    async fn new(other: Option<(u64, bool)>) -> Self {
        let clock = Arc::new(Leaping(Instant::now(), AtomicU64::new(0)));
        let store = Memory::new(clock.clone());
        let chain = Arc::new(Empty::default());
        chain.head.store(80, Ordering::SeqCst);
        if let Some((agrees, up)) = other {
            chain.other(agrees, None, up);
        }
        let settings = LaneSettings {
            finality: Finality::Blocks(10),
            watch_depth: 10,
            witness_wait: Some(Duration::from_secs(600)),
            ..LaneSettings::default()
        };
        let parts = Parts {
            store: Arc::new(store.clone()),
            chains: [(CHAIN, ChainParts { chain: chain.clone(), settings })].into(),
            signers: BTreeMap::new(),
            clock: clock.clone(),
            random: Arc::new(Same),
            slots_at_admission: BTreeSet::new(),
            adopts_unknown: BTreeSet::new(),
            delegates: BTreeMap::new(),
            address: None,
            node: "node".into(),
            timings: Timings::default(),
            telemetry: Telemetry::default(),
        };
        let engine = Engine::start(parts).await.unwrap();
        let world = Self { engine, chain, clock, store };
        world.pass(2).await;
        world.chain.head.store(100, Ordering::SeqCst);
        world.pass(2).await;
        world
    }

    async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    fn witnessed(&self) -> Witnessed {
        self.engine.handle().view(CHAIN).unwrap().witnessed.clone()
    }

    async fn trouble(&self) -> Option<String> {
        let chain = self.engine.handle().health().await.chains.remove(0);
        assert!(chain.trouble.is_none(), "it is followed");
        chain.unwitnessed
    }

    async fn settled(&self) -> Option<u64> {
        self.store.chain(CHAIN).await.unwrap().unwrap().settled.map(|block| block.number)
    }
}

#[tokio::test(start_paused = true)]
async fn with_one_endpoint_its_head_counts() {
    let world = World::new(None).await;
    assert_eq!(world.witnessed(), Witnessed::by_one(100));
    assert_eq!((world.settled().await, world.trouble().await), (Some(90), None));
}

#[tokio::test(start_paused = true)]
async fn a_second_endpoint_that_catches_up_is_noticed_without_a_new_head() {
    let world = World::new(Some((95, true))).await;
    assert_eq!(world.witnessed().by_two, Some(95));
    assert_eq!(world.settled().await, Some(85), "what the chain is known by is counted from there too");
    world.chain.other(100, None, true);
    world.pass(2).await;
    assert_eq!(world.witnessed().by_two, Some(100));
    assert_eq!(world.engine.handle().view(CHAIN).unwrap().head.at.number, 100);
}

#[tokio::test(start_paused = true)]
async fn without_a_second_endpoint_one_counts_after_the_wait_by_a_clock_that_does_not_leap() {
    let world = World::new(Some((95, false))).await;
    world.clock.1.store(86_400_000, Ordering::SeqCst);
    world.pass(595).await;
    assert!(!world.witnessed().alone, "a leap of the clock is no wait");
    let said = world.trouble().await.unwrap();
    assert!(said.contains("block 100 is shown by one endpoint only: waiting for a second one"), "{said}");
    assert!(said.contains("http://b does not answer"), "{said}");
    world.pass(5).await;
    assert!(world.witnessed().alone);
    let said = world.trouble().await.unwrap();
    assert!(said.contains("by its word alone; http://b does not answer"), "{said}");
    // It is back.
    world.chain.other(100, None, true);
    world.pass(2).await;
    assert!(!world.witnessed().alone);
    assert_eq!(world.trouble().await, None);
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_disagree_hold_however_long_it_takes() {
    let world = World::new(Some((80, true))).await;
    world.chain.other(80, Some(81), true);
    for _ in 0..5 {
        world.pass(600).await;
        let witnessed = world.witnessed();
        assert_eq!((witnessed.by_two, witnessed.alone), (Some(80), false));
    }
    let chain = world.engine.handle().health().await.chains.remove(0);
    assert_eq!((chain.head, chain.witnessed, chain.disagree), (Some(100), Some(80), true));
    let said = chain.unwitnessed.unwrap();
    assert!(said.contains("others show another chain (http://b shows another block 81"), "{said}");
    assert_eq!(world.settled().await, Some(70));
}

#[tokio::test(start_paused = true)]
async fn that_a_chain_has_no_final_block_is_told_from_nobody_saying_so() {
    let world = World::new(None).await;
    let goes_on = async |finalized: u64| {
        world.chain.finalized.store(finalized, Ordering::SeqCst);
        world.chain.head.fetch_add(1, Ordering::SeqCst);
        world.pass(2).await;
        let view = world.engine.handle().view(CHAIN).unwrap();
        (view.tags.finalized, view.finalized)
    };
    let tags = world.engine.handle().view(CHAIN).unwrap().tags;
    assert_eq!(tags, Tags { safe: Tag::Lacking, finalized: Tag::Unknown }, "nobody could say yet");
    assert_eq!(goes_on(NONE).await, (Tag::Lacking, None));
    assert_eq!(goes_on(DOWN).await, (Tag::Lacking, None), "as it was");
    assert_eq!(goes_on(97).await, (Tag::Known, Some(97)), "a node that knows better");
    assert_eq!(goes_on(NONE).await, (Tag::Known, Some(97)), "it was there");
    assert_eq!(goes_on(DOWN).await, (Tag::Known, Some(97)));
}

#[tokio::test(start_paused = true)]
async fn a_final_block_is_one_that_two_endpoints_call_so() {
    let world = World::new(Some((100, true))).await;
    let goes_on = async |head: u64| {
        world.chain.head.store(head, Ordering::SeqCst);
        let finalized = world.chain.other.lock().unwrap().as_ref().and_then(|other| other.finalized);
        world.chain.other(head, None, true);
        world.chain.other_calls_final(finalized.map_or(NONE, |block| block.number));
        world.pass(2).await;
        world.engine.handle().view(CHAIN).unwrap().finalized
    };
    // One calls its head final.
    world.chain.finalized.store(101, Ordering::SeqCst);
    world.chain.other_calls_final(90);
    assert_eq!(goes_on(101).await, Some(90));
    assert_eq!(world.settled().await, Some(90), "what the chain is known by as well");
    world.chain.finalized.store(102, Ordering::SeqCst);
    world.pass(1_000).await;
    assert_eq!(goes_on(102).await, Some(90), "however long");
    let view = world.engine.handle().view(CHAIN).unwrap();
    assert_eq!((view.witnessed.finalized.by_two, view.witnessed.finalized.by_one), (Some(90), Some(102)));
    world.chain.other_calls_final(95);
    assert_eq!(goes_on(103).await, Some(95));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_chain_is_one_that_two_endpoints_give() {
    let world = World::new(Some((100, true))).await;
    let day = 86_400_000;
    let goes_on = async |ours: u64, others: u64| {
        *world.chain.times.lock().unwrap() = (Millis(ours), Millis(others));
        let head = world.chain.head.fetch_add(1, Ordering::SeqCst) + 1;
        world.chain.other(head, None, true);
        world.pass(2).await;
        world.engine.handle().view(CHAIN).unwrap().time()
    };
    assert_eq!(goes_on(1_000_000, 1_000_000).await, Some(Millis(1_000_000)));
    assert_eq!(goes_on(1_002_000 + day, 1_002_000).await, Some(Millis(1_002_000)), "one is a day ahead");
    assert_eq!(goes_on(1_004_000, 1_004_000 + 30 * day).await, Some(Millis(1_004_000)));
    // With one endpoint its head says the time, whatever it is.
    let alone = World::new(None).await;
    let view = alone.engine.handle().view(CHAIN).unwrap();
    assert_eq!(view.time(), Some(view.head.timestamp));
}

/// Only so does the chain learn that a head which it gave is none.
#[tokio::test(start_paused = true)]
async fn a_head_that_cannot_be_followed_is_asked_for_by_its_hash() {
    let world = World::new(None).await;
    let asked = |number: u64| {
        let asked = world.chain.asked.lock().unwrap();
        asked.iter().filter(|at| **at == BlockAt::Hash(hash(number))).count()
    };
    assert_eq!(asked(100), 0, "one that can be followed is not");
    world.chain.unreadable.store(101, Ordering::SeqCst);
    world.chain.head.store(101, Ordering::SeqCst);
    world.pass(5).await;
    assert!(asked(101) >= 3, "at every look");
    assert_eq!(world.engine.handle().view(CHAIN).unwrap().head.at.number, 100);
}
