//! Transactions, one by one and in lists.
//!
//! A list is read from the narrowest place that holds it, newest first: by hash from the attempts, by state from that
//! state's index, by signer from its lanes, and else from the newest row downwards.

use deadpool_postgres::ClientWrapper;
use landfall_core::ports::store::{TxQuery, TxRecord};
use landfall_core::request::CallId;
use landfall_core::transaction::{Transaction, TxState};
use landfall_core::{Account, CallerNonce, LaneId, RequestId, TxId};
use tokio_postgres::types::ToSql;

use super::{Value, all};
use crate::columns::call_columns;
use crate::postgres::error::Fault;
use crate::postgres::lanes::LaneNumbers;
use crate::postgres::rows::{self, bits, number, state_code};

/// A transaction by its id.
pub(in crate::postgres) async fn by_id(
    db: &ClientWrapper,
    namespace: i64,
    id: TxId,
) -> Result<Option<TxRecord>, Fault> {
    one(db, "tx.id = $1 AND tx.namespace = $2", &[&id.0, &namespace]).await
}

/// A transaction by its signer and key.
pub(in crate::postgres) async fn by_request(
    db: &ClientWrapper,
    namespace: i64,
    signer: Account,
    request: &RequestId,
) -> Result<Option<TxRecord>, Fault> {
    let which = "tx.namespace = $1 AND tx.signer = $2 AND tx.request_id = $3";
    one(db, which, &[&namespace, &signer.0.as_slice(), &request.as_str()]).await
}

/// The transaction of a call.
pub(in crate::postgres) async fn by_call(
    db: &ClientWrapper,
    namespace: i64,
    numbers: &LaneNumbers,
    lane: LaneId,
    call: &CallId,
) -> Result<Option<Transaction>, Fault> {
    let Some(lane) = numbers.find(db, namespace, [lane]).await?.remove(&lane) else { return Ok(None) };
    let (key, nonce) = call_columns(call);
    let sql = format!(
        "SELECT {} FROM tx JOIN lane ON lane.id = tx.lane
         WHERE tx.lane = $1 AND tx.api_key = $2 AND tx.caller_nonce = $3",
        rows::TX_COLUMNS
    );
    Ok(all(db, &sql, &[&lane, &key, &nonce], rows::tx).await?.pop())
}

/// The nonces of known calls with one API key or with none, from a number upwards.
pub(in crate::postgres) async fn nonces_from(
    db: &ClientWrapper,
    namespace: i64,
    numbers: &LaneNumbers,
    lane: LaneId,
    from: &CallId,
    limit: u32,
) -> Result<Vec<CallerNonce>, Fault> {
    let Some(lane) = numbers.find(db, namespace, [lane]).await?.remove(&lane) else { return Ok(Vec::new()) };
    let (key, nonce) = call_columns(from);
    let of = |(table, key): (&str, &str)| {
        format!(
            "(SELECT caller_nonce FROM {table} WHERE lane = $1 AND api_key = {key} AND caller_nonce >= $3
             ORDER BY caller_nonce LIMIT $4)"
        )
    };
    let parts = [("tx", "$2"), ("kept", "$2"), ("tx", "''"), ("kept", "''")].map(of);
    let sql = format!("{} ORDER BY 1 LIMIT $4", parts.join(" UNION "));
    let read = |row: &tokio_postgres::Row| Ok(CallerNonce(number(row.try_get(0)?)));
    all(db, &sql, &[&lane, &key, &nonce, &i64::from(limit)], read).await
}

async fn one(db: &ClientWrapper, which: &str, values: &[Value<'_>]) -> Result<Option<TxRecord>, Fault> {
    let sql =
        format!("SELECT {}, tx.lane FROM tx JOIN lane ON lane.id = tx.lane WHERE {which}", rows::TX_COLUMNS);
    let read = |row: &tokio_postgres::Row| Ok((rows::tx(row)?, row.try_get::<_, i64>(6)?));
    let Some((tx, lane)) = all(db, &sql, values, read).await?.pop() else { return Ok(None) };
    let sql = format!("SELECT {} FROM attempt WHERE tx = $1 AND lane = $2", rows::ATTEMPT_COLUMNS);
    let mut attempts = all(db, &sql, &[&tx.id.0, &lane], rows::attempt).await?;
    attempts.sort_by_key(|attempt| (attempt.slot, attempt.ordinal));
    Ok(Some(TxRecord { tx, attempts }))
}

/// A list, newest first.
pub(in crate::postgres) async fn list(
    db: &ClientWrapper,
    namespace: i64,
    query: &TxQuery,
) -> Result<Vec<Transaction>, Fault> {
    let mut filter = Filter { conditions: "tx.namespace = $1".to_owned(), values: vec![Box::new(namespace)] };
    if let Some(before) = query.before {
        filter.and("tx.ord < ?", before.0);
    }
    if let Some(state) = query.state {
        filter.and("tx.state = ?", state_code(state));
        match rows::ended_code(state) {
            Some(code) => filter.and("tx.ended = ?", code),
            None => filter.conditions.push_str(phases_of(state)),
        }
    }
    if let Some(hash) = query.hash {
        filter.and(
            "(tx.id, tx.lane) IN (SELECT attempt.tx, attempt.lane FROM attempt WHERE attempt.hash = ?)",
            hash.0.to_vec(),
        );
    }
    filter.values.push(Box::new(i64::from(query.limit)));
    let limit = filter.values.len();
    let mut lanes = "lane.id = tx.lane".to_owned();
    if let Some(chain) = query.chain {
        filter.values.push(Box::new(bits(chain.0)));
        lanes.push_str(&format!(" AND lane.chain = ${}", filter.values.len()));
    }
    let conditions = &filter.conditions;
    let columns = rows::TX_COLUMNS;
    let sql = if let Some(signer) = query.signer {
        filter.values.push(Box::new(signer.0.to_vec()));
        // The newest of each lane of the signer, put together.
        format!(
            "SELECT {columns} FROM lane CROSS JOIN LATERAL
                (SELECT * FROM tx WHERE {lanes} AND {conditions} ORDER BY tx.ord DESC LIMIT ${limit}) AS tx
             WHERE lane.namespace = $1 AND lane.signer = ${} ORDER BY tx.ord DESC LIMIT ${limit}",
            filter.values.len()
        )
    } else {
        format!(
            "SELECT {columns} FROM tx JOIN lane ON {lanes} WHERE {conditions}
             ORDER BY tx.ord DESC LIMIT ${limit}"
        )
    };
    let values: Vec<Value<'_>> = filter.values.iter().map(|value| &**value as Value<'_>).collect();
    all(db, &sql, &values, rows::tx).await
}

/// The conditions of a list, with their values.
struct Filter {
    conditions: String,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Filter {
    fn and(&mut self, condition: &str, value: impl ToSql + Sync + Send + 'static) {
        self.values.push(Box::new(value));
        let condition = condition.replace('?', &format!("${}", self.values.len()));
        self.conditions.push_str(&format!(" AND {condition}"));
    }
}

/// The phases that a state can be in, each of which has an index that holds few others.
fn phases_of(state: TxState) -> &'static str {
    match state {
        TxState::Accepted | TxState::Simulated | TxState::AwaitingApproval => {
            " AND (tx.phase = 0 OR tx.phase = 1)"
        }
        TxState::Signed | TxState::Broadcast | TxState::Mined => " AND tx.phase = 1",
        TxState::Confirmed | TxState::Reverted | TxState::Failed | TxState::Cancelled | TxState::Expired => {
            ""
        }
    }
}
