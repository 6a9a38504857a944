//! Endpoints in trouble: breakers, rate limits, lag, and what they turn out not to do.

use std::time::Duration;

use alloy_primitives::B256;
use landfall_core::ports::chain::{BlockAt, Chain};
use landfall_core::view::BlockRef;
use landfall_core::{Account, Slot, TxHash};
use serde_json::json;

use crate::harness::stub::{Batches, Mood, Say, Stub, block};
use crate::harness::{BOB, chain, chain_with, until};

const AT: BlockRef = BlockRef { number: 5, hash: B256::repeat_byte(5) };

fn counting(stub: &Stub, count: &'static str) {
    stub.on("eth_getTransactionCount", move |_| Say::Result(json!(count)));
}

// covers: C11
#[tokio::test]
async fn after_five_lost_answers_an_endpoint_is_left_alone_and_then_tried_once_and_used_again() {
    let stub = Stub::start().await;
    counting(&stub, "0x2");
    let chain = chain(&[stub.url()]);
    stub.mood(Mood::Http(502, ""));
    for _ in 0..5 {
        assert!(chain.counts(&[Account(BOB)], &AT).await.is_err());
    }
    stub.mood(Mood::Answering);
    let error = chain.counts(&[Account(BOB)], &AT).await.unwrap_err().to_string();
    assert!(error.contains("HTTP 502"), "it says why it is left alone: {error}");
    assert_eq!(stub.asked("eth_chainId"), 0, "nothing reached it while its breaker was open");
    assert!(!chain.endpoints()[0].usable);
    let counts = until("answer", || async { chain.counts(&[Account(BOB)], &AT).await.ok() }).await;
    assert_eq!(counts, [Slot(2)]);
    assert!(chain.endpoints()[0].usable);
}

// covers: C11
#[tokio::test]
async fn any_number_of_refusals_leaves_an_endpoint_in_use() {
    let stub = Stub::start().await;
    stub.on("eth_getTransactionCount", |_| Say::Error(-32603, "nonce too low"));
    let chain = chain(&[stub.url()]);
    for _ in 0..20 {
        assert!(chain.counts(&[Account(BOB)], &AT).await.is_err());
    }
    assert_eq!(stub.asked("eth_getTransactionCount"), 20);
    assert!(chain.endpoints()[0].usable);
}

#[tokio::test]
async fn an_endpoint_gets_no_more_requests_a_second_than_its_limit_and_batches_are_cut_to_it() {
    let stub = Stub::start().await;
    counting(&stub, "0x2");
    let limited = chain_with(&[stub.url()], |config| config.requests_per_s = vec![20]);
    let begun = tokio::time::Instant::now();
    let accounts = [Account(BOB); 50];
    assert_eq!(limited.counts(&accounts, &AT).await.unwrap().len(), 50);
    // One for the chain's id and fifty: a second's worth at once, the rest at the pace.
    assert!(begun.elapsed() >= Duration::from_millis(1_400), "{:?}", begun.elapsed());
    assert_eq!(stub.asked("eth_getTransactionCount"), 50);
    assert!(stub.asked("[") >= 3, "no batch is larger than a second's worth");
}

#[tokio::test]
async fn what_cannot_go_out_within_the_time_limit_goes_to_another_endpoint() {
    let (slow, other) = (Stub::start().await, Stub::start().await);
    counting(&slow, "0x1");
    counting(&other, "0x2");
    let both = chain_with(&[slow.url(), other.url()], |config| {
        config.requests_per_s = vec![1, 0];
        config.request_timeout = Duration::from_millis(200);
    });
    let mut said = Vec::new();
    for _ in 0..3 {
        said.push(both.counts(&[Account(BOB)], &AT).await.unwrap()[0]);
    }
    assert!(said.contains(&Slot(2)), "{said:?}");
    assert!(both.endpoints()[0].usable, "our own limit is not held against it");
}

