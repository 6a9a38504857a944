//! The keeper's records: taken over from other nodes, taken back after a refusal, forgotten in the end.

use std::collections::BTreeSet;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use landfall_core::ports::records::{RecordKind, RecordQuery, RecordWrite, RecordsWritten};
use landfall_core::ports::store::Error;
use landfall_core::{ChainId, TxHash};
use tokio::time::Instant;

use super::Keeper;
use super::kept::{self, Id, Kept, Stage, Stored};

const PAGE: u32 = 500;
/// A first send takes no longer than this.
pub(super) const FIRST_SEND: Duration = Duration::from_secs(30);
/// One without a verdict for so long was left by a node that died. By the monotonic clock of whoever looks: no time is stored.
const LEFT_AFTER: Duration = Duration::from_secs(45);

impl Keeper {
    /// Takes over what another node keeps, or was sending for the first time; whether there was such.
    pub(super) async fn adopt(&self, id: Id) -> Result<bool, Error> {
        loop {
            let record = self.records.record(RecordKind::RawTx, &kept::name(id)).await?;
            let Some(stored) = record.as_ref().and_then(kept::read) else { return Ok(false) };
            if self.confirm(&stored).await? {
                self.all().entry(id).or_insert(stored.kept);
                return Ok(true);
            }
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
    pub(super) async fn take_back(&self, id: Id) -> Result<bool, Error> {
        let first = RecordWrite { kind: RecordKind::RawTx, id: kept::name(id), expected: 1, body: None };
        match self.records.write_records(vec![first]).await? {
            RecordsWritten::Yes => Ok(true),
            RecordsWritten::Changed => Ok(!self.adopt(id).await?),
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

    /// Forgets transactions of a revoked key, as long as no node has sent them: what has gone out can be landed by whoever
    /// saw it, and is not left alone.
    pub(super) async fn forget_unsent(&self, chain: ChainId, unsent: Vec<(TxHash, Kept)>) {
        for (hash, Kept { from, slot, .. }) in unsent {
            let id = (chain, hash);
            match self.taken_back_unsent(id).await {
                Ok(true) => {
                    // A page that was read before must not bring it back.
                    self.forgotten().insert(id);
                    self.all().remove(&id);
                    tracing::info!(
                        %chain, %hash, %from, nonce = slot.0,
                        why = "its API key was revoked, and it had not been sent",
                        "a signed transaction is forgotten"
                    );
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%chain, %hash, %error, "a signed transaction could not be forgotten; it is looked at again");
                }
            }
        }
    }

    /// Removes the record of one that nobody has sent; false if another node has changed it, and looks at it again.
    async fn taken_back_unsent(&self, id: Id) -> Result<bool, Error> {
        let Some(record) = self.records.record(RecordKind::RawTx, &kept::name(id)).await? else {
            return Ok(true);
        };
        if kept::read(&record).is_some_and(|stored| !stored.kept.never_sent) {
            if let Some(kept) = self.all().get_mut(&id) {
                (kept.never_sent, kept.held_since) = (false, None);
            }
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
            self.all().entry(id).or_insert(stored.kept);
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
