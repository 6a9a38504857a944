//! What a lane's owner loads, and which lanes have something to do.

use landfall_core::attempt::Attempt;
use landfall_core::ports::store::{CommandKind, LaneRow, ResetRecord, Store, Write};
use landfall_core::request::Payload;
use landfall_core::transaction::{Content, Status, Terms, TxState};
use landfall_core::{ChainId, LaneId, LaneVersion, Millis, Slot, Token};

use crate::fixtures::*;
use crate::world::World;

pub(crate) async fn an_unknown_lane_is_empty_with_token_zero(world: World) {
    let store = world.store();
    let loaded = store.load_lane(lane(1)).await.unwrap();
    assert_eq!((loaded.lane, loaded.token, loaded.version), (lane(1), Token(0), LaneVersion(0)));
    assert_eq!(loaded.row, LaneRow::default());
    assert!(loaded.bound.is_empty() && loaded.attempts.is_empty());
    assert!(store.waiting(lane(1), 10).await.unwrap().is_empty());
    assert!(store.commands(lane(1), 10).await.unwrap().is_empty());
    assert!(store.lane(lane(1)).await.unwrap().is_none());
    assert!(store.tx(tx_id(1)).await.unwrap().is_none());
    assert!(store.lanes_with_work().await.unwrap().is_empty());
}

pub(crate) async fn load_lane_returns_what_is_bound_and_open_and_nothing_else(world: World) {
    let store = world.store();
    for n in 1..=4 {
        admit_new(store, request(lane(1), n)).await;
    }
    admit_new(store, request(lane(2), 9)).await;
    let token = own(store, lane(1)).await;
    // Slot 12 is bound before slot 10, slot 11 is filled for nobody, transaction 3 ends, transaction 4 waits.
    commit(store, bind(lane(1), token, 0, 1, 12)).await.unwrap();
    commit(store, bind(lane(1), token, 1, 2, 10)).await.unwrap();
    commit(store, bind(lane(1), token, 2, 3, 9)).await.unwrap();
    let mut more = turn(lane(1), token, 3);
    more.attempts = vec![attempt(11, 0, None), attempt(10, 1, Some(2))];
    more.txs.push(update(3, TxState::Confirmed, Some(9)));
    more.closed.push(Slot(9));
    commit(store, more).await.unwrap();
    let other = own(store, lane(2)).await;
    commit(store, bind(lane(2), other, 0, 9, 10)).await.unwrap();

    let loaded = store.load_lane(lane(1)).await.unwrap();
    assert_eq!((loaded.token, loaded.version), (token, LaneVersion(4)));
    assert_eq!(ids(&loaded.bound), [tx_id(2), tx_id(1)]);
    let expected =
        [attempt(10, 0, Some(2)), attempt(10, 1, Some(2)), attempt(11, 0, None), attempt(12, 0, Some(1))];
    assert_eq!(loaded.attempts, expected);
}

pub(crate) async fn attempts_of_closed_slots_are_history_that_a_transaction_still_shows(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    let token = own(store, lane(1)).await;
    commit(store, bind(lane(1), token, 0, 1, 7)).await.unwrap();
    let mut displaced = turn(lane(1), token, 1);
    displaced.txs.push(update(1, TxState::Accepted, None));
    displaced.closed.push(Slot(7));
    commit(store, displaced).await.unwrap();
    commit(store, bind(lane(1), token, 2, 1, 8)).await.unwrap();
    assert_eq!(store.load_lane(lane(1)).await.unwrap().attempts, [attempt(8, 0, Some(1))]);
    let record = store.tx(tx_id(1)).await.unwrap().unwrap();
    assert_eq!(record.attempts, [attempt(7, 0, Some(1)), attempt(8, 0, Some(1))]);
}

/// The slots and ordinals that an owner loads, before and after a restart.
async fn open_attempts(store: &dyn Store) -> Vec<(u64, u32)> {
    let attempts = store.load_lane(lane(1)).await.unwrap().attempts;
    attempts.iter().map(|attempt| (attempt.slot.0, attempt.ordinal)).collect()
}

