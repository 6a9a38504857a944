//! Who did it: the key and the address behind everything that was asked for, by whichever door; and a record of it in which nothing
//! can be changed unseen.

mod tampered;

use std::collections::BTreeSet;
use std::path::Path;

use futures::SinkExt as _;
use futures::future::join_all;
use landfall_server::grpc::proto::get_request::By;
use landfall_server::grpc::proto::transactions_client::TransactionsClient;
use landfall_server::grpc::proto::{CancelRequest, GetRequest, Payload, SubmitRequest, WatchRequest};
use reqwest::Method;
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio_tungstenite::tungstenite::Message;
use tonic::transport::Endpoint;
use tonic::{Code, Request};

use crate::support::{
    Api, CHAIN_ID, Chain, Database, Nodes, Output, RECEIVER, Server, Settings, program, run, signer, text,
    transfer, transfer_as, until,
};

const ADMIN_KEY: &str = "an-administrators-key-that-is-long-enough";

fn guarded() -> Settings {
    let mut settings = Settings { signers: 2, ..Settings::default() };
    settings.env.push(("LANDFALL_ADMIN_KEY", ADMIN_KEY.to_owned()));
    settings
}

async fn make(admin: &Api, name: &str, role: &str) -> (String, Api) {
    let made = admin.post("/api/v1/api-keys", &json!({ "name": name, "role": role })).await.expect(201);
    (text(&made, "id"), admin.with_key(&text(&made, "key")))
}

async fn log(admin: &Api) -> Vec<Value> {
    let page = admin.get("/api/v1/audit?limit=500").await.expect(200);
    page["items"].as_array().unwrap().clone()
}

/// Waits for an entry.
async fn entry(admin: &Api, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    until(format!("{what} is on record"), async || log(admin).await.into_iter().find(|entry| fits(entry)))
        .await
}

/// Runs `landfall audit …` in a server's folder.
async fn audit(folder: &Path, args: &[&str]) -> Output {
    let mut command = program(folder);
    command.arg("audit").args(args).env("LANDFALL_API_KEY", ADMIN_KEY);
    run(command).await
}

async fn rpc(api: &Api, method: &str, params: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    api.post(&format!("/rpc/{CHAIN_ID}"), &body).await.expect(200)
}

