//! Small documents, each with a version.

use landfall_core::ports::records::{Record, RecordKind, RecordQuery, RecordWrite, RecordsWritten};
use rusqlite::{OptionalExtension, Row, params};

use super::error::Fault;
use super::readers::Look;
use super::rows::{bits, number};
use super::scope::Scope;

/// Writes all, or leaves everything as it is: then it fails, and is rolled back.
pub(super) fn write(scope: &Scope<'_>, writes: &[RecordWrite]) -> Result<RecordsWritten, Fault> {
    // Looked at first: what is refused must not be half written.
    for write in writes {
        let at: Option<i64> = scope
            .db
            .prepare_cached("SELECT version FROM record WHERE namespace = ?1 AND kind = ?2 AND id = ?3")?
            .query_row(params![scope.namespace, write.kind.number(), write.id], |row| row.get(0))
            .optional()?;
        if at.map_or(0, number) != write.expected {
            return Ok(RecordsWritten::Changed);
        }
    }
    for write in writes {
        let key = params![scope.namespace, write.kind.number(), write.id];
        match &write.body {
            None => {
                let remove = "DELETE FROM record WHERE namespace = ?1 AND kind = ?2 AND id = ?3";
                scope.db.prepare_cached(remove)?.execute(key)?;
            }
            Some(body) => {
                let put =
                    "INSERT INTO record (namespace, kind, id, version, body) VALUES (?1, ?2, ?3, ?4, ?5)
                           ON CONFLICT DO UPDATE SET version = excluded.version, body = excluded.body";
                let body = serde_json::to_string(body)?;
                let version = bits(write.expected.saturating_add(1));
                scope.db.prepare_cached(put)?.execute(params![
                    scope.namespace,
                    write.kind.number(),
                    write.id,
                    version,
                    body
                ])?;
            }
        }
    }
    Ok(RecordsWritten::Yes)
}

/// Removes the lowest ids.
pub(super) fn trim(scope: &Scope<'_>, kind: RecordKind, below: &str, limit: u32) -> Result<u64, Fault> {
    let gone = scope
        .db
        .prepare_cached(
            "DELETE FROM record WHERE namespace = ?1 AND kind = ?2 AND id IN
               (SELECT id FROM record WHERE namespace = ?1 AND kind = ?2 AND id < ?3 ORDER BY id LIMIT ?4)",
        )?
        .execute(params![scope.namespace, kind.number(), below, limit])?;
    Ok(u64::try_from(gone).unwrap_or(u64::MAX))
}

pub(super) fn one(look: &Look<'_>, kind: RecordKind, id: &str) -> Result<Option<Record>, Fault> {
    let mut found = look.db.prepare_cached(
        "SELECT id, version, body FROM record WHERE namespace = ?1 AND kind = ?2 AND id = ?3",
    )?;
    let mut rows = found.query(params![look.namespace, kind.number(), id])?;
    rows.next()?.map(record).transpose()
}

pub(super) fn list(look: &Look<'_>, query: &RecordQuery) -> Result<Vec<Record>, Fault> {
    let (beyond, order) = if query.descending { ("<", "DESC") } else { (">", "ASC") };
    let after = query.after.as_ref().map_or(String::new(), |_| format!("AND id {beyond} ?5"));
    let sql = format!(
        "SELECT id, version, body FROM record
         WHERE namespace = ?1 AND kind = ?2 AND substr(id, 1, length(?3)) = ?3 AND id >= ?3 {after}
         ORDER BY id {order} LIMIT ?4"
    );
    let mut found = look.db.prepare_cached(&sql)?;
    let kind = query.kind.number();
    let mut rows = match &query.after {
        Some(after) => found.query(params![look.namespace, kind, query.prefix, query.limit, after])?,
        None => found.query(params![look.namespace, kind, query.prefix, query.limit])?,
    };
    let mut list = Vec::new();
    while let Some(row) = rows.next()? {
        list.push(record(row)?);
    }
    Ok(list)
}

fn record(row: &Row<'_>) -> Result<Record, Fault> {
    let body: String = row.get(2)?;
    let body = serde_json::from_str(&body).map_err(|error| Fault::corrupt("record", error))?;
    Ok(Record { id: row.get(0)?, version: number(row.get(1)?), body })
}
