//! Opening the file: who may, whether it is ours, and a plain sentence when it cannot be used.
//!
//! Nothing is changed before it is known that the file is ours and not newer than this program.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use landfall_core::Namespace;
use landfall_core::ports::store;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, params};

use super::accept;
use super::error::Fault;
use super::known::Known;
use super::log::LogLength;
use super::mark::{self, Found, Marker, Row, Verdict};
use super::moved;
use super::place;
use super::private;
use super::schema::{self, Identity};
use super::writer::WriteSide;

/// How long a connection waits for a lock that another program holds on the file.
pub(super) const BUSY_LIMIT: Duration = Duration::from_secs(5);

/// A file up to this size is read through when it is opened; a larger one is checked as it is used.
const CHECKED_UP_TO_BYTES: u64 = 64 * 1024 * 1024;

/// No SQLite file with anything in it is smaller than its smallest page.
const SMALLEST_PAGE: u64 = 512;

/// The page size of new files. A turn changes rows that lie beside each other, so larger pages are fewer to write.
const PAGE: u32 = 8 * 1024;

/// How long the log grows before it is moved into the file.
const LOG: u32 = 32 * 1024 * 1024;
pub(super) const LOG_PAGES: u32 = LOG / PAGE;

/// How the adapter uses the file.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connections for reading.
    pub readers: usize,
    /// How large the file may grow; writes beyond it fail as on a full disk.
    pub max_bytes: Option<u32>,
    /// How often the mark is written while there is something to write; three times that without a journal entry is rest.
    pub beat: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { readers: 4, max_bytes: None, beat: Duration::from_millis(500) }
    }
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "store.url does not name a database file. It is not shown, since it may have a password in it. Write a URL like \
         sqlite://landfall.db, or postgres://user@host/database; a path alone has no blank, = or @ in it"
    )]
    BadLocation,
    #[error(
        "the database {} is open in another Landfall. Two at once would send for the same accounts, so this one does not start. \
         Stop the other one, or give this one a file of its own. A command that can ask the one that runs does so without --config",
        .file.display()
    )]
    InUse { file: PathBuf },
    #[error(
        "the folder {} does not exist, so the database {} cannot be made in it. Create the folder, or correct the path",
        .folder.display(), .file.display()
    )]
    NoFolder { file: PathBuf, folder: PathBuf },
    #[error(
        "the database {} has schema version {found}, and this Landfall knows versions up to {known}. It was written by a newer \
         Landfall and was left as it is. Use that one, or restore a backup from before the upgrade (docs/backup.md)", .file.display()
    )]
    NewerSchema { file: PathBuf, found: u32, known: u32 },
    #[error(
        "{} is not a Landfall database: {detail}. It was left as it is. Correct the path, or move the file away to start with an \
         empty database", .file.display()
    )]
    NotOurs { file: PathBuf, detail: &'static str },
    #[error(
        "the database {} is damaged ({detail}). It was left as it is. Keep a copy of it and restore a backup", .file.display()
    )]
    Damaged { file: PathBuf, detail: String },
    #[error(
        "the database {} cannot be written ({detail}), so no transaction could be stored. Make the file and its folder writable \
         for the user that runs Landfall", .file.display()
    )]
    ReadOnly { file: PathBuf, detail: String },
    #[error(
        "the disk that holds the database {} is full ({detail}), so no transaction could be stored. Free some space and start \
         again", .file.display()
    )]
    DiskFull { file: PathBuf, detail: String },
    #[error(
        "the database {} is being moved to {place}, and that was not finished, so no server starts on it. Run the same \
         `landfall migrate` again to finish it, or with --abandon to stay with this file", .file.display()
    )]
    Moving { file: PathBuf, place: String },
    #[error(
        "the database {} was moved to {place} and is not used any more: what goes on there would be sent from here a \
         second time. Set store.url to that database", .file.display()
    )]
    Moved { file: PathBuf, place: String },
    #[error(
        "the database {} was put in the place of a newer one, whose write-ahead log still lies beside it. The two do not belong \
         together, and nothing was changed. To use the file that was put there, remove {log} and {shm} first, and start again; see \
         docs/backup.md", .file.display(), log = named(.file, "-wal"), shm = named(.file, "-shm")
    )]
    StrangeLog { file: PathBuf },
    #[error(
        "{why} ({}). It is not moved: what it has forgotten could be sent again. Start a server on it, in every namespace that \
         is not accepted, and run `landfall store accept` there first; see docs/backup.md", .file.display()
    )]
    Older { file: PathBuf, why: String },
    #[error("there is no database {}. Correct the path", .file.display())]
    Missing { file: PathBuf },
    #[error("the database {} cannot be opened: {detail}. Nothing in it was changed", .file.display())]
    Failed { file: PathBuf, detail: String },
}

