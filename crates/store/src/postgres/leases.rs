//! Leases (L1). One row per session, which all its lanes hang on: a session has ended when its row is gone.
//!
//! Every renewal gives the row a new number. Whoever has seen the same number for as long as the row says it lasts, by a clock of its
//! own that does not step, deletes the row, if the number is still that one: a session is either renewed or ended, never both. The
//! database's clock decides nothing, except about rows of older programs, which have no such number.
//!
//! A takeover updates the lane's own row, which every write updates first, so the two come one after the other. Lanes are locked
//! before sessions.

use std::collections::BTreeMap;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use landfall_core::ports::store::{Acquired, Broken, Holders, Pulse};
use landfall_core::silence::Silence;
use landfall_core::{LaneId, SessionId, Token};
use tokio::time::Instant;

use super::error::Fault;
use super::lanes::LaneNumbers;
use super::moved_in;
use super::rows::{self, bits, number};
use crate::rules;

/// How often a command that needs everybody gone looks whether somebody is there.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A session's row that stands for a session. That of an older program does so until its end by the database's clock, as it is at
/// that moment (`now()` would be the moment the transaction began).
macro_rules! lives {
    () => {
        "(session.lasts_ms IS NOT NULL OR session.ends_at > clock_timestamp())"
    };
}
pub(super) use lives;

