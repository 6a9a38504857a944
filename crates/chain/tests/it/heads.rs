//! The head: the freshest answer counts, and it does not go back because an endpoint lags.

use std::time::Duration;

use alloy_primitives::B256;
use landfall_core::ports::chain::{BlockAt, Chain};
use landfall_core::view::BlockRef;

use crate::harness::stub::{Mood, Say, Stub, block};
use crate::harness::{chain, chain_with, until};

const A: B256 = B256::repeat_byte(0xa);
const B: B256 = B256::repeat_byte(0xb);

async fn head(chain: &dyn Chain) -> Option<u64> {
    chain.block(BlockAt::Latest).await.ok().flatten().map(|block| block.at.number)
}

#[tokio::test]
async fn the_freshest_endpoint_gives_the_head_and_the_others_show_their_lag() {
    let (slow, fresh) = (Stub::start().await, Stub::start().await);
    slow.head(7, B);
    fresh.head(9, A);
    let chain = chain(&[slow.url(), fresh.url()]);
    let block = chain.block(BlockAt::Latest).await.unwrap().unwrap();
    assert_eq!((block.at.number, block.at.hash), (9, A));
    assert_eq!(chain.endpoints().iter().map(|e| e.head).collect::<Vec<_>>(), [Some(7), Some(9)]);
}

#[tokio::test]
async fn the_head_does_not_go_back_to_an_endpoint_that_lags() {
    let (fresh, slow) = (Stub::start().await, Stub::start().await);
    fresh.head(9, A);
    slow.head(7, B);
    let chain = chain(&[fresh.url(), slow.url()]);
    assert_eq!(head(&chain).await, Some(9));
    fresh.mood(Mood::Http(502, ""));
    let refused = chain.block(BlockAt::Latest).await.unwrap_err().to_string();
    assert!(refused.contains("block 9 was seen, the best answer now is 7"), "{refused}");
    slow.head(9, B);
    assert_eq!(head(&chain).await, Some(9));
}

#[tokio::test]
async fn the_endpoint_that_showed_a_head_may_take_it_back() {
    let only = Stub::start().await;
    only.head(9, A);
    let chain = chain(&[only.url()]);
    assert_eq!(head(&chain).await, Some(9));
    only.head(8, B);
    assert_eq!(head(&chain).await, Some(8));
}

#[tokio::test]
async fn two_forks_of_the_same_height_do_not_take_turns() {
    let (one, two) = (Stub::start().await, Stub::start().await);
    one.head(8, A);
    two.head(9, B);
    let chain = chain(&[one.url(), two.url()]);
    assert_eq!(head(&chain).await, Some(9));
    one.head(9, A);
    assert_eq!(chain.block(BlockAt::Latest).await.unwrap().unwrap().at.hash, B);
}

#[tokio::test]
async fn an_endpoint_far_behind_is_asked_last() {
    let (behind, fresh) = (Stub::start().await, Stub::start().await);
    behind.head(90, B);
    fresh.head(100, A);
    let chain = chain(&[behind.url(), fresh.url()]);
    assert_eq!(head(&chain).await, Some(100));
    fresh.on("eth_getBlockByHash", |_| Say::Result(block(100, A, &[])));
    assert!(chain.block(BlockAt::Hash(A)).await.unwrap().is_some());
    assert_eq!(behind.asked("eth_getBlockByHash"), 0);
}

/// Whoever still shows a fork that was left says so of its own blocks only.
#[tokio::test]
async fn a_block_is_part_of_the_chain_if_an_endpoint_with_its_head_says_so() {
    let (left, fresh) = (Stub::start().await, Stub::start().await);
    let old = B256::repeat_byte(0xc);
    let shows = |stub: &Stub, head: B256, below: Option<B256>| {
        stub.on("eth_getBlockByNumber", move |params| match (params[0].as_str(), below) {
            (Some("0x4"), None) => Say::Result(serde_json::Value::Null),
            (Some("0x4"), Some(below)) => Say::Result(block(4, below, &[])),
            _ => Say::Result(block(9, head, &[])),
        });
    };
    shows(&left, B, Some(old));
    shows(&fresh, A, Some(A));
    let chain = chain(&[left.url(), fresh.url()]);
    let at = |number, hash| BlockRef { number, hash };
    assert!(!chain.leads_to(&at(4, old), &at(9, A)).await.unwrap());
    assert!(chain.leads_to(&at(4, A), &at(9, A)).await.unwrap());
    assert!(chain.leads_to(&at(4, old), &at(9, B)).await.unwrap());
    // Nobody has that head, or the one that has it does not know the block: nothing can be said.
    chain.leads_to(&at(4, A), &at(9, old)).await.unwrap_err();
    shows(&fresh, A, None);
    chain.leads_to(&at(4, A), &at(9, A)).await.unwrap_err();
}

#[tokio::test]
async fn after_a_while_a_lower_head_is_taken_from_another_endpoint() {
    let (gone, restarted) = (Stub::start().await, Stub::start().await);
    gone.head(9, A);
    restarted.head(1, B);
    let chain = chain_with(&[gone.url(), restarted.url()], |config| {
        config.head_memory = Duration::from_secs(2);
    });
    assert_eq!(head(&chain).await, Some(9));
    gone.mood(Mood::Http(502, ""));
    assert_eq!(head(&chain).await, None);
    let number = until("head", || head(&chain)).await;
    assert_eq!(number, 1);
}

#[tokio::test]
async fn a_silent_endpoint_does_not_hold_up_the_head() {
    let (silent, good) = (Stub::start().await, Stub::start().await);
    silent.mood(Mood::Silent);
    good.head(3, A);
    let chain = chain_with(&[silent.url(), good.url()], |config| {
        config.request_timeout = Duration::from_secs(30);
        config.straggler_grace = Duration::from_millis(50);
    });
    let answer = tokio::time::timeout(Duration::from_secs(10), head(&chain)).await.expect("the head in time");
    assert_eq!(answer, Some(3));
}

#[tokio::test]
async fn without_a_subscription_the_hint_comes_after_the_polling_interval() {
    let stub = Stub::start().await;
    let chain = chain(&[stub.url()]);
    tokio::time::timeout(Duration::from_secs(10), chain.head_hint()).await.expect("a hint");
}
