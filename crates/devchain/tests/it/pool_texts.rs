//! What the pool refuses, in geth's exact words, and what it takes without a word.

use alloy_consensus::{TxEip1559, TxLegacy};
use alloy_eips::eip7702::SignedAuthorization;
use alloy_primitives::{Address, Bytes, TxKind, U256, hex};
use landfall_devchain::{Devchain, PoolSize};
use serde_json::json;

use crate::support::{GWEI, Key, Rpc, dynamic, key, raw, start_with, transfer};

async fn chain() -> (Devchain, Rpc) {
    start_with(|_| {}).await
}

/// The refusal's text; every one has geth's common code.
async fn text(rpc: &Rpc, raw: &str) -> String {
    let refused = rpc.send_refused(raw).await;
    assert_eq!(refused.code, -32000, "{refused:?}");
    refused.message
}

fn priced(nonce: u64, fee_cap: u128, tip: u128) -> String {
    raw(key(0), TxEip1559 { max_fee_per_gas: fee_cap, max_priority_fee_per_gas: tip, ..dynamic(nonce) })
}

#[tokio::test]
async fn known_and_late_transactions_are_named() {
    let (chain, rpc) = chain().await;
    let first = transfer(key(0), 0);
    rpc.send(&first).await;
    assert_eq!(text(&rpc, &first).await, "already known");
    rpc.send(&transfer(key(0), 1)).await;
    chain.mine(1);
    assert_eq!(text(&rpc, &first).await, "nonce too low: next nonce 2, tx nonce 0");
}

#[tokio::test]
async fn a_replacement_needs_ten_percent_on_both_fees() {
    let (chain, rpc) = chain().await;
    let underpriced = "replacement transaction underpriced";
    rpc.send(&priced(0, 20 * GWEI, 1000)).await;
    for (fee_cap, tip) in
        [(22 * GWEI, 1099), (22 * GWEI - 1, 1100), (20 * GWEI, 5000), (30 * GWEI, 1000), (10 * GWEI, 500)]
    {
        assert_eq!(text(&rpc, &priced(0, fee_cap, tip)).await, underpriced, "{fee_cap} {tip}");
    }
    let second = rpc.send(&priced(0, 22 * GWEI, 1100)).await;
    // The next step counts from the new price, and it holds for gapped ones too.
    assert_eq!(text(&rpc, &priced(0, 24 * GWEI, 1209)).await, underpriced);
    rpc.send(&priced(5, 20 * GWEI, 1000)).await;
    assert_eq!(text(&rpc, &priced(5, 21 * GWEI, 1050)).await, underpriced);
    assert_eq!(chain.pool_size(), PoolSize { pending: 1, queued: 1 });
    chain.mine(1);
    assert_eq!(rpc.receipt(&second).await["status"], "0x1");
}

#[tokio::test]
async fn prices_the_node_does_not_take_are_named() {
    let (_chain, rpc) = start_with(|c| c.min_tip = 1000).await;
    assert_eq!(
        text(&rpc, &priced(0, GWEI, 999)).await,
        "transaction gas price below minimum: gas tip cap 999, minimum needed 1000"
    );
    assert_eq!(
        text(&rpc, &priced(0, GWEI, GWEI + 1)).await,
        "max priority fee per gas higher than max fee per gas"
    );
    let dear = TxEip1559 { max_fee_per_gas: 100_000 * GWEI, ..dynamic(0) };
    assert_eq!(
        text(&rpc, &raw(key(0), dear)).await,
        "tx fee (2.10 ether) exceeds the configured cap (1.00 ether)"
    );
}

#[tokio::test]
async fn a_fee_cap_under_the_base_fee_waits_in_the_pool() {
    let (chain, rpc) = chain().await;
    let hash = rpc.send(&priced(0, GWEI / 2, 1)).await;
    chain.mine(1);
    assert!(rpc.receipt(&hash).await.is_null());
    assert_eq!(chain.pool_size(), PoolSize { pending: 1, queued: 0 });
    chain.set_next_base_fee(1000);
    chain.mine(1);
    assert_eq!(rpc.receipt(&hash).await["status"], "0x1");
}

