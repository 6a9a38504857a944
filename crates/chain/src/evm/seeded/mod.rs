//! The real pool of endpoints on made-up nodes that misbehave, in simulated time; one seed fixes all of it.
//!
//! Callers ask as the engine does. The nodes know what is true and when each of them was well, so the rules look from
//! outside: at what was handed on, at which node was asked when, and at what the health page says. Each mechanism has a
//! planted bug ([`super::planted`]) that some seed must find.

mod node;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::{Address, Bytes, keccak256};
use futures::future::{BoxFuture, join_all};
use landfall_core::attempt::Sealed;
use landfall_core::ports::chain::{BlockAt, Chain};
use landfall_core::ports::clock::Clock;
use landfall_core::view::{Block, BlockRef};
use landfall_core::witness::SecondWord;
use landfall_core::{Account, ChainId, Millis, Slot, TxHash};
use reqwest::Url;
use serde_json::Value;
use tokio::time::Instant;

use self::node::{LIMIT, Node, Truth};
use super::EvmChain;
use super::callers::Callers;
use super::config::Config;
use super::name::Name;
use super::planted::{self, Planted};
use super::pool::Pool;
use super::transport::{Link, MadeNode};

const OURS: ChainId = ChainId(31_337);
const LASTS: Duration = Duration::from_secs(200);
/// The most that a node may be behind the best without being asked last.
const MAX_LAG: u64 = 3;
const HEAD_MEMORY: Duration = Duration::from_secs(60);

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// As long as one node is good, there is an answer, and what is sent reaches a node.
    OneIsEnough,
    /// What is handed on is what the chain has.
    True,
    /// A word that is said to be known to two is no word of the one that lies.
    KnownToTwo,
    /// Nothing is handed on that is older than what was.
    NeverOlder,
    /// A breaker opens after five lost answers in a row, and for nothing else: a node's "no" is an answer.
    OpensForLossesOnly,
    /// A node that loses its answers is left alone for a while.
    LeftAlone,
    /// Then one question at a time is let through.
    OneDecides,
    /// A node that is well again is in use again.
    TriedAgain,
    /// A node that asks for patience is left alone for as long as it asks.
    PatienceIsGranted,
}

/// What was seen in a run.
#[derive(Default)]
pub(super) struct Book {
    questions: u64,
    /// Every question, node and time.
    trace: DefaultHasher,
    violations: Vec<(Rule, String)>,
}

impl Book {
    fn asked(&mut self, node: usize, after: Duration, body: &Value) {
        self.questions += 1;
        self.trace.write(format!("{after:?} {node} {body}").as_bytes());
    }

    fn violated(&mut self, rule: Rule, text: String) {
        self.violations.push((rule, text));
    }
}

/// `SplitMix64`: a run's whole future follows from its seed.
pub(super) struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low)
    }

    fn chance(&mut self, permille: u64) -> bool {
        self.range(0, 1_000) < permille
    }
}

struct TheTime(Instant);

impl Clock for TheTime {
    fn now(&self) -> Millis {
        Millis(1_800_000_000_000).after(self.0.elapsed())
    }
}

/// What callers ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Head,
    Safe,
    Final,
    Count,
    Receipts,
    BlockReceipts,
    Send,
}

struct World {
    truth: Truth,
    chain: EvmChain,
    nodes: Vec<Arc<Node>>,
    book: Arc<Mutex<Book>>,
    handed: Mutex<BTreeMap<Kind, (u64, Instant)>>,
    sent: Mutex<u64>,
}

impl World {
    fn new(rng: &mut Rng) -> Self {
        let book = Arc::new(Mutex::new(Book::default()));
        let truth = Truth { begun: Instant::now(), block_ms: rng.range(300, 4_000) };
        let count = rng.range(1, 5);
        // In some worlds one node is always well.
        let steady = rng.range(0, count * 2);
        // In some one of several lies in what it says.
        let liar = (count > 1).then(|| rng.range(0, count * 2));
        let nodes: Vec<Arc<Node>> = (0..count)
            .map(|at| {
                let book = Arc::clone(&book);
                let mut node = Node::new(usize::try_from(at).unwrap(), truth, at == steady, rng, book);
                node.false_witness = liar == Some(at);
                Arc::new(node)
            })
            .collect();
        let urls = (0..count).map(|at| format!("http://node-{at}.invalid")).collect();
        let config = Config {
            request_timeout: LIMIT,
            max_lag: MAX_LAG,
            head_memory: HEAD_MEMORY,
            ..Config::new(OURS, urls)
        };
        let links = nodes.iter().zip(&config.endpoints).map(|(node, url)| {
            (Name::of(&Url::parse(url).unwrap()), Link::Made(Arc::clone(node) as Arc<dyn MadeNode>))
        });
        let clock: Arc<dyn Clock> = Arc::new(TheTime(truth.begun));
        let pool = Arc::new(Pool::over(&config, Arc::clone(&clock), links.collect()).unwrap());
        let callers = || Callers::over(&config, &pool, &clock, Vec::new());
        let (questions, sends) = (callers(), callers());
        let chain = EvmChain::over(pool, questions, sends, &config);
        Self { truth, chain, nodes, book, handed: Mutex::default(), sent: Mutex::default() }
    }