impl From<OpenError> for store::Error {
    fn from(error: OpenError) -> Self {
        Self::Unusable(error.to_string())
    }
}

fn named(file: &Path, ending: &str) -> String {
    format!("{}{ending}", file.display())
}

/// The file a path or URL names.
pub(super) fn file_of(location: &str) -> Result<PathBuf, OpenError> {
    let named = location.strip_prefix("sqlite://").or_else(|| location.strip_prefix("sqlite:"));
    let path = named.unwrap_or(location);
    let bad = path.is_empty() || path.starts_with(":memory:") || path.contains("://") || path.ends_with('/');
    // The settings of another database, such as `host=h password=p` or `user:p@h`: as a name, they would be written everywhere.
    let foreign = named.is_none() && path.contains(|c: char| c == '=' || c == '@' || c.is_whitespace());
    if bad || foreign { Err(OpenError::BadLocation) } else { Ok(PathBuf::from(path)) }
}

/// Opens the file for writing, alone, at the newest schema.
pub(super) fn open(file: &Path, namespace: &Namespace, options: &Options) -> Result<WriteSide, OpenError> {
    let Alone { mut db, lock, marked } = open_alone(file, options)?;
    moved::refuse_if_moved(&db, file)?;
    let Marked { row, found, verdict, journal } = &marked;
    let marker = Marker::new(file, row, verdict, found);
    let written = match verdict {
        Verdict::First => marker.begin(row.lineage, *journal),
        Verdict::Well => marker.reached(*journal),
        Verdict::Older(_) => Ok(()),
    };
    written.map_err(|error| from_io(&mark::beside(file), &error))?;
    let namespace = enter(&mut db, namespace, verdict).map_err(|fault| from_fault(file, &fault))?;
    let log = LogLength::watch(&mut db).map_err(|error| from_sql(file, &error))?;
    let (known, marker, beat) = (Known::default(), Arc::new(marker), options.beat);
    Ok(WriteSide { db, namespace, known, log, marker, beat, lock })
}

/// The file under its locks, at the newest schema.
pub(super) struct Alone {
    pub(super) db: Connection,
    pub(super) marked: Marked,
    /// Released after the connection is closed.
    pub(super) lock: Locks,
}

/// What the file and the mark beside it say.
pub(super) struct Marked {
    row: Row,
    found: Found,
    pub(super) verdict: Verdict,
    /// The number of the last journal entry.
    journal: i64,
}

/// Opens the file under its locks, at the newest schema, and looks at its mark.
pub(super) fn open_alone(file: &Path, options: &Options) -> Result<Alone, OpenError> {
    let file = resolve(file)?;
    let lock = Locks::take(&file)?;
    let found = mark::find(&file).map_err(|error| from_io(&mark::beside(&file), &error))?;
    let Ok(found) = found else { return Err(OpenError::StrangeLog { file }) };
    let known = |error: rusqlite::Error| from_sql(&file, &error);
    // The name is the real one: a link in it was put there since.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut db = Connection::open_with_flags(&file, flags).map_err(known)?;
    let version = check(&db, &file)?;
    private::tighten(&file);
    tune_writer(&db, options).map_err(known)?;
    schema::migrate(&mut db, version).map_err(known)?;
    let row = Row::read(&db).map_err(known)?;
    let journal = mark::journal_end(&db).map_err(known)?;
    let verdict = row.judge(&found, journal);
    Ok(Alone { db, marked: Marked { row, found, verdict, journal }, lock })
}

