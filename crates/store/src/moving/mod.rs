//! Moving a store from an SQLite file to PostgreSQL, with everything that is under way.
//!
//! | step | file | database |
//! |---|---|---|
//! | 1 | locked: fails while a server runs | empty, or filled by a move that did not end |
//! | 2 | | `filling` |
//! | 3 | `moving`: no server starts on it | `filling`: none on this either |
//! | 4 | | rows, table by table, in batches |
//! | 5 | both are read through: counts and checksums of every table are the same | |
//! | 6 | | `filled`, counters set |
//! | 7 | **`moved`: never served again** | `filled` |
//! | 8 | | **`servable`** |
//!
//! Between 7 and 8 the store is served by nobody, never by two. Every step is committed before the next begins, so that a
//! move that was killed goes on where it was when it is started again. Both marks carry the move's id: a file finds its own
//! database, and no other one is taken for it.

pub(crate) mod row;
pub(crate) mod tables;

use std::path::PathBuf;

use uuid::Uuid;

use crate::postgres::fill::{Refusal, Target};
use crate::postgres::moved_in;
use crate::postgres::{self, Options};
use crate::sqlite;
use crate::sqlite::moved::{Mark, Source, Stage};
use row::{Cell, Digest};
use tables::{TABLES, Table};

/// How many rows are one database transaction.
const BATCH: usize = 2_000;

/// What a move is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Marking,
    Copying,
    Verifying,
    Finishing,
}

/// How far it is: rows, of all there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub step: Step,
    /// The table, where there is one.
    pub table: &'static str,
    pub done: u64,
    pub of: u64,
}

/// How a move ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The rows of each table.
    Moved(Vec<(&'static str, u64)>),
    /// An earlier run had finished it.
    WasMoved { place: String },
}

/// Why a store was not moved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    File(#[from] sqlite::OpenError),
    #[error(transparent)]
    Database(#[from] postgres::OpenError),
    #[error("reading {} failed: {detail}. Nothing in it was changed", .file.display())]
    Reading { file: PathBuf, detail: String },
    #[error(
        "writing to {place} failed: {detail}. The file is still whole; run the same command again to go on"
    )]
    Writing { place: String, detail: String },
    #[error("servers work on the database at {place}. Stop them, or move to another database")]
    Served { place: String },
    #[error(
        "the database at {place} has lanes or transactions already, and two stores cannot be put together. Move to an empty \
         database"
    )]
    NotEmpty { place: String },
    #[error(
        "the database at {place} is an older copy of itself, and has forgotten what it did. Move to a new database"
    )]
    Older { place: String },
    #[error(
        "{origin} was being moved to {place} and is nearly done. Run `landfall migrate` for that one to its end, or use \
         another database"
    )]
    Taken { place: String, origin: String },
    #[error("{} was moved to {place}, which is not the database that was given now", .file.display())]
    Elsewhere { file: PathBuf, place: String },
    #[error(
        "table {table} is not the same in both after copying: {file} rows in the file and {database} in the database, or the \
         same number with other contents. The file is still whole and is served again; nothing serves the database. Run the \
         command again to copy anew"
    )]
    Differs { table: &'static str, file: u64, database: u64 },
    #[error("{} is not being moved; there is nothing to give up", .file.display())]
    NothingToGiveUp { file: PathBuf },
}

