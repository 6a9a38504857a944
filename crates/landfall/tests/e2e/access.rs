//! Who may call: every path and every role, signers, rates, the audit log, TLS and trusted pages.

use std::process::Command;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Api, CHAIN_ID, Chain, Server, Settings, account, free_port, program, run, signer, text, transfer,
    transfer_as, until,
};

const ROLES: [&str; 5] = ["viewer", "approver", "submitter", "operator", "admin"];

/// Whether a path that needs one role is open to the other.
fn covers(role: &str, least: &str) -> bool {
    match role {
        "viewer" => least == "viewer",
        "approver" | "submitter" => least == "viewer" || least == role,
        "operator" => least != "admin",
        _ => true,
    }
}

/// Its answer does not end by itself.
const EVENTS: &str = "/api/v1/events";
const ADMIN_KEY: &str = "an-administrators-key-that-is-long-enough";

fn guarded() -> Settings {
    let mut settings = Settings { signers: 2, ..Settings::default() };
    settings.env.push(("LANDFALL_ADMIN_KEY", ADMIN_KEY.to_owned()));
    settings
}

/// Makes a key, and gives its id and its text.
async fn make(admin: &Api, body: &Value) -> (String, String) {
    let made = admin.post("/api/v1/api-keys", body).await.expect(201);
    (text(&made, "id"), text(&made, "key"))
}

async fn key_of(admin: &Api, role: &str) -> Api {
    admin.with_key(&make(admin, &json!({ "name": format!("a {role}"), "role": role })).await.1)
}

/// Every path with the least role that may use it; none: everybody may.
fn paths(tx: &str, key: &str, webhook: &str) -> Vec<(Method, String, Option<&'static str>)> {
    let lane = format!("/api/v1/lanes/{CHAIN_ID}/{}", signer(0));
    let mut all = vec![
        (Method::GET, "/health/live".to_owned(), None),
        (Method::GET, "/health/ready".to_owned(), None),
        (Method::GET, "/metrics".to_owned(), Some("viewer")),
        (Method::GET, "/openapi.json".to_owned(), None),
        (Method::GET, "/docs".to_owned(), None),
        (Method::POST, "/api/v1/tx".to_owned(), Some("submitter")),
        (Method::GET, "/api/v1/tx".to_owned(), Some("viewer")),
        (Method::POST, "/api/v1/tx/batch".to_owned(), Some("submitter")),
        (Method::GET, format!("/api/v1/tx/by-request?signer={}&requestId=known", signer(0)), Some("viewer")),
        (Method::GET, format!("/api/v1/tx/{tx}"), Some("viewer")),
        (Method::GET, format!("/api/v1/tx/{tx}/journal"), Some("viewer")),
        (Method::GET, format!("/api/v1/tx/{tx}/confirmations"), Some("viewer")),
        (Method::GET, "/api/v1/lanes".to_owned(), Some("viewer")),
        (Method::GET, lane.clone(), Some("viewer")),
        (Method::POST, "/api/v1/api-keys".to_owned(), Some("admin")),
        (Method::GET, "/api/v1/api-keys".to_owned(), Some("admin")),
        (Method::DELETE, format!("/api/v1/api-keys/{key}"), Some("admin")),
        (Method::GET, "/api/v1/audit".to_owned(), Some("admin")),
        (Method::GET, "/api/v1/audit/export".to_owned(), Some("admin")),
        (Method::GET, "/api/v1/store".to_owned(), Some("viewer")),
        (Method::POST, format!("{lane}/break-lease"), Some("admin")),
        (Method::POST, "/api/v1/store/accept".to_owned(), Some("admin")),
        (Method::GET, EVENTS.to_owned(), Some("viewer")),
        (Method::GET, format!("/rpc/{CHAIN_ID}"), Some("viewer")),
        (Method::POST, format!("/rpc/{CHAIN_ID}"), Some("viewer")),
    ];
    for verb in ["cancel", "replace", "speed-up", "retry"] {
        all.push((Method::POST, format!("/api/v1/tx/{tx}/{verb}"), Some("submitter")));
    }
    for verb in ["approve", "reject"] {
        all.push((Method::POST, format!("/api/v1/tx/{tx}/{verb}"), Some("approver")));
    }
    all.push((Method::POST, format!("/api/v1/tx/{tx}/settle"), Some("operator")));
    for verb in ["pause", "resume", "disable", "reset", "cancel-all", "fill"] {
        all.push((Method::POST, format!("{lane}/{verb}"), Some("operator")));
    }
    let webhook = format!("/api/v1/webhooks/{webhook}");
    for (method, path, least) in [
        (Method::GET, "/api/v1/webhooks".to_owned(), "viewer"),
        (Method::POST, "/api/v1/webhooks".to_owned(), "admin"),
        (Method::GET, webhook.clone(), "viewer"),
        (Method::PATCH, webhook.clone(), "admin"),
        (Method::POST, format!("{webhook}/rotate"), "admin"),
        (Method::POST, format!("{webhook}/enable"), "operator"),
        (Method::POST, format!("{webhook}/disable"), "operator"),
        (Method::POST, format!("{webhook}/replay"), "operator"),
        (Method::POST, format!("{webhook}/test"), "operator"),
        (Method::GET, format!("{webhook}/deliveries"), "viewer"),
        (Method::POST, format!("{webhook}/deliveries/1/redeliver"), "operator"),
        (Method::DELETE, webhook.clone(), "admin"),
    ] {
        all.push((method, path, Some(least)));
    }
    all
}

