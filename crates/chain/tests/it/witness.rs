//! What each endpoint has shown of the chain that is followed: who agrees, up to where, and what it costs to know.

use std::collections::BTreeMap;
use std::time::Duration;

use alloy_primitives::B256;
use landfall_core::ports::chain::{BlockAt, Chain};
use landfall_core::witness::by_two;
use landfall_core::{Account, Millis, Slot};
use serde_json::{Value, json};

use crate::harness::stub::{Mood, Say, Stub};
use crate::harness::{chain, chain_with, until};

/// The hash of a block of our chain, or of a fork that has left it after a block.
fn hash(number: u64, left_after: Option<u64>) -> B256 {
    let fork = if left_after.is_some_and(|last| number > last) { 0xf0 } else { 0x0a };
    let mut bytes = [fork; 32];
    bytes[24..].copy_from_slice(&number.to_be_bytes());
    B256::from(bytes)
}

/// Shows a chain of so many blocks, which is ours up to a block if it is not ours altogether.
fn shows(stub: &Stub, head: u64, left_after: Option<u64>) {
    stub.on("eth_getBlockByNumber", move |params| {
        let number = match params[0].as_str().unwrap() {
            "latest" => head,
            "safe" | "finalized" => return Say::Result(Value::Null),
            number => u64::from_str_radix(&number[2..], 16).unwrap(),
        };
        if number > head {
            return Say::Result(Value::Null);
        }
        Say::Result(json!({
            "number": format!("{number:#x}"), "hash": hash(number, left_after),
            "parentHash": hash(number - 1, left_after), "timestamp": "0x64",
            "gasLimit": "0x1c9c380", "baseFeePerGas": "0x7", "transactions": [],
        }))
    });
}

fn ours(head: u64) -> BTreeMap<u64, B256> {
    (head - 40..=head).map(|number| (number, hash(number, None))).collect()
}

/// What the endpoints say of our chain with this head: which block of it each has shown, and where it shows another.
async fn said(chain: &dyn Chain, head: u64) -> Vec<(Option<u64>, Option<u64>)> {
    let found = chain.block(BlockAt::Latest).await;
    assert!(found.is_ok_and(|found| found.is_some()));
    chain.witnesses(&ours(head)).await.iter().map(|witness| (witness.agrees, witness.differs)).collect()
}

fn asked(stub: &Stub) -> usize {
    stub.asked("eth_getBlockByNumber")
}

#[tokio::test]
async fn with_one_endpoint_nobody_is_asked_for_a_second_word() {
    let stub = Stub::start().await;
    shows(&stub, 100, None);
    let chain = chain(&[stub.url()]);
    assert_eq!(said(&chain, 100).await, []);
}

#[tokio::test]
async fn heads_of_our_chain_say_it_all_without_another_question() {
    let (one, two) = (Stub::start().await, Stub::start().await);
    shows(&one, 100, None);
    shows(&two, 100, None);
    let chain = chain(&[one.url(), two.url()]);
    assert_eq!(said(&chain, 100).await, [(Some(100), None); 2]);
    let before = (asked(&one), asked(&two));
    shows(&one, 103, None);
    assert_eq!(said(&chain, 103).await, [(Some(103), None), (Some(100), None)]);
    assert_eq!((asked(&one), asked(&two)), (before.0 + 1, before.1 + 1), "only their heads");
}

#[tokio::test]
async fn one_that_is_ahead_is_asked_for_our_block_and_far_behind_it_is_no_witness() {
    let (one, two) = (Stub::start().await, Stub::start().await);
    shows(&one, 100, None);
    shows(&two, 100, None);
    let chain = chain(&[one.url(), two.url()]);
    shows(&two, 102, None);
    // We follow the chain up to 100 only, as if its answer had come too late.
    assert_eq!(said(&chain, 100).await, [(Some(100), None); 2]);
    shows(&one, 500, None);
    assert_eq!(said(&chain, 500).await, [(Some(500), None), (None, None)]);
}

