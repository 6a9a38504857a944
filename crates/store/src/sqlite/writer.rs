//! The one thread that writes. It owns the write connection and the file's lock, takes jobs from a bounded channel
//! and ends when the last handle is dropped, after moving the write-ahead log into the file. At rest the keeper does that.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use landfall_core::ports::store::{self, WriteError};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::error::Fault;
use super::group;
use super::keeper::Keeper;
use super::known::Known;
use super::log::{self, LogLength, Way};
use super::mark::Marker;
use super::open::Locks;
use super::scope::Scope;

/// Jobs that may wait for the writer; a caller that finds it full waits its turn.
const QUEUE: usize = 256;

/// What the writer thread owns.
pub(super) struct WriteSide {
    pub(super) db: Connection,
    pub(super) namespace: i64,
    pub(super) known: Known,
    pub(super) log: LogLength,
    pub(super) marker: Arc<Marker>,
    pub(super) beat: Duration,
    /// Held until everything else is closed: it is what keeps other processes out.
    pub(super) lock: Locks,
}

/// Work for the writer thread.
pub(super) struct Job {
    pub(super) work: Box<dyn FnOnce(&mut WriteSide) + Send>,
    /// It may store something that a copy of the file should have.
    pub(super) is_news: bool,
}

/// The handle to the writer thread.
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// Why a job has no answer.
pub(super) enum NoAnswer {
    /// It was never begun.
    NotBegun,
    /// It may or may not have been done.
    Lost,
}

impl Writer {
    pub(super) fn start(side: WriteSide) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let keeper = Keeper::start(side.marker.clone(), side.beat, jobs.downgrade())?;
        let thread = std::thread::Builder::new()
            .name("landfall-store-writer".to_owned())
            .spawn(move || run(side, queue, keeper))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs a job on the writer thread.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut WriteSide) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        self.run_job(true, job).await
    }

    async fn run_job<T: Send + 'static>(
        &self,
        is_news: bool,
        job: impl FnOnce(&mut WriteSide) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let (answer, answered) = oneshot::channel();
        let work = Box::new(move |side: &mut WriteSide| {
            // A caller that no longer waits loses its answer, not its write.
            if answer.send(job(side)).is_err() {
                tracing::debug!("nobody waits for the answer to a write any more");
            }
        });
        let jobs = self.jobs.as_ref().ok_or(NoAnswer::NotBegun)?;
        jobs.send(Job { work, is_news }).await.map_err(|_| NoAnswer::NotBegun)?;
        answered.await.map_err(|_| NoAnswer::Lost)
    }

    /// Runs one small write as a database transaction of its own.
    pub(super) async fn transaction<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&mut Scope<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, store::Error> {
        let done = self.run(move |side| transaction(side, doing, work)).await;
        done.unwrap_or_else(|none| Err(none.into_error(doing)))
    }

    /// As [`Self::transaction`], for a write that no copy of the file needs.
    pub(super) async fn probe(
        &self,
        doing: &'static str,
        work: impl FnOnce(&mut Scope<'_>) -> Result<(), Fault> + Send + 'static,
    ) -> Result<(), store::Error> {
        let done = self.run_job(false, move |side| transaction(side, doing, work)).await;
        done.unwrap_or_else(|none| Err(none.into_error(doing)))
    }
}

fn transaction<T>(
    side: &mut WriteSide,
    doing: &'static str,
    work: impl FnOnce(&mut Scope<'_>) -> Result<T, Fault>,
) -> Result<T, store::Error> {
    let WriteSide { db, namespace, known, .. } = side;
    let open = group::begin(db).map_err(|error| plain(error, doing))?;
    match work(&mut Scope { db: &open, namespace: *namespace, known }) {
        Ok(value) => {
            group::finish(open, known).map_err(|error| plain(error, doing))?;
            Ok(value)
        }
        Err(fault) => {
            drop(open);
            known.clear();
            Err(fault.into_error(doing))
        }
    }
}

fn plain(error: WriteError, doing: &'static str) -> store::Error {
    match error {
        WriteError::Failed(error) => error,
        other @ (WriteError::Unknown(_) | WriteError::Fenced { .. }) => {
            store::Error::Failed { doing, text: other.to_string() }
        }
    }
}

impl NoAnswer {
    fn text(&self) -> &'static str {
        match self {
            Self::NotBegun => {
                "the thread that writes the database has stopped, so nothing can be stored. Restart the process"
            }
            Self::Lost => {
                "the thread that writes the database stopped half-way, so it is not known what was stored. \
                 Restart the process"
            }
        }
    }

    pub(super) fn into_error(self, doing: &'static str) -> store::Error {
        match self {
            Self::NotBegun => store::Error::Unusable(self.text().to_owned()),
            Self::Lost => store::Error::Failed { doing, text: self.text().to_owned() },
        }
    }

    pub(super) fn to_write_error(&self) -> WriteError {
        match self {
            Self::NotBegun => WriteError::Failed(store::Error::Unusable(self.text().to_owned())),
            Self::Lost => WriteError::Unknown(self.text().to_owned()),
        }
    }
}

fn run(mut side: WriteSide, mut queue: mpsc::Receiver<Job>, keeper: Keeper) {
    while let Some(job) = queue.blocking_recv() {
        (job.work)(&mut side);
        log::tend(&mut side);
        if job.is_news {
            keeper.tell();
        }
    }
    // Its connection is to be closed before this one.
    drop(keeper);
    log::move_it(&mut side, Way::Last);
    let WriteSide { db, lock, .. } = side;
    if let Err((_, error)) = db.close() {
        tracing::warn!(%error, "the database was not closed in order; nothing committed is lost");
    }
    drop(lock);
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Without senders the thread ends; it is waited for, so that the file can be opened again at once.
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes the database ended in a panic");
        }
    }
}
