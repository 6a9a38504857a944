//! Every action of a caller in every state, also while blocks are being made: the end is always what the chain shows.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Answer, Api, CHAIN_ID, Chain, Gate, RECEIVER, Server, Settings, marker, number_of, pass, signer,
    submission, text, until,
};

/// A replaced content carries its number plus this.
const REPLACED: u64 = 1_000;
const ACTIONS: [&str; 4] = ["none", "cancel", "replace", "speed-up"];

fn payload(number: u64) -> Value {
    json!({ "to": RECEIVER, "value": "1", "gas": 60_000, "data": marker(number) })
}

/// A transfer that the chain can be asked about.
fn marked(number: u64) -> Value {
    submission(payload(number))
}

async fn act(api: &Api, action: &str, id: &str, number: u64) -> Option<Answer> {
    let path = format!("/api/v1/tx/{id}/{action}");
    Some(match action {
        "none" => return None,
        "replace" => api.post(&path, &json!({ "payload": payload(number + REPLACED) })).await,
        _ => api.command(&path).await,
    })
}

fn lane_path(verb: &str) -> String {
    format!("/api/v1/lanes/{CHAIN_ID}/{}/{verb}", signer(0))
}

async fn steer(api: &Api, verb: &str) -> Value {
    api.command(&lane_path(verb)).await.expect(202)
}

async fn until_lane(api: &Api, what: &str, looks: impl Fn(&Value) -> bool) -> Value {
    until(what, async || {
        let lane = api.lane(&signer(0)).await;
        looks(&lane).then_some(lane)
    })
    .await
}

fn is_terminal(tx: &Value) -> bool {
    ["confirmed", "reverted", "failed", "cancelled", "expired"].contains(&text(tx, "state").as_str())
}

/// What each transaction says of its end is what the blocks show.
async fn compare(api: &Api, chain: &Chain, ids: &BTreeMap<u64, String>) -> BTreeMap<u64, Value> {
    let mut ends = BTreeMap::new();
    for (number, id) in ids {
        ends.insert(*number, api.until_tx(id, "it ends", is_terminal).await);
    }
    let landed = chain.landed().await;
    for (number, tx) in &ends {
        let ours: Vec<_> = landed
            .iter()
            .filter(|landed| number_of(landed).is_some_and(|found| found % REPLACED == *number))
            .collect();
        assert!(ours.len() <= 1, "{number} landed more than once: {ours:?}");
        match (text(tx, "state").as_str(), ours.first()) {
            ("confirmed", Some(landed)) => {
                assert_eq!(landed.hash, text(tx, "hash"), "{tx:#}");
                let replaced = number_of(landed).unwrap() >= REPLACED;
                assert_eq!(tx["wonVersion"] == 2, replaced, "the chain took {landed:?}: {tx:#}");
                assert_eq!(text(&tx["payload"], "data"), landed.input, "what landed is shown: {tx:#}");
            }
            ("cancelled" | "expired" | "failed", None) => {
                if let Some(nonce) = tx["nonce"].as_u64() {
                    let no_op = landed.iter().find(|landed| landed.nonce == nonce).unwrap();
                    assert_eq!((no_op.input.as_str(), &no_op.hash), ("0x", &text(tx, "hash")), "{tx:#}");
                }
            }
            (state, found) => panic!("{number} is {state}, and the chain has {found:?}: {tx:#}"),
        }
    }
    let nonces: Vec<u64> =
        landed.iter().filter(|one| one.from == signer(0).to_lowercase()).map(|one| one.nonce).collect();
    assert!(nonces.iter().copied().eq(0..nonces.len() as u64), "no gap: {nonces:?}");
    ends
}

/// One transaction for each action.
async fn submit_all(api: &Api) -> BTreeMap<u64, String> {
    let mut ids = BTreeMap::new();
    for number in 0..ACTIONS.len() as u64 {
        ids.insert(number, api.submit(&marked(number)).await);
    }
    ids
}

async fn act_on_all(api: &Api, ids: &BTreeMap<u64, String>) {
    for (number, id) in ids {
        if let Some(answer) = act(api, ACTIONS[*number as usize], id, *number).await {
            answer.expect(202);
        }
    }
}