/// Says that a path is one of those that a template stands for.
fn fits(template: &str, path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    let (mut template, mut path) = (template.split('/'), path.split('/'));
    loop {
        match (template.next(), path.next()) {
            (None, None) => return true,
            (Some(one), Some(other)) if one == other || (one.starts_with('{') && !other.is_empty()) => {}
            _ => return false,
        }
    }
}

/// All that an administrator can see of what callers can change.
async fn everything(admin: &Api) -> String {
    let mut all = String::new();
    for path in ["/api/v1/tx?limit=500", "/api/v1/lanes", "/api/v1/api-keys"] {
        all.push_str(&admin.get(path).await.expect(200).to_string());
    }
    let log = admin.get("/api/v1/audit?limit=500").await.expect(200);
    // That somebody was sent away is on record, and nothing else may be.
    let done = log["items"].as_array().unwrap().iter().filter(|entry| entry["what"] != "refused");
    done.for_each(|entry| all.push_str(&entry.to_string()));
    all
}

#[tokio::test]
async fn every_path_is_open_to_its_roles_and_to_nobody_else() {
    let chain = Chain::without_mining().await;
    // What waits for its block is left alone meanwhile, or its lane would change by itself.
    let settings = Settings { resubmit_after_s: 600, ..guarded() };
    let server = Server::start(&chain.url(), settings).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let tx = admin.submit(&transfer_as("known")).await;
    admin.until_state(&tx, "broadcast").await;
    // Not reachable by what is configured, so nothing leaves the machine.
    let webhook = admin.post("/api/v1/webhooks", &json!({ "url": "https://localhost:1/" })).await.expect(201);
    let webhook_id = text(&webhook, "id");
    let mut roles = Vec::new();
    for role in ROLES {
        roles.push((role, key_of(&admin, role).await));
    }
    let (revoked_id, revoked) = make(&admin, &json!({ "name": "old", "role": "admin" })).await;
    admin.send(admin.request(Method::DELETE, &format!("/api/v1/api-keys/{revoked_id}"))).await.expect(200);
    let wrong = format!("{}0", &revoked[..revoked.len() - 1]);
    let strangers = [
        ("nobody", server.api.clone()),
        ("a revoked key", server.api.with_key(&revoked)),
        ("a wrong secret", server.api.with_key(&wrong)),
        ("no key at all", server.api.with_key("lf_")),
        ("another word", server.api.with_key("administrator")),
    ];

    // No call that the server has is missing here, and the document says the same of each.
    let document = server.api.get("/openapi.json").await.expect(200);
    let table = paths(&tx, &revoked_id, &webhook_id);
    for (template, methods) in document["paths"].as_object().unwrap() {
        for (method, call) in methods.as_object().unwrap() {
            let listed = table
                .iter()
                .find(|(of, path, _)| of.as_str().eq_ignore_ascii_case(method) && fits(template, path));
            let (_, _, least) = listed.unwrap_or_else(|| panic!("{method} {template} is in no role's test"));
            assert_eq!(text(call, "x-landfall-role"), least.unwrap_or("nobody"), "{method} {template}");
        }
    }

    // Those who may not: nothing changes, and nothing is said but that.
    let before = everything(&admin).await;
    for (method, path, least) in paths(&tx, &revoked_id, &webhook_id) {
        let Some(least) = least else { continue };
        for (who, api) in &strangers {
            let answer = api.send(api.request(method.clone(), &path)).await;
            assert!(
                !answer.body.to_string().contains(&signer(0)[2..]),
                "{who} {method} {path}: {}",
                answer.body
            );
            answer.expect_problem(401, "unauthorized");
        }
        for (_, api) in roles.iter().filter(|(role, _)| !covers(role, least)) {
            let request = api.request(method.clone(), &path).json(&transfer());
            let answer = api.send(request).await;
            assert!(!answer.body.to_string().contains(&signer(0)[2..]), "{method} {path}: {}", answer.body);
            answer.expect_problem(403, "forbidden");
        }
    }
    assert_eq!(everything(&admin).await, before);
    let untouched = admin.get(&format!("/api/v1/webhooks/{webhook_id}")).await.expect(200);
    for field in ["url", "events", "enabled", "secretGeneration"] {
        assert_eq!(untouched[field], webhook[field], "{field}");
    }

    // Those who may get past the door, whatever the handler says to an empty body.
    for (method, path, least) in paths(&tx, &revoked_id, &webhook_id) {
        // One answer does not end by itself, and the other is a WebSocket.
        if path == EVENTS || (method == Method::GET && path.starts_with("/rpc/")) {
            continue;
        }
        for (role, api) in roles.iter().filter(|(role, _)| least.is_none_or(|least| covers(role, least))) {
            let answer = api.send(api.request(method.clone(), &path)).await;
            assert!(![401, 403, 404, 405].contains(&answer.status), "{role} {method} {path}: {answer:?}");
        }
    }
    // What is not there is not there for anybody, and a method that no path takes is closed.
    server.api.get("/api/v1/nothing").await.expect_problem(404, "not_found");
    let patch = admin.send(admin.request(Method::PATCH, "/api/v1/tx")).await;
    patch.expect_problem(405, "method_not_allowed");
}

