//! A copy of a store that may be running: SQLite's own backup, in one step, so that it is the store as it was at one moment. It
//! reads the file and leaves it as it is; whoever writes it meanwhile is not held up.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use landfall_core::JournalSeq;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::mark;
use super::open::{self, BUSY_LIMIT, OpenError};
use super::schema::{self, Identity};

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackedUp {
    /// The store's file.
    pub from: PathBuf,
    pub bytes: u64,
    /// The number of the last journal entry.
    pub journal: JournalSeq,
    pub transactions: u64,
    /// Those that have not ended.
    pub unfinished: u64,
}

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(
        "{} exists. It was left as it is: give another name, or --force to replace it when the backup is whole", .0.display()
    )]
    Exists(PathBuf),
    #[error("{} is the store itself. Give the backup another name", .0.display())]
    Itself(PathBuf),
    #[error(
        "a backup {} would write over {}, which lies beside the store and belongs to it. Give the backup another name",
        .to.display(), .file.display()
    )]
    Beside { to: PathBuf, file: PathBuf },
    #[error("the backup {} cannot be written: {text}. The store was not touched", .to.display())]
    Writing { to: PathBuf, text: String },
}

/// Copies the store that a path or an `sqlite:` URL names to a new file, or in the place of one if that is allowed.
pub fn backup(location: &str, to: &Path, may_replace: bool) -> Result<BackedUp, BackupError> {
    let file = open::file_of(location)?;
    if !file.exists() {
        return Err(OpenError::Missing { file }.into());
    }
    let file = open::resolve(&file)?;
    let to = open::resolve(to).map_err(|error| writing(to, &error))?;
    if to == file {
        return Err(BackupError::Itself(to));
    }
    if let Some(file) = beside(&file, &to) {
        return Err(BackupError::Beside { to, file });
    }
    if to.exists() && !may_replace {
        return Err(BackupError::Exists(to));
    }
    if mark::log_is_strange(&file) {
        return Err(OpenError::StrangeLog { file }.into());
    }
    let db = read_only(&file)?;
    let part = Part::new(&to)?;
    let made = copy(&db, &part.name).map_err(|error| writing(&to, &error))?;
    part.finish(&to).map_err(|error| writing(&to, &error))?;
    Ok(BackedUp { from: file, ..made })
}

/// The endings of the files that lie beside a store: SQLite's own, the lock and the mark.
const ENDINGS: [&str; 6] = ["-wal", "-shm", "-journal", ".lock", ".mark", ".mark.new"];

/// The file of the store that a backup of this name would write over, when it is whole or while it is made.
fn beside(store: &Path, to: &Path) -> Option<PathBuf> {
    let beside = ENDINGS.iter().map(|ending| mark::named(store, ending));
    let meets = |file: &PathBuf| {
        let real = file.canonicalize().ok();
        [to.to_owned(), part_of(to)].iter().any(|name| name == file || Some(name) == real.as_ref())
    };
    beside.chain([store.to_owned()]).find(meets)
}

/// The name of a backup that is not whole yet.
fn part_of(to: &Path) -> PathBuf {
    mark::named(to, ".part")
}

fn writing(to: &Path, error: &dyn std::error::Error) -> BackupError {
    BackupError::Writing { to: to.to_owned(), text: error.to_string() }
}

fn read_only(file: &Path) -> Result<Connection, OpenError> {
    let known = |error: rusqlite::Error| open::from_sql(file, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags).map_err(known)?;
    db.busy_timeout(BUSY_LIMIT).map_err(known)?;
    match schema::identify(&db).map_err(known)? {
        Identity::Ours(_) => Ok(db),
        Identity::Empty => Err(OpenError::NotOurs { file: file.to_owned(), detail: "it is empty" }),
        Identity::Foreign => {
            let detail = "it holds tables of another program";
            Err(OpenError::NotOurs { file: file.to_owned(), detail })
        }
    }
}

fn copy(from: &Connection, to: &Path) -> rusqlite::Result<BackedUp> {
    let mut out = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let copying = Backup::new(from, &mut out)?;
    // All of it at once: in pieces it would begin anew with every commit.
    loop {
        match copying.step(-1)? {
            StepResult::Done => break,
            StepResult::More | StepResult::Busy | StepResult::Locked | _ => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
    drop(copying);
    // One file, without a log beside it. A server that opens it makes its own.
    out.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    let number = |sql: &str| out.query_row(sql, [], |row| row.get::<_, i64>(0));
    let count = |sql: &str| number(sql).map(|count| u64::try_from(count).unwrap_or(0));
    Ok(BackedUp {
        from: PathBuf::new(),
        bytes: count("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")?,
        journal: JournalSeq(number("SELECT COALESCE(max(seq), 0) FROM journal")?),
        transactions: count("SELECT count(*) FROM tx")?,
        unfinished: count("SELECT count(*) FROM tx WHERE phase <> 2")?,
    })
}

/// A backup that is not whole yet, under another name; removed unless it is finished.
struct Part {
    name: PathBuf,
    is_finished: bool,
}

impl Part {
    fn new(to: &Path) -> Result<Self, BackupError> {
        let name = part_of(to);
        mark::make(&name).map_err(|error| writing(to, &error))?;
        Ok(Self { name, is_finished: false })
    }

    fn finish(mut self, to: &Path) -> io::Result<()> {
        File::open(&self.name)?.sync_all()?;
        std::fs::rename(&self.name, to)?;
        self.is_finished = true;
        mark::sync_folder(to)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_finished
            && let Err(error) = std::fs::remove_file(&self.name)
        {
            tracing::warn!(%error, file = %self.name.display(), "an unfinished backup could not be removed");
        }
    }
}
