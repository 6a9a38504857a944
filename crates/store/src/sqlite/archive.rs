//! Putting a chain away. The file's lock says that nothing else uses it.

use landfall_core::ChainId;
use rusqlite::{OptionalExtension, params};

use super::error::Fault;
use super::rows::bits;
use super::scope::Scope;
use crate::archive::{Archived, name};

/// Moves a chain to a namespace of its own; none if nothing is known of it.
pub(super) fn archive(scope: &mut Scope<'_>, chain: ChainId) -> Result<Option<Archived>, Fault> {
    let (db, old) = (scope.db, scope.namespace);
    let mut lanes: Vec<(i64, i64)> = Vec::new();
    let mut found = db.prepare(
        "SELECT lane.id, account.id FROM account JOIN lane ON lane.account = account.id
         WHERE account.namespace = ?1 AND lane.chain = ?2",
    )?;
    let mut rows = found.query(params![old, bits(chain.0)])?;
    while let Some(row) = rows.next()? {
        lanes.push((row.get(0)?, row.get(1)?));
    }
    let seen = "SELECT 1 FROM chain WHERE namespace = ?1 AND chain = ?2";
    let seen = db.query_row(seen, params![old, bits(chain.0)], |_| Ok(())).optional()?;
    if lanes.is_empty() && seen.is_none() {
        return Ok(None);
    }
    let (new, namespace) = new_namespace(scope, chain)?;
    let mut transactions = 0;
    for (lane, account) in &lanes {
        db.execute(
            "INSERT INTO account (namespace, address) SELECT ?1, address FROM account WHERE id = ?2",
            params![new, account],
        )?;
        let moved = db.last_insert_rowid();
        let txs = "UPDATE tx SET namespace = ?1, account = ?2 WHERE lane = ?3";
        transactions += db.execute(txs, params![new, moved, lane])?;
        db.execute("UPDATE command SET namespace = ?1 WHERE lane = ?2", params![new, lane])?;
        db.execute(
            "UPDATE kept SET namespace = ?1, account = ?2
             WHERE account = ?3 AND json_extract(details, '$.lane.chain') = ?4",
            params![new, moved, account, bits(chain.0)],
        )?;
        db.execute("UPDATE lane SET account = ?1, session = NULL WHERE id = ?2", params![moved, lane])?;
    }
    let record = "UPDATE chain SET namespace = ?1 WHERE namespace = ?2 AND chain = ?3";
    db.execute(record, params![new, old, bits(chain.0)])?;
    scope.known.clear();
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    Ok(Some(Archived { namespace, lanes: count(lanes.len()), transactions: count(transactions) }))
}

fn new_namespace(scope: &Scope<'_>, chain: ChainId) -> Result<(i64, String), Fault> {
    let db = scope.db;
    let own: String =
        db.query_row("SELECT name FROM namespace WHERE id = ?1", [scope.namespace], |row| row.get(0))?;
    let mut insert = db.prepare("INSERT INTO namespace (name) VALUES (?1) ON CONFLICT DO NOTHING")?;
    let mut n = 1;
    loop {
        let name = name(&own, chain, n);
        if insert.execute([&name])? == 1 {
            return Ok((db.last_insert_rowid(), name));
        }
        n += 1;
    }
}
