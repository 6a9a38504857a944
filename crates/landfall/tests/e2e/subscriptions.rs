//! Subscriptions of callers with small keys: what they are told takes room as every answer does, and they are told when there is none.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::pass_through::{guarded, key_of, most_memory};
use super::rpc::{Rpc, path};
use super::support::{Api, Chain, Parrot, Server};

const MEGABYTE: u64 = 1_000_000;
/// The room of all answers, and a little of everything else. What ten sockets are told at once is more than that.
const MOST_GROWN: u64 = (64 << 20) + 13 * MEGABYTE;

pub(crate) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A socket of this caller that is subscribed so often to logs which the node makes as long as told.
pub(crate) async fn subscribed(api: &Api, times: usize, said: &Value) -> Socket {
    let mut request = format!("{}{}", api.url().replace("http", "ws"), path()).into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {}", api.key()).parse().unwrap());
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    for id in 0..times {
        let params = json!(["logs", { "topics": { "parrot": said } }]);
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "eth_subscribe", "params": params });
        socket.send(Message::text(call.to_string())).await.unwrap();
        let answer = next(&mut socket).await.unwrap();
        assert!(answer["result"].is_string(), "{answer}");
    }
    socket
}

/// The next text; an error is how the socket was closed.
pub(crate) async fn next(socket: &mut Socket) -> Result<Value, (u16, String)> {
    // Pings come all the time: the limit is one for all of them.
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let message = tokio::time::timeout_at(until, socket.next()).await;
        match message.expect("something comes").expect("a socket says why it ends").unwrap() {
            Message::Text(text) => return Ok(serde_json::from_str(&text).unwrap()),
            Message::Close(Some(frame)) => return Err((frame.code.into(), frame.reason.to_string())),
            Message::Close(None) => return Err((0, String::new())),
            _ => {}
        }
    }
}

#[tokio::test]
async fn subscriptions_take_the_room_of_their_key_and_nobody_elses() {
    let chain = Chain::without_mining().await;
    let node = Parrot::before(&chain.url()).await;
    // Of which one key has a quarter: two of its large answers at once.
    let room = "[rpc]\nmax_answer_bytes_in_flight = 67108864\n";
    let server = Server::start(&node.url(), guarded(room)).await;
    let (greedy, other) = (key_of(&server, "viewer").await, key_of(&server, "viewer").await);
    let mut sockets = Vec::new();
    let large = json!({ "bytes": 8 * MEGABYTE, "items": 100 });
    for _ in 0..10 {
        sockets.push(subscribed(&greedy, 16, &large).await);
    }
    let before = most_memory(server.id());
    chain.mine(1).await;
    // None of them is read. Meanwhile others have their answers.
    let asked = node.asked("eth_getLogs");
    let until = Instant::now() + Duration::from_secs(12);
    let mut answered = 0;
    while Instant::now() < until {
        let began = Instant::now();
        let logs = Rpc(&other).get("eth_getLogs", json!([{ "parrot": { "bytes": MEGABYTE } }])).await;
        assert_eq!(logs[0].as_str().unwrap().len() as u64, MEGABYTE);
        assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
        answered += 1;
    }
    assert!(node.asked("eth_getLogs") > asked + answered, "subscriptions were asked for");
    let grown = most_memory(server.id()).saturating_sub(before);
    assert!(grown < MOST_GROWN, "it grew by {grown} bytes");
    drop(sockets);

    // Those who read are told everything, one after the other.
    let (items, times) = (20, 16);
    let small = json!({ "bytes": MEGABYTE, "items": items });
    let mut sockets = Vec::new();
    for _ in 0..4 {
        sockets.push(subscribed(&greedy, times, &small).await);
    }
    chain.mine(1).await;
    let read = sockets.into_iter().map(|mut socket| async move {
        let mut told: BTreeMap<String, usize> = BTreeMap::new();
        while told.values().sum::<usize>() < items * times {
            let said = next(&mut socket).await.unwrap();
            assert_eq!(said["params"]["result"].as_str().unwrap().len() as u64, MEGABYTE / items as u64);
            *told.entry(said["params"]["subscription"].to_string()).or_default() += 1;
        }
        told
    });
    for told in futures::future::join_all(read).await {
        assert_eq!(told.into_values().collect::<Vec<_>>(), [items; 16]);
    }
    let grown = most_memory(server.id()).saturating_sub(before);
    assert!(grown < MOST_GROWN, "it grew by {grown} bytes");
}

