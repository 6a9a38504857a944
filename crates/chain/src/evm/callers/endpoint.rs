//! One endpoint as callers use it: a connection, a pace and a book of its own.
//!
//! Callers choose the words of their questions, and nodes echo them. So no text decides anything here: a node's error is handed
//! on as it is, and the book knows what the wire did, and no more: lost connections, HTTP 429 and 5xx. A question can also be chosen
//! such that it takes for ever, or that whoever stands before the node turns it away. So a caller's question that was lost or
//! turned away makes the endpoint suspect, and only what a question of our own meets then is written in the book.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_json_rpc::{Id, Request, Response, ResponsePayload};
use landfall_core::ChainId;
use landfall_core::outcome::SendOutcome;
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
use crate::evm::rpc::{Failure, error_data};
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

impl Unsaid {
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Lost(text) | Self::Refused(text) | Self::Limited(text, _) => text,
            Self::NoRoom(no_room) => no_room.text,
        }
    }
}

/// Who chose a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Callers,
    Ours,
}

/// How long a question of our own may take after one of a caller was lost.
const CONFIRM_TIME: Duration = Duration::from_secs(2);

/// The log says once in this time that an endpoint takes no transactions, for each of so many reasons.
const TOLD_AGAIN: Duration = Duration::from_secs(3_600);
const MOST_TOLD: usize = 16;

/// An endpoint as callers use it.
pub(crate) struct CallersEndpoint {
    pub(super) name: Name,
    link: Link,
    chain: ChainId,
    clock: Arc<dyn Clock>,
    book: Mutex<Health>,
    pace: Pace,
    next_id: AtomicU64,
    /// A caller's question was lost or turned away: the next one asks a question of our own before.
    suspect: AtomicBool,
    /// When it was last written to the log that it takes no transactions, by class and code.
    told: Mutex<BTreeMap<(SendOutcome, Option<i64>), Instant>>,
    /// The engine's own endpoint at the same address; looked at, never changed.
    pub(super) engines: Option<Arc<Endpoint>>,
}

/// Room for an answer of a few bytes, whatever else is read.
pub(super) struct Little {
    most: usize,
    taken: AtomicUsize,
}

impl Little {
    pub(super) fn of(most: usize) -> Self {
        Self { most, taken: AtomicUsize::new(0) }
    }
}

impl Room for Little {
    fn take(&self, bytes: usize) -> Result<(), NoRoom> {
        let before = self.taken.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.most {
            return Ok(());
        }
        Err(NoRoom { setting: "", text: format!("the answer is longer than {} bytes", self.most) })
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
            told: Mutex::default(),
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

    /// Whether it was not said lately that it answers sends so. Nodes choose the codes, so few are remembered.
    pub(super) fn is_news(&self, outcome: SendOutcome, code: Option<i64>) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, at| at.elapsed() < TOLD_AGAIN);
        let is_news = told.len() < MOST_TOLD && !told.contains_key(&(outcome, code));
        if is_news {
            told.insert((outcome, code), Instant::now());
        }
        is_news
    }

    /// Makes sure that it serves the chain it is used for, and that it still answers after a caller's question was lost.
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
            .exchange(Whose::Ours, "eth_chainId", &Value::Array(Vec::new()), &Little::of(4_096), until)
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
            Err(_) => Err(self.lost(whose, Failure::Lost("no answer in time".to_owned()))),
            Ok(Err(Unheard::Lost(failure))) => Err(self.lost(whose, failure)),
            Ok(Err(Unheard::NoRoom(no_room))) => {
                self.answered(started);
                Err(Unsaid::NoRoom(no_room))
            }
            Ok(Ok(Heard::Answer(answer))) => {
                self.answered(started);
                Ok(of_socket(answer))
            }
            Ok(Ok(Heard::Body { status, wait, body })) => self.read(whose, (status, wait, body), started),
        }
    }

    /// The meaning of a body. Nodes send JSON-RPC errors with any status, so it is looked at first.
    fn read(
        &self,
        whose: Whose,
        (status, wait, body): (StatusCode, Option<Duration>, Vec<u8>),
        started: landfall_core::Millis,
    ) -> Result<Said, Unsaid> {
        let said = reply::read(body);
        let text = |shown: &str| self.name.clean(&format!("HTTP {}: {shown}", status.as_u16()));
        match said {
            said if status == StatusCode::TOO_MANY_REQUESTS => {
                let shown = text(said.as_ref().err().map_or("too many requests", String::as_str));
                let trouble = Trouble::Limited;
                let failure = Failure::TurnedAway { trouble, code: None, text: shown.clone(), wait };
                self.failed(whose, &failure, shown.clone());
                Err(Unsaid::Limited(shown, said.ok()))
            }
            Ok(said) => {
                self.answered(started);
                self.book().served();
                Ok(said)
            }
            Err(shown) if status.is_server_error() || status.is_success() => {
                Err(self.lost(whose, Failure::Lost(text(&shown))))
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

    fn lost(&self, whose: Whose, failure: Failure) -> Unsaid {
        let text = self.name.clean(&failure.to_string());
        self.failed(whose, &Failure::Lost(String::new()), text.clone());
        Unsaid::Lost(text)
    }

    fn failed(&self, whose: Whose, failure: &Failure, text: String) {
        match whose {
            Whose::Callers => self.suspect.store(true, Ordering::Relaxed),
            Whose::Ours => self.book().failed(failure, text, Instant::now()),
        }
    }

    /// A node's words without this endpoint's secrets.
    pub(super) fn cleaned(&self, said: Said) -> Said {
        match said {
            Said::Result(_) => said,
            Said::Error { code, message, data } => {
                let data = data.map(|data| self.name.cleaned(data));
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
            message: reply::message(error.message.into_owned()),
            data: error.data.as_deref().and_then(error_data),
        },
    }
}
