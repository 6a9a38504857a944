//! Keys that are revoked or expire while something is open: what was accepted is answered, nothing more is taken, and each stream
//! and socket ends with a word about why.

use std::time::Duration;

use futures::SinkExt as _;
use landfall_server::grpc::proto::transactions_client::TransactionsClient;
use landfall_server::grpc::proto::{SubmitResult, WatchRequest};
use reqwest::Method;
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::lapsed::{expires_in, transfer_by_grpc, with_key};
use crate::pass_through::{ADMIN_KEY, guarded};
use crate::raw_sends::{SEND, saying};
use crate::subscriptions::{next, subscribed};
use crate::support::{Api, Chain, LIMIT, Parrot, RECEIVER, Server, pass, signer, text, until};

async fn channel(server: &Server) -> Channel {
    Endpoint::from_shared(server.api.url().to_owned()).unwrap().connect().await.unwrap()
}

/// A submitter's id and the server called with its key.
async fn submitter(server: &Server) -> (String, Api) {
    let admin = server.api.with_key(ADMIN_KEY);
    let made =
        admin.post("/api/v1/api-keys", &json!({ "name": "lost", "role": "submitter" })).await.expect(201);
    (text(&made, "id"), admin.with_key(&text(&made, "key")))
}

async fn revoke(server: &Server, id: &str) {
    let admin = server.api.with_key(ADMIN_KEY);
    admin.send(admin.request(Method::DELETE, &format!("/api/v1/api-keys/{id}"))).await.expect(200);
}

fn is_told_why(end: &Status) {
    assert_eq!(end.code(), Code::Unauthenticated, "{end:?}");
    assert!(end.message().contains("revoked") && !end.message().contains("not stored"), "{end:?}");
    assert_eq!(end.metadata().get("landfall-code").unwrap(), "unauthorized");
}

/// The end of a stream, whatever comes before.
async fn end_of<T>(stream: &mut Streaming<T>) -> Status {
    let end = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ends, and does not say why"),
                Err(end) => return end,
            }
        }
    };
    tokio::time::timeout(LIMIT, end).await.expect("it ends")
}

#[tokio::test]
async fn silent_streams_of_a_revoked_key_end_with_the_reason_and_those_of_others_stay() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("")).await;
    let (id, lost) = submitter(&server).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let mut grpc = TransactionsClient::new(channel(&server).await);
    let mut health = HealthClient::new(channel(&server).await);
    let server_as_a_whole = || HealthCheckRequest { service: String::new() };
    let mut watched = health.watch(with_key(server_as_a_whole(), &lost)).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status, 1);
    let mut of_admin = health.watch(with_key(server_as_a_whole(), &admin)).await.unwrap().into_inner();
    assert_eq!(of_admin.message().await.unwrap().unwrap().status, 1);
    let mut events = grpc.watch(with_key(WatchRequest::default(), &lost)).await.unwrap().into_inner();
    let (_feed, requests) = futures::channel::mpsc::unbounded();
    let mut answers = grpc.submit_stream(with_key(requests, &lost)).await.unwrap().into_inner();
    revoke(&server, &id).await;
    is_told_why(&end_of(&mut watched).await);
    is_told_why(&end_of(&mut events).await);
    is_told_why(&end_of(&mut answers).await);
    let more = futures::FutureExt::now_or_never(of_admin.message());
    assert!(more.is_none(), "that of another key goes on: {more:?}");
}

#[tokio::test]
async fn what_a_stream_took_before_its_key_expired_is_answered_before_it_ends() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("")).await;
    let late = expires_in(&server, "submitter", 4).await;
    let mut grpc = TransactionsClient::new(channel(&server).await);
    let (feed, requests) = futures::channel::mpsc::unbounded();
    let mut answers = grpc.submit_stream(with_key(requests, &late)).await.unwrap().into_inner();
    let mut events = grpc.watch(with_key(WatchRequest::default(), &late)).await.unwrap().into_inner();
    feed.unbounded_send(transfer_by_grpc("at once")).unwrap();
    assert!(answers.message().await.unwrap().unwrap().result.is_some());
    assert!(events.message().await.unwrap().is_some());
    // Nothing can be stored for a while.
    let store = Connection::open(server.folder().join("landfall.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    for request_id in ["one", "two", "three"] {
        feed.unbounded_send(transfer_by_grpc(request_id)).unwrap();
    }
    is_told_why(&end_of(&mut events).await);
    // As long as it took to end that one.
    pass(Duration::from_secs(1)).await;
    feed.unbounded_send(transfer_by_grpc("too late")).unwrap();
    store.execute_batch("ROLLBACK").unwrap();
    for _ in 0..3 {
        let answer: SubmitResult = answers.message().await.expect("it was taken").expect("and is answered");
        assert!(answer.result.is_some());
    }
    let end = answers.message().await.unwrap_err();
    assert_eq!(end.code(), Code::Unauthenticated, "{end:?}");
    let stored = server.api.with_key(ADMIN_KEY).list("").await;
    assert!(stored.iter().all(|tx| text(tx, "requestId") != "too late"), "{stored:?}");
}

#[tokio::test]
async fn what_a_socket_took_before_its_key_was_revoked_is_answered_before_it_is_closed_with_the_reason() {
    let chain = Chain::without_mining().await;
    let node = Parrot::before(&chain.url()).await;
    let server = Server::start(&node.url(), guarded("[rpc]\nanswer_time_s = 3\n")).await;
    let (id, lost) = submitter(&server).await;
    let mut socket = subscribed(&lost, 0, &Value::Null).await;
    let call = |id: u64, method: &str, params: Value| {
        Message::text(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string())
    };
    // Neither is answered by the node.
    let silent = json!({ "silent": true });
    let sent = saying(&chain, 3, 0, &silent).await;
    socket.send(call(1, SEND, sent)).await.unwrap();
    socket.send(call(2, "eth_getLogs", json!([{ "parrot": silent }]))).await.unwrap();
    until("both are under way", async || {
        (node.asked(SEND) == 1 && node.asked("eth_getLogs") == 1).then_some(())
    })
    .await;
    revoke(&server, &id).await;
    let payment = json!([{ "from": signer(0), "to": RECEIVER, "value": "0x1" }]);
    socket.send(call(3, "eth_sendTransaction", payment)).await.unwrap();
    let code = |answer: &Value| answer["error"]["data"]["code"].clone();
    let mut answers = Vec::new();
    let (closed, reason) = loop {
        match next(&mut socket).await {
            Ok(answer) => answers.push(answer),
            Err(end) => break end,
        }
    };
    assert_eq!(answers[0]["id"], 3, "what comes too late is refused at once: {answers:?}");
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let [sent, read, late] = answers.as_slice() else { panic!("{answers:?}") };
    assert!(
        sent["id"] == 1 && code(sent) != "unauthorized",
        "it was sent, and its caller hears of it: {sent}"
    );
    assert_eq!((&read["id"], code(read)), (&json!(2), json!("unauthorized")), "{read}");
    assert_eq!(code(late), "unauthorized", "{late}");
    assert!(closed == 1008 && reason.contains("revoked"), "{closed} {reason}");
}
