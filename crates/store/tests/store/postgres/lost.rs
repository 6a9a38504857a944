//! Connections that break between commit and answer: the outcome is looked up, never assumed (L18).

use std::time::Duration;

use landfall_core::LaneVersion;
use landfall_core::ports::store::{Admission, CommandKind, Log, Reads, Store, Write, WriteError, Written};
use landfall_store::Postgres;

use super::proxy::{Proxy, Trap};
use crate::fixtures::*;
use crate::world::Database;

pub(super) async fn behind_a_proxy(lease: Duration) -> (Database, Proxy, Postgres) {
    let mut database = Database::new();
    database.options.lease = lease;
    let direct = database.url.clone();
    let proxy = Proxy::before(&mut database).await;
    let store = database.open().await;
    database.url = direct;
    (database, proxy, store)
}

/// A group with one write of every kind that can be lost.
async fn group(store: &dyn Store) -> Vec<Write> {
    admit_new(store, request(lane(1), 1)).await;
    let token = own(store, lane(1)).await;
    vec![
        Write::Admit(Box::new(keyed(lane(1), 2, "a"))),
        Write::Admit(Box::new(request(lane(2), 3))),
        Write::Command(Box::new(command(lane(1), 1, CommandKind::Pause))),
        Write::Lane(Box::new(bind(lane(1), token, 0, 1, 0))),
    ]
}

fn assert_all_written(answers: &[Result<Written, WriteError>]) {
    for (at, id) in [(0, 2), (1, 3)] {
        let Ok(Written::Admitted(admission)) = &answers[at] else { panic!("{:?}", answers[at]) };
        assert!(matches!(&**admission, Admission::New(tx) if tx.id == tx_id(id)), "{admission:?}");
    }
    assert!(matches!(answers[2], Ok(Written::Command)));
    assert!(matches!(answers[3], Ok(Written::Lane(LaneVersion(1)))), "{:?}", answers[3]);
}

async fn assert_stored_once(store: &dyn Store) {
    let loaded = store.load_lane(lane(1)).await.unwrap();
    assert_eq!((loaded.version, ids(&loaded.bound)), (LaneVersion(1), vec![tx_id(1)]));
    assert_eq!(loaded.attempts, [attempt(0, 0, Some(1))]);
    let journal = store.journal_after(landfall_core::JournalSeq(0), 100).await.unwrap();
    assert_eq!(journal.len(), 4, "three admissions and one signature, each once");
    assert_eq!(store.commands(lane(1), 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_commit_that_landed_is_answered_as_written_although_its_answer_was_lost() {
    let (database, proxy, store) = behind_a_proxy(LEASE).await;
    let group = group(&store).await;
    proxy.set("COMMIT\0", Trap::CutAnswer);
    assert_all_written(&store.write(group).await);
    proxy.sprung().await;
    assert_stored_once(&database.open().await).await;
}

#[tokio::test]
async fn what_was_refused_stays_refused_although_the_answer_of_its_group_was_lost() {
    let (_database, proxy, store) = behind_a_proxy(LEASE).await;
    admit_new(&store, request(lane(1), 1)).await;
    let token = own(&store, lane(1)).await;
    commit(&store, bind(lane(1), token, 0, 1, 0)).await.unwrap();
    // It is of the version before that: the lane is now where this one would have brought it.
    let stale = Write::Lane(Box::new(turn(lane(1), token, 0)));
    proxy.set("COMMIT\0", Trap::CutAnswer);
    let answers = store.write(vec![Write::Admit(Box::new(request(lane(2), 2))), stale]).await;
    proxy.sprung().await;
    assert!(matches!(answers[0], Ok(Written::Admitted(_))), "{:?}", answers[0]);
    assert!(matches!(answers[1], Err(WriteError::Fenced { .. })), "{:?}", answers[1]);
    assert_eq!(store.load_lane(lane(1)).await.unwrap().version, LaneVersion(1));
}

#[tokio::test]
async fn a_commit_that_never_arrived_is_made_again() {
    let (database, proxy, store) = behind_a_proxy(LEASE).await;
    let group = group(&store).await;
    proxy.set("COMMIT\0", Trap::CutRequest);
    assert_all_written(&store.write(group).await);
    proxy.sprung().await;
    assert_stored_once(&database.open().await).await;
}

#[tokio::test]
async fn a_commit_that_is_still_under_way_is_waited_for() {
    let (database, proxy, store) = behind_a_proxy(Duration::from_secs(60)).await;
    let group = group(&store).await;
    proxy.set("COMMIT\0", Trap::HoldAndCut);
    let writing = tokio::spawn(async move { store.write(group).await });
    proxy.sprung().await;
    super::until_waiting(&super::raw(&database).await, "tx").await;
    proxy.let_go();
    assert_all_written(&writing.await.unwrap());
    assert_stored_once(&database.open().await).await;
}

#[tokio::test]
async fn what_cannot_be_looked_up_is_not_known() {
    let (database, proxy, store) = behind_a_proxy(Duration::from_secs(2)).await;
    let group = group(&store).await;
    let repeated = group.clone();
    proxy.set("COMMIT\0", Trap::CutAnswer);
    let writing = tokio::spawn(async move { (store.write(group).await, store) });
    proxy.sprung().await;
    proxy.refuse(true);
    let (answers, store) = writing.await.unwrap();
    for answer in &answers {
        assert!(matches!(answer, Err(WriteError::Unknown(_))), "{answer:?}");
    }
    store.load_lane(lane(1)).await.unwrap_err();
    proxy.refuse(false);
    // Once the database is back, a caller's own repeat finds what became of it.
    let answers = store.write(repeated).await;
    let Ok(Written::Admitted(admission)) = &answers[0] else { panic!("{:?}", answers[0]) };
    assert!(matches!(&**admission, Admission::Replay(_)));
    assert!(is_fenced(&answers[3]), "its own commit has landed, so the repeat is refused");
    assert_stored_once(&database.open().await).await;
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_commit_costs_nothing() {
    let (database, proxy, store) = behind_a_proxy(LEASE).await;
    let group = group(&store).await;
    proxy.set("BEGIN ISOLATION LEVEL READ COMMITTED", Trap::CutRequest);
    assert_all_written(&store.write(group).await);
    assert_stored_once(&database.open().await).await;
}
