//! Small documents, each with a version.

use deadpool_postgres::ClientWrapper;
use futures::future::try_join_all;
use landfall_core::ports::records::{Record, RecordKind, RecordQuery, RecordWrite, RecordsWritten};
use tokio_postgres::{Row, Statement};

use super::error::Fault;
use super::rows::{bits, number};

/// How many writes are on their way to the database at once.
const AHEAD: usize = 100;

const REMOVE: &str = "DELETE FROM record WHERE namespace = $1 AND kind = $2 AND id = $3 AND version = $4";
const INSERT: &str = "INSERT INTO record (namespace, kind, id, version, body) VALUES ($1, $2, $3, 1, $4)
                      ON CONFLICT DO NOTHING";
const UPDATE: &str = "UPDATE record SET version = version + 1, body = $5
                      WHERE namespace = $1 AND kind = $2 AND id = $3 AND version = $4";

/// Writes all in one transaction, in the order of their keys so that two writers wait for each other in one direction; if
/// one is at another version, none is written.
///
/// They are sent without waiting for the answer to the one before: a thousand of them far from the database would
/// otherwise take longer than a step may, and never get through.
pub(super) async fn write(
    db: &ClientWrapper,
    namespace: i64,
    writes: &[RecordWrite],
) -> Result<RecordsWritten, Fault> {
    let mut ordered: Vec<&RecordWrite> = writes.iter().collect();
    ordered.sort_by_key(|write| (write.kind, &write.id));
    let writing = Writing::prepared(db, namespace).await?;
    db.batch_execute("BEGIN").await?;
    for some in ordered.chunks(AHEAD) {
        let mut under_way = Vec::with_capacity(AHEAD);
        for write in some {
            under_way.push(writing.one(write));
        }
        if try_join_all(under_way).await?.contains(&0) {
            db.batch_execute("ROLLBACK").await?;
            return Ok(RecordsWritten::Changed);
        }
    }
    db.batch_execute("COMMIT").await?;
    Ok(RecordsWritten::Yes)
}

/// The three ways to write a record, known to the connection.
struct Writing<'a> {
    db: &'a ClientWrapper,
    namespace: i64,
    remove: Statement,
    insert: Statement,
    update: Statement,
}

impl<'a> Writing<'a> {
    async fn prepared(db: &'a ClientWrapper, namespace: i64) -> Result<Self, Fault> {
        Ok(Self {
            db,
            namespace,
            remove: db.prepare_cached(REMOVE).await?,
            insert: db.prepare_cached(INSERT).await?,
            update: db.prepare_cached(UPDATE).await?,
        })
    }

    /// How many rows it changed: one, unless the record is at another version.
    async fn one(&self, write: &RecordWrite) -> Result<u64, Fault> {
        let (db, namespace, id) = (self.db, self.namespace, &write.id);
        let (kind, expected) = (write.kind.number(), bits(write.expected));
        let changed = match &write.body {
            None => db.execute(&self.remove, &[&namespace, &kind, id, &expected]).await?,
            Some(body) if write.expected == 0 => {
                db.execute(&self.insert, &[&namespace, &kind, id, &serde_json::to_string(body)?]).await?
            }
            Some(body) => {
                let body = serde_json::to_string(body)?;
                db.execute(&self.update, &[&namespace, &kind, id, &expected, &body]).await?
            }
        };
        Ok(changed)
    }
}

/// Removes the lowest ids.
pub(super) async fn trim(
    db: &ClientWrapper,
    namespace: i64,
    kind: RecordKind,
    below: &str,
    limit: u32,
) -> Result<u64, Fault> {
    let remove = "DELETE FROM record WHERE namespace = $1 AND kind = $2 AND id IN
        (SELECT id FROM record WHERE namespace = $1 AND kind = $2 AND id < $3 ORDER BY id LIMIT $4)";
    let (kind, limit) = (kind.number(), i64::from(limit));
    Ok(db.execute(remove, &[&namespace, &kind, &below, &limit]).await?)
}

pub(super) async fn one(
    db: &ClientWrapper,
    namespace: i64,
    kind: RecordKind,
    id: &str,
) -> Result<Option<Record>, Fault> {
    let find = "SELECT id, version, body FROM record WHERE namespace = $1 AND kind = $2 AND id = $3";
    let found = db.query_opt(find, &[&namespace, &kind.number(), &id]).await?;
    found.as_ref().map(record).transpose()
}

pub(super) async fn list(
    db: &ClientWrapper,
    namespace: i64,
    query: &RecordQuery,
) -> Result<Vec<Record>, Fault> {
    let (beyond, order) = if query.descending { ("<", "DESC") } else { (">", "ASC") };
    let sql = format!(
        "SELECT id, version, body FROM record
         WHERE namespace = $1 AND kind = $2 AND starts_with(id, $3) AND id >= $3
           AND ($4::text IS NULL OR id {beyond} $4)
         ORDER BY id {order} LIMIT $5"
    );
    let (kind, limit) = (query.kind.number(), i64::from(query.limit));
    let rows = db.query(&sql, &[&namespace, &kind, &query.prefix, &query.after, &limit]).await?;
    rows.iter().map(record).collect()
}

fn record(row: &Row) -> Result<Record, Fault> {
    let body: String = row.try_get(2)?;
    let body = serde_json::from_str(&body).map_err(|error| Fault::corrupt("record", error))?;
    Ok(Record { id: row.try_get(0)?, version: number(row.try_get(1)?), body })
}
