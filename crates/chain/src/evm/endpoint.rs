//! One endpoint: asks questions over its link, within a time limit, and keeps book of how it is doing.
//!
//! What it turned out not to support is in [`super::abilities`], how fast it may be asked in [`super::pace`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_json_rpc::{ErrorPayload, Id, Request, RequestPacket, Response, ResponsePacket, ResponsePayload};
use landfall_core::outcome::SendOutcome;
use landfall_core::ports::chain::EndpointHealth;
use landfall_core::ports::clock::Clock;
use landfall_core::view::PRESENT;
use landfall_core::{ChainId, Millis};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::abilities::Quirks;
use super::classify::{Table, Trouble, Verdict};
use super::health::{Health, Identity, Standing};
use super::name::Name;
use super::outbox::Outbox;
use super::pace::Pace;
use super::planted::{self, Planted};
use super::rpc::{Answer, Ask, Failure, NodeError, error_data, read_some};
use super::transport::Link;
use super::wire::Quantity;
use super::witness::Shown;

/// How many packets are under way at once; more would only queue up there.
const ON_THE_WIRE: usize = 64;
/// How many more wait for their turn. Beyond that the endpoint is left out.
const WAITING: usize = 4_096;

/// An endpoint whose last final block is this much older than another's is asked last. On Ethereum that block moves by
/// 32 at a time, and not everywhere at once.
const MAX_FINALIZED_LAG: u64 = 96;

/// One endpoint of a chain.
pub(crate) struct Endpoint {
    pub(crate) name: Name,
    pub(crate) quirks: Quirks,
    pub(crate) link: Link,
    pub(super) outbox: Outbox,
    chain: ChainId,
    table: Arc<Table>,
    clock: Arc<dyn Clock>,
    pub(super) limit: Duration,
    next_id: AtomicU64,
    health: Mutex<Health>,
    shown: Mutex<Shown>,
    wire: Semaphore,
    queue: Semaphore,
    pace: Pace,
}

impl Endpoint {
    pub(crate) fn new(
        name: Name,
        link: Link,
        chain: ChainId,
        table: Arc<Table>,
        clock: Arc<dyn Clock>,
        limit: Duration,
        requests_per_s: u32,
    ) -> Self {
        Self {
            name,
            quirks: Quirks::new(matches!(link, Link::Ws(_))),
            link,
            outbox: Outbox::default(),
            chain,
            table,
            clock,
            limit,
            next_id: AtomicU64::new(1),
            health: Mutex::new(Health::new()),
            shown: Mutex::default(),
            wire: Semaphore::new(ON_THE_WIRE),
            queue: Semaphore::new(ON_THE_WIRE + WAITING),
            pace: Pace::new(requests_per_s),
        }
    }

    /// The most requests that its limit lets out at once.
    pub(super) fn most_at_once(&self) -> usize {
        self.pace.most_at_once()
    }

    /// The table that this endpoint's texts are judged by.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// A head of this time is not of the present.
    pub(super) fn is_past(&self, time: Millis) -> bool {
        time.after(PRESENT) < self.clock.now()
    }

    /// Asks one question.
    pub(crate) async fn ask(&self, ask: &Ask) -> Answer {
        let request = self.request(ask)?;
        let id = request.id().clone();
        match self.exchange(RequestPacket::Single(request)).await? {
            ResponsePacket::Single(answer) => self.judge(answer),
            ResponsePacket::Batch(answers) => answers
                .into_iter()
                .find(|answer| answer.id == id)
                .map_or_else(|| Err(no_answer()), |answer| self.judge(answer)),
        }
    }

    /// Asks one question and reads its answer, which may not be `null`.
    pub(crate) async fn ask_for<T: DeserializeOwned>(&self, ask: &Ask) -> Result<T, Failure> {
        read_some(&ask.method, &self.ask(ask).await?)
    }

