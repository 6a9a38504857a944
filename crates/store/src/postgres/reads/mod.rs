//! Look-ups: lanes as their owners load them and people see them ([`lanes`]), transactions one by one and in lists
//! ([`txs`]), and the journal ([`journal`]).

pub(super) mod journal;
pub(super) mod lanes;
pub(super) mod txs;

use deadpool_postgres::ClientWrapper;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::error::Fault;

/// A value of a query.
type Value<'a> = &'a (dyn ToSql + Sync);

/// Every row of a query, decoded.
async fn all<T>(
    db: &ClientWrapper,
    sql: &str,
    values: &[Value<'_>],
    decode: impl FnMut(&Row) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let statement = db.prepare_cached(sql).await?;
    db.query(&statement, values).await?.iter().map(decode).collect()
}
