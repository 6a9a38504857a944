//! The control handle over JSON-RPC, the audit, and starting and stopping.

use alloy_primitives::U256;
use landfall_devchain::{Devchain, Fault, FaultCounts, Landed, Rule, Stats};
use serde_json::json;

use crate::support::{Rpc, config, key, start_with, transfer};

#[tokio::test]
async fn everything_can_be_steered_over_rpc() {
    let (chain, rpc) = start_with(|_| {}).await;
    let somebody = format!("0x{}", "ab".repeat(20));
    rpc.call("devchain_setBalance", json!([somebody, "0x64"])).await;
    rpc.call("devchain_setCode", json!([somebody, "0x6000"])).await;
    assert_eq!(rpc.call("eth_getBalance", json!([somebody, "latest"])).await, "0x64");
    assert_eq!(rpc.call("eth_getCode", json!([somebody, "latest"])).await, "0x6000");
    rpc.call("devchain_setNextBaseFee", json!(["0x2710"])).await;
    assert_eq!(chain.next_base_fee(), 10_000);
    rpc.call("devchain_holdBaseFee", json!(["0x64"])).await;
    assert_eq!(chain.next_base_fee(), 100);
    rpc.call("devchain_holdBaseFee", json!([null])).await;

    let hash = rpc.send(&transfer(key(0), 0)).await;
    assert_eq!(rpc.call("devchain_evict", json!([hash])).await, true);
    assert_eq!(rpc.call("devchain_evict", json!([hash])).await, false);
    for nonce in 0..6 {
        rpc.send(&transfer(key(0), nonce)).await;
    }
    let evicted = rpc.call("devchain_evictRandom", json!([2])).await;
    assert_eq!(evicted.as_array().unwrap().len(), 2);
    assert_eq!(rpc.call("devchain_evictAll", json!([])).await, 4);

    rpc.send(&transfer(key(0), 0)).await;
    assert_eq!(rpc.call("devchain_mine", json!([3])).await, 3);
    assert_eq!(rpc.call("devchain_reorg", json!([3, "repool"])).await, 4);
    assert_eq!(rpc.call("devchain_mine", json!([])).await, 5);
    let stats: Stats = serde_json::from_value(rpc.call("devchain_stats", json!([])).await).unwrap();
    assert_eq!(stats, chain.stats());
    assert_eq!((stats.head, stats.tx_count, stats.reorgs), (5, 1, 1));
    for method in ["devchain_stopMining", "devchain_resumeMining"] {
        assert_eq!(rpc.call(method, json!([])).await, true);
    }
    assert_eq!(rpc.refused("devchain_nothing", json!([])).await.code, -32601);
    let too_deep = rpc.refused("devchain_reorg", json!([99, "drop"])).await;
    assert_eq!(too_deep.message, "cannot take back 99 blocks, only 5");
}

#[tokio::test]
async fn faults_can_be_set_over_rpc_and_always_taken_away() {
    let (chain, rpc) = start_with(|_| {}).await;
    let rule = Rule::always(Fault::LoseRequest);
    let id = rpc.call("devchain_addFault", json!([rule])).await;
    assert!(rpc.try_call("eth_blockNumber", json!([])).await.is_err());
    assert_eq!(rpc.call("devchain_faults", json!([])).await, json!([[id, rule]]));
    assert_eq!(rpc.call("devchain_removeFault", json!([id])).await, true);
    assert_eq!(rpc.head().await, 0);
    chain.add_fault(rule);
    rpc.call("devchain_clearFaults", json!([])).await;
    assert_eq!(rpc.head().await, 0);
    let counts: FaultCounts =
        serde_json::from_value(rpc.call("devchain_faultCounts", json!([])).await).unwrap();
    assert_eq!((counts.lose_request, counts.total()), (1, 1));
}

#[tokio::test]
async fn the_audit_lists_what_landed_in_chain_order() {
    let (chain, rpc) = start_with(|_| {}).await;
    let first = rpc.send(&transfer(key(0), 0)).await;
    chain.mine(1);
    rpc.send(&transfer(key(0), 1)).await;
    rpc.send(&transfer(key(1), 0)).await;
    chain.mine(1);
    let landed: Vec<Landed> = chain.landed(0).collect();
    let found: Vec<_> = landed.iter().map(|l| (l.from, l.nonce, l.block)).collect();
    let (a, b) = (key(0).address, key(1).address);
    assert_eq!(found[0], (a, 0, 1));
    assert!(found.contains(&(a, 1, 2)) && found.contains(&(b, 0, 2)));
    assert_eq!(landed[0].hash.to_string(), first);
    assert_eq!((landed[0].value, landed[0].success), (U256::from(1), true));
    assert_eq!(chain.landed(2).count(), 2);
    let over_rpc: Vec<Landed> =
        serde_json::from_value(rpc.call("devchain_landed", json!([0, 2])).await).unwrap();
    assert_eq!(over_rpc, landed[..1]);
}

#[tokio::test]
async fn a_chain_stops_when_its_last_handle_is_gone() {
    let chain = Devchain::start(config()).await.unwrap();
    let (clone, rpc) = (chain.clone(), Rpc::new(chain.http_url()));
    drop(chain);
    assert_eq!(rpc.head().await, 0);
    drop(clone);
    crate::support::eventually("the port to close", async || {
        let fresh = Rpc::new(rpc.url().to_owned());
        fresh.try_call("eth_blockNumber", json!([])).await.is_err().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_taken_port_is_an_error_that_names_it() {
    let chain = Devchain::start(config()).await.unwrap();
    let mut taken = config();
    taken.listen = chain.address();
    let error = Devchain::start(taken).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("devchain cannot listen on {}", chain.address())));
}
