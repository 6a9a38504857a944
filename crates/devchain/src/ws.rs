//! WebSocket connections: every ordinary method, and subscriptions to new heads.

use std::{collections::HashSet, sync::Arc};

use axum::extract::ws::{Message, WebSocket};
use serde_json::{Value, json};
use tokio::sync::{
    broadcast::{Receiver, error::RecvError},
    watch,
};

use crate::{
    block::Block,
    control::Control,
    devchain::until_stopped,
    rpc::{self, Reaction, RpcError, convert},
};

pub(crate) async fn serve(mut socket: WebSocket, control: Control, stopped: watch::Receiver<bool>) {
    tokio::select! {
        () = talk(&mut socket, control) => {}
        () = until_stopped(stopped) => {}
    }
}

/// Ends when the client goes or a fault cuts the connection; dropping the socket closes it.
async fn talk(socket: &mut WebSocket, control: Control) {
    let mut heads = control.heads();
    let mut subscriptions = Subscriptions::default();
    loop {
        let sent = tokio::select! {
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => {
                    let Some(reply) = react(&control, &mut subscriptions, text.as_bytes()).await else { return };
                    send_all(socket, reply).await
                }
                Some(Ok(Message::Binary(bytes))) => {
                    let Some(reply) = react(&control, &mut subscriptions, &bytes).await else { return };
                    send_all(socket, reply).await
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => true,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            },
            head = next_head(&mut heads) => match head {
                Some(block) => send_all(socket, subscriptions.notices(&block)).await,
                None => return,
            },
        };
        if !sent {
            return;
        }
    }
}

async fn next_head(heads: &mut Receiver<Arc<Block>>) -> Option<Arc<Block>> {
    loop {
        match heads.recv().await {
            Ok(block) => return Some(block),
            // As on a real node, a subscriber that is too slow misses heads.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}

async fn send_all(socket: &mut WebSocket, texts: Vec<String>) -> bool {
    for text in texts {
        if socket.send(Message::Text(text.into())).await.is_err() {
            return false;
        }
    }
    true
}

/// The texts to send, or nothing if the connection must end.
async fn react(control: &Control, subscriptions: &mut Subscriptions, body: &[u8]) -> Option<Vec<String>> {
    if let Some(reply) = subscriptions.handle(body) {
        return Some(vec![reply]);
    }
    match rpc::answer(control, body).await {
        Reaction::Reply(text) => Some(vec![text]),
        Reaction::Silence => Some(Vec::new()),
        Reaction::Status(_) | Reaction::HangUp => None,
    }
}

/// The subscriptions of one connection.
#[derive(Default)]
struct Subscriptions {
    open: HashSet<String>,
    made: u64,
}

impl Subscriptions {
    /// Answers `eth_subscribe` and `eth_unsubscribe`; everything else is not its business.
    fn handle(&mut self, body: &[u8]) -> Option<String> {
        let call: Value = serde_json::from_slice(body).ok()?;
        let first = call["params"][0].as_str().unwrap_or_default();
        let result = match call["method"].as_str()? {
            "eth_subscribe" if first == "newHeads" => {
                self.made += 1;
                let id = format!("0x{:x}", self.made);
                self.open.insert(id.clone());
                Ok(json!(id))
            }
            "eth_subscribe" => Err(RpcError::no_subscription(first)),
            "eth_unsubscribe" if self.open.remove(first) => Ok(json!(true)),
            "eth_unsubscribe" => Err(RpcError::server("subscription not found")),
            _ => return None,
        };
        Some(rpc::envelope(call["id"].clone(), result).to_string())
    }

    fn notices(&self, block: &Block) -> Vec<String> {
        let header = convert::header(block);
        let notice = |id: &String| {
            json!({"jsonrpc": "2.0", "method": "eth_subscription", "params": {"subscription": id, "result": header}})
                .to_string()
        };
        self.open.iter().map(notice).collect()
    }
}
