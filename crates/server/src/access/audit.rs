//! The audit log: who steered what, when, and how it ended. An entry is written before anything is done.

use std::sync::Arc;

use landfall_core::Millis;
use landfall_core::ports::clock::{Clock, Random};
use landfall_core::ports::records::{Record, RecordKind, RecordQuery, RecordWrite, Records, RecordsWritten};
use landfall_core::ports::store::Error;
use serde_json::{Value, json};

use super::caller::Caller;

const KIND: RecordKind = RecordKind::Audit;
/// What was sent along is kept up to this length.
const BODY: usize = 1_000;

#[derive(Clone)]
pub(crate) struct Audit {
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    node: Arc<str>,
}

impl Audit {
    pub(crate) fn new(
        records: Arc<dyn Records>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        node: &str,
    ) -> Self {
        Self { records, clock, random, node: node.into() }
    }

    /// Says that somebody asks for something. Without this on disk, it is not done.
    pub(crate) async fn asked(
        &self,
        caller: &Caller,
        method: &str,
        path: &str,
        sent: &[u8],
    ) -> Result<Record, Error> {
        let now = self.clock.now();
        let sent = match serde_json::from_slice::<Value>(sent) {
            Ok(body) if sent.len() <= BODY => body,
            _ if sent.is_empty() => Value::Null,
            _ => json!(format!("{} bytes", sent.len())),
        };
        let body = json!({
            "at": now,
            "keyId": caller.key.as_deref(),
            "keyName": &*caller.name,
            "role": caller.role,
            "node": &*self.node,
            "method": method,
            "path": path,
            "body": sent,
            "status": null,
        });
        let id = format!("{}{:016x}", prefix(now), self.random.bits() as u64);
        let write = RecordWrite::new(KIND, id.clone(), body.clone());
        match self.records.write_records(vec![write]).await? {
            RecordsWritten::Yes => Ok(Record { id, version: 1, body }),
            RecordsWritten::Changed => Err(Error::Failed {
                doing: "write the audit log",
                text: "an entry of that name exists".to_owned(),
            }),
        }
    }

    /// Says how it ended. If that cannot be written, the entry stays as one whose end is not known.
    pub(crate) async fn ended(&self, entry: Record, status: u16) {
        let mut body = entry.body.clone();
        body["status"] = json!(status);
        let write = RecordWrite::change(KIND, &entry, body);
        if let Err(error) = self.records.write_records(vec![write]).await {
            tracing::warn!(%error, entry = entry.id, "the audit log does not say how this ended");
        }
    }

    /// Entries, newest first.
    pub(crate) async fn list(&self, before: Option<String>, limit: u32) -> Result<Vec<Record>, Error> {
        let query = RecordQuery { after: before, descending: true, ..RecordQuery::all(KIND, limit) };
        self.records.records(&query).await
    }

    /// Removes a few of those that are older than this.
    pub(crate) async fn trim(&self, before: Millis) -> Result<u64, Error> {
        self.records.trim_records(KIND, &prefix(before), 1_000).await
    }
}

/// Entries are in the order of their time.
fn prefix(at: Millis) -> String {
    format!("{:012x}-", at.0)
}
