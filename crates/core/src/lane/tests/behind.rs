//! Nodes that have to catch up: a head from long ago says nothing of what was used since.

use super::super::test_world::{Fault, Step, payment};
use super::older::{accept, older, put_back, used};
use super::{Kind, World, kind, settings, world};
use crate::lane::{Hold, Wants};
use crate::ports::store::CommandKind;
use crate::request::{OnDisplaced, Options, Payload};
use crate::settings::{LaneSettings, OnUnknownSlots};
use crate::transaction::{ReasonCode, TxState};
use crate::{Slot, TxId};

const HOUR: u64 = 3_600_000;

/// A lane that is loaded while the newest block that a node shows is from long ago.
fn loaded_behind(settings: LaneSettings) -> World {
    let mut world = world(settings);
    world.desk.pass(HOUR);
    world.play(Step::Crash);
    world.show(0, true);
    world.rest();
    world
}

/// It may have landed already, and has no nonce.
fn is_held(world: &World, tx: TxId) {
    let status = &world.desk.store.tx(tx).status;
    assert!(status.may_have_landed() && status.slot.is_none(), "{status:?}");
}

#[test]
fn what_a_node_that_was_behind_at_the_load_shows_later_is_not_taken_for_a_strangers() {
    let mut world = loaded_behind(settings());
    used(&mut world, &payment(7));
    world.show(0, true);
    world.rest();
    for _ in 0..5 {
        world.finalise();
    }
    assert!(
        matches!(world.desk.lane.hold(), Some(Hold::UnknownSlots { .. })),
        "{:?}",
        world.desk.lane.hold()
    );
}

/// By a clock that is an hour behind, a head from long ago looks like one of today.
#[test]
fn a_head_that_is_ahead_of_a_clock_that_is_wrong_is_not_taken_for_the_present() {
    let mut world = world(settings());
    world.desk.pass(2 * HOUR);
    world.finalise();
    world.desk.now = crate::Millis(world.desk.now.0 - HOUR);
    world.play(Step::Crash);
    world.show(0, true);
    world.rest();
    used(&mut world, &payment(7));
    world.show(0, true);
    world.rest();
    for _ in 0..5 {
        world.finalise();
    }
    assert!(
        matches!(world.desk.lane.hold(), Some(Hold::UnknownSlots { .. })),
        "{:?}",
        world.desk.lane.hold()
    );
}

#[test]
fn what_took_the_nonce_of_bytes_that_were_signed_behind_the_head_is_remembered() {
    let mut world = loaded_behind(LaneSettings { on_displaced: OnDisplaced::Requeue, ..settings() });
    let other = world.submit_as(payment(8), Options::default());
    world.rest();
    assert_eq!(world.slot_of(other), Some(5));
    // The node catches up: another payment took that nonce long ago.
    used(&mut world, &payment(7));
    world.settle_strangers();
    let again = world.submit_as(payment(7), Options::default());
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(world.desk.store.state(other), TxState::Confirmed);
    is_held(&world, again);
}

/// The newer copy had sent one payment after the other; here they are handed in the other way round, and the node catches up block by block.
#[test]
fn nothing_gets_another_nonce_before_everything_is_seen_that_took_the_first_ones() {
    for crashes in [false, true] {
        let mut world = loaded_behind(LaneSettings { on_displaced: OnDisplaced::Requeue, ..settings() });
        let long_ago = crate::Millis(world.desk.now.0 - HOUR);
        let both = [8, 7].map(|number| world.submit_as(payment(number), Options::default()));
        world.rest();
        assert_eq!(both.map(|tx| world.slot_of(tx)), [Some(5), Some(6)]);
        for did in [payment(7), payment(8)] {
            taken_at(&mut world, &did, long_ago);
            if crashes {
                world.play(Step::Crash);
            }
            world.show(0, true);
            world.rest();
            for tx in both {
                assert!(world.slot_of(tx).is_none_or(|slot| slot < 7), "it may be what landed");
            }
        }
        world.settle_strangers();
        for _ in 0..3 {
            world.finalise();
        }
        for tx in both {
            is_held(&world, tx);
        }
    }
}

#[test]
fn a_lane_whose_node_may_have_more_to_show_goes_on_by_a_persons_word() {
    let mut world = loaded_behind(LaneSettings { on_displaced: OnDisplaced::Requeue, ..settings() });
    let long_ago = crate::Millis(world.desk.now.0 - HOUR);
    let tx = world.submit_as(payment(8), Options::default());
    world.rest();
    taken_at(&mut world, &payment(7), long_ago);
    world.show(0, true);
    world.rest();
    assert_eq!((world.desk.lane.hold(), world.slot_of(tx)), (Some(Hold::Behind), None));
    world.command(CommandKind::Resume);
    world.rest();
    assert_eq!((world.desk.lane.hold(), world.slot_of(tx)), (None, Some(6)));
}

