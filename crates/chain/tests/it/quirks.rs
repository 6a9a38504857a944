//! What an endpoint does not do is found out once, and done another way.

use alloy_primitives::B256;
use landfall_core::attempt::Call;
use landfall_core::ports::chain::{BlockAt, Chain, EstimateFailure};
use landfall_core::view::BlockRef;
use landfall_core::{Account, Gas, Price, Slot};
use serde_json::json;

use crate::harness::stub::{Batches, Mood, Say, Stub, block, receipt};
use crate::harness::{BOB, chain};

const AT: BlockRef = BlockRef { number: 5, hash: B256::repeat_byte(5) };
const OTHER: B256 = B256::repeat_byte(6);
const TXS: [B256; 3] = [B256::repeat_byte(0x11), B256::repeat_byte(0x12), B256::repeat_byte(0x13)];

fn serving_receipts_one_by_one(stub: &Stub) {
    stub.on("eth_getBlockByHash", |_| Say::Result(block(5, AT.hash, &TXS)));
    stub.on("eth_getTransactionReceipt", |params| {
        Say::Result(receipt(serde_json::from_value(params[0].clone()).unwrap(), 5, AT.hash))
    });
}

#[tokio::test]
async fn without_block_receipts_they_are_read_one_by_one() {
    let stub = Stub::start().await;
    serving_receipts_one_by_one(&stub);
    for batches in [Batches::Taken, Batches::Refused] {
        stub.batches(batches);
        let chain = chain(&[stub.url()]);
        let before = stub.asked("eth_getBlockReceipts");
        for _ in 0..2 {
            let receipts = chain.block_receipts(&AT).await.unwrap();
            assert_eq!(receipts.iter().map(|receipt| receipt.hash.0).collect::<Vec<_>>(), TXS);
        }
        assert_eq!(stub.asked("eth_getBlockReceipts"), before + 1, "found out once");
    }
}

#[tokio::test]
async fn receipts_of_another_block_are_refused() {
    let (wrong, good) = (Stub::start().await, Stub::start().await);
    wrong.on("eth_getBlockReceipts", |_| Say::Result(json!([receipt(TXS[0], 5, OTHER)])));
    good.on("eth_getBlockReceipts", |_| Say::Result(json!([receipt(TXS[0], 5, AT.hash)])));
    let both = chain(&[wrong.url(), good.url()]);
    assert_eq!(both.block_receipts(&AT).await.unwrap()[0].block, AT);
    let error = chain(&[wrong.url()]).block_receipts(&AT).await.unwrap_err().to_string();
    assert!(error.contains("cannot be read") && error.contains("answered with one of 0x0606"), "{error}");
}

#[tokio::test]
async fn a_block_that_an_endpoint_does_not_know_is_asked_of_the_next() {
    let (behind, good) = (Stub::start().await, Stub::start().await);
    behind.on("eth_getBlockReceipts", |_| Say::Result(json!(null)));
    good.on("eth_getBlockReceipts", |_| Say::Result(json!([])));
    let both = chain(&[behind.url(), good.url()]);
    assert_eq!(both.block_receipts(&AT).await, Ok(vec![]));
    assert!(chain(&[behind.url()]).block_receipts(&AT).await.is_err());
}

#[tokio::test]
async fn counts_are_asked_by_hash_and_by_number_where_that_is_refused() {
    let stub = Stub::start().await;
    stub.on("eth_getTransactionCount", |params| match &params[1] {
        at if *at == json!({"blockHash": AT.hash}) => {
            Say::Error(-32602, "invalid argument 1: cannot unmarshal")
        }
        at if *at == json!("0x5") => Say::Result(json!("0x7")),
        at => panic!("{at}"),
    });
    let chain = chain(&[stub.url()]);
    for _ in 0..3 {
        assert_eq!(chain.counts(&[Account(BOB), Account(BOB)], &AT).await, Ok(vec![Slot(7), Slot(7)]));
    }
    assert_eq!(stub.asked("eth_getTransactionCount"), 2 + 3 * 2);
    assert_eq!(chain.counts(&[], &AT).await, Ok(vec![]));
}

#[tokio::test]
async fn estimates_are_made_on_the_head_where_there_is_no_pending_block() {
    let stub = Stub::start().await;
    stub.on("eth_estimateGas", |params| match params[1].as_str() {
        Some("pending") => Say::Error(-32602, "pending block is not available"),
        _ => Say::Result(json!("0x5208")),
    });
    let chain = chain(&[stub.url()]);
    let call = Call::no_op(Account(BOB));
    assert_eq!(chain.estimate(&[call.clone(), call.clone()]).await, [Ok(Gas(21_000)), Ok(Gas(21_000))]);
    assert_eq!(chain.estimate(&[call]).await, [Ok(Gas(21_000))]);
    assert_eq!(stub.asked("eth_estimateGas"), 2 + 2 + 1);
}

