//! Look-ups, each in one read transaction: lanes as their owners load them and people see them ([`lanes`]),
//! transactions one by one and in lists ([`txs`]), and the journal ([`journal`]).

pub(super) mod journal;
pub(super) mod lanes;
pub(super) mod txs;

use rusqlite::{Connection, Params, Row};

use super::error::Fault;

/// Every row of a query, decoded.
fn all<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    mut decode: impl FnMut(&Row<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(decode(row)?);
    }
    Ok(found)
}
