//! History is removed in small steps, and keys stay taken (E22, I9, I12).

use landfall_core::journal::{Entry, NewEntry};
use landfall_core::ports::store::{
    Admission, CommandKind, Forget, Forgotten, Kept, Store, TxQuery, Write, Written,
};
use landfall_core::request::NewTransaction;
use landfall_core::transaction::TxState;
use landfall_core::{JournalSeq, Millis, QueueOrder, Slot};

use crate::fixtures::*;
use crate::world::World;

/// Everything that [`ended`] has ended is older than this.
const LATER: Millis = Millis(5_000);

async fn step(store: &dyn Store, before: Millis, after: i64, limit: u32) -> Forgotten {
    let step = Forget { before, after: QueueOrder(after), limit };
    match write_one(store, Write::Forget(step)).await.unwrap() {
        Written::Forgotten(forgotten) => forgotten,
        other => panic!("not an answer to it: {other:?}"),
    }
}

/// Everything that may go, goes.
pub(crate) async fn forget(store: &dyn Store, before: Millis) -> u32 {
    let (mut removed, mut after) = (0, 0);
    loop {
        let done = step(store, before, after, 2).await;
        removed += done.removed;
        match done.next {
            Some(next) => after = next.0,
            None => return removed,
        }
    }
}

/// A transaction that was in slot `n` and is confirmed, with two attempts and a journal.
async fn ended(store: &dyn Store, new: &NewTransaction, n: u64) -> Kept {
    admit_new(store, new.clone()).await;
    let token = own(store, new.lane).await;
    let version = store.load_lane(new.lane).await.unwrap().version.0;
    let mut bound = bind(new.lane, token, version, n, n);
    bound.attempts.push(attempt(n, 1, Some(n)));
    commit(store, bound).await.unwrap();
    let mut end = turn(new.lane, token, version + 1);
    end.row.cursor = Some(Slot(n + 1));
    let mut status = update(n, TxState::Confirmed, Some(n));
    status.status.hash = Some(hash(n * 100 + 1));
    end.txs.push(status);
    end.closed.push(Slot(n));
    commit(store, end).await.unwrap();
    Kept::of(&store.tx(new.id).await.unwrap().unwrap().tx)
}

async fn all(store: &dyn Store) -> usize {
    store.txs(&TxQuery { limit: 1_000, ..TxQuery::default() }).await.unwrap().len()
}

pub(crate) async fn what_ended_long_ago_goes_and_its_key_and_end_stay(mut world: World) {
    let new = keyed(lane(1), 1, "a");
    let kept = ended(world.store(), &new, 1).await;
    // The newest is not what is looked at here.
    admit_new(world.store(), request(lane(1), 9)).await;
    assert_eq!(forget(world.store(), LATER).await, 1);
    world.enter("default").await;
    let store = world.store();
    assert!(store.tx(new.id).await.unwrap().is_none());
    // Who follows it must still learn how it ended.
    let statuses = store.statuses(&[new.id]).await.unwrap();
    assert_eq!(
        statuses.iter().map(|(id, status)| (*id, status.state)).collect::<Vec<_>>(),
        [(new.id, TxState::Confirmed)]
    );
    assert!(store.tx_by_request(new.lane.signer, &key("a")).await.unwrap().is_none());
    assert!(store.journal(new.id).await.unwrap().is_empty());
    assert_eq!(all(store).await, 1);
    let by_hash = TxQuery { hash: kept.hash, limit: 10, ..TxQuery::default() };
    assert!(store.txs(&by_hash).await.unwrap().is_empty());
    let outbox = store.journal_after(JournalSeq(0), 100).await.unwrap();
    assert!(outbox.iter().all(|row| row.tx == Some(tx_id(9))), "{outbox:?}");

    assert_eq!(kept.state, TxState::Confirmed);
    assert_eq!(store.kept(new.id).await.unwrap(), Some(kept.clone()));
    assert_eq!(store.kept_by_request(new.lane.signer, &key("a")).await.unwrap(), Some(kept));
    assert_eq!(store.kept_by_request(account(2), &key("a")).await.unwrap(), None);
    assert_eq!(forget(store, LATER).await, 0, "it goes once");
}

