//! Contracts: creating, calling, failing, logging; and every kind of transaction.

use alloy_consensus::{TxEip1559, TxEip2930, TxEip7702, TxLegacy};
use alloy_primitives::{Address, TxKind, U256};
use serde_json::{Value, json};

use super::on_both;
use crate::support::{LOG_TOPIC, LOGGER, Node, REVERT_DATA, REVERTER, creation, dynamic, key, raw};

on_both!(
    a_created_contract_has_code_and_an_address,
    storage_and_calls_see_the_block_they_ask_for,
    logs_are_found_by_address_topic_and_block,
    an_estimate_of_a_revert_carries_its_data,
    a_failed_transaction_uses_its_nonce_and_leaves_no_logs,
    estimates_are_enough_and_not_far_off,
    every_kind_of_transaction_lands,
);

/// Creates the contract with account 9 and returns its address.
async fn create(node: &Node, runtime: &str) -> Address {
    let from = key(9);
    let nonce = node.rpc.count(&from.text(), json!("latest")).await;
    let tx = TxEip1559 {
        to: TxKind::Create,
        input: creation(runtime),
        gas_limit: 500_000,
        value: U256::ZERO,
        ..dynamic(nonce)
    };
    let hash = node.rpc.send(&raw(from, tx)).await;
    node.mine().await;
    let receipt = node.rpc.receipt(&hash).await;
    assert_eq!((&receipt["status"], &receipt["to"]), (&json!("0x1"), &Value::Null));
    let address: Address = receipt["contractAddress"].as_str().unwrap().parse().unwrap();
    assert_eq!(address, from.address.create(nonce));
    address
}

fn asks(contract: Address, nonce: u64, word: u64) -> TxEip1559 {
    TxEip1559 {
        to: TxKind::Call(contract),
        input: U256::from(word).to_be_bytes::<32>().into(),
        gas_limit: 200_000,
        value: U256::ZERO,
        ..dynamic(nonce)
    }
}

async fn a_created_contract_has_code_and_an_address(node: Node) {
    let contract = create(&node, LOGGER).await;
    let code = async |at: &str| node.rpc.call("eth_getCode", json!([contract, at])).await;
    assert_eq!(code("latest").await, format!("0x{LOGGER}"));
    assert_eq!(code("0x0").await, "0x");
}

async fn storage_and_calls_see_the_block_they_ask_for(node: Node) {
    let contract = create(&node, LOGGER).await;
    for (nonce, word) in [(0, 5), (1, 7)] {
        node.rpc.send(&raw(key(0), asks(contract, nonce, word))).await;
        node.mine().await;
    }
    let slot = async |at: &str| node.rpc.call("eth_getStorageAt", json!([contract, "0x0", at])).await;
    let word = |n: u64| json!(format!("0x{n:064x}"));
    assert_eq!(slot("latest").await, word(7));
    assert_eq!(slot("0x2").await, word(5));
    assert_eq!(slot("0x1").await, word(0));
    let answer = node.rpc.call("eth_call", json!([{"to": contract}, "latest"])).await;
    assert_eq!(answer, "0x");
}

async fn logs_are_found_by_address_topic_and_block(node: Node) {
    let rpc = &node.rpc;
    let contract = create(&node, LOGGER).await;
    let first = rpc.send(&raw(key(0), asks(contract, 0, 5))).await;
    rpc.send(&raw(key(0), asks(contract, 1, 6))).await;
    node.mine().await;
    rpc.send(&raw(key(0), asks(contract, 2, 7))).await;
    node.mine().await;

    let count = async |filter: Value| {
        rpc.call("eth_getLogs", json!([filter])).await.as_array().map(Vec::len).unwrap()
    };
    assert_eq!(count(json!({"fromBlock": "0x0", "toBlock": "latest", "address": contract})).await, 3);
    assert_eq!(count(json!({"fromBlock": "0x0", "address": [contract], "topics": [LOG_TOPIC]})).await, 3);
    assert_eq!(count(json!({"fromBlock": "0x0", "topics": [[LOG_TOPIC, contract.into_word()]]})).await, 3);
    assert_eq!(count(json!({"fromBlock": "0x0", "topics": [contract.into_word()]})).await, 0);
    assert_eq!(count(json!({"fromBlock": "0x3", "toBlock": "0x3"})).await, 1);
    let receipt = rpc.receipt(&first).await;
    let in_block = rpc.call("eth_getLogs", json!([{"blockHash": receipt["blockHash"]}])).await;
    assert_eq!(in_block.as_array().unwrap().len(), 2);
    assert_eq!(in_block[0]["transactionHash"], first);
    assert_eq!(in_block[0]["topics"], json!([LOG_TOPIC]));
    assert_eq!(in_block[0]["data"], format!("0x{:064x}", 5));
    assert_eq!(in_block[1]["logIndex"], "0x1");
    assert_eq!(receipt["logs"][0]["logIndex"], "0x0");
    let block = rpc.call("eth_getBlockByNumber", json!(["0x2", false])).await;
    assert_eq!(receipt["logsBloom"], block["logsBloom"]);
}

