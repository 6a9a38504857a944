//! What is stored of an event that could not be delivered at once. What went well at the first try has no row.

use landfall_core::ports::records::{Record, RecordKind, RecordWrite};
use landfall_core::ports::store;
use landfall_core::{JournalSeq, LaneId, Millis, TxId};
use serde::{Deserialize, Serialize};

/// Events of one of these are delivered in order, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OrderOf {
    Tx(TxId),
    Lane(LaneId),
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DeliveryState {
    /// It is tried again.
    Waiting,
    /// An earlier event of the same transaction goes first.
    Held,
    /// It is not tried any more, unless somebody asks.
    GivenUp,
}

impl DeliveryState {
    pub(crate) const ALL: [Self; 3] = [Self::Waiting, Self::Held, Self::GivenUp];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::GivenUp => "given_up",
        }
    }
}

/// One event for one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delivery {
    pub(crate) order: OrderOf,
    pub(crate) event: String,
    pub(crate) state: DeliveryState,
    #[serde(default)]
    pub(crate) failures: u32,
    /// When it is tried next.
    pub(crate) due: Millis,
    /// When it was tried first.
    #[serde(default)]
    pub(crate) first_tried: Option<Millis>,
    #[serde(default)]
    pub(crate) last_tried: Option<Millis>,
    /// What went wrong last, with the first words of the answer.
    #[serde(default)]
    pub(crate) last_failure: Option<String>,
}

/// The id of the row: rows of an endpoint are together, by event.
pub(crate) fn row_id(webhook: &str, seq: JournalSeq) -> String {
    format!("{}{:020}", row_prefix(webhook), seq.0)
}

pub(crate) fn row_prefix(webhook: &str) -> String {
    format!("{webhook}/")
}

impl Delivery {
    pub(crate) fn read(record: Record) -> Result<(JournalSeq, u64, Self), store::Error> {
        let bad = |text: String| store::Error::Corrupt { what: "a delivery", text };
        let seq = record.id.rsplit('/').next().and_then(|number| number.parse().ok());
        let seq = JournalSeq(seq.ok_or_else(|| bad(record.id.clone()))?);
        let row = serde_json::from_value(record.body).map_err(|error| bad(error.to_string()))?;
        Ok((seq, record.version, row))
    }

    pub(crate) fn write(
        &self,
        webhook: &str,
        seq: JournalSeq,
        expected: u64,
    ) -> Result<RecordWrite, store::Error> {
        let body = serde_json::to_value(self)
            .map_err(|error| store::Error::Corrupt { what: "a delivery", text: error.to_string() })?;
        Ok(RecordWrite { kind: RecordKind::Delivery, id: row_id(webhook, seq), expected, body: Some(body) })
    }
}
