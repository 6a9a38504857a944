//! Rows of the audit log that somebody changed behind the server's back, in either database.

use landfall_pgtest::Cluster;
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio_postgres::{Client, NoTls};

use super::{OFFLINE, audit, stopped, stopped_on, verify};
use crate::support::{Server, own_database, text};

/// A program that can write to the database, and put it back as it was.
enum Intruder {
    Sqlite { file: std::path::PathBuf, saved: Vec<u8> },
    Postgres(Client),
}

impl Intruder {
    fn of_file(server: &Server) -> Self {
        let file = server.folder().join("landfall.db");
        let saved = std::fs::read(&file).unwrap();
        Self::Sqlite { file, saved }
    }

    async fn of_database(database: &Cluster) -> Self {
        let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let save = "SET search_path = landfall; CREATE TABLE saved AS SELECT * FROM audit;
                    CREATE TABLE saved_ends AS SELECT * FROM audit_ends";
        client.batch_execute(save).await.unwrap();
        Self::Postgres(client)
    }

    /// Puts the log back as it was.
    async fn restore(&self) {
        match self {
            Self::Sqlite { file, saved } => {
                for side in ["-wal", "-shm"] {
                    std::fs::remove_file(format!("{}{side}", file.display())).ok();
                }
                std::fs::write(file, saved).unwrap();
            }
            Self::Postgres(client) => {
                let back = "DELETE FROM audit; INSERT INTO audit SELECT * FROM saved;
                            DELETE FROM audit_ends; INSERT INTO audit_ends SELECT * FROM saved_ends";
                client.batch_execute(back).await.unwrap();
            }
        }
    }

    async fn change(&self, sql: &str) {
        match self {
            Self::Sqlite { file, .. } => {
                let db = Connection::open(file).unwrap();
                db.execute_batch(&sql.replace("ZEROS", "zeroblob(32)")).unwrap();
                assert!(db.total_changes() > 0, "{sql} changes something");
            }
            Self::Postgres(client) => {
                let zeros = "decode(repeat('00', 32), 'hex')";
                client.batch_execute(&sql.replace("ZEROS", zeros)).await.unwrap();
            }
        }
    }
}

/// Changes that do not agree with themselves, and what is said of each.
fn attacks(last: u64) -> Vec<(String, &'static str)> {
    let entry = r#"'{"what":"began"}'"#;
    vec![
        // Changed.
        (format!("UPDATE audit SET entry = {entry} WHERE seq = 3"), "row 3 was changed"),
        ("UPDATE audit SET at = at + 1 WHERE seq = 4".to_owned(), "row 4 was changed"),
        ("UPDATE audit SET hash = ZEROS WHERE seq = 2".to_owned(), "row 2 was changed"),
        // Removed: from the middle, either end, all; and with the rest moved up, so that no number is missing.
        ("DELETE FROM audit WHERE seq = 5".to_owned(), "row 5 was removed"),
        ("DELETE FROM audit WHERE seq = 1".to_owned(), "row 1 was removed"),
        (format!("DELETE FROM audit WHERE seq = {last}"), "was removed"),
        ("DELETE FROM audit".to_owned(), "rows 1 to"),
        (
            "DELETE FROM audit WHERE seq = 5;
             UPDATE audit SET seq = -seq WHERE seq > 5;
             UPDATE audit SET seq = -seq - 1 WHERE seq < 0;
             UPDATE audit_ends SET seq = seq - 1"
                .to_owned(),
            "row 5 was changed",
        ),
        // Inserted: after the newest, before the oldest, and in between with the rest moved down.
        (
            format!("INSERT INTO audit SELECT namespace, {last} + 1, at, entry, hash FROM audit WHERE seq = 3"),
            "after the head",
        ),
        (format!("INSERT INTO audit SELECT namespace, 0, at, {entry}, hash FROM audit WHERE seq = 3"), "a number below 1"),
        (format!("INSERT INTO audit SELECT namespace, -5, at, {entry}, hash FROM audit WHERE seq = 3"), "a number below 1"),
        (
            format!(
                "UPDATE audit SET seq = -seq WHERE seq >= 5;
                 UPDATE audit SET seq = 1 - seq WHERE seq < 0;
                 INSERT INTO audit SELECT namespace, 5, at, {entry}, hash FROM audit WHERE seq = 4;
                 UPDATE audit_ends SET seq = seq + 1"
            ),
            "row 5 was changed",
        ),
        // Reordered: two rows, and what two rows say.
        (
            "UPDATE audit SET seq = seq + 1000 WHERE seq IN (3, 4);
             UPDATE audit SET seq = CASE seq WHEN 1003 THEN 4 ELSE 3 END WHERE seq > 1000"
                .to_owned(),
            "row 3 was changed",
        ),
        (
            "UPDATE audit SET entry = (SELECT entry FROM audit AS other WHERE other.seq = 7 - audit.seq) WHERE seq IN (3, 4)"
                .to_owned(),
            "row 3 was changed",
        ),
        // The ends.
        ("UPDATE audit_ends SET hash = ZEROS".to_owned(), "the head says"),
        ("UPDATE audit_ends SET anchor = 2, anchor_hash = (SELECT hash FROM audit WHERE seq = 2)".to_owned(), "stands after"),
    ]
}

