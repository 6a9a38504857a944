//! A caller's nonce in `eth_sendTransaction` names the call: whoever repeats it is told the first hash and pays once, on
//! every node, after every restart, wherever its transaction is by then.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use super::rpc::{Rpc, number};
use super::support::{
    Api, CHAIN_ID, Chain, Database, Gate, Nodes, RECEIVER, Server, Settings, pass, signer, text, until,
};

/// The administrator's key, where there are keys.
const ADMIN: &str = "an administrator's key for these tests";

/// The order in which calls come, and another one in which they are repeated.
const FIRST: [u64; 4] = [1, 0, 3, 2];
const AGAIN: [u64; 4] = [2, 0, 3, 1];

/// Somebody who is paid by one call and nobody else.
fn recipient(payer: usize, nonce: u64) -> String {
    format!("0x{:040x}", 0xbeef_0000 + 1_000 * payer as u64 + nonce)
}

fn payment(payer: usize, nonce: u64) -> Value {
    json!({
        "from": signer(payer), "to": recipient(payer, nonce), "value": format!("{:#x}", 100 + nonce),
        "gas": "0x5208", "nonce": format!("{nonce:#x}"),
    })
}

async fn pay(api: &Api, payer: usize, nonce: u64) -> String {
    let hash = Rpc(api).get("eth_sendTransaction", json!([payment(payer, nonce)])).await;
    hash.as_str().expect("a hash").to_owned()
}

/// The hash of each nonce.
async fn pay_all(api: &Api, payer: usize, order: [u64; 4]) -> Vec<(u64, String)> {
    let mut hashes = Vec::new();
    for nonce in order {
        hashes.push((nonce, pay(api, payer, nonce).await));
    }
    hashes.sort_unstable();
    hashes
}

async fn balance(chain: &Chain, account: &str) -> u64 {
    number(&chain.call("eth_getBalance", json!([account, "latest"])).await)
}

/// Everything that was taken in has landed, and everybody was paid exactly once.
async fn assert_paid_once(api: &Api, chain: &Chain, payer: usize, hashes: &[(u64, String)], others: u64) {
    for (nonce, hash) in hashes {
        let receipt = Rpc(api).until_receipt(hash).await;
        assert_eq!(receipt["status"], "0x1", "nonce {nonce}");
    }
    // A block every second takes as many as may be in flight.
    api.until_all_done(super::support::LIMIT + Duration::from_millis(100 * others)).await;
    for (nonce, _) in hashes {
        assert_eq!(
            balance(chain, &recipient(payer, *nonce)).await,
            100 + nonce,
            "the call with nonce {nonce}"
        );
    }
    assert_eq!(chain.count(&signer(payer)).await, hashes.len() as u64 + others);
}

fn rest(payer: usize, count: usize) -> Value {
    let one = json!({
        "chainId": CHAIN_ID, "signer": signer(payer), "payload": { "to": RECEIVER, "value": "1", "gas": 21_000 },
    });
    Value::Array(vec![one; count])
}

#[tokio::test]
async fn calls_that_are_repeated_after_a_kill_in_another_order_pay_once_and_hear_their_first_hashes() {
    let chain = Chain::without_mining().await;
    let mut server = Server::start(&chain.url(), Settings { signers: 2, ..Settings::default() }).await;
    let api = server.api.clone();
    // The nonces that the second signer's callers give are those of transactions that came by REST.
    api.post("/api/v1/tx/batch", &rest(1, 4)).await.expect(200);
    chain.until_pooled(4).await;
    let plain = pay_all(&api, 0, FIRST).await;
    let mixed = pay_all(&api, 1, FIRST).await;
    server.restart_after_kill().await;
    assert_eq!(pay_all(&api, 0, AGAIN).await, plain);
    assert_eq!(pay_all(&api, 1, AGAIN).await, mixed);
    chain.mine_every(1).await;
    assert_paid_once(&api, &chain, 0, &plain, 0).await;
    assert_paid_once(&api, &chain, 1, &mixed, 4).await;
    // They have ended, and are still known, an hour later by the chain's time as well.
    server.restart_after_kill().await;
    chain.call("evm_increaseTime", json!([3_600])).await;
    chain.mine(1).await;
    assert_eq!(pay_all(&api, 0, [3, 2, 1, 0]).await, plain);
    assert_eq!(pay_all(&api, 1, [3, 2, 1, 0]).await, mixed);
    assert_eq!((chain.count(&signer(0)).await, chain.count(&signer(1)).await), (4, 8));
}

