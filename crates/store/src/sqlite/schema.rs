//! The schema and its versions: numbered SQL files, each run in a transaction of its own.
//!
//! A file says what it is in its header: `application_id` that it is ours, `user_version` which schema it has.

use rusqlite::{Connection, TransactionBehavior};

/// "LNDF", in the header of every file of ours.
pub(super) const APPLICATION_ID: i32 = 0x4c4e_4446;

/// Every schema change there ever was; number n makes version n.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_kept.sql"),
    include_str!("migrations/0003_moved.sql"),
    include_str!("migrations/0004_records.sql"),
    include_str!("migrations/0005_ended.sql"),
    include_str!("migrations/0006_closed.sql"),
    include_str!("migrations/0007_together.sql"),
    include_str!("migrations/0008_by_age.sql"),
    include_str!("migrations/0009_calls.sql"),
    include_str!("migrations/0010_mark.sql"),
    include_str!("migrations/0011_audit.sql"),
    include_str!("migrations/0012_command_tx.sql"),
];

/// The version this program writes.
pub(super) fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// What a file's header and contents say about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    /// Nothing in it yet.
    Empty,
    /// Ours, with the schema of this version.
    Ours(u32),
    /// Another program's.
    Foreign,
}

/// Reads what the file is; writes nothing.
pub(super) fn identify(db: &Connection) -> rusqlite::Result<Identity> {
    let application: i32 = db.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: u32 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application, tables) {
        (APPLICATION_ID, _) => Identity::Ours(version),
        (0, 0) => Identity::Empty,
        _ => Identity::Foreign,
    })
}

/// Brings the schema from a version to the newest one.
pub(super) fn migrate(db: &mut Connection, from: u32) -> rusqlite::Result<()> {
    migrate_to(db, from, newest())
}

fn migrate_to(db: &mut Connection, from: u32, to: u32) -> rusqlite::Result<()> {
    for (version, sql) in (1..=to).zip(MIGRATIONS) {
        if version <= from {
            continue;
        }
        let step = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        step.execute_batch(sql)?;
        step.pragma_update(None, "application_id", APPLICATION_ID)?;
        step.pragma_update(None, "user_version", version)?;
        step.commit()?;
        tracing::info!(version, "the database has a new schema");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(db: &Connection) -> Vec<String> {
        let mut rows =
            db.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn every_earlier_schema_becomes_the_newest_one() {
        let mut fresh = Connection::open_in_memory().unwrap();
        assert_eq!(identify(&fresh).unwrap(), Identity::Empty);
        migrate(&mut fresh, 0).unwrap();
        assert_eq!(identify(&fresh).unwrap(), Identity::Ours(newest()));
        for earlier in 0..newest() {
            let mut db = Connection::open_in_memory().unwrap();
            migrate_to(&mut db, 0, earlier).unwrap();
            migrate(&mut db, earlier).unwrap();
            assert_eq!(shape(&db), shape(&fresh), "from version {earlier}");
        }
    }

    #[test]
    fn a_failed_migration_leaves_the_file_as_it_was() {
        let mut db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE chain (x)").unwrap();
        assert!(migrate(&mut db, 0).is_err());
        assert_eq!(shape(&db), ["CREATE TABLE chain (x)"]);
        assert_eq!(identify(&db).unwrap(), Identity::Foreign);
    }
}
