//! One call by one key, over whichever door: what is sent, and what the answer means.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use tonic::transport::Channel;

use super::grpc;
use super::site::{Holder, Named, Reach, Site};
use crate::support::{CHAIN_ID, RECEIVER, http_client, pass};

/// How long events are listened to that must not come.
const SILENCE: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    Rest,
    Events,
    Rpc,
    /// A call among others of one message.
    Batch,
    Socket,
    Grpc,
}

/// A call that the server has.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) door: Door,
    pub(super) method: Method,
    /// The path, or the method of JSON-RPC.
    pub(super) name: &'static str,
    /// The least role that it needs; none: it is open.
    pub(super) least: Option<&'static str>,
    /// Of JSON-RPC, where they are not those of what is named.
    pub(super) params: Option<Value>,
}

/// An answer, with its status in the words of HTTP.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) status: u64,
    pub(super) text: String,
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A key's ways into the server.
pub(super) struct Caller<'a> {
    site: &'a Site,
    pub(super) holder: &'a Holder,
    socket: Result<Box<Socket>, u64>,
    channel: Channel,
    next: u64,
}

impl<'a> Caller<'a> {
    pub(super) async fn new(site: &'a Site, holder: &'a Holder, channel: Channel) -> Self {
        let url = format!("{}/rpc/{CHAIN_ID}", site.server.api.url().replace("http://", "ws://"));
        let mut request = url.as_str().into_client_request().unwrap();
        let bearer = format!("Bearer {}", holder.key).parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        let socket = match tokio_tungstenite::connect_async(request).await {
            Ok((socket, _)) => Ok(Box::new(socket)),
            Err(Error::Http(answer)) => Err(u64::from(answer.status().as_u16())),
            Err(error) => panic!("{}: {error}", holder.who),
        };
        if let Err(status @ (401 | 403)) = socket {
            site.was_sent_away(status, 1);
        }
        let caller = Self { site, holder, socket, channel, next: 0 };
        if holder.reach == Reach::Spent {
            caller.spend().await;
        }
        caller
    }

    /// Asks for so much at once that the key may ask for nothing more in the next minute and a half.
    async fn spend(&self) {
        // What the socket cost is there again.
        pass(SILENCE).await;
        let call = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "eth_chainId", "params": [] });
        let many: Vec<Value> = (1..=1_000).map(call).collect();
        let api = self.site.server.api.with_key(&self.holder.key);
        let answers = api.post(&format!("/rpc/{CHAIN_ID}"), &json!(many)).await.expect(200);
        assert_eq!(answers.as_array().map(Vec::len), Some(1_000), "{answers}");
    }

    /// The answer to a call about the target.
    pub(super) async fn ask(&mut self, call: &Call, named: &Named) -> Said {
        match call.door {
            Door::Rest => self.rest(call, named).await,
            Door::Events => self.events(named).await,
            Door::Rpc => {
                let body = self.message(call, named);
                let api = self.site.server.api.with_key(&self.holder.key);
                let answer = api.post(&format!("/rpc/{CHAIN_ID}"), &body).await;
                self.judged(answer.status.into(), &answer.body)
            }
            Door::Batch => {
                let other = json!({ "jsonrpc": "2.0", "id": 0, "method": "eth_chainId", "params": [] });
                let body = json!([self.message(call, named), other]);
                let api = self.site.server.api.with_key(&self.holder.key);
                let answer = api.post(&format!("/rpc/{CHAIN_ID}"), &body).await;
                let of_call = answer.body.as_array().map_or(&answer.body, |answers| &answers[0]);
                self.judged(answer.status.into(), of_call)
            }
            Door::Socket => self.over_socket(call, named).await,
            Door::Grpc => {
                let said = grpc::ask(&self.channel, call.name, &self.holder.key, named).await;
                self.heard(said, false)
            }
        }
    }

    /// Counts an answer that sends somebody away. Of reads that come too often nothing is written down.
    fn heard(&self, said: Said, is_read: bool) -> Said {
        if matches!(said.status, 401 | 403) || (said.status == 429 && !is_read) {
            self.site.was_sent_away(said.status, 1);
        }
        said
    }

    async fn rest(&self, call: &Call, named: &Named) -> Said {
        let api = self.site.server.api.with_key(&self.holder.key);
        let mut request = api.request(call.method.clone(), &filled(call.name, named));
        if call.method != Method::GET {
            request = request.json(&body(call.name, named));
        }
        let answer = api.send(request).await;
        // Each of several is refused by itself.
        for item in answer.body["items"].as_array().into_iter().flatten() {
            if item["status"] == 403 {
                self.site.was_sent_away(403, 1);
            }
        }
        let said = Said { status: answer.status.into(), text: answer.body.to_string() };
        self.heard(said, call.method == Method::GET)
    }

    /// The stream from the beginning on, until it tells of the target or nothing for a moment.
    async fn events(&self, named: &Named) -> Said {
        let url = format!("{}/api/v1/events?after=0&signer={}", self.site.server.api.url(), named.signer);
        let mut events = http_client().get(url).bearer_auth(&self.holder.key).send().await.unwrap();
        let (status, mut text) = (u64::from(events.status().as_u16()), String::new());
        while !text.contains(&named.tx) {
            match tokio::time::timeout(SILENCE, events.chunk()).await {
                Ok(Ok(Some(chunk))) => text.push_str(&String::from_utf8_lossy(&chunk)),
                Ok(Ok(None) | Err(_)) | Err(_) => break,
            }
        }
        self.heard(Said { status, text }, true)
    }

    fn message(&mut self, call: &Call, named: &Named) -> Value {
        self.next += 1;
        let params = call.params.clone().unwrap_or_else(|| params(call.name, named));
        json!({ "jsonrpc": "2.0", "id": self.next, "method": call.name, "params": params })
    }

    async fn over_socket(&mut self, call: &Call, named: &Named) -> Said {
        let message = self.message(call, named);
        let socket = match &mut self.socket {
            Ok(socket) => socket,
            // It was counted when it was refused.
            Err(status) => return Said { status: *status, text: String::new() },
        };
        socket.send(Message::text(message.to_string())).await.unwrap();
        let answer: Value = loop {
            let Message::Text(text) = socket.next().await.expect("the socket stays open").unwrap() else {
                continue;
            };
            let answer: Value = serde_json::from_str(&text).unwrap();
            // Subscriptions tell of what happens in between.
            if answer["id"] == message["id"] {
                break answer;
            }
        };
        self.judged(200, &answer)
    }

    /// An answer of JSON-RPC.
    fn judged(&self, status: u64, answer: &Value) -> Said {
        let mut text = answer.clone();
        if let Some(map) = text.as_object_mut() {
            map.remove("id");
        }
        let status = match answer["error"]["data"]["code"].as_str() {
            Some("unauthorized") => 401,
            Some("forbidden") => 403,
            Some("not_found") => 404,
            Some("rate_limited") => 429,
            _ if answer["error"].is_object() => 400,
            _ => status,
        };
        self.heard(Said { status, text: text.to_string() }, false)
    }
}

