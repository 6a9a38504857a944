use super::super::test_world::{Step, World, payment_with_gas};
use super::{Kind, settings};
use crate::journal::Entry;
use crate::request::{OnDisplaced, OnReorg, Options};
use crate::settings::LaneSettings;
use crate::transaction::TxState;
use crate::{ContentVersion, Price, Slot, TxId};

/// Two blocks on top are final for callers, and the chain may take back six more.
fn deep_world() -> World {
    let mut world = World::new(LaneSettings { watch_depth: 8, ..settings() }, 2);
    world.chain.deep = 6;
    world.show(0, true);
    world.rest();
    world
}

fn told(world: &World, id: TxId, what: fn(&Entry) -> bool) -> usize {
    world.desk.store.journal_of(id).filter(|entry| what(entry)).count()
}

fn take_back(world: &mut World, depth: u64) {
    world.play(Step::Reorg { depth, keep: false, refill: depth });
    world.show(0, true);
}

/// Confirmed, with two blocks on top.
fn confirmed(world: &mut World) -> TxId {
    let id = world.broadcast();
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    id
}

// covers: H5
#[test]
fn what_was_confirmed_and_taken_back_is_sent_again_with_the_same_bytes_and_stays_confirmed() {
    for crash in [false, true] {
        let mut world = deep_world();
        let id = confirmed(&mut world);
        take_back(&mut world, 4);
        assert_eq!(told(&world, id, |entry| matches!(entry, Entry::FinalReorged { .. })), 1, "an alarm");
        assert_eq!(world.desk.store.state(id), TxState::Confirmed);
        assert_eq!(world.desk.store.tx(id).status.receipt, None, "its block is not part of the chain");
        let said = world.desk.lane.explain(id, world.desk.now).unwrap();
        assert!(said.contains("took its block back"), "{said}");
        if crash {
            world.play(Step::Crash);
            world.show(0, true);
        }
        world.rest();
        assert_eq!(world.chain.pool.get(&Slot(5)), Some(&world.attempts(5)[0].hash));
        assert_eq!(world.attempts(5).len(), 1, "nothing new was signed");
        world.finalise();
        assert_eq!(told(&world, id, |entry| matches!(entry, Entry::LandedAgain { .. })), 1);
        assert_eq!(
            world.desk.store.tx(id).status.receipt.as_ref().map(|r| r.hash),
            Some(world.attempts(5)[0].hash)
        );
        world.calm_down(40);
        assert!(world.desk.store.closed.contains(&Slot(5)), "in the end the chain settles it");
    }
}