/// By a clock that is an hour ahead every block is old.
#[test]
fn a_lane_goes_on_by_itself_once_the_chain_has_kept_up_with_a_clock_that_is_wrong() {
    let mut world = loaded_behind(LaneSettings { on_displaced: OnDisplaced::Requeue, ..settings() });
    let tx = world.submit_as(payment(8), Options::default());
    world.rest();
    let behind = |world: &World| crate::Millis(world.desk.now.0 - HOUR);
    let then = behind(&world);
    taken_at(&mut world, &payment(7), then);
    for _ in 0..9 {
        assert_eq!((world.desk.lane.hold(), world.slot_of(tx)), (Some(Hold::Behind), None));
        world.wait(30_000);
        let then = behind(&world);
        world.chain.mine(0, true, then);
        world.show(0, true);
        world.rest();
    }
    for _ in 0..3 {
        world.wait(30_000);
        let then = behind(&world);
        world.chain.mine(0, true, then);
        world.show(0, true);
        world.rest();
    }
    assert_eq!((world.desk.lane.hold(), world.slot_of(tx)), (None, Some(6)));
}

/// A request for a hash leaves nothing behind in a lane that gives none: between two of them it has nothing to do.
#[test]
fn a_lane_that_gives_out_nothing_yet_goes_on_watching_though_nothing_waits() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    accept(&mut world);
    world.finalise();
    assert_eq!(world.desk.lane.hold(), None);
    world.desk.pass(HOUR);
    world.play(Step::Crash);
    world.show(0, true);
    world.rest();
    assert_eq!((world.desk.lane.hold(), world.desk.lane.is_idle()), (Some(Hold::Behind), false));
    for _ in 0..12 {
        world.wait(30_000);
        let behind = crate::Millis(world.desk.now.0 - HOUR);
        world.chain.mine(0, true, behind);
        world.show(0, true);
        world.rest();
    }
    assert_eq!((world.desk.lane.hold(), world.desk.lane.is_idle()), (None, true));
}

/// A node that has far to go shows an hour in a minute: it may have more to show, however long it takes.
#[test]
fn a_lane_whose_node_catches_up_waits_until_it_has() {
    let mut world = loaded_behind(LaneSettings { on_displaced: OnDisplaced::Requeue, ..settings() });
    let long_ago = world.desk.now;
    world.desk.pass(100 * HOUR);
    let tx = world.submit_as(payment(8), Options::default());
    world.rest();
    taken_at(&mut world, &payment(7), long_ago);
    for hour in 1..60 {
        world.wait(60_000);
        world.chain.mine(0, true, long_ago.after(std::time::Duration::from_millis(hour * HOUR)));
        world.show(0, true);
        world.rest();
        assert_eq!((world.desk.lane.hold(), world.slot_of(tx)), (Some(Hold::Behind), None));
    }
}

/// A delegation was signed for two nonces; a newer copy had used both, each for a payment.
#[test]
fn what_took_the_second_nonce_of_a_delegation_is_remembered_too() {
    let mut world = loaded_behind(LaneSettings { on_displaced: OnDisplaced::Requeue, ..settings() });
    let long_ago = crate::Millis(world.desk.now.0 - HOUR);
    let delegation = world.delegate();
    world.rest();
    assert_eq!(world.slot_of(delegation), Some(5));
    for did in [payment(7), payment(8)] {
        let now = std::mem::replace(&mut world.desk.now, long_ago);
        used(&mut world, &did);
        world.desk.now = now;
    }
    world.settle_strangers();
    let again = [payment(7), payment(8)].map(|did| world.submit_as(did, Options::default()));
    for _ in 0..3 {
        world.finalise();
    }
    for tx in again {
        let status = world.desk.store.tx(tx).status.clone();
        assert!(status.slot.is_none(), "it may be what landed: {status:?}");
    }
}

/// As rest, but nobody can read what took a nonce.
fn rest_unproven(world: &mut World) {
    for _ in 0..40 {
        if let Some(at) = world.started.iter().position(|action| kind(action) == Kind::Prove) {
            let action = world.started.remove(at);
            let answer = world.act(action, &Fault::NotDone);
            world.turn(vec![answer]);
        } else if !world.started.is_empty() {
            let action = world.started.remove(0);
            let answer = world.act(action, &Fault::None);
            world.turn(vec![answer]);
        } else if world.desk.wants != Wants::Nothing {
            world.show(0, true);
        } else {
            return;
        }
    }
}

fn goes_on_unproven(world: &mut World, blocks: u64) {
    for _ in 0..blocks {
        world.chain.mine(100, true, world.desk.now);
        world.show(0, true);
        rest_unproven(world);
        world.wait(30_000);
        rest_unproven(world);
    }
}

