//! An endpoint that does what a test tells it to: answers by script, or misbehaves as gateways do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use alloy_primitives::B256;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// What is said to one request of a packet.
#[derive(Clone)]
pub(crate) enum Say {
    Result(Value),
    Error(i64, &'static str),
    /// No answer for this one, as if it had been forgotten.
    Nothing,
}

/// What is done with a whole HTTP request.
#[derive(Clone, Default)]
pub(crate) enum Mood {
    #[default]
    Answering,
    Http(u16, &'static str),
    /// 429, with the seconds to wait.
    Limited(u32),
    /// Never an answer.
    Silent,
}

/// What is done with batches.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Batches {
    #[default]
    Taken,
    /// One error object for the whole batch: they are not allowed.
    Refused,
    /// One error object for the whole batch: something went wrong.
    Broken,
    /// An HTTP error for the whole batch.
    BadRequest,
    /// One error object for a larger batch.
    AtMost(usize),
}

type Script = Arc<dyn Fn(&Value) -> Say + Send + Sync>;

#[derive(Default)]
struct Shared {
    scripts: Mutex<HashMap<&'static str, Script>>,
    mood: Mutex<Mood>,
    batches: Mutex<Batches>,
    /// The methods asked for, in order; `[` before those of a batch.
    asked: Mutex<Vec<String>>,
}

/// A scripted endpoint on a port of its own; it ends with the test's runtime.
#[derive(Clone)]
pub(crate) struct Stub {
    shared: Arc<Shared>,
    port: u16,
}

impl Stub {
    /// One that serves the development chain and knows nothing else.
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let stub = Self { shared, port };
        stub.on("eth_chainId", |_| Say::Result(json!("0x7a69")));
        stub
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn on(&self, method: &'static str, script: impl Fn(&Value) -> Say + Send + Sync + 'static) {
        self.shared.scripts.lock().unwrap().insert(method, Arc::new(script));
    }

    /// Shows this block as its head and at its number and hash.
    pub(crate) fn head(&self, number: u64, hash: B256) {
        let block = block(number, hash, &[]);
        self.on("eth_getBlockByNumber", move |_| Say::Result(block.clone()));
    }

    pub(crate) fn mood(&self, mood: Mood) {
        *self.shared.mood.lock().unwrap() = mood;
    }

    pub(crate) fn batches(&self, batches: Batches) {
        *self.shared.batches.lock().unwrap() = batches;
    }

    /// How often a method was asked for; `[` counts batches.
    pub(crate) fn asked(&self, method: &str) -> usize {
        self.shared.asked.lock().unwrap().iter().filter(|asked| *asked == method).count()
    }
}

/// A block as nodes show it.
pub(crate) fn block(number: u64, hash: B256, transactions: &[B256]) -> Value {
    json!({
        "number": format!("{number:#x}"), "hash": hash, "parentHash": B256::ZERO, "timestamp": "0x64",
        "gasLimit": "0x1c9c380", "baseFeePerGas": "0x7", "transactions": transactions,
    })
}

/// A receipt as nodes show it.
pub(crate) fn receipt(tx: B256, number: u64, block: B256) -> Value {
    json!({
        "transactionHash": tx, "blockHash": block, "blockNumber": format!("{number:#x}"),
        "transactionIndex": "0x0", "status": "0x1", "gasUsed": "0x5208", "effectiveGasPrice": "0x9",
        "contractAddress": null,
    })
}

async fn answer(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let mood = shared.mood.lock().unwrap().clone();
    match mood {
        Mood::Answering => {}
        Mood::Http(status, text) => return (StatusCode::from_u16(status).unwrap(), text).into_response(),
        Mood::Limited(seconds) => {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", seconds.into());
            return (StatusCode::TOO_MANY_REQUESTS, headers, "slow down").into_response();
        }
        Mood::Silent => std::future::pending().await,
    }
    let packet: Value = serde_json::from_slice(&body).unwrap();
    let said = match &packet {
        Value::Array(requests) => {
            shared.asked.lock().unwrap().push("[".to_owned());
            let whole = |code: i64, text: &str| json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": text}});
            let batches = *shared.batches.lock().unwrap();
            match batches {
                // In reverse: answers may come in any order.
                Batches::AtMost(most) if requests.len() > most => whole(-32600, "batch limit exceeded"),
                Batches::Taken | Batches::AtMost(_) => {
                    requests.iter().rev().filter_map(|request| say(&shared, request)).collect()
                }
                Batches::Refused => whole(-32600, "invalid request"),
                Batches::Broken => whole(-32603, "something went wrong"),
                Batches::BadRequest => return (StatusCode::BAD_REQUEST, "no batch please").into_response(),
            }
        }
        request => say(&shared, request).unwrap_or(Value::Null),
    };
    axum::Json(said).into_response()
}

fn say(shared: &Shared, request: &Value) -> Option<Value> {
    let method = request["method"].as_str().unwrap();
    shared.asked.lock().unwrap().push(method.to_owned());
    let script = shared.scripts.lock().unwrap().get(method).cloned();
    let said = script.map_or(Say::Error(-32601, "the method does not exist/is not available"), |script| {
        script(&request["params"])
    });
    match said {
        Say::Result(result) => Some(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})),
        Say::Error(code, message) => {
            Some(json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}}))
        }
        Say::Nothing => None,
    }
}
