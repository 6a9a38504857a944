//! gRPC on the same port: submit, get, watch, cancel, lanes, trades, health and reflection.

use std::time::Duration;

use futures::StreamExt as _;
use landfall_server::grpc::proto::get_request::By;
use landfall_server::grpc::proto::lanes_client::LanesClient;
use landfall_server::grpc::proto::submit_result::Result as Outcome;
use landfall_server::grpc::proto::trades_client::TradesClient;
use landfall_server::grpc::proto::transactions_client::TransactionsClient;
use landfall_server::grpc::proto::{
    ByRequest, CancelRequest, GetLaneRequest, GetRequest, ListLanesRequest, Payload, SubmitRequest,
    WatchRequest,
};
use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::support::{Api, CHAIN_ID, Chain, RECEIVER, Server, Settings, signer, text, until};

const ADMIN_KEY: &str = "an-administrators-key-that-is-long-enough";

async fn channel(api: &Api) -> Channel {
    let endpoint = Endpoint::from_shared(api.url().to_owned()).unwrap().timeout(Duration::from_secs(20));
    endpoint.connect().await.expect("gRPC is answered")
}

fn transfer(request_id: &str) -> SubmitRequest {
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

fn said(status: &Status, name: &str) -> String {
    status.metadata().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn a_transaction_is_handed_over_watched_and_found_by_grpc() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let mut client = TransactionsClient::new(channel(&server.api).await);
    let mut events =
        client.watch(WatchRequest { after: Some(0), ..WatchRequest::default() }).await.unwrap().into_inner();

    let first = client.submit(transfer("one")).await.unwrap().into_inner();
    assert!(!first.replay && !first.tx_id.is_empty());
    let again = client.submit(transfer("one")).await.unwrap().into_inner();
    assert_eq!((again.replay, &again.tx_id), (true, &first.tx_id));
    let mut other = transfer("one");
    other.payload.as_mut().unwrap().value = Some("2".to_owned());
    let refused = client.submit(other).await.unwrap_err();
    assert_eq!(
        (refused.code(), said(&refused, "landfall-code")),
        (Code::AlreadyExists, "request_id_reused".into())
    );
    let mut bad = transfer("two");
    bad.payload.as_mut().unwrap().to = Some("0x12".to_owned());
    let refused = client.submit(bad).await.unwrap_err();
    assert_eq!(
        (refused.code(), said(&refused, "landfall-field")),
        (Code::InvalidArgument, "payload.to".into())
    );

    let mut heard = Vec::new();
    while heard.last().is_none_or(|name| name != "tx.confirmed") {
        let event =
            tokio::time::timeout(Duration::from_secs(20), events.next()).await.expect("an event in time");
        let event = event.expect("the stream goes on").unwrap();
        assert_eq!(event.tx_id.as_deref(), Some(first.tx_id.as_str()));
        let whole: Value = serde_json::from_str(&event.json).unwrap();
        assert_eq!(whole["seq"], event.seq);
        heard.push(event.r#type);
    }
    assert_eq!(heard.first().map(String::as_str), Some("tx.accepted"));

    let by_key = By::Request(ByRequest { signer: signer(0), request_id: "one".into() });
    let found = client.get(GetRequest { by: Some(by_key) }).await.unwrap().into_inner();
    let receipt = found.receipt.expect("it is in a block");
    assert_eq!((found.state.as_str(), found.nonce, receipt.success), ("confirmed", Some(0), true));
    assert_eq!(receipt.transaction_hash, found.hash.unwrap());
    let rest = server.api.tx(&first.tx_id).await;
    let mut whole: Value = serde_json::from_str(&found.json).unwrap();
    // Time went on between the two.
    for changing in ["confirmations", "confirmationBlocks"] {
        whole[changing] = rest[changing].clone();
    }
    assert_eq!(whole, rest);
    let missing = client.get(GetRequest { by: Some(By::TxId("nothing".into())) }).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);

    let mut lanes = LanesClient::new(channel(&server.api).await);
    let all = lanes.list(ListLanesRequest {}).await.unwrap().into_inner().lanes;
    assert_eq!((all.len(), all[0].next_nonce, all[0].healthy), (1, Some(1), true));
    let one = lanes.get(GetLaneRequest { chain_id: CHAIN_ID, signer: signer(0) }).await.unwrap().into_inner();
    assert_eq!(one.signer, signer(0));
}

#[tokio::test]
async fn a_stream_of_two_hundred_is_answered_in_order_and_a_bad_one_ends_only_itself() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let mut client = TransactionsClient::new(channel(&server.api).await);
    let requests = (0..200).map(|n| {
        let mut request = transfer(&format!("stream-{n}"));
        if n == 77 {
            request.chain_id = 1;
        }
        request
    });
    let answers = client.submit_stream(futures::stream::iter(requests)).await.unwrap().into_inner();
    let answers: Vec<_> = answers.map(|answer| answer.unwrap().result.unwrap()).collect().await;
    assert_eq!(answers.len(), 200);
    for (n, answer) in answers.iter().enumerate() {
        match answer {
            Outcome::Refusal(refusal) => assert_eq!((n, refusal.code.as_str()), (77, "unknown_chain")),
            Outcome::Submitted(stored) => {
                assert_eq!(text(&server.api.tx(&stored.tx_id).await, "requestId"), format!("stream-{n}"));
            }
        }
    }
    server.api.until_all_done(Duration::from_secs(60)).await;
    assert_eq!(chain.landed().await.len(), 199);
}

