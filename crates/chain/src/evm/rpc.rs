//! Questions and what can come back: the words that the rest of `evm` uses for JSON-RPC.

use std::borrow::Cow;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::classify::{Trouble, Verdict};

/// One question.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: Cow<'static, str>,
    pub(crate) params: Value,
}

impl Ask {
    pub(crate) fn new(method: impl Into<Cow<'static, str>>, params: Value) -> Self {
        Self { method: method.into(), params }
    }
}

/// What came back for one question.
pub(crate) type Answer = Result<Box<RawValue>, Failure>;

/// Why there is no result.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Failure {
    /// No answer in time, a broken connection, a server error, an unreadable body: anything may have happened.
    #[error("{0}")]
    Lost(String),
    /// The endpoint, not the node's verdict: it asks for patience, wants credentials, is not in sync, lags behind.
    #[error("{text}")]
    TurnedAway { trouble: Trouble, code: Option<i64>, text: String, wait: Option<Duration> },
    /// The node looked at the question and answered with an error.
    #[error("{}", .0.message)]
    Refused(NodeError),
    /// The node answered with a result that is not what was asked for.
    #[error("{0}")]
    Unreadable(String),
}

/// An error that a node answered with.
#[derive(Debug, Clone)]
pub(crate) struct NodeError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
    /// What the table says of it, judged by the whole text; what is kept of the text may be shorter.
    pub(crate) verdict: Verdict,
}

/// Reads a result. `null` is none.
pub(crate) fn read<T: DeserializeOwned>(what: &str, raw: &RawValue) -> Result<Option<T>, Failure> {
    serde_json::from_str(raw.get()).map_err(|error| Failure::Unreadable(format!("{what}: {error}")))
}

/// Reads a result that may not be `null`.
pub(crate) fn read_some<T: DeserializeOwned>(what: &str, raw: &RawValue) -> Result<T, Failure> {
    read(what, raw)?.ok_or_else(|| Failure::Unreadable(format!("{what}: the answer is null")))
}

/// Bytes of an error's data that are passed on: of a text, such as what a contract reverted with, and of anything else, which takes
/// many times as much when it is read.
const LONGEST_TEXT: usize = 1 << 20;
const LONGEST_DATA: usize = 64 << 10;
/// An error's data, or a sentence in its place.
pub(crate) fn error_data(data: &RawValue) -> Option<Value> {
    let text = data.get();
    let most = if text.starts_with('"') { LONGEST_TEXT } else { LONGEST_DATA };
    if text.len() > most {
        let left_out = format!("left out: {} bytes, of which at most {most} are passed on", text.len());
        return Some(Value::String(left_out));
    }
    serde_json::from_str(text).ok()
}
