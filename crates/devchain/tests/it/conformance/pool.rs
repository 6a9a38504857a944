//! Sending, waiting, replacing.

use std::collections::BTreeMap;

use alloy_consensus::TxEip1559;
use alloy_primitives::U256;
use serde_json::{Value, json};

use super::on_both;
use crate::support::{Node, dynamic, key, raw, transfer};

on_both!(
    a_sent_transaction_waits_and_gets_a_receipt_once_mined,
    counts_tell_what_landed_from_what_waits,
    a_gapped_nonce_waits_until_the_gap_is_filled,
    a_dearer_replacement_takes_the_place,
    the_same_bytes_again_are_known,
    a_used_nonce_is_too_low,
    a_sender_without_funds_is_refused,
    too_little_gas_is_refused,
    dearer_transactions_come_first,
);

async fn a_sent_transaction_waits_and_gets_a_receipt_once_mined(node: Node) {
    let rpc = &node.rpc;
    let hash = rpc.send(&transfer(key(0), 0)).await;
    let waiting = rpc.call("eth_getTransactionByHash", json!([hash])).await;
    assert_eq!((&waiting["blockNumber"], &waiting["nonce"]), (&Value::Null, &json!("0x0")));
    assert_eq!(rpc.receipt(&hash).await, Value::Null);

    node.mine().await;
    let receipt = rpc.receipt(&hash).await;
    assert_eq!(receipt["status"], "0x1");
    assert_eq!(receipt["type"], "0x2");
    assert_eq!(receipt["transactionHash"], hash);
    assert_eq!(receipt["transactionIndex"], "0x0");
    assert_eq!(receipt["gasUsed"], "0x5208");
    assert_eq!(receipt["cumulativeGasUsed"], "0x5208");
    assert_eq!(receipt["from"], key(0).text().to_lowercase());
    assert_eq!(receipt["logs"], json!([]));
    assert_eq!(receipt["contractAddress"], Value::Null);
    let block = rpc.call("eth_getBlockByNumber", json!(["latest", false])).await;
    assert_eq!(receipt["blockHash"], block["hash"]);
    let base_fee = U256::from_str_radix(&block["baseFeePerGas"].as_str().unwrap()[2..], 16).unwrap();
    let paid = base_fee + U256::from(1_000_000_000);
    assert_eq!(receipt["effectiveGasPrice"], format!("0x{paid:x}"));
    let mined = rpc.call("eth_getTransactionByHash", json!([hash])).await;
    assert_eq!(mined["blockHash"], block["hash"]);
}

async fn counts_tell_what_landed_from_what_waits(node: Node) {
    let (rpc, from) = (&node.rpc, key(0).text());
    for nonce in 0..3 {
        rpc.send(&transfer(key(0), nonce)).await;
    }
    assert_eq!(rpc.count(&from, json!("latest")).await, 0);
    assert_eq!(rpc.count(&from, json!("pending")).await, 3);
    node.mine().await;
    assert_eq!(rpc.count(&from, json!("latest")).await, 3);
    assert_eq!(rpc.count(&from, json!("pending")).await, 3);
    assert_eq!(rpc.count(&from, json!("earliest")).await, 0);
}

async fn a_gapped_nonce_waits_until_the_gap_is_filled(node: Node) {
    let (rpc, from) = (&node.rpc, key(0).text());
    let later = rpc.send(&transfer(key(0), 1)).await;
    let status = rpc.call("txpool_status", json!([])).await;
    assert_eq!((&status["pending"], &status["queued"]), (&json!("0x0"), &json!("0x1")));
    let content = rpc.call("txpool_content", json!([])).await;
    let queued: BTreeMap<String, BTreeMap<String, Value>> =
        serde_json::from_value(content["queued"].clone()).unwrap();
    let listed: Vec<(String, &Value)> =
        queued.iter().map(|(sender, txs)| (sender.to_lowercase(), &txs["1"]["hash"])).collect();
    assert_eq!(listed, [(from.to_lowercase(), &json!(later))]);
    assert_eq!(content["pending"], json!({}));
    node.mine().await;
    assert_eq!(rpc.receipt(&later).await, Value::Null);

    let first = rpc.send(&transfer(key(0), 0)).await;
    let status = rpc.call("txpool_status", json!([])).await;
    assert_eq!((&status["pending"], &status["queued"]), (&json!("0x2"), &json!("0x0")));
    node.mine().await;
    assert_eq!(rpc.receipt(&first).await["status"], "0x1");
    assert_eq!(rpc.receipt(&later).await["status"], "0x1");
    assert_eq!(rpc.count(&from, json!("latest")).await, 2);
}

