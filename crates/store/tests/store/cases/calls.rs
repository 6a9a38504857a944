//! One transaction per call, which is a lane, an API key and the caller's nonce, for as long as it is known.

use std::collections::BTreeSet;
use std::sync::Arc;

use landfall_core::ports::store::{Admission, Store, TxQuery, Write};
use landfall_core::request::NewTransaction;
use landfall_core::transaction::{Transaction, TxState};
use landfall_core::{CallerNonce, Gas, JournalSeq, Millis, Slot, TxId};
use tokio::task::JoinSet;

use super::forget::forget;
use crate::fixtures::*;
use crate::world::World;

/// Everything here has ended before this.
const LATER: Millis = Millis(5_000);

async fn rows(store: &dyn Store) -> usize {
    store.txs(&TxQuery { limit: 1_000, ..TxQuery::default() }).await.unwrap().len()
}

#[track_caller]
fn replayed(admission: Admission) -> Transaction {
    match admission {
        Admission::Replay(tx) => tx,
        other => panic!("not a replay: {other:?}"),
    }
}

#[track_caller]
fn refused(admission: &Admission) -> TxId {
    match admission {
        Admission::NonceReused(tx) => *tx,
        other => panic!("not refused: {other:?}"),
    }
}

/// Binds a transaction to a slot, with a hash.
async fn sign(store: &dyn Store, new: &NewTransaction, n: u64, slot: u64) {
    let token = own(store, new.lane).await;
    let version = store.load_lane(new.lane).await.unwrap().version.0;
    let mut bound = bind(new.lane, token, version, n, slot);
    bound.txs[0].status.hash = Some(hash(slot * 100));
    commit(store, bound).await.unwrap();
}

/// Ends a transaction: with the hash of its second attempt if it has a slot, else without bytes.
async fn end(store: &dyn Store, new: &NewTransaction, n: u64, state: TxState, slot: Option<u64>) {
    let token = own(store, new.lane).await;
    let version = store.load_lane(new.lane).await.unwrap().version.0;
    let mut last = turn(new.lane, token, version);
    let mut update = update(n, state, slot);
    update.status.hash = slot.map(|slot| hash(slot * 100 + 1));
    update.status.first_hash = slot.map(|slot| hash(slot * 100));
    last.txs.push(update);
    last.closed.extend(slot.map(Slot));
    commit(store, last).await.unwrap();
}

/// Calls in every state; the fifth and the sixth are to be given one nonce.
pub(crate) async fn call_before_the_upgrade(store: &dyn Store) {
    for n in 1..=6 {
        admit_new(store, called(lane(1), n, call(None, n))).await;
    }
    admit_new(store, called(lane(1), 7, call(None, u64::MAX))).await;
    admit_new(store, request(lane(1), 8)).await;
    sign(store, &called(lane(1), 2, call(None, 2)), 2, 0).await;
    sign(store, &called(lane(1), 3, call(None, 3)), 3, 1).await;
    end(store, &called(lane(1), 3, call(None, 3)), 3, TxState::Confirmed, Some(1)).await;
    end(store, &called(lane(1), 4, call(None, 4)), 4, TxState::Failed, None).await;
}

/// Which key they came with is not known: they count as calls without one.
pub(crate) async fn call_after_the_upgrade(store: &dyn Store) {
    for n in [1, 2, 3] {
        let again = retried(&called(lane(1), n, call(None, n)), 100 + n);
        assert_eq!(replayed(admit(store, again).await).id, tx_id(n));
    }
    // A caller that has a key by now hears of them, too.
    for n in [1, 2, 3] {
        let again = retried(&called(lane(1), n, call(Some("a"), n)), 110 + n);
        assert_eq!(replayed(admit(store, again).await).id, tx_id(n));
    }
    let newest = retried(&called(lane(1), 6, call(None, 5)), 106);
    assert_eq!(replayed(admit(store, newest).await).id, tx_id(6), "of two with one nonce, the newest");
    admit_new(store, retried(&called(lane(1), 4, call(None, 4)), 104)).await;
    assert_eq!(store.tx_by_call(lane(1), &call(None, 6)).await.unwrap(), None);
    // Of both the history may go, and the nonce is still the newest's.
    for (n, slot) in [(5, 2), (6, 3)] {
        let new = called(lane(1), n, call(None, 5));
        sign(store, &new, n, slot).await;
        end(store, &new, n, TxState::Confirmed, Some(slot)).await;
    }
    admit_new(store, request(lane(1), 120)).await;
    assert!(forget(store, LATER).await >= 2);
    let told = admit(store, retried(&called(lane(1), 6, call(None, 5)), 107)).await;
    assert!(matches!(&told, Admission::Removed(kept) if kept.id == tx_id(6)), "{told:?}");
}