pub(crate) async fn a_key_is_free_for_the_next_of_a_group_where_the_one_before_was_told_what_stayed(
    world: World,
) {
    let store = world.store();
    ended(store, &request(lane(1), 1), 1).await;
    admit_new(store, request(lane(1), 9)).await;
    forget(store, LATER).await;
    let new = keyed(lane(1), 2, "b");
    let under_a_taken_id = retried(&new, 1);
    let group = [under_a_taken_id, new.clone()].map(|new| Write::Admit(Box::new(new)));
    let answers = store.write(group.to_vec()).await;
    assert!(is_failed(&answers[0]), "{answers:?}");
    let Ok(Written::Admitted(admission)) = &answers[1] else { panic!("not admitted: {answers:?}") };
    assert!(matches!(&**admission, Admission::New(tx) if tx.id == new.id), "{admission:?}");
    assert!(store.tx(new.id).await.unwrap().is_some(), "it was accepted, so it is there");
}

pub(crate) async fn a_retry_after_the_removal_is_told_what_stayed_and_writes_nothing(world: World) {
    let store = world.store();
    let new = keyed(lane(1), 1, "a");
    let kept = ended(store, &new, 1).await;
    admit_new(store, request(lane(1), 9)).await;
    forget(store, LATER).await;
    let rows = store.journal_after(JournalSeq(0), 100).await.unwrap().len();
    for again in [retried(&new, 2), new.clone()] {
        let Admission::Removed(told) = admit(store, again).await else { panic!("not told what stayed") };
        assert_eq!(told, kept);
    }
    // Also on another chain, and with another content: the key is the signer's, for ever.
    for other in [keyed(lane_on(2, 1), 3, "a"), keyed(lane(1), 4, "a")] {
        assert!(matches!(admit(store, other).await, Admission::Conflict(id) if id == new.id));
    }
    let other = retried(&request(lane(1), 5), 1);
    assert!(is_failed(&write_one(store, Write::Admit(Box::new(other))).await), "its id is taken as well");
    assert_eq!(all(store).await, 1);
    assert_eq!(store.journal_after(JournalSeq(0), 100).await.unwrap().len(), rows);
    assert!(store.lane(lane_on(2, 1)).await.unwrap().is_none(), "not even a lane");
    admit_new(store, keyed(lane(2), 6, "a")).await;
}

pub(crate) async fn what_has_not_ended_or_ended_lately_stays(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    ended(store, &request(lane(2), 2), 2).await;
    admit_new(store, request(lane(3), 3)).await;
    let token = own(store, lane(3)).await;
    commit(store, bind(lane(3), token, 0, 3, 7)).await.unwrap();
    // Ended, and an attempt of it may still be in a pool.
    admit_new(store, request(lane(4), 4)).await;
    let token = own(store, lane(4)).await;
    commit(store, bind(lane(4), token, 0, 4, 7)).await.unwrap();
    let mut end = turn(lane(4), token, 1);
    end.txs.push(update(4, TxState::Failed, Some(7)));
    commit(store, end).await.unwrap();
    admit_new(store, request(lane(1), 9)).await;
    assert_eq!(forget(store, Millis(2_000)).await, 0, "it ended at that time, not before");
    assert_eq!(forget(store, Millis(1_000)).await, 0, "nothing was accepted before that time");
    assert_eq!(forget(store, LATER).await, 1);
    assert!(store.kept(tx_id(2)).await.unwrap().is_some());
    for n in [1, 3, 4, 9] {
        assert!(store.tx(tx_id(n)).await.unwrap().is_some(), "{n}");
    }
    let bound = store.load_lane(lane(3)).await.unwrap();
    assert_eq!((bound.bound.len(), bound.attempts.len()), (1, 1));
    assert_eq!(store.waiting(lane(1), 10).await.unwrap().len(), 2);
}

