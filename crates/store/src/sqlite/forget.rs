//! Removing the history of what ended long ago, in small steps. What stays is a row in `kept`: the id, the key, the call and how
//! it ended, so that a late retry is still answered and never lands again.

use landfall_core::ports::store::{Forget, Forgotten, Kept};
use landfall_core::request::CallId;
use landfall_core::transaction::Transaction;
use landfall_core::{Account, ChainId, RequestId, TxHash, TxId};
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::error::Fault;
use super::rows::{self, bits};
use super::scope::Scope;
use crate::columns::call_columns;
use crate::rules;

/// Looks at the next transactions in their order and removes those that may go.
pub(super) fn forget(scope: &mut Scope<'_>, step: Forget) -> Result<Forgotten, Fault> {
    let mut removed = 0;
    let mut last = None;
    let old = oldest(scope, step)?;
    let seen = old.len();
    let newest = newest(scope)?;
    forget_commands(scope, step)?;
    for tx in old {
        if rules::is_young(&tx, step.before) {
            return Ok(Forgotten { removed, next: None });
        }
        last = Some(tx.order);
        // The newest of all stays: the numbers of the next ones follow from it.
        let is_newest = newest.contains(&Some(tx.order.0));
        if rules::may_go(&tx, step.before) && !is_newest && !has_open_attempts(scope, &tx)? {
            remove(scope, &tx)?;
            removed += 1;
        }
    }
    let more = seen >= usize::try_from(step.limit).unwrap_or(usize::MAX);
    Ok(Forgotten { removed, next: last.filter(|_| more) })
}

fn oldest(scope: &Scope<'_>, step: Forget) -> Result<Vec<Transaction>, Fault> {
    // The joins are fixed as written: the planner would rather begin at the accounts.
    let sql = format!(
        "SELECT {} FROM tx CROSS JOIN lane ON lane.id = tx.lane CROSS JOIN account ON account.id = lane.account
         WHERE tx.ord > ?1 AND tx.namespace = ?2 ORDER BY tx.ord LIMIT ?3",
        rows::TX_COLUMNS
    );
    let mut statement = scope.db.prepare_cached(&sql)?;
    let mut found = statement.query(params![step.after.0, scope.namespace, step.limit])?;
    let mut txs = Vec::new();
    while let Some(row) = found.next()? {
        txs.push(rows::tx(row)?);
    }
    Ok(txs)
}

/// Removes some of the applied commands that are no transaction's.
fn forget_commands(scope: &Scope<'_>, step: Forget) -> Result<(), Fault> {
    let sql = "DELETE FROM command WHERE seq IN (
            SELECT seq FROM command INDEXED BY command_age
            WHERE done = 1 AND tx IS NULL AND at < ?1 AND namespace = ?2 LIMIT ?3)";
    let of = params![bits(step.before.0), scope.namespace, rules::COMMANDS_AT_ONCE];
    scope.db.prepare_cached(sql)?.execute(of)?;
    Ok(())
}

/// The newest transaction, and the one that the newest journal entry is about.
fn newest(scope: &Scope<'_>) -> Result<[Option<i64>; 2], Fault> {
    let order = scope.db.query_row("SELECT max(ord) FROM tx", [], |row| row.get(0))?;
    let told: Option<Option<i64>> = scope
        .db
        .query_row("SELECT tx FROM journal ORDER BY seq DESC LIMIT 1", [], |row| row.get(0))
        .optional()?;
    Ok([order, told.flatten()])
}

fn has_open_attempts(scope: &Scope<'_>, tx: &Transaction) -> Result<bool, Fault> {
    let sql = "SELECT EXISTS (SELECT 1 FROM attempt JOIN lane ON lane.id = attempt.lane
         WHERE attempt.tx = ?1 AND attempt.open = 1 AND (attempt.apart = 1 OR attempt.slot >= lane.closed))";
    Ok(scope.db.prepare_cached(sql)?.query_row([tx.order.0], |row| row.get(0))?)
}

