//! What a small key cannot do: delegate an account to a stranger, follow another's transaction, take the places of all others, fill
//! the store with wishes; and no server without a key that nobody meant to be open.

use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::subscriptions::Socket;
use crate::support::{
    Api, CHAIN_ID, Chain, RECEIVER, Server, Settings, program, run, secret_file, signer, submission, text,
    transfer, transfer_as, until,
};

const ADMIN_KEY: &str = "an-administrators-key-that-is-long-enough";
const OPEN: &str = "LANDFALL_ACCESS__OPEN";

fn guarded(settings: Settings) -> Settings {
    let mut settings = settings;
    settings.env.push(("LANDFALL_ADMIN_KEY", ADMIN_KEY.to_owned()));
    settings
}

async fn key(admin: &Api, body: Value) -> Api {
    let made = admin.post("/api/v1/api-keys", &body).await.expect(201);
    admin.with_key(&text(&made, "key"))
}

fn rpc(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

#[tokio::test]
async fn no_submitter_delegates_an_account_past_the_list_at_any_door() {
    let chain = Chain::without_mining().await;
    // Only taking a delegation back is listed, and above nothing at all a person is asked.
    let settings = guarded(Settings {
        signer: "delegate_to = [\"0x0000000000000000000000000000000000000000\"]",
        chain: "approve_above_wei = \"1000\"",
        ..Settings::default()
    });
    let server = Server::start(&chain.url(), settings).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let submitter = key(&admin, json!({ "name": "s", "role": "submitter" })).await;
    let list = json!([{ "address": RECEIVER }]);
    let delegating = submission(json!({ "to": RECEIVER, "gas": 100_000, "authorizationList": list }));
    let said = submitter.post("/api/v1/tx", &delegating).await.expect_problem(403, "delegation_not_allowed");
    assert!(said.contains("delegate_to"), "{said}");
    let batch = submitter.post("/api/v1/tx/batch", &json!([delegating])).await.expect(200);
    assert_eq!(batch["items"][0]["code"], "delegation_not_allowed");
    let everywhere = json!([{ "address": RECEIVER, "chainId": 0 }]);
    let everywhere = submission(json!({ "to": RECEIVER, "gas": 100_000, "authorizationList": everywhere }));
    submitter.post("/api/v1/tx", &everywhere).await.expect_problem(400, "bad_value");
    let call = json!([{ "from": signer(0), "to": RECEIVER, "authorizationList": list }]);
    let answer =
        submitter.post(&format!("/rpc/{CHAIN_ID}"), &rpc("eth_sendTransaction", call)).await.expect(200);
    assert!(answer.get("error").is_some(), "{answer}");

    // What is listed is signed once a person has said yes, whatever its value.
    let back = json!([{ "address": "0x0000000000000000000000000000000000000000" }]);
    let back = submission(json!({ "to": RECEIVER, "gas": 100_000, "authorizationList": back }));
    let id = submitter.submit(&back).await;
    admin.until_state(&id, "awaiting_approval").await;
    let replaced = json!({ "payload": { "to": RECEIVER, "gas": 100_000, "authorizationList": list } });
    let replace = format!("/api/v1/tx/{id}/replace");
    submitter.post(&replace, &replaced).await.expect_problem(403, "delegation_not_allowed");
    let approver = key(&admin, json!({ "name": "a", "role": "approver" })).await;
    // Whoever decides is told what for, and asked.
    let why = text(&admin.tx(&id).await, "stuckReason");
    assert!(why.contains("takes the delegation of"), "{why}");
    let decide = async |command: &str| {
        let mut asked = program(server.folder());
        asked.args(["tx", command, &id, "--url", server.api.url()]).env("LANDFALL_API_KEY", ADMIN_KEY);
        run(asked).await
    };
    let shown = decide("get").await;
    assert!(shown.stdout.contains("takes the delegation of"), "{shown:?}");
    let asked = decide("approve").await;
    assert!(!asked.ok() && asked.said.contains("takes the delegation of"), "{asked:?}");
    assert!(asked.said.contains("--yes"), "{asked:?}");
    submitter.command(&format!("/api/v1/tx/{id}/approve")).await.expect_problem(403, "forbidden");
    approver.command(&format!("/api/v1/tx/{id}/approve")).await.expect(202);
    admin.until_state(&id, "broadcast").await;
    assert_eq!(admin.list("").await.len(), 1, "nothing else was taken in");
}

/// Every pool shows what was signed once: it is as good as a new one to whoever hands it in again.
#[tokio::test]
async fn no_authorization_of_a_signer_here_that_was_out_once_is_taken_in_again() {
    let chain = Chain::without_mining().await;
    let settings = guarded(Settings { signers: 2, ..Settings::default() });
    let listed = Settings {
        signer: "delegate_to = [\"0xa0Ee7A142d267C1f36714E4a8F75612F20a79720\"]",
        ..settings.clone()
    };
    let mut server = Server::start(&chain.url(), listed).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let list = json!([{ "address": RECEIVER }]);
    let delegating = submission(json!({ "to": RECEIVER, "gas": 100_000, "authorizationList": list }));
    let id = admin.submit(&delegating).await;
    let out = admin.until_state(&id, "broadcast").await;
    let pooled = chain.call("eth_getTransactionByHash", json!([text(&out, "hash")])).await;
    let mut shown = pooled["authorizationList"][0].clone();
    for field in ["chainId", "nonce", "yParity"] {
        let hex = text(&shown, field);
        shown[field] = json!(u64::from_str_radix(hex.trim_start_matches("0x"), 16).unwrap());
    }

    // It is not listed any more.
    server.restart_with(2, &chain.url(), &settings).await;
    let submitter = key(&admin, json!({ "name": "s", "role": "submitter" })).await;
    for (sender, code) in [(0, "bad_authorization"), (1, "authority_managed")] {
        let mut body = submission(json!({ "to": RECEIVER, "gas": 100_000, "authorizationList": [shown] }));
        body["signer"] = json!(signer(sender));
        submitter.post("/api/v1/tx", &body).await.expect_problem(422, code);
        let batch = submitter.post("/api/v1/tx/batch", &json!([body])).await.expect(200);
        assert_eq!(batch["items"][0]["code"], code, "{batch}");
    }
    assert_eq!(admin.list("").await.len(), 1, "nothing was taken in");
}

#[tokio::test]
async fn a_retry_cannot_follow_what_its_key_does_not_see() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded(Settings { signers: 2, ..Settings::default() })).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let of_first = admin.submit(&transfer_as("of-first")).await;
    let limited = key(&admin, json!({ "name": "l", "role": "submitter", "signers": [signer(1)] })).await;
    admin.command(&format!("/api/v1/lanes/{CHAIN_ID}/{}/pause", signer(1))).await.expect(202);
    let mut own = transfer_as("of-second");
    own["signer"] = json!(signer(1));
    let own = limited.submit(&own).await;
    limited.command(&format!("/api/v1/tx/{own}/cancel")).await.expect(202);
    limited.until_state(&own, "cancelled").await;
    let after = |id: &str| json!({ "options": { "after": { "txId": id } } });
    let path = format!("/api/v1/tx/{own}/retry");
    let hidden = limited.post(&path, &after(&of_first)).await.expect_problem(422, "unknown_predecessor");
    let nothing = "01999999-9999-7999-8999-999999999999";
    let absent = limited.post(&path, &after(nothing)).await.expect_problem(422, "unknown_predecessor");
    assert_eq!(hidden.replace(&of_first, ""), absent.replace(nothing, ""));
}

