//! A few connections that only read, on tokio's threads for blocking work. Each read is one database transaction, so
//! that what it puts together belongs together, and begins after every commit that was answered before it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use landfall_core::ports::store;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use super::error::Fault;
use super::open::{self, BUSY_LIMIT};

/// What a read works in.
pub(super) struct Look<'a> {
    pub(super) db: &'a Connection,
    pub(super) namespace: i64,
}

/// The connections that nobody uses now; one that is missing is opened when it is needed.
pub(super) struct Readers {
    path: PathBuf,
    namespace: i64,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(path: &Path, namespace: i64, connections: usize) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_owned(),
            namespace,
            permits: Arc::new(Semaphore::new(connections.max(1))),
            idle: Mutex::new(Vec::new()),
        })
    }

    /// Runs a read.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        doing: &'static str,
        look: impl FnOnce(&Look<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, store::Error> {
        let failed = |text: String| store::Error::Failed { doing, text };
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|error| failed(error.to_string()))?;
        let readers = Arc::clone(self);
        let work = tokio::task::spawn_blocking(move || {
            let found = readers.look(look);
            drop(permit);
            found
        });
        let found = work.await.map_err(|error| failed(error.to_string()))?;
        found.map_err(|fault| fault.into_error(doing))
    }

    fn look<T>(&self, look: impl FnOnce(&Look<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let db = match idle {
            Some(db) => db,
            None => self.connect()?,
        };
        let view = db.unchecked_transaction()?;
        let found = look(&Look { db: &view, namespace: self.namespace });
        // A read has nothing to commit; a connection that cannot end its view is not used again.
        view.finish()?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(db);
        found
    }

    fn connect(&self) -> Result<Connection, Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&self.path, flags)?;
        db.busy_timeout(BUSY_LIMIT)?;
        open::tune_reader(&db)?;
        Ok(db)
    }
}