    fn violated(&self, rule: Rule, text: String) {
        self.book.lock().unwrap().violated(rule, text);
    }

    fn surely_good(&self) -> Vec<bool> {
        self.nodes.iter().map(|node| node.is_surely_good()).collect()
    }

    /// One action of a caller, and what it must come to.
    async fn act(&self, kind: Kind) {
        let good = self.surely_good();
        let answered = match kind {
            Kind::Head => self.block(kind, BlockAt::Latest).await,
            Kind::Safe => self.block(kind, BlockAt::Safe).await,
            Kind::Final => self.block(kind, BlockAt::Finalized).await,
            Kind::Count => self.count().await,
            Kind::Receipts => self.receipts().await,
            Kind::BlockReceipts => self.block_receipts().await,
            Kind::Send => self.send().await,
        };
        let still_good = self.surely_good().into_iter().zip(good).any(|(now, before)| now && before);
        if let Err(why) = answered
            && still_good
        {
            self.violated(Rule::OneIsEnough, format!("{kind:?}: {why}"));
        }
    }

    async fn block(&self, kind: Kind, at: BlockAt) -> Result<(), String> {
        let found = self.chain.block(at).await.map_err(|error| error.to_string())?;
        let Block { at, .. } = found.ok_or("there is none")?;
        self.is_true(at);
        let now = Instant::now();
        let before = self.handed.lock().unwrap().insert(kind, (at.number, now));
        if let Some((number, then)) = before
            && at.number < number
            && now.saturating_duration_since(then) < HEAD_MEMORY
        {
            self.violated(Rule::NeverOlder, format!("{kind:?}: {} after {number}", at.number));
        }
        Ok(())
    }

    fn is_true(&self, block: BlockRef) {
        let head = self.truth.head(Instant::now());
        if block.hash != Truth::hash(block.number) || block.number > head {
            self.violated(Rule::True, format!("block {} ({}) at head {head}", block.number, block.hash));
        }
    }

    /// The newest block that was handed on.
    fn newest(&self) -> Option<BlockRef> {
        let (number, _) = self.handed.lock().unwrap().get(&Kind::Head).copied()?;
        Some(BlockRef { number, hash: Truth::hash(number) })
    }

    async fn count(&self) -> Result<(), String> {
        let Some(at) = self.newest() else { return Ok(()) };
        let accounts = [Account(Address::ZERO); 2];
        let counts = self.chain.counts(&accounts, &at).await.map_err(|error| error.to_string())?;
        if counts != [Slot(Truth::count(at.number)); 2] {
            self.violated(Rule::True, format!("count {counts:?} at block {}", at.number));
        }
        Ok(())
    }

    /// Of blocks that every node has that is not too far behind.
    async fn receipts(&self) -> Result<(), String> {
        let Some(at) = self.newest() else { return Ok(()) };
        let numbers = at.number - MAX_LAG - 2..=at.number - MAX_LAG;
        let hashes: Vec<TxHash> = numbers.map(|number| TxHash(Truth::tx(number))).collect();
        let found = self.chain.receipts(&hashes).await.map_err(|error| error.to_string())?;
        let missing = hashes.iter().any(|hash| found.iter().all(|receipt| receipt.hash != *hash));
        if missing {
            let text = format!("{} of {} receipts, up to {}", found.len(), hashes.len(), at.number - MAX_LAG);
            self.violated(Rule::NeverOlder, text);
        }
        found.iter().for_each(|receipt| self.is_true(receipt.block));
        Ok(())
    }

    async fn block_receipts(&self) -> Result<(), String> {
        let Some(at) = self.newest() else { return Ok(()) };
        let found = self.chain.block_receipts(&at).await.map_err(|error| error.to_string())?;
        if found.len() != 1 || found.iter().any(|receipt| receipt.block != at) {
            self.violated(Rule::True, format!("receipts of block {}: {found:?}", at.number));
        }
        // One endpoint may lie; that two say so may not be said of it.
        let words = self.chain.second(&found).await;
        for (receipt, word) in found.iter().zip(words) {
            let is_false = match &word {
                SecondWord::Same => !receipt.success,
                SecondWord::Wrong(other) => {
                    receipt.success || other.as_ref().is_none_or(|other| !other.success)
                }
                SecondWord::Differs(_) | SecondWord::Lacking { .. } => false,
            };
            if is_false {
                self.violated(Rule::KnownToTwo, format!("{receipt:?}: {word:?}"));
            }
        }
        Ok(())
    }

