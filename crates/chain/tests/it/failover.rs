//! Reads: another endpoint is asked when one does not answer, and trouble is told from a node's "no".

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use alloy_primitives::B256;
use landfall_core::ports::chain::{BlockAt, Chain, Error};
use landfall_core::view::BlockRef;
use landfall_core::{Account, Slot, TxHash};
use serde_json::json;

use crate::harness::stub::{Mood, Say, Stub, receipt};
use crate::harness::{BOB, chain, chain_with};

const AT: BlockRef = BlockRef { number: 5, hash: B256::repeat_byte(5) };

fn counting(stub: &Stub, count: &'static str) {
    stub.on("eth_getTransactionCount", move |_| Say::Result(json!(count)));
}

#[tokio::test]
async fn a_read_goes_to_the_next_endpoint_when_one_is_broken() {
    let (broken, good) = (Stub::start().await, Stub::start().await);
    counting(&good, "0x7");
    let chain = chain_with(&[broken.url(), good.url()], |config| {
        config.request_timeout = Duration::from_secs(1);
    });
    let moods = [
        Mood::Http(502, "<html>bad gateway</html>"),
        Mood::Http(200, ""),
        Mood::Http(200, "{\"jso"),
        Mood::Silent,
    ];
    for mood in moods {
        broken.mood(mood);
        assert_eq!(chain.counts(&[Account(BOB)], &AT).await, Ok(vec![Slot(7)]));
    }
    let health = chain.endpoints();
    assert!(!health[0].usable && health[0].trouble.is_some(), "{health:?}");
    assert!(health[1].usable && health[1].trouble.is_none(), "{health:?}");
}

#[tokio::test]
async fn a_read_whose_answers_were_all_lost_is_asked_again() {
    let (one, two) = (Stub::start().await, Stub::start().await);
    let asked = Arc::new(AtomicU32::new(0));
    for stub in [&one, &two] {
        let asked = asked.clone();
        // The first answer of each is lost.
        stub.on("eth_getTransactionCount", move |_| match asked.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Say::Nothing,
            _ => Say::Result(json!("0x7")),
        });
    }
    let chain = chain(&[one.url(), two.url()]);
    assert_eq!(chain.counts(&[Account(BOB)], &AT).await, Ok(vec![Slot(7)]));
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_read_that_every_endpoint_refuses_is_not_asked_again() {
    let (one, two) = (Stub::start().await, Stub::start().await);
    let asked = Arc::new(AtomicU32::new(0));
    for stub in [&one, &two] {
        let asked = asked.clone();
        stub.on("eth_getTransactionCount", move |_| {
            asked.fetch_add(1, Ordering::Relaxed);
            Say::Error(-32000, "this account is not served here")
        });
    }
    let chain = chain(&[one.url(), two.url()]);
    assert!(chain.counts(&[Account(BOB)], &AT).await.is_err());
    assert_eq!(asked.load(Ordering::Relaxed), 2, "once at each");
}

#[tokio::test]
async fn an_endpoint_that_failed_is_asked_after_the_others() {
    let (first, second) = (Stub::start().await, Stub::start().await);
    // Code is asked of one endpoint alone: the answer says of which.
    first.on("eth_getCode", |_| Say::Result(json!("0x")));
    second.on("eth_getCode", |_| Say::Result(json!("0xef01000000000000000000000000000000000000000001")));
    let chain = chain(&[first.url(), second.url()]);
    assert_eq!(chain.delegated(&[Account(BOB)], &AT).await, Ok(vec![false]));
    first.mood(Mood::Http(503, ""));
    assert_eq!(chain.delegated(&[Account(BOB)], &AT).await, Ok(vec![true]));
    first.mood(Mood::Answering);
    assert_eq!(chain.delegated(&[Account(BOB)], &AT).await, Ok(vec![true]));
}

#[tokio::test]
async fn when_nobody_answers_the_error_says_what_each_endpoint_said() {
    let (one, two) = (Stub::start().await, Stub::start().await);
    one.mood(Mood::Http(500, "oops"));
    two.mood(Mood::Http(502, "gateway"));
    let chain = chain(&[one.url(), two.url()]);
    let Err(Error::Unreachable { text, .. }) = chain.counts(&[Account(BOB)], &AT).await else { panic!() };
    for part in [one.url(), two.url(), "HTTP 500: oops".into(), "HTTP 502: gateway".into()] {
        assert!(text.contains(&part), "{text} / {part}");
    }
}

#[tokio::test]
async fn a_rate_limit_is_left_alone_for_as_long_as_it_asks() {
    let (limited, other) = (Stub::start().await, Stub::start().await);
    counting(&other, "0x2");
    limited.mood(Mood::Limited(60));
    let both = chain(&[limited.url(), other.url()]);
    assert_eq!(both.counts(&[Account(BOB)], &AT).await, Ok(vec![Slot(2)]));
    limited.mood(Mood::Answering);
    let before = limited.asked("eth_chainId");
    assert_eq!(both.counts(&[Account(BOB)], &AT).await, Ok(vec![Slot(2)]));
    assert_eq!(limited.asked("eth_chainId"), before, "it was asked while it rests");
    assert!(both.endpoints()[0].trouble.as_ref().unwrap().contains("HTTP 429"));
}

