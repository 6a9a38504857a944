//! A store that went back: what the database says of it, and the words of a person, that it did and that it is to be used as it is.

use deadpool_postgres::ClientWrapper;
use landfall_core::LaneId;
use landfall_core::ports::store::{Acceptance, Command, Older};
use tokio_postgres::Row;
use uuid::Uuid;

use super::error::Fault;
use super::lanes::LaneNumbers;
use super::leases::lives;
use super::rows;
use super::small::CommandRows;
use crate::rules;

/// Why namespace `$1` is an older copy.
pub(super) const WHY: &str = "SELECT why FROM older WHERE namespace = $1";

/// The same, and whether a person has accepted it and lane `$2` has not gone on yet.
pub(super) const WHY_OF_LANE: &str = "SELECT (SELECT why FROM older WHERE namespace = $1),
        EXISTS (SELECT 1 FROM command
            WHERE lane = $2 AND NOT done AND kind::json ->> 'type' = 'accept_store')";

/// The number of the lane with signer `$2` on chain `$3`, if it has a row, and why namespace `$1` is an older copy: both as of one moment,
/// since an acceptance makes the rows of lanes first.
pub(super) const LANE_AND_WHY: &str = "SELECT
        (SELECT id FROM lane WHERE namespace = $1 AND signer = $2 AND chain = $3),
        (SELECT why FROM older WHERE namespace = $1)";

/// Writes down, for everybody who has something in the database, that it is an older copy. An acceptance that lanes have not heard
/// of was of an earlier time. A namespace that is made later is as old as the strictest of these: see [`is_born`].
pub(super) async fn flag_all(db: &ClientWrapper, why: &Older) -> Result<(), Fault> {
    let why = serde_json::to_string(why)?;
    db.execute(
        "INSERT INTO older (namespace, why) SELECT id, $1 FROM namespace
         ON CONFLICT (namespace) DO UPDATE SET why = excluded.why",
        &[&why],
    )
    .await?;
    db.execute(
        "UPDATE command SET done = true WHERE NOT done AND kind::json ->> 'type' = 'accept_store'",
        &[],
    )
    .await?;
    Ok(())
}

/// Makes a namespace. In an older copy, which may have been made before this one was there, it waits as the strictest of the others does:
/// for a person's word before it waits for nothing but its lanes. Archives do not count: nobody serves and accepts them.
pub(super) async fn is_born(db: &ClientWrapper, name: &str) -> Result<(), Fault> {
    db.execute(
        "WITH made AS (INSERT INTO namespace (name) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id)
         INSERT INTO older (namespace, why)
         SELECT made.id, others.why FROM made CROSS JOIN (
            SELECT why FROM older JOIN namespace space ON space.id = older.namespace
            WHERE space.name !~ '~[0-9]+~[0-9]+$'
            ORDER BY why::json ->> 'type' = 'accepted', space.id LIMIT 1) others",
        &[&name],
    )
    .await?;
    Ok(())
}

/// Why the database is an older copy, if it is.
pub(super) async fn why(db: &ClientWrapper, namespace: i64) -> Result<Option<Older>, Fault> {
    let look = db.prepare_cached(WHY).await?;
    match db.query_opt(&look, &[&namespace]).await? {
        Some(row) => Ok(Older::unaccepted(read(row.try_get(0)?)?)),
        None => Ok(None),
    }
}

/// The answer to [`WHY_OF_LANE`].
pub(super) fn of_lane(row: &Row, was_used: bool) -> Result<Option<Older>, Fault> {
    Ok(Older::of_lane(read(row.try_get(0)?)?, row.try_get(1)?, was_used))
}

pub(super) fn read(why: Option<&str>) -> Result<Option<Older>, Fault> {
    let read = |why: &str| serde_json::from_str(why).map_err(|error| Fault::corrupt("older", error));
    why.map(read).transpose()
}