/// Endpoints that are at a lower head show nothing of its block, neither that it stands nor that it is gone. The views that come next go on from
/// there, block by block.
#[test]
fn what_was_taken_back_above_a_head_that_fell_is_sent_again_when_the_chain_has_grown_that_far() {
    let mut world = deep_world();
    let id = confirmed(&mut world);
    world.chain.reorg(4, false, 0, world.desk.now);
    world.show(0, true);
    assert_eq!(
        told(&world, id, |entry| matches!(entry, Entry::FinalReorged { .. })),
        0,
        "nobody can say yet"
    );
    for _ in 0..2 {
        world.chain.mine(0, true, world.desk.now);
        world.show(0, true);
    }
    assert_eq!(told(&world, id, |entry| matches!(entry, Entry::FinalReorged { .. })), 1, "an alarm");
    world.rest();
    assert_eq!(world.chain.pool.get(&Slot(5)), Some(&world.attempts(5)[0].hash));
    world.calm_down(40);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

#[test]
fn a_slot_that_has_ended_is_history_once_the_chain_cannot_take_it_back() {
    let mut world = deep_world();
    let id = confirmed(&mut world);
    assert!(!world.desk.lane.is_idle(), "it is watched");
    assert_eq!(world.desk.lane.open_hashes().count(), 1);
    world.play(Step::Crash);
    world.show(0, true);
    world.rest();
    for _ in 0..6 {
        world.block();
    }
    assert!(world.desk.store.closed.contains(&Slot(5)));
    assert!(world.desk.lane.is_idle());
    assert_eq!(told(&world, id, |entry| matches!(entry, Entry::FinalReorged { .. })), 0, "no false alarm");
}

#[test]
fn a_reopened_slot_that_stalls_is_re_priced_with_the_content_that_won() {
    let mut world = deep_world();
    let id = world.broadcast();
    world.chain.mine(1, true, world.desk.now);
    // The cancel comes too late: its no-op is signed, and the content wins.
    world.cancel(id);
    world.rest();
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    take_back(&mut world, 5);
    world.rest();
    let first = world.attempts(5)[0].hash;
    assert_eq!(world.chain.pool.get(&Slot(5)), Some(&first), "not the no-op, which is newer");
    world.play(Step::BaseFee(20));
    for _ in 0..5 {
        world.wait(30_000);
        world.block();
        world.rest();
    }
    let newest = world.attempts(5).last().unwrap().clone();
    assert!(newest.ordinal > 1 && !newest.no_op, "{newest:?}");
    assert_eq!(newest.version, ContentVersion(1));
    world.calm_down(40);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

#[test]
fn a_reopened_content_keeps_its_callers_ceiling_although_a_cancel_came_after_it() {
    let mut world = deep_world();
    let ceiling = Price::gwei(12);
    let options = Options { max_fee_per_gas: Some(ceiling), ..Options::default() };
    let id = world.submit_as(payment_with_gas(1), options);
    world.rest();
    world.chain.mine(1, true, world.desk.now);
    world.cancel(id);
    world.rest();
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    take_back(&mut world, 5);
    world.play(Step::BaseFee(20));
    for _ in 0..5 {
        world.wait(30_000);
        world.block();
        world.rest();
    }
    let contents = world.attempts(5).into_iter().filter(|attempt| !attempt.no_op);
    for attempt in contents {
        assert!(attempt.fees.cap() <= ceiling, "{attempt:?}");
    }
}

/// A stranger was believed to have slot 5 for good, and the chain took it back: the transaction waits for another slot while
/// its old bytes are still watched.
fn believed_too_early() -> (World, TxId) {
    let mut world = World::new(settings(), 2);
    world.show(0, true);
    world.rest();
    let options = Options { on_displaced: Some(OnDisplaced::Requeue), ..Options::default() };
    let id = world.submit_as(payment_with_gas(1), options);
    world.rest();
    world.play(Step::Foreign);
    world.play(Step::Pause);
    world.rest();
    world.finalise();
    world.prove();
    world.rest();
    assert_eq!(world.desk.store.state(id), TxState::Accepted);
    world.chain.deep = 6;
    world.chain.pool.clear();
    world.play(Step::Reorg { depth: 4, keep: false, refill: 3 });
    world.watched_still(5, 8);
    (world, id)
}

#[test]
fn a_strangers_slot_that_is_open_again_gets_a_no_op_and_never_the_old_bytes() {
    let (mut world, id) = believed_too_early();
    world.show(0, true);
    world.rest();
    world.play(Step::Resume);
    world.rest();
    let attempts = world.attempts(5);
    assert_eq!(attempts.len(), 2);
    assert!(attempts[1].no_op && attempts[1].fees.cap() > attempts[0].fees.cap());
    assert_eq!(world.chain.pool.get(&Slot(5)), Some(&attempts[1].hash));
    world.calm_down(40);
    assert_eq!((world.desk.store.state(id), world.slot_of(id)), (TxState::Confirmed, Some(6)));
}

#[test]
fn what_landed_in_its_old_slot_before_the_queue_was_read_is_bound_back_there() {
    let (mut world, id) = believed_too_early();
    let first = world.attempts(5)[0].hash;
    world.chain.pool.insert(Slot(5), first);
    world.chain.mine(1, true, world.desk.now);
    world.show(0, true);
    assert_eq!(told(&world, id, |entry| matches!(entry, Entry::LandedAgain { .. })), 1);
    assert_eq!(world.desk.store.state(id), TxState::Accepted, "the lane has not read its queue yet");
    world.rest();
    assert_eq!((world.desk.store.state(id), world.slot_of(id)), (TxState::Mined, Some(5)));
    world.play(Step::Resume);
    world.rest();
    assert_eq!(world.attempts(6), [], "nothing is signed for a second slot");
    world.calm_down(40);
    let status = &world.desk.store.tx(id).status;
    assert_eq!((status.state, status.hash), (TxState::Confirmed, Some(first)));
    assert_eq!(told(&world, id, |entry| matches!(entry, Entry::BoundBack { slot: Slot(5) })), 1);
}

#[test]
fn what_a_stranger_took_is_not_given_up_while_the_chain_may_take_it_back() {
    let mut world = World::new(LaneSettings { watch_depth: 8, ..settings() }, 2);
    world.show(0, true);
    world.rest();
    let options = Options { on_displaced: Some(OnDisplaced::Requeue), ..Options::default() };
    let id = world.submit_as(payment_with_gas(1), options);
    world.rest();
    let first = world.attempts(5)[0].hash;
    world.play(Step::Foreign);
    for _ in 0..5 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.show(0, true);
    for _ in 0..6 {
        world.wait(15_000);
        world.rest();
    }
    assert_eq!(world.slot_of(id), Some(5), "five blocks on top are not eight");
    assert!(world.desk.store.tx(id).status.displaced);
    // A reorganisation deeper than what the lane calls final, and the bytes that it had first win after all.
    world.chain.deep = 6;
    world.play(Step::Reorg { depth: 6, keep: false, refill: 0 });
    world.chain.deep = 0;
    world.chain.pool.insert(Slot(5), first);
    world.chain.mine(1, true, world.desk.now);
    for _ in 0..5 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.show(0, true);
    world.calm_down(40);
    assert_eq!((world.desk.store.state(id), world.slot_of(id)), (TxState::Confirmed, Some(5)));
    assert_eq!(told(&world, id, |entry| matches!(entry, Entry::Requeued { .. })), 0);
}

// covers: F9
#[test]
fn a_caller_may_have_it_checked_anew_after_a_reorganisation() {
    let mut world = deep_world();
    let options = Options { on_reorg: OnReorg::Cancel, ..Options::default() };
    let id = world.submit_as(payment_with_gas(1), options);
    world.rest();
    world.block();
    assert_eq!(world.desk.store.state(id), TxState::Mined);
    take_back(&mut world, 1);
    assert_eq!(told(&world, id, |entry| matches!(entry, Entry::RecheckBegan { .. })), 1);
    world.rest();
    let no_op = world.attempts(5)[1].clone();
    assert!(no_op.no_op);
    assert_eq!(world.chain.pool.get(&Slot(5)), Some(&no_op.hash));
    world.finalise();
    assert_eq!(
        world.slot_of(id),
        Some(5),
        "the chain may still take the no-op back, and then what was signed first may land"
    );
    let said = world.desk.lane.explain(id, world.desk.now).unwrap();
    assert!(said.contains("when the chain cannot take that back"), "{said}");
    for _ in 0..6 {
        world.block();
    }
    assert_eq!(told(&world, id, |entry| matches!(entry, Entry::Requeued { .. })), 1);
    world.rest();
    assert_eq!(world.slot_of(id), Some(6), "nobody can take the no-op back, so it may have another slot");
    assert!(!world.started(Kind::Prove));
    world.calm_down(40);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert_eq!(world.desk.store.tx(id).status.won.as_ref().map(|won| won.version), Some(ContentVersion(3)));
}

#[test]
fn one_that_is_to_be_checked_anew_has_one_slot_while_the_chain_takes_back_more_than_was_asked_for() {
    let mut world = deep_world();
    let options = Options { on_reorg: OnReorg::Cancel, ..Options::default() };
    let id = world.submit_as(payment_with_gas(1), options);
    world.rest();
    let first = world.attempts(5)[0].hash;
    world.block();
    take_back(&mut world, 1);
    world.rest();
    world.finalise();
    take_back(&mut world, 4);
    // The bytes that it had first win after all.
    world.chain.pool.insert(Slot(5), first);
    world.block();
    world.calm_down(40);
    assert_eq!((world.desk.store.state(id), world.slot_of(id)), (TxState::Confirmed, Some(5)));
    assert_eq!(told(&world, id, |entry| matches!(entry, Entry::Requeued { .. })), 0);
}

#[test]
fn a_cancel_while_it_is_to_be_checked_anew_ends_it() {
    let mut world = deep_world();
    let options = Options { on_reorg: OnReorg::Cancel, ..Options::default() };
    let id = world.submit_as(payment_with_gas(1), options);
    world.rest();
    world.block();
    take_back(&mut world, 1);
    world.cancel(id);
    world.calm_down(40);
    assert_eq!(world.desk.store.state(id), TxState::Cancelled);
    assert_eq!(world.attempts(5).len(), 2, "one no-op serves both");
}
