//! An adapter under test, and the ways to open, leave and come back to it.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use landfall_core::ports::audit::AuditLog;
use landfall_core::ports::clock::Clock;
use landfall_core::ports::records::Records;
use landfall_core::ports::store::Store;
use landfall_core::{Millis, Namespace};
use landfall_store::sqlite::Options;
use landfall_store::{Memory, Postgres, Sqlite, postgres};
use tempfile::TempDir;

/// A clock that moves when told.
#[derive(Default)]
pub(crate) struct FakeClock(AtomicU64);

impl FakeClock {
    pub(crate) fn advance(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst))
    }
}

enum Adapter {
    Sqlite(TempDir),
    Memory(Memory),
    Postgres(Database),
}

/// All that an adapter is.
trait Both: Store + Records + AuditLog {}
impl<T: Store + Records + AuditLog> Both for T {}

/// One store in a place of its own.
pub(crate) struct World {
    // Closed before its folder is removed.
    store: Option<Arc<dyn Both>>,
    adapter: Adapter,
}

impl World {
    pub(crate) async fn sqlite() -> Self {
        let mut world = Self { store: None, adapter: Adapter::Sqlite(TempDir::new().unwrap()) };
        world.enter("default").await;
        world
    }

    pub(crate) async fn memory() -> Self {
        let memory = Memory::new(Arc::new(FakeClock::default()));
        let mut world = Self { store: None, adapter: Adapter::Memory(memory) };
        world.enter("default").await;
        world
    }

    pub(crate) async fn postgres() -> Self {
        let mut world = Self { store: None, adapter: Adapter::Postgres(Database::new()) };
        world.enter("default").await;
        world
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &**self.store.as_ref().unwrap()
    }

    pub(crate) fn records(&self) -> &dyn Records {
        &**self.store.as_ref().unwrap()
    }

    pub(crate) fn audit(&self) -> &dyn AuditLog {
        &**self.store.as_ref().unwrap()
    }

    pub(crate) fn shared(&self) -> Arc<dyn Store> {
        let both: Arc<dyn Both> = Arc::clone(self.store.as_ref().unwrap());
        both
    }

    /// Stops the process and starts another, in this namespace.
    pub(crate) async fn enter(&mut self, namespace: &str) {
        self.store = None;
        let namespace = Namespace(namespace.to_owned());
        self.store = Some(match &self.adapter {
            Adapter::Sqlite(folder) => {
                let file = folder.path().join("landfall.db");
                Arc::new(Sqlite::open(file.to_str().unwrap(), &namespace, &Options::default()).unwrap())
            }
            Adapter::Postgres(database) => Arc::new(database.open_in(&namespace.0).await),
            Adapter::Memory(memory) => Arc::new(memory.in_namespace(namespace)),
        });
    }
}

/// A schema of its own in the database that was started for the tests.
pub(crate) struct Database {
    pub(crate) url: String,
    pub(crate) options: postgres::Options,
}

impl Database {
    pub(crate) fn new() -> Self {
        let url = std::env::var(landfall_pgtest::VARIABLE).unwrap_or_else(|_| {
            let variable = landfall_pgtest::VARIABLE;
            panic!("{variable} must name a PostgreSQL; `cargo xtask test` starts one and sets it")
        });
        let random = RandomState::new().hash_one(0);
        let schema = format!("test_{random:x}");
        Self { url, options: postgres::Options { schema, ..postgres::Options::default() } }
    }

    /// Another process on the same database.
    pub(crate) async fn open(&self) -> Postgres {
        self.open_in("default").await
    }

    pub(crate) async fn open_in(&self, namespace: &str) -> Postgres {
        Postgres::open(&self.url, &Namespace(namespace.to_owned()), &self.options).await.unwrap()
    }
}