/// No other process of the namespace has a session that lives.
pub(super) const ALONE: &str =
    concat!("SELECT NOT EXISTS (SELECT 1 FROM session WHERE namespace = $1 AND id <> $2 AND ", lives!(), ")");

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
            "INSERT INTO session (namespace, id, node, ends_at, pulse, lasts_ms)
             VALUES ($1, $2, $3, clock_timestamp() + $4::bigint * interval '1 millisecond',
                nextval('session_pulse'), $4)
             ON CONFLICT (namespace, id) DO UPDATE SET node = excluded.node, ends_at = excluded.ends_at,
                pulse = excluded.pulse, lasts_ms = excluded.lasts_ms",
        )
        .await?;
    db.execute(&insert, &[&namespace, &session.0, &node, &millis(lasting)]).await?;
    // What older programs left that never came back and whose lanes nobody wanted.
    let sweep = db
        .prepare_cached(
            "DELETE FROM session
             WHERE namespace = $1 AND lasts_ms IS NULL AND ends_at < clock_timestamp() - interval '1 day'",
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
            "UPDATE session SET ends_at = clock_timestamp() + $3::bigint * interval '1 millisecond',
                pulse = nextval('session_pulse'), lasts_ms = $3
             WHERE namespace = $1 AND id = $2",
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

/// Ends a session that gave no other sign of life. What it holds is free once its row is gone.
pub(super) async fn end_session(
    db: &ClientWrapper,
    namespace: i64,
    session: SessionId,
    pulse: Pulse,
) -> Result<bool, Fault> {
    let end = db
        .prepare_cached(
            "DELETE FROM session WHERE namespace = $1 AND id = $2 AND pulse = $3 AND lasts_ms IS NOT NULL",
        )
        .await?;
    Ok(db.execute(&end, &[&namespace, &session.0, &bits(pulse.number)]).await? > 0)
}

/// Ends the session that holds a lane, by a person's word.
pub(super) async fn break_lease(
    db: &ClientWrapper,
    namespace: i64,
    numbers: &LaneNumbers,
    lane: LaneId,
    session: SessionId,
) -> Result<Broken, Fault> {
    let ids = numbers.find(db, namespace, [lane]).await?;
    let Some(id) = ids.get(&lane) else { return Ok(Broken::NotHeld) };
    db.batch_execute("BEGIN").await?;
    let lock = "SELECT 1 FROM lane WHERE id = $1 AND session = $2 FOR UPDATE";
    let delete = "DELETE FROM session WHERE namespace = $1 AND id = $2";
    let holds = db.query_opt(lock, &[id, &session.0]).await?.is_some();
    if !holds || db.execute(delete, &[&namespace, &session.0]).await? == 0 {
        db.batch_execute("ROLLBACK").await?;
        return Ok(Broken::NotHeld);
    }
    let count = "SELECT count(*) FROM lane WHERE namespace = $1 AND session = $2";
    let lanes: i64 = db.query_one(count, &[&namespace, &session.0]).await?.try_get(0)?;
    db.batch_execute("COMMIT").await?;
    Ok(Broken::Yes { lanes: number(lanes) })
}

/// Ends what processes left that died, in one namespace or in all: for those who need everybody gone. One that is heard of ends the
/// wait, and stays.
pub(super) async fn end_silent(db: &ClientWrapper, namespace: Option<i64>) -> Result<(), Fault> {
    let look = "SELECT namespace, id, pulse, lasts_ms FROM session
         WHERE lasts_ms IS NOT NULL AND namespace = COALESCE($1, namespace)";
    let (begun, mut silence, mut first) = (Instant::now(), Silence::default(), BTreeMap::new());
    loop {
        let (mut shown, mut places) = (BTreeMap::new(), BTreeMap::new());
        for row in db.query(look, &[&namespace]).await? {
            let session = SessionId(row.try_get(1)?);
            shown.insert(session, pulse(row.try_get(2)?, row.try_get(3)?));
            places.insert(session, row.try_get::<_, i64>(0)?);
        }
        if first.is_empty() {
            first = shown.clone();
        }
        if shown.iter().any(|(session, pulse)| first.get(session) != Some(pulse)) {
            return Ok(());
        }
        for (session, pulse) in silence.look(&shown, begun.elapsed()) {
            if let Some(namespace) = places.get(&session) {
                end_session(db, *namespace, session, pulse).await?;
                shown.remove(&session);
            }
        }
        if shown.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Takes a lane that no other live session holds.
pub(super) async fn acquire(
    db: &ClientWrapper,
    namespace: i64,
    numbers: &LaneNumbers,
    lane: LaneId,
    session: SessionId,
) -> Result<Acquired, Fault> {
    let live = concat!("SELECT 1 FROM session WHERE namespace = $1 AND id = $2 AND ", lives!());
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
                "DELETE FROM session
                 WHERE namespace = $1 AND id = $2 AND lasts_ms IS NULL AND ends_at <= clock_timestamp()",
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
        .prepare_cached(concat!(
            "SELECT address FROM session WHERE namespace = $1 AND id = $2 AND ",
            lives!()
        ))
        .await?;
    match db.query_opt(&get, &[&namespace, &session.0]).await? {
        Some(row) => Ok(row.try_get(0)?),
        None => Ok(None),
    }
}

/// Who is there, and who has what.
pub(super) async fn holders(db: &ClientWrapper, namespace: i64) -> Result<Holders, Fault> {
    let look = db
        .prepare_cached(concat!(
            "SELECT session.id, lane.chain, lane.signer, session.pulse, session.lasts_ms FROM session
             LEFT JOIN lane ON lane.session = session.id AND lane.namespace = session.namespace
             WHERE session.namespace = $1 AND ",
            lives!()
        ))
        .await?;
    let mut holders = Holders::default();
    for row in db.query(&look, &[&namespace]).await? {
        let session = SessionId(row.try_get(0)?);
        let (chain, signer): (Option<i64>, Option<&[u8]>) = (row.try_get(1)?, row.try_get(2)?);
        let lane = chain.zip(signer).map(|(chain, signer)| rows::lane(chain, signer)).transpose()?;
        holders.live.insert(session);
        holders.held.extend(lane.map(|lane| (lane, session)));
        let lasting: Option<i64> = row.try_get(4)?;
        if let Some(lasting) = lasting {
            holders.pulses.insert(session, pulse(row.try_get(3)?, lasting));
        }
    }
    Ok(holders)
}

fn pulse(number: i64, lasts_ms: i64) -> Pulse {
    Pulse { number: rows::number(number), lasting: Duration::from_millis(rows::number(lasts_ms)) }
}

fn millis(lasting: Duration) -> i64 {
    i64::try_from(lasting.as_millis()).unwrap_or(i64::MAX)
}