#[tokio::test]
async fn missing_funds_are_counted_alone_with_the_queue_and_on_replacement() {
    let (chain, rpc) = chain().await;
    let balance = U256::from(50 * 21_000 * GWEI);
    chain.set_balance(key(0).address, balance);
    let costing = |nonce, fee: u128| {
        let tx = TxEip1559 { max_fee_per_gas: fee, value: U256::ZERO, ..dynamic(nonce) };
        raw(key(0), tx)
    };
    let gas = |gwei: u128| 21_000 * gwei * GWEI;
    assert_eq!(
        text(&rpc, &costing(0, 60 * GWEI)).await,
        format!(
            "insufficient funds for gas * price + value: balance {balance}, tx cost {}, overshot {}",
            gas(60),
            gas(10)
        )
    );
    rpc.send(&costing(0, 30 * GWEI)).await;
    assert_eq!(
        text(&rpc, &costing(1, 40 * GWEI)).await,
        format!(
            "insufficient funds for gas * price + value: balance {balance}, queued cost {}, tx cost {}, overshot {}",
            gas(30),
            gas(40),
            gas(20)
        )
    );
    rpc.send(&costing(1, 18 * GWEI)).await;
    assert_eq!(
        text(&rpc, &costing(0, 40 * GWEI)).await,
        format!(
            "insufficient funds for gas * price + value: balance {balance}, queued cost {}, tx bumped {}, overshot {}",
            gas(48),
            gas(10),
            gas(8)
        )
    );
}

#[tokio::test]
async fn gas_bounds_are_named() {
    let (_chain, rpc) = start_with(|c| c.gas_limit = 10_000_000).await;
    let with_gas = |gas_limit| raw(key(0), TxEip1559 { gas_limit, max_fee_per_gas: GWEI, ..dynamic(0) });
    assert_eq!(text(&rpc, &with_gas(20_999)).await, "intrinsic gas too low: gas 20999, minimum needed 21000");
    assert_eq!(text(&rpc, &with_gas(10_000_001)).await, "exceeds block gas limit");
    assert_eq!(
        text(&rpc, &with_gas(16_777_217)).await,
        "transaction gas limit too high (cap: 16777216, tx: 16777217)"
    );
    let data = TxEip1559 { input: vec![1; 1000].into(), gas_limit: 37_000, ..dynamic(0) };
    assert_eq!(
        text(&rpc, &raw(key(0), data)).await,
        "insufficient gas for floor data gas cost: gas 37000, minimum needed 61000"
    );
}

#[tokio::test]
async fn sizes_are_named() {
    let (_chain, rpc) = chain().await;
    let tx = TxEip1559 { input: vec![0; 131_072].into(), gas_limit: 2_000_000, ..dynamic(0) };
    let encoded = raw(key(0), tx);
    let size = (encoded.len() - 2) / 2;
    assert_eq!(text(&rpc, &encoded).await, format!("oversized data: transaction size {size}, limit 131072"));
    let code = vec![0; 49_153];
    let tx = TxEip1559 { input: code.into(), to: TxKind::Create, gas_limit: 2_000_000, ..dynamic(0) };
    assert_eq!(
        text(&rpc, &raw(key(0), tx)).await,
        "max initcode size exceeded: code size 49153, limit 49152"
    );
}

