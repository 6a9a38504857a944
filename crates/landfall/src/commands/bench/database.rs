//! What a PostgreSQL on this machine uses: its first process and all that it started.

use std::fs;

use anyhow::Result;

use super::process::Usage;
use super::store::Opened;
use crate::config::Config;

/// None where there is no database, or it runs on another machine, or its processes cannot be seen.
pub(super) async fn usage(config: &Config) -> Result<Option<Usage>> {
    if !config.store.is_postgres() {
        return Ok(None);
    }
    match Opened::open(config).await? {
        Opened::Postgres(store) => Ok(used(store.process().await?)),
        Opened::Sqlite(_) => Ok(None),
    }
}

fn used(backend: u32) -> Option<Usage> {
    let first = parent_of(backend).filter(|first| is_postgres(backend) && is_postgres(*first))?;
    let children =
        fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let started = children.filter(|id: &u32| *id != backend && parent_of(*id) == Some(first));
    Some(started.map(Usage::sharing).fold(Usage::with_ended(first), Usage::and))
}

fn is_postgres(id: u32) -> bool {
    fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.trim() == "postgres")
}

fn parent_of(id: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is a name in brackets, which may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
