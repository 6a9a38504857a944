//! Sends: to every endpoint at once, one report for each byte string, and "unknown" wherever it is not known.

use std::time::Duration;

use alloy_primitives::{Bytes, keccak256};
use landfall_core::TxHash;
use landfall_core::attempt::Sealed;
use landfall_core::outcome::SendOutcome::{self, *};
use landfall_core::outcome::SendReport;
use landfall_core::ports::chain::Chain;
use serde_json::{Value, json};

use crate::harness::stub::{Batches, Mood, Say, Stub};
use crate::harness::{chain, chain_with};

fn sealed(count: u8) -> Vec<Sealed> {
    (0..count)
        .map(|n| {
            let raw = Bytes::from(vec![2, n]);
            Sealed { hash: TxHash(keccak256(&raw)), raw }
        })
        .collect()
}

fn accept(params: &Value) -> Say {
    let raw: Bytes = serde_json::from_value(params[0].clone()).unwrap();
    Say::Result(json!(keccak256(raw)))
}

fn outcomes(reports: &[SendReport]) -> Vec<SendOutcome> {
    reports.iter().map(|report| report.outcome).collect()
}

/// What one endpoint does with sends.
enum Does {
    Accepts,
    Says(&'static str),
    Is(Mood),
}

async fn endpoint(does: Does) -> Stub {
    let stub = Stub::start().await;
    // Vetting comes first; a mood would spoil it.
    match does {
        Does::Accepts => stub.on("eth_sendRawTransaction", accept),
        Does::Says(text) => stub.on("eth_sendRawTransaction", move |_| Say::Error(-32000, text)),
        Does::Is(mood) => {
            let again = stub.clone();
            stub.on("eth_chainId", move |_| {
                again.mood(mood.clone());
                Say::Result(json!("0x7a69"))
            });
        }
    }
    stub
}

async fn merged(one: Does, two: Does) -> SendReport {
    let (one, two) = (endpoint(one).await, endpoint(two).await);
    let chain =
        chain_with(&[one.url(), two.url()], |config| config.request_timeout = Duration::from_millis(1_500));
    chain.send(&sealed(1)).await.remove(0)
}

#[tokio::test]
async fn answers_of_several_endpoints_become_one() {
    let silent = || Does::Is(Mood::Silent);
    let invalid = || Does::Says("intrinsic gas too low");
    let (taken, used, known, open, half_open, limited) = tokio::join!(
        merged(Does::Accepts, Does::Says("already known")),
        merged(Does::Accepts, Does::Says("nonce too low")),
        merged(silent(), Does::Says("already known")),
        merged(silent(), silent()),
        merged(invalid(), silent()),
        merged(invalid(), Does::Is(Mood::Limited(1))),
    );
    assert_eq!(outcomes(&[taken, used, known, open]), [Accepted, Accepted, AlreadyKnown, Unknown]);
    assert_eq!(outcomes(&[half_open, limited]), [Unknown, Invalid]);
}

#[tokio::test]
async fn a_batch_that_fails_as_a_whole_is_unknown_for_each() {
    let bad = [
        Mood::Http(502, "<html><body>502 Bad Gateway</body></html>"),
        Mood::Http(200, ""),
        Mood::Http(200, "[{\"jsonrpc\":\"2.0\",\"id\":"),
        Mood::Http(500, "nonce too low"),
    ];
    for mood in bad {
        let stub = endpoint(Does::Is(mood)).await;
        let reports = chain(&[stub.url()]).send(&sealed(3)).await;
        assert_eq!(outcomes(&reports), [Unknown, Unknown, Unknown]);
        assert!(reports.iter().all(|report| report.endpoint == stub.url() && report.text.is_some()));
    }
}

#[tokio::test]
async fn each_byte_string_gets_its_own_answer_in_order() {
    let stub = Stub::start().await;
    stub.on("eth_sendRawTransaction", |params| match params[0].as_str().unwrap() {
        "0x0201" => Say::Error(-32000, "nonce too low: next nonce 7, tx nonce 5"),
        "0x0202" => Say::Nothing,
        "0x0203" => Say::Error(-32000, "a text nobody knows"),
        _ => accept(params),
    });
    let reports = chain(&[stub.url()]).send(&sealed(5)).await;
    assert_eq!(outcomes(&reports), [Accepted, NonceTooLow, Unknown, Unknown, Accepted]);
    assert_eq!(reports[1].code, Some(-32000));
    assert_eq!(reports[1].text.as_deref(), Some("nonce too low: next nonce 7, tx nonce 5"));
    assert_eq!((stub.asked("["), stub.asked("eth_sendRawTransaction")), (1, 5));
}

#[tokio::test]
async fn a_node_that_names_another_hash_has_still_taken_the_bytes() {
    let stub = Stub::start().await;
    stub.on("eth_sendRawTransaction", |_| Say::Result(json!("0x00")));
    assert_eq!(outcomes(&chain(&[stub.url()]).send(&sealed(2)).await), [Accepted, Accepted]);
}

#[tokio::test]
async fn an_answer_that_names_no_hash_is_not_a_yes() {
    let stub = Stub::start().await;
    for answer in [json!(null), json!({}), json!(true)] {
        stub.on("eth_sendRawTransaction", move |_| Say::Result(answer.clone()));
        assert_eq!(outcomes(&chain(&[stub.url()]).send(&sealed(2)).await), [Unknown, Unknown]);
    }
}

#[tokio::test]
async fn an_endpoint_without_batches_is_asked_one_by_one_from_then_on() {
    for batches in [Batches::Refused, Batches::BadRequest] {
        let stub = endpoint(Does::Accepts).await;
        stub.batches(batches);
        let chain = chain(&[stub.url()]);
        for _ in 0..3 {
            assert_eq!(outcomes(&chain.send(&sealed(3)).await), [Accepted, Accepted, Accepted]);
        }
        assert_eq!((stub.asked("["), stub.asked("eth_sendRawTransaction")), (1, 9));
    }
}

#[tokio::test]
async fn a_batch_that_went_wrong_once_does_not_end_batches() {
    let stub = endpoint(Does::Accepts).await;
    stub.batches(Batches::Broken);
    let chain = chain(&[stub.url()]);
    assert_eq!(outcomes(&chain.send(&sealed(2)).await), [Accepted, Accepted]);
    stub.batches(Batches::Taken);
    assert_eq!(outcomes(&chain.send(&sealed(2)).await), [Accepted, Accepted]);
    assert_eq!((stub.asked("["), stub.asked("eth_sendRawTransaction")), (2, 4));
}

#[tokio::test]
async fn large_sends_are_cut_into_batches() {
    let stub = endpoint(Does::Accepts).await;
    let reports = chain(&[stub.url()]).send(&sealed(250)).await;
    assert!(reports.len() == 250 && reports.iter().all(|report| report.outcome == Accepted));
    assert_eq!(stub.asked("["), 3);
}

#[tokio::test]
async fn heavy_bytes_are_not_packed_into_one_batch() {
    let stub = endpoint(Does::Accepts).await;
    let heavy: Vec<_> = (0..3)
        .map(|n| {
            let raw = Bytes::from(vec![n; 300_000]);
            Sealed { hash: TxHash(keccak256(&raw)), raw }
        })
        .collect();
    assert_eq!(outcomes(&chain(&[stub.url()]).send(&heavy).await), [Accepted, Accepted, Accepted]);
    assert_eq!((stub.asked("["), stub.asked("eth_sendRawTransaction")), (0, 3));
}

#[tokio::test]
async fn a_slow_endpoint_gets_the_bytes_but_does_not_hold_up_the_answer() {
    let (slow, good) = (endpoint(Does::Is(Mood::Silent)).await, endpoint(Does::Accepts).await);
    let chain = chain_with(&[slow.url(), good.url()], |config| {
        config.request_timeout = Duration::from_secs(60);
        config.straggler_grace = Duration::from_millis(50);
    });
    let bytes = sealed(1);
    let sending = tokio::time::timeout(Duration::from_secs(20), chain.send(&bytes));
    assert_eq!(outcomes(&sending.await.expect("an answer in time")), [Accepted]);
}

#[tokio::test]
async fn nothing_is_sent_to_another_chain() {
    let foreign = endpoint(Does::Accepts).await;
    foreign.on("eth_chainId", |_| Say::Result(json!("0x1")));
    let chain = chain(&[foreign.url()]);
    for _ in 0..2 {
        let reports = chain.send(&sealed(1)).await;
        assert_eq!(outcomes(&reports), [Endpoint]);
        assert!(reports[0].text.as_ref().unwrap().contains("chain 1"), "{reports:?}");
    }
    assert_eq!(foreign.asked("eth_sendRawTransaction"), 0);
}

#[tokio::test]
async fn sending_nothing_asks_nobody() {
    let stub = Stub::start().await;
    assert!(chain(&[stub.url()]).send(&[]).await.is_empty());
    assert_eq!(stub.asked("eth_chainId"), 0);
}
