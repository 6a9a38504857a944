//! Accounts, now and at older blocks.

use serde_json::json;

use super::on_both;
use crate::support::{Node, key, transfer};

on_both!(
    counts_at_a_block_hash_do_not_move,
    balances_move_by_value_and_fee,
    a_block_that_is_not_there_is_an_error_for_state,
);

async fn counts_at_a_block_hash_do_not_move(node: Node) {
    let (rpc, from) = (&node.rpc, key(0).text());
    let mut hashes = Vec::new();
    for nonce in 0..3 {
        rpc.send(&transfer(key(0), nonce)).await;
        node.mine().await;
        let block = rpc.call("eth_getBlockByNumber", json!(["latest", false])).await;
        hashes.push(block["hash"].clone());
    }
    for (index, hash) in hashes.iter().enumerate() {
        let landed = index as u64 + 1;
        assert_eq!(rpc.count(&from, json!({"blockHash": hash})).await, landed);
        assert_eq!(rpc.count(&from, json!({"blockHash": hash, "requireCanonical": true})).await, landed);
        assert_eq!(rpc.count(&from, json!(format!("0x{landed:x}"))).await, landed);
    }
    assert_eq!(rpc.count(&from, json!("0x0")).await, 0);
}

async fn balances_move_by_value_and_fee(node: Node) {
    let (rpc, from, to) = (&node.rpc, key(0).text(), format!("0x{}", "ee".repeat(20)));
    let hash = rpc.send(&transfer(key(0), 0)).await;
    node.mine().await;
    let balance = async |at: &str| {
        let value = rpc.call("eth_getBalance", json!([from, at])).await;
        u128::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap()
    };
    let receipt = rpc.receipt(&hash).await;
    let price = u128::from_str_radix(&receipt["effectiveGasPrice"].as_str().unwrap()[2..], 16).unwrap();
    assert_eq!(balance("0x0").await - balance("latest").await, 21_000 * price + 1);
    assert_eq!(rpc.call("eth_getBalance", json!([to, "latest"])).await, "0x1");
    assert_eq!(rpc.call("eth_getBalance", json!([to, "0x0"])).await, "0x0");
}

async fn a_block_that_is_not_there_is_an_error_for_state(node: Node) {
    let nobody = format!("0x{}", "11".repeat(32));
    for at in [json!("0x99"), json!({"blockHash": nobody})] {
        node.rpc.refused("eth_getTransactionCount", json!([key(0).text(), at])).await;
    }
}