#[tokio::test]
async fn a_subscriber_that_would_miss_something_is_told_why_its_socket_is_closed() {
    let chain = Chain::without_mining().await;
    let node = Parrot::before(&chain.url()).await;
    let server = Server::start(&node.url(), guarded("[rpc]\nmax_answer_bytes = 2000000\n")).await;
    let viewer = key_of(&server, "viewer").await;
    let mut too_long = subscribed(&viewer, 1, &json!({ "bytes": 3 * MEGABYTE })).await;
    let mut short = subscribed(&viewer, 1, &json!({ "bytes": 1_000 })).await;
    chain.mine(1).await;
    let (code, reason) = next(&mut too_long).await.unwrap_err();
    assert_eq!(code, 1013, "{reason}");
    assert!(
        reason.starts_with("block 1 could not be told") && reason.contains("rpc.max_answer_bytes"),
        "{reason}"
    );
    let said = next(&mut short).await.unwrap();
    assert_eq!(said["method"], "eth_subscription", "another socket goes on");

    // What a socket subscribes to has an end, too.
    let filter = json!({ "address": vec![super::support::RECEIVER; 2_000] });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["logs", filter] });
    short.send(Message::text(call.to_string())).await.unwrap();
    let answer = next(&mut short).await.unwrap();
    assert_eq!(answer["error"]["code"], -32005, "{answer}");
}

async fn ping(socket: &mut Socket, count: usize) {
    for _ in 0..count {
        // It may be closed meanwhile.
        socket.feed(Message::Ping(vec![7; 125].into())).await.ok();
    }
    socket.flush().await.ok();
}

#[tokio::test]
async fn what_was_sent_before_a_socket_is_closed_is_answered_before_the_end() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("")).await;
    let shop = key_of(&server, "submitter").await;
    let mut socket = subscribed(&shop, 0, &Value::Null).await;
    let transfer =
        json!({ "from": super::support::signer(0), "to": super::support::RECEIVER, "value": "0x1" });
    for id in 0..20 {
        let call =
            json!({ "jsonrpc": "2.0", "id": id, "method": "eth_sendTransaction", "params": [transfer] });
        socket.feed(Message::text(call.to_string())).await.unwrap();
    }
    ping(&mut socket, 110).await;
    let mut answered = 0;
    let (code, reason) = loop {
        match next(&mut socket).await {
            Ok(answer) => answered += usize::from(answer["result"].is_string()),
            Err(why) => break why,
        }
    };
    assert_eq!((answered, code), (20, 1008), "{reason}");
}

#[tokio::test]
async fn a_socket_that_is_pinged_without_end_is_closed_with_the_reason_and_others_stay() {
    let server = Server::start("http://127.0.0.1:1", guarded("")).await;
    let viewer = key_of(&server, "viewer").await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_unsubscribe", "params": ["0x1"] });
    let mut polite = subscribed(&viewer, 0, &Value::Null).await;
    ping(&mut polite, 60).await;
    polite.send(Message::text(call.to_string())).await.unwrap();
    assert_eq!(next(&mut polite).await.unwrap()["result"], false, "it is answered");
    let mut rude = subscribed(&viewer, 0, &Value::Null).await;
    ping(&mut rude, 110).await;
    rude.feed(Message::text(call.to_string())).await.ok();
    rude.flush().await.ok();
    let (code, reason) = next(&mut rude).await.unwrap_err();
    assert_eq!((code, reason.as_str()), (1008, "at most 100 pings and pongs are taken in 10 s"));
}

#[tokio::test]
async fn nobody_is_subscribed_to_a_chain_that_was_not_seen_yet() {
    let server = Server::start("http://127.0.0.1:1", guarded("")).await;
    let viewer = key_of(&server, "viewer").await;
    let mut socket = subscribed(&viewer, 0, &Value::Null).await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"] });
    socket.send(Message::text(call.to_string())).await.unwrap();
    let answer = next(&mut socket).await.unwrap();
    assert_eq!(answer["error"]["data"]["code"], "chain_unavailable", "{answer}");
}
