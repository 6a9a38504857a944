//! One transaction per signer and key, for ever (E1).

use std::sync::Arc;

use landfall_core::JournalSeq;
use landfall_core::journal::Entry;
use landfall_core::ports::store::{Admission, TxQuery, Write};
use landfall_core::transaction::TxState;
use tokio::task::JoinSet;

use crate::fixtures::*;
use crate::world::World;

async fn rows(world: &World) -> usize {
    world.store().txs(&TxQuery { limit: 1_000, ..TxQuery::default() }).await.unwrap().len()
}

pub(crate) async fn a_new_request_is_stored_with_its_first_journal_entry(world: World) {
    let store = world.store();
    let new = keyed(lane(1), 1, "a");
    let tx = admit_new(store, new.clone()).await;
    assert_eq!((tx.id, tx.lane), (new.id, new.lane));
    assert_eq!(*tx.request, new.request);
    assert_eq!(tx.status.state, TxState::Accepted);
    let record = store.tx(new.id).await.unwrap().unwrap();
    assert_eq!(record.tx, tx);
    assert!(record.attempts.is_empty());
    let journal = store.journal(new.id).await.unwrap();
    assert_eq!(journal.len(), 1);
    assert_eq!(journal[0].entry, Entry::Accepted);
    assert_eq!(journal[0].by, new.request.origin);
    assert_eq!((journal[0].at, journal[0].lane), (new.request.accepted_at, new.lane));
    let summary = store.lane(lane(1)).await.unwrap().unwrap();
    assert_eq!((summary.token.0, summary.version.0, summary.waiting), (0, 0, 1));
}

pub(crate) async fn a_key_known_with_the_same_content_is_a_replay_that_writes_nothing(world: World) {
    let store = world.store();
    let new = keyed(lane(1), 1, "a");
    let first = admit_new(store, new.clone()).await;
    let Admission::Replay(existing) = admit(store, retried(&new, 2)).await else { panic!("not a replay") };
    assert_eq!(existing, first);
    assert_eq!(rows(&world).await, 1);
    assert!(store.tx(tx_id(2)).await.unwrap().is_none());
    assert_eq!(store.journal_after(JournalSeq(0), 10).await.unwrap().len(), 1);
}

pub(crate) async fn a_key_known_with_other_content_is_a_conflict(world: World) {
    let store = world.store();
    admit_new(store, keyed(lane(1), 1, "a")).await;
    let Admission::Conflict(id) = admit(store, keyed(lane(1), 2, "a")).await else { panic!("no conflict") };
    assert_eq!(id, tx_id(1));
    assert_eq!(rows(&world).await, 1);
}

pub(crate) async fn a_key_belongs_to_the_signer_on_whatever_chain(world: World) {
    let store = world.store();
    admit_new(store, keyed(lane_on(1, 1), 1, "a")).await;
    let elsewhere = admit(store, keyed(lane_on(2, 1), 2, "a")).await;
    assert!(matches!(elsewhere, Admission::Conflict(id) if id == tx_id(1)));
    assert!(store.lane(lane_on(2, 1)).await.unwrap().is_none(), "a conflict writes nothing, not even a lane");
    admit_new(store, keyed(lane_on(1, 2), 3, "a")).await;
}

pub(crate) async fn requests_without_a_key_are_always_new(world: World) {
    let store = world.store();
    let new = request(lane(1), 1);
    admit_new(store, new.clone()).await;
    admit_new(store, retried(&new, 2)).await;
    assert_eq!(rows(&world).await, 2);
}

pub(crate) async fn an_admission_repeated_after_a_lost_answer_is_the_same_transaction(world: World) {
    let store = world.store();
    for new in [request(lane(1), 1), keyed(lane(1), 2, "a")] {
        let first = admit_new(store, new.clone()).await;
        let Admission::Replay(again) = admit(store, new).await else { panic!("not the same") };
        assert_eq!(again, first);
    }
    assert_eq!(rows(&world).await, 2);
}

