//! What cannot be taken is told with a stable code and a sentence, and leaves nothing behind.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Api, CHAIN_ID, Chain, RECEIVER, Server, Settings, signer, submission, text, transfer, transfer_as, until,
};

/// What the server of these tests takes at most, so that too much is still little.
const LIMITS: &str = "max_body_bytes = 400000\nmax_batch = 10";

/// One malformed submission: what is wrong, the body, and what must be answered.
struct Case {
    name: &'static str,
    body: Value,
    status: u16,
    code: &'static str,
    /// Where the problem says it is; empty where it is about no single field.
    field: &'static str,
}

fn case(name: &'static str, body: Value, status: u16, code: &'static str, field: &'static str) -> Case {
    Case { name, body, status, code, field }
}

/// A good transaction with one thing changed: the pointer's target is set.
fn with(pointer: &str, value: Value) -> Value {
    let mut body = transfer();
    body["requestId"] = json!("bad");
    body["options"] = json!({});
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    body.pointer_mut(parent).expect("the parent is there")[name] = value;
    body
}

/// A good transaction with this payload.
fn paying(payload: Value) -> Value {
    submission(payload)
}

fn without(name: &str) -> Value {
    let mut body = transfer();
    body.as_object_mut().unwrap().remove(name);
    body
}

fn addresses() -> Vec<Case> {
    let wrong_checksum = signer(0).replacen("0xf39F", "0xf39f", 1);
    let not_hex = "0xzz9Fd6e51aad88F6F4ce6aB8827279cffFb92266";
    let bare = &RECEIVER[2..];
    vec![
        case("no address", with("/payload/to", json!("me")), 400, "bad_address", "payload.to"),
        case("a short address", with("/payload/to", json!("0x1234")), 400, "bad_address", "payload.to"),
        case("no 0x", with("/payload/to", json!(bare)), 400, "bad_address", "payload.to"),
        case("an empty address", with("/payload/to", json!("")), 400, "bad_address", "payload.to"),
        case("not hex", with("/payload/to", json!(not_hex)), 400, "bad_address", "payload.to"),
        case(
            "a wrong checksum",
            with("/payload/to", json!(wrong_checksum)),
            400,
            "bad_address",
            "payload.to",
        ),
        case(
            "a signer with a wrong checksum",
            with("/signer", json!(wrong_checksum)),
            400,
            "bad_address",
            "signer",
        ),
        case("an unknown signer", with("/signer", json!(signer(5))), 422, "unknown_signer", "signer"),
        case("an unknown chain", with("/chainId", json!(1)), 422, "unknown_chain", "chainId"),
    ]
}

fn amounts() -> Vec<Case> {
    let beyond = "115792089237316195423570985008687907853269984665640564039457584007913129639936";
    let value = |value: Value| with("/payload/value", value);
    vec![
        case("a negative value", value(json!("-1")), 400, "bad_amount", "payload.value"),
        case("a value as a number", value(json!(1)), 400, "bad_amount", "payload.value"),
        case("a value with a point", value(json!("1.5")), 400, "bad_amount", "payload.value"),
        case("a value of 2^256", value(json!(beyond)), 400, "bad_amount", "payload.value"),
        case("a value that is a word", value(json!("1ether")), 400, "bad_amount", "payload.value"),
        case("an empty value", value(json!("")), 400, "bad_amount", "payload.value"),
        case("a bare 0x", value(json!("0x")), 400, "bad_amount", "payload.value"),
        case("odd hex", with("/payload/data", json!("0x123")), 400, "bad_data", "payload.data"),
        case("data without 0x", with("/payload/data", json!("1234")), 400, "bad_data", "payload.data"),
        case("data that is not hex", with("/payload/data", json!("0xgg")), 400, "bad_data", "payload.data"),
        case(
            "huge data",
            with("/payload/data", json!(format!("0x{}", "00".repeat(131_072)))),
            422,
            "data_too_large",
            "payload.data",
        ),
        case(
            "data and input that differ",
            paying(json!({ "to": RECEIVER, "data": "0x01", "input": "0x02" })),
            400,
            "bad_data",
            "payload.data",
        ),
        case("a create without data", paying(json!({ "value": "1" })), 422, "nothing_to_do", "payload"),
        case(
            "gas above the block limit",
            with("/payload/gas", json!(30_000_001)),
            422,
            "gas_above_block_limit",
            "payload.gas",
        ),
        case("no gas at all", with("/payload/gas", json!(0)), 422, "gas_too_low", "payload.gas"),
        case(
            "gas below the base cost",
            with("/payload/gas", json!(20_999)),
            422,
            "gas_too_low",
            "payload.gas",
        ),
        // EIP-7623: 40 for each of these bytes, although 16 each would run it.
        case(
            "gas below the floor for data",
            paying(json!({
                "to": RECEIVER, "data": format!("0x{}", "01".repeat(100_000)), "gas": 21_000 + 40 * 100_000 - 1,
            })),
            422,
            "gas_too_low",
            "payload.gas",
        ),
        case("negative gas", with("/payload/gas", json!(-1)), 400, "wrong_type", "payload.gas"),
        case("gas with a point", with("/payload/gas", json!(21_000.5)), 400, "wrong_type", "payload.gas"),
        case("gas as words", with("/payload/gas", json!("much")), 400, "bad_amount", "payload.gas"),
        case(
            "gas above 2^64",
            with("/payload/gas", json!("18446744073709551616")),
            400,
            "bad_amount",
            "payload.gas",
        ),
    ]
}