// covers: G2, G3, G6
#[tokio::test]
async fn a_final_block_never_goes_back_because_another_endpoint_answered_and_laggards_are_asked_last() {
    let (ahead, behind) = (Stub::start().await, Stub::start().await);
    let finalized = |stub: &Stub, number: u64| {
        stub.on("eth_getBlockByNumber", move |params| {
            let number = if params[0] == json!("finalized") { number } else { 1_000 };
            Say::Result(block(number, B256::from(alloy_primitives::U256::from(number)), &[]))
        });
    };
    finalized(&ahead, 900);
    finalized(&behind, 700);
    counting(&behind, "0x1");
    counting(&ahead, "0x2");
    let chain = chain(&[behind.url(), ahead.url()]);
    chain.block(BlockAt::Latest).await.unwrap();
    let shown = chain.endpoints();
    assert_eq!((shown[0].finalized, shown[1].finalized), (Some(700), Some(900)));
    let counts = chain.counts(&[Account(BOB)], &AT).await;
    assert_eq!(counts, Ok(vec![Slot(2)]), "the one whose final block is far behind is asked last");
    let number =
        async || chain.block(BlockAt::Finalized).await.map(|block| block.map(|block| block.at.number));
    assert_eq!(number().await, Ok(Some(900)));
    ahead.mood(Mood::Http(500, ""));
    assert_eq!(number().await, Ok(None), "older than what was seen");
}

// covers: G1, G2, H1
#[tokio::test]
async fn an_endpoint_that_is_behind_cannot_say_that_there_is_no_receipt() {
    let (ahead, behind) = (Stub::start().await, Stub::start().await);
    ahead.head(100, B256::repeat_byte(1));
    behind.head(50, B256::repeat_byte(2));
    for stub in [&ahead, &behind] {
        stub.on("eth_getTransactionReceipt", |_| Say::Result(json!(null)));
    }
    let chain = chain(&[behind.url(), ahead.url()]);
    chain.block(BlockAt::Latest).await.unwrap();
    let hash = [TxHash(B256::repeat_byte(7))];
    assert_eq!(chain.receipts(&hash).await, Ok(vec![]), "both were asked");
    ahead.mood(Mood::Http(500, ""));
    assert!(chain.receipts(&hash).await.is_err(), "only the one that is behind answered");
}

// covers: G1
#[tokio::test]
async fn by_number_an_endpoint_that_has_not_reached_the_block_is_not_asked() {
    let (behind, ahead) = (Stub::start().await, Stub::start().await);
    behind.head(98, B256::repeat_byte(2));
    ahead.head(100, B256::repeat_byte(1));
    for (stub, count) in [(&behind, "0x1"), (&ahead, "0x2")] {
        stub.on("eth_getTransactionCount", move |params| {
            if params[1].is_object() {
                Say::Error(-32602, "invalid argument 1")
            } else {
                Say::Result(json!(count))
            }
        });
    }
    let chain = chain(&[behind.url(), ahead.url()]);
    chain.block(BlockAt::Latest).await.unwrap();
    let at = BlockRef { number: 100, hash: B256::repeat_byte(1) };
    assert_eq!(chain.counts(&[Account(BOB)], &at).await, Ok(vec![Slot(2)]));
}

// covers: B12, H9
#[tokio::test]
async fn what_an_endpoint_cannot_do_is_found_out_at_its_first_use_and_again_after_a_reconnect() {
    let stub = Stub::start().await;
    stub.on("eth_getBlockByNumber", |params| match params[0].as_str() {
        Some("latest") => Say::Result(block(5, AT.hash, &[])),
        _ => Say::Error(-32602, "invalid argument 0: unknown tag"),
    });
    let chain = chain(&[stub.url()]);
    chain.block(BlockAt::Latest).await.unwrap();
    let lacks = chain.endpoints()[0].lacks.clone();
    let all = [
        "eth_getBlockReceipts",
        "pending block",
        "eth_feeHistory",
        "safe block",
        "finalized block",
        "subscriptions",
    ];
    assert_eq!(lacks, all);
    let before = stub.asked("eth_getBlockByNumber");
    assert_eq!(chain.block(BlockAt::Finalized).await, Ok(None));
    assert_eq!(stub.asked("eth_getBlockByNumber"), before, "it is not asked for what it does not have");
    // A better node stands there after an outage.
    stub.mood(Mood::Http(502, ""));
    assert!(chain.block(BlockAt::Latest).await.is_err());
    stub.mood(Mood::Answering);
    stub.head(6, B256::repeat_byte(6));
    stub.on("eth_getBlockReceipts", |_| Say::Result(json!([])));
    stub.on("eth_feeHistory", |_| Say::Result(json!({})));
    chain.block(BlockAt::Latest).await.unwrap();
    assert_eq!(chain.endpoints()[0].lacks, ["subscriptions"]);
}

