//! The port against a real node.

use std::time::Duration;

use landfall_chain::evm::EvmChain;
use landfall_core::attempt::Call;
use landfall_core::fees::Fees;
use landfall_core::outcome::SendOutcome;
use landfall_core::ports::chain::{BlockAt, Chain, EstimateFailure};
use landfall_core::ports::signer::Signer;
use landfall_core::request::AccessItem;
use landfall_core::{Account, Gas, Price, Slot, Wei};

use alloy_primitives::{B256, Bytes, U256, hex};

use crate::harness::node::Anvil;
use crate::harness::{BOB, chain, chain_with, dynamic, seal, signer, transfer, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_of_transaction_is_sent_and_seen_mined() {
    let anvil = Anvil::start(&[]).await;
    let chain = chain(&[anvil.http()]);
    let legacy = transfer(1, Fees::Legacy { gas_price: Price::gwei(10) });
    let mut listed = transfer(2, Fees::Legacy { gas_price: Price::gwei(10) });
    listed.call.access_list = vec![AccessItem { address: Account(BOB), storage_keys: vec![B256::ZERO] }];
    let mut sealed = Vec::new();
    for draft in [&transfer(0, dynamic()), &legacy, &listed] {
        sealed.push(seal(&chain, draft).await);
    }

    let reports = chain.send(&sealed).await;
    assert!(reports.iter().all(|report| report.outcome == SendOutcome::Accepted), "{reports:?}");
    assert!(reports.iter().all(|report| report.endpoint == anvil.http()));

    let hashes: Vec<_> = sealed.iter().map(|sealed| sealed.hash).collect();
    let receipts = until("three receipts", || async {
        let receipts = chain.receipts(&hashes).await.unwrap();
        (receipts.len() == 3).then_some(receipts)
    })
    .await;
    for (receipt, hash) in receipts.iter().zip(&hashes) {
        assert!(receipt.success && receipt.hash == *hash && receipt.gas_used >= Gas(21_000));
        let of_block = chain.block_receipts(&receipt.block).await.unwrap();
        assert!(of_block.contains(receipt));
        let block = chain.block(BlockAt::Hash(receipt.block.hash)).await.unwrap().unwrap();
        assert_eq!(chain.block(BlockAt::Number(receipt.block.number)).await.unwrap(), Some(block));
    }

    let head = chain.block(BlockAt::Latest).await.unwrap().unwrap();
    let accounts = [signer().account(), Account(BOB)];
    assert_eq!(chain.counts(&accounts, &head.at).await.unwrap(), [Slot(3), Slot(0)]);
    let again = chain.send(&sealed).await;
    assert!(
        again
            .iter()
            .all(|report| matches!(report.outcome, SendOutcome::NonceTooLow | SendOutcome::AlreadyKnown)),
        "{again:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_real_pool_answers_is_understood() {
    let anvil = Anvil::start(&["--no-mining"]).await;
    let chain = chain(&[anvil.http()]);
    let first = seal(&chain, &transfer(0, dynamic())).await;
    assert_eq!(chain.send(std::slice::from_ref(&first)).await[0].outcome, SendOutcome::Accepted);
    assert_eq!(chain.send(std::slice::from_ref(&first)).await[0].outcome, SendOutcome::AlreadyKnown);
    let mut other = transfer(0, dynamic());
    other.call.value = Wei(U256::from(7));
    let mut dear = transfer(1, dynamic());
    dear.call.value = Wei(U256::MAX / U256::from(2));
    let mut short_of_gas = transfer(1, dynamic());
    short_of_gas.gas = Gas(20_000);
    let cases = [
        (other, SendOutcome::ReplacementUnderpriced),
        (dear, SendOutcome::InsufficientFunds),
        (short_of_gas, SendOutcome::Invalid),
        (transfer(1, Fees::Dynamic { max_fee: Price(1), tip: Price(1) }), SendOutcome::FeeBelowBase),
    ];
    for (draft, wanted) in cases {
        let report = chain.send(&[seal(&chain, &draft).await]).await.remove(0);
        assert_eq!(report.outcome, wanted, "{report:?}");
    }
}

/// Creation code that reverts with `Error("no")`.
fn reverting() -> Bytes {
    let data = hex!(
        "08c379a000000000000000000000000000000000000000000000000000000000000000200000000000000000000000000000"
        "0000000000000000000000000000000000026e6f000000000000000000000000000000000000000000000000000000000000"
    );
    // codecopy(0, 12, len); revert(0, len)
    let len = u8::try_from(data.len()).unwrap();
    [&[0x60, len, 0x60, 12, 0x60, 0, 0x39, 0x60, len, 0x60, 0, 0xfd][..], &data].concat().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn estimates_and_fees_come_from_the_node() {
    let anvil = Anvil::start(&[]).await;
    let chain = chain(&[anvil.http()]);
    let from = signer().account();
    let plain = Call { value: Wei(U256::from(1)), to: Some(Account(BOB)), ..Call::no_op(from) };
    let reverts = Call { to: None, data: reverting(), ..Call::no_op(from) };
    let estimates = chain.estimate(&[plain, reverts]).await;
    assert_eq!(estimates[0], Ok(Gas(21_000)));
    assert_eq!(estimates[1], Err(EstimateFailure::Reverted { reason: "no".into() }));

    let head = chain.block(BlockAt::Latest).await.unwrap().unwrap();
    let quote = chain.fees(&head).await.unwrap();
    assert!(
        quote.base_fee > Some(Price(0)) && quote.slow > Price(0) && quote.fast >= quote.normal,
        "{quote:?}"
    );
    assert!(chain.block(BlockAt::Finalized).await.unwrap().is_some());
    assert_eq!(chain.block(BlockAt::Number(1_000_000)).await.unwrap(), None);
    assert_eq!(chain.block(BlockAt::Hash(B256::repeat_byte(7))).await.unwrap(), None);
}

/// Has transactions mined until the word of a new head comes.
async fn hint_comes(chain: &EvmChain) {
    let mining = async {
        let mut slot = 0;
        loop {
            let reports = chain.send(&[seal(chain, &transfer(slot, dynamic())).await]).await;
            slot += u64::from(matches!(reports[0].outcome, SendOutcome::Accepted | SendOutcome::NonceTooLow));
            tokio::task::yield_now().await;
        }
    };
    let first = async {
        tokio::select! {
            () = chain.head_hint() => {}
            () = mining => {}
        }
    };
    tokio::time::timeout(Duration::from_secs(20), first).await.expect("word of a new head");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_web_socket_that_broke_is_connected_again_and_announces_heads_again() {
    let anvil = Anvil::start(&[]).await;
    let chain = chain_with(&[anvil.ws()], |config| config.poll_interval = Duration::from_secs(60));
    hint_comes(&chain).await;
    hint_comes(&chain).await;
    let _new = anvil.restart().await;
    // One may be left over from the old node.
    hint_comes(&chain).await;
    hint_comes(&chain).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_web_socket_serves_every_call() {
    let anvil = Anvil::start(&[]).await;
    let chain = chain_with(&[anvil.ws()], |config| config.poll_interval = Duration::from_secs(60));
    let sealed = [seal(&chain, &transfer(0, dynamic())).await, seal(&chain, &transfer(1, dynamic())).await];
    let reports = chain.send(&sealed).await;
    assert!(reports.iter().all(|report| report.outcome == SendOutcome::Accepted), "{reports:?}");
    let hashes = [sealed[0].hash, sealed[1].hash];
    until("receipts", || async { (chain.receipts(&hashes).await.unwrap().len() == 2).then_some(()) }).await;
    let head = chain.block(BlockAt::Latest).await.unwrap().unwrap();
    assert_eq!(chain.counts(&[signer().account()], &head.at).await.unwrap(), [Slot(2)]);
}
