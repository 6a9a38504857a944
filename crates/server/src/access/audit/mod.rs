//! The audit log: who asked for what, when, from where, and how it ended; and who was sent away.
//!
//! | who | when it is on disk |
//! |---|---|
//! | who steers (operators, admins) | before anything is done; how it ended is a second row |
//! | who hands over or changes transactions | within a second; the transaction itself says who asked, from its own commit on |
//! | who is refused | within a second, a few a minute one by one and the rest as a number |
//!
//! What is written before it is done and comes to nothing is bounded for each key (`refusals`).
//!
//! Rows are only ever added, and sealed in a chain ([`landfall_core::audit`]). Rows from before the chain are listed after it.

mod body;
mod entry;
mod refusals;
#[cfg(test)]
mod tests;
mod writer;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use landfall_core::audit::{Ends, Row};
use landfall_core::ports::audit::{AuditLog, Page};
use landfall_core::ports::clock::Clock;
use landfall_core::ports::records::{Record, RecordKind, RecordQuery, Records};
use landfall_core::ports::store::Error;
use landfall_core::{Millis, TxId};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::caller::Caller;
use super::role::Role;
use crate::problem::{Code, Problem};
pub use entry::{Entry, What};
use refusals::{IN_VAIN, InVain, Refusals, Stranger};
use writer::{Job, QUEUE, Shared, Writer};

/// The log from before the chain.
const BEFORE: RecordKind = RecordKind::Audit;
/// How long a server that stops waits for its last rows.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// Of a path as much is kept, and of a method, which callers choose as well.
const LONGEST_PATH: usize = 200;
const LONGEST_METHOD: usize = 40;

/// A handle to the audit log.
#[derive(Clone)]
pub(crate) struct Audit {
    log: Arc<dyn AuditLog>,
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    jobs: mpsc::Sender<Job>,
    shared: Arc<Shared>,
    /// How many changes are under way, which have something to tell when they are done.
    under_way: watch::Sender<usize>,
}