fn remove(scope: &mut Scope<'_>, tx: &Transaction) -> Result<(), Fault> {
    scope.known.drop_place(tx.id);
    scope.known.forgotten = Some(true);
    let kept = Kept::of(tx);
    let first_hash = kept.first_hash.as_ref().map(|hash| hash.0.as_slice());
    scope
        .db
        .prepare_cached(
            "INSERT INTO kept (namespace, id, account, request_id, details, lane, api_key, caller_nonce, first_hash)
             SELECT namespace, id, account, request_id, ?2, lane, api_key, caller_nonce, ?3 FROM tx WHERE ord = ?1",
        )?
        .execute(params![tx.order.0, serde_json::to_string(&kept)?, first_hash])?;
    // One that was not applied yet is finished by its lane, and then goes by its age.
    for sql in [
        "DELETE FROM command WHERE tx = ?1 AND namespace = ?2 AND done = 1",
        "UPDATE command SET tx = NULL WHERE tx = ?1 AND namespace = ?2",
    ] {
        scope.db.prepare_cached(sql)?.execute(params![tx.id.0.as_bytes(), scope.namespace])?;
    }
    for sql in [
        "DELETE FROM attempt WHERE tx = ?1",
        "DELETE FROM journal WHERE tx = ?1",
        "DELETE FROM tx WHERE ord = ?1",
    ] {
        scope.db.prepare_cached(sql)?.execute([tx.order.0])?;
    }
    Ok(())
}

/// Whether anything was ever removed: where nothing was, no admission need look.
pub(super) fn has_forgotten(scope: &mut Scope<'_>) -> Result<bool, Fault> {
    if let Some(forgotten) = scope.known.forgotten {
        return Ok(forgotten);
    }
    let forgotten = scope.db.query_row("SELECT EXISTS (SELECT 1 FROM kept)", [], |row| row.get(0))?;
    scope.known.forgotten = Some(forgotten);
    Ok(forgotten)
}

/// What stayed under an id.
pub(super) fn by_id(db: &Connection, namespace: i64, id: TxId) -> Result<Option<Kept>, Fault> {
    one(db, "id = ?1 AND namespace = ?2", params![id.0.as_bytes(), namespace])
}

/// What stayed under a signer's key.
pub(super) fn by_request(
    db: &Connection,
    namespace: i64,
    signer: Account,
    request: &RequestId,
) -> Result<Option<Kept>, Fault> {
    one(
        db,
        "request_id = ?3 AND account = (SELECT id FROM account WHERE namespace = ?1 AND address = ?2)",
        params![namespace, signer.0.as_slice(), request.as_str()],
    )
}

/// What stayed of a call.
pub(super) fn by_call(db: &Connection, lane: i64, call: &CallId) -> Result<Option<Kept>, Fault> {
    let (key, nonce) = call_columns(call);
    one(db, "lane = ?1 AND api_key = ?2 AND caller_nonce = ?3", params![lane, key, nonce])
}

/// What stayed of one whose callers were told this hash, if another one won.
pub(super) fn by_first_hash(
    db: &Connection,
    namespace: i64,
    chain: ChainId,
    hash: TxHash,
) -> Result<Option<Kept>, Fault> {
    one(
        db,
        "first_hash = ?1 AND namespace = ?2 AND lane IN (SELECT id FROM lane WHERE chain = ?3)",
        params![hash.0.as_slice(), namespace, bits(chain.0)],
    )
}

fn one(db: &Connection, which: &str, params: impl Params) -> Result<Option<Kept>, Fault> {
    let sql = format!("SELECT details FROM kept WHERE {which}");
    let details: Option<String> = db.prepare_cached(&sql)?.query_row(params, |row| row.get(0)).optional()?;
    details.map(|text| rows::json("kept.details", &text)).transpose()
}
