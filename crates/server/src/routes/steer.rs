//! The caller's hand on transactions that exist. Every answer means that the wish is stored; the chain decides.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use landfall_core::transaction::Transaction;
use landfall_core::{CommandId, RequestId, Slot};
use landfall_engine::Wish;
use serde_json::{Value, json};

use super::tx::{Body, admitted, find, may_follow, taken};
use crate::access::Caller;
use crate::body;
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::serve::App;

type Answer = Result<(StatusCode, Json<Value>), Problem>;

/// The key of a command.
fn key(headers: &HeaderMap) -> Result<Option<RequestId>, Problem> {
    let parse = |text: String| {
        RequestId::parse(&text).map_err(|error| Problem::new(Code::BadRequestId, error.to_string()))
    };
    body::idempotency_key(headers)?.map(parse).transpose()
}

/// A command as it was asked for.
pub(super) fn wish(caller: &Caller, headers: &HeaderMap) -> Result<Wish, Problem> {
    Ok(Wish { key: key(headers)?, by: Some(caller.origin()) })
}

pub(super) fn accepted(id: CommandId, command: Value) -> (StatusCode, Json<Value>) {
    (StatusCode::ACCEPTED, Json(json!({ "commandId": id, "command": command })))
}

pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let tx = find(&app, &caller, &id).await?.tx;
    let command = app.handle.cancel(&tx, &wish(&caller, &headers)?).await?;
    Ok(accepted(command, json!({ "type": "cancel", "tx": tx.id })))
}

pub(crate) async fn replace(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let tx = find(&app, &caller, &id).await?.tx;
    let (payload, terms) = body::replacement(body::json(&headers, &taken(body)?)?)?;
    let command = app.handle.replace(&tx, payload, terms, &wish(&caller, &headers)?).await?;
    Ok(accepted(command, json!({ "type": "replace", "tx": tx.id, "version": tx.version().next() })))
}

pub(crate) async fn speed_up(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let record = find(&app, &caller, &id).await?;
    let (fees, speed) = body::speed_up(body::json_or_nothing(&headers, &taken(body)?)?)?;
    let command = app.handle.speed_up(&record, fees, speed, &wish(&caller, &headers)?).await?;
    Ok(accepted(command, json!({ "type": "speed_up", "tx": record.tx.id })))
}

pub(crate) async fn approve(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    decide(&app, &caller, &id, true, &headers, body).await
}

pub(crate) async fn reject(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    decide(&app, &caller, &id, false, &headers, body).await
}

async fn decide(app: &App, caller: &Caller, id: &str, yes: bool, headers: &HeaderMap, body: Body) -> Answer {
    let tx = find(app, caller, id).await?.tx;
    let (version, held_for) = body::decision(body::json_or_nothing(headers, &taken(body)?)?)?;
    check_held_for(&tx, held_for)?;
    let command = app.handle.decide(&tx, yes, version, &wish(caller, headers)?).await?;
    let word = if yes { "approve" } else { "reject" };
    let version = version.unwrap_or(tx.version());
    Ok(accepted(command, json!({ "type": word, "tx": tx.id, "version": version })))
}

/// A word on one that may have landed is about the nonce that was looked at, and about no other.
fn check_held_for(tx: &Transaction, looked_at: Option<Slot>) -> Result<(), Problem> {
    let Some(shown) = tx.status.forgotten_as.filter(|_| tx.status.may_have_landed()) else {
        let detail =
            "each nonce that did the same is accounted for by now: look at it again, and speak of no nonce";
        let is_late = looked_at.is_some() && tx.status.may_have_landed();
        return if is_late { Err(Problem::new(Code::HeldForNeeded, detail)) } else { Ok(()) };
    };
    if looked_at == Some(shown) {
        return Ok(());
    }
    let detail = match looked_at {
        None => format!(
            "it may have landed with nonce {shown}: look at that one, and say that it was looked at (`\"heldFor\": {shown}`). \
             Approve it if it is another payment, reject it if it is that one"
        ),
        Some(other) => format!(
            "it may have landed with nonce {shown}, and not with nonce {other}: look at it again, and say which one was looked at"
        ),
    };
    Err(Problem::new(Code::HeldForNeeded, detail))
}

pub(crate) async fn settle(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let tx = find(&app, &caller, &id).await?.tx;
    let (whose, looked_at) = body::taken(body::json(&headers, &taken(body)?)?)?;
    let command = app.handle.settle(&tx, whose, looked_at, &wish(&caller, &headers)?).await?;
    Ok(accepted(command, json!({ "type": "settle", "tx": tx.id, "taken": whose })))
}

/// A new transaction that does an ended one again. There is one for each, so asking twice is harmless.
pub(crate) async fn retry(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let tx = find(&app, &caller, &id).await?.tx;
    // A key is taken and checked for its form; the old transaction's id is what makes the call idempotent.
    key(&headers)?;
    let options = body::retry(body::json_or_nothing(&headers, &taken(body)?)?)?;
    if let Some(options) = &options {
        may_follow(&app, &caller, options).await?;
    }
    let (status, mut body) = admitted(app.handle.retry(&tx, options, Some(caller.origin())).await?)?;
    body["retryOf"] = json!(tx.id);
    Ok((status, Json(body)))
}
