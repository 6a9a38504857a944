//! What is done to single calls: answers of a node that is behind, receipts withheld, sends repeated or swallowed.
//!
//! A node that is behind is the real one asked at an older block: it shows that block as its newest, does not know the
//! ones above, and says so as nodes do. Half of the counts and balances that are asked at a block it does not have are
//! answered as of the one it has, as a careless gateway does.

use std::{sync::Arc, time::Duration};

use alloy_primitives::{Bytes, keccak256};
use serde_json::{Value, json};

use super::{Shared, Upstream, number};

/// How much later a send may arrive for the second time.
const LONGEST_REPEAT_MS: u64 = 3_000;

/// One call on its way.
struct Call {
    id: Value,
    method: String,
    /// What the node is asked; none if it is not asked.
    asked: Option<Value>,
    /// What is answered without it.
    made_up: Option<Value>,
    /// The newest block that this answer may know of.
    newest: Option<u64>,
}

/// The answers to all of these, in the same order; none if the node gave none.
pub(super) async fn answers(shared: &Arc<Shared>, calls: Vec<Value>) -> Option<Vec<Value>> {
    let newest = newest(shared).await;
    let mut prepared = Vec::with_capacity(calls.len());
    for call in calls {
        prepared.push(prepare(shared, call, newest).await);
    }
    let asked: Vec<Value> = prepared.iter().filter_map(|call| call.asked.clone()).collect();
    let mut got = match asked.as_slice() {
        [] => Vec::new(),
        [one] => vec![shared.upstream.ask(one).await?],
        many => match shared.upstream.ask(&json!(many)).await? {
            Value::Array(answers) => answers,
            _ => return None,
        },
    };
    let mut answers = Vec::with_capacity(prepared.len());
    for call in prepared {
        let answer = match call.made_up {
            Some(made_up) => made_up,
            None => {
                let at = got.iter().position(|answer| answer["id"] == call.id)?;
                let mut answer = got.swap_remove(at);
                if let Some(result) = answer.get_mut("result") {
                    spoil(shared, &call.method, call.newest, result);
                }
                answer
            }
        };
        answers.push(answer);
    }
    Some(answers)
}

/// Where the node behind this request stands, if it is behind.
async fn newest(shared: &Shared) -> Option<u64> {
    if !shared.chance(shared.rates.stale) {
        return None;
    }
    let behind = 1 + shared.up_to(shared.rates.stale_blocks.saturating_sub(1));
    shared.upstream.head().await?.checked_sub(behind)
}

async fn prepare(shared: &Arc<Shared>, mut call: Value, newest: Option<u64>) -> Call {
    let id = call["id"].clone();
    let method = call["method"].as_str().unwrap_or_default().to_owned();
    let mut made_up = None;
    if method == "eth_sendRawTransaction" {
        made_up = send(shared, &call);
    } else if let Some(newest) = newest {
        made_up = fall_behind(shared, &method, &mut call["params"], newest).await;
    }
    let made_up = made_up.map(|part| {
        let mut answer = json!({ "jsonrpc": "2.0", "id": id });
        match part {
            Ok(result) => answer["result"] = result,
            Err(text) => answer["error"] = json!({ "code": -32000, "message": text }),
        }
        answer
    });
    let asked = made_up.is_none().then_some(call);
    Call { id, method, asked, made_up, newest }
}

type MadeUp = Option<Result<Value, &'static str>>;

/// A send is repeated or swallowed.
fn send(shared: &Arc<Shared>, call: &Value) -> MadeUp {
    shared.counts().sends += 1;
    if shared.chance(shared.rates.duplicate) {
        shared.counts().duplicated += 1;
        let (task, call) = (Arc::clone(shared), call.clone());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(task.up_to(LONGEST_REPEAT_MS))).await;
            // Whatever it says now, nobody hears it.
            task.upstream.ask(&call).await;
        });
    }
    if shared.chance(shared.rates.swallow) {
        let raw: Bytes = call["params"][0].as_str()?.parse().ok()?;
        shared.counts().swallowed += 1;
        return Some(Ok(json!(keccak256(raw))));
    }
    None
}

/// Lets a call be answered as of an older block.
async fn fall_behind(shared: &Shared, method: &str, params: &mut Value, newest: u64) -> MadeUp {
    let at = match method {
        "eth_blockNumber" => {
            shared.counts().stale += 1;
            return Some(Ok(hex(newest)));
        }
        "eth_getBlockByNumber" | "eth_getBlockByHash" | "eth_getBlockReceipts" => 0,
        "eth_getTransactionCount" | "eth_getBalance" | "eth_feeHistory" => 1,
        _ => return None,
    };
    let is_state = method == "eth_getTransactionCount" || method == "eth_getBalance";
    let asked = params.get(at).cloned().unwrap_or(json!("latest"));
    if asked == "latest" || asked == "pending" {
        shared.counts().stale += 1;
        *params.get_mut(at)? = hex(newest);
        return None;
    }
    if block_number(&shared.upstream, &asked).await? <= newest {
        return None;
    }
    shared.counts().stale += 1;
    if is_state && shared.chance(0.5) {
        *params.get_mut(at)? = hex(newest);
        return None;
    }
    Some(if is_state { Err("header not found") } else { Ok(Value::Null) })
}

/// The number of a block that is named by number, by hash or by EIP-1898's object; none for a tag.
async fn block_number(upstream: &Upstream, named: &Value) -> Option<u64> {
    let named = named.get("blockHash").or(named.get("blockNumber")).unwrap_or(named);
    if named.as_str()?.len() != 66 {
        return number(named);
    }
    let block = upstream.call("eth_getBlockByHash", json!([named, false])).await?;
    number(&block["number"])
}

/// Receipts that the node gave and the caller does not get.
fn spoil(shared: &Shared, method: &str, newest: Option<u64>, result: &mut Value) {
    match method {
        "eth_getTransactionReceipt" if !result.is_null() => {
            let unknown = newest.is_some_and(|newest| number(&result["blockNumber"]) > Some(newest));
            if unknown {
                shared.counts().stale += 1;
                *result = Value::Null;
            } else if shared.chance(shared.rates.null_receipts) {
                shared.counts().null_receipts += 1;
                *result = Value::Null;
            }
        }
        "eth_getBlockReceipts" => {
            let Value::Array(receipts) = result else { return };
            if receipts.is_empty() || !shared.chance(shared.rates.null_receipts) {
                return;
            }
            let before = receipts.len();
            receipts.retain(|_| shared.chance(0.5));
            if receipts.len() == before {
                receipts.pop();
            }
            shared.counts().null_receipts += (before - receipts.len()) as u64;
            if shared.chance(0.3) {
                *result = Value::Null;
            }
        }
        _ => {}
    }
}

fn hex(number: u64) -> Value {
    json!(format!("{number:#x}"))
}
