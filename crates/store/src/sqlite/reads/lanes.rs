//! Lanes: what an owner loads to go on, which of them have work, and what people see.
//!
//! These are asked all the time, and a lane's history only grows: every query names the partial index that holds what
//! is unfinished, or a range of slots that is, so that it cannot come to read the history instead.

use std::collections::BTreeSet;

use landfall_core::ports::store::{ChainRecord, Command, Holders, LaneRecord, LaneRow, LaneSummary, Older};
use landfall_core::transaction::Transaction;
use landfall_core::{ChainId, CommandId, LaneId, LaneVersion, Slot, Token};
use rusqlite::{OptionalExtension, Row, params};

use super::all;
use crate::sqlite::accept;
use crate::sqlite::error::Fault;
use crate::sqlite::readers::Look;
use crate::sqlite::rows::{self, bits, column, number};
use crate::sqlite::scope::find_lane;

/// The open attempts of lane `?1`, whose `closed` is `?2`: in the order of their slots, and those that are apart.
const IN_ORDER: &str = "attempt.lane = ?1 AND attempt.slot >= ?2 AND attempt.open = 1";
const IS_APART: &str = "attempt.lane = ?1 AND attempt.apart = 1 AND attempt.open = 1";

/// The highest slot of lane `?1` that has attempts. Slots of the upper half are negative.
const HIGHEST: &str = "SELECT coalesce((SELECT max(slot) FROM attempt WHERE lane = ?1 AND slot < 0),
        (SELECT max(slot) FROM attempt WHERE lane = ?1))";

