//! EIP-5792: several calls handed over together. They are done one after the other, each when the one before it is in a
//! block and has succeeded; when one fails, those after it are cancelled. All or nothing would need an account with code for
//! it, and is refused where there is more than one call.
//!
//! A record says which calls belong together. Each call is a transaction under a key that follows from the id, so a call that
//! is handed over again after a crash is the same transaction. How far they are is in `status`.

mod status;

use std::sync::Arc;

use alloy_primitives::keccak256;
use landfall_core::ports::records::{RecordKind, RecordWrite, RecordsWritten};
use landfall_core::ports::store::Admission;
use landfall_core::request::{After, AfterState, OnFailure, Options, Payload};
use landfall_core::{Account, LaneId, Origin, RequestId, TxId};
use landfall_engine::{Handle, Submission, SubmitError};
use serde_json::{Map, Value, json};

pub(super) use self::status::status;

use super::Asker;
use super::error::{INVALID_INPUT, INVALID_PARAMS, REJECTED, RpcError};
use super::params::{Params, bad, quantity};
use crate::access::Role;
use crate::body;
use crate::problem::repeated;

/// As many calls are taken at once.
const MOST: usize = 50;
/// An id of a caller's own may be as long.
const LONGEST_ID: usize = 100;

const UNSUPPORTED_CAPABILITY: i64 = 5700;
const UNSUPPORTED_CHAIN: i64 = 5710;
const DUPLICATE_ID: i64 = 5720;
const TOO_LARGE: i64 = 5740;
const NOT_ATOMIC: i64 = 5760;

/// What is asked for, read whole before anything is stored.
struct Together {
    lane: LaneId,
    id: Option<String>,
    payloads: Vec<Payload>,
}

pub(super) async fn send(asker: &Asker, params: Value) -> Result<Value, RpcError> {
    let Value::Object(fields) = Params::of(params)?.need("an object with calls")? else {
        return Err(bad("params[0] must be an object with version, from, chainId and calls"));
    };
    let Together { lane, id, payloads } = read(asker, fields)?;
    let id = match (id, &asker.key) {
        (Some(_), Some(_)) => {
            return Err(bad(
                "there are an id and an Idempotency-Key, which both say what is the same; give one",
            ));
        }
        (Some(id), None) => id,
        (None, Some(key)) => keccak256(key.as_str()).to_string(),
        (None, None) => {
            let parts = asker.app.handle.parts();
            TxId::new(parts.clock.now(), parts.random.bits()).to_string()
        }
    };
    let keys: Vec<RequestId> =
        (0..payloads.len()).map(|position| key(&id, position)).collect::<Result<_, _>>()?;
    // The first was counted with the message.
    asker.app.keyring.charge(&asker.caller, payloads.len().saturating_sub(1))?;
    let content = serde_json::to_vec(&payloads).map_err(|error| bad(format!("calls: {error}")))?;
    let record = json!({
        "from": lane.signer.0, "chainId": asker.chain, "calls": payloads.len(), "content": keccak256(content),
        "key": asker.caller.key.as_deref(), "at": asker.app.handle.parts().clock.now(),
    });
    let known = asker.app.records.record(RecordKind::Calls, &record_id(lane.signer, &id)).await?;
    let taken = || {
        let text = format!("there are calls with the id {id:?} already");
        RpcError::coded(DUPLICATE_ID, text, "request_id_reused")
    };
    if let Some(known) = &known {
        if !is_same(&known.body, &record) {
            return Err(taken());
        }
        // After a crash some calls may be missing; then the same is handed over again.
        if all_there(asker, lane.signer, &keys).await? {
            return if asker.key.is_some() { Ok(json!({ "id": id })) } else { Err(taken()) };
        }
    }
    let submissions = submissions(lane, keys, payloads, &asker.caller.origin());
    for (position, submission) in submissions.iter().enumerate() {
        let mut checked = submission.clone();
        if position > 0 {
            let now = asker.app.handle.parts().clock.now();
            // Which one it follows is not known yet, only that there is one.
            checked.options.after = Some(follows(TxId::new(now, 0)));
        }
        asker.app.handle.check(checked).map_err(|refused| {
            let error = RpcError::from(SubmitError::from(refused));
            RpcError { message: format!("calls[{position}]: {}; nothing was stored", error.message), ..error }
        })?;
    }
    if known.is_none() {
        let write = RecordWrite::new(RecordKind::Calls, record_id(lane.signer, &id), record.clone());
        if asker.app.records.write_records(vec![write]).await? == RecordsWritten::Changed {
            let known = asker.app.records.record(RecordKind::Calls, &record_id(lane.signer, &id)).await?;
            if known.is_none_or(|known| !is_same(&known.body, &record)) {
                return Err(taken());
            }
        }
        asker.app.calls_kept.note();
    }
    // A task of its own: a caller that hangs up leaves no part behind.
    let (asker, called) = (asker.clone(), id.clone());
    let handed_over = tokio::spawn(async move {
        let mut stored = Vec::new();
        let sees_all = asker.caller.chains.is_none();
        let ended = hand_over((&asker.app.handle, sees_all), &called, submissions, &mut stored).await;
        if !stored.is_empty() {
            asker.wrote("wallet_sendCalls", stored, None);
        }
        ended
    });
    let stopped = |_| Err(in_part(&id, "the server stops"));
    handed_over.await.unwrap_or_else(stopped)?;
    Ok(json!({ "id": id }))
}

