//! Starting and stopping: nothing that was acknowledged is lost, and what cannot start says why.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{
    Chain, Gate, RECEIVER, Server, Settings, marker, number_of, program, run, signer, submission, text,
    transfer, transfer_as, until, until_within,
};

fn marked(number: u64) -> Value {
    submission(json!({ "to": RECEIVER, "value": "0", "data": marker(number), "gas": 30_000 }))
}

#[tokio::test]
async fn the_server_starts_and_admits_while_the_endpoint_is_down_and_catches_up_when_it_comes() {
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let mut gate = Gate::shut_before(&chain.url());
    let server = Server::start(&gate.url(), Settings::default()).await;
    let api = &server.api;

    let ready = until("the trouble shows", async || {
        let ready = api.get("/health/ready").await.expect(200);
        ready["chains"][0]["trouble"].is_string().then_some(ready)
    })
    .await;
    assert_eq!(text(&ready, "status"), "ready", "what is stored waits for the chain");
    assert_eq!((&ready["chains"][0]["usable"], &ready["store"]["writable"]), (&json!(false), &json!(true)));
    let ids = [api.submit(&marked(0)).await, api.submit(&submission(json!({ "to": RECEIVER }))).await];
    for id in &ids {
        let tx = api.tx(id).await;
        assert_eq!(text(&tx, "state"), "accepted");
        assert!(!text(&tx, "stuckReason").is_empty(), "{tx}");
    }

    gate.open().await;
    for id in &ids {
        api.until_state(id, "confirmed").await;
    }
    let ready = api.get("/health/ready").await.expect(200);
    assert!(ready["chains"][0]["trouble"].is_null() && ready["chains"][0]["usable"] == true, "{ready}");

    // The same again for an endpoint that goes away in between.
    gate.shut().await;
    let id = api.submit(&marked(1)).await;
    until("the trouble shows again", async || {
        api.get("/health/ready").await.expect(200)["chains"][0]["trouble"].is_string().then_some(())
    })
    .await;
    gate.open().await;
    assert_eq!(api.until_state(&id, "confirmed").await["nonce"], 2);
    assert_eq!(chain.count(&signer(0)).await, 3);
}

#[tokio::test]
async fn what_was_accepted_but_never_sent_survives_a_kill_and_lands() {
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let mut gate = Gate::shut_before(&chain.url());
    let mut server = Server::start(&gate.url(), Settings::default()).await;
    let api = server.api.clone();
    let mut ids = Vec::new();
    for number in 0..10 {
        ids.push(api.submit(&marked(number)).await);
    }
    server.kill().await;
    assert_eq!(chain.landed().await, [], "nothing was sent");

    server.spawn();
    server.until_ready().await;
    for id in &ids {
        assert_eq!(text(&api.tx(id).await, "state"), "accepted");
    }
    gate.open().await;
    for id in &ids {
        api.until_state(id, "confirmed").await;
    }
    let numbers: Vec<u64> = chain.landed().await.iter().filter_map(number_of).collect();
    assert_eq!(numbers, (0..10).collect::<Vec<_>>(), "each once, in the order of admission");
}

#[tokio::test]
async fn what_was_sent_before_a_kill_lands_with_the_same_bytes_even_if_the_node_forgot_it() {
    let chain = Chain::without_mining().await;
    let mut server =
        Server::start(&chain.url(), Settings { resubmit_after_s: 60, ..Settings::default() }).await;
    let api = server.api.clone();
    let mut sent = Vec::new();
    for number in 0..5 {
        sent.push((api.submit(&marked(number)).await, Value::Null));
    }
    for (id, hash) in &mut sent {
        *hash = api.until_state(id, "broadcast").await["hash"].clone();
    }
    server.kill().await;
    chain.call("anvil_dropAllTransactions", json!([])).await;
    assert_eq!(chain.pooled().await, 0);

    server.spawn();
    server.until_ready().await;
    chain.until_pooled(5).await;
    chain.mine(2).await;
    for (id, hash) in &sent {
        assert_eq!(&api.until_state(id, "confirmed").await["hash"], hash);
    }
    assert_eq!(chain.landed().await.len(), 5);
}

#[tokio::test]
async fn what_was_mined_while_the_server_was_down_is_found_after_the_start() {
    let chain = Chain::without_mining().await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    let api = server.api.clone();
    let id = api.submit(&transfer()).await;
    api.until_state(&id, "broadcast").await;
    server.kill().await;
    chain.mine(40).await;
    server.spawn();
    server.until_ready().await;
    let done = api.until_state(&id, "confirmed").await;
    assert_eq!((&done["receipt"]["blockNumber"], &done["confirmations"]), (&json!(1), &json!(39)));
    assert_eq!(api.time_line(&id).await, ["accepted", "signed", "broadcast", "mined", "confirmed"]);
}

