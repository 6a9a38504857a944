//! The journal: a transaction's time line, and the outbox over all of them.

use landfall_core::journal::JournalRow;
use landfall_core::{JournalSeq, TxId};
use rusqlite::params;

use super::all;
use crate::journal;
use crate::sqlite::error::Fault;
use crate::sqlite::readers::Look;
use crate::sqlite::rows;

/// A transaction's entries, oldest first.
pub(in crate::sqlite) fn of_tx(look: &Look<'_>, id: TxId) -> Result<Vec<JournalRow>, Fault> {
    let sql = format!(
        "SELECT {} FROM {} WHERE journal.tx = (SELECT ord FROM tx WHERE id = ?1 AND namespace = ?2)
         ORDER BY journal.seq",
        rows::ENTRY_COLUMNS,
        rows::ENTRY_TABLES
    );
    let rows = all(look.db, &sql, params![id.0.as_bytes(), look.namespace], rows::entries)?;
    Ok(rows.into_iter().flatten().collect())
}

/// Entries after a number. There is one writer, so none below the last one seen can still appear.
pub(in crate::sqlite) fn after(
    look: &Look<'_>,
    after: JournalSeq,
    limit: u32,
) -> Result<Vec<JournalRow>, Fault> {
    // The unary plus keeps the planner from starting at the account instead of at the number.
    let sql = format!(
        "SELECT {} FROM {} WHERE journal.seq > ?1 AND +account.namespace = ?2
         ORDER BY journal.seq LIMIT ?3",
        rows::ENTRY_COLUMNS,
        rows::ENTRY_TABLES
    );
    let rows = all(look.db, &sql, params![after.0, look.namespace, limit], rows::entries)?;
    Ok(journal::page(rows, after, limit))
}
