//! Admission: one row per signer and key, for ever, and one per call.

use landfall_core::ports::store::Admission;
use landfall_core::request::{CallId, NewTransaction};
use landfall_core::transaction::Transaction;
use landfall_core::{Account, QueueOrder, RequestId, TxId};
use rusqlite::{Connection, Params, params};

use super::error::Fault;
use super::forget;
use super::known::Place;
use super::rows::{self, bits, phase_code, state_code};
use super::scope::Scope;
use crate::columns::call_columns;
use crate::journal;
use crate::rules::{self, Phase};

/// Stores a transaction and its first journal entry, or says what is there already.
pub(super) fn admit(scope: &mut Scope<'_>, new: &NewTransaction) -> Result<Admission, Fault> {
    if let Some(removed) = removed(scope, new)? {
        return Ok(removed);
    }
    // A lane is made only by an admission that is new: a replay writes nothing. And what stayed of a call is in no index of
    // this table.
    let unseen = scope.lane(new.lane)?.is_none() || new.request.call().is_some();
    if unseen && let Some(known) = known(scope, new)? {
        return Ok(known);
    }
    let lane = scope.lane_or_new(new.lane)?;
    let tx = rules::admitted(new, QueueOrder(0));
    let call = new.request.call().map(call_columns);
    let inserted = scope
        .db
        .prepare_cached(
            "INSERT INTO tx (id, namespace, account, lane, request_id, phase, state, slot, request, status,
                api_key, caller_nonce)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL, ?8, ?9, ?10, ?11) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            new.id.0.as_bytes(),
            scope.namespace,
            lane.account,
            lane.lane,
            new.request.request_id.as_ref().map(RequestId::as_str),
            phase_code(Phase::Waiting),
            state_code(tx.status.state),
            serde_json::to_string(&new.request)?,
            serde_json::to_string(&tx.status)?,
            call.map(|(key, _)| key),
            call.map(|(_, nonce)| nonce),
        ])?;
    if inserted == 0 {
        return known(scope, new)?.ok_or_else(|| {
            Fault::corrupt("tx", format!("{} is refused as known but cannot be found", new.id))
        });
    }
    let order = scope.db.last_insert_rowid();
    let (phase, state) = (phase_code(Phase::Waiting), state_code(tx.status.state));
    scope.known.is_at(new.id, Place { lane: lane.lane, order, phase, state, slot: None });
    let seq = scope.take_journal_numbers(1)?;
    scope
        .db
        .prepare_cached("INSERT INTO journal (seq, lane, tx, at, entry) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![
            seq,
            lane.lane,
            order,
            bits(new.request.accepted_at.0),
            journal::accepted(&new.request)?
        ])?;
    Ok(Admission::New(Transaction { order: QueueOrder(order), ..tx }))
}

/// What stayed under the admission's key or id, if its history was removed.
fn removed(scope: &mut Scope<'_>, new: &NewTransaction) -> Result<Option<Admission>, Fault> {
    if !forget::has_forgotten(scope)? {
        return Ok(None);
    }
    let by_key = match &new.request.request_id {
        Some(key) => forget::by_request(scope.db, scope.namespace, new.lane.signer, key)?,
        None => None,
    };
    if let Some(kept) = by_key {
        return Ok(Some(rules::kept_under_key(kept, new)));
    }
    let by_id = forget::by_id(scope.db, scope.namespace, new.id)?;
    by_id.map(|kept| rules::kept_under_id(kept, new).map_err(Fault::Refused)).transpose()
}

/// What the store already has under the admission's key, id or nonce.
fn known(scope: &mut Scope<'_>, new: &NewTransaction) -> Result<Option<Admission>, Fault> {
    let by_key = match &new.request.request_id {
        Some(key) => by_request(scope.db, scope.namespace, new.lane.signer, key)?,
        None => None,
    };
    if let Some(existing) = by_key {
        return Ok(Some(if rules::asks_the_same(&existing, new) {
            Admission::Replay(existing)
        } else {
            Admission::Conflict(existing.id)
        }));
    }
    match by_id(scope.db, scope.namespace, new.id)? {
        None => under_nonce(scope, new),
        Some(existing) if rules::is_again(&existing, new) => Ok(Some(Admission::Replay(existing))),
        Some(existing) => Err(Fault::Refused(rules::id_taken(existing.id))),
    }
}

/// The transaction under the nonce that the caller gave, or under the same nonce from before keys.
fn under_nonce(scope: &mut Scope<'_>, new: &NewTransaction) -> Result<Option<Admission>, Fault> {
    let (Some(call), Some(lane)) = (new.request.call(), scope.lane(new.lane)?) else { return Ok(None) };
    if let Some(known) = under_call(scope, new, lane.lane, call)? {
        return Ok(Some(known));
    }
    match call.before_keys() {
        Some(call) => Ok(under_call(scope, new, lane.lane, &call)?.and_then(Admission::if_the_same)),
        None => Ok(None),
    }
}

fn under_call(
    scope: &mut Scope<'_>,
    new: &NewTransaction,
    lane: i64,
    call: &CallId,
) -> Result<Option<Admission>, Fault> {
    if let Some(existing) = by_call(scope.db, lane, call)? {
        return Ok(Some(rules::under_nonce(existing, new)));
    }
    if !forget::has_forgotten(scope)? {
        return Ok(None);
    }
    let kept = forget::by_call(scope.db, lane, call)?;
    Ok(kept.map(|kept| rules::kept_under_nonce(kept, new)))
}

/// The transaction of an id.
pub(super) fn by_id(db: &Connection, namespace: i64, id: TxId) -> Result<Option<Transaction>, Fault> {
    one(db, "tx.id = ?1 AND tx.namespace = ?2", params![id.0.as_bytes(), namespace])
}

/// The transaction of a signer's key.
pub(super) fn by_request(
    db: &Connection,
    namespace: i64,
    signer: Account,
    request: &RequestId,
) -> Result<Option<Transaction>, Fault> {
    one(
        db,
        "tx.request_id = ?3 AND tx.account =
            (SELECT id FROM account WHERE namespace = ?1 AND address = ?2)",
        params![namespace, signer.0.as_slice(), request.as_str()],
    )
}

/// The transaction of a call.
pub(super) fn by_call(db: &Connection, lane: i64, call: &CallId) -> Result<Option<Transaction>, Fault> {
    let (key, nonce) = call_columns(call);
    one(db, "tx.lane = ?1 AND tx.api_key = ?2 AND tx.caller_nonce = ?3", params![lane, key, nonce])
}

fn one(db: &Connection, which: &str, params: impl Params) -> Result<Option<Transaction>, Fault> {
    let sql = format!("SELECT {} FROM tx {} WHERE {which}", rows::TX_COLUMNS, rows::TX_JOINS);
    let mut statement = db.prepare_cached(&sql)?;
    let mut found = statement.query(params)?;
    found.next()?.map(rows::tx).transpose()
}