#[tokio::test]
async fn a_key_for_a_chain_is_for_no_other_and_its_list_shows_it() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded(Settings::default())).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let mut create = program(server.folder());
    create.args(["api-key", "create", "--name", "c", "--role", "submitter", "--chain", "1", "--chain", "10"]);
    create.args(["--url", server.api.url()]).env("LANDFALL_API_KEY", ADMIN_KEY);
    let made = run(create).await;
    assert!(made.ok(), "{made:?}");
    let elsewhere = admin.with_key(made.stdout.trim());
    elsewhere.post("/api/v1/tx", &transfer()).await.expect_problem(403, "forbidden");
    elsewhere
        .post(&format!("/rpc/{CHAIN_ID}"), &rpc("eth_blockNumber", json!([])))
        .await
        .expect_problem(404, "not_found");
    let here = key(&admin, json!({ "name": "h", "role": "submitter", "chains": [CHAIN_ID] })).await;
    here.submit(&transfer()).await;
    let listed = admin.get("/api/v1/api-keys").await.expect(200);
    let chains = |name: &str| {
        let key = listed["items"].as_array().unwrap().iter().find(|key| key["name"] == name).unwrap();
        key["chains"].clone()
    };
    assert_eq!((chains("c"), chains("h")), (json!([1, 10]), json!([CHAIN_ID])));
    for bad in [json!([]), json!(["1"]), json!("1")] {
        let body = json!({ "name": "x", "role": "viewer", "chains": bad });
        assert_eq!(admin.post("/api/v1/api-keys", &body).await.status, 400);
    }
    let operator = json!({ "name": "x", "role": "operator", "chains": [1] });
    admin.post("/api/v1/api-keys", &operator).await.expect_problem(400, "bad_value");
}