type Report<'a> = &'a mut (dyn FnMut(Progress) + 'a);

/// Moves the store, or goes on with a move that was not finished. `random` becomes its id.
pub async fn migrate(
    from: &str,
    to: &str,
    options: &Options,
    random: u128,
    report: Report<'_>,
) -> Result<Outcome, Error> {
    let source = Source::open(from)?;
    let target = Target::open(to, options).await?;
    let mut work = Move { source: &source, target: &target, report, done: 0, of: 0 };
    let mark = source.mark()?;
    let there = target.mark().await.map_err(|fault| work.writing(&fault))?;
    let id = match &mark {
        Some(Mark { stage: Stage::Moved, id, place }) => {
            return match there {
                Some(there) if there.id == *id => work.finish(*id, there.stage).await,
                Some(_) | None => {
                    Err(Error::Elsewhere { file: source.file().to_owned(), place: place.clone() })
                }
            };
        }
        Some(Mark { stage: Stage::Moving, id, .. })
            if there
                .as_ref()
                .is_some_and(|there| there.id == *id && there.stage != moved_in::Stage::Servable) =>
        {
            *id
        }
        Some(_) | None => {
            let id = Uuid::from_u128(random);
            work.begin(id, mark.as_ref(), there.as_ref()).await?;
            id
        }
    };
    let filled = there.is_some_and(|there| there.id == id && there.stage == moved_in::Stage::Filled);
    let rows = work.fill(id, filled).await?;
    source.set_mark(&Mark { stage: Stage::Moved, id, place: target.place.clone() })?;
    work.say(Step::Finishing, "");
    target.set_servable(id).await.map_err(|fault| work.writing(&fault))?;
    // A help for the first queries; the database does it by itself soon.
    if let Err(fault) = target.analyze().await {
        tracing::debug!(%fault, "the new tables were not analysed");
    }
    Ok(Outcome::Moved(rows))
}

/// What would be moved: the rows of each table. Both are opened, and brought to the newest schema; nothing is marked.
pub async fn look(from: &str, to: &str, options: &Options) -> Result<Vec<(&'static str, u64)>, Error> {
    let source = Source::open(from)?;
    let target = Target::open(to, options).await?;
    let work = Move { source: &source, target: &target, report: &mut |_| {}, done: 0, of: 0 };
    if target.mark().await.map_err(|fault| work.writing(&fault))?.is_none() {
        target.check().await.map_err(|refusal| work.refused(refusal))?;
    }
    TABLES.iter().map(|table| Ok((table.name, work.count(table)?))).collect()
}

/// Gives up a move that is not finished: the file is served again, and what the database has stays unused.
pub fn abandon(from: &str) -> Result<(), Error> {
    let source = Source::open(from)?;
    match source.mark()? {
        Some(mark) if mark.stage == Stage::Moving => {
            Ok(source.set_mark(&Mark { stage: Stage::GivenUp, ..mark })?)
        }
        Some(Mark { stage: Stage::Moved, place, .. }) => {
            Err(sqlite::OpenError::Moved { file: source.file().to_owned(), place }.into())
        }
        Some(_) | None => Err(Error::NothingToGiveUp { file: source.file().to_owned() }),
    }
}

struct Move<'a> {
    source: &'a Source,
    target: &'a Target,
    report: Report<'a>,
    done: u64,
    of: u64,
}