    pub(super) fn request(&self, ask: &Ask) -> Result<alloy_json_rpc::SerializedRequest, Failure> {
        Request::new(ask.method.clone(), self.next_id(), &ask.params)
            .serialize()
            .map_err(|error| Failure::Unreadable(format!("{}: {error}", ask.method)))
    }

    pub(crate) fn next_id(&self) -> Id {
        Id::Number(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// One packet out and one in, within the time limit, noted in the book.
    pub(super) async fn exchange(&self, packet: RequestPacket) -> Result<ResponsePacket, Failure> {
        let Ok(_place) = self.queue.try_acquire() else {
            let text = "too many requests to it are under way".to_owned();
            return Err(busy(text));
        };
        if !self.health().may_ask(Instant::now(), self.limit) {
            return Err(busy(format!("it is left alone after lost answers: {}", self.trouble())));
        }
        match self.pace.turn(packet.len(), Instant::now(), self.limit) {
            Some(wait) if wait.is_zero() => {}
            Some(wait) => tokio::time::sleep(wait).await,
            None => return Err(busy("it gets as many requests as its limit allows".to_owned())),
        }
        let exchange = async {
            // Never closed, so a turn always comes.
            let _turn = self.wire.acquire().await;
            let started = self.clock.now();
            let answer = self.link.exchange(packet).await;
            (answer, self.clock.now().since(started))
        };
        let (answer, latency) = match tokio::time::timeout(self.limit, exchange).await {
            Ok((Ok(answer), latency)) => (Ok(answer), latency),
            Ok((Err(failure), latency)) => (Err(self.cleaned(failure)), latency),
            Err(_) => (Err(too_late(self.limit)), self.limit),
        };
        match &answer {
            Ok(answer) if planted::has(Planted::NoIsALoss) && answer.is_error() => {
                self.note_failure(&no_answer());
            }
            Ok(_) => self.health().answered(latency, Instant::now()),
            Err(failure) => self.note_failure(failure),
        }
        answer
    }

    fn cleaned(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Lost(text) => Failure::Lost(self.name.clean(&text)),
            Failure::TurnedAway { trouble, code, text, wait } => {
                Failure::TurnedAway { trouble, code, text: self.name.clean(&text), wait }
            }
            Failure::Refused(_) | Failure::Unreadable(_) => failure,
        }
    }

    pub(super) fn judge(&self, answer: Response) -> Answer {
        match answer.payload {
            ResponsePayload::Success(result) => {
                self.health().served();
                Ok(result)
            }
            ResponsePayload::Failure(error) => {
                let failure = self.failure(&error);
                match &failure {
                    Failure::Refused(_) => self.health().served(),
                    Failure::Lost(_) | Failure::TurnedAway { .. } | Failure::Unreadable(_) => {
                        self.note_failure(&failure);
                    }
                }
                Err(failure)
            }
        }
    }

    pub(super) fn failure(&self, error: &ErrorPayload) -> Failure {
        let text = self.name.clean(&error.message);
        match self.table.classify(Some(error.code), &error.message) {
            Verdict::Endpoint(trouble) => {
                Failure::TurnedAway { trouble, code: Some(error.code), text, wait: None }
            }
            verdict @ (Verdict::Outcome(_) | Verdict::Unknown) => Failure::Refused(NodeError {
                code: error.code,
                message: text,
                data: error.data.as_deref().and_then(error_data),
                verdict,
            }),
        }
    }

    pub(super) fn note_failure(&self, failure: &Failure) {
        self.health().failed(failure, failure.to_string(), Instant::now());
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        // The book is plain data: a panic elsewhere leaves it readable.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The blocks that it has shown.
    pub(super) fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that this endpoint serves the chain it is used for.
    pub(crate) async fn vet(&self) -> Result<(), Failure> {
        if self.health().identity() == Identity::Right {
            return Ok(());
        }
        let found = self.ask_for::<Quantity>(&Ask::new("eth_chainId", serde_json::json!([]))).await?;
        let found = ChainId(found.as_u64());
        self.health().identified(found, self.chain, Instant::now());
        // Another node may stand there now, which can do more or less than the last.
        self.quirks.probed.store(false, Ordering::Relaxed);
        if found == self.chain {
            Ok(())
        } else {
            self.shown().forget();
            let text = format!("it serves chain {found}, not chain {}", self.chain);
            Err(Failure::TurnedAway { trouble: Trouble::Foreign, code: None, text, wait: None })
        }
    }

    pub(crate) fn saw_head(&self, head: u64) {
        self.health().saw_head(head);
    }

    pub(crate) fn head(&self) -> Option<u64> {
        self.health().head()
    }

    /// What it said to bytes that were sent to it.
    pub(crate) fn judged(&self, outcome: SendOutcome) {
        self.health().judged(outcome);
    }

    pub(crate) fn saw_finalized(&self, number: u64) {
        self.health().saw_finalized(number);
    }

    pub(crate) fn finalized(&self) -> Option<u64> {
        self.health().finalized()
    }

    /// Its last final block is asked for now and then, to see how far behind it is.
    pub(crate) fn is_due_for_finality(&self) -> bool {
        !self.quirks.no_finalized.load(Ordering::Relaxed) && self.health().is_due_for_finality(Instant::now())
    }

    /// Its head, or its last final block, is too far behind the best that any endpoint has shown.
    pub(crate) fn lags(&self, best: Best) -> bool {
        let behind = |best: Option<u64>, own: Option<u64>, most: u64| {
            best.zip(own).is_some_and(|(best, own)| best.saturating_sub(own) > most)
        };
        behind(best.head, self.head(), best.max_lag)
            || behind(best.finalized, self.finalized(), MAX_FINALIZED_LAG)
    }

    /// Whether to ask it, and how it compares: the lower, the sooner.
    pub(crate) fn rank(&self, best: Best) -> Rank {
        let lagging = self.lags(best);
        let health = self.health();
        let slowness = match health.latency().unwrap_or_default().as_millis() {
            0..500 => 0,
            500..2_000 => 1,
            _ => 2,
        };
        Rank { standing: health.standing(Instant::now()), lagging, failures: health.failures(), slowness }
    }

    pub(crate) fn standing(&self) -> Standing {
        self.health().standing(Instant::now())
    }

    /// For health pages and metrics.
    pub(crate) fn report(&self) -> EndpointHealth {
        let health = self.health();
        let wrong = matches!(health.identity(), Identity::Wrong(_));
        EndpointHealth {
            name: self.name.to_string(),
            usable: !wrong && health.standing(Instant::now()) == Standing::Ready,
            head: health.head(),
            finalized: health.finalized(),
            lacks: self.quirks.lacks(),
            latency_ms: health
                .latency()
                .map(|latency| u64::try_from(latency.as_millis()).unwrap_or(u64::MAX)),
            breaker_open: health.breaker_is_open(),
            answers: health.answers().clone(),
            trouble: health.trouble().map(str::to_owned),
        }
    }

    /// The newest trouble, for errors.
    pub(crate) fn trouble(&self) -> String {
        self.health().trouble().unwrap_or("it is left alone for a while").to_owned()
    }
}

/// How an endpoint compares with others; ordered by what matters most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) standing: Standing,
    lagging: bool,
    failures: u32,
    slowness: u8,
}

/// The newest that any endpoint has shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Best {
    pub(crate) head: Option<u64>,
    pub(crate) finalized: Option<u64>,
    pub(crate) max_lag: u64,
}

/// Our own limits, not the endpoint's word: nothing was sent.
fn busy(text: String) -> Failure {
    Failure::TurnedAway { trouble: Trouble::Busy, code: None, text, wait: None }
}

pub(super) fn no_answer() -> Failure {
    Failure::Lost("no answer to this request came back".to_owned())
}

pub(super) fn too_late(limit: Duration) -> Failure {
    Failure::Lost(format!("no answer within {} ms", limit.as_millis()))
}