/// A write that is under way, until this is dropped.
struct UnderWay(watch::Sender<usize>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Something that was handed over or changed.
pub(crate) struct Wrote {
    pub(crate) method: Cow<'static, str>,
    pub(crate) path: Cow<'static, str>,
    pub(crate) status: u16,
    pub(crate) txs: Vec<TxId>,
    /// How many were asked for, where that is not how many were stored.
    pub(crate) count: Option<u64>,
    pub(crate) body: Option<Value>,
}

impl Audit {
    /// Says that a server began, and starts to write.
    pub(crate) async fn start(
        log: Arc<dyn AuditLog>,
        records: Arc<dyn Records>,
        clock: Arc<dyn Clock>,
        node: &str,
    ) -> Result<Self, Error> {
        let node: Arc<str> = node.into();
        let began = Entry {
            node: Some(node.clone()),
            body: Some(Value::from(concat!("landfall ", env!("CARGO_PKG_VERSION")))),
            ..Entry::new(What::Began)
        };
        let began = began
            .sealed_at(clock.now())
            .map_err(|error| Error::Failed { doing: "write the audit log", text: error.to_string() })?;
        let run = log.append_audit(vec![began]).await?.seq;
        let (jobs, taken) = mpsc::channel(QUEUE);
        let refusals = Mutex::new(Refusals::new(Instant::now()));
        let in_vain = Mutex::new(InVain::new(Instant::now()));
        let shared = Arc::new(Shared { refusals, in_vain, lost: AtomicU64::new(0) });
        let writer =
            Writer { log: log.clone(), clock: clock.clone(), jobs: taken, shared: shared.clone(), node, run };
        tokio::spawn(writer.run());
        Ok(Self { log, records, clock, jobs, shared, under_way: watch::channel(0).0 })
    }

    /// Does something in a task of its own, so that it comes to its end, and is told, also if its caller hangs up meanwhile. None: the
    /// server stops. A panic is the caller's as if there were no task.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.under_way.send_modify(|count| *count += 1);
        let under_way = UnderWay(self.under_way.clone());
        let task = tokio::spawn(async move {
            let _under_way = under_way;
            work.await
        });
        match task.await {
            Ok(done) => Some(done),
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => None,
            },
        }
    }

    /// Says that somebody asks for something; the number of the row. Without this on disk, it is not done. It is not either where too
    /// much that the key asked for came to nothing.
    pub(crate) async fn asked(
        &self,
        caller: &Caller,
        method: &str,
        path: &str,
        sent: &[u8],
    ) -> Result<u64, Problem> {
        let told = |problem: &Problem| self.refused(caller, method.to_owned(), path, problem);
        self.begin(caller).inspect_err(told)?;
        let (body, body_digest) = body::kept(sent);
        let entry = of(What::Asked, caller, method.to_owned(), path.to_owned());
        Ok(self.write(Entry { body, body_digest, ..entry }).await?)
    }

    /// Counts what is written down before it is done, until it has come to something ([`Self::came_to_something`]). Those who steer have
    /// no such bound.
    fn begin(&self, caller: &Caller) -> Result<(), Problem> {
        let Some(key) = caller.key.as_ref().filter(|_| !caller.is(Role::Operator)) else { return Ok(()) };
        self.in_vain().begin(key, Instant::now()).map_err(|wait| {
            let seconds = wait.as_secs_f64().ceil().max(1.0) as u64;
            let detail = format!(
                "{IN_VAIN} things that this API key asked for within a minute came to nothing or are not done yet, which is the most, since \
                 each is written to the audit log before; ask again in {seconds} s. What was asked now was not done"
            );
            Problem { retry_after: Some(seconds), ..Problem::new(Code::RateLimited, detail) }
        })
    }

    /// What a row said before it was done is done.
    pub(crate) fn came_to_something(&self, caller: &Caller) {
        if let Some(key) = &caller.key {
            self.in_vain().give_back(key);
        }
    }

    fn in_vain(&self) -> MutexGuard<'_, InVain> {
        self.shared.in_vain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how it ended. If that cannot be written, the row before stays as one whose end is not known.
    pub(crate) async fn ended(&self, asked: u64, caller: &Caller, method: &str, path: &str, status: u16) {
        if !(400..500).contains(&status) {
            self.came_to_something(caller);
        }
        let entry = of(What::Done, caller, method.to_owned(), path.to_owned());
        let entry = Entry { status: Some(status), of: Some(asked), ..entry };
        if let Err(error) = self.write(entry).await {
            tracing::warn!(%error, row = asked, "the audit log does not say how this ended");
        }
    }

    /// The number of the row, once it is on disk.
    async fn write(&self, entry: Entry) -> Result<u64, Error> {
        let (done, written) = oneshot::channel();
        let job = Job::Write { at: self.clock.now(), entry: Box::new(entry), done: Some(done) };
        let gone = || Error::Failed { doing: "write the audit log", text: "the server stops".to_owned() };
        self.jobs.send(job).await.map_err(|_| gone())?;
        written.await.map_err(|_| gone())?
    }

    /// Says that something was handed over or changed. Where nothing was stored there is nothing to say: callers may repeat themselves as
    /// often as they like.
    pub(crate) fn wrote(&self, caller: &Caller, wrote: Wrote) {
        let Wrote { method, path, status, mut txs, count, body } = wrote;
        if txs.is_empty() && body.is_none() {
            return;
        }
        let count = count.or_else(|| (txs.len() > 1).then_some(txs.len() as u64));
        let rest = txs.split_off(txs.len().min(entry::MOST_IDS));
        let entry = of(What::Wrote, caller, method, path);
        let entry = Entry { status: Some(status), tx_ids: txs, count, body, ..entry };
        // More than one row names: the first says how many there are.
        let more: Vec<Entry> = rest
            .chunks(entry::MOST_IDS)
            .map(|ids| Entry { tx_ids: ids.to_vec(), count: None, body: None, ..entry.clone() })
            .collect();
        self.hand_over(entry);
        more.into_iter().for_each(|entry| self.hand_over(entry));
    }

    /// Says it before it is done; the number of the row, once it is on disk. It is bounded as [`Self::asked`] is.
    pub(crate) async fn wrote_first(&self, caller: &Caller, wrote: Wrote) -> Result<u64, Problem> {
        self.begin(caller)?;
        let Wrote { method, path, status, txs, count, body } = wrote;
        let entry = of(What::Wrote, caller, method, path);
        Ok(self.write(Entry { status: Some(status), tx_ids: txs, count, body, ..entry }).await?)
    }

    /// Says that nothing came of what a row said before it was done.
    pub(crate) fn wrote_in_vain(&self, error: Option<String>, caller: &Caller, wrote: Wrote) {
        let Wrote { method, path, status, txs, count, body } = wrote;
        let entry = of(What::Wrote, caller, method, path);
        self.hand_over(Entry { status: Some(status), error, tx_ids: txs, count, body, ..entry });
    }

    /// Says that something that exists was changed, as its path and body say.
    pub(crate) fn changed(&self, caller: &Caller, method: String, path: String, status: u16, sent: &[u8]) {
        let (body, body_digest) = body::kept(sent);
        let entry = of(What::Wrote, caller, method, path);
        self.hand_over(Entry { status: Some(status), body, body_digest, ..entry });
    }

    /// Says that somebody was sent away, if this is about that.
    pub(crate) fn refused(
        &self,
        caller: &Caller,
        method: impl Into<Cow<'static, str>>,
        path: &str,
        problem: &Problem,
    ) {
        let status = problem.code.status().as_u16();
        self.refused_with(caller, method.into(), path, status, Some(problem.code));
    }

    /// The same by the status of an answer.
    pub(crate) fn refused_with(
        &self,
        caller: &Caller,
        method: Cow<'static, str>,
        path: &str,
        status: u16,
        code: Option<Code>,
    ) {
        let is_write = method != "GET" && method != "HEAD";
        let is_told = matches!(status, 401 | 403) || (status == 429 && is_write);
        if !is_told {
            return;
        }
        let who = match &caller.key {
            Some(key) => Stranger::Key(key.clone()),
            None => Stranger::Address(caller.address),
        };
        let is_told = {
            let mut refusals = self.shared.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            refusals.is_told(who, status)
        };
        if is_told {
            let error = code.map(|code| code.text().to_owned());
            let entry = of(What::Refused, caller, method, path.to_owned());
            self.hand_over(Entry { status: Some(status), error, ..entry });
        }
    }

    /// Never waits: where there is no room the entry is counted as lost, and a row says how many were.
    fn hand_over(&self, entry: Entry) {
        let job = Job::Write { at: self.clock.now(), entry: Box::new(entry), done: None };
        if self.jobs.try_send(job).is_err() {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes what has gathered, and that the server ended in good order.
    pub(crate) async fn stop(&self) {
        let (stopped, is_stopped) = oneshot::channel();
        let stop = async {
            // Also those whose callers have gone have something to tell.
            let mut under_way = self.under_way.subscribe();
            tokio::time::timeout(STOP_LIMIT / 2, under_way.wait_for(|count| *count == 0)).await.ok();
            self.jobs.send(Job::Stop(stopped)).await.ok();
            is_stopped.await.ok();
        };
        if tokio::time::timeout(STOP_LIMIT, stop).await.is_err() {
            tracing::warn!("the last rows of the audit log could not be written");
        }
    }

    pub(crate) async fn ends(&self) -> Result<Ends, Error> {
        self.log.audit_ends().await
    }

    pub(crate) async fn rows(&self, page: Page, limit: u32) -> Result<Vec<Row>, Error> {
        self.log.audit_rows(page, limit).await
    }

    /// How many rows have a number that no server gives.
    pub(crate) async fn unnumbered(&self) -> Result<u64, Error> {
        self.log.unnumbered_audit().await
    }

    /// Entries from before the chain, newest first.
    pub(crate) async fn before_the_chain(
        &self,
        before: Option<String>,
        limit: u32,
    ) -> Result<Vec<Record>, Error> {
        let query = RecordQuery { after: before, descending: true, ..RecordQuery::all(BEFORE, limit) };
        self.records.records(&query).await
    }

    /// Removes a few of those that are older than this. `now`: the time of day as far as it is believed.
    pub(crate) async fn trim(&self, before: Millis, now: Millis) -> Result<u64, Error> {
        let old = format!("{:012x}-", before.0);
        let gone = self.records.trim_records(BEFORE, &old, 1_000).await?;
        Ok(gone + self.log.trim_audit(before, 1_000, now).await?)
    }
}

fn of(
    what: What,
    caller: &Caller,
    method: impl Into<Cow<'static, str>>,
    path: impl Into<Cow<'static, str>>,
) -> Entry {
    Entry {
        key_id: caller.key.clone(),
        key_name: Some(caller.name.clone()),
        role: caller.known_role(),
        address: caller.address,
        method: Some(cut(method.into(), LONGEST_METHOD)),
        path: Some(cut(path.into(), LONGEST_PATH)),
        ..Entry::new(what)
    }
}

/// The beginning of what may be as long as a caller likes.
fn cut(text: Cow<'static, str>, most: usize) -> Cow<'static, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(text[..end].to_owned()),
        None => text,
    }
}

/// Says that the command line changed a store itself. Without this on disk, it is not done.
pub async fn command_line(
    log: &dyn AuditLog,
    clock: &dyn Clock,
    command: &'static str,
    user: &str,
    body: Value,
) -> Result<(), Error> {
    let entry = Entry {
        key_name: Some(user.into()),
        method: Some("landfall".into()),
        path: Some(command.into()),
        body: Some(body),
        ..Entry::new(What::CommandLine)
    };
    let failed =
        |error: serde_json::Error| Error::Failed { doing: "write the audit log", text: error.to_string() };
    log.append_audit(vec![entry.sealed_at(clock.now()).map_err(failed)?]).await.map(|_| ())
}