/// The router answers at every path below a service, and by every method. What has no row in the table gets no further than the door.
#[tokio::test]
async fn a_path_that_nobody_thought_of_is_closed_to_everybody() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded()).await;
    let admin = server.api.with_key(ADMIN_KEY);
    for api in [&server.api, &admin] {
        for (method, path) in [
            (Method::GET, "/landfall.v1.Lanes/List"),
            (Method::PUT, "/landfall.v1.Transactions/Submit"),
            (Method::POST, "/landfall.v1.Transactions/Nothing"),
            (Method::POST, "/landfall.v1.Transactions/Submit/more"),
            (Method::POST, "/grpc.health.v1.Health/Nothing"),
        ] {
            let answer = api.send(api.request(method.clone(), path)).await;
            assert_eq!(
                (answer.status, text(&answer.body, "code")),
                (405, "method_not_allowed".to_owned()),
                "{method} {path}"
            );
        }
    }
    // To a gRPC caller in its own words.
    let called = server.api.request(Method::POST, "/landfall.v1.Transactions/Nothing");
    let answer = called.header("content-type", "application/grpc").send().await.unwrap();
    assert_eq!(answer.headers()["grpc-status"], "12", "{answer:?}");
    assert_eq!(answer.headers()["landfall-code"], "method_not_allowed", "{answer:?}");
}

#[tokio::test]
async fn who_shows_no_key_learns_whether_it_is_ready_and_no_more() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded()).await;
    assert_eq!(server.api.get("/health/ready").await.expect(200), json!({ "status": "ready" }));
    let admin = server.api.with_key(ADMIN_KEY);
    assert!(admin.get("/health/ready").await.expect(200)["chains"].is_array());
}

