//! An old owner holds its token through each of the interleavings that a check without a locked row lets through
//! (L2), and changes nothing that it must not.

use std::time::Duration;

use landfall_core::ports::store::{Acquired, Leases, Reads};
use landfall_core::{LaneVersion, Token};
use landfall_store::Postgres;

use super::proxy::{Proxy, Trap};
use super::{end, raw, until_waiting};
use crate::cases::everything;
use crate::fixtures::*;
use crate::world::Database;

/// Transaction 1 waits in lane 1, which the old owner (session 1) has through a proxy. The new one (session 2) is
/// there as well.
struct Probe {
    database: Database,
    proxy: Proxy,
    old: Postgres,
    new: Postgres,
    token: Token,
}

async fn probe() -> Probe {
    let mut database = Database::new();
    let new = database.open().await;
    let direct = database.url.clone();
    let proxy = Proxy::before(&mut database).await;
    let old = database.open().await;
    database.url = direct;
    new.open_session(session(2), "new", Duration::from_secs(60)).await.unwrap();
    admit_new(&old, request(lane(1), 1)).await;
    // A first commit prepares its statements, so that the next one is nothing but its own messages.
    old.open_session(session(1), "old", Duration::from_secs(60)).await.unwrap();
    let token = acquire(&old, lane(1), 1).await;
    commit(&old, turn(lane(1), token, 0)).await.unwrap();
    Probe { database, proxy, old, new, token }
}

#[tokio::test]
async fn a_takeover_between_statement_and_commit_waits_and_finds_what_was_committed() {
    let Probe { database, proxy, old, new, token } = probe().await;
    let raw = raw(&database).await;
    proxy.set("COMMIT\0", Trap::Hold);
    let writing = tokio::spawn(async move { (commit(&old, bind(lane(1), token, 1, 1, 0)).await, old) });
    proxy.sprung().await;
    // The session ends while the commit is on its way, and somebody else wants the lane.
    end(&raw, session(1)).await;
    let taking = tokio::spawn(async move { (acquire(&new, lane(1), 2).await, new) });
    until_waiting(&raw, "lane").await;
    proxy.let_go();
    let (written, old) = writing.await.unwrap();
    assert_eq!(written.unwrap(), LaneVersion(2), "it had the lane when it committed");
    let (taken, new) = taking.await.unwrap();
    assert_eq!(taken, Token(token.0 + 1));
    let loaded = new.load_lane(lane(1)).await.unwrap();
    assert_eq!((loaded.version, ids(&loaded.bound)), (LaneVersion(2), vec![tx_id(1)]));
    let before = everything(&new).await;
    assert!(is_fenced(&commit(&old, turn(lane(1), token, 2)).await));
    assert_eq!(everything(&new).await, before);
}

#[tokio::test]
async fn a_write_that_waits_for_a_takeover_is_refused_when_it_gets_the_row() {
    let probe = probe().await;
    end(&raw(&probe.database).await, session(1)).await;
    refused_after_waiting(probe).await;
}

#[tokio::test]
async fn a_write_that_waits_while_a_lane_that_was_given_back_is_taken_is_refused() {
    // Here the old owner's session lives, and the lane's row names none: only the token is against it.
    let probe = probe().await;
    probe.old.release(lane(1), session(1), probe.token).await.unwrap();
    refused_after_waiting(probe).await;
}

/// The old owner writes while a takeover has the lane's row, and goes on when that has committed.
async fn refused_after_waiting(probe: Probe) {
    let Probe { database, proxy: _proxy, old, new, token } = probe;
    let raw = raw(&database).await;
    // A takeover as the adapter makes it, stopped before its commit.
    raw.batch_execute(&format!(
        "BEGIN; SELECT 1 FROM lane FOR UPDATE; UPDATE lane SET token = token + 1, session = '{}'",
        session(2).0
    ))
    .await
    .unwrap();
    let writing = tokio::spawn(async move { commit(&old, bind(lane(1), token, 1, 1, 0)).await });
    let watch = super::raw(&database).await;
    until_waiting(&watch, "lane").await;
    raw.batch_execute("COMMIT").await.unwrap();
    assert!(is_fenced(&writing.await.unwrap()));
    let loaded = new.load_lane(lane(1)).await.unwrap();
    assert_eq!((loaded.token, loaded.version), (Token(token.0 + 1), LaneVersion(1)));
    assert!(loaded.bound.is_empty() && loaded.attempts.is_empty() && loaded.row.cursor.is_none());
    assert_eq!(ids(&new.waiting(lane(1), 10).await.unwrap()), [tx_id(1)]);
    assert_eq!(new.journal(tx_id(1)).await.unwrap().len(), 1);
    commit(&new, bind(lane(1), Token(token.0 + 1), 1, 1, 0)).await.unwrap();
}

