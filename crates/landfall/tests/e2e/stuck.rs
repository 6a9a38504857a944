//! What stands in a transaction's way on chain: fees, forgetful pools, reorgs, other users of the key, deadlines.

use serde_json::{Value, json};

use crate::support::{
    Api, Chain, RECEIVER, Server, Settings, program, run, signer, text, transfer, transfer_as, until,
};

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
    assert!(said.starts_with("nonce 0 is ") && said.contains(" gwei under the base fee"), "{said:?}");
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

// covers: H5, L9
#[tokio::test]
async fn what_was_confirmed_and_taken_back_stays_confirmed_raises_an_alarm_and_lands_again() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings { finality: 1, ..Settings::default() }).await;
    let api = &server.api;
    chain.mine(3).await;
    let id = api.submit(&transfer()).await;
    api.until_state(&id, "broadcast").await;
    chain.mine(3).await;
    let done = api.until_state(&id, "confirmed").await;
    let known = done["confirmationBlocks"][0]["hash"].as_str().unwrap().to_owned();
    assert_eq!(known, text(&done["receipt"], "blockHash"));

    chain.call("anvil_reorg", json!([4, []])).await;
    let back = api.until_tx(&id, "its receipt is gone", |tx| tx.get("receipt").is_none()).await;
    assert_eq!(text(&back, "state"), "confirmed");
    assert!(text(&back, "stuckReason").contains("took its block back"), "{back:#}");
    let told = api.get(&format!("/api/v1/tx/{id}/confirmations?after={known}")).await.expect(200);
    assert_eq!((&told["newFork"], &told["items"]), (&json!(true), &json!([])));
    chain.until_pooled(1).await;
    chain.mine(3).await;
    let again = api.until_tx(&id, "it has landed again", |tx| tx.get("receipt").is_some()).await;
    assert_eq!((text(&again, "state"), &again["hash"]), ("confirmed".to_owned(), &done["hash"]));
    let line = api.time_line(&id).await;
    assert!(line.ends_with(&["confirmed", "final_reorged", "landed_again"].map(str::to_owned)), "{line:?}");
    assert_eq!(chain.landed().await.len(), 1);
}

/// Hands over a transfer with this wish, which the pool forgets; what another program sends takes its slot, for good.
async fn displaced(chain: &Chain, api: &Api, wish: &str, foreign: Value) -> String {
    let mut body = transfer();
    body["options"] = json!({ "onDisplaced": wish });
    let id = api.submit(&body).await;
    let hash = api.until_state(&id, "broadcast").await["hash"].clone();
    chain.call("anvil_dropTransaction", json!([hash])).await;
    chain.call("eth_sendTransaction", json!([foreign])).await;
    // Who took it counts once the chain itself calls it final: anvil's `finalized` is 64 blocks behind.
    chain.mine(70).await;
    assert_eq!(chain.count(&signer(0)).await, 1);
    id
}

/// A transfer of the first signer in slot 0, to this account.
fn foreign(to: &str) -> Value {
    json!({ "from": signer(0), "to": to, "value": "0x1", "nonce": "0x0", "gas": "0x7530" })
}

/// The same bytes are sent again so late that the slot stays free for another.
fn patient() -> Settings {
    Settings { finality: 2, resubmit_after_s: 60, ..Settings::default() }
}

#[tokio::test]
async fn a_transaction_whose_slot_another_program_took_lands_once_in_another_if_its_caller_wished_so() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), patient()).await;
    let api = &server.api;
    let id = displaced(&chain, api, "requeue", foreign(&signer(1))).await;
    api.until_tx(&id, "it has another slot", |tx| tx["nonce"] == 1 && tx["state"] == "broadcast").await;
    chain.mine(3).await;
    let done = api.until_state(&id, "confirmed").await;
    let line = api.time_line(&id).await;
    let kinds: Vec<&str> = line.iter().map(String::as_str).filter(|kind| *kind != "send_answered").collect();
    assert_eq!(
        kinds,
        [
            "accepted",
            "signed",
            "broadcast",
            "displaced",
            "requeued",
            "signed",
            "broadcast",
            "mined",
            "confirmed"
        ]
    );
    let landed = chain.landed().await;
    assert_eq!(landed.iter().map(|tx| tx.nonce).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(landed[1].hash, text(&done, "hash"), "ours landed once, after the stranger's");
    assert_eq!(chain.pooled().await, 0, "nothing of ours is left to land");
}

#[tokio::test]
async fn a_transaction_whose_slot_another_program_took_fails_if_its_caller_wished_so() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), patient()).await;
    let api = &server.api;
    let id = displaced(&chain, api, "fail", foreign(&signer(1))).await;
    let failed = api.until_state(&id, "failed").await;
    assert_eq!(text(&failed["reason"], "code"), "displaced");

    let next = api.submit(&transfer()).await;
    api.until_state(&next, "broadcast").await;
    chain.mine(3).await;
    assert_eq!(api.until_state(&next, "confirmed").await["nonce"], 1, "the lane goes on");
    assert_eq!(chain.landed().await.len(), 2);
}