pub(crate) async fn a_nonce_given_again_for_the_same_is_a_replay_in_every_state(mut world: World) {
    let new = called(lane(1), 1, call(None, 7));
    let first = admit_new(world.store(), new.clone()).await;
    // Dearer is not other, and the options are no part of a call.
    let mut dearer = retried(&new, 2);
    dearer.request.payload.gas = Some(Gas(90_000));
    dearer.request.options.metadata = None;
    assert_eq!(replayed(admit(world.store(), dearer.clone()).await), first);
    sign(world.store(), &new, 1, 0).await;
    assert_eq!(replayed(admit(world.store(), dearer.clone()).await).status.slot, Some(Slot(0)));
    end(world.store(), &new, 1, TxState::Confirmed, Some(0)).await;
    world.enter("default").await;
    let store = world.store();
    let ended = replayed(admit(store, dearer.clone()).await);
    assert_eq!((ended.id, ended.status.told_hash()), (first.id, Some(hash(0))));
    assert_eq!(rows(store).await, 1);
    assert_eq!(store.journal(tx_id(1)).await.unwrap().len(), 2, "a replay writes nothing");
    assert!(store.tx(tx_id(2)).await.unwrap().is_none());
    assert_eq!(store.tx_by_call(lane(1), &call(None, 7)).await.unwrap(), Some(ended));
    assert_eq!(store.tx_by_call(lane(1), &call(None, 8)).await.unwrap(), None);
    assert_eq!(store.tx_by_call(lane(2), &call(None, 7)).await.unwrap(), None);
}

pub(crate) async fn a_nonce_given_again_for_something_else_is_refused_and_names_the_first(world: World) {
    let store = world.store();
    admit_new(store, called(lane(1), 1, call(None, 7))).await;
    assert_eq!(refused(&admit(store, called(lane(1), 2, call(None, 7))).await), tx_id(1));
    assert_eq!(rows(store).await, 1);
    assert_eq!(store.journal_after(JournalSeq(0), 10).await.unwrap().len(), 1);
}

pub(crate) async fn a_nonce_belongs_to_one_api_key_and_one_lane(world: World) {
    let store = world.store();
    let calls = [
        (lane(1), call(None, 7)),
        (lane(1), call(Some("a"), 7)),
        (lane(1), call(Some("b"), 7)),
        (lane(1), call(Some("a"), 8)),
        (lane(1), call(Some("a"), u64::MAX)),
        (lane(2), call(Some("a"), 7)),
        (lane_on(2, 1), call(Some("a"), 7)),
    ];
    for (n, (lane, call)) in (1..).zip(&calls) {
        admit_new(store, called(*lane, n, call.clone())).await;
    }
    for (n, (lane, call)) in (1..).zip(&calls) {
        let again = retried(&called(*lane, n, call.clone()), 100 + n);
        assert_eq!(replayed(admit(store, again).await).id, tx_id(n), "{lane} {call:?}");
    }
    // A transaction that came without one has no part in this.
    admit_new(store, request(lane(1), 50)).await;
    admit_new(store, request(lane(1), 51)).await;
}