#[tokio::test]
async fn one_on_another_fork_is_asked_where_it_left_ours_once_for_as_long_as_it_stays_there() {
    let (one, two) = (Stub::start().await, Stub::start().await);
    shows(&one, 100, None);
    shows(&two, 99, Some(91));
    let chain = chain(&[one.url(), two.url()]);
    let [first, second] = said(&chain, 100).await.try_into().unwrap();
    assert_eq!(first, (Some(100), None));
    // 99, 98, 97, 95 and 91 are looked at: it left ours somewhere from 92 to 95.
    assert_eq!(second, (Some(91), Some(95)));
    for head in 101..=110 {
        let before = asked(&two);
        shows(&one, head, None);
        shows(&two, head - 1, Some(91));
        assert_eq!(said(&chain, head).await, [(Some(head), None), (Some(91), Some(95))]);
        assert_eq!(asked(&two), before + 1, "only its head");
    }
    // It comes over to ours.
    shows(&two, 110, None);
    assert_eq!(said(&chain, 110).await, [(Some(110), None); 2]);
}

#[tokio::test]
async fn the_endpoint_with_the_longest_chain_is_no_second_witness_to_itself() {
    let (honest, alone, other) = (Stub::start().await, Stub::start().await, Stub::start().await);
    shows(&alone, 140, None);
    shows(&honest, 130, Some(120));
    shows(&other, 129, Some(120));
    let chain = chain(&[honest.url(), alone.url(), other.url()]);
    let head = chain.block(BlockAt::Latest).await.unwrap().unwrap();
    assert_eq!(head.at.number, 140, "it is followed, but what it shows is not final");
    let witnesses = chain.witnesses(&ours(140)).await;
    let two = by_two(&witnesses).unwrap();
    assert!((110..=120).contains(&two), "{witnesses:?}");
}

#[tokio::test]
async fn a_silent_endpoint_is_not_waited_for_and_one_that_is_down_is_not_up() {
    let (one, two) = (Stub::start().await, Stub::start().await);
    shows(&one, 100, None);
    shows(&two, 99, Some(91));
    let chain = chain_with(&[one.url(), two.url()], |config| {
        config.request_timeout = Duration::from_secs(30);
        config.straggler_grace = Duration::from_millis(50);
    });
    assert!(chain.block(BlockAt::Latest).await.is_ok());
    two.mood(Mood::Silent);
    let witnesses = tokio::time::timeout(Duration::from_secs(10), chain.witnesses(&ours(100))).await;
    let witnesses = witnesses.expect("what counts is known in time");
    assert_eq!((witnesses[1].agrees, witnesses[1].differs), (None, Some(99)));
    two.mood(Mood::Http(502, ""));
    until("it is not up", || async {
        chain.block(BlockAt::Latest).await.ok();
        (!chain.witnesses(&ours(100)).await[1].up).then_some(())
    })
    .await;
    // What it has shown stays shown.
    shows(&two, 100, None);
    two.mood(Mood::Answering);
    until("it is up", || async {
        chain.block(BlockAt::Latest).await.ok();
        chain.witnesses(&ours(100)).await[1].up.then_some(())
    })
    .await;
    two.mood(Mood::Http(502, ""));
    shows(&one, 101, None);
    let [first, second] = said(&chain, 101).await.try_into().unwrap();
    assert_eq!((first, second), ((Some(101), None), (Some(100), None)));
}

/// A first count is agreed on if two say it, whatever the others do.
#[tokio::test]
async fn a_count_is_agreed_on_by_two() {
    let account = Account(alloy_primitives::Address::with_last_byte(1));
    let cases: [(&[Option<u64>], bool, &str); 6] = [
        (&[Some(6)], true, "there is one endpoint"),
        (&[Some(5), Some(5)], true, "both say so"),
        (&[Some(5), Some(6)], false, "they differ"),
        (&[Some(5), None], false, "one does not answer"),
        (&[Some(5), Some(6), Some(5)], true, "two of three"),
        (&[Some(5), Some(6), Some(6)], false, "two say another one"),
    ];
    for (counts, wanted, what) in cases {
        let mut stubs = Vec::new();
        for count in counts.iter().copied() {
            let stub = Stub::start().await;
            shows(&stub, 100, None);
            stub.on("eth_getTransactionCount", move |_| match count {
                Some(count) => Say::Result(json!(format!("{count:#x}"))),
                None => Say::Error(-32000, "some internal trouble"),
            });
            stubs.push(stub);
        }
        let chain = chain(&stubs.iter().map(Stub::url).collect::<Vec<_>>());
        assert_eq!(chain.agreed(&[(account, Slot(5))]).await, [wanted], "{what}");
    }
}

