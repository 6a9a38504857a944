//! Sessions that end when nothing is heard of them, whatever the database's clock does (L1).

use std::time::Duration;

use landfall_core::Token;
use landfall_core::ports::store::{Acquired, Leases, Log, Reads};
use landfall_core::silence::Silence;

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
    assert!(is_fenced(&commit(&one, bind(lane(1), old, 0, 1, 0)).await));
}

#[tokio::test]
async fn a_renewal_that_waits_for_the_end_of_its_session_finds_it_gone() {
    let database = Database::new();
    let store = database.open().await;
    store.open_session(session(1), "node-1", LEASE).await.unwrap();
    let taker = raw(&database).await;
    // What another node does that has heard nothing of it, before its commit.
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

/// How the database's clock looks afterwards: what it wrote before lies so much further in the future (a step back), or in the past.
const STEPS: [&str; 6] = ["3 hours", "-3 hours", "2 days", "-2 days", "10 years", "-10 years"];

async fn step(client: &tokio_postgres::Client, by: &str) {
    let sql = format!("UPDATE session SET ends_at = ends_at + interval '{by}'");
    client.batch_execute(&sql).await.unwrap();
}

/// What a node does that lives: it looks who is there, and ends whom it has heard nothing of.
async fn until_ended(store: &landfall_store::Postgres, dead: u64) -> Duration {
    let (begun, mut silence) = (tokio::time::Instant::now(), Silence::default());
    let watched = async {
        loop {
            let holders = store.holders().await.unwrap();
            if !holders.live.contains(&session(dead)) {
                return begun.elapsed();
            }
            for (session, pulse) in silence.look(&holders.pulses, begun.elapsed()) {
                store.end_session(session, pulse).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(super::PATIENCE, watched).await.expect("it ends")
}

#[tokio::test]
async fn a_dead_session_is_taken_from_within_its_lease_whatever_the_databases_clock_did() {
    const SHORT: Duration = Duration::from_millis(600);
    for by in STEPS {
        let database = Database::new();
        let (one, two) = (database.open().await, database.open().await);
        one.open_session(session(1), "dead", SHORT).await.unwrap();
        two.open_session(session(2), "node-2", LEASE).await.unwrap();
        admit_new(&one, request(lane(1), 1)).await;
        let old = acquire(&one, lane(1), 1).await;
        let alive = keep_alive(two.clone(), 2);
        step(&raw(&database).await, by).await;
        assert!(matches!(two.acquire(lane(1), session(2)).await.unwrap(), Acquired::HeldBy { .. }), "{by}");
        let took = until_ended(&two, 1).await;
        assert!(took >= SHORT && took < SHORT * 4, "after a step by {by} it took {took:?}");
        assert_eq!(acquire(&two, lane(1), 2).await, Token(old.0 + 1));
        assert!(is_fenced(&commit(&one, bind(lane(1), old, 0, 1, 0)).await), "it was not dead: {by}");
        commit(&two, bind(lane(1), Token(old.0 + 1), 0, 1, 0)).await.unwrap();
        assert!(
            two.renew_session(session(2), LEASE).await.unwrap(),
            "the watcher is as alive as before: {by}"
        );
        alive.abort();
    }
}

#[tokio::test]
async fn a_live_session_keeps_its_lanes_whatever_the_databases_clock_does() {
    let database = Database::new();
    let (one, two) = (database.open().await, database.open().await);
    let watch = raw(&database).await;
    one.open_session(session(1), "node-1", LEASE).await.unwrap();
    two.open_session(session(2), "node-2", LEASE).await.unwrap();
    let token = acquire(&one, lane(1), 1).await;
    for (version, by) in (0..).zip(STEPS) {
        step(&watch, by).await;
        let held = two.acquire(lane(1), session(2)).await.unwrap();
        assert_eq!(held, Acquired::HeldBy { node: "node-1".to_owned(), session: session(1) }, "{by}");
        let owner = two.lane(lane(1)).await.unwrap().unwrap().owner;
        assert_eq!(owner, Some(("node-1".to_owned(), session(1))), "{by}");
        commit(&one, turn(lane(1), token, version)).await.unwrap();
        // Nobody takes the others for gone.
        admit_new(&one, request(lane(2), version + 1)).await;
        assert!(!one.is_alone(), "{by}");
        assert!(one.renew_session(session(1), LEASE).await.unwrap(), "{by}");
        // A process that begins removes nothing that lives.
        step(&watch, by).await;
        two.open_session(session(3), "node-3", LEASE).await.unwrap();
        two.close_session(session(3)).await.unwrap();
        commit(&one, turn(lane(1), token, version)).await.unwrap_err();
        assert!(one.renew_session(session(1), LEASE).await.unwrap(), "{by}");
    }
}

/// Older programs move `ends_at` alone, and go by the database's clock.
#[tokio::test]
async fn sessions_of_an_older_program_end_by_the_databases_clock() {
    let database = Database::new();
    let (new, watch) = (database.open().await, raw(&database).await);
    new.open_session(session(2), "new", LEASE).await.unwrap();
    let old = session(1).0;
    let begin = format!(
        "INSERT INTO session (namespace, id, node, ends_at)
         SELECT namespace, '{old}', 'old', clock_timestamp() + interval '10 seconds' FROM session"
    );
    watch.batch_execute(&begin).await.unwrap();
    let token = acquire(&new, lane(1), 1).await;
    commit(&new, turn(lane(1), token, 0)).await.unwrap();
    let holders = new.holders().await.unwrap();
    assert!(holders.live.contains(&session(1)) && !holders.pulses.contains_key(&session(1)), "{holders:?}");
    assert!(matches!(new.acquire(lane(1), session(2)).await.unwrap(), Acquired::HeldBy { .. }));
    let late = format!("UPDATE session SET ends_at = clock_timestamp() WHERE id = '{old}'");
    watch.batch_execute(&late).await.unwrap();
    assert!(!new.holders().await.unwrap().live.contains(&session(1)));
    assert!(is_fenced(&commit(&new, turn(lane(1), token, 1)).await), "as the older program would be");
    assert_eq!(acquire(&new, lane(1), 2).await, Token(token.0 + 1));
}

#[tokio::test]
async fn an_owner_that_an_older_program_takes_for_ended_is_fenced() {
    let database = Database::new();
    let (new, watch) = (database.open().await, raw(&database).await);
    new.open_session(session(1), "new", LEASE).await.unwrap();
    admit_new(&new, request(lane(1), 1)).await;
    let token = acquire(&new, lane(1), 1).await;
    step(&watch, "-1 day").await;
    // As it takes a lane: its holder's session, the token, in one transaction.
    watch
        .batch_execute(
            "BEGIN; SELECT 1 FROM lane FOR UPDATE;
             DELETE FROM session WHERE ends_at <= clock_timestamp();
             UPDATE lane SET token = token + 1, session = NULL; COMMIT",
        )
        .await
        .unwrap();
    assert!(is_fenced(&commit(&new, bind(lane(1), token, 0, 1, 0)).await));
    assert!(!new.renew_session(session(1), LEASE).await.unwrap());
}