pub(crate) async fn an_id_that_stands_for_another_request_is_refused(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    let other = retried(&request(lane(1), 2), 1);
    assert!(is_failed(&write_one(store, Write::Admit(Box::new(other))).await));
    let other = keyed(lane(1), 1, "a");
    assert!(is_failed(&write_one(store, Write::Admit(Box::new(other))).await));
    let other = retried(&request(lane(2), 1), 1);
    assert!(is_failed(&write_one(store, Write::Admit(Box::new(other))).await));
    assert!(store.lane(lane(2)).await.unwrap().is_none());
}

pub(crate) async fn a_key_repeated_in_one_group_is_a_replay_of_the_first(world: World) {
    let first = keyed(lane(1), 1, "a");
    let group = [first.clone(), retried(&first, 2), keyed(lane(1), 3, "a"), keyed(lane(1), 4, "b")];
    let group = group.into_iter().map(|new| Write::Admit(Box::new(new))).collect();
    let answers: Vec<_> = world.store().write(group).await.into_iter().map(admission).collect();
    assert!(matches!(&answers[0], Admission::New(tx) if tx.id == tx_id(1)));
    assert!(matches!(&answers[1], Admission::Replay(tx) if tx.id == tx_id(1)));
    assert!(matches!(&answers[2], Admission::Conflict(id) if *id == tx_id(1)));
    assert!(matches!(&answers[3], Admission::New(tx) if tx.id == tx_id(4)));
    assert_eq!(rows(&world).await, 2);
}

pub(crate) async fn a_hundred_concurrent_admissions_of_one_key_make_one_row(world: World) {
    let mut callers = JoinSet::new();
    let first = keyed(lane(1), 1, "a");
    for n in 1..=100 {
        let store = world.shared();
        let new = retried(&first, n);
        callers.spawn(async move { admit(Arc::as_ref(&store), new).await });
    }
    let answers = callers.join_all().await;
    let new = answers.iter().filter(|answer| matches!(answer, Admission::New(_))).count();
    let replays = answers.iter().filter(|answer| matches!(answer, Admission::Replay(_))).count();
    assert_eq!((new, replays), (1, 99));
    assert_eq!(rows(&world).await, 1);
}

pub(crate) async fn a_key_is_taken_for_ever_even_after_its_transaction_ended(world: World) {
    let store = world.store();
    let new = keyed(lane(1), 1, "a");
    admit_new(store, new.clone()).await;
    let token = own(store, lane(1)).await;
    let mut end = turn(lane(1), token, 0);
    end.txs.push(update(1, TxState::Failed, None));
    commit(store, end).await.unwrap();
    let Admission::Replay(existing) = admit(store, retried(&new, 2)).await else { panic!("not a replay") };
    assert_eq!(existing.status.state, TxState::Failed);
}

pub(crate) async fn transactions_are_first_in_first_out(world: World) {
    let store = world.store();
    // Ids do not say the order: it is that of the admissions.
    let group = [5, 3, 9].map(|n| Write::Admit(Box::new(request(lane(1), n))));
    store.write(group.into()).await;
    admit_new(store, request(lane(2), 1)).await;
    admit_new(store, request(lane(1), 2)).await;
    let waiting = store.waiting(lane(1), 10).await.unwrap();
    assert_eq!(ids(&waiting), [5, 3, 9, 2].map(tx_id));
    assert!(waiting.is_sorted_by_key(|tx| tx.order));
}

pub(crate) async fn one_that_is_refused_is_no_replay_of_a_later_one(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    // Both bring the same key; the first has an id that stands for another request.
    let later = keyed(lane(1), 2, "a");
    let group = vec![Write::Admit(Box::new(retried(&later, 1))), Write::Admit(Box::new(later.clone()))];
    let mut answers = store.write(group).await;
    assert!(matches!(admission(answers.pop().unwrap()), Admission::New(tx) if tx.id == later.id));
    assert!(is_failed(&answers[0]), "{:?}", answers[0]);
}
