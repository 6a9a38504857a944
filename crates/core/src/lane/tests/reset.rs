use super::super::test_world::{Fault, Step, World, payment_with_gas};
use super::{Kind, remote, settings, world};
use crate::Slot;
use crate::lane::Hold;
use crate::ports::store::CommandKind;
use crate::request::Options;
use crate::settings::LaneSettings;
use crate::transaction::TxState;

impl World {
    fn reset(&mut self) {
        self.command(CommandKind::Reset);
        self.carry(Kind::Load, Fault::None);
    }
}

#[test]
fn slots_with_stored_bytes_are_untouched() {
    let mut world = world(settings());
    let ids = [world.broadcast(), world.broadcast()];
    world.reset();
    world.show(0, true);
    assert_eq!(world.desk.store.row.cursor, Some(Slot(7)));
    assert!(world.desk.store.row.resets.is_empty(), "nothing to change");
    assert!(world.desk.store.commands.iter().all(|(_, done)| *done));
    let next = world.broadcast();
    assert_eq!(world.slot_of(next), Some(7), "no live slot is handed out again");
    world.finalise();
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
}

#[test]
fn reserved_slots_are_given_up_and_their_transactions_wait_again() {
    let mut world = world(remote());
    let first = world.broadcast();
    let stuck: Vec<_> = (0..2)
        .map(|n| {
            let id = world.submit_as(payment_with_gas(n), Options::default());
            world.carry(Kind::Load, Fault::None);
            id
        })
        .collect();
    assert_eq!(world.slot_of(stuck[1]), Some(7));
    world.command(CommandKind::Pause);
    world.carry(Kind::Load, Fault::None);
    world.reset();
    assert_eq!(world.slot_of(stuck[1]), Some(7), "not before the chain was seen");
    world.show(0, true);
    assert!(stuck.iter().all(|id| world.slot_of(*id).is_none()));
    assert_eq!(world.desk.store.row.cursor, Some(Slot(6)));
    let kept = &world.desk.store.row.resets;
    assert_eq!((kept.len(), kept[0].from, kept[0].to, kept[0].given_up), (1, Slot(8), Slot(6), 2));
    world.command(CommandKind::Resume);
    world.calm_down(30);
    for id in stuck.into_iter().chain([first]) {
        assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    }
}

#[test]
fn the_last_five_are_kept() {
    let mut world = world(remote());
    for n in 0..7 {
        let id = world.submit_as(payment_with_gas(n), Options::default());
        world.carry(Kind::Load, Fault::None);
        let _never = world.take(Kind::Sign);
        world.command(CommandKind::Pause);
        world.carry(Kind::Load, Fault::None);
        world.reset();
        world.desk.pass(10);
        world.show(0, true);
        world.cancel(id);
        world.command(CommandKind::Resume);
        world.rest();
    }
    let kept = &world.desk.store.row.resets;
    assert_eq!(kept.len(), 5);
    assert!(kept.windows(2).all(|pair| pair[0].at < pair[1].at));
}

#[test]
fn too_many_returned_slots_lead_to_a_reset_once_for_each_number_of_them() {
    let settings = LaneSettings { reset_above_returned: Some(1), max_in_flight: 8, ..remote() };
    let mut world = world(settings);
    let ids: Vec<_> = (0..4).map(|n| world.desk.admit(payment_with_gas(n), Options::default())).collect();
    world.turn(vec![crate::lane::LaneEvent::Work]);
    world.carry(Kind::Load, Fault::None);
    // The signer answers for the highest slot only; the two lowest are given back below it.
    let crate::lane::Action::Sign(drafts) = world.take(Kind::Sign) else { panic!() };
    let highest = drafts.into_iter().max_by_key(|draft| draft.slot).unwrap();
    let signed = world.act(crate::lane::Action::Sign(vec![highest]), &Fault::None);
    world.turn(vec![signed]);
    world.command(CommandKind::Pause);
    world.carry(Kind::Load, Fault::None);
    world.cancel(ids[0]);
    world.cancel(ids[1]);
    let before = world.desk.store.row.clone();
    world.show(0, true);
    world.show(0, true);
    // Below stored bytes they cannot be given up: a no-op takes each.
    assert_eq!(world.desk.store.row.cursor, before.cursor);
    assert!(world.desk.store.row.resets.is_empty());
    world.play(super::super::test_world::Step::Crash);
    world.calm_down(30);
    assert_eq!(world.desk.store.state(ids[3]), TxState::Confirmed);
}

