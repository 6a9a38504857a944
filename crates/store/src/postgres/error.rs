//! What can go wrong between here and the database, what it says about the work, and the sentence a person reads.

use landfall_core::LaneId;
use landfall_core::ports::store;
use tokio_postgres::error::SqlState;

/// Why a write or a read did not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The database refused a statement; the connection is good.
    #[error("{}", sentence(.0))]
    Sql(tokio_postgres::Error),
    /// The connection broke, could not be made, or did not answer in time.
    #[error(
        "the connection to the database was lost, or it did not answer in time ({0}). Landfall tries again by itself"
    )]
    Lost(String),
    /// A row that cannot be decoded.
    #[error("{what}: {text}")]
    Corrupt { what: &'static str, text: String },
    /// A value that cannot be encoded.
    #[error("it cannot be written as JSON: {0}")]
    Encode(#[from] serde_json::Error),
    /// What was asked contradicts what is stored.
    #[error("{0}")]
    Refused(String),
    #[error("lane {0} is at another token or version")]
    Fenced(LaneId),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        if is_lost(&error) { Self::Lost(plain(&error)) } else { Self::Sql(error) }
    }
}

impl Fault {
    pub(super) fn corrupt(what: &'static str, text: impl ToString) -> Self {
        Self::Corrupt { what, text: text.to_string() }
    }

    pub(super) fn into_error(self, doing: &'static str) -> store::Error {
        match self {
            Self::Corrupt { what, text } => store::Error::Corrupt { what, text },
            other @ (Self::Sql(_) | Self::Lost(_) | Self::Encode(_) | Self::Refused(_) | Self::Fenced(_)) => {
                store::Error::Failed { doing, text: other.to_string() }
            }
        }
    }

    pub(super) fn into_write_error(self, doing: &'static str) -> store::WriteError {
        match self {
            Self::Fenced(lane) => store::WriteError::Fenced { lane },
            other @ (Self::Sql(_)
            | Self::Lost(_)
            | Self::Corrupt { .. }
            | Self::Encode(_)
            | Self::Refused(_)) => store::WriteError::Failed(other.into_error(doing)),
        }
    }

    /// Two database transactions met; the same work may pass when it is done again.
    pub(super) fn is_collision(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        matches!(error.code(), Some(code) if *code == SqlState::T_R_SERIALIZATION_FAILURE
            || *code == SqlState::T_R_DEADLOCK_DETECTED)
    }
}

/// Does the error say nothing about what the server did, other than that the connection is of no use any more?
fn is_lost(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else {
        // Encoding and decoding fail before anything is sent, or after it was answered.
        return error.is_closed() || is_io(error);
    };
    code.code().starts_with("08")
        || [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN,
            SqlState::TOO_MANY_CONNECTIONS,
            // A primary that has become a standby: its address leads elsewhere soon.
            SqlState::READ_ONLY_SQL_TRANSACTION,
        ]
        .contains(code)
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
        || error.to_string().starts_with("error communicating with the server")
        || error.to_string().starts_with("unexpected message")
}

/// The server's own words, without the client's frame around them.
pub(super) fn plain(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(server), _) => server.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// What a refused statement means and what to do about it.
fn sentence(error: &tokio_postgres::Error) -> String {
    let Some(code) = error.code() else { return plain(error) };
    let advice = match code {
        code if *code == SqlState::DISK_FULL => {
            "the database's disk is full; nothing of this write was stored. Free some space"
        }
        code if *code == SqlState::LOCK_NOT_AVAILABLE => {
            "another database transaction held a row for too long. Look for one that hangs in pg_stat_activity"
        }
        code if *code == SqlState::QUERY_CANCELED => {
            "the database did not finish a statement in time. Look at its load, and for locks in pg_stat_activity"
        }
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            "the database user may not do this. Give it all rights on Landfall's schema"
        }
        _ => return format!("{} ({})", plain(error), code.code()),
    };
    format!("{advice} ({})", plain(error))
}