#[tokio::test]
async fn an_endpoint_that_refuses_large_batches_gets_smaller_ones() {
    let stub = Stub::start().await;
    counting(&stub, "0x2");
    stub.batches(Batches::AtMost(10));
    let chain = chain(&[stub.url()]);
    let accounts = [Account(BOB); 35];
    assert_eq!(chain.counts(&accounts, &AT).await.unwrap().len(), 35);
    let batches = stub.asked("[");
    assert_eq!(chain.counts(&accounts, &AT).await.unwrap().len(), 35);
    assert_eq!(stub.asked("[") - batches, 4, "35 in batches of ten");
    assert!(!chain.endpoints()[0].lacks.contains(&"batches"));
}

// covers: C5, C7
#[tokio::test]
async fn what_was_sent_is_shown_if_any_endpoint_shows_it_and_nobody_to_ask_is_an_error() {
    let (one, two) = (Stub::start().await, Stub::start().await);
    let here = B256::repeat_byte(1);
    one.on("eth_getTransactionByHash", |_| Say::Result(json!(null)));
    two.on("eth_getTransactionByHash", move |params| {
        Say::Result(if params[0] == json!(here) { json!({ "hash": here }) } else { json!(null) })
    });
    let chain = chain(&[one.url(), two.url()]);
    let asked = [here, B256::repeat_byte(2)].map(TxHash);
    assert_eq!(chain.pooled(&asked).await, Ok(vec![true, false]));
    one.mood(Mood::Http(500, ""));
    two.mood(Mood::Http(500, ""));
    assert!(chain.pooled(&asked).await.is_err());
    assert_eq!(chain.pooled(&[]).await, Ok(vec![]));
}

// covers: E7
#[tokio::test]
async fn delegated_accounts_are_told_by_their_code() {
    let stub = Stub::start().await;
    stub.on("eth_getCode", |params| {
        let delegated = params[0].as_str().unwrap().eq_ignore_ascii_case(&BOB.to_string());
        Say::Result(json!(if delegated {
            "0xef0100aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        } else {
            "0x6001"
        }))
    });
    let accounts = [Account(BOB), Account(alloy_primitives::Address::ZERO)];
    assert_eq!(chain(&[stub.url()]).delegated(&accounts, &AT).await, Ok(vec![true, false]));
}

// covers: L9, M4
#[tokio::test]
async fn a_rollups_fee_for_bytes_is_asked_of_its_contract() {
    let stub = Stub::start().await;
    stub.head(5, AT.hash);
    stub.on("eth_gasPrice", |_| Say::Result(json!("0x5")));
    stub.on("eth_call", |params| {
        assert_eq!(params[0]["to"], json!("0x420000000000000000000000000000000000000f"));
        let data = params[0]["data"].as_str().unwrap();
        let size = u64::from_str_radix(&data[data.len() - 16..], 16).unwrap();
        Say::Result(json!(format!("{:#066x}", 1_000 + size * 7)))
    });
    let rollup = chain_with(&[stub.url()], |config| {
        config.pricing.data_fee = landfall_chain::spec::DataFeeKind::OpStack;
        config.pricing.dynamic = false;
    });
    let head = rollup.block(BlockAt::Latest).await.unwrap().unwrap();
    let quote = rollup.fees(&head).await.unwrap();
    assert_eq!(quote.base_fee, None, "one price where the chain takes no others");
    assert_eq!(quote.data_cost(0), alloy_primitives::U256::from(1_000));
    assert_eq!(quote.data_cost(100), alloy_primitives::U256::from(1_700));
}