#[test]
fn it_does_not_step_over_a_slot_that_somebody_else_has_used() {
    let mut world = world(remote());
    let ids: Vec<_> = (0..2)
        .map(|n| {
            let id = world.submit_as(payment_with_gas(n), Options::default());
            world.carry(Kind::Load, Fault::None);
            id
        })
        .collect();
    assert_eq!(ids.iter().map(|id| world.slot_of(*id)).collect::<Vec<_>>(), [Some(5), Some(6)]);
    world.play(Step::Foreign);
    world.play(Step::Foreign);
    world.show(0, true);
    let holds = |world: &World| matches!(world.desk.lane.hold(), Some(Hold::UnknownSlots { .. }));
    assert!(holds(&world), "the chain has used what was reserved");
    // The first gives its slot back, and a node that is behind shows the second as free.
    world.replace(ids[0], 7);
    world.reset();
    world.show(1, true);
    assert!(holds(&world), "slot 5 is still not accounted for");
    assert_eq!(world.desk.store.row.cursor, Some(Slot(5)));
}

/// Three transactions were final, and the chain took them back: the account's next slot is 5 again.
fn final_replaced() -> (World, crate::TxId) {
    let mut world = world(settings());
    for _ in 0..3 {
        world.broadcast();
    }
    world.finalise();
    assert_eq!(world.desk.store.row.history, Some(Slot(7)));
    world.chain.reorg_past_finality(3, 4, world.desk.now);
    world.show(0, true);
    assert_eq!(world.desk.lane.hold(), Some(Hold::FinalReplaced { slot: Slot(5) }));
    let waiting = world.submit();
    world.rest();
    (world, waiting)
}

/// No-ops use up what was final, and the lane goes on above it.
fn goes_on_above(mut world: World, waiting: crate::TxId) {
    for _ in 0..40 {
        world.wait(5_000);
        world.rest();
        world.block();
        world.rest();
    }
    assert_eq!((world.desk.store.state(waiting), world.slot_of(waiting)), (TxState::Confirmed, Some(8)));
    for slot in 5..8 {
        let (_, winner) = world.chain.winner(Slot(slot)).expect("the slot is used");
        assert!(winner.draft.as_ref().is_some_and(|draft| draft.no_op), "{winner:?}");
    }
}

#[test]
fn after_a_resume_it_does_not_fall_onto_slots_that_were_final() {
    for crashes in [false, true] {
        let (mut world, waiting) = final_replaced();
        world.command(CommandKind::Resume);
        world.carry(Kind::Load, Fault::None);
        if crashes {
            world.play(Step::Crash);
            world.show(0, true);
            world.rest();
        }
        world.reset();
        world.show(0, true);
        assert!(world.desk.store.row.cursor >= Some(Slot(8)), "what was signed for them is stored");
        goes_on_above(world, waiting);
    }
}

/// As earlier versions left it: nothing could be stored for the next slot, since its first attempt is.
#[test]
fn a_lane_that_had_fallen_onto_them_goes_on() {
    let (mut world, waiting) = final_replaced();
    world.desk.store.row.history = Some(Slot(4));
    world.desk.store.row.cursor = Some(Slot(5));
    world.play(Step::Crash);
    world.show(0, true);
    world.rest();
    goes_on_above(world, waiting);
}
