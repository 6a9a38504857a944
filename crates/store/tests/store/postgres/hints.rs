//! Hints: another process hears which lane has work, and nobody is the worse for one that is lost.

use std::time::Duration;

use landfall_core::LaneId;
use landfall_core::ports::store::Leases;
use landfall_store::Postgres;

use super::{PATIENCE, raw, until};
use crate::fixtures::*;
use crate::world::Database;

/// Tells of a lane again and again until the other one hears: a hint may be lost.
async fn heard(from: &Postgres, lane: LaneId, by: &Postgres) -> LaneId {
    let tell = async {
        loop {
            from.announce(lane);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let hear = async {
        tokio::select! {
            heard = by.announced() => heard,
            () = tell => unreachable!("it tells for ever"),
        }
    };
    tokio::time::timeout(PATIENCE, hear).await.expect("it is never heard")
}

#[tokio::test]
async fn a_hint_is_heard_by_other_processes_of_the_namespace_also_after_the_connection_broke() {
    let database = Database::new();
    let (one, two) = (database.open().await, database.open().await);
    let stranger = database.open_in("other").await;
    // From here on all are connected, and hear what is told.
    assert_eq!(heard(&one, lane(1), &two).await, lane(1));
    assert_eq!(heard(&two, lane(2), &one).await, lane(2), "what it told itself it does not hear");
    let listener = database.open_in("other").await;
    assert_eq!(heard(&stranger, lane(3), &listener).await, lane(3));
    loop {
        // Some of the first lane's may be left; none is of the other namespace, which told before this.
        match heard(&one, lane(4), &two).await {
            found if found == lane(4) => break,
            found => assert_eq!(found, lane(1)),
        }
    }
    let raw = raw(&database).await;
    let channel = format!("query LIKE '%pg_notify%' OR query LIKE 'LISTEN%{}%'", database.options.schema);
    let mine = format!("application_name = 'landfall' AND pid <> pg_backend_pid() AND ({channel})");
    raw.batch_execute(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {mine}"))
        .await
        .unwrap();
    until(&raw, &format!("SELECT count(*) = 0 FROM pg_stat_activity WHERE {mine} AND state = 'active'"))
        .await;
    while heard(&one, lane(5), &two).await != lane(5) {}
}
