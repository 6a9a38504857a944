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

/// A chain of blocks by number: the hash of each is its number, and `fork`.
fn hash(number: u64, fork: u8) -> B256 {
    let mut bytes = [fork; 32];
    bytes[24..].copy_from_slice(&number.to_be_bytes());
    B256::from(bytes)
}

/// A node that has the chain up to the head, and may claim another one.
fn serves(stub: &Stub, head: u64, claimed: Option<(u64, B256, B256)>) {
    let shown = |number: u64| {
        let mut block = block(number, hash(number, 1), &[]);
        block["parentHash"] = serde_json::json!(hash(number.saturating_sub(1), 1));
        block
    };
    stub.on("eth_getBlockByNumber", move |params| match (params[0].as_str(), claimed) {
        (_, Some((number, hash, parent))) => {
            let mut block = block(number, hash, &[]);
            block["parentHash"] = serde_json::json!(parent);
            Say::Result(block)
        }
        (Some("latest" | "safe" | "finalized"), None) => Say::Result(shown(head)),
        (Some(number), None) => {
            let number = u64::from_str_radix(number.trim_start_matches("0x"), 16).unwrap();
            Say::Result(if number <= head { shown(number) } else { serde_json::Value::Null })
        }
        (None, None) => panic!("{params}"),
    });
    stub.on("eth_getBlockByHash", move |params| {
        let wanted: B256 = serde_json::from_value(params[0].clone()).unwrap();
        let found = (0..=head).find(|number| hash(*number, 1) == wanted);
        Say::Result(found.map_or(serde_json::Value::Null, shown))
    });
}

/// Follows the chain as the engine does: from the head to the block below it, and what cannot be followed is asked for by its hash.
async fn followed(chain: &dyn Chain) -> Option<u64> {
    let head = chain.block(BlockAt::Latest).await.ok().flatten()?;
    let below = chain.block(BlockAt::Hash(head.parent)).await.ok().flatten();
    let is_below = below.is_some_and(|below| below.at.number + 1 == head.at.number);
    let shown = chain.block(BlockAt::Hash(head.at.hash)).await.ok().flatten();
    (is_below && shown.is_some()).then_some(head.at.number)
}

#[tokio::test]
async fn one_that_claims_a_head_nobody_can_follow_is_set_aside_and_named() {
    let far = B256::repeat_byte(0xab);
    // Far ahead of the parent that it names; ahead, with a parent that nobody knows; a head that nobody knows itself.
    for lie in [(1_000_100, far, hash(99, 1)), (104, far, far), (101, far, hash(100, 1))] {
        for honest in [1, 2] {
            let stubs = [Stub::start().await, Stub::start().await, Stub::start().await];
            let stubs = &stubs[..=honest];
            serves(&stubs[0], 100, Some(lie));
            stubs[1..].iter().for_each(|stub| serves(stub, 100, None));
            let urls: Vec<String> = stubs.iter().map(Stub::url).collect();
            let chain = chain(&urls);
            let head = until("head that can be followed", || followed(&chain)).await;
            assert_eq!(head, 100, "{lie:?}");
            assert_eq!(followed(&chain).await, Some(100), "and it stays so");
            let health = chain.endpoints();
            let trouble = health[0].trouble.clone().unwrap_or_default();
            assert!(!health[0].usable && trouble.contains(&format!("block {}", lie.0)), "{health:?}");
            assert!(health[1].usable && health[1].trouble.is_none(), "{health:?}");
            // Nor does what it calls final hide what others do.
            let finalized = chain.block(BlockAt::Finalized).await.unwrap().unwrap();
            assert_eq!(finalized.at.number, 100);
            // Nor is an honest one behind because of it.
            stubs[1].on("eth_estimateGas", |_| Say::Error(3, "execution reverted: no"));
            let call = landfall_core::attempt::Call::no_op(landfall_core::Account(crate::harness::BOB));
            let said = chain.estimate(&[call]).await;
            let reverted = landfall_core::ports::chain::EstimateFailure::Reverted {
                reason: "execution reverted: no".into(),
            };
            assert_eq!(said, [Err(reverted)]);
        }
    }
}