pub(crate) async fn a_call_from_before_keys_is_repeated_by_the_caller_that_has_one_now(mut world: World) {
    let store = world.store();
    let by = |api_key: &str, n: u64, nonce: u64| called(lane(1), n, call(Some(api_key), nonce));
    let (first, second) = (called(lane(1), 1, call(None, 7)), called(lane(1), 2, call(None, 8)));
    admit_new(store, first.clone()).await;
    admit_new(store, second.clone()).await;
    for (id, api_key) in [(10, "a"), (11, "b")] {
        assert_eq!(replayed(admit(store, retried(&by(api_key, 1, 7), id)).await).id, tx_id(1));
    }
    // Something else is a call of its own, and from then on the nonce is that one's for this key.
    admit_new(store, by("a", 3, 7)).await;
    assert_eq!(replayed(admit(store, retried(&by("a", 3, 7), 12)).await).id, tx_id(3));
    assert_eq!(refused(&admit(store, retried(&by("a", 1, 7), 13)).await), tx_id(3));
    // What ended unsigned is free for all, and a call with a key is nobody else's.
    end(store, &second, 2, TxState::Failed, None).await;
    admit_new(store, retried(&by("a", 2, 8), 14)).await;
    admit_new(store, by("a", 4, 9)).await;
    admit_new(store, retried(&called(lane(1), 4, call(None, 9)), 15)).await;
    // In one group the first of two is there for the second.
    let group = [
        called(lane(1), 20, call(None, 20)),
        retried(&by("a", 20, 20), 21),
        by("a", 22, 22),
        retried(&called(lane(1), 22, call(None, 22)), 23),
    ];
    let answers = store.write(group.map(|new| Write::Admit(Box::new(new))).into()).await;
    let answers: Vec<Admission> = answers.into_iter().map(admission).collect();
    let ids = answers.iter().map(|answer| match answer {
        Admission::New(tx) | Admission::Replay(tx) => tx.id,
        other => panic!("{other:?}"),
    });
    assert_eq!(ids.collect::<Vec<_>>(), [20, 20, 22, 23].map(tx_id));
    let given = store.nonces_from(lane(1), &call(Some("b"), 7), 10).await.unwrap();
    assert_eq!(given, [7, 9, 20, 22].map(CallerNonce), "what may be taken for a retry is left out");
    // Also of what stayed.
    sign(store, &first, 1, 3).await;
    end(store, &first, 1, TxState::Confirmed, Some(3)).await;
    admit_new(store, request(lane(1), 30)).await;
    let before = rows(store).await;
    assert_eq!(forget(store, LATER).await, 2);
    world.enter("default").await;
    let store = world.store();
    let told = admit(store, retried(&by("b", 1, 7), 16)).await;
    assert!(matches!(&told, Admission::Removed(kept) if kept.id == tx_id(1)), "{told:?}");
    assert_eq!(rows(store).await, before - 2, "nothing was stored for the retry");
    admit_new(store, by("c", 5, 7)).await;
}

pub(crate) async fn a_call_that_ended_without_bytes_frees_its_nonce_and_one_with_bytes_does_not(
    world: World,
) {
    let store = world.store();
    let (unsigned, signed) = (called(lane(1), 1, call(None, 7)), called(lane(1), 2, call(None, 8)));
    admit_new(store, unsigned.clone()).await;
    admit_new(store, signed.clone()).await;
    sign(store, &signed, 2, 0).await;
    end(store, &unsigned, 1, TxState::Cancelled, None).await;
    end(store, &signed, 2, TxState::Cancelled, Some(0)).await;
    assert_eq!(store.tx_by_call(lane(1), &call(None, 7)).await.unwrap(), None);
    // Also for something else.
    admit_new(store, called(lane(1), 3, call(None, 7))).await;
    assert_eq!(refused(&admit(store, retried(&unsigned, 4)).await), tx_id(3));
    assert_eq!(replayed(admit(store, retried(&signed, 5)).await).id, tx_id(2));
}

pub(crate) async fn one_that_lost_its_slot_and_ended_while_it_waited_keeps_its_nonce(world: World) {
    let store = world.store();
    let new = called(lane(1), 1, call(None, 7));
    admit_new(store, new.clone()).await;
    sign(store, &new, 1, 0).await;
    let (token, version) = (own(store, lane(1)).await, 1);
    for (version, state) in [(version, TxState::Accepted), (version + 1, TxState::Cancelled)] {
        let mut waits = update(1, state, None);
        waits.status.first_hash = Some(hash(0));
        commit(
            store,
            landfall_core::ports::store::LaneCommit { txs: vec![waits], ..turn(lane(1), token, version) },
        )
        .await
        .unwrap();
    }
    let told = replayed(admit(store, retried(&new, 2)).await);
    assert_eq!((told.id, told.status.told_hash()), (tx_id(1), Some(hash(0))), "its bytes were out once");
}

