//! The word of a second endpoint on receipts that one gave, and what it costs to know.

use std::time::Duration;

use alloy_primitives::B256;
use landfall_core::TxHash;
use landfall_core::ports::chain::Chain;
use landfall_core::view::{BlockRef, Receipt};
use landfall_core::witness::SecondWord;
use serde_json::{Value, json};

use crate::harness::stub::{Mood, Say, Stub, block, receipt};
use crate::harness::{chain, until};

const AT: BlockRef = BlockRef { number: 5, hash: B256::repeat_byte(5) };
const PAYMENT: B256 = B256::repeat_byte(0x11);
const NO_OP: B256 = B256::repeat_byte(0x12);
const OTHER: B256 = B256::repeat_byte(0x13);

/// A receipt of our block with this status.
fn with(hash: B256, success: bool) -> Value {
    let mut receipt = receipt(hash, AT.number, AT.hash);
    receipt["status"] = json!(if success { "0x1" } else { "0x0" });
    receipt
}

/// Shows these as the receipts of the block.
fn serves(stub: &Stub, receipts: Vec<Value>) {
    stub.head(AT.number, AT.hash);
    let by_hash = receipts.clone();
    stub.on("eth_getBlockReceipts", move |params| {
        let is_known = params[0] == json!(AT.hash);
        Say::Result(if is_known { json!(receipts) } else { Value::Null })
    });
    stub.on("eth_getTransactionReceipt", move |params| {
        let found = by_hash.iter().find(|receipt| receipt["transactionHash"] == params[0]);
        Say::Result(found.cloned().unwrap_or(Value::Null))
    });
}

/// As many endpoints, each of which serves its own receipts.
async fn stubs<const N: usize>(receipts: [Vec<Value>; N]) -> [Stub; N] {
    let mut all = Vec::new();
    for receipts in receipts {
        let stub = Stub::start().await;
        serves(&stub, receipts);
        all.push(stub);
    }
    all.try_into().ok().unwrap()
}

fn asked(stubs: &[Stub]) -> Vec<usize> {
    stubs.iter().map(|stub| stub.asked("eth_getBlockReceipts")).collect()
}

/// The receipts of the block as the first endpoint gives them, and what a second one says of the one with this hash.
async fn second(chain: &dyn Chain, hash: B256) -> (Receipt, SecondWord) {
    let found = chain.block_receipts(&AT).await.unwrap();
    let receipt = found.into_iter().find(|receipt| receipt.hash.0 == hash).unwrap();
    let word = chain.second(std::slice::from_ref(&receipt)).await.remove(0);
    (receipt, word)
}

#[tokio::test]
async fn with_one_endpoint_nothing_more_is_asked() {
    let all = stubs([vec![with(PAYMENT, true)]]).await;
    let chain = chain(&[all[0].url()]);
    assert_eq!(second(&chain, PAYMENT).await.1, SecondWord::Same);
    assert_eq!(asked(&all), [1]);
}

#[tokio::test]
async fn one_more_question_for_a_block_says_it_of_all_that_is_in_it() {
    let served = || vec![with(PAYMENT, true), with(NO_OP, false)];
    let all = stubs([served(), served(), served()]).await;
    let chain = chain(&all.each_ref().map(Stub::url));
    let found = chain.block_receipts(&AT).await.unwrap();
    let (first, rest) = found.split_at(1);
    let (one, two) = tokio::join!(chain.second(first), chain.second(rest));
    assert_eq!((one, two), (vec![SecondWord::Same], vec![SecondWord::Same]));
    assert_eq!(chain.second(&found).await, vec![SecondWord::Same; 2]);
    assert_eq!(asked(&all), [1, 1, 0], "the first for the receipts, the second once for its word");
}

