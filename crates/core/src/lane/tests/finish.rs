use super::super::test_world::{Fault, Step, payment_with_gas};
use super::{Kind, settings, world};
use crate::journal::Entry;
use crate::request::{OnDisplaced, Options};
use crate::transaction::{ReasonCode, TxState, Won};
use crate::{ContentVersion, Millis};

#[test]
fn it_ends_when_its_winner_is_final_and_not_before() {
    let mut world = world(settings());
    let id = world.broadcast();
    for _ in 0..2 {
        world.block();
        assert_eq!(world.desk.store.state(id), TxState::Mined);
    }
    world.block();
    let status = &world.desk.store.tx(id).status;
    assert_eq!(status.state, TxState::Confirmed);
    assert_eq!(status.won, Some(Won { version: ContentVersion(1), hash: world.attempts(5)[0].hash }));
    world.rest();
    assert!(world.desk.lane.is_idle());
    assert_eq!(world.desk.lane.open_hashes().count(), 0);
}

// covers: H6, O2
#[test]
fn while_the_chain_stands_still_time_confirms_nothing() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.block();
    for _ in 0..60 {
        world.wait(60_000);
        world.show(0, true);
        world.rest();
    }
    assert_eq!(world.desk.store.state(id), TxState::Mined);
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

#[test]
fn a_mined_revert_ends_as_reverted() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.chain.mine(1, false, world.desk.now);
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Reverted);
    let reason = world.desk.store.tx(id).status.reason.clone();
    assert_eq!(reason.map(|reason| reason.code), Some(ReasonCode::Reverted));
}

#[test]
fn a_no_op_that_wins_ends_it_as_cancelled() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.cancel(id);
    world.rest();
    world.finalise();
    let status = &world.desk.store.tx(id).status;
    assert_eq!(status.state, TxState::Cancelled);
    assert_eq!(status.won.as_ref().map(|won| won.version), Some(ContentVersion(2)));
}

#[test]
fn a_content_that_wins_the_race_with_its_cancel_is_confirmed() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.chain.mine(1, true, world.desk.now);
    world.cancel(id);
    world.rest();
    assert_eq!(world.attempts(5).len(), 2, "the no-op was signed, and came too late");
    world.finalise();
    let status = &world.desk.store.tx(id).status;
    assert_eq!(status.state, TxState::Confirmed);
    assert_eq!(status.won.as_ref().map(|won| won.version), Some(ContentVersion(1)));
}

/// Its slot went to a stranger, for good.
fn displaced(on_displaced: OnDisplaced) -> (super::World, crate::TxId) {
    let mut world = world(settings());
    let options = Options { on_displaced: Some(on_displaced), ..Options::default() };
    let id = world.submit_as(payment_with_gas(1), options);
    world.rest();
    world.play(Step::Foreign);
    world.finalise();
    (world, id)
}

#[test]
fn a_displaced_transaction_is_queued_again_in_its_old_place() {
    let (mut world, id) = displaced(OnDisplaced::Requeue);
    world.play(Step::Pause);
    world.rest();
    let later = world.submit();
    world.rest();
    world.prove();
    let status = &world.desk.store.tx(id).status;
    assert_eq!((status.state, status.slot, status.displaced), (TxState::Accepted, None, false));
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::Requeued { .. })), 1);
    world.play(Step::Resume);
    world.rest();
    assert_eq!((world.slot_of(id), world.slot_of(later)), (Some(6), Some(7)));
    world.calm_down(20);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

#[test]
fn a_displaced_transaction_fails_if_the_caller_said_so() {
    let (mut world, id) = displaced(OnDisplaced::Fail);
    assert!(!world.desk.store.state(id).is_terminal(), "not before it is proven");
    world.prove();
    let reason = world.desk.store.tx(id).status.reason.clone();
    assert_eq!(reason.map(|reason| reason.code), Some(ReasonCode::Displaced));
    world.rest();
    assert!(world.desk.lane.is_idle());
}

