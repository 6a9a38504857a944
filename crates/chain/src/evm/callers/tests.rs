//! Callers that want to harm, against nodes that repeat every word they are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use alloy_primitives::{Address, B256};
use async_trait::async_trait;
use futures::future::join_all;
use landfall_core::ports::chain::{AskError, Chain, NoRoom, Room};
use landfall_core::ports::clock::Clock;
use landfall_core::view::BlockRef;
use landfall_core::{Account, ChainId, Millis, Slot};
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

/// Answers the engine well, and does to callers whatever their questions say: `status`, `code`, `text`, or nothing at all.
#[derive(Default)]
struct Echo {
    asked: AtomicUsize,
    /// Callers' questions are answered when it is let, but for the price of gas.
    silent: Option<Arc<Semaphore>>,
    /// Nothing is answered at all.
    dead: Option<Arc<AtomicBool>>,
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
        let said = &body["params"][0];
        if said["lose"] == true {
            return None;
        }
        let status = StatusCode::from_u16(said["status"].as_u64().unwrap_or(200) as u16).unwrap();
        let text = said["text"].as_str().unwrap_or(method);
        if said["plain"] == true {
            return Some((status, text.to_owned(), Some(Duration::from_secs(300))));
        }
        let error = json!({ "code": said["code"].as_i64().unwrap_or(-32000), "message": text });
        let body = json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string();
        Some((status, body, None))
    }
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
    let own = (0..nodes.len()).map(|at| (link(at), Some(at))).collect();
    let callers = Callers::over(&config, &pool, &clock, own);
    EvmChain::over(pool, callers, &config)
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
async fn nothing_that_callers_ask_changes_what_the_engine_knows_of_its_endpoints() {
    let nodes = [Arc::new(Echo::default()), Arc::new(Echo::default())];
    let chain = chain_on(&nodes, |_| {});
    engine_is_served(&chain).await;
    let before = chain.endpoints();
    for n in 0..how_many() {
        let (method, params) = fuzzed(n);
        chain.ask(&method, &params, &Plenty).await.unwrap_err();
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
async fn a_status_that_asks_for_patience_is_granted_to_callers_questions_and_to_no_others() {
    let node = Arc::new(Echo::default());
    let chain = chain_on(std::slice::from_ref(&node), |_| {});
    let limited = json!([{ "status": 429, "plain": true, "text": "slow down" }]);
    let said = chain.ask("eth_getLogs", &limited, &Plenty).await.unwrap_err().to_string();
    assert!(said.contains("HTTP 429: slow down"), "{said}");
    chain.ask("eth_call", &json!([]), &Plenty).await.unwrap_err();
    assert_eq!(node.asked.load(Ordering::Relaxed), 1, "it is left alone");
    engine_is_served(&chain).await;
    assert!(chain.endpoints()[0].usable && chain.endpoints()[0].trouble.is_none());
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