fn state_of(ends: &BTreeMap<u64, Value>, number: u64) -> (String, Value) {
    (text(&ends[&number], "state"), ends[&number]["wonVersion"].clone())
}

/// Mines until nothing is left.
async fn mine_out(api: &Api, chain: &Chain) {
    until("everything has ended", async || {
        chain.mine(1).await;
        let lane = api.lane(&signer(0)).await;
        (lane["waiting"] == 0 && lane["inFlight"] == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn each_action_on_an_accepted_transaction() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    steer(api, "pause").await;
    until_lane(api, "it is paused", |lane| lane["paused"] == true).await;
    let ids = submit_all(api).await;
    act_on_all(api, &ids).await;
    api.until_state(&ids[&1], "cancelled").await;
    api.until_tx(&ids[&2], "it has its new content", |tx| tx["version"] == 2).await;
    steer(api, "resume").await;
    mine_out(api, &chain).await;
    let ends = compare(api, &chain, &ids).await;
    assert_eq!(state_of(&ends, 0), ("confirmed".into(), json!(1)));
    assert_eq!(state_of(&ends, 1), ("cancelled".into(), Value::Null));
    assert_eq!(state_of(&ends, 2), ("confirmed".into(), json!(2)));
    assert_eq!(state_of(&ends, 3), ("confirmed".into(), json!(1)));
    assert_eq!(ends[&2]["attempts"].as_array().unwrap().len(), 1, "the old content was never signed");
}

#[tokio::test]
async fn each_action_on_a_simulated_transaction_that_waits_for_a_slot() {
    let chain = Chain::without_mining().await;
    // Twice the window is prepared ahead: two slots are taken, and all four that wait are looked at.
    let settings = Settings { max_in_flight: 2, chain: "checks = true", ..Settings::default() };
    let server = Server::start(&chain.url(), settings).await;
    let api = &server.api;
    for blocker in [900, 901] {
        let first = api.submit(&marked(blocker)).await;
        api.until_state(&first, "broadcast").await;
    }
    let ids = submit_all(api).await;
    for id in ids.values() {
        api.until_state(id, "simulated").await;
    }
    act_on_all(api, &ids).await;
    api.until_state(&ids[&1], "cancelled").await;
    let checked = |tx: &Value| tx["version"] == 2 && text(tx, "state") == "simulated";
    api.until_tx(&ids[&2], "the new content is simulated too", checked).await;
    mine_out(api, &chain).await;
    let ends = compare(api, &chain, &ids).await;
    assert_eq!(state_of(&ends, 0), ("confirmed".into(), json!(1)));
    assert_eq!(state_of(&ends, 1), ("cancelled".into(), Value::Null));
    assert_eq!(state_of(&ends, 2), ("confirmed".into(), json!(2)));
    assert_eq!(state_of(&ends, 3), ("confirmed".into(), json!(1)));
    assert_eq!(ends[&2]["attempts"].as_array().unwrap().len(), 1, "the old content was never signed");
}

#[tokio::test]
async fn each_action_on_a_signed_transaction_that_no_node_has_seen() {
    let chain = Chain::without_mining().await;
    let mut gate = Gate::shut_before(&chain.url());
    gate.open().await;
    let server = Server::start(&gate.url(), Settings::default()).await;
    let api = &server.api;
    // One that lands first, so that the lane has seen the chain.
    let first = api.submit(&marked(900)).await;
    api.until_state(&first, "broadcast").await;
    gate.shut().await;
    let ids = submit_all(api).await;
    for id in ids.values() {
        api.until_state(id, "signed").await;
    }
    act_on_all(api, &ids).await;
    api.until_tx(&ids[&2], "the new content is signed", |tx| tx["attempts"][1]["version"] == 2).await;
    api.until_tx(&ids[&3], "it has a dearer attempt", |tx| tx["attempts"].as_array().unwrap().len() > 1)
        .await;
    gate.open().await;
    mine_out(api, &chain).await;
    let ends = compare(api, &chain, &ids).await;
    assert_eq!(state_of(&ends, 0), ("confirmed".into(), json!(1)));
    assert_eq!(state_of(&ends, 1), ("cancelled".into(), json!(2)));
    assert_eq!(state_of(&ends, 2), ("confirmed".into(), json!(2)));
    assert_eq!(state_of(&ends, 3), ("confirmed".into(), json!(1)));
}

#[tokio::test]
async fn each_action_on_a_transaction_in_the_pool() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings { resubmit_after_s: 60, ..Settings::default() }).await;
    let api = &server.api;
    let ids = submit_all(api).await;
    for id in ids.values() {
        api.until_state(id, "broadcast").await;
    }
    act_on_all(api, &ids).await;
    for number in 1..=3 {
        let sent = |tx: &Value| tx["attempts"][1]["accepted"] == true;
        let tx = api.until_tx(&ids[&number], "the new attempt is in the pool", sent).await;
        let cap = |at: usize| text(&tx["attempts"][at], "maxFeePerGas").parse::<u128>().unwrap();
        assert!(cap(1) * 100 >= cap(0) * 110, "{tx:#}");
    }
    mine_out(api, &chain).await;
    let ends = compare(api, &chain, &ids).await;
    assert_eq!(state_of(&ends, 0), ("confirmed".into(), json!(1)));
    assert_eq!(state_of(&ends, 1), ("cancelled".into(), json!(2)));
    assert_eq!(state_of(&ends, 2), ("confirmed".into(), json!(2)));
    assert_eq!(state_of(&ends, 3), ("confirmed".into(), json!(1)));
}

#[tokio::test]
async fn each_action_on_a_mined_transaction_comes_too_late_and_on_an_ended_one_is_refused() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings { finality: 3, ..Settings::default() }).await;
    let api = &server.api;
    let ids = submit_all(api).await;
    chain.until_pooled(ids.len() as u64).await;
    chain.mine(1).await;
    for id in ids.values() {
        api.until_state(id, "mined").await;
        let early = api.command(&format!("/api/v1/tx/{id}/retry")).await;
        early.expect_problem(409, "not_ended");
    }
    act_on_all(api, &ids).await;
    api.until_tx(&ids[&2], "the replace was taken", |tx| tx["version"] == 2).await;
    mine_out(api, &chain).await;
    let ends = compare(api, &chain, &ids).await;
    for number in 0..4 {
        assert_eq!(state_of(&ends, number), ("confirmed".into(), json!(1)), "{:#}", ends[&number]);
    }
    assert!(api.time_line(&ids[&2]).await.contains(&"earlier_won".to_owned()));
    for (number, id) in &ids {
        for action in ["cancel", "replace", "speed-up"] {
            let late = act(api, action, id, *number).await.unwrap();
            late.expect_problem(409, "already_final");
        }
        api.command(&format!("/api/v1/tx/{id}/retry")).await.expect_problem(409, "already_confirmed");
    }
}

