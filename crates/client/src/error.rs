//! Why a call has no answer.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The server's own refusal (RFC 9457). `docs/errors.md` has a line for each code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// A stable word for programs.
    pub code: String,
    /// What happened and what to do, for people.
    pub detail: String,
    /// The field it is about, as a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// After how many seconds it may be asked again.
    #[serde(skip)]
    pub retry_after: Option<u64>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.detail, self.code)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Problem(Box<Problem>),
    /// Whether the request arrived is not known.
    #[error("no server answers at {url}")]
    Unreachable { url: String, source: reqwest::Error },
    /// Whether it was done is not known.
    #[error("the answer of {url} broke off")]
    BrokeOff { url: String, source: reqwest::Error },
    #[error("{url} does not answer like Landfall (HTTP {status})")]
    Foreign { url: String, status: u16 },
    #[error("the API key has characters that no API key has")]
    BadKey,
    #[error("the HTTP client could not be made")]
    Setup(#[source] reqwest::Error),
    #[error("{tx} has not ended after {limit:?}; it goes on all the same")]
    NotEnded { tx: String, limit: Duration },
}

impl Error {
    /// The server's refusal, if it is one.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// The same call may go well later. A submission is repeated with the same `requestId`, or it may be done twice.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::BrokeOff { .. } => true,
            Self::Problem(problem) => matches!(problem.status, 429 | 503),
            Self::Foreign { .. } | Self::BadKey | Self::Setup(_) | Self::NotEnded { .. } => false,
        }
    }
}