/// As after a restart on an older copy of the store, which has forgotten what was sent since.
#[tokio::test]
async fn a_transaction_whose_slot_went_to_one_that_does_the_same_asks_for_a_person_and_is_not_sent_again() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), patient()).await;
    let api = &server.api;
    let id = displaced(&chain, api, "requeue", foreign(RECEIVER)).await;
    let stuck = api
        .until_tx(&id, "it says what happened", |tx| text(tx, "stuckReason").contains("say whose it was"))
        .await;
    assert_eq!((&stuck["nonce"], &stuck["displaced"]), (&json!(0), &json!(true)), "{stuck:#}");
    let taker = chain.landed().await.remove(0).hash;
    assert!(text(&stuck, "stuckReason").contains(&taker), "{stuck:#}");
    chain.mine(3).await;
    assert_eq!((chain.landed().await.len(), chain.pooled().await), (1, 0));
    // A person has looked, and knows it: that was ours.
    let count = async || {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_getTransactionCount", "params": [signer(0), "latest"] });
        api.post("/rpc/31337", &call).await.expect(200)["result"].clone()
    };
    assert_eq!(count().await, "0x0", "a caller is not told of what no receipt of ours shows");
    // A word on another one is none on this.
    let other = json!({ "taken": "ours", "hash": format!("0x{}", "7".repeat(64)) });
    let settle = format!("/api/v1/tx/{id}/settle");
    let refused = api.post(&settle, &other).await.expect_problem(409, "other_taker");
    assert!(refused.contains(&taker), "{refused}");
    let bad = json!({ "taken": "ours", "hash": "0x7" });
    api.post(&settle, &bad).await.expect_problem(400, "bad_value");
    let settle = async |hash: &str| {
        let mut settle = program(server.folder());
        settle.args(["tx", "settle", &id, "--ours", "--hash", hash, "--url", api.url()]);
        run(settle).await
    };
    let refused = settle(&format!("0x{}", "7".repeat(64))).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.said.contains(&taker), "{}", refused.said);
    let settled = settle(&taker).await;
    assert!(settled.ok(), "{settled:?}");
    let done = api.until_state(&id, "confirmed").await;
    assert_eq!((text(&done, "hash"), &done["wonVersion"]), (taker.clone(), &json!(1)), "{done:#}");
    assert_eq!(text(&done["receipt"], "transactionHash"), taker, "{done:#}");
    assert!(done.get("stuckReason").is_none(), "{done:#}");
    until("its nonce is counted", async || (count().await == "0x1").then_some(())).await;
    let line = api.time_line(&id).await;
    assert!(
        line.ends_with(&["displaced", "taken_alike", "carried_out", "confirmed"].map(str::to_owned)),
        "{line:?}"
    );
    let next = api.submit(&transfer_as("after it")).await;
    api.until_state(&next, "broadcast").await;
    chain.mine(3).await;
    assert_eq!(api.until_state(&next, "confirmed").await["nonce"], 1, "the lane goes on");
    assert_eq!(chain.landed().await.len(), 2);
}

#[tokio::test]
async fn a_cancelled_transaction_whose_slot_went_to_one_that_does_the_same_ends_by_a_persons_word() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), patient()).await;
    let api = &server.api;
    let id = displaced(&chain, api, "requeue", foreign(RECEIVER)).await;
    let settle = format!("/api/v1/tx/{id}/settle");
    api.until_tx(&id, "it says what happened", |tx| text(tx, "stuckReason").contains("say whose it was"))
        .await;
    api.command(&format!("/api/v1/tx/{id}/cancel")).await.expect(202);
    let stuck = api.until_tx(&id, "it is to be cancelled", |tx| tx["cancelling"] == true).await;
    assert!(text(&stuck, "stuckReason").contains("tx settle"), "{stuck:#}");
    api.post(&settle, &json!({})).await.expect_problem(400, "missing_field");
    api.post(&settle, &json!({ "taken": "theirs" })).await.expect_problem(400, "bad_value");
    let stored = api.post(&settle, &json!({ "taken": "foreign" })).await.expect(202);
    assert_eq!(stored["command"], json!({ "type": "settle", "tx": id, "taken": "foreign" }));
    let ended = api.until_state(&id, "cancelled").await;
    assert_eq!(text(&ended["reason"], "code"), "cancelled_by_caller");
    api.post(&settle, &json!({ "taken": "ours" })).await.expect_problem(409, "already_final");

    let other = api.submit(&transfer_as("as it should be")).await;
    let settle = format!("/api/v1/tx/{other}/settle");
    api.post(&settle, &json!({ "taken": "ours" })).await.expect_problem(409, "nothing_to_settle");
    api.until_state(&other, "broadcast").await;
    chain.mine(3).await;
    assert_eq!(api.until_state(&other, "confirmed").await["nonce"], 1);
    assert_eq!(chain.landed().await.len(), 2);
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