#[tokio::test]
async fn sigterm_ends_the_server_within_seconds_with_code_0_and_loses_nothing() {
    let chain = Chain::without_mining().await;
    let settings = Settings { max_in_flight: 8, ..Settings::default() };
    let mut server = Server::start(&chain.url(), settings).await;
    let api = server.api.clone();
    let mut ids = Vec::new();
    for number in 0..20 {
        ids.push(api.submit(&marked(number)).await);
    }
    chain.until_pooled(8).await;

    // A connection that was opened and says nothing must not hold it up.
    let _silent = TcpStream::connect(api.url().trim_start_matches("http://")).await.unwrap();
    server.terminate();
    assert_eq!(server.ended().await.code(), Some(0));
    assert!(server.log().contains("stopped; what was accepted goes on at the next start"));

    server.spawn();
    server.until_ready().await;
    until_within(Duration::from_secs(60), "all are confirmed", async || {
        chain.mine(1).await;
        (api.list("&state=confirmed").await.len() == 20).then_some(())
    })
    .await;
    let numbers: Vec<u64> = chain.landed().await.iter().filter_map(number_of).collect();
    assert_eq!(numbers, (0..20).collect::<Vec<_>>());
}

/// The first part of a request that the server has begun to read: it says so (`100 Continue`).
async fn begin_request(server: &Server, body: &str) -> TcpStream {
    let address = server.api.url().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let head = format!(
        "POST /api/v1/tx HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nexpect: 100-continue\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = [0; 25];
    stream.read_exact(&mut said).await.unwrap();
    assert!(said.starts_with(b"HTTP/1.1 100 "), "{}", String::from_utf8_lossy(&said));
    stream
}

#[tokio::test]
async fn a_request_under_way_is_finished_before_the_server_stops() {
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    let api = server.api.clone();
    let body = transfer_as("last-minute").to_string();
    let mut request = begin_request(&server, &body).await;

    server.terminate();
    until("the server is stopping", async || server.log().contains("stopping:").then_some(())).await;
    request.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    request.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    assert_eq!(server.ended().await.code(), Some(0));

    server.spawn();
    server.until_ready().await;
    let found = api.get(&format!("/api/v1/tx/by-request?signer={}&requestId=last-minute", signer(0))).await;
    api.until_state(&text(&found.expect(200), "txId"), "confirmed").await;
}

#[tokio::test]
async fn a_caller_that_never_finishes_its_request_cannot_keep_the_server_from_stopping() {
    let chain = Chain::without_mining().await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    let _stalled = begin_request(&server, &transfer().to_string()).await;
    server.terminate();
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn a_second_server_on_the_same_database_does_not_start_and_harms_nothing() {
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let before = server.api.submit(&marked(0)).await;

    let refused = server.try_another(&chain.url()).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.said.contains("is open in another Landfall"), "{}", refused.said);

    let after = server.api.submit(&marked(1)).await;
    for id in [before, after] {
        server.api.until_state(&id, "confirmed").await;
    }
    assert_eq!(chain.count(&signer(0)).await, 2);
    assert!(!server.log().contains("fenced"), "{}", server.log());
    let ready = server.api.send(server.api.request(Method::GET, "/health/ready")).await;
    assert_eq!(ready.status, 200);
}

// covers: A4
#[tokio::test]
async fn a_chain_that_was_started_over_holds_its_lanes_until_it_is_put_away() {
    let chain = Chain::with_blocks_every(Duration::from_millis(300)).await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    let first = server.api.submit(&transfer_as("one")).await;
    server.api.until_state(&first, "confirmed").await;
    let forget = async |server: &Server, more: &[&str]| {
        let mut command = program(server.folder());
        command.args(["chain", "forget", "31337", "--config", "landfall.toml"]).args(more);
        run(command).await
    };
    let refused = forget(&server, &["--yes"]).await;
    assert!(refused.code != Some(0) && refused.said.contains("open in another Landfall"), "{refused:?}");
    server.kill().await;
    let same = forget(&server, &["--yes"]).await;
    assert!(same.code != Some(0) && same.said.contains("it is the same chain"), "{same:?}");
    server.spawn();
    server.until_ready().await;

    let anew = Chain::of_another_origin(Duration::from_millis(300)).await;
    server.restart_with(1, &anew.url(), &Settings::default()).await;
    let held = server.api.submit(&transfer_as("two")).await;
    until("the lane says why it holds", async || {
        let tx = server.api.tx(&held).await;
        text(&tx, "stuckReason").contains("landfall chain forget").then_some(())
    })
    .await;
    assert_eq!(anew.count(&signer(0)).await, 0, "nothing is sent to a chain that is not the lane's");
    let health = server.api.get("/health/ready").await.expect(200);
    assert!(health.to_string().contains("another chain is shown: the first block is 0x"), "{health:#}");

    server.kill().await;
    let refused = forget(&server, &[]).await;
    assert!(refused.code != Some(0) && refused.said.contains("--yes"), "{refused:?}");
    assert!(refused.said.contains("If an endpoint is the wrong one, correct `rpc`"), "{refused:?}");
    let done = forget(&server, &["--yes"]).await;
    assert!(done.code == Some(0) && done.stdout.contains("2 transactions"), "{done:?}");
    server.spawn();
    server.until_ready().await;
    let again = server.api.submit(&transfer_as("one")).await;
    assert_ne!(again, first, "the key is free on the new chain");
    assert_eq!(server.api.until_state(&again, "confirmed").await["nonce"], 0);
}
