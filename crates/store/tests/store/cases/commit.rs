//! A commit is stored whole, or not at all.

use landfall_core::attempt::SendHints;
use landfall_core::outcome::{SendOutcome, SendReport};
use landfall_core::ports::store::{HintUpdate, Write};
use landfall_core::transaction::TxState;
use landfall_core::{Millis, Slot};

use crate::fixtures::*;
use crate::world::World;

pub(crate) async fn a_write_that_cannot_be_stored_fails_alone(world: World) {
    let store = world.store();
    let tokens = [own(store, lane(1)).await, own(store, lane(2)).await, own(store, lane(3)).await];
    for n in 1..=3 {
        admit_new(store, request(lane(n), u64::from(n))).await;
    }
    let mut poisoned = bind(lane(2), tokens[1], 0, 2, 0);
    poisoned.journal.push(failed_entry(77));
    let group = vec![
        Write::Lane(Box::new(bind(lane(1), tokens[0], 0, 1, 0))),
        Write::Admit(Box::new(keyed(lane(5), 5, "a"))),
        Write::Lane(Box::new(poisoned)),
        Write::Lane(Box::new(bind(lane(3), tokens[2], 4, 3, 0))),
        Write::Admit(Box::new(retried(&keyed(lane(5), 5, "a"), 6))),
        Write::Lane(Box::new(bind(lane(3), tokens[2], 0, 3, 0))),
    ];
    let answers = store.write(group).await;
    assert!(answers[0].is_ok() && answers[1].is_ok() && answers[4].is_ok() && answers[5].is_ok());
    assert!(is_failed(&answers[2]));
    assert!(is_fenced(&answers[3]));
    for (n, bound) in [(1, 1), (2, 0), (3, 1)] {
        assert_eq!(store.load_lane(lane(n)).await.unwrap().bound.len(), bound, "lane {n}");
    }
    assert_eq!(ids(&store.waiting(lane(5), 10).await.unwrap()), [tx_id(5)]);
}

pub(crate) async fn a_failed_commit_leaves_nothing_behind(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    let token = own(store, lane(1)).await;
    let mut poisoned = bind(lane(1), token, 0, 1, 0);
    poisoned.journal.push(failed_entry(77));
    assert!(is_failed(&commit(store, poisoned).await));
    let loaded = store.load_lane(lane(1)).await.unwrap();
    assert_eq!(loaded.version.0, 0);
    assert_eq!(loaded.row.cursor, None);
    assert!(loaded.bound.is_empty() && loaded.attempts.is_empty());
    assert_eq!(store.journal(tx_id(1)).await.unwrap().len(), 1);
    commit(store, bind(lane(1), token, 0, 1, 0)).await.unwrap();
}

pub(crate) async fn two_live_transactions_in_one_slot_are_refused(world: World) {
    let store = world.store();
    for n in 1..=2 {
        admit_new(store, request(lane(1), n)).await;
    }
    let token = own(store, lane(1)).await;
    let mut both = turn(lane(1), token, 0);
    both.txs = vec![update(1, TxState::Signed, Some(4)), update(2, TxState::Signed, Some(4))];
    assert!(is_failed(&commit(store, both).await));
    commit(store, bind(lane(1), token, 0, 1, 4)).await.unwrap();
    let mut second = turn(lane(1), token, 1);
    second.txs.push(update(2, TxState::Accepted, Some(4)));
    assert!(is_failed(&commit(store, second).await));
    assert_eq!(ids(&store.load_lane(lane(1)).await.unwrap().bound), [tx_id(1)]);
    admit_new(store, request(lane(2), 3)).await;
    let token = own(store, lane(2)).await;
    commit(store, bind(lane(2), token, 0, 3, 4)).await.unwrap();
}

pub(crate) async fn a_slot_that_one_transaction_leaves_another_may_take_in_the_same_commit(world: World) {
    let store = world.store();
    for n in 1..=2 {
        admit_new(store, request(lane(1), n)).await;
    }
    let token = own(store, lane(1)).await;
    for (version, leaves, takes) in [(0, 1, 2), (2, 2, 1)] {
        let mut first = turn(lane(1), token, version);
        first.txs.push(update(leaves, TxState::Accepted, Some(4)));
        commit(store, first).await.unwrap();
        let mut change = turn(lane(1), token, version + 1);
        // The one that takes it comes first in the list.
        change.txs = vec![update(takes, TxState::Signed, Some(4)), update(leaves, TxState::Accepted, None)];
        commit(store, change).await.unwrap();
        assert_eq!(ids(&store.load_lane(lane(1)).await.unwrap().bound), [tx_id(takes)]);
        assert_eq!(ids(&store.waiting(lane(1), 10).await.unwrap()), [tx_id(leaves)]);
    }
}