/// Takes the database as it is.
pub(super) async fn accept(
    db: &ClientWrapper,
    namespace: i64,
    numbers: &LaneNumbers,
    commands: &[Command],
) -> Result<Acceptance, Fault> {
    let given = commands;
    let lanes: Vec<_> = commands.iter().map(|command| command.lane).collect();
    let lanes = numbers.find_or_make(db, namespace, lanes).await?;
    let commands: Vec<(usize, &Command)> = commands.iter().enumerate().collect();
    let rows = CommandRows::of(&commands, &lanes)?;
    let insert = db.prepare_cached(CommandRows::INSERT).await?;
    db.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    // Whoever begins a lane makes its row first and then looks whether the store is older: after this.
    db.batch_execute("LOCK TABLE lane IN SHARE MODE").await?;
    let accepted = serde_json::to_string(&Older::Accepted)?;
    let change = "UPDATE older SET why = $2 WHERE namespace = $1 AND why::json ->> 'type' <> 'accepted'";
    if db.execute(change, &[&namespace, &accepted]).await? == 0 {
        db.batch_execute("ROLLBACK").await?;
        return Ok(match is_stored(db, namespace, &commands).await? {
            true => Acceptance::Yes,
            false => Acceptance::NotOlder,
        });
    }
    if let Some(lane) = rules::untold(every_lane(db, namespace).await?, given) {
        db.batch_execute("ROLLBACK").await?;
        return Ok(Acceptance::Untold(lane));
    }
    rows.insert(db, &insert, namespace).await?;
    db.batch_execute("COMMIT").await?;
    Ok(Acceptance::Yes)
}

async fn every_lane(db: &ClientWrapper, namespace: i64) -> Result<Vec<LaneId>, Fault> {
    let found = db.query("SELECT chain, signer FROM lane WHERE namespace = $1", &[&namespace]).await?;
    found.iter().map(|row| rows::lane(row.try_get(0)?, row.try_get(1)?)).collect()
}

/// An earlier try may have done it, and its answer was lost.
async fn is_stored(
    db: &ClientWrapper,
    namespace: i64,
    commands: &[(usize, &Command)],
) -> Result<bool, Fault> {
    let ids: Vec<Uuid> = commands.iter().map(|(_, command)| command.id.0).collect();
    let look = "SELECT EXISTS (SELECT 1 FROM command WHERE namespace = $1 AND id = ANY ($2))";
    Ok(db.query_one(look, &[&namespace, &ids]).await?.try_get(0)?)
}

/// A person says that the database went back, and so every namespace in it. What the chain showed before counts no more: this is the word
/// that slots which it took back will never be used. Refused while a node of any is at work: its lanes would not hear of it.
pub(super) async fn take_for(db: &ClientWrapper) -> Result<(), Fault> {
    db.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    // A node that begins a session waits here.
    db.query("SELECT 1 FROM landfall_schema FOR UPDATE", &[]).await?;
    let live = concat!(
        "SELECT session.node, namespace.name FROM session JOIN namespace ON namespace.id = session.namespace
         WHERE ",
        lives!(),
        " LIMIT 1"
    );
    if let Some(row) = db.query_opt(live, &[]).await? {
        let (node, namespace): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        return Err(Fault::Refused(format!(
            "the node {node} is at work on this database, in the namespace {namespace}; stop every node of every namespace, then try \
             again"
        )));
    }
    let why = serde_json::to_string(&Older::Said)?;
    db.execute(
        "INSERT INTO older (namespace, why) SELECT id, $1 FROM namespace
            ON CONFLICT (namespace) DO UPDATE SET why = excluded.why WHERE older.why::json ->> 'type' = 'accepted'",
        &[&why],
    )
    .await?;
    db.execute(
        "UPDATE lane SET details = (details::jsonb - 'olderCount')::text WHERE details::jsonb ? 'olderCount'",
        &[],
    )
    .await?;
    db.execute(
        "UPDATE command SET done = true WHERE NOT done AND kind::json ->> 'type' = 'accept_store'",
        &[],
    )
    .await?;
    db.batch_execute("COMMIT").await?;
    Ok(())
}