fn fees() -> Vec<Case> {
    let fees = |mut fees: Value| {
        fees["to"] = json!(RECEIVER);
        fees["gas"] = json!(60_000);
        paying(fees)
    };
    let gwei = |n: u64| format!("{n}000000000");
    let list = json!([{ "address": RECEIVER, "storageKeys": [] }]);
    vec![
        case(
            "both kinds of fee",
            fees(json!({ "gasPrice": gwei(1), "maxFeePerGas": gwei(1) })),
            400,
            "conflicting_fees",
            "payload.gasPrice",
        ),
        case(
            "a legacy type with a 1559 fee",
            fees(json!({ "type": 0, "maxFeePerGas": gwei(1) })),
            400,
            "conflicting_fees",
            "payload.type",
        ),
        case(
            "a 1559 type with a legacy fee",
            fees(json!({ "type": 2, "gasPrice": gwei(1) })),
            400,
            "conflicting_fees",
            "payload.type",
        ),
        case(
            "a tip above the cap",
            fees(json!({ "maxFeePerGas": gwei(1), "maxPriorityFeePerGas": gwei(2) })),
            400,
            "conflicting_fees",
            "payload.maxPriorityFeePerGas",
        ),
        case(
            "a fee above the ceiling",
            fees(json!({ "maxFeePerGas": gwei(501) })),
            422,
            "fee_above_ceiling",
            "payload.maxFeePerGas",
        ),
        case(
            "a tip above the ceiling",
            fees(json!({ "maxPriorityFeePerGas": gwei(501) })),
            422,
            "fee_above_ceiling",
            "payload.maxPriorityFeePerGas",
        ),
        case(
            "a price above the ceiling",
            fees(json!({ "gasPrice": gwei(501) })),
            422,
            "fee_above_ceiling",
            "payload.gasPrice",
        ),
        case(
            "a ceiling above the chain's",
            with("/options/maxFeePerGas", json!(gwei(501))),
            422,
            "fee_above_ceiling",
            "options.maxFeePerGas",
        ),
        case(
            "a fee as a number",
            fees(json!({ "maxFeePerGas": 1 })),
            400,
            "bad_amount",
            "payload.maxFeePerGas",
        ),
        case("a negative price", fees(json!({ "gasPrice": "-5" })), 400, "bad_amount", "payload.gasPrice"),
        case(
            "an access list in a legacy transaction",
            fees(json!({ "type": 0, "accessList": list })),
            400,
            "bad_value",
            "payload.type",
        ),
        case("a blob transaction", fees(json!({ "type": 3 })), 422, "unsupported", "payload.type"),
        case(
            "a set-code transaction without authorizations",
            fees(json!({ "type": "0x4" })),
            400,
            "missing_field",
            "payload.authorizationList",
        ),
        case(
            "an authorization list without items",
            fees(json!({ "authorizationList": [] })),
            400,
            "bad_value",
            "payload.authorizationList",
        ),
        case(
            "authorizations at a legacy price",
            fees(json!({ "authorizationList": [{ "address": RECEIVER }], "gasPrice": "5" })),
            400,
            "conflicting_fees",
            "payload.type",
        ),
        case(
            "half a signature",
            fees(json!({ "authorizationList": [{ "address": RECEIVER, "nonce": 1, "r": "1" }] })),
            400,
            "missing_field",
            "payload.authorizationList[0].yParity",
        ),
        case(
            "an authorization for another chain",
            fees(json!({ "authorizationList": [{ "address": RECEIVER, "chainId": 1 }] })),
            422,
            "bad_authorization",
            "payload.authorizationList",
        ),
        case(
            "an own authorization for every chain",
            fees(json!({ "authorizationList": [{ "address": RECEIVER, "chainId": 0 }] })),
            400,
            "bad_value",
            "payload.authorizationList[0].chainId",
        ),
        case(
            "a delegation that the operator did not list",
            fees(json!({ "authorizationList": [{ "address": RECEIVER }] })),
            403,
            "delegation_not_allowed",
            "payload.authorizationList",
        ),
        case(
            "an authorization that nobody signed",
            fees(
                json!({ "authorizationList": [{ "address": RECEIVER, "nonce": 1, "yParity": 0, "r": "1", "s": "0" }] }),
            ),
            422,
            "bad_authorization",
            "payload.authorizationList",
        ),
        case("a type that is a word", fees(json!({ "type": "legacy" })), 400, "bad_value", "payload.type"),
        case(
            "a storage key that is short",
            fees(json!({ "accessList": [{ "address": RECEIVER, "storageKeys": ["0x01"] }] })),
            400,
            "bad_data",
            "payload.accessList[0].storageKeys",
        ),
        case(
            "an access list without an address",
            fees(json!({ "accessList": [{ "storageKeys": [] }] })),
            400,
            "missing_field",
            "payload.accessList[0].address",
        ),
    ]
}