fn transfer_by_grpc(request_id: &str) -> SubmitRequest {
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

fn with_key<T>(message: T, api_key: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("x-api-key", api_key.parse().unwrap());
    request
}

#[tokio::test]
async fn every_door_says_who_asked_and_every_refusal_who_was_sent_away() {
    let chain = Chain::with_blocks_every(std::time::Duration::from_millis(200)).await;
    let server = Server::start(&chain.url(), guarded()).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let made =
        admin.post("/api/v1/api-keys", &json!({ "name": "shop", "role": "submitter" })).await.expect(201);
    let (id, key) = (text(&made, "id"), text(&made, "key"));
    let shop = admin.with_key(&key);
    let (viewer_id, viewer) = make(&admin, "screen", "viewer").await;

    // REST, one and many.
    let one = shop.submit(&transfer_as("one")).await;
    let many = shop.post("/api/v1/tx/batch", &json!([transfer(), transfer()])).await.expect(200);
    let many: Vec<String> = many["items"].as_array().unwrap().iter().map(|item| text(item, "txId")).collect();
    // JSON-RPC, one and together.
    let from = signer(0);
    let sent = rpc(
        &shop,
        "eth_sendTransaction",
        json!([{ "from": from, "to": RECEIVER, "value": "0x1", "gas": "0x5208" }]),
    )
    .await;
    let by_rpc = rpc(&shop, "landfall_getTransaction", json!([sent["result"]])).await;
    let by_rpc = text(&by_rpc["result"], "txId");
    let together = json!([{ "version": "2.0.0", "from": from, "chainId": format!("{CHAIN_ID:#x}"), "atomicRequired": false,
        "calls": [{ "to": RECEIVER, "value": "0x1" }] }]);
    let called = rpc(&shop, "wallet_sendCalls", together).await;
    assert!(called["result"]["id"].is_string(), "{called}");
    // gRPC.
    let endpoint = Endpoint::from_shared(server.api.url().to_owned()).unwrap();
    let mut grpc = TransactionsClient::new(endpoint.connect().await.unwrap());
    let by_grpc = grpc.submit(with_key(transfer_by_grpc("by-grpc"), &key)).await.unwrap().into_inner().tx_id;

    let mut all = vec![one.clone(), by_rpc, by_grpc];
    all.extend(many);
    for tx in &all {
        let shown = admin.tx(tx).await;
        let by = json!({ "keyId": id, "name": "shop", "address": "127.0.0.1" });
        assert_eq!(shown["submittedBy"], by, "{shown}");
        let journal = admin.journal(tx).await;
        assert_eq!(journal[0]["by"], by, "{journal:?}");
        assert!(
            journal[1..].iter().all(|row| row.get("by").is_none()),
            "the engine did the rest: {journal:?}"
        );
    }
    let items = admin.list("").await;
    assert!(items.iter().all(|tx| tx["submittedBy"]["keyId"] == json!(id)), "{items:?}");
    assert_eq!(items.len(), all.len() + 1, "and the call that was handed over with others");
    let ids: BTreeSet<String> = items.iter().map(|tx| text(tx, "txId")).collect();
    let named = until("all are on record", async || {
        let wrote: Vec<Value> =
            log(&admin).await.into_iter().filter(|entry| entry["what"] == "wrote").collect();
        let of = |entry: &Value| entry["txIds"].as_array().cloned().unwrap_or_default();
        let named: BTreeSet<String> =
            wrote.iter().flat_map(of).filter_map(|id| Some(id.as_str()?.to_owned())).collect();
        (named == ids).then_some(wrote)
    })
    .await;
    for entry in &named {
        assert_eq!(
            (text(entry, "keyId"), text(entry, "keyName")),
            (id.clone(), "shop".to_owned()),
            "{entry}"
        );
        assert_eq!(
            (text(entry, "address"), text(entry, "role")),
            ("127.0.0.1".into(), "submitter".into()),
            "{entry}"
        );
    }
    let methods: BTreeSet<String> = named.iter().map(|entry| text(entry, "method")).collect();
    let doors = ["POST", "eth_sendTransaction", "gRPC", "wallet_sendCalls"].map(str::to_owned);
    assert_eq!(methods, BTreeSet::from(doors));

    // A change to what exists, and who steers.
    admin.command(&format!("/api/v1/lanes/{CHAIN_ID}/{}/pause", signer(1))).await.expect(202);
    let mut other = transfer();
    other["signer"] = json!(signer(1));
    let waits = shop.submit(&other).await;
    shop.command(&format!("/api/v1/tx/{waits}/cancel")).await.expect(202);
    admin.until_state(&waits, "cancelled").await;
    let journal = admin.journal(&waits).await;
    let end = journal.last().unwrap();
    assert_eq!((&end["type"], &end["by"]["keyId"]), (&json!("cancelled"), &json!(id)), "{journal:?}");
    let cancel = format!("/api/v1/tx/{waits}/cancel");
    entry(&admin, "the cancel", |entry| text(entry, "path") == cancel && entry["status"] == 202).await;
    let pause = entry(&admin, "the pause", |entry| text(entry, "path").ends_with("/pause")).await;
    assert_eq!((&pause["status"], text(&pause, "keyId")), (&json!(202), "environment".to_owned()), "{pause}");

    // Those who may not.
    viewer.post("/api/v1/tx", &transfer()).await.expect_problem(403, "forbidden");
    let seen = entry(&admin, "403", |entry| entry["status"] == 403 && text(entry, "method") == "POST").await;
    assert_eq!(
        (text(&seen, "keyId"), text(&seen, "path")),
        (viewer_id.clone(), "/api/v1/tx".to_owned()),
        "{seen}"
    );
    assert_eq!(
        (text(&seen, "address"), text(&seen, "error")),
        ("127.0.0.1".to_owned(), "forbidden".to_owned())
    );
    server.api.post("/api/v1/tx", &transfer()).await.expect_problem(401, "unauthorized");
    let seen = entry(&admin, "401", |entry| entry["status"] == 401).await;
    assert_eq!((&seen["keyId"], text(&seen, "address")), (&Value::Null, "127.0.0.1".to_owned()), "{seen}");
    let refused =
        rpc(&viewer, "eth_sendTransaction", json!([{ "from": from, "to": RECEIVER, "value": "0x1" }])).await;
    assert_eq!(refused["error"]["data"]["code"], "forbidden", "{refused}");
    let seen = entry(&admin, "403 by JSON-RPC", |entry| {
        entry["status"] == 403 && text(entry, "method") == "eth_sendTransaction"
    })
    .await;
    assert_eq!(text(&seen, "keyId"), viewer_id);
    let screen = text(
        &admin.post("/api/v1/api-keys", &json!({ "name": "second", "role": "viewer" })).await.expect(201),
        "key",
    );
    let asked = CancelRequest { tx_id: one, idempotency_key: None };
    let refused = grpc.cancel(with_key(asked, &screen)).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    entry(&admin, "403 by gRPC", |entry| entry["status"] == 403 && text(entry, "method") == "gRPC").await;
    // A page of another origin, and a name that is not this server's.
    for (name, value, error) in
        [("origin", "https://page.example", "cross_origin"), ("host", "page.example", "wrong_host")]
    {
        let asked = admin.request(reqwest::Method::POST, "/api/v1/tx").header(name, value);
        assert_eq!(asked.json(&transfer()).send().await.unwrap().status(), 403);
        let seen = entry(&admin, error, |entry| entry["error"] == error).await;
        assert_eq!(
            (&seen["keyId"], text(&seen, "address")),
            (&Value::Null, "127.0.0.1".to_owned()),
            "{seen}"
        );
    }

    let checked = audit(server.folder(), &["verify", "--url", server.api.url()]).await;
    assert!(checked.ok() && checked.said.contains("none changed"), "{}", checked.said);
    let shown = log(&admin).await.iter().map(Value::to_string).collect::<String>();
    assert!(!shown.contains(&key) && !shown.contains(ADMIN_KEY), "no secret is on record");
}

/// All that is told of a transaction to one key, by every door.
async fn told(server: &Server, key: &str, tx: &str) -> Vec<(&'static str, String)> {
    let api = server.api.with_key(key);
    let mut all = Vec::new();
    for (what, path) in [
        ("one", format!("/api/v1/tx/{tx}")),
        ("its requestId", format!("/api/v1/tx/by-request?signer={}&requestId=once", signer(0))),
        ("a list", "/api/v1/tx".to_owned()),
        ("its journal", format!("/api/v1/tx/{tx}/journal")),
    ] {
        all.push((what, api.get(&path).await.expect(200).to_string()));
    }
    for method in ["landfall_getTransaction", "landfall_getJournal"] {
        all.push((method, rpc(&api, method, json!([tx])).await.to_string()));
    }
    let mut events = api.request(Method::GET, "/api/v1/events?after=0").send().await.unwrap();
    let mut heard = String::new();
    while !heard.contains(tx) {
        heard.push_str(&String::from_utf8_lossy(&events.chunk().await.unwrap().expect("the stream goes on")));
    }
    all.push(("an event", heard));
    let endpoint = Endpoint::from_shared(server.api.url().to_owned()).unwrap();
    let mut grpc = TransactionsClient::new(endpoint.connect().await.unwrap());
    let get = GetRequest { by: Some(By::TxId(tx.to_owned())) };
    let shown = grpc.get(with_key(get, key)).await.unwrap().into_inner();
    let watch = WatchRequest { after: Some(0), ..WatchRequest::default() };
    let mut events = grpc.watch(with_key(watch, key)).await.unwrap().into_inner();
    let event = events.message().await.unwrap().expect("an event");
    for (what, by, json) in
        [("gRPC", shown.submitted_by, shown.json), ("an event of gRPC", event.by, event.json)]
    {
        let by = by.expect("it says who");
        assert_eq!(by.name, "shop");
        assert_eq!(by.address.is_some(), json.contains("127.0.0.1"), "{what}: {by:?} {json}");
        all.push((what, json));
    }
    all
}

#[tokio::test]
async fn those_who_run_the_server_see_from_where_it_was_asked_and_others_only_who_did() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded()).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let key = async |name: &str, role: &str| {
        let body = json!({ "name": name, "role": role });
        text(&admin.post("/api/v1/api-keys", &body).await.expect(201), "key")
    };
    let tx = admin.with_key(&key("shop", "submitter").await).submit(&transfer_as("once")).await;
    for role in ["viewer", "approver", "submitter", "operator", "admin"] {
        for (what, said) in told(&server, &key("eyes", role).await, &tx).await {
            assert!(said.contains("shop"), "{role}, {what}: {said}");
            let sees = ["operator", "admin"].contains(&role);
            assert_eq!(said.contains("127.0.0.1"), sees, "{role}, {what}: {said}");
        }
    }
}

