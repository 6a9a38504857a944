use super::super::test_world::{Fault, Step, payment};
use super::{Kind, remote, settings, world};
use crate::journal::Entry;
use crate::ports::store::CommandKind;
use crate::request::{AskedFees, Options, Payload};
use crate::settings::LaneSettings;
use crate::transaction::TxState;
use crate::{Price, Slot};

#[test]
fn slots_are_handed_out_in_order_up_to_the_window() {
    let mut world = world(settings());
    let ids: Vec<_> = (0..6).map(|_| world.submit()).collect();
    world.rest();
    let slots: Vec<_> = ids.iter().map(|id| world.slot_of(*id)).collect();
    assert_eq!(slots, [Some(5), Some(6), Some(7), Some(8), None, None]);
    world.chain.mine(1, true, world.desk.now);
    world.show(0, true);
    world.rest();
    assert_eq!(world.slot_of(ids[4]), Some(9));
}

#[test]
fn a_local_slot_is_taken_in_the_commit_that_stores_its_bytes() {
    let mut world = world(settings());
    world.submit();
    world.carry(Kind::Load, Fault::None);
    assert!(world.started(Kind::Sign));
    world.play(Step::Crash);
    assert_eq!(world.desk.store.row.cursor.map_or(5, |cursor| cursor.0), 5);
    assert!(world.desk.store.attempts.is_empty());
}

#[test]
fn a_remote_slot_is_committed_before_its_signature_is_asked_for() {
    let mut world = world(remote());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    assert_eq!(world.slot_of(id), Some(5));
    assert_eq!(world.drafts()[0].slot, Slot(5));
}

#[test]
fn the_highest_slot_that_is_given_back_lowers_the_cursor() {
    let mut world = world(remote());
    let ids: Vec<_> = (0..2).map(|_| world.submit()).collect();
    while world.started(Kind::Load) {
        world.carry(Kind::Load, Fault::None);
    }
    world.cancel(ids[1]);
    assert_eq!(world.desk.store.row.cursor, Some(Slot(6)));
    assert!(world.desk.store.row.returned.is_empty());
    world.cancel(ids[0]);
    assert_eq!(world.desk.store.row.cursor, Some(Slot(5)));
}

/// Two reserved slots, the lower of which is given back.
fn world_with_a_returned_slot() -> (super::World, crate::TxId) {
    let mut world = world(remote());
    let ids: Vec<_> = (0..2).map(|_| world.submit()).collect();
    while world.started(Kind::Load) {
        world.carry(Kind::Load, Fault::None);
    }
    world.cancel(ids[0]);
    assert_eq!(world.desk.store.row.returned, [Slot(5)].into());
    assert_eq!(world.told(ids[0], |entry| matches!(entry, Entry::SlotReturned { .. })), 1);
    (world, ids[1])
}

#[test]
fn a_returned_slot_is_used_before_a_new_one() {
    let (mut world, _) = world_with_a_returned_slot();
    let next = world.submit();
    world.rest();
    assert_eq!(world.slot_of(next), Some(5));
    assert!(world.desk.store.row.returned.is_empty());
}

#[test]
fn a_returned_slot_that_nothing_waits_for_gets_a_no_op() {
    let (mut world, above) = world_with_a_returned_slot();
    world.rest();
    let filled = world.attempts(5);
    assert!(filled.len() == 1 && filled[0].no_op && filled[0].tx.is_none());
    world.finalise();
    assert_eq!(world.desk.store.state(above), TxState::Confirmed);
    assert!(world.desk.lane.is_idle());
}

/// All that waits takes two nonces each, and a returned one cannot begin a pair. So many of them are here that nothing else is read.
#[test]
fn a_returned_slot_that_only_delegations_wait_for_gets_a_no_op() {
    for (max_in_flight, waiting) in [(1, 3), (4, 10)] {
        let (mut world, above) = world_with_a_returned_slot();
        let settings = LaneSettings { max_in_flight, ..remote() };
        world.desk.settings = std::sync::Arc::new(settings);
        let ids: Vec<_> = (0..waiting)
            .map(|_| world.desk.admit(super::delegate::delegating(), Options::default()))
            .collect();
        world.play(Step::Crash);
        world.show(0, true);
        for _ in 0..3 * waiting {
            world.finalise();
        }
        assert!(world.attempts(5)[0].no_op, "{:?}", world.attempts(5));
        for id in ids.into_iter().chain([above]) {
            assert_eq!(world.desk.store.state(id), TxState::Confirmed, "{max_in_flight} in flight");
        }
    }
}

#[test]
fn a_returned_slot_is_filled_in_a_pause_too_since_those_above_go_on() {
    let (mut world, above) = world_with_a_returned_slot();
    world.command(CommandKind::Pause);
    let waits = world.submit();
    world.rest();
    world.finalise();
    assert_eq!(world.desk.store.state(above), TxState::Confirmed);
    assert_eq!(world.desk.store.state(waits), TxState::Accepted);
}