fn options() -> Vec<Case> {
    let option = |name: &str, value: Value| with(&format!("/options/{name}"), value);
    vec![
        case("an unknown speed", option("speed", json!("warp")), 400, "bad_value", "options.speed"),
        case("an unknown finality", option("finality", json!("soon")), 400, "bad_value", "options.finality"),
        case("a negative finality", option("finality", json!(-1)), 400, "bad_value", "options.finality"),
        case("finality too deep", option("finality", json!(1_001)), 400, "bad_value", "options.finality"),
        case(
            "an unknown onDisplaced",
            option("onDisplaced", json!("hope")),
            400,
            "bad_value",
            "options.onDisplaced",
        ),
        case(
            "an unknown onInsufficientFunds",
            option("onInsufficientFunds", json!("beg")),
            400,
            "bad_value",
            "options.onInsufficientFunds",
        ),
        case(
            "a deadline in the past",
            option("deadline", json!("2020-01-01T00:00:00Z")),
            422,
            "deadline_passed",
            "options.deadline",
        ),
        case(
            "a deadline that is no time",
            option("deadline", json!("tomorrow")),
            400,
            "bad_time",
            "options.deadline",
        ),
        case(
            "a deadline before 1970",
            option("deadline", json!("1960-01-01T00:00:00Z")),
            400,
            "bad_time",
            "options.deadline",
        ),
        case(
            "too much metadata",
            option("metadata", json!("x".repeat(4_097))),
            400,
            "metadata_too_large",
            "options.metadata",
        ),
        case("an option to come", option("route", json!("x")), 422, "unsupported", "options.route"),
    ]
}

