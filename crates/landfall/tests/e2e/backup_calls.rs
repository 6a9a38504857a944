//! Calls by `eth_sendTransaction` that are made again on an older copy of the store: each pays once, however often its library
//! tries, before and after the copy is accepted.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::backup::until_marked_beyond;
use super::rpc::{Rpc, number};
use super::support::{Api, Chain, Server, Settings, program, run, signer, text, until};

fn recipient(nonce: u64) -> String {
    format!("0x{:040x}", 0xcafe_0000 + nonce)
}

fn payment(nonce: u64) -> Value {
    let value = format!("{:#x}", 100 + nonce);
    let nonce_text = format!("{nonce:#x}");
    json!([{ "from": signer(0), "to": recipient(nonce), "value": value, "gas": "0x5208", "nonce": nonce_text }])
}

async fn pay(api: &Api, nonce: u64) -> String {
    let hash = Rpc(api).get("eth_sendTransaction", payment(nonce)).await;
    hash.as_str().expect("a hash").to_owned()
}

/// The balance of each recipient.
async fn paid(chain: &Chain, nonces: std::ops::Range<u64>) -> BTreeMap<u64, u64> {
    let mut paid = BTreeMap::new();
    for nonce in nonces {
        let balance = chain.call("eth_getBalance", json!([recipient(nonce), "latest"])).await;
        paid.insert(nonce, number(&balance));
    }
    paid
}

fn once(nonces: std::ops::Range<u64>) -> BTreeMap<u64, u64> {
    nonces.map(|nonce| (nonce, 100 + nonce)).collect()
}

async fn command(server: &Server, args: &[&str]) -> crate::support::Output {
    let mut command = program(server.folder());
    command.args(args).env("LANDFALL_URL", server.api.url());
    run(command).await
}

/// A server on a copy that knows the calls below `known`, while the chain has all of them.
async fn put_back(chain: &Chain, known: u64, all: u64) -> Server {
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    let api = server.api.clone();
    for nonce in 0..all {
        if nonce == known {
            let made = command(&server, &["backup", "copy.db"]).await;
            assert!(made.ok(), "{}", made.said);
        }
        let hash = pay(&api, nonce).await;
        Rpc(&api).until_receipt(&hash).await;
    }
    let last = api.submit(&crate::support::transfer()).await;
    api.until_state(&last, "confirmed").await;
    until_marked_beyond(&server, "copy.db").await;
    server.kill().await;
    for gone in ["landfall.db-wal", "landfall.db-shm"] {
        drop(fs::remove_file(server.folder().join(gone)));
    }
    fs::copy(server.folder().join("copy.db"), server.folder().join("landfall.db")).unwrap();
    server.spawn();
    server.until_ready().await;
    server
}

async fn accept(server: &Server, chain: &Chain) {
    let accepted = command(server, &["store", "accept", "--yes"]).await;
    assert!(accepted.ok(), "{}", accepted.said);
    chain.mine(70).await;
    let api = server.api.clone();
    until("the lane goes on", async || (api.lane(&signer(0)).await["healthy"] == true).then_some(())).await;
}

/// A retry on an older copy is stored and compared: once the copy is accepted it hears the hash of what has landed.
#[tokio::test]
async fn a_call_that_is_made_again_before_an_older_copy_is_accepted_hears_what_landed() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = put_back(&chain, 1, 3).await;
    let api = server.api.clone();
    for nonce in 1..3 {
        let refused = Rpc(&api).error("eth_sendTransaction", payment(nonce)).await;
        assert_eq!(refused["data"]["code"], "outcome_unknown", "{refused}");
        assert!(text(&refused, "message").contains("repeat the same call with the same nonce"), "{refused}");
    }
    accept(&server, &chain).await;
    for nonce in 0..3 {
        let hash = pay(&api, nonce).await;
        assert_eq!(pay(&api, nonce).await, hash, "however often");
        assert_eq!(Rpc(&api).until_receipt(&hash).await["status"], "0x1");
    }
    // What may be out of the forgotten is used up first, for longer than a call waits.
    let next = until("a new call gets a nonce", async || {
        let answer = Rpc(&api).ask("eth_sendTransaction", payment(3)).await;
        answer["result"].as_str().map(str::to_owned)
    })
    .await;
    Rpc(&api).until_receipt(&next).await;
    assert_eq!(paid(&chain, 0..4).await, once(0..4));
}

