//! Lanes that hand out slots at admission (L4, L5, L17): the 202 has the nonce, and only the owner gives it.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Answer, CHAIN_ID, Chain, Database, RECEIVER, Server, Settings, signer, text, transfer, transfer_as, until,
};

const AT_ADMISSION: &str = "allocation = \"admission\"";

async fn server(chain: &Chain) -> Server {
    let settings = Settings { signer: AT_ADMISSION, max_in_flight: 4, ..Settings::default() };
    Server::start(&chain.url(), settings).await
}

fn nonce(answer: &Value) -> u64 {
    answer["nonce"].as_u64().unwrap_or_else(|| panic!("it has no nonce: {answer}"))
}

fn nonces(answers: &[Answer]) -> BTreeSet<u64> {
    answers.iter().map(|answer| nonce(&answer.body)).collect()
}

#[tokio::test]
async fn the_nonce_is_in_the_202_however_many_are_out_and_stays() {
    let chain = Chain::without_mining().await;
    let mut server = server(&chain).await;
    let api = &server.api;
    assert_eq!(api.lane(&signer(0)).await["allocation"], "admission");

    // Far more than may be out at once: the rest is signed and waits.
    let ask = async |n: usize| api.post("/api/v1/tx", &transfer_as(&format!("n{n}"))).await;
    let answers = join_all((0..40).map(ask)).await;
    assert!(answers.iter().all(|answer| answer.status == 202), "{answers:?}");
    assert_eq!(nonces(&answers), (0..40).collect(), "every slot once, without a gap");
    assert!(answers.iter().all(|answer| answer.body["hash"].is_string()));
    until("four are in the pool", async || (chain.pooled().await == 4).then_some(())).await;

    // A replay says the same, also after a kill before anything was mined.
    server.restart_after_kill().await;
    let api = &server.api;
    for (n, answer) in answers.iter().enumerate() {
        let replay = api.post("/api/v1/tx", &transfer_as(&format!("n{n}"))).await.expect(200);
        assert_eq!((&replay["txId"], &replay["nonce"]), (&answer.body["txId"], &answer.body["nonce"]));
    }
    chain.mine_every(1).await;
    for answer in &answers {
        let tx = api.until_state(&text(&answer.body, "txId"), "confirmed").await;
        assert_eq!(tx["nonce"], answer.body["nonce"], "it landed in the slot that its caller was told");
    }
    assert_eq!(chain.count(&signer(0)).await, 40);
}

#[tokio::test]
async fn one_key_at_once_is_one_slot_and_a_batch_is_contiguous() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = server(&chain).await;
    let api = &server.api;
    let answers = join_all((0..50).map(async |_| api.post("/api/v1/tx", &transfer_as("same")).await)).await;
    assert_eq!(nonces(&answers), BTreeSet::from([0]));
    assert_eq!(answers.iter().filter(|answer| answer.status == 202).count(), 1);

    let items: Vec<Value> = (0..30).map(|n| transfer_as(&format!("item {n}"))).collect();
    let batch = api.post("/api/v1/tx/batch", &json!(items)).await.expect(200);
    let told: Vec<u64> = batch["items"].as_array().unwrap().iter().map(nonce).collect();
    assert_eq!(told, (1..31).collect::<Vec<u64>>(), "in the order of the batch");
    api.until_all_done(Duration::from_secs(60)).await;
    assert_eq!(chain.count(&signer(0)).await, 31);
}

