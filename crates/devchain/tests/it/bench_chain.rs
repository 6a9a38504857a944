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