#[tokio::test]
async fn each_action_on_a_transaction_that_waits_for_a_person() {
    let chain = Chain::with_blocks_every(Duration::from_millis(300)).await;
    let settings = Settings { chain: "approve_above_wei = \"0\"", ..Settings::default() };
    let server = Server::start(&chain.url(), settings).await;
    let api = &server.api;
    let ids = submit_all(api).await;
    let approve = async |number: u64, version: u64| {
        let path = format!("/api/v1/tx/{}/approve", ids[&number]);
        api.post(&path, &json!({ "version": version })).await
    };
    for id in ids.values() {
        api.until_state(id, "awaiting_approval").await;
    }
    act_on_all(api, &ids).await;
    api.until_state(&ids[&1], "cancelled").await;
    let asked = |tx: &Value| tx["version"] == 2 && text(tx, "state") == "awaiting_approval";
    api.until_tx(&ids[&2], "the new content is asked about", asked).await;
    approve(2, 1).await.expect_problem(409, "not_asked");
    let which = api.command(&format!("/api/v1/tx/{}/approve", ids[&2])).await;
    which.expect_problem(409, "version_needed");
    approve(2, 2).await.expect(202);
    approve(0, 1).await.expect(202);
    api.command(&format!("/api/v1/tx/{}/reject", ids[&3])).await.expect(202);
    let ends = compare(api, &chain, &ids).await;
    assert_eq!(state_of(&ends, 0), ("confirmed".into(), json!(1)));
    assert_eq!(state_of(&ends, 2), ("confirmed".into(), json!(2)));
    assert_eq!(text(&ends[&3], "state"), "failed");
    assert_eq!(text(&ends[&3]["reason"], "code"), "rejected");
}

