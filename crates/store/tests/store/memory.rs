//! What only the memory adapter offers: a clock that can be set, and backups.

use std::sync::Arc;

use landfall_core::ports::store::{Acquired, Leases};
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
async fn no_step_of_the_clock_ends_a_session() {
    let (clock, one, two) = two_nodes();
    one.open_session(session(1), "node-1", LEASE).await.unwrap();
    two.open_session(session(2), "node-2", LEASE).await.unwrap();
    acquire(&one, lane(1), 1).await;
    clock.advance(1_000_000_000_000);
    assert!(matches!(two.acquire(lane(1), session(2)).await.unwrap(), Acquired::HeldBy { .. }));
    assert!(one.renew_session(session(1), LEASE).await.unwrap());
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
