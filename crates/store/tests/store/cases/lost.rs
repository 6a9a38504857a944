//! Commits that fail in the two ways a caller cannot tell apart, and what it finds when it looks again.

use landfall_core::LaneVersion;
use landfall_core::ports::store::{Admission, Reads, Write, WriteError};
use landfall_core::transaction::TxState;
use landfall_store::{Fault, Faulty};

use crate::fixtures::*;
use crate::world::World;

pub(crate) async fn a_commit_whose_answer_was_lost_is_on_disk_and_fences_its_own_writer(world: World) {
    let store = Faulty::new(world.shared());
    admit_new(&store, request(lane(1), 1)).await;
    let token = own(&store, lane(1)).await;
    store.fail_next(Fault::LoseAnswer);
    let lost = commit(&store, bind(lane(1), token, 0, 1, 0)).await;
    assert!(matches!(lost, Err(WriteError::Unknown(_))));
    assert!(is_fenced(&commit(&store, bind(lane(1), token, 0, 1, 0)).await), "its own repeat is refused");
    let loaded = store.load_lane(lane(1)).await.unwrap();
    assert_eq!(loaded.version, LaneVersion(1));
    assert_eq!(ids(&loaded.bound), [tx_id(1)]);
    assert_eq!(loaded.attempts, [attempt(0, 0, Some(1))]);
    commit(&store, turn(lane(1), token, 1)).await.unwrap();
}

pub(crate) async fn a_commit_that_failed_before_it_was_done_can_be_repeated(world: World) {
    let store = Faulty::new(world.shared());
    admit_new(&store, request(lane(1), 1)).await;
    let token = own(&store, lane(1)).await;
    for fault in [Fault::FailBefore, Fault::LoseRequest] {
        store.fail_next(fault);
        commit(&store, bind(lane(1), token, 0, 1, 0)).await.unwrap_err();
        assert_eq!(store.load_lane(lane(1)).await.unwrap().version, LaneVersion(0));
    }
    commit(&store, bind(lane(1), token, 0, 1, 0)).await.unwrap();
    assert_eq!(store.tx(tx_id(1)).await.unwrap().unwrap().tx.status.state, TxState::Signed);
}

pub(crate) async fn an_admission_whose_answer_was_lost_is_found_by_its_retry(world: World) {
    let store = Faulty::new(world.shared());
    for new in [request(lane(1), 1), keyed(lane(1), 2, "a")] {
        store.fail_next(Fault::LoseAnswer);
        let lost = write_one(&store, Write::Admit(Box::new(new.clone()))).await;
        assert!(matches!(lost, Err(WriteError::Unknown(_))));
        assert!(matches!(admit(&store, new.clone()).await, Admission::Replay(tx) if tx.id == new.id));
    }
    assert_eq!(store.waiting(lane(1), 10).await.unwrap().len(), 2);
}
