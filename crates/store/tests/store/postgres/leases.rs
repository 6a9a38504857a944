//! Sessions that end by the database's clock (L1).

use std::time::Duration;

use landfall_core::Token;
use landfall_core::ports::store::{Acquired, Leases, Reads};

use super::{raw, until_ended};
use crate::fixtures::*;
use crate::world::Database;

const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_lane_is_taken_over_once_its_owners_session_has_ended() {
    let database = Database::new();
    let (one, two) = (database.open().await, database.open().await);
    one.open_session(session(1), "node-1", LEASE).await.unwrap();
    two.open_session(session(2), "node-2", LEASE).await.unwrap();
    admit_new(&one, request(lane(1), 1)).await;
    let old = acquire(&one, lane(1), 1).await;
    assert!(matches!(two.acquire(lane(1), session(2)).await.unwrap(), Acquired::HeldBy { .. }));
    assert!(one.renew_session(session(1), SHORT).await.unwrap());
    until_ended(&raw(&database).await, session(1)).await;
    assert_eq!(two.lane(lane(1)).await.unwrap().unwrap().owner, None, "nobody owns it any more");
    assert!(is_fenced(&commit(&one, bind(lane(1), old, 0, 1, 0)).await), "its owner may not write either");
    assert!(!one.renew_session(session(1), LEASE).await.unwrap(), "too late");
    one.acquire(lane(2), session(1)).await.unwrap_err();
    assert_eq!(acquire(&two, lane(1), 2).await, Token(old.0 + 1));
    assert!(is_fenced(&commit(&one, bind(lane(1), old, 0, 1, 0)).await));
}

#[tokio::test]
async fn a_renewal_that_waits_for_a_takeover_finds_its_session_gone() {
    let database = Database::new();
    let store = database.open().await;
    store.open_session(session(1), "node-1", LEASE).await.unwrap();
    let taker = raw(&database).await;
    // What a takeover does to the session of a lane whose owner is late, before its commit.
    taker.batch_execute("BEGIN; DELETE FROM session").await.unwrap();
    let late = store.clone();
    let renewing = tokio::spawn(async move { late.renew_session(session(1), LEASE).await.unwrap() });
    super::until_waiting(&raw(&database).await, "session").await;
    taker.batch_execute("COMMIT").await.unwrap();
    assert!(!renewing.await.unwrap());
}

#[tokio::test]
async fn one_renewal_prolongs_every_lane_of_the_session() {
    let database = Database::new();
    let (one, two) = (database.open().await, database.open().await);
    one.open_session(session(1), "node-1", SHORT).await.unwrap();
    two.open_session(session(2), "node-2", LEASE).await.unwrap();
    for n in 1..=20 {
        acquire(&one, lane(n), 1).await;
        assert!(one.renew_session(session(1), LEASE).await.unwrap());
    }
    for n in 1..=20 {
        assert!(matches!(two.acquire(lane(n), session(2)).await.unwrap(), Acquired::HeldBy { .. }));
    }
    one.close_session(session(1)).await.unwrap();
    for n in 1..=20 {
        assert_eq!(acquire(&two, lane(n), 2).await, Token(2));
    }
}

#[tokio::test]
async fn eight_nodes_that_want_a_free_lane_at_once_get_one_owner() {
    let database = Database::new();
    let mut nodes = tokio::task::JoinSet::new();
    for n in 1..=8 {
        let store = database.open().await;
        store.open_session(session(n), "node", LEASE).await.unwrap();
        nodes.spawn(async move { store.acquire(lane(1), session(n)).await.unwrap() });
    }
    let owners = nodes.join_all().await.into_iter().filter(|got| matches!(got, Acquired::Yes { .. })).count();
    assert_eq!(owners, 1);
}
