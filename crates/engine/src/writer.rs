//! Group commit: what many lanes and callers want written is one database transaction.
//!
//! There is no waiting for company: a group is written as soon as the one before it is done, and holds whatever has
//! gathered meanwhile. A quiet system commits at once, a busy one in large groups.

use std::collections::BTreeSet;
use std::sync::Arc;

use landfall_core::LaneId;
use landfall_core::journal::told_together;
use landfall_core::ports::store::{Admission, Error, Store, Write, WriteError, Written};
use landfall_core::transaction::Transaction;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::supervisor::Shared;
use crate::telemetry::{Fact, Telemetry, WriteEnd};

/// The most that one group holds.
const GROUP: usize = 1_000;
/// How many writes may wait; beyond it, writers wait to be taken.
const QUEUE: usize = 8_192;

struct Job {
    write: Write,
    done: oneshot::Sender<Result<Written, WriteError>>,
}

/// A handle to the tasks that write.
#[derive(Clone)]
pub(crate) struct Writer {
    /// What lanes commit.
    lanes: mpsc::Sender<Job>,
    /// Everything else. The same where one group at a time is written.
    others: mpsc::Sender<Job>,
}

/// A task behind it.
pub(crate) struct WriterTask {
    store: Arc<dyn Store>,
    jobs: mpsc::Receiver<Job>,
    telemetry: Telemetry,
}

/// One task, or two where the store writes groups beside each other: one for what lanes commit, and one for what callers hand over.
pub(crate) fn writer(store: Arc<dyn Store>, telemetry: Telemetry) -> (Writer, Vec<WriterTask>) {
    let task = |jobs| WriterTask { store: store.clone(), jobs, telemetry: telemetry.clone() };
    let (lanes, lane_jobs) = mpsc::channel(QUEUE);
    if !store.writes_at_once() {
        return (Writer { others: lanes.clone(), lanes }, vec![task(lane_jobs)]);
    }
    let (others, other_jobs) = mpsc::channel(QUEUE);
    (Writer { lanes, others }, vec![task(lane_jobs), task(other_jobs)])
}

impl Writer {
    /// Waits until the write is on disk, refused, or not known.
    pub(crate) async fn write(&self, write: Write) -> Result<Written, WriteError> {
        self.enqueue(write)
            .await?
            .await
            .unwrap_or_else(|_| Err(WriteError::Unknown("the writer ended".into())))
    }

    /// How many writes wait for their group.
    pub(crate) fn waiting(&self) -> usize {
        let waiting = |jobs: &mpsc::Sender<Job>| jobs.max_capacity() - jobs.capacity();
        let others = if self.lanes.same_channel(&self.others) { 0 } else { waiting(&self.others) };
        waiting(&self.lanes) + others
    }

    /// Hands the write over and returns at once with where its answer will come.
    pub(crate) async fn enqueue(
        &self,
        write: Write,
    ) -> Result<oneshot::Receiver<Result<Written, WriteError>>, WriteError> {
        let (done, answer) = oneshot::channel();
        let jobs = if matches!(write, Write::Lane(_)) { &self.lanes } else { &self.others };
        jobs.send(Job { write, done })
            .await
            .map_err(|_| Error::Unusable("the engine is stopping; try again shortly".into()))?;
        Ok(answer)
    }
}

impl WriterTask {
    pub(crate) async fn run(mut self, shared: Arc<Shared>) {
        let mut jobs = Vec::with_capacity(GROUP);
        while self.jobs.recv_many(&mut jobs, GROUP).await > 0 {
            let (writes, answers): (Vec<_>, Vec<_>) = jobs.drain(..).map(|job| (job.write, job.done)).unzip();
            let (count, rows) = (writes.len(), writes.iter().map(rows).sum());
            let admitting: Vec<Option<LaneId>> = writes.iter().map(admits_to).collect();
            let began = Instant::now();
            let results = self.store.write(writes).await;
            self.telemetry.note(Fact::Group { writes: count, rows, took: began.elapsed() });
            // Lanes first: they are to have them in the order in which they were stored.
            shared.admitted(results.iter().filter_map(admitted));
            // What may be stored or not is looked for.
            let unknown = results.iter().zip(admitting).filter(|(result, _)| is_unknown(result));
            unknown
                .filter_map(|(_, lane)| lane)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .for_each(|lane| shared.work_for(lane));
            for (answer, result) in answers.into_iter().zip(results) {
                self.telemetry.note(Fact::Wrote(end(&result)));
                // The asker may be gone (a disconnected caller); the write stands all the same.
                answer.send(result).ok();
            }
        }
    }
}

fn admits_to(write: &Write) -> Option<LaneId> {
    match write {
        Write::Admit(new) => Some(new.lane),
        Write::Lane(_) | Write::Command(_) | Write::Chain(_) | Write::Forget(_) => None,
    }
}

fn is_unknown(result: &Result<Written, WriteError>) -> bool {
    matches!(result, Err(WriteError::Unknown(_)))
}

/// What a write stored for a lane to land.
fn admitted(result: &Result<Written, WriteError>) -> Option<&Transaction> {
    match result {
        Ok(Written::Admitted(admission)) => match admission.as_ref() {
            Admission::New(tx) => Some(tx),
            Admission::Replay(_)
            | Admission::Conflict(_)
            | Admission::NonceReused(_)
            | Admission::Removed(_) => None,
        },
        _ => None,
    }
}

/// About how many rows a write touches.
fn rows(write: &Write) -> usize {
    match write {
        Write::Lane(commit) => {
            let txs = commit.txs.len() + commit.attempts.len() + commit.hints.len();
            // Slots that end in their order are one number of the lane's row.
            let closed = usize::from(!commit.closed.is_empty());
            1 + txs + closed + told_together(&commit.journal).count() + commit.commands_done.len()
        }
        // The transaction and its first journal entry.
        Write::Admit(_) => 2,
        Write::Command(_) | Write::Chain(_) | Write::Forget(_) => 1,
    }
}

fn end(result: &Result<Written, WriteError>) -> WriteEnd {
    match result {
        Ok(_) => WriteEnd::Done,
        Err(WriteError::Fenced { .. }) => WriteEnd::Fenced,
        Err(WriteError::Failed(_)) => WriteEnd::Failed,
        Err(WriteError::Unknown(_)) => WriteEnd::Unknown,
    }
}
