//! Nonces from before an older copy knew the account: of those that nobody compared, a person has to speak.

use super::super::test_world::{Step, payment};
use super::older::{older, unreadable, used};
use super::{World, remote, settings, world};
use crate::Slot;
use crate::lane::Hold;
use crate::lane::compare::MOST_REMEMBERED;
use crate::ports::store::{CommandKind, LaneRow};
use crate::settings::LaneSettings;
use crate::transaction::TxState;

/// A lane that the copy had never used, accepted, with nonces below those that were compared.
fn not_compared(settings: LaneSettings) -> World {
    let mut world = world(settings);
    world.chain.first = Slot(0);
    world.desk.store.row = LaneRow::default();
    world.desk.store.older = Some(older());
    world.desk.crash();
    for number in 0..MOST_REMEMBERED as u64 + 2 {
        used(&mut world, &payment(1_000 + number));
    }
    world.desk.store.older = None;
    world.command(CommandKind::AcceptStore { seen: None });
    for _ in 0..400 {
        world.block();
        world.settle();
    }
    assert_eq!(world.desk.lane.hold(), Some(Hold::NotCompared { below: Slot(2) }));
    world
}

/// Nothing that waits may be what the lowest nonces did: also nothing that is handed in, by whatever way slots are given.
#[test]
fn while_some_nonces_were_compared_with_nothing_no_nonce_is_given_and_none_is_filled() {
    for settings in [settings(), remote()] {
        let mut world = not_compared(settings);
        let waits = world.submit();
        for _ in 0..5 {
            world.finalise();
            world.wait(60_000);
            world.rest();
        }
        assert_eq!((world.slot_of(waits), world.desk.store.attempts.len()), (None, 0));
    }
}

/// It came from before the load: whoever said it was shown other nonces, or none.
#[test]
fn a_resume_from_before_the_load_does_not_speak_of_nonces_that_were_compared_with_nothing() {
    let mut world = not_compared(settings());
    let waits = world.submit();
    world.desk.store.command(CommandKind::Resume, world.desk.now);
    world.play(Step::Crash);
    world.show(0, true);
    for _ in 0..3 {
        world.finalise();
    }
    assert!(world.desk.store.commands.iter().all(|(_, done)| *done), "it was heard");
    assert_eq!(world.desk.lane.hold(), Some(Hold::NotCompared { below: Slot(2) }));
    assert_eq!(world.slot_of(waits), None);
    world.command(CommandKind::Resume);
    for _ in 0..5 {
        world.finalise();
    }
    assert_eq!((world.desk.lane.hold(), world.desk.store.state(waits)), (None, TxState::Confirmed));
}

/// The lowest nonce of all was compared, so there is none below it: nobody has to speak of any.
#[test]
fn a_lane_whose_first_nonce_was_compared_holds_for_none_below_it() {
    let mut world = world(settings());
    world.chain.first = Slot(0);
    world.desk.store.row = LaneRow::default();
    world.desk.store.older = Some(older());
    world.desk.crash();
    used(&mut world, &payment(1_000));
    let waits = world.submit();
    unreadable(&mut world);
    assert!(matches!(world.desk.lane.hold(), Some(Hold::UnknownSlots { first: Slot(0), last: Slot(0), .. })));
    // A word on that one which is read by the next process, when it can be read what the nonce did.
    world.desk.store.command(CommandKind::Resume, world.desk.now);
    world.play(Step::Crash);
    for _ in 0..8 {
        world.show(0, true);
        world.rest();
        world.finalise();
    }
    assert_eq!(world.desk.store.row.compared_from, Some(Slot(0)));
    assert_eq!((world.desk.lane.hold(), world.desk.store.state(waits)), (None, TxState::Confirmed));
}
