//! The schema and its versions: numbered SQL files, run under the lock of one row.
//!
//! Old nodes run while a new one brings its schema, so a step only ever adds: a table, a column with a default, an
//! index; and drops at most an index. Each step says which program it still lets run (`runs_with`); a program older than that is told so when it
//! starts. The lock is that of the version's own row, which every database has; a step waits for a table no longer
//! than the lock limit, so that nobody queues up behind it.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::error::SqlState;

use super::error::Fault;
use super::open::OpenError;
use super::pool::quoted;

/// One schema change.
struct Step {
    sql: &'static str,
    /// The oldest program, by the newest version it knows, that still works on the schema this step makes.
    runs_with: i32,
}

/// Every schema change there ever was; number n makes version n.
const STEPS: &[Step] = &[
    Step { sql: include_str!("migrations/0001_first.sql"), runs_with: 1 },
    Step { sql: include_str!("migrations/0002_address.sql"), runs_with: 1 },
    // A program that does not know it would serve a store that is half filled.
    Step { sql: include_str!("migrations/0003_moved_in.sql"), runs_with: 3 },
    Step { sql: include_str!("migrations/0004_records.sql"), runs_with: 3 },
    // A program that does not know it takes history for open: one that still runs watches again what had ended.
    Step { sql: include_str!("migrations/0005_closed.sql"), runs_with: 5 },
    // A program that does not know it cannot read such rows: one that still runs has to be stopped before its followers of the
    // journal come to one.
    Step { sql: include_str!("migrations/0006_together.sql"), runs_with: 6 },
    // A program that does not know it takes a call in again.
    Step { sql: include_str!("migrations/0007_calls.sql"), runs_with: 7 },
    Step { sql: include_str!("migrations/0008_pulse.sql"), runs_with: 7 },
    // A program that does not know it goes on with a database that was restored, and sends again what that has forgotten.
    Step { sql: include_str!("migrations/0009_place.sql"), runs_with: 9 },
    // A program that does not know it writes to the log from before the chain, which is still listed.
    Step { sql: include_str!("migrations/0010_audit.sql"), runs_with: 9 },
    // A program that does not know it leaves the column empty: its commands go by their age.
    Step { sql: include_str!("migrations/0011_command_tx.sql"), runs_with: 9 },
];

/// The version this program knows.
pub(super) fn newest() -> i32 {
    i32::try_from(STEPS.len()).unwrap_or(i32::MAX)
}

/// Makes the schema if it is not there, and brings it to the newest version.
pub(super) async fn prepare(db: &ClientWrapper, schema: &str) -> Result<(), OpenError> {
    let mut tries = 0;
    loop {
        match try_prepare(db, schema).await {
            // Two that start at once both make the first table, and one of them is refused. Its next look finds it.
            Err(Fault::Sql(error)) if tries < 5 && is_crossed(error.code()) => tries += 1,
            Err(fault) => return Err(OpenError::of(fault)),
            Ok((version, runs_with)) if newest() < runs_with => {
                return Err(OpenError::NewerSchema { found: version, known: newest() });
            }
            Ok(_) => return Ok(()),
        }
    }
}

fn is_crossed(code: Option<&SqlState>) -> bool {
    code.is_some_and(|code| {
        [
            SqlState::UNIQUE_VIOLATION,
            SqlState::DUPLICATE_TABLE,
            SqlState::DUPLICATE_SCHEMA,
            // The table's row type, which is made with it.
            SqlState::DUPLICATE_OBJECT,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
        ]
        .contains(code)
    })
}

/// Answers the version and which program it still runs with.
async fn try_prepare(db: &ClientWrapper, schema: &str) -> Result<(i32, i32), Fault> {
    let there = db
        .query_one(
            "SELECT count(*) FROM information_schema.tables
             WHERE table_schema = $1 AND table_name = 'landfall_schema'",
            &[&schema],
        )
        .await?;
    if there.try_get::<_, i64>(0)? == 0 {
        let exists = db
            .query_one("SELECT count(*) FROM information_schema.schemata WHERE schema_name = $1", &[&schema])
            .await?;
        // Asked for only where it is missing: a user may own a schema and not be allowed to make one.
        if exists.try_get::<_, i64>(0)? == 0 {
            db.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {}", quoted(schema))).await?;
        }
        db.batch_execute(
            "CREATE TABLE IF NOT EXISTS landfall_schema
                (one boolean PRIMARY KEY, version integer NOT NULL, runs_with integer NOT NULL);
             INSERT INTO landfall_schema VALUES (true, 0, 0) ON CONFLICT DO NOTHING",
        )
        .await?;
    }
    let (version, runs_with) = version(db, "").await?;
    if version >= newest() {
        return Ok((version, runs_with));
    }
    let migrated = migrate(db).await;
    if migrated.is_err() {
        db.batch_execute("ROLLBACK").await?;
    }
    migrated
}

async fn migrate(db: &ClientWrapper) -> Result<(i32, i32), Fault> {
    // A step may read a large table once; it is not cut short for that.
    db.batch_execute("BEGIN; SET LOCAL statement_timeout = 0").await?;
    // From here to the commit every other node that wants to change the schema waits.
    let (from, mut runs_with) = version(db, " FOR UPDATE").await?;
    let mut at = from;
    for (version, step) in (1..).zip(STEPS) {
        if version > at {
            db.batch_execute(step.sql).await?;
            (at, runs_with) = (version, step.runs_with);
        }
    }
    if at > from {
        db.execute("UPDATE landfall_schema SET version = $1, runs_with = $2", &[&at, &runs_with]).await?;
    }
    db.batch_execute("COMMIT").await?;
    if at > from {
        tracing::info!(version = at, "the database has a new schema");
    }
    Ok((at, runs_with))
}

async fn version(db: &ClientWrapper, lock: &str) -> Result<(i32, i32), Fault> {
    let row = db.query_one(&format!("SELECT version, runs_with FROM landfall_schema{lock}"), &[]).await?;
    Ok((row.try_get(0)?, row.try_get(1)?))
}
