//! How questions and answers travel: batches, errors, WebSocket.

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::{connect_async, tungstenite::Message};

use super::on_both;
use crate::support::{Node, key, transfer};

on_both!(
    both_ids_name_the_chain,
    a_batch_is_answered_in_order,
    unknown_methods_and_bad_parameters_have_their_codes,
    new_heads_come_over_websocket,
    ordinary_methods_work_over_websocket,
);

async fn both_ids_name_the_chain(node: Node) {
    assert_eq!(node.rpc.call("eth_chainId", json!([])).await, "0x7a69");
    assert_eq!(node.rpc.call("net_version", json!([])).await, "31337");
    assert_eq!(node.rpc.call("eth_syncing", json!([])).await, false);
    assert!(node.rpc.call("web3_clientVersion", json!([])).await.is_string());
}

async fn a_batch_is_answered_in_order(node: Node) {
    let call = |id: u64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let batch = json!([
        call(7, "eth_sendRawTransaction", json!([transfer(key(0), 0)])),
        call(3, "eth_getTransactionCount", json!([key(0).text(), "pending"])),
        call(5, "eth_nothing", json!([])),
    ]);
    let reply: Value = node.rpc.post(&batch).await.unwrap().json().await.unwrap();
    let ids: Vec<u64> = reply.as_array().unwrap().iter().map(|r| r["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [7, 3, 5]);
    assert!(reply[0]["result"].is_string());
    assert_eq!(reply[2]["error"]["code"], -32601);
}

async fn unknown_methods_and_bad_parameters_have_their_codes(node: Node) {
    assert_eq!(node.rpc.refused("eth_nothing", json!([])).await.code, -32601);
    assert_eq!(node.rpc.refused("eth_getBalance", json!([])).await.code, -32602);
    assert_eq!(node.rpc.refused("eth_getBalance", json!(["0x12", "latest"])).await.code, -32602);
    assert_eq!(node.rpc.refused("eth_getTransactionReceipt", json!(["zz"])).await.code, -32602);
}

struct Socket(tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>);

impl Socket {
    async fn open(node: &Node) -> Self {
        Self(connect_async(&node.ws_url).await.unwrap().0)
    }

    async fn next(&mut self) -> Value {
        let message = tokio::time::timeout(std::time::Duration::from_secs(20), self.0.next()).await;
        let text = message.unwrap().unwrap().unwrap().into_text().unwrap();
        serde_json::from_str(&text).unwrap()
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.0.send(Message::text(call.to_string())).await.unwrap();
        self.next().await
    }
}

async fn new_heads_come_over_websocket(node: Node) {
    let mut socket = Socket::open(&node).await;
    let id = socket.call("eth_subscribe", json!(["newHeads"])).await["result"].clone();
    assert!(id.is_string());
    for number in 1..=3 {
        node.mine().await;
        let notice = socket.next().await;
        assert_eq!(notice["method"], "eth_subscription");
        assert_eq!(notice["params"]["subscription"], id);
        let head = &notice["params"]["result"];
        let block = node.rpc.call("eth_getBlockByNumber", json!([format!("0x{number:x}"), false])).await;
        assert_eq!((&head["hash"], &head["number"]), (&block["hash"], &block["number"]));
        assert_eq!(head["parentHash"], block["parentHash"]);
    }
    assert_eq!(socket.call("eth_unsubscribe", json!([id])).await["result"], true);
    node.mine().await;
    // Nothing but the answer comes now.
    assert_eq!(socket.call("eth_blockNumber", json!([])).await["result"], "0x4");
}

async fn ordinary_methods_work_over_websocket(node: Node) {
    let mut socket = Socket::open(&node).await;
    let sent = socket.call("eth_sendRawTransaction", json!([transfer(key(0), 0)])).await;
    node.mine().await;
    let receipt = socket.call("eth_getTransactionReceipt", json!([sent["result"]])).await;
    assert_eq!(receipt["result"]["status"], "0x1");
}
