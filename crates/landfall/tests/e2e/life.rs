//! The life of a transaction, as its caller follows it over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Chain, RECEIVER, Server, Settings, pass, signer, submission, text, transfer, transfer_as, until,
};

/// Reverts with `Error("nope")`, whatever it is asked.
const REVERTER: &str = concat!(
    "6308c379a060e01b600052", // the selector of Error(string)
    "6020600452",             // where the text is
    "6004602452",             // how long it is
    "636e6f706560e01b604452", // "nope"
    "60646000fd",             // revert
);
/// Stores the first word it is given.
const KEEPER: &str = "60003560005500";

/// Code that puts the given code in place.
fn creation(runtime: &str) -> Value {
    let length = runtime.len() / 2;
    json!(format!("0x60{length:02x}600c60003960{length:02x}6000f3{runtime}"))
}

fn two_blocks_on_top() -> Settings {
    Settings { finality: 2, ..Settings::default() }
}

#[tokio::test]
async fn a_transaction_goes_from_accepted_to_confirmed_and_its_journal_tells_how() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), two_blocks_on_top()).await;
    let api = &server.api;

    let mut body = transfer_as("invoice 17/ä");
    body["options"] = json!({ "metadata": { "invoice": 17 } });
    let accepted = api.post("/api/v1/tx", &body).await.expect(202);
    assert_eq!(text(&accepted, "state"), "accepted");
    let id = text(&accepted, "txId");

    let sent = api.until_state(&id, "broadcast").await;
    assert_eq!(sent["nonce"], 0);
    assert_eq!(sent["chainId"], 31_337);
    assert_eq!(text(&sent, "signer"), signer(0));
    assert_eq!(text(&sent, "requestId"), "invoice 17/ä");
    assert_eq!(sent["payload"]["value"], "1");
    assert_eq!(text(&sent["payload"], "to"), RECEIVER);
    assert_eq!(sent["options"]["metadata"], json!({ "invoice": 17 }));
    assert!(sent["receipt"].is_null() && sent["confirmations"].is_null(), "{sent}");
    assert!(text(&sent, "stuckReason").contains("the pool has it"), "{sent}");
    let attempts = sent["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!((&attempts[0]["hash"], &attempts[0]["nonce"]), (&sent["hash"], &json!(0)));
    let replay = api.post("/api/v1/tx", &body).await.expect(200);
    assert_eq!(replay, json!({ "txId": id, "state": "broadcast", "nonce": 0, "hash": sent["hash"] }));

    chain.mine(1).await;
    let mined = api.until_state(&id, "mined").await;
    assert_eq!(mined["confirmations"], 0);
    assert!(text(&mined, "stuckReason").contains("0 of 2 confirmations"), "{mined}");
    let on_chain = chain.receipt(&text(&mined, "hash")).await;
    let receipt = &mined["receipt"];
    assert_eq!(receipt["blockHash"], on_chain["blockHash"]);
    assert_eq!((&receipt["status"], &receipt["gasUsed"]), (&json!("success"), &json!(21_000)));
    assert_eq!(receipt["transactionHash"], mined["hash"]);
    chain.mine(1).await;
    api.until_tx(&id, "a block on top is seen", |tx| tx["confirmations"] == 1).await;
    assert_eq!(text(&api.tx(&id).await, "state"), "mined", "one block on top is not two");
    chain.mine(1).await;
    let done = api.until_state(&id, "confirmed").await;
    assert_eq!((&done["confirmations"], &done["wonVersion"]), (&json!(2), &json!(1)));
    assert!(done["stuckReason"].is_null(), "{done}");
    chain.mine(3).await;
    api.until_tx(&id, "confirmations go on growing", |tx| tx["confirmations"] == 5).await;
    let replay = api.post("/api/v1/tx", &body).await.expect(200);
    assert_eq!((text(&replay, "txId"), text(&replay, "state")), (id.clone(), "confirmed".to_owned()));

    // The time line explains it, in order.
    let journal = api.journal(&id).await;
    let kinds: Vec<String> = journal.iter().map(|entry| text(entry, "type")).collect();
    assert_eq!(kinds, ["accepted", "signed", "broadcast", "mined", "confirmed"]);
    let events: Vec<String> = journal.iter().map(|entry| text(entry, "event")).collect();
    assert_eq!(events, ["tx.accepted", "tx.signed", "tx.broadcast", "tx.mined", "tx.confirmed"]);
    assert!(journal.is_sorted_by_key(|entry| entry["seq"].as_i64()));
    assert!(journal.is_sorted_by_key(|entry| text(entry, "at")));
    assert_eq!(journal[1]["slot"], 0);
    assert!([1, 2, 4].iter().all(|n: &usize| journal[*n]["hash"] == done["hash"]));

    // It is found by every name it has.
    let by_request = format!("/api/v1/tx/by-request?signer={}&requestId=invoice%2017%2F%C3%A4", signer(0));
    assert_eq!(api.get(&by_request).await.expect(200)["txId"], json!(id));
    let lower = signer(0).to_lowercase();
    let found = api
        .list(&format!("&hash={}&signer={lower}&chainId=31337&state=confirmed", text(&done, "hash")))
        .await;
    assert_eq!(found.len(), 1);
    assert_eq!(text(&found[0], "txId"), id);
    assert_eq!(chain.landed().await.len(), 1);
}

