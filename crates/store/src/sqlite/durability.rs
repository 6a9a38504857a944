//! What an acknowledged commit means, as the connection that writes says it itself.

use landfall_core::ports::store::Error;

use super::Sqlite;
use super::scope::Scope;

impl Sqlite {
    /// Such as `journal_mode=wal, synchronous=FULL`.
    pub async fn durability(&self) -> Result<String, Error> {
        let read = |scope: &mut Scope<'_>| {
            let journal: String = scope.db.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
            let level: i64 = scope.db.pragma_query_value(None, "synchronous", |row| row.get(0))?;
            let name = match level {
                0 => "OFF",
                1 => "NORMAL",
                2 => "FULL",
                _ => "EXTRA",
            };
            Ok(format!("journal_mode={journal}, synchronous={name}"))
        };
        self.inner.writer.transaction("read its durability", read).await
    }
}
