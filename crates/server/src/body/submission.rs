//! A submission: `{chainId, signer, requestId?, payload, options?}`.

use landfall_core::request::{
    AccessItem, After, AfterState, AskedFees, Finality, OnDisplaced, OnFailure, OnInsufficientFunds, OnReorg,
    Options, Payload, Speed,
};
use landfall_core::{ChainId, LaneId, RequestId};
use landfall_engine::Submission;
use serde_json::Value;

use super::authorizations;
use super::fields::{Fields, word, wrong_type};
use super::limits::{LARGEST_DATA, LARGEST_METADATA, MOST_ACCESS_ITEMS};
use crate::problem::{Code, Problem, quoted};

const NO_BLOBS: &str = "blob transactions (type 3) are not sent by Landfall; send the data in another way";

/// Reads a submission. `key` is the `Idempotency-Key` header, which equals `requestId`.
pub(crate) fn submission(value: Value, key: Option<String>) -> Result<Submission, Problem> {
    let mut fields = Fields::of(value, "")?;
    let chain = fields
        .number("chainId")?
        .map(ChainId)
        .ok_or_else(|| Problem::at(Code::MissingField, "chainId", "chainId is missing"))?;
    let signer = fields
        .address("signer")?
        .ok_or_else(|| Problem::at(Code::MissingField, "signer", "signer is missing"))?;
    let request_id = request_id(fields.text("requestId")?, key)?;
    let payload = payload(fields.need("payload")?)?;
    let options = fields.take("options").map(options).transpose()?.unwrap_or_default();
    if fields.take("nonce").is_some() {
        return Err(nonce("nonce"));
    }
    fields.finish()?;
    Ok(Submission {
        lane: LaneId { chain, signer },
        request_id,
        payload,
        options,
        at_once: None,
        origin: None,
    })
}

fn request_id(field: Option<String>, key: Option<String>) -> Result<Option<RequestId>, Problem> {
    if let (Some(field), Some(key)) = (&field, &key)
        && field != key
    {
        let detail = format!(
            "requestId is {} and Idempotency-Key is {}; send one, or both the same",
            quoted(field),
            quoted(key)
        );
        return Err(Problem::at(Code::KeysDiffer, "requestId", detail));
    }
    let parse = |text: String| {
        RequestId::chosen(&text).map_err(|e| Problem::at(Code::BadRequestId, "requestId", e.to_string()))
    };
    field.or(key).map(parse).transpose()
}

fn nonce(path: &str) -> Problem {
    let detail = "Landfall chooses the nonce, so that nothing lands twice; leave it out";
    Problem::at(Code::NonceNotAllowed, path, detail)
}

pub(crate) fn payload(value: Value) -> Result<Payload, Problem> {
    let mut fields = Fields::of(value, "payload")?;
    if fields.take("nonce").is_some() {
        return Err(nonce("payload.nonce"));
    }
    for name in ["blobVersionedHashes", "maxFeePerBlobGas", "blobs", "sidecar"] {
        if fields.take(name).is_some() {
            return Err(Problem::at(Code::Unsupported, fields.path(name), NO_BLOBS));
        }
    }
    let data = match (fields.bytes("data")?, fields.bytes("input")?) {
        (Some(data), Some(input)) if data != input => {
            return Err(Problem::at(Code::BadData, "payload.data", "data and input differ; send one"));
        }
        (data, input) => data.or(input).unwrap_or_default(),
    };
    if data.len() > LARGEST_DATA {
        let detail = format!("the data has {} bytes; nodes take at most {LARGEST_DATA}", data.len());
        return Err(Problem::at(Code::DataTooLarge, "payload.data", detail));
    }
    let access_list = fields.take("accessList").map(access_list).transpose()?.unwrap_or_default();
    let authorization_list =
        fields.take("authorizationList").map(authorizations::list).transpose()?.unwrap_or_default();
    let payload = Payload {
        to: fields.address("to")?,
        value: fields.wei("value")?.unwrap_or_default(),
        data,
        gas: fields.gas("gas")?,
        fees: fees(&mut fields, !access_list.is_empty(), !authorization_list.is_empty())?,
        access_list,
        authorization_list,
    };
    fields.finish()?;
    Ok(payload)
}

