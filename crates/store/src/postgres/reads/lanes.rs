//! Lanes: what an owner loads to go on, which of them have work, and what people see.

use deadpool_postgres::ClientWrapper;
use landfall_core::ports::store::{ChainRecord, Command, LaneRecord, LaneRow, LaneSummary};
use landfall_core::transaction::Transaction;
use landfall_core::{ChainId, CommandId, LaneId, LaneVersion, Millis, Slot, Token};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{Value, all};
use crate::postgres::error::Fault;
use crate::postgres::lanes::LaneNumbers;
use crate::postgres::leases::lives;
use crate::postgres::older;
use crate::postgres::rows::{self, bits, number};

/// The open attempts of lane `$1`: by the order of the key, and those that are apart.
const IN_ORDER: &str = "attempt.lane = $1 AND attempt.slot >= (SELECT closed FROM lane WHERE id = $1)
    AND attempt.open";
const IS_APART: &str = "attempt.lane = $1 AND attempt.apart AND attempt.open";

/// The highest slot of lane `$1` that has attempts. Slots of the upper half are negative.
const HIGHEST: &str = "SELECT coalesce((SELECT max(slot) FROM attempt WHERE lane = $1 AND slot < 0),
        (SELECT max(slot) FROM attempt WHERE lane = $1))";