#[tokio::test]
async fn actions_that_race_with_blocks_end_as_the_chain_decides() {
    let chain = Chain::with_blocks_every(Duration::from_millis(150)).await;
    let server = Server::start(&chain.url(), Settings { finality: 2, ..Settings::default() }).await;
    let api = &server.api;
    let mut ids = BTreeMap::new();
    for number in 0..48 {
        ids.insert(number, api.submit(&marked(number)).await);
        // Each is acted on at another moment of its life.
        if let Some(earlier) = number.checked_sub(number % 5) {
            let action = ACTIONS[(number % 4) as usize];
            if let Some(answer) = act(api, action, &ids[&earlier], earlier).await {
                assert!([202, 409].contains(&answer.status), "{}", answer.body);
            }
        }
        pass(Duration::from_millis(30)).await;
    }
    compare(api, &chain, &ids).await;
}

#[tokio::test]
async fn cancel_all_leaves_nothing_and_says_what_it_found() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings { max_in_flight: 4, ..Settings::default() }).await;
    let api = &server.api;
    let mut ids = BTreeMap::new();
    let first = api.submit(&marked(0)).await;
    api.until_state(&first, "broadcast").await;
    chain.mine(1).await;
    api.until_state(&first, "mined").await;
    let batch: Vec<Value> = (1..300).map(marked).collect();
    let answer = api.post("/api/v1/tx/batch", &json!(batch)).await.expect(200);
    for (number, item) in answer["items"].as_array().unwrap().iter().enumerate() {
        ids.insert(number as u64 + 1, text(item, "txId"));
    }
    ids.insert(0, first);
    until_lane(api, "the window is full", |lane| lane["inFlight"].as_u64() >= Some(4)).await;
    let answer = steer(api, "cancel-all").await;
    assert_eq!(answer["tooLate"], 1, "{answer}");
    assert_eq!(answer["queued"], 299, "{answer}");
    let later = api.submit(&marked(400)).await;
    for number in 1..=4 {
        let replaced = |tx: &Value| tx["attempts"][1]["accepted"] == true;
        api.until_tx(&ids[&number], "its no-op is in the pool", replaced).await;
    }
    mine_out(api, &chain).await;
    let ends = compare(api, &chain, &ids).await;
    assert_eq!(text(&ends[&0], "state"), "confirmed");
    assert!((1..300).all(|number| text(&ends[&number], "state") == "cancelled"));
    assert_eq!(text(&api.tx(&later).await, "state"), "confirmed", "it came after");
}

#[tokio::test]
async fn a_disabled_lane_finishes_what_it_has_and_takes_nothing_new_until_it_is_resumed() {
    let chain = Chain::with_blocks_every(Duration::from_millis(300)).await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    let api = server.api.clone();
    let mut known = marked(1);
    known["requestId"] = json!("known");
    let id = api.submit(&known).await;
    steer(&api, "disable").await;
    until_lane(&api, "it is disabled", |lane| lane["disabled"] == true).await;
    server.restart_after_kill().await;
    let detail = api.post("/api/v1/tx", &marked(2)).await.expect_problem(409, "lane_disabled");
    assert!(detail.contains("until an operator resumes it"), "{detail}");
    assert_eq!(text(&api.post("/api/v1/tx", &known).await.expect(200), "txId"), id, "a replay is answered");
    api.until_state(&id, "confirmed").await;
    steer(&api, "resume").await;
    until_lane(&api, "it is enabled", |lane| lane["disabled"] == false).await;
    let next = api.submit(&marked(2)).await;
    api.until_state(&next, "confirmed").await;
}

