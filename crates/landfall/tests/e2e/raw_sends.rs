//! Transactions that callers signed themselves, and nodes that do not want them: the engine does not notice, and neither do others.

use std::time::Duration;

use alloy_primitives::hex;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::pass_through::{ADMIN_KEY, endpoint, guarded, key_of, well};
use super::rpc::Rpc;
use super::support::{CHAIN_ID, Chain, Parrot, RECEIVER, Server, pass, signer, text, transfer_as, until};

pub(crate) const SEND: &str = "eth_sendRawTransaction";

/// A transaction whose bytes are words to the node.
pub(crate) async fn saying(chain: &Chain, n: usize, nonce: u64, said: &Value) -> Value {
    let words = json!({ "parrot": said }).to_string();
    let tx = json!({
        "from": signer(n), "to": RECEIVER, "value": "0x1", "nonce": format!("{nonce:#x}"), "gas": "0x30d40",
        "maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": "0x3b9aca00", "chainId": format!("{CHAIN_ID:#x}"),
        "data": format!("0x{}", hex::encode(words)),
    });
    json!([chain.call("eth_signTransaction", json!([tx])).await])
}

#[tokio::test]
async fn a_raw_transaction_that_a_provider_turns_away_is_nobody_elses_trouble() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let node = Parrot::before(&chain.url()).await;
    let server = Server::start(&node.url(), guarded("[rpc]\nanswer_time_s = 2\n")).await;
    let (greedy, other) = (key_of(&server, "submitter").await, key_of(&server, "submitter").await);
    let (greedy, honest) = (Rpc(&greedy), Rpc(&other));
    let mut bad = vec![json!({ "lose": true }), json!({ "silent": true })];
    for status in [401, 403, 429, 500, 503] {
        let text = "unauthorized: rate limit exceeded";
        bad.push(json!({ "status": status, "text": text, "plain": true }));
        bad.push(json!({ "status": status, "text": text, "code": -32005 }));
    }
    for (nonce, said) in bad.iter().enumerate() {
        let nonce = nonce as u64;
        // It is kept, and sent again.
        greedy.get(SEND, saying(&chain, 3, nonce, said).await).await;
        assert_eq!(endpoint(&server).await, well(), "after {said}");
        let began = Instant::now();
        let hash = honest.get(SEND, saying(&chain, 4, nonce, &json!(null)).await).await;
        honest.until_receipt(hash.as_str().unwrap()).await;
        assert!(began.elapsed() < Duration::from_secs(10), "after {said} it took {:?}", began.elapsed());
    }
    let tx = other.submit(&transfer_as("beside all of them")).await;
    other.until_state(&tx, "confirmed").await;
    // All of them are sent again in the background, to the same end.
    let before = node.asked(SEND);
    let until = Instant::now() + Duration::from_secs(60);
    while node.asked(SEND) < before + bad.len() as u64 && Instant::now() < until {
        assert_eq!(endpoint(&server).await, well());
        pass(Duration::from_millis(200)).await;
    }
    assert!(node.asked(SEND) >= before + bad.len() as u64, "they are sent again");
    let nonce = bad.len() as u64;
    let hash = honest.get(SEND, saying(&chain, 4, nonce, &json!(null)).await).await;
    honest.until_receipt(hash.as_str().unwrap()).await;
    assert_eq!(endpoint(&server).await, well());
}

#[tokio::test]
async fn a_raw_transaction_whose_method_no_endpoint_has_is_refused_and_not_kept() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let node = Parrot::before(&chain.url()).await;
    let server = Server::start(&node.url(), guarded("")).await;
    let key = key_of(&server, "submitter").await;
    let text = "the method eth_sendRawTransaction does not exist/is not available";
    let lacking = saying(&chain, 3, 0, &json!({ "code": -32601, "text": text })).await;
    let (code, own, message) = Rpc(&key).fail(SEND, lacking.clone()).await;
    assert_eq!((code, own.as_str(), message.as_str()), (-32601, "node_policy", text));
    // A page of HTML is no answer: the node may have it.
    let page = saying(&chain, 4, 0, &json!({ "plain": true, "text": "<html>" })).await;
    let hash = Rpc(&key).get(SEND, page).await;
    assert!(!Rpc(&key).get("eth_getTransactionByHash", json!([hash])).await.is_null());
    until("the metrics show it", async || {
        let metrics = server.api.with_key(ADMIN_KEY).get("/metrics").await;
        let metrics = metrics.body.as_str().unwrap_or_default().to_owned();
        metrics.contains("landfall_raw_kept{state=\"open\"} 1").then_some(())
    })
    .await;
    let warned = server.log().matches("does not say that it takes callers' transactions").count();
    assert_eq!(warned, 2, "once for each reason");
}

