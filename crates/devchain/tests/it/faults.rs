//! Every fault, as a client sees it.

use futures::{SinkExt, StreamExt};
use landfall_devchain::{Fault, FaultCounts, PoolSize, Rule};
use serde_json::{Value, json};
use tokio_tungstenite::{connect_async, tungstenite::Message};

use crate::support::{eventually, key, start_with, transfer};

const SEND: &str = "eth_sendRawTransaction";

#[tokio::test]
async fn a_lost_reply_leaves_the_transaction_in_the_pool() {
    let (chain, rpc) = start_with(|_| {}).await;
    chain.add_fault(Rule::always(Fault::LoseReply).on(SEND).times(1));
    let raw = transfer(key(0), 0);
    let lost = rpc.try_call(SEND, json!([raw])).await.unwrap_err();
    assert!(lost.is_request(), "{lost:?}");
    assert!(lost.status().is_none(), "{lost:?}");
    assert_eq!(chain.pool_size().pending, 1);
    assert_eq!(rpc.send_refused(&raw).await.message, "already known");
    assert_eq!(chain.fault_counts(), FaultCounts { lose_reply: 1, ..FaultCounts::default() });
}

#[tokio::test]
async fn a_lost_request_leaves_nothing() {
    let (chain, rpc) = start_with(|_| {}).await;
    chain.add_fault(Rule::always(Fault::LoseRequest).times(1));
    let raw = transfer(key(0), 0);
    assert!(rpc.try_call(SEND, json!([raw])).await.is_err());
    assert_eq!(chain.pool_size(), PoolSize::default());
    rpc.send(&raw).await;
    assert_eq!(chain.fault_counts().lose_request, 1);
}

#[tokio::test]
async fn a_lost_reply_over_websocket_ends_the_connection() {
    let (chain, _rpc) = start_with(|_| {}).await;
    let (mut socket, _) = connect_async(chain.ws_url()).await.unwrap();
    chain.add_fault(Rule::always(Fault::LoseReply).on(SEND).times(1));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": SEND, "params": [transfer(key(0), 0)]});
    socket.send(Message::text(call.to_string())).await.unwrap();
    let end = socket.next().await;
    assert!(!matches!(end, Some(Ok(Message::Text(_)))), "{end:?}");
    assert_eq!(chain.pool_size().pending, 1);
}

#[tokio::test]
async fn a_delayed_call_is_answered_later_than_one_sent_after_it() {
    let (chain, rpc) = start_with(|_| {}).await;
    chain.add_fault(Rule::always(Fault::Delay { ms: 200 }).on("eth_chainId"));
    let slow = rpc.call("eth_chainId", json!([]));
    let quick = rpc.call("eth_blockNumber", json!([]));
    tokio::pin!(slow, quick);
    tokio::select! {
        biased;
        _ = &mut slow => panic!("the delayed call came first"),
        _ = &mut quick => {}
    }
    assert_eq!(slow.await, "0x7a69");
    assert_eq!(chain.fault_counts().delay, 1);
}

#[tokio::test]
async fn a_lagging_node_knows_nothing_of_the_newest_blocks() {
    let (chain, rpc) = start_with(|_| {}).await;
    chain.mine(5);
    let hash = rpc.send(&transfer(key(0), 0)).await;
    chain.mine(1);
    let newest = rpc.call("eth_getBlockByNumber", json!(["latest", false])).await["hash"].clone();
    let rule = chain.add_fault(Rule::always(Fault::Lag { blocks: 2 }));
    assert_eq!(rpc.head().await, 4);
    assert!(rpc.receipt(&hash).await.is_null());
    assert_eq!(rpc.count(&key(0).text(), json!("latest")).await, 0);
    assert_eq!(rpc.count(&key(0).text(), json!("pending")).await, 0);
    assert!(rpc.call("eth_getBlockByNumber", json!(["0x6", false])).await.is_null());
    assert!(rpc.call("eth_getBlockByHash", json!([newest, false])).await.is_null());
    let refused = rpc.refused("eth_getTransactionCount", json!([key(0).text(), {"blockHash": newest}])).await;
    assert_eq!(refused.message, "header for hash not found");
    assert!(chain.remove_fault(rule));
    assert_eq!(rpc.head().await, 6);
    assert_eq!(rpc.receipt(&hash).await["status"], "0x1");
}

#[tokio::test]
async fn withheld_receipts_are_null_and_counted_only_where_there_was_one() {
    let (chain, rpc) = start_with(|_| {}).await;
    let hash = rpc.send(&transfer(key(0), 0)).await;
    chain.add_fault(Rule::always(Fault::NullReceipts));
    assert!(rpc.receipt(&hash).await.is_null());
    assert_eq!(chain.fault_counts().null_receipts, 0);
    chain.mine(1);
    assert!(rpc.receipt(&hash).await.is_null());
    assert!(rpc.call("eth_getBlockReceipts", json!(["latest"])).await.is_null());
    assert_eq!(chain.fault_counts().null_receipts, 2);
    assert_eq!(rpc.count(&key(0).text(), json!("latest")).await, 1);
}

