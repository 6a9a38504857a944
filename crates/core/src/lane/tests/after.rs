use super::super::test_world::{Fault, Step, World, payment, payment_with_gas};
use super::{Kind, remote, settings, world};
use crate::lane::LaneEvent;
use crate::ports::store::CommandKind;
use crate::request::{After, AfterState, OnFailure, OnReorg, Options, Payload};
use crate::settings::LaneSettings;
use crate::transaction::{ReasonCode, TxState};
use crate::{Slot, TxId};

impl World {
    fn follow(&mut self, payload: Payload, tx: TxId, state: AfterState, on_failure: OnFailure) -> TxId {
        let options = Options { after: Some(After { tx, state, on_failure }), ..Options::default() };
        let id = self.submit_as(payload, options);
        self.rest();
        id
    }

    /// The other's lane, in the same process, has moved.
    fn moved(&mut self, id: TxId) {
        self.turn(vec![LaneEvent::Moved(vec![id])]);
        self.rest();
    }
}

// covers: M2
#[test]
fn it_waits_without_slot_and_estimate_while_others_behind_it_go_on() {
    for settings in [settings(), remote()] {
        let mut world = world(settings);
        let first = world.broadcast();
        let follower = world.follow(payment(2), first, AfterState::Confirmed, OnFailure::Cancel);
        let behind = world.broadcast();
        assert_eq!(world.slot_of(behind), Some(6));
        let estimated = world.started(Kind::Prepare);
        assert!(!estimated && world.slot_of(follower).is_none());
        let why = world.desk.lane.explain(follower, world.desk.now).unwrap();
        assert!(why.contains(&first.to_string()) && why.contains("until that is confirmed"), "{why}");
        world.block();
        world.moved(first);
        assert_eq!(world.slot_of(follower), None, "mined is not enough");
        world.finalise();
        world.moved(first);
        assert_eq!(world.slot_of(follower), Some(7));
        world.finalise();
        assert_eq!(world.desk.store.state(follower), TxState::Confirmed);
    }
}

#[test]
fn without_a_word_from_its_lane_the_store_is_asked_again_and_again() {
    let mut world = world(settings());
    let first = world.broadcast();
    let follower = world.follow(payment_with_gas(2), first, AfterState::Confirmed, OnFailure::Cancel);
    world.finalise();
    for _ in 0..10 {
        world.wait(11_000);
        world.rest();
    }
    assert_eq!(world.slot_of(follower), Some(6));
}

#[test]
fn mined_is_enough_where_it_was_asked_for_and_counts_only_while_it_lasts() {
    let mut world = world(settings());
    let first = world.broadcast();
    world.command(CommandKind::Pause);
    world.rest();
    let follower = world.follow(payment_with_gas(2), first, AfterState::Mined, OnFailure::Cancel);
    world.block();
    world.moved(first);
    assert!(!world.desk.lane.is_behind(world.desk.store.tx(follower)));
    // The block is lost before it was signed.
    world.chain.reorg(1, false, 2, world.desk.now);
    world.show(0, true);
    world.moved(first);
    assert!(world.desk.lane.is_behind(world.desk.store.tx(follower)));
    world.command(CommandKind::Resume);
    world.rest();
    assert_eq!(world.slot_of(follower), None);
    world.wait(61_000);
    world.rest();
    world.block();
    world.moved(first);
    assert_eq!(world.slot_of(follower), Some(6));
}

#[test]
fn the_no_op_of_one_that_is_to_be_checked_anew_is_not_what_was_waited_for() {
    let mut world = World::new(LaneSettings { watch_depth: 8, ..settings() }, 2);
    world.chain.deep = 6;
    world.show(0, true);
    let options = Options { on_reorg: OnReorg::Cancel, ..Options::default() };
    let first = world.submit_as(payment_with_gas(1), options);
    world.rest();
    world.block();
    world.chain.reorg(1, false, 1, world.desk.now);
    world.show(0, true);
    world.rest();
    let follower = world.follow(payment_with_gas(2), first, AfterState::Mined, OnFailure::Cancel);
    world.block();
    world.moved(first);
    assert!(world.attempts(5)[1].no_op);
    assert_eq!(world.chain.count(), Slot(6));
    assert!(world.desk.lane.is_behind(world.desk.store.tx(follower)), "only a no-op has landed");
    world.calm_down(60);
    let slots = [first, follower].map(|id| world.desk.store.tx(id).status.slot);
    assert!(slots[0] < slots[1], "{slots:?}");
    assert_eq!(world.desk.store.state(follower), TxState::Confirmed);
}

