//! What can go wrong inside a database transaction, and the sentence a person reads about it.

use landfall_core::LaneId;
use landfall_core::ports::store;
use rusqlite::ErrorCode;

/// Why a write or a read did not do its work.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{}", sentence(.0))]
    Sql(#[from] rusqlite::Error),
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

impl Fault {
    pub(super) fn corrupt(what: &'static str, text: impl ToString) -> Self {
        Self::Corrupt { what, text: text.to_string() }
    }

    pub(super) fn into_error(self, doing: &'static str) -> store::Error {
        match self {
            Self::Corrupt { what, text } => store::Error::Corrupt { what, text },
            other @ (Self::Sql(_) | Self::Encode(_) | Self::Refused(_) | Self::Fenced(_)) => {
                store::Error::Failed { doing, text: other.to_string() }
            }
        }
    }

    pub(super) fn into_write_error(self, doing: &'static str) -> store::WriteError {
        match self {
            Self::Fenced(lane) => store::WriteError::Fenced { lane },
            other @ (Self::Sql(_) | Self::Corrupt { .. } | Self::Encode(_) | Self::Refused(_)) => {
                store::WriteError::Failed(other.into_error(doing))
            }
        }
    }
}

/// What a failed statement means and what to do about it.
pub(super) fn sentence(error: &rusqlite::Error) -> String {
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            "the disk is full, or the file has reached its size limit; nothing of this write was stored. Free some \
             space and try again"
        }
        Some(ErrorCode::ReadOnly) => {
            "the database can no longer be written; nothing of this write was stored. Make the file and its folder \
             writable"
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "the database file is damaged. Stop, keep a copy of it, and restore a backup"
        }
        Some(ErrorCode::SystemIoFailure) => {
            "the disk reported an error. Check the disk and the file system that holds the database"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program keeps the database locked. Close it and try again"
        }
        _ => return error.to_string(),
    };
    format!("{advice} ({error})")
}

/// Is a transaction whose COMMIT failed with this surely not on disk?
///
/// These are found before the commit mark is written to the write-ahead log. Anything else, above all a failed sync,
/// may leave a mark that counts after a crash.
pub(super) fn surely_not_committed(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::ReadOnly
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::ConstraintViolation
                | ErrorCode::OutOfMemory
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn failure(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn a_commit_whose_sync_failed_is_not_known_to_be_absent() {
        assert!(!surely_not_committed(&failure(ffi::SQLITE_IOERR_FSYNC)));
        assert!(!surely_not_committed(&failure(ffi::SQLITE_IOERR)));
        assert!(surely_not_committed(&failure(ffi::SQLITE_FULL)));
        assert!(surely_not_committed(&failure(ffi::SQLITE_BUSY)));
    }

    #[test]
    fn a_full_disk_is_said_in_words() {
        let text = sentence(&failure(ffi::SQLITE_FULL));
        assert!(text.starts_with("the disk is full"), "{text}");
    }
}