#[tokio::test]
async fn a_cancellation_by_grpc_is_what_the_chain_decides() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let mut client = TransactionsClient::new(channel(&server.api).await);
    let id = client.submit(transfer("one")).await.unwrap().into_inner().tx_id;
    server.api.until_state(&id, "broadcast").await;
    let asked = CancelRequest { tx_id: id.clone(), idempotency_key: Some("k".into()) };
    let first = client.cancel(asked.clone()).await.unwrap().into_inner().command_id;
    assert_eq!(client.cancel(asked).await.unwrap().into_inner().command_id, first);
    let no_op = |tx: &Value| tx["attempts"][1]["noOp"] == true && tx["attempts"][1]["accepted"] == true;
    server.api.until_tx(&id, "the no-op is sent", no_op).await;
    chain.mine(2).await;
    server.api.until_state(&id, "cancelled").await;
    let late = client.cancel(CancelRequest { tx_id: id, idempotency_key: None }).await.unwrap_err();
    assert_eq!(
        (late.code(), said(&late, "landfall-code")),
        (Code::FailedPrecondition, "already_final".into())
    );
}

// covers: F3
#[tokio::test]
async fn trades_are_refused_while_the_chain_is_not_seen_as_it_is_now() {
    let chain = Chain::without_mining().await;
    let settings = Settings { sections: "[trades]\nmax_head_age_s = 4\n", ..Settings::default() };
    let server = Server::start(&chain.url(), settings).await;
    let mut trades = TradesClient::new(channel(&server.api).await);
    // The chain stands still: what is decided on it now is decided on an old price.
    until("the newest block is old", async || {
        let refused = trades.clone().submit(transfer("early")).await.err()?;
        refused.message().contains("trades need one of the last 4 s").then_some(())
    })
    .await;
    let refused = trades.submit(transfer("old")).await.unwrap_err();
    assert_eq!((refused.code(), said(&refused, "landfall-code")), (Code::Unavailable, "out_of_sync".into()));
    assert!(server.api.list("").await.iter().all(|tx| text(tx, "requestId") != "old"), "nothing was stored");
    // Other entries are not concerned.
    TransactionsClient::new(channel(&server.api).await).submit(transfer("other")).await.unwrap();

    let taken = until("a new block was seen", async || {
        chain.mine(1).await;
        trades.submit(transfer("fresh")).await.ok()
    });
    assert!(!taken.await.into_inner().tx_id.is_empty());
}

