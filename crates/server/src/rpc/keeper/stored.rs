//! The keeper's records: taken over from other nodes, taken back after a refusal, forgotten in the end.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use landfall_core::ports::records::{RecordKind, RecordQuery, RecordWrite, RecordsWritten};
use landfall_core::ports::store::Error;
use tokio::time::Instant;

use super::Keeper;
use super::givers::Givers;
use super::kept::{self, Id, Kept, Stage, Stored};

const PAGE: u32 = 500;
/// A first send takes no longer than this.
pub(super) const FIRST_SEND: Duration = Duration::from_secs(30);
/// One without a verdict for so long was left by a node that died. By the monotonic clock of whoever looks: no time is stored.
const LEFT_AFTER: Duration = Duration::from_secs(45);

impl Keeper {
    /// Makes a caller one of those for whom it is kept, here or by another node; false if it is kept no more, or never was. What nobody
    /// has sent may have been forgotten elsewhere, so of that only the record knows.
    pub(super) async fn join(&self, id: Id, key: Option<&Arc<str>>) -> Result<bool, Error> {
        if self.all().get(&id).is_some_and(|kept| !kept.never_sent) {
            return Ok(true);
        }
        loop {
            let record = self.records.record(RecordKind::RawTx, &kept::name(id)).await?;
            let Some(mut stored) = record.as_ref().and_then(kept::read) else {
                self.all().remove(&id);
                return Ok(false);
            };
            let is_new = stored.kept.givers.add(key) && stored.kept.never_sent;
            // It stays, whatever its first send is told elsewhere.
            let is_open = stored.stage != Stage::Kept;
            let write = stored.kept.write(id, stored.version, Stage::Kept);
            let is_said = !is_new && !is_open;
            if is_said || self.records.write_records(vec![write]).await? == RecordsWritten::Yes {
                self.learn(id, stored.kept);
                return Ok(true);
            }
        }
    }

    /// Keeps what a record says. One that has a new giver is held back as long as one that has just come.
    fn learn(&self, id: Id, stored: Kept) {
        let mut all = self.all();
        if let Some(known) = all.get_mut(&id) {
            known.learn(stored);
        } else {
            all.insert(id, stored);
        }
    }

    /// Makes it stay, whatever its first send is told elsewhere; not if it changed meanwhile.
    async fn confirm(&self, stored: &Stored) -> Result<bool, Error> {
        if stored.stage == Stage::Kept {
            return Ok(true);
        }
        let write = stored.kept.write(stored.id, stored.version, Stage::Kept);
        Ok(self.records.write_records(vec![write]).await? == RecordsWritten::Yes)
    }

    /// Says in the record of one that was held back that it is sent from now on; false if there is none any more.
    pub(super) async fn released(&self, id: Id) -> Result<bool, Error> {
        loop {
            let record = self.records.record(RecordKind::RawTx, &kept::name(id)).await?;
            let Some(mut stored) = record.as_ref().and_then(kept::read) else { return Ok(false) };
            if !stored.kept.never_sent {
                return Ok(true);
            }
            stored.kept.never_sent = false;
            let write = stored.kept.write(id, stored.version, Stage::Kept);
            if self.records.write_records(vec![write]).await? == RecordsWritten::Yes {
                return Ok(true);
            }
        }
    }

    /// Removes the record of a first send that was refused, unless somebody has taken it over; whether there is none.
    pub(super) async fn take_back(&self, id: Id, key: Option<&Arc<str>>) -> Result<bool, Error> {
        let first = RecordWrite { kind: RecordKind::RawTx, id: kept::name(id), expected: 1, body: None };
        match self.records.write_records(vec![first]).await? {
            RecordsWritten::Yes => Ok(true),
            RecordsWritten::Changed => Ok(!self.join(id, key).await?),
        }
    }