/// Sends a request and hangs up without waiting for its answer, after as many other requests were answered.
async fn hang_up(api: &Api, path: &str, key: &str, body: &Value, after: usize) {
    let address = api.url().trim_start_matches("http://");
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nauthorization: Bearer {key}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    socket.set_nodelay(true).unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    for _ in 0..after {
        api.get("/health/live").await.expect(200);
    }
}

/// A connection that is closed ends the work on its request, and must not end it between the deed and the word about it.
#[tokio::test]
async fn whoever_hangs_up_is_on_record_with_everything_that_was_done_all_the_same() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded()).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let made =
        admin.post("/api/v1/api-keys", &json!({ "name": "shop", "role": "submitter" })).await.expect(201);
    let key = text(&made, "key");
    let pause = format!("/api/v1/lanes/{CHAIN_ID}/{}/pause", signer(0));
    admin.command(&pause).await.expect(202);
    for n in 0..80 {
        hang_up(&admin, "/api/v1/tx", &key, &transfer_as(&format!("gone-{n}")), n % 4).await;
    }
    let stored = until("most are stored", async || {
        let all = admin.list("").await;
        (all.len() >= 20).then_some(all)
    })
    .await;
    for (n, tx) in stored.iter().enumerate() {
        hang_up(&admin, &format!("/api/v1/tx/{}/cancel", text(tx, "txId")), &key, &json!({}), 1 + n % 3)
            .await;
        hang_up(&admin, &pause, ADMIN_KEY, &json!({}), 1 + n % 3).await;
    }
    until("all that was done is on record", async || {
        let (all, log) = (admin.list("").await, log(&admin).await);
        let named =
            |tx: &Value| log.iter().any(|row| row["txIds"].as_array().is_some_and(|ids| ids.contains(tx)));
        let cancelled = all.iter().filter(|tx| tx["state"] == "cancelled");
        let paths: BTreeSet<String> = log.iter().map(|row| text(row, "path")).collect();
        let is_told = all.iter().all(|tx| named(&tx["txId"]))
            && cancelled.clone().count() >= 10
            && cancelled.clone().all(|tx| paths.contains(&format!("/api/v1/tx/{}/cancel", text(tx, "txId"))));
        let paused: Vec<&Value> = log.iter().filter(|row| text(row, "path") == pause).collect();
        (is_told && paused.len() > 10 && paused.iter().all(|row| row["status"] == 202)).then_some(())
    })
    .await;
}

