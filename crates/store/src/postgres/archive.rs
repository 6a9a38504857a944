//! Putting a chain away. No node may run meanwhile: each remembers the numbers of its lanes.

use deadpool_postgres::ClientWrapper;
use landfall_core::ChainId;

use super::error::Fault;
use super::leases::lives;
use super::rows::bits;
use crate::archive::{Archived, name};

/// Moves a chain to a namespace of its own; none if nothing is known of it.
pub(super) async fn archive(db: &ClientWrapper, old: i64, chain: ChainId) -> Result<Option<Archived>, Fault> {
    db.batch_execute("BEGIN").await?;
    let number = bits(chain.0);
    let known = "SELECT EXISTS (SELECT 1 FROM lane WHERE namespace = $1 AND chain = $2)
                     OR EXISTS (SELECT 1 FROM chain WHERE namespace = $1 AND chain = $2)";
    if !db.query_one(known, &[&old, &number]).await?.try_get::<_, bool>(0)? {
        db.batch_execute("ROLLBACK").await?;
        return Ok(None);
    }
    let (new, namespace) = new_namespace(db, old, chain).await?;
    let lanes: Vec<i64> = db
        .query(
            "UPDATE lane SET namespace = $1, session = NULL WHERE namespace = $2 AND chain = $3 RETURNING id",
            &[&new, &old, &number],
        )
        .await?
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()?;
    let transactions =
        db.execute("UPDATE tx SET namespace = $1 WHERE lane = ANY ($2)", &[&new, &lanes]).await?;
    for table in ["command", "journal"] {
        let change = format!("UPDATE {table} SET namespace = $1 WHERE lane = ANY ($2)");
        db.execute(&change, &[&new, &lanes]).await?;
    }
    let told = chain.0.to_string();
    db.execute(
        "UPDATE kept SET namespace = $1 WHERE namespace = $2 AND details::json #>> '{lane,chain}' = $3",
        &[&new, &old, &told],
    )
    .await?;
    let record = "UPDATE chain SET namespace = $1 WHERE namespace = $2 AND chain = $3";
    db.execute(record, &[&new, &old, &number]).await?;
    // Last, with the lanes locked: one that began meanwhile is seen, and one that comes now finds the lanes gone.
    let live = concat!("SELECT node FROM session WHERE namespace = $1 AND ", lives!(), " LIMIT 1");
    if let Some(row) = db.query_opt(live, &[&old]).await? {
        let node: String = row.try_get(0)?;
        return Err(Fault::Refused(format!(
            "the node {node} is at work on this database; stop every node, then try again"
        )));
    }
    db.batch_execute("COMMIT").await?;
    let lanes = u64::try_from(lanes.len()).unwrap_or(u64::MAX);
    Ok(Some(Archived { namespace, lanes, transactions }))
}

async fn new_namespace(db: &ClientWrapper, old: i64, chain: ChainId) -> Result<(i64, String), Fault> {
    let own: String = db.query_one("SELECT name FROM namespace WHERE id = $1", &[&old]).await?.try_get(0)?;
    let insert = "INSERT INTO namespace (name) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id";
    let mut n = 1;
    let (new, name): (i64, String) = loop {
        let name = name(&own, chain, n);
        if let Some(row) = db.query_opt(insert, &[&name]).await? {
            break (row.try_get(0)?, name);
        }
        n += 1;
    };
    db.execute(
        "INSERT INTO journal_end (namespace, last) SELECT $1, last FROM journal_end WHERE namespace = $2",
        &[&new, &old],
    )
    .await?;
    Ok((new, name))
}
