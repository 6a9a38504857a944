//! What is stored of an event that could not be delivered at once. What went well at the first try has no row.

use std::time::Duration;

use landfall_core::ports::records::{Record, RecordKind, RecordWrite};
use landfall_core::ports::store;
use landfall_core::{JournalSeq, LaneId, Millis, TxId};
use serde::{Deserialize, Serialize};

use super::time::Step;

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
    /// As far as it can be believed: nothing was tried later than now, and the wait is as long as it was. A clock that has gone back
    /// since it was stored would make it wait until the old one is reached.
    pub(crate) fn believed(mut self, now: Millis) -> Self {
        let wait = self.last_tried.map_or(Duration::ZERO, |tried| self.due.since(tried));
        self.due = self.due.min(now.after(wait));
        self.first_tried = self.first_tried.min(Some(now));
        self.last_tried = self.last_tried.min(Some(now));
        self
    }

    /// The clock has stepped.
    pub(super) fn stepped(&mut self, step: Step) {
        // What was never tried is due at once, by any clock.
        if self.last_tried.is_some() {
            self.due = step.moved(self.due);
        }
        for at in [&mut self.first_tried, &mut self.last_tried].into_iter().flatten() {
            *at = step.moved(*at);
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_was_stored_by_a_clock_which_went_back_is_waited_for_no_longer_than_the_wait_was() {
        let row = |due, last| Delivery {
            order: OrderOf::Tx(TxId::new(Millis(0), 0)),
            event: "tx.mined".into(),
            state: DeliveryState::Waiting,
            failures: 3,
            due: Millis(due),
            first_tried: last,
            last_tried: last,
            last_failure: None,
        };
        let (tried, due) = (Some(Millis(1_000_000)), 1_045_000);
        let (then, later) =
            (row(due, tried).believed(Millis(1_010_000)), row(due, tried).believed(Millis(9_000_000)));
        assert_eq!((then.due, later.due), (Millis(due), Millis(due)), "a clock that is right");
        let back = row(due, tried).believed(Millis(500));
        assert_eq!((back.due, back.last_tried), (Millis(45_500), Some(Millis(500))));
        assert_eq!(row(due, None).believed(Millis(500)).due, Millis(500), "somebody wanted it tried at once");
    }
}