    async fn send(&self) -> Result<(), String> {
        let number = {
            let mut sent = self.sent.lock().unwrap();
            *sent += 1;
            *sent
        };
        let raw = Bytes::from(number.to_be_bytes());
        let hash = TxHash(keccak256(&raw));
        let reports = self.chain.send(&[Sealed { raw: raw.clone(), hash }]).await;
        let shown = raw.to_string();
        if self.nodes.iter().any(|node| node.has_received(&shown)) {
            Ok(())
        } else {
            Err(format!("{reports:?}"))
        }
    }

    /// What the health page says of each node fits what that node knows.
    fn look_at_health(&self) {
        for (node, health) in self.nodes.iter().zip(self.chain.endpoints()) {
            let lost = node.lost_in_a_row();
            if health.breaker_open && lost < 5 {
                let text = format!("node {} with {lost} lost answers in a row", node.at);
                self.violated(Rule::OpensForLossesOnly, text);
            }
            if node.is_surely_good() && (!health.usable || health.breaker_open) {
                self.violated(Rule::TriedAgain, format!("node {}: {health:?}", node.at));
            }
        }
    }
}

/// What a run came to.
struct Report {
    questions: u64,
    trace: u64,
    violations: Vec<(Rule, String)>,
}

fn run(seed: u64, bug: Option<Planted>) -> Report {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    planted::with(bug, || runtime.block_on(live(seed)))
}

async fn live(seed: u64) -> Report {
    let mut rng = Rng(seed);
    let world = World::new(&mut rng);
    let others = [Kind::Safe, Kind::Final, Kind::Count, Kind::Receipts, Kind::BlockReceipts, Kind::Send];
    while world.truth.begun.elapsed() < LASTS {
        // The head is looked at by one, again and again; some others ask beside it, and some ask for the same often.
        let mut kinds = vec![Kind::Head];
        for kind in others {
            if rng.chance(250) {
                kinds.push(kind);
            }
        }
        let acts: Vec<BoxFuture<'_, ()>> =
            kinds.into_iter().map(|kind| Box::pin(world.act(kind)) as BoxFuture<'_, ()>).collect();
        join_all(acts).await;
        if rng.chance(100) {
            for _ in 0..rng.range(2, 12) {
                world.act(Kind::Send).await;
            }
        }
        world.look_at_health();
        tokio::time::sleep(Duration::from_millis(rng.range(20, 700))).await;
    }
    let book = std::mem::take(&mut *world.book.lock().unwrap());
    Report { questions: book.questions, trace: book.trace.finish(), violations: book.violations }
}

#[test]
fn whatever_the_nodes_do_the_rules_hold() {
    let mut questions = 0;
    for seed in 0..40 {
        let report = run(seed, None);
        questions += report.questions;
        let mut shown = String::new();
        for (rule, text) in report.violations.iter().take(5) {
            writeln!(shown, "{rule:?}: {text}").unwrap();
        }
        assert!(report.violations.is_empty(), "seed {seed}:\n{shown}");
    }
    assert!(questions > 20_000, "too little was asked to mean anything: {questions}");
}

#[test]
fn the_same_seed_asks_the_same() {
    for seed in 0..5 {
        let (one, two) = (run(seed, None), run(seed, None));
        assert_eq!((one.questions, one.trace), (two.questions, two.trace), "seed {seed}");
    }
}

/// A planted bug is found within so many seeds.
const SEEDS: u64 = 100;

fn is_found(bug: Planted, by: Rule) {
    let finds = |seed: &u64| run(*seed, Some(bug)).violations.iter().any(|(rule, _)| *rule == by);
    let found = (0..SEEDS).find(finds);
    println!("{bug:?}: found by {by:?} at seed {found:?}");
    assert!(found.is_some(), "{bug:?} is not found by {by:?}");
}

macro_rules! teeth {
    ($($test:ident: $bug:ident by $rule:ident;)*) => {
        $(#[test]
        fn $test() {
            is_found(Planted::$bug, Rule::$rule);
        })*
    };
}

teeth! {
    a_no_that_counts_as_a_loss_is_found: NoIsALoss by OpensForLossesOnly;
    a_breaker_that_never_opens_is_found: NeverOpens by LeftAlone;
    a_breaker_that_stays_open_is_found: NeverTriedAgain by TriedAgain;
    a_breaker_that_lets_all_through_is_found: AllDecide by OneDecides;
    a_rest_that_is_ignored_is_found: RestIgnored by PatienceIsGranted;
    a_pool_that_asks_only_one_is_found: NoSecondEndpoint by OneIsEnough;
    another_node_in_the_place_of_one_is_found: IdentityKept by True;
    a_head_that_goes_back_is_found: OlderHeadTaken by NeverOlder;
    a_final_block_that_goes_back_is_found: OlderTagTaken by NeverOlder;
    a_count_of_an_older_block_is_found: OlderCountTaken by True;
    a_node_far_behind_that_says_none_is_found: LaggingSaysNone by NeverOlder;
    receipts_of_another_block_are_found: AnyBlockWillDo by True;
    a_receipt_by_the_word_of_one_is_found: OneGivesReceipts by KnownToTwo;
}
