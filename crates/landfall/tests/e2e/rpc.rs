//! The JSON-RPC door: what an unchanged client sees of it.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::support::{Api, CHAIN_ID, Chain, RECEIVER, Server, Settings, signer, text, until};

/// A caller of the door.
pub(super) struct Rpc<'a>(pub(super) &'a Api);

pub(super) fn path() -> String {
    format!("/rpc/{CHAIN_ID}")
}

impl Rpc<'_> {
    pub(super) async fn ask(&self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let answer = self.0.post(&path(), &body).await.expect(200);
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)), "{answer}");
        answer
    }

    #[track_caller]
    fn result(answer: Value) -> Value {
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    pub(super) async fn get(&self, method: &str, params: Value) -> Value {
        Self::result(self.ask(method, params).await)
    }

    /// The error's code, Landfall's own code, and the message.
    pub(super) async fn fail(&self, method: &str, params: Value) -> (i64, String, String) {
        let answer = self.ask(method, params).await;
        let error = answer.get("error").unwrap_or_else(|| panic!("{method} should fail: {answer}"));
        (error["code"].as_i64().unwrap(), text(&error["data"], "code"), text(error, "message"))
    }

    /// The error as it was told.
    pub(super) async fn error(&self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        answer.get("error").unwrap_or_else(|| panic!("{method} should fail: {answer}")).clone()
    }

    async fn pay(&self, value: u64) -> String {
        let sent = self.get("eth_sendTransaction", json!([payment(value)])).await;
        sent.as_str().unwrap().to_owned()
    }

    pub(super) async fn until_receipt(&self, hash: &str) -> Value {
        until(format!("{hash} has a receipt"), async || {
            let receipt = self.get("eth_getTransactionReceipt", json!([hash])).await;
            (!receipt.is_null()).then_some(receipt)
        })
        .await
    }

    async fn count(&self, at: &str) -> u64 {
        number(&self.get("eth_getTransactionCount", json!([signer(0), at])).await)
    }
}

fn payment(value: u64) -> Value {
    json!({ "from": signer(0), "to": RECEIVER, "value": format!("{value:#x}") })
}

pub(super) fn number(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

#[tokio::test]
async fn the_hash_of_a_send_leads_to_whatever_attempt_won() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings { resubmit_after_s: 60, ..Settings::default() }).await;
    let rpc = Rpc(&server.api);
    let before = rpc.count("latest").await;
    let first = rpc.pay(5).await;
    let shown = rpc.get("eth_getTransactionByHash", json!([first])).await;
    assert_eq!((text(&shown, "hash"), text(&shown, "value")), (first.clone(), "0x5".to_owned()));
    assert_eq!(text(&shown, "from").to_lowercase(), signer(0).to_lowercase());
    assert!(shown["blockNumber"].is_null() && shown.get("blockHash").is_some(), "{shown}");
    assert_eq!(rpc.get("eth_getTransactionReceipt", json!([first])).await, Value::Null);
    assert_eq!((rpc.count("latest").await, rpc.count("pending").await), (before, before + 1));
    let hurried = rpc.get("landfall_speedUp", json!([first])).await;
    let id = text(&hurried, "txId");
    let tx = server
        .api
        .until_tx(&id, "a second attempt", |tx| tx["attempts"].as_array().unwrap().len() == 2)
        .await;
    let second = text(&tx["attempts"][1], "hash");
    until("the dearer one is in the pool", async || {
        (!chain.call("eth_getTransactionByHash", json!([second])).await.is_null()).then_some(())
    })
    .await;
    chain.mine(1).await;
    let receipt = rpc.until_receipt(&first).await;
    assert_eq!(text(&receipt, "transactionHash"), second, "the first hash leads to the winner");
    assert_eq!(rpc.until_receipt(&second).await, receipt);
    let mined = rpc.get("eth_getTransactionByHash", json!([first])).await;
    assert_eq!((text(&mined, "hash"), &mined["blockNumber"]), (second, &receipt["blockNumber"]));
    assert_eq!(rpc.count("latest").await, before + 1);
    assert_eq!(rpc.get("eth_blockNumber", json!([])).await, receipt["blockNumber"]);
    let latest = rpc.get("eth_getBlockByNumber", json!(["latest", false])).await;
    assert_eq!(latest["number"], receipt["blockNumber"]);
    let journal = rpc.get("landfall_getJournal", json!([first])).await;
    let kinds: Vec<String> = journal.as_array().unwrap().iter().map(|row| text(row, "type")).collect();
    assert!(kinds.iter().filter(|kind| *kind == "signed").count() == 2, "{kinds:?}");
}