#[test]
fn a_signature_that_is_under_way_is_dropped_when_what_it_follows_is_reorged() {
    for settings in [settings(), remote()] {
        let mut world = world(settings);
        let first = world.broadcast();
        let options = Options {
            after: Some(After { tx: first, state: AfterState::Mined, on_failure: OnFailure::Cancel }),
            ..Options::default()
        };
        world.block();
        let follower = world.submit_as(payment_with_gas(2), options);
        world.carry(Kind::Load, Fault::None);
        world.carry(Kind::Follow, Fault::None);
        let sign = world.take(Kind::Sign);
        world.chain.reorg(1, false, 2, world.desk.now);
        world.show(0, true);
        world.turn(vec![LaneEvent::Moved(vec![first])]);
        world.carry(Kind::Follow, Fault::None);
        let late = world.act(sign, &Fault::None);
        world.turn(vec![late]);
        world.rest();
        assert_eq!((world.slot_of(follower), world.attempts(6).len()), (None, 0));
        world.calm_down(60);
        assert_eq!(world.desk.store.state(follower), TxState::Confirmed);
    }
}

#[test]
fn when_the_other_fails_it_is_cancelled_or_held_as_its_caller_said() {
    let mut world = world(settings());
    let first = world.broadcast();
    let cancelled = world.follow(payment_with_gas(2), first, AfterState::Confirmed, OnFailure::Cancel);
    let held = world.follow(payment_with_gas(3), first, AfterState::Mined, OnFailure::Hold);
    let refused = world.follow(payment_with_gas(4), first, AfterState::Confirmed, OnFailure::Hold);
    world.cancel(first);
    world.rest();
    world.block();
    world.moved(first);
    assert_eq!(world.slot_of(held), None, "the no-op of a cancel is not what it follows");
    world.finalise();
    world.moved(first);
    let ended = world.desk.store.tx(cancelled);
    assert_eq!(ended.status.state, TxState::Cancelled);
    assert_eq!(ended.status.reason.as_ref().unwrap().code, ReasonCode::PredecessorFailed);
    assert_eq!(world.desk.store.state(held), TxState::Accepted);
    // A crash does not write it down a second time.
    world.play(Step::Crash);
    world.show(0, true);
    world.rest();
    let told = world.told(held, |entry| matches!(entry, crate::journal::Entry::Held { .. }));
    assert_eq!(told, 1);
    let why = world.desk.lane.explain(held, world.desk.now).unwrap();
    assert!(why.contains("ended as cancelled") && why.contains("approve it"), "{why}");
    world.command(CommandKind::Approve { tx: held, version: None, held_for: None });
    world.command(CommandKind::Reject { tx: refused, version: None, held_for: None });
    world.rest();
    world.finalise();
    assert_eq!(world.desk.store.state(held), TxState::Confirmed);
    assert_eq!(world.desk.store.state(refused), TxState::Failed);
}

#[test]
fn one_that_waits_for_another_can_be_cancelled_and_expires() {
    let mut world = world(settings());
    let first = world.broadcast();
    let follower = world.follow(payment_with_gas(2), first, AfterState::Confirmed, OnFailure::Cancel);
    world.cancel(follower);
    assert_eq!(world.desk.store.state(follower), TxState::Cancelled);
    let options = Options {
        after: Some(After { tx: first, state: AfterState::Confirmed, on_failure: OnFailure::Hold }),
        deadline: Some(crate::Millis(world.desk.now.0 + 5_000)),
        ..Options::default()
    };
    let late = world.submit_as(payment_with_gas(3), options);
    world.rest();
    // The chain stands still: nothing expires by the clock alone.
    world.wait(3_600_000);
    world.rest();
    assert_eq!(world.desk.store.state(late), TxState::Accepted);
    world.block();
    assert_eq!(world.desk.store.state(late), TxState::Expired);
}

#[test]
fn one_that_comes_after_the_others_failure_ends_as_well() {
    let mut world = world(settings());
    let first = world.broadcast();
    let early = world.follow(payment_with_gas(2), first, AfterState::Confirmed, OnFailure::Hold);
    world.cancel(first);
    world.rest();
    world.finalise();
    world.moved(first);
    let late = world.follow(payment_with_gas(3), first, AfterState::Confirmed, OnFailure::Cancel);
    assert_eq!(world.desk.store.state(late), TxState::Cancelled);
    assert!(world.desk.store.tx(early).status.held.is_some());
}