#[tokio::test]
async fn lists_are_newest_first_filtered_and_given_page_by_page() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings { signers: 2, ..Settings::default() }).await;
    let api = &server.api;
    let batch: Vec<Value> = (0..7)
        .map(|n| {
            let mut body = transfer_as(&format!("list-{n}"));
            body["signer"] = json!(signer(n % 2));
            body
        })
        .collect();
    let items = api.post("/api/v1/tx/batch", &json!({ "items": batch })).await.expect(200)["items"].clone();
    let mut newest_first: Vec<String> = items.as_array().unwrap().iter().map(|i| text(i, "txId")).collect();
    newest_first.reverse();

    let mut seen = Vec::new();
    let mut query = "limit=3".to_owned();
    let mut pages = 0;
    loop {
        let page = api.get(&format!("/api/v1/tx?{query}")).await.expect(200);
        let ids: Vec<String> = page["items"].as_array().unwrap().iter().map(|tx| text(tx, "txId")).collect();
        assert!(ids.len() <= 3);
        seen.extend(ids);
        pages += 1;
        let Some(next) = page["nextCursor"].as_str() else { break };
        query = format!("limit=3&cursor={next}");
    }
    assert_eq!((seen, pages), (newest_first, 3));

    let of = async |filter: &str| api.list(filter).await.len();
    assert_eq!(of(&format!("&signer={}", signer(0))).await, 4);
    assert_eq!(of(&format!("&signer={}", signer(1))).await, 3);
    assert_eq!(of(&format!("&signer={}", signer(5))).await, 0);
    assert_eq!((of("&chainId=31337").await, of("&chainId=1").await), (7, 0));
    until("all are broadcast", async || (of("&state=broadcast").await == 7).then_some(())).await;
    assert_eq!(of("&state=confirmed").await, 0);
    chain.mine(1).await;
    until("all are mined", async || (of("&state=mined").await == 7).then_some(())).await;
    chain.mine(1).await;
    until("all are confirmed", async || (of("&state=confirmed").await == 7).then_some(())).await;
    assert_eq!(of(&format!("&state=confirmed&signer={}", signer(1))).await, 3);
}

#[tokio::test]
async fn a_contract_is_created_and_called() {
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;

    let id = api.submit(&submission(json!({ "data": creation(KEEPER) }))).await;
    let created = api.until_state(&id, "confirmed").await;
    let contract = text(&created["receipt"], "contractAddress");
    let code = chain.call("eth_getCode", json!([contract, "latest"])).await;
    assert_eq!(code, json!(format!("0x{KEEPER}")));
    assert!(created["payload"]["to"].is_null());

    let word = format!("0x{:064x}", 42);
    let id = api.submit(&submission(json!({ "to": contract, "data": word }))).await;
    let called = api.until_state(&id, "confirmed").await;
    assert_eq!(called["nonce"], 1);
    assert_eq!(chain.call("eth_getStorageAt", json!([contract, "0x0", "latest"])).await, json!(word));
    // The gas was estimated, with room above what was used, since the chain moves between the two.
    let (limit, used) = (&called["attempts"][0]["gas"], &called["receipt"]["gasUsed"]);
    assert!(limit.as_u64() > used.as_u64(), "{limit} {used}");
}