#[tokio::test]
async fn what_fails_its_checks_takes_no_slot_and_a_lane_that_holds_stores_nothing() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = server(&chain).await;
    let api = &server.api;
    // Code that reverts, whatever it is asked.
    chain.call("anvil_setCode", json!([RECEIVER, "0x60006000fd"])).await;

    let mut doomed = transfer_as("doomed");
    doomed["payload"] = json!({ "to": RECEIVER, "data": "0x01" });
    let answer = api.post("/api/v1/tx", &doomed).await.expect(202);
    assert_eq!((&answer["state"], &answer["nonce"]), (&json!("failed"), &Value::Null), "{answer}");
    chain.call("anvil_setCode", json!([RECEIVER, "0x"])).await;
    let next = api.post("/api/v1/tx", &transfer()).await.expect(202);
    assert_eq!(next["nonce"], 0, "the slot was never taken");
    api.until_state(&text(&next, "txId"), "confirmed").await;

    let lane = format!("/api/v1/lanes/{CHAIN_ID}/{}", signer(0));
    api.command(&format!("{lane}/pause")).await.expect(202);
    until("the lane is paused", async || (api.lane(&signer(0)).await["paused"] == true).then_some(())).await;
    let refused = api.post("/api/v1/tx", &transfer_as("later")).await;
    let detail = refused.expect_problem(503, "no_slot");
    assert!(detail.contains("paused"), "{detail}");
    let missing = api.get(&format!("/api/v1/tx/by-request?signer={}&requestId=later", signer(0))).await;
    missing.expect_problem(404, "not_found");

    api.command(&format!("{lane}/resume")).await.expect(202);
    until("the lane goes on", async || (api.lane(&signer(0)).await["paused"] == false).then_some(())).await;
    assert_eq!(api.post("/api/v1/tx", &transfer_as("later")).await.expect(202)["nonce"], 1);

    let mut follower = transfer_as("follower");
    follower["options"] = json!({ "after": { "txId": next["txId"] } });
    let detail = api.post("/api/v1/tx", &follower).await.expect_problem(422, "unsupported");
    assert!(detail.contains("dispatch"), "{detail}");
    api.until_all_done(Duration::from_secs(60)).await;
    assert_eq!(chain.count(&signer(0)).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_not_the_owner_names_the_owner_and_stores_nothing() {
    let database = Database::any();
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let namespace = format!("namespace = \"{}\"", chain.url().replace(['/', ':', '.'], "-"));
    let namespace: &'static str = Box::leak(namespace.into_boxed_str());
    let starting = ["a", "b", "c"].map(|name| {
        let settings = Settings {
            signer: AT_ADMISSION,
            node: name.to_owned(),
            store_url: database.url.clone(),
            store: namespace,
            lease: (3.0, 1.0, 1.0),
            ..Settings::default()
        };
        let url = chain.url();
        async move { Server::start(&url, settings).await }
    });
    let mut nodes: Vec<Server> = join_all(starting).await;

    // Whoever is asked first takes the lane, or knows who does; a lane may still move to the node it belongs to.
    let mut taken = 0;
    let owner = until("both others name the owner", async || {
        let mut named = BTreeSet::new();
        for node in &nodes {
            let key = format!("request {taken}");
            let request = node.api.request(Method::POST, "/api/v1/tx").json(&transfer_as(&key));
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            let header =
                response.headers().get("landfall-owner").map(|value| value.to_str().unwrap().to_owned());
            let body: Value = response.json().await.unwrap();
            match status {
                202 => {
                    assert_eq!(nonce(&body), taken, "the next slot, whoever gives it");
                    taken += 1;
                }
                409 => {
                    assert_eq!(text(&body, "code"), "not_the_owner");
                    assert_eq!(header.as_deref(), body["owner"]["address"].as_str(), "{body}");
                    named.extend(header);
                }
                503 => assert_eq!(text(&body, "code"), "no_slot"),
                _ => panic!("{status}: {body}"),
            }
        }
        let owner = nodes.iter().position(|node| named.iter().all(|url| url == node.api.url()));
        owner.filter(|_| named.len() == 1)
    })
    .await;
    for other in (0..3).filter(|n| *n != owner) {
        // What is known can be told by any.
        let replay = nodes[other].api.post("/api/v1/tx", &transfer_as("request 0")).await.expect(200);
        assert_eq!(replay["nonce"], 0);
    }
    assert_eq!(nodes[owner].api.list("").await.len() as u64, taken, "what was refused was not stored");

    // The owner dies: another takes its place, and goes on with the next slot.
    nodes[owner].kill().await;
    let heir = until("another node takes it in", async || {
        for other in (0..3).filter(|n| *n != owner) {
            let answer = nodes[other].api.post("/api/v1/tx", &transfer_as("after the kill")).await;
            match answer.status {
                202 | 200 => return Some((other, answer.body)),
                409 | 503 => {}
                status => panic!("{status}: {}", answer.body),
            }
        }
        None
    })
    .await;
    assert_eq!(nonce(&heir.1), taken, "the next slot");
    nodes[heir.0].api.until_all_done(Duration::from_secs(60)).await;
    assert_eq!(chain.count(&signer(0)).await, taken + 1);
}