#[tokio::test]
async fn more_hashes_are_given_than_the_window_holds_and_what_gets_none_is_taken_back() {
    let chain = Chain::without_mining().await;
    let settings = Settings { max_in_flight: 2, chain: "max_signed_ahead = 6", ..Settings::default() };
    let server = Server::start(&chain.url(), settings).await;
    let rpc = Rpc(&server.api);
    let first = rpc.count("latest").await;
    let mut hashes = Vec::new();
    for value in 1..=6 {
        hashes.push(rpc.pay(value).await);
    }
    assert_eq!(chain.pooled().await, 2, "the window is as it was");
    assert_eq!(rpc.count("pending").await, first + 6);
    let shown = rpc.get("eth_getTransactionByHash", json!([hashes[5]])).await;
    assert_eq!(number(&shown["nonce"]), first + 5, "also one that no node has");
    // Its signature is nobody's yet: whoever kept it could send it when the nonce was given to something else.
    assert_eq!(
        (&shown["r"], &shown["s"], &shown["v"]),
        (&json!("0x0"), &json!("0x0"), &json!("0x0")),
        "{shown}"
    );
    until("one that a node has is shown with its signature", async || {
        let shown = rpc.get("eth_getTransactionByHash", json!([hashes[0]])).await;
        (shown["r"] != "0x0" && shown["s"] != "0x0").then_some(())
    })
    .await;
    let (code, own, message) = rpc.fail("eth_sendTransaction", json!([payment(7)])).await;
    assert_eq!((code, own.as_str()), (-32002, "no_slot"), "{message}");
    assert!(message.contains("nothing of it can land"), "{message}");
    let cancelled = server.api.list("&state=cancelled").await;
    assert_eq!(cancelled.len(), 1);
    assert_eq!(cancelled[0]["payload"]["value"], "7");
    chain.mine_every(1).await;
    for (value, hash) in (1..=6).zip(&hashes) {
        let receipt = rpc.until_receipt(hash).await;
        assert_eq!(receipt["status"], "0x1", "payment {value}");
    }
    assert_eq!(chain.count(&signer(0)).await, first + 6);
}

#[tokio::test]
async fn a_nonce_that_a_library_fills_in_is_checked_and_not_used() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let rpc = Rpc(&server.api);
    let next = rpc.count("pending").await;
    let with_nonce = |value: u64, nonce: u64| {
        let mut payment = payment(value);
        payment["nonce"] = json!(format!("{nonce:#x}"));
        json!([payment])
    };
    let first = rpc.get("eth_sendTransaction", with_nonce(1, next)).await;
    let again = rpc.get("eth_sendTransaction", with_nonce(1, next)).await;
    assert_eq!(first, again, "the same with the same nonce was sent twice");
    let (code, _, message) = rpc.fail("eth_sendTransaction", with_nonce(2, next)).await;
    assert_eq!(code, -32000);
    assert!(message.starts_with("nonce too low"), "{message}");
    // A program that counts for itself, whose calls overtake each other.
    let late = rpc.get("eth_sendTransaction", with_nonce(4, next + 2)).await;
    let early = rpc.get("eth_sendTransaction", with_nonce(3, next + 1)).await;
    chain.mine_every(1).await;
    for hash in [first, late, early] {
        rpc.until_receipt(hash.as_str().unwrap()).await;
    }
    assert_eq!(chain.count(&signer(0)).await, next + 3);
}

