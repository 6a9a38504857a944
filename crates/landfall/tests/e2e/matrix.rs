//! Every door, for keys that are not for what is asked about: nothing is learnt, nothing changes.
//!
//! What is asked about another's transaction, account or webhook is asked about one that is not there as well: the two answers must
//! be the same. Calls come from the server's own tables (the OpenAPI document, the JSON-RPC methods, the gRPC services), so that a
//! new one fails here until somebody has thought about it.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use landfall_server::grpc::proto;
use landfall_server::grpc::proto::get_request::By;
use landfall_server::grpc::proto::lanes_client::LanesClient;
use landfall_server::grpc::proto::trades_client::TradesClient;
use landfall_server::grpc::proto::transactions_client::TransactionsClient;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::support::{
    Api, CHAIN_ID, Chain, RECEIVER, Server, Settings, signer, text, transfer, transfer_as, until,
};

const ADMIN_KEY: &str = "an-administrators-key-that-is-long-enough";
/// The services as they are written down.
const SERVICES: &str = include_str!("../../../server/proto/landfall/v1/landfall.proto");

/// The target of a request: something of another's, or something that is not there.
#[derive(Clone)]
struct Named {
    tx: String,
    signer: String,
    request: &'static str,
    webhook: String,
    hash: String,
}

impl Named {
    fn nothing() -> Self {
        Self {
            tx: "01999999-9999-7999-8999-999999999999".to_owned(),
            signer: format!("0x{}", "7".repeat(40)),
            request: "not-there",
            webhook: "888888888888".to_owned(),
            hash: format!("0x{}", "9".repeat(64)),
        }
    }

    /// An answer without what the caller itself has said.
    fn masked(&self, text: &str) -> String {
        let mut text = text.to_lowercase();
        for own in [&self.hash, &self.tx, &self.signer, &self.webhook, self.request] {
            text = text.replace(&own.to_lowercase(), "…");
        }
        text
    }

    fn transfer(&self) -> Value {
        let mut body = transfer();
        body["signer"] = json!(self.signer);
        body["requestId"] = json!(self.request);
        body
    }
}

/// A key, and who it is.
struct Holder {
    who: String,
    key: String,
}

/// A world in which somebody has things that nobody else may learn of.
struct Site {
    _chain: Chain,
    server: Server,
    admin: Api,
    other: Named,
    own_tx: String,
    /// Keys that are good for the second account, or for another chain.
    limited: Vec<Holder>,
    /// Keys that open nothing.
    bad: Vec<Holder>,
}

impl Site {
    async fn new() -> Self {
        let chain = Chain::without_mining().await;
        let mut settings = Settings { signers: 2, resubmit_after_s: 600, ..Settings::default() };
        settings.env.push(("LANDFALL_ADMIN_KEY", ADMIN_KEY.to_owned()));
        let server = Server::start(&chain.url(), settings).await;
        let admin = server.api.with_key(ADMIN_KEY);
        let tx = admin.submit(&transfer_as("of-first")).await;
        let mut own = transfer_as("of-second");
        own["signer"] = json!(signer(1));
        let own_tx = admin.submit(&own).await;
        let sent = admin.until_state(&tx, "broadcast").await;
        admin.until_state(&own_tx, "broadcast").await;
        let url = json!({ "url": "https://localhost:1/", "signers": [signer(0)] });
        let webhook = admin.post("/api/v1/webhooks", &url).await.expect(201);
        let other = Named {
            tx,
            signer: signer(0),
            request: "of-first",
            webhook: text(&webhook, "id"),
            hash: text(&sent, "hash"),
        };
        let make = async |body: Value| {
            let made = admin.post("/api/v1/api-keys", &body).await.expect(201);
            (text(&made, "id"), text(&made, "key"))
        };
        let mut limited = Vec::new();
        for role in ["viewer", "approver", "submitter"] {
            for (limit, to) in [("signers", json!([signer(1)])), ("chains", json!([CHAIN_ID + 1]))] {
                let (_, key) = make(json!({ "name": role, "role": role, limit: to })).await;
                limited.push(Holder { who: format!("a {role} limited in its {limit}"), key });
            }
        }
        let (id, revoked) = make(json!({ "name": "old", "role": "admin" })).await;
        admin.send(admin.request(Method::DELETE, &format!("/api/v1/api-keys/{id}"))).await.expect(200);
        let end = (jiff::Timestamp::now() + jiff::SignedDuration::from_secs(1)).to_string();
        let (_, expired) = make(json!({ "name": "late", "role": "admin", "expiresAt": end })).await;
        let late = admin.with_key(&expired);
        until("it has expired", async || (late.get("/api/v1/lanes").await.status == 401).then_some(())).await;
        let wrong = format!("{}0", &revoked[..revoked.len() - 1]);
        let holder = |who: &str, key: String| Holder { who: who.to_owned(), key };
        let bad = vec![
            holder("a revoked key", revoked),
            holder("an expired key", expired),
            holder("a wrong secret", wrong),
            holder("no key", "lf_".to_owned()),
        ];
        Self { _chain: chain, server, admin, other, own_tx, limited, bad }
    }

    fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.limited.iter().chain(&self.bad)
    }

    /// All that callers could have changed.
    async fn state(&self) -> String {
        let mut all = String::new();
        for path in ["/api/v1/tx?limit=500", "/api/v1/lanes", "/api/v1/api-keys", "/api/v1/webhooks"] {
            all.push_str(&self.admin.get(path).await.expect(200).to_string());
        }
        all
    }

    /// An answer tells nothing, and the same as of something that is not there.
    #[track_caller]
    fn judge(&self, who: &str, what: &str, of_other: &str, of_nothing: &str) {
        let (of_other, of_nothing) = (self.other.masked(of_other), Named::nothing().masked(of_nothing));
        assert_eq!(of_other, of_nothing, "{who}, {what}: the two can be told apart");
    }

    /// A list or the like, which names nothing of the caller's own: it has nothing of another's.
    #[track_caller]
    fn free(&self, who: &str, what: &str, said: &str) {
        let said = said.to_lowercase();
        for secret in [&self.other.tx, &self.other.signer, &self.other.hash] {
            assert!(!said.contains(&secret.to_lowercase()), "{who}, {what}: {said}");
        }
    }
}

/// The path of a call about what is named.
fn filled(template: &str, named: &Named) -> String {
    let path = template
        .replace("/webhooks/{id}", &format!("/webhooks/{}", named.webhook))
        .replace("/api-keys/{id}", "/api-keys/0000000000000000")
        .replace("{id}", &named.tx)
        .replace("{seq}", "1")
        .replace("{chain}", &CHAIN_ID.to_string())
        .replace("{chainId}", &CHAIN_ID.to_string())
        .replace("{signer}", &named.signer);
    assert!(!path.contains('{'), "{template} has a part that this test does not know");
    if path.ends_with("/by-request") {
        return format!("{path}?signer={}&requestId={}", named.signer, named.request);
    }
    path
}

/// The body of a call about what is named.
fn body(template: &str, named: &Named) -> Value {
    match template {
        "/api/v1/tx" => named.transfer(),
        "/api/v1/tx/batch" => json!([named.transfer()]),
        path if path.ends_with("/replace") => json!({ "payload": named.transfer()["payload"] }),
        path if path.ends_with("/settle") => json!({ "taken": "ours" }),
        path if path.starts_with("/rpc/") => rpc_call("eth_accounts", json!([])),
        _ => json!({}),
    }
}

