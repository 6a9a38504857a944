//! What only the memory adapter offers: sessions that end by a clock, and backups.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::Token;
use landfall_core::ports::store::{Acquired, Leases, Reads};
use landfall_store::Memory;

use crate::cases::everything;
use crate::fixtures::*;
use crate::world::FakeClock;

fn two_nodes() -> (Arc<FakeClock>, Memory, Memory) {
    let clock = Arc::new(FakeClock::default());
    let memory = Memory::new(Arc::clone(&clock) as _);
    (clock, memory.clone(), memory)
}

#[tokio::test]
async fn a_lane_is_taken_over_once_its_owners_session_has_ended() {
    let (clock, one, two) = two_nodes();
    one.open_session(session(1), "node-1", LEASE).await.unwrap();
    two.open_session(session(2), "node-2", Duration::from_secs(60)).await.unwrap();
    admit_new(&one, request(lane(1), 1)).await;
    let old = acquire(&one, lane(1), 1).await;
    clock.advance(9_999);
    assert!(matches!(two.acquire(lane(1), session(2)).await.unwrap(), Acquired::HeldBy { .. }));
    clock.advance(1);
    assert_eq!(two.lane(lane(1)).await.unwrap().unwrap().owner, None, "nobody owns it any more");
    assert_eq!(acquire(&two, lane(1), 2).await, Token(old.0 + 1));
    assert!(is_fenced(&commit(&one, bind(lane(1), old, 0, 1, 0)).await));
}

#[tokio::test]
async fn a_session_lives_as_long_as_it_is_renewed_in_time() {
    let (clock, one, two) = two_nodes();
    one.open_session(session(1), "node-1", LEASE).await.unwrap();
    two.open_session(session(2), "node-2", Duration::from_secs(600)).await.unwrap();
    acquire(&one, lane(1), 1).await;
    for _ in 0..5 {
        clock.advance(6_000);
        assert!(one.renew_session(session(1), LEASE).await.unwrap());
        assert!(matches!(two.acquire(lane(1), session(2)).await.unwrap(), Acquired::HeldBy { .. }));
    }
    clock.advance(10_000);
    assert!(!one.renew_session(session(1), LEASE).await.unwrap(), "too late");
    one.acquire(lane(2), session(1)).await.unwrap_err();
}

#[tokio::test]
async fn a_restored_backup_forgets_everything_since() {
    let (_, one, two) = two_nodes();
    admit_new(&one, keyed(lane(1), 1, "a")).await;
    let token = own(&one, lane(1)).await;
    let backup = one.snapshot();
    let before = everything(&one).await;
    commit(&one, bind(lane(1), token, 0, 1, 0)).await.unwrap();
    admit_new(&two, keyed(lane(1), 2, "b")).await;
    assert_ne!(everything(&two).await, before);
    two.restore(&backup);
    assert_eq!(everything(&one).await, before, "every node sees the backup");
    commit(&one, bind(lane(1), token, 0, 1, 0)).await.unwrap();
    admit_new(&two, keyed(lane(1), 3, "b")).await;
}
