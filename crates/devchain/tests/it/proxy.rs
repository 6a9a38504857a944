//! The proxy before a node: each fault does what its name says, and is counted.

use landfall_devchain::{Devchain, Proxy, ProxyCounts, Rates};
use serde_json::{Value, json};

use crate::support::{Rpc, eventually, key, start_with, transfer};

struct World {
    chain: Devchain,
    node: Rpc,
    proxy: Proxy,
    rpc: Rpc,
}

async fn world(rates: Rates) -> World {
    let (chain, node) = start_with(|_| {}).await;
    let proxy = Proxy::start(&chain.http_url(), rates, 7).await.unwrap();
    let rpc = Rpc::new(proxy.url());
    World { chain, node, proxy, rpc }
}

const NONE: Rates = Rates {
    lose_reply: 0.0,
    lose_request: 0.0,
    hang: 0.0,
    limit: 0.0,
    bad_gateway: 0.0,
    truncate: 0.0,
    delay: 0.0,
    null_receipts: 0.0,
    stale: 0.0,
    stale_blocks: 5,
    duplicate: 0.0,
    swallow: 0.0,
};

#[tokio::test]
async fn without_faults_single_calls_and_batches_pass() {
    let world = world(NONE).await;
    world.chain.mine(3);
    assert_eq!(world.rpc.head().await, 3);
    let batch = json!([
        { "jsonrpc": "2.0", "id": 5, "method": "eth_blockNumber", "params": [] },
        { "jsonrpc": "2.0", "id": 4, "method": "no_such", "params": [] },
    ]);
    let answers: Value = world.rpc.post(&batch).await.unwrap().json().await.unwrap();
    assert_eq!((&answers[0]["result"], &answers[0]["id"]), (&json!("0x3"), &json!(5)));
    assert!(answers[1]["error"].is_object(), "{answers}");
    assert_eq!(world.proxy.counts(), ProxyCounts { requests: 2, ..ProxyCounts::default() });
}

#[tokio::test]
async fn a_lost_reply_was_acted_on_and_a_lost_request_was_not() {
    for (rates, pooled) in [(Rates { lose_reply: 1.0, ..NONE }, 1), (Rates { lose_request: 1.0, ..NONE }, 0)]
    {
        let world = world(rates).await;
        let sent = world.rpc.try_call("eth_sendRawTransaction", json!([transfer(key(0), 0)])).await;
        assert!(sent.is_err(), "the connection closes: {sent:?}");
        assert_eq!(world.chain.pool_size().pending, pooled);
        assert_eq!(world.proxy.counts().faults(), 1);
    }
}

#[tokio::test]
async fn a_limited_endpoint_says_for_how_long() {
    let world = world(Rates { limit: 1.0, ..NONE }).await;
    let answer = world.rpc.post(&json!({})).await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["retry-after"]), (429, &"1".parse().unwrap()));
}

#[tokio::test]
async fn a_gateway_and_a_broken_answer_are_no_json() {
    for rates in [Rates { bad_gateway: 1.0, ..NONE }, Rates { truncate: 1.0, ..NONE }] {
        let world = world(rates).await;
        assert!(world.rpc.try_call("eth_blockNumber", json!([])).await.is_err());
        assert_eq!(world.proxy.counts().faults(), 1);
    }
}

#[tokio::test]
async fn a_stale_answer_is_the_one_of_an_older_block() {
    let world = world(Rates { stale: 1.0, ..NONE }).await;
    world.chain.mine(10);
    let newest = world.node.call("eth_getBlockByNumber", json!(["latest", false])).await;
    for _ in 0..20 {
        let head = world.rpc.head().await;
        assert!((5..10).contains(&head), "{head}");
        let block = world.rpc.call("eth_getBlockByNumber", json!(["latest", false])).await;
        assert_ne!(block["hash"], newest["hash"]);
        assert_eq!(world.rpc.call("eth_getBlockByHash", json!([newest["hash"], false])).await, Value::Null);
    }
}

#[tokio::test]
async fn a_stale_count_leaves_out_what_is_in_newer_blocks() {
    let world = world(Rates { stale: 1.0, ..NONE }).await;
    world.chain.mine(10);
    world.node.send(&transfer(key(0), 0)).await;
    world.chain.mine(1);
    let from = key(0).text();
    assert_eq!(world.node.count(&from, json!("latest")).await, 1);
    assert_eq!(world.rpc.count(&from, json!("latest")).await, 0);
}

#[tokio::test]
async fn withheld_receipts_are_null_or_missing() {
    let world = world(Rates { null_receipts: 1.0, ..NONE }).await;
    let hash = world.node.send(&transfer(key(0), 0)).await;
    world.chain.mine(1);
    assert!(world.node.receipt(&hash).await.is_object());
    assert_eq!(world.rpc.receipt(&hash).await, Value::Null);
    let of_block = world.rpc.call("eth_getBlockReceipts", json!(["0x1"])).await;
    assert!(of_block.is_null() || of_block == json!([]), "{of_block}");
    assert_eq!(world.proxy.counts().null_receipts, 2);
}

#[tokio::test]
async fn a_swallowed_send_is_answered_with_its_hash_and_goes_nowhere() {
    let world = world(Rates { swallow: 1.0, ..NONE }).await;
    let raw = transfer(key(0), 0);
    let hash = world.rpc.send(&raw).await;
    assert_eq!(world.chain.pool_size().pending, 0);
    assert_eq!(world.node.send(&raw).await, hash);
}

#[tokio::test]
async fn a_duplicated_send_arrives_a_second_time() {
    let world = world(Rates { duplicate: 1.0, ..NONE }).await;
    let hash = world.rpc.send(&transfer(key(0), 0)).await;
    assert!(world.chain.evict(hash.parse().unwrap()));
    eventually("it comes again", async || (world.chain.pool_size().pending == 1).then_some(())).await;
}
