//! EIP-5792: several calls handed over together. They are done one after the other, each when the one before it is in a
//! block and has succeeded; when one fails, those after it are cancelled. All or nothing would need an account with code for
//! it, and is refused where there is more than one call.
//!
//! A record says which calls belong together. Each call is a transaction under a key that follows from the id, so a call that
//! is handed over again after a crash is the same transaction.

use landfall_core::ports::records::{RecordKind, RecordWrite, RecordsWritten};
use landfall_core::ports::store::{Admission, TxRecord};
use landfall_core::request::{After, AfterState, OnFailure, Options, Payload};
use landfall_core::transaction::TxState;
use landfall_core::{Account, LaneId, RequestId, TxId};
use landfall_engine::Submission;
use serde_json::{Map, Value, json};

use super::error::{REJECTED, RpcError};
use super::params::{Params, bad, hex, quantity};
use super::{Asker, pass};
use crate::access::Role;
use crate::body;

/// As many calls are taken at once.
const MOST: usize = 50;
/// An id of a caller's own may be as long.
const LONGEST_ID: usize = 100;

const UNSUPPORTED_CAPABILITY: i64 = 5700;
const UNSUPPORTED_CHAIN: i64 = 5710;
const DUPLICATE_ID: i64 = 5720;
const UNKNOWN_ID: i64 = 5730;
const TOO_LARGE: i64 = 5740;
const NOT_ATOMIC: i64 = 5760;

pub(super) async fn send(asker: &Asker, params: Value) -> Result<Value, RpcError> {
    let Value::Object(mut fields) = Params::of(params)?.need("an object with calls")? else {
        return Err(bad("params[0] must be an object with version, from, chainId and calls"));
    };
    let lane = LaneId { chain: asker.chain, signer: sender(asker, fields.remove("from"))? };
    asker.caller.may(Role::Submitter, lane.signer)?;
    if let Some(Value::String(chain)) = fields.remove("chainId")
        && quantity(&chain) != Some(asker.chain.0)
    {
        let text = format!("chainId is {chain}, and this is the door of chain {}", asker.chain);
        return Err(RpcError::coded(UNSUPPORTED_CHAIN, text, "unknown_chain"));
    }
    needs_nothing(&fields)?;
    let payloads = payloads(fields.remove("calls"))?;
    if fields.get("atomicRequired") == Some(&Value::Bool(true)) && payloads.len() > 1 {
        let text = "several calls cannot be done all or nothing by this account: send them one by one, or leave \
                    atomicRequired out";
        return Err(RpcError::coded(NOT_ATOMIC, text, "unsupported"));
    }
    let id = match fields.remove("id") {
        Some(Value::String(id)) if !id.is_empty() && id.len() <= LONGEST_ID => id,
        Some(other) => {
            return Err(bad(format!("id is {other}; it may be a string of at most {LONGEST_ID} characters")));
        }
        None => {
            let parts = asker.app.handle.parts();
            TxId::new(parts.clock.now(), parts.random.bits()).to_string()
        }
    };
    let record = json!({ "from": lane.signer.0, "chainId": asker.chain, "calls": payloads.len() });
    let write = RecordWrite::new(RecordKind::Calls, &id, record.clone());
    if asker.app.records.write_records(vec![write]).await? == RecordsWritten::Changed {
        let known = asker.app.records.record(RecordKind::Calls, &id).await?;
        let same = known.is_some_and(|known| known.body == record);
        // After a crash some calls may be missing; then the same is handed over again.
        if !same || all_there(asker, lane.signer, &id, payloads.len()).await? {
            let text = format!("there are calls with the id {id:?} already");
            return Err(RpcError::coded(DUPLICATE_ID, text, "request_id_reused"));
        }
    }
    hand_over(asker, lane, &id, payloads).await?;
    Ok(json!({ "id": id }))
}

fn sender(asker: &Asker, from: Option<Value>) -> Result<Account, RpcError> {
    let account = match from {
        Some(Value::String(text)) => body::address("from", &text)?,
        _ => return Err(bad("from is missing: it says which account sends")),
    };
    let lane = LaneId { chain: asker.chain, signer: account };
    if asker.app.handle.parts().signers.contains_key(&lane) {
        return Ok(account);
    }
    let text = format!("{account} is not a signer of chain {} here", asker.chain);
    Err(RpcError::coded(super::error::UNAUTHORIZED, text, "unknown_signer"))
}