#[tokio::test]
async fn a_call_without_a_verdict_is_asked_of_the_next_endpoint() {
    let (vague, good) = (Stub::start().await, Stub::start().await);
    vague.on("eth_estimateGas", |_| Say::Error(-32000, "something nobody has seen"));
    good.on("eth_estimateGas", |_| Say::Error(3, "execution reverted: no"));
    let call = Call::no_op(Account(BOB));
    let both = chain(&[vague.url(), good.url()]);
    let reason = "execution reverted: no".to_owned();
    assert_eq!(both.estimate(std::slice::from_ref(&call)).await, [Err(EstimateFailure::Reverted { reason })]);
    let alone = chain(&[vague.url()]).estimate(&[call]).await;
    assert!(matches!(alone[0], Err(EstimateFailure::Unavailable { .. })), "{alone:?}");
}

#[tokio::test]
async fn a_no_of_an_endpoint_that_is_behind_is_no_verdict() {
    let (behind, fresh) = (Stub::start().await, Stub::start().await);
    behind.head(6, AT.hash);
    fresh.head(7, AT.hash);
    behind.on("eth_estimateGas", |_| Say::Error(3, "execution reverted: not yet"));
    fresh.on("eth_estimateGas", |_| Say::Result(json!("0x5208")));
    let call = Call::no_op(Account(BOB));
    let chain = chain(&[behind.url(), fresh.url()]);
    chain.block(BlockAt::Latest).await.unwrap();
    assert_eq!(chain.estimate(std::slice::from_ref(&call)).await, [Ok(Gas(21_000))]);
    fresh.mood(Mood::Http(502, ""));
    let alone = chain.estimate(std::slice::from_ref(&call)).await;
    assert!(matches!(alone[0], Err(EstimateFailure::Unavailable { .. })), "{alone:?}");
    // It has caught up, and its word counts, with the other's.
    fresh.mood(Mood::Answering);
    fresh.on("eth_estimateGas", |_| Say::Error(3, "execution reverted: not yet"));
    behind.head(7, AT.hash);
    chain.block(BlockAt::Latest).await.unwrap();
    let said = chain.estimate(&[call]).await;
    assert!(matches!(said[0], Err(EstimateFailure::Reverted { .. })), "{said:?}");
}

#[tokio::test]
async fn one_endpoint_of_several_ends_nothing_by_a_no_of_its_own() {
    let (liar, honest) = (Stub::start().await, Stub::start().await);
    honest.on("eth_estimateGas", |_| Say::Result(json!("0x5208")));
    let call = Call::no_op(Account(BOB));
    let both = chain(&[liar.url(), honest.url()]);
    let no = ["execution reverted: no", "insufficient funds for transfer", "intrinsic gas too low"];
    for said in no {
        liar.on("eth_estimateGas", move |_| Say::Error(3, said));
        assert_eq!(
            both.estimate(&[call.clone(), call.clone()]).await,
            [Ok(Gas(21_000)), Ok(Gas(21_000))],
            "{said}"
        );
    }
    // Two say so. Where they differ, what ends nothing counts.
    liar.on("eth_estimateGas", |_| Say::Error(3, "execution reverted: no"));
    honest.on("eth_estimateGas", |_| Say::Error(-32000, "insufficient funds for transfer"));
    let said = both.estimate(std::slice::from_ref(&call)).await;
    assert!(matches!(said[0], Err(EstimateFailure::InsufficientFunds { .. })), "{said:?}");
    honest.on("eth_estimateGas", |_| Say::Error(3, "execution reverted: no"));
    let said = both.estimate(std::slice::from_ref(&call)).await;
    assert!(matches!(said[0], Err(EstimateFailure::Reverted { .. })), "{said:?}");
    // A lost answer is waited for, until the other one is down.
    honest.mood(Mood::Http(502, ""));
    let said = both.estimate(std::slice::from_ref(&call)).await;
    assert!(matches!(said[0], Err(EstimateFailure::Unavailable { .. })), "{said:?}");
    let said = crate::harness::until("verdict", || async {
        let said = both.estimate(std::slice::from_ref(&call)).await.remove(0);
        (!matches!(said, Err(EstimateFailure::Unavailable { .. }))).then_some(said)
    });
    assert!(matches!(said.await, Err(EstimateFailure::Reverted { .. })));
}

fn asking(stub: &Stub, tip: u64) {
    stub.on("eth_feeHistory", move |_| {
        let tip = format!("{tip:#x}");
        Say::Result(json!({
            "baseFeePerGas": ["0x7", "0x8"], "gasUsedRatio": [0.5], "reward": [[tip, tip, tip]],
        }))
    });
}

