//! A store that went back: what the file says of it, and the words of a person, that it did and that it is to be used as it is.

use landfall_core::LaneId;
use landfall_core::ports::store::{Acceptance, Command, Older, WriteError};
use rusqlite::{Connection, OptionalExtension, params};

use super::error::Fault;
use super::group;
use super::mark::{self, Found, Row};
use super::rows;
use super::scope::Scope;
use super::writer::WriteSide;
use crate::rules;

/// Writes down, for everybody who has something in the file, that it is an older copy. An acceptance that lanes have not heard of
/// was of an earlier time.
pub(super) fn flag(db: &Connection, why: &Older) -> Result<(), Fault> {
    db.execute(
        "INSERT INTO older (namespace, why) SELECT id, ?1 FROM namespace WHERE true
                ON CONFLICT DO UPDATE SET why = excluded.why",
        [serde_json::to_string(why)?],
    )?;
    db.execute(
        "UPDATE command SET done = 1 WHERE done = 0 AND json_extract(kind, '$.type') = 'accept_store'",
        [],
    )?;
    Ok(())
}

/// A namespace that is first served in an older copy: the copy may have been made before it was there. It waits as the strictest of the
/// others does, for a person's word before it waits for nothing but its lanes. Archives do not count: nobody serves and accepts them.
pub(super) fn is_born(db: &Connection, namespace: i64) -> Result<(), Fault> {
    db.execute(
        "INSERT INTO older (namespace, why)
            SELECT ?1, other.why FROM older other JOIN namespace space ON space.id = other.namespace
            WHERE space.name NOT GLOB '*~[0-9]*~[0-9]*'
            ORDER BY json_extract(other.why, '$.type') = 'accepted', space.id LIMIT 1",
        [namespace],
    )?;
    Ok(())
}

/// A person says that the file is an older copy, for everybody who has something in it. What the chain showed before counts no more: this
/// is the word that slots which it took back will never be used.
pub(super) fn take_for_older(scope: &mut Scope<'_>) -> Result<(), Fault> {
    let said = serde_json::to_string(&Older::Said)?;
    scope.db.execute(
        "INSERT INTO older (namespace, why) SELECT id, ?1 FROM namespace WHERE true
            ON CONFLICT DO UPDATE SET why = excluded.why WHERE json_extract(why, '$.type') = 'accepted'",
        [said],
    )?;
    scope.db.execute(
        "UPDATE lane SET details = json_remove(details, '$.olderCount')
            WHERE json_extract(details, '$.olderCount') IS NOT NULL",
        [],
    )?;
    scope.db.execute(
        "UPDATE command SET done = 1 WHERE done = 0 AND json_extract(kind, '$.type') = 'accept_store'",
        [],
    )?;
    Ok(())
}

/// The stored reason why the file is an older copy, accepted or not.
pub(super) fn older(db: &Connection, namespace: i64) -> Result<Option<Older>, Fault> {
    let why: Option<String> = db
        .prepare_cached("SELECT why FROM older WHERE namespace = ?1")?
        .query_row([namespace], |row| row.get(0))
        .optional()?;
    let read = |why: String| serde_json::from_str(&why).map_err(|error| Fault::corrupt("older", error));
    why.map(read).transpose()
}

/// A person has accepted the file, and this lane has not gone on yet.
pub(super) fn awaits(db: &Connection, lane: i64) -> Result<bool, Fault> {
    let mut look = db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM command
            WHERE lane = ?1 AND done = 0 AND json_extract(kind, '$.type') = 'accept_store')",
    )?;
    Ok(look.query_row([lane], |row| row.get(0))?)
}

/// Takes the file as it is. The mark that lies beside it is replaced by one of a new lineage.
pub(super) fn accept(side: &mut WriteSide, commands: &[Command]) -> Result<Acceptance, WriteError> {
    let WriteSide { db, namespace, known, marker, .. } = side;
    let failed = |fault: Fault| WriteError::Failed(fault.into_error("accept the store"));
    let open = group::begin(db)?;
    let mut scope = Scope { db: &open, namespace: *namespace, known };
    match in_transaction(&mut scope, marker.file(), commands) {
        Ok(Acceptance::Yes) => group::finish(open, known)?,
        Ok(refused) => return Ok(refused),
        Err(fault) => {
            drop(open);
            known.clear();
            return Err(failed(fault));
        }
    }
    // Accepted it is. A mark that cannot be written now is written with the next ones.
    let row = Row::read(db).map_err(|error| failed(error.into()))?;
    let journal = mark::journal_end(db).map_err(|error| failed(error.into()))?;
    match marker.begin(row.lineage, journal) {
        Ok(()) => drop(db.execute("UPDATE mark SET awaits = NULL", [])),
        Err(error) => {
            tracing::warn!(%error, "the mark beside the database cannot be written; it is tried again")
        }
    }
    Ok(Acceptance::Yes)
}

fn in_transaction(
    scope: &mut Scope<'_>,
    file: &std::path::Path,
    commands: &[Command],
) -> Result<Acceptance, Fault> {
    let accepted = serde_json::to_string(&Older::Accepted)?;
    let changed = scope.db.execute(
        "UPDATE older SET why = ?2 WHERE namespace = ?1 AND json_extract(why, '$.type') <> 'accepted'",
        params![scope.namespace, accepted],
    )?;
    if changed == 0 {
        return Ok(Acceptance::NotOlder);
    }
    if let Some(lane) = rules::untold(lanes(scope)?, commands) {
        return Ok(Acceptance::Untold(lane));
    }
    let lying =
        Found::read(file).map_err(|error| Fault::Refused(format!("the mark cannot be read: {error}")))?;
    scope.db.execute("UPDATE mark SET lineage = randomblob(16), awaits = ?1", params![lying.text()])?;
    for command in commands {
        group::insert_command(scope, command)?;
    }
    Ok(Acceptance::Yes)
}

/// Every lane of the namespace.
fn lanes(scope: &Scope<'_>) -> Result<Vec<LaneId>, Fault> {
    let mut look = scope.db.prepare(
        "SELECT lane.chain, account.address FROM account JOIN lane ON lane.account = account.id WHERE account.namespace = ?1",
    )?;
    let mut found = look.query([scope.namespace])?;
    let mut lanes = Vec::new();
    while let Some(row) = found.next()? {
        let address: Vec<u8> = row.get(1)?;
        lanes.push(rows::lane(row.get(0)?, &address)?);
    }
    Ok(lanes)
}