pub(crate) async fn a_step_looks_at_no_more_than_it_may_and_says_where_to_go_on(world: World) {
    let store = world.store();
    for n in 1..=7 {
        ended(store, &request(lane(1), n), n).await;
    }
    admit_new(store, request(lane(1), 9)).await;
    let mut after = 0;
    for _ in 0..2 {
        let done = step(store, LATER, after, 3).await;
        assert_eq!(done.removed, 3);
        after = done.next.expect("there is more").0;
    }
    assert_eq!(all(store).await, 2);
    assert_eq!(step(store, LATER, after, 3).await, Forgotten { removed: 1, next: None });
    // One that cannot go does not keep the next steps from going on.
    assert_eq!(step(store, LATER, 0, 1).await.removed, 0);
}

pub(crate) async fn numbers_that_were_given_out_never_come_back(world: World) {
    let store = world.store();
    for n in 1..=3 {
        ended(store, &request(lane(1), n), n).await;
    }
    let order = store.txs(&TxQuery { limit: 1, ..TxQuery::default() }).await.unwrap()[0].order;
    let seq = store.journal_after(JournalSeq(0), 100).await.unwrap().last().unwrap().seq;
    forget(store, LATER).await;
    let next = admit_new(store, request(lane(1), 4)).await;
    assert!(next.order > order, "{} after {order}", next.order);
    let told = store.journal(next.id).await.unwrap();
    assert!(told[0].seq > seq, "{} after {seq}", told[0].seq);
}

pub(crate) async fn a_lane_goes_on_after_its_history_was_removed(world: World) {
    let store = world.store();
    let before = ended(store, &request(lane(1), 1), 1).await;
    admit_new(store, request(lane(1), 9)).await;
    let owner = store.load_lane(lane(1)).await.unwrap();
    assert_eq!(forget(store, LATER).await, 1);
    let mut next = bind(lane(1), owner.token, owner.version.0, 9, 2);
    next.journal.push(NewEntry {
        tx: None,
        at: Millis(2_500),
        entry: Entry::LaneHeld { text: "why".into() },
        by: None,
    });
    commit(store, next).await.expect("its owner does not notice");
    let mut late = turn(lane(1), owner.token, owner.version.0 + 1);
    late.txs.push(update(1, TxState::Failed, None));
    assert!(is_failed(&commit(store, late).await), "what was removed cannot be written any more");
    assert_eq!(store.kept(tx_id(1)).await.unwrap(), Some(before));
}

pub(crate) async fn commands_go_with_their_transaction_and_those_of_a_lane_by_their_age(world: World) {
    let store = world.store();
    let insert = async |n: u64, kind: CommandKind| {
        write_one(store, Write::Command(Box::new(command(lane(1), n, kind)))).await.unwrap();
    };
    ended(store, &request(lane(1), 1), 1).await;
    admit_new(store, request(lane(1), 9)).await;
    for n in [10, 11] {
        insert(n, CommandKind::Cancel { tx: tx_id(1) }).await;
    }
    insert(12, CommandKind::Cancel { tx: tx_id(9) }).await;
    for n in [13, 14, 6_000] {
        insert(n, CommandKind::Pause).await;
    }
    let token = store.load_lane(lane(1)).await.unwrap().token;
    let version = store.load_lane(lane(1)).await.unwrap().version.0;
    let mut apply = turn(lane(1), token, version);
    apply.row.cursor = Some(Slot(2));
    apply.commands_done = [10, 12, 13, 6_000].map(command_id).to_vec();
    commit(store, apply).await.unwrap();
    assert_eq!(forget(store, LATER).await, 1);
    let stays = async |n: u64| store.command(command_id(n)).await.unwrap().is_some();
    assert!(!stays(10).await, "of a transaction whose history went");
    assert!(stays(11).await && stays(14).await, "its lane has not applied it yet");
    assert!(stays(12).await, "its transaction is there");
    assert!(!stays(13).await, "of the lane, applied and old");
    assert!(stays(6_000).await, "of the lane, applied and young");
    let mut apply = turn(lane(1), token, version + 1);
    apply.row.cursor = Some(Slot(2));
    apply.commands_done = [11, 14].map(command_id).to_vec();
    commit(store, apply).await.unwrap();
    forget(store, LATER).await;
    assert!(!stays(11).await && !stays(14).await, "applied meanwhile");
}
