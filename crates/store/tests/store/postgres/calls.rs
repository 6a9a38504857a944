//! Calls that two processes admit at once, and nonces that become free meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_core::ports::store::{Admission, LaneCommit, Log as _, Reads as _, TxQuery, Write};
use landfall_core::request::NewTransaction;
use landfall_core::transaction::TxState;
use landfall_store::Postgres;

use super::proxy::{Proxy, Trap};
use super::{raw, until_waiting};
use crate::fixtures::*;
use crate::world::Database;

/// Call number `n`, under an id of the node's own.
fn by(node: u64, n: u64) -> NewTransaction {
    retried(&called(lane(1), n, call(Some("a"), n)), 1_000 * node + n)
}

#[tokio::test]
async fn calls_that_two_nodes_admit_in_crossing_orders_are_one_transaction_each() {
    const CALLS: u64 = 60;
    let database = Database::new();
    let (here, there) = (Arc::new(database.open().await), Arc::new(database.open().await));
    admit_new(&*here, request(lane(1), 9_999)).await;
    // In groups, one upwards and one downwards, so that each waits for what the other holds.
    let write = |store: Arc<Postgres>, node: u64, numbers: Vec<u64>| async move {
        let group = numbers.iter().map(|n| Write::Admit(Box::new(by(node, *n)))).collect();
        let answers = store.write(group).await.into_iter().map(admission);
        numbers.into_iter().zip(answers).collect::<Vec<_>>()
    };
    let mut tasks = tokio::task::JoinSet::new();
    for chunk in (1..=CALLS).collect::<Vec<_>>().chunks(12) {
        tasks.spawn(write(here.clone(), 1, chunk.to_vec()));
        tasks.spawn(write(there.clone(), 2, chunk.iter().rev().copied().collect()));
    }
    let mut told: BTreeMap<u64, Vec<Admission>> = BTreeMap::new();
    while let Some(answers) = tasks.join_next().await {
        for (n, admission) in answers.unwrap() {
            told.entry(n).or_default().push(admission);
        }
    }
    for (n, answers) in &told {
        let new = answers.iter().filter(|answer| matches!(answer, Admission::New(_))).count();
        let ids = answers.iter().map(|answer| match answer {
            Admission::New(tx) | Admission::Replay(tx) => tx.id,
            other => panic!("{n}: {other:?}"),
        });
        let ids: std::collections::BTreeSet<_> = ids.collect();
        assert_eq!((answers.len(), new, ids.len()), (2, 1, 1), "call {n}: {answers:?}");
    }
    assert_eq!(told.len() as u64, CALLS);
    let all = there.txs(&TxQuery { limit: 1_000, ..TxQuery::default() }).await.unwrap();
    assert_eq!(all.len() as u64, CALLS + 1);
}

/// Ends the transaction of call 1 without bytes, in a commit that is told when to be done.
fn ends_unsigned(token: landfall_core::Token) -> LaneCommit {
    let mut end = turn(lane(1), token, 0);
    end.txs.push(update(1_001, TxState::Cancelled, None));
    end
}

struct Probe {
    database: Database,
    proxy: Proxy,
    /// Behind the proxy.
    held: Postgres,
    other: Postgres,
    token: landfall_core::Token,
}

async fn probe() -> Probe {
    let mut database = Database::new();
    let other = database.open().await;
    let direct = database.url.clone();
    let proxy = Proxy::before(&mut database).await;
    let held = database.open().await;
    database.url = direct;
    admit_new(&other, by(1, 1)).await;
    let token = own(&other, lane(1)).await;
    Probe { database, proxy, held, other, token }
}

#[tokio::test]
async fn a_call_waits_for_the_commit_that_may_free_its_nonce() {
    let Probe { database, proxy, held, other, token } = probe().await;
    let raw = raw(&database).await;
    proxy.set("COMMIT\0", Trap::Hold);
    let ending = tokio::spawn(async move { commit(&held, ends_unsigned(token)).await });
    proxy.sprung().await;
    let calling = tokio::spawn(async move { admit(&other, by(2, 1)).await });
    until_waiting(&raw, "tx").await;
    proxy.let_go();
    ending.await.unwrap().unwrap();
    let admission = calling.await.unwrap();
    assert!(matches!(&admission, Admission::New(tx) if tx.id == by(2, 1).id), "{admission:?}");
}

#[tokio::test]
async fn a_nonce_that_becomes_free_between_the_insert_and_the_look_is_taken_by_the_next_try() {
    let Probe { proxy, held, other, token, .. } = probe().await;
    // The insert met the first call, and this is to say which one that is.
    proxy.set("JOIN tx ON tx.lane = u.lane AND tx.api_key", Trap::Hold);
    let calling = tokio::spawn(async move { admit(&held, by(2, 1)).await });
    proxy.sprung().await;
    commit(&other, ends_unsigned(token)).await.unwrap();
    proxy.let_go();
    let admission = calling.await.unwrap();
    assert!(matches!(&admission, Admission::New(tx) if tx.id == by(2, 1).id), "{admission:?}");
    let found = other.tx_by_call(lane(1), &call(Some("a"), 1)).await.unwrap();
    assert_eq!(found.map(|tx| tx.id), Some(by(2, 1).id));
}
