//! How values become columns and columns values. Nothing else knows what a column looks like.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes};
use landfall_core::attempt::Attempt;
use landfall_core::journal::JournalRow;
use landfall_core::ports::store::{Command, LaneRow};
use landfall_core::transaction::Transaction;
use landfall_core::{
    Account, ChainId, CommandId, JournalSeq, LaneId, Millis, QueueOrder, Slot, TxHash, TxId,
};
use rusqlite::Row;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::error::Fault;
use crate::columns::{AttemptDetails, command_read};
pub(super) use crate::columns::{bits, number, phase_code, state_code};
use crate::journal::{self, Read};

pub(super) fn json<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::corrupt(what, error))
}

fn uuid(what: &'static str, bytes: &[u8]) -> Result<Uuid, Fault> {
    Uuid::from_slice(bytes).map_err(|error| Fault::corrupt(what, error))
}

fn hash(bytes: &[u8]) -> Result<TxHash, Fault> {
    B256::try_from(bytes).map(TxHash).map_err(|error| Fault::corrupt("attempt.hash", error))
}

pub(super) fn session(bytes: &[u8]) -> Result<landfall_core::SessionId, Fault> {
    uuid("lane.session", bytes).map(landfall_core::SessionId)
}

pub(super) fn lane(chain: i64, address: &[u8]) -> Result<LaneId, Fault> {
    let signer = Address::try_from(address).map_err(|error| Fault::corrupt("account.address", error))?;
    Ok(LaneId { chain: ChainId(number(chain)), signer: Account(signer) })
}

pub(super) fn lane_row(text: &str) -> Result<LaneRow, Fault> {
    json("lane.details", text)
}

/// What [`tx`] reads, in its order. The tables are `tx`, its `lane` and its `account`.
pub(super) const TX_COLUMNS: &str = "tx.ord, tx.id, lane.chain, account.address, tx.request, tx.status";

/// What follows `FROM tx` for [`TX_COLUMNS`].
pub(super) const TX_JOINS: &str = "JOIN lane ON lane.id = tx.lane JOIN account ON account.id = lane.account";

/// A row of [`TX_COLUMNS`].
pub(super) fn tx(row: &Row<'_>) -> Result<Transaction, Fault> {
    let request: &str = column(row, 4)?;
    let status: &str = column(row, 5)?;
    Ok(Transaction {
        id: TxId(uuid("tx.id", column(row, 1)?)?),
        lane: lane(row.get(2)?, column(row, 3)?)?,
        order: QueueOrder(row.get(0)?),
        request: Arc::new(json("tx.request", request)?),
        status: json("tx.status", status)?,
    })
}

pub(super) fn attempt_details(attempt: &Attempt) -> Result<String, Fault> {
    Ok(serde_json::to_string(&AttemptDetails::of(attempt))?)
}

/// What [`attempt`] reads, in its order. The tables are `attempt` and, as it may have none, its `tx` or nulls.
pub(super) const ATTEMPT_COLUMNS: &str =
    "attempt.slot, attempt.ordinal, tx.id, attempt.hash, attempt.raw, attempt.details, attempt.hints";

/// What follows `FROM attempt` for [`ATTEMPT_COLUMNS`].
pub(super) const ATTEMPT_JOINS: &str = "LEFT JOIN tx ON tx.ord = attempt.tx";

/// A row of [`ATTEMPT_COLUMNS`].
pub(super) fn attempt(row: &Row<'_>) -> Result<Attempt, Fault> {
    let details: AttemptDetails = json("attempt.details", column(row, 5)?)?;
    let owner: Option<&[u8]> = column(row, 2)?;
    let raw: &[u8] = column(row, 4)?;
    Ok(Attempt {
        slot: Slot(number(row.get(0)?)),
        ordinal: row.get(1)?,
        tx: owner.map(|id| uuid("tx.id", id)).transpose()?.map(TxId),
        version: details.version,
        no_op: details.no_op,
        hash: hash(column(row, 3)?)?,
        raw: Bytes::copy_from_slice(raw),
        gas: details.gas,
        fees: details.fees,
        value: details.value,
        created_at: details.created_at,
        hints: json("attempt.hints", column(row, 6)?)?,
    })
}

/// What [`entries`] reads, in its order.
pub(super) const ENTRY_COLUMNS: &str =
    "journal.seq, lane.chain, account.address, tx.id, journal.at, journal.entry";

/// `FROM` for [`ENTRY_COLUMNS`].
pub(super) const ENTRY_TABLES: &str = "journal JOIN lane ON lane.id = journal.lane \
     JOIN account ON account.id = lane.account LEFT JOIN tx ON tx.ord = journal.tx";

/// A row of [`ENTRY_COLUMNS`].
pub(super) fn entries(row: &Row<'_>) -> Result<Vec<JournalRow>, Fault> {
    let about: Option<&[u8]> = column(row, 3)?;
    let lane = lane(row.get(1)?, column(row, 2)?)?;
    let tx = about.map(|id| uuid("tx.id", id)).transpose()?.map(TxId);
    let (seq, at) = (JournalSeq(row.get(0)?), Millis(number(row.get(4)?)));
    let entries = journal::entries(seq, at, column(row, 5)?);
    let entries = entries.map_err(|error| Fault::corrupt("journal.entry", error))?;
    let row = |(seq, Read { at, entry, by })| JournalRow { seq, lane, tx, at, entry, by };
    Ok(entries.into_iter().map(row).collect())
}

/// A row of `command.id, command.at, command.kind`.
pub(super) fn command_id(row: &Row<'_>) -> Result<CommandId, Fault> {
    Ok(CommandId(uuid("command.id", column(row, 0)?)?))
}

pub(super) fn command(row: &Row<'_>, lane: LaneId) -> Result<Command, Fault> {
    let text: &str = column(row, 2)?;
    let (kind, by) = command_read(text).map_err(|error| Fault::corrupt("command.kind", error))?;
    Ok(Command { id: command_id(row)?, lane, kind, at: Millis(number(row.get(1)?)), by })
}

/// A text or blob column, borrowed from the row.
pub(super) fn column<'a, T: Borrowed<'a>>(row: &'a Row<'_>, index: usize) -> Result<T, Fault> {
    T::from_column(row.get_ref(index)?)
}

/// What can be borrowed from a row.
pub(super) trait Borrowed<'a>: Sized {
    fn from_column(value: rusqlite::types::ValueRef<'a>) -> Result<Self, Fault>;
}

impl<'a> Borrowed<'a> for &'a str {
    fn from_column(value: rusqlite::types::ValueRef<'a>) -> Result<Self, Fault> {
        value.as_str().map_err(|error| Fault::corrupt("a text", error))
    }
}

impl<'a> Borrowed<'a> for &'a [u8] {
    fn from_column(value: rusqlite::types::ValueRef<'a>) -> Result<Self, Fault> {
        value.as_blob().map_err(|error| Fault::corrupt("a blob", error))
    }
}

impl<'a> Borrowed<'a> for Option<&'a [u8]> {
    fn from_column(value: rusqlite::types::ValueRef<'a>) -> Result<Self, Fault> {
        value.as_blob_or_null().map_err(|error| Fault::corrupt("a blob", error))
    }
}
