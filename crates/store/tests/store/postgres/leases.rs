//! Sessions that end by the database's clock (L1).

use std::time::Duration;

use landfall_core::Token;
use landfall_core::ports::store::{Acquired, Leases, Reads};

use super::{end, raw};
use crate::fixtures::*;
use crate::world::Database;

#[tokio::test]
async fn a_lane_is_taken_over_once_its_owners_session_has_ended() {
    let database = Database::new();
    let (one, two) = (database.open().await, database.open().await);
    one.open_session(session(1), "node-1", LEASE).await.unwrap();
    two.open_session(session(2), "node-2", LEASE).await.unwrap();
    admit_new(&one, request(lane(1), 1)).await;
    let old = acquire(&one, lane(1), 1).await;
    assert!(matches!(two.acquire(lane(1), session(2)).await.unwrap(), Acquired::HeldBy { .. }));
    end(&raw(&database).await, session(1)).await;
    assert_eq!(two.lane(lane(1)).await.unwrap().unwrap().owner, None, "nobody owns it any more");
    assert!(is_fenced(&commit(&one, bind(lane(1), old, 0, 1, 0)).await), "its owner may not write either");
    assert!(!one.renew_session(session(1), LEASE).await.unwrap(), "too late");
    one.acquire(lane(2), session(1)).await.unwrap_err();
    assert_eq!(acquire(&two, lane(1), 2).await, Token(old.0 + 1));
    let left = format!("SELECT count(*) = 0 FROM session WHERE id = '{}'", session(1).0);
    let row = raw(&database).await.query_one(&left, &[]).await.unwrap();
    assert!(row.get::<_, bool>(0), "a renewal that is under way finds nothing to renew");
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
    one.open_session(session(1), "node-1", LEASE).await.unwrap();
    two.open_session(session(2), "node-2", LEASE).await.unwrap();
    for n in 1..=20 {
        acquire(&one, lane(n), 1).await;
    }
    assert!(one.renew_session(session(1), Duration::from_secs(3_600)).await.unwrap());
    let rest =
        "SELECT count(*) = 1 AND bool_and(ends_at > clock_timestamp() + interval '30 minutes') FROM session
         WHERE node = 'node-1'";
    assert!(
        raw(&database).await.query_one(rest, &[]).await.unwrap().get::<_, bool>(0),
        "one row for all of them"
    );
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

#[tokio::test]
async fn a_session_that_ends_while_it_waits_for_a_lane_does_not_get_it() {
    let database = Database::new();
    let store = database.open().await;
    store.open_session(session(1), "node-1", LEASE).await.unwrap();
    let token = acquire(&store, lane(1), 1).await;
    store.release(lane(1), session(1), token).await.unwrap();
    let busy = raw(&database).await;
    busy.batch_execute("BEGIN; SELECT 1 FROM lane FOR UPDATE").await.unwrap();
    let late = store.clone();
    let acquiring = tokio::spawn(async move { late.acquire(lane(1), session(1)).await });
    let watch = raw(&database).await;
    super::until_waiting(&watch, "lane").await;
    // By `now()`, which stands still from BEGIN on, it would still live.
    end(&watch, session(1)).await;
    busy.batch_execute("COMMIT").await.unwrap();
    acquiring.await.unwrap().unwrap_err();
    assert_eq!(store.load_lane(lane(1)).await.unwrap().token, token, "nobody took it");
}

#[tokio::test]
async fn of_two_that_find_a_lane_free_at_the_same_moment_one_gets_it() {
    let database = Database::new();
    let (one, two) = (database.open().await, database.open().await);
    one.open_session(session(1), "node-1", LEASE).await.unwrap();
    two.open_session(session(2), "node-2", LEASE).await.unwrap();
    let token = acquire(&one, lane(1), 1).await;
    one.release(lane(1), session(1), token).await.unwrap();
    // Both come to the lane's row while somebody has it, and go on together.
    let busy = raw(&database).await;
    busy.batch_execute("BEGIN; SELECT 1 FROM lane FOR UPDATE").await.unwrap();
    let pid: i32 = busy.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let first = tokio::spawn(async move { one.acquire(lane(1), session(1)).await.unwrap() });
    let second = tokio::spawn(async move { two.acquire(lane(1), session(2)).await.unwrap() });
    let both_wait = format!(
        "WITH next AS (SELECT pid FROM pg_stat_activity WHERE {pid} = ANY (pg_blocking_pids(pid)))
         SELECT count(*) >= 2 FROM pg_stat_activity AS a WHERE {pid} = ANY (pg_blocking_pids(a.pid))
            OR EXISTS (SELECT 1 FROM next WHERE next.pid = ANY (pg_blocking_pids(a.pid)))"
    );
    super::until(&raw(&database).await, &both_wait).await;
    busy.batch_execute("COMMIT").await.unwrap();
    let got = [first.await.unwrap(), second.await.unwrap()];
    let owners = got.iter().filter(|got| matches!(got, Acquired::Yes { .. })).count();
    assert_eq!(owners, 1, "{got:?}");
}