async fn an_estimate_of_a_revert_carries_its_data(node: Node) {
    let contract = create(&node, REVERTER).await;
    let request = json!([{"from": key(0).text(), "to": contract}]);
    for method in ["eth_estimateGas", "eth_call"] {
        let refused = node.rpc.refused(method, request.clone()).await;
        assert_eq!(refused.code, 3, "{refused:?}");
        assert!(refused.message.starts_with("execution reverted: nope"), "{refused:?}");
        assert_eq!(refused.data, REVERT_DATA);
    }
}

async fn a_failed_transaction_uses_its_nonce_and_leaves_no_logs(node: Node) {
    let contract = create(&node, REVERTER).await;
    let hash = node.rpc.send(&raw(key(0), asks(contract, 0, 0))).await;
    node.mine().await;
    let receipt = node.rpc.receipt(&hash).await;
    assert_eq!((&receipt["status"], &receipt["logs"]), (&json!("0x0"), &json!([])));
    assert_eq!(node.rpc.count(&key(0).text(), json!("latest")).await, 1);
}

async fn estimates_are_enough_and_not_far_off(node: Node) {
    let rpc = &node.rpc;
    let transfer = json!([{"from": key(0).text(), "to": key(1).text(), "value": "0x1"}]);
    assert_eq!(rpc.number("eth_estimateGas", transfer).await, 21_000);

    let contract = create(&node, LOGGER).await;
    let input = format!("0x{:064x}", 9);
    let request = json!([{"from": key(0).text(), "to": contract, "input": input}]);
    let estimate = rpc.number("eth_estimateGas", request).await;
    let tx = TxEip1559 { gas_limit: estimate, ..asks(contract, 0, 9) };
    let hash = rpc.send(&raw(key(0), tx)).await;
    node.mine().await;
    let receipt = rpc.receipt(&hash).await;
    assert_eq!(receipt["status"], "0x1");
    let used = u64::from_str_radix(&receipt["gasUsed"].as_str().unwrap()[2..], 16).unwrap();
    assert!(estimate >= used && estimate <= used * 12 / 10, "{estimate} for {used}");
}

async fn every_kind_of_transaction_lands(node: Node) {
    let rpc = &node.rpc;
    let to = TxKind::Call(Address::repeat_byte(0xdd));
    let (gas_price, value) = (20_000_000_000, U256::from(1));
    let legacy = TxLegacy {
        chain_id: Some(31_337),
        nonce: 0,
        gas_price,
        gas_limit: 21_000,
        to,
        value,
        ..TxLegacy::default()
    };
    let listed = TxEip2930 {
        chain_id: 31_337,
        nonce: 1,
        gas_price,
        gas_limit: 21_000,
        to,
        value,
        ..TxEip2930::default()
    };
    let delegate = Address::repeat_byte(0xcc);
    let delegating = TxEip7702 {
        chain_id: 31_337,
        nonce: 2,
        gas_limit: 100_000,
        max_fee_per_gas: gas_price,
        max_priority_fee_per_gas: 1_000_000_000,
        to: Address::repeat_byte(0xdd),
        authorization_list: vec![key(5).authorize(31_337, delegate, 0)],
        ..TxEip7702::default()
    };
    let sent = [
        ("0x0", rpc.send(&raw(key(0), legacy)).await),
        ("0x1", rpc.send(&raw(key(0), listed)).await),
        ("0x4", rpc.send(&raw(key(0), delegating)).await),
    ];
    node.mine().await;
    for (kind, hash) in sent {
        let receipt = rpc.receipt(&hash).await;
        assert_eq!((&receipt["status"], &receipt["type"]), (&json!("0x1"), &json!(kind)));
        assert_eq!(rpc.call("eth_getTransactionByHash", json!([hash])).await["type"], kind);
    }
    let code = rpc.call("eth_getCode", json!([key(5).text(), "latest"])).await;
    assert_eq!(code, format!("0xef0100{}", "cc".repeat(20)));
    assert_eq!(rpc.count(&key(5).text(), json!("latest")).await, 1);
}