/// A call that never landed is not lost either: its caller need not ask again for it to land.
#[tokio::test]
async fn a_call_that_is_made_first_on_an_older_copy_lands_once_when_that_is_accepted() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = put_back(&chain, 1, 3).await;
    let api = server.api.clone();
    let refused = Rpc(&api).error("eth_sendTransaction", payment(3)).await;
    assert_eq!(refused["data"]["code"], "outcome_unknown", "{refused}");
    assert_eq!(paid(&chain, 3..4).await, BTreeMap::from([(3, 0)]));
    accept(&server, &chain).await;
    let id = text(&refused["data"], "txId");
    let done = api.until_state(&id, "confirmed").await;
    assert_eq!(paid(&chain, 0..4).await, once(0..4));
    for _ in 0..2 {
        assert_eq!(pay(&api, 3).await, text(&done, "hash"), "a retry hears its hash");
    }
    chain.mine(5).await;
    assert_eq!(paid(&chain, 0..4).await, once(0..4));
}

/// A library's retries after the copy was accepted: none of them takes the memory of what has landed with it.
#[tokio::test]
async fn a_call_that_is_made_again_after_an_older_copy_was_accepted_waits_for_a_person_however_often() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = put_back(&chain, 1, 3).await;
    let api = server.api.clone();
    accept(&server, &chain).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let refused = Rpc(&api).error("eth_sendTransaction", payment(2)).await;
        assert_eq!(refused["data"]["code"], "outcome_unknown", "{refused}");
        assert!(text(&refused, "message").contains("nonce 2"), "{refused}");
        ids.push(text(&refused["data"], "txId"));
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "one call is one transaction: {ids:?}");
    // A submitter who cancels it and calls again is no further.
    api.post(&format!("/api/v1/tx/{}/cancel", ids[0]), &json!({})).await.expect(202);
    api.until_state(&ids[0], "cancelled").await;
    let refused = Rpc(&api).error("eth_sendTransaction", payment(2)).await;
    assert!(text(&refused, "message").contains("nonce 2"), "{refused}");
    assert_eq!(text(&refused["data"], "txId"), ids[0]);
    // By REST neither: it does the same.
    let again = json!({
        "chainId": crate::support::CHAIN_ID, "signer": signer(0),
        "payload": { "to": recipient(2), "value": "102", "gas": 21_000 },
    });
    let again = api.submit(&again).await;
    let held = api.until_tx(&again, "it waits for a person", |tx| tx["held"].is_object()).await;
    assert_eq!(held["held"]["code"], "may_have_landed");
    assert_eq!(paid(&chain, 0..3).await, once(0..3));
    // An operator knows that this one is another payment.
    let refused = command(&server, &["tx", "approve", &again]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.said);
    assert!(refused.said.contains("nonce 2") && refused.said.contains("Say --yes"), "{}", refused.said);
    let approved = command(&server, &["tx", "approve", &again, "--yes"]).await;
    assert!(approved.ok(), "{}", approved.said);
    let shown = format!("version 1: to {}, value 102 wei, 0 bytes of data", recipient(2));
    assert!(approved.stdout.to_lowercase().contains(&shown.to_lowercase()), "{}", approved.said);
    api.until_state(&again, "confirmed").await;
    assert_eq!(paid(&chain, 2..3).await, BTreeMap::from([(2, 204)]));
    // And the first one is still not free.
    let refused = Rpc(&api).error("eth_sendTransaction", payment(2)).await;
    assert_eq!(text(&refused["data"], "txId"), ids[0]);
}

/// A lane that the copy had never used has no nonce of its own to compare with.
#[tokio::test]
async fn a_call_of_a_lane_that_the_older_copy_never_used_waits_for_a_person() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = put_back(&chain, 0, 2).await;
    let api = server.api.clone();
    for nonce in 0..2 {
        Rpc(&api).error("eth_sendTransaction", payment(nonce)).await;
    }
    accept(&server, &chain).await;
    for _ in 0..2 {
        for nonce in 0..2 {
            let refused = Rpc(&api).error("eth_sendTransaction", payment(nonce)).await;
            assert!(text(&refused, "message").contains(&format!("nonce {nonce}")), "{refused}");
        }
    }
    chain.mine(5).await;
    assert_eq!(paid(&chain, 0..2).await, once(0..2));
}
