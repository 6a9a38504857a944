//! What a PostgreSQL on this machine uses: its first process and all that it started.

use std::fs;

use tokio_postgres::NoTls;

use super::process::Usage;

/// None where there is no database, or it runs on another machine, or its processes cannot be seen.
pub(super) async fn usage(url: Option<&str>) -> Option<Usage> {
    let (client, connection) = tokio_postgres::connect(url?, NoTls).await.ok()?;
    let talking = tokio::spawn(connection);
    let own: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.ok()?.try_get(0).ok()?;
    let used = used(u32::try_from(own).ok()?);
    drop(client);
    // It ends with the client.
    talking.await.ok()?.ok()?;
    used
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
