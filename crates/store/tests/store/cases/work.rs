//! What a lane's owner loads, and which lanes have something to do.

use landfall_core::ports::store::{CommandKind, LaneRow, Write};
use landfall_core::transaction::TxState;
use landfall_core::{ChainId, LaneId, LaneVersion, Slot, Token};

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