// covers: G9
#[tokio::test]
async fn a_status_that_one_changed_is_a_disagreement_until_both_say_the_same() {
    for liar in [0, 1] {
        let status = |at: usize| vec![with(PAYMENT, at != liar)];
        let all = stubs([status(0), status(1)]).await;
        let chain = chain(&all.each_ref().map(Stub::url));
        let (receipt, word) = second(&chain, PAYMENT).await;
        let SecondWord::Differs(said) = word else { panic!("{word:?}") };
        assert!(
            said.contains("shows that it reverted") && said.contains("shows that it succeeded"),
            "{said}"
        );
        // That one of them is gone is no agreement.
        all[1].mood(Mood::Http(502, ""));
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let word = chain.second(std::slice::from_ref(&receipt)).await.remove(0);
        assert!(matches!(word, SecondWord::Differs(_)), "{word:?}");
        all[1].mood(Mood::Answering);
        serves(&all[liar], vec![with(PAYMENT, true)]);
        let truth = Receipt { success: true, ..receipt.clone() };
        let wanted = match receipt.success {
            true => SecondWord::Same,
            false => SecondWord::Wrong(Some(Box::new(truth))),
        };
        until("both say the same", || async {
            (chain.second(std::slice::from_ref(&receipt)).await[0] == wanted).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_receipt_that_one_made_up_or_took_for_another_is_a_disagreement() {
    let all = stubs([vec![with(NO_OP, true), with(OTHER, true)], vec![with(PAYMENT, true)]]).await;
    let both = chain(&all.each_ref().map(Stub::url));
    for hash in [NO_OP, OTHER] {
        let word = second(&both, hash).await.1;
        let SecondWord::Differs(said) = word else { panic!("{word:?}") };
        assert!(said.contains("shows the block without it"), "{said}");
    }
    // As one that is looked up by its hash.
    let all = stubs([vec![with(NO_OP, true)], vec![]]).await;
    let both = chain(&all.each_ref().map(Stub::url));
    let found = both.receipts(&[TxHash(NO_OP)]).await.unwrap();
    let word = both.second(&found).await.remove(0);
    assert!(matches!(word, SecondWord::Differs(_)), "{word:?}");
    assert_eq!(asked(&all), [0, 1], "whoever gave it is not asked again");
}

#[tokio::test]
async fn of_three_two_decide() {
    let cases: [([Option<bool>; 3], &str); 3] = [
        ([Some(true), Some(false), Some(true)], "same"),
        ([Some(false), Some(true), Some(true)], "another"),
        ([Some(true), None, None], "none"),
    ];
    for (statuses, wanted) in cases {
        let served = statuses.map(|status| status.map(|status| with(PAYMENT, status)).into_iter().collect());
        let all = stubs(served).await;
        let chain = chain(&all.each_ref().map(Stub::url));
        let (receipt, word) = second(&chain, PAYMENT).await;
        let expected = match wanted {
            "same" => SecondWord::Same,
            "another" => SecondWord::Wrong(Some(Box::new(Receipt { success: true, ..receipt }))),
            _ => SecondWord::Wrong(None),
        };
        assert_eq!(word, expected, "{statuses:?}");
    }
}

#[tokio::test]
async fn a_second_that_cannot_answer_is_waited_for_and_says_since_when() {
    let all = stubs([vec![with(PAYMENT, true)], vec![with(PAYMENT, true)]]).await;
    all[1].on("eth_getBlockReceipts", |_| Say::Result(Value::Null));
    let chain = chain(&all.each_ref().map(Stub::url));
    let (receipt, word) = second(&chain, PAYMENT).await;
    let SecondWord::Lacking { waited, why } = word else { panic!("{word:?}") };
    assert!(waited < Duration::from_secs(1) && why.contains("it does not know block 5"), "{waited:?} {why}");
    let again = async || chain.second(std::slice::from_ref(&receipt)).await.remove(0);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let word = again().await;
    assert!(
        matches!(word, SecondWord::Lacking { waited, .. } if waited > Duration::from_secs(1)),
        "{word:?}"
    );
    serves(&all[1], vec![with(PAYMENT, true)]);
    until("it knows the block", || async { (again().await == SecondWord::Same).then_some(()) }).await;
}

#[tokio::test]
async fn one_without_block_receipts_is_asked_for_what_the_block_lists() {
    for listed in [true, false] {
        let all = stubs([vec![with(PAYMENT, true)], vec![with(PAYMENT, true)]]).await;
        all[1]
            .on("eth_getBlockReceipts", |_| Say::Error(-32601, "the method does not exist/is not available"));
        all[1].on("eth_getBlockByHash", move |_| {
            let txs: &[B256] = if listed { &[OTHER, PAYMENT] } else { &[OTHER] };
            Say::Result(block(AT.number, AT.hash, txs))
        });
        let chain = chain(&all.each_ref().map(Stub::url));
        let word = second(&chain, PAYMENT).await.1;
        assert_eq!(word == SecondWord::Same, listed, "{word:?}");
        assert_eq!(matches!(word, SecondWord::Differs(_)), !listed, "{word:?}");
        assert_eq!(all[1].asked("eth_getTransactionReceipt"), usize::from(listed), "of ours only");
    }
}