#[tokio::test]
async fn a_write_that_began_before_its_session_ended_is_refused_after_a_takeover() {
    let Probe { database, proxy, old, new, token } = probe().await;
    let raw = raw(&database).await;
    proxy.set("BEGIN ISOLATION LEVEL READ COMMITTED", Trap::HoldNext);
    let writing = tokio::spawn(async move { commit(&old, bind(lane(1), token, 1, 1, 0)).await });
    proxy.sprung().await;
    end(&raw, session(1)).await;
    let taken = acquire(&new, lane(1), 2).await;
    assert_eq!(taken, Token(token.0 + 1));
    let before = everything(&new).await;
    proxy.let_go();
    assert!(is_fenced(&writing.await.unwrap()));
    assert_eq!(everything(&new).await, before, "not a row has changed");
}

#[tokio::test]
async fn a_write_that_began_before_its_session_ended_is_refused_although_nobody_took_the_lane() {
    let Probe { database, proxy, old, new, token } = probe().await;
    let raw = raw(&database).await;
    let before = everything(&new).await;
    proxy.set("BEGIN ISOLATION LEVEL READ COMMITTED", Trap::HoldNext);
    let writing = tokio::spawn(async move { commit(&old, bind(lane(1), token, 1, 1, 0)).await });
    proxy.sprung().await;
    // By `now()`, which stands still from BEGIN on, the session would live for ever.
    end(&raw, session(1)).await;
    proxy.let_go();
    assert!(is_fenced(&writing.await.unwrap()));
    assert_eq!(everything(&new).await, before, "not a row has changed");
}

#[tokio::test]
async fn a_session_that_ends_between_the_look_at_the_lane_and_the_write_is_refused() {
    let Probe { database, proxy, old, new, token } = probe().await;
    let raw = raw(&database).await;
    let before = everything(&new).await;
    // Only the write says where the lane goes on; the look before it has passed.
    proxy.set("\"cursor\":", Trap::Hold);
    let writing = tokio::spawn(async move { commit(&old, bind(lane(1), token, 1, 1, 0)).await });
    proxy.sprung().await;
    end(&raw, session(1)).await;
    proxy.let_go();
    assert!(is_fenced(&writing.await.unwrap()));
    assert_eq!(everything(&new).await, before, "not a row has changed");
}

#[tokio::test]
async fn an_owners_own_commit_that_is_still_running_fences_or_is_found_by_its_next_one() {
    let Probe { database, proxy, old, new, token } = probe().await;
    let raw = raw(&database).await;
    proxy.set("COMMIT\0", Trap::HoldAndCut);
    let writing = tokio::spawn(async move { (commit(&old, bind(lane(1), token, 1, 1, 0)).await, old) });
    proxy.sprung().await;
    // The first try runs on in the server. The second waits for it, and so does another of the same owner, which
    // believes that the first one failed.
    until_waiting(&raw, "lane").await;
    assert_eq!(new.load_lane(lane(1)).await.unwrap().version, LaneVersion(1), "nothing has landed yet");
    let third = new.clone();
    let repeated = tokio::spawn(async move { commit(&third, turn(lane(1), token, 1)).await });
    proxy.let_go();
    let (written, old) = writing.await.unwrap();
    assert_eq!(written.unwrap(), LaneVersion(2), "looked up: it landed");
    assert!(is_fenced(&repeated.await.unwrap()), "the version stops the owner's own second commit");
    assert_eq!(new.load_lane(lane(1)).await.unwrap().version, LaneVersion(2), "it landed once");
    assert_eq!(new.journal(tx_id(1)).await.unwrap().len(), 2);
    commit(&old, turn(lane(1), token, 2)).await.unwrap();
}

#[tokio::test]
async fn two_processes_with_the_same_name_do_not_share_a_token() {
    let database = Database::new();
    let (one, two) = (database.open().await, database.open().await);
    one.open_session(session(1), "node", LEASE).await.unwrap();
    two.open_session(session(2), "node", LEASE).await.unwrap();
    let token = acquire(&one, lane(1), 1).await;
    let held = two.acquire(lane(1), session(2)).await.unwrap();
    assert_eq!(held, Acquired::HeldBy { node: "node".to_owned(), session: session(1) });
    one.release(lane(1), session(1), token).await.unwrap();
    let other = acquire(&two, lane(1), 2).await;
    assert!(other > token);
    assert!(is_fenced(&commit(&one, turn(lane(1), token, 0)).await));
    commit(&two, turn(lane(1), other, 0)).await.unwrap();
}
