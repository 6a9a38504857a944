//! Metrics in Prometheus' text format: `GET /metrics`.
//!
//! [`Metrics`] is the engine's meter: it counts the facts that the engine tells it. Levels are read from the engine when
//! somebody asks. A scrape reads memory; how long queues are behind what lanes have loaded is counted by the store every
//! few seconds at most. There is no global registry: each server has its own.

mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use landfall_core::ChainId;
use landfall_core::lane::{Alarm, LaneCounts};
use landfall_engine::{
    Fact, Gauges, Handle, Meter, Milestone, ReceiptCheck, Renewal, Settled, Signed, Submitted, WriteEnd,
};
use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder};

use crate::webhooks;
use table::*;
pub use table::{Kind, METRICS, Metric};

/// Why metrics could not be set up or written.
pub type Error = prometheus::Error;

/// At most this many lanes have series of their own; the others are added up under the signer `others`.
const MOST_LANES: usize = 1_000;
const OTHERS: &str = "others";

/// Seconds of a transaction's life: from well under a block to hours.
const LIFE: &[f64] = &[
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0,
    14_400.0,
];
/// Seconds of a commit.
const COMMIT: &[f64] = &[0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// Writes or rows of a commit.
const SIZE: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 4_096.0, 16_384.0];

/// Everything that is counted and measured of one server.
pub struct Metrics {
    registry: Registry,
    submit: IntCounterVec,
    transitions: IntCounterVec,
    milestones: [HistogramVec; 4],
    stage: HistogramVec,
    attempts: IntCounterVec,
    resubmits: IntCounterVec,
    sends: IntCounterVec,
    receipt_checks: IntCounterVec,
    settled: IntCounterVec,
    new_forks: IntCounterVec,
    tx_reorged: IntCounterVec,
    deep_reorgs: IntCounterVec,
    single_witness: IntCounterVec,
    lease_acquired: IntCounterVec,
    lease_fenced: IntCounterVec,
    renewals: IntCounterVec,
    commit_seconds: HistogramVec,
    commit_rows: HistogramVec,
    group_writes: HistogramVec,
    writes: IntCounterVec,
    journal_entries: IntCounterVec,
    two_winners: IntCounterVec,
    won_twice: IntCounterVec,
    webhook_deliveries: IntCounterVec,
    turned_away: IntCounterVec,
    levels: Levels,
    webhooks: Mutex<Vec<webhooks::Level>>,
    listeners: AtomicI64,
    /// Kept raw transactions: all but those that are held back, and those.
    raw_kept: [AtomicI64; 2],
    /// One scrape at a time.
    scraping: Mutex<()>,
}

/// Requests and connections that there was no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRoom {
    Connection,
    Stream,
    Bytes,
    Answer,
}

impl NoRoom {
    fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Stream => "stream",
            Self::Bytes => "bytes",
            Self::Answer => "answer",
        }
    }
}