#[tokio::test]
async fn calls_that_are_repeated_at_another_node_pay_once_and_hear_their_first_hashes() {
    let database = Database::any();
    let mut nodes = Nodes::start(2, &database.url, 1, (2.0, 0.5, 0.25)).await;
    let first = pay_all(nodes.api(0), 0, FIRST).await;
    assert_eq!(pay_all(nodes.api(1), 0, AGAIN).await, first, "while the other one is there");
    // Both at once: one of them is the first.
    let (here, there) = tokio::join!(pay(nodes.api(0), 0, 4), pay(nodes.api(1), 0, 4));
    assert_eq!(here, there);
    nodes.nodes[0].server.kill().await;
    assert_eq!(pay_all(nodes.api(1), 0, [3, 1, 2, 0]).await, first, "after it was killed");
    nodes.chain.mine_every(1).await;
    let all: Vec<_> = first.into_iter().chain([(4, here)]).collect();
    assert_paid_once(nodes.api(1), &nodes.chain, 0, &all, 0).await;
}

/// So many are before the calls in the queue. The long form takes all of them to the chain.
fn queue() -> usize {
    if std::env::var_os("LANDFALL_THOROUGH").is_some() { 10_000 } else { 400 }
}

#[tokio::test]
async fn calls_that_waited_behind_a_long_queue_when_the_process_was_killed_pay_once() {
    let chain = Chain::without_mining().await;
    // Without a chain nobody gets a slot.
    let mut gate = Gate::shut_before(&chain.url());
    let settings = Settings { chain: "max_signed_ahead = 20000", ..Settings::default() };
    let mut server = Server::start(&gate.url(), settings).await;
    let api = server.api.clone();
    let queue = queue();
    for _ in 0..queue / 200 {
        api.post("/api/v1/tx/batch", &rest(0, 200)).await.expect(200);
    }
    let calls = FIRST.map(|nonce| {
        let api = api.clone();
        tokio::spawn(async move {
            let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_sendTransaction", "params": [payment(0, nonce)] });
            api.try_send(api.request(reqwest::Method::POST, &super::rpc::path()).json(&call)).await
        })
    });
    until("the calls are stored", async || {
        let lane = api.lane(&signer(0)).await;
        (lane["waiting"].as_u64() == Some(queue as u64 + 4)).then_some(())
    })
    .await;
    server.kill().await;
    for call in join_all(calls).await {
        assert!(call.unwrap().is_none(), "nobody has heard a hash");
    }
    server.spawn();
    server.until_ready().await;
    gate.open().await;
    chain.mine_every(1).await;
    let mut hashes = Vec::new();
    for nonce in AGAIN {
        // Behind so many it may take longer than a call waits.
        let hash = until(format!("nonce {nonce} has a hash"), async || {
            let answer = Rpc(&api).ask("eth_sendTransaction", json!([payment(0, nonce)])).await;
            answer["result"].as_str().map(str::to_owned)
        })
        .await;
        assert_eq!(pay(&api, 0, nonce).await, hash);
        hashes.push((nonce, hash));
    }
    assert_paid_once(&api, &chain, 0, &hashes, queue as u64).await;
}

