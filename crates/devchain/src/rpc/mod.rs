//! JSON-RPC as geth speaks it: requests in, answers out, faults in between. Each file holds one kind of method; this
//! one knows how they are named.

mod call;
mod control;
pub(crate) mod convert;
mod error;
mod fees;
mod logs;
mod params;
mod read;
mod send;
mod view;

use std::{borrow::Cow, sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    control::Control,
    faults::{HttpAnswer, Plan},
};

pub(crate) use error::RpcError;
use params::Params;

/// A batch lets other connections have the thread after this many calls.
const TURN: usize = 32;

/// What the connection has to do.
pub(crate) enum Reaction {
    Reply(String),
    /// Nothing but notifications came in.
    Silence,
    Status(HttpAnswer),
    HangUp,
}

/// A result on its way out.
pub(crate) enum Reply {
    Value(Value),
    /// JSON that was written before: what is asked for again and again, and is large.
    Ready(Arc<str>),
}

impl From<Value> for Reply {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

/// One call with what the faults make of it.
pub(crate) struct Call<'a> {
    control: &'a Control,
    params: Params<'a>,
    plan: Plan,
}

/// A request as it came, not copied.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

impl<'a> Request<'a> {
    /// What is no request at all has no method.
    fn read(text: &'a RawValue) -> Self {
        serde_json::from_str(text.get()).unwrap_or_else(|_| {
            #[derive(Deserialize)]
            struct Id<'a> {
                #[serde(borrow, default)]
                id: Option<&'a RawValue>,
            }
            let id = serde_json::from_str::<Id<'a>>(text.get()).ok().and_then(|id| id.id);
            Self { id, method: None, params: None }
        })
    }

    fn name(&self) -> &str {
        self.method.as_deref().unwrap_or_default()
    }
}

/// Processes a single request or a batch.
pub(crate) async fn answer(control: &Control, body: &[u8]) -> Reaction {
    let failed = |error| Reaction::Reply(envelope(Value::Null, Err(error)).to_string());
    let batch = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let requests: Vec<&RawValue> = match batch {
        true => match serde_json::from_slice(body) {
            Ok(requests) => requests,
            Err(_) => return failed(RpcError::parse()),
        },
        false => match serde_json::from_slice(body) {
            Ok(request) => vec![request],
            Err(_) => return failed(RpcError::parse()),
        },
    };
    if requests.is_empty() {
        return failed(RpcError::invalid("empty batch"));
    }
    let requests: Vec<Request<'_>> = requests.into_iter().map(Request::read).collect();
    control.traffic().count(requests.iter().map(Request::name));
    let plans: Vec<Plan> = {
        let mut faults = control.faults();
        requests.iter().map(|request| faults.plan(request.name())).collect()
    };
    let lose_reply = plans.iter().any(|p| p.lose_reply);
    let status = plans.iter().find_map(|p| p.http.clone());
    if plans.iter().any(|p| p.lose_request) {
        return Reaction::HangUp;
    }
    if let Some(delay) = plans.iter().map(|p| p.delay_ms).max().filter(|ms| *ms > 0) {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    if let Some(answer) = status.clone().filter(|s| !s.processed) {
        return Reaction::Status(answer);
    }
    let mut replies = String::new();
    for (n, (request, plan)) in requests.into_iter().zip(plans).enumerate() {
        process(control, &request, plan, &mut replies);
        // A large batch must not keep the thread from its other connections.
        if n % TURN == TURN - 1 {
            tokio::task::yield_now().await;
        }
    }
    if lose_reply {
        return Reaction::HangUp;
    }
    if let Some(answer) = status {
        return Reaction::Status(answer);
    }
    // Each answer ends with a comma.
    if replies.pop().is_none() {
        return Reaction::Silence;
    }
    if batch {
        replies.insert(0, '[');
        replies.push(']');
    }
    Reaction::Reply(replies)
}

/// Answers one request; a notification (no id) has no answer.
fn process(control: &Control, request: &Request<'_>, plan: Plan, replies: &mut String) {
    let result = match &request.method {
        None => Err(RpcError::invalid("invalid request")),
        Some(method) => match &plan.refuse {
            Some((code, message)) => Err(RpcError::new(*code, message)),
            None => match Params::new(request.params) {
                Ok(params) => dispatch(method, Call { control, params, plan }),
                Err(error) => Err(error),
            },
        },
    };
    let id = match (request.id, &result) {
        (Some(id), _) => id.get(),
        (None, Err(error)) if error.is_invalid_request() => "null",
        (None, _) => return,
    };
    replies.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    replies.push_str(id);
    let (field, text) = match result {
        Ok(Reply::Value(value)) => ("result", value.to_string().into()),
        Ok(Reply::Ready(text)) => ("result", text),
        Err(error) => ("error", error.to_json().to_string().into()),
    };
    for part in [",\"", field, "\":", &text, "},"] {
        replies.push_str(part);
    }
}

pub(crate) fn envelope(id: Value, result: Result<Value, RpcError>) -> Value {
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error.to_json()}),
    }
}

fn dispatch(method: &str, call: Call<'_>) -> Result<Reply, RpcError> {
    match method {
        "eth_getBlockByNumber" => read::block_by_number(&call),
        "eth_getBlockByHash" => read::block_by_hash(&call),
        "eth_getBlockReceipts" => read::block_receipts(&call),
        _ => small(method, &call).map(Reply::Value),
    }
}

/// What is answered from scratch each time.
fn small(method: &str, call: &Call<'_>) -> Result<Value, RpcError> {
    match method {
        "web3_clientVersion" => Ok(json!(concat!("landfall-devchain/", env!("CARGO_PKG_VERSION")))),
        "net_version" => Ok(json!(call.control.config().chain_id.to_string())),
        "eth_chainId" => Ok(json!(format!("0x{:x}", call.control.config().chain_id))),
        "eth_syncing" => Ok(json!(false)),
        "eth_blockNumber" => read::block_number(call),
        "eth_getBalance" => read::balance(call),
        "eth_getCode" => read::code(call),
        "eth_getStorageAt" => read::storage(call),
        "eth_getTransactionCount" => read::transaction_count(call),
        "eth_getTransactionByHash" => read::transaction(call),
        "eth_getTransactionReceipt" => read::receipt(call),
        "txpool_status" => read::pool_status(call),
        "txpool_content" => read::pool_content(call),
        "txpool_contentFrom" => read::pool_content_from(call),
        "eth_getLogs" => logs::logs(call),
        "eth_sendRawTransaction" => send::raw(call),
        "eth_call" => call::call(call),
        "eth_estimateGas" => call::estimate(call),
        "eth_feeHistory" => fees::history(call),
        "eth_gasPrice" => fees::gas_price(call),
        "eth_maxPriorityFeePerGas" => fees::tip(call),
        _ => match method.strip_prefix("devchain_") {
            Some(name) => control::control(name, call),
            None => Err(RpcError::no_method(method)),
        },
    }
}
