//! `eth_sendTransaction` of managed accounts: admitted like any other, bound and signed at once, answered with the hash.
//!
//! The hash stays good for look-ups whatever is signed for the slot later. A caller that hears an error sends again, so an
//! error is given only when nothing can land of this call, or it says that something may.
//!
//! A `nonce` is checked and then not used: the lane gives the next one.
//!
//! | nonce given | what is done |
//! |---|---|
//! | the next one, or above | it is ignored |
//! | of a transaction under way that does the same, with a slot or without | that one's hash is the answer: it was sent twice |
//! | of another one under way, or used up | refused as too low, as a node would: the caller meant to replace it |

use std::time::Duration;

use landfall_core::ports::store::{Admission, Store};
use landfall_core::request::{AtOnce, OnInsufficientFunds, Options, Payload};
use landfall_core::transaction::{ReasonCode, Status, Transaction};
use landfall_core::{Account, LaneId, Slot, TxId};
use landfall_engine::{Handle, Listening, Submission, Told};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::Asker;
use super::dispatch::Started;
use super::error::{INVALID_INPUT, REJECTED, REVERTED, RpcError, UNAVAILABLE};
use super::params::{Params, bad};
use super::underway::{Follower, Place, does_the_same};
use crate::access::Role;
use crate::body;

/// How long a hash is waited for. Together with a withdrawal it is less than the ten seconds after which libraries give up.
const HASH_LIMIT: Duration = Duration::from_secs(6);

/// So many of those that wait for a slot are looked at for the nonce that their callers gave.
const MOST_WAITING: u32 = 256;

/// A call whose answer is waited for.
pub(super) struct Waited(Follower);

/// What a call asks for, read.
struct Asked {
    lane: LaneId,
    nonce: Option<Slot>,
    payload: Payload,
}