pub(crate) async fn a_call_is_known_by_what_stayed_when_its_history_is_gone(mut world: World) {
    let new = called(lane(1), 1, call(Some("a"), 7));
    admit_new(world.store(), new.clone()).await;
    sign(world.store(), &new, 1, 3).await;
    end(world.store(), &new, 1, TxState::Confirmed, Some(3)).await;
    let unsigned = called(lane(1), 2, call(Some("a"), 8));
    admit_new(world.store(), unsigned.clone()).await;
    end(world.store(), &unsigned, 2, TxState::Failed, None).await;
    admit_new(world.store(), request(lane(1), 9)).await;
    assert_eq!(forget(world.store(), LATER).await, 2);
    world.enter("default").await;
    let store = world.store();
    assert_eq!(store.tx_by_call(lane(1), &call(Some("a"), 7)).await.unwrap(), None);
    let kept = store.kept_by_call(lane(1), &call(Some("a"), 7)).await.unwrap().unwrap();
    assert_eq!((kept.id, kept.hash, kept.status().told_hash()), (tx_id(1), Some(hash(301)), Some(hash(300))));
    let Admission::Removed(told) = admit(store, retried(&new, 4)).await else {
        panic!("not told what stayed")
    };
    assert_eq!(told, kept);
    assert_eq!(refused(&admit(store, called(lane(1), 5, call(Some("a"), 7))).await), tx_id(1));
    assert_eq!(store.kept_by_call(lane(1), &call(None, 7)).await.unwrap(), None);
    assert_eq!(store.kept_by_call(lane(1), &call(Some("a"), 8)).await.unwrap(), None, "it was free");
    // Its first hash leads to it, on its chain.
    assert_eq!(store.kept_by_first_hash(lane(1).chain, hash(300)).await.unwrap(), Some(kept));
    assert_eq!(store.kept_by_first_hash(lane_on(2, 1).chain, hash(300)).await.unwrap(), None);
    assert_eq!(store.kept_by_first_hash(lane(1).chain, hash(301)).await.unwrap(), None);
    assert_eq!(rows(store).await, 1, "nothing came in");
    admit_new(store, called(lane(1), 6, call(Some("b"), 7))).await;
    admit_new(store, retried(&unsigned, 7)).await;
}

pub(crate) async fn a_key_that_is_known_says_what_is_meant_whatever_the_nonce(world: World) {
    let store = world.store();
    let keyed = |n: u64, key_text: &str, nonce: u64| {
        let mut new = called(lane(1), n, call(None, nonce));
        new.request.request_id = Some(key(key_text));
        new
    };
    let (one, two) = (keyed(1, "one", 7), keyed(2, "two", 8));
    admit_new(store, one.clone()).await;
    admit_new(store, two.clone()).await;
    let with = |new: &NewTransaction, id: u64, nonce: u64| {
        let mut again = retried(new, id);
        again.request.at_once = called(lane(1), 1, call(None, nonce)).request.at_once;
        again
    };
    assert_eq!(replayed(admit(store, with(&one, 3, 8)).await).id, tx_id(1), "two's nonce");
    assert_eq!(replayed(admit(store, with(&one, 4, 99)).await).id, tx_id(1), "a new one");
    // Without a key the nonce says it; another key says that it is another request.
    let mut bare = with(&one, 5, 7);
    bare.request.request_id = None;
    assert_eq!(replayed(admit(store, bare).await).id, tx_id(1));
    let mut other = with(&one, 6, 7);
    other.request.request_id = Some(key("three"));
    assert_eq!(refused(&admit(store, other).await), tx_id(1));
    assert_eq!(rows(store).await, 2);
}

pub(crate) async fn nonces_repeated_in_one_group_are_replays_of_the_first(world: World) {
    let store = world.store();
    let first = called(lane(1), 1, call(Some("a"), 7));
    let group = [
        first.clone(),
        retried(&first, 2),
        called(lane(1), 3, call(Some("a"), 7)),
        called(lane(1), 4, call(Some("a"), 6)),
        request(lane(1), 5),
    ];
    let answers = store.write(group.map(|new| Write::Admit(Box::new(new))).into()).await;
    let mut answers = answers.into_iter().map(admission);
    assert!(matches!(answers.next(), Some(Admission::New(tx)) if tx.id == tx_id(1)));
    assert_eq!(replayed(answers.next().unwrap()).id, tx_id(1));
    assert_eq!(refused(&answers.next().unwrap()), tx_id(1));
    assert!(matches!(answers.next(), Some(Admission::New(tx)) if tx.id == tx_id(4)));
    assert!(matches!(answers.next(), Some(Admission::New(_))));
    assert_eq!(rows(store).await, 3);
}

pub(crate) async fn a_hundred_concurrent_admissions_of_one_call_make_one_row(world: World) {
    let store = world.shared();
    let mut tasks = JoinSet::new();
    for n in 1..=100 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let new = retried(&called(lane(1), 1, call(Some("a"), 7)), n);
            admit(&*store, new).await
        });
    }
    let mut told = BTreeSet::new();
    let mut new = 0;
    while let Some(admission) = tasks.join_next().await {
        match admission.unwrap() {
            Admission::New(tx) => {
                new += 1;
                told.insert(tx.id);
            }
            other => drop(told.insert(replayed(other).id)),
        }
    }
    assert_eq!((new, told.len()), (1, 1));
    assert_eq!(rows(&*store).await, 1);
}

