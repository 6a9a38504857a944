//! A node that repeats every word callers tell it: a door to a real one that does what a question says of itself.
//!
//! A question whose parameters, or whose topics, hold `{"parrot": {status, code, text, data, plain, lose, silent, bytes, items}}` is
//! answered so, and so is a transaction that has this among its bytes; one with a method that nodes do not have gets its own name
//! back. Everything else is the real node's to answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use alloy_primitives::hex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::http_client;

/// Families of methods whose names nodes know.
const KNOWN: [&str; 14] = [
    "eth_get",
    "eth_call",
    "eth_estimateGas",
    "eth_chainId",
    "eth_blockNumber",
    "eth_feeHistory",
    "eth_gasPrice",
    "eth_maxPriorityFeePerGas",
    "eth_sendRawTransaction",
    "eth_syncing",
    "net_",
    "web3_",
    "txpool_",
    "eth_blobBaseFee",
];

#[derive(Clone)]
pub(crate) struct Parrot {
    url: String,
    there: String,
    http: reqwest::Client,
    asked: Arc<Mutex<BTreeMap<String, u64>>>,
    null: Arc<Mutex<BTreeSet<String>>>,
}

impl Parrot {
    /// One before the node at this URL.
    pub(crate) async fn before(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = format!("http://{}", listener.local_addr().unwrap());
        let (asked, null) = (Arc::default(), Arc::default());
        let parrot = Self { url: here, there: url.to_owned(), http: http_client(), asked, null };
        let serving = parrot.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let parrot = serving.clone();
                tokio::spawn(async move { parrot.serve(socket).await });
            }
        });
        parrot
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// How often a method was asked for.
    pub(crate) fn asked(&self, method: &str) -> u64 {
        self.asked.lock().unwrap().get(method).copied().unwrap_or_default()
    }

    /// Whether a method that is asked for by itself is answered with null from now on.
    pub(crate) fn answers_null(&self, method: &str, does: bool) {
        let mut null = self.null.lock().unwrap();
        null.retain(|known| known != method);
        null.extend(does.then(|| method.to_owned()));
    }

    /// Until either side has had enough.
    async fn serve(&self, socket: TcpStream) -> Option<()> {
        let mut socket = BufReader::new(socket);
        loop {
            let mut length = 0;
            loop {
                let mut line = String::new();
                if socket.read_line(&mut line).await.ok()? == 0 {
                    return None;
                }
                let line = line.trim().to_ascii_lowercase();
                if let Some(said) = line.strip_prefix("content-length:") {
                    length = said.trim().parse().ok()?;
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            socket.read_exact(&mut body).await.ok()?;
            let (status, answer) = self.answer(&serde_json::from_slice(&body).ok()?).await?;
            let head = format!(
                "HTTP/1.1 {status} As-Told\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                answer.len()
            );
            socket.write_all(head.as_bytes()).await.ok()?;
            socket.write_all(answer.as_bytes()).await.ok()?;
        }
    }

    /// A status and a body; none: the connection is lost.
    async fn answer(&self, body: &Value) -> Option<(u64, String)> {
        let calls = body.as_array().map_or(std::slice::from_ref(body), Vec::as_slice);
        for call in calls {
            let method = call["method"].as_str().unwrap_or_default().to_owned();
            *self.asked.lock().unwrap().entry(method).or_default() += 1;
        }
        if let Some((id, said)) = calls.iter().find_map(|call| Some((&call["id"], in_bytes(call)?))) {
            return as_told(id, &said).await;
        }
        if let Value::Object(call) = body {
            let (id, method) = (&body["id"], call["method"].as_str().unwrap_or_default());
            if self.null.lock().unwrap().contains(method) {
                return Some((200, json!({ "jsonrpc": "2.0", "id": id, "result": null }).to_string()));
            }
            let params = body["params"].as_array().into_iter().flatten();
            let said = params.flat_map(|said| [&said["parrot"], &said["topics"]["parrot"]]);
            if let Some(said) = said.into_iter().find(|said| said.is_object()) {
                return as_told(id, said).await;
            }
            if !KNOWN.iter().any(|start| method.starts_with(start)) {
                let message = format!("the method {method} does not exist/is not available");
                let error = json!({ "code": -32601, "message": message });
                return Some((200, json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()));
            }
        }
        let answer = self.http.post(&self.there).json(body).send().await.ok()?;
        Some((200, answer.text().await.ok()?))
    }
}

/// Words among the bytes of a transaction.
fn in_bytes(call: &Value) -> Option<Value> {
    if call["method"] != "eth_sendRawTransaction" {
        return None;
    }
    let bytes = hex::decode(call["params"][0].as_str()?).ok()?;
    let begin = bytes.windows(10).position(|bytes| bytes == br#"{"parrot":"#)?;
    let mut words = serde_json::Deserializer::from_slice(&bytes[begin..]).into_iter::<Value>();
    Some(words.next()?.ok()?["parrot"].clone()).filter(Value::is_object)
}

async fn as_told(id: &Value, said: &Value) -> Option<(u64, String)> {
    if said["lose"] == true {
        return None;
    }
    if said["silent"] == true {
        return std::future::pending().await;
    }
    let status = said["status"].as_u64().unwrap_or(200);
    let text = said["text"].as_str().unwrap_or_default();
    if said["plain"] == true {
        return Some((status, text.to_owned()));
    }
    if let Some(bytes) = said["bytes"].as_u64() {
        let items = said["items"].as_u64().unwrap_or(1);
        let long = format!("\"{}\"", "x".repeat(usize::try_from(bytes / items).unwrap()));
        let long = vec![long; usize::try_from(items).unwrap()].join(",");
        return Some((status, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":[{long}]}}")));
    }
    let mut error = json!({ "code": said["code"].as_i64().unwrap_or(-32000), "message": text });
    if !said["data"].is_null() {
        error["data"] = said["data"].clone();
    }
    Some((status, json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()))
}
