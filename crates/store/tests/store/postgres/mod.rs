//! What only a database that many processes share can go through: stale writers, lost answers, expiry, and commits
//! that cross.

mod calls;
mod fence;
mod hints;
mod journal;
mod leases;
mod lost;
mod older;
mod opening;
mod poison;
mod proxy;
mod records;

use std::time::Duration;

use tokio_postgres::{Client, NoTls};

use crate::world::Database;

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A connection of the test's own, in the schema under test.
pub(crate) async fn raw(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("SET search_path = {}", database.options.schema)).await.unwrap();
    client
}

/// Waits until a query that answers one truth value says yes.
async fn until(client: &Client, question: &str) {
    let asked = async {
        loop {
            let row = client.query_opt(question, &[]).await.unwrap();
            if row.is_some_and(|row| row.get::<_, bool>(0)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("never true: {question}"));
}

/// Waits until so many connections of this test's schema wait for a row.
async fn until_waiting(client: &Client, table: &str) {
    // Backends do not say their schema, but the query text names the table, and only this test's lock is waited for
    // by one that waits for a transaction this schema's tables are locked by.
    let question = format!(
        "SELECT count(*) > 0 FROM pg_locks waiting
         JOIN pg_locks held ON held.transactionid = waiting.transactionid AND held.granted
         JOIN pg_locks holds ON holds.pid = held.pid AND holds.relation = '{table}'::regclass
         WHERE NOT waiting.granted"
    );
    until(client, &question).await;
}

/// Ends a session, as a node does that has heard nothing of it.
async fn end(client: &Client, session: landfall_core::SessionId) {
    let sql = format!("DELETE FROM session WHERE id = '{}'", session.0);
    assert_eq!(client.execute(&sql, &[]).await.unwrap(), 1);
}
