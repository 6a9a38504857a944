//! Moving the write-ahead log into the file. SQLite would do it by itself, but then nobody could tell afterwards whether a log
//! and a file belong together: here every move is counted in the file, and in the mark beside it when it is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use super::mark;
use super::open::{BUSY_LIMIT, LOG_PAGES};
use super::writer::WriteSide;

/// How long the log is, and at what length it is moved next.
pub(super) struct LogLength {
    pages: Arc<AtomicU32>,
    next: u32,
}

impl LogLength {
    /// Counts the log's pages at every commit of the connection, which moves nothing by itself from here on.
    pub(super) fn watch(db: &mut Connection) -> rusqlite::Result<Self> {
        let pages = Arc::new(AtomicU32::new(0));
        let seen = pages.clone();
        db.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, now| {
            seen.store(u32::try_from(now).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { pages, next: LOG_PAGES })
    }

    /// True when the log is so long that it has to be moved. Where that does not help, since somebody reads, it grows on for a
    /// while before it is tried again.
    fn is_long(&mut self) -> bool {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < LOG_PAGES {
            self.next = LOG_PAGES;
        }
        let is_long = pages >= self.next;
        if is_long {
            self.next = pages.saturating_add(LOG_PAGES / 4);
        }
        is_long
    }
}

/// How a log is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// As far as readers let it; its file stays as long as it is.
    Quick,
    /// And its file is cut off, unless somebody reads.
    Cut,
    /// And its file is cut off; readers are waited for.
    Last,
}

/// After a commit.
pub(super) fn tend(side: &mut WriteSide) {
    if side.log.is_long() {
        move_it(side, Way::Quick);
    }
}

/// Moves the log. Nothing is lost if that fails: the log is read at the next start.
pub(super) fn move_it(side: &mut WriteSide, way: Way) {
    if let Err(error) = try_move(side, way) {
        tracing::warn!(%error, "the write-ahead log stays beside the database; the next start reads it");
    }
}

fn try_move(side: &mut WriteSide, way: Way) -> Result<(), Box<dyn std::error::Error>> {
    let db = &mut side.db;
    if !db.is_autocommit() {
        return Ok(());
    }
    let count = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    count.execute("UPDATE mark SET moves = moves + 1", [])?;
    count.commit()?;
    if checkpoint(db, way)? {
        let row = mark::Row::read(db)?;
        side.marker.moved(mark::journal_end(db)?, row.moves)?;
    }
    Ok(())
}

/// True if nothing is left in the log that the file does not have.
fn checkpoint(db: &Connection, way: Way) -> rusqlite::Result<bool> {
    let sql = match way {
        Way::Quick => "PRAGMA wal_checkpoint(PASSIVE)",
        Way::Cut | Way::Last => "PRAGMA wal_checkpoint(TRUNCATE)",
    };
    if way == Way::Cut {
        db.busy_timeout(Duration::ZERO)?;
    }
    let moved = db.query_row(sql, [], |row| {
        let (log, moved): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(log == moved)
    });
    if way == Way::Cut {
        db.busy_timeout(BUSY_LIMIT)?;
    }
    moved
}