fn shapes() -> Vec<Case> {
    vec![
        case("an array", json!([transfer()]), 400, "wrong_type", "the body"),
        case("a string", json!("hello"), 400, "wrong_type", "the body"),
        case("null", Value::Null, 400, "wrong_type", "the body"),
        case("nothing in it", json!({}), 400, "missing_field", "chainId"),
        case("no chainId", without("chainId"), 400, "missing_field", "chainId"),
        case("no signer", without("signer"), 400, "missing_field", "signer"),
        case("no payload", without("payload"), 400, "missing_field", "payload"),
        case("a nonce", with("/nonce", json!(1)), 400, "nonce_not_allowed", "nonce"),
        case(
            "a nonce in the payload",
            with("/payload/nonce", json!("0x1")),
            400,
            "nonce_not_allowed",
            "payload.nonce",
        ),
        case("an unknown field", with("/colour", json!("red")), 400, "unknown_field", "colour"),
        case(
            "an unknown payload field",
            with("/payload/amount", json!("1")),
            400,
            "unknown_field",
            "payload.amount",
        ),
        case("an unknown option", with("/options/sped", json!("fast")), 400, "unknown_field", "options.sped"),
        case(
            "an unknown access list field",
            with("/payload/accessList", json!([{ "address": RECEIVER, "keys": [] }])),
            400,
            "unknown_field",
            "payload.accessList[0].keys",
        ),
        case("an empty requestId", with("/requestId", json!("")), 400, "bad_request_id", "requestId"),
        case(
            "a long requestId",
            with("/requestId", json!("x".repeat(256))),
            400,
            "bad_request_id",
            "requestId",
        ),
        case(
            "a requestId with a line break",
            with("/requestId", json!("a\nb")),
            400,
            "bad_request_id",
            "requestId",
        ),
    ]
}

/// Every field with a type it cannot have.
fn wrong_types() -> Vec<Case> {
    [
        ("a chainId in words", "/chainId", json!("31337"), "chainId"),
        ("a negative chainId", "/chainId", json!(-1), "chainId"),
        ("a chainId with a point", "/chainId", json!(1.5), "chainId"),
        ("a signer that is a number", "/signer", json!(1), "signer"),
        ("a requestId that is a number", "/requestId", json!(17), "requestId"),
        ("a payload that is a string", "/payload", json!("0x"), "payload"),
        ("options that are a list", "/options", json!([]), "options"),
        ("a to that is an object", "/payload/to", json!({}), "payload.to"),
        ("a value that is a list", "/payload/value", json!([]), "payload.value"),
        ("data that is a number", "/payload/data", json!(12), "payload.data"),
        ("gas that is a boolean", "/payload/gas", json!(true), "payload.gas"),
        ("a maxFeePerGas that is a boolean", "/payload/maxFeePerGas", json!(true), "payload.maxFeePerGas"),
        (
            "a tip that is an object",
            "/payload/maxPriorityFeePerGas",
            json!({}),
            "payload.maxPriorityFeePerGas",
        ),
        ("a gasPrice that is a list", "/payload/gasPrice", json!([]), "payload.gasPrice"),
        ("an access list that is an object", "/payload/accessList", json!({}), "payload.accessList"),
        ("an access list of strings", "/payload/accessList", json!(["x"]), "payload.accessList[0]"),
        ("a type that is a list", "/payload/type", json!([2]), "payload.type"),
        ("a speed that is a number", "/options/speed", json!(3), "options.speed"),
        ("a deadline that is a number", "/options/deadline", json!(1_900_000_000), "options.deadline"),
        ("an option's fee that is a boolean", "/options/maxFeePerGas", json!(false), "options.maxFeePerGas"),
    ]
    .into_iter()
    .map(|(name, pointer, value, field)| case(name, with(pointer, value), 400, "wrong_type", field))
    .collect()
}

async fn lanes_are_unused(api: &Api) {
    let lanes = api.get("/api/v1/lanes").await.expect(200);
    for lane in lanes["items"].as_array().unwrap() {
        assert_eq!((&lane["waiting"], &lane["inFlight"]), (&json!(0), &json!(0)), "{lane}");
        assert!(lane["nextNonce"].is_null(), "no slot was ever thought of: {lane}");
    }
}

/// A server that knows the chain's block gas limit.
async fn start(chain: &Chain) -> Server {
    let server = Server::start(
        &chain.url(),
        Settings { server: LIMITS, chain: "calldata_floor = true", ..Settings::default() },
    )
    .await;
    until("the server has seen the chain", async || {
        server.api.get("/health/ready").await.body["chains"][0]["head"].as_u64()
    })
    .await;
    server
}