impl Move<'_> {
    fn say(&mut self, step: Step, table: &'static str) {
        (self.report)(Progress { step, table, done: self.done, of: self.of });
    }

    /// Marks both as being moved, and empties what an unfinished move left.
    async fn begin(
        &mut self,
        id: Uuid,
        mark: Option<&Mark>,
        there: Option<&moved_in::Mark>,
    ) -> Result<(), Error> {
        let target = self.target;
        let place = || target.place.clone();
        let over = match there {
            None => false,
            Some(there) => match there.stage {
                // Its file is not given up before this is `filled`, so nothing is lost with it.
                moved_in::Stage::Filling => true,
                moved_in::Stage::Filled if mark.is_some_and(|mark| mark.id == there.id) => true,
                moved_in::Stage::Filled => {
                    return Err(Error::Taken { place: place(), origin: there.origin.clone() });
                }
                moved_in::Stage::Servable => return Err(Error::NotEmpty { place: place() }),
            },
        };
        let origin = self.source.file().display().to_string();
        let begun = target.begin(id, &origin, over).await;
        begun.map_err(|refusal| self.refused(refusal))?;
        self.say(Step::Marking, "");
        self.source.set_mark(&Mark { stage: Stage::Moving, id, place: place() })?;
        self.say(Step::Marking, "");
        Ok(())
    }

    /// Copies what is not there yet, and compares both. `filled`: an earlier run did both.
    async fn fill(&mut self, id: Uuid, filled: bool) -> Result<Vec<(&'static str, u64)>, Error> {
        let mut rows = Vec::new();
        for table in TABLES {
            rows.push((table.name, self.count(table)?));
        }
        // Every row is copied, then read in both.
        self.of = rows.iter().map(|(_, count)| count * 2).sum();
        if !filled {
            for table in TABLES {
                self.copy(id, table).await?;
            }
        }
        self.done = self.of / 2;
        for (table, (_, count)) in TABLES.iter().zip(&rows) {
            self.say(Step::Verifying, table.name);
            self.verify(id, table).await?;
            self.done += count;
        }
        if !filled {
            self.target.set_filled(id).await.map_err(|fault| self.writing(&fault))?;
        }
        self.say(Step::Finishing, "");
        Ok(rows)
    }

    async fn copy(&mut self, id: Uuid, table: &'static Table) -> Result<(), Error> {
        // Batches are whole and in a fixed order, so what is there are the first ones.
        let there = self.target.count(table).await.map_err(|fault| self.writing(&fault))?;
        self.done += there;
        self.say(Step::Copying, table.name);
        let source = self.source;
        let reading = |error: rusqlite::Error| reading(source, &error);
        let mut statement = source.db().prepare(&table.select()).map_err(reading)?;
        let offset = i64::try_from(there).unwrap_or(i64::MAX);
        let mut rows = statement.query([offset]).map_err(reading)?;
        let mut batch = Vec::new();
        loop {
            let row = rows.next().map_err(reading)?.map(|row| cells(source, table, row)).transpose()?;
            let is_last = row.is_none();
            batch.extend(row);
            if batch.len() >= BATCH || (is_last && !batch.is_empty()) {
                let count = u64::try_from(batch.len()).unwrap_or_default();
                let copied = self.target.copy(id, table, std::mem::take(&mut batch)).await;
                copied.map_err(|fault| self.writing(&fault))?;
                self.done += count;
                self.say(Step::Copying, table.name);
            }
            if is_last {
                return Ok(());
            }
        }
    }

    async fn verify(&mut self, id: Uuid, table: &'static Table) -> Result<(), Error> {
        let (mut file, mut database) = (Digest::default(), Digest::default());
        let source = self.source;
        let reading = |error: rusqlite::Error| reading(source, &error);
        let mut statement = source.db().prepare(&table.select()).map_err(reading)?;
        let mut rows = statement.query([0]).map_err(reading)?;
        while let Some(row) = rows.next().map_err(reading)? {
            file.add(&cells(source, table, row)?);
        }
        let read = self.target.each(table, |row| database.add(row)).await;
        read.map_err(|fault| self.writing(&fault))?;
        if file == database {
            return Ok(());
        }
        // Not to be gone on with: the next run begins anew.
        self.source.set_mark(&Mark { stage: Stage::GivenUp, id, place: self.target.place.clone() })?;
        Err(Error::Differs { table: table.name, file: file.rows, database: database.rows })
    }

    /// The file is given up already; only the last step may be missing.
    async fn finish(&mut self, id: Uuid, stage: moved_in::Stage) -> Result<Outcome, Error> {
        if stage == moved_in::Stage::Servable {
            return Ok(Outcome::WasMoved { place: self.target.place.clone() });
        }
        self.target.set_servable(id).await.map_err(|fault| self.writing(&fault))?;
        let rows = TABLES.iter().map(|table| Ok((table.name, self.count(table)?)));
        Ok(Outcome::Moved(rows.collect::<Result<_, Error>>()?))
    }

    fn count(&self, table: &Table) -> Result<u64, Error> {
        let sql = format!("SELECT count(*) FROM {}", table.name);
        let count: i64 = self
            .source
            .db()
            .query_row(&sql, [], |row| row.get(0))
            .map_err(|error| reading(self.source, &error))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    fn writing(&self, fault: &impl ToString) -> Error {
        Error::Writing { place: self.target.place.clone(), detail: fault.to_string() }
    }

    fn refused(&self, refusal: Refusal) -> Error {
        let place = self.target.place.clone();
        match refusal {
            Refusal::Served => Error::Served { place },
            Refusal::NotEmpty => Error::NotEmpty { place },
            Refusal::Older => Error::Older { place },
            Refusal::Fault(fault) => self.writing(&fault),
        }
    }
}

fn reading(source: &Source, error: &rusqlite::Error) -> Error {
    Error::Reading { file: source.file().to_owned(), detail: error.to_string() }
}

fn cells(source: &Source, table: &Table, row: &rusqlite::Row<'_>) -> Result<Vec<Cell>, Error> {
    let cells = (0..table.columns.len()).map(|at| {
        let value = row.get_ref(at).map_err(|error| reading(source, &error))?;
        Cell::of(value).ok_or_else(|| Error::Reading {
            file: source.file().to_owned(),
            detail: format!("a value of table {} is neither a number nor text nor bytes", table.name),
        })
    });
    cells.collect()
}