#[tokio::test]
async fn a_key_makes_a_send_that_is_repeated_the_same_one() {
    let chain = Chain::with_blocks_every(Duration::from_secs(1)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let send = async |value: u64| {
        let body =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_sendTransaction", "params": [payment(value)] });
        let request = server.api.request(Method::POST, &path()).header("Idempotency-Key", "once").json(&body);
        server.api.send(request).await.expect(200)
    };
    let first = send(1).await["result"].clone();
    assert!(first.is_string());
    Rpc(&server.api).until_receipt(first.as_str().unwrap()).await;
    assert_eq!(send(1).await["result"], first);
    assert_eq!(send(2).await["error"]["data"]["code"], "request_id_reused");
    assert_eq!(chain.count(&signer(0)).await, 1);
}

#[tokio::test]
async fn errors_have_the_codes_that_libraries_know() {
    let chain = Chain::with_blocks_every(Duration::from_secs(1)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let rpc = Rpc(&server.api);
    for method in
        ["eth_sign", "eth_signTransaction", "personal_sign", "eth_signTypedData_v4", "eth_subscribe"]
    {
        assert_eq!(rpc.fail(method, json!([])).await.0, 4200, "{method}");
    }
    for method in
        ["anvil_mine", "evm_mine", "debug_traceTransaction", "admin_peers", "eth_newFilter", "nonsense"]
    {
        assert_eq!(rpc.fail(method, json!([])).await.0, -32601, "{method}");
    }
    let stranger = json!([{ "from": RECEIVER, "to": RECEIVER, "value": "0x1" }]);
    assert_eq!(rpc.fail("eth_sendTransaction", stranger).await.0, 4100);
    let bad = [
        json!([]),
        json!([7]),
        json!([{ "from": signer(0), "to": "0x12" }]),
        json!([{ "from": signer(0), "to": RECEIVER, "valeu": "0x1" }]),
        json!([{ "from": signer(0), "to": RECEIVER, "chainId": "0x1" }]),
    ];
    for params in bad {
        assert_eq!(rpc.fail("eth_sendTransaction", params.clone()).await.0, -32602, "{params}");
    }
    // A contract whose code is the one byte `INVALID` when it is made: it reverts.
    let reverts = json!([{ "from": signer(0), "data": "0x5f5ffd" }]);
    let (code, own, message) = rpc.fail("eth_sendTransaction", reverts).await;
    assert_eq!((code, own.as_str()), (3, "would_revert"), "{message}");
    let rich = json!([{ "from": signer(0), "to": RECEIVER, "value": "0xffffffffffffffffffffffff" }]);
    let (code, own, message) = rpc.fail("eth_sendTransaction", rich).await;
    assert_eq!((code, own.as_str()), (-32000, "insufficient_funds"), "{message}");
    // The node's own error, unchanged.
    let call = json!([{ "data": "0x5f5ffd" }, "latest"]);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": call });
    let direct = server.api.send(server.api.request(Method::POST, &path()).json(&body)).await.expect(200);
    let http = super::support::http_client();
    let node: Value = http.post(chain.url()).json(&body).send().await.unwrap().json().await.unwrap();
    assert_eq!(direct["error"], node["error"]);
    // What is no call at all.
    let raw = |body: &'static str| {
        let request = server.api.request(Method::POST, &path()).header("content-type", "application/json");
        server.api.send(request.body(body))
    };
    assert_eq!(raw("{").await.expect(200)["error"]["code"], -32700);
    assert_eq!(raw("[]").await.expect(200)["error"]["code"], -32600);
    assert_eq!(raw(r#"{"jsonrpc":"2.0","method":"eth_chainId"}"#).await.status, 204, "a notification");
    let batch = raw(
        r#"[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},5,{"jsonrpc":"2.0","id":"b","method":"net_version"}]"#,
    );
    let batch = batch.await.expect(200);
    assert_eq!(batch[0]["result"], format!("{CHAIN_ID:#x}"));
    assert_eq!(batch[1]["error"]["code"], -32600);
    assert_eq!((&batch[2]["id"], &batch[2]["result"]), (&json!("b"), &json!(CHAIN_ID.to_string())));
    server.api.post("/rpc/1", &json!({})).await.expect_problem(404, "not_found");
    let form = server.api.request(Method::POST, &path()).body("{}");
    server.api.send(form).await.expect_problem(415, "wrong_content_type");
    assert_eq!(chain.count(&signer(0)).await, 0, "nothing of all this was sent");
}

#[tokio::test]
async fn a_batch_of_sends_gets_nonces_in_its_order() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let call = |n: u64| json!({ "jsonrpc": "2.0", "id": n, "method": "eth_sendTransaction", "params": [payment(n)] });
    let batch: Vec<Value> = (1..=20).map(call).collect();
    let answers = server.api.post(&path(), &Value::Array(batch)).await.expect(200);
    let rpc = Rpc(&server.api);
    for (n, answer) in answers.as_array().unwrap().iter().enumerate() {
        let shown = rpc.get("eth_getTransactionByHash", json!([answer["result"]])).await;
        assert_eq!((number(&shown["nonce"]), number(&shown["value"])), (n as u64, n as u64 + 1));
    }
}

/// Bytes that the chain's own keys signed.
async fn signed(chain: &Chain, n: usize, nonce: u64, value: u64) -> String {
    let tx = json!({
        "from": signer(n), "to": RECEIVER, "value": format!("{value:#x}"), "nonce": format!("{nonce:#x}"),
        "gas": "0x5208", "maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": "0x3b9aca00",
        "chainId": format!("{CHAIN_ID:#x}"),
    });
    chain.call("eth_signTransaction", json!([tx])).await.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn bytes_that_callers_signed_are_held_back_at_a_gap_and_sent_until_they_land_also_after_a_kill() {
    let chain = Chain::without_mining().await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    let api = server.api.clone();
    let rpc = Rpc(&api);
    let (low, high) = (signed(&chain, 3, 0, 1).await, signed(&chain, 3, 1, 2).await);
    let high_hash = rpc.get("eth_sendRawTransaction", json!([high])).await;
    assert_eq!(rpc.get("eth_sendRawTransaction", json!([high])).await, high_hash, "the same bytes once more");
    assert_eq!(chain.pooled().await, 0, "held back: its predecessor is missing");
    let shown = rpc.get("eth_getTransactionByHash", json!([high_hash])).await;
    assert_eq!(number(&shown["nonce"]), 1);
    server.restart_after_kill().await;
    let low_hash = rpc.get("eth_sendRawTransaction", json!([low])).await;
    chain.until_pooled(2).await;
    // A node that loses its pool.
    chain.call("anvil_dropAllTransactions", json!([])).await;
    server.restart_after_kill().await;
    chain.until_pooled(2).await;
    chain.mine(1).await;
    for hash in [low_hash, high_hash] {
        assert_eq!(rpc.until_receipt(hash.as_str().unwrap()).await["status"], "0x1");
    }
    let used = signed(&chain, 3, 0, 9).await;
    let (code, _, message) = rpc.fail("eth_sendRawTransaction", json!([used])).await;
    assert_eq!(code, -32000);
    assert!(message.starts_with("nonce too low"), "{message}");
    let managed = signed(&chain, 0, 0, 1).await;
    assert_eq!(rpc.fail("eth_sendRawTransaction", json!([managed])).await.0, -32003);
    assert_eq!(rpc.fail("eth_sendRawTransaction", json!(["0x1234"])).await.0, -32000);
    assert_eq!(chain.count(&signer(0)).await, 0);
}

#[tokio::test]
async fn a_socket_answers_calls_and_tells_of_new_heads_and_logs() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let url = format!("{}{}", server.api.url().replace("http", "ws"), path());
    let (mut socket, _) = tokio_tungstenite::connect_async(&url).await.unwrap();
    let mut ask = async |method: &str, params: Value| {
        let call = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
        socket.send(Message::text(call.to_string())).await.unwrap();
        loop {
            let message = socket.next().await.unwrap().unwrap();
            let Message::Text(said) = message else { continue };
            let said: Value = serde_json::from_str(&said).unwrap();
            if said["id"] == method {
                return said;
            }
        }
    };
    assert_eq!(ask("eth_chainId", json!([])).await["result"], format!("{CHAIN_ID:#x}"));
    let heads = ask("eth_subscribe", json!(["newHeads"])).await["result"].clone();
    let logs = ask("eth_subscribe", json!(["logs", {}])).await["result"].clone();
    assert_eq!(ask("eth_subscribe", json!(["newPendingTransactions"])).await["error"]["code"], 4200);
    // A contract that logs when it is made: PUSH0 PUSH0 LOG0.
    let create = json!([{ "from": signer(0), "data": "0x5f5fa000" }]);
    let hash = ask("eth_sendTransaction", create).await["result"].clone();
    chain.until_pooled(1).await;
    chain.mine(1).await;
    let (mut head, mut log) = (Value::Null, Value::Null);
    while head.is_null() || log.is_null() {
        let message =
            tokio::time::timeout(Duration::from_secs(30), socket.next()).await.unwrap().unwrap().unwrap();
        let Message::Text(said) = message else { continue };
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["method"], "eth_subscription");
        match &said["params"]["subscription"] {
            id if *id == heads => head = said["params"]["result"].clone(),
            id if *id == logs => log = said["params"]["result"].clone(),
            other => panic!("nobody asked for {other}"),
        }
    }
    assert_eq!(log["transactionHash"], hash);
    assert_eq!(log["blockHash"], head["hash"]);
    assert!(head["number"].is_string() && head.get("transactions").is_none(), "{head}");
    // A page of another origin gets none.
    let mut request =
        tokio_tungstenite::tungstenite::client::IntoClientRequest::into_client_request(url.as_str()).unwrap();
    request.headers_mut().insert("origin", "https://elsewhere.example".parse().unwrap());
    assert!(tokio_tungstenite::connect_async(request).await.is_err());
    server.api.get(&path()).await.expect_problem(405, "method_not_allowed");
    // One key for all calls of a socket would be none.
    let mut request =
        tokio_tungstenite::tungstenite::client::IntoClientRequest::into_client_request(url.as_str()).unwrap();
    request.headers_mut().insert("idempotency-key", "one".parse().unwrap());
    match tokio_tungstenite::connect_async(request).await {
        Err(tokio_tungstenite::tungstenite::Error::Http(refused)) => assert_eq!(refused.status(), 400),
        other => panic!("it should be refused: {other:?}"),
    }
}

#[tokio::test]
async fn calls_that_belong_together_are_done_one_after_the_other() {
    let chain = Chain::with_blocks_every(Duration::from_secs(1)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let rpc = Rpc(&server.api);
    let pay = |value: &str| json!({ "to": RECEIVER, "value": value });
    let together = |calls: Value, id: &str, atomic: bool| {
        json!([{
            "version": "2.0.0", "id": id, "from": signer(0), "chainId": format!("{CHAIN_ID:#x}"),
            "atomicRequired": atomic, "calls": calls,
        }])
    };
    let sent = rpc.get("wallet_sendCalls", together(json!([pay("0x1"), pay("0x2")]), "a", false)).await;
    assert_eq!(sent["id"], "a");
    let done = until("both calls are done", async || {
        let status = rpc.get("wallet_getCallsStatus", json!(["a"])).await;
        (status["status"] != 100).then_some(status)
    })
    .await;
    assert_eq!((&done["status"], &done["atomic"]), (&json!(200), &json!(false)), "{done}");
    let blocks: Vec<u64> =
        done["receipts"].as_array().unwrap().iter().map(|one| number(&one["blockNumber"])).collect();
    assert!(blocks.len() == 2 && blocks[0] < blocks[1], "{blocks:?}");
    // The second cannot be done after the first has failed.
    let fails = json!([{ "data": "0x5f5ffd" }, pay("0x3")]);
    rpc.get("wallet_sendCalls", together(fails, "b", false)).await;
    let done = until("they have ended", async || {
        let status = rpc.get("wallet_getCallsStatus", json!(["b"])).await;
        (status["status"] != 100).then_some(status)
    })
    .await;
    assert_eq!((&done["status"], &done["receipts"]), (&json!(400), &json!([])));
    assert_eq!(
        rpc.fail("wallet_sendCalls", together(json!([pay("0x1"), pay("0x2")]), "a", false)).await.0,
        5720
    );
    assert_eq!(
        rpc.fail("wallet_sendCalls", together(json!([pay("0x1"), pay("0x2")]), "c", true)).await.0,
        5760
    );
    assert_eq!(rpc.fail("wallet_getCallsStatus", json!(["never"])).await.0, 5730);
    let can = rpc.get("wallet_getCapabilities", json!([signer(0)])).await;
    assert_eq!(can[format!("{CHAIN_ID:#x}")]["atomic"]["status"], "unsupported");
    assert_eq!(chain.count(&signer(0)).await, 2);
}

#[tokio::test]
async fn a_send_that_is_repeated_while_it_is_under_way_lands_once() {
    let chain = Chain::with_blocks_every(Duration::from_secs(1)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let mut paid = payment(1);
    paid["nonce"] = json!("0x0");
    let call =
        |n: u64| json!({ "jsonrpc": "2.0", "id": n, "method": "eth_sendTransaction", "params": [paid] });
    let batch = Value::Array((0..5).map(call).collect());
    let (path, one) = (path(), call(9));
    let (answers, alone, too) = tokio::join!(
        server.api.post(&path, &batch),
        server.api.post(&path, &one),
        server.api.post(&path, &one)
    );
    let (answers, alone, too) = (answers.expect(200), alone.expect(200), too.expect(200));
    let hash = alone["result"].clone();
    assert!(hash.is_string(), "{alone}");
    assert_eq!(too["result"], hash);
    for answer in answers.as_array().unwrap() {
        assert_eq!(answer["result"], hash, "{answer}");
    }
    Rpc(&server.api).until_receipt(hash.as_str().unwrap()).await;
    assert_eq!(server.api.list("").await.len(), 1);
}

#[tokio::test]
async fn a_group_of_calls_is_stored_whole_or_refused_and_a_key_makes_it_one() {
    let chain = Chain::with_blocks_every(Duration::from_secs(1)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let rpc = Rpc(&server.api);
    let pay = |value: &str| json!({ "to": RECEIVER, "value": value });
    let with = |name: &str, value: Value| {
        let mut group = json!({ "version": "2.0.0", "from": signer(0), "calls": [pay("0x1")] });
        group[name] = value;
        json!([group])
    };
    let refused = [
        with("calls", json!([pay("0x1"), { "to": RECEIVER, "gas": "0x1" }])),
        with("calls", json!([pay("0x1"), { "to": "0x12" }])),
        with("chainId", json!(CHAIN_ID)),
        with("atomicRequired", json!("true")),
        with("capabilities", json!([])),
        with("surprise", json!(1)),
        with("from", json!(7)),
    ];
    for params in refused {
        rpc.fail("wallet_sendCalls", params).await;
    }
    assert_eq!(server.api.list("").await.len(), 0, "nothing was stored");
    let keyed = async |value: &str| {
        let params = with("calls", json!([pay(value), pay("0x9")]));
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "wallet_sendCalls", "params": params });
        let request = server.api.request(Method::POST, &path()).header("Idempotency-Key", "once").json(&body);
        server.api.send(request).await.expect(200)
    };
    let first = keyed("0x1").await["result"]["id"].clone();
    assert!(first.is_string());
    assert_eq!(keyed("0x1").await["result"]["id"], first);
    assert_eq!(keyed("0x2").await["error"]["code"], 5720);
    assert_eq!(server.api.list("").await.len(), 2);
}