fn fees(fields: &mut Fields, has_access_list: bool, authorizes: bool) -> Result<AskedFees, Problem> {
    let gas_price = fields.price("gasPrice")?;
    let max_fee = fields.price("maxFeePerGas")?;
    let tip = fields.price("maxPriorityFeePerGas")?;
    let kind = transaction_type(fields)?;
    if gas_price.is_some() && (max_fee.is_some() || tip.is_some()) {
        let detail = "gasPrice is for legacy transactions, maxFeePerGas and maxPriorityFeePerGas for EIP-1559 ones; \
                      send one kind";
        return Err(Problem::at(Code::ConflictingFees, "payload.gasPrice", detail));
    }
    let dynamic = max_fee.is_some() || tip.is_some();
    if authorizes && (gas_price.is_some() || kind.is_some_and(|kind| kind != 4)) {
        let detail =
            "a transaction with an authorizationList is of type 4 and has maxFeePerGas, not gasPrice";
        return Err(Problem::at(Code::ConflictingFees, "payload.type", detail));
    }
    match kind {
        Some(4) if !authorizes => {
            let detail = "a transaction of type 4 needs an authorizationList";
            Err(Problem::at(Code::MissingField, "payload.authorizationList", detail))
        }
        Some(4) => Ok(AskedFees::Dynamic { max_fee, tip }),
        Some(3) => Err(Problem::at(Code::Unsupported, "payload.type", NO_BLOBS)),
        None if authorizes => Ok(AskedFees::Dynamic { max_fee, tip }),
        Some(0 | 1) if dynamic => {
            let detail = "a transaction of type 0 or 1 has a gasPrice, not maxFeePerGas";
            Err(Problem::at(Code::ConflictingFees, "payload.type", detail))
        }
        Some(0) if has_access_list => {
            let detail = "a legacy transaction (type 0) cannot carry an access list; use type 1 or 2";
            Err(Problem::at(Code::BadValue, "payload.type", detail))
        }
        Some(2) if gas_price.is_some() => {
            let detail = "a transaction of type 2 has maxFeePerGas, not gasPrice";
            Err(Problem::at(Code::ConflictingFees, "payload.type", detail))
        }
        Some(0 | 1) => Ok(AskedFees::Legacy { gas_price }),
        Some(2) => Ok(AskedFees::Dynamic { max_fee, tip }),
        Some(other) => {
            let detail = format!("transactions of type {other} are not supported; use 0, 1, 2 or 4");
            Err(Problem::at(Code::Unsupported, "payload.type", detail))
        }
        None if gas_price.is_some() => Ok(AskedFees::Legacy { gas_price }),
        None if dynamic => Ok(AskedFees::Dynamic { max_fee, tip }),
        None => Ok(AskedFees::Market),
    }
}

/// A number, or hex as JSON-RPC clients write it.
fn transaction_type(fields: &mut Fields) -> Result<Option<u64>, Problem> {
    match fields.take("type") {
        None => Ok(None),
        Some(Value::Number(number)) if number.as_u64().is_some() => Ok(number.as_u64()),
        Some(Value::String(text)) => text
            .strip_prefix("0x")
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .map(Some)
            .ok_or_else(|| {
                Problem::at(
                    Code::BadValue,
                    "payload.type",
                    format!("{} is not a transaction type", quoted(&text)),
                )
            }),
        Some(other) => Err(wrong_type("payload.type", "a number", &other)),
    }
}

fn access_list(value: Value) -> Result<Vec<AccessItem>, Problem> {
    let path = "payload.accessList";
    let Value::Array(items) = value else { return Err(wrong_type(path, "an array", &value)) };
    if items.len() > MOST_ACCESS_ITEMS {
        let detail = format!("it has {} items; at most {MOST_ACCESS_ITEMS} are taken", items.len());
        return Err(Problem::at(Code::BadValue, path, detail));
    }
    let mut list = Vec::with_capacity(items.len());
    for (position, item) in items.into_iter().enumerate() {
        let path = format!("{path}[{position}]");
        let mut fields = Fields::of(item, &path)?;
        let address = fields.address("address")?.ok_or_else(|| {
            Problem::at(Code::MissingField, format!("{path}.address"), "address is missing")
        })?;
        let keys_path = format!("{path}.storageKeys");
        let storage_keys = match fields.take("storageKeys") {
            None => Vec::new(),
            Some(Value::Array(keys)) => {
                keys.iter().map(|key| word(&keys_path, key)).collect::<Result<_, _>>()?
            }
            Some(other) => return Err(wrong_type(&keys_path, "an array", &other)),
        };
        fields.finish()?;
        list.push(AccessItem { address, storage_keys });
    }
    Ok(list)
}

