//! Two endpoints that do not show the same, and a chain that took back what it had called final.

use std::time::Duration;

use crate::support::{Chain, Server, Settings, program, run, signer, text, transfer, transfer_as, until};

/// Both begin alike and mine apart: from the first block on each has a chain of its own.
async fn two_chains() -> (Chain, Chain) {
    (Chain::of_one_origin().await, Chain::of_one_origin().await)
}

#[tokio::test]
async fn what_only_one_of_two_endpoints_shows_is_mined_and_not_confirmed_until_the_wrong_one_is_taken_out() {
    let (one, other) = two_chains().await;
    let both = format!("{}\", \"{}", one.url(), other.url());
    let settings = Settings { finality: 3, ..Settings::default() };
    let mut server = Server::start(&both, settings.clone()).await;
    let id = server.api.submit(&transfer()).await;
    server.api.until_state(&id, "broadcast").await;
    one.mine(5).await;
    let mined = server.api.until_tx(&id, "four blocks are on top", |tx| tx["confirmations"] == 4).await;
    assert_eq!(text(&mined, "state"), "mined", "one endpoint alone ends nothing");
    let why = text(&mined, "stuckReason");
    assert!(why.contains("block 4 is shown by one endpoint only: waiting for a second one"), "{why}");
    assert!(why.contains("5 blocks behind"), "{why}");

    // The other one has a chain of its own: blocks of the same second would be the same ones.
    other.call("evm_increaseTime", serde_json::json!([60])).await;
    other.mine(9).await;
    one.mine(9).await;
    let health = until("it is seen that they disagree", async || {
        let health = server.api.get("/health/ready").await.expect(200);
        (health["chains"][0]["disagree"] == true).then_some(health)
    })
    .await;
    let chain = &health["chains"][0];
    assert_eq!((&chain["witnessed"], &chain["singleWitness"]), (&0.into(), &false.into()), "{health:#}");
    assert!(text(chain, "trouble").contains("others show another chain"), "{health:#}");
    assert_ne!(text(&server.api.tx(&id).await, "state"), "confirmed");

    server.restart_with(1, &one.url(), &settings).await;
    let done = server.api.until_state(&id, "confirmed").await;
    assert!(done.get("singleWitness").is_none(), "one endpoint is all there is");
    assert_eq!(one.count(&signer(0)).await, 1);
}

/// A chain, and another one with the same id whose head is always higher.
async fn two_origins() -> (Chain, Chain) {
    let higher = Chain::of_another_origin(Duration::from_millis(200)).await;
    higher.mine(50).await;
    (Chain::with_blocks_every(Duration::from_millis(200)).await, higher)
}

#[tokio::test]
async fn an_endpoint_of_another_chain_is_named_and_not_used_and_holds_nobody_up() {
    let (chain, foreign) = two_origins().await;
    let settings = Settings { chain: "witness_wait_s = 1", ..Settings::default() };
    let mut server = Server::start(&chain.url(), settings.clone()).await;
    let before = server.api.submit(&transfer_as("before")).await;
    server.api.until_state(&before, "confirmed").await;

    let both = format!("{}\", \"{}", foreign.url(), chain.url());
    server.restart_with(1, &both, &settings).await;
    let after = server.api.submit(&transfer_as("after")).await;
    assert_eq!(server.api.until_state(&after, "confirmed").await["nonce"], 1);
    let health = server.api.get("/health/ready").await.expect(200);
    let endpoints = &health["chains"][0]["endpoints"];
    assert!(text(&endpoints[0], "trouble").contains("it serves another chain"), "{health:#}");
    assert!(endpoints[1]["trouble"].is_null(), "{health:#}");
    assert_eq!((chain.count(&signer(0)).await, foreign.count(&signer(0)).await), (2, 0));
    assert_eq!(foreign.pooled().await, 0, "nothing is sent there");
}