pub(crate) async fn slots_are_closed_in_any_order(mut world: World) {
    let token = own(world.store(), lane(1)).await;
    let mut first = turn(lane(1), token, 0);
    first.attempts = [3, 4, 5, 6, 8, 9].map(|slot| attempt(slot, 0, None)).into();
    first.attempts.push(Attempt { slot: Slot(u64::MAX), ..attempt(7, 0, None) });
    commit(world.store(), first).await.unwrap();
    let mut open = vec![3, 4, 5, 6, 8, 9, u64::MAX];
    // Above an open one; the lowest; one that nobody has, and twice; over a hole; the rest.
    for (version, closed) in (1..).zip([vec![5, 9], vec![3], vec![3, 7], vec![4], vec![u64::MAX], vec![6, 8]])
    {
        let mut close = turn(lane(1), token, version);
        close.closed = closed.iter().map(|slot| Slot(*slot)).collect();
        commit(world.store(), close).await.unwrap();
        open.retain(|slot| !closed.contains(slot));
        world.enter("default").await;
        let left: Vec<(u64, u32)> = open.iter().map(|slot| (*slot, 0)).collect();
        assert_eq!(open_attempts(world.store()).await, left, "after {closed:?}");
        let highest = world.store().load_lane(lane(1)).await.unwrap().highest_signed;
        assert_eq!(highest, Some(Slot(u64::MAX)), "history counts");
        let has_work = !world.store().lanes_with_work().await.unwrap().is_empty();
        assert_eq!(has_work, !left.is_empty(), "after {closed:?}");
    }
}

pub(crate) async fn a_slot_that_is_filled_again_is_open_and_its_first_life_stays_history(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    let token = own(store, lane(1)).await;
    let mut first = turn(lane(1), token, 0);
    first.attempts = vec![attempt(3, 0, Some(1)), attempt(4, 0, None), attempt(5, 0, None)];
    commit(store, first).await.unwrap();
    let mut close = turn(lane(1), token, 1);
    close.txs.push(update(1, TxState::Confirmed, Some(3)));
    close.closed = vec![Slot(3), Slot(4)];
    commit(store, close).await.unwrap();
    assert_eq!(open_attempts(store).await, [(5, 0)]);
    // The chain took it back, and an operator lets it be filled; and one closes in the commit that stores it.
    let mut again = turn(lane(1), token, 2);
    again.attempts = vec![attempt(3, 7, None), attempt(4, 7, None), attempt(6, 0, None)];
    again.closed = vec![Slot(4), Slot(6)];
    commit(store, again).await.unwrap();
    let loaded = store.load_lane(lane(1)).await.unwrap();
    assert_eq!(loaded.attempts, [attempt(3, 7, None), attempt(5, 0, None)]);
    assert!(loaded.ended.is_empty(), "the transaction of its first life is history");
    let mut last = turn(lane(1), token, 3);
    last.closed = vec![Slot(5), Slot(3)];
    commit(store, last).await.unwrap();
    assert_eq!(open_attempts(store).await, []);
    assert_eq!(store.load_lane(lane(1)).await.unwrap().highest_signed, Some(Slot(6)));
    assert!(store.lanes_with_work().await.unwrap().is_empty());
}

pub(crate) async fn waiting_is_found_by_state_oldest_first_up_to_the_limit(world: World) {
    let store = world.store();
    for n in 1..=6 {
        admit_new(store, request(lane(1), n)).await;
    }
    let token = own(store, lane(1)).await;
    let mut states = bind(lane(1), token, 0, 1, 0);
    states.txs.push(update(3, TxState::Simulated, None));
    states.txs.push(update(4, TxState::AwaitingApproval, None));
    states.txs.push(update(5, TxState::Failed, None));
    commit(store, states).await.unwrap();
    assert_eq!(ids(&store.waiting(lane(1), 10).await.unwrap()), [2, 3, 4, 6].map(tx_id));
    assert_eq!(ids(&store.waiting(lane(1), 2).await.unwrap()), [2, 3].map(tx_id));
    assert!(store.waiting(lane(1), 0).await.unwrap().is_empty());
}

