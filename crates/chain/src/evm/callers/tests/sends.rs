//! Bytes that callers signed, and endpoints that do not want them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use alloy_primitives::B256;
use futures::future::join_all;
use landfall_core::outcome::SendOutcome;
use landfall_core::ports::chain::{AskError, Chain};
use serde_json::{Value, json};

use super::super::endpoint::Little;
use super::{Echo, Of, Sending, chain_on, engine_is_served, tx};

/// The answer to a transaction that nobody wants.
fn unwanted() -> Vec<Value> {
    let mut all = vec![json!({ "lose": true }), json!({ "silent": true })];
    for status in [401, 403, 429, 500, 503] {
        all.push(json!({ "status": status, "plain": true, "text": "unauthorized, rate limit" }));
        all.push(json!({ "status": status, "code": -32005, "text": "rate limit" }));
    }
    all
}

#[tokio::test(start_paused = true)]
async fn a_callers_transaction_that_is_turned_away_changes_nothing_for_the_engine_nor_for_other_callers() {
    let node = Arc::new(Echo::default());
    let chain = chain_on(std::slice::from_ref(&node), |_| {});
    engine_is_served(&chain).await;
    let before = chain.endpoints();
    let good = tx(&json!({ "hash": B256::repeat_byte(7) }));
    for words in unwanted() {
        for _ in 0..7 {
            let report = chain.send_for(&tx(&words), "greedy").await;
            assert!(matches!(report.outcome, SendOutcome::Endpoint | SendOutcome::Unknown), "{report:?}");
            assert_eq!(chain.endpoints(), before, "{words}");
        }
        engine_is_served(&chain).await;
        let report = chain.send_for(&good, "other").await;
        assert_eq!(report.outcome, SendOutcome::Accepted, "after {words}: {report:?}");
        let count = chain.ask("eth_getTransactionCount", &json!([]), &Sending("other")).await;
        assert_eq!(count.unwrap(), "\"0x2\"", "after {words}");
    }
    // Nor do questions, of whatever kind, hold a send up.
    node.limited.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        chain.ask("eth_call", &json!([]), &Of("greedy")).await.unwrap_err();
    }
    node.limited.store(false, Ordering::Relaxed);
    assert_eq!(chain.send_for(&good, "other").await.outcome, SendOutcome::Accepted);
    assert_eq!(chain.endpoints(), before);
}

#[tokio::test(start_paused = true)]
async fn a_callers_transaction_goes_to_every_endpoint_and_the_verdict_is_the_nodes() {
    let nodes = [Arc::new(Echo::default()), Arc::new(Echo::default())];
    let chain = chain_on(&nodes, |_| {});
    let refused = [
        ("nonce too low", SendOutcome::NonceTooLow),
        ("insufficient funds for gas * price + value", SendOutcome::InsufficientFunds),
        ("already known", SendOutcome::AlreadyKnown),
        ("nobody has ever said this", SendOutcome::Unknown),
        // Words that stand far behind in a long text count as well.
        (&format!("{} nonce too low", "very ".repeat(200)), SendOutcome::NonceTooLow),
    ];
    for (n, (text, outcome)) in refused.into_iter().enumerate() {
        let report = chain.send_for(&tx(&json!({ "text": text })), "").await;
        assert_eq!((report.outcome, report.code), (outcome, Some(-32000)), "{report:?}");
        assert!(nodes.iter().all(|node| node.asked.load(Ordering::Relaxed) == n + 1), "both were sent it");
    }
}

#[tokio::test(start_paused = true)]
async fn one_key_whose_transactions_take_for_ever_holds_no_other_up() {
    let node = Arc::new(Echo::default());
    let chain = chain_on(std::slice::from_ref(&node), |config| config.callers.at_once = 8);
    let silent = tx(&json!({ "silent": true }));
    let greedy = join_all((0..100).map(|_| chain.send_for(&silent, "greedy")));
    tokio::pin!(greedy);
    assert!(futures::poll!(&mut greedy).is_pending());
    tokio::task::yield_now().await;
    assert!(futures::poll!(&mut greedy).is_pending());
    assert_eq!(node.asked.load(Ordering::Relaxed), 2, "a quarter of the places");
    let began = tokio::time::Instant::now();
    let good = tx(&json!({ "hash": B256::repeat_byte(7) }));
    let report = chain.send_for(&good, "other").await;
    assert_eq!(report.outcome, SendOutcome::Accepted, "{report:?}");
    assert!(began.elapsed() < Duration::from_secs(1));
    let told = greedy.await.into_iter().filter(|report| report.outcome == SendOutcome::Endpoint);
    assert!(told.count() >= 100 - 2 - 8, "those that found no place were not sent");
}