#[tokio::test]
async fn a_key_for_some_signers_neither_uses_nor_sees_the_others() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded()).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let of_first = admin.submit(&transfer_as("of-first")).await;
    let body = json!({ "name": "second only", "role": "submitter", "signers": [signer(1)] });
    let limited = admin.with_key(&make(&admin, &body).await.1);

    limited.post("/api/v1/tx", &transfer()).await.expect_problem(403, "forbidden");
    let mut own = transfer_as("of-second");
    own["signer"] = json!(signer(1));
    let batch = limited.post("/api/v1/tx/batch", &json!([transfer(), own])).await.expect(200);
    assert_eq!(
        (&batch["items"][0]["status"], &batch["items"][0]["code"]),
        (&json!(403), &json!("forbidden"))
    );
    assert_eq!(batch["items"][1]["status"], 202);
    let mut follower = own.clone();
    follower["requestId"] = json!("follower");
    follower["options"] = json!({ "after": { "txId": of_first } });
    limited.post("/api/v1/tx", &follower).await.expect_problem(422, "unknown_predecessor");

    let mut events = limited.request(Method::GET, "/api/v1/events?after=0").send().await.unwrap();
    let (mut heard, own_id) = (String::new(), text(&batch["items"][1], "txId"));
    while !heard.contains(&own_id) {
        let chunk = events.chunk().await.unwrap().expect("the stream goes on");
        heard.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert!(!heard.contains(&of_first), "what came before is another signer's: {heard}");
    drop(events);

    let unknown = of_first.replace(|c: char| c.is_ascii_digit(), "0");
    for path in ["", "/journal", "/confirmations"] {
        let hidden =
            limited.get(&format!("/api/v1/tx/{of_first}{path}")).await.expect_problem(404, "not_found");
        let absent =
            limited.get(&format!("/api/v1/tx/{unknown}{path}")).await.expect_problem(404, "not_found");
        assert_eq!(hidden.replace(&of_first, ""), absent.replace(&unknown, ""), "the two look alike");
    }
    for verb in ["cancel", "speed-up", "retry"] {
        limited.command(&format!("/api/v1/tx/{of_first}/{verb}")).await.expect_problem(404, "not_found");
    }
    let by_request = format!("/api/v1/tx/by-request?signer={}&requestId=of-first", signer(0));
    limited.get(&by_request).await.expect_problem(404, "not_found");
    let lane = format!("/api/v1/lanes/{CHAIN_ID}/{}", signer(0));
    limited.get(&lane).await.expect_problem(404, "not_found");
    limited.get("/metrics").await.expect_problem(403, "forbidden");
    assert_eq!(limited.get("/health/ready").await.expect(200), json!({ "status": "ready" }));
    let seen = limited.list("").await;
    assert!(seen.len() == 1 && seen.iter().all(|tx| text(tx, "signer") == signer(1)), "{seen:?}");
    assert!(limited.list(&format!("&signer={}", signer(0))).await.is_empty());
    // Not even a cursor tells of what others do.
    for filter in [format!("signer={}", signer(0)), "state=broadcast&limit=1&chainId=31337".to_owned()] {
        let page =
            limited.get(&format!("/api/v1/tx?limit=1&{}", filter.replace("&limit=1", ""))).await.expect(200);
        let own = page["items"].as_array().unwrap().iter().all(|tx| text(tx, "signer") == signer(1));
        assert!(
            own && (!page["items"].as_array().unwrap().is_empty() || page["nextCursor"].is_null()),
            "{page}"
        );
    }
    let lanes = limited.get("/api/v1/lanes").await.expect(200);
    assert_eq!(lanes["items"].as_array().unwrap().len(), 1, "{lanes}");
    assert_eq!(admin.list("").await.len(), 2, "nothing else was taken in");
}

