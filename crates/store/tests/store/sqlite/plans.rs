//! What SQLite does for the statements that are run for every transaction.

use super::open;

/// A list of values in an index's condition made it build a table for every row that was written.
#[tokio::test]
async fn no_table_is_built_to_update_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.db");
    drop(open(&file).unwrap());
    let db = rusqlite::Connection::open(&file).unwrap();
    for update in [
        "UPDATE tx SET phase = ?2, state = ?3, slot = ?4, status = ?5 WHERE ord = ?1",
        "UPDATE tx SET state = ?2, status = ?3 WHERE ord = ?1",
        "UPDATE attempt SET hints = ?4 WHERE lane = ?1 AND slot = ?2 AND ordinal = ?3",
    ] {
        let mut plan = db.prepare(&format!("EXPLAIN {update}")).unwrap();
        let steps =
            plan.raw_query().mapped(|row| row.get::<_, String>(1)).collect::<Result<Vec<_>, _>>().unwrap();
        assert!(steps.iter().any(|step| step == "OpenWrite"), "{update}: {steps:?}");
        assert!(!steps.iter().any(|step| step == "OpenEphemeral"), "{update}: {steps:?}");
    }
}

/// A call is found by its index, of all that a lane ever had.
#[tokio::test]
async fn a_call_is_found_by_its_index() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.db");
    drop(open(&file).unwrap());
    let db = rusqlite::Connection::open(&file).unwrap();
    for (table, index) in [("tx", "tx_call"), ("kept", "kept_call")] {
        for which in ["caller_nonce = ?3", "caller_nonce >= ?3 ORDER BY caller_nonce LIMIT 9"] {
            let look = format!("SELECT * FROM {table} WHERE lane = ?1 AND api_key = ?2 AND {which}");
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {look}")).unwrap();
            let steps = plan
                .raw_query()
                .mapped(|row| row.get::<_, String>(3))
                .collect::<Result<Vec<_>, _>>()
                .unwrap();
            assert!(steps.len() == 1 && steps[0].contains(index), "{look}: {steps:?}");
        }
    }
}