#[tokio::test]
async fn a_call_that_would_revert_fails_without_a_slot_and_one_with_given_gas_is_mined_and_reverted() {
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    let id = api.submit(&submission(json!({ "data": creation(REVERTER) }))).await;
    let created = api.until_state(&id, "confirmed").await;
    let contract = text(&created["receipt"], "contractAddress");

    let id = api.submit(&submission(json!({ "to": contract }))).await;
    let failed = api.until_state(&id, "failed").await;
    assert_eq!(text(&failed["reason"], "code"), "would_revert");
    assert!(text(&failed["reason"], "text").contains("nope"), "{failed}");
    assert!(failed["nonce"].is_null() && failed["hash"].is_null(), "it took no slot: {failed}");
    assert_eq!(api.time_line(&id).await, ["accepted", "failed"]);
    assert_eq!(chain.count(&signer(0)).await, 1);

    let id = api.submit(&submission(json!({ "to": contract, "gas": 60_000 }))).await;
    let reverted = api.until_state(&id, "reverted").await;
    assert_eq!(reverted["nonce"], 1);
    assert_eq!(text(&reverted["reason"], "code"), "reverted");
    assert_eq!(reverted["receipt"]["status"], "reverted");
    assert_eq!(chain.receipt(&text(&reverted, "hash")).await["status"], "0x0");
    let line = api.time_line(&id).await;
    assert_eq!((line.first(), line.last()), (Some(&"accepted".to_owned()), Some(&"reverted".to_owned())));

    // Neither holds up what comes after.
    let id = api.submit(&transfer()).await;
    assert_eq!(api.until_state(&id, "confirmed").await["nonce"], 2);
}

#[tokio::test]
async fn legacy_access_list_and_dynamic_fee_transactions_land_as_what_they_are() {
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    let gwei = |n: u64| format!("{n}000000000");
    let list = json!([{ "address": RECEIVER, "storageKeys": [format!("0x{:064x}", 7)] }]);

    for (payload, kind, shown) in [
        (json!({ "gasPrice": gwei(3) }), "0x0", json!({ "gasPrice": gwei(3) })),
        (json!({ "type": 0 }), "0x0", json!({})),
        (
            json!({ "type": "0x1", "gasPrice": gwei(3), "accessList": list }),
            "0x1",
            json!({ "accessList": list }),
        ),
        (json!({ "type": 2, "accessList": list }), "0x2", json!({ "accessList": list })),
        (
            json!({ "maxFeePerGas": gwei(5), "maxPriorityFeePerGas": gwei(1) }),
            "0x2",
            json!({ "maxFeePerGas": gwei(5), "maxPriorityFeePerGas": gwei(1) }),
        ),
        (json!({}), "0x2", json!({})),
    ] {
        let mut asked = payload.clone();
        asked["to"] = json!(RECEIVER);
        asked["value"] = json!("5");
        let id = api.submit(&submission(asked)).await;
        let done = api.until_state(&id, "confirmed").await;
        let on_chain = chain.call("eth_getTransactionByHash", json!([text(&done, "hash")])).await;
        assert_eq!(text(&on_chain, "type"), kind, "{payload}");
        for (name, value) in shown.as_object().unwrap() {
            assert_eq!(&done["payload"][name], value, "{payload}");
        }
        if kind != "0x0" && payload.get("accessList").is_some() {
            assert_eq!(on_chain["accessList"][0]["storageKeys"], list[0]["storageKeys"]);
        }
        if let Some(price) = payload.get("gasPrice").and_then(Value::as_str) {
            let price: u64 = price.parse().unwrap();
            assert_eq!(on_chain["gasPrice"], json!(format!("{price:#x}")));
        }
    }
}