pub(super) fn options(value: Value) -> Result<Options, Problem> {
    let mut fields = Fields::of(value, "options")?;
    for name in ["route"] {
        if fields.take(name).is_some() {
            let path = fields.path(name);
            return Err(Problem::at(Code::Unsupported, path.clone(), format!("{path} is not supported yet")));
        }
    }
    let options = Options {
        speed: choice(
            &mut fields,
            "speed",
            &[("slow", Speed::Slow), ("normal", Speed::Normal), ("fast", Speed::Fast)],
        )?
        .unwrap_or_default(),
        max_fee_per_gas: fields.price("maxFeePerGas")?,
        deadline: fields.time("deadline")?,
        finality: finality(&mut fields)?,
        on_displaced: choice(
            &mut fields,
            "onDisplaced",
            &[("requeue", OnDisplaced::Requeue), ("fail", OnDisplaced::Fail)],
        )?,
        on_reorg: choice(
            &mut fields,
            "onReorg",
            &[("resend", OnReorg::Resend), ("cancel", OnReorg::Cancel)],
        )?
        .unwrap_or_default(),
        on_insufficient_funds: choice(
            &mut fields,
            "onInsufficientFunds",
            &[("hold", OnInsufficientFunds::Hold), ("fail", OnInsufficientFunds::Fail)],
        )?
        .unwrap_or_default(),
        after: fields.take("after").map(after).transpose()?,
        metadata: metadata(&mut fields)?,
    };
    fields.finish()?;
    Ok(options)
}

/// `{txId, state?, onFailure?}`.
fn after(value: Value) -> Result<After, Problem> {
    let path = "options.after";
    let mut fields = Fields::of(value, path)?;
    let missing = || Problem::at(Code::MissingField, "options.after.txId", "options.after.txId is missing");
    let text = fields.text("txId")?.ok_or_else(missing)?;
    let tx = text.parse().map_err(|_| {
        Problem::at(
            Code::BadValue,
            "options.after.txId",
            format!("{} is not a txId that Landfall gave", quoted(&text)),
        )
    })?;
    let states = [("confirmed", AfterState::Confirmed), ("mined", AfterState::Mined)];
    let failures = [("cancel", OnFailure::Cancel), ("hold", OnFailure::Hold)];
    let after = After {
        tx,
        state: choice(&mut fields, "state", &states)?.unwrap_or_default(),
        on_failure: choice(&mut fields, "onFailure", &failures)?.unwrap_or_default(),
    };
    fields.finish()?;
    Ok(after)
}

pub(super) fn choice<T: Copy>(
    fields: &mut Fields,
    name: &str,
    choices: &[(&str, T)],
) -> Result<Option<T>, Problem> {
    let path = fields.path(name);
    let Some(text) = fields.text(name)? else { return Ok(None) };
    let found = choices.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice);
    found.map(Some).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        Problem::at(
            Code::BadValue,
            path.clone(),
            format!("{path} is {}; it may be {}", quoted(&text), words.join(", ")),
        )
    })
}

/// A number of blocks, or a tag.
fn finality(fields: &mut Fields) -> Result<Option<Finality>, Problem> {
    let path = fields.path("finality");
    let bad = |detail: String| Problem::at(Code::BadValue, path.clone(), detail);
    match fields.take("finality") {
        None => Ok(None),
        Some(Value::Number(number)) => number
            .as_u64()
            .filter(|blocks| *blocks <= 1_000)
            .map(|blocks| Some(Finality::Blocks(blocks)))
            .ok_or_else(|| bad(format!("{number} is not a number of blocks from 0 to 1000"))),
        Some(Value::String(text)) if text == "safe" => Ok(Some(Finality::Safe)),
        Some(Value::String(text)) if text == "finalized" => Ok(Some(Finality::Finalized)),
        Some(other) => {
            Err(bad(format!("finality is {other}; it may be a number of blocks, \"safe\" or \"finalized\"")))
        }
    }
}

fn metadata(fields: &mut Fields) -> Result<Option<String>, Problem> {
    let Some(value) = fields.take("metadata") else { return Ok(None) };
    let text = value.to_string();
    if text.len() > LARGEST_METADATA {
        let detail = format!("it has {} bytes as JSON; at most {LARGEST_METADATA} are kept", text.len());
        return Err(Problem::at(Code::MetadataTooLarge, "options.metadata", detail));
    }
    Ok(Some(text))
}
