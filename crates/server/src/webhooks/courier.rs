//! The loop of one endpoint: read the journal, let go what may go, and write down how far it is.
//!
//! A courier's memory may be thrown away at any time: another one goes on from the stored cursor and rows, and what was
//! delivered since they were written is delivered again. So nothing is lost, and little comes twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use landfall_core::ports::records::{RecordKind, RecordQuery, RecordsWritten};
use landfall_core::ports::store::Error;
use landfall_core::{JournalSeq, Millis};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::backoff;
use super::delivery::{Delivery, OrderOf, row_prefix};
use super::desk::Shared;
use super::endpoint::{Claim, Endpoint, Stored, Switch};
use super::queue::{Failed, Queue, Which};
use super::sender::{Message, Refusal};
use super::time::OwnTime;
use crate::event;
use crate::span::about;

#[cfg(test)]
mod tests;

/// Journal entries read at once, and events that may be in memory before the next page is read.
const PAGE: u32 = 500;
const AHEAD: usize = 200;
/// Where so many events in a row failed, of different transactions, it is the receiver: one event at a time, to see
/// whether it is back.
const FAILING_AT: usize = 5;
/// A receiver that takes nothing is asked at least this often.
const ASK_AT_LEAST: Duration = Duration::from_secs(300);
/// How often progress is written while events are delivered, and while only others' events pass by.
const WRITE_EVERY: Duration = Duration::from_millis(500);
const WRITE_IDLE_EVERY: Duration = Duration::from_secs(5);
/// Or after so many deliveries.
const WRITE_AFTER: usize = 100;
/// A write that finds the record changed by somebody else is tried again with what they wrote.
const WRITE_TRIES: usize = 5;
const ROWS_AT_ONCE: u32 = 1_000;
/// How long deliveries under way may take when the server stops.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// Why a courier ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The endpoint is off, gone, another's, or was changed so that it has to be loaded again; or the server stops.
    Stopped,
    Store(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// A delivery that has come to its end.
struct Landed {
    seq: JournalSeq,
    /// None: the event is not there any more.
    result: Option<Result<u16, Refusal>>,
}

pub(super) struct Courier {
    shared: Arc<Shared>,
    stored: Stored,
    /// As it will be written.
    endpoint: Endpoint,
    newer: watch::Receiver<Stored>,
    queue: Queue,
    reader: event::Reader,
    /// Bodies of events that were read and not tried yet.
    bodies: BTreeMap<JournalSeq, String>,
    flights: JoinSet<Result<Landed, Error>>,
    /// Whose events failed since the last one that got through.
    failing: BTreeSet<OrderOf>,
    failures_in_a_row: u32,
    /// Nothing is sent before.
    not_before: Millis,
    time: OwnTime,
    loaded: Instant,
    /// A receiver that fails is asked with a new event every other time, in case it is the old ones that it cannot take.
    ask_with_new: bool,
    /// Deliveries since progress was written, and when it was.
    settled: usize,
    written_at: Instant,
}

impl Courier {
    /// Goes on where the stored endpoint is.
    pub(super) async fn load(
        shared: Arc<Shared>,
        stored: Stored,
        newer: watch::Receiver<Stored>,
    ) -> Result<Self, Ended> {
        let mut rows = Vec::new();
        let mut query = RecordQuery {
            prefix: row_prefix(&stored.id),
            ..RecordQuery::all(RecordKind::Delivery, ROWS_AT_ONCE)
        };
        loop {
            let page = shared.records.records(&query).await?;
            query.after = page.last().map(|record| record.id.clone());
            let is_last = page.len() < ROWS_AT_ONCE as usize;
            for record in page {
                rows.push(Delivery::read(record)?);
            }
            if is_last {
                break;
            }
        }
        let now = shared.now();
        let mut endpoint = stored.endpoint.clone();
        let resumed = endpoint.progress.resumed_at;
        for (_, _, row) in &mut rows {
            // Whoever switched it on again wants to see now whether it works.
            if row.last_tried < resumed {
                row.due = Millis(0);
                row.first_tried = row.first_tried.max(resumed);
            }
        }
        endpoint.progress = endpoint.progress.believed(now);
        let rows = rows.into_iter().map(|(seq, version, row)| (seq, version, row.believed(now)));
        let queue = Queue::load(endpoint.progress.cursor, shared.settings.max_waiting, rows);
        Ok(Self {
            shared,
            stored,
            endpoint,
            newer,
            queue,
            reader: event::Reader::default(),
            bodies: BTreeMap::new(),
            flights: JoinSet::new(),
            failing: BTreeSet::new(),
            failures_in_a_row: 0,
            not_before: Millis(0),
            time: OwnTime::begin(now),
            loaded: Instant::now(),
            ask_with_new: false,
            settled: 0,
            written_at: Instant::now(),
        })
    }

    /// Delivers until there is a reason to stop.
    pub(super) async fn run(mut self) -> Ended {
        loop {
            if let Err(ended) = self.turn().await {
                return ended;
            }
        }
    }

    async fn turn(&mut self) -> Result<(), Ended> {
        if self.shared.tail.is_stopping() {
            self.finish().await?;
            return Err(Ended::Stopped);
        }
        // Another node may be taking over.
        if !self.shared.handle.is_live() {
            return Err(Ended::Stopped);
        }
        if let Some(step) = self.time.follow(self.shared.now()) {
            self.queue.stepped(step);
            self.endpoint.progress.stepped(step);
            self.not_before = step.moved(self.not_before);
        }
        let newer = self.newer.borrow_and_update().clone();
        if newer.version > self.stored.version {
            self.adopt(newer)?;
        }
        self.fill().await?;
        self.let_go();
        if self.is_time_to_write() {
            self.write(false).await?;
        }
        self.wait().await
    }

    /// Reads on, as long as there is room.
    async fn fill(&mut self) -> Result<(), Ended> {
        while self.has_room() {
            let rows = self.shared.store().journal_after(self.queue.read(), PAGE).await?;
            for row in &rows {
                let standing = self.reader.next(self.shared.store(), row).await?;
                if self.endpoint.filter.wants(row)
                    && let Some(name) = row.entry.event()
                {
                    let order = row.tx.map_or(OrderOf::Lane(row.lane), OrderOf::Tx);
                    self.queue.push(row.seq, order, name);
                    self.bodies.insert(row.seq, event::body(name, row, standing));
                }
                self.queue.read_to(row.seq);
            }
            if rows.len() < PAGE as usize {
                break;
            }
        }
        Ok(())
    }

    /// More events may be read. While the receiver fails, one is enough.
    fn has_room(&self) -> bool {
        self.queue.fresh() < if self.is_failing() { 1 } else { AHEAD }
    }

    /// How many deliveries there may be at once.
    fn at_once(&self) -> usize {
        if self.is_failing() { 1 } else { self.shared.settings.at_once }
    }

    fn is_failing(&self) -> bool {
        self.failing.len() >= FAILING_AT
    }

    /// Sends what may be sent.
    fn let_go(&mut self) {
        let now = self.time.now();
        if now < self.not_before {
            return;
        }
        while self.flights.len() < self.at_once() {
            let next = if self.is_failing() {
                let which = if self.ask_with_new { Which::Fresh } else { Which::Rows };
                self.ask_with_new = !self.ask_with_new;
                // Whatever there is, due or not: somebody has to see whether the receiver is back.
                self.queue.next(now, which).or_else(|| self.queue.next(Millis(u64::MAX), Which::Any))
            } else {
                self.queue.next(now, Which::Any)
            };
            let Some(seq) = next else { return };
            self.queue.fly(seq);
            let flight = fly(
                self.shared.clone(),
                self.stored.id.clone(),
                &self.endpoint,
                seq,
                self.bodies.remove(&seq),
            );
            self.flights.spawn(flight);
        }
    }

    /// Waits for something to do.
    async fn wait(&mut self) -> Result<(), Ended> {
        let now = self.time.now();
        // What is due goes as soon as there is a place for it.
        let due = self.queue.next_due().filter(|_| self.flights.len() < self.at_once());
        let due = due.map(|due| due.max(self.not_before).since(now));
        let asked = (self.not_before > now).then(|| self.not_before.since(now));
        let pause = [due, asked, Some(WRITE_EVERY)].into_iter().flatten().min().unwrap_or(WRITE_EVERY);
        // Not a busy loop, even if what is due cannot go.
        let pause = pause.max(Duration::from_millis(5));
        let has_room = self.has_room();
        tokio::select! {
            Some(landed) = self.flights.join_next(), if !self.flights.is_empty() => {
                match landed {
                    Ok(landed) => self.settle(landed?).await,
                    Err(error) => Err(Ended::Store(Error::Failed { doing: "deliver an event", text: error.to_string() })),
                }
            }
            _ = self.shared.tail.beyond(self.queue.read()), if has_room => Ok(()),
            changed = self.newer.changed() => changed.map_err(|_| Ended::Stopped),
            () = self.shared.tail.stopped() => Ok(()),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    async fn settle(&mut self, landed: Landed) -> Result<(), Ended> {
        self.settled += 1;
        let (seq, now) = (landed.seq, self.time.now());
        match landed.result {
            Some(Ok(_)) => self.delivered(seq, now),
            Some(Err(refusal)) => self.failed(seq, now, refusal),
            None => {
                let why =
                    "the history of its transaction was removed before it could be delivered".to_owned();
                self.queue.failed(seq, Failed { at: now, due: now, why, give_up: true });
                self.shared.metrics.webhook_given_up();
            }
        }
        if self.endpoint.is_on() { Ok(()) } else { self.switched_off().await }
    }

    fn delivered(&mut self, seq: JournalSeq, now: Millis) {
        if self.is_failing() {
            tracing::info!(webhook = %self.stored.id, "the receiver takes events again");
            self.queue.all_due(now);
        }
        self.queue.delivered(seq);
        self.failing.clear();
        self.failures_in_a_row = 0;
        self.not_before = Millis(0);
        let progress = &mut self.endpoint.progress;
        progress.delivered_at = Some(now);
        (progress.failing_since, progress.last_failure) = (None, None);
        self.shared.metrics.webhook_delivered();
    }

    fn failed(&mut self, seq: JournalSeq, now: Millis, refusal: Refusal) {
        let settings = &self.shared.settings;
        let random = self.shared.random();
        let row = self.queue.row(seq);
        let failures = row.map_or(0, |row| row.failures).saturating_add(1);
        let first = row.and_then(|row| row.first_tried).unwrap_or(now);
        self.failing.extend(self.queue.order(seq));
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let wait = |failures| backoff::wait(failures, settings.retry_first, settings.retry_longest, random);
        let due = now.after(wait(failures).max(refusal.retry_after.unwrap_or_default()));
        if let Some(alone) = refusal.retry_after {
            self.not_before = self.not_before.max(now.after(alone));
        } else if self.failing.len() >= FAILING_AT {
            self.not_before = now.after(wait(self.failures_in_a_row).min(ASK_AT_LEAST));
        }
        let progress = &mut self.endpoint.progress;
        let since = *progress.failing_since.get_or_insert(now);
        progress.last_failure = Some(refusal.why.clone());
        // By stored times alone, which a clock may have made old, nothing is given up: one long wait at least was seen here.
        let seen_here = self.loaded.elapsed() >= settings.retry_longest.min(settings.give_up_after);
        let is_old = seen_here && now.since(first) >= settings.give_up_after;
        // If others got through meanwhile, it is the event; if none did, it is the receiver, and the event is kept.
        let give_up = is_old && progress.delivered_at.is_some_and(|at| at > first);
        if refusal.gone {
            let why = "the receiver answered 410: it is gone".to_owned();
            self.endpoint.switch = Switch::Off { why, since: now };
        } else if seen_here && now.since(since) >= settings.give_up_after {
            let why = format!(
                "nothing got through for {}; the last failure: {}",
                about(now.since(since)),
                refusal.why
            );
            self.endpoint.switch = Switch::Off { why, since: now };
        }
        tracing::debug!(webhook = %self.stored.id, %seq, failures, why = %refusal.why, "an event was not taken");
        if give_up {
            tracing::warn!(webhook = %self.stored.id, %seq, why = %refusal.why, "an event is given up");
            self.shared.metrics.webhook_given_up();
        } else {
            self.shared.metrics.webhook_failed();
        }
        self.queue.failed(seq, Failed { at: now, due, why: refusal.why, give_up });
    }

    async fn switched_off(&mut self) -> Result<(), Ended> {
        if let Switch::Off { why, .. } = &self.endpoint.switch {
            tracing::error!(
                webhook = %self.stored.id, %why,
                "webhook.disabled: events wait; switch it on again when the receiver is back, and they are delivered"
            );
        }
        self.flights.abort_all();
        self.endpoint.claim = None;
        self.write(true).await?;
        Err(Ended::Stopped)
    }

    fn is_time_to_write(&self) -> bool {
        let since = self.written_at.elapsed();
        let moved = self.queue.cursor() != self.stored.endpoint.progress.cursor;
        (self.settled > 0 && (since >= WRITE_EVERY || self.settled >= WRITE_AFTER))
            || (moved && since >= WRITE_IDLE_EVERY)
    }

    /// Writes how far it is. What somebody else changed meanwhile is taken over, unless it ends this courier.
    async fn write(&mut self, ending: bool) -> Result<(), Ended> {
        for _ in 0..WRITE_TRIES {
            self.endpoint.progress.cursor = self.queue.cursor();
            self.endpoint.progress.waiting = self.queue.waiting() as u64;
            let (mut writes, batch) = self.queue.changes(&self.stored.id)?;
            writes.push(self.stored.change(&self.endpoint)?);
            match self.shared.records.write_records(writes).await? {
                RecordsWritten::Yes => {
                    self.queue.written(&batch);
                    self.stored.version += 1;
                    self.stored.endpoint = self.endpoint.clone();
                    (self.settled, self.written_at) = (0, Instant::now());
                    return Ok(());
                }
                RecordsWritten::Changed => {
                    let record = self.shared.records.record(RecordKind::Webhook, &self.stored.id).await?;
                    let Some(record) = record else { return Err(Ended::Stopped) };
                    let fresh = Stored::read(record)?;
                    let (switch, claim) = (self.endpoint.switch.clone(), self.endpoint.claim.clone());
                    self.adopt(fresh)?;
                    if ending {
                        (self.endpoint.switch, self.endpoint.claim) = (switch, claim);
                    }
                }
            }
        }
        Err(Ended::Store(Error::Failed {
            doing: "write how far a webhook is",
            text: "others changed it all the time".into(),
        }))
    }

    /// Goes on with what somebody else wrote, keeping its own progress.
    fn adopt(&mut self, fresh: Stored) -> Result<(), Ended> {
        let is_mine = fresh.endpoint.claim.as_ref().is_some_and(|claim| self.shared.is_mine(claim));
        let is_same = fresh.endpoint.epoch == self.endpoint.epoch;
        if !is_mine || !is_same || !fresh.endpoint.is_on() {
            return Err(Ended::Stopped);
        }
        let progress = self.endpoint.progress.clone();
        self.endpoint = Endpoint { progress, ..fresh.endpoint.clone() };
        self.stored = fresh;
        Ok(())
    }

    /// The server stops: what is under way may end, and the endpoint is free for another node.
    async fn finish(&mut self) -> Result<(), Ended> {
        let until = Instant::now() + STOP_LIMIT;
        while let Ok(Some(landed)) = tokio::time::timeout_at(until, self.flights.join_next()).await {
            if let Ok(Ok(landed)) = landed {
                self.settle(landed).await?;
            }
        }
        self.endpoint.claim = None;
        self.write(true).await
    }
}

/// Tries one event.
fn fly(
    shared: Arc<Shared>,
    webhook: String,
    endpoint: &Endpoint,
    seq: JournalSeq,
    body: Option<String>,
) -> impl Future<Output = Result<Landed, Error>> + Send + 'static {
    let (url, keys) = (endpoint.url.clone(), endpoint.keys.clone());
    async move {
        let body = match body {
            Some(body) => Some(body),
            None => event::body_at(shared.store(), seq).await?,
        };
        let Some(body) = body else { return Ok(Landed { seq, result: None }) };
        let now = shared.now();
        let Some(secret) = &shared.settings.secret else {
            return Err(Error::Unusable("the installation has no secret for webhooks".into()));
        };
        let secrets = keys.signing(&webhook, secret, now);
        let id = super::message_id(&webhook, seq);
        let result = shared.sender.send(Message { url, id, body, secrets }, now).await;
        Ok(Landed { seq, result: Some(result) })
    }
}

impl Shared {
    pub(super) fn is_mine(&self, claim: &Claim) -> bool {
        claim.session == self.handle.session()
    }
}
