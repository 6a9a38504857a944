//! A value that the database refuses, or a row that somebody holds, fails its own write and no other.

use std::time::Duration;

use landfall_core::RequestId;
use landfall_core::ports::store::{Log, Reads, Write};

use super::raw;
use crate::fixtures::*;
use crate::world::Database;

/// A key with a NUL in it, which cannot be in a text column. No request can bring one: it stands for whatever a
/// database may refuse.
fn poisoned(n: u64) -> Write {
    let mut new = request(lane(1), n);
    new.request.request_id = Some(serde_json::from_str::<RequestId>("\"a\\u0000b\"").unwrap());
    Write::Admit(Box::new(new))
}

#[tokio::test]
async fn of_a_hundred_writes_only_the_poisoned_one_fails() {
    let store = Database::new().open().await;
    let token = own(&store, lane(2)).await;
    admit_new(&store, request(lane(2), 500)).await;
    let mut group: Vec<Write> = (1..=100).map(|n| Write::Admit(Box::new(request(lane(1), n)))).collect();
    group[41] = poisoned(42);
    group.push(Write::Lane(Box::new(bind(lane(2), token, 0, 500, 0))));
    let answers = store.write(group).await;
    for (at, answer) in answers.iter().enumerate() {
        assert_eq!(is_failed(answer), at == 41, "{at}: {answer:?}");
    }
    let waiting = store.waiting(lane(1), 200).await.unwrap();
    let expected: Vec<_> = (1..=100).filter(|n| *n != 42).map(tx_id).collect();
    assert_eq!(ids(&waiting), expected, "in the order of the group");
    assert_eq!(store.load_lane(lane(2)).await.unwrap().bound.len(), 1);
}

#[tokio::test]
async fn a_lane_whose_row_somebody_holds_fails_alone() {
    let mut database = Database::new();
    database.options.lease = Duration::from_secs(5);
    let store = database.open().await;
    let mut group = Vec::new();
    for n in 1..=8 {
        let token = own(&store, lane(n)).await;
        admit_new(&store, request(lane(n), u64::from(n))).await;
        group.push(Write::Lane(Box::new(bind(lane(n), token, 0, u64::from(n), 0))));
    }
    let holder = raw(&database).await;
    let hold = format!("BEGIN; SELECT 1 FROM lane WHERE signer = '\\x{}' FOR UPDATE", "05".repeat(20));
    holder.batch_execute(&hold).await.unwrap();
    let answers = store.write(group.clone()).await;
    for (at, answer) in answers.iter().enumerate() {
        assert_eq!(is_failed(answer), at == 4, "{at}: {answer:?}");
    }
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert!(store.write(vec![group[4].clone()]).await[0].is_ok());
}