/// Everything a lane's owner needs. An unknown lane is an empty one.
pub(in crate::sqlite) fn load(look: &Look<'_>, lane: LaneId) -> Result<LaneRecord, Fault> {
    let older = accept::older(look.db, look.namespace)?;
    let Some(key) = find_lane(look.db, look.namespace, lane)? else {
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
    let awaits = accept::awaits(look.db, key.lane)?;
    let (token, version, details, closed): (i64, i64, String, i64) = look
        .db
        .prepare_cached("SELECT token, version, details, closed FROM lane WHERE id = ?1")?
        .query_row([key.lane], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let bound = format!(
        "SELECT {} FROM tx INDEXED BY tx_bound {} WHERE tx.lane = ?1 AND tx.phase = 1",
        rows::TX_COLUMNS,
        rows::TX_JOINS
    );
    let mut bound = all(look.db, &bound, [key.lane], rows::tx)?;
    bound.sort_by_key(|tx| tx.status.slot);
    let ended = format!(
        "SELECT {} FROM tx {} WHERE tx.phase = 2 AND tx.ord IN (
            SELECT tx FROM attempt WHERE {IN_ORDER} UNION ALL
            SELECT tx FROM attempt INDEXED BY attempt_apart WHERE {IS_APART})",
        rows::TX_COLUMNS,
        rows::TX_JOINS
    );
    let mut ended = all(look.db, &ended, [key.lane, closed], rows::tx)?;
    ended.sort_by_key(|tx| (tx.status.slot, tx.order));
    let (columns, joins) = (rows::ATTEMPT_COLUMNS, rows::ATTEMPT_JOINS);
    let in_order = format!("SELECT {columns} FROM attempt {joins} WHERE {IN_ORDER}");
    let apart = format!("SELECT {columns} FROM attempt INDEXED BY attempt_apart {joins} WHERE {IS_APART}");
    let mut attempts = all(look.db, &in_order, [key.lane, closed], rows::attempt)?;
    attempts.append(&mut all(look.db, &apart, [key.lane], rows::attempt)?);
    attempts.sort_by_key(|attempt| (attempt.slot, attempt.ordinal));
    let highest: Option<i64> = look.db.prepare_cached(HIGHEST)?.query_row([key.lane], |row| row.get(0))?;
    let row = rows::lane_row(&details)?;
    let older = Older::of_lane(older, awaits, row.cursor.is_some());
    Ok(LaneRecord {
        lane,
        token: Token(number(token)),
        version: LaneVersion(number(version)),
        row,
        bound,
        ended,
        attempts,
        highest_signed: highest.map(|slot| Slot(number(slot))),
        older,
    })
}

/// The oldest waiting transactions of a lane.
pub(in crate::sqlite) fn waiting(
    look: &Look<'_>,
    lane: LaneId,
    limit: u32,
) -> Result<Vec<Transaction>, Fault> {
    let Some(key) = find_lane(look.db, look.namespace, lane)? else { return Ok(Vec::new()) };
    let sql = format!(
        "SELECT {} FROM tx INDEXED BY tx_waiting {} WHERE tx.lane = ?1 AND tx.phase = 0
         ORDER BY tx.ord LIMIT ?2",
        rows::TX_COLUMNS,
        rows::TX_JOINS
    );
    all(look.db, &sql, params![key.lane, limit], rows::tx)
}

/// The bytes of what waits in a lane: requests, contents that replaced them, and commands. Their lengths are told without reading them.
pub(in crate::sqlite) fn waiting_bytes(look: &Look<'_>, lane: LaneId) -> Result<u64, Fault> {
    let Some(key) = find_lane(look.db, look.namespace, lane)? else { return Ok(0) };
    let sql = "SELECT
            (SELECT coalesce(sum(octet_length(request) + octet_length(status)), 0)
             FROM tx INDEXED BY tx_waiting WHERE lane = ?1 AND phase = 0)
          + (SELECT coalesce(sum(octet_length(kind)), 0)
             FROM command INDEXED BY command_open WHERE lane = ?1 AND done = 0)";
    Ok(look.db.prepare_cached(sql)?.query_row([key.lane], |row| row.get(0).map(number))?)
}

/// The commands of a lane that were not applied yet and not taken, oldest first. Of those that were, nothing but the id is read.
pub(in crate::sqlite) fn open_commands(
    look: &Look<'_>,
    lane: LaneId,
    taken: &BTreeSet<CommandId>,
    limit: u32,
) -> Result<Vec<Command>, Fault> {
    let Some(key) = find_lane(look.db, look.namespace, lane)? else { return Ok(Vec::new()) };
    let sql =
        "SELECT id, at, kind FROM command INDEXED BY command_open WHERE lane = ?1 AND done = 0 ORDER BY seq";
    let mut statement = look.db.prepare_cached(sql)?;
    let mut open = statement.query([key.lane])?;
    let mut commands = Vec::new();
    while commands.len() < usize::try_from(limit).unwrap_or(usize::MAX)
        && let Some(row) = open.next()?
    {
        if taken.is_empty() || !taken.contains(&rows::command_id(row)?) {
            commands.push(rows::command(row, lane)?);
        }
    }
    Ok(commands)
}

/// A command by its id, done or not.
pub(in crate::sqlite) fn command(look: &Look<'_>, id: CommandId) -> Result<Option<Command>, Fault> {
    let sql = "SELECT command.id, command.at, command.kind, lane.chain, account.address FROM command
         JOIN lane ON lane.id = command.lane JOIN account ON account.id = lane.account
         WHERE command.id = ?1 AND command.namespace = ?2";
    let read = |row: &rusqlite::Row<'_>| rows::command(row, rows::lane(row.get(3)?, column(row, 4)?)?);
    Ok(all(look.db, sql, params![id.0.as_bytes(), look.namespace], read)?.pop())
}

/// Lanes that take no new transactions in.
pub(in crate::sqlite) fn disabled(look: &Look<'_>) -> Result<Vec<LaneId>, Fault> {
    let sql = "SELECT lane.chain, account.address FROM account JOIN lane ON lane.account = account.id
         WHERE account.namespace = ?1 AND lane.details ->> 'disabled'";
    all(look.db, sql, [look.namespace], |row| rows::lane(row.get(0)?, column(row, 1)?))
}

/// Lanes that something is to be done for: a few index probes per lane, however many transactions there are.
///
/// An open attempt counts although its transaction may have ended, or be none's (a no-op that fills a slot): until
/// its slot is settled somebody must watch it.
pub(in crate::sqlite) fn with_work(look: &Look<'_>) -> Result<Vec<LaneId>, Fault> {
    let sql = "SELECT lane.chain, account.address FROM account JOIN lane ON lane.account = account.id
         WHERE account.namespace = ?1 AND (
            EXISTS (SELECT 1 FROM tx INDEXED BY tx_waiting WHERE tx.lane = lane.id AND tx.phase = 0)
            OR EXISTS (SELECT 1 FROM tx INDEXED BY tx_bound WHERE tx.lane = lane.id AND tx.phase = 1)
            OR EXISTS (SELECT 1 FROM attempt
                       WHERE attempt.lane = lane.id AND attempt.slot >= lane.closed AND attempt.open = 1)
            OR EXISTS (SELECT 1 FROM attempt INDEXED BY attempt_apart
                       WHERE attempt.lane = lane.id AND attempt.apart = 1 AND attempt.open = 1)
            OR EXISTS (SELECT 1 FROM command INDEXED BY command_open
                       WHERE command.lane = lane.id AND command.done = 0))";
    let mut lanes = all(look.db, sql, [look.namespace], |row| rows::lane(row.get(0)?, column(row, 1)?))?;
    lanes.sort_unstable();
    Ok(lanes)
}

/// Who is there, and who has what.
pub(in crate::sqlite) fn holders(look: &Look<'_>) -> Result<Holders, Fault> {
    let sql = "SELECT session.id, lane.chain, account.address FROM session
         LEFT JOIN lane ON lane.session = session.id
         LEFT JOIN account ON account.id = lane.account AND account.namespace = session.namespace
         WHERE session.namespace = ?1";
    let read = |row: &Row<'_>| {
        let session = rows::session(column(row, 0)?)?;
        let (chain, address): (Option<i64>, Option<&[u8]>) = (row.get(1)?, column(row, 2)?);
        let lane = chain.zip(address).map(|(chain, address)| rows::lane(chain, address)).transpose()?;
        Ok((session, lane))
    };
    let mut holders = Holders::default();
    for (session, lane) in all(look.db, sql, [look.namespace], read)? {
        holders.live.insert(session);
        holders.held.extend(lane.map(|lane| (lane, session)));
    }
    Ok(holders)
}