    /// Forgets it for good.
    pub(super) async fn forget(&self, id: Id, why: &str) {
        // A page that was read before must not bring it back.
        self.forgotten().insert(id);
        let Some(Kept { from, slot, .. }) = self.all().remove(&id) else { return };
        let (chain, hash) = id;
        tracing::info!(%chain, %hash, %from, nonce = slot.0, why, "a signed transaction is forgotten");
        let removed = async {
            let read = self.records.record(RecordKind::RawTx, &kept::name(id)).await?;
            let Some(record) = read else { return Ok(()) };
            let write = RecordWrite::remove(RecordKind::RawTx, &record);
            // One that changed meanwhile was removed by another node.
            let (RecordsWritten::Yes | RecordsWritten::Changed) =
                self.records.write_records(vec![write]).await?;
            Ok::<_, Error>(())
        };
        if let Err(error) = removed.await {
            tracing::warn!(%chain, %hash, %error, "a signed transaction could not be forgotten; it is looked at again");
        }
    }

    /// Forgets one that no node has sent; false if the store failed. It stays where the record says more than was known to whoever decides
    /// it: that it has gone out, and can be landed by whoever saw it, or that somebody beside these givers was told that it is kept.
    pub(super) async fn forget_unsent(&self, id: Id, by: &Givers, why: &str) -> bool {
        let (chain, hash) = id;
        match self.taken_back_unsent(id, by).await {
            Ok(true) => {
                // A page that was read before must not bring it back.
                self.forgotten().insert(id);
                let Some(Kept { from, slot, .. }) = self.all().remove(&id) else { return true };
                tracing::info!(%chain, %hash, %from, nonce = slot.0, why, "a signed transaction is forgotten");
                true
            }
            Ok(false) => true,
            Err(error) => {
                tracing::warn!(%chain, %hash, %error, "a signed transaction could not be forgotten; it is looked at again");
                false
            }
        }
    }

    /// Removes the record of one that nobody has sent; false if it has changed, and is looked at again.
    async fn taken_back_unsent(&self, id: Id, by: &Givers) -> Result<bool, Error> {
        let Some(record) = self.records.record(RecordKind::RawTx, &kept::name(id)).await? else {
            return Ok(true);
        };
        if let Some(stored) = kept::read(&record)
            && (!stored.kept.never_sent || by.lacks(&stored.kept.givers))
        {
            self.learn(id, stored.kept);
            return Ok(false);
        }
        let write = RecordWrite::remove(RecordKind::RawTx, &record);
        Ok(self.records.write_records(vec![write]).await? == RecordsWritten::Yes)
    }

    /// Reads what the store has, kept by an earlier run or by another node, and drops what it has no more.
    pub(super) async fn read(&self) -> Result<(), Error> {
        self.forgotten().clear();
        let before: BTreeSet<Id> = self.all().keys().copied().collect();
        let mut seen = BTreeSet::new();
        let mut query = RecordQuery::all(RecordKind::RawTx, PAGE);
        loop {
            let page = self.records.records(&query).await?;
            let Some(last) = page.last().map(|record| record.id.clone()) else { break };
            for stored in page.iter().filter_map(kept::read) {
                seen.insert(stored.id);
                self.found(stored).await?;
            }
            query.after = Some(last);
        }
        self.all().retain(|id, _| seen.contains(id) || !before.contains(id));
        self.unsure().retain(|id, _| seen.contains(id));
        Ok(())
    }

    async fn found(&self, stored: Stored) -> Result<(), Error> {
        let id = stored.id;
        if let Stage::First(row) = stored.stage {
            if self.sending().contains_key(&id) {
                return Ok(());
            }
            if self.unsure_for(id, row) < LEFT_AFTER || !self.confirm(&stored).await? {
                return Ok(());
            }
        }
        self.unsure().remove(&id);
        let forgotten = self.forgotten();
        if !forgotten.contains(&id) {
            self.learn(id, stored.kept);
        }
        Ok(())
    }

    /// How long this first send has been seen without a verdict.
    fn unsure_for(&self, id: Id, row: u64) -> Duration {
        let mut unsure = self.unsure();
        let seen = unsure.entry(id).or_insert_with(|| (row, Instant::now()));
        if seen.0 != row {
            *seen = (row, Instant::now());
        }
        seen.1.elapsed()
    }

    fn forgotten(&self) -> MutexGuard<'_, BTreeSet<Id>> {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
