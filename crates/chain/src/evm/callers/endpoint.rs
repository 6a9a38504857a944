//! One endpoint as callers use it: a connection, a pace and a book of its own.
//!
//! Callers choose the words of their questions, and nodes echo them. So no text decides anything here: a node's error is handed
//! on as it is, and the book knows what the wire did, and no more: lost connections, HTTP 429 and 5xx. A question can be chosen such that
//! it takes for ever, so one that was not answered in time counts only when a question of our own is not answered either.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_json_rpc::{Id, Request, Response, ResponsePayload};
use landfall_core::ChainId;
use landfall_core::ports::chain::{NoRoom, Room};
use landfall_core::ports::clock::Clock;
use reqwest::StatusCode;
use serde_json::Value;
use tokio::time::Instant;

use super::reply::{self, Said};
use crate::evm::classify::Trouble;
use crate::evm::endpoint::Endpoint;
use crate::evm::health::{Health, Identity, Standing};
use crate::evm::name::Name;
use crate::evm::pace::Pace;
use crate::evm::rpc::Failure;
use crate::evm::transport::{Heard, Link, Unheard};

/// Why there is no answer of a node.
#[derive(Debug)]
pub(super) enum Unsaid {
    /// It was lost, and may be asked for again.
    Lost(String),
    /// The endpoint did not want the question, or was not asked.
    Refused(String),
    /// It wants patience; what its node said beside that.
    Limited(String, Option<Said>),
    /// The answer is too long, wherever it comes from.
    NoRoom(NoRoom),
}

/// Who chose a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Callers,
    Ours,
}

/// How long a question of our own may take after one of a caller was not answered in time.
const CONFIRM_TIME: Duration = Duration::from_secs(2);

/// An endpoint as callers use it.
pub(crate) struct CallersEndpoint {
    pub(super) name: Name,
    link: Link,
    chain: ChainId,
    clock: Arc<dyn Clock>,
    book: Mutex<Health>,
    pace: Pace,
    next_id: AtomicU64,
    /// It did not answer a caller in time: the next one asks a question of our own before.
    suspect: AtomicBool,
    /// The engine's own endpoint at the same address; looked at, never changed.
    pub(super) engines: Option<Arc<Endpoint>>,
}

/// Room for an answer of a few bytes, whatever else is read.
struct Little;

impl Room for Little {
    fn take(&self, bytes: usize) -> Result<(), NoRoom> {
        if bytes <= 4_096 {
            return Ok(());
        }
        Err(NoRoom { setting: "", text: "the answer to eth_chainId is longer than 4096 bytes".to_owned() })
    }

    fn begin_anew(&self) {}
}

impl CallersEndpoint {
    pub(super) fn new(
        (name, link): (Name, Link),
        chain: ChainId,
        clock: Arc<dyn Clock>,
        requests_per_s: u32,
        engines: Option<Arc<Endpoint>>,
    ) -> Self {
        Self {
            name,
            link,
            chain,
            clock,
            book: Mutex::new(Health::new()),
            pace: Pace::new(requests_per_s),
            next_id: AtomicU64::new(1),
            suspect: AtomicBool::new(false),
            engines,
        }
    }

    fn book(&self) -> MutexGuard<'_, Health> {
        // The book is plain data: a panic elsewhere leaves it readable.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether to ask it, and how it compares: the lower, the sooner.
    pub(super) fn rank(&self) -> (Standing, u32) {
        let book = self.book();
        (book.standing(Instant::now()), book.failures())
    }

    /// The newest trouble, for errors.
    pub(super) fn trouble(&self) -> String {
        self.book().trouble().unwrap_or("it is left alone for a while").to_owned()
    }

    /// Makes sure that it serves the chain it is used for, and that it still answers after a caller had no answer in time.
    pub(super) async fn vet(&self, until: Instant) -> Result<(), Unsaid> {
        let is_suspect = self.suspect.swap(false, Ordering::Relaxed);
        if self.book().identity() == Identity::Right && !is_suspect {
            return Ok(());
        }
        let until = if is_suspect { until.min(Instant::now() + CONFIRM_TIME) } else { until };
        let vetted = self.ask_chain_id(until).await;
        if is_suspect && vetted.is_err() {
            self.suspect.store(true, Ordering::Relaxed);
        }
        vetted
    }