fn priced(nonce: u64, percent: u128) -> TxEip1559 {
    let tx = dynamic(nonce);
    TxEip1559 {
        max_fee_per_gas: tx.max_fee_per_gas * percent / 100,
        max_priority_fee_per_gas: tx.max_priority_fee_per_gas * percent / 100,
        ..tx
    }
}

async fn a_dearer_replacement_takes_the_place(node: Node) {
    let rpc = &node.rpc;
    let old = rpc.send(&transfer(key(0), 0)).await;
    let new = rpc.send(&raw(key(0), priced(0, 120))).await;
    assert_ne!(old, new);
    assert_eq!(rpc.count(&key(0).text(), json!("pending")).await, 1);
    node.mine().await;
    assert_eq!(rpc.receipt(&old).await, Value::Null);
    assert_eq!(rpc.receipt(&new).await["status"], "0x1");
    assert_eq!(rpc.call("eth_getTransactionByHash", json!([old])).await, Value::Null);

    rpc.send(&transfer(key(0), 1)).await;
    let refused = rpc.send_refused(&raw(key(0), priced(1, 90))).await;
    assert_eq!(refused.message, "replacement transaction underpriced");
}

async fn the_same_bytes_again_are_known(node: Node) {
    let raw = transfer(key(0), 0);
    node.rpc.send(&raw).await;
    let refused = node.rpc.send_refused(&raw).await;
    let known = ["already known", "transaction already imported"];
    assert!(known.contains(&refused.message.as_str()), "{refused:?}");
}

async fn a_used_nonce_is_too_low(node: Node) {
    let raw_first = transfer(key(0), 0);
    node.rpc.send(&raw_first).await;
    node.mine().await;
    for late in [raw_first, raw(key(0), priced(0, 150))] {
        let refused = node.rpc.send_refused(&late).await;
        assert!(refused.message.starts_with("nonce too low"), "{refused:?}");
    }
}

async fn a_sender_without_funds_is_refused(node: Node) {
    let tx = TxEip1559 { value: U256::from(10).pow(U256::from(24)), ..dynamic(0) };
    let refused = node.rpc.send_refused(&raw(key(0), tx)).await;
    let text = refused.message.to_lowercase();
    assert!(text.starts_with("insufficient funds for gas * price + value"), "{refused:?}");
}

async fn too_little_gas_is_refused(node: Node) {
    let tx = TxEip1559 { gas_limit: 20_999, ..dynamic(0) };
    let refused = node.rpc.send_refused(&raw(key(0), tx)).await;
    assert!(refused.message.starts_with("intrinsic gas too low"), "{refused:?}");
}

async fn dearer_transactions_come_first(node: Node) {
    let rpc = &node.rpc;
    let cheap = rpc.send(&transfer(key(0), 0)).await;
    let dear = rpc.send(&raw(key(1), priced(0, 300))).await;
    let after_dear = rpc.send(&transfer(key(1), 1)).await;
    node.mine().await;
    let block = rpc.call("eth_getBlockByNumber", json!(["latest", false])).await;
    let order: Vec<&str> =
        block["transactions"].as_array().unwrap().iter().map(|h| h.as_str().unwrap()).collect();
    assert_eq!(order[0], dear);
    assert!(order.contains(&cheap.as_str()) && order.contains(&after_dear.as_str()), "{order:?}");
}