pub(super) async fn start(asker: &Asker, params: Value) -> Result<Started, RpcError> {
    let asked = read(asker, params)?;
    asker.caller.may(Role::Submitter, asked.lane.signer)?;
    let submission = Submission {
        lane: asked.lane,
        request_id: asker.key.clone(),
        payload: asked.payload,
        // A caller that waits is told at once that the account cannot pay.
        options: Options { on_insufficient_funds: OnInsufficientFunds::Fail, ..Options::default() },
        at_once: Some(AtOnce { nonce: asked.nonce }),
    };
    // What a key stands for is told whatever became of the nonce meanwhile. Without a nonce the admission says it.
    let known = match asked.nonce {
        Some(_) => asker.app.handle.known(&submission).await?,
        None => None,
    };
    // Nobody may come between the look for others with this nonce and the admission.
    let nonce = asked.nonce.filter(|_| known.is_none());
    let (first, follower) = match asker.app.underway.enter(asked.lane, nonce, &submission.payload) {
        Place::First(first, follower) => (first, follower),
        Place::Same(follower) => return Ok(Started::Waiting(Box::new(Waited(follower)))),
        Place::Taken => {
            return Err(too_low("nonce too low: another transaction with this nonce is being taken in."));
        }
    };
    let (admitted, is_admitted) = oneshot::channel();
    // A task of its own: it goes on when the caller hangs up, and then withdraws what nobody heard of.
    let handle = asker.app.handle.clone();
    tokio::spawn(async move {
        let begun = match known {
            Some(known) => Ok(begun(known, None)),
            None => admit(&handle, submission, nonce).await,
        };
        // Only a batch needs it: the next call is admitted after this one.
        admitted.send(()).ok();
        let said = match begun {
            Ok(Begun::Said(said)) => said,
            Ok(Begun::Waits(tx, listening)) => {
                let told = handle.hash_of(&tx, listening, HASH_LIMIT, first.left()).await;
                answer(tx.id, told)
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
        let text = "the server stops, and whether it was accepted is not known: it may still land";
        Err(RpcError::coded(INVALID_INPUT, text, "outcome_unknown"))
    })
}

/// How far a call is after its admission.
enum Begun {
    Said(Result<String, RpcError>),
    Waits(Box<Transaction>, Option<Listening>),
}

async fn admit(handle: &Handle, submission: Submission, nonce: Option<Slot>) -> Result<Begun, RpcError> {
    if let Some(nonce) = nonce
        && let Some(before) = sent_before(handle.store(), submission.lane, &submission.payload, nonce).await?
    {
        return Ok(before);
    }
    let (admission, listening) = handle.admit_at_once(submission).await?;
    Ok(begun(admission, listening))
}

fn begun(admission: Admission, listening: Option<Listening>) -> Begun {
    match admission {
        Admission::New(tx) | Admission::Replay(tx) => Begun::Waits(Box::new(tx), listening),
        Admission::Removed(kept) => Begun::Said(match kept.hash {
            Some(hash) => Ok(json!(hash).to_string()),
            None => Err(ended(kept.id, &kept.status())),
        }),
        Admission::Conflict(tx) => {
            let text = format!(
                "this Idempotency-Key belongs to transaction {tx}, which asks for something else; use a new key for a \
                 new transaction"
            );
            Begun::Said(Err(about(REJECTED, text, "request_id_reused", tx)))
        }
    }
}

fn answer(id: TxId, told: Told) -> Result<String, RpcError> {
    match told {
        Told::Hash(hash) => Ok(json!(hash).to_string()),
        Told::Ended(status) => Err(ended(id, &status)),
        Told::Withdrawn { why } => {
            let text = format!("it got no nonce in time and was taken back, nothing of it can land: {why}");
            Err(about(UNAVAILABLE, text, "no_slot", id))
        }
        Told::Waiting { why } => Err(waiting(id, &why)),
    }
}

fn waiting(id: TxId, why: &str) -> RpcError {
    let text = format!(
        "it was accepted and has no hash yet: {why}. It may still land: do not send it again; ask landfall_getTransaction \
         with its txId, or repeat the call with the same Idempotency-Key if it had one"
    );
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
    let nonce = number(&mut fields, "nonce")?.map(Slot);
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
    let mut seen = lanes.filter(|lane| lane.chain == asker.chain && asker.caller.sees(lane.signer));
    match (seen.next(), seen.next()) {
        (Some(lane), None) => Ok(lane.signer),
        _ => Err(bad("from is missing: it says which account sends")),
    }
}

/// A nonce that was given before: what is said of the transaction that has it, if that does the same.
async fn sent_before(
    store: &dyn Store,
    lane: LaneId,
    payload: &Payload,
    nonce: Slot,
) -> Result<Option<Begun>, RpcError> {
    let Some(summary) = store.lane(lane).await? else { return Ok(None) };
    // Taken in by another node, or by this one before a restart, and without a slot yet.
    if summary.waiting > 0 {
        let waiting = store.waiting(lane, MOST_WAITING).await?;
        let given = |tx: &Transaction| tx.request.at_once.and_then(|at_once| at_once.nonce) == Some(nonce);
        match waiting.into_iter().find(given) {
            Some(tx) if does_the_same(&tx.request.payload, payload) => {
                return Ok(Some(Begun::Waits(Box::new(tx), None)));
            }
            Some(_) => {
                return Err(too_low(
                    "nonce too low: another transaction with this nonce waits for its slot.",
                ));
            }
            None => {}
        }
    }
    let next = summary.row.cursor.unwrap_or_default();
    if nonce >= next {
        return Ok(None);
    }
    // Rare: only now is it looked up who has it.
    let record = store.load_lane(lane).await?;
    let taken = record.bound.iter().chain(&record.ended).find(|tx| tx.status.slot == Some(nonce));
    match taken {
        Some(Transaction { request, status: Status { hash: Some(hash), .. }, .. })
            if does_the_same(&request.payload, payload) =>
        {
            Ok(Some(Begun::Said(Ok(json!(hash).to_string()))))
        }
        // Its caller gave another one, so this nonce was not used by anybody: they only came in another order.
        Some(tx)
            if tx.request.at_once.and_then(|at_once| at_once.nonce).is_some_and(|given| given != nonce) =>
        {
            Ok(None)
        }
        Some(_) | None => Err(too_low(&format!("nonce too low: next nonce {next}, tx nonce {nonce}."))),
    }
}

fn too_low(what: &str) -> RpcError {
    let text = format!(
        "{what} Landfall chooses nonces: leave it out; to replace a transaction use landfall_speedUp, landfall_cancel or \
         the REST API"
    );
    RpcError::coded(INVALID_INPUT, text, "nonce_not_allowed")
}
