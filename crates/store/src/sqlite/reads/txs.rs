//! Transactions, one by one and in lists.
//!
//! A list is read from the narrowest place that holds it, newest first: by hash from the attempts, by an uncommon
//! state from that state's index, by signer from its lanes, and else from the newest row downwards.

use landfall_core::attempt::Attempt;
use landfall_core::ports::store::{TxQuery, TxRecord};
use landfall_core::request::CallId;
use landfall_core::transaction::{Status, Transaction, TxState};
use landfall_core::{Account, CallerNonce, LaneId, RequestId, TxHash, TxId};
use rusqlite::types::Value;
use rusqlite::{Row, params, params_from_iter};

use super::all;
use crate::columns::call_columns;
use crate::sqlite::error::Fault;
use crate::sqlite::readers::Look;
use crate::sqlite::rows::{self, bits, number, state_code};
use crate::sqlite::{admit, forget, scope};

/// A transaction by its id.
pub(in crate::sqlite) fn by_id(look: &Look<'_>, id: TxId) -> Result<Option<TxRecord>, Fault> {
    admit::by_id(look.db, look.namespace, id)?.map(|tx| with_attempts(look, tx)).transpose()
}

/// How far transactions are, in the order asked; unknown ones are left out.
pub(in crate::sqlite) fn statuses(look: &Look<'_>, ids: &[TxId]) -> Result<Vec<(TxId, Status)>, Fault> {
    let mut found = Vec::with_capacity(ids.len());
    let mut statement = look.db.prepare_cached("SELECT status FROM tx WHERE id = ?1 AND namespace = ?2")?;
    for id in ids {
        let mut rows = statement.query(params![id.0.as_bytes(), look.namespace])?;
        if let Some(row) = rows.next()? {
            found.push((*id, rows::json("tx.status", rows::column(row, 0)?)?));
        } else if let Some(kept) = forget::by_id(look.db, look.namespace, *id)? {
            found.push((*id, kept.status()));
        }
    }
    Ok(found)
}

/// A transaction by its signer and key.
pub(in crate::sqlite) fn by_request(
    look: &Look<'_>,
    signer: Account,
    request: &RequestId,
) -> Result<Option<TxRecord>, Fault> {
    let found = admit::by_request(look.db, look.namespace, signer, request)?;
    found.map(|tx| with_attempts(look, tx)).transpose()
}

/// The nonces of known calls with one API key or with none, from a number upwards.
pub(in crate::sqlite) fn nonces_from(
    look: &Look<'_>,
    lane: LaneId,
    from: &CallId,
    limit: u32,
) -> Result<Vec<CallerNonce>, Fault> {
    let Some(lane) = scope::find_lane(look.db, look.namespace, lane)? else { return Ok(Vec::new()) };
    let (key, nonce) = call_columns(from);
    let of = |(table, key): (&str, &str)| {
        format!(
            "SELECT caller_nonce FROM (SELECT caller_nonce FROM {table}
             WHERE lane = ?1 AND api_key = {key} AND caller_nonce >= ?3 ORDER BY caller_nonce LIMIT ?4)"
        )
    };
    let parts = [("tx", "?2"), ("kept", "?2"), ("tx", "''"), ("kept", "''")].map(of);
    let sql = format!("{} ORDER BY 1 LIMIT ?4", parts.join(" UNION "));
    let read = |row: &Row<'_>| Ok(CallerNonce(number(row.get(0)?)));
    all(look.db, &sql, params![lane.lane, key, nonce, limit], read)
}

fn with_attempts(look: &Look<'_>, tx: Transaction) -> Result<TxRecord, Fault> {
    let sql = format!(
        "SELECT {} FROM attempt {} WHERE attempt.tx = ?1",
        rows::ATTEMPT_COLUMNS,
        rows::ATTEMPT_JOINS
    );
    let mut attempts: Vec<Attempt> = all(look.db, &sql, [tx.order.0], rows::attempt)?;
    attempts.sort_by_key(|attempt| (attempt.slot, attempt.ordinal));
    Ok(TxRecord { tx, attempts })
}

/// A list, newest first.
pub(in crate::sqlite) fn list(look: &Look<'_>, query: &TxQuery) -> Result<Vec<Transaction>, Fault> {
    let place = match (query.hash, query.state, query.signer) {
        (Some(hash), _, _) => Place::Hash(hash),
        (None, Some(state), _) if state != TxState::Confirmed => Place::State(state),
        (None, _, Some(signer)) => Place::Signer(signer),
        (None, _, None) => Place::Newest,
    };
    match place {
        Place::Signer(signer) => of_signer(look, query, signer),
        Place::Hash(_) | Place::State(_) | Place::Newest => {
            let mut filter = Filter::of(query);
            filter.within(&place);
            filter.run(look, query.limit)
        }
    }
}