/// Something is remembered from a start long ago; then a stranger takes the nonce of one that is out, and no endpoint can say what did.
#[test]
fn a_stranger_of_today_stops_no_lane_because_something_is_remembered_from_before() {
    let mut world = world(LaneSettings { on_displaced: OnDisplaced::Requeue, ..settings() });
    world.submit_as(payment(8), Options::default());
    world.rest();
    world.play(Step::Crash);
    used(&mut world, &payment(77));
    world.show(0, true);
    world.rest();
    world.settle_strangers();
    for _ in 0..4 {
        world.finalise();
    }
    assert_eq!(world.desk.store.row.forgotten.len(), 1);
    let lost = world.submit_as(payment(10), Options::default());
    world.rest();
    used(&mut world, &payment(55));
    goes_on_unproven(&mut world, 5);
    let next = world.submit_as(payment(11), Options::default());
    goes_on_unproven(&mut world, 5);
    assert_eq!((world.desk.store.state(next), world.desk.lane.hold()), (TxState::Confirmed, None));
    assert!(!world.desk.store.state(lost).is_terminal(), "its bytes may still be what landed");
    // Loaded again, the lane cannot know that it was a stranger of today: it says so, and goes on by a person's word.
    world.play(Step::Crash);
    world.show(0, true);
    rest_unproven(&mut world);
    let third = world.submit_as(payment(12), Options::default());
    goes_on_unproven(&mut world, 5);
    assert_eq!((world.slot_of(third), world.desk.lane.hold()), (None, Some(Hold::Behind)));
    world.command(CommandKind::Resume);
    goes_on_unproven(&mut world, 5);
    assert_eq!((world.desk.store.state(third), world.desk.lane.hold()), (TxState::Confirmed, None));
}

/// One of ours is out and the lane is loaded while the chain shows that its nonce was used: by which of both is not known.
#[test]
fn a_loaded_lane_assigns_no_nonce_before_it_knows_what_used_the_ones_that_are_out() {
    for by_ours in [false, true] {
        let mut world = world(LaneSettings { on_displaced: OnDisplaced::Requeue, ..settings() });
        let out = world.submit_as(payment(8), Options::default());
        world.rest();
        world.play(Step::Crash);
        match by_ours {
            true => world.chain.mine(1, true, world.desk.now),
            false => used(&mut world, &payment(7)),
        }
        world.show(0, false);
        let waits = world.submit_as(payment(7), Options::default());
        for _ in 0..3 {
            for wanted in [Kind::Load, Kind::Prepare, Kind::Sign] {
                if world.started(wanted) {
                    world.carry(wanted, Fault::None);
                }
            }
        }
        assert_eq!(world.desk.lane.hold(), Some(Hold::LookingUp { slot: Slot(5) }));
        assert_eq!(world.slot_of(waits), None);
        world.settle_strangers();
        for _ in 0..5 {
            world.finalise();
        }
        assert_eq!(world.desk.store.state(out), TxState::Confirmed);
        let status = world.desk.store.tx(waits).status.clone();
        match by_ours {
            true => assert_eq!(status.state, TxState::Confirmed),
            false => assert!(status.may_have_landed() && status.slot.is_none(), "{status:?}"),
        }
    }
}

/// The nonce of one that is out was used, and one that is not known here. A person's word is about the latter.
#[test]
fn a_resumed_lane_assigns_no_nonce_before_it_knows_what_used_the_ones_that_are_out() {
    let mut world = world(LaneSettings { on_displaced: OnDisplaced::Requeue, ..settings() });
    let out = world.submit_as(payment(8), Options::default());
    world.rest();
    world.play(Step::Crash);
    used(&mut world, &payment(7));
    used(&mut world, &payment(70));
    world.show(0, true);
    world.rest();
    let waits = world.submit_as(payment(7), Options::default());
    world.rest();
    assert!(matches!(world.desk.lane.hold(), Some(Hold::UnknownSlots { first: Slot(6), .. })));
    world.command(CommandKind::Resume);
    world.rest();
    assert_eq!((world.desk.lane.hold(), world.slot_of(waits)), (Some(Hold::Behind), None));
    world.settle_strangers();
    for _ in 0..5 {
        world.finalise();
    }
    assert_eq!(world.desk.store.state(out), TxState::Confirmed);
    is_held(&world, waits);
}

/// Nobody can say what used the nonce of one that is out: a second word is about that.
#[test]
fn a_lane_that_looks_up_what_nobody_can_say_goes_on_by_a_second_word() {
    let mut world = world(LaneSettings { on_displaced: OnDisplaced::Requeue, ..settings() });
    world.submit_as(payment(8), Options::default());
    world.rest();
    world.play(Step::Crash);
    used(&mut world, &payment(7));
    used(&mut world, &payment(70));
    world.show(0, true);
    world.rest();
    world.command(CommandKind::Resume);
    world.rest();
    goes_on_unproven(&mut world, 3);
    assert_eq!(world.desk.lane.hold(), Some(Hold::Behind));
    world.command(CommandKind::Resume);
    goes_on_unproven(&mut world, 1);
    assert_eq!(world.desk.lane.hold(), None);
}

