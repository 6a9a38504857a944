//! The caller's and the operator's hand: cancel, pause, resume; and accounts that cannot pay.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Api, CHAIN_ID, Chain, RECEIVER, Server, Settings, signer, submission, text, transfer, until,
};

async fn steer(api: &Api, verb: &str) {
    let answer = api.command(&format!("/api/v1/lanes/{CHAIN_ID}/{}/{verb}", signer(0))).await.expect(202);
    assert!(!text(&answer, "commandId").is_empty(), "{answer}");
    let paused = verb == "pause";
    until(format!("the lane took the {verb}"), async || {
        (api.lane(&signer(0)).await["paused"] == paused).then_some(())
    })
    .await;
}

async fn cancel(api: &Api, id: &str) {
    api.command(&format!("/api/v1/tx/{id}/cancel")).await.expect(202);
}

#[tokio::test]
async fn a_waiting_transaction_is_cancelled_at_once_and_uses_no_slot() {
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    steer(api, "pause").await;
    let (dropped, kept) = (api.submit(&transfer()).await, api.submit(&transfer()).await);
    let waiting = api.until_tx(&dropped, "it says why it waits", |tx| {
        text(tx, "stuckReason").contains("an operator paused the lane")
    });
    assert_eq!(text(&waiting.await, "state"), "accepted");

    cancel(api, &dropped).await;
    let cancelled = api.until_state(&dropped, "cancelled").await;
    assert_eq!(text(&cancelled["reason"], "code"), "cancelled_by_caller");
    assert!(cancelled["nonce"].is_null() && cancelled["attempts"] == json!([]), "{cancelled}");
    assert_eq!(api.time_line(&dropped).await, ["accepted", "cancelled"]);

    steer(api, "resume").await;
    assert_eq!(api.until_state(&kept, "confirmed").await["nonce"], 0);
    assert_eq!(chain.landed().await.len(), 1);
}

#[tokio::test]
async fn a_transaction_in_the_pool_is_cancelled_by_a_no_op_with_its_nonce() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    let (dropped, behind) = (api.submit(&transfer()).await, api.submit(&transfer()).await);
    for id in [&dropped, &behind] {
        api.until_state(id, "broadcast").await;
    }

    cancel(api, &dropped).await;
    // Asking twice changes nothing.
    cancel(api, &dropped).await;
    let cancelling = api.until_tx(&dropped, "the no-op has been sent", |tx| {
        tx["attempts"][1]["noOp"] == true && tx["attempts"][1]["accepted"] == true
    });
    let cancelling = cancelling.await;
    assert_eq!((text(&cancelling, "state").as_str(), &cancelling["cancelling"]), ("broadcast", &json!(true)));
    assert_eq!(cancelling["attempts"].as_array().unwrap().len(), 2);

    chain.mine(2).await;
    let cancelled = api.until_state(&dropped, "cancelled").await;
    assert_eq!((&cancelled["nonce"], &cancelled["wonVersion"]), (&json!(0), &json!(2)));
    assert_eq!(cancelled["cancelling"], false);
    assert_eq!(text(&cancelled["reason"], "code"), "cancelled_by_caller");
    assert_eq!(cancelled["hash"], cancelled["attempts"][1]["hash"]);
    let no_op = chain.call("eth_getTransactionByHash", json!([cancelled["hash"]])).await;
    assert_eq!(
        (&no_op["nonce"], &no_op["value"], &no_op["input"]),
        (&json!("0x0"), &json!("0x0"), &json!("0x"))
    );
    assert_eq!(text(&no_op, "to"), text(&no_op, "from"));

    assert_eq!(api.until_state(&behind, "confirmed").await["nonce"], 1);
    assert_eq!(chain.landed().await.len(), 2);
}