pub(crate) async fn two_transactions_may_swap_slots_in_one_commit(world: World) {
    let store = world.store();
    for n in 1..=2 {
        admit_new(store, request(lane(1), n)).await;
    }
    let token = own(store, lane(1)).await;
    let mut first = turn(lane(1), token, 0);
    first.txs = vec![update(1, TxState::Accepted, Some(4)), update(2, TxState::Accepted, Some(5))];
    commit(store, first).await.unwrap();
    let mut swap = turn(lane(1), token, 1);
    swap.txs = vec![update(1, TxState::Accepted, Some(5)), update(2, TxState::Accepted, Some(4))];
    commit(store, swap).await.unwrap();
    assert_eq!(ids(&store.load_lane(lane(1)).await.unwrap().bound), [tx_id(2), tx_id(1)]);
}

pub(crate) async fn a_slot_whose_transaction_ended_may_be_taken(world: World) {
    let store = world.store();
    for n in 1..=2 {
        admit_new(store, request(lane(1), n)).await;
    }
    let token = own(store, lane(1)).await;
    commit(store, bind(lane(1), token, 0, 1, 4)).await.unwrap();
    let mut end = turn(lane(1), token, 1);
    end.txs.push(update(1, TxState::Failed, Some(4)));
    commit(store, end).await.unwrap();
    let mut next = turn(lane(1), token, 2);
    next.txs.push(update(2, TxState::Signed, Some(4)));
    commit(store, next).await.unwrap();
    assert_eq!(ids(&store.load_lane(lane(1)).await.unwrap().bound), [tx_id(2)]);
}

pub(crate) async fn a_transaction_that_has_ended_stays_as_it_is(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    let token = own(store, lane(1)).await;
    commit(store, bind(lane(1), token, 0, 1, 0)).await.unwrap();
    let mut end = turn(lane(1), token, 1);
    end.txs.push(update(1, TxState::Confirmed, Some(0)));
    commit(store, end).await.unwrap();
    for (state, slot) in
        [(TxState::Accepted, None), (TxState::Broadcast, Some(0)), (TxState::Failed, Some(0))]
    {
        let mut again = turn(lane(1), token, 2);
        again.txs.push(update(1, state, slot));
        assert!(
            matches!(commit(store, again).await, Err(landfall_core::ports::store::WriteError::Failed(_))),
            "{}",
            state.name()
        );
    }
    let stored = store.tx(tx_id(1)).await.unwrap().unwrap();
    assert_eq!(stored.tx.status.state, TxState::Confirmed);
    // What the chain shows of it may change, when the chain takes its block back.
    let mut taken_back = turn(lane(1), token, 2);
    let mut same = update(1, TxState::Confirmed, Some(0));
    same.status.hash = Some(attempt(0, 0, Some(1)).hash);
    taken_back.txs.push(same.clone());
    commit(store, taken_back).await.unwrap();
    assert_eq!(store.tx(tx_id(1)).await.unwrap().unwrap().tx.status, *same.status);
}

/// Nothing that was stored in between may be forgotten, least of all an end.
pub(crate) async fn one_that_is_admitted_and_ended_by_one_group_has_ended(world: World) {
    let store = world.store();
    let token = own(store, lane(1)).await;
    admit_new(store, request(lane(1), 1)).await;
    let mut end = turn(lane(1), token, 0);
    end.txs.push(update(2, TxState::Cancelled, None));
    end.txs.push(update(3, TxState::Signed, Some(0)));
    let group = vec![
        Write::Admit(Box::new(request(lane(1), 2))),
        Write::Admit(Box::new(request(lane(1), 3))),
        Write::Lane(Box::new(end)),
    ];
    assert!(store.write(group).await.iter().all(Result::is_ok));
    let mut again = turn(lane(1), token, 1);
    again.txs.push(update(2, TxState::Signed, Some(1)));
    assert!(is_failed(&write_one(store, Write::Lane(Box::new(again))).await));
    // The other one holds its slot, and may give it to somebody else.
    let mut leave = turn(lane(1), token, 1);
    leave.txs.push(update(1, TxState::Signed, Some(0)));
    leave.txs.push(update(3, TxState::Accepted, None));
    commit(store, leave).await.unwrap();
    assert_eq!(ids(&store.load_lane(lane(1)).await.unwrap().bound), [tx_id(1)]);
    assert_eq!(ids(&store.waiting(lane(1), 9).await.unwrap()), [tx_id(3)]);
}

