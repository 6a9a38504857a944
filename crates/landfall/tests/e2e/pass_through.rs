//! Callers with small keys against what is passed on to the nodes: the engine does not notice, and there is an end to all of it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::rpc::{Rpc, path};
use super::support::{
    Api, CHAIN_ID, Chain, Parrot, RECEIVER, Server, Settings, pass, signer, text, transfer, transfer_as,
};

pub(super) const ADMIN_KEY: &str = "an-administrators-key-that-is-long-enough";
/// Texts that mean something where the engine hears them.
const WORDS: [&str; 9] = [
    "unauthorized",
    "rate limit",
    "too many requests",
    "header not found",
    "syncing",
    "nonce too low",
    "limit exceeded",
    "invalid api key",
    "missing trie node",
];

pub(super) fn guarded(sections: &'static str) -> Settings {
    let mut settings = Settings { sections, ..Settings::default() };
    settings.env.push(("LANDFALL_ADMIN_KEY", ADMIN_KEY.to_owned()));
    settings
}

/// The server called with a new key of this role, as often as it likes.
pub(super) async fn key_of(server: &Server, role: &str) -> Api {
    let admin = server.api.with_key(ADMIN_KEY);
    let body = json!({ "name": format!("a {role}"), "role": role, "ratePerS": 1_000_000 });
    let made = admin.post("/api/v1/api-keys", &body).await.expect(201);
    admin.with_key(&text(&made, "key"))
}

/// The only endpoint as the health page shows it, times and heads aside.
pub(super) async fn endpoint(server: &Server) -> Value {
    let ready = server.api.with_key(ADMIN_KEY).get("/health/ready").await.expect(200);
    let endpoint = &ready["chains"][0]["endpoints"][0];
    json!({ "usable": endpoint["usable"], "trouble": endpoint["trouble"], "chain": ready["chains"][0]["usable"] })
}

pub(super) fn well() -> Value {
    json!({ "usable": true, "trouble": null, "chain": true })
}

pub(super) fn call(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A question that the node answers as told.
pub(super) fn told(said: &Value) -> Value {
    json!([{ "to": RECEIVER, "parrot": said }, "latest"])
}

#[tokio::test]
async fn no_word_that_a_viewer_puts_into_a_nodes_mouth_stops_the_chain_for_others() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let node = Parrot::before(&chain.url()).await;
    let server = Server::start(&node.url(), guarded("")).await;
    let (viewer, submitter) = (key_of(&server, "viewer").await, key_of(&server, "submitter").await);
    let viewer = Rpc(&viewer);
    for word in WORDS {
        let method = format!("eth_get_{}", word.replace(' ', "_"));
        let (code, _, message) = viewer.fail(&method, json!([])).await;
        assert_eq!(code, -32601, "{message}");
        assert_eq!(node.asked(&method), 0, "what nobody listed does not reach a node");
        for status in [200, 403, 500] {
            let said = json!({ "text": word, "status": status, "code": -32005 });
            let error = viewer.error("eth_call", told(&said)).await;
            assert_eq!(
                (&error["code"], &error["message"]),
                (&json!(-32005), &json!(word)),
                "as the node said it"
            );
        }
        assert_eq!(endpoint(&server).await, well(), "{word}");
    }
    let tx = submitter.submit(&transfer()).await;
    for status in [401, 403, 500, 502, 503, 429] {
        for _ in 0..6 {
            let plain =
                json!({ "plain": true, "status": status, "text": "unauthorized, rate limit exceeded" });
            viewer.error("eth_call", told(&plain)).await;
            viewer.error("eth_call", told(&json!({ "lose": true }))).await;
            assert_eq!(endpoint(&server).await, well(), "HTTP {status}");
        }
    }
    submitter.until_state(&tx, "confirmed").await;
    let next = submitter.submit(&transfer_as("while callers' questions rest")).await;
    submitter.until_state(&next, "confirmed").await;
}

fn how_many() -> u64 {
    if std::env::var_os("LANDFALL_THOROUGH").is_some() { 1_000_000 } else { 20_000 }
}