#[tokio::test]
async fn every_malformed_transaction_is_told_with_a_code_and_a_sentence_and_leaves_no_row() {
    let chain = Chain::without_mining().await;
    let server = start(&chain).await;
    let api = &server.api;

    let groups = [addresses(), amounts(), fees(), options(), shapes(), wrong_types()];
    let cases: Vec<Case> = groups.into_iter().flatten().collect();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len(), "no case is there twice");
    assert!(cases.len() >= 40, "{} cases", cases.len());

    let mut wrong = Vec::new();
    for case in &cases {
        let answer = api.post("/api/v1/tx", &case.body).await;
        let body = &answer.body;
        let field = body["field"].as_str().unwrap_or_default();
        let as_told = answer.status == case.status
            && answer.content_type == "application/problem+json"
            && body["status"] == case.status
            && body["code"] == case.code
            && field == case.field
            && !text(body, "title").is_empty()
            && text(body, "detail").split_whitespace().count() >= 3;
        if !as_told {
            let (name, status, code, field) = (case.name, case.status, case.code, case.field);
            wrong.push(format!("{name}: wanted {status} {code} at {field:?}, got {} {body}", answer.status));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));

    assert_eq!(api.list("").await.len(), 0, "no row is left");
    lanes_are_unused(api).await;
    // The key of a request that was refused is still free.
    api.post("/api/v1/tx", &transfer_as("bad")).await.expect(202);
}

#[tokio::test]
async fn what_is_not_even_a_request_is_told_as_well() {
    let chain = Chain::without_mining().await;
    let server = start(&chain).await;
    let api = &server.api;
    let send = async |content_type: &str, body: String| {
        let request = api.request(Method::POST, "/api/v1/tx").header("content-type", content_type);
        api.send(request.body(body)).await
    };
    let whole = transfer().to_string();
    let json = "application/json";

    send(json, "{".to_owned()).await.expect_problem(400, "invalid_json");
    send(json, "not json".to_owned()).await.expect_problem(400, "invalid_json");
    send(json, String::new()).await.expect_problem(400, "invalid_json");
    send(json, whole[..whole.len() / 2].to_owned()).await.expect_problem(400, "invalid_json");
    send(json, format!("{whole}{whole}")).await.expect_problem(400, "invalid_json");
    send(json, "[".repeat(100_000)).await.expect_problem(400, "invalid_json");
    send("text/plain", whole.clone()).await.expect_problem(415, "wrong_content_type");
    send("application/x-www-form-urlencoded", whole.clone()).await.expect_problem(415, "wrong_content_type");
    let no_type = api.send(api.request(Method::POST, "/api/v1/tx").body(whole.clone())).await;
    no_type.expect_problem(415, "wrong_content_type");
    send(json, " ".repeat(400_001)).await.expect_problem(413, "body_too_large");
    let bytes = api.request(Method::POST, "/api/v1/tx").header("content-type", json).body(vec![0xff, 0xfe]);
    api.send(bytes).await.expect_problem(400, "invalid_json");
    let twice = api.request(Method::POST, "/api/v1/tx").json(&transfer());
    let twice = twice.header("Idempotency-Key", "a").header("Idempotency-Key", "b");
    api.send(twice).await.expect_problem(400, "bad_request_id");
    let empty = api.request(Method::POST, "/api/v1/tx").json(&transfer()).header("Idempotency-Key", "");
    api.send(empty).await.expect_problem(400, "bad_request_id");

    // Batches.
    let batch = async |body: Value| api.post("/api/v1/tx/batch", &body).await;
    batch(Value::Array(vec![transfer(); 11])).await.expect_problem(400, "batch_too_long");
    batch(json!("all of them")).await.expect_problem(400, "wrong_type");
    batch(json!({ "items": transfer() })).await.expect_problem(400, "wrong_type");
    batch(json!({ "items": [], "more": true })).await.expect_problem(400, "wrong_type");
    let keyed = api.request(Method::POST, "/api/v1/tx/batch").json(&json!([])).header("Idempotency-Key", "a");
    api.send(keyed).await.expect_problem(400, "bad_request_id");

    // Paths and queries.
    let nobody = "00000000-0000-7000-8000-000000000000";
    let lane = format!("/api/v1/lanes/{CHAIN_ID}");
    for (method, path, status, code) in [
        (Method::GET, "/api/v1/tx/17".to_owned(), 404, "not_found"),
        (Method::GET, format!("/api/v1/tx/{nobody}"), 404, "not_found"),
        (Method::GET, format!("/api/v1/tx/{nobody}/journal"), 404, "not_found"),
        (Method::GET, "/api/v1/tx/%00%ff".to_owned(), 404, "not_found"),
        (Method::POST, format!("/api/v1/tx/{nobody}/cancel"), 404, "not_found"),
        (Method::GET, "/api/v1/tx?colour=red".to_owned(), 400, "bad_query"),
        (Method::GET, "/api/v1/tx?state=lost".to_owned(), 400, "bad_query"),
        (Method::GET, "/api/v1/tx?chainId=one".to_owned(), 400, "bad_query"),
        (Method::GET, "/api/v1/tx?hash=0x12".to_owned(), 400, "bad_query"),
        (Method::GET, "/api/v1/tx?cursor=there".to_owned(), 400, "bad_query"),
        (Method::GET, "/api/v1/tx?limit=0".to_owned(), 400, "bad_query"),
        (Method::GET, "/api/v1/tx?limit=501".to_owned(), 400, "bad_query"),
        (Method::GET, "/api/v1/tx?signer=me".to_owned(), 400, "bad_address"),
        (Method::GET, "/api/v1/tx/by-request".to_owned(), 400, "bad_query"),
        (Method::GET, format!("/api/v1/tx/by-request?signer={}", signer(0)), 400, "bad_query"),
        (Method::GET, format!("/api/v1/tx/by-request?signer={}&requestId=x", signer(0)), 404, "not_found"),
        (
            Method::GET,
            format!("/api/v1/tx/by-request?signer={}&requestId=", signer(0)),
            400,
            "bad_request_id",
        ),
        (Method::GET, format!("{lane}/me"), 400, "bad_address"),
        (Method::GET, format!("/api/v1/lanes/one/{}", signer(0)), 400, "wrong_type"),
        (Method::GET, format!("{lane}/{}", signer(5)), 404, "not_found"),
        (Method::POST, format!("{lane}/{}/pause", signer(5)), 422, "unknown_signer"),
        (Method::POST, format!("/api/v1/lanes/1/{}/pause", signer(0)), 422, "unknown_chain"),
        (Method::POST, format!("{lane}/{}/dance", signer(0)), 404, "not_found"),
        (Method::DELETE, "/api/v1/tx".to_owned(), 405, "method_not_allowed"),
        (Method::PUT, format!("/api/v1/tx/{nobody}"), 405, "method_not_allowed"),
        (Method::POST, "/health/ready".to_owned(), 405, "method_not_allowed"),
        (Method::GET, "/api/v2/tx".to_owned(), 404, "not_found"),
        (Method::GET, "/".to_owned(), 404, "not_found"),
    ] {
        eprintln!("{method} {path}");
        api.send(api.request(method, &path)).await.expect_problem(status, code);
    }

    assert_eq!(api.list("").await.len(), 0, "no row is left");
    lanes_are_unused(api).await;
}

