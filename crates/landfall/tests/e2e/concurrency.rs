//! Many callers at once: each transaction gets one slot, each idempotency key one transaction (L14, F14).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::{
    Api, Chain, RECEIVER, Server, Settings, marker, number_of, signer, submission, text, transfer,
    transfer_as,
};

fn marked(number: u64) -> Value {
    submission(json!({ "to": RECEIVER, "value": "0", "data": marker(number), "gas": 30_000 }))
}

/// One request: which transaction, its slot, and when it was made and answered on a clock that only counts.
struct Asked {
    number: u64,
    made: u64,
    answered: u64,
    id: String,
}

async fn ask(api: &Api, clock: &AtomicU64, number: u64) -> Asked {
    let made = clock.fetch_add(1, Ordering::SeqCst);
    let id = api.submit(&marked(number)).await;
    Asked { number, made, answered: clock.fetch_add(1, Ordering::SeqCst), id }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_concurrent_transactions_of_one_signer_take_the_slots_0_to_999_each_once() {
    const COUNT: u64 = 1_000;
    let chain = Chain::with_blocks_every(Duration::from_secs(1)).await;
    let settings = Settings { max_in_flight: 250, resubmit_after_s: 10, ..Settings::default() };
    let server = Server::start(&chain.url(), settings).await;
    let api = &server.api;

    let clock = AtomicU64::new(0);
    let asked = join_all((0..COUNT).map(|number| ask(api, &clock, number))).await;
    let ids: BTreeSet<&str> = asked.iter().map(|asked| asked.id.as_str()).collect();
    assert_eq!(ids.len() as u64, COUNT, "every request is a transaction of its own");
    api.until_all_done(Duration::from_secs(90)).await;

    // The chain: every slot once, every transaction once, nothing else.
    let landed = chain.landed().await;
    let slots: Vec<u64> = landed.iter().map(|landed| landed.nonce).collect();
    assert_eq!(slots, (0..COUNT).collect::<Vec<_>>(), "slots 0 to 999, each once, in order");
    let numbers: BTreeSet<u64> = landed.iter().filter_map(number_of).collect();
    assert_eq!(numbers, (0..COUNT).collect(), "each transaction once");
    assert_eq!(chain.count(&signer(0)).await, COUNT);

    // The store agrees, and lists them in the order in which they were admitted, which is the order of slots.
    let listed = api.list("&state=confirmed").await;
    let nonces: Vec<u64> = listed.iter().filter_map(|tx| tx["nonce"].as_u64()).collect();
    assert_eq!(nonces, (0..COUNT).collect::<Vec<_>>(), "slots rise in the order of admission");
    for (tx, landed) in listed.iter().zip(&landed) {
        assert_eq!(text(tx, "hash"), landed.hash);
        assert_eq!(text(&tx["payload"], "data"), landed.input);
    }

    // One that was answered before another was made has the lower slot.
    let mut slot_of = vec![0; asked.len()];
    for landed in &landed {
        slot_of[usize::try_from(number_of(landed).unwrap()).unwrap()] = landed.nonce;
    }
    let slot = |asked: &Asked| slot_of[usize::try_from(asked.number).unwrap()];
    let pairs = asked.iter().flat_map(|a| asked.iter().map(move |b| (a, b)));
    for (first, then) in pairs.filter(|(first, then)| first.answered < then.made) {
        assert!(slot(first) < slot(then), "{} was answered before {} was asked", first.number, then.number);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_callers_transactions_take_slots_in_the_order_they_were_acknowledged() {
    const CALLERS: u64 = 4;
    const EACH: u64 = 25;
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;

    let clock = &AtomicU64::new(0);
    let caller = async |caller: u64| {
        for n in 0..EACH {
            ask(api, clock, caller * EACH + n).await;
        }
    };
    join_all((0..CALLERS).map(caller)).await;
    api.until_all_done(Duration::from_secs(60)).await;

    let landed = chain.landed().await;
    assert_eq!(landed.len() as u64, CALLERS * EACH);
    for caller in 0..CALLERS {
        let mine: Vec<u64> = landed.iter().filter_map(number_of).filter(|n| n / EACH == caller).collect();
        assert_eq!(mine, (caller * EACH..(caller + 1) * EACH).collect::<Vec<_>>(), "caller {caller}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_concurrent_requests_with_one_request_id_are_one_transaction() {
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;

    let body = Arc::new(transfer_as("the-one"));
    let answers = join_all((0..100).map(|_| {
        let body = body.clone();
        async move { api.post("/api/v1/tx", &body).await }
    }))
    .await;
    let of_status = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((of_status(202), of_status(200)), (1, 99), "one is new, the others are told of it");
    let ids: BTreeSet<String> = answers.iter().map(|answer| text(&answer.body, "txId")).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");

    api.until_all_done(Duration::from_secs(60)).await;
    assert_eq!(chain.landed().await.len(), 1, "one transaction on chain");
    assert_eq!(chain.count(&signer(0)).await, 1);

    // Long after it has landed the key still names it.
    let replay = api.post("/api/v1/tx", &body).await.expect(200);
    assert!(ids.contains(&text(&replay, "txId")));
    assert_eq!(text(&replay, "state"), "confirmed");
    assert_eq!(api.list("").await.len(), 1);
}

#[tokio::test]
async fn an_idempotency_key_stands_for_one_content_and_may_be_a_header() {
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let server = Server::start(&chain.url(), Settings { signers: 2, ..Settings::default() }).await;
    let api = &server.api;
    let with_key = async |key: &str, body: &Value| {
        let request = api.request(reqwest::Method::POST, "/api/v1/tx").header("Idempotency-Key", key);
        api.send(request.json(body)).await
    };

    // The same key with anything else is refused, and says whose it is.
    let id = api.submit(&transfer_as("a")).await;
    for change in [
        json!({ "to": RECEIVER, "value": "2", "gas": 21_000 }),
        json!({ "to": signer(1), "value": "1", "gas": 21_000 }),
        json!({ "to": RECEIVER, "value": "1", "gas": 21_001 }),
        json!({ "to": RECEIVER, "value": "1", "gas": 30_000, "data": "0x00" }),
    ] {
        let mut body = transfer_as("a");
        body["payload"] = change;
        let detail = api.post("/api/v1/tx", &body).await.expect_problem(422, "request_id_reused");
        assert!(detail.contains(&id), "{detail}");
    }
    let mut hurried = transfer_as("a");
    hurried["options"] = json!({ "speed": "fast" });
    api.post("/api/v1/tx", &hurried).await.expect_problem(422, "request_id_reused");

    // Written otherwise, it is still the same content.
    let mut rewritten = transfer_as("a");
    rewritten["signer"] = json!(signer(0).to_lowercase());
    rewritten["payload"] =
        json!({ "to": RECEIVER.to_lowercase(), "value": "0x1", "gas": "21000", "data": "0x" });
    rewritten["options"] = json!({ "speed": "normal" });
    let same = api.post("/api/v1/tx", &rewritten).await.expect(200);
    assert_eq!(text(&same, "txId"), id);

    // The header is the field.
    assert_eq!(text(&with_key("a", &transfer()).await.expect(200), "txId"), id);
    assert_eq!(text(&with_key("a", &transfer_as("a")).await.expect(200), "txId"), id);
    with_key("b", &transfer_as("a")).await.expect_problem(400, "idempotency_keys_differ");
    let by_header = text(&with_key("b", &transfer()).await.expect(202), "txId");
    assert_eq!(text(&api.post("/api/v1/tx", &transfer_as("b")).await.expect(200), "txId"), by_header);

    // A key belongs to its signer: another may use the same one.
    let mut other = transfer_as("a");
    other["signer"] = json!(signer(1));
    assert_ne!(api.submit(&other).await, id);

    // Without a key, twice is two.
    let (first, second) = (api.submit(&transfer()).await, api.submit(&transfer()).await);
    assert_ne!(first, second);

    // In a batch a repeated key is a replay, and each item is answered for itself.
    let batch = json!([transfer_as("c"), transfer_as("c"), hurried, transfer_as("a")]);
    let items = api.post("/api/v1/tx/batch", &batch).await.expect(200)["items"].clone();
    let statuses: Vec<u64> = (0..4).filter_map(|n| items[n]["status"].as_u64()).collect();
    assert_eq!(statuses, [202, 200, 422, 200]);
    assert_eq!(items[0]["txId"], items[1]["txId"]);
    assert_eq!(items[3]["txId"], json!(id));

    api.until_all_done(Duration::from_secs(60)).await;
    assert_eq!(chain.count(&signer(0)).await, 5, "a, b, c and two without a key");
    assert_eq!(chain.count(&signer(1)).await, 1);
}