/// A capability that the caller cannot do without is one that this wallet must have, and it has none.
fn needs_nothing(fields: &Map<String, Value>) -> Result<(), RpcError> {
    let Some(Value::Object(wanted)) = fields.get("capabilities") else { return Ok(()) };
    let needed = wanted.iter().find(|(_, value)| value.get("optional") != Some(&Value::Bool(true)));
    match needed {
        None => Ok(()),
        Some((name, _)) => {
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
        needs_nothing(&call)?;
        call.remove("capabilities");
        Ok(body::payload(Value::Object(call))?)
    };
    calls.into_iter().enumerate().map(read).collect()
}

fn key(id: &str, position: usize) -> Result<RequestId, RpcError> {
    RequestId::parse(&format!("calls:{id}:{position}"))
        .map_err(|error| bad(format!("the id cannot be used: {error}")))
}

async fn hand_over(asker: &Asker, lane: LaneId, id: &str, payloads: Vec<Payload>) -> Result<(), RpcError> {
    let mut before: Option<TxId> = None;
    for (position, payload) in payloads.into_iter().enumerate() {
        let after = before.map(|tx| After { tx, state: AfterState::Mined, on_failure: OnFailure::Cancel });
        let options = Options { after, ..Options::default() };
        let submission =
            Submission { lane, request_id: Some(key(id, position)?), payload, options, at_once: None };
        match asker.app.handle.submit(submission).await? {
            Admission::New(tx) | Admission::Replay(tx) => before = Some(tx.id),
            Admission::Removed(kept) => before = Some(kept.id),
            Admission::Conflict(tx) => {
                let text =
                    format!("call {position} of {id:?} is transaction {tx}, which does something else");
                return Err(RpcError::coded(REJECTED, text, "request_id_reused"));
            }
        }
    }
    Ok(())
}

async fn all_there(asker: &Asker, signer: Account, id: &str, calls: usize) -> Result<bool, RpcError> {
    let last = key(id, calls.saturating_sub(1))?;
    Ok(asker.app.handle.store().tx_by_request(signer, &last).await?.is_some())
}

pub(super) async fn status(asker: &Asker, params: Value) -> Result<Value, RpcError> {
    let id = Params::of(params)?.text("the id of calls")?;
    let unknown =
        || RpcError::coded(UNKNOWN_ID, format!("there are no calls with the id {id:?} here"), "not_found");
    let record = asker.app.records.record(RecordKind::Calls, &id).await?.ok_or_else(unknown)?;
    let from: Option<Account> =
        record.body.get("from").and_then(Value::as_str).and_then(|text| text.parse().ok()).map(Account);
    let of_chain = record.body.get("chainId").and_then(Value::as_u64) == Some(asker.chain.0);
    let from = from.filter(|from| of_chain && asker.caller.sees(*from)).ok_or_else(unknown)?;
    let calls = record.body.get("calls").and_then(Value::as_u64).unwrap_or_default();
    let mut states = Vec::new();
    let mut receipts = Vec::new();
    for position in 0..usize::try_from(calls).unwrap_or(MOST) {
        let Some(record) = asker.app.handle.store().tx_by_request(from, &key(&id, position)?).await? else {
            states.push(None);
            continue;
        };
        receipts.extend(receipt(asker, &record).await?);
        states.push(Some(record.tx.status.state));
    }
    let status = status_of(&states, &receipts);
    Ok(json!({
        "version": "2.0.0",
        "id": id,
        "chainId": hex(asker.chain.0),
        "status": status,
        "atomic": calls == 1,
        "receipts": receipts,
    }))
}

/// The numbers of EIP-5792: 100 under way, 200 done, 400 nothing of it landed, 500 reverted, 600 only a part was done.
fn status_of(states: &[Option<TxState>], receipts: &[Value]) -> u16 {
    let succeeded = receipts.iter().filter(|receipt| receipt["status"] == "0x1").count();
    let open = |state: &Option<TxState>| match state {
        None => false,
        Some(TxState::Mined) => false,
        Some(state) => !state.is_terminal(),
    };
    if succeeded == states.len() {
        200
    } else if states.iter().any(open) {
        100
    } else if succeeded > 0 {
        600
    } else if receipts.is_empty() {
        400
    } else {
        500
    }
}

/// As much of a receipt as EIP-5792 names.
async fn receipt(asker: &Asker, record: &TxRecord) -> Result<Option<Value>, RpcError> {
    let Some(receipt) = &record.tx.status.receipt else { return Ok(None) };
    // The winner is its own no-op: of the call nothing landed.
    if record.attempts.iter().any(|attempt| attempt.hash == receipt.hash && attempt.no_op) {
        return Ok(None);
    }
    let whole = pass::read(asker, "eth_getTransactionReceipt", &json!([receipt.hash])).await?;
    Ok((!whole.is_null()).then(|| {
        json!({
            "logs": whole["logs"],
            "status": whole["status"],
            "blockHash": whole["blockHash"],
            "blockNumber": whole["blockNumber"],
            "gasUsed": whole["gasUsed"],
            "transactionHash": whole["transactionHash"],
        })
    }))
}

pub(super) fn capabilities(asker: &Asker, params: Value) -> Result<Value, RpcError> {
    let mut params = Params::of(params)?;
    let account = params.account()?;
    let lane = LaneId { chain: asker.chain, signer: account };
    if !asker.app.handle.parts().signers.contains_key(&lane) || !asker.caller.sees(account) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_says_how_far_the_calls_are() {
        let (yes, no) = (json!({ "status": "0x1" }), json!({ "status": "0x0" }));
        let mined = Some(TxState::Mined);
        let cases = [
            (vec![mined, mined], vec![yes.clone(), yes.clone()], 200),
            (vec![mined, Some(TxState::Accepted)], vec![yes.clone()], 100),
            (vec![mined, Some(TxState::Cancelled)], vec![yes.clone()], 600),
            (vec![mined, Some(TxState::Cancelled)], vec![no.clone()], 500),
            (vec![Some(TxState::Failed), Some(TxState::Cancelled)], vec![], 400),
            (vec![Some(TxState::Confirmed), None], vec![yes.clone()], 600),
        ];
        for (states, receipts, wanted) in cases {
            assert_eq!(status_of(&states, &receipts), wanted, "{states:?}");
        }
    }
}