/// Whoever shows a false block on the way down is the one that is doubted, not whoever gave the head.
#[tokio::test]
async fn one_that_shows_false_blocks_below_an_honest_head_is_set_aside() {
    for (number, parent) in [(98, B256::repeat_byte(0xab)), (7, hash(97, 1))] {
        let (liar, honest) = (Stub::start().await, Stub::start().await);
        serves(&liar, 97, None);
        serves(&honest, 100, None);
        let mut shown = block(number, hash(98, 1), &[]);
        shown["parentHash"] = serde_json::json!(parent);
        liar.on("eth_getBlockByHash", move |params| {
            let asked = params[0] == serde_json::json!(hash(98, 1));
            Say::Result(if asked { shown.clone() } else { serde_json::Value::Null })
        });
        let chain = chain(&[liar.url(), honest.url()]);
        let down = || async {
            let mut at = chain.block(BlockAt::Latest).await.ok()??;
            assert_eq!(at.at, BlockRef { number: 100, hash: hash(100, 1) }, "{:?}", chain.endpoints());
            while at.at.number > 95 {
                at = chain.block(BlockAt::Hash(at.parent)).await.ok()??;
            }
            Some(())
        };
        until("way down", down).await;
        assert!(chain.endpoints()[1].usable, "{:?}", chain.endpoints());
    }
}

#[tokio::test]
async fn one_that_is_alone_goes_on_being_asked_and_says_what_is_wrong() {
    let only = Stub::start().await;
    serves(&only, 100, Some((1_000_100, A, hash(99, 1))));
    let chain = chain(&[only.url()]);
    for _ in 0..5 {
        assert_eq!(followed(&chain).await, None);
    }
    assert_eq!(head(&chain).await, Some(1_000_100));
    let health = chain.endpoints();
    assert!(
        !health[0].usable && health[0].trouble.as_ref().unwrap().contains("cannot be read"),
        "{health:?}"
    );
    serves(&only, 100, None);
    let followed = until("head", || followed(&chain)).await;
    assert_eq!(followed, 100);
    assert_eq!(head(&chain).await, Some(100));
    assert!(chain.endpoints()[0].usable, "{:?}", chain.endpoints());
}

#[tokio::test]
async fn one_that_is_some_blocks_ahead_of_a_slow_one_gives_the_head() {
    let (slow, fresh) = (Stub::start().await, Stub::start().await);
    serves(&slow, 100, None);
    let chain = chain(&[slow.url(), fresh.url()]);
    for number in [103, 110, 500, 501] {
        serves(&fresh, number, None);
        assert_eq!(followed(&chain).await, Some(number));
        assert!(chain.endpoints().iter().all(|endpoint| endpoint.usable));
    }
}

#[tokio::test]
async fn a_block_that_was_not_asked_for_is_left_for_the_next_endpoint() {
    let (wrong, right) = (Stub::start().await, Stub::start().await);
    wrong.head(7, A);
    wrong.on("eth_getBlockByHash", |_| Say::Result(block(7, A, &[])));
    serves(&right, 100, None);
    let chain = chain(&[wrong.url(), right.url()]);
    let by_number = chain.block(BlockAt::Number(0)).await.unwrap().unwrap();
    assert_eq!(by_number.at, BlockRef { number: 0, hash: hash(0, 1) });
    let by_hash = chain.block(BlockAt::Hash(hash(50, 1))).await.unwrap().unwrap();
    assert_eq!(by_hash.at, BlockRef { number: 50, hash: hash(50, 1) });
}

/// After an outage a node shows what was long ago, and says so if it is asked.
#[tokio::test]
async fn a_node_that_says_it_has_to_catch_up_shows_no_head() {
    let (behind, other) = (Stub::start().await, Stub::start().await);
    behind.head(9, A);
    behind.on("eth_syncing", |_| {
        Say::Result(serde_json::json!({ "currentBlock": "0x9", "highestBlock": "0x3e8" }))
    });
    other.head(7, B);
    other.on("eth_syncing", |_| Say::Result(serde_json::json!(false)));
    let both = chain(&[behind.url(), other.url()]);
    assert_eq!(head(&both).await, Some(7), "the chain stands still, and this one is in sync");
    let trouble = both.endpoints()[0].trouble.clone();
    assert_eq!(trouble.as_deref(), Some("it is syncing: it shows block 9 of 1000"));
    let alone = chain(&[behind.url()]);
    let refused = alone.block(BlockAt::Latest).await.unwrap_err().to_string();
    assert!(refused.contains("it is syncing: it shows block 9 of 1000"), "{refused}");
}
