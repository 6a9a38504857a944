//! Leases (L1). One row per session carries the expiry of all its lanes, judged by the database's clock as it is at
//! that moment (`now()` would be the moment the transaction began).
//!
//! A takeover updates the lane's own row, which every write updates first, so the two come one after the other. It
//! also deletes the ended session's row, so that a renewal that was under way finds nothing to renew: a session is
//! either renewed or taken from, never both. Lanes are locked before sessions.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use landfall_core::ports::store::{Acquired, Holders};
use landfall_core::{LaneId, SessionId, Token};

use super::error::Fault;
use super::lanes::LaneNumbers;
use super::moved_in;
use super::rows::{self, bits, number};
use crate::rules;

/// No other process of the namespace has a session that lives.
pub(super) const ALONE: &str = "SELECT NOT EXISTS (SELECT 1 FROM session
     WHERE namespace = $1 AND id <> $2 AND ends_at > clock_timestamp())";

/// Begins a session, without leases.
pub(super) async fn open_session(
    db: &ClientWrapper,
    namespace: i64,
    session: SessionId,
    node: &str,
    lasting: Duration,
) -> Result<(), Fault> {
    db.batch_execute("BEGIN").await?;
    // Under the lock that a move takes for itself: whichever comes first, the other one sees it.
    db.query("SELECT 1 FROM landfall_schema FOR SHARE", &[]).await?;
    if let Some(source) = moved_in::unfinished(db).await? {
        return Err(Fault::Refused(format!(
            "the database is being filled from {source}; no server works on it"
        )));
    }
    give_back_all(db, namespace, session).await?;
    let insert = db
        .prepare_cached(
            "INSERT INTO session (namespace, id, node, ends_at)
             VALUES ($1, $2, $3, clock_timestamp() + $4 * interval '1 millisecond')
             ON CONFLICT (namespace, id) DO UPDATE SET node = excluded.node, ends_at = excluded.ends_at",
        )
        .await?;
    db.execute(&insert, &[&namespace, &session.0, &node, &millis(lasting)]).await?;
    // What processes left that never came back and whose lanes nobody wanted.
    let sweep = db
        .prepare_cached(
            "DELETE FROM session WHERE namespace = $1 AND ends_at < clock_timestamp() - interval '1 day'",
        )
        .await?;
    db.execute(&sweep, &[&namespace]).await?;
    db.batch_execute("COMMIT").await?;
    Ok(())
}

/// Prolongs a session that has not ended.
pub(super) async fn renew_session(
    db: &ClientWrapper,
    namespace: i64,
    session: SessionId,
    lasting: Duration,
) -> Result<bool, Fault> {
    let renew = db
        .prepare_cached(
            "UPDATE session SET ends_at = clock_timestamp() + $3 * interval '1 millisecond'
             WHERE namespace = $1 AND id = $2 AND ends_at > clock_timestamp()",
        )
        .await?;
    Ok(db.execute(&renew, &[&namespace, &session.0, &millis(lasting)]).await? > 0)
}

/// Ends a session and gives its leases back.
pub(super) async fn close_session(
    db: &ClientWrapper,
    namespace: i64,
    session: SessionId,
) -> Result<(), Fault> {
    db.batch_execute("BEGIN").await?;
    give_back_all(db, namespace, session).await?;
    let delete = db.prepare_cached("DELETE FROM session WHERE namespace = $1 AND id = $2").await?;
    db.execute(&delete, &[&namespace, &session.0]).await?;
    db.batch_execute("COMMIT").await?;
    Ok(())
}

async fn give_back_all(db: &ClientWrapper, namespace: i64, session: SessionId) -> Result<(), Fault> {
    let give_back = db
        .prepare_cached(
            "WITH held AS (SELECT id FROM lane WHERE namespace = $1 AND session = $2 ORDER BY id FOR UPDATE)
             UPDATE lane SET session = NULL FROM held WHERE lane.id = held.id AND lane.session = $2",
        )
        .await?;
    db.execute(&give_back, &[&namespace, &session.0]).await?;
    Ok(())
}