#[tokio::test]
async fn of_two_endpoints_that_ask_for_tips_the_lower_is_paid_and_the_second_is_not_asked_every_time() {
    let (liar, honest) = (Stub::start().await, Stub::start().await);
    for stub in [&liar, &honest] {
        stub.head(5, AT.hash);
        stub.on("eth_gasPrice", |_| Say::Result(json!("0x64")));
        asking(stub, 1_000);
    }
    let both = chain(&[liar.url(), honest.url()]);
    let head = both.block(BlockAt::Latest).await.unwrap().unwrap();
    let before = (liar.asked("eth_feeHistory"), honest.asked("eth_feeHistory"));
    let tip = |quote: landfall_core::fees::FeeQuote| (quote.slow, quote.normal, quote.fast);
    for _ in 0..20 {
        assert_eq!(tip(both.fees(&head).await.unwrap()), (Price(1_000), Price(1_000), Price(1_000)));
    }
    let asked = (liar.asked("eth_feeHistory") - before.0, honest.asked("eth_feeHistory") - before.1);
    assert_eq!(asked, (20, 1));
    // A little more is the market's; much more needs a second word, each time.
    asking(&liar, 1_250);
    assert_eq!(both.fees(&head).await.unwrap().fast, Price(1_250));
    asking(&liar, 400_000_000_000);
    for _ in 0..3 {
        assert_eq!(both.fees(&head).await.unwrap().fast, Price(1_000));
    }
    assert_eq!(honest.asked("eth_feeHistory") - before.1, 4);
    // Where both say so, it is so.
    asking(&honest, 300_000_000_000);
    assert_eq!(both.fees(&head).await.unwrap().fast, Price(300_000_000_000));
    let legacy = landfall_core::view::Block { base_fee: None, ..head };
    liar.on("eth_gasPrice", |_| Say::Result(json!("0xffffffffffff")));
    assert_eq!(both.fees(&legacy).await.unwrap().fast, Price(100));
    // The second one is down: as with one.
    honest.mood(Mood::Http(502, ""));
    asking(&liar, 500_000_000_000);
    assert_eq!(both.fees(&head).await.unwrap().fast, Price(500_000_000_000));
}

#[tokio::test]
async fn of_two_base_fees_the_lower_is_offered_so_that_one_endpoint_cannot_set_the_price_that_is_paid() {
    let (liar, honest) = (Stub::start().await, Stub::start().await);
    for stub in [&liar, &honest] {
        stub.head(5, AT.hash);
        asking(stub, 1_000);
    }
    let both = chain(&[liar.url(), honest.url()]);
    let head = both.block(BlockAt::Latest).await.unwrap().unwrap();
    assert_eq!(both.fees(&head).await.unwrap().base_fee, Some(Price(8)));
    liar.on("eth_feeHistory", |_| {
        let base = "0x68c6171400"; // 450 gwei
        Say::Result(json!({
            "baseFeePerGas": [base, base], "gasUsedRatio": [0.5], "reward": [["0x3e8", "0x3e8", "0x3e8"]],
        }))
    });
    for _ in 0..3 {
        let quote = both.fees(&head).await.unwrap();
        assert_eq!((quote.base_fee, quote.normal), (Some(Price(8)), Price(1_000)));
    }
}

#[tokio::test]
async fn fees_come_from_the_history_or_else_from_what_the_node_suggests() {
    let stub = Stub::start().await;
    stub.head(5, AT.hash);
    stub.on("eth_feeHistory", |params| {
        assert_eq!(*params, json!(["0x14", "0x5", [10, 50, 90]]));
        Say::Result(json!({
            "baseFeePerGas": ["0x7", "0x8"], "gasUsedRatio": [0.5], "reward": [["0x1", "0x2", "0x3"]],
        }))
    });
    let head = chain(&[stub.url()]).block(BlockAt::Latest).await.unwrap().unwrap();
    let quote = chain(&[stub.url()]).fees(&head).await.unwrap();
    assert_eq!((quote.base_fee, quote.slow, quote.fast), (Some(Price(8)), Price(1), Price(3)));

    let plain = Stub::start().await;
    plain.on("eth_maxPriorityFeePerGas", |_| Say::Result(json!("0x9")));
    plain.on("eth_gasPrice", |_| Say::Result(json!("0x64")));
    let chain = chain(&[plain.url()]);
    for _ in 0..2 {
        let quote = chain.fees(&head).await.unwrap();
        assert_eq!((quote.base_fee, quote.normal), (Some(Price(7)), Price(9)));
    }
    assert_eq!(plain.asked("eth_feeHistory"), 1);
    let legacy = chain.fees(&landfall_core::view::Block { base_fee: None, ..head }).await.unwrap();
    assert_eq!((legacy.base_fee, legacy.normal), (None, Price(100)));
}