#[tokio::test]
async fn kinds_and_chains_that_do_not_belong_here_are_named() {
    let (_chain, rpc) = chain().await;
    assert_eq!(
        text(&rpc, "0x03c0").await,
        "transaction type not supported: tx type 3 not supported by this pool"
    );
    assert_eq!(text(&rpc, "0x05c0").await, "transaction type not supported");
    assert_eq!(text(&rpc, "0x").await, "typed transaction too short");
    assert!(text(&rpc, "0x02c1").await.starts_with("rlp: "));
    let elsewhere = TxEip1559 { chain_id: 1, ..dynamic(0) };
    assert_eq!(
        text(&rpc, &raw(key(0), elsewhere)).await,
        "invalid sender: invalid chain id for signer: have 1 want 31337"
    );
    let unprotected = TxLegacy { gas_price: 20 * GWEI, gas_limit: 21_000, ..TxLegacy::default() };
    assert_eq!(
        text(&rpc, &raw(key(0), unprotected)).await,
        "only replay-protected (EIP-155) transactions allowed over RPC"
    );
    assert_eq!(rpc.send_refused("zz").await.code, -32602);
}

#[tokio::test]
async fn more_than_64_gapped_are_dropped_without_a_word() {
    let (chain, rpc) = chain().await;
    for nonce in 1..=70 {
        rpc.send(&transfer(key(0), nonce)).await;
    }
    assert_eq!(chain.pool_size(), PoolSize { pending: 0, queued: 64 });
    rpc.send(&transfer(key(0), 0)).await;
    assert_eq!(chain.pool_size(), PoolSize { pending: 65, queued: 0 });
    assert_eq!(rpc.count(&key(0).text(), json!("pending")).await, 65);
    // Executable ones have no such bound.
    for nonce in 65..140 {
        rpc.send(&transfer(key(0), nonce)).await;
    }
    assert_eq!(chain.pool_size().pending, 140);
}

#[tokio::test]
async fn a_full_pool_keeps_the_dearest() {
    let (chain, rpc) = start_with(|c| c.pool_limit = 2).await;
    let early = rpc.send(&transfer(key(0), 0)).await;
    let late = rpc.send(&transfer(key(1), 0)).await;
    assert_eq!(text(&rpc, &transfer(key(2), 0)).await, "transaction underpriced");
    let dear = TxEip1559 { max_priority_fee_per_gas: 2 * GWEI, ..dynamic(0) };
    rpc.send(&raw(key(2), dear)).await;
    assert_eq!(chain.pool_size().pending, 2);
    let pooled = async |hash: &str| !rpc.call("eth_getTransactionByHash", json!([hash])).await.is_null();
    assert!(pooled(&early).await && !pooled(&late).await);
}

fn delegation_code(to: Address) -> Bytes {
    hex::decode(format!("ef0100{}", hex::encode(to))).unwrap().into()
}

#[tokio::test]
async fn a_delegated_account_gets_one_transaction() {
    let (chain, rpc) = chain().await;
    chain.set_code(key(0).address, delegation_code(Address::repeat_byte(0xcc)));
    assert_eq!(text(&rpc, &transfer(key(0), 1)).await, "gapped-nonce tx from delegated accounts");
    rpc.send(&priced(0, 20 * GWEI, GWEI)).await;
    assert_eq!(
        text(&rpc, &transfer(key(0), 1)).await,
        "in-flight transaction limit reached for delegated accounts"
    );
    rpc.send(&priced(0, 30 * GWEI, 2 * GWEI)).await;
    chain.set_code(key(1).address, Bytes::from_static(&[0x00]));
    assert_eq!(text(&rpc, &transfer(key(1), 0)).await, "sender not an eoa");
}

#[tokio::test]
async fn a_set_code_transaction_without_authorizations_is_refused() {
    let (_chain, rpc) = chain().await;
    let none: Vec<SignedAuthorization> = Vec::new();
    let tx = alloy_consensus::TxEip7702 {
        chain_id: 31_337,
        gas_limit: 100_000,
        max_fee_per_gas: 20 * GWEI,
        max_priority_fee_per_gas: GWEI,
        authorization_list: none,
        ..Default::default()
    };
    let from: Key = key(0);
    assert_eq!(text(&rpc, &raw(from, tx)).await, "set code tx must have at least one authorization tuple");
}
