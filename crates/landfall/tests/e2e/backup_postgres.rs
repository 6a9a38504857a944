//! A PostgreSQL database that is put back: it is noticed, and pays nothing twice.

use std::time::Duration;

use serde_json::{Value, json};

use crate::backup::{USED_UP, command, land, landed, once, request};
use crate::support::{Chain, Restored, Server, Settings, signer, text, until};

fn on(database: &Restored) -> Settings {
    Settings { store_url: database.url(), lease: (2.0, 0.5, 0.2), ..Settings::default() }
}

async fn up(server: &mut Server) {
    server.spawn();
    server.until_ready().await;
}

async fn until_held(server: &Server) {
    until("the lane says why it is on hold", async || {
        let lane = server.api.lane(&signer(0)).await;
        text(&lane, "holdReason").contains("landfall store accept").then_some(())
    })
    .await;
}

/// The copy knows no nonce of the lane: nothing but the place of the database tells that it went back.
#[tokio::test]
async fn a_database_from_before_a_lane_was_used_pays_nothing_twice_when_it_is_put_back() {
    let database = Restored::new().await;
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let mut server = Server::start(&chain.url(), on(&database)).await;
    let api = server.api.clone();
    server.kill().await;
    database.back_up().await;
    up(&mut server).await;
    assert_eq!(api.get("/api/v1/store").await.expect(200)["older"], false, "started again where it was");
    land(&server, 0..3).await;
    server.kill().await;
    database.put_back().await;
    up(&mut server).await;

    let ready = api.get("/health/ready").await.expect(200);
    assert!(text(&ready["store"], "older").contains("restored, or moved"), "{ready}");
    let mut forgotten = Vec::new();
    for n in 0..3 {
        forgotten.push(api.submit(&request(n)).await);
    }
    until_held(&server).await;
    chain.mine(5).await;
    assert_eq!((landed(&chain).await, chain.pooled().await), (once(0..3), 0));

    let asked = command(&server, &["store", "accept"]).await;
    assert!(!asked.ok() && asked.said.contains("--yes"), "{}", asked.said);
    let accepted = command(&server, &["store", "accept", "--yes"]).await;
    assert!(accepted.ok(), "{}", accepted.said);
    // Killed before its lane has heard of it: it goes on comparing.
    server.restart_after_kill().await;
    chain.mine(70).await;
    // The key's own history may look like what waits: a person says so.
    for id in &forgotten {
        api.until_tx(id, "it waits for a person", |tx| text(&tx["held"], "code") == "may_have_landed").await;
        assert!(command(&server, &["tx", "cancel", id]).await.ok());
        api.until_state(id, "cancelled").await;
    }
    let next = api.submit(&request(3)).await;
    assert_eq!(api.until_state(&next, "confirmed").await["nonce"], 3 + USED_UP);
    assert_eq!((landed(&chain).await, chain.pooled().await), (once(0..4), 0));
}

#[tokio::test]
async fn what_a_restored_database_has_forgotten_ends_as_landed_once_it_is_accepted() {
    let database = Restored::new().await;
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let mut server = Server::start(&chain.url(), on(&database)).await;
    let api = server.api.clone();
    land(&server, 0..1).await;
    server.kill().await;
    database.back_up().await;
    up(&mut server).await;
    land(&server, 1..3).await;
    server.kill().await;
    database.put_back().await;
    up(&mut server).await;
    let mut forgotten = Vec::new();
    for n in 1..3 {
        forgotten.push(api.submit(&request(n)).await);
    }
    until_held(&server).await;
    assert!(command(&server, &["store", "accept", "--yes"]).await.ok());
    chain.mine(70).await;
    for id in &forgotten {
        api.until_state(id, "confirmed").await;
        assert!(api.time_line(id).await.contains(&"carried_out".to_owned()));
    }
    land(&server, 3..4).await;
    assert_eq!((landed(&chain).await, chain.pooled().await), (once(0..4), 0));
}

/// The transaction's caller was told `cancelled`, and the copy has its bytes and not the word.
#[tokio::test]
async fn a_cancel_that_a_restored_database_has_forgotten_is_not_undone() {
    let database = Restored::new().await;
    let chain = Chain::that_settles_at_once().await;
    let mut server = Server::start(&chain.url(), on(&database)).await;
    let api = server.api.clone();
    let id = api.submit(&request(0)).await;
    chain.until_pooled(1).await;
    api.until_state(&id, "broadcast").await;
    server.kill().await;
    database.back_up().await;
    up(&mut server).await;
    assert!(command(&server, &["tx", "cancel", &id]).await.ok());
    until("the pool has the no-op in its place", async || {
        let pool: Value = chain.call("txpool_content", json!([])).await;
        let of_signer = pool["pending"].as_object()?.values().next()?;
        (of_signer["0"]["input"] == "0x").then_some(())
    })
    .await;
    until("it is cancelled", async || {
        chain.mine(2).await;
        (api.tx(&id).await["state"] == "cancelled").then_some(())
    })
    .await;
    server.kill().await;
    database.put_back().await;
    up(&mut server).await;

    until_held(&server).await;
    chain.mine(5).await;
    assert_eq!(
        text(&api.tx(&id).await, "state"),
        "broadcast",
        "nothing is decided before a person has spoken"
    );
    assert!(command(&server, &["store", "accept", "--yes"]).await.ok());
    // The lane goes on, and this one waits for somebody who knows what became of it.
    let next = api.submit(&request(1)).await;
    until("another one lands", async || {
        chain.mine(2).await;
        (api.tx(&next).await["state"] == "confirmed").then_some(())
    })
    .await;
    until("it says what is asked", async || {
        chain.mine(2).await;
        text(&api.tx(&id).await, "stuckReason").contains("landfall tx settle").then_some(())
    })
    .await;
    assert_eq!((landed(&chain).await, chain.pooled().await), (once(1..2), 0));
}