#[tokio::test]
async fn a_rate_limit_inside_json_rpc_counts_and_a_nodes_no_does_not() {
    let (one, two) = (Stub::start().await, Stub::start().await);
    one.on("eth_getTransactionCount", |_| Say::Error(-32000, "some internal trouble"));
    counting(&two, "0x2");
    let chain = chain(&[one.url(), two.url()]);
    assert_eq!(chain.counts(&[Account(BOB)], &AT).await, Ok(vec![Slot(2)]));
    assert!(chain.endpoints()[0].usable);
    one.on("eth_getTransactionCount", |_| {
        Say::Error(-32005, "daily request count exceeded, request rate limited")
    });
    assert_eq!(chain.counts(&[Account(BOB)], &AT).await, Ok(vec![Slot(2)]));
    assert!(!chain.endpoints()[0].usable);
}

#[tokio::test]
async fn an_endpoint_of_another_chain_is_not_used_and_says_so() {
    let (foreign, ours) = (Stub::start().await, Stub::start().await);
    foreign.on("eth_chainId", |_| Say::Result(json!("0x1")));
    counting(&foreign, "0x9");
    counting(&ours, "0x2");
    let chain = chain(&[foreign.url(), ours.url()]);
    for _ in 0..3 {
        assert_eq!(chain.counts(&[Account(BOB)], &AT).await, Ok(vec![Slot(2)]));
    }
    assert_eq!(foreign.asked("eth_getTransactionCount"), 0);
    let alone = self::chain(&[foreign.url()]);
    for _ in 0..2 {
        let Err(Error::Unreachable { text, .. }) = alone.counts(&[Account(BOB)], &AT).await else { panic!() };
        assert!(text.contains("it serves chain 1, not chain 31337"), "{text}");
    }
    let health = chain.endpoints();
    assert!(!health[0].usable);
    assert_eq!(health[0].trouble.as_deref(), Some("it serves chain 1, not chain 31337, and is not used"));
}

#[tokio::test]
async fn an_endpoint_that_was_out_of_reach_is_asked_again_for_its_chain() {
    let stub = Stub::start().await;
    counting(&stub, "0x2");
    let chain = chain(&[stub.url()]);
    assert_eq!(chain.counts(&[Account(BOB)], &AT).await, Ok(vec![Slot(2)]));
    stub.mood(Mood::Http(502, ""));
    assert!(chain.counts(&[Account(BOB)], &AT).await.is_err());
    // Behind the same address there is another node now.
    stub.mood(Mood::Answering);
    stub.on("eth_chainId", |_| Say::Result(json!("0x1")));
    let error = chain.counts(&[Account(BOB)], &AT).await.unwrap_err().to_string();
    assert!(error.contains("it serves chain 1"), "{error}");
}

#[tokio::test]
async fn a_receipt_that_one_endpoint_does_not_know_is_asked_of_the_next() {
    let (forgetful, good) = (Stub::start().await, Stub::start().await);
    let here = B256::repeat_byte(1);
    forgetful.on("eth_getTransactionReceipt", move |params| {
        Say::Result(if params[0] == json!(here) { receipt(here, 5, AT.hash) } else { json!(null) })
    });
    let there = B256::repeat_byte(2);
    good.on("eth_getTransactionReceipt", move |params| {
        Say::Result(if params[0] == json!(there) { receipt(there, 5, AT.hash) } else { json!(null) })
    });
    let chain = chain(&[forgetful.url(), good.url()]);
    let asked = [here, there, B256::repeat_byte(3)].map(TxHash);
    let receipts = chain.receipts(&asked).await.unwrap();
    assert_eq!(receipts.iter().map(|receipt| receipt.hash.0).collect::<Vec<_>>(), [here, there]);
    assert_eq!(good.asked("eth_getTransactionReceipt"), 2);
    forgetful.mood(Mood::Http(500, ""));
    assert_eq!(chain.receipts(&asked).await.unwrap().len(), 1);
    good.mood(Mood::Http(500, ""));
    assert!(chain.receipts(&asked).await.is_err());
    assert_eq!(chain.receipts(&[]).await, Ok(vec![]));
}

// covers: H2
#[tokio::test]
async fn a_node_that_is_still_indexing_is_no_word_about_a_receipt() {
    let (indexing, good) = (Stub::start().await, Stub::start().await);
    let hash = B256::repeat_byte(1);
    indexing.on("eth_getTransactionReceipt", |_| Say::Error(-32000, "transaction indexing is in progress"));
    good.on("eth_getTransactionReceipt", move |_| Say::Result(receipt(hash, 5, AT.hash)));
    let both = chain(&[indexing.url(), good.url()]);
    assert_eq!(both.receipts(&[TxHash(hash)]).await.unwrap().len(), 1);
    let alone = chain(&[indexing.url()]).receipts(&[TxHash(hash)]).await;
    assert!(alone.is_err(), "it is not the same as none: {alone:?}");
}

#[tokio::test]
async fn a_block_that_no_endpoint_knows_is_none_and_silence_is_an_error() {
    let (one, two) = (Stub::start().await, Stub::start().await);
    one.on("eth_getBlockByHash", |_| Say::Result(json!(null)));
    two.on("eth_getBlockByHash", |_| Say::Error(-32000, "header not found"));
    one.on("eth_getBlockByNumber", |_| Say::Error(-39001, "finalized block not found"));
    two.on("eth_getBlockByNumber", |_| {
        Say::Error(-32000, "'finalized' tag not supported on pre-merge network")
    });
    let chain = chain(&[one.url(), two.url()]);
    assert_eq!(chain.block(BlockAt::Hash(AT.hash)).await, Ok(None));
    assert_eq!(chain.block(BlockAt::Finalized).await, Ok(None));
    one.mood(Mood::Http(500, ""));
    two.mood(Mood::Http(500, ""));
    assert!(chain.block(BlockAt::Hash(AT.hash)).await.is_err());
}
