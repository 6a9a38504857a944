//! What a key has open when it expires ends with it, at the next push at the latest.

use futures::{SinkExt as _, StreamExt as _};
use landfall_server::grpc::proto::submit_result::Result as Outcome;
use landfall_server::grpc::proto::transactions_client::TransactionsClient;
use landfall_server::grpc::proto::{Payload, SubmitRequest, WatchRequest};
use reqwest::Method;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use tonic::transport::Endpoint;
use tonic::{Code, Request};

use crate::pass_through::{ADMIN_KEY, guarded};
use crate::subscriptions::{Socket, next, subscribed};
use crate::support::{Api, CHAIN_ID, Chain, LIMIT, RECEIVER, Server, signer, text, transfer_as, until};

/// How long a key is good here: long enough to open everything with it.
const GOOD_FOR: i64 = 8;

/// A key of this role that expires after so many seconds.
pub(crate) async fn expires_in(server: &Server, role: &str, seconds: i64) -> Api {
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    let body = json!({ "name": "soon", "role": role, "expiresAt": end.to_string() });
    let admin = server.api.with_key(ADMIN_KEY);
    admin.with_key(&text(&admin.post("/api/v1/api-keys", &body).await.expect(201), "key"))
}

pub(crate) fn with_key<T>(message: T, api: &Api) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {}", api.key()).parse().unwrap());
    request
}

pub(crate) fn transfer_by_grpc(request_id: &str) -> SubmitRequest {
    SubmitRequest {
        chain_id: CHAIN_ID,
        signer: signer(0),
        request_id: Some(request_id.to_owned()),
        payload: Some(Payload {
            to: Some(RECEIVER.to_owned()),
            value: Some("1".to_owned()),
            gas: Some(21_000),
            ..Payload::default()
        }),
        options: None,
    }
}

/// A socket that is told of new blocks.
async fn told_of_heads(api: &Api) -> Socket {
    let mut socket = subscribed(api, 0, &json!(null)).await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"] });
    socket.send(Message::text(call.to_string())).await.unwrap();
    assert!(next(&mut socket).await.unwrap()["result"].is_string());
    socket
}

#[tokio::test]
async fn streams_and_sockets_of_a_key_that_expires_end_without_another_word() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("")).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let late = expires_in(&server, "submitter", GOOD_FOR).await;
    let mut events = late.request(Method::GET, "/api/v1/events").send().await.unwrap();
    let mut socket = told_of_heads(&late).await;
    let channel = Endpoint::from_shared(server.api.url().to_owned()).unwrap().connect().await.unwrap();
    let mut grpc = TransactionsClient::new(channel);
    let watch = grpc.watch(with_key(WatchRequest::default(), &late)).await.unwrap();
    let mut watch = watch.into_inner();
    let (feed, requests) = futures::channel::mpsc::unbounded();
    feed.unbounded_send(transfer_by_grpc("before")).unwrap();
    let mut answers = grpc.submit_stream(with_key(requests, &late)).await.unwrap().into_inner();
    assert!(matches!(answers.message().await.unwrap().unwrap().result, Some(Outcome::Submitted(_))));
    // All of them work.
    chain.mine(1).await;
    assert_eq!(next(&mut socket).await.unwrap()["method"], "eth_subscription");
    let chunk = events.chunk().await.unwrap().expect("an event");
    assert!(String::from_utf8_lossy(&chunk).contains("tx.accepted"));
    assert_eq!(watch.message().await.unwrap().expect("an event").r#type, "tx.accepted");
    until("the key has expired", async || (late.get("/api/v1/lanes").await.status == 401).then_some(()))
        .await;
    feed.unbounded_send(transfer_by_grpc("after")).unwrap();
    assert_eq!(answers.message().await.unwrap_err().code(), Code::Unauthenticated);
    let not_heard = admin.submit(&transfer_as("not heard")).await;
    chain.mine(1).await;
    let ends = async {
        let mut heard = String::new();
        while let Ok(Some(chunk)) = events.chunk().await {
            heard.push_str(&String::from_utf8_lossy(&chunk));
        }
        let end = loop {
            match watch.message().await {
                Ok(Some(event)) => heard.push_str(&event.json),
                Ok(None) => panic!("it ends, and does not say why"),
                Err(end) => break end,
            }
        };
        assert_eq!(end.code(), Code::Unauthenticated, "{end:?}");
        while let Some(Ok(message)) = socket.next().await {
            assert!(!message.is_text(), "the socket tells of a block that is new: {message}");
        }
        heard
    };
    let heard = tokio::time::timeout(LIMIT, ends).await.expect("all of them end");
    assert!(!heard.contains(&not_heard), "{heard}");
    let stored = admin.list("").await;
    assert!(stored.iter().all(|tx| text(tx, "requestId") != "after"), "{stored:?}");
}