pub(crate) async fn the_nonces_that_a_caller_gave_are_listed_from_a_number_on(world: World) {
    let store = world.store();
    for (n, nonce) in (1..).zip([5, 9, 6, 2, 7]) {
        admit_new(store, called(lane(1), n, call(Some("a"), nonce))).await;
    }
    admit_new(store, called(lane(1), 6, call(None, 8))).await;
    let kept = called(lane(1), 7, call(Some("a"), 8));
    admit_new(store, kept.clone()).await;
    sign(store, &kept, 7, 0).await;
    end(store, &kept, 7, TxState::Confirmed, Some(0)).await;
    admit_new(store, request(lane(1), 10)).await;
    assert_eq!(forget(store, LATER).await, 1);
    let from = async |nonce: u64, limit: u32| {
        let found = store.nonces_from(lane(1), &call(Some("a"), nonce), limit).await.unwrap();
        found.into_iter().map(|CallerNonce(nonce)| nonce).collect::<Vec<_>>()
    };
    assert_eq!(from(5, 10).await, [5, 6, 7, 8, 9]);
    assert_eq!(from(6, 2).await, [6, 7]);
    assert!(from(10, 10).await.is_empty());
    assert!(store.nonces_from(lane(9), &call(None, 0), 10).await.unwrap().is_empty(), "an unknown lane");
}

/// More than are read at once of anything, before the calls, between them and behind them.
pub(crate) async fn a_call_is_found_among_hundreds_wherever_its_transaction_is_by_then(mut world: World) {
    const EACH: u64 = 150;
    const CALLS: u64 = 4 * EACH;
    let store = world.store();
    // In an order that is not that of their nonces, and each behind one that is no call.
    let numbers: Vec<u64> = (0..CALLS).map(|n| n * 7 % CALLS).collect();
    let new = |n: u64| called(lane(1), 1 + n, call(Some("a"), 10_000 + n));
    let other = |n: u64| retried(&request(lane(1), 1 + n), 100_000 + n);
    for chunk in numbers.chunks(100) {
        let group = chunk.iter().flat_map(|n| [other(*n), new(*n)]);
        for answer in store.write(group.map(|new| Write::Admit(Box::new(new))).collect()).await {
            assert!(matches!(admission(answer), Admission::New(_)));
        }
    }
    // A quarter of them waits, one has bytes, one has ended, and of one only that is known. In the order of their slots.
    let token = own(store, lane(1)).await;
    let mut version = 0;
    for (slot, n) in (0..).zip(numbers.iter().copied().filter(|n| n % 4 > 0)) {
        let mut bound = bind(lane(1), token, version, 1 + n, slot);
        bound.txs[0].status.hash = Some(hash(slot * 100));
        commit(store, bound).await.unwrap();
        version += 1;
    }
    for (slot, n) in (0..).zip(numbers.iter().copied().filter(|n| n % 4 > 0)).filter(|(_, n)| n % 4 > 1) {
        let mut last = turn(lane(1), token, version);
        let mut ended = update(1 + n, TxState::Confirmed, Some(slot));
        ended.status.hash = Some(hash(slot * 100));
        ended.status.updated_at = if n % 4 == 3 { Millis(2_000) } else { Millis(9_000) };
        last.txs.push(ended);
        last.closed.push(Slot(slot));
        commit(store, last).await.unwrap();
        version += 1;
    }
    assert_eq!(u64::from(forget(store, LATER).await), EACH);
    world.enter("default").await;
    let store = world.store();
    for n in numbers {
        let told = admit(store, retried(&new(n), 500_000 + n)).await;
        match (n % 4, &told) {
            (3, Admission::Removed(kept)) => assert_eq!(kept.id, tx_id(1 + n)),
            (0..3, Admission::Replay(tx)) => assert_eq!(tx.id, tx_id(1 + n)),
            _ => panic!("call {n}: {told:?}"),
        }
        let known = store.tx_by_call(lane(1), &call(Some("a"), 10_000 + n)).await.unwrap();
        assert_eq!(known.map(|tx| tx.id), (n % 4 < 3).then(|| tx_id(1 + n)));
    }
    let (first, limit) = (call(Some("a"), 10_000), u32::try_from(CALLS).unwrap());
    let given = store.nonces_from(lane(1), &first, 2 * limit).await.unwrap();
    assert_eq!(given, (0..CALLS).map(|n| CallerNonce(10_000 + n)).collect::<Vec<_>>());
}