#[tokio::test]
async fn fill_uses_free_slots_up_and_refuses_those_in_use() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    let id = api.submit(&marked(1)).await;
    api.until_state(&id, "broadcast").await;
    let fill =
        async |from: u64, to: u64| api.post(&lane_path("fill"), &json!({ "from": from, "to": to })).await;
    let detail = fill(0, 3).await.expect_problem(409, "slot_bound");
    assert!(detail.contains(&id), "{detail}");
    fill(3, 4).await.expect_problem(409, "slot_gap");
    fill(2, 1).await.expect_problem(400, "bad_value");
    fill(1, 5_000).await.expect_problem(400, "bad_value");
    fill(1, 3).await.expect(202);
    chain.until_pooled(4).await;
    chain.mine(3).await;
    api.until_state(&id, "confirmed").await;
    let landed = chain.landed().await;
    assert_eq!(
        landed.iter().map(|one| (one.nonce, one.input.len() > 2)).collect::<Vec<_>>(),
        [(0, true), (1, false), (2, false), (3, false)]
    );
    fill(0, 3).await.expect_problem(409, "slot_used");
    steer(api, "reset").await;
    let next = api.submit(&marked(2)).await;
    assert_eq!(api.until_state(&next, "broadcast").await["nonce"], 4, "a reset hands no used slot out again");
}

#[tokio::test]
async fn a_transaction_follows_another_and_ends_with_it_if_that_fails() {
    let chain = Chain::without_mining().await;
    let settings = Settings { finality: 2, signers: 2, ..Settings::default() };
    let server = Server::start(&chain.url(), settings).await;
    let api = &server.api;
    let follow = |number: u64, of: usize, id: &str, state: &str, on_failure: &str| {
        let mut body = marked(number);
        body["signer"] = json!(signer(of));
        body["options"] = json!({ "after": { "txId": id, "state": state, "onFailure": on_failure } });
        body
    };
    let nobody = "01a1e0d3-0d68-723f-adfc-baff0193aae9";
    let unknown = api.post("/api/v1/tx", &follow(9, 0, nobody, "mined", "cancel")).await;
    unknown.expect_problem(422, "unknown_predecessor");
    let first = api.submit(&marked(0)).await;
    api.until_state(&first, "broadcast").await;
    let confirmed = api.submit(&follow(1, 1, &first, "confirmed", "cancel")).await;
    let mined = api.submit(&follow(2, 0, &first, "mined", "cancel")).await;
    let behind = api.submit(&marked(3)).await;
    api.until_state(&behind, "broadcast").await;
    let waits = |tx: &Value| text(tx, "stuckReason").contains(&first);
    for id in [&confirmed, &mined] {
        assert!(api.until_tx(id, "it says what it waits for", waits).await["nonce"].is_null());
    }
    chain.mine(1).await;
    api.until_state(&mined, "broadcast").await;
    assert_eq!(text(&api.tx(&confirmed).await, "state"), "accepted");
    chain.mine(2).await;
    api.until_state(&confirmed, "broadcast").await;
    let doomed = api.submit(&marked(4)).await;
    api.until_state(&doomed, "broadcast").await;
    let cancelled = api.submit(&follow(5, 1, &doomed, "confirmed", "cancel")).await;
    let held = api.submit(&follow(6, 1, &doomed, "mined", "hold")).await;
    api.command(&format!("/api/v1/tx/{doomed}/cancel")).await.expect(202);
    api.until_tx(&doomed, "its no-op is out", |tx| tx["attempts"][1]["accepted"] == true).await;
    chain.mine(3).await;
    let ended = api.until_state(&cancelled, "cancelled").await;
    assert_eq!(text(&ended["reason"], "code"), "predecessor_failed");
    api.until_tx(&held, "it is held", |tx| text(tx, "stuckReason").contains("approve it")).await;
    api.command(&format!("/api/v1/tx/{held}/approve")).await.expect(202);
    api.until_state(&held, "broadcast").await;
    chain.mine(3).await;
    for id in [&first, &confirmed, &mined, &behind, &held] {
        api.until_state(id, "confirmed").await;
    }
    let blocks: BTreeMap<u64, u64> =
        chain.landed().await.iter().filter_map(|one| Some((number_of(one)?, one.block))).collect();
    assert!(blocks[&0] < blocks[&2] && blocks[&0] < blocks[&1], "{blocks:?}");
}

