//! Putting a chain away, on the stores that outlive a process.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::ports::store::{
    Admission, ChainRecord, CommandKind, Forget, Leases as _, Store, TxQuery, Write,
};
use landfall_core::transaction::TxState;
use landfall_core::view::BlockRef;
use landfall_core::{ChainId, JournalSeq, Millis, Namespace, QueueOrder, Slot, Token};
use landfall_store::sqlite::Options;
use landfall_store::{Archived, Sqlite};
use tempfile::TempDir;

use crate::fixtures::*;
use crate::world::Database;

const CHAIN: ChainId = ChainId(1);
const OTHER: u64 = 2;

/// A chain with a bound and a waiting transaction, and a neighbour that shares an account with it.
async fn fill(store: &dyn Store) {
    admit_new(store, keyed(lane(1), 1, "a")).await;
    admit_new(store, keyed(lane(2), 2, "a")).await;
    admit_new(store, keyed(lane_on(OTHER, 1), 3, "b")).await;
    let token = own(store, lane(1)).await;
    commit(store, bind(lane(1), token, 0, 1, 7)).await.unwrap();
    keep_a_call(store, token).await;
    write_one(store, Write::Command(Box::new(command(lane(1), 1, CommandKind::Pause)))).await.unwrap();
    for chain in [CHAIN, ChainId(OTHER)] {
        let scanned = BlockRef { number: 5, hash: hash(5).0 };
        let record = ChainRecord { chain, genesis: hash(1).0, scanned, settled: None };
        write_one(store, Write::Chain(Box::new(record))).await.unwrap();
    }
    store.close_session(session(1)).await.unwrap();
}

/// A call whose history is removed.
async fn keep_a_call(store: &dyn Store, token: Token) {
    admit_new(store, called(lane(1), 4, call(None, 5))).await;
    let mut ended = bind(lane(1), token, 1, 4, 8);
    ended.txs[0].status.state = TxState::Confirmed;
    ended.txs[0].status.hash = Some(hash(800));
    ended.closed.push(Slot(8));
    commit(store, ended).await.unwrap();
    admit_new(store, request(lane_on(OTHER, 1), 5)).await;
    let step = Forget { before: Millis(5_000), after: QueueOrder(0), limit: 100 };
    write_one(store, Write::Forget(step)).await.unwrap();
    let again = admit(store, retried(&called(lane(1), 4, call(None, 5)), 6)).await;
    assert!(matches!(again, Admission::Removed(_)), "{again:?}");
}

async fn known(store: &dyn Store) -> usize {
    store.txs(&TxQuery { limit: 100, ..TxQuery::default() }).await.unwrap().len()
}

/// Nothing of the chain is here, its neighbour is untouched, and the same keys and lanes can be used.
async fn is_new(store: &dyn Store) {
    assert_eq!(known(store).await, 2);
    assert!(store.chain(CHAIN).await.unwrap().is_none());
    assert!(store.chain(ChainId(OTHER)).await.unwrap().is_some());
    assert!(store.tx_by_request(account(1), &key("b")).await.unwrap().is_some(), "the neighbour's");
    assert!(store.tx_by_request(account(1), &key("a")).await.unwrap().is_none());
    assert!(store.lane(lane(1)).await.unwrap().is_none());
    assert_eq!(store.lanes_with_work().await.unwrap(), [lane_on(OTHER, 1)]);
    let told = store.journal_after(JournalSeq(0), 100).await.unwrap();
    assert!(told.iter().all(|row| row.lane == lane_on(OTHER, 1)), "{told:?}");
    admit_new(store, keyed(lane(1), 11, "a")).await;
    admit_new(store, called(lane(1), 12, call(None, 5))).await;
    let token = own(store, lane(1)).await;
    commit(store, bind(lane(1), token, 0, 11, 7)).await.unwrap();
    assert_eq!(store.load_lane(lane(1)).await.unwrap().bound.len(), 1);
}

/// All of it can be read where it is now.
async fn is_kept(store: &dyn Store) {
    assert_eq!(known(store).await, 2);
    assert!(store.chain(CHAIN).await.unwrap().is_some());
    let shown = store.tx_by_request(account(1), &key("a")).await.unwrap().unwrap();
    assert_eq!((shown.tx.id, shown.attempts.len()), (tx_id(1), 1));
    assert!(!store.journal(tx_id(1)).await.unwrap().is_empty());
    assert!(!store.journal_after(JournalSeq(0), 100).await.unwrap().is_empty());
    assert_eq!(store.commands(lane(1), 10).await.unwrap().len(), 1);
    assert!(store.kept_by_call(lane(1), &call(None, 5)).await.unwrap().is_some());
    assert!(store.lane(lane(1)).await.unwrap().unwrap().owner.is_none());
}

fn archived(n: u64) -> Option<Archived> {
    let namespace = format!("default~1~{n}");
    Some(Archived { namespace, lanes: if n == 1 { 2 } else { 1 }, transactions: 2 })
}

#[tokio::test]
async fn a_chain_that_is_put_away_is_new_and_its_history_is_kept_on_sqlite() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.db");
    let open = |name: &str| {
        let namespace = Namespace(name.to_owned());
        Sqlite::open(file.to_str().unwrap(), &namespace, &Options::default()).unwrap()
    };
    let store = open("default");
    fill(&store).await;
    assert_eq!(store.archive_chain(CHAIN).await.unwrap(), archived(1));
    is_new(&store).await;
    assert_eq!(store.archive_chain(ChainId(99)).await.unwrap(), None, "never heard of");
    assert_eq!(store.archive_chain(CHAIN).await.unwrap(), archived(2), "and again");
    drop(store);
    is_kept(&open("default~1~1")).await;
}

#[tokio::test]
async fn a_chain_that_is_put_away_is_new_and_its_history_is_kept_on_postgres() {
    let database = Database::new();
    let store = Arc::new(database.open().await);
    fill(&*store).await;
    store.open_session(session(2), "busy", LEASE).await.unwrap();
    let busy = keep_alive(database.open().await, 2);
    let refused = store.archive_chain(CHAIN).await.unwrap_err().to_string();
    assert!(refused.contains("busy is at work"), "{refused}");
    assert_eq!(known(&*store).await, 4, "nothing was moved");
    busy.abort();
    store.close_session(session(2)).await.unwrap();
    // One that died is in nobody's way, whatever the database's clock says of it.
    store.open_session(session(3), "dead", Duration::from_millis(300)).await.unwrap();
    let ahead = "UPDATE session SET ends_at = ends_at + interval '1 year'";
    crate::postgres::raw(&database).await.batch_execute(ahead).await.unwrap();
    assert_eq!(store.archive_chain(CHAIN).await.unwrap(), archived(1));
    // Another process, as after the restart that it takes.
    let store = database.open().await;
    is_new(&store).await;
    store.close_session(session(1)).await.unwrap();
    assert_eq!(store.archive_chain(ChainId(99)).await.unwrap(), None, "never heard of");
    assert_eq!(store.archive_chain(CHAIN).await.unwrap(), archived(2), "and again");
    is_kept(&database.open_in("default~1~1").await).await;
}