/// A call that a number makes up.
fn fuzzed(n: u64) -> Value {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut pick = |most: usize| {
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb).wrapping_add(1);
        usize::try_from(z >> 33).unwrap() % most
    };
    let word = WORDS[pick(WORDS.len())];
    let methods = [
        "eth_call",
        "eth_getLogs",
        "eth_getBlockByNumber",
        "eth_getBlockByHash",
        "eth_getTransactionCount",
        "eth_getTransactionReceipt",
        "eth_getTransactionByHash",
        "eth_sendTransaction",
        "eth_sendRawTransaction",
        "wallet_sendCalls",
        "wallet_getCallsStatus",
        "landfall_cancel",
        "eth_estimateGas",
        "net_version",
        "eth_unauthorized",
        "debug_traceCall",
        "",
    ];
    let made_up =
        format!("{}_{}{:x}", ["eth", "debug", "anvil", "net", "txpool"][pick(5)], word, pick(1 << 20));
    let method = match pick(8) {
        0 => word,
        1 => &made_up,
        _ => methods[pick(methods.len())],
    };
    let status = if pick(200) == 0 { 429 } else { [200, 200, 200, 400, 401, 403, 404, 500, 503][pick(9)] };
    let (plain, lose) = (pick(4) == 0, pick(40) == 0);
    let said = json!({ "text": word, "status": status, "plain": plain, "lose": lose });
    let params = [
        told(&said),
        json!([word, { "parrot": said }]),
        json!([{ "blockHash": word }]),
        json!([RECEIVER, word]),
        json!([signer(0), "latest"]),
        json!([format!("0x{:064x}", n)]),
        json!([null, [word], { "from": signer(0) }]),
        json!({ "parrot": said }),
        json!([]),
    ];
    call(n, method, &params[pick(params.len())])
}

#[tokio::test]
async fn no_sequence_of_a_viewers_calls_changes_an_endpoints_health_or_holds_a_transaction_up() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let node = Parrot::before(&chain.url()).await;
    let server = Server::start(&node.url(), guarded("[rpc]\nrequests_per_s = 0\n")).await;
    let (viewer, submitter) = (key_of(&server, "viewer").await, key_of(&server, "submitter").await);
    let mut sent = Vec::new();
    for from in (0..how_many()).step_by(500) {
        if from % 5_000 == 0 {
            sent.push(submitter.submit(&transfer_as(&format!("beside call {from}"))).await);
        }
        let batch: Vec<Value> = (from..from + 500).map(fuzzed).collect();
        let answers = viewer.post(&path(), &Value::Array(batch)).await.expect(200);
        assert_eq!(answers.as_array().unwrap().len(), 500);
        assert_eq!(endpoint(&server).await, well(), "after call {from}");
        if let Some(tx) = sent.pop() {
            submitter.until_state(&tx, "confirmed").await;
        }
    }
    assert_eq!(submitter.list("&state=confirmed").await.len() as u64, how_many().div_ceil(5_000));
    assert!(node.asked("eth_call") > 100, "questions did reach the node");
}

