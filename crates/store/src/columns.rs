//! What the SQL adapters write into columns, so that a row moves from one database to the other as it is.

use std::sync::Arc;

use landfall_core::attempt::Attempt;
use landfall_core::fees::Fees;
use landfall_core::ports::store::CommandKind;
use landfall_core::request::CallId;
use landfall_core::transaction::TxState;
use landfall_core::{ApiKeyId, ContentVersion, Gas, Millis, Origin, Wei};
use serde::{Deserialize, Serialize};

use crate::rules::Phase;

/// A number without sign as the signed one of the same bits, which is what a column holds.
pub(crate) fn bits(number: u64) -> i64 {
    number.cast_signed()
}

/// And back.
pub(crate) fn number(bits: i64) -> u64 {
    bits.cast_unsigned()
}

/// What a call's columns hold: the API key, empty where there is none, and the nonce. Unique indexes take no two rows for equal
/// that lack a value.
pub(crate) fn call_columns(call: &CallId) -> (&str, i64) {
    (call.api_key.as_ref().map_or("", |ApiKeyId(id)| id), bits(call.nonce.0))
}

pub(crate) fn phase_code(phase: Phase) -> i64 {
    match phase {
        Phase::Waiting => 0,
        Phase::Bound => 1,
        Phase::Done => 2,
    }
}

/// The number of a state in the file; never to be changed (see the first migration).
pub(crate) fn state_code(state: TxState) -> i64 {
    match state {
        TxState::Accepted => 0,
        TxState::Simulated => 1,
        TxState::AwaitingApproval => 2,
        TxState::Signed => 3,
        TxState::Broadcast => 4,
        TxState::Mined => 5,
        TxState::Confirmed => 6,
        TxState::Reverted => 7,
        TxState::Failed => 8,
        TxState::Cancelled => 9,
        TxState::Expired => 10,
    }
}

#[derive(Deserialize)]
struct CommandBy {
    #[serde(default, with = "landfall_core::origin::shared")]
    by: Option<Arc<Origin>>,
}

/// A command from its text.
pub(crate) fn command_read(text: &str) -> serde_json::Result<(CommandKind, Option<Arc<Origin>>)> {
    let CommandBy { by } = serde_json::from_str(text)?;
    Ok((serde_json::from_str(text)?, by))
}

/// The part of an attempt that is never searched.
#[derive(Serialize, Deserialize)]
pub(crate) struct AttemptDetails {
    #[serde(rename = "v")]
    pub(crate) version: ContentVersion,
    #[serde(rename = "n")]
    pub(crate) no_op: bool,
    #[serde(rename = "g")]
    pub(crate) gas: Gas,
    #[serde(rename = "f")]
    pub(crate) fees: Fees,
    #[serde(rename = "w")]
    pub(crate) value: Wei,
    #[serde(rename = "t")]
    pub(crate) created_at: Millis,
}

impl AttemptDetails {
    pub(crate) fn of(attempt: &Attempt) -> Self {
        Self {
            version: attempt.version,
            no_op: attempt.no_op,
            gas: attempt.gas,
            fees: attempt.fees,
            value: attempt.value,
            created_at: attempt.created_at,
        }
    }
}
