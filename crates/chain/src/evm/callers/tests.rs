//! Callers that want to harm, against nodes that repeat every word they are told.

mod sends;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use alloy_primitives::{Address, B256, hex};
use async_trait::async_trait;
use futures::future::join_all;
use landfall_core::attempt::Sealed;
use landfall_core::ports::chain::{AskError, Chain, NoRoom, Room, Way};
use landfall_core::ports::clock::Clock;
use landfall_core::view::BlockRef;
use landfall_core::{Account, ChainId, Millis, Slot, TxHash};
use reqwest::{StatusCode, Url};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::Callers;
use crate::evm::EvmChain;
use crate::evm::config::Config;
use crate::evm::name::Name;
use crate::evm::pool::Pool;
use crate::evm::transport::{Link, MadeNode};

const OURS: ChainId = ChainId(31_337);
const AT: BlockRef = BlockRef { number: 5, hash: B256::repeat_byte(5) };
/// Texts that mean something where the engine hears them.
const WORDS: [&str; 9] = [
    "unauthorized",
    "rate limit",
    "too many requests",
    "header not found",
    "syncing",
    "nonce too low",
    "limit exceeded",
    "invalid api key",
    "method not found",
];

struct Still;

impl Clock for Still {
    fn now(&self) -> Millis {
        Millis(1_800_000_000_000)
    }
}

/// As much room as there is, and how often it was begun anew.
struct Plenty;

impl Room for Plenty {
    fn take(&self, _bytes: usize) -> Result<(), NoRoom> {
        Ok(())
    }
    fn begin_anew(&self) {}
}