/// Takes a lane that no other live session holds.
pub(super) async fn acquire(
    db: &ClientWrapper,
    namespace: i64,
    numbers: &LaneNumbers,
    lane: LaneId,
    session: SessionId,
) -> Result<Acquired, Fault> {
    let live = "SELECT node FROM session WHERE namespace = $1 AND id = $2 AND ends_at > clock_timestamp()";
    let live = db.prepare_cached(live).await?;
    if db.query_opt(&live, &[&namespace, &session.0]).await?.is_none() {
        return Err(Fault::Refused(rules::session_ended(session)));
    }
    let ids = numbers.find_or_make(db, namespace, [lane]).await?;
    let id = ids.get(&lane).ok_or_else(|| Fault::corrupt("lane", format!("lane {lane} was not kept")))?;
    db.batch_execute("BEGIN").await?;
    let lock = db.prepare_cached("SELECT session FROM lane WHERE id = $1 FOR UPDATE").await?;
    let holder: Option<uuid::Uuid> = db.query_one(&lock, &[id]).await?.try_get(0)?;
    if let Some(holder) = holder.filter(|holder| *holder != session.0) {
        let end = db
            .prepare_cached(
                "DELETE FROM session WHERE namespace = $1 AND id = $2 AND ends_at <= clock_timestamp()",
            )
            .await?;
        db.execute(&end, &[&namespace, &holder]).await?;
        let node = db.prepare_cached("SELECT node FROM session WHERE namespace = $1 AND id = $2").await?;
        if let Some(row) = db.query_opt(&node, &[&namespace, &holder]).await? {
            let held = Acquired::HeldBy { node: row.try_get(0)?, session: SessionId(holder) };
            db.batch_execute("ROLLBACK").await?;
            return Ok(held);
        }
    }
    // Once more, now that the lane is ours to take: it may have ended while we waited.
    if db.query_opt(&live, &[&namespace, &session.0]).await?.is_none() {
        return Err(Fault::Refused(rules::session_ended(session)));
    }
    let take = db
        .prepare_cached("UPDATE lane SET token = token + 1, session = $2 WHERE id = $1 RETURNING token")
        .await?;
    let token: i64 = db.query_one(&take, &[id, &session.0]).await?.try_get(0)?;
    db.batch_execute("COMMIT").await?;
    Ok(Acquired::Yes { token: Token(number(token)) })
}

/// Gives a lane back, if it is still held under that token.
pub(super) async fn release(
    db: &ClientWrapper,
    namespace: i64,
    numbers: &LaneNumbers,
    lane: LaneId,
    session: SessionId,
    token: Token,
) -> Result<(), Fault> {
    let ids = numbers.find(db, namespace, [lane]).await?;
    if let Some(id) = ids.get(&lane) {
        let release = db
            .prepare_cached("UPDATE lane SET session = NULL WHERE id = $1 AND session = $2 AND token = $3")
            .await?;
        db.execute(&release, &[id, &session.0, &bits(token.0)]).await?;
    }
    Ok(())
}

/// Where a session's process can be reached.
pub(super) async fn advertise(
    db: &ClientWrapper,
    namespace: i64,
    session: SessionId,
    address: &str,
) -> Result<(), Fault> {
    let set = db.prepare_cached("UPDATE session SET address = $3 WHERE namespace = $1 AND id = $2").await?;
    db.execute(&set, &[&namespace, &session.0, &address]).await?;
    Ok(())
}

pub(super) async fn address(
    db: &ClientWrapper,
    namespace: i64,
    session: SessionId,
) -> Result<Option<String>, Fault> {
    let get = db
        .prepare_cached(
            "SELECT address FROM session WHERE namespace = $1 AND id = $2 AND ends_at > clock_timestamp()",
        )
        .await?;
    match db.query_opt(&get, &[&namespace, &session.0]).await? {
        Some(row) => Ok(row.try_get(0)?),
        None => Ok(None),
    }
}

/// Who is there, and who has what.
pub(super) async fn holders(db: &ClientWrapper, namespace: i64) -> Result<Holders, Fault> {
    let look = db
        .prepare_cached(
            "SELECT session.id, lane.chain, lane.signer FROM session
             LEFT JOIN lane ON lane.session = session.id AND lane.namespace = session.namespace
             WHERE session.namespace = $1 AND session.ends_at > clock_timestamp()",
        )
        .await?;
    let mut holders = Holders::default();
    for row in db.query(&look, &[&namespace]).await? {
        let session = SessionId(row.try_get(0)?);
        let (chain, signer): (Option<i64>, Option<&[u8]>) = (row.try_get(1)?, row.try_get(2)?);
        let lane = chain.zip(signer).map(|(chain, signer)| rows::lane(chain, signer)).transpose()?;
        holders.live.insert(session);
        holders.held.extend(lane.map(|lane| (lane, session)));
    }
    Ok(holders)
}

fn millis(lasting: Duration) -> f64 {
    lasting.as_secs_f64() * 1_000.0
}
