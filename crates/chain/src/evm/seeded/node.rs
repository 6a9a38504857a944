//! A made-up node: what it shows, its moods, and what it notices about how it is asked.
//!
//! A node never shows less than it has shown before, as long as it serves the same chain: it is stuck, or it is at the
//! chain's head. What becomes of a question is decided when it arrives.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use alloy_primitives::{B256, keccak256};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::transport::MadeNode;
use super::{Book, OURS, Rng, Rule};

/// How long a question may take.
pub(super) const LIMIT: Duration = Duration::from_secs(1);
/// So many lost answers in a row open a breaker, which stays open for at least this long.
const LOSSES: u32 = 5;
const OPEN_FOR: Duration = Duration::from_secs(1);
/// An action that had begun when a node asked for patience is over by then.
const LONGEST_ACTION: Duration = Duration::from_secs(10);
/// How long an endpoint of another chain is left alone.
const FOREIGN_REST: Duration = Duration::from_secs(30);
/// One that has been well for this long is in use again, whatever was before.
const SURELY_BACK: Duration = Duration::from_secs(40);

const ANOTHER: u64 = 5;
const SAFE: u64 = 2;
const FINAL: u64 = 6;

/// What a healthy node says no with.
const NOES: &[(i64, &str)] = &[
    (-32000, "nonce too low"),
    (-32603, "execution reverted"),
    (3, "execution reverted: not today"),
    (-32000, "insufficient funds for gas * price + value"),
    (-32603, "replacement transaction underpriced"),
    (-32010, "words that nobody has heard before"),
];

/// The chain as it is: one block after the other, one transaction in each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Truth {
    pub(super) begun: Instant,
    pub(super) block_ms: u64,
}

impl Truth {
    pub(super) fn head(&self, now: Instant) -> u64 {
        let passed = u64::try_from(now.saturating_duration_since(self.begun).as_millis()).unwrap();
        100 + passed / self.block_ms
    }

    pub(super) fn hash(number: u64) -> B256 {
        named(OF_BLOCK, number)
    }

    pub(super) fn tx(number: u64) -> B256 {
        named(OF_TX, number)
    }

    pub(super) fn count(number: u64) -> u64 {
        number * 3
    }
}

const OF_BLOCK: u8 = 0xb1;
const OF_TX: u8 = 0x71;
const OF_FORK: u8 = 0xf0;
const OF_ANOTHER: u8 = 0xaa;

/// A hash that says what it is of.
fn named(kind: u8, number: u64) -> B256 {
    let mut bytes = [kind; 32];
    bytes[24..].copy_from_slice(&number.to_be_bytes());
    B256::from(bytes)
}

/// What a hash of this kind is of.
fn number_of(kind: u8, hash: &Value) -> Option<u64> {
    let hash: B256 = hash.as_str()?.parse().ok()?;
    let number = u64::from_be_bytes(hash[24..].try_into().ok()?);
    (named(kind, number) == hash).then_some(number)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Good,
    /// It answers, and its head stands still.
    Stuck(u64),
    /// It answers late, though in time.
    Slow,
    /// Connections break at once.
    Broken,
    /// Nothing comes back.
    Silent,
    /// Every third answer is lost.
    Flaky,
    /// It asks for patience.
    Limited,
    /// Another node stands there, which serves another chain.
    OtherChain,
    /// It answers with receipts of other blocks.
    Lying,
}

pub(super) struct Node {
    pub(super) at: usize,
    truth: Truth,
    /// It takes no block hashes where a state is asked for, and answers for the newest block it has instead of a later.
    by_number: bool,
    /// Whatever is sent to it, it says no.
    grumbles: bool,
    /// It is always well.
    steady: bool,
    /// Every status that it shows is wrong, whatever its mood. There is one such node at most.
    pub(super) false_witness: bool,
    book: Arc<Mutex<Book>>,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    mood: Mood,
    since: Instant,
    until: Instant,
    told_patience: Option<(Instant, Instant)>,
    /// Answers lost in a row, and when the fifth was, or the newest of a question that came after it.
    lost: u32,
    open_since: Option<Instant>,
    /// Questions that arrived since then and are under way.
    deciding: Vec<Instant>,
    received: BTreeSet<String>,
}

