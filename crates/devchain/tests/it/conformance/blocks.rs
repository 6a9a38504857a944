//! Blocks, receipts by block, heads and fees.

use alloy_eips::eip1559::BaseFeeParams;
use alloy_rpc_types_eth::Block;
use serde_json::{Value, json};

use super::on_both;
use crate::support::{Node, eventually, key, transfer};

on_both!(
    block_receipts_are_the_single_receipts,
    blocks_link_and_hash_as_their_headers_say,
    full_blocks_show_what_hashed_blocks_name,
    the_base_fee_follows_the_rule,
    fee_history_has_one_more_base_fee_than_blocks,
    safe_and_finalized_are_blocks_behind_the_head,
    what_is_not_there_is_null,
    suggestions_are_prices,
);

async fn block_receipts_are_the_single_receipts(node: Node) {
    let rpc = &node.rpc;
    let mut hashes = Vec::new();
    for nonce in 0..3 {
        hashes.push(rpc.send(&transfer(key(0), nonce)).await);
    }
    node.mine().await;
    let mut single = Vec::new();
    for hash in &hashes {
        single.push(rpc.receipt(hash).await);
    }
    let hash = single[0]["blockHash"].clone();
    for block in [json!("latest"), single[0]["blockNumber"].clone(), hash.clone(), json!({"blockHash": hash})]
    {
        let all = rpc.call("eth_getBlockReceipts", json!([block])).await;
        assert_eq!(all, json!(single), "{block}");
    }
}

async fn block_at(node: &Node, number: u64, full: bool) -> Value {
    node.rpc.call("eth_getBlockByNumber", json!([format!("0x{number:x}"), full])).await
}

async fn blocks_link_and_hash_as_their_headers_say(node: Node) {
    node.rpc.send(&transfer(key(0), 0)).await;
    for _ in 0..3 {
        node.mine().await;
    }
    let mut parent: Option<Block> = None;
    for number in 0..=3 {
        let json = block_at(&node, number, true).await;
        let block: Block = serde_json::from_value(json).unwrap();
        assert_eq!(block.header.inner.hash_slow(), block.header.hash);
        if let Some(parent) = parent {
            assert_eq!(block.header.parent_hash, parent.header.hash);
            assert!(block.header.timestamp >= parent.header.timestamp);
        }
        let bodies: Vec<_> = block.transactions.txns().map(|t| t.inner.inner().clone()).collect();
        let root = alloy_consensus::proofs::calculate_transaction_root(&bodies);
        assert_eq!(block.header.transactions_root, root);
        parent = Some(block);
    }
}

async fn full_blocks_show_what_hashed_blocks_name(node: Node) {
    node.rpc.send(&transfer(key(0), 0)).await;
    node.rpc.send(&transfer(key(1), 0)).await;
    node.mine().await;
    let (hashed, full) = (block_at(&node, 1, false).await, block_at(&node, 1, true).await);
    let of_full: Vec<Value> =
        full["transactions"].as_array().unwrap().iter().map(|t| t["hash"].clone()).collect();
    assert_eq!(hashed["transactions"], json!(of_full));
    assert_eq!(of_full.len(), 2);
    let by_hash = node.rpc.call("eth_getBlockByHash", json!([full["hash"], true])).await;
    assert_eq!(by_hash["transactions"], full["transactions"]);
    let alone = node.rpc.call("eth_getTransactionByHash", json!([of_full[0]])).await;
    assert_eq!(alone["from"], full["transactions"][0]["from"]);
}

async fn the_base_fee_follows_the_rule(node: Node) {
    for nonce in 0..4 {
        node.rpc.send(&transfer(key(0), nonce)).await;
        node.mine().await;
    }
    for number in 1..4 {
        let parent: Block = serde_json::from_value(block_at(&node, number, false).await).unwrap();
        let child: Block = serde_json::from_value(block_at(&node, number + 1, false).await).unwrap();
        let expected = parent.header.next_block_base_fee(BaseFeeParams::ethereum());
        assert_eq!(child.header.base_fee_per_gas, expected);
    }
}

async fn fee_history_has_one_more_base_fee_than_blocks(node: Node) {
    for nonce in 0..3 {
        node.rpc.send(&transfer(key(0), nonce)).await;
        node.mine().await;
    }
    // anvil fills its history after the block is there.
    let history = eventually("four base fees", async || {
        let history = node.rpc.call("eth_feeHistory", json!(["0x3", "latest", [10, 50, 90]])).await;
        Some(history).filter(|h| h["baseFeePerGas"].as_array().unwrap().len() == 4)
    })
    .await;
    assert_eq!(history["oldestBlock"], "0x1");
    assert_eq!(history["gasUsedRatio"].as_array().unwrap().len(), 3);
    let tip = json!("0x3b9aca00");
    assert_eq!(history["reward"], json!(vec![[&tip, &tip, &tip]; 3]));
    let latest = block_at(&node, 3, false).await;
    assert_eq!(history["baseFeePerGas"][2], latest["baseFeePerGas"]);
    node.mine().await;
    assert_eq!(history["baseFeePerGas"][3], block_at(&node, 4, false).await["baseFeePerGas"]);
}

async fn safe_and_finalized_are_blocks_behind_the_head(node: Node) {
    for _ in 0..5 {
        node.mine().await;
    }
    for tag in ["safe", "finalized"] {
        let block = node.rpc.call("eth_getBlockByNumber", json!([tag, false])).await;
        let number = u64::from_str_radix(&block["number"].as_str().unwrap()[2..], 16).unwrap();
        assert!(number <= 5, "{tag} is {number}");
        node.rpc.count(&key(0).text(), json!(tag)).await;
    }
}

async fn what_is_not_there_is_null(node: Node) {
    let nobody = format!("0x{}", "11".repeat(32));
    let rpc = &node.rpc;
    assert_eq!(rpc.receipt(&nobody).await, Value::Null);
    assert_eq!(rpc.call("eth_getTransactionByHash", json!([nobody])).await, Value::Null);
    assert_eq!(rpc.call("eth_getBlockByHash", json!([nobody, false])).await, Value::Null);
    assert_eq!(rpc.call("eth_getBlockByNumber", json!(["0x99", false])).await, Value::Null);
    assert_eq!(rpc.call("eth_getBlockReceipts", json!(["0x99"])).await, Value::Null);
}

async fn suggestions_are_prices(node: Node) {
    let tip = node.rpc.number("eth_maxPriorityFeePerGas", json!([])).await;
    let price = node.rpc.number("eth_gasPrice", json!([])).await;
    assert!(price > tip, "{price} {tip}");
}
