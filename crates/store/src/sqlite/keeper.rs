//! The thread that tends the file beside the one that writes it. It writes the mark, at most a second after a commit; and
//! when nothing was committed for a moment, it moves the write-ahead log into the file, so that a plain copy of the file is whole.
//!
//! It never stands in a commit's way. The long part of moving is done on a connection of its own while commits go on; the
//! writing thread then has little left to move, and cuts the log off unless somebody reads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tokio::sync::mpsc::WeakSender;

use super::log::{self, Way};
use super::mark::{self, Marker};
use super::writer::Job;

/// So many beats without a new journal entry are rest.
const REST: u32 = 3;
/// Commits that no journal entry belongs to (how far a chain was read, a webhook's delivery) may go on at rest: for them
/// the log is moved every so many beats only.
const SELDOM: u32 = 20;

/// The handle to the thread.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Something was committed since the thread last looked.
    news: AtomicBool,
    stop: Mutex<bool>,
    woken: Condvar,
}

impl Keeper {
    pub(super) fn start(marker: Arc<Marker>, beat: Duration, jobs: WeakSender<Job>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let tender = Tender { shared: shared.clone(), marker, beat, jobs, db: None, is_warned: false };
        let thread = std::thread::Builder::new()
            .name("landfall-store-keeper".to_owned())
            .spawn(move || tender.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Something was committed.
    pub(super) fn tell(&self) {
        if !self.shared.news.swap(true, Ordering::AcqRel) {
            let _stop = self.shared.stop.lock().unwrap_or_else(PoisonError::into_inner);
            self.shared.woken.notify_all();
        }
    }
}

impl Drop for Keeper {
    /// Waits for the end of what the thread is doing; its connection is closed then.
    fn drop(&mut self) {
        *self.shared.stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.woken.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that tends the database ended in a panic");
        }
    }
}

impl Shared {
    /// Waits until something was committed; false when the store is being closed.
    fn wait_for_news(&self) -> bool {
        let mut stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        while !*stop && !self.news.load(Ordering::Acquire) {
            stop = self.woken.wait(stop).unwrap_or_else(PoisonError::into_inner);
        }
        !*stop
    }

    /// Waits for one beat; false when the store is being closed.
    fn pause(&self, beat: Duration) -> bool {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.woken.wait_timeout_while(stop, beat, |stop| !*stop);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// What the thread owns.
struct Tender {
    shared: Arc<Shared>,
    marker: Arc<Marker>,
    /// How often it looks while there is something to do.
    beat: Duration,
    jobs: WeakSender<Job>,
    /// Opened when it is first needed, and anew after a failure.
    db: Option<Connection>,
    /// That the mark cannot be written was said.
    is_warned: bool,
}

/// What was seen of the file, beat by beat.
#[derive(Default)]
struct Seen {
    /// The number of the last journal entry.
    journal: i64,
    /// Beats since it last moved.
    quiet: u32,
    /// The log may hold what the file does not.
    is_dirty: bool,
    /// The number of the last entry that is surely in the file, and the beats since it was moved there.
    moved: Option<i64>,
    since_moved: u32,
}

impl Tender {
    fn run(mut self) {
        while self.shared.wait_for_news() {
            let mut seen = Seen::default();
            while self.shared.pause(self.beat) {
                match self.look(&mut seen) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        tracing::warn!(%error, file = %self.marker.file().display(), "the write-ahead log could not be moved into the \
                            database; nothing is lost, and it is tried again");
                        self.db = None;
                    }
                }
            }
        }
    }

    /// One beat; false when there is nothing left to do.
    fn look(&mut self, seen: &mut Seen) -> rusqlite::Result<bool> {
        seen.is_dirty |= self.shared.news.swap(false, Ordering::AcqRel);
        seen.since_moved = seen.since_moved.saturating_add(1);
        let journal = mark::journal_end(self.db()?)?;
        let is_marked = self.mark(journal);
        seen.quiet = if journal == seen.journal { seen.quiet.saturating_add(1) } else { 0 };
        seen.journal = journal;
        let is_time = seen.moved != Some(journal) || seen.since_moved >= SELDOM;
        if seen.is_dirty && seen.quiet >= REST && is_time && self.move_log()? {
            (seen.is_dirty, seen.moved, seen.since_moved) = (false, Some(journal), 0);
        }
        Ok(seen.is_dirty || seen.quiet < REST || !is_marked)
    }

    /// What another connection sees of a commit is on disk, so the mark may tell it.
    fn mark(&mut self, journal: i64) -> bool {
        match self.marker.reached(journal) {
            Ok(()) => self.is_warned = false,
            Err(error) if !self.is_warned => {
                self.is_warned = true;
                tracing::warn!(%error, file = %self.marker.file().display(), "the mark beside the database cannot be written, so \
                    an older copy might not be noticed; it is tried again");
            }
            Err(_) => {}
        }
        !self.is_warned
    }

    /// Moves the log into the file; false if something of it had to stay.
    fn move_log(&mut self) -> rusqlite::Result<bool> {
        let db = self.db()?;
        // Commits go on meanwhile.
        let (_, log, moved) = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        })?;
        if log != moved {
            return Ok(false);
        }
        if let Some(jobs) = self.jobs.upgrade() {
            // A full queue is no rest.
            drop(jobs.try_send(Job { work: Box::new(|side| log::move_it(side, Way::Cut)), is_news: false }));
        }
        Ok(true)
    }

    fn db(&mut self) -> rusqlite::Result<&Connection> {
        let db = match self.db.take() {
            Some(db) => db,
            None => {
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                Connection::open_with_flags(self.marker.file(), flags)?
            }
        };
        Ok(self.db.insert(db))
    }
}