// covers: B1
#[test]
fn a_slot_that_a_stranger_took_while_the_lane_was_down_is_proven_foreign_and_queued_again_once() {
    let mut world = world(settings());
    let options = Options { on_displaced: Some(OnDisplaced::Requeue), ..Options::default() };
    let id = world.submit_as(payment_with_gas(1), options);
    world.rest();
    world.play(Step::Foreign);
    for _ in 0..3 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.play(Step::Crash);
    world.show(0, true);
    for _ in 0..10 {
        world.rest();
        world.wait(15_000);
    }
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::Requeued { .. })), 1);
    assert_eq!(world.slot_of(id), Some(6));
    world.calm_down(50);
    assert_eq!((world.desk.store.state(id), world.slot_of(id)), (TxState::Confirmed, Some(6)));
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::Requeued { .. })), 1);
}

#[test]
fn an_ending_transaction_that_is_displaced_ends_and_is_never_queued_again() {
    let (mut world, id) = displaced(OnDisplaced::Requeue);
    world.cancel(id);
    world.prove();
    assert_eq!(world.desk.store.state(id), TxState::Cancelled);
}

#[test]
fn a_slot_that_one_of_ours_has_won_is_not_foreign() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.block();
    let block = world.chain.head().at;
    world.turn(vec![crate::lane::LaneEvent::Foreign { slot: crate::Slot(5), block, taker: None }]);
    assert_eq!(world.desk.store.state(id), TxState::Mined);
}

#[test]
fn deadlines_are_judged_by_block_time_only() {
    let mut world = world(settings());
    let deadline = Some(Millis(world.desk.now.0 + 1_000));
    let id = world.submit_as(payment_with_gas(1), Options { deadline, ..Options::default() });
    world.rest();
    world.wait(50_000);
    assert_eq!(world.desk.lane.bound.get(&id).unwrap().status.ending, None, "the chain stands still");
    world.chain.evict(0);
    world.block();
    assert!(world.desk.lane.bound.get(&id).unwrap().status.ending.is_some());
    world.rest();
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Expired);
}

#[test]
fn a_deadline_that_passes_while_it_waits_costs_no_slot() {
    let mut world = world(settings());
    world.play(Step::Pause);
    world.rest();
    let deadline = Some(Millis(world.desk.now.0 + 1_000));
    let id = world.submit_as(payment_with_gas(1), Options { deadline, ..Options::default() });
    world.carry(Kind::Load, Fault::None);
    world.desk.pass(2_000);
    world.block();
    assert_eq!((world.desk.store.state(id), world.slot_of(id)), (TxState::Expired, None));
}

#[test]
fn a_mined_transaction_does_not_expire_but_a_reorged_one_does() {
    let mut world = world(settings());
    let deadline = Some(Millis(world.desk.now.0 + 1_000));
    let id = world.submit_as(payment_with_gas(1), Options { deadline, ..Options::default() });
    world.rest();
    world.block();
    world.desk.pass(2_000);
    world.block();
    assert_eq!(world.desk.lane.bound.get(&id).unwrap().status.ending, None);
    world.chain.reorg(2, false, 2, world.desk.now);
    world.show(0, true);
    assert!(world.desk.lane.bound.get(&id).unwrap().status.ending.is_some());
    world.calm_down(50);
    assert_eq!(world.desk.store.state(id), TxState::Expired);
}

#[test]
fn what_a_node_said_last_is_kept_also_when_the_slot_ends_before_it_was_written() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.wait(60_000);
    world.carry(Kind::Send, Fault::None);
    assert_eq!(world.attempts(5)[0].hints.sends, 1, "the second answer waits for company");
    for _ in 0..3 {
        world.chain.mine(100, true, world.desk.now);
    }
    world.show(0, true);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert_eq!(world.attempts(5)[0].hints.sends, 2);
}
