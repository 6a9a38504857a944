//! How long it is known which calls were handed over together (EIP-5792): as long as the history of their transactions, and
//! the newest of each API key. What is forgotten is only that they belong together: their transactions keep their keys, so the
//! same calls under the same id are never done twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use landfall_core::ports::records::{Record, RecordKind, RecordQuery, RecordWrite, Records, RecordsWritten};
use landfall_core::ports::store::Error;
use landfall_core::{Account, Millis};
use landfall_engine::Handle;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::calls::key;

/// As many of one API key are kept, those that have not ended aside.
const MOST_OF_ONE: usize = 10_000;
/// How often it is looked what may go, and after how many new ones at the latest.
const LOOK_EVERY: Duration = Duration::from_secs(3_600);
const LOOK_AFTER: usize = 1_000;
/// Looks are at least so far apart.
const PAUSE: Duration = Duration::from_secs(10);
const PAGE: u32 = 500;

/// The records of calls.
pub(crate) struct CallsKept {
    handle: Handle,
    records: Arc<dyn Records>,
    made: AtomicUsize,
    wake: Notify,
}

/// One record, as much as says whether it may go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    at: Millis,
    id: String,
    key: Option<String>,
}

impl CallsKept {
    pub(crate) fn new(handle: Handle, records: Arc<dyn Records>) -> Self {
        Self { handle, records, made: AtomicUsize::new(0), wake: Notify::new() }
    }

    /// One more was stored.
    pub(super) fn note(&self) {
        if self.made.fetch_add(1, Ordering::Relaxed) + 1 >= LOOK_AFTER {
            self.wake.notify_one();
        }
    }

    /// Works for ever.
    pub(crate) async fn run(&self) {
        loop {
            if let Some(now) = self.handle.believed_time() {
                self.made.store(0, Ordering::Relaxed);
                if let Err(error) = self.tidy(now).await {
                    tracing::warn!(%error, "records of calls could not be trimmed; it is tried again later");
                }
            }
            tokio::time::sleep(PAUSE).await;
            let early = async {
                while self.made.load(Ordering::Relaxed) < LOOK_AFTER {
                    self.wake.notified().await;
                }
            };
            let wait = if self.handle.believed_time().is_some() { LOOK_EVERY } else { Duration::ZERO };
            tokio::time::timeout(wait, early).await.ok();
        }
    }

    async fn tidy(&self, now: Millis) -> Result<(), Error> {
        let mut kept = Vec::new();
        let mut query = RecordQuery::all(RecordKind::Calls, PAGE);
        loop {
            let page = self.records.records(&query).await?;
            let Some(last) = page.last().map(|record| record.id.clone()) else { break };
            for record in page {
                match read(&record) {
                    Some(read) => kept.push(read),
                    // Stored by an earlier version: its age counts from now on.
                    None => self.date(&record, now).await?,
                }
            }
            query.after = Some(last);
        }
        let keep = self.handle.parts().timings.keep_finished;
        for id in old(kept, keep.map(|keep| before(now, keep)), MOST_OF_ONE) {
            self.forget(&id).await?;
        }
        Ok(())
    }

    async fn date(&self, record: &Record, now: Millis) -> Result<(), Error> {
        let mut body = record.body.clone();
        body["at"] = json!(now);
        self.write(RecordWrite::change(RecordKind::Calls, record, body)).await
    }

    async fn forget(&self, id: &str) -> Result<(), Error> {
        let Some(record) = self.records.record(RecordKind::Calls, id).await? else { return Ok(()) };
        if self.has_ended(&record).await? {
            self.write(RecordWrite::remove(RecordKind::Calls, &record)).await?;
        }
        Ok(())
    }

    /// Another node may have been faster.
    async fn write(&self, write: RecordWrite) -> Result<(), Error> {
        let (RecordsWritten::Yes | RecordsWritten::Changed) = self.records.write_records(vec![write]).await?;
        Ok(())
    }

    /// None of the calls is under way. They are done in their order, so the last says it; one that is not there was never stored.
    async fn has_ended(&self, record: &Record) -> Result<bool, Error> {
        let Some((signer, id)) = record.id.split_once('/') else { return Ok(true) };
        let Ok(signer) = signer.parse().map(Account) else { return Ok(true) };
        let calls =
            record.body.get("calls").and_then(Value::as_u64).and_then(|calls| usize::try_from(calls).ok());
        for position in (0..calls.unwrap_or_default()).rev() {
            let Ok(key) = key(id, position) else { return Ok(true) };
            if let Some(found) = self.handle.store().tx_by_request(signer, &key).await? {
                return Ok(found.tx.status.state.is_terminal());
            }
        }
        Ok(true)
    }
}

fn read(record: &Record) -> Option<Kept> {
    let at = Millis(record.body.get("at")?.as_u64()?);
    let key = record.body.get("key").and_then(Value::as_str).map(str::to_owned);
    Some(Kept { at, id: record.id.clone(), key })
}

fn before(now: Millis, keep: Duration) -> Millis {
    Millis(now.0.saturating_sub(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX)))
}

/// The ids of those that may go: older than this, or beyond the newest of their key.
fn old(mut kept: Vec<Kept>, oldest: Option<Millis>, most: usize) -> Vec<String> {
    kept.sort();
    let mut of_key: BTreeMap<Option<String>, usize> = BTreeMap::new();
    let mut ids = Vec::new();
    for one in kept.into_iter().rev() {
        let count = of_key.entry(one.key).or_default();
        *count += 1;
        if *count > most || oldest.is_some_and(|oldest| one.at < oldest) {
            ids.push(one.id);
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(at: u64, key: Option<&str>) -> Kept {
        Kept { at: Millis(at), id: format!("{at}"), key: key.map(str::to_owned) }
    }

    #[test]
    fn what_is_older_than_history_goes_and_so_does_what_a_key_has_too_much_of() {
        let all =
            || vec![kept(3, Some("a")), kept(1, Some("a")), kept(2, None), kept(4, Some("a")), kept(5, None)];
        assert_eq!(old(all(), None, 10), [""; 0]);
        assert_eq!(old(all(), Some(Millis(3)), 10), ["2", "1"]);
        assert_eq!(old(all(), None, 2), ["1"]);
        assert_eq!(old(all(), Some(Millis(3)), 1), ["3", "2", "1"]);
    }
}