pub(crate) async fn what_waits_is_measured_as_it_is_stored_and_what_does_not_wait_is_not(world: World) {
    let store = world.store();
    assert_eq!(store.waiting_bytes(lane(1)).await.unwrap(), 0, "of a lane that nobody knows");
    let sized = |lane: LaneId, n: u64, bytes: usize| {
        let mut new = request(lane, n);
        // Letters beyond ASCII: bytes are meant, not characters.
        new.request.options.metadata = Some("\"ä\"".to_owned());
        new.request.payload.data = vec![0xab; bytes].into();
        let status = Status::accepted(new.request.accepted_at);
        let texts = [serde_json::to_string(&new.request).unwrap(), serde_json::to_string(&status).unwrap()];
        (new, texts.iter().map(String::len).sum::<usize>() as u64)
    };
    let (first, first_length) = sized(lane(1), 1, 10);
    let (second, second_length) = sized(lane(1), 2, 100_000);
    let (others, others_length) = sized(lane(2), 3, 50_000);
    for new in [first, second, others] {
        admit_new(store, new).await;
    }
    assert!(second_length > 200_000);
    assert_eq!(store.waiting_bytes(lane(1)).await.unwrap(), first_length + second_length);
    assert_eq!(store.waiting_bytes(lane(2)).await.unwrap(), others_length);
    let token = own(store, lane(1)).await;
    commit(store, bind(lane(1), token, 0, 2, 0)).await.unwrap();
    assert_eq!(store.waiting_bytes(lane(1)).await.unwrap(), first_length, "what has a slot waits no more");

    // A content that replaces another is in a command at first, and then beside the one before.
    let payload = Payload { data: vec![0xcd; 30_000].into(), ..Payload::default() };
    let kind =
        CommandKind::Replace { tx: tx_id(1), payload: Box::new(payload.clone()), terms: Terms::default() };
    write_one(store, Write::Command(Box::new(command(lane(1), 7, kind)))).await.unwrap();
    let told = store.waiting_bytes(lane(1)).await.unwrap() - first_length;
    assert!((60_000..62_000).contains(&told), "{told}");
    let mut apply = turn(lane(1), token, 1);
    let mut replaced = update(1, TxState::Accepted, None);
    replaced.status.later.push(Content::Payload(payload));
    apply.txs.push(replaced);
    apply.commands_done.push(command_id(7));
    commit(store, apply).await.unwrap();
    let told = store.waiting_bytes(lane(1)).await.unwrap() - first_length;
    assert!((60_000..62_000).contains(&told), "{told}");
}

pub(crate) async fn a_requeued_transaction_waits_in_its_old_place(world: World) {
    let store = world.store();
    for n in 1..=3 {
        admit_new(store, request(lane(1), n)).await;
    }
    let token = own(store, lane(1)).await;
    commit(store, bind(lane(1), token, 0, 1, 0)).await.unwrap();
    commit(store, bind(lane(1), token, 1, 2, 1)).await.unwrap();
    assert_eq!(ids(&store.waiting(lane(1), 10).await.unwrap()), [tx_id(3)]);
    let mut requeue = turn(lane(1), token, 2);
    requeue.txs.push(update(1, TxState::Accepted, None));
    requeue.closed.push(Slot(0));
    commit(store, requeue).await.unwrap();
    assert_eq!(ids(&store.waiting(lane(1), 10).await.unwrap()), [tx_id(1), tx_id(3)]);
    assert_eq!(ids(&store.load_lane(lane(1)).await.unwrap().bound), [tx_id(2)]);
}

pub(crate) async fn a_reserved_slot_without_bytes_is_bound(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    let token = own(store, lane(1)).await;
    let mut reserve = turn(lane(1), token, 0);
    reserve.txs.push(update(1, TxState::Simulated, Some(3)));
    commit(store, reserve).await.unwrap();
    assert!(store.waiting(lane(1), 10).await.unwrap().is_empty());
    assert_eq!(ids(&store.load_lane(lane(1)).await.unwrap().bound), [tx_id(1)]);
}

