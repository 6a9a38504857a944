//! Readers of the journal miss no event, whichever commit lands first.

use std::collections::BTreeSet;

use landfall_core::JournalSeq;
use landfall_core::ports::store::Reads;
use tokio::task::JoinSet;

use super::proxy::{Proxy, Trap};
use super::{raw, until_waiting};
use crate::fixtures::*;
use crate::world::Database;

#[tokio::test]
async fn a_number_is_not_passed_while_its_predecessor_may_still_commit() {
    let mut database = Database::new();
    let fast = database.open().await;
    let direct = database.url.clone();
    let proxy = Proxy::before(&mut database).await;
    let slow = database.open().await;
    database.url = direct;
    admit_new(&slow, request(lane(1), 1)).await;
    admit_new(&fast, request(lane(2), 2)).await;
    // The slow one has its numbers and has not committed; the fast one began later and would be done first.
    proxy.set("COMMIT\0", Trap::Hold);
    let first = tokio::spawn(async move { admit_new(&slow, request(lane(1), 3)).await });
    proxy.sprung().await;
    let other = fast.clone();
    let second = tokio::spawn(async move { admit_new(&other, request(lane(2), 4)).await });
    until_waiting(&raw(&database).await, "journal_end").await;
    let seen = fast.journal_after(JournalSeq(2), 10).await.unwrap();
    assert!(seen.is_empty(), "nothing after a number that may still come: {seen:?}");
    proxy.let_go();
    first.await.unwrap();
    second.await.unwrap();
    let seen = fast.journal_after(JournalSeq(2), 10).await.unwrap();
    assert_eq!(seen.iter().map(|row| row.tx).collect::<Vec<_>>(), [Some(tx_id(3)), Some(tx_id(4))]);
}

#[tokio::test]
async fn a_reader_that_follows_four_writers_sees_every_entry_once_and_in_order() {
    let database = Database::new();
    let reader = database.open().await;
    let mut writers = JoinSet::new();
    for writer in 0..4u64 {
        let store = database.open().await;
        writers.spawn(async move {
            for n in 0..40 {
                let id = 1 + writer * 100 + n;
                admit_new(&store, request(lane(u8::try_from(writer).unwrap()), id)).await;
            }
        });
    }
    let mut seen = Vec::new();
    let follow = async {
        while seen.len() < 160 {
            let after = seen.last().map_or(JournalSeq(0), |(seq, _)| *seq);
            let page = reader.journal_after(after, 7).await.unwrap();
            seen.extend(page.into_iter().map(|row| (row.seq, row.tx.unwrap())));
        }
    };
    tokio::time::timeout(super::PATIENCE, follow).await.expect("an entry was missed");
    writers.join_all().await;
    assert!(seen.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(seen.iter().map(|(_, id)| id).collect::<BTreeSet<_>>().len(), 160);
    let all = reader.journal_after(JournalSeq(0), 1_000).await.unwrap();
    assert_eq!(all.into_iter().map(|row| (row.seq, row.tx.unwrap())).collect::<Vec<_>>(), seen);
}