fn read(asker: &Asker, mut fields: Map<String, Value>) -> Result<Together, RpcError> {
    let mut take = |name: &str| fields.remove(name).filter(|value| !value.is_null());
    let signer = match take("from") {
        Some(Value::String(text)) => body::address("from", &text)?,
        Some(other) => {
            return Err(bad(format!("from is {}; it must be an address, a string", repeated(other))));
        }
        None => return Err(bad("from is missing: it says which account sends")),
    };
    // Whoever may not use an account does not hear whether it is here.
    let lane = LaneId { chain: asker.chain, signer };
    asker.caller.may(Role::Submitter, lane)?;
    if !asker.app.handle.parts().signers.contains_key(&lane) {
        let text = format!("{signer} is not a signer of chain {} here", asker.chain);
        return Err(RpcError::coded(super::error::UNAUTHORIZED, text, "unknown_signer"));
    }
    match take("chainId") {
        None => {}
        Some(Value::String(chain)) if quantity(&chain) == Some(asker.chain.0) => {}
        Some(Value::String(chain)) if quantity(&chain).is_some() => {
            let text = format!("chainId is {chain}, and this is the door of chain {}", asker.chain);
            return Err(RpcError::coded(UNSUPPORTED_CHAIN, text, "unknown_chain"));
        }
        Some(other) => {
            return Err(bad(format!("chainId is {}; write it as hex in a string, \"0x…\"", repeated(other))));
        }
    }
    match take("version") {
        None | Some(Value::String(_)) => {}
        Some(other) => return Err(bad(format!("version is {}; it must be a string", repeated(other)))),
    }
    let atomic = match take("atomicRequired") {
        None => false,
        Some(Value::Bool(atomic)) => atomic,
        Some(other) => {
            return Err(bad(format!("atomicRequired is {}; it must be true or false", repeated(other))));
        }
    };
    let id = match take("id") {
        None => None,
        Some(Value::String(id)) if !id.is_empty() && id.len() <= LONGEST_ID => Some(id),
        Some(other) => {
            let other = repeated(other);
            return Err(bad(format!("id is {other}; it may be a string of at most {LONGEST_ID} characters")));
        }
    };
    needs_nothing(take("capabilities"))?;
    let calls = take("calls");
    if let Some(name) = fields.keys().next().map(repeated) {
        return Err(RpcError::coded(INVALID_PARAMS, format!("{name} is not a known field"), "unknown_field"));
    }
    let payloads = payloads(calls)?;
    if atomic && payloads.len() > 1 {
        let text = "several calls cannot be done all or nothing by this account: send them one by one, or leave \
                    atomicRequired out";
        return Err(RpcError::coded(NOT_ATOMIC, text, "unsupported"));
    }
    Ok(Together { lane, id, payloads })
}

/// Two records of the same calls, whoever handed them over, and whenever.
fn is_same(one: &Value, other: &Value) -> bool {
    ["from", "chainId", "calls", "content"].iter().all(|name| one.get(name) == other.get(name))
}

/// Ids belong to the account: those of others do not matter.
fn record_id(signer: Account, id: &str) -> String {
    format!("{:#x}/{id}", signer.0)
}

/// A capability that the caller cannot do without is one that this wallet must have, and it has none.
fn needs_nothing(capabilities: Option<Value>) -> Result<(), RpcError> {
    let wanted = match capabilities {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(wanted)) => wanted,
        Some(other) => return Err(bad(format!("capabilities is {}; it must be an object", repeated(other)))),
    };
    let needed = wanted.iter().find(|(_, value)| value.get("optional") != Some(&Value::Bool(true)));
    match needed {
        None => Ok(()),
        Some((name, _)) => {
            let name = repeated(name);
            let text = format!("the capability {name} is not there");
            Err(RpcError::coded(UNSUPPORTED_CAPABILITY, text, "unsupported"))
        }
    }
}