fn rpc_call(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

#[tokio::test]
async fn rest_tells_a_key_nothing_of_what_is_not_its_own_and_changes_nothing_for_it() {
    let site = Site::new().await;
    let before = site.state().await;
    let document = site.server.api.get("/openapi.json").await.expect(200);
    for holder in site.holders() {
        let api = site.server.api.with_key(&holder.key);
        for (template, methods) in document["paths"].as_object().unwrap() {
            for (method, call) in methods.as_object().unwrap() {
                let open = text(call, "x-landfall-role") == "nobody";
                // The stream is heard below, and the socket has a test of its own.
                if template.ends_with("/events") || (method == "get" && template.starts_with("/rpc/")) {
                    continue;
                }
                let verb: Method = method.to_uppercase().parse().unwrap();
                let ask = async |named: &Named| {
                    let mut request = api.request(verb.clone(), &filled(template, named));
                    if verb != Method::GET {
                        request = request.json(&body(template, named));
                    }
                    let answer = api.send(request).await;
                    (answer.status, answer.body.to_string())
                };
                let (of_other, of_nothing) = (ask(&site.other).await, ask(&Named::nothing()).await);
                let what = format!("{method} {template}");
                assert_eq!(of_other.0, of_nothing.0, "{}, {what}: {of_other:?} {of_nothing:?}", holder.who);
                if !open {
                    site.judge(&holder.who, &what, &of_other.1, &of_nothing.1);
                }
                if !open && !template.contains('{') && method == "get" && !template.ends_with("/by-request") {
                    site.free(&holder.who, &what, &of_other.1);
                }
                if !open && site.bad.iter().any(|bad| bad.key == holder.key) {
                    assert_eq!(of_other.0, 401, "{}, {what}: {}", holder.who, of_other.1);
                }
            }
        }
    }
    assert_eq!(site.state().await, before);
}

#[tokio::test]
async fn what_is_its_own_a_key_sees_and_does_by_its_role() {
    let site = Site::new().await;
    for holder in site.limited.iter().filter(|holder| holder.who.ends_with("signers")) {
        let api = site.server.api.with_key(&holder.key);
        api.get(&format!("/api/v1/tx/{}", site.own_tx)).await.expect(200);
        let approve = api.command(&format!("/api/v1/tx/{}/approve", site.own_tx)).await;
        let submit = api.command(&format!("/api/v1/tx/{}/speed-up", site.own_tx)).await;
        match holder.who.split_whitespace().nth(1) {
            Some("viewer") => {
                approve.expect_problem(403, "forbidden");
                submit.expect_problem(403, "forbidden");
            }
            Some("approver") => {
                approve.expect_problem(409, "not_asked");
                submit.expect_problem(403, "forbidden");
            }
            Some("submitter") => {
                approve.expect_problem(403, "forbidden");
                submit.expect(202);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn events_tell_a_key_of_its_own_signers_and_chains_only() {
    let site = Site::new().await;
    for holder in site.holders() {
        let api = site.server.api.with_key(&holder.key);
        let mut events = api.request(Method::GET, "/api/v1/events?after=0").send().await.unwrap();
        if site.bad.iter().any(|bad| bad.key == holder.key) {
            assert_eq!(events.status(), 401, "{}", holder.who);
            continue;
        }
        let mut heard = String::new();
        let sees = holder.who.ends_with("signers");
        while sees && !heard.contains(&site.own_tx) {
            let chunk = events.chunk().await.unwrap().expect("the stream goes on");
            heard.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        if !sees {
            // Nothing but what keeps the connection alive, although there are many events from the start on.
            let chunk = tokio::time::timeout(Duration::from_secs(2), events.chunk()).await;
            heard = chunk.map_or(String::new(), |chunk| format!("{chunk:?}"));
            assert!(!heard.contains(&site.own_tx), "{}: {heard}", holder.who);
        }
        site.free(&holder.who, "events", &heard);
    }
}

/// Parameters of a method about the target; none: every node tells it to everybody, or it names nobody.
fn params(method: &str, named: &Named) -> Option<Value> {
    Some(match method {
        "eth_sendTransaction" | "wallet_sendTransaction" => {
            json!([{ "from": named.signer, "to": RECEIVER, "value": "0x1" }])
        }
        "wallet_sendCalls" => json!([{
            "version": "2.0.0", "from": named.signer, "chainId": format!("{CHAIN_ID:#x}"), "atomicRequired": false,
            "calls": [{ "to": RECEIVER, "value": "0x1" }],
        }]),
        "wallet_getCapabilities" => json!([named.signer]),
        "wallet_getCallsStatus" => json!([named.hash]),
        "landfall_getTransaction" | "landfall_getJournal" | "landfall_cancel" | "landfall_speedUp" => {
            json!([named.tx])
        }
        "eth_accounts" | "eth_requestAccounts" => json!([]),
        // Anybody can ask a node the same.
        "eth_sendRawTransaction"
        | "eth_chainId"
        | "net_version"
        | "web3_clientVersion"
        | "eth_blockNumber"
        | "eth_getBlockByNumber"
        | "eth_getTransactionCount"
        | "eth_getTransactionReceipt"
        | "eth_getTransactionByHash"
        | "eth_subscribe"
        | "eth_unsubscribe" => return None,
        other => panic!("{other} is a method that this test does not know"),
    })
}

#[tokio::test]
async fn json_rpc_tells_a_key_nothing_of_what_is_not_its_own_over_http_and_websocket() {
    let site = Site::new().await;
    let before = site.state().await;
    let url = format!("{}/rpc/{CHAIN_ID}", site.server.api.url().replace("http://", "ws://"));
    for holder in site.holders() {
        let api = site.server.api.with_key(&holder.key);
        let mut request = url.as_str().into_client_request().unwrap();
        let bearer = format!("Bearer {}", holder.key).parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        let mut socket = tokio_tungstenite::connect_async(request).await.ok().map(|(socket, _)| socket);
        let may_open = holder.who.ends_with("signers");
        assert_eq!(socket.is_some(), may_open, "{}", holder.who);
        for method in landfall_server::RPC_METHODS {
            let (Some(of_other), Some(of_nothing)) =
                (params(method, &site.other), params(method, &Named::nothing()))
            else {
                continue;
            };
            let over_http = async |params: &Value| {
                let answer = api.post(&format!("/rpc/{CHAIN_ID}"), &rpc_call(method, params.clone())).await;
                format!("{} {}", answer.status, answer.body)
            };
            let (other, nothing) = (over_http(&of_other).await, over_http(&of_nothing).await);
            site.judge(&holder.who, method, &other, &nothing);
            if of_other == json!([]) {
                site.free(&holder.who, method, &other);
            }
            let Some(socket) = &mut socket else { continue };
            let mut said = Vec::new();
            for params in [of_other, of_nothing] {
                socket.send(Message::text(rpc_call(method, params).to_string())).await.unwrap();
                said.push(loop {
                    match socket.next().await.expect("the socket stays open").unwrap() {
                        Message::Text(text) => break text.to_string(),
                        _ => continue,
                    }
                });
            }
            site.judge(&holder.who, method, &said[0], &said[1]);
        }
    }
    assert_eq!(site.state().await, before);
}

/// The methods of all services, as `Service/Method`.
fn services() -> Vec<String> {
    let (mut service, mut all) = (String::new(), Vec::new());
    for line in SERVICES.lines() {
        let mut words = line.split([' ', '(']).filter(|word| !word.is_empty());
        match words.next() {
            Some("service") => service = words.next().unwrap_or_default().to_owned(),
            Some("rpc") => all.push(format!("{service}/{}", words.next().unwrap_or_default())),
            _ => {}
        }
    }
    assert!(all.len() >= 8, "{all:?}");
    all
}

fn submit_request(named: &Named) -> proto::SubmitRequest {
    proto::SubmitRequest {
        chain_id: CHAIN_ID,
        signer: named.signer.clone(),
        request_id: Some(named.request.to_owned()),
        payload: Some(proto::Payload {
            to: Some(RECEIVER.to_owned()),
            value: Some("1".to_owned()),
            gas: Some(21_000),
            ..proto::Payload::default()
        }),
        options: None,
    }
}

fn said<T: std::fmt::Debug>(answer: Result<tonic::Response<T>, Status>) -> String {
    match answer {
        Ok(answer) => format!("{:?}", answer.into_inner()),
        Err(status) => format!("{:?} {}", status.code(), status.message()),
    }
}

/// The answer of a method about the target.
async fn grpc(channel: &Channel, method: &str, key: &str, named: &Named) -> String {
    fn with<T>(key: &str, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
        request
    }
    let mut transactions = TransactionsClient::new(channel.clone());
    let mut lanes = LanesClient::new(channel.clone());
    match method {
        "Transactions/Submit" => said(transactions.submit(with(key, submit_request(named))).await),
        "Transactions/SubmitStream" => {
            let stream = futures::stream::iter([submit_request(named)]);
            match transactions.submit_stream(with(key, stream)).await {
                Ok(answers) => format!("{:?}", answers.into_inner().collect::<Vec<_>>().await),
                Err(status) => format!("{:?} {}", status.code(), status.message()),
            }
        }
        "Transactions/Get" => {
            let by_id = proto::GetRequest { by: Some(By::TxId(named.tx.clone())) };
            let request =
                proto::ByRequest { signer: named.signer.clone(), request_id: named.request.to_owned() };
            let by_request = proto::GetRequest { by: Some(By::Request(request)) };
            let by_id = said(transactions.get(with(key, by_id)).await);
            format!("{by_id} {}", said(transactions.get(with(key, by_request)).await))
        }
        "Transactions/Watch" => {
            let watch = proto::WatchRequest {
                after: Some(0),
                signer: Some(named.signer.clone()),
                ..proto::WatchRequest::default()
            };
            match transactions.watch(with(key, watch)).await {
                Ok(events) => {
                    let mut events = events.into_inner();
                    let first = tokio::time::timeout(Duration::from_millis(500), events.next()).await;
                    format!("{:?}", first.ok())
                }
                Err(status) => format!("{:?} {}", status.code(), status.message()),
            }
        }
        "Transactions/Cancel" => {
            let cancel = proto::CancelRequest { tx_id: named.tx.clone(), idempotency_key: None };
            said(transactions.cancel(with(key, cancel)).await)
        }
        "Trades/Submit" => {
            said(TradesClient::new(channel.clone()).submit(with(key, submit_request(named))).await)
        }
        "Lanes/List" => said(lanes.list(with(key, proto::ListLanesRequest::default())).await),
        "Lanes/Get" => {
            let lane = proto::GetLaneRequest { chain_id: CHAIN_ID, signer: named.signer.clone() };
            said(lanes.get(with(key, lane)).await)
        }
        other => panic!("{other} is a method that this test does not know"),
    }
}

#[tokio::test]
async fn grpc_tells_a_key_nothing_of_what_is_not_its_own() {
    let site = Site::new().await;
    let before = site.state().await;
    let endpoint = Endpoint::from_shared(site.server.api.url().to_owned()).unwrap();
    let channel = endpoint.connect().await.expect("gRPC is answered");
    for holder in site.holders() {
        for method in services() {
            let of_other = grpc(&channel, &method, &holder.key, &site.other).await;
            let of_nothing = grpc(&channel, &method, &holder.key, &Named::nothing()).await;
            site.judge(&holder.who, &method, &of_other, &of_nothing);
            if method == "Lanes/List" {
                site.free(&holder.who, &method, &of_other);
            }
            if site.bad.iter().any(|bad| bad.key == holder.key) {
                assert!(of_other.contains("Unauthenticated"), "{}, {method}: {of_other}", holder.who);
            }
        }
    }
    assert_eq!(site.state().await, before);
}