#[tokio::test]
async fn a_raw_transaction_over_which_a_server_is_killed_is_in_the_audit_log_and_is_not_lost() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let node = Parrot::before(&chain.url()).await;
    let mut server = Server::start(&node.url(), guarded("")).await;
    let key = key_of(&server, "submitter").await;
    let silent = saying(&chain, 3, 0, &json!({ "silent": true })).await;
    let rpc = Rpc(&key);
    let sent = until("the first send is under way", async || (node.asked(SEND) == 1).then_some(()));
    tokio::select! {
        said = rpc.get(SEND, silent.clone()) => panic!("no node has answered: {said}"),
        () = sent => {}
    }
    server.restart_after_kill().await;
    let audit = server.api.with_key(ADMIN_KEY).get("/api/v1/audit?limit=50").await.expect(200);
    let rows = audit["items"].as_array().unwrap().iter();
    let about: Vec<&Value> =
        rows.filter(|row| row["method"] == SEND).map(|row| &row["body"]["hash"]).collect();
    // Whoever asks again is told at once, and not by a node.
    let hash = rpc.get(SEND, silent).await;
    assert_eq!(about, [&hash]);
    until("it is sent again", async || (node.asked(SEND) > 1).then_some(())).await;
}

#[tokio::test]
async fn a_key_that_is_revoked_while_its_body_or_batch_is_under_way_sends_nothing_more() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let node = Parrot::before(&chain.url()).await;
    let server = Server::start(&node.url(), guarded("[rpc]\nanswer_time_s = 2\n")).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let body = json!({ "name": "lost", "role": "submitter" });
    let made = admin.post("/api/v1/api-keys", &body).await.expect(201);
    let (id, key) = (text(&made, "id"), text(&made, "key"));
    let lost = admin.with_key(&key);
    // All of a body but its last byte.
    let body = transfer_as("of a lost key").to_string();
    let address = server.api.url().trim_start_matches("http://").to_owned();
    let mut slow = TcpStream::connect(&address).await.unwrap();
    let head = format!(
        "POST /api/v1/tx HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n",
        body.len()
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut goes_on = [0; 25];
    slow.read_exact(&mut goes_on).await.unwrap();
    assert_eq!(&goes_on, b"HTTP/1.1 100 Continue\r\n\r\n", "it was judged by its headers");
    slow.write_all(&body.as_bytes()[..body.len() - 1]).await.unwrap();
    // A batch whose first call takes two seconds.
    let silent = json!({ "jsonrpc": "2.0", "id": 1, "method": SEND, "params": saying(&chain, 3, 0, &json!({ "silent": true })).await });
    let next = json!({ "jsonrpc": "2.0", "id": 2, "method": SEND, "params": saying(&chain, 4, 0, &json!(null)).await });
    let revoke = async {
        until("the first send is under way", async || (node.asked(SEND) == 1).then_some(())).await;
        let path = format!("/api/v1/api-keys/{id}");
        admin.send(admin.request(Method::DELETE, &path)).await.expect(200);
    };
    let batch = json!([silent, next]);
    let path = format!("/rpc/{CHAIN_ID}");
    let (answers, ()) = tokio::join!(lost.post(&path, &batch), revoke);
    assert_eq!(answers.body[1]["error"]["data"]["code"], "unauthorized", "{}", answers.body);
    slow.write_all(&body.as_bytes()[body.len() - 1..]).await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let page = admin.get("/api/v1/tx").await.expect(200);
    assert_eq!(page["items"], json!([]));
}