pub(crate) async fn an_ended_transaction_is_loaded_until_its_attempts_are_closed(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    admit_new(store, request(lane(1), 2)).await;
    let token = own(store, lane(1)).await;
    commit(store, bind(lane(1), token, 0, 1, 0)).await.unwrap();
    commit(store, bind(lane(1), token, 1, 2, 1)).await.unwrap();
    let mut end = turn(lane(1), token, 2);
    end.txs.push(update(1, TxState::Confirmed, Some(0)));
    commit(store, end).await.unwrap();
    let loaded = store.load_lane(lane(1)).await.unwrap();
    assert_eq!((ids(&loaded.bound), ids(&loaded.ended)), (vec![tx_id(2)], vec![tx_id(1)]));
    let mut close = turn(lane(1), token, 3);
    close.closed.push(Slot(0));
    commit(store, close).await.unwrap();
    let loaded = store.load_lane(lane(1)).await.unwrap();
    assert_eq!((ids(&loaded.bound), ids(&loaded.ended)), (vec![tx_id(2)], Vec::new()));
}

pub(crate) async fn a_transaction_without_slot_cannot_be_signed(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    let token = own(store, lane(1)).await;
    for state in [TxState::Signed, TxState::Broadcast, TxState::Mined] {
        let mut lost = turn(lane(1), token, 0);
        lost.txs.push(update(1, state, None));
        assert!(is_failed(&commit(store, lost).await), "no look-up would find it");
    }
}

pub(crate) async fn a_transaction_of_another_lane_cannot_be_updated(world: World) {
    let store = world.store();
    admit_new(store, request(lane(2), 2)).await;
    let token = own(store, lane(1)).await;
    assert!(is_failed(&commit(store, bind(lane(1), token, 0, 2, 0)).await));
    let mut filler = turn(lane(1), token, 0);
    filler.attempts.push(attempt(0, 0, Some(2)));
    assert!(is_failed(&commit(store, filler).await));
    let mut entry = turn(lane(1), token, 0);
    entry.journal.push(failed_entry(2));
    assert!(is_failed(&commit(store, entry).await));
    assert_eq!(store.tx(tx_id(2)).await.unwrap().unwrap().tx.status.state, TxState::Accepted);
}

pub(crate) async fn an_attempt_is_stored_once_per_ordinal(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    let token = own(store, lane(1)).await;
    commit(store, bind(lane(1), token, 0, 1, 0)).await.unwrap();
    let mut again = turn(lane(1), token, 1);
    again.attempts.push(attempt(0, 0, Some(1)));
    assert!(is_failed(&commit(store, again).await));
    let mut twice = turn(lane(1), token, 1);
    twice.attempts = vec![attempt(0, 1, Some(1)), attempt(0, 1, Some(1))];
    assert!(is_failed(&commit(store, twice).await));
    assert_eq!(store.tx(tx_id(1)).await.unwrap().unwrap().attempts.len(), 1);
}

pub(crate) async fn the_last_update_of_a_transaction_counts(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    let token = own(store, lane(1)).await;
    let mut twice = turn(lane(1), token, 0);
    twice.txs = vec![update(1, TxState::Signed, Some(3)), update(1, TxState::Simulated, None)];
    commit(store, twice).await.unwrap();
    assert_eq!(store.waiting(lane(1), 1).await.unwrap()[0].status, in_state(TxState::Simulated, None));
    assert!(store.load_lane(lane(1)).await.unwrap().bound.is_empty());
}

pub(crate) async fn hints_of_an_attempt_change_and_its_bytes_do_not(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    let token = own(store, lane(1)).await;
    commit(store, bind(lane(1), token, 0, 1, 0)).await.unwrap();
    let report = SendReport {
        outcome: SendOutcome::Unknown,
        endpoint: "http://a".to_owned(),
        code: Some(-32_000),
        text: Some("\"quoted\" and ünïcode".to_owned()),
        latency_ms: 7,
    };
    let mut hints = SendHints::default();
    for at in [Millis(1), Millis(2)] {
        hints.answered(report.clone(), at);
    }
    let mut sent = turn(lane(1), token, 1);
    // Of a stored attempt, and of one stored by the same commit.
    sent.attempts.push(attempt(0, 1, Some(1)));
    for ordinal in 0..2 {
        sent.hints.push(HintUpdate { slot: Slot(0), ordinal, hints: hints.clone() });
    }
    commit(store, sent).await.unwrap();
    let stored = store.load_lane(lane(1)).await.unwrap().attempts;
    for (ordinal, found) in (0..2).zip(&stored) {
        let mut expected = attempt(0, ordinal, Some(1));
        expected.hints = hints.clone();
        assert_eq!(*found, expected);
    }
}

pub(crate) async fn a_hint_about_unknown_bytes_is_refused(world: World) {
    let store = world.store();
    let token = own(store, lane(1)).await;
    let mut sent = turn(lane(1), token, 0);
    sent.hints.push(HintUpdate { slot: Slot(0), ordinal: 0, hints: SendHints::default() });
    assert!(is_failed(&commit(store, sent).await));
}