#[tokio::test]
async fn evicted_and_dropped_transactions_are_answered_with_success() {
    let (chain, rpc) = start_with(|_| {}).await;
    for fault in [Fault::EvictAfterAdmit, Fault::SilentDrop] {
        chain.add_fault(Rule::always(fault).times(1));
        let raw = transfer(key(0), 0);
        let hash = rpc.send(&raw).await;
        assert_eq!(chain.pool_size(), PoolSize::default());
        assert!(rpc.call("eth_getTransactionByHash", json!([hash])).await.is_null());
    }
    let counts = chain.fault_counts();
    assert_eq!((counts.evict_after_admit, counts.silent_drop), (1, 1));
    // Only the dropped one was never looked at.
    chain.add_fault(Rule::always(Fault::SilentDrop).times(1));
    rpc.send("0x1234").await;
}

#[tokio::test]
async fn a_refusal_has_the_given_code_and_text() {
    let (chain, rpc) = start_with(|_| {}).await;
    let fault = Fault::Refuse { code: -32005, message: "daily request count exceeded".to_owned() };
    chain.add_fault(Rule::always(fault).on(SEND));
    let refused = rpc.send_refused(&transfer(key(0), 0)).await;
    assert_eq!((refused.code, refused.message.as_str()), (-32005, "daily request count exceeded"));
    assert_eq!(chain.pool_size(), PoolSize::default());
    assert_eq!(rpc.head().await, 0);
}

#[tokio::test]
async fn a_gateway_answers_with_its_own_page_before_or_after_the_work() {
    let (chain, rpc) = start_with(|_| {}).await;
    let page = "<html><body>Bad Gateway</body></html>";
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": SEND, "params": [transfer(key(0), 0)]});
    for (processed, pending) in [(false, 0), (true, 1)] {
        let fault = Fault::HttpStatus { status: 502, body: page.to_owned(), processed };
        chain.add_fault(Rule::always(fault).times(1));
        let reply = rpc.post(&call).await.unwrap();
        assert_eq!(reply.status().as_u16(), 502);
        assert_eq!(reply.headers()["content-type"], "text/html");
        assert_eq!(reply.text().await.unwrap(), page);
        assert_eq!(chain.pool_size().pending, pending);
    }
    assert_eq!(chain.fault_counts().http_status, 2);
}

#[tokio::test]
async fn a_fault_on_one_call_of_a_batch_costs_the_whole_reply() {
    let (chain, rpc) = start_with(|_| {}).await;
    chain.add_fault(Rule::always(Fault::LoseReply).on(SEND).times(1));
    let call = |id: u64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let batch = json!([call(1, "eth_blockNumber", json!([])), call(2, SEND, json!([transfer(key(0), 0)]))]);
    assert!(rpc.post(&batch).await.is_err());
    assert_eq!(chain.pool_size().pending, 1);
}

#[tokio::test]
async fn the_same_seed_loses_the_same_replies() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let (chain, rpc) = start_with(|c| c.seed = 42).await;
        chain.add_fault(Rule::sometimes(Fault::LoseReply, 0.3));
        let mut lost = Vec::new();
        for _ in 0..30 {
            lost.push(rpc.try_call("eth_blockNumber", json!([])).await.is_err());
        }
        assert_eq!(lost.iter().filter(|l| **l).count() as u64, chain.fault_counts().lose_reply);
        runs.push(lost);
    }
    assert_eq!(runs[0], runs[1]);
    assert!(runs[0].contains(&true) && runs[0].contains(&false));
}

#[tokio::test]
async fn a_client_that_sends_again_gets_everything_through() {
    let (chain, rpc) = start_with(|c| c.seed = 7).await;
    chain.add_fault(Rule::sometimes(Fault::LoseReply, 0.3).on(SEND));
    chain.add_fault(Rule::sometimes(Fault::LoseRequest, 0.3).on(SEND));
    chain.add_fault(Rule::sometimes(Fault::SilentDrop, 0.3).on(SEND));
    for nonce in 0..20 {
        let raw = transfer(key(0), nonce);
        eventually("the pool to have it", async || {
            let known = match rpc.try_call(SEND, json!([raw])).await {
                Ok(Err(refused)) => refused.message == "already known",
                Ok(Ok(_)) | Err(_) => false,
            };
            known.then_some(())
        })
        .await;
    }
    chain.mine(1);
    let nonces: Vec<u64> = chain.landed(0).map(|l| l.nonce).collect();
    assert_eq!(nonces, (0..20).collect::<Vec<_>>());
}