/// Fills a log in a file, and stops the server in good order.
async fn stopped() -> (Chain, Server) {
    stopped_on(&guarded().store_url).await
}

/// The same in whichever store.
async fn stopped_on(store: &str) -> (Chain, Server) {
    let chain = Chain::without_mining().await;
    let settings = Settings { store_url: store.to_owned(), ..guarded() };
    let mut server = Server::start(&chain.url(), settings).await;
    let admin = server.api.with_key(ADMIN_KEY);
    for n in 0..4 {
        make(&admin, &format!("key {n}"), "viewer").await;
    }
    admin.submit(&transfer()).await;
    server.terminate();
    assert_eq!(server.ended().await.code(), Some(0));
    (chain, server)
}

const OFFLINE: [&str; 2] = ["--config", "landfall.toml"];

async fn verify(server: &Server, more: &[&str]) -> Output {
    audit(server.folder(), &[&["verify"], &OFFLINE[..], more].concat()).await
}

fn count(server: &Server) -> u64 {
    let db = Connection::open(server.folder().join("landfall.db")).unwrap();
    let last: i64 = db.query_row("SELECT max(seq) FROM audit", [], |row| row.get(0)).unwrap();
    u64::try_from(last).unwrap()
}

#[tokio::test]
async fn an_export_is_checked_without_a_store_and_the_command_line_is_on_record_too() {
    let (_chain, server) = stopped().await;
    let mut make = program(server.folder());
    make.args(["api-key", "create", "--name", "me", "--role", "admin", "--config", "landfall.toml"]);
    let made = run(make).await;
    assert!(made.ok(), "{}", made.said);
    let mut older = program(server.folder());
    older.args(["store", "older", "--config", "landfall.toml", "--yes"]);
    assert!(run(older).await.ok());
    let listed = audit(server.folder(), &["list", "--config", "landfall.toml", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let own: Vec<&Value> =
        listed["items"].as_array().unwrap().iter().filter(|entry| entry["what"] == "command_line").collect();
    let paths: Vec<String> = own.iter().map(|entry| text(entry, "path")).collect();
    assert_eq!(paths, ["store older", "api-key create"], "{listed}");
    assert_eq!(own[1]["body"], json!({ "name": "me", "role": "admin" }));
    assert!(text(own[1], "keyName").contains('@'), "{listed}");

    let exported =
        audit(server.folder(), &["export", "--out", "audit.jsonl", "--config", "landfall.toml"]).await;
    assert!(exported.ok(), "{}", exported.said);
    let file = server.folder().join("audit.jsonl");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "it has names and addresses");
    let again =
        audit(server.folder(), &["export", "--out", "audit.jsonl", "--config", "landfall.toml"]).await;
    assert!(!again.ok() && again.said.contains("name another file"), "{}", again.said);
    let whole = std::fs::read_to_string(&file).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let check = async |text: &str| {
        std::fs::write(elsewhere.path().join("it.jsonl"), text).unwrap();
        audit(elsewhere.path(), &["verify", "--file", "it.jsonl"]).await
    };
    let checked = check(&whole).await;
    assert!(checked.ok(), "{}", checked.said);
    let lines: Vec<&str> = whole.lines().collect();
    let without = |n: usize| {
        lines
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != n)
            .map(|(_, line)| format!("{line}\n"))
            .collect::<String>()
    };
    for n in 1..lines.len() {
        let found = check(&without(n)).await;
        assert_eq!(found.code, Some(7), "line {n}: {}", found.said);
    }
    let mut swapped = lines.clone();
    swapped.swap(2, 3);
    assert_eq!(check(&swapped.join("\n")).await.code, Some(7));
    let changed = whole.replacen("key 0", "key 9", 1);
    assert_ne!(changed, whole);
    assert_eq!(check(&changed).await.code, Some(7));
}