/// The most memory that a process has had, in bytes.
pub(super) fn most_memory(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn a_batch_that_asks_for_a_gigabyte_gets_its_share_and_is_told_so() {
    const MEGABYTE: u64 = 1_000_000;
    let chain = Chain::with_blocks_every(Duration::from_secs(1)).await;
    let node = Parrot::before(&chain.url()).await;
    let server = Server::start(&node.url(), guarded("[rpc]\nmax_answer_bytes_in_flight = 268435456\n")).await;
    let viewer = key_of(&server, "viewer").await;
    let logs = |bytes: u64| json!([{ "parrot": { "bytes": bytes } }]);
    let before = most_memory(server.id());
    let batch: Vec<Value> = (0..1_000).map(|n| call(n, "eth_getLogs", &logs(MEGABYTE))).collect();
    let answers = viewer.post(&path(), &Value::Array(batch.clone())).await.expect(200);
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 1_000);
    let (good, refused): (Vec<&Value>, Vec<&Value>) =
        answers.iter().partition(|answer| answer.get("result").is_some());
    assert!((25..=33).contains(&good.len()), "{} fit into 32 MiB", good.len());
    for answer in refused {
        let error = &answer["error"];
        assert_eq!(
            (&error["code"], &error["data"]["code"]),
            (&json!(-32005), &json!("answer_too_long")),
            "{error}"
        );
        assert_eq!(error["data"]["setting"], "rpc.max_batch_answer_bytes", "{error}");
    }
    assert!(node.asked("eth_getLogs") <= 60, "the rest was not even asked: {}", node.asked("eth_getLogs"));

    // Several at once share what there is.
    let (door, batch) = (path(), Value::Array(batch));
    let many = futures::future::join_all((0..8).map(|_| viewer.post(&door, &batch))).await;
    let settings: Vec<String> = many
        .iter()
        .flat_map(|answers| answers.body.as_array().unwrap())
        .map(|answer| text(&answer["error"]["data"], "setting"))
        .collect();
    assert!(settings.iter().any(|setting| setting == "rpc.max_answer_bytes_in_flight"), "all were told why");
    let grown = most_memory(server.id()).saturating_sub(before);
    assert!(grown < 200 * MEGABYTE, "it grew by {grown} bytes");

    let error = Rpc(&viewer).error("eth_getLogs", logs(17 * MEGABYTE)).await;
    assert_eq!(error["data"]["setting"], "rpc.max_answer_bytes", "{error}");
    assert!(text(&error, "message").contains("longer than 16777216 bytes"), "{error}");
    // All of it was given back.
    let whole = Rpc(&viewer).get("eth_getLogs", logs(15 * MEGABYTE)).await;
    assert_eq!(whole[0].as_str().unwrap().len() as u64, 15 * MEGABYTE);
    assert_eq!(endpoint(&server).await, well());
}

/// Bytes that the chain's own keys signed.
async fn signed(chain: &Chain, n: usize, nonce: u64, value: &str) -> Value {
    let tx = json!({
        "from": signer(n), "to": RECEIVER, "value": value, "nonce": format!("{nonce:#x}"),
        "gas": "0x5208", "maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": "0x3b9aca00",
        "chainId": format!("{CHAIN_ID:#x}"),
    });
    json!([chain.call("eth_signTransaction", json!([tx])).await])
}

#[tokio::test]
async fn a_key_keeps_no_more_raw_transactions_than_its_share_and_only_those_that_could_be_paid() {
    let chain = Chain::without_mining().await;
    let node = Parrot::before(&chain.url()).await;
    let quotas = "[access]\nmax_raw_bytes_per_key = 400\nmax_raw_accounts_per_key = 2\n";
    let mut server = Server::start(&node.url(), guarded(quotas)).await;
    let (one, other) = (key_of(&server, "submitter").await, key_of(&server, "submitter").await);
    let (one, other) = (Rpc(&one), Rpc(&other));
    let send = "eth_sendRawTransaction";
    // More than the account has, behind a gap: no node has judged it, and nothing is kept.
    let poor = signed(&chain, 3, 5, "0xffffffffffffffffffffff").await;
    let (code, own, message) = one.fail(send, poor).await;
    assert_eq!((code, own.as_str()), (-32000, "insufficient_funds"), "{message}");
    assert!(message.contains("nothing was kept"), "{message}");

    one.get(send, signed(&chain, 3, 1, "0x1").await).await;
    one.get(send, signed(&chain, 4, 1, "0x1").await).await;
    let (code, _, message) = one.fail(send, signed(&chain, 5, 1, "0x1").await).await;
    assert_eq!(code, -32005, "{message}");
    assert!(message.contains("access.max_raw_accounts_per_key"), "{message}");
    one.get(send, signed(&chain, 3, 2, "0x1").await).await;
    let (code, _, message) = one.fail(send, signed(&chain, 3, 3, "0x1").await).await;
    assert_eq!(code, -32005, "{message}");
    assert!(message.contains("access.max_raw_bytes_per_key"), "{message}");
    // Another key has its own share, also of the same account; and both still have it after a restart.
    other.get(send, signed(&chain, 3, 3, "0x1").await).await;
    server.restart_after_kill().await;
    let (_, _, message) = one.fail(send, signed(&chain, 3, 4, "0x1").await).await;
    assert!(message.contains("access.max_raw_bytes_per_key"), "{message}");

    // Without a new block nobody asks for the same counts again.
    pass(Duration::from_secs(2)).await;
    let asked = node.asked("eth_getTransactionCount");
    pass(Duration::from_secs(4)).await;
    assert!(node.asked("eth_getTransactionCount") <= asked + 1, "counts are asked for once at each block");
    // Who closes the gap does not matter.
    other.get(send, signed(&chain, 4, 0, "0x1").await).await;
    chain.until_pooled(2).await;
}

