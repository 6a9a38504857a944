//! Reorgs: what was there is gone, and other blocks are in its place.

use landfall_devchain::{PoolSize, Removed, TooDeep};
use serde_json::json;

use crate::support::{key, start_with, transfer};

#[tokio::test]
async fn removed_transactions_lose_their_receipts_and_wait_again() {
    let (chain, rpc) = start_with(|_| {}).await;
    let kept = rpc.send(&transfer(key(0), 0)).await;
    chain.mine(1);
    let moved = rpc.send(&transfer(key(0), 1)).await;
    chain.mine(2);
    let before = rpc.call("eth_getBlockByNumber", json!(["0x2", false])).await;

    assert_eq!(chain.reorg(2, Removed::Repool), Ok(4));
    assert!(rpc.receipt(&moved).await.is_null());
    assert_eq!(rpc.receipt(&kept).await["blockNumber"], "0x1");
    assert_eq!(rpc.count(&key(0).text(), json!("latest")).await, 1);
    assert_eq!(rpc.count(&key(0).text(), json!("pending")).await, 2);
    assert_eq!(chain.pool_size(), PoolSize { pending: 1, queued: 0 });
    let waiting = rpc.call("eth_getTransactionByHash", json!([moved])).await;
    assert!(waiting["blockHash"].is_null());
    let after = rpc.call("eth_getBlockByNumber", json!(["0x2", false])).await;
    assert_ne!(after["hash"], before["hash"]);
    assert_eq!(after["parentHash"], before["parentHash"]);
    assert!(rpc.call("eth_getBlockByHash", json!([before["hash"], false])).await.is_null());

    chain.mine(1);
    assert_eq!(rpc.receipt(&moved).await["blockNumber"], "0x5");
    assert_eq!(chain.tx_count(), 2);
}

#[tokio::test]
async fn dropped_transactions_are_gone_and_can_be_sent_again() {
    let (chain, rpc) = start_with(|_| {}).await;
    let raw = transfer(key(0), 0);
    let hash = rpc.send(&raw).await;
    chain.mine(1);
    chain.reorg(1, Removed::Drop).unwrap();
    assert!(rpc.receipt(&hash).await.is_null());
    assert!(rpc.call("eth_getTransactionByHash", json!([hash])).await.is_null());
    assert_eq!(rpc.count(&key(0).text(), json!("pending")).await, 0);
    assert_eq!(chain.landed(0).count(), 0);
    assert_eq!(rpc.send(&raw).await, hash);
}

#[tokio::test]
async fn remined_transactions_land_in_the_new_blocks() {
    let (chain, rpc) = start_with(|_| {}).await;
    let hash = rpc.send(&transfer(key(0), 0)).await;
    chain.mine(3);
    let before = rpc.receipt(&hash).await;
    assert_eq!(chain.reorg(3, Removed::Remine), Ok(4));
    let after = rpc.receipt(&hash).await;
    assert_eq!(after["blockNumber"], "0x1");
    assert_ne!(after["blockHash"], before["blockHash"]);
}

#[tokio::test]
async fn what_waited_behind_a_removed_transaction_waits_behind_a_gap() {
    let (chain, rpc) = start_with(|_| {}).await;
    rpc.send(&transfer(key(0), 0)).await;
    chain.mine(1);
    rpc.send(&transfer(key(0), 1)).await;
    assert_eq!(chain.pool_size(), PoolSize { pending: 1, queued: 0 });
    chain.reorg(1, Removed::Drop).unwrap();
    assert_eq!(chain.pool_size(), PoolSize { pending: 0, queued: 1 });
}

#[tokio::test]
async fn balances_and_nonces_return_with_the_blocks() {
    let (chain, rpc) = start_with(|_| {}).await;
    let balance = async || rpc.call("eth_getBalance", json!([key(0).text(), "latest"])).await;
    let before = balance().await;
    for nonce in 0..5 {
        rpc.send(&transfer(key(0), nonce)).await;
        chain.mine(1);
    }
    assert_ne!(balance().await, before);
    chain.reorg(5, Removed::Drop).unwrap();
    assert_eq!(balance().await, before);
}

#[tokio::test]
async fn a_reorg_goes_no_deeper_than_the_history() {
    let (chain, rpc) = start_with(|c| c.history = 4).await;
    chain.mine(10);
    assert_eq!(chain.reorg(5, Removed::Drop), Err(TooDeep { asked: 5, possible: 4 }));
    assert_eq!(chain.reorg(4, Removed::Drop), Ok(11));
    let refused = rpc.refused("eth_getBalance", json!([key(0).text(), "0x2"])).await;
    assert_eq!(refused.message, "historical state of block 2 is not available");
}
