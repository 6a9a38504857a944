//! When blocks come, and what a base fee does.

use std::{sync::Arc, time::Duration};

use landfall_devchain::Mining;
use serde_json::json;

use crate::support::{eventually, key, start_with, transfer};

#[tokio::test]
async fn instant_mining_makes_a_block_for_what_is_executable_and_none_for_what_is_not() {
    let (chain, rpc) = start_with(|c| c.mining = Mining::Instant).await;
    rpc.send(&transfer(key(0), 1)).await;
    let hash = rpc.send(&transfer(key(0), 0)).await;
    eventually("the receipt", async || Some(rpc.receipt(&hash).await).filter(|r| !r.is_null())).await;
    eventually("both to land", async || (chain.tx_count() == 2).then_some(())).await;
    assert!(chain.head() <= 2);
}

#[tokio::test]
async fn interval_mining_goes_on_until_stopped() {
    let (chain, _rpc) = start_with(|c| c.mining = Mining::Interval(Duration::from_millis(5))).await;
    eventually("three blocks", async || (chain.head() >= 3).then_some(())).await;
    chain.stop_mining();
    let head = chain.head();
    assert_eq!(chain.mine(1), head + 1);
    chain.resume_mining();
    eventually("more blocks", async || (chain.head() > head + 1).then_some(())).await;
}

#[tokio::test]
async fn a_stopped_instant_chain_mines_what_waited_when_it_resumes() {
    let (chain, rpc) = start_with(|c| c.mining = Mining::Instant).await;
    chain.stop_mining();
    rpc.send(&transfer(key(0), 0)).await;
    assert_eq!((chain.head(), chain.pool_size().pending), (0, 1));
    chain.resume_mining();
    eventually("the block", async || (chain.tx_count() == 1).then_some(())).await;
}

#[tokio::test]
async fn a_block_holds_what_its_gas_allows() {
    let (chain, rpc) = start_with(|c| c.gas_limit = 100_000).await;
    for nonce in 0..10 {
        rpc.send(&transfer(key(0), nonce)).await;
    }
    chain.mine(1);
    assert_eq!(chain.tx_count(), 4);
    chain.mine(2);
    assert_eq!(chain.tx_count(), 10);
}

#[tokio::test]
async fn the_base_fee_can_be_set_once_or_held() {
    let (chain, rpc) = start_with(|_| {}).await;
    let base_fee = async || {
        let block = rpc.call("eth_getBlockByNumber", json!(["latest", false])).await;
        u64::from_str_radix(&block["baseFeePerGas"].as_str().unwrap()[2..], 16).unwrap()
    };
    chain.set_next_base_fee(8_000);
    chain.mine(1);
    assert_eq!(base_fee().await, 8_000);
    chain.mine(1);
    assert_eq!(base_fee().await, 7_000);
    chain.hold_base_fee(Some(50));
    chain.mine(3);
    assert_eq!(base_fee().await, 50);
    chain.hold_base_fee(None);
    chain.mine(100);
    // Where an eighth rounds to nothing, the fall ends.
    assert_eq!(base_fee().await, 7);
}

#[tokio::test]
async fn block_times_follow_the_clock_and_always_rise() {
    let (chain, rpc) = start_with(|c| c.clock = Arc::new(|| 5_000)).await;
    chain.mine(3);
    let mut times = Vec::new();
    for number in 0..=3 {
        let block = rpc.call("eth_getBlockByNumber", json!([format!("0x{number:x}"), false])).await;
        times.push(u64::from_str_radix(&block["timestamp"].as_str().unwrap()[2..], 16).unwrap());
    }
    assert_eq!(times, [5_000, 5_001, 5_002, 5_003]);
}

#[tokio::test]
async fn safe_and_finalized_keep_their_distance() {
    let (chain, rpc) = start_with(|c| (c.safe_depth, c.finalized_depth) = (3, 5)).await;
    let number =
        async |tag: &str| rpc.call("eth_getBlockByNumber", json!([tag, false])).await["number"].clone();
    chain.mine(4);
    assert_eq!((number("safe").await, number("finalized").await), (json!("0x1"), json!("0x0")));
    chain.mine(4);
    assert_eq!((number("safe").await, number("finalized").await), (json!("0x5"), json!("0x3")));
}

#[tokio::test]
async fn a_sender_that_can_no_longer_pay_leaves_the_pool() {
    let (chain, rpc) = start_with(|_| {}).await;
    rpc.send(&transfer(key(0), 0)).await;
    chain.set_balance(key(0).address, alloy_primitives::U256::from(1));
    chain.mine(1);
    assert_eq!((chain.tx_count(), chain.pool_size().pending), (0, 0));
}