/// Everything a lane's owner needs, as it was at one moment. An unknown lane is an empty one.
pub(in crate::postgres) async fn load(
    db: &ClientWrapper,
    namespace: i64,
    numbers: &LaneNumbers,
    lane: LaneId,
) -> Result<LaneRecord, Fault> {
    let (id, older) = match numbers.known(lane) {
        Some(id) => (Some(id), None),
        None => {
            let look = db.prepare_cached(older::LANE_AND_WHY).await?;
            let of_lane: [Value<'_>; 3] = [&namespace, &lane.signer.0.as_slice(), &bits(lane.chain.0)];
            let row = db.query_one(&look, &of_lane).await?;
            (row.try_get(0)?, older::read(row.try_get(1)?)?)
        }
    };
    let Some(id) = id else {
        return Ok(LaneRecord {
            lane,
            token: Token(0),
            version: LaneVersion(0),
            row: LaneRow::default(),
            bound: Vec::new(),
            ended: Vec::new(),
            attempts: Vec::new(),
            highest_signed: None,
            older,
        });
    };
    let head = db.prepare_cached("SELECT token, version, details FROM lane WHERE id = $1").await?;
    let bound = format!(
        "SELECT {} FROM tx JOIN lane ON lane.id = tx.lane WHERE tx.lane = $1 AND tx.phase = 1",
        rows::TX_COLUMNS
    );
    let bound = db.prepare_cached(&bound).await?;
    let ended = format!(
        "SELECT {} FROM tx JOIN lane ON lane.id = tx.lane WHERE tx.lane = $1 AND tx.phase = 2 AND tx.id IN
            (SELECT tx FROM attempt WHERE {IN_ORDER} UNION ALL SELECT tx FROM attempt WHERE {IS_APART})",
        rows::TX_COLUMNS
    );
    let ended = db.prepare_cached(&ended).await?;
    let columns = rows::ATTEMPT_COLUMNS;
    let attempts = format!(
        "SELECT {columns} FROM attempt WHERE {IN_ORDER} UNION ALL
         SELECT {columns} FROM attempt WHERE {IS_APART}"
    );
    let attempts = db.prepare_cached(&attempts).await?;
    let highest = db.prepare_cached(HIGHEST).await?;
    let older = db.prepare_cached(older::WHY_OF_LANE).await?;
    let of_lane: [Value<'_>; 1] = [&id];
    let of_both: [Value<'_>; 2] = [&namespace, &id];
    // One snapshot for all: a commit of ours whose answer was lost may land between them.
    let (_, head, bound, ended, attempts, highest, older, _) = tokio::try_join!(
        biased;
        db.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
        db.query_one(&head, &of_lane),
        db.query(&bound, &of_lane),
        db.query(&ended, &of_lane),
        db.query(&attempts, &of_lane),
        db.query_one(&highest, &of_lane),
        db.query_one(&older, &of_both),
        db.batch_execute("COMMIT"),
    )?;
    let mut bound = bound.iter().map(rows::tx).collect::<Result<Vec<_>, _>>()?;
    bound.sort_by_key(|tx| tx.status.slot);
    let mut ended = ended.iter().map(rows::tx).collect::<Result<Vec<_>, _>>()?;
    ended.sort_by_key(|tx| (tx.status.slot, tx.order));
    let mut attempts = attempts.iter().map(rows::attempt).collect::<Result<Vec<_>, _>>()?;
    attempts.sort_by_key(|attempt| (attempt.slot, attempt.ordinal));
    let row = rows::lane_row(head.try_get(2)?)?;
    let older = older::of_lane(&older, row.cursor.is_some())?;
    Ok(LaneRecord {
        lane,
        token: Token(number(head.try_get(0)?)),
        version: LaneVersion(number(head.try_get(1)?)),
        row,
        bound,
        ended,
        attempts,
        highest_signed: highest.try_get::<_, Option<i64>>(0)?.map(|slot| Slot(number(slot))),
        older,
    })
}

/// The oldest waiting transactions of a lane.
pub(in crate::postgres) async fn waiting(
    db: &ClientWrapper,
    namespace: i64,
    numbers: &LaneNumbers,
    lane: LaneId,
    limit: u32,
) -> Result<Vec<Transaction>, Fault> {
    let ids = numbers.find(db, namespace, [lane]).await?;
    let Some(id) = ids.get(&lane) else { return Ok(Vec::new()) };
    let sql = format!(
        "SELECT {} FROM tx JOIN lane ON lane.id = tx.lane WHERE tx.lane = $1 AND tx.phase = 0
         ORDER BY tx.ord LIMIT $2",
        rows::TX_COLUMNS
    );
    all(db, &sql, &[id, &i64::from(limit)], rows::tx).await
}

/// The bytes of what waits in a lane: requests, contents that replaced them, and commands. Their lengths are told without reading them.
pub(in crate::postgres) async fn waiting_bytes(
    db: &ClientWrapper,
    namespace: i64,
    numbers: &LaneNumbers,
    lane: LaneId,
) -> Result<u64, Fault> {
    let ids = numbers.find(db, namespace, [lane]).await?;
    let Some(id) = ids.get(&lane) else { return Ok(0) };
    let sql = "SELECT (
            (SELECT coalesce(sum(octet_length(request)::bigint + octet_length(status)), 0)
             FROM tx WHERE lane = $1 AND phase = 0)
          + (SELECT coalesce(sum(octet_length(kind)::bigint), 0) FROM command WHERE lane = $1 AND NOT done))::bigint";
    let sums = all(db, sql, &[id], |row| Ok(number(row.try_get(0)?))).await?;
    Ok(sums.into_iter().sum())
}

/// The commands of a lane that were not applied yet and not taken, oldest first.
pub(in crate::postgres) async fn open_commands(
    db: &ClientWrapper,
    namespace: i64,
    numbers: &LaneNumbers,
    lane: LaneId,
    taken: &[Uuid],
    limit: u32,
) -> Result<Vec<Command>, Fault> {
    let ids = numbers.find(db, namespace, [lane]).await?;
    let Some(id) = ids.get(&lane) else { return Ok(Vec::new()) };
    let sql = "SELECT id, at, kind FROM command WHERE lane = $1 AND NOT done AND id <> ALL ($2)
         ORDER BY seq LIMIT $3";
    all(db, sql, &[id, &taken, &i64::from(limit)], |row| rows::command(row, lane)).await
}

/// A command by its id, done or not.
pub(in crate::postgres) async fn command(
    db: &ClientWrapper,
    namespace: i64,
    id: CommandId,
) -> Result<Option<Command>, Fault> {
    let sql = "SELECT command.id, command.at, command.kind, lane.chain, lane.signer FROM command
         JOIN lane ON lane.id = command.lane WHERE command.id = $1 AND command.namespace = $2";
    let read = |row: &Row| rows::command(row, rows::lane(row.try_get(3)?, row.try_get(4)?)?);
    Ok(all(db, sql, &[&id.0, &namespace], read).await?.pop())
}

/// Lanes that take no new transactions in.
pub(in crate::postgres) async fn disabled(db: &ClientWrapper, namespace: i64) -> Result<Vec<LaneId>, Fault> {
    let sql = "SELECT chain, signer FROM lane
         WHERE namespace = $1 AND details::jsonb ->> 'disabled' = 'true'";
    all(db, sql, &[&namespace], |row| rows::lane(row.try_get(0)?, row.try_get(1)?)).await
}

/// Lanes that something is to be done for: a few index probes per lane, however many transactions there are.
///
/// An open attempt counts although its transaction may have ended, or be none's (a no-op that fills a slot): until
/// its slot is settled somebody must watch it.
pub(in crate::postgres) async fn with_work(db: &ClientWrapper, namespace: i64) -> Result<Vec<LaneId>, Fault> {
    let sql = "SELECT lane.chain, lane.signer FROM lane
         WHERE lane.namespace = $1 AND (
            EXISTS (SELECT 1 FROM tx WHERE tx.lane = lane.id AND tx.phase = 0)
            OR EXISTS (SELECT 1 FROM tx WHERE tx.lane = lane.id AND tx.phase = 1)
            OR EXISTS (SELECT 1 FROM attempt
                       WHERE attempt.lane = lane.id AND attempt.slot >= lane.closed AND attempt.open)
            OR EXISTS (SELECT 1 FROM attempt WHERE attempt.lane = lane.id AND attempt.apart AND attempt.open)
            OR EXISTS (SELECT 1 FROM command WHERE command.lane = lane.id AND NOT command.done))";
    let mut lanes = all(db, sql, &[&namespace], |row| rows::lane(row.try_get(0)?, row.try_get(1)?)).await?;
    lanes.sort_unstable();
    Ok(lanes)
}

const SUMMARY: &str = concat!(
    "SELECT lane.chain, lane.signer, lane.token, lane.version, lane.details, session.id, session.node,
        (SELECT count(*) FROM tx WHERE tx.lane = lane.id AND tx.phase = 0),
        (SELECT count(*) FROM tx WHERE tx.lane = lane.id AND tx.phase = 1),
        floor(extract(epoch FROM session.ends_at) * 1000)::bigint
     FROM lane LEFT JOIN session ON session.namespace = lane.namespace AND session.id = lane.session
        AND ",
    lives!(),
    " WHERE lane.namespace = $1"
);

fn summary(row: &Row) -> Result<LaneSummary, Fault> {
    let session: Option<Uuid> = row.try_get(5)?;
    let node: Option<String> = row.try_get(6)?;
    let waiting: i64 = row.try_get(7)?;
    let bound: i64 = row.try_get(8)?;
    let until: Option<i64> = row.try_get(9)?;
    Ok(LaneSummary {
        lane: rows::lane(row.try_get(0)?, row.try_get(1)?)?,
        token: Token(number(row.try_get(2)?)),
        version: LaneVersion(number(row.try_get(3)?)),
        owner: node.zip(session.map(rows::session)),
        owned_until: until.map(|until| Millis(u64::try_from(until).unwrap_or_default())),
        row: rows::lane_row(row.try_get(4)?)?,
        waiting: number(waiting),
        bound: number(bound),
    })
}

/// Every lane, as people see it.
pub(in crate::postgres) async fn summaries(
    db: &ClientWrapper,
    namespace: i64,
) -> Result<Vec<LaneSummary>, Fault> {
    let mut lanes = all(db, SUMMARY, &[&namespace], summary).await?;
    lanes.sort_by_key(|lane| lane.lane);
    Ok(lanes)
}

/// One lane, as people see it.
pub(in crate::postgres) async fn one(
    db: &ClientWrapper,
    namespace: i64,
    lane: LaneId,
) -> Result<Option<LaneSummary>, Fault> {
    let sql = format!("{SUMMARY} AND lane.signer = $2 AND lane.chain = $3");
    let signer = lane.signer.0.as_slice();
    Ok(all(db, &sql, &[&namespace, &signer, &bits(lane.chain.0)], summary).await?.pop())
}

/// What is remembered of a chain.
pub(in crate::postgres) async fn chain(
    db: &ClientWrapper,
    namespace: i64,
    chain: ChainId,
) -> Result<Option<ChainRecord>, Fault> {
    let sql = "SELECT record FROM chain WHERE namespace = $1 AND chain = $2";
    let read = |row: &Row| rows::json("chain.record", row.try_get(0)?);
    Ok(all(db, sql, &[&namespace, &bits(chain.0)], read).await?.pop())
}