#[tokio::test]
async fn no_secret_of_an_endpoints_url_reaches_a_caller() {
    const SECRET: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let node = Parrot::before(&chain.url()).await;
    let server = Server::start(&format!("{}/v3/{SECRET}?token=topsecret", node.url()), guarded("")).await;
    let viewer = key_of(&server, "viewer").await;
    let words = format!("/v3/{SECRET}?token=topsecret is used up");
    let data = json!({ "url": words, "of": [{ "topsecret": words }], "revert": "0x08c379a0" });
    for status in [200, 403, 429, 500] {
        for plain in [false, true] {
            let said = json!({ "status": status, "text": words, "data": data, "plain": plain });
            let error = Rpc(&viewer).error("eth_call", told(&said)).await.to_string();
            assert!(!error.contains(SECRET) && !error.contains("topsecret"), "{error}");
            assert!(error.contains("is used up"), "{error}");
            assert!(plain || error.contains("0x08c379a0"), "the rest is as the node said it: {error}");
        }
    }
}

#[tokio::test]
async fn what_callers_ask_and_send_goes_to_their_own_endpoints_where_there_are_some() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let (engines, callers) = (Parrot::before(&chain.url()).await, Parrot::before(&chain.url()).await);
    let own = format!("caller_rpc = [\"{}\"]\n", callers.url());
    let settings = Settings { chain: own.leak(), ..guarded("") };
    let server = Server::start(&engines.url(), settings).await;
    let submitter = key_of(&server, "submitter").await;
    let rpc = Rpc(&submitter);
    rpc.get("eth_getLogs", json!([{}])).await;
    let hash = rpc.get("eth_sendRawTransaction", signed(&chain, 3, 0, "0x1").await).await;
    rpc.until_receipt(hash.as_str().unwrap()).await;
    for (method, most) in [("eth_getLogs", 1), ("eth_sendRawTransaction", 1)] {
        assert_eq!((engines.asked(method), callers.asked(method)), (0, most), "{method}");
    }
    // What is handed over to be sent is the engine's.
    let tx = submitter.submit(&transfer()).await;
    submitter.until_state(&tx, "confirmed").await;
    assert_eq!(callers.asked("eth_sendRawTransaction"), 1);
    assert!(engines.asked("eth_sendRawTransaction") >= 1);
}

#[tokio::test]
async fn callers_have_a_pace_and_are_answered_in_it() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let node = Parrot::before(&chain.url()).await;
    let server = Server::start(&node.url(), guarded("[rpc]\nrequests_per_s = 10\n")).await;
    let viewer = key_of(&server, "viewer").await;
    let asked = Instant::now();
    let batch: Vec<Value> = (0..40).map(|n| call(n, "eth_getLogs", &json!([{}]))).collect();
    let answers = viewer.post(&path(), &Value::Array(batch)).await.expect(200);
    assert!(answers.as_array().unwrap().iter().all(|answer| answer["result"].is_array()), "{answers}");
    // A second's worth may go at once.
    assert!(asked.elapsed() >= Duration::from_millis(2_900), "it took {:?}", asked.elapsed());
}