/// The path of a call about what is named.
fn filled(template: &str, named: &Named) -> String {
    let path = template
        .replace("/webhooks/{id}", &format!("/webhooks/{}", named.webhook))
        .replace("/api-keys/{id}", &format!("/api-keys/{}", named.key))
        .replace("{id}", &named.tx)
        .replace("{seq}", &named.seq.to_string())
        .replace("{chain}", &CHAIN_ID.to_string())
        .replace("{signer}", &named.signer);
    assert!(!path.contains('{'), "{template} has a part that this test does not know");
    if path.ends_with("/by-request") {
        return format!("{path}?signer={}&requestId={}", named.signer, named.request);
    }
    path
}

/// The body of a call about what is named.
fn body(template: &str, named: &Named) -> Value {
    match template {
        "/api/v1/tx" => named.transfer(),
        "/api/v1/tx/batch" => json!([named.transfer()]),
        path if path.ends_with("/replace") => json!({ "payload": named.transfer()["payload"] }),
        path if path.ends_with("/settle") => json!({ "taken": "ours" }),
        path if path.starts_with("/rpc/") => {
            json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_accounts", "params": [] })
        }
        _ => json!({}),
    }
}

/// The parameters of a method about what is named.
pub(super) fn params(method: &str, named: &Named) -> Value {
    match method {
        "eth_sendTransaction" | "wallet_sendTransaction" => {
            json!([{ "from": named.signer, "to": RECEIVER, "value": "0x1", "gas": "0x5208" }])
        }
        "wallet_sendCalls" => json!([{
            "version": "2.0.0", "from": named.signer, "chainId": format!("{CHAIN_ID:#x}"), "atomicRequired": false,
            "calls": [{ "to": RECEIVER, "value": "0x1" }],
        }]),
        "wallet_getCapabilities" => json!([named.signer]),
        "wallet_getCallsStatus" => json!([named.bundle]),
        "landfall_getTransaction" | "landfall_getJournal" | "landfall_cancel" | "landfall_speedUp" => {
            json!([named.tx])
        }
        "eth_sendRawTransaction" => json!(["0x02"]),
        "eth_getTransactionCount" => json!([named.signer, "latest"]),
        "eth_getTransactionReceipt" | "eth_getTransactionByHash" => json!([named.hash]),
        "eth_getBlockByNumber" => json!(["latest", false]),
        "eth_subscribe" => json!(["newHeads"]),
        "eth_unsubscribe" => json!(["0x1"]),
        "eth_accounts"
        | "eth_requestAccounts"
        | "eth_chainId"
        | "net_version"
        | "web3_clientVersion"
        | "eth_blockNumber" => json!([]),
        other => panic!("{other} is a method that this test does not know"),
    }
}

/// Whether anybody can ask a node the same, so that the answer is nobody's own.
pub(super) fn is_public(call: &Call) -> bool {
    // New blocks are nobody's own; each subscription has a number of its own.
    is_of_nodes(call) || ["eth_subscribe", "eth_unsubscribe"].contains(&call.name)
}

/// Whether a node knows of it what Landfall may know as well.
pub(super) fn is_of_nodes(call: &Call) -> bool {
    ["eth_getTransactionCount", "eth_getTransactionReceipt", "eth_getTransactionByHash"].contains(&call.name)
}
