//! One writer per lane (rule 6): every write raises the version under the token, or is refused.

use landfall_core::ports::store::{Write, WriteError, Written};
use landfall_core::transaction::TxState;
use landfall_core::{LaneVersion, Token};

use crate::fixtures::*;
use crate::world::World;

pub(crate) async fn a_commit_raises_the_version_by_one(world: World) {
    let store = world.store();
    let token = own(store, lane(1)).await;
    assert_eq!(commit(store, turn(lane(1), token, 0)).await.unwrap(), LaneVersion(1));
    assert_eq!(commit(store, turn(lane(1), token, 1)).await.unwrap(), LaneVersion(2));
    assert_eq!(store.load_lane(lane(1)).await.unwrap().version, LaneVersion(2));
}

pub(crate) async fn a_stale_token_is_refused(world: World) {
    let store = world.store();
    let old = own(store, lane(1)).await;
    let token = own(store, lane(1)).await;
    let refused = commit(store, turn(lane(1), old, 0)).await;
    assert!(matches!(refused, Err(WriteError::Fenced { lane: named }) if named == lane(1)));
    assert!(is_fenced(&commit(store, turn(lane(1), Token(token.0 + 1), 0)).await), "nor one of the future");
    commit(store, turn(lane(1), token, 0)).await.unwrap();
}

pub(crate) async fn a_stale_version_is_refused(world: World) {
    let store = world.store();
    let token = own(store, lane(1)).await;
    commit(store, turn(lane(1), token, 0)).await.unwrap();
    assert!(is_fenced(&commit(store, turn(lane(1), token, 0)).await));
    assert!(is_fenced(&commit(store, turn(lane(1), token, 2)).await), "nor one of the future");
    commit(store, turn(lane(1), token, 1)).await.unwrap();
}

pub(crate) async fn a_lane_that_nobody_acquired_cannot_be_written(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    assert!(is_fenced(&commit(store, turn(lane(1), Token(0), 0)).await));
}

pub(crate) async fn an_unknown_lane_cannot_be_written(world: World) {
    let store = world.store();
    assert!(is_fenced(&commit(store, turn(lane(1), Token(1), 0)).await));
    assert!(store.lane(lane(1)).await.unwrap().is_none());
}

pub(crate) async fn a_refused_lane_does_not_hurt_its_neighbours(world: World) {
    let store = world.store();
    let tokens = [own(store, lane(1)).await, own(store, lane(2)).await, own(store, lane(3)).await];
    for n in 1..=3 {
        admit_new(store, request(lane(n), u64::from(n))).await;
    }
    let stale = Token(tokens[1].0 + 7);
    // In no order of lanes: answers are in the order of the group.
    let group = vec![
        Write::Lane(Box::new(bind(lane(3), tokens[2], 0, 3, 0))),
        Write::Lane(Box::new(bind(lane(2), stale, 0, 2, 0))),
        Write::Admit(Box::new(request(lane(4), 4))),
        Write::Lane(Box::new(bind(lane(1), tokens[0], 0, 1, 0))),
    ];
    let answers = store.write(group).await;
    assert!(matches!(answers[0], Ok(Written::Lane(LaneVersion(1)))));
    assert!(matches!(answers[1], Err(WriteError::Fenced { lane: named }) if named == lane(2)));
    assert!(matches!(answers[2], Ok(Written::Admitted(_))));
    assert!(matches!(answers[3], Ok(Written::Lane(LaneVersion(1)))));
    for (n, bound) in [(1, 1), (2, 0), (3, 1)] {
        assert_eq!(store.load_lane(lane(n)).await.unwrap().bound.len(), bound, "lane {n}");
    }
}

pub(crate) async fn a_refused_commit_changes_nothing(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    let token = own(store, lane(1)).await;
    let before = format!("{:?}", store.load_lane(lane(1)).await.unwrap());
    assert!(is_fenced(&commit(store, bind(lane(1), token, 4, 1, 0)).await));
    assert_eq!(format!("{:?}", store.load_lane(lane(1)).await.unwrap()), before);
    let record = store.tx(tx_id(1)).await.unwrap().unwrap();
    assert_eq!(record.tx.status.state, TxState::Accepted);
    assert!(record.attempts.is_empty());
    assert_eq!(store.journal(tx_id(1)).await.unwrap().len(), 1);
}

pub(crate) async fn two_turns_of_one_lane_in_one_group_follow_each_other(world: World) {
    let store = world.store();
    let token = own(store, lane(1)).await;
    let group = vec![
        Write::Lane(Box::new(turn(lane(1), token, 0))),
        Write::Lane(Box::new(turn(lane(1), token, 1))),
        Write::Lane(Box::new(turn(lane(1), token, 1))),
    ];
    let answers = store.write(group).await;
    assert!(matches!(answers[0], Ok(Written::Lane(LaneVersion(1)))));
    assert!(matches!(answers[1], Ok(Written::Lane(LaneVersion(2)))));
    assert!(is_fenced(&answers[2]));
}
