//! The chain without execution: rules and records stay real.

use landfall_devchain::PoolSize;
use serde_json::json;

use crate::support::{key, start_with, transfer};

#[tokio::test]
async fn without_execution_rules_and_receipts_stay_real() {
    let (chain, rpc) = start_with(|c| {
        c.execute = false;
        c.funded.clear();
    })
    .await;
    let mut hashes = Vec::new();
    for nonce in 0..3 {
        hashes.push(rpc.send(&transfer(key(0), nonce)).await);
    }
    rpc.send(&transfer(key(0), 9)).await;
    assert_eq!(rpc.send_refused(&transfer(key(0), 0)).await.message, "already known");
    assert_eq!(chain.pool_size(), PoolSize { pending: 3, queued: 1 });
    chain.mine(1);
    for hash in &hashes {
        let receipt = rpc.receipt(hash).await;
        assert_eq!((&receipt["status"], &receipt["gasUsed"]), (&json!("0x1"), &json!("0x5208")));
    }
    assert_eq!(rpc.count(&key(0).text(), json!("latest")).await, 3);
    assert_eq!(rpc.count(&key(0).text(), json!("0x0")).await, 0);
    assert_eq!(
        rpc.send_refused(&transfer(key(0), 1)).await.message,
        "nonce too low: next nonce 3, tx nonce 1"
    );
    chain.reorg(1, landfall_devchain::Removed::Repool).unwrap();
    assert_eq!(rpc.count(&key(0).text(), json!("latest")).await, 0);
    chain.mine(1);
    assert_eq!(chain.tx_count(), 3);
}

#[tokio::test]
async fn everyone_shows_what_everyone_has_and_requests_are_counted() {
    let (chain, rpc) = start_with(|c| {
        c.execute = false;
        c.everyone_has = alloy_primitives::U256::from(77);
    })
    .await;
    let stranger = "0x00000000000000000000000000000000000000aa";
    assert_eq!(rpc.call("eth_getBalance", json!([stranger, "latest"])).await, json!("0x4d"));
    rpc.call("devchain_stats", json!([])).await;
    let batch = json!([
        { "jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": [] },
        { "jsonrpc": "2.0", "id": "two", "method": "eth_chainId" },
    ]);
    let answers: serde_json::Value = rpc.post(&batch).await.unwrap().json().await.unwrap();
    assert_eq!(answers[1], json!({ "jsonrpc": "2.0", "id": "two", "result": "0x7a69" }));
    let asked = chain.asked();
    assert_eq!((asked.requests, asked.calls), (2, 3));
    assert_eq!(asked.methods.get("eth_chainId"), Some(&1));
}

#[tokio::test]
async fn thousands_land_in_few_blocks() {
    let (chain, _rpc) = start_with(|c| {
        c.execute = false;
        c.gas_limit = 300_000_000;
    })
    .await;
    for nonce in 0..2_000 {
        let raw = alloy_primitives::hex::decode(transfer(key(0), nonce)).unwrap();
        chain.send_raw(&raw).unwrap();
    }
    chain.mine(1);
    assert_eq!(chain.tx_count(), 2_000);
    assert!(chain.landed(0).map(|l| l.nonce).eq(0..2_000));
}