#[tokio::test]
async fn endpoints_of_different_chains_are_told_apart_before_anything_is_sent() {
    let (chain, foreign) = two_origins().await;
    let settings = Settings::default();
    let both = format!("{}\", \"{}", foreign.url(), chain.url());
    let mut server = Server::start(&both, settings.clone()).await;
    let id = server.api.submit(&transfer()).await;
    until("both are named", async || {
        let health = server.api.get("/health/ready").await.expect(200);
        let trouble = health["chains"][0]["trouble"].to_string();
        let names =
            [&chain, &foreign].map(|chain| trouble.contains(chain.url().trim_start_matches("http://")));
        (trouble.contains("the endpoints serve different chains") && names == [true; 2]).then_some(())
    })
    .await;
    assert_eq!(text(&server.api.tx(&id).await, "state"), "accepted");
    server.restart_with(1, &chain.url(), &settings).await;
    server.api.until_state(&id, "confirmed").await;
    assert_eq!((chain.count(&signer(0)).await, foreign.count(&signer(0)).await), (1, 0));
}

#[tokio::test]
async fn a_new_lane_begins_when_two_endpoints_give_the_same_nonce() {
    let (one, other) = two_chains().await;
    let seven = || serde_json::json!([signer(0), "0x7"]);
    other.call("anvil_setNonce", seven()).await;
    let both = format!("{}\", \"{}", one.url(), other.url());
    let server = Server::start(&both, Settings::default()).await;
    let id = server.api.submit(&transfer()).await;
    let told = "only one endpoint says that its first nonce is";
    let waits = server
        .api
        .until_tx(&id, "it says what it waits for", |tx| tx["stuckReason"].to_string().contains(told))
        .await;
    assert_eq!(text(&waits, "state"), "accepted", "{waits:#}");
    one.call("anvil_setNonce", seven()).await;
    let sent = server.api.until_state(&id, "broadcast").await;
    assert_eq!(sent["nonce"], 7, "{sent:#}");
}

#[tokio::test]
async fn a_chain_that_replaced_a_final_block_goes_on_when_that_is_accepted_and_keeps_its_request_ids() {
    let chain = Chain::that_settles_at_once().await;
    let mut server = Server::start(&chain.url(), Settings { finality: 1, ..Settings::default() }).await;
    chain.mine(3).await;
    let first = server.api.submit(&transfer_as("one")).await;
    server.api.until_state(&first, "broadcast").await;
    chain.mine(8).await;
    server.api.until_state(&first, "confirmed").await;
    // Deeper than what the chain called final, though not below the transaction.
    chain.call("anvil_reorg", serde_json::json!([6, []])).await;
    chain.mine(1).await;
    let held = server.api.submit(&transfer_as("two")).await;
    until("the lane says why it holds, and both ways out", async || {
        let why = text(&server.api.tx(&held).await, "stuckReason");
        (why.contains("landfall chain accept-reorg") && why.contains("landfall chain forget")).then_some(())
    })
    .await;
    let accept = async |server: &Server, more: &[&str]| {
        let mut command = program(server.folder());
        command.args(["chain", "accept-reorg", "31337", "--config", "landfall.toml"]).args(more);
        run(command).await
    };
    let refused = accept(&server, &["--yes"]).await;
    assert!(refused.code != Some(0) && refused.said.contains("open in another Landfall"), "{refused:?}");

    server.kill().await;
    let asked = accept(&server, &[]).await;
    assert!(asked.code != Some(0) && asked.said.contains("say --yes"), "{asked:?}");
    let done = accept(&server, &["--yes"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let again = accept(&server, &["--yes"]).await;
    assert!(again.code != Some(0) && again.said.contains("nothing to accept"), "{again:?}");
    server.spawn();
    server.until_ready().await;
    let again = server.api.post("/api/v1/tx", &transfer_as("one")).await.expect(200);
    assert_eq!(text(&again, "txId"), first, "the key is taken");
    server.api.until_state(&held, "broadcast").await;
    chain.mine(4).await;
    assert_eq!(server.api.until_state(&held, "confirmed").await["nonce"], 1);
    assert_eq!(chain.landed().await.len(), 2);
}