/// Gauges, by name: they are set anew at every scrape.
struct Levels(BTreeMap<&'static str, GaugeVec>);

impl Metrics {
    /// Nothing counted yet. `node` is the name of the node, `chains` the ones it follows.
    pub fn new(node: &str, chains: impl IntoIterator<Item = ChainId>) -> Result<Self, Error> {
        let registry = Registry::new();
        let counter = |metric: Metric| -> Result<IntCounterVec, Error> {
            let made = IntCounterVec::new(Opts::new(metric.name, metric.help), metric.labels)?;
            registry.register(Box::new(made.clone()))?;
            Ok(made)
        };
        let histogram = |metric: Metric, buckets: &[f64]| -> Result<HistogramVec, Error> {
            let options = HistogramOpts::new(metric.name, metric.help).buckets(buckets.to_vec());
            let made = HistogramVec::new(options, metric.labels)?;
            registry.register(Box::new(made.clone()))?;
            Ok(made)
        };
        let mut levels = BTreeMap::new();
        for metric in METRICS.iter().filter(|metric| metric.kind == Kind::Gauge) {
            let made = GaugeVec::new(Opts::new(metric.name, metric.help), metric.labels)?;
            registry.register(Box::new(made.clone()))?;
            levels.insert(metric.name, made);
        }
        let metrics = Self {
            submit: counter(SUBMIT)?,
            transitions: counter(TRANSITIONS)?,
            milestones: [
                histogram(TO_SIGNED, LIFE)?,
                histogram(TO_SENT, LIFE)?,
                histogram(TO_MINED, LIFE)?,
                histogram(TO_FINAL, LIFE)?,
            ],
            stage: histogram(STAGE, LIFE)?,
            attempts: counter(ATTEMPTS)?,
            resubmits: counter(RESUBMITS)?,
            sends: counter(SENDS)?,
            receipt_checks: counter(RECEIPT_CHECKS)?,
            settled: counter(SETTLED)?,
            new_forks: counter(NEW_FORKS)?,
            tx_reorged: counter(TX_REORGED)?,
            deep_reorgs: counter(DEEP_REORGS)?,
            single_witness: counter(SINGLE_WITNESS_TX)?,
            lease_acquired: counter(LEASE_ACQUIRED)?,
            lease_fenced: counter(LEASE_FENCED)?,
            renewals: counter(RENEWALS)?,
            commit_seconds: histogram(COMMIT_SECONDS, COMMIT)?,
            commit_rows: histogram(COMMIT_ROWS, SIZE)?,
            group_writes: histogram(GROUP_WRITES, SIZE)?,
            writes: counter(WRITES)?,
            journal_entries: counter(JOURNAL_ENTRIES)?,
            two_winners: counter(TWO_WINNERS)?,
            won_twice: counter(WON_TWICE)?,
            webhook_deliveries: counter(WEBHOOK_DELIVERIES)?,
            turned_away: counter(TURNED_AWAY)?,
            levels: Levels(levels),
            webhooks: Mutex::default(),
            listeners: AtomicI64::new(0),
            raw_kept: Default::default(),
            scraping: Mutex::new(()),
            registry,
        };
        metrics.levels.set(BUILD_INFO, &[env!("CARGO_PKG_VERSION"), node], 1.0);
        metrics.begin_at_zero(chains);
        Ok(metrics)
    }

    /// What has not happened yet is shown as 0, so that its first time is a step and not a beginning.
    fn begin_at_zero(&self, chains: impl IntoIterator<Item = ChainId>) {
        for result in SUBMITTED {
            add(&self.submit, &[submitted(result)], 0);
        }
        for result in [Renewal::Done, Renewal::Ended, Renewal::Failed] {
            add(&self.renewals, &[renewal(result)], 0);
        }
        for result in [WriteEnd::Done, WriteEnd::Fenced, WriteEnd::Failed, WriteEnd::Unknown] {
            add(&self.writes, &[write_end(result)], 0);
        }
        for result in ["delivered", "failed", "given_up"] {
            add(&self.webhook_deliveries, &[result], 0);
        }
        for what in [NoRoom::Connection, NoRoom::Stream, NoRoom::Bytes, NoRoom::Answer] {
            add(&self.turned_away, &[what.name()], 0);
        }
        let plain = [&self.lease_acquired, &self.lease_fenced, &self.journal_entries];
        for counter in plain.into_iter().chain([&self.two_winners, &self.won_twice]) {
            add(counter, &[], 0);
        }
        for chain in chains {
            let chain = chain.to_string();
            let by_chain = [&self.resubmits, &self.new_forks, &self.tx_reorged, &self.deep_reorgs];
            for counter in by_chain.into_iter().chain([&self.single_witness]) {
                add(counter, &[&chain], 0);
            }
            for kind in [Signed::First, Signed::Again, Signed::NoOp] {
                add(&self.attempts, &[&chain, signed(kind)], 0);
            }
            for result in [ReceiptCheck::Found, ReceiptCheck::Missing, ReceiptCheck::Failed] {
                add(&self.receipt_checks, &[&chain, receipt_check(result)], 0);
            }
            for how in [Settled::Won, Settled::NoOp, Settled::Displaced] {
                add(&self.settled, &[&chain, settled(how)], 0);
            }
        }
    }

    pub(crate) fn webhook_delivered(&self) {
        add(&self.webhook_deliveries, &["delivered"], 1);
    }

    pub(crate) fn webhook_failed(&self) {
        add(&self.webhook_deliveries, &["failed"], 1);
    }

    pub(crate) fn webhook_given_up(&self) {
        add(&self.webhook_deliveries, &["given_up"], 1);
    }

    /// Something was refused, or ended, for want of room.
    pub(crate) fn turned_away(&self, what: NoRoom) {
        add(&self.turned_away, &[what.name()], 1);
    }

    /// How the webhooks are doing.
    pub(crate) fn set_webhooks(&self, levels: Vec<webhooks::Level>) {
        *self.webhooks.lock().unwrap_or_else(PoisonError::into_inner) = levels;
    }

    /// Listeners that came, or went.
    pub(crate) fn listeners(&self, change: i64) {
        self.listeners.fetch_add(change, Ordering::Relaxed);
    }

    /// Transactions that callers signed themselves and that are kept.
    pub(crate) fn set_raw_kept(&self, open: usize, held: usize) {
        for (kept, count) in self.raw_kept.iter().zip([open, held]) {
            kept.store(i64::try_from(count).unwrap_or(i64::MAX), Ordering::Relaxed);
        }
    }

    /// The whole page, as of now.
    pub(crate) async fn page(&self, handle: &Handle) -> Result<String, Error> {
        let gauges = handle.gauges().await;
        let telemetry = &handle.parts().telemetry;
        let lanes = by_label(&gauges, |lane| telemetry.signer(lane.signer).to_string());
        let _one = self.scraping.lock().unwrap_or_else(PoisonError::into_inner);
        self.set_levels(&gauges, &lanes);
        self.count_sends(&gauges);
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    fn set_levels(&self, gauges: &Gauges, lanes: &BTreeMap<(String, String), LaneLevel>) {
        let levels = &self.levels;
        // Lanes and endpoints that are gone are shown no more.
        levels.0.iter().filter(|(name, _)| **name != BUILD_INFO.name).for_each(|(_, gauge)| gauge.reset());
        levels.set(LANES_RUNNING, &[], gauges.lanes.len() as f64);
        levels.set(LANES_IN_TROUBLE, &[], gauges.lanes_in_trouble as f64);
        levels.set(WRITES_WAITING, &[], gauges.writes_waiting as f64);
        levels.set(SESSION_LIVE, &[], flag(gauges.session_is_live));
        levels.set(STORE_OLDER, &[], flag(gauges.store_is_older));
        levels.set(LISTENERS, &[], self.listeners.load(Ordering::Relaxed) as f64);
        for (kept, state) in self.raw_kept.iter().zip(["open", "held"]) {
            levels.set(RAW_KEPT, &[state], kept.load(Ordering::Relaxed) as f64);
        }
        for webhook in self.webhooks.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let labels = [webhook.webhook.as_str()];
            levels.set(OUTBOX_LAG, &labels, webhook.behind as f64);
            levels.set(OUTBOX_LAG_SECONDS, &labels, webhook.behind_for.as_secs_f64());
            levels.set(WEBHOOK_WAITING, &labels, webhook.waiting as f64);
            levels.set(WEBHOOK_DISABLED, &labels, flag(!webhook.is_on));
        }
        for ((chain, signer), lane) in lanes {
            let labels = [chain.as_str(), signer.as_str()];
            let counts = &lane.counts;
            for (metric, value) in [
                (LANE_WAITING, counts.waiting),
                (LANE_SIGNED, counts.signed),
                (LANE_OUT, counts.out),
                (LANE_MINED, counts.mined),
                (LANE_WITHOUT_RECEIPT, counts.without_receipt),
                (LANE_RETURNED, counts.returned),
                (LANE_WINDOW, counts.window),
            ] {
                levels.set(metric, &labels, value as f64);
            }
            levels.set(LANE_HELD, &labels, flag(counts.held));
            levels.set(LANE_OLDEST, &labels, lane.oldest);
        }
        for chain in &gauges.chains {
            let id = chain.id.to_string();
            levels.set(CHAIN_FOLLOWED, &[&id], flag(chain.head.is_some() && chain.trouble.is_none()));
            if let Some(head) = chain.head {
                levels.set(CHAIN_HEAD, &[&id], head as f64);
            }
            if let Some(witnessed) = chain.witnessed {
                levels.set(CHAIN_WITNESSED, &[&id], witnessed as f64);
            }
            levels.set(CHAIN_SINGLE_WITNESS, &[&id], flag(chain.single_witness));
            levels.set(CHAIN_DISAGREE, &[&id], flag(chain.disagree));
            if let Some(age) = gauges.head_ages.get(&chain.id) {
                levels.set(CHAIN_HEAD_AGE, &[&id], age.as_secs_f64());
            }
            for endpoint in &chain.endpoints {
                let labels = [id.as_str(), endpoint.name.as_str()];
                levels.set(ENDPOINT_USABLE, &labels, flag(endpoint.usable));
                levels.set(ENDPOINT_BREAKER, &labels, flag(endpoint.breaker_open));
                for (metric, value) in [
                    (ENDPOINT_HEAD, endpoint.head.map(|number| number as f64)),
                    (ENDPOINT_FINALIZED, endpoint.finalized.map(|number| number as f64)),
                    (ENDPOINT_LATENCY, endpoint.latency_ms.map(|millis| millis as f64 / 1_000.0)),
                ] {
                    if let Some(value) = value {
                        levels.set(metric, &labels, value);
                    }
                }
            }
        }
    }

    /// The endpoints keep their own book of answers; what came since the last scrape is added.
    fn count_sends(&self, gauges: &Gauges) {
        for chain in &gauges.chains {
            let id = chain.id.to_string();
            for endpoint in &chain.endpoints {
                for (outcome, count) in &endpoint.answers {
                    let labels = [id.as_str(), endpoint.name.as_str(), outcome.name()];
                    if let Ok(known) = self.sends.get_metric_with_label_values(&labels) {
                        known.inc_by(count.saturating_sub(known.get()));
                    }
                }
            }
        }
    }
}

impl Meter for Metrics {
    fn note(&self, fact: Fact) {
        match fact {
            Fact::LeaseAcquired => add(&self.lease_acquired, &[], 1),
            Fact::LeaseFenced => add(&self.lease_fenced, &[], 1),
            Fact::SessionRenewed(result) => add(&self.renewals, &[renewal(result)], 1),
            Fact::Submitted(result) => add(&self.submit, &[submitted(result)], 1),
            Fact::Moved { from, to, stayed, .. } => {
                add(&self.transitions, &[from.map_or("none", |from| from.name()), to.name()], 1);
                if let Some(from) = from {
                    observe(&self.stage, &[from.name()], stayed.as_secs_f64());
                }
            }
            Fact::Reached { chain, milestone, after } => {
                let [signed, sent, mined, done] = &self.milestones;
                let histogram = match milestone {
                    Milestone::Signed => signed,
                    Milestone::Sent => sent,
                    Milestone::Mined => mined,
                    Milestone::Final => done,
                };
                observe(histogram, &[&chain.to_string()], after.as_secs_f64());
            }
            Fact::Signed { chain, what } => add(&self.attempts, &[&chain.to_string(), signed(what)], 1),
            Fact::Resubmitted { chain, count } => add(&self.resubmits, &[&chain.to_string()], count),
            Fact::ReceiptChecked { chain, result, count } => {
                add(&self.receipt_checks, &[&chain.to_string(), receipt_check(result)], count);
            }
            Fact::NewFork { chain } => add(&self.new_forks, &[&chain.to_string()], 1),
            Fact::Reorged { chain } => add(&self.tx_reorged, &[&chain.to_string()], 1),
            Fact::DeepReorg { chain } => add(&self.deep_reorgs, &[&chain.to_string()], 1),
            Fact::SingleWitness { chain } => add(&self.single_witness, &[&chain.to_string()], 1),
            Fact::Settled { chain, how } => add(&self.settled, &[&chain.to_string(), settled(how)], 1),
            Fact::Group { writes, rows, took } => {
                observe(&self.group_writes, &[], writes as f64);
                observe(&self.commit_rows, &[], rows as f64);
                observe(&self.commit_seconds, &[], took.as_secs_f64());
            }
            Fact::Wrote(result) => add(&self.writes, &[write_end(result)], 1),
            Fact::Journalled { entries } => add(&self.journal_entries, &[], entries),
            Fact::Alarm(Alarm::TwoWinners { .. }) => add(&self.two_winners, &[], 1),
            Fact::Alarm(Alarm::WonTwice { .. }) => add(&self.won_twice, &[], 1),
        }
    }
}

impl Levels {
    fn set(&self, metric: Metric, labels: &[&str], value: f64) {
        let gauge = self.0.get(metric.name).map(|gauge| gauge.get_metric_with_label_values(labels));
        if let Some(Ok(gauge)) = gauge {
            gauge.set(value);
        }
    }
}

/// A number of labels that does not fit the table would be a mistake here, which a test finds; it costs no more than the
/// number.
fn add(counter: &IntCounterVec, labels: &[&str], by: u64) {
    if let Ok(counter) = counter.get_metric_with_label_values(labels) {
        counter.inc_by(by);
    }
}

fn observe(histogram: &HistogramVec, labels: &[&str], value: f64) {
    if let Ok(histogram) = histogram.get_metric_with_label_values(labels) {
        histogram.observe(value);
    }
}

fn flag(holds: bool) -> f64 {
    if holds { 1.0 } else { 0.0 }
}

/// A lane as it is shown, or several under one name.
#[derive(Default)]
struct LaneLevel {
    counts: LaneCounts,
    oldest: f64,
}

/// Lanes by their labels; those beyond the most are added up.
fn by_label(
    gauges: &Gauges,
    name: impl Fn(&landfall_core::LaneId) -> String,
) -> BTreeMap<(String, String), LaneLevel> {
    let mut shown: BTreeMap<(String, String), LaneLevel> = BTreeMap::new();
    for (position, (lane, counts)) in gauges.lanes.iter().enumerate() {
        let signer = if position < MOST_LANES { name(lane) } else { OTHERS.to_owned() };
        let level = shown.entry((lane.chain.to_string(), signer)).or_default();
        let sum = &mut level.counts;
        sum.waiting += counts.waiting;
        sum.signed += counts.signed;
        sum.out += counts.out;
        sum.mined += counts.mined;
        sum.without_receipt += counts.without_receipt;
        sum.returned += counts.returned;
        sum.window += counts.window;
        sum.held |= counts.held;
        let waited = gauges.oldest_waiting.get(lane).map_or(0.0, |age| age.as_secs_f64());
        level.oldest = level.oldest.max(waited);
    }
    shown
}

const SUBMITTED: [Submitted; 6] = [
    Submitted::New,
    Submitted::Replay,
    Submitted::Conflict,
    Submitted::Refused,
    Submitted::Failed,
    Submitted::Unknown,
];

fn submitted(result: Submitted) -> &'static str {
    match result {
        Submitted::New => "new",
        Submitted::Replay => "replay",
        Submitted::Conflict => "conflict",
        Submitted::Refused => "refused",
        Submitted::Failed => "failed",
        Submitted::Unknown => "unknown",
    }
}

fn receipt_check(result: ReceiptCheck) -> &'static str {
    match result {
        ReceiptCheck::Found => "found",
        ReceiptCheck::Missing => "missing",
        ReceiptCheck::Failed => "failed",
    }
}

fn settled(how: Settled) -> &'static str {
    match how {
        Settled::Won => "won",
        Settled::NoOp => "no_op",
        Settled::Displaced => "displaced",
    }
}

fn signed(what: Signed) -> &'static str {
    match what {
        Signed::First => "first",
        Signed::Again => "reprice",
        Signed::NoOp => "no_op",
    }
}

fn renewal(result: Renewal) -> &'static str {
    match result {
        Renewal::Done => "done",
        Renewal::Ended => "ended",
        Renewal::Failed => "failed",
    }
}

fn write_end(result: WriteEnd) -> &'static str {
    match result {
        WriteEnd::Done => "done",
        WriteEnd::Fenced => "fenced",
        WriteEnd::Failed => "failed",
        WriteEnd::Unknown => "unknown",
    }
}