#[tokio::test]
async fn a_cancel_that_comes_too_late_changes_nothing() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings { finality: 3, ..Settings::default() }).await;
    let api = &server.api;
    let id = api.submit(&transfer()).await;
    api.until_state(&id, "broadcast").await;
    chain.mine(1).await;
    api.until_state(&id, "mined").await;
    cancel(api, &id).await;
    api.until_tx(&id, "the cancel was taken", |tx| tx["cancelling"] == true).await;
    chain.mine(3).await;
    let done = api.until_state(&id, "confirmed").await;
    assert_eq!((&done["wonVersion"], &done["cancelling"]), (&json!(1), &json!(false)));
    assert_eq!(chain.landed().await.len(), 1, "no no-op was sent: {:?}", chain.landed().await);

    let late = api.command(&format!("/api/v1/tx/{id}/cancel")).await;
    let detail = late.expect_problem(409, "already_final");
    assert!(detail.contains("confirmed"), "{detail}");
}

#[tokio::test]
async fn a_paused_lane_hands_out_no_slots_also_after_a_restart_and_what_is_out_goes_on() {
    let chain = Chain::without_mining().await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    let api = server.api.clone();
    let out = api.submit(&transfer()).await;
    api.until_state(&out, "broadcast").await;
    steer(&api, "pause").await;
    let held = api.submit(&transfer()).await;
    server.restart_after_kill().await;

    chain.mine(2).await;
    api.until_state(&out, "confirmed").await;
    let lane = until("the lane has counted", async || {
        let lane = api.lane(&signer(0)).await;
        (lane["chainCount"] == 1).then_some(lane)
    })
    .await;
    assert_eq!((&lane["paused"], &lane["healthy"]), (&json!(true), &json!(false)));
    assert!(text(&lane, "holdReason").contains("paused"), "{lane}");
    assert_eq!((&lane["waiting"], &lane["nextNonce"]), (&json!(1), &json!(1)));
    assert_eq!(text(&api.tx(&held).await, "state"), "accepted");

    steer(&api, "resume").await;
    chain.until_pooled(1).await;
    chain.mine(2).await;
    assert_eq!(api.until_state(&held, "confirmed").await["nonce"], 1);
    assert_eq!(api.lane(&signer(0)).await["healthy"], true);
}

#[tokio::test]
async fn a_transaction_that_the_account_cannot_pay_waits_with_a_sentence_and_lands_after_a_top_up() {
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let server = Server::start(&chain.url(), Settings { signers: 3, ..Settings::default() }).await;
    let api = &server.api;
    let fund = async |n: usize, wei: &str| chain.call("anvil_setBalance", json!([signer(n), wei])).await;
    for n in 0..3 {
        fund(n, "0x0").await;
    }
    let of = |n: usize, payload: Value| {
        let mut body = submission(payload);
        body["signer"] = json!(signer(n));
        body
    };
    // With data the node runs the call when it is asked for an estimate, and sees that there is no money.
    let mut refusing = of(2, json!({ "to": RECEIVER, "value": "1", "data": "0x00" }));
    refusing["options"] = json!({ "onInsufficientFunds": "fail" });
    let estimated = api.submit(&of(0, json!({ "to": RECEIVER, "value": "1", "data": "0x00" }))).await;
    let given = api.submit(&of(1, json!({ "to": RECEIVER, "value": "1", "gas": 21_000 }))).await;
    let refusing = api.submit(&refusing).await;

    for id in [&estimated, &given] {
        let tx = api.until_tx(id, "it says that there is no money", |tx| {
            let why = text(tx, "stuckReason").to_lowercase();
            why.contains("waits for funds") || why.contains("cannot pay")
        });
        let tx = tx.await;
        assert_eq!(text(&tx, "state"), "accepted");
        assert!(tx["nonce"].is_null(), "no slot is taken for what cannot be paid: {tx}");
    }
    let failed = api.until_state(&refusing, "failed").await;
    assert_eq!(text(&failed["reason"], "code"), "insufficient_funds");
    assert!(failed["nonce"].is_null(), "{failed}");

    for n in 0..2 {
        fund(n, "0xde0b6b3a7640000").await;
    }
    for id in [&estimated, &given] {
        let done = api.until_state(id, "confirmed").await;
        assert_eq!(done["nonce"], 0);
        // Once the node has taken it, it may seem overdue and be re-priced one time.
        let attempts = done["attempts"].as_array().unwrap();
        assert!(attempts.len() <= 2, "a higher price is no help to an account without funds: {attempts:?}");
    }
}