/// A WebSocket of this key; or the status and the words with which none was opened.
async fn socket(api: &Api) -> Result<Socket, (u16, String)> {
    let url = format!("{}/rpc/{CHAIN_ID}", api.url().replace("http", "ws"));
    let mut request = url.into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {}", api.key()).parse().unwrap());
    match tokio_tungstenite::connect_async(request).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(answer)) => {
            let body = answer.body().as_deref().unwrap_or_default();
            Err((answer.status().as_u16(), String::from_utf8_lossy(body).into_owned()))
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn one_key_cannot_take_the_places_of_all_who_listen() {
    let chain = Chain::without_mining().await;
    let settings = Settings {
        sections: "[access]\nmax_listeners_per_key = 2\nmax_sockets_per_key = 1\n",
        ..Settings::default()
    };
    let server = Server::start(&chain.url(), guarded(settings)).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let greedy = key(&admin, json!({ "name": "g", "role": "viewer" })).await;
    let other = key(&admin, json!({ "name": "o", "role": "viewer" })).await;
    let listen = async |api: &Api| api.request(Method::GET, "/api/v1/events").send().await.unwrap();
    let held = [listen(&greedy).await, listen(&greedy).await];
    assert!(held.iter().all(|answer| answer.status() == 200));
    let refused = listen(&greedy).await;
    assert_eq!(refused.status(), 429);
    assert!(refused.headers().contains_key("retry-after"));
    assert!(refused.text().await.unwrap().contains("quota_reached"));
    assert_eq!(listen(&other).await.status(), 200, "others have their own");
    // So it is with WebSockets.
    let held_socket = socket(&greedy).await.expect("a key has one");
    let (status, said) = socket(&greedy).await.expect_err("and no second");
    assert!(status == 429 && said.contains("quota_reached"), "{status} {said}");
    assert!(said.contains("access.max_sockets_per_key"), "{said}");
    assert!(socket(&other).await.is_ok(), "others have their own");
    drop(held_socket);
    until("its place is free again", async || socket(&greedy).await.ok()).await;
    drop(held);
    until("the places are free again", async || (listen(&greedy).await.status() == 200).then_some(())).await;
}

#[tokio::test]
async fn without_a_key_nothing_is_served_unless_that_is_meant() {
    let chain = Chain::without_mining().await;
    let mut settings = Settings::default();
    settings.env.push((OPEN, "false".to_owned()));
    let mut server = Server::prepare(&chain.url(), &settings);
    let mut serve = program(server.folder());
    serve.args(["serve", "--config", "./landfall.toml"]).env(OPEN, "false");
    serve.env("KEY_0", crate::support::account(0).key.to_string());
    let refused = run(serve).await;
    assert!(!refused.ok(), "{refused:?}");
    for part in [
        "landfall api-key create",
        "--config ./landfall.toml",
        "access.open = true",
        "loopback addresses only",
    ] {
        assert!(refused.said.contains(part), "{}", refused.said);
    }
    server.set(OPEN, "true");
    server.spawn();
    server.until_ready().await;
    server.api.get("/api/v1/lanes").await.expect(200);
    assert!(server.printed().contains("It is open: there is no API key"), "{}", server.printed());
    server.kill().await;
    // With a key it is not, whatever the setting says.
    server.set("LANDFALL_ADMIN_KEY", ADMIN_KEY);
    server.spawn();
    server.until_ready().await;
    server.api.get("/api/v1/lanes").await.expect_problem(401, "unauthorized");
    assert!(!server.printed().contains("It is open"), "{}", server.printed());
}

#[tokio::test]
async fn the_administrators_key_in_a_file_is_changed_and_taken_back_without_a_restart() {
    let chain = Chain::without_mining().await;
    let settings = Settings { sections: "[access]\nadmin_key_file = \"admin.key\"\n", ..Settings::default() };
    let mut server = Server::prepare(&chain.url(), &settings);
    let file = server.folder().join("admin.key");
    secret_file(&file, &format!("{ADMIN_KEY}\n"));
    server.spawn();
    server.until_ready().await;
    let admin = server.api.with_key(ADMIN_KEY);
    admin.get("/api/v1/audit").await.expect(200);
    let mut events = admin.request(Method::GET, "/api/v1/events?after=0").send().await.unwrap();
    let next = "another-key-of-an-administrator-as-long";
    let written = server.folder().join("admin.new");
    secret_file(&written, next);
    std::fs::rename(&written, &file).unwrap();
    let successor = server.api.with_key(next);
    until("the new key opens", async || (successor.get("/api/v1/lanes").await.status == 200).then_some(()))
        .await;
    admin.get("/api/v1/lanes").await.expect_problem(401, "unauthorized");
    // A stream that the old key opened ends at the next push.
    successor.submit(&transfer()).await;
    let ended = async { while events.chunk().await.is_ok_and(|chunk| chunk.is_some()) {} };
    tokio::time::timeout(std::time::Duration::from_secs(20), ended).await.expect("the stream ends");
    std::fs::remove_file(&file).unwrap();
    until("no key opens", async || (successor.get("/api/v1/lanes").await.status == 401).then_some(())).await;
    server.api.get("/api/v1/lanes").await.expect_problem(401, "unauthorized");
}

#[tokio::test]
async fn no_more_transactions_wait_than_a_lane_may_have_and_a_retry_is_answered_all_the_same() {
    let chain = Chain::without_mining().await;
    let settings = guarded(Settings { max_in_flight: 1, chain: "max_waiting = 20", ..Settings::default() });
    let server = Server::start(&chain.url(), settings).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let submitter = key(&admin, json!({ "name": "s", "role": "submitter" })).await;
    submitter.post("/api/v1/tx", &transfer_as("first")).await.expect(202);
    // One is out, and twenty may wait.
    let mut taken = 0;
    let said = loop {
        let answer = submitter.post("/api/v1/tx", &transfer()).await;
        if answer.status != 202 {
            break answer.expect_problem(429, "too_many_waiting");
        }
        taken += 1;
        assert!(taken <= 21, "as many are taken in as anybody likes");
    };
    assert!(said.contains("max_waiting is 20") && said.contains("Nothing was stored"), "{said}");
    // The first counts as waiting until it is seen to be out.
    assert!(taken >= 19, "{taken} were taken in");
    let batch = submitter.post("/api/v1/tx/batch", &json!([transfer()])).await.expect(200);
    assert_eq!(batch["items"][0]["code"], "too_many_waiting");
    let call = json!([{ "from": signer(0), "to": RECEIVER }]);
    let answer =
        submitter.post(&format!("/rpc/{CHAIN_ID}"), &rpc("eth_sendTransaction", call)).await.expect(200);
    assert!(answer["error"]["message"].as_str().is_some_and(|said| said.contains("max_waiting")), "{answer}");
    submitter.post("/api/v1/tx", &transfer_as("first")).await.expect(200);
    until("there is room again", async || {
        chain.mine(1).await;
        (submitter.post("/api/v1/tx", &transfer()).await.status == 202).then_some(())
    })
    .await;
}
