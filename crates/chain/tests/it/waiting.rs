//! The pools of all endpoints, asked about an account: also behind a gap, also at the second endpoint, and who does not tell.

use std::collections::BTreeSet;
use std::time::Duration;

use landfall_core::Slot;
use landfall_core::ports::chain::{Chain, Pooled};
use landfall_core::ports::signer::Signer;
use serde_json::{Value, json};

use crate::harness::node::Anvil;
use crate::harness::stub::{Mood, Say, Stub};
use crate::harness::{chain, chain_with, dynamic, seal, signer, transfer};

fn slots(numbers: &[u64]) -> BTreeSet<Slot> {
    numbers.iter().copied().map(Slot).collect()
}

/// Has these counts at its newest block and with what is ready.
fn counts(stub: &Stub, latest: u64, pending: u64) {
    stub.on("eth_getTransactionCount", move |params| {
        let count = if params[1] == "pending" { pending } else { latest };
        Say::Result(json!(format!("{count:#x}")))
    });
}

/// Lists this with `txpool_contentFrom`.
fn lists(stub: &Stub, listed: Value) {
    stub.on("txpool_contentFrom", move |_| Say::Result(listed.clone()));
}

async fn found(endpoints: &[String]) -> Vec<Result<Pooled, String>> {
    let chain = chain_with(endpoints, |config| config.request_timeout = Duration::from_millis(300));
    chain.pools(signer().account()).await.into_iter().map(|look| look.found).collect()
}

#[tokio::test]
async fn every_endpoint_is_asked_and_each_says_what_its_own_pool_holds() {
    let (one, two) = (Stub::start().await, Stub::start().await);
    counts(&one, 3, 3);
    lists(&one, json!({ "pending": {}, "queued": {} }));
    counts(&two, 3, 4);
    lists(
        &two,
        json!({ "pending": { "3": {} }, "queued": { "7": { "nonce": "0x7" } }, "baseFee": { "12": {} } }),
    );
    let nothing = Pooled { latest: Slot(3), pending: Slot(3), listed: slots(&[]) };
    let some = Pooled { latest: Slot(3), pending: Slot(4), listed: slots(&[3, 7, 12]) };
    assert_eq!(found(&[one.url(), two.url()]).await, [Ok(nothing), Ok(some.clone())]);
    assert_eq!(some.beside(&slots(&[3, 12]), 8), slots(&[7]), "what is known is left out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lists_only_its_whole_pool_shows_what_waits_behind_a_gap() {
    let anvil = Anvil::start(&["--no-mining"]).await;
    let chain = chain(&[anvil.http()]);
    for slot in [0, 2] {
        let sealed = seal(&chain, &transfer(slot, dynamic())).await;
        chain.send(&[sealed]).await;
    }
    let looks = chain.pools(signer().account()).await;
    let wanted = Pooled { latest: Slot(0), pending: Slot(1), listed: slots(&[0, 2]) };
    assert_eq!(looks[0].found, Ok(wanted), "{looks:?}");
    let other = chain.pools(landfall_core::Account(crate::harness::BOB)).await;
    assert_eq!(other[0].found, Ok(Pooled::default()));
}

#[tokio::test]
async fn one_that_does_not_tell_says_so_for_itself_alone() {
    let (good, without, silent, odd) =
        (Stub::start().await, Stub::start().await, Stub::start().await, Stub::start().await);
    for stub in [&good, &without, &silent, &odd] {
        counts(stub, 1, 1);
        lists(stub, json!({ "pending": {}, "queued": {} }));
    }
    for method in ["txpool_contentFrom", "txpool_content"] {
        without.on(method, |_| Say::Error(-32601, "the method does not exist/is not available"));
    }
    silent.mood(Mood::Silent);
    lists(&odd, json!({ "pending": {} }));
    let said = found(&[good.url(), without.url(), silent.url(), odd.url()]).await;
    assert!(said[0].is_ok(), "{said:?}");
    let why: Vec<&str> = said[1..].iter().map(|said| said.as_ref().unwrap_err().as_str()).collect();
    assert!(why[0].contains("neither txpool_contentFrom nor txpool_content"), "{why:?}");
    // Whichever limit is noticed first.
    assert!(why[1].contains("no answer within") || why[1].contains("timed out"), "{why:?}");
    assert!(why[2].contains("queued is missing"), "{why:?}");
}

/// The count of such a node is another account's, and its silence says nothing of ours.
#[tokio::test]
async fn one_of_another_chain_tells_nothing_of_this_one() {
    let (good, foreign) = (Stub::start().await, Stub::start().await);
    foreign.on("eth_chainId", |_| Say::Result(json!("0x1")));
    for stub in [&good, &foreign] {
        counts(stub, 3, 3);
        lists(stub, json!({ "pending": {}, "queued": {} }));
    }
    let said = found(&[good.url(), foreign.url()]).await;
    assert_eq!(said[0], Ok(Pooled { latest: Slot(3), pending: Slot(3), listed: slots(&[]) }));
    let why = said[1].as_ref().unwrap_err();
    assert!(why.contains("chain 1"), "{why}");
}
