//! Requests as the JSON that REST takes: one reader, one set of rules and sentences for both.

use serde_json::{Map, Value, json};

use super::proto;
use crate::problem::{Code, Problem};

/// Puts a field in where it is there.
fn put(map: &mut Map<String, Value>, name: &str, value: impl Into<Option<Value>>) {
    if let Some(value) = value.into() {
        map.insert(name.to_owned(), value);
    }
}

fn text(text: &Option<String>) -> Option<Value> {
    text.as_ref().map(|text| json!(text))
}

pub(super) fn submission(request: &proto::SubmitRequest) -> Result<Value, Problem> {
    let mut map = Map::new();
    put(&mut map, "chainId", json!(request.chain_id));
    put(&mut map, "signer", json!(request.signer));
    put(&mut map, "requestId", text(&request.request_id));
    put(&mut map, "payload", request.payload.as_ref().map(payload));
    if let Some(options) = &request.options {
        put(&mut map, "options", self::options(options)?);
    }
    Ok(Value::Object(map))
}

fn payload(payload: &proto::Payload) -> Value {
    let mut map = Map::new();
    put(&mut map, "to", text(&payload.to));
    put(&mut map, "value", text(&payload.value));
    put(&mut map, "data", text(&payload.data));
    put(&mut map, "gas", payload.gas.map(|gas| json!(gas)));
    put(&mut map, "maxFeePerGas", text(&payload.max_fee_per_gas));
    put(&mut map, "maxPriorityFeePerGas", text(&payload.max_priority_fee_per_gas));
    put(&mut map, "gasPrice", text(&payload.gas_price));
    put(&mut map, "type", payload.r#type.map(|kind| json!(kind)));
    if !payload.access_list.is_empty() {
        let item = |item: &proto::AccessListItem| json!({ "address": item.address, "storageKeys": item.storage_keys });
        put(&mut map, "accessList", Value::from_iter(payload.access_list.iter().map(item)));
    }
    if !payload.authorization_list.is_empty() {
        put(
            &mut map,
            "authorizationList",
            Value::from_iter(payload.authorization_list.iter().map(authorization)),
        );
    }
    Value::Object(map)
}

fn authorization(item: &proto::Authorization) -> Value {
    let mut map = Map::new();
    // A message cannot tell 0 from nothing said.
    put(&mut map, "chainId", (item.chain_id != 0).then(|| json!(item.chain_id)));
    put(&mut map, "address", json!(item.address));
    put(&mut map, "nonce", item.nonce.map(|nonce| json!(nonce)));
    put(&mut map, "yParity", item.y_parity.map(|parity| json!(parity)));
    put(&mut map, "r", text(&item.r));
    put(&mut map, "s", text(&item.s));
    Value::Object(map)
}

fn options(options: &proto::Options) -> Result<Value, Problem> {
    let mut map = Map::new();
    put(&mut map, "speed", text(&options.speed));
    put(&mut map, "maxFeePerGas", text(&options.max_fee_per_gas));
    put(&mut map, "deadline", text(&options.deadline));
    put(&mut map, "onDisplaced", text(&options.on_displaced));
    put(&mut map, "onReorg", text(&options.on_reorg));
    put(&mut map, "onInsufficientFunds", text(&options.on_insufficient_funds));
    if let Some(finality) = &options.finality {
        // A number of blocks is a number there.
        put(
            &mut map,
            "finality",
            finality.parse::<u64>().map_or_else(|_| json!(finality), |blocks| json!(blocks)),
        );
    }
    if let Some(after) = &options.after {
        let mut then = Map::new();
        put(&mut then, "txId", json!(after.tx_id));
        put(&mut then, "state", text(&after.state));
        put(&mut then, "onFailure", text(&after.on_failure));
        put(&mut map, "after", Value::Object(then));
    }
    if let Some(metadata) = &options.metadata_json {
        let read = serde_json::from_str::<Value>(metadata).map_err(|error| {
            Problem::at(Code::InvalidJson, "options.metadata_json", format!("it is not JSON: {error}"))
        })?;
        put(&mut map, "metadata", read);
    }
    Ok(Value::Object(map))
}
