//! A store that is moved to another database: the mark in the file, and the file opened for nothing but that.

use std::path::{Path, PathBuf};

use landfall_core::ports::store::Older;
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::mark::Verdict;
use super::open::{self, Alone, Locks, OpenError, Options, from_sql};

/// How far a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It was given up; the store is served from the file again.
    GivenUp,
    /// The other database is being filled. Nothing changes in the file meanwhile.
    Moving,
    /// The other database has everything. The file is never served again.
    Moved,
}

/// What the file says of its move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) stage: Stage,
    /// The move's own id, which the other database has as well.
    pub(crate) id: Uuid,
    /// Where to, without a password.
    pub(crate) place: String,
}

/// The file, locked as a server locks it.
pub(crate) struct Source {
    db: Connection,
    file: PathBuf,
    // Released after the connection is closed.
    _lock: Locks,
}

impl Source {
    pub(crate) fn open(location: &str) -> Result<Self, OpenError> {
        let file = open::file_of(location)?;
        if !file.exists() {
            return Err(OpenError::Missing { file });
        }
        let file = open::resolve(&file)?;
        let Alone { db, lock, marked } = open::open_alone(&file, &Options::default())?;
        let source = Self { db, file, _lock: lock };
        source.refuse_if_older(&marked.verdict)?;
        Ok(source)
    }

    /// Every namespace that the file is an older copy for must be accepted, but archives, which nobody serves. They are moved as they are.
    fn refuse_if_older(&self, verdict: &Verdict) -> Result<(), OpenError> {
        let refused = |why: String| OpenError::Older { file: self.file.clone(), why };
        if let Verdict::Older(why) = verdict {
            return Err(refused(why.sentence()));
        }
        let sql =
            "SELECT namespace.name, older.why FROM older JOIN namespace ON namespace.id = older.namespace
             WHERE json_extract(older.why, '$.type') <> 'accepted' AND namespace.name NOT GLOB '*~[0-9]*~[0-9]*'
             ORDER BY namespace.id LIMIT 1";
        let found: Option<(String, String)> = self
            .db
            .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(|error| from_sql(&self.file, &error))?;
        let Some((namespace, why)) = found else { return Ok(()) };
        let why = serde_json::from_str::<Older>(&why).map_err(|error| OpenError::Damaged {
            file: self.file.clone(),
            detail: format!("why it is an older copy cannot be read: {error}"),
        })?;
        Err(refused(format!("in the namespace {namespace}, {}", why.sentence())))
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn db(&self) -> &Connection {
        &self.db
    }

    pub(crate) fn mark(&self) -> Result<Option<Mark>, OpenError> {
        read(&self.db, &self.file)
    }

    /// On disk when this returns.
    pub(crate) fn set_mark(&self, mark: &Mark) -> Result<(), OpenError> {
        let stage = match mark.stage {
            Stage::GivenUp => 0,
            Stage::Moving => 1,
            Stage::Moved => 2,
        };
        let sql = "INSERT INTO moved (one, state, id, place) VALUES (1, ?1, ?2, ?3)
             ON CONFLICT (one) DO UPDATE SET state = excluded.state, id = excluded.id, place = excluded.place";
        let set = self.db.execute(sql, params![stage, mark.id.as_bytes(), mark.place]);
        set.map(drop).map_err(|error| from_sql(&self.file, &error))
    }
}

/// No server starts on a file that is moved, or about to be.
pub(super) fn refuse_if_moved(db: &Connection, file: &Path) -> Result<(), OpenError> {
    let Some(mark) = read(db, file)? else { return Ok(()) };
    let (file, place) = (file.to_owned(), mark.place);
    match mark.stage {
        Stage::GivenUp => Ok(()),
        Stage::Moving => Err(OpenError::Moving { file, place }),
        Stage::Moved => Err(OpenError::Moved { file, place }),
    }
}

fn read(db: &Connection, file: &Path) -> Result<Option<Mark>, OpenError> {
    let row = db
        .query_row("SELECT state, id, place FROM moved", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?, row.get(2)?))
        })
        .optional()
        .map_err(|error| from_sql(file, &error))?;
    let Some((state, id, place)) = row else { return Ok(None) };
    let damaged = |detail: &str| OpenError::Damaged { file: file.to_owned(), detail: detail.to_owned() };
    let stage = match state {
        0 => Stage::GivenUp,
        1 => Stage::Moving,
        2 => Stage::Moved,
        _ => return Err(damaged("the mark of a move has a state that nobody knows")),
    };
    let id = Uuid::from_slice(&id).map_err(|_| damaged("the mark of a move has no id"))?;
    Ok(Some(Mark { stage, id, place }))
}