#[tokio::test]
async fn a_key_that_asks_too_often_is_told_when_to_ask_again() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded()).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let slow = json!({ "name": "slow", "role": "submitter", "ratePerS": 1 });
    let slow = admin.with_key(&make(&admin, &slow).await.1);
    let mut refused = None;
    for _ in 0..10 {
        let response = slow.request(Method::GET, "/api/v1/lanes").send().await.unwrap();
        if response.status() == 429 {
            refused = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
            break;
        }
    }
    assert_eq!(refused.as_deref(), Some("1"));
    // Others are not concerned.
    admin.get("/api/v1/lanes").await.expect(200);

    // A batch counts as many as it has, and is taken whole or not at all.
    let ten = json!({ "name": "ten", "role": "submitter", "ratePerS": 10 });
    let ten = admin.with_key(&make(&admin, &ten).await.1);
    let batch: Vec<Value> = (0..15).map(|n| transfer_as(&format!("batch-{n}"))).collect();
    ten.post("/api/v1/tx/batch", &json!(batch)).await.expect(200);
    let more: Vec<Value> = (0..15).map(|n| transfer_as(&format!("more-{n}"))).collect();
    ten.post("/api/v1/tx/batch", &json!(more)).await.expect_problem(429, "rate_limited");
    assert_eq!(admin.list("").await.len(), 15);
}

#[tokio::test]
async fn what_operators_do_is_on_record() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded()).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let (id, key) = make(&admin, &json!({ "name": "night shift", "role": "operator" })).await;
    let operator = admin.with_key(&key);
    let lane = format!("/api/v1/lanes/{CHAIN_ID}/{}", signer(0));
    operator.command(&format!("{lane}/pause")).await.expect(202);
    operator
        .post(&format!("{lane}/fill"), &json!({ "from": 5, "to": 4 }))
        .await
        .expect_problem(400, "bad_value");
    operator.get(&lane).await.expect(200);
    // An administrator's, who learns that a file has no leases.
    let dead = json!({ "session": "00000000-0000-7000-8000-000000000000" });
    operator.post(&format!("{lane}/break-lease"), &dead).await.expect_problem(403, "forbidden");

    let refused = until("the refusal is on record", async || {
        let log = admin.get("/api/v1/audit?limit=1").await.expect(200);
        (log["items"][0]["what"] == "refused").then(|| log["items"][0].clone())
    })
    .await;
    assert_eq!((&refused["status"], text(&refused, "keyId")), (&json!(403), id.clone()), "{refused}");
    let log = admin.get("/api/v1/audit").await.expect(200);
    let entries = log["items"].as_array().unwrap();
    let what: Vec<String> = entries.iter().map(|entry| text(entry, "what")).collect();
    assert_eq!(
        what,
        ["refused", "asked", "asked", "asked", "began"],
        "newest first: the refusal, fill, pause, the key itself; looking is not on record: {log}"
    );
    let (fill, pause, made) = (&entries[1], &entries[2], &entries[3]);
    assert_eq!((&fill["status"], &fill["body"]), (&json!(400), &json!({ "from": 5, "to": 4 })));
    assert_eq!((text(pause, "path"), &pause["status"]), (format!("{lane}/pause"), &json!(202)));
    assert_eq!((text(pause, "keyId"), text(pause, "keyName")), (id, "night shift".to_owned()));
    assert_eq!((text(made, "keyId"), text(made, "path")), ("environment".into(), "/api/v1/api-keys".into()));
    let page = admin.get("/api/v1/audit?limit=2").await.expect(200);
    let next =
        admin.get(&format!("/api/v1/audit?limit=1&cursor={}", text(&page, "nextCursor"))).await.expect(200);
    assert_eq!((&page["items"][1], &next["items"][0]), (fill, pause));
    let said = admin.post(&format!("{lane}/break-lease"), &dead).await.expect_problem(409, "no_leases");
    assert!(said.contains("SQLite"), "{said}");
    let newest = &admin.get("/api/v1/audit?limit=1").await.expect(200)["items"][0];
    assert_eq!((&newest["body"], &newest["status"]), (&dead, &json!(409)), "{newest}");
}