/// Words to the first and to the second of two nodes, whose answer a caller is told.
async fn told_of_two(first: Value, second: Value) -> (SendOutcome, Option<i64>) {
    let nodes = [first, second].map(|words| Arc::new(Echo { sends: Some(words), ..Echo::default() }));
    let report = chain_on(&nodes, |_| {}).send_for(&tx(&json!({})), "").await;
    (report.outcome, report.code)
}

#[tokio::test(start_paused = true)]
async fn a_caller_is_told_no_only_if_no_endpoint_may_have_its_transaction() {
    let poor = json!({ "text": "insufficient funds for gas * price + value" });
    let lost = json!({ "lose": true });
    let gone = json!({ "status": 403, "plain": true, "text": "forbidden" });
    let lacks = json!({ "code": -32601, "text": "the method eth_sendRawTransaction does not exist/is not available" });
    let (poor, lost, gone, lacks) = (&poor, &lost, &gone, &lacks);
    for (first, second, told) in [
        (poor, poor, (SendOutcome::InsufficientFunds, Some(-32000))),
        (lost, poor, (SendOutcome::Unknown, None)),
        (poor, lost, (SendOutcome::Unknown, None)),
        (gone, poor, (SendOutcome::InsufficientFunds, Some(-32000))),
        (lacks, poor, (SendOutcome::InsufficientFunds, Some(-32000))),
        (lacks, lacks, (SendOutcome::NodePolicy, Some(-32601))),
        (lost, lacks, (SendOutcome::Unknown, None)),
    ] {
        assert_eq!(told_of_two(first.clone(), second.clone()).await, told, "{first} {second}");
    }
    // The other one may take it later.
    let (outcome, _) = told_of_two(gone.clone(), lacks.clone()).await;
    assert_eq!(outcome, SendOutcome::Endpoint);
}

#[tokio::test(start_paused = true)]
async fn that_an_endpoint_takes_no_transactions_is_said_once_for_each_reason() {
    let node = Arc::new(Echo::default());
    let chain = chain_on(std::slice::from_ref(&node), |_| {});
    let endpoint = &chain.sends.endpoints[0];
    assert!(endpoint.is_news(SendOutcome::Endpoint, None));
    assert!(endpoint.is_news(SendOutcome::Endpoint, Some(-32601)));
    assert!(!endpoint.is_news(SendOutcome::Endpoint, None));
    for code in 0..1_000 {
        endpoint.is_news(SendOutcome::Unknown, Some(code));
    }
    assert!(!endpoint.is_news(SendOutcome::Unknown, Some(1_000)), "codes that a node makes up have an end");
    tokio::time::advance(Duration::from_secs(3_600)).await;
    assert!(endpoint.is_news(SendOutcome::Endpoint, None), "if it goes on it is said again");
}

#[tokio::test(start_paused = true)]
async fn every_endpoint_is_asked_where_one_word_is_not_enough() {
    let (good, dead) = (Arc::new(Echo::default()), Arc::new(AtomicBool::new(true)));
    let silent = Arc::new(Echo { dead: Some(dead), ..Echo::default() });
    let chain = chain_on(&[good.clone(), silent, good], |_| {});
    let counts = chain.ask_each("eth_getTransactionCount", &json!([]), &Sending("me")).await;
    let said: Vec<Option<&str>> =
        counts.iter().map(|count| count.as_ref().ok().map(String::as_str)).collect();
    assert_eq!(said, [Some("\"0x2\""), None, Some("\"0x2\"")]);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_answers_at_length_takes_no_room_from_the_others() {
    let says = |length: usize| {
        let words = Some(json!({ "hash": "1".repeat(length) }));
        Arc::new(Echo { sends: words, ..Echo::default() })
    };
    let chain = chain_on(&[says(65_000), says(2_000), says(66_000)], |_| {});
    let room = Little::of(64 << 10);
    let said = chain.ask_each("eth_sendRawTransaction", &json!(["0x"]), &room).await;
    assert!(said[0].is_ok() && said[1].is_ok(), "{said:?}");
    assert!(matches!(said[2], Err(AskError::NoRoom(_))), "it has answered: {:?}", said[2]);
}
