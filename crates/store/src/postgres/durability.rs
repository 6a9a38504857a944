//! What an acknowledged commit means, as a connection of ours says it itself, how large everything is, and who serves us.

use deadpool_postgres::ClientWrapper;
use landfall_core::ports::store::Error;

use super::Postgres;
use super::error::Fault;

impl Postgres {
    /// Such as `synchronous_commit=on, fsync=on`.
    pub async fn durability(&self) -> Result<String, Error> {
        self.inner.connections.run("read its durability", |db| Box::pin(read(db))).await
    }

    /// Bytes of all tables and indexes of the schema, whatever namespace they are for.
    pub async fn bytes(&self) -> Result<u64, Error> {
        self.inner.connections.run("read its size", |db| Box::pin(size(db))).await
    }

    /// The process of the server that a connection of ours speaks to, by its number on the server's machine.
    pub async fn process(&self) -> Result<u32, Error> {
        self.inner.connections.run("read its process", |db| Box::pin(process(db))).await
    }
}

async fn read(db: &ClientWrapper) -> Result<String, Fault> {
    let sql = "SELECT 'synchronous_commit=' || current_setting('synchronous_commit')
                 || ', fsync=' || current_setting('fsync')
                 || ', full_page_writes=' || current_setting('full_page_writes')";
    Ok(db.query_one(sql, &[]).await?.try_get(0)?)
}

async fn process(db: &ClientWrapper) -> Result<u32, Fault> {
    let id: i32 = db.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
    Ok(id.unsigned_abs())
}

async fn size(db: &ClientWrapper) -> Result<u64, Fault> {
    let sql = "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
               FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'";
    let bytes: i64 = db.query_one(sql, &[]).await?.try_get(0)?;
    Ok(bytes.unsigned_abs())
}
