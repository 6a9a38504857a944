//! Many small documents at once.

use landfall_core::ports::records::{RecordKind, RecordQuery, RecordWrite, Records, RecordsWritten};
use serde_json::json;

use super::lost::behind_a_proxy;
use crate::fixtures::LEASE;

const KIND: RecordKind = RecordKind::Delivery;
const MANY: u32 = 1_000;

/// One after the other they would take longer than a step may where the database is far, and never be written.
#[tokio::test]
async fn a_thousand_records_take_few_trips_to_the_database() {
    let (_database, proxy, store) = behind_a_proxy(LEASE).await;
    let write = async |writes: Vec<RecordWrite>| {
        let before = proxy.spoken();
        assert_eq!(store.write_records(writes).await.unwrap(), RecordsWritten::Yes);
        let trips = proxy.spoken() - before;
        assert!(trips < u64::from(MANY) / 5, "{trips} trips");
    };
    let all = async || store.records(&RecordQuery::all(KIND, MANY + 1)).await.unwrap();
    write((0..MANY).map(|n| RecordWrite::new(KIND, format!("{n:04}"), json!(n))).collect()).await;
    let made = all().await;
    assert_eq!(made.len(), MANY as usize);
    let half = |n: usize, record| {
        if n.is_multiple_of(2) {
            RecordWrite::remove(KIND, record)
        } else {
            RecordWrite::change(KIND, record, json!("new"))
        }
    };
    write(made.iter().enumerate().map(|(n, record)| half(n, record)).collect()).await;
    let left = all().await;
    assert_eq!(left.len(), MANY as usize / 2);
    assert!(left.iter().all(|record| record.version == 2 && record.body == json!("new")));
}