#[tokio::test]
async fn grpc_asks_for_the_same_keys() {
    let chain = Chain::without_mining().await;
    let settings =
        Settings { env: vec![("LANDFALL_ADMIN_KEY", ADMIN_KEY.to_owned())], ..Settings::default() };
    let server = Server::start(&chain.url(), settings).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let made = admin.post("/api/v1/api-keys", &json!({ "name": "v", "role": "viewer" })).await.expect(201);
    let with = |key: &str, request: SubmitRequest| {
        let mut request = Request::new(request);
        request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
        request
    };
    let channel = channel(&server.api).await;
    let mut client = TransactionsClient::new(channel.clone());
    let nobody = client.submit(transfer("a")).await.unwrap_err();
    assert_eq!(
        (nobody.code(), said(&nobody, "landfall-code")),
        (Code::Unauthenticated, "unauthorized".into())
    );
    let viewer = client.submit(with(&text(&made, "key"), transfer("a"))).await.unwrap_err();
    assert_eq!(viewer.code(), Code::PermissionDenied);
    let mut trades = TradesClient::new(channel.clone());
    let viewer = trades.submit(with(&text(&made, "key"), transfer("a"))).await.unwrap_err();
    assert_eq!(viewer.code(), Code::PermissionDenied);
    let nobody = client.watch(WatchRequest::default()).await.unwrap_err();
    assert_eq!(nobody.code(), Code::Unauthenticated);
    assert!(admin.list("").await.is_empty(), "nothing was stored");
    client.submit(with(ADMIN_KEY, transfer("a"))).await.unwrap();

    // Health and what there is are open.
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
    let serving = tonic_health::pb::health_check_response::ServingStatus::Serving;
    let check = |service: &str| tonic_health::pb::HealthCheckRequest { service: service.to_owned() };
    for service in ["", "landfall.v1.Transactions"] {
        assert_eq!(health.check(check(service)).await.unwrap().into_inner().status(), serving);
    }
    assert_eq!(health.check(check("nothing")).await.unwrap_err().code(), Code::NotFound);
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let ask = tonic_reflection::pb::v1::ServerReflectionRequest {
        message_request: Some(MessageRequest::ListServices(String::new())),
        ..Default::default()
    };
    let mut reflection = ServerReflectionClient::new(channel.clone());
    let mut answers =
        reflection.server_reflection_info(futures::stream::iter([ask])).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response;
    let Some(MessageResponse::ListServicesResponse(list)) = answer else { panic!("{answer:?}") };
    let names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    for name in
        ["landfall.v1.Transactions", "landfall.v1.Trades", "landfall.v1.Lanes", "grpc.health.v1.Health"]
    {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    // Tools that ask by the older name get the same.
    use tonic_reflection::pb::v1alpha;
    let ask = v1alpha::ServerReflectionRequest {
        message_request: Some(
            v1alpha::server_reflection_request::MessageRequest::ListServices(String::new()),
        ),
        ..Default::default()
    };
    let mut older = v1alpha::server_reflection_client::ServerReflectionClient::new(channel);
    let mut answers = older.server_reflection_info(futures::stream::iter([ask])).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response;
    let Some(v1alpha::server_reflection_response::MessageResponse::ListServicesResponse(list)) = answer
    else {
        panic!("{answer:?}")
    };
    let same: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    // Each names itself.
    let others = |names: Vec<String>| -> Vec<String> {
        names.into_iter().filter(|name| !name.starts_with("grpc.reflection.")).collect()
    };
    assert_eq!(others(same), others(names));
}

#[tokio::test]
async fn a_key_that_is_revoked_stores_nothing_more_on_a_stream_that_is_open() {
    let chain = Chain::without_mining().await;
    let mut settings = Settings::default();
    settings.env.push(("LANDFALL_ADMIN_KEY", ADMIN_KEY.to_owned()));
    let server = Server::start(&chain.url(), settings).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let made = admin.post("/api/v1/api-keys", &json!({ "name": "s", "role": "submitter" })).await.expect(201);
    let (feed, requests) = futures::channel::mpsc::unbounded();
    let mut request = Request::new(requests);
    let bearer = format!("Bearer {}", text(&made, "key"));
    request.metadata_mut().insert("authorization", bearer.parse().unwrap());
    let mut client = TransactionsClient::new(channel(&server.api).await);
    feed.unbounded_send(transfer("before")).unwrap();
    let mut answers = client.submit_stream(request).await.unwrap().into_inner();
    assert!(matches!(answers.message().await.unwrap().unwrap().result, Some(Outcome::Submitted(_))));
    let path = format!("/api/v1/api-keys/{}", text(&made, "id"));
    admin.send(admin.request(reqwest::Method::DELETE, &path)).await.expect(200);
    feed.unbounded_send(transfer("after")).unwrap();
    assert_eq!(answers.message().await.unwrap_err().code(), Code::Unauthenticated);
    let all = admin.list("").await;
    assert!(all.len() == 1 && text(&all[0], "requestId") == "before", "{all:?}");
    // Whose key it was is on record.
    until("the refusal is on record", async || {
        let page = admin.get("/api/v1/audit?limit=500").await.expect(200);
        let rows = page["items"].as_array().unwrap();
        rows.iter().any(|row| row["status"] == 401 && row["keyId"] == made["id"]).then_some(())
    })
    .await;
}
