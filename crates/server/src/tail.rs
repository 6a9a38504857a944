//! The end of the journal, followed once for all listeners: they sleep until there is something for them.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::JournalSeq;
use landfall_core::ports::store::{Error, Store};
use landfall_engine::Handle;
use tokio::sync::watch;

/// How often the store is asked while somebody listens.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const PAGE: u32 = 1_000;

/// How far the journal is, as listeners see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct At {
    newest: JournalSeq,
    stopping: bool,
}

#[derive(Clone)]
pub(crate) struct Tail {
    at: Arc<watch::Sender<At>>,
    /// The same as in `at`, for those who do not listen.
    stop: Arc<watch::Sender<bool>>,
}

impl Tail {
    pub(crate) fn new() -> Self {
        let (sender, _) = watch::channel(At { newest: JournalSeq(0), stopping: false });
        Self { at: Arc::new(sender), stop: Arc::new(watch::channel(false).0) }
    }

    /// Follows the journal until the server stops.
    pub(crate) async fn follow(&self, handle: &Handle) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.at.borrow().stopping {
                return;
            }
            if self.at.receiver_count() == 0 {
                continue;
            }
            // A store that does not answer is asked again; its own trouble is told elsewhere.
            if let Ok(newest) = self.look(handle).await {
                self.at.send_if_modified(|at| std::mem::replace(&mut at.newest, newest) != newest);
            }
        }
    }

    async fn look(&self, handle: &Handle) -> Result<JournalSeq, Error> {
        let mut newest = self.at.borrow().newest;
        if newest == JournalSeq(0) {
            newest = last(handle.store()).await?;
        }
        loop {
            let page = handle.store().journal_after(newest, PAGE).await?;
            let Some(row) = page.last() else { return Ok(newest) };
            newest = row.seq;
        }
    }

    /// The server stops: nobody is to wait any more.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
        self.at.send_modify(|at| at.stopping = true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until the server stops.
    pub(crate) async fn stopped(&self) {
        // The sender is in this very struct.
        self.stop.subscribe().wait_for(|stopping| *stopping).await.ok();
    }

    /// The last number that was seen; 0 if nobody listened yet.
    pub(crate) fn newest(&self) -> JournalSeq {
        self.at.borrow().newest
    }

    /// Someone who wants the journal to be followed.
    pub(crate) fn subscribe(&self) -> impl Sized + use<> {
        self.at.subscribe()
    }

    /// Waits until there may be entries after this one; false when the server stops.
    pub(crate) async fn beyond(&self, after: JournalSeq) -> bool {
        let mut listener = self.at.subscribe();
        let moved = listener.wait_for(|at| at.stopping || at.newest > after).await;
        moved.is_ok_and(|at| !at.stopping)
    }
}

/// The last number of the journal, found by halving: there is an entry after a number, or there is none.
pub(crate) async fn last(store: &dyn Store) -> Result<JournalSeq, Error> {
    let after = async |seq: i64| -> Result<Option<JournalSeq>, Error> {
        Ok(store.journal_after(JournalSeq(seq), 1).await?.first().map(|row| row.seq))
    };
    let Some(first) = after(0).await? else { return Ok(JournalSeq(0)) };
    // There is an entry at `low`, and none after `high`.
    let (mut low, mut step) = (first.0, 1_i64);
    while let Some(found) = after(low.saturating_add(step)).await? {
        low = found.0;
        step = step.saturating_mul(2);
    }
    let mut high = low.saturating_add(step);
    while low < high {
        let middle = low + (high - low) / 2;
        match after(middle).await? {
            Some(found) => low = found.0,
            None => high = middle,
        }
    }
    Ok(JournalSeq(low))
}