#[tokio::test]
async fn a_sender_that_delegates_its_own_code_uses_two_nonces_and_the_next_goes_on_after_them() {
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let listed = "delegate_to = [\"0xa0Ee7A142d267C1f36714E4a8F75612F20a79720\"]";
    let server = Server::start(&chain.url(), Settings { signer: listed, ..Settings::default() }).await;
    let api = &server.api;
    let list = json!([{ "address": RECEIVER }]);
    let delegating = submission(json!({ "to": RECEIVER, "value": "5", "authorizationList": list }));
    let (first, second) = (api.submit(&delegating).await, api.submit(&transfer()).await);
    let done = api.until_state(&first, "confirmed").await;
    assert_eq!(
        (&done["nonce"], &done["payload"]["authorizationList"][0]["address"]),
        (&json!(0), &json!(RECEIVER))
    );
    let on_chain = chain.call("eth_getTransactionByHash", json!([text(&done, "hash")])).await;
    assert_eq!(
        (text(&on_chain, "type").as_str(), text(&on_chain["authorizationList"][0], "nonce").as_str()),
        ("0x4", "0x1")
    );
    let signed_for = text(&on_chain["authorizationList"][0], "chainId");
    assert_eq!(signed_for, "0x7a69", "for its chain and for no other");
    let next = api.until_state(&second, "confirmed").await;
    assert_eq!(next["nonce"], 2);
    let sender = text(&next, "signer");
    let code = chain.call("eth_getCode", json!([sender, "latest"])).await;
    assert_eq!(code, json!(format!("0xef0100{}", RECEIVER[2..].to_lowercase())));
}

#[tokio::test]
async fn finality_that_the_chain_lacks_is_refused_at_every_door_and_what_was_let_in_before_says_so() {
    let chain = Chain::without_mining().await;
    let mut server = Server::start(&chain.url(), two_blocks_on_top()).await;
    let asking = |key: &str, finality: Value| {
        let mut body = transfer_as(key);
        body["options"] = json!({ "finality": finality });
        body
    };
    let known = asking("before", json!("finalized"));
    let id = until("the chain was seen, and it is let in", async || {
        let answer = server.api.post("/api/v1/tx", &known).await;
        if answer.status == 503 {
            answer.expect_problem(503, "finality_unknown");
            return None;
        }
        Some(text(&answer.expect(202), "txId"))
    })
    .await;
    server.api.until_state(&id, "broadcast").await;
    chain.mine(1).await;
    server.api.until_state(&id, "mined").await;

    // From here on the nodes know no such blocks.
    let untagged = Settings { chain: "tags = false", ..two_blocks_on_top() };
    server.restart_with(1, &chain.url(), &untagged).await;
    let api = &server.api;
    let stuck = api
        .until_tx(&id, "it says what it waits for", |tx| {
            text(tx, "stuckReason").contains("no endpoint knows a finalized block")
        })
        .await;
    assert_eq!(stuck["state"], "mined");
    for tag in ["safe", "finalized"] {
        let refused = asking("refused", json!(tag));
        let detail = api.post("/api/v1/tx", &refused).await.expect_problem(422, "finality_unavailable");
        assert!(detail.contains(tag) && detail.contains("2 blocks"), "{detail}");
        let batch = json!([refused, asking("in a batch", json!(3))]);
        let items = api.post("/api/v1/tx/batch", &batch).await.expect(200)["items"].clone();
        let codes = (&items[0]["status"], &items[0]["code"], &items[0]["field"]);
        assert_eq!(
            codes,
            (&json!(422), &json!("finality_unavailable"), &json!("options.finality")),
            "{items}"
        );
    }
    let again = api.post("/api/v1/tx", &known).await.expect(200);
    assert_eq!(text(&again, "txId"), id, "what was let in is answered as before");
    let depth = api.submit(&asking("by depth", json!(2))).await;
    api.until_state(&depth, "broadcast").await;
    chain.mine(3).await;
    api.until_state(&depth, "confirmed").await;
}

#[tokio::test]
async fn a_caller_may_ask_for_less_finality_than_the_chain_is_configured_with() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings { finality: 5, ..Settings::default() }).await;
    let api = &server.api;
    let mut hasty = transfer();
    hasty["options"] = json!({ "finality": 0 });
    let (hasty, patient) = (api.submit(&hasty).await, api.submit(&transfer()).await);
    for id in [&hasty, &patient] {
        api.until_state(id, "broadcast").await;
    }
    chain.mine(1).await;
    let done = api.until_state(&hasty, "confirmed").await;
    assert_eq!((&done["confirmations"], &done["options"]["finality"]), (&json!(0), &json!(0)));
    api.until_state(&patient, "mined").await;
    chain.mine(4).await;
    api.until_tx(&patient, "four blocks on top are seen", |tx| tx["confirmations"] == 4).await;
    assert_eq!(text(&api.tx(&patient).await, "state"), "mined");
    chain.mine(1).await;
    api.until_state(&patient, "confirmed").await;
}

