//! What stands in a transaction's way on chain: fees, forgetful pools, reorgs, other users of the key, deadlines.

use serde_json::{Value, json};

use crate::support::{Chain, Server, Settings, signer, text, transfer, transfer_as, until};

const GWEI: u64 = 1_000_000_000;

async fn mine_at(chain: &Chain, base_fee: u64) {
    chain.call("anvil_setNextBlockBaseFeePerGas", json!([format!("{base_fee:#x}")])).await;
    chain.mine(1).await;
}

fn cap(attempt: &Value) -> u64 {
    text(attempt, "maxFeePerGas").parse().unwrap()
}

#[tokio::test]
async fn a_transaction_below_the_base_fee_says_so_is_re_priced_and_lands_once() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    let id = api.submit(&transfer()).await;
    let sent = api.until_state(&id, "broadcast").await;
    assert!(cap(&sent["attempts"][0]) < 20 * GWEI, "{sent}");

    let mut said = String::new();
    until("it is mined at a base fee of 20 gwei", async || {
        mine_at(&chain, 20 * GWEI).await;
        let tx = api.tx(&id).await;
        if text(&tx, "stuckReason").contains("under the base fee") {
            said = text(&tx, "stuckReason");
        }
        (text(&tx, "state") == "mined" || text(&tx, "state") == "confirmed").then_some(())
    })
    .await;
    assert!(said.starts_with("slot 0 is ") && said.contains(" gwei under the base fee"), "{said:?}");
    chain.mine(2).await;
    let done = api.until_state(&id, "confirmed").await;
    let attempts = done["attempts"].as_array().unwrap();
    let winner = attempts.iter().find(|attempt| attempt["hash"] == done["hash"]).unwrap();
    assert!(attempts.len() >= 2 && cap(winner) >= 20 * GWEI, "{attempts:?}");
    assert!(attempts.is_sorted_by_key(cap), "every attempt offers more than the one before");
    assert!(attempts.iter().all(|attempt| attempt["nonce"] == 0));
    let signed = api.time_line(&id).await.iter().filter(|kind| *kind == "signed").count();
    assert_eq!(signed, attempts.len(), "the journal has every attempt");
    let landed = chain.landed().await;
    assert_eq!(landed.len(), 1);
    assert_eq!(landed[0].hash, text(&done, "hash"));
}

#[tokio::test]
async fn what_the_pool_forgets_is_sent_again_with_the_same_bytes() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    let (first, second) = (api.submit(&transfer()).await, api.submit(&transfer()).await);
    let hash = api.until_state(&first, "broadcast").await["hash"].clone();
    api.until_state(&second, "broadcast").await;

    chain.call("anvil_dropTransaction", json!([hash])).await;
    chain.until_pooled(2).await;
    chain.call("anvil_dropAllTransactions", json!([])).await;
    chain.until_pooled(2).await;
    chain.mine(2).await;
    let done = api.until_state(&first, "confirmed").await;
    assert_eq!(done["hash"], hash, "while the chain stands still nothing is re-priced");
    assert!(done["attempts"][0]["sends"].as_u64().unwrap() >= 3, "{done}");
    api.until_state(&second, "confirmed").await;
    assert_eq!(chain.landed().await.len(), 2);
}

#[tokio::test]
async fn a_transaction_whose_block_is_reorganised_away_goes_back_and_lands_again_once() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings { finality: 4, ..Settings::default() }).await;
    let api = &server.api;
    chain.mine(3).await;
    let id = api.submit(&transfer()).await;
    api.until_state(&id, "broadcast").await;
    chain.mine(2).await;
    let mined = api.until_tx(&id, "a block is on top", |tx| tx["confirmations"] == 1).await;
    let first_block = mined["receipt"]["blockHash"].clone();

    chain.call("anvil_reorg", json!([2, []])).await;
    let back = api.until_state(&id, "broadcast").await;
    assert!(back["receipt"].is_null(), "{back}");
    assert_eq!(chain.landed().await, []);
    chain.until_pooled(1).await;
    chain.mine(5).await;
    let done = api.until_state(&id, "confirmed").await;
    assert_ne!(done["receipt"]["blockHash"], first_block);
    assert_eq!(done["nonce"], 0);
    let line = api.time_line(&id).await;
    let kinds: Vec<&str> = line.iter().map(String::as_str).filter(|kind| *kind != "send_answered").collect();
    assert_eq!(kinds, ["accepted", "signed", "broadcast", "mined", "reorged", "mined", "confirmed"]);
    assert_eq!(chain.landed().await.len(), 1);
    assert_eq!(chain.count(&signer(0)).await, 1);
}

#[tokio::test]
async fn a_lane_whose_key_another_program_used_holds_until_an_operator_resumes_it() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    let first = api.submit(&transfer()).await;
    api.until_state(&first, "broadcast").await;
    chain.mine(2).await;
    api.until_state(&first, "confirmed").await;

    let foreign = json!([{ "from": signer(0), "to": signer(1), "value": "0x1" }]);
    chain.call("eth_sendTransaction", foreign).await;
    chain.mine(1).await;
    until("the lane has counted it", async || (api.lane(&signer(0)).await["chainCount"] == 2).then_some(()))
        .await;
    let second = api.submit(&transfer()).await;
    let held = api.until_tx(&second, "it says what happened", |tx| {
        text(tx, "stuckReason").contains("another program uses the key")
    });
    assert_eq!(text(&held.await, "state"), "accepted");
    let lane = api.lane(&signer(0)).await;
    assert_eq!(lane["healthy"], false, "{lane}");

    api.command(&format!("/api/v1/lanes/31337/{}/resume", signer(0))).await.expect(202);
    chain.until_pooled(1).await;
    chain.mine(2).await;
    assert_eq!(api.until_state(&second, "confirmed").await["nonce"], 2);
    assert_eq!(chain.landed().await.len(), 3);
}

#[tokio::test]
async fn a_transaction_that_misses_its_deadline_expires_by_a_no_op_in_its_slot() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings { resubmit_after_s: 60, ..Settings::default() }).await;
    let api = &server.api;
    let mut body = transfer_as("in time or not at all");
    body["options"] = json!({ "deadline": "2100-01-01T00:00:00Z" });
    let id = api.submit(&body).await;
    api.until_state(&id, "broadcast").await;

    // The pool forgets it, and by the chain's clock the deadline passes.
    chain.call("anvil_dropAllTransactions", json!([])).await;
    chain.call("evm_setNextBlockTimestamp", json!([4_102_444_801_u64])).await;
    chain.mine(1).await;
    chain.until_pooled(1).await;
    chain.mine(2).await;
    let expired = api.until_state(&id, "expired").await;
    assert_eq!(text(&expired["reason"], "code"), "deadline_passed");
    assert_eq!((&expired["nonce"], &expired["wonVersion"]), (&json!(0), &json!(2)));
    let landed = chain.landed().await;
    assert_eq!((landed.len(), landed[0].input.as_str()), (1, "0x"));
}
