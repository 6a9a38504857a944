//! Filling the database with a store that is moved in from a file.
//!
//! Every batch of rows is written under the mark's lock and only while the mark is still this move's, so that two moves
//! cannot mix.

use std::pin::pin;

use deadpool_postgres::ClientWrapper;
use futures::TryStreamExt;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::error::Fault;
use super::leases::{self, lives};
use super::moved_in::{self, Mark};
use super::open::{self, OpenError, Options, without_password};
use super::place;
use super::pool::{Connection, Connections};
use crate::moving::row::{Cell, Kind};
use crate::moving::tables::{TABLES, Table};

/// Why a move cannot begin here.
pub(crate) enum Refusal {
    /// Servers work on it.
    Served,
    /// It has lanes or transactions.
    NotEmpty,
    /// It has forgotten something itself, and nobody has accepted that.
    Older,
    Fault(Fault),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<tokio_postgres::Error> for Refusal {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Fault(error.into())
    }
}

/// A database that a store may be moved to. One connection does it all, and takes its time.
pub(crate) struct Target {
    connection: Connection,
    connections: Connections,
    pub(crate) place: String,
}

impl Target {
    /// Connects, brings the schema, and waits until it is known whether a server that left a session is still there.
    pub(crate) async fn open(url: &str, options: &Options) -> Result<Self, OpenError> {
        let connections = open::connections_of(url, options)?;
        let connection = open::reach(&connections, url, options).await?;
        let patient = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0";
        let db = connection.db().map_err(OpenError::of)?;
        db.batch_execute(patient).await.map_err(|error| OpenError::of(error.into()))?;
        leases::end_silent(db, None).await.map_err(OpenError::of)?;
        // A copy that is made before the first server starts is known by it.
        place::settle(db).await.map_err(OpenError::of)?;
        Ok(Self { connection, connections, place: without_password(url) })
    }

    fn db(&self) -> Result<&ClientWrapper, Fault> {
        self.connection.db()
    }

    pub(crate) async fn mark(&self) -> Result<Option<Mark>, Fault> {
        moved_in::mark(self.db()?).await
    }

    /// Whether a move may begin here.
    pub(crate) async fn check(&self) -> Result<(), Refusal> {
        let db = self.db()?;
        let live = concat!("SELECT count(*) FROM session WHERE ", lives!());
        if db.query_one(live, &[]).await?.try_get::<_, i64>(0)? > 0 {
            return Err(Refusal::Served);
        }
        let used =
            "SELECT EXISTS (SELECT 1 FROM lane) OR EXISTS (SELECT 1 FROM tx) OR EXISTS (SELECT 1 FROM kept)";
        if db.query_one(used, &[]).await?.try_get(0)? {
            return Err(Refusal::NotEmpty);
        }
        let older = "SELECT EXISTS (SELECT 1 FROM older WHERE why::json ->> 'type' <> 'accepted')";
        if db.query_one(older, &[]).await?.try_get(0)? {
            return Err(Refusal::Older);
        }
        Ok(())
    }

