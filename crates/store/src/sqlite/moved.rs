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

    /// The other database is a new one: nothing would hold there what is to hold here.
    fn refuse_if_older(&self, verdict: &Verdict) -> Result<(), OpenError> {
        let why: Option<String> = self
            .db
            .query_row("SELECT why FROM older LIMIT 1", [], |row| row.get(0))
            .optional()
            .map_err(|error| from_sql(&self.file, &error))?;
        let stored = why.and_then(|why| serde_json::from_str::<Older>(&why).ok());
        let older = match verdict {
            Verdict::Older(why) => Some(why.clone()),
            Verdict::First | Verdict::Well => Older::unaccepted(stored),
        };
        match older {
            Some(why) => Err(OpenError::Older { file: self.file.clone(), why: why.sentence() }),
            None => Ok(()),
        }
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