    async fn ask_chain_id(&self, until: Instant) -> Result<(), Unsaid> {
        let unreadable = || Unsaid::Refused("it does not say which chain it serves".to_owned());
        let text = match self
            .exchange(Whose::Ours, "eth_chainId", &Value::Array(Vec::new()), &Little, until)
            .await
        {
            Ok(Said::Result(text)) => text,
            Ok(Said::Error { .. }) | Err(Unsaid::NoRoom(_)) => return Err(unreadable()),
            Err(unsaid) => return Err(unsaid),
        };
        let found =
            text.trim_matches('"').strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let found = ChainId(found.ok_or_else(unreadable)?);
        self.book().identified(found, self.chain, Instant::now());
        if found == self.chain {
            return Ok(());
        }
        Err(Unsaid::Refused(format!("it serves chain {found}, not chain {}", self.chain)))
    }

    /// One request out and one answer in, by this time, noted in the book.
    pub(super) async fn exchange(
        &self,
        whose: Whose,
        method: &str,
        params: &Value,
        room: &dyn Room,
        until: Instant,
    ) -> Result<Said, Unsaid> {
        let now = Instant::now();
        let left = until.saturating_duration_since(now);
        if !self.book().may_ask(now, left) {
            return Err(Unsaid::Refused(format!("it is left alone after lost answers: {}", self.trouble())));
        }
        match self.pace.turn(1, now, left) {
            Some(wait) if wait.is_zero() => {}
            Some(wait) => tokio::time::sleep(wait).await,
            None => {
                let text = "it gets as many requests of callers as rpc.requests_per_s allows";
                return Err(Unsaid::Refused(text.to_owned()));
            }
        }
        let id = Id::Number(self.next_id.fetch_add(1, Ordering::Relaxed));
        let request = Request::new(method.to_owned(), id, params)
            .serialize()
            .map_err(|error| Unsaid::Refused(format!("the question cannot be written: {error}")))?;
        let started = self.clock.now();
        match tokio::time::timeout_at(until, self.link.hear(request, room)).await {
            Err(_) if whose == Whose::Callers => {
                self.suspect.store(true, Ordering::Relaxed);
                Err(Unsaid::Lost("no answer in time".to_owned()))
            }
            Err(_) => Err(self.lost(Failure::Lost("no answer in time".to_owned()))),
            Ok(Err(Unheard::Lost(failure))) => Err(self.lost(failure)),
            Ok(Err(Unheard::NoRoom(no_room))) => {
                self.answered(started);
                Err(Unsaid::NoRoom(no_room))
            }
            Ok(Ok(Heard::Answer(answer))) => {
                self.answered(started);
                Ok(self.cleaned(of_socket(answer)))
            }
            Ok(Ok(Heard::Body { status, wait, body })) => self.read(status, wait, body, started),
        }
    }

    /// The meaning of a body. Nodes send JSON-RPC errors with any status, so it is looked at first.
    fn read(
        &self,
        status: StatusCode,
        wait: Option<Duration>,
        body: Vec<u8>,
        started: landfall_core::Millis,
    ) -> Result<Said, Unsaid> {
        let said = reply::read(body).map(|said| self.cleaned(said));
        let text = |shown: &str| self.name.clean(&format!("HTTP {}: {shown}", status.as_u16()));
        match said {
            said if status == StatusCode::TOO_MANY_REQUESTS => {
                let shown = text(said.as_ref().err().map_or("too many requests", String::as_str));
                let trouble = Trouble::Limited;
                let failure = Failure::TurnedAway { trouble, code: None, text: shown.clone(), wait };
                self.book().failed(&failure, shown.clone(), Instant::now());
                Err(Unsaid::Limited(shown, said.ok()))
            }
            Ok(said) => {
                self.answered(started);
                self.book().served();
                Ok(said)
            }
            Err(shown) if status.is_server_error() || status.is_success() => {
                Err(self.lost(Failure::Lost(text(&shown))))
            }
            Err(shown) => {
                self.answered(started);
                Err(Unsaid::Refused(text(&shown)))
            }
        }
    }

    fn answered(&self, started: landfall_core::Millis) {
        self.book().answered(self.clock.now().since(started), Instant::now());
    }

    fn lost(&self, failure: Failure) -> Unsaid {
        let text = self.name.clean(&failure.to_string());
        self.book().failed(&Failure::Lost(String::new()), text.clone(), Instant::now());
        Unsaid::Lost(text)
    }

    /// Without this endpoint's secrets.
    fn cleaned(&self, said: Said) -> Said {
        match said {
            Said::Result(_) => said,
            Said::Error { code, message, data } => {
                Said::Error { code, message: self.name.clean(&message), data }
            }
        }
    }
}

fn of_socket(answer: Response) -> Said {
    match answer.payload {
        ResponsePayload::Success(result) => Said::Result(String::from(Box::<str>::from(result))),
        ResponsePayload::Failure(error) => Said::Error {
            code: error.code,
            message: error.message.into_owned(),
            data: error.data.and_then(|data| serde_json::from_str(data.get()).ok()),
        },
    }
}