#[tokio::test]
async fn writes_of_a_key_that_asks_too_often_are_on_record_at_every_door() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded()).await;
    let admin = server.api.with_key(ADMIN_KEY);
    for door in ["rest", "rpc", "socket"] {
        let body = json!({ "name": door, "role": "submitter", "ratePerS": 1 });
        let made = admin.post("/api/v1/api-keys", &body).await.expect(201);
        let api = admin.with_key(&text(&made, "key"));
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_sendTransaction", "params": [{}] });
        let method = match door {
            "rest" => {
                for _ in 0..6 {
                    api.request(reqwest::Method::POST, "/api/v1/tx").json(&json!({})).send().await.unwrap();
                }
                "POST"
            }
            "rpc" => {
                for _ in 0..6 {
                    api.request(reqwest::Method::POST, "/rpc/31337").json(&call).send().await.unwrap();
                }
                // Nothing of the body was read.
                "POST"
            }
            _ => {
                let mut socket = super::subscriptions::subscribed(&api, 0, &Value::Null).await;
                for _ in 0..6 {
                    socket.send(Message::text(call.to_string())).await.unwrap();
                    super::subscriptions::next(&mut socket).await.unwrap();
                }
                "eth_sendTransaction"
            }
        };
        let seen = entry(&admin, door, |entry| entry["status"] == 429 && entry["keyId"] == made["id"]).await;
        assert_eq!(
            (text(&seen, "method"), &seen["error"]),
            (method.to_owned(), &json!("rate_limited")),
            "{seen}"
        );
    }
}