impl Node {
    pub(super) fn new(at: usize, truth: Truth, steady: bool, rng: &mut Rng, book: Arc<Mutex<Book>>) -> Self {
        let state = State {
            rng: Rng(rng.next()),
            mood: Mood::Good,
            since: truth.begun,
            until: truth.begun + Duration::from_millis(rng.range(0, 20_000)),
            told_patience: None,
            lost: 0,
            open_since: None,
            deciding: Vec::new(),
            received: BTreeSet::new(),
        };
        let (by_number, grumbles) = (rng.chance(300), rng.chance(500));
        Self { at, truth, by_number, grumbles, steady, false_witness: false, book, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap();
        let now = Instant::now();
        while !self.steady && state.until <= now {
            let (from, at) = (state.mood, state.until);
            state.mood = self.next_mood(&mut state, at);
            // What answers well and what is only less well are one long spell.
            if state.mood != Mood::Good || from != Mood::Good {
                state.since = at;
            }
            let long = if state.mood == Mood::Good { 60_000 } else { 25_000 };
            let lasting = state.rng.range(500, long);
            state.until = at + Duration::from_millis(lasting);
        }
        state
    }

    fn next_mood(&self, state: &mut State, at: Instant) -> Mood {
        // Another node may take a node's place only where that can be noticed.
        let out_of_reach = state.mood == Mood::Broken && state.lost >= 2;
        match state.rng.range(0, 14) {
            0 | 1 => Mood::Stuck(self.truth.head(at)),
            2 => Mood::Slow,
            3 | 4 => Mood::Broken,
            5 | 6 => Mood::Silent,
            7 => Mood::Flaky,
            8 => Mood::Limited,
            9 => Mood::Lying,
            10 | 11 if out_of_reach => Mood::OtherChain,
            _ => Mood::Good,
        }
    }

    /// It has been well for so long that nothing of what was before keeps it out of use.
    pub(super) fn is_surely_good(&self) -> bool {
        let state = self.state();
        let now = Instant::now();
        let rests = state.told_patience.is_some_and(|(_, until)| now < until + LONGEST_ACTION);
        let long_ago = self.steady || now.saturating_duration_since(state.since) >= SURELY_BACK;
        state.mood == Mood::Good && long_ago && !rests
    }

    pub(super) fn lost_in_a_row(&self) -> u32 {
        self.state().lost
    }

    pub(super) fn has_received(&self, raw: &str) -> bool {
        self.state().received.contains(raw)
    }

    fn violated(&self, rule: Rule, text: String) {
        self.book.lock().unwrap().violated(rule, format!("node {}: {text}", self.at));
    }

    /// A question arrives. Is it one that should have been kept back?
    fn begins(&self, state: &mut State, now: Instant) {
        if let Some((told, until)) = state.told_patience
            && now < until
            && now.saturating_duration_since(told) > LONGEST_ACTION
        {
            self.violated(Rule::PatienceIsGranted, format!("asked {:?} too early", until - now));
        }
        let Some(open_since) = state.open_since else { return };
        state.deciding.retain(|begun| now.saturating_duration_since(*begun) < LIMIT);
        if now < open_since + OPEN_FOR {
            self.violated(Rule::LeftAlone, format!("asked {:?} after the fifth loss", now - open_since));
        } else if !state.deciding.is_empty() {
            self.violated(Rule::OneDecides, format!("{} questions at once", state.deciding.len() + 1));
        }
        state.deciding.push(now);
    }

    fn loses(&self, begun: Instant) {
        let mut state = self.state.lock().unwrap();
        let now = Instant::now();
        state.lost += 1;
        let decided = state.deciding.iter().position(|other| *other == begun);
        if let Some(place) = decided {
            state.deciding.remove(place);
        }
        if state.lost == LOSSES || decided.is_some() {
            state.open_since = Some(now);
        }
    }

    fn answers(&self) {
        let mut state = self.state.lock().unwrap();
        state.lost = 0;
        state.open_since = None;
        state.deciding.clear();
    }

    fn head(&self, mood: Mood, now: Instant) -> u64 {
        match mood {
            Mood::Stuck(at) => at,
            Mood::OtherChain => 5_000_000,
            _ => self.truth.head(now),
        }
    }

    /// One question of a packet.
    fn say(&self, mood: Mood, asked_at: Instant, question: &Value, rng: &mut Rng) -> Value {
        let params = &question["params"];
        let head = self.head(mood, asked_at);
        let other = mood == Mood::OtherChain;
        let hash = |number| named(if other { OF_ANOTHER } else { OF_BLOCK }, number);
        let block = |number: u64| {
            json!({
                "number": format!("{number:#x}"), "hash": hash(number), "parentHash": hash(number - 1),
                "timestamp": "0x64", "gasLimit": "0x1c9c380", "baseFeePerGas": "0x7",
                "transactions": [Truth::tx(number)],
            })
        };
        let receipt = |number: u64| {
            let of = if mood == Mood::Lying { named(OF_FORK, number) } else { hash(number) };
            json!({
                "transactionHash": Truth::tx(number), "blockHash": of, "blockNumber": format!("{number:#x}"),
                "transactionIndex": "0x0", "status": if self.false_witness { "0x0" } else { "0x1" },
                "gasUsed": "0x5208", "effectiveGasPrice": "0x9",
            })
        };
        // Nodes know what is not above their head.
        let known =
            |kind: u8, wanted: &Value| number_of(kind, wanted).filter(|number| *number <= head && !other);
        let result = match question["method"].as_str().unwrap() {
            "eth_chainId" => json!(if other { format!("{ANOTHER:#x}") } else { format!("{:#x}", OURS.0) }),
            "eth_getBlockByNumber" => match params[0].as_str().unwrap() {
                "latest" | "pending" => block(head),
                "safe" => block(head - SAFE),
                "finalized" => block(head - FINAL),
                number => match u64::from_str_radix(&number[2..], 16).unwrap() {
                    number if number <= head => block(number),
                    _ => Value::Null,
                },
            },
            "eth_getBlockReceipts" => match known(OF_BLOCK, &params[0]) {
                Some(number) => json!([receipt(number)]),
                None => Value::Null,
            },
            "eth_getTransactionReceipt" => match known(OF_TX, &params[0]) {
                Some(number) if mood != Mood::Lying => receipt(number),
                Some(_) => return no(-32000, "its database is broken"),
                None => Value::Null,
            },
            "eth_getTransactionCount" => match (&params[1]["blockHash"], params[1].as_str()) {
                (_, Some(number)) => {
                    let number = u64::from_str_radix(&number[2..], 16).unwrap().min(head);
                    json!(format!("{:#x}", if other { 7 } else { Truth::count(number) }))
                }
                _ if self.by_number => return no(-32602, "invalid argument 1: cannot unmarshal object"),
                (wanted, None) => match known(OF_BLOCK, wanted) {
                    Some(number) => json!(format!("{:#x}", Truth::count(number))),
                    None => return no(-32000, "header not found"),
                },
            },
            "eth_sendRawTransaction" => {
                let raw = params[0].as_str().unwrap().to_owned();
                let hash = keccak256(&raw);
                self.state.lock().unwrap().received.insert(raw);
                if self.grumbles {
                    let (code, text) = NOES[usize::try_from(rng.range(0, NOES.len() as u64)).unwrap()];
                    return no(code, text);
                }
                json!(hash)
            }
            _ => Value::Null,
        };
        json!({ "result": result })
    }
}

fn no(code: i64, text: &str) -> Value {
    json!({ "error": { "code": code, "message": text } })
}

/// A question that is under way; given up unless it was answered.
struct UnderWay<'a> {
    node: &'a Node,
    begun: Instant,
    answered: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.node.loses(self.begun);
        }
    }
}

