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

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    control::Control,
    faults::{HttpAnswer, Plan},
};

pub(crate) use error::RpcError;
use params::Params;

/// What the connection has to do.
pub(crate) enum Reaction {
    Reply(String),
    /// Nothing but notifications came in.
    Silence,
    Status(HttpAnswer),
    HangUp,
}

/// One call with what the faults make of it.
pub(crate) struct Call<'a> {
    control: &'a Control,
    params: Params,
    plan: Plan,
}

/// Processes a single request or a batch.
pub(crate) async fn answer(control: &Control, body: &[u8]) -> Reaction {
    let Ok(request) = serde_json::from_slice::<Value>(body) else {
        return Reaction::Reply(envelope(Value::Null, Err(RpcError::parse())).to_string());
    };
    let (batch, requests) = match request {
        Value::Array(requests) if requests.is_empty() => {
            return Reaction::Reply(envelope(Value::Null, Err(RpcError::invalid("empty batch"))).to_string());
        }
        Value::Array(requests) => (true, requests),
        single => (false, vec![single]),
    };
    let plans: Vec<Plan> = {
        let mut faults = control.faults();
        requests.iter().map(|r| faults.plan(r["method"].as_str().unwrap_or_default())).collect()
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
    let mut replies = Vec::new();
    for (request, plan) in requests.into_iter().zip(plans) {
        replies.extend(process(control, request, plan));
        // A large batch must not keep the thread from its other connections.
        tokio::task::yield_now().await;
    }
    if lose_reply {
        return Reaction::HangUp;
    }
    if let Some(answer) = status {
        return Reaction::Status(answer);
    }
    match (batch, replies.is_empty()) {
        (_, true) => Reaction::Silence,
        (true, false) => Reaction::Reply(Value::Array(replies).to_string()),
        (false, false) => Reaction::Reply(replies.swap_remove(0).to_string()),
    }
}

/// Answers one request; a notification (no id) has no answer.
fn process(control: &Control, mut request: Value, plan: Plan) -> Option<Value> {
    let id = request.get_mut("id").map(Value::take);
    let result = match request["method"].as_str().map(str::to_owned) {
        None => Err(RpcError::invalid("invalid request")),
        Some(method) => match &plan.refuse {
            Some((code, message)) => Err(RpcError::new(*code, message)),
            None => match Params::new(request["params"].take()) {
                Ok(params) => dispatch(&method, Call { control, params, plan }),
                Err(error) => Err(error),
            },
        },
    };
    match (id, &result) {
        (Some(id), _) => Some(envelope(id, result)),
        (None, Err(error)) if error.is_invalid_request() => Some(envelope(Value::Null, result)),
        (None, _) => None,
    }
}

pub(crate) fn envelope(id: Value, result: Result<Value, RpcError>) -> Value {
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error.to_json()}),
    }
}

fn dispatch(method: &str, call: Call<'_>) -> Result<Value, RpcError> {
    match method {
        "web3_clientVersion" => Ok(json!(concat!("landfall-devchain/", env!("CARGO_PKG_VERSION")))),
        "net_version" => Ok(json!(call.control.config().chain_id.to_string())),
        "eth_chainId" => Ok(json!(format!("0x{:x}", call.control.config().chain_id))),
        "eth_syncing" => Ok(json!(false)),
        "eth_blockNumber" => read::block_number(&call),
        "eth_getBalance" => read::balance(&call),
        "eth_getCode" => read::code(&call),
        "eth_getStorageAt" => read::storage(&call),
        "eth_getTransactionCount" => read::transaction_count(&call),
        "eth_getBlockByNumber" => read::block_by_number(&call),
        "eth_getBlockByHash" => read::block_by_hash(&call),
        "eth_getBlockReceipts" => read::block_receipts(&call),
        "eth_getTransactionByHash" => read::transaction(&call),
        "eth_getTransactionReceipt" => read::receipt(&call),
        "txpool_status" => read::pool_status(&call),
        "eth_getLogs" => logs::logs(&call),
        "eth_sendRawTransaction" => send::raw(&call),
        "eth_call" => call::call(&call),
        "eth_estimateGas" => call::estimate(&call),
        "eth_feeHistory" => fees::history(&call),
        "eth_gasPrice" => fees::gas_price(&call),
        "eth_maxPriorityFeePerGas" => fees::tip(&call),
        _ => match method.strip_prefix("devchain_") {
            Some(name) => control::control(name, &call),
            None => Err(RpcError::no_method(method)),
        },
    }
}