#[tokio::test]
async fn a_write_on_an_open_socket_of_a_revoked_key_is_refused_in_words_and_on_record() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded()).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let (id, shop) = make(&admin, "shop", "submitter").await;
    let mut socket = super::subscriptions::subscribed(&shop, 0, &Value::Null).await;
    admin.send(admin.request(Method::DELETE, &format!("/api/v1/api-keys/{id}"))).await.expect(200);
    let transfer = json!({ "from": signer(0), "to": RECEIVER, "value": "0x1" });
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "eth_sendTransaction", "params": [transfer] });
    socket.send(Message::text(call.to_string())).await.unwrap();
    let answer = super::subscriptions::next(&mut socket).await.unwrap();
    assert_eq!((&answer["id"], &answer["error"]["data"]["code"]), (&json!(7), &json!("unauthorized")));
    let (code, reason) = super::subscriptions::next(&mut socket).await.expect_err("the socket is closed");
    assert!(code == 1008 && reason.contains("revoked"), "{code} {reason}");
    let row = entry(&admin, "the refusal", |entry| entry["status"] == 401 && entry["keyId"] == id).await;
    let told = ["keyName", "method", "path", "error"].map(|field| text(&row, field));
    let path = format!("/rpc/{CHAIN_ID}");
    assert_eq!(told, ["shop", "eth_sendTransaction", &path, "unauthorized"], "{row}");
    assert!(admin.list("").await.is_empty());
}