#[async_trait::async_trait]
impl MadeNode for Node {
    async fn post(&self, body: Value) -> Option<(StatusCode, String, Option<Duration>)> {
        let begun = Instant::now();
        let (mood, mut rng) = {
            let mut state = self.state();
            self.begins(&mut state, begun);
            (state.mood, Rng(state.rng.next()))
        };
        self.book.lock().unwrap().asked(self.at, begun - self.truth.begun, &body);
        let mut under_way = UnderWay { node: self, begun, answered: false };
        let latency = if mood == Mood::Slow { rng.range(300, 900) } else { rng.range(1, 40) };
        tokio::time::sleep(Duration::from_millis(latency)).await;
        let loses = match mood {
            Mood::Broken => true,
            Mood::Silent => std::future::pending().await,
            Mood::Flaky => rng.chance(333),
            _ => false,
        };
        if loses {
            return None;
        }
        if mood == Mood::Limited {
            // Neither lost nor an answer of a node.
            under_way.answered = true;
            let wait = Duration::from_secs(rng.range(2, 25));
            let now = Instant::now();
            let mut state = self.state.lock().unwrap();
            state.told_patience = Some((now, now + wait));
            state.deciding.retain(|other| *other != begun);
            return Some((StatusCode::TOO_MANY_REQUESTS, "slow down".to_owned(), Some(wait)));
        }
        let answer = |question: &Value, rng: &mut Rng| {
            let mut answer = self.say(mood, begun, question, rng);
            answer["jsonrpc"] = json!("2.0");
            answer["id"] = question["id"].clone();
            answer
        };
        let said = match &body {
            Value::Array(all) => all.iter().map(|question| answer(question, &mut rng)).collect(),
            one => answer(one, &mut rng),
        };
        if mood == Mood::OtherChain {
            let now = Instant::now();
            self.state.lock().unwrap().told_patience.replace((now, now + FOREIGN_REST));
        }
        under_way.answered = true;
        self.answers();
        Some((StatusCode::OK, said.to_string(), None))
    }
}
