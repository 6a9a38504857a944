//! `eth_sendTransaction` of managed accounts: admitted like any other, bound and signed at once, answered with the hash.
//!
//! The hash stays good for look-ups whatever is signed for the slot later. A caller that hears an error sends again, so an
//! error is given only when nothing can land of this call, or it says that something may.
//!
//! A `nonce` names the call and no slot: the lane gives the next one. The store has one transaction per lane, API key and nonce,
//! for as long as the transaction is known.
//!
//! | nonce given | what is done |
//! |---|---|
//! | none | a new transaction, as often as it is sent |
//! | not given by this caller before, or with one that ended unsigned | a new transaction |
//! | given before, and it does the same | the first call's hash, whatever became of it |
//! | given before, for something else | refused: the caller means to replace it, and that is done in other ways |

use std::time::Duration;

use landfall_core::ports::store::Admission;
use landfall_core::request::{AtOnce, CallId, OnInsufficientFunds, Options, Payload};
use landfall_core::transaction::{ReasonCode, Status, Transaction};
use landfall_core::{Account, ApiKeyId, CallerNonce, LaneId, TxId};
use landfall_engine::{Listening, MUST_BE_APPROVED, Submission, Told};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::Asker;
use super::dispatch::Started;
use super::error::{INVALID_INPUT, REJECTED, REVERTED, RpcError, UNAVAILABLE};
use super::params::{Params, bad};
use super::underway::{Follower, Place};
use crate::access::Role;
use crate::body;

/// How long a hash is waited for. Together with a withdrawal it is less than the ten seconds after which libraries give up.
const HASH_LIMIT: Duration = Duration::from_secs(6);

/// A call whose answer is waited for.
pub(super) struct Waited(Follower);

/// What a call asks for, read.
struct Asked {
    lane: LaneId,
    nonce: Option<CallerNonce>,
    payload: Payload,
}

/// Who calls, as far as nonces are concerned: everybody has their own.
pub(super) fn call_id(asker: &Asker, nonce: CallerNonce) -> CallId {
    CallId { api_key: asker.caller.key.as_ref().map(|id| ApiKeyId(id.to_string())), nonce }
}

pub(super) async fn start(asker: &Asker, params: Value) -> Result<Started, RpcError> {
    let asked = read(asker, params)?;
    asker.caller.may(Role::Submitter, asked.lane)?;
    let submission = Submission {
        lane: asked.lane,
        request_id: asker.key.clone(),
        payload: asked.payload,
        // A caller that waits is told at once that the account cannot pay.
        options: Options { on_insufficient_funds: OnInsufficientFunds::Fail, ..Options::default() },
        at_once: Some(AtOnce { call: asked.nonce.map(|nonce| call_id(asker, nonce)) }),
        origin: Some(asker.caller.origin()),
    };
    let (first, follower) = match asker.app.underway.enter(&submission) {
        Place::First(first, follower) => (first, follower),
        Place::Same(follower) => return Ok(Started::Waiting(Box::new(Waited(follower)))),
    };
    let (admitted, is_admitted) = oneshot::channel();
    let is_named = asked.nonce.is_some();
    // A task of its own: it goes on when the caller hangs up, and then withdraws what nobody heard of.
    let (asker, handle) = (asker.clone(), asker.app.handle.clone());
    tokio::spawn(async move {
        let begun = match handle.admit_at_once(submission).await {
            Ok((admission, listening)) => {
                if let Admission::New(tx) = &admission {
                    asker.wrote("eth_sendTransaction", vec![tx.id], None);
                }
                Ok(begun(admission, listening, asker.caller.chains.is_some()))
            }
            Err(error) => Err(RpcError::from(error)),
        };
        // Only a batch needs it: the next call is admitted after this one.
        admitted.send(()).ok();
        let said = match begun {
            Ok(Begun::Said(said)) => said,
            Ok(Begun::Waits(tx, listening)) => {
                let told = handle.hash_of(&tx, listening, HASH_LIMIT, first.left()).await;
                answer(tx.id, told, is_named)
            }
            Err(error) => Err(error),
        };
        first.tell(said);
    });
    // It ends without a word only if the task does.
    is_admitted.await.ok();
    Ok(Started::Waiting(Box::new(Waited(follower))))
}