/// The file's real name, so that two names of one file meet at one lock.
pub(super) fn resolve(file: &Path) -> Result<PathBuf, OpenError> {
    if file.is_dir() {
        return Err(OpenError::NotOurs { file: file.to_owned(), detail: "it is a folder" });
    }
    if let Ok(real) = file.canonicalize() {
        place::check(file, &real).map_err(|detail| OpenError::NotOurs { file: file.to_owned(), detail })?;
        return Ok(real);
    }
    // It would be made where the link leads, which whoever may write the folder has chosen.
    if file.is_symlink() {
        return Err(OpenError::NotOurs { file: file.to_owned(), detail: "it is a link that leads nowhere" });
    }
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = file.file_name().ok_or(OpenError::BadLocation)?;
    match folder.canonicalize() {
        Ok(real) => Ok(real.join(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(OpenError::NoFolder { file: file.to_owned(), folder: folder.to_owned() })
        }
        Err(error) => Err(from_io(file, &error)),
    }
}

/// The locks that stand for all leases: held by one process at a time, and given up by the operating system however
/// that process ends.
///
/// One is on a file beside the database. Somebody may remove that file, so the database itself is locked too, where the
/// system keeps such locks apart from SQLite's own.
pub(super) struct Locks {
    _beside: File,
    /// Must stay open as long as the database is: closing any handle of a file ends SQLite's locks on it.
    _itself: Option<File>,
}

impl Locks {
    fn take(file: &Path) -> Result<Self, OpenError> {
        let mut name = file.as_os_str().to_owned();
        name.push(".lock");
        let beside = locked(file, lock_file(Path::new(&name), file))?;
        let itself = if cfg!(unix) { Some(locked(file, lock_file(file, file))?) } else { None };
        Ok(Self { _beside: beside, _itself: itself })
    }
}

/// A file that is made for its owner alone if it is missing. SQLite gives its log the same mode.
fn owners() -> OpenOptions {
    let mut options = File::options();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// How often a file that somebody takes away between two looks at it is looked for again.
const LOOKS: usize = 10;

/// The file that is locked beside the database. Whoever may write the folder can put a link there, and root follows it to wherever it
/// leads: a link is refused, and only what was made here is given away.
fn lock_file(name: &Path, database: &Path) -> io::Result<File> {
    for _ in 0..LOOKS {
        match owners().create_new(true).write(true).open(name) {
            Ok(made) => {
                private::give_to_owner_of(database, &made);
                return Ok(made);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        match private::open_unlinked(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
    }
    Err(io::Error::other(format!("{} comes and goes", name.display())))
}

fn locked(file: &Path, opened: io::Result<File>) -> Result<File, OpenError> {
    let opened = opened.map_err(|error| from_io(file, &error))?;
    match opened.try_lock() {
        Ok(()) => Ok(opened),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { file: file.to_owned() }),
        Err(TryLockError::Error(error)) => Err(from_io(file, &error)),
    }
}

/// Is the file ours, whole, writable and of a version we know? Reads only.
fn check(db: &Connection, file: &Path) -> Result<u32, OpenError> {
    let known = |error: rusqlite::Error| from_sql(file, &error);
    db.busy_timeout(BUSY_LIMIT).map_err(known)?;
    let identity = schema::identify(db).map_err(known)?;
    if db.is_readonly("main").map_err(known)? {
        return Err(OpenError::ReadOnly {
            file: file.to_owned(),
            detail: "the file is write-protected".into(),
        });
    }
    let version = match identity {
        // SQLite takes less than a header for nothing, and would write over it.
        Identity::Empty if file.metadata().is_ok_and(|data| (1..SMALLEST_PAGE).contains(&data.len())) => {
            return Err(OpenError::NotOurs { file: file.to_owned(), detail: "it is not an SQLite file" });
        }
        Identity::Empty => return Ok(0),
        Identity::Foreign => {
            let detail = "it holds tables of another program";
            return Err(OpenError::NotOurs { file: file.to_owned(), detail });
        }
        Identity::Ours(version) => version,
    };
    if version > schema::newest() {
        return Err(OpenError::NewerSchema {
            file: file.to_owned(),
            found: version,
            known: schema::newest(),
        });
    }
    if file.metadata().is_ok_and(|data| data.len() <= CHECKED_UP_TO_BYTES) {
        let verdict: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(known)?;
        if verdict != "ok" {
            return Err(OpenError::Damaged { file: file.to_owned(), detail: verdict });
        }
    }
    Ok(version)
}

/// Settings of the connection that writes.
fn tune_writer(db: &Connection, options: &Options) -> rusqlite::Result<()> {
    // Only a new file takes its page size from here.
    db.pragma_update(None, "page_size", PAGE)?;
    db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // A commit that was answered survives a loss of power.
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", true)?;
    // The log is moved into the file when it is so long (`log`), and the log's file is cut back to twice that.
    db.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    db.pragma_update(None, "journal_size_limit", 2 * LOG)?;
    db.pragma_update(None, "cache_size", -64 * 1024)?;
    // No memory map: through it a disk error would end the process instead of being an error.
    db.pragma_update(None, "mmap_size", 0)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    if let Some(bytes) = options.max_bytes {
        let page: u32 = db.pragma_query_value(None, "page_size", |row| row.get(0))?;
        db.pragma_update(None, "max_page_count", bytes / page)?;
    }
    tune_statements(db)
}

/// Settings of a connection that reads.
pub(super) fn tune_reader(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "query_only", true)?;
    db.pragma_update(None, "cache_size", -16 * 1024)?;
    db.pragma_update(None, "mmap_size", 0)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    tune_statements(db)
}

/// A statement is prepared once. Without the guarantee it is prepared anew whenever other values are bound to it.
fn tune_statements(db: &Connection) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Finds or makes the namespace, writes down what its mark says, and ends every session of earlier processes: the lock says
/// they are gone.
fn enter(db: &mut Connection, namespace: &Namespace, verdict: &Verdict) -> Result<i64, Fault> {
    let open = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let made = open
        .execute("INSERT INTO namespace (name) VALUES (?1) ON CONFLICT DO NOTHING", params![namespace.0])?;
    let id =
        open.query_row("SELECT id FROM namespace WHERE name = ?1", params![namespace.0], |row| row.get(0))?;
    if made > 0 {
        accept::is_born(&open, id)?;
    }
    open.execute("UPDATE lane SET session = NULL WHERE session IS NOT NULL", [])?;
    open.execute("DELETE FROM session", [])?;
    match verdict {
        Verdict::First | Verdict::Well => {
            open.execute("UPDATE mark SET awaits = NULL WHERE awaits IS NOT NULL", [])?;
        }
        Verdict::Older(why) => accept::flag(&open, why)?,
    }
    open.commit()?;
    Ok(id)
}

fn from_fault(file: &Path, fault: &Fault) -> OpenError {
    match fault {
        Fault::Sql(error) => from_sql(file, error),
        other => OpenError::Failed { file: file.to_owned(), detail: other.to_string() },
    }
}

fn from_io(file: &Path, error: &io::Error) -> OpenError {
    let file = file.to_owned();
    let detail = error.to_string();
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            OpenError::ReadOnly { file, detail }
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => OpenError::DiskFull { file, detail },
        _ => OpenError::Failed { file, detail },
    }
}

pub(super) fn from_sql(file: &Path, error: &rusqlite::Error) -> OpenError {
    let file = file.to_owned();
    let detail = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotOurs { file, detail: "it is not an SQLite file" },
        Some(ErrorCode::DatabaseCorrupt) => OpenError::Damaged { file, detail },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => OpenError::ReadOnly { file, detail },
        Some(ErrorCode::DiskFull) => OpenError::DiskFull { file, detail },
        _ => OpenError::Failed { file, detail },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_a_path_or_an_sqlite_url() {
        assert_eq!(file_of("a.db").unwrap(), Path::new("a.db"));
        assert_eq!(file_of("sqlite://a.db").unwrap(), Path::new("a.db"));
        assert_eq!(file_of("sqlite:///var/a.db").unwrap(), Path::new("/var/a.db"));
        assert_eq!(file_of("sqlite:a.db").unwrap(), Path::new("a.db"));
        assert_eq!(file_of("sqlite:///my files/a=b@c.db").unwrap(), Path::new("/my files/a=b@c.db"));
        for bad in ["", "sqlite://", ":memory:", "postgres://host/db", "folder/"] {
            assert!(matches!(file_of(bad), Err(OpenError::BadLocation)), "{bad}");
        }
    }

    #[test]
    fn the_settings_of_another_database_are_no_file_and_are_not_repeated() {
        for bad in [
            "host=h password=hunter2",
            "password=hunter2",
            "u:hunter2@h",
            "jdbc:postgresql://h/db?user=u&password=hunter2",
            "mysql://u:hunter2@h/db",
        ] {
            let refused = file_of(bad).unwrap_err();
            assert!(matches!(refused, OpenError::BadLocation), "{bad}");
            assert!(!format!("{refused} {refused:?}").contains("hunter2"), "{refused}");
        }
    }

    #[test]
    fn what_the_system_refuses_is_told_as_what_it_means() {
        let file = Path::new("a.db");
        let refused = from_io(file, &io::ErrorKind::ReadOnlyFilesystem.into());
        assert!(matches!(refused, OpenError::ReadOnly { .. }));
        let full = from_io(file, &io::ErrorKind::StorageFull.into());
        assert!(matches!(full, OpenError::DiskFull { .. }));
        let read_only = rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY_DIRECTORY),
            None,
        );
        assert!(matches!(from_sql(file, &read_only), OpenError::ReadOnly { .. }));
    }
}