/// Checks that the log is whole, and that each attack on it is found. The number and the hash of its newest row.
async fn each_is_found(server: &Server, intruder: &Intruder) -> (u64, String) {
    let whole = verify(server, &["--json"]).await;
    assert_eq!(whole.code, Some(0), "{}", whole.said);
    let whole: Value = serde_json::from_str(&whole.stdout).unwrap();
    assert_eq!((&whole["whole"], &whole["brokenOff"]), (&json!(true), &json!([])), "{whole}");
    let (last, head) = (whole["head"]["seq"].as_u64().unwrap(), text(&whole["head"], "hash"));
    assert!(last >= 10, "{last}");
    for (sql, told) in attacks(last) {
        intruder.restore().await;
        intruder.change(&sql).await;
        let found = verify(server, &[]).await;
        assert_eq!(found.code, Some(7), "{sql}: {}", found.said);
        assert!(found.said.contains(told), "{sql}: {}", found.said);
        assert!(
            found.said.contains("Do not note") && !found.said.contains("Note both"),
            "{sql}: {}",
            found.said
        );
        if told == "a number below 1" {
            // What is none of the chain is not shown as if it were.
            let listed = audit(server.folder(), &[&["list", "--json"], &OFFLINE[..]].concat()).await;
            let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
            assert_eq!(listed["items"].as_array().unwrap().len() as u64, last, "{sql}: {listed}");
        }
    }
    intruder.restore().await;
    assert_eq!(verify(server, &[]).await.code, Some(0), "as it was, it is whole");
    (last, head)
}

#[tokio::test]
async fn each_row_that_is_changed_removed_added_or_moved_in_postgres_is_found() {
    let database = own_database();
    let (_chain, server) = stopped_on(&database.url()).await;
    let intruder = Intruder::of_database(&database).await;
    each_is_found(&server, &intruder).await;
}

#[tokio::test]
async fn each_row_that_is_changed_removed_added_or_moved_is_found() {
    let (_chain, server) = stopped().await;
    let intruder = Intruder::of_file(&server);
    let (last, head) = each_is_found(&server, &intruder).await;
    // Oldest rows and anchor together: no row says that they went.
    intruder.restore().await;
    let anchor = "UPDATE audit_ends SET anchor = 2, anchor_hash = (SELECT hash FROM audit WHERE seq = 2)";
    intruder.change(anchor).await;
    intruder.change("DELETE FROM audit WHERE seq <= 2").await;
    let found = verify(&server, &[]).await;
    assert!(found.code == Some(7) && found.said.contains("removed by hand"), "{}", found.said);
    // Newest rows and the head together: only a hash that was noted elsewhere tells.
    intruder.restore().await;
    let before = last - 1;
    intruder.change(&format!("DELETE FROM audit WHERE seq > {before}")).await;
    let shorter =
        format!("UPDATE audit_ends SET seq = {before}, hash = (SELECT hash FROM audit WHERE seq = {before})");
    intruder.change(&shorter).await;
    assert_eq!(verify(&server, &[]).await.code, Some(0), "nobody can tell from the database alone");
    let zeros = format!("0x{}", "0".repeat(64));
    let refused = verify(&server, &["--head", &zeros]).await;
    assert!(refused.code != Some(0) && refused.said.contains("the hash of no row"), "{}", refused.said);
    let noted: Value = serde_json::from_str(&verify(&server, &["--json"]).await.stdout).unwrap();
    let noted = verify(&server, &["--head", &text(&noted["head"], "hash"), "--anchor", &zeros]).await;
    assert!(
        noted.ok() && noted.said.contains(&format!("The noted hash is row {before}'s")),
        "{}",
        noted.said
    );
    assert!(noted.said.contains("No row was removed since the anchor was noted"), "{}", noted.said);
    let found = verify(&server, &["--head", &head]).await;
    assert!(found.code == Some(7) && found.said.contains("no row has the hash"), "{}", found.said);
}