pub(crate) async fn a_lane_has_work_until_everything_in_it_ended(world: World) {
    let store = world.store();
    admit_new(store, request(lane(2), 2)).await;
    admit_new(store, request(lane(1), 1)).await;
    assert_eq!(store.lanes_with_work().await.unwrap(), [lane(1), lane(2)]);
    let token = own(store, lane(1)).await;
    commit(store, bind(lane(1), token, 0, 1, 0)).await.unwrap();
    assert_eq!(store.lanes_with_work().await.unwrap(), [lane(1), lane(2)]);
    let mut end = turn(lane(1), token, 1);
    end.txs.push(update(1, TxState::Confirmed, Some(0)));
    commit(store, end).await.unwrap();
    assert_eq!(store.lanes_with_work().await.unwrap(), [lane(1), lane(2)], "its slot is not closed yet");
    let mut close = turn(lane(1), token, 2);
    close.closed.push(Slot(0));
    commit(store, close).await.unwrap();
    assert_eq!(store.lanes_with_work().await.unwrap(), [lane(2)]);
    let pause = Write::Command(Box::new(command(lane(1), 1, CommandKind::Pause)));
    write_one(store, pause).await.unwrap();
    assert_eq!(store.lanes_with_work().await.unwrap(), [lane(1), lane(2)]);
}

pub(crate) async fn the_row_of_a_lane_comes_back_as_it_was_stored(world: World) {
    let store = world.store();
    let token = own(store, lane(1)).await;
    let row = LaneRow {
        history: Some(Slot(2)),
        cursor: Some(Slot(41)),
        chain_count: Some(Slot(39)),
        returned: [Slot(40), Slot(3)].into(),
        paused: true,
        refilled: 2,
        spend: landfall_core::ports::store::Spend {
            day: 20_000,
            fees: landfall_core::Wei(alloy_primitives::U256::MAX),
        },
        disabled: true,
        resuming: Some(command_id(3)),
        resets: vec![ResetRecord { at: Millis(7), from: Slot(43), to: Slot(41), given_up: 2 }],
        accepted_below: Some(Slot(4)),
        accepted_ahead: 9,
        widest: 16,
        older_count: Some(Slot(6)),
        compared_from: Some(Slot(2)),
        passed: Some(Slot(5)),
        forgotten: std::collections::BTreeMap::from([(Slot(3), u64::MAX)]),
    };
    let mut change = turn(lane(1), token, 0);
    change.row = row.clone();
    commit(store, change).await.unwrap();
    assert_eq!(store.load_lane(lane(1)).await.unwrap().row, row);
    assert_eq!(store.lane(lane(1)).await.unwrap().unwrap().row, row);
}

pub(crate) async fn the_largest_numbers_come_back_as_they_were_stored(world: World) {
    let store = world.store();
    let far = LaneId { chain: ChainId(u64::MAX), signer: account(1) };
    for n in 1..=2 {
        admit_new(store, request(far, n)).await;
    }
    let token = own(store, far).await;
    let mut last = turn(far, token, 0);
    last.txs = vec![update(1, TxState::Accepted, Some(u64::MAX)), update(2, TxState::Accepted, Some(1))];
    last.attempts.push(attempt(1, 0, Some(2)));
    let mut highest = attempt(1, u32::MAX, Some(1));
    highest.slot = Slot(u64::MAX);
    last.attempts.push(highest.clone());
    commit(store, last).await.unwrap();
    let loaded = store.load_lane(far).await.unwrap();
    assert_eq!(ids(&loaded.bound), [tx_id(2), tx_id(1)]);
    assert_eq!(loaded.attempts, [attempt(1, 0, Some(2)), highest]);
    assert_eq!(store.lanes_with_work().await.unwrap(), [far]);
}