#[tokio::test]
async fn a_call_whose_history_was_removed_is_still_told_its_first_hash_also_if_another_attempt_won() {
    let chain = Chain::without_mining().await;
    let settings =
        Settings { store: "keep_finished_days = 0.00002", resubmit_after_s: 60, ..Settings::default() };
    let mut server = Server::start(&chain.url(), settings).await;
    let api = server.api.clone();
    let rpc = Rpc(&api);
    let first = pay(&api, 0, 7).await;
    let hurried = rpc.get("landfall_speedUp", json!([first])).await;
    let id = text(&hurried, "txId");
    let dearer = api.until_tx(&id, "a second attempt", |tx| tx["attempts"][1]["hash"].is_string()).await;
    let second = text(&dearer["attempts"][1], "hash");
    assert_eq!(pay(&api, 0, 7).await, first, "although it was re-priced");
    until("the dearer one is in the pool", async || {
        (!chain.call("eth_getTransactionByHash", json!([second])).await.is_null()).then_some(())
    })
    .await;
    chain.mine_every(1).await;
    assert_eq!(text(&rpc.until_receipt(&first).await, "transactionHash"), second);
    api.until_state(&id, "confirmed").await;
    assert_eq!(pay(&api, 0, 7).await, first, "although another attempt won");
    // The newest of all is never removed: another one comes after it.
    let last = api.submit(&super::support::transfer()).await;
    api.until_state(&last, "confirmed").await;
    // Its slot is watched until the chain cannot take it back; it is looked what may go when the server starts.
    chain.mine(200).await;
    until("its history is removed", async || {
        pass(Duration::from_secs(2)).await;
        server.restart_after_kill().await;
        (api.tx(&id).await["removed"] == true).then_some(())
    })
    .await;
    assert_eq!(pay(&api, 0, 7).await, first, "although only its end is known");
    assert_eq!(
        text(&rpc.until_receipt(&first).await, "transactionHash"),
        second,
        "it still leads to the winner"
    );
    let mut other = payment(0, 7);
    other["value"] = json!("0x1");
    let (code, own, message) = rpc.fail("eth_sendTransaction", json!([other])).await;
    assert_eq!((code, own.as_str()), (-32000, "nonce_reused"), "{message}");
    assert!(message.contains(&id), "{message}");
    assert_eq!(balance(&chain, &recipient(0, 7)).await, 107);
    assert_eq!(chain.count(&signer(0)).await, 2);
}

#[tokio::test]
async fn a_nonce_is_one_callers_names_no_slot_and_is_free_again_when_nothing_was_signed() {
    let chain = Chain::without_mining().await;
    let settings = Settings { env: vec![("LANDFALL_ADMIN_KEY", ADMIN.to_owned())], ..Settings::default() };
    let server = Server::start(&chain.url(), settings).await;
    let admin = server.api.with_key(ADMIN);
    let submitter = async |name: &str| {
        let made = admin.post("/api/v1/api-keys", &json!({ "name": name, "role": "submitter" })).await;
        server.api.with_key(&text(&made.expect(201), "key"))
    };
    let (one, other) = (submitter("one").await, submitter("other").await);
    let first = pay(&one, 0, 0).await;
    // Another caller's nonce, and one that is the slot of a transaction which is out.
    let second = pay(&other, 0, 0).await;
    assert_ne!(first, second, "another key is another caller");
    assert_eq!((pay(&one, 0, 0).await, pay(&other, 0, 0).await), (first.clone(), second.clone()));
    let third = pay(&one, 0, 1).await;
    let shown = Rpc(&one).get("eth_getTransactionByHash", json!([third])).await;
    assert_eq!(number(&shown["nonce"]), 2, "the lane gives the next one");
    // Other content is refused in words, dearer is not other.
    let mut changed = payment(0, 1);
    changed["value"] = json!("0x1");
    let (code, own, message) = Rpc(&one).fail("eth_sendTransaction", json!([changed])).await;
    assert_eq!((code, own.as_str()), (-32000, "nonce_reused"), "{message}");
    assert!(message.contains("leave") && message.contains("landfall_speedUp"), "{message}");
    let mut dearer = payment(0, 1);
    dearer["maxFeePerGas"] = json!("0x174876e800");
    assert_eq!(Rpc(&one).get("eth_sendTransaction", json!([dearer])).await, json!(third));
    // One that is refused before anything was signed leaves its nonce to the next.
    let reverts = json!([{ "from": signer(0), "data": "0x5f5ffd", "nonce": "0x9" }]);
    assert_eq!(Rpc(&one).fail("eth_sendTransaction", reverts).await.0, 3);
    let fourth = pay(&one, 0, 9).await;
    assert_eq!(pay(&one, 0, 9).await, fourth);
    // Whoever asks for the next nonce gets one that it has not given yet.
    let pending = async |api: &Api| {
        number(&Rpc(api).get("eth_getTransactionCount", json!([signer(0), "pending"])).await)
    };
    pay(&one, 0, 4).await;
    assert_eq!((pending(&one).await, pending(&other).await), (5, 5));
    pay(&one, 0, 6).await;
    assert_eq!((pending(&one).await, pending(&other).await), (7, 6), "six are out, and it gave 6 itself");
}