#[tokio::test]
async fn an_ended_transaction_is_done_again_once_and_both_name_each_other() {
    let chain = Chain::with_blocks_every(Duration::from_millis(300)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    steer(api, "pause").await;
    let id = api.submit(&marked(7)).await;
    api.command(&format!("/api/v1/tx/{id}/cancel")).await.expect(202);
    api.until_state(&id, "cancelled").await;
    steer(api, "resume").await;
    let retry = format!("/api/v1/tx/{id}/retry");
    let answer = api.command(&retry).await.expect(202);
    let again = text(&answer, "txId");
    assert_ne!(again, id);
    assert_eq!(text(&api.command(&retry).await.expect(200), "txId"), again, "asking twice is one retry");
    let done = api.until_state(&again, "confirmed").await;
    assert_eq!(text(&done, "retryOf"), id);
    assert_eq!(text(&api.tx(&id).await, "retriedAs"), again);
    let landed = chain.landed().await;
    assert_eq!(landed.iter().filter(|one| number_of(one) == Some(7)).count(), 1);
}

#[tokio::test]
async fn a_command_with_a_key_is_one_command() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    let id = api.submit(&marked(1)).await;
    api.until_state(&id, "broadcast").await;
    let keyed = async |verb: &str, key: &str, body: Value| {
        let request = api.request(reqwest::Method::POST, &format!("/api/v1/tx/{id}/{verb}"));
        api.send(request.header("idempotency-key", key).json(&body)).await
    };
    let once = keyed("speed-up", "a", json!({})).await.expect(202);
    let twice = keyed("speed-up", "a", json!({})).await.expect(202);
    assert_eq!(once["commandId"], twice["commandId"]);
    api.until_tx(&id, "it is sped up", |tx| tx["attempts"].as_array().unwrap().len() == 2).await;
    keyed("speed-up", "a", json!({ "speed": "fast" })).await.expect_problem(422, "request_id_reused");
    let above = json!({ "maxFeePerGas": "900000000000" });
    keyed("speed-up", "b", above).await.expect_problem(422, "fee_above_ceiling");
    keyed("cancel", "c", json!({})).await.expect(202);
    api.until_tx(&id, "its no-op is in the pool", |tx| tx["attempts"][2]["accepted"] == true).await;
    keyed("replace", "d", json!({ "payload": payload(2) })).await.expect_problem(409, "ending");
    mine_out(api, &chain).await;
    api.until_state(&id, "cancelled").await;
    // The answer to a known key stays the same after the end.
    keyed("cancel", "c", json!({})).await.expect(202);
    assert_eq!(chain.landed().await.len(), 1);
}

// covers: K6
#[tokio::test]
async fn what_waits_for_a_signer_that_is_gone_can_be_cancelled_and_what_is_out_says_why_it_stands() {
    let chain = Chain::without_mining().await;
    let settings = Settings { signers: 2, ..Settings::default() };
    let mut server = Server::start(&chain.url(), settings.clone()).await;
    let api = server.api.clone();
    let of_second = |number: u64| {
        let mut body = marked(number);
        body["signer"] = json!(signer(1));
        body
    };
    let out = api.submit(&of_second(1)).await;
    api.until_state(&out, "broadcast").await;
    let pause = format!("/api/v1/lanes/{CHAIN_ID}/{}/pause", signer(1));
    api.command(&pause).await.expect(202);
    let waiting = api.submit(&of_second(2)).await;
    server.restart_with(1, &chain.url(), &settings).await;
    let why = text(&api.tx(&waiting).await, "stuckReason");
    assert!(why.contains("no signer is configured") && why.contains("cancel it"), "{why}");
    api.command(&format!("/api/v1/tx/{waiting}/cancel")).await.expect(202);
    api.until_state(&waiting, "cancelled").await;
    api.command(&format!("/api/v1/tx/{out}/cancel")).await.expect(202);
    let tx = api.until_tx(&out, "the cancel was taken", |tx| tx["cancelling"] == true).await;
    assert!(text(&tx, "stuckReason").contains("may still land"), "{tx:#}");
    api.command(&pause).await.expect_problem(422, "unknown_signer");
    // The signer is back, and the no-op goes out.
    server.restart_with(2, &chain.url(), &settings).await;
    api.until_tx(&out, "its no-op is out", |tx| tx["attempts"][1]["accepted"] == true).await;
    chain.mine(2).await;
    api.until_state(&out, "cancelled").await;
}