#[tokio::test]
async fn a_flood_of_refusals_is_a_few_rows_and_a_number() {
    let chain = Chain::without_mining().await;
    let mut server = Server::start(&chain.url(), guarded()).await;
    let stranger = server.api.clone();
    for _ in 0..40 {
        let asked = (0..25).map(|_| stranger.command("/api/v1/tx"));
        join_all(asked).await.into_iter().for_each(|answer| {
            answer.expect_problem(401, "unauthorized");
        });
    }
    server.terminate();
    assert_eq!(server.ended().await.code(), Some(0));
    let listed =
        audit(server.folder(), &["list", "--config", "landfall.toml", "--limit", "500", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let refused: Vec<&Value> =
        listed["items"].as_array().unwrap().iter().filter(|entry| entry["what"] == "refused").collect();
    // A minute may have ended meanwhile.
    assert!(refused.len() <= 3 * 6, "{} rows", refused.len());
    let told: u64 = refused.iter().map(|entry| entry["count"].as_u64().unwrap_or(1)).sum();
    assert_eq!(told, 1_000, "and all of them are counted: {refused:?}");
    assert!(verify(&server, &[]).await.ok());
}

#[tokio::test]
async fn a_server_that_is_killed_leaves_a_chain_that_says_so() {
    let chain = Chain::without_mining().await;
    let mut server = Server::start(&chain.url(), guarded()).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let tx = admin.submit(&transfer()).await;
    server.restart_after_kill().await;
    let shown = admin.tx(&tx).await;
    assert_eq!(shown["submittedBy"]["keyId"], "environment", "whatever the log lost: {shown}");
    let checked = audit(server.folder(), &["verify", "--url", server.api.url()]).await;
    assert!(checked.ok(), "{}", checked.said);
    assert!(checked.said.contains("without a goodbye"), "{}", checked.said);
}

#[tokio::test]
async fn old_rows_go_and_the_rest_can_still_be_proven() {
    let (chain, mut server) = stopped().await;
    let before = count(&server);
    // A clock is believed as far as the newest block goes: into the year 2100.
    chain.call("evm_setNextBlockTimestamp", json!([4_102_444_801_u64])).await;
    chain.mine(1).await;
    server.set("LANDFALL_ACCESS__KEEP_AUDIT_DAYS", "0.000001");
    server.spawn();
    server.until_ready().await;
    let admin = server.api.with_key(ADMIN_KEY);
    entry(&admin, "that rows went", |entry| entry["what"] == "trimmed").await;
    // So short a time has an end: nothing goes while it is checked.
    server.terminate();
    assert_eq!(server.ended().await.code(), Some(0));
    server.set("LANDFALL_ACCESS__KEEP_AUDIT_DAYS", "365");
    server.spawn();
    server.until_ready().await;
    let rows = admin.get("/api/v1/audit/export").await.expect(200);
    assert!(rows["anchor"]["seq"].as_u64().unwrap() >= before - 1, "{rows}");
    let checked = audit(server.folder(), &["verify", "--url", server.api.url()]).await;
    assert!(checked.ok() && checked.said.contains("because of their age"), "{}", checked.said);
    let request = admin.request(Method::GET, "/api/v1/audit?limit=500");
    let listed = admin.send(request).await.expect(200);
    assert!(listed["nextCursor"].is_null(), "{listed}");
}

#[tokio::test]
async fn two_nodes_on_one_database_write_one_chain() {
    let database = Database::any();
    let nodes = Nodes::start(2, &database.url, 2, (10.0, 3.0, 1.0)).await;
    let lane = |n: usize| format!("/api/v1/lanes/{CHAIN_ID}/{}", signer(n));
    let steered = (0..10).map(async |n: usize| {
        let api = nodes.api(n % 2);
        for verb in ["pause", "resume"] {
            api.command(&format!("{}/{verb}", lane(n % 2))).await.expect(202);
        }
        api.submit(&transfer()).await
    });
    let stored: BTreeSet<String> = join_all(steered).await.into_iter().collect();
    let named = async |by: usize| {
        let ids = log(nodes.api(by)).await.into_iter().filter_map(|entry| entry["txIds"].as_array().cloned());
        ids.flatten().filter_map(|id| Some(id.as_str()?.to_owned())).collect::<BTreeSet<String>>()
    };
    until("all are on record, whichever node is asked", async || {
        (named(0).await == stored && named(1).await == stored).then_some(())
    })
    .await;
    let all = log(nodes.api(1)).await;
    let by: BTreeSet<String> = all.iter().map(|entry| text(entry, "node")).collect();
    assert_eq!(by, BTreeSet::from(["a", "b"].map(str::to_owned)));
    let asked = all.iter().filter(|entry| entry["what"] == "asked");
    assert!(asked.clone().count() == 20 && asked.clone().all(|entry| entry["status"] == 202), "{all:?}");
    // There is no key here.
    let mut command = program(nodes.nodes[0].server.folder());
    command.args(["audit", "verify", "--url", nodes.api(0).url()]);
    let checked = run(command).await;
    assert!(checked.ok(), "{}", checked.said);
}