fn payloads(calls: Option<Value>) -> Result<Vec<Payload>, RpcError> {
    let Some(Value::Array(calls)) = calls else { return Err(bad("calls is missing, or is not an array")) };
    if calls.is_empty() {
        return Err(bad("calls is empty"));
    }
    if calls.len() > MOST {
        let text = format!("there are {} calls; at most {MOST} are taken together", calls.len());
        return Err(RpcError::coded(TOO_LARGE, text, "batch_too_long"));
    }
    let read = |(position, call): (usize, Value)| {
        let Value::Object(mut call) = call else {
            return Err(bad(format!("calls[{position}] must be an object")));
        };
        needs_nothing(call.remove("capabilities"))?;
        Ok(body::payload(Value::Object(call))?)
    };
    calls.into_iter().enumerate().map(read).collect()
}

pub(super) fn key(id: &str, position: usize) -> Result<RequestId, RpcError> {
    RequestId::parse(&format!("calls:{id}:{position}"))
        .map_err(|error| bad(format!("the id cannot be used: {error}")))
}

fn follows(tx: TxId) -> After {
    After { tx, state: AfterState::Mined, on_failure: OnFailure::Cancel }
}

fn submissions(
    lane: LaneId,
    keys: Vec<RequestId>,
    payloads: Vec<Payload>,
    origin: &Arc<Origin>,
) -> Vec<Submission> {
    let one = |(key, payload)| Submission {
        lane,
        request_id: Some(key),
        payload,
        options: Options::default(),
        at_once: None,
        origin: Some(origin.clone()),
    };
    keys.into_iter().zip(payloads).map(one).collect()
}

/// An error that is not about the first call says that a part was stored. `stored`: the transactions that are new.
/// `sees_all`: the caller sees all chains. To others a transaction of the same name may be one of a chain that they do not see.
async fn hand_over(
    (handle, sees_all): (&Handle, bool),
    id: &str,
    submissions: Vec<Submission>,
    stored: &mut Vec<TxId>,
) -> Result<(), RpcError> {
    let mut before: Option<TxId> = None;
    for mut submission in submissions {
        submission.options.after = before.map(follows);
        let why = match handle.submit(submission).await {
            Ok(Admission::New(tx)) => {
                stored.push(tx.id);
                before = Some(tx.id);
                continue;
            }
            Ok(Admission::Replay(tx)) => {
                before = Some(tx.id);
                continue;
            }
            Ok(Admission::Removed(kept)) => {
                before = Some(kept.id);
                continue;
            }
            Ok(Admission::Conflict(tx) | Admission::NonceReused(tx)) if before.is_none() => {
                let other =
                    if sees_all { format!("transaction {tx}") } else { "another transaction".to_owned() };
                let text = format!("a call of {id:?} is {other}, which does something else");
                return Err(RpcError::coded(REJECTED, text, "request_id_reused"));
            }
            Ok(Admission::Conflict(tx) | Admission::NonceReused(tx)) if sees_all => {
                format!("one is transaction {tx}, which does something else")
            }
            Ok(Admission::Conflict(_) | Admission::NonceReused(_)) => {
                "one is another transaction, which does something else".to_owned()
            }
            Err(SubmitError::Unknown(why)) => why,
            Err(error) if before.is_none() => return Err(error.into()),
            Err(error) => error.to_string(),
        };
        return Err(in_part(id, &why));
    }
    Ok(())
}

fn in_part(id: &str, why: &str) -> RpcError {
    let text = format!(
        "calls {id:?} were stored in part, or may have been, and what was stored may land: {why}. Do not send them under \
         another id: send the same with this id again, which adds what is missing, or ask wallet_getCallsStatus"
    );
    let data = Some(json!({ "code": "outcome_unknown", "id": id }));
    RpcError { code: INVALID_INPUT, message: text, data }
}

async fn all_there(asker: &Asker, signer: Account, keys: &[RequestId]) -> Result<bool, RpcError> {
    // They are stored in their order.
    let Some(last) = keys.last() else { return Ok(true) };
    let store = asker.app.handle.store();
    Ok(store.tx_by_request(signer, last).await?.is_some()
        || store.kept_by_request(signer, last).await?.is_some())
}

pub(super) fn capabilities(asker: &Asker, params: Value) -> Result<Value, RpcError> {
    let mut params = Params::of(params)?;
    let account = params.account()?;
    let lane = LaneId { chain: asker.chain, signer: account };
    if !asker.app.handle.parts().signers.contains_key(&lane) || !asker.caller.sees_lane(lane) {
        let text = format!("{account} is not an account that this caller has here");
        return Err(RpcError::coded(super::error::UNAUTHORIZED, text, "unknown_signer"));
    }
    let wanted = |chains: &Value| {
        chains.as_array().is_none_or(|chains| {
            chains.iter().filter_map(Value::as_str).any(|chain| quantity(chain) == Some(asker.chain.0))
        })
    };
    let mut all = Map::new();
    if params.next().as_ref().is_none_or(wanted) {
        all.insert(format!("{:#x}", asker.chain.0), json!({ "atomic": { "status": "unsupported" } }));
    }
    Ok(Value::Object(all))
}
