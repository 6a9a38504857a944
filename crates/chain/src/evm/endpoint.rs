//! One endpoint: asks questions over its link, within a time limit, and keeps book of how it is doing.
//!
//! What an endpoint turned out not to support is remembered here, so that it is found out once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_json_rpc::{ErrorPayload, Id, Request, RequestPacket, Response, ResponsePacket, ResponsePayload};
use futures::StreamExt;
use landfall_core::ChainId;
use landfall_core::ports::chain::EndpointHealth;
use landfall_core::ports::clock::Clock;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::classify::{Table, Trouble, Verdict};
use super::health::{Health, Identity, Standing};
use super::name::Name;
use super::rpc::{Answer, Ask, Failure, NodeError, read_some};
use super::transport::Link;
use super::wire::Quantity;

/// The most questions in one batch: what the strictest of the usual gateways take.
pub(crate) const MAX_BATCH: usize = 100;
/// How many single questions are under way at once at an endpoint without batches.
const SINGLES_AT_ONCE: usize = 8;

/// How many packets are under way at once; more would only queue up there.
const ON_THE_WIRE: usize = 64;
/// How many more wait for their turn. Beyond that the endpoint is left out.
const WAITING: usize = 4_096;

/// What an endpoint turned out not to do.
#[derive(Debug, Default)]
pub(crate) struct Quirks {
    pub(crate) no_batches: AtomicBool,
    pub(crate) no_block_receipts: AtomicBool,
    pub(crate) no_count_by_hash: AtomicBool,
    pub(crate) no_pending_estimate: AtomicBool,
    pub(crate) no_fee_history: AtomicBool,
}

/// One endpoint of a chain.
pub(crate) struct Endpoint {
    pub(crate) name: Name,
    pub(crate) quirks: Quirks,
    pub(crate) link: Link,
    chain: ChainId,
    table: Arc<Table>,
    clock: Arc<dyn Clock>,
    limit: Duration,
    next_id: AtomicU64,
    health: Mutex<Health>,
    wire: Semaphore,
    queue: Semaphore,
}

impl Endpoint {
    pub(crate) fn new(
        name: Name,
        link: Link,
        chain: ChainId,
        table: Arc<Table>,
        clock: Arc<dyn Clock>,
        limit: Duration,
    ) -> Self {
        Self {
            name,
            quirks: Quirks::default(),
            link,
            chain,
            table,
            clock,
            limit,
            next_id: AtomicU64::new(1),
            health: Mutex::new(Health::new()),
            wire: Semaphore::new(ON_THE_WIRE),
            queue: Semaphore::new(ON_THE_WIRE + WAITING),
        }
    }

    /// The table that this endpoint's texts are judged by.
    pub(crate) fn table(&self) -> &Table {
        &self.table
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
        read_some(ask.method, &self.ask(ask).await?)
    }

