//! Small documents, each with a version.

use deadpool_postgres::ClientWrapper;
use landfall_core::ports::records::{Record, RecordKind, RecordQuery, RecordWrite, RecordsWritten};
use tokio_postgres::Row;

use super::error::Fault;
use super::rows::{bits, number};

/// Writes all in one transaction, in the order of their keys so that two writers wait for each other in one direction; the
/// first that is at another version ends it.
pub(super) async fn write(
    db: &ClientWrapper,
    namespace: i64,
    writes: &[RecordWrite],
) -> Result<RecordsWritten, Fault> {
    let mut ordered: Vec<&RecordWrite> = writes.iter().collect();
    ordered.sort_by_key(|write| (write.kind, &write.id));
    db.batch_execute("BEGIN").await?;
    for write in ordered {
        if one_written(db, namespace, write).await? == 0 {
            db.batch_execute("ROLLBACK").await?;
            return Ok(RecordsWritten::Changed);
        }
    }
    db.batch_execute("COMMIT").await?;
    Ok(RecordsWritten::Yes)
}

async fn one_written(db: &ClientWrapper, namespace: i64, write: &RecordWrite) -> Result<u64, Fault> {
    let (kind, expected) = (write.kind.number(), bits(write.expected));
    let changed = match &write.body {
        None => {
            let remove = "DELETE FROM record WHERE namespace = $1 AND kind = $2 AND id = $3 AND version = $4";
            db.execute(remove, &[&namespace, &kind, &write.id, &expected]).await?
        }
        Some(body) if write.expected == 0 => {
            let insert = "INSERT INTO record (namespace, kind, id, version, body) VALUES ($1, $2, $3, 1, $4)
                          ON CONFLICT DO NOTHING";
            db.execute(insert, &[&namespace, &kind, &write.id, &serde_json::to_string(body)?]).await?
        }
        Some(body) => {
            let update = "UPDATE record SET version = version + 1, body = $5
                          WHERE namespace = $1 AND kind = $2 AND id = $3 AND version = $4";
            let body = serde_json::to_string(body)?;
            db.execute(update, &[&namespace, &kind, &write.id, &expected, &body]).await?
        }
    };
    Ok(changed)
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
