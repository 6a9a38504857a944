//! The store of a run, opened by this process: before the servers start, or after they have stopped.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use landfall_core::Namespace;
use landfall_core::ports::store::Store;
use landfall_store::{Postgres, Sqlite, postgres, sqlite};

use crate::config::Config;

pub(super) enum Opened {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

impl Opened {
    pub(super) async fn open(config: &Config) -> Result<Self> {
        let namespace = Namespace(config.store.namespace.clone());
        if config.store.is_postgres() {
            let options = postgres::Options::default();
            return Ok(Self::Postgres(Postgres::open(&config.store.url, &namespace, &options).await?));
        }
        Ok(Self::Sqlite(Sqlite::open(&config.store.url, &namespace, &sqlite::Options::default())?))
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// What an acknowledged commit means.
    pub(super) async fn durability(&self) -> Result<String> {
        Ok(match self {
            Self::Sqlite(store) => store.durability().await?,
            Self::Postgres(store) => store.durability().await?,
        })
    }
}

/// Bytes of the database: of the file and its log, or of the tables with their indexes. None of it while there is none.
pub(super) async fn bytes(config: &Config) -> Result<u64> {
    if config.store.is_postgres() {
        return match Opened::open(config).await? {
            Opened::Postgres(store) => Ok(store.bytes().await?),
            Opened::Sqlite(_) => Ok(0),
        };
    }
    let file = config.store.url.trim_start_matches("sqlite://");
    let size = |name: &str| std::fs::metadata(Path::new(name)).map_or(0, |meta| meta.len());
    Ok(size(file) + size(&format!("{file}-wal")))
}