    /// Asks many questions, in batches where the endpoint takes them. One answer for each, in the order asked.
    pub(crate) async fn ask_all(&self, asks: &[Ask]) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(asks.len());
        for chunk in asks.chunks(MAX_BATCH) {
            let got = match chunk {
                [one] => vec![self.ask(one).await],
                many => self.ask_chunk(many).await,
            };
            // Whatever broke all of this chunk would break the next as well: no use in asking.
            let broken =
                got.iter().all(|answer| matches!(answer, Err(Failure::Lost(_) | Failure::TurnedAway { .. })));
            answers.extend(got);
            if let (true, Some(Err(failure))) = (broken, answers.last().cloned()) {
                answers.resize_with(asks.len(), || Err(failure.clone()));
                break;
            }
        }
        answers
    }

    async fn ask_chunk(&self, asks: &[Ask]) -> Vec<Answer> {
        if self.quirks.no_batches.load(Ordering::Relaxed) {
            return self.ask_singly(asks).await;
        }
        match self.ask_batch(asks).await {
            Ok(answers) => answers,
            Err(BatchFailure::NotSupported(text)) => {
                tracing::info!(endpoint = %self.name, %text, "endpoint takes no batches; asking one by one from now on");
                self.quirks.no_batches.store(true, Ordering::Relaxed);
                self.ask_singly(asks).await
            }
            Err(BatchFailure::NotThisTime(text)) => {
                tracing::debug!(endpoint = %self.name, %text, "a batch was refused; asking one by one");
                self.ask_singly(asks).await
            }
            Err(BatchFailure::Whole(failure)) => vec![Err(failure); asks.len()],
        }
    }

    async fn ask_singly(&self, asks: &[Ask]) -> Vec<Answer> {
        let singles: Vec<_> = asks.iter().map(|ask| self.ask(ask)).collect();
        let singles = futures::stream::iter(singles).buffered(SINGLES_AT_ONCE).collect();
        let limit = self.limit.saturating_mul(3);
        tokio::time::timeout(limit, singles).await.unwrap_or_else(|_| vec![Err(too_late(limit)); asks.len()])
    }

    async fn ask_batch(&self, asks: &[Ask]) -> Result<Vec<Answer>, BatchFailure> {
        let requests = asks
            .iter()
            .map(|ask| self.request(ask))
            .collect::<Result<Vec<_>, _>>()
            .map_err(BatchFailure::Whole)?;
        let ids: Vec<Id> = requests.iter().map(|request| request.id().clone()).collect();
        let packet = match self.exchange(RequestPacket::Batch(requests)).await {
            Ok(packet) => packet,
            Err(Failure::Lost(text)) if text.starts_with("HTTP 4") && mentions_batch(&text) => {
                return Err(BatchFailure::NotSupported(text));
            }
            Err(failure) => return Err(BatchFailure::Whole(failure)),
        };
        let mut by_id: HashMap<Id, Response> = match packet {
            ResponsePacket::Batch(answers) => match answers.as_slice() {
                [Response { payload: ResponsePayload::Failure(error), .. }]
                    if mentions_batch(&error.message) =>
                {
                    return Err(self.whole(error));
                }
                _ => answers.into_iter().map(|answer| (answer.id.clone(), answer)).collect(),
            },
            ResponsePacket::Single(Response { payload: ResponsePayload::Failure(error), .. }) => {
                return Err(self.whole(&error));
            }
            ResponsePacket::Single(Response { payload: ResponsePayload::Success(_), .. }) => {
                return Err(BatchFailure::NotSupported("one answer for a batch".to_owned()));
            }
        };
        Ok(ids
            .into_iter()
            .map(|id| by_id.remove(&id).map_or_else(|| Err(no_answer()), |answer| self.judge(answer)))
            .collect())
    }

    /// One error for a whole batch: the endpoint's trouble, or it does not take batches, or not this one.
    fn whole(&self, error: &ErrorPayload) -> BatchFailure {
        match self.failure(error) {
            failure @ Failure::TurnedAway { .. } => {
                self.note_failure(&failure);
                BatchFailure::Whole(failure)
            }
            failure @ (Failure::Lost(_) | Failure::Refused(_) | Failure::Unreadable(_)) => {
                let text = failure.to_string();
                if mentions_batch(&text) || NOT_A_REQUEST.contains(&error.code) {
                    BatchFailure::NotSupported(text)
                } else {
                    BatchFailure::NotThisTime(text)
                }
            }
        }
    }

    fn request(&self, ask: &Ask) -> Result<alloy_json_rpc::SerializedRequest, Failure> {
        Request::new(ask.method, self.next_id(), &ask.params)
            .serialize()
            .map_err(|error| Failure::Unreadable(format!("{}: {error}", ask.method)))
    }

    pub(crate) fn next_id(&self) -> Id {
        Id::Number(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// One packet out and one in, within the time limit, noted in the book.
    async fn exchange(&self, packet: RequestPacket) -> Result<ResponsePacket, Failure> {
        let Ok(_place) = self.queue.try_acquire() else {
            let text = "too many requests to it are under way".to_owned();
            return Err(Failure::TurnedAway { trouble: Trouble::Busy, code: None, text, wait: None });
        };
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

    fn judge(&self, answer: Response) -> Answer {
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

    fn failure(&self, error: &ErrorPayload) -> Failure {
        let text = self.name.clean(&error.message);
        match self.table.classify(Some(error.code), &error.message) {
            Verdict::Endpoint(trouble) => {
                Failure::TurnedAway { trouble, code: Some(error.code), text, wait: None }
            }
            verdict @ (Verdict::Outcome(_) | Verdict::Unknown) => Failure::Refused(NodeError {
                code: error.code,
                message: text,
                data: error.data.as_ref().and_then(|data| serde_json::from_str(data.get()).ok()),
                verdict,
            }),
        }
    }

    fn note_failure(&self, failure: &Failure) {
        self.health().failed(failure, failure.to_string(), Instant::now());
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        // The book is plain data: a panic elsewhere leaves it readable.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that this endpoint serves the chain it is used for.
    pub(crate) async fn vet(&self) -> Result<(), Failure> {
        if self.health().identity() == Identity::Right {
            return Ok(());
        }
        let found = self.ask_for::<Quantity>(&Ask::new("eth_chainId", serde_json::json!([]))).await?;
        let found = ChainId(found.as_u64());
        self.health().identified(found, self.chain, Instant::now());
        if found == self.chain {
            Ok(())
        } else {
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

    /// Whether to ask it, and how it compares: the lower, the sooner.
    pub(crate) fn rank(&self, best_head: Option<u64>, max_lag: u64) -> Rank {
        let health = self.health();
        let lag = match (best_head, health.head()) {
            (Some(best), Some(head)) => best.saturating_sub(head),
            (Some(_) | None, Some(_) | None) => 0,
        };
        let standing = health.standing(Instant::now());
        Rank { standing, lagging: lag > max_lag, failures: health.failures() }
    }

    /// For health pages and metrics.
    pub(crate) fn report(&self) -> EndpointHealth {
        let health = self.health();
        let wrong = matches!(health.identity(), Identity::Wrong(_));
        EndpointHealth {
            name: self.name.to_string(),
            usable: !wrong && health.standing(Instant::now()) == Standing::Ready,
            head: health.head(),
            latency_ms: health
                .latency()
                .map(|latency| u64::try_from(latency.as_millis()).unwrap_or(u64::MAX)),
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
}

/// JSON-RPC's own codes for what is not a request at all, which a batch is to an endpoint that knows none.
const NOT_A_REQUEST: [i64; 4] = [-32700, -32600, -32601, -32602];

enum BatchFailure {
    NotSupported(String),
    NotThisTime(String),
    Whole(Failure),
}

fn mentions_batch(text: &str) -> bool {
    text.to_lowercase().contains("batch")
}

fn no_answer() -> Failure {
    Failure::Lost("no answer to this request came back".to_owned())
}

fn too_late(limit: Duration) -> Failure {
    Failure::Lost(format!("no answer within {} ms", limit.as_millis()))
}
