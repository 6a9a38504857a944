//! How values become columns and columns values. Nothing else knows what a column looks like.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes};
use landfall_core::attempt::Attempt;
use landfall_core::journal::JournalRow;
use landfall_core::ports::store::{Command, LaneRow};
use landfall_core::transaction::{Transaction, TxState};
use landfall_core::{
    Account, ChainId, CommandId, JournalSeq, LaneId, Millis, QueueOrder, SessionId, Slot, TxHash, TxId,
};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use uuid::Uuid;

use super::error::Fault;
use crate::columns::{self, AttemptDetails, command_read};
pub(super) use crate::columns::{bits, number};
use crate::journal::{self, Read};
use crate::rules::Phase;

pub(super) fn phase_code(phase: Phase) -> i16 {
    small(columns::phase_code(phase))
}

pub(super) fn state_code(state: TxState) -> i16 {
    small(columns::state_code(state))
}

/// What the column `ended` holds: the state of those that ended in another way than most.
pub(super) fn ended_code(state: TxState) -> Option<i16> {
    (state.is_terminal() && state != TxState::Confirmed).then(|| state_code(state))
}

fn small(code: i64) -> i16 {
    i16::try_from(code).unwrap_or(i16::MAX)
}

pub(super) fn json<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::corrupt(what, error))
}

pub(super) fn lane(chain: i64, signer: &[u8]) -> Result<LaneId, Fault> {
    let signer = Address::try_from(signer).map_err(|error| Fault::corrupt("lane.signer", error))?;
    Ok(LaneId { chain: ChainId(number(chain)), signer: Account(signer) })
}

pub(super) fn lane_row(text: &str) -> Result<LaneRow, Fault> {
    json("lane.details", text)
}

pub(super) fn session(id: Uuid) -> SessionId {
    SessionId(id)
}

/// What [`tx`] reads, in its order. The tables are `tx` and its `lane`.
pub(super) const TX_COLUMNS: &str = "tx.ord, tx.id, lane.chain, lane.signer, tx.request, tx.status";

/// A row of [`TX_COLUMNS`].
pub(super) fn tx(row: &Row) -> Result<Transaction, Fault> {
    Ok(Transaction {
        id: TxId(row.try_get(1)?),
        lane: lane(row.try_get(2)?, row.try_get(3)?)?,
        order: QueueOrder(row.try_get(0)?),
        request: Arc::new(json("tx.request", row.try_get(4)?)?),
        status: json("tx.status", row.try_get(5)?)?,
    })
}

pub(super) fn attempt_details(attempt: &Attempt) -> Result<String, Fault> {
    Ok(serde_json::to_string(&AttemptDetails::of(attempt))?)
}

/// What [`attempt`] reads, in its order.
pub(super) const ATTEMPT_COLUMNS: &str = "slot, ordinal, tx, hash, raw, details, hints";

/// A row of [`ATTEMPT_COLUMNS`].
pub(super) fn attempt(row: &Row) -> Result<Attempt, Fault> {
    let details: AttemptDetails = json("attempt.details", row.try_get(5)?)?;
    let ordinal: i64 = row.try_get(1)?;
    let hash: &[u8] = row.try_get(3)?;
    let raw: &[u8] = row.try_get(4)?;
    Ok(Attempt {
        slot: Slot(number(row.try_get(0)?)),
        ordinal: u32::try_from(ordinal).map_err(|error| Fault::corrupt("attempt.ordinal", error))?,
        tx: row.try_get::<_, Option<Uuid>>(2)?.map(TxId),
        version: details.version,
        no_op: details.no_op,
        hash: B256::try_from(hash).map(TxHash).map_err(|error| Fault::corrupt("attempt.hash", error))?,
        raw: Bytes::copy_from_slice(raw),
        gas: details.gas,
        fees: details.fees,
        value: details.value,
        created_at: details.created_at,
        hints: json("attempt.hints", row.try_get(6)?)?,
    })
}

/// What [`entries`] reads, in its order. The tables are `journal` and its `lane`.
pub(super) const ENTRY_COLUMNS: &str =
    "journal.seq, lane.chain, lane.signer, journal.tx, journal.at, journal.entry";

/// A row of [`ENTRY_COLUMNS`].
pub(super) fn entries(row: &Row) -> Result<Vec<JournalRow>, Fault> {
    let lane = lane(row.try_get(1)?, row.try_get(2)?)?;
    let tx = row.try_get::<_, Option<Uuid>>(3)?.map(TxId);
    let (seq, at) = (JournalSeq(row.try_get(0)?), Millis(number(row.try_get(4)?)));
    let entries = journal::entries(seq, at, row.try_get(5)?);
    let entries = entries.map_err(|error| Fault::corrupt("journal.entry", error))?;
    let row = |(seq, Read { at, entry, by })| JournalRow { seq, lane, tx, at, entry, by };
    Ok(entries.into_iter().map(row).collect())
}

/// A row of `command.id, command.at, command.kind`.
pub(super) fn command(row: &Row, lane: LaneId) -> Result<Command, Fault> {
    let (kind, by) = command_read(row.try_get(2)?).map_err(|error| Fault::corrupt("command.kind", error))?;
    Ok(Command { id: CommandId(row.try_get(0)?), lane, kind, at: Millis(number(row.try_get(1)?)), by })
}