/// The same for one of the callers' keys.
struct Of(&'static str);

impl Room for Of {
    fn take(&self, _bytes: usize) -> Result<(), NoRoom> {
        Ok(())
    }
    fn begin_anew(&self) {}
    fn owner(&self) -> &str {
        self.0
    }
}

/// The same on the way of what callers signed.
struct Sending(&'static str);

impl Room for Sending {
    fn take(&self, _bytes: usize) -> Result<(), NoRoom> {
        Ok(())
    }
    fn begin_anew(&self) {}
    fn owner(&self) -> &str {
        self.0
    }
    fn way(&self) -> Way {
        Way::Sends
    }
}

/// Answers the engine well, and does to callers whatever their questions say: `status`, `code`, `text`, or nothing at all.
#[derive(Default)]
struct Echo {
    asked: AtomicUsize,
    /// Callers' questions are answered when it is let, but for the price of gas.
    silent: Option<Arc<Semaphore>>,
    /// Nothing is answered at all.
    dead: Option<Arc<AtomicBool>>,
    /// The answer to every transaction, whatever it says.
    sends: Option<Value>,
    /// Everybody is asked for patience.
    limited: AtomicBool,
    /// Questions of every kind.
    posts: AtomicUsize,
}

#[async_trait]
impl MadeNode for Echo {
    async fn post(&self, body: Value) -> Option<(StatusCode, String, Option<Duration>)> {
        if let Value::Array(calls) = &body {
            let answers: Vec<Value> = calls
                .iter()
                .map(|call| json!({ "jsonrpc": "2.0", "id": call["id"], "result": "0x2" }))
                .collect();
            return Some((StatusCode::OK, json!(answers).to_string(), None));
        }
        self.posts.fetch_add(1, Ordering::Relaxed);
        if self.limited.load(Ordering::Relaxed) {
            let wait = Some(Duration::from_secs(300));
            return Some((StatusCode::TOO_MANY_REQUESTS, "slow down".to_owned(), wait));
        }
        let (id, method) = (&body["id"], body["method"].as_str().unwrap());
        let result = |result: Value| {
            let body = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
            Some((StatusCode::OK, body, None))
        };
        if let Some(dead) = &self.dead
            && dead.load(Ordering::Relaxed)
        {
            return std::future::pending().await;
        }
        match method {
            "eth_chainId" => return result(json!("0x7a69")),
            "eth_getTransactionCount" => return result(json!("0x2")),
            _ => {}
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(silent) = self.silent.as_ref().filter(|_| method != "eth_gasPrice") {
            silent.acquire().await.unwrap().forget();
        }
        let said = match self.sends.as_ref().filter(|_| method == "eth_sendRawTransaction") {
            Some(words) => words.clone(),
            None => told(&body["params"][0]),
        };
        if said["silent"] == true {
            return std::future::pending().await;
        }
        if said["hash"].is_string() {
            return result(said["hash"].clone());
        }
        if said["lose"] == true {
            return None;
        }
        let status = StatusCode::from_u16(said["status"].as_u64().unwrap_or(200) as u16).unwrap();
        let text = said["text"].as_str().unwrap_or(method);
        if said["plain"] == true {
            return Some((status, text.to_owned(), Some(Duration::from_secs(300))));
        }
        let mut error = json!({ "code": said["code"].as_i64().unwrap_or(-32000), "message": text });
        if !said["data"].is_null() {
            error["data"] = said["data"].clone();
        }
        let body = json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string();
        Some((status, body, None))
    }
}

/// The words in a question; those of a transaction are its bytes.
fn told(param: &Value) -> Value {
    let bytes = param.as_str().and_then(|bytes| hex::decode(bytes).ok());
    let words = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    words.unwrap_or_else(|| param.clone())
}

/// A transaction whose bytes are words to the node.
fn tx(said: &Value) -> Sealed {
    Sealed { raw: said.to_string().into_bytes().into(), hash: TxHash(B256::repeat_byte(7)) }
}

fn chain_on(nodes: &[Arc<Echo>], change: impl FnOnce(&mut Config)) -> EvmChain {
    let urls = (0..nodes.len()).map(|at| format!("http://node-{at}.invalid")).collect();
    let mut config = Config::new(OURS, urls);
    change(&mut config);
    let link = |at: usize| {
        let name = Name::of(&Url::parse(&config.endpoints[at]).unwrap());
        (name, Link::Made(Arc::clone(&nodes[at]) as Arc<dyn MadeNode>))
    };
    let clock: Arc<dyn Clock> = Arc::new(Still);
    let engines = (0..nodes.len()).map(link).collect();
    let pool = Arc::new(Pool::over(&config, Arc::clone(&clock), engines).unwrap());
    let callers = || {
        let own = (0..nodes.len()).map(|at| (link(at), Some(at))).collect();
        Callers::over(&config, &pool, &clock, own)
    };
    let (questions, sends) = (callers(), callers());
    EvmChain::over(pool, questions, sends, &config)
}

/// The engine's own question, answered at the first try.
async fn engine_is_served(chain: &EvmChain) {
    let counts = chain.counts(&[Account(Address::ZERO); 2], &AT).await;
    assert_eq!(counts.unwrap(), [Slot(2), Slot(2)]);
}

/// A caller's words to a node, made up from a number.
fn fuzzed(n: u64) -> (String, Value) {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut pick = |most: u64| {
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb).wrapping_add(1);
        (z >> 33) % most
    };
    let word = WORDS[pick(WORDS.len() as u64) as usize];
    let method = match pick(3) {
        0 => format!("eth_{}", word.replace(' ', "_")),
        1 => word.to_owned(),
        _ => "eth_call".to_owned(),
    };
    let status = [200, 200, 400, 401, 403, 404, 429, 500, 502, 503][pick(10) as usize];
    let code = [-32000, -32005, -32601, -32004, 429, 3][pick(6) as usize];
    let said = json!({
        "status": status, "code": code, "text": word, "plain": pick(2) == 0, "lose": pick(6) == 0,
    });
    (method, json!([said]))
}

fn how_many() -> u64 {
    if std::env::var_os("LANDFALL_THOROUGH").is_some() { 1_000_000 } else { 20_000 }
}

#[tokio::test(start_paused = true)]
async fn nothing_that_callers_ask_or_send_changes_what_the_engine_knows_of_its_endpoints() {
    let nodes = [Arc::new(Echo::default()), Arc::new(Echo::default())];
    let chain = chain_on(&nodes, |_| {});
    engine_is_served(&chain).await;
    let before = chain.endpoints();
    for n in 0..how_many() {
        let (method, params) = fuzzed(n);
        if n % 3 == 0 {
            assert!(!chain.send_for(&tx(&params[0]), "").await.outcome.is_taken());
        } else {
            chain.ask(&method, &params, &Plenty).await.unwrap_err();
        }
        if n % 100 == 0 {
            assert_eq!(chain.endpoints(), before, "{method} {params}");
        }
        if n % 1_000 == 0 {
            engine_is_served(&chain).await;
        }
        if n % 4 == 0 {
            // What the callers' own book rests is tried again.
            tokio::time::advance(Duration::from_secs(301)).await;
        }
    }
    assert_eq!(chain.endpoints(), before);
    assert!(nodes[0].asked.load(Ordering::Relaxed) > 1_000, "most of it reached the node");
    engine_is_served(&chain).await;
}

#[tokio::test(start_paused = true)]
async fn no_text_of_a_node_keeps_callers_from_it() {
    let node = Arc::new(Echo::default());
    let chain = chain_on(std::slice::from_ref(&node), |_| {});
    for word in WORDS {
        for (status, code) in [(200, -32000), (403, -32005), (400, 429), (500, -32603)] {
            let said = json!([{ "status": status, "code": code, "text": word }]);
            let answer = chain.ask("eth_call", &said, &Plenty).await.unwrap_err();
            assert_eq!(answer, AskError::Node { code, message: word.to_owned(), data: None });
        }
    }
    assert_eq!(node.asked.load(Ordering::Relaxed), WORDS.len() * 4, "it was asked each time, and once");
}

#[tokio::test(start_paused = true)]
async fn patience_that_every_question_is_asked_for_is_granted_to_callers_and_not_by_the_engine() {
    let node = Arc::new(Echo::default());
    let chain = chain_on(std::slice::from_ref(&node), |_| {});
    engine_is_served(&chain).await;
    let before = chain.endpoints();
    // Only this one is turned away: no other caller suffers for it.
    let limited = json!([{ "status": 429, "plain": true, "text": "slow down" }]);
    let said = chain.ask("eth_getLogs", &limited, &Plenty).await.unwrap_err().to_string();
    assert!(said.contains("HTTP 429: slow down"), "{said}");
    let other = chain.ask("eth_call", &json!([]), &Plenty).await.unwrap_err();
    assert!(matches!(other, AskError::Node { .. }), "{other:?}");
    node.limited.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        chain.ask("eth_call", &json!([]), &Plenty).await.unwrap_err();
    }
    let posts = node.posts.load(Ordering::Relaxed);
    for _ in 0..10 {
        let said = chain.ask("eth_call", &json!([]), &Plenty).await.unwrap_err().to_string();
        assert!(said.contains("slow down"), "{said}");
    }
    assert_eq!(node.posts.load(Ordering::Relaxed), posts, "it is left alone");
    assert_eq!(chain.endpoints(), before);
}

#[tokio::test(start_paused = true)]
async fn callers_have_a_pace_of_their_own() {
    let node = Arc::new(Echo::default());
    let chain = chain_on(std::slice::from_ref(&node), |config| config.callers.requests_per_s = 10);
    let began = tokio::time::Instant::now();
    for _ in 0..41 {
        chain.ask("eth_call", &json!([]), &Plenty).await.unwrap_err();
    }
    // One question more goes out: which chain it is. A second's worth may go at once.
    assert!(began.elapsed() >= Duration::from_millis(3_100), "{:?}", began.elapsed());
    let began = tokio::time::Instant::now();
    let good = tx(&json!({ "hash": B256::repeat_byte(7) }));
    for n in 0..41 {
        assert!(chain.send_for(&good, "").await.outcome.is_taken());
        if n == 0 {
            assert_eq!(began.elapsed(), Duration::ZERO, "questions do not take the pace of sends");
        }
    }
    assert!(began.elapsed() >= Duration::from_millis(3_100), "{:?}", began.elapsed());
    engine_is_served(&chain).await;
}

#[tokio::test(start_paused = true)]
async fn no_secret_of_an_endpoint_reaches_a_caller_in_an_error() {
    const SECRET: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
    let node = Arc::new(Echo::default());
    let chain = chain_on(std::slice::from_ref(&node), |config| {
        config.endpoints = vec![format!("https://me:hunter22@node.invalid/v3/{SECRET}?token=topsecret")];
    });
    let words = format!("https://me:hunter22@node.invalid/v3/{SECRET}?token=topsecret is not to be had");
    let data = json!({ "url": words, "hunter22": [words, { "at": words }], "revert": "0x08c379a0" });
    let mut heard = Vec::new();
    for status in [200, 403, 429, 500] {
        for plain in [false, true] {
            let said = json!({ "status": status, "text": words, "data": data, "plain": plain });
            heard.push(format!("{:?}", chain.ask("eth_call", &json!([said]), &Plenty).await.unwrap_err()));
            heard.push(format!("{:?}", chain.send_for(&tx(&said), "").await));
        }
    }
    for text in &heard {
        assert!(
            !text.contains(SECRET) && !text.contains("hunter22") && !text.contains("topsecret"),
            "{text}"
        );
    }
    assert!(heard[0].contains("is not to be had") && heard[0].contains("0x08c379a0"), "{}", heard[0]);
}

#[test]
fn callers_questions_go_where_they_are_sent() {
    let mut config = Config::new(OURS, vec!["http://engines.invalid".into(), "ws://engines.invalid".into()]);
    assert_eq!(super::urls(&config), ["http://engines.invalid"]);
    config.callers.endpoints = vec!["http://callers.invalid".into()];
    assert_eq!(super::urls(&config), ["http://callers.invalid"]);
}

#[tokio::test(start_paused = true)]
async fn a_method_that_one_node_does_not_know_is_left_to_the_next_and_its_error_is_the_answer_if_none_does() {
    let nodes = [Arc::new(Echo::default()), Arc::new(Echo::default())];
    let chain = chain_on(&nodes, |_| {});
    let unknown = json!([{ "code": -32601, "text": "the method does not exist" }]);
    let said = chain.ask("eth_config", &unknown, &Plenty).await.unwrap_err();
    let wanted = AskError::Node { code: -32601, message: "the method does not exist".into(), data: None };
    assert_eq!(said, wanted);
    assert!(nodes.iter().all(|node| node.asked.load(Ordering::Relaxed) == 1));
}

#[tokio::test(start_paused = true)]
async fn callers_have_places_of_their_own_and_are_told_when_they_are_taken() {
    let silent = Arc::new(Semaphore::new(0));
    let node = Arc::new(Echo { silent: Some(Arc::clone(&silent)), ..Echo::default() });
    let chain = chain_on(std::slice::from_ref(&node), |config| config.callers.at_once = 2);
    let asking = join_all((0..11).map(|_| chain.ask("eth_getLogs", &Value::Null, &Plenty)));
    tokio::pin!(asking);
    assert!(futures::poll!(&mut asking).is_pending());
    for _ in 0..20 {
        tokio::task::yield_now().await;
        assert!(futures::poll!(&mut asking).is_pending());
    }
    assert_eq!(node.asked.load(Ordering::Relaxed), 2, "no more than there are places");
    engine_is_served(&chain).await;
    silent.add_permits(100);
    let said = asking.await;
    let busy = said.iter().filter(|said| matches!(said, Err(AskError::Busy(_)))).count();
    assert_eq!(busy, 1, "eight wait, and the last is told: {said:?}");
    let text = said[10].as_ref().unwrap_err().to_string();
    assert!(text.contains("rpc.max_at_once") && text.contains("was not asked"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_node_costs_callers_their_time_limit_and_the_engine_nothing() {
    let node = Arc::new(Echo { silent: Some(Arc::new(Semaphore::new(0))), ..Echo::default() });
    let chain = chain_on(std::slice::from_ref(&node), |config| {
        config.callers.answer_time = Duration::from_secs(3);
    });
    engine_is_served(&chain).await;
    let before = chain.endpoints();
    for _ in 0..10 {
        let begun = tokio::time::Instant::now();
        chain.ask("eth_getLogs", &Value::Null, &Plenty).await.unwrap_err();
        assert!(begun.elapsed() <= Duration::from_secs(3));
    }
    assert_eq!(chain.endpoints(), before);
    engine_is_served(&chain).await;
}

#[tokio::test(start_paused = true)]
async fn one_key_with_questions_that_take_for_ever_holds_no_other_up() {
    let node = Arc::new(Echo { silent: Some(Arc::new(Semaphore::new(0))), ..Echo::default() });
    let chain = chain_on(std::slice::from_ref(&node), |config| {
        config.callers.at_once = 8;
        config.callers.answer_time = Duration::from_secs(3);
    });
    let greedy = join_all((0..100).map(|_| chain.ask("eth_getLogs", &Value::Null, &Of("greedy"))));
    tokio::pin!(greedy);
    assert!(futures::poll!(&mut greedy).is_pending());
    tokio::task::yield_now().await;
    assert!(futures::poll!(&mut greedy).is_pending());
    assert_eq!(node.asked.load(Ordering::Relaxed), 2, "a quarter of the places");
    let began = tokio::time::Instant::now();
    let said = chain.ask("eth_gasPrice", &json!([]), &Of("other")).await.unwrap_err();
    assert!(matches!(said, AskError::Node { .. }) && began.elapsed() < Duration::from_secs(1), "{said:?}");
    let said = greedy.await;
    let told = said.iter().filter(|said| {
        matches!(said, Err(AskError::Busy(text)) if text.contains("this API key") && text.contains("a quarter"))
    });
    assert_eq!(told.count(), 100 - 2 - 8, "{said:?}");
    // That it took so long says nothing of the endpoint.
    let said = chain.ask("eth_gasPrice", &json!([]), &Of("other")).await.unwrap_err();
    assert!(matches!(said, AskError::Node { .. }), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_answers_nothing_at_all_is_left_for_the_next() {
    let dead = Arc::new(AtomicBool::new(false));
    let nodes = [Arc::new(Echo { dead: Some(dead.clone()), ..Echo::default() }), Arc::new(Echo::default())];
    let chain = chain_on(&nodes, |config| config.callers.answer_time = Duration::from_secs(5));
    assert!(matches!(chain.ask("eth_call", &json!([]), &Plenty).await, Err(AskError::Node { .. })));
    dead.store(true, Ordering::Relaxed);
    // The first to ask waits for all of its time.
    chain.ask("eth_call", &json!([]), &Plenty).await.unwrap_err();
    for _ in 0..5 {
        let began = tokio::time::Instant::now();
        let said = chain.ask("eth_call", &json!([]), &Plenty).await.unwrap_err();
        assert!(matches!(said, AskError::Node { .. }), "the other is asked: {said:?}");
        assert!(began.elapsed() <= Duration::from_secs(2), "{:?}", began.elapsed());
    }
    let began = tokio::time::Instant::now();
    chain.ask("eth_call", &json!([]), &Plenty).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(1), "it is known not to answer, and left alone");
}

#[tokio::test]
async fn an_answer_that_there_is_no_room_for_is_not_asked_for_elsewhere() {
    struct Small;
    impl Room for Small {
        fn take(&self, bytes: usize) -> Result<(), NoRoom> {
            let text = "too long".to_owned();
            if bytes > 50 { Err(NoRoom { setting: "rpc.max_answer_bytes", text }) } else { Ok(()) }
        }
        fn begin_anew(&self) {}
    }
    let nodes = [Arc::new(Echo::default()), Arc::new(Echo::default())];
    let chain = chain_on(&nodes, |_| {});
    let said = chain.ask("eth_getLogs", &json!([{ "text": "x".repeat(100) }]), &Small).await.unwrap_err();
    assert!(matches!(said, AskError::NoRoom(NoRoom { setting: "rpc.max_answer_bytes", .. })), "{said:?}");
    assert_eq!(nodes[1].asked.load(Ordering::Relaxed), 0);
}
