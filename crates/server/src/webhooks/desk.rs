//! The desk: which node carries which endpoint. It takes those that nobody carries, and starts a courier for each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use landfall_core::ports::records::{RecordKind, RecordQuery, Records, RecordsWritten};
use landfall_core::ports::store::{Error, Store};
use landfall_core::{JournalSeq, Millis};
use landfall_engine::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::Webhooks;
use super::courier::{Courier, Ended};
use super::endpoint::{Claim, Stored};
use super::sender::Sender;
use crate::metrics::Metrics;
use crate::tail::Tail;

/// How often the desk looks for changes that another node made.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long a store that failed is left alone.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// At most so many endpoints there are.
pub(crate) const MOST_ENDPOINTS: u32 = 100;

/// What couriers and handlers share.
pub(crate) struct Shared {
    pub(crate) handle: Handle,
    pub(crate) records: Arc<dyn Records>,
    pub(crate) tail: Tail,
    pub(crate) settings: Webhooks,
    pub(crate) sender: Sender,
    pub(crate) metrics: Arc<Metrics>,
    kick: Notify,
}

impl Shared {
    pub(crate) fn now(&self) -> Millis {
        self.handle.parts().clock.now()
    }

    pub(crate) fn random(&self) -> u128 {
        self.handle.parts().random.bits()
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.handle.store()
    }

    /// Every endpoint, in the order they were made.
    pub(crate) async fn all(&self) -> Result<Vec<Stored>, Error> {
        let query = RecordQuery::all(RecordKind::Webhook, MOST_ENDPOINTS + 1);
        self.records.records(&query).await?.into_iter().map(Stored::read).collect()
    }

    /// Something was changed: look now.
    pub(crate) fn kick(&self) {
        self.kick.notify_one();
    }
}

/// How one endpoint is doing, for the metrics.
#[derive(Debug, Clone)]
pub(crate) struct Level {
    pub(crate) webhook: String,
    pub(crate) is_on: bool,
    /// Journal entries that it is behind, and how old the oldest of them is.
    pub(crate) behind: u64,
    pub(crate) behind_for: Duration,
    pub(crate) waiting: u64,
}

/// A courier at work.
struct Running {
    task: JoinHandle<()>,
    newer: watch::Sender<Stored>,
}

#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) shared: Arc<Shared>,
    running: Arc<Mutex<BTreeMap<String, Running>>>,
}

impl Desk {
    pub(crate) fn new(
        handle: Handle,
        records: Arc<dyn Records>,
        tail: Tail,
        settings: Webhooks,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        let sender = Sender::new(&settings).map_err(std::io::Error::other)?;
        let shared = Shared { handle, records, tail, settings, sender, metrics, kick: Notify::new() };
        Ok(Self { shared: Arc::new(shared), running: Arc::default() })
    }

    /// Sees to it that every endpoint is carried, until the server stops.
    pub(crate) async fn run(&self) {
        let shared = &self.shared;
        // As long as there is an endpoint, the end of the journal is followed.
        let mut following = None;
        while !shared.tail.is_stopping() {
            let pause = match self.look().await {
                Ok(0) => {
                    following = None;
                    LOOK_EVERY
                }
                Ok(_) => {
                    following.get_or_insert_with(|| shared.tail.subscribe());
                    LOOK_EVERY
                }
                Err(error) => {
                    tracing::warn!(%error, "webhooks cannot be looked up; trying again");
                    ASK_AGAIN
                }
            };
            tokio::select! {
                () = shared.kick.notified() => {}
                () = shared.tail.stopped() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        let running = std::mem::take(&mut *self.running());
        for (_, courier) in running {
            courier.task.await.ok();
        }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many endpoints there are.
    async fn look(&self) -> Result<usize, Error> {
        let shared = &self.shared;
        let all = shared.all().await?;
        let is_others = |stored: &Stored| {
            let claim = stored.endpoint.claim.as_ref();
            claim.is_some_and(|claim| !shared.is_mine(claim))
        };
        let live =
            if all.iter().any(is_others) { shared.store().holders().await?.live } else { Default::default() };
        self.running().retain(|id, courier| {
            let is_there = all.iter().any(|stored| stored.id == *id);
            if !is_there {
                courier.task.abort();
            }
            // One that has ended says so just before its task does.
            is_there && !courier.newer.is_closed()
        });
        for stored in &all {
            if let Some(courier) = self.running().get(&stored.id) {
                courier.newer.send_if_modified(|known| {
                    let is_newer = known.version < stored.version;
                    if is_newer {
                        *known = stored.clone();
                    }
                    is_newer
                });
                continue;
            }
            let can = stored.endpoint.is_on() && stored.endpoint.hindrance(&shared.settings).is_none();
            if !can || !shared.handle.is_live() {
                continue;
            }
            match &stored.endpoint.claim {
                Some(claim) if shared.is_mine(claim) => self.start(stored.clone()),
                Some(claim) if live.contains(&claim.session) => {}
                Some(_) | None => {
                    if let Some(claimed) = self.claim(stored).await? {
                        self.start(claimed);
                    }
                }
            }
        }
        self.measure(&all).await?;
        Ok(all.len())
    }

    /// Takes an endpoint, unless another node was faster.
    async fn claim(&self, stored: &Stored) -> Result<Option<Stored>, Error> {
        let shared = &self.shared;
        let mut endpoint = stored.endpoint.clone();
        let node = shared.handle.parts().node.clone();
        endpoint.claim = Some(Claim { session: shared.handle.session(), node });
        match shared.records.write_records(vec![stored.change(&endpoint)?]).await? {
            RecordsWritten::Changed => Ok(None),
            RecordsWritten::Yes => {
                tracing::info!(webhook = %stored.id, cursor = %endpoint.progress.cursor, "delivers events");
                Ok(Some(Stored { id: stored.id.clone(), version: stored.version + 1, endpoint }))
            }
        }
    }

    fn start(&self, stored: Stored) {
        let (newer, hears) = watch::channel(stored.clone());
        let shared = self.shared.clone();
        let id = stored.id.clone();
        let task = tokio::spawn(async move {
            let webhook = stored.id.clone();
            let ended = match Courier::load(shared.clone(), stored, hears).await {
                Ok(courier) => courier.run().await,
                Err(ended) => ended,
            };
            if let Ended::Store(error) = ended {
                tracing::warn!(%webhook, %error, "events cannot be read or progress not written; trying again");
                tokio::time::sleep(ASK_AGAIN).await;
            }
            shared.kick();
        });
        self.running().insert(id, Running { task, newer });
    }

    /// Tells the metrics how each endpoint is doing.
    async fn measure(&self, all: &[Stored]) -> Result<(), Error> {
        let shared = &self.shared;
        let (newest, now) = (shared.tail.newest(), shared.now());
        let mut levels = Vec::with_capacity(all.len());
        for stored in all {
            let progress = &stored.endpoint.progress;
            let behind = u64::try_from(newest.0 - progress.cursor.0).unwrap_or(0);
            let behind_for = if behind == 0 {
                Duration::ZERO
            } else {
                let first = shared.store().journal_after(progress.cursor, 1).await?;
                first.first().map_or(Duration::ZERO, |row| now.since(row.at))
            };
            levels.push(Level {
                webhook: stored.id.clone(),
                is_on: stored.endpoint.is_on(),
                behind,
                behind_for,
                waiting: progress.waiting,
            });
        }
        shared.metrics.set_webhooks(levels);
        Ok(())
    }

    /// Where the journal ends now.
    pub(crate) async fn newest(&self) -> Result<JournalSeq, Error> {
        crate::tail::last(self.shared.store()).await
    }
}
