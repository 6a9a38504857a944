//! Small documents with versions.

use landfall_core::ports::records::{Record, RecordKind, RecordQuery, RecordWrite, Records, RecordsWritten};
use serde_json::{Value, json};

use crate::world::World;

const KIND: RecordKind = RecordKind::Webhook;

async fn put(records: &dyn Records, id: &str, body: Value) {
    let written = records.write_records(vec![RecordWrite::new(KIND, id, body)]).await.unwrap();
    assert_eq!(written, RecordsWritten::Yes);
}

async fn read(records: &dyn Records, id: &str) -> Option<Record> {
    records.record(KIND, id).await.unwrap()
}

async fn ids(records: &dyn Records, query: &RecordQuery) -> Vec<String> {
    records.records(query).await.unwrap().into_iter().map(|record| record.id).collect()
}

pub(crate) async fn a_record_is_made_once_and_changed_by_who_saw_it(world: World) {
    let records = world.records();
    assert_eq!(read(records, "a").await, None);
    put(records, "a", json!({"n": 1, "text": "\u{0}\u{1f600}"})).await;
    let first = read(records, "a").await.unwrap();
    assert_eq!((first.version, &first.body), (1, &json!({"n": 1, "text": "\u{0}\u{1f600}"})));
    // Another kind has ids of its own.
    assert_eq!(records.record(RecordKind::Audit, "a").await.unwrap(), None);

    let again = records.write_records(vec![RecordWrite::new(KIND, "a", json!(2))]).await.unwrap();
    assert_eq!(again, RecordsWritten::Changed);
    let change = RecordWrite::change(KIND, &first, json!(2));
    assert_eq!(records.write_records(vec![change.clone()]).await.unwrap(), RecordsWritten::Yes);
    assert_eq!(records.write_records(vec![change]).await.unwrap(), RecordsWritten::Changed);
    let second = read(records, "a").await.unwrap();
    assert_eq!((second.version, &second.body), (2, &json!(2)));

    let stale = RecordWrite::remove(KIND, &first);
    assert_eq!(records.write_records(vec![stale]).await.unwrap(), RecordsWritten::Changed);
    let end = RecordWrite::remove(KIND, &second);
    assert_eq!(records.write_records(vec![end.clone()]).await.unwrap(), RecordsWritten::Yes);
    assert_eq!(records.write_records(vec![end]).await.unwrap(), RecordsWritten::Changed);
    assert_eq!(read(records, "a").await, None);
}

pub(crate) async fn a_group_of_records_is_written_whole_or_not_at_all(world: World) {
    let records = world.records();
    put(records, "b", json!(1)).await;
    let group = vec![
        RecordWrite::new(KIND, "a", json!(1)),
        RecordWrite::new(KIND, "b", json!(2)),
        RecordWrite::new(KIND, "c", json!(1)),
    ];
    assert_eq!(records.write_records(group).await.unwrap(), RecordsWritten::Changed);
    assert_eq!(ids(records, &RecordQuery::all(KIND, 10)).await, ["b"]);
    assert_eq!(read(records, "b").await.unwrap().body, json!(1));
}

pub(crate) async fn of_many_that_change_one_record_at_once_one_does(world: World) {
    let records = world.records();
    put(records, "a", json!("first")).await;
    let seen = read(records, "a").await.unwrap();
    let changes = (0..8).map(|n| {
        // In different orders, so that two can meet.
        let mut group = vec![
            RecordWrite::change(KIND, &seen, json!(n)),
            RecordWrite::new(KIND, format!("made-by-{n}"), json!(n)),
        ];
        if n % 2 == 0 {
            group.reverse();
        }
        records.write_records(group)
    });
    let answers = futures::future::join_all(changes).await;
    let done = answers.iter().filter(|answer| matches!(answer, Ok(RecordsWritten::Yes))).count();
    assert_eq!(done, 1, "{answers:?}");
    let made = ids(records, &RecordQuery { prefix: "made-by-".into(), ..RecordQuery::all(KIND, 10) }).await;
    let winner = read(records, "a").await.unwrap();
    assert_eq!((winner.version, made), (2, vec![format!("made-by-{}", winner.body)]));
}

pub(crate) async fn records_are_listed_by_the_bytes_of_their_ids(world: World) {
    let records = world.records();
    for id in ["b", "B", "a/2", "a/10", "a%", "é", "a_"] {
        put(records, id, json!(id)).await;
    }
    let all = RecordQuery::all(KIND, 10);
    assert_eq!(ids(records, &all).await, ["B", "a%", "a/10", "a/2", "a_", "b", "é"]);
    let first = RecordQuery { limit: 2, ..all.clone() };
    assert_eq!(ids(records, &first).await, ["B", "a%"]);
    let next = RecordQuery { after: Some("a%".into()), ..first.clone() };
    assert_eq!(ids(records, &next).await, ["a/10", "a/2"]);
    let under = RecordQuery { prefix: "a/".into(), ..all.clone() };
    assert_eq!(ids(records, &under).await, ["a/10", "a/2"]);
    // No character of a prefix stands for others.
    assert_eq!(ids(records, &RecordQuery { prefix: "a%".into(), ..all.clone() }).await, ["a%"]);
    let down = RecordQuery { descending: true, limit: 3, ..all };
    assert_eq!(ids(records, &down).await, ["é", "b", "a_"]);
    let further = RecordQuery { after: Some("a_".into()), ..down };
    assert_eq!(ids(records, &further).await, ["a/2", "a/10", "a%"]);
}

pub(crate) async fn old_records_go_a_few_at_a_time(world: World) {
    let records = world.records();
    for id in ["1", "2", "3", "4"] {
        put(records, id, json!(id)).await;
    }
    assert_eq!(records.trim_records(KIND, "4", 2).await.unwrap(), 2);
    assert_eq!(ids(records, &RecordQuery::all(KIND, 10)).await, ["3", "4"]);
    assert_eq!(records.trim_records(KIND, "4", 2).await.unwrap(), 1);
    assert_eq!(records.trim_records(RecordKind::Audit, "9", 2).await.unwrap(), 0);
    assert_eq!(records.trim_records(KIND, "4", 2).await.unwrap(), 0);
    assert_eq!(ids(records, &RecordQuery::all(KIND, 10)).await, ["4"]);
}

pub(crate) async fn records_belong_to_a_namespace_and_stay(mut world: World) {
    put(world.records(), "a", json!(1)).await;
    world.enter("other").await;
    assert_eq!(read(world.records(), "a").await, None);
    put(world.records(), "a", json!(2)).await;
    world.enter("default").await;
    assert_eq!(read(world.records(), "a").await.unwrap().body, json!(1));
}
