//! The journal: a transaction's time line, and the outbox over all of them.

use deadpool_postgres::ClientWrapper;
use landfall_core::journal::JournalRow;
use landfall_core::{JournalSeq, TxId};

use super::all;
use crate::journal;
use crate::postgres::error::Fault;
use crate::postgres::rows;

/// A transaction's entries, oldest first.
pub(in crate::postgres) async fn of_tx(
    db: &ClientWrapper,
    namespace: i64,
    id: TxId,
) -> Result<Vec<JournalRow>, Fault> {
    let sql = format!(
        "SELECT {} FROM journal JOIN lane ON lane.id = journal.lane
         WHERE journal.tx = $1 AND lane.namespace = $2 ORDER BY journal.seq",
        rows::ENTRY_COLUMNS
    );
    let rows = all(db, &sql, &[&id.0, &namespace], rows::entries).await?;
    Ok(rows.into_iter().flatten().collect())
}

/// Entries after a number. Numbers are taken under a lock that is held to the commit, so none below the last one seen
/// can still appear.
pub(in crate::postgres) async fn after(
    db: &ClientWrapper,
    namespace: i64,
    after: JournalSeq,
    limit: u32,
) -> Result<Vec<JournalRow>, Fault> {
    let sql = format!(
        "SELECT {} FROM journal JOIN lane ON lane.id = journal.lane
         WHERE journal.namespace = $1 AND journal.seq > $2 ORDER BY journal.seq LIMIT $3",
        rows::ENTRY_COLUMNS
    );
    let rows = all(db, &sql, &[&namespace, &after.0, &i64::from(limit)], rows::entries).await?;
    Ok(journal::page(rows, after, limit))
}
