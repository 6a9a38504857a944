//! The task that appends to the chain. Entries that nobody waits for gather for a moment and are one commit, so that a submission
//! pays for none of its own; whoever waits is written at once, with what has gathered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use landfall_core::Millis;
use landfall_core::audit::New;
use landfall_core::ports::audit::AuditLog;
use landfall_core::ports::clock::Clock;
use landfall_core::ports::store::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::entry::{Entry, What};
use super::refusals::{InVain, Refusals};

/// How long entries gather.
const GATHER: Duration = Duration::from_millis(200);
/// The most entries of one commit.
const GROUP: usize = 1_024;
/// How many may wait to be written.
pub(super) const QUEUE: usize = 8_192;
/// When a commit that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// So far back it is looked for a row that takes another entry in.
const LOOK_BACK: usize = 16;

/// The number of the row, or why there is none.
pub(super) type Answer = oneshot::Sender<Result<u64, Error>>;

/// Something for the writer.
pub(super) enum Job {
    Write {
        at: Millis,
        entry: Box<Entry>,
        done: Option<Answer>,
    },
    /// The server stops: what has gathered is written, and a goodbye.
    Stop(oneshot::Sender<()>),
}

/// State that the writer shares with those who hand entries over.
pub(super) struct Shared {
    pub(super) refusals: Mutex<Refusals>,
    pub(super) in_vain: Mutex<InVain>,
    /// Entries for which there was no room.
    pub(super) lost: AtomicU64,
}

pub(super) struct Writer {
    pub(super) log: Arc<dyn AuditLog>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) jobs: mpsc::Receiver<Job>,
    pub(super) shared: Arc<Shared>,
    pub(super) node: Arc<str>,
    pub(super) run: u64,
}

/// Entries that are to be one commit.
#[derive(Default)]
struct Batch {
    entries: Vec<(Millis, Entry)>,
    /// Who waits for which of them.
    waiting: Vec<(usize, Answer)>,
    stop: Option<oneshot::Sender<()>>,
}

impl Batch {
    fn add(&mut self, job: Job) {
        match job {
            Job::Stop(stopped) => self.stop = Some(stopped),
            Job::Write { at, entry, done: Some(done) } => {
                self.waiting.push((self.entries.len(), done));
                self.entries.push((at, *entry));
            }
            Job::Write { at, entry, done: None } => {
                let alike = self.entries.iter_mut().rev().take(LOOK_BACK);
                if !alike.map(|(_, known)| known).any(|known| known.takes(&entry)) {
                    self.entries.push((at, *entry));
                }
            }
        }
    }

    fn is_awaited(&self) -> bool {
        !self.waiting.is_empty() || self.stop.is_some()
    }
}

impl Writer {
    pub(super) async fn run(mut self) {
        // Entries that could not be written, to be written before others.
        let mut left: Vec<(Millis, Entry)> = Vec::new();
        loop {
            let mut batch = Batch { entries: std::mem::take(&mut left), ..Batch::default() };
            let first_waits = !batch.entries.is_empty();
            let first = tokio::time::timeout(AGAIN, self.jobs.recv()).await;
            let ended = match first {
                Ok(Some(job)) => {
                    batch.add(job);
                    false
                }
                Ok(None) => true,
                Err(_) => false,
            };
            self.gather(&mut batch, first_waits || ended).await;
            let stop = batch.stop.take();
            let is_last = stop.is_some() || ended;
            self.add_sums(&mut batch.entries, is_last);
            if stop.is_some() {
                batch.entries.push((self.clock.now(), Entry::new(What::Ended)));
            }
            if !batch.entries.is_empty() {
                left = self.append(batch.entries, batch.waiting).await;
            }
            if is_last {
                if let Some(stopped) = stop {
                    stopped.send(()).ok();
                }
                return;
            }
        }
    }

    async fn gather(&mut self, batch: &mut Batch, at_once: bool) {
        if batch.entries.is_empty() && batch.stop.is_none() {
            return;
        }
        let until = Instant::now() + GATHER;
        while batch.entries.len() < GROUP && !batch.is_awaited() && !at_once {
            match tokio::time::timeout_at(until, self.jobs.recv()).await {
                Ok(Some(job)) => batch.add(job),
                Ok(None) | Err(_) => break,
            }
        }
        while batch.entries.len() < GROUP {
            let Ok(job) = self.jobs.try_recv() else { break };
            batch.add(job);
        }
    }

    /// Entries that are told as a number only.
    fn add_sums(&self, entries: &mut Vec<(Millis, Entry)>, at_once: bool) {
        let summed = {
            let mut refusals = self.shared.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            refusals.summed(Instant::now(), at_once)
        };
        if let Some(statuses) = summed {
            let count = Some(statuses.values().sum());
            entries.push((self.clock.now(), Entry { count, statuses, ..Entry::new(What::Refused) }));
        }
        let lost = self.shared.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let entry = Entry { count: Some(lost), statuses: BTreeMap::new(), ..Entry::new(What::Lost) };
            entries.push((self.clock.now(), entry));
        }
    }

    /// Answers who waits; the entries that have to be tried again.
    async fn append(
        &self,
        mut entries: Vec<(Millis, Entry)>,
        waiting: Vec<(usize, Answer)>,
    ) -> Vec<(Millis, Entry)> {
        let mut texts: Vec<New> = Vec::with_capacity(entries.len());
        for (at, entry) in &mut entries {
            entry.node.get_or_insert_with(|| self.node.clone());
            entry.run = Some(self.run);
            // An entry is plain data, which can always be written as JSON.
            let text = serde_json::to_string(entry)
                .unwrap_or_else(|error| format!("{{\"unwritable\":\"{error}\"}}"));
            texts.push(New { at: *at, text });
        }
        let count = texts.len() as u64;
        match self.log.append_audit(texts).await {
            Ok(head) => {
                let before = head.seq.saturating_sub(count);
                for (index, done) in waiting {
                    done.send(Ok(before + index as u64 + 1)).ok();
                }
                Vec::new()
            }
            Err(error) => {
                tracing::warn!(%error, entries = count, "the audit log could not be written; it is tried again");
                let refused: Vec<usize> = waiting.iter().map(|(index, _)| *index).collect();
                for (_, done) in waiting {
                    done.send(Err(error.clone())).ok();
                }
                // What somebody waited for is not done, and so not told.
                let mut index = 0;
                entries.retain(|_| {
                    index += 1;
                    !refused.contains(&(index - 1))
                });
                self.keep_lost(&mut entries);
                let surplus = entries.len().saturating_sub(GROUP);
                let dropped = entries[..surplus].iter().map(|(_, entry)| entry.count.unwrap_or(1)).sum();
                self.shared.lost.fetch_add(dropped, Ordering::Relaxed);
                entries.drain(..surplus);
                entries
            }
        }
    }
    /// Takes the numbers of lost entries out of what is tried again: they are told with the next commit, as one.
    fn keep_lost(&self, entries: &mut Vec<(Millis, Entry)>) {
        entries.retain(|(_, entry)| {
            let lost = if entry.what == What::Lost { entry.count.unwrap_or(0) } else { 0 };
            self.shared.lost.fetch_add(lost, Ordering::Relaxed);
            entry.what != What::Lost
        });
    }
}