#[tokio::test]
async fn no_secret_is_in_answers_logs_metrics_or_the_store() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let settings = Settings { log: "debug", ..guarded() };
    let mut server = Server::start(&chain.url(), settings).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let (id, key) = make(&admin, &json!({ "name": "shop", "role": "submitter" })).await;
    let shop = admin.with_key(&key);
    let tx = shop.submit(&transfer()).await;
    shop.until_state(&tx, "confirmed").await;
    shop.get("/api/v1/audit").await.expect_problem(403, "forbidden");
    let mut shown = everything(&admin).await;
    for path in ["/metrics", "/health/ready"] {
        shown.push_str(&admin.get(path).await.expect(200).to_string());
    }
    server.terminate();
    server.ended().await;
    shown.push_str(&server.log());
    let mut bytes = shown.into_bytes();
    for file in ["landfall.db", "landfall.db-wal"] {
        bytes.extend(std::fs::read(server.folder().join(file)).unwrap_or_default());
    }
    let found = |secret: &str| bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
    assert!(found(&id), "the id of the key is where secrets are looked for");
    let private = account(0).key.to_string();
    let secret = key.rsplit('_').next().unwrap();
    for secret in [secret, ADMIN_KEY, &private, private.trim_start_matches("0x")] {
        assert!(!found(secret), "{secret}");
    }
}

#[tokio::test]
async fn a_server_that_others_reach_does_not_start_without_a_key() {
    let chain = Chain::without_mining().await;
    let server = Server::prepare(&chain.url(), &Settings::default());
    let file = server.folder().join("landfall.toml");
    let beyond =
        std::fs::read_to_string(&file).unwrap().replace("listen = \"127.0.0.1:", "listen = \"0.0.0.0:");
    std::fs::write(&file, beyond).unwrap();
    let output = server.run_to_end().await;
    assert!(!output.ok() && output.said.contains("landfall api-key create"), "{output:?}");

    // With a key that was made as the message says, it does, and asks for it.
    let mut create = program(server.folder());
    create.args(["api-key", "create", "--name", "me", "--role", "admin", "--config", "landfall.toml"]);
    let made = run(create).await;
    assert!(made.ok(), "{made:?}");
    let mut server = server;
    server.spawn();
    server.until_ready().await;
    server.api.get("/api/v1/lanes").await.expect_problem(401, "unauthorized");
    server.api.with_key(made.stdout.trim()).get("/api/v1/lanes").await.expect(200);
}

#[tokio::test]
async fn on_its_own_machine_it_is_open_until_the_first_key_is_made() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    api.get("/api/v1/lanes").await.expect(200);
    let listed = async |key: Option<&str>| {
        let mut list = program(server.folder());
        list.args(["api-key", "list", "--url", api.url()]).env("LANDFALL_API_KEY", key.unwrap_or_default());
        run(list).await
    };
    assert!(listed(None).await.ok());
    let mut create = program(server.folder());
    create.args(["api-key", "create", "--name", "me", "--role", "admin", "--url", api.url(), "--json"]);
    let made: Value = serde_json::from_str(&run(create).await.stdout).unwrap();
    let (id, key) = (text(&made, "id"), text(&made, "key"));
    api.get("/api/v1/lanes").await.expect_problem(401, "unauthorized");
    let refused = listed(None).await;
    assert!(!refused.ok() && refused.said.contains("LANDFALL_API_KEY"), "{refused:?}");
    let list = listed(Some(&key)).await;
    assert!(list.ok() && list.stdout.contains(&id) && !list.stdout.contains(&key), "{list:?}");

    // The last key that is revoked does not open it again.
    let mut revoke = program(server.folder());
    revoke.args(["api-key", "revoke", &id, "--url", api.url()]).env("LANDFALL_API_KEY", &key);
    assert!(run(revoke).await.ok());
    api.with_key(&key).get("/api/v1/lanes").await.expect_problem(401, "unauthorized");
    api.get("/api/v1/lanes").await.expect_problem(401, "unauthorized");
}

#[tokio::test]
async fn a_key_that_has_expired_opens_nothing() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded()).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let past = json!({ "name": "late", "role": "viewer", "expiresAt": "2020-01-01T00:00:00Z" });
    admin.post("/api/v1/api-keys", &past).await.expect_problem(400, "bad_value");
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(2);
    let soon = json!({ "name": "soon", "role": "viewer", "expiresAt": end.to_string() });
    let soon = admin.with_key(&make(&admin, &soon).await.1);
    soon.get("/api/v1/lanes").await.expect(200);
    until("the key has expired", async || (soon.get("/api/v1/lanes").await.status == 401).then_some(()))
        .await;
}