pub(super) async fn finish(waited: Waited) -> Result<String, RpcError> {
    waited.0.told().await.unwrap_or_else(|| {
        let text = "the server stops, and whether it was accepted is not known: it may still land. Repeat the call only with the \
                    nonce or the Idempotency-Key that it had: then it is the same one";
        Err(RpcError::coded(INVALID_INPUT, text, "outcome_unknown"))
    })
}

/// How far a call is after its admission.
enum Begun {
    Said(Result<String, RpcError>),
    Waits(Box<Transaction>, Option<Listening>),
}

/// `is_of_chains`: the caller sees some chains only. A signer's key may have been used on another one: then it is not told for which
/// transaction.
fn begun(admission: Admission, listening: Option<Listening>, is_of_chains: bool) -> Begun {
    match admission {
        Admission::New(tx) | Admission::Replay(tx) => Begun::Waits(Box::new(tx), listening),
        Admission::Removed(kept) => Begun::Said(match kept.status().told_hash() {
            Some(hash) => Ok(json!(hash).to_string()),
            None => Err(ended(kept.id, &kept.status())),
        }),
        Admission::Conflict(_) if is_of_chains => {
            let text = "this signer has used the Idempotency-Key for something else; use a new key for a new transaction";
            Begun::Said(Err(RpcError::coded(REJECTED, text, "request_id_reused")))
        }
        Admission::Conflict(tx) => {
            let text = format!(
                "this Idempotency-Key belongs to transaction {tx}, which asks for something else; use a new key for a \
                 new transaction"
            );
            Begun::Said(Err(about(REJECTED, text, "request_id_reused", tx)))
        }
        Admission::NonceReused(tx) => {
            let text = format!(
                "nonce too low: this nonce was given before, with transaction {tx}, which does something else or has another \
                 Idempotency-Key. Landfall chooses nonces: leave it out, or take one that eth_getTransactionCount gives for \
                 \"pending\"; to replace that transaction use landfall_speedUp, landfall_cancel or the REST API"
            );
            Begun::Said(Err(about(INVALID_INPUT, text, "nonce_reused", tx)))
        }
    }
}

/// `is_named`: the caller gave a nonce, which names the call.
fn answer(id: TxId, told: Told, is_named: bool) -> Result<String, RpcError> {
    match told {
        Told::Hash(hash) => Ok(json!(hash).to_string()),
        Told::Ended(status) => Err(ended(id, &status)),
        Told::Withdrawn { why } if why == MUST_BE_APPROVED => {
            let text = format!(
                "it was taken back, nothing of it can land: {why}, and whoever waits for a hash cannot wait for that. Hand it in by POST \
                 /api/v1/tx, where it waits for the approval"
            );
            Err(about(UNAVAILABLE, text, "no_slot", id))
        }
        Told::Withdrawn { why } => {
            let text = format!("it got no nonce in time and was taken back, nothing of it can land: {why}");
            Err(about(UNAVAILABLE, text, "no_slot", id))
        }
        Told::Waiting { why } => Err(waiting(id, &why, is_named)),
    }
}

fn waiting(id: TxId, why: &str, is_named: bool) -> RpcError {
    let then = if is_named {
        "repeat the same call with the same nonce to hear its hash, which makes no second transaction; or ask \
         landfall_getTransaction with its txId"
    } else {
        "do not send it again; ask landfall_getTransaction with its txId, or repeat the call with the same Idempotency-Key if it \
         had one"
    };
    let text = format!("it was accepted and has no hash yet: {why}. It may still land: {then}");
    about(INVALID_INPUT, text, "outcome_unknown", id)
}

/// In the words that libraries know from nodes.
fn ended(id: TxId, status: &Status) -> RpcError {
    let Some(reason) = &status.reason else {
        return about(REJECTED, format!("it ended as {}", status.state.name()), "already_final", id);
    };
    let text = reason.text.as_str();
    match reason.code {
        ReasonCode::WouldRevert if text.starts_with("execution reverted") => {
            about(REVERTED, text, "would_revert", id)
        }
        ReasonCode::WouldRevert => about(REVERTED, format!("execution reverted: {text}"), "would_revert", id),
        ReasonCode::InsufficientFunds if text.contains("insufficient funds") => {
            about(INVALID_INPUT, text, "insufficient_funds", id)
        }
        ReasonCode::InsufficientFunds => about(
            INVALID_INPUT,
            format!("insufficient funds for gas * price + value: {text}"),
            "insufficient_funds",
            id,
        ),
        _ => about(REJECTED, format!("it ended as {}: {text}", status.state.name()), "already_final", id),
    }
}

