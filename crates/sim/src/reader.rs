//! One who reads the journal as it grows, as whoever sends events on does: from the last number seen.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use landfall_core::JournalSeq;
use landfall_core::ports::store::Reads;

use crate::store::SimStore;
use crate::world::Rule;

pub(crate) struct Reader {
    store: SimStore,
    seen: Mutex<BTreeSet<JournalSeq>>,
}

impl Reader {
    #[must_use]
    pub(crate) fn new(store: SimStore) -> Arc<Self> {
        Arc::new(Self { store, seen: Mutex::default() })
    }

    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            let pause = self.store.world.range(50, 400);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            self.step().await;
        }
    }

    async fn step(&self) {
        let last = self.lock().last().copied().unwrap_or_default();
        let rows = self.store.journal_after(last, u32::MAX).await.unwrap_or_default();
        self.lock().extend(rows.into_iter().map(|row| row.seq));
    }

    /// Everything that is there was read.
    pub(crate) async fn has_missed_nothing(&self) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.step().await;
        let all = self.store.memory.journal_after(JournalSeq(0), u32::MAX).await.unwrap_or_default();
        let seen = self.lock().clone();
        if let Some(row) = all.iter().find(|row| !seen.contains(&row.seq)) {
            let text = format!("entry {} of {} was never read: {:?}", row.seq, row.lane, row.entry);
            self.store.world.violated(Rule::ReadersMissNothing, text);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<JournalSeq>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