#[tokio::test]
async fn tls_is_served_where_a_certificate_is_named() {
    let chain = Chain::without_mining().await;
    let settings = Settings {
        server: "tls_certificate = \"server.crt\"\ntls_key = \"server.key\"",
        ..Settings::default()
    };
    let mut server = Server::prepare(&chain.url(), &settings);
    let failed = server.run_to_end().await;
    assert!(!failed.ok() && failed.said.contains("server.crt cannot be read"), "{failed:?}");
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "server.key", "-out", "server.crt"])
        .current_dir(server.folder())
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{made:?}");
    server.spawn();
    let pem = std::fs::read(server.folder().join("server.crt")).unwrap();
    let trusting = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([reqwest::Certificate::from_pem(&pem).unwrap()])
        .timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    let url = server.api.url().replace("http://", "https://");
    let ready = until("TLS is answered", async || {
        trusting.get(format!("{url}/health/ready")).send().await.ok().filter(|answer| answer.status() == 200)
    });
    assert_eq!(ready.await.version(), reqwest::Version::HTTP_11);
    // Without TLS there is nothing to hear.
    assert!(server.api.try_send(server.api.request(Method::GET, "/health/live")).await.is_none());
}

#[tokio::test]
async fn only_pages_of_origins_that_are_named_may_call() {
    let chain = Chain::without_mining().await;
    let settings = Settings { server: "cors_origins = [\"https://app.example.com\"]", ..guarded() };
    let server = Server::start(&chain.url(), settings).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let ask = async |origin: &str, method: Method| {
        let request = admin.request(method, "/api/v1/tx").header("origin", origin);
        request.header("access-control-request-method", "POST").json(&transfer()).send().await.unwrap()
    };
    let allowed = |answer: &reqwest::Response| answer.headers().contains_key("access-control-allow-origin");
    let trusted = ask("https://app.example.com", Method::OPTIONS).await;
    assert_eq!((trusted.status().as_u16(), allowed(&trusted)), (204, true));
    let trusted = ask("https://app.example.com", Method::POST).await;
    assert_eq!((trusted.status().as_u16(), allowed(&trusted)), (202, true));
    for other in ["https://evil.example.com", "https://app.example.com.evil.com", "null"] {
        let answer = ask(other, Method::OPTIONS).await;
        assert!(!allowed(&answer), "{other}");
        let answer = ask(other, Method::POST).await;
        assert_eq!((answer.status().as_u16(), allowed(&answer)), (403, false), "{other}");
    }
    let wild = Settings { server: "cors_origins = [\"*\"]", ..Settings::default() };
    let failed = Server::prepare(&chain.url(), &wild).run_to_end().await;
    assert!(!failed.ok() && failed.said.contains("cors_origins"), "{failed:?}");
    // The port is not held by one that did not start.
    assert_ne!(free_port(), 0);
}

#[tokio::test]
async fn a_key_that_is_revoked_hears_no_further_event() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded()).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let (id, key) = make(&admin, &json!({ "name": "ear", "role": "viewer" })).await;
    let listener = admin.with_key(&key);
    let mut events = listener.request(Method::GET, "/api/v1/events?after=0").send().await.unwrap();
    admin.submit(&transfer_as("heard")).await;
    let heard = events.chunk().await.unwrap().expect("an event");
    assert!(String::from_utf8_lossy(&heard).contains("tx.accepted"));
    admin.send(admin.request(Method::DELETE, &format!("/api/v1/api-keys/{id}"))).await.expect(200);
    admin.submit(&transfer_as("not-heard")).await;
    let mut rest = String::new();
    let ended = async {
        while let Ok(Some(chunk)) = events.chunk().await {
            rest.push_str(&String::from_utf8_lossy(&chunk));
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("the stream ends");
    let told = admin
        .list("")
        .await
        .iter()
        .find(|tx| text(tx, "requestId") == "not-heard")
        .map(|tx| text(tx, "txId"));
    assert!(!rest.contains(&told.unwrap()), "{rest}");
}