#[tokio::test]
async fn health_says_that_it_lives_and_what_it_sees_of_the_chain() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    api.get("/health/live").await.expect(200);
    chain.mine(3).await;
    let seen = until("the head is seen", async || {
        let ready = api.get("/health/ready").await.expect(200);
        (ready["chains"][0]["head"] == 3).then_some(ready)
    })
    .await;
    assert_eq!((text(&seen, "status").as_str(), &seen["store"]["writable"]), ("ready", &json!(true)));
    assert_eq!(seen["chains"][0]["usable"], true);
    assert!(seen["chains"][0]["trouble"].is_null());
}

// covers: I9, J4
#[tokio::test]
async fn what_ended_long_ago_keeps_its_key_and_its_end_and_loses_its_history() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    // A second and a half; it is looked what may go when the server starts.
    let settings = Settings { store: "keep_finished_days = 0.00002", ..Settings::default() };
    let mut server = Server::start(&chain.url(), settings).await;
    let old = server.api.submit(&transfer_as("old")).await;
    let landed = server.api.until_state(&old, "confirmed").await;
    let young = server.api.submit(&transfer_as("young")).await;
    server.api.until_state(&young, "confirmed").await;
    // Its slot is watched until the chain cannot take it back any more.
    chain.mine(200).await;
    let kept = until("its history is removed", async || {
        pass(Duration::from_secs(2)).await;
        server.restart_after_kill().await;
        let tx = server.api.tx(&old).await;
        (tx["removed"] == true).then_some(tx)
    })
    .await;
    let api = &server.api;
    for name in
        ["txId", "chainId", "signer", "requestId", "state", "hash", "nonce", "acceptedAt", "updatedAt"]
    {
        assert_eq!(kept[name], landed[name], "{name}: {kept}");
    }
    assert!(kept.get("attempts").is_none() && kept.get("payload").is_none(), "{kept}");
    let by_key = format!("/api/v1/tx/by-request?signer={}&requestId=old", signer(0));
    assert_eq!(api.get(&by_key).await.expect(200), kept);
    api.get(&format!("/api/v1/tx/{old}/journal")).await.expect_problem(410, "history_removed");
    api.command(&format!("/api/v1/tx/{old}/cancel")).await.expect_problem(409, "already_final");
    assert!(api.list("").await.iter().all(|tx| tx["txId"] != old.as_str()));

    // A retry that comes so late is told what became of it, and nothing lands again.
    let again = api.post("/api/v1/tx", &transfer_as("old")).await.expect(200);
    assert_eq!(
        (&again["txId"], &again["state"], &again["hash"]),
        (&kept["txId"], &kept["state"], &kept["hash"])
    );
    assert_eq!(again["removed"], true);
    let mut other = transfer_as("old");
    other["payload"]["value"] = json!("2");
    api.post("/api/v1/tx", &other).await.expect_problem(422, "request_id_reused");
    let next = api.submit(&transfer_as("next")).await;
    api.until_state(&next, "confirmed").await;
    assert_eq!(chain.count(&signer(0)).await, 3, "three transactions, three landings");
}

#[tokio::test]
async fn a_retry_is_answered_with_what_exists_also_when_it_would_not_be_taken_in_today() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    let paying = |key: &str| {
        let mut body = transfer_as(key);
        body["payload"]["maxFeePerGas"] = json!("100000000000");
        body
    };
    let id = server.api.submit(&paying("dear")).await;
    server.api.until_state(&id, "confirmed").await;
    let file = server.folder().join("landfall.toml");
    let lower =
        std::fs::read_to_string(&file).unwrap().replace("poll_ms = 100", "poll_ms = 100\nmax_fee_gwei = 50");
    std::fs::write(&file, lower).unwrap();
    server.restart_after_kill().await;
    server.api.post("/api/v1/tx", &paying("another")).await.expect_problem(422, "fee_above_ceiling");
    let again = server.api.post("/api/v1/tx", &paying("dear")).await.expect(200);
    assert_eq!((text(&again, "txId"), text(&again, "state")), (id, "confirmed".to_owned()));
    let mut other = paying("dear");
    other["payload"]["value"] = json!("2");
    server.api.post("/api/v1/tx", &other).await.expect_problem(422, "request_id_reused");
}