const SUMMARY: &str = "SELECT lane.chain, account.address, lane.token, lane.version, lane.details,
        session.id, session.node,
        (SELECT count(*) FROM tx INDEXED BY tx_waiting WHERE tx.lane = lane.id AND tx.phase = 0),
        (SELECT count(*) FROM tx INDEXED BY tx_bound WHERE tx.lane = lane.id AND tx.phase = 1)
     FROM account JOIN lane ON lane.account = account.id
     LEFT JOIN session ON session.namespace = account.namespace AND session.id = lane.session
     WHERE account.namespace = ?1";

fn summary(row: &Row<'_>) -> Result<LaneSummary, Fault> {
    let session: Option<&[u8]> = column(row, 5)?;
    let node: Option<String> = row.get(6)?;
    let owner = match (node, session) {
        (Some(node), Some(session)) => Some((node, rows::session(session)?)),
        _ => None,
    };
    Ok(LaneSummary {
        lane: rows::lane(row.get(0)?, column(row, 1)?)?,
        token: Token(number(row.get(2)?)),
        version: LaneVersion(number(row.get(3)?)),
        owner,
        owned_until: None,
        row: rows::lane_row(column(row, 4)?)?,
        waiting: number(row.get(7)?),
        bound: number(row.get(8)?),
    })
}

/// Every lane, as people see it.
pub(in crate::sqlite) fn summaries(look: &Look<'_>) -> Result<Vec<LaneSummary>, Fault> {
    let mut lanes = all(look.db, SUMMARY, [look.namespace], summary)?;
    lanes.sort_by_key(|lane| lane.lane);
    Ok(lanes)
}

/// One lane, as people see it.
pub(in crate::sqlite) fn one(look: &Look<'_>, lane: LaneId) -> Result<Option<LaneSummary>, Fault> {
    let sql = format!("{SUMMARY} AND account.address = ?2 AND lane.chain = ?3");
    let params = params![look.namespace, lane.signer.0.as_slice(), bits(lane.chain.0)];
    Ok(all(look.db, &sql, params, summary)?.pop())
}

/// What is remembered of a chain.
pub(in crate::sqlite) fn chain(look: &Look<'_>, chain: ChainId) -> Result<Option<ChainRecord>, Fault> {
    let record: Option<String> = look
        .db
        .prepare_cached("SELECT record FROM chain WHERE namespace = ?1 AND chain = ?2")?
        .query_row(params![look.namespace, bits(chain.0)], |row| row.get(0))
        .optional()?;
    record.map(|text| rows::json("chain.record", &text)).transpose()
}
