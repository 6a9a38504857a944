//! The mark: a small file beside the database that says how far the database had come, so that an older copy that is put in
//! its place is noticed.
//!
//! It has the database's lineage (a number drawn once, and anew when a person accepts an older copy), the number of the last
//! journal entry, and how often the write-ahead log was moved into the database. It is written after what it tells is on
//! disk, whole or not at all, so it is never ahead: whatever moment a process dies at, the database is at the mark or beyond.
//!
//! | what happens | on disk, in this order |
//! |---|---|
//! | a database is made | its lineage, awaiting nothing; the mark; the lineage awaits no mark any more |
//! | commits | commits; the mark, at most a second later |
//! | the log is moved | the count of moves, in the log; the log's pages in the file; the mark |
//! | an older copy is noticed | the mark without its count of moves; that the copy is older, in the copy |
//! | it is accepted | a new lineage, awaiting the mark that lies there; the new mark; the lineage awaits no mark any more |

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use landfall_core::JournalSeq;
use landfall_core::ports::store::Older;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::private;

/// For whoever finds the file.
const ABOUT: &str =
    "how far the Landfall database beside this file had come; leave it there (docs/backup.md)";

/// No mark is longer. More is not read: whoever may write the folder can put anything there.
const LONGEST: u64 = 4_096;

/// Stands for what has the mark's name and is no file, or is longer than any mark.
const STRANGE: &str = "not a mark";

/// Below every number of a journal.
const NOWHERE: i64 = -1;

/// How far a database had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    lineage: Uuid,
    journal: i64,
    moves: i64,
}

/// The mark beside a file as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Empty if there is none.
    text: String,
    mark: Option<Mark>,
}

/// What the database says of its mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) lineage: Uuid,
    awaits: Option<String>,
    pub(super) moves: i64,
}

/// What mark and database say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The mark is the database's.
    Well,
    /// The database has no mark yet.
    First,
    Older(Older),
}

/// The mark's name.
pub(super) fn beside(file: &Path) -> PathBuf {
    named(file, ".mark")
}