/// Where a list is read from.
enum Place {
    Hash(TxHash),
    State(TxState),
    Signer(Account),
    Newest,
}

/// The conditions of a list, with their values. Values are bound by number, so that they can be in any order.
struct Filter {
    conditions: String,
    values: Vec<Value>,
}

impl Filter {
    fn of(query: &TxQuery) -> Self {
        let mut filter = Self { conditions: "1".to_owned(), values: Vec::new() };
        if let Some(before) = query.before {
            filter.and("tx.ord <", Value::Integer(before.0));
        }
        if let Some(state) = query.state {
            filter.and("tx.state =", Value::Integer(state_code(state)));
        }
        if let Some(chain) = query.chain {
            filter.and("lane.chain =", Value::Integer(bits(chain.0)));
        }
        if let Some(signer) = query.signer {
            filter.and("account.address =", Value::Blob(signer.0.to_vec()));
        }
        filter
    }

    fn and(&mut self, condition: &str, value: Value) {
        self.values.push(value);
        self.conditions.push_str(&format!(" AND {condition} ?{}", self.values.len()));
    }

    fn within(&mut self, place: &Place) {
        match place {
            Place::Hash(hash) => {
                self.and(
                    "tx.ord IN (SELECT tx FROM attempt INDEXED BY attempt_hash WHERE hash =",
                    Value::Blob(hash.0.to_vec()),
                );
                let bound = self.values.len();
                self.conditions.push_str(&format!(" AND substr(hash, 1, 4) = substr(?{bound}, 1, 4))"));
            }
            Place::State(state) => self.conditions.push_str(index_of(*state)),
            Place::Signer(_) | Place::Newest => {}
        }
    }

    fn run(mut self, look: &Look<'_>, limit: u32) -> Result<Vec<Transaction>, Fault> {
        self.and("tx.namespace =", Value::Integer(look.namespace));
        self.values.push(Value::Integer(i64::from(limit)));
        // The joins are fixed as written: the planner would rather begin at the accounts.
        let sql = format!(
            "SELECT {} FROM tx CROSS JOIN lane ON lane.id = tx.lane
             CROSS JOIN account ON account.id = lane.account
             WHERE {} ORDER BY tx.ord DESC LIMIT ?{}",
            rows::TX_COLUMNS,
            self.conditions,
            self.values.len()
        );
        all(look.db, &sql, params_from_iter(self.values), rows::tx)
    }
}

/// The rows that can be in a state, by the index that holds few others.
fn index_of(state: TxState) -> &'static str {
    match state {
        TxState::Accepted | TxState::Simulated | TxState::AwaitingApproval => {
            " AND tx.ord IN (SELECT ord FROM tx INDEXED BY tx_waiting WHERE phase = 0
              UNION ALL SELECT ord FROM tx INDEXED BY tx_bound WHERE phase = 1)"
        }
        TxState::Signed | TxState::Broadcast | TxState::Mined => {
            " AND tx.ord IN (SELECT ord FROM tx INDEXED BY tx_bound WHERE phase = 1)"
        }
        TxState::Reverted | TxState::Failed | TxState::Cancelled | TxState::Expired => " AND tx.state > 6",
        TxState::Confirmed => "",
    }
}

/// The newest of each lane of the signer, put together.
fn of_signer(look: &Look<'_>, query: &TxQuery, signer: Account) -> Result<Vec<Transaction>, Fault> {
    let lanes: Vec<i64> = all(
        look.db,
        "SELECT lane.id FROM account JOIN lane ON lane.account = account.id
         WHERE account.namespace = ?1 AND account.address = ?2",
        params![look.namespace, signer.0.as_slice()],
        |row| Ok(row.get(0)?),
    )?;
    let mut found = Vec::new();
    for lane in lanes {
        let mut filter = Filter::of(query);
        filter.and("tx.lane =", Value::Integer(lane));
        found.append(&mut filter.run(look, query.limit)?);
    }
    found.sort_by_key(|tx| std::cmp::Reverse(tx.order));
    found.truncate(usize::try_from(query.limit).unwrap_or(usize::MAX));
    Ok(found)
}
