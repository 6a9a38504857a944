//! A disk that fills up: writes fail with a sentence, nothing is half-written, and nothing answered is lost.

use landfall_core::Namespace;
use landfall_core::ports::store::{Log, Reads, Store, TxQuery, Write, WriteError};
use landfall_store::Sqlite;
use landfall_store::sqlite::Options;
use tempfile::TempDir;

use super::open;
use crate::fixtures::*;

/// A group that admits ten transactions.
fn ten(group: u64) -> Vec<Write> {
    (1..=10).map(|n| Write::Admit(Box::new(request(lane(1), group * 10 + n)))).collect()
}

async fn count(store: &dyn Store) -> usize {
    store.txs(&TxQuery { limit: 100_000, ..TxQuery::default() }).await.unwrap().len()
}

#[tokio::test]
async fn a_full_disk_fails_writes_with_a_sentence_and_keeps_what_was_answered() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.db");
    let small = Options { max_bytes: Some(480 * 1024), ..Options::default() };
    let store = Sqlite::open(file.to_str().unwrap(), &Namespace::default(), &small).unwrap();
    let mut stored = 0;
    let mut group = 0;
    let refused = loop {
        let answers = store.write(ten(group)).await;
        group += 1;
        let done = answers.iter().filter(|answer| answer.is_ok()).count();
        stored += done;
        assert_eq!(count(&store).await, stored, "an answered write is there, a refused one is not");
        if let Some(Err(error)) = answers.into_iter().find(Result::is_err) {
            break error;
        }
        assert!(group < 1_000, "the limit is never reached");
    };
    assert!(matches!(refused, WriteError::Failed(_)), "{refused}");
    assert!(refused.to_string().contains("the disk is full"), "{refused}");
    // The store goes on answering, and a write that needs no room may still fit.
    assert_eq!(count(&store).await, stored);
    drop(store);

    let store = open(&file).unwrap();
    assert_eq!(count(&store).await, stored);
    assert!(store.write(ten(group)).await.iter().all(Result::is_ok), "with room again it works");
    assert_eq!(count(&store).await, stored + 10);
}

#[tokio::test]
async fn a_commit_on_a_full_disk_leaves_the_lane_as_it_was() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.db");
    let small = Options { max_bytes: Some(480 * 1024), ..Options::default() };
    let store = Sqlite::open(file.to_str().unwrap(), &Namespace::default(), &small).unwrap();
    admit_new(&store, request(lane(1), 1)).await;
    let token = own(&store, lane(1)).await;
    let mut large = bind(lane(1), token, 0, 1, 0);
    large.attempts[0].raw = vec![7; 1_000_000].into();
    assert!(is_failed(&commit(&store, large).await));
    let loaded = store.load_lane(lane(1)).await.unwrap();
    assert_eq!(loaded.version.0, 0);
    assert!(loaded.bound.is_empty() && loaded.attempts.is_empty());
    commit(&store, bind(lane(1), token, 0, 1, 0)).await.unwrap();
}