#[tokio::test]
async fn a_batch_with_bad_items_takes_the_good_ones() {
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let server = start(&chain).await;
    let api = &server.api;

    let mut unknown = transfer();
    unknown["signer"] = json!(signer(5));
    let batch =
        json!([transfer_as("first"), with("/payload/to", json!("me")), unknown, 7, transfer_as("last"),]);
    let answer = api.post("/api/v1/tx/batch", &batch).await.expect(200);
    let items = answer["items"].as_array().unwrap();
    let statuses: Vec<u64> = items.iter().filter_map(|item| item["status"].as_u64()).collect();
    assert_eq!(statuses, [202, 400, 422, 400, 202], "{answer}");
    let codes: Vec<String> = items[1..4].iter().map(|item| text(item, "code")).collect();
    assert_eq!(codes, ["bad_address", "unknown_signer", "wrong_type"]);
    assert!(items[1..4].iter().all(|item| !text(item, "detail").is_empty()));

    for item in [&items[0], &items[4]] {
        api.until_state(&text(item, "txId"), "confirmed").await;
    }
    assert_eq!(api.list("").await.len(), 2);
    assert_eq!(chain.count(&signer(0)).await, 2);
    assert_eq!(api.post("/api/v1/tx/batch", &json!([])).await.expect(200)["items"], json!([]));
}
