//! The audit chain: appended by the one thread that writes, so numbers follow each other.

use alloy_primitives::B256;
use landfall_core::Millis;
use landfall_core::audit::{Cut, Ends, Link, New, Row, Seal, Trimmed};
use landfall_core::ports::audit::Page;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::error::Fault;
use super::readers::Look;
use super::rows::{bits, number};
use super::scope::Scope;

/// Appends entries; the head after them.
pub(super) fn append(scope: &Scope<'_>, entries: Vec<New>) -> Result<Link, Fault> {
    let before = ends(scope.db, scope.namespace)?;
    put(scope, before, entries).map(|ends| ends.head)
}

fn put(scope: &Scope<'_>, mut ends: Ends, entries: Vec<New>) -> Result<Ends, Fault> {
    let insert = "INSERT INTO audit (namespace, seq, at, entry, hash) VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut insert = scope.db.prepare_cached(insert)?;
    for new in entries {
        let row = ends.head.then(new);
        insert.execute(params![
            scope.namespace,
            bits(row.seq),
            bits(row.at.0),
            row.text,
            row.hash.0.as_slice()
        ])?;
        ends.head = row.link();
    }
    let Ends { anchor, head } = ends;
    scope
        .db
        .prepare_cached(
            "INSERT INTO audit_ends (namespace, seq, hash, anchor, anchor_hash) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET seq = excluded.seq, hash = excluded.hash, anchor = excluded.anchor,
                anchor_hash = excluded.anchor_hash",
        )?
        .execute(params![
            scope.namespace,
            bits(head.seq),
            head.hash.0.as_slice(),
            bits(anchor.seq),
            anchor.hash.0.as_slice()
        ])?;
    Ok(ends)
}

pub(super) fn ends(db: &Connection, namespace: i64) -> Result<Ends, Fault> {
    let read = "SELECT seq, hash, anchor, anchor_hash FROM audit_ends WHERE namespace = ?1";
    let found = db
        .prepare_cached(read)?
        .query_row([namespace], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let Some((seq, hash, anchor, anchor_hash)): Option<(i64, Vec<u8>, i64, Vec<u8>)> = found else {
        return Ok(Ends::EMPTY);
    };
    Ok(Ends {
        head: Link { seq: number(seq), hash: seal(&hash)? },
        anchor: Link { seq: number(anchor), hash: seal(&anchor_hash)? },
    })
}

pub(super) fn list(look: &Look<'_>, page: Page, limit: u32) -> Result<Vec<Row>, Fault> {
    let (which, order, from) = match page {
        Page::After(seq) => ("seq > ?2", "ASC", seq),
        // Rows at or before the anchor are none of the chain.
        Page::Before(seq) => (
            "seq < ?2 AND seq > coalesce((SELECT anchor FROM audit_ends WHERE namespace = ?1), 0)",
            "DESC",
            seq,
        ),
    };
    let sql = format!(
        "SELECT seq, at, entry, hash FROM audit WHERE namespace = ?1 AND {which} ORDER BY seq {order} LIMIT ?3"
    );
    // Numbers of rows stay far below where the sign begins.
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    let mut statement = look.db.prepare_cached(&sql)?;
    let mut found = statement.query(params![look.namespace, from, limit])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let hash: Vec<u8> = row.get(3)?;
        rows.push(Row {
            seq: number(row.get(0)?),
            at: Millis(number(row.get(1)?)),
            text: row.get(2)?,
            hash: seal(&hash)?,
        });
    }
    Ok(rows)
}

/// How many rows have a number that nothing here gives.
pub(super) fn unnumbered(look: &Look<'_>) -> Result<u64, Fault> {
    let count = "SELECT count(*) FROM audit WHERE namespace = ?1 AND seq < 1";
    Ok(number(look.db.query_row(count, [look.namespace], |row| row.get(0))?))
}

/// Removes the oldest rows, and says so in a new one.
pub(super) fn trim(scope: &Scope<'_>, before: Millis, limit: u32, now: Millis) -> Result<u64, Fault> {
    let ends = ends(scope.db, scope.namespace)?;
    let oldest =
        "SELECT seq, at FROM audit WHERE namespace = ?1 AND seq > ?2 AND seq < ?3 ORDER BY seq LIMIT ?4";
    let within = params![scope.namespace, bits(ends.anchor.seq), bits(ends.head.seq), limit];
    let mut oldest = scope.db.prepare_cached(oldest)?;
    let oldest = oldest.query_map(within, |row| Ok((number(row.get(0)?), Millis(number(row.get(1)?)))))?;
    let oldest: Vec<(u64, Millis)> = oldest.collect::<Result<_, _>>()?;
    let (last, newest) = match Cut::of(oldest, before, now) {
        Cut::Nothing => return Ok(0),
        Cut::UpTo { seq, newest } => (seq, newest),
        Cut::WithTheNext { seq } => {
            let next =
                "SELECT at FROM audit WHERE namespace = ?1 AND seq > ?2 AND at <= ?3 ORDER BY seq LIMIT 1";
            let after = params![scope.namespace, bits(seq), bits(now.0)];
            let next = scope.db.query_row(next, after, |row| row.get(0)).optional()?;
            match next.map(|at| Millis(number(at))).filter(|at| *at < before) {
                Some(newest) => (seq, newest),
                None => return Ok(0),
            }
        }
    };
    let hash: Vec<u8> = scope.db.query_row(
        "SELECT hash FROM audit WHERE namespace = ?1 AND seq = ?2",
        params![scope.namespace, bits(last)],
        |row| row.get(0),
    )?;
    let anchor = Link { seq: last, hash: seal(&hash)? };
    let gone = scope.db.execute(
        "DELETE FROM audit WHERE namespace = ?1 AND seq > ?2 AND seq <= ?3",
        params![scope.namespace, bits(ends.anchor.seq), bits(last)],
    )?;
    put(scope, Ends { anchor, ..ends }, vec![Trimmed::entry(anchor, newest, now)?])?;
    Ok(u64::try_from(gone).unwrap_or(u64::MAX))
}

fn seal(bytes: &[u8]) -> Result<Seal, Fault> {
    B256::try_from(bytes).map(Seal).map_err(|error| Fault::corrupt("audit.hash", error))
}