#[test]
fn where_the_signer_says_that_unknown_nonces_are_another_programs_nothing_alike_is_held_for_them() {
    let adopts = LaneSettings {
        on_unknown_slots: OnUnknownSlots::Adopt,
        on_displaced: OnDisplaced::Requeue,
        ..settings()
    };
    let mut world = world(adopts);
    let out = world.submit_as(payment(8), Options::default());
    world.rest();
    world.play(Step::Crash);
    used(&mut world, &payment(7));
    world.show(0, true);
    world.rest();
    world.settle_strangers();
    let alike = world.submit_as(payment(7), Options::default());
    for _ in 0..6 {
        world.finalise();
    }
    for tx in [out, alike] {
        assert_eq!(world.desk.store.state(tx), TxState::Confirmed);
    }
}

/// The chain's next nonce did this, in a block of then, and so much is built on it that it is final.
fn taken_at(world: &mut World, did: &Payload, then: crate::Millis) {
    let now = std::mem::replace(&mut world.desk.now, then);
    used(world, did);
    world.desk.now = now;
    for _ in 0..12 {
        world.chain.mine(0, true, then);
    }
    for _ in 0..4 {
        world.show(0, true);
        world.rest();
        world.wait(30_000);
    }
}

/// The lane's finality is less than what a reorganisation may take back.
#[test]
fn nonces_that_are_used_up_after_an_acceptance_count_once_they_are_settled() {
    let mut world = world(LaneSettings { watch_depth: 12, ..settings() });
    world.desk.store.older = Some(older());
    world.desk.crash();
    accept(&mut world);
    world.finalise();
    let waits = world.submit_as(payment(7), Options::default());
    world.rest();
    world.chain.mine(100, true, world.desk.now);
    for _ in 0..2 {
        world.finalise();
        assert_eq!(world.slot_of(waits), None, "a reorganisation may still take them back");
    }
    for _ in 0..4 {
        world.finalise();
    }
    assert_eq!(world.desk.store.state(waits), TxState::Confirmed);
}

/// Two that do the same wait, and one has landed. When a person has said which, the other is shown that one and is not called landed.
#[test]
fn one_that_is_left_when_each_nonce_is_accounted_for_names_the_one_that_was_it() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    let both: Vec<TxId> = (0..2).map(|_| world.submit_as(payment(7), Options::default())).collect();
    accept(&mut world);
    world.finalise();
    let shown = |world: &World, tx: TxId| world.desk.store.tx(tx).status.forgotten_as;
    assert_eq!([shown(&world, both[0]), shown(&world, both[1])], [Some(Slot(5)); 2]);
    // Two people have looked, and each says of one that it is the one which landed.
    for tx in &both {
        world.command(CommandKind::Reject { tx: *tx, version: None, held_for: Some(Slot(5)) });
    }
    world.rest();
    assert_eq!(world.desk.store.state(both[1]), TxState::Accepted, "one nonce is not two payments");
    assert_eq!(shown(&world, both[1]), None);
    let why = world.desk.lane.explain(both[1], world.desk.now).unwrap();
    let was = format!("by a person's word nonce 5 was transaction {}, which asked for the same", both[0]);
    assert!(why.contains(&was) && why.contains("approve it only if both are wanted"), "{why}");
    assert!(!why.contains("not landed"), "it may have been handed in twice: {why}");
    world.command(CommandKind::Approve { tx: both[1], version: None, held_for: None });
    world.use_up_forgotten();
    assert_eq!(world.desk.store.state(both[1]), TxState::Confirmed);
    let first = world.desk.store.tx(both[0]).status.reason.clone();
    assert_eq!(first.map(|reason| reason.code), Some(ReasonCode::LandedBefore));
}

/// It was not read yet when a person spoke of the other.
#[test]
fn one_whose_nonce_was_accounted_for_before_it_was_read_says_that_another_was_it() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    let id = world.submit_as(payment(7), Options::default());
    world.submit_as(payment(7), Options::default());
    accept(&mut world);
    world.finalise();
    assert_eq!(world.desk.store.tx(id).status.forgotten_as, Some(Slot(5)));
    world.desk.store.row.forgotten.clear();
    world.play(Step::Crash);
    world.show(0, true);
    world.rest();
    let why = world.desk.lane.explain(id, world.desk.now).unwrap();
    assert!(why.contains("nonce 5 was another transaction, which asked for the same as this one"), "{why}");
}