pub(super) fn named(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

impl Found {
    pub(super) fn read(file: &Path) -> io::Result<Self> {
        let bytes = match private::read_unlinked(&beside(file), LONGEST) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => STRANGE.as_bytes().to_vec(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mark = serde_json::from_str(&text).ok();
        Ok(Self { text, mark })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// An empty file is none: nobody writes one.
    fn is_missing(&self) -> bool {
        self.text.is_empty()
    }
}

impl Row {
    pub(super) fn read(db: &Connection) -> rusqlite::Result<Self> {
        db.query_row("SELECT lineage, awaits, moves FROM mark", [], |row| {
            let lineage: Vec<u8> = row.get(0)?;
            // One that is no number is like no other.
            let lineage = Uuid::from_slice(&lineage).unwrap_or_default();
            Ok(Self { lineage, awaits: row.get(1)?, moves: row.get(2)? })
        })
    }

    /// Is the database the one that the mark was written for, and as far?
    pub(super) fn judge(&self, found: &Found, journal: i64) -> Verdict {
        if self.awaits.as_ref().is_some_and(|awaited| *awaited == found.text) {
            return Verdict::First;
        }
        match found.mark {
            None if found.is_missing() => Verdict::Older(Older::NoMark),
            None => Verdict::Older(Older::BadMark),
            Some(mark) if mark.lineage != self.lineage => Verdict::Older(Older::OtherLine),
            Some(mark) if mark.journal > journal => {
                let (journal, mark) = (JournalSeq(journal), JournalSeq(mark.journal));
                Verdict::Older(Older::Behind { journal, mark })
            }
            Some(_) => Verdict::Well,
        }
    }
}

/// The number of the last journal entry. The newest row of the journal is never removed.
pub(super) fn journal_end(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("SELECT COALESCE(max(seq), 0) FROM journal")?.query_row([], |row| row.get(0))
}

/// The log beside the file belongs to one that was here before. With this file it would make neither.
pub(super) struct StrangeLog;

/// Reads the mark beside a file that is about to be opened. If the file was put in the place of a newer one, a log beside it is
/// not its own; without a log the mark's count of moves is taken back, so that the log that it will have is.
pub(super) fn find(file: &Path) -> io::Result<Result<Found, StrangeLog>> {
    let found = Found::read(file)?;
    match found.mark.filter(|mark| is_replaced(file, mark)) {
        None => Ok(Ok(found)),
        Some(_) if has_log(file) => Ok(Err(StrangeLog)),
        Some(mark) => {
            write(file, &Mark { moves: 0, ..mark })?;
            Found::read(file).map(Ok)
        }
    }
}

/// As [`find`], and leaves everything as it is.
pub(super) fn log_is_strange(file: &Path) -> bool {
    let mark = Found::read(file).ok().and_then(|found| found.mark);
    mark.is_some_and(|mark| has_log(file) && is_replaced(file, &mark))
}

fn has_log(file: &Path) -> bool {
    named(file, "-wal").metadata().is_ok_and(|data| data.len() > 0)
}

/// What the mark counts was in the file before the mark was written.
fn is_replaced(file: &Path, mark: &Mark) -> bool {
    mark.moves > 0 && moves_in_file(file).is_some_and(|moves| moves < mark.moves)
}

/// How often the log was moved into the file, by the file alone. None if it cannot be told.
fn moves_in_file(file: &Path) -> Option<i64> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(alone(file)?, flags).ok()?;
    let known =
        db.query_row("SELECT 1 FROM sqlite_schema WHERE name = 'mark'", [], |_| Ok(())).optional().ok()?;
    match known {
        Some(()) => db.query_row("SELECT moves FROM mark", [], |row| row.get(0)).ok(),
        // A file from before there were marks.
        None => Some(0),
    }
}

/// The file without its log, as SQLite wants to be asked for it.
fn alone(file: &Path) -> Option<String> {
    let path: String = file
        .to_str()?
        .bytes()
        .map(|byte| match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect();
    Some(format!("file:{path}?immutable=1"))
}

/// Writes the mark of one open database.
pub(super) struct Marker {
    file: PathBuf,
    written: Mutex<Written>,
}

struct Written {
    mark: Mark,
    /// The mark that lies there tells how far a newer copy had come.
    is_kept: bool,
}

impl Marker {
    /// Begins with what was found.
    pub(super) fn new(file: &Path, row: &Row, verdict: &Verdict, found: &Found) -> Self {
        let none = Mark { lineage: row.lineage, journal: NOWHERE, moves: 0 };
        let mark = found.mark.filter(|_| *verdict == Verdict::Well).unwrap_or(none);
        let is_kept = matches!(verdict, Verdict::Older(_));
        Self { file: file.to_owned(), written: Mutex::new(Written { mark, is_kept }) }
    }

    /// The database's file.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database is so far, on disk.
    pub(super) fn reached(&self, journal: i64) -> io::Result<()> {
        self.advance(journal, 0)
    }

    /// The log was moved into the file so often.
    pub(super) fn moved(&self, journal: i64, moves: i64) -> io::Result<()> {
        self.advance(journal, moves)
    }

    fn advance(&self, journal: i64, moves: i64) -> io::Result<()> {
        let mut written = self.written();
        let last = written.mark;
        let mark = Mark { journal: last.journal.max(journal), moves: last.moves.max(moves), ..last };
        if written.is_kept || mark == last {
            return Ok(());
        }
        write(&self.file, &mark)?;
        written.mark = mark;
        Ok(())
    }

    /// The first mark of a lineage, in the place of whatever lies there.
    pub(super) fn begin(&self, lineage: Uuid, journal: i64) -> io::Result<()> {
        let mut written = self.written();
        // If it fails, the next one is written.
        *written = Written { mark: Mark { lineage, journal: NOWHERE, moves: 0 }, is_kept: false };
        let mark = Mark { lineage, journal, moves: 0 };
        write(&self.file, &mark)?;
        written.mark = mark;
        Ok(())
    }
}

#[derive(Serialize)]
struct Text<'a> {
    about: &'a str,
    #[serde(flatten)]
    mark: &'a Mark,
}

/// Replaces the mark. After a loss of power the old one is there, or the new one.
fn write(file: &Path, mark: &Mark) -> io::Result<()> {
    let (new, name) = (named(file, ".mark.new"), beside(file));
    let mut text = serde_json::to_vec(&Text { about: ABOUT, mark })?;
    text.push(b'\n');
    let mut out = make(&new)?;
    private::give_to_owner_of(file, &out);
    out.write_all(&text)?;
    out.sync_all()?;
    drop(out);
    std::fs::rename(&new, &name)?;
    sync_folder(&name)
}

/// Makes a file for its owner alone, in the place of whatever has its name: a link there leads nowhere.
pub(super) fn make(name: &Path) -> io::Result<File> {
    match std::fs::remove_file(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut options = File::options();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(name)
}

/// What was renamed stays so after a loss of power.
pub(super) fn sync_folder(name: &Path) -> io::Result<()> {
    match name.parent() {
        #[cfg(unix)]
        Some(folder) => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Uuid = Uuid::from_u128(7);

    fn row(awaits: Option<&str>) -> Row {
        Row { lineage: OURS, awaits: awaits.map(str::to_owned), moves: 0 }
    }

    fn found(lineage: Uuid, journal: i64) -> Found {
        let mark = Mark { lineage, journal, moves: 0 };
        let text = serde_json::to_string(&Text { about: ABOUT, mark: &mark }).unwrap();
        Found { mark: serde_json::from_str(&text).unwrap(), text }
    }

    fn text(text: &str) -> Found {
        Found { text: text.to_owned(), mark: None }
    }

    #[test]
    fn a_store_is_older_exactly_when_its_mark_says_so() {
        let other = found(Uuid::from_u128(8), 1);
        let older = Verdict::Older;
        // Written for this database.
        assert_eq!(row(None).judge(&found(OURS, 9), 10), Verdict::Well);
        assert_eq!(row(None).judge(&found(OURS, 10), 10), Verdict::Well);
        let behind = Older::Behind { journal: JournalSeq(9), mark: JournalSeq(10) };
        assert_eq!(row(None).judge(&found(OURS, 10), 9), older(behind.clone()));
        assert_eq!(row(None).judge(&other, 10), older(Older::OtherLine));
        assert_eq!(row(None).judge(&text(""), 10), older(Older::NoMark));
        assert_eq!(row(None).judge(&text("{"), 10), older(Older::BadMark));
        // Just made: nothing lies there, or the first mark does.
        assert_eq!(row(Some("")).judge(&text(""), 0), Verdict::First);
        assert_eq!(row(Some("")).judge(&found(OURS, 0), 0), Verdict::Well);
        assert_eq!(row(Some("")).judge(&other, 0), older(Older::OtherLine), "where another store was");
        // Just accepted: what lay there still does, or the new mark does.
        assert_eq!(row(Some(&other.text)).judge(&other, 5), Verdict::First);
        assert_eq!(row(Some(&other.text)).judge(&found(OURS, 5), 5), Verdict::Well);
        assert_eq!(row(Some(&other.text)).judge(&found(Uuid::from_u128(9), 5), 5), older(Older::OtherLine));
        assert_eq!(row(Some(&other.text)).judge(&found(OURS, 10), 9), older(behind));
    }
}
