//! The audit chain.

use futures::future::join_all;
use landfall_core::Millis;
use landfall_core::audit::{Ends, Finding, Link, New, Noted, Row, Verifier};
use landfall_core::ports::audit::{AuditLog, Page};

use crate::world::World;

fn new(n: u64) -> New {
    New { at: Millis(n), text: format!(r#"{{"n":{n}}}"#) }
}

async fn all(log: &dyn AuditLog) -> Vec<Row> {
    log.audit_rows(Page::After(0), 1_000).await.unwrap()
}

async fn findings(log: &dyn AuditLog) -> Vec<Finding> {
    let ends = log.audit_ends().await.unwrap();
    let mut verifier = Verifier::new(ends.anchor, Noted::default(), Some(Millis(40)));
    verifier.unnumbered(log.unnumbered_audit().await.unwrap());
    all(log).await.iter().for_each(|row| verifier.take(row));
    verifier.end(ends.head).findings
}

pub(crate) async fn entries_are_sealed_one_after_the_other(world: World) {
    let log = world.audit();
    assert_eq!(log.audit_ends().await.unwrap(), Ends::EMPTY);
    let head = log.append_audit(vec![new(1), new(2)]).await.unwrap();
    assert_eq!(head.seq, 2);
    let head = log.append_audit(vec![new(3)]).await.unwrap();
    let rows = all(log).await;
    let seen: Vec<_> = rows.iter().map(|row| (row.seq, row.at, row.text.as_str())).collect();
    assert_eq!(
        seen,
        [(1, Millis(1), r#"{"n":1}"#), (2, Millis(2), r#"{"n":2}"#), (3, Millis(3), r#"{"n":3}"#)]
    );
    assert!(rows[0].follows(Link::ORIGIN) && rows[1].follows(rows[0].link()));
    assert_eq!(log.audit_ends().await.unwrap(), Ends { anchor: Link::ORIGIN, head });
    assert_eq!(findings(log).await, []);
    let page = log.audit_rows(Page::Before(3), 1).await.unwrap();
    assert_eq!(page, [rows[1].clone()], "newest first");
    let page = log.audit_rows(Page::After(1), 1).await.unwrap();
    assert_eq!(page, [rows[1].clone()]);
    assert_eq!(log.audit_rows(Page::Before(u64::MAX), 9).await.unwrap().len(), 3);
}

pub(crate) async fn many_that_append_at_once_make_one_chain(world: World) {
    let log = world.audit();
    let appended = join_all((0..20).map(|n| log.append_audit(vec![new(2 * n), new(2 * n + 1)]))).await;
    let mut heads: Vec<u64> = appended.into_iter().map(|head| head.unwrap().seq).collect();
    heads.sort_unstable();
    assert_eq!(heads, (1..=20).map(|n| 2 * n).collect::<Vec<_>>());
    assert_eq!(all(log).await.len(), 40);
    assert_eq!(findings(log).await, []);
}

pub(crate) async fn the_oldest_rows_go_and_a_row_says_so(world: World) {
    let log = world.audit();
    log.append_audit((1..=9).map(new).collect()).await.unwrap();
    assert_eq!(log.trim_audit(Millis(1), 100, Millis(50)).await.unwrap(), 0, "none is so old");
    assert_eq!(log.trim_audit(Millis(6), 2, Millis(50)).await.unwrap(), 2, "a few at a time");
    assert_eq!(log.trim_audit(Millis(6), 100, Millis(51)).await.unwrap(), 3);
    assert_eq!(log.trim_audit(Millis(6), 100, Millis(52)).await.unwrap(), 0);
    let rows = all(log).await;
    assert_eq!(rows.first().map(|row| row.seq), Some(6));
    assert_eq!(rows.len(), 6, "four that stay, and a word on each removal");
    assert_eq!(log.audit_ends().await.unwrap().anchor.seq, 5);
    assert_eq!(findings(log).await, []);
    log.append_audit(vec![new(60)]).await.unwrap();
    assert_eq!(findings(log).await, []);
    let gone = log.trim_audit(Millis(1_000), 100, Millis(1_100)).await.unwrap();
    assert_eq!(gone, 6, "the newest stays, and with it the place to go on from");
    assert_eq!(findings(log).await, []);
}

pub(crate) async fn rows_of_a_clock_that_was_ahead_keep_no_others(world: World) {
    let log = world.audit();
    let times = [1, 9_000, 2, 9_001, 9_002, 9_003, 3, 80, 9_004];
    log.append_audit(times.map(new).into()).await.unwrap();
    let trim = |limit| log.trim_audit(Millis(50), limit, Millis(100));
    assert_eq!(trim(4).await.unwrap(), 3);
    assert_eq!(trim(2).await.unwrap(), 2, "also where all that are looked at are ahead");
    assert_eq!(trim(100).await.unwrap(), 2);
    assert_eq!(trim(100).await.unwrap(), 0);
    let left: Vec<Millis> = all(log).await.iter().take(2).map(|row| row.at).collect();
    assert_eq!(left, [Millis(80), Millis(9_004)], "the young one stays, and what follows it");
    assert_eq!(findings(log).await, []);
}

pub(crate) async fn a_chain_belongs_to_a_namespace_and_stays(mut world: World) {
    world.audit().append_audit(vec![new(1)]).await.unwrap();
    world.enter("other").await;
    assert_eq!(world.audit().audit_ends().await.unwrap(), Ends::EMPTY);
    assert!(all(world.audit()).await.is_empty());
    world.audit().append_audit(vec![new(7)]).await.unwrap();
    world.enter("default").await;
    assert_eq!(all(world.audit()).await.len(), 1);
    assert_eq!(findings(world.audit()).await, []);
}