    /// Marks the database as being filled, from nothing. `over`: what an unfinished move left is thrown away.
    pub(crate) async fn begin(&self, id: Uuid, origin: &str, over: bool) -> Result<(), Refusal> {
        let db = self.db()?;
        db.batch_execute("BEGIN").await?;
        let begun = self.begin_in_transaction(id, origin, over).await;
        db.batch_execute(if begun.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
        begun
    }

    async fn begin_in_transaction(&self, id: Uuid, origin: &str, over: bool) -> Result<(), Refusal> {
        let db = self.db()?;
        // A server that starts takes this lock too: whichever comes first, the other one sees it.
        db.query("SELECT 1 FROM landfall_schema FOR UPDATE", &[]).await?;
        if !over {
            self.check().await?;
        }
        let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        db.batch_execute(&format!("TRUNCATE journal_end, session, {}", names.join(", "))).await?;
        db.execute(
            "INSERT INTO moved_in (one, id, state, source) VALUES (true, $1, 0, $2)
             ON CONFLICT (one) DO UPDATE SET id = excluded.id, state = 0, source = excluded.source",
            &[&id, &origin],
        )
        .await?;
        Ok(())
    }

    pub(crate) async fn count(&self, table: &Table) -> Result<u64, Fault> {
        let sql = format!("SELECT count(*) FROM {}", table.name);
        let count: i64 = self.db()?.query_one(&sql, &[]).await?.try_get(0)?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Writes rows: all of them, or none.
    pub(crate) async fn copy(&self, id: Uuid, table: &Table, rows: Vec<Vec<Cell>>) -> Result<(), Fault> {
        let db = self.db()?;
        db.batch_execute("BEGIN").await?;
        own(db, id, 0).await?;
        let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        let types: Vec<Type> = table.columns.iter().map(|column| sql_type(column.kind)).collect();
        let sql = format!("COPY {} ({}) FROM STDIN BINARY", table.name, columns.join(", "));
        let mut writer = pin!(BinaryCopyInWriter::new(db.copy_in(&sql).await?, &types));
        for row in rows {
            let values = row.into_iter().zip(table.columns).map(|(cell, column)| value(cell, column.kind));
            let values = values.collect::<Result<Vec<_>, Fault>>()?;
            writer.as_mut().write_raw(values).await?;
        }
        writer.finish().await?;
        db.batch_execute("COMMIT").await?;
        Ok(())
    }

    /// Every row of a table, in any order.
    pub(crate) async fn each(&self, table: &Table, mut see: impl FnMut(&[Cell])) -> Result<(), Fault> {
        let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        let sql = format!("SELECT {} FROM {}", columns.join(", "), table.name);
        let none: [&(dyn ToSql + Sync); 0] = [];
        let mut rows = pin!(self.db()?.query_raw(&sql, none).await?);
        while let Some(row) = rows.try_next().await? {
            let cells = table.columns.iter().enumerate().map(|(at, column)| cell(&row, at, column.kind));
            see(&cells.collect::<Result<Vec<_>, Fault>>()?);
        }
        Ok(())
    }

    /// Everything is here: counters go on above what was moved in.
    pub(crate) async fn set_filled(&self, id: Uuid) -> Result<(), Fault> {
        let db = self.db()?;
        db.batch_execute("BEGIN").await?;
        own(db, id, 0).await?;
        db.batch_execute(
            "SELECT setval('tx_ord', COALESCE(max(ord), 0) + 1, false) FROM tx;
             SELECT setval(pg_get_serial_sequence('namespace', 'id'), COALESCE(max(id), 0) + 1, false) FROM namespace;
             SELECT setval(pg_get_serial_sequence('lane', 'id'), COALESCE(max(id), 0) + 1, false) FROM lane;
             SELECT setval(pg_get_serial_sequence('command', 'seq'), COALESCE(max(seq), 0) + 1, false) FROM command;
             INSERT INTO journal_end (namespace, last)
                SELECT namespace.id, (SELECT COALESCE(max(seq), 0) FROM journal) FROM namespace
                ON CONFLICT (namespace) DO UPDATE SET last = excluded.last;
             UPDATE moved_in SET state = 1;
             COMMIT",
        )
        .await?;
        Ok(())
    }

    /// Servers may start. Done again, it changes nothing.
    pub(crate) async fn set_servable(&self, id: Uuid) -> Result<(), Fault> {
        let sql = "UPDATE moved_in SET state = 2 WHERE id = $1 AND state IN (1, 2)";
        if self.db()?.execute(sql, &[&id]).await? == 0 {
            return Err(Fault::Refused("the database is not the one that was filled".to_owned()));
        }
        Ok(())
    }

    /// New plans for new tables.
    pub(crate) async fn analyze(&self) -> Result<(), Fault> {
        for table in TABLES {
            self.db()?.batch_execute(&format!("ANALYZE {}", table.name)).await?;
        }
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.connections.close();
    }
}

/// The mark's lock, if it is this move's and in this state.
async fn own(db: &ClientWrapper, id: Uuid, state: i16) -> Result<(), Fault> {
    let sql = "SELECT 1 FROM moved_in WHERE id = $1 AND state = $2 FOR UPDATE";
    match db.query_opt(sql, &[&id, &state]).await? {
        Some(_) => Ok(()),
        None => Err(Fault::Refused("another `landfall migrate` fills this database now".to_owned())),
    }
}

fn sql_type(kind: Kind) -> Type {
    match kind {
        Kind::Big => Type::INT8,
        Kind::Small => Type::INT2,
        Kind::Bool => Type::BOOL,
        Kind::Text => Type::TEXT,
        Kind::Bytes => Type::BYTEA,
        Kind::Uuid => Type::UUID,
    }
}

type Boxed = Box<dyn ToSql + Sync + Send>;

fn value(cell: Cell, kind: Kind) -> Result<Boxed, Fault> {
    Ok(match (cell, kind) {
        (Cell::Number(number), Kind::Big) => Box::new(number),
        (Cell::Number(number), Kind::Small) => {
            Box::new(i16::try_from(number).map_err(|error| Fault::corrupt("a small number", error))?)
        }
        (Cell::Number(number), Kind::Bool) => Box::new(number != 0),
        (Cell::Text(text), Kind::Text) => Box::new(text),
        (Cell::Bytes(bytes), Kind::Bytes) => Box::new(bytes),
        (Cell::Bytes(bytes), Kind::Uuid) => {
            Box::new(Uuid::from_slice(&bytes).map_err(|error| Fault::corrupt("an id", error))?)
        }
        (Cell::Null, Kind::Big) => Box::new(None::<i64>),
        (Cell::Null, Kind::Small) => Box::new(None::<i16>),
        (Cell::Null, Kind::Bool) => Box::new(None::<bool>),
        (Cell::Null, Kind::Text) => Box::new(None::<String>),
        (Cell::Null, Kind::Bytes) => Box::new(None::<Vec<u8>>),
        (Cell::Null, Kind::Uuid) => Box::new(None::<Uuid>),
        (cell, kind) => return Err(Fault::corrupt("a column", format!("{cell:?} is not {kind:?}"))),
    })
}

fn cell(row: &tokio_postgres::Row, at: usize, kind: Kind) -> Result<Cell, Fault> {
    let found = match kind {
        Kind::Big => row.try_get::<_, Option<i64>>(at)?.map(Cell::Number),
        Kind::Small => row.try_get::<_, Option<i16>>(at)?.map(|number| Cell::Number(number.into())),
        Kind::Bool => row.try_get::<_, Option<bool>>(at)?.map(|truth| Cell::Number(truth.into())),
        Kind::Text => row.try_get::<_, Option<String>>(at)?.map(Cell::Text),
        Kind::Bytes => row.try_get::<_, Option<Vec<u8>>>(at)?.map(Cell::Bytes),
        Kind::Uuid => row.try_get::<_, Option<Uuid>>(at)?.map(|id| Cell::Bytes(id.as_bytes().to_vec())),
    };
    Ok(found.unwrap_or(Cell::Null))
}