#[test]
fn a_signer_that_fails_a_no_op_is_asked_again_later_not_at_once() {
    let (mut world, _) = world_with_a_returned_slot();
    while !world.started.iter().any(|action| {
        matches!(action, super::Action::Sign(drafts) if drafts.iter().any(|draft| draft.tx.is_none()))
    }) {
        world.settle();
    }
    world.carry(Kind::Sign, Fault::NotDone);
    assert!(!world.started(Kind::Sign));
    world.wait(1_000);
    world.rest();
    assert_eq!(world.attempts(5).len(), 1);
}

#[test]
fn one_whose_price_is_under_the_base_fee_is_overtaken() {
    let mut world = world(settings());
    let fees = AskedFees::Dynamic { max_fee: Some(Price::gwei(2)), tip: None };
    world.play(Step::BaseFee(3));
    world.show(0, true);
    let cheap = world.submit_as(Payload { fees, ..payment(1) }, Options::default());
    let other = world.submit();
    world.rest();
    assert_eq!((world.slot_of(cheap), world.slot_of(other)), (None, Some(5)));
    world.play(Step::BaseFee(1));
    world.show(0, true);
    world.rest();
    assert_eq!(world.slot_of(cheap), Some(6));
}

#[test]
fn a_count_that_falls_hands_no_slot_out_again() {
    let mut world = world(settings());
    let first = world.broadcast();
    world.block();
    world.chain.reorg(1, true, 1, world.desk.now);
    world.show(0, true);
    let second = world.submit();
    world.rest();
    assert_eq!((world.slot_of(first), world.slot_of(second)), (Some(5), Some(6)));
}

#[test]
fn a_slot_that_a_stranger_lost_in_a_reorg_is_filled_after_a_stall() {
    let mut world = super::World::new(LaneSettings { max_in_flight: 1, ..settings() }, 2);
    world.play(Step::Foreign);
    world.show(0, true);
    assert_eq!(world.desk.lane.row.cursor, Some(Slot(6)));
    world.chain.reorg(1, false, 1, world.desk.now);
    world.show(0, true);
    let id = world.submit();
    world.rest();
    assert_eq!(world.attempts(5), []);
    world.calm_down(100);
    assert!(world.attempts(5)[0].no_op);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

#[test]
fn a_slot_whose_no_op_is_being_signed_when_the_cursor_falls_below_it_is_handed_out_anew() {
    let (mut world, above) = world_with_a_returned_slot();
    world.carry(Kind::Prepare, Fault::None);
    assert!(world.desk.lane.tentative.contains_key(&Slot(5)));
    world.cancel(above);
    assert_eq!(world.desk.store.row.cursor, Some(Slot(5)));
    let next = world.submit();
    world.carry(Kind::Load, Fault::None);
    assert_eq!(world.slot_of(next), Some(5));
    world.rest();
    assert_eq!(world.attempts(5).len(), 1);
}

#[test]
fn a_slot_that_was_proven_ahead_of_the_view_is_not_a_hole() {
    let mut world = world(settings());
    world.broadcast();
    let above = world.broadcast();
    world.desk.pass(30_000);
    world.chain.mine(0, true, world.desk.now);
    world.show(0, true);
    world.play(Step::Foreign);
    for _ in 0..2 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.prove();
    assert!(world.desk.lane.slots.contains_key(&Slot(5)), "it has not ended by what the lane has seen");
    world.wait(35_000);
    world.rest();
    assert!(world.attempts(5).iter().all(|attempt| attempt.tx.is_some()), "{:?}", world.attempts(5));
    world.calm_down(50);
    assert_eq!(world.desk.store.state(above), TxState::Confirmed);
}

// covers: A1
#[test]
fn crashes_between_signing_and_sending_burn_no_slot() {
    for settings in [settings(), remote()] {
        let mut world = world(settings);
        let id = world.submit();
        for nth in 0..20 {
            world.show(0, true);
            while world.started(Kind::Load) {
                world.carry(Kind::Load, Fault::None);
            }
            if nth >= 10 && world.started(Kind::Sign) {
                world.carry(Kind::Sign, Fault::None);
            }
            assert!(world.started(Kind::Sign) || world.started(Kind::Send));
            world.play(Step::Crash);
        }
        assert!(world.chain.pool.is_empty(), "nothing was ever sent");
        world.show(0, true);
        world.rest();
        let next = world.broadcast();
        assert_eq!((world.slot_of(id), world.slot_of(next)), (Some(5), Some(6)));
        assert_eq!(world.attempts(5).len(), 1);
        world.finalise();
        assert_eq!(world.desk.store.state(next), TxState::Confirmed);
    }
}