#[tokio::test]
async fn of_two_counts_and_two_balances_the_higher_counts_and_the_second_is_not_asked_every_time() {
    let account = Account(alloy_primitives::Address::with_last_byte(1));
    let (liar, honest) = (Stub::start().await, Stub::start().await);
    let says = |stub: &Stub, value: u64| {
        for method in ["eth_getTransactionCount", "eth_getBalance"] {
            stub.on(method, move |_| Say::Result(json!(format!("{value:#x}"))));
        }
    };
    for stub in [&liar, &honest] {
        shows(stub, 100, None);
        says(stub, 5);
    }
    let chain = chain(&[liar.url(), honest.url()]);
    let at = chain.block(BlockAt::Latest).await.unwrap().unwrap().at;
    let read = async || {
        let counts = chain.counts(&[account], &at).await.unwrap();
        (counts[0], chain.balances(&[account], &at).await.unwrap()[0])
    };
    let wei = |value: u64| landfall_core::Wei(alloy_primitives::U256::from(value));
    for _ in 0..10 {
        assert_eq!(read().await, (Slot(5), wei(5)));
    }
    let of_both = |method: &str| liar.asked(method) + honest.asked(method);
    assert_eq!((of_both("eth_getTransactionCount"), of_both("eth_getBalance")), (11, 11));
    // One that was not asked about yet: what the first says of it is compared, each time, as long as they differ.
    let chain = self::chain(&[liar.url(), honest.url()]);
    chain.block(BlockAt::Latest).await.unwrap();
    says(&liar, 1);
    for _ in 0..5 {
        let counts = chain.counts(&[account], &at).await.unwrap();
        assert_eq!((counts[0], chain.balances(&[account], &at).await.unwrap()[0]), (Slot(5), wei(5)));
    }
    // The second one is down: as with one.
    honest.mood(Mood::Http(502, ""));
    let counts = chain.counts(&[account], &at).await.unwrap();
    assert_eq!(counts, [Slot(1)]);
}

/// Who asks for what is final asks one endpoint; each has its own word.
#[tokio::test]
async fn each_endpoint_has_its_own_word_on_what_is_safe_and_final() {
    let calls = |stub: &Stub, safe: u64, finalized: u64| {
        stub.on("eth_getBlockByNumber", move |params| {
            let number = match params[0].as_str().unwrap() {
                "safe" => safe,
                "finalized" => finalized,
                _ => 100,
            };
            Say::Result(crate::harness::stub::block(number, hash(number, None), &[]))
        });
    };
    let (honest, liar) = (Stub::start().await, Stub::start().await);
    calls(&honest, 80, 60);
    calls(&liar, 100, 100);
    for urls in [[honest.url(), liar.url()], [liar.url(), honest.url()]] {
        let chain = chain(&urls);
        chain.block(BlockAt::Latest).await.unwrap();
        chain.block(BlockAt::Finalized).await.unwrap();
        let mut said: Vec<_> = chain
            .witnesses(&ours(100))
            .await
            .iter()
            .map(|witness| (witness.safe.map(|at| at.number), witness.finalized.map(|at| at.number)))
            .collect();
        said.sort_unstable();
        assert_eq!(said, [(Some(80), Some(60)), (Some(100), Some(100))]);
        let times: Vec<_> = chain.witnesses(&ours(100)).await.iter().map(|witness| witness.time).collect();
        assert_eq!(times, [Some(Millis(100_000)); 2], "and on the time of its newest block");
    }
}