fn about(code: i64, message: impl Into<String>, own: &str, id: TxId) -> RpcError {
    RpcError { code, message: message.into(), data: Some(json!({ "code": own, "txId": id })) }
}

fn read(asker: &Asker, params: Value) -> Result<Asked, RpcError> {
    let mut params = Params::of(params)?;
    let Value::Object(mut fields) = params.need("a transaction")? else {
        return Err(bad("params[0] must be a transaction: an object with from, to, value, data"));
    };
    let from = match fields.remove("from") {
        Some(Value::String(text)) => body::address("from", &text)?,
        None | Some(Value::Null) => sole_account(asker)?,
        Some(other) => return Err(bad(format!("from is {other}; it must be an address, a string"))),
    };
    let number = |fields: &mut Map<String, Value>, name: &str| match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) if number.is_u64() => Ok(number.as_u64()),
        Some(Value::String(text)) => super::params::quantity(&text)
            .map(Some)
            .ok_or_else(|| bad(format!("{name} is {text:?}; write it as hex, 0x…"))),
        Some(other) => Err(bad(format!("{name} is {other}; write it as hex, 0x…"))),
    };
    let nonce = number(&mut fields, "nonce")?.map(CallerNonce);
    if let Some(chain) = number(&mut fields, "chainId")?
        && chain != asker.chain.0
    {
        return Err(bad(format!("chainId is {chain}, and this is the door of chain {}", asker.chain)));
    }
    if let Some(gas) = fields.remove("gasLimit") {
        fields.entry("gas").or_insert(gas);
    }
    // Ethers and others name the type of what they leave open.
    if fields.get("accessList").is_some_and(Value::is_null) {
        fields.remove("accessList");
    }
    let payload = body::payload(Value::Object(fields))?;
    Ok(Asked { lane: LaneId { chain: asker.chain, signer: from }, nonce, payload })
}

/// Who sends where the call does not say: nobody has to guess if there is one account.
fn sole_account(asker: &Asker) -> Result<Account, RpcError> {
    let lanes = asker.app.handle.parts().signers.keys();
    let mut seen = lanes.filter(|lane| lane.chain == asker.chain && asker.caller.sees_lane(**lane));
    match (seen.next(), seen.next()) {
        (Some(lane), None) => Ok(lane.signer),
        _ => Err(bad("from is missing: it says which account sends")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_may_still_land_is_repeated_under_its_nonce_and_not_at_all_without_one() {
        let told = |is_named| {
            let waits = Told::Waiting { why: "its lane is on hold".to_owned() };
            answer(TxId::new(landfall_core::Millis(1), 1), waits, is_named).unwrap_err().message
        };
        assert!(told(true).contains("repeat the same call with the same nonce"), "{}", told(true));
        assert!(!told(true).contains("do not send it again"));
        assert!(told(false).contains("do not send it again"), "{}", told(false));
    }

    #[test]
    fn a_caller_of_some_chains_is_not_told_whose_key_it_used() {
        let tx = TxId::new(landfall_core::Millis(1), 1);
        let told = |is_of_chains| match begun(Admission::Conflict(tx), None, is_of_chains) {
            Begun::Said(Err(error)) => error.message + &error.data.unwrap_or_default().to_string(),
            Begun::Said(Ok(_)) | Begun::Waits(..) => panic!("it is refused"),
        };
        assert!(told(false).contains(&tx.to_string()));
        assert!(
            !told(true).contains(&tx.to_string()) && told(true).contains("request_id_reused"),
            "{}",
            told(true)
        );
    }

    #[test]
    fn one_that_needs_an_approval_is_told_where_it_can_wait_for_it() {
        let told = |why: &str| {
            let told = Told::Withdrawn { why: why.to_owned() };
            answer(TxId::new(landfall_core::Millis(1), 1), told, false).unwrap_err().message
        };
        assert!(
            told(MUST_BE_APPROVED).contains("Hand it in by POST /api/v1/tx"),
            "{}",
            told(MUST_BE_APPROVED)
        );
        assert!(!told("its lane is on hold").contains("POST"));
    }
}
