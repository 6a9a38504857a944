use super::super::test_world::{Fault, payment, payment_with_gas};
use super::{Kind, settings, world};
use crate::lane::{Action, LaneEvent};
use crate::ports::store::CommandKind;
use crate::request::Options;
use crate::settings::LaneSettings;
use crate::transaction::TxState;
use crate::{Millis, TxId, Wei};

/// A load that was read before the transaction left the queue, and answers long after.
#[test]
fn a_late_load_does_not_bring_back_a_transaction_that_has_landed() {
    let mut world = world(settings());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.turn(vec![LaneEvent::Work]);
    let load = world.take(Kind::Load);
    let late = world.act(load, &Fault::None);
    world.rest();
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);

    world.turn(vec![late]);
    world.rest();
    assert!(world.desk.lane.is_idle());
    assert_eq!(world.attempts(6), []);
}

#[test]
fn a_late_load_does_not_bring_back_a_transaction_that_expired() {
    let mut world = world(settings());
    let deadline = Some(Millis(world.desk.now.0 + 500));
    let id = world.submit_as(payment(1), Options { deadline, ..Options::default() });
    world.carry(Kind::Load, Fault::None);
    world.turn(vec![LaneEvent::Work]);
    let load = world.take(Kind::Load);
    let late = world.act(load, &Fault::None);
    world.desk.pass(1_000);
    world.block();
    assert_eq!(world.desk.store.state(id), TxState::Expired);

    world.turn(vec![late]);
    world.rest();
    assert!(world.desk.lane.is_idle());
}

#[test]
fn a_load_that_failed_is_asked_for_again_later() {
    let mut world = world(settings());
    world.submit();
    world.carry(Kind::Load, Fault::NotDone);
    assert!(!world.started(Kind::Load));
    let at = world.desk.wake_at.expect("a time");
    assert!(at > world.desk.now && at <= Millis(world.desk.now.0 + 1_000));
    world.wait(1_000);
    assert!(world.started(Kind::Load));
}

#[test]
fn a_paused_lane_with_a_long_queue_sees_its_resume() {
    let mut world = world(LaneSettings { max_in_flight: 1, ..settings() });
    world.command(CommandKind::Pause);
    world.rest();
    let ids: Vec<_> = (0..10).map(|_| world.submit()).collect();
    world.rest();
    world.command(CommandKind::Resume);
    world.rest();
    assert_eq!(world.desk.store.state(ids[0]), TxState::Broadcast);
    world.calm_down(50);
}

#[test]
fn those_that_await_a_person_do_not_hide_those_behind_them() {
    let limit = Some(Wei(alloy_primitives::U256::from(100)));
    let mut world = world(LaneSettings { max_in_flight: 1, approve_above: limit, ..settings() });
    let big: Vec<_> = (0..8).map(|_| world.submit_as(payment(1_000), Options::default())).collect();
    let small = world.submit();
    world.rest();
    assert!(big.iter().all(|id| world.desk.store.state(*id) == TxState::AwaitingApproval));
    assert_eq!(world.desk.store.state(small), TxState::Broadcast);
}

#[test]
fn an_idle_lane_has_nothing_to_load() {
    let mut world = world(settings());
    world.rest();
    assert!(world.desk.lane.is_idle());
    world.wait(100_000);
    assert!(world.started.is_empty());
}

/// A queue of any length costs the same memory, and news of it cost no second look at what is here.
#[test]
fn a_lane_with_enough_in_memory_reads_only_commands() {
    let mut world = world(LaneSettings { max_in_flight: 2, ..settings() });
    let limits = |world: &super::super::test_world::World| -> Vec<u32> {
        let loads = world.started.iter().filter_map(|action| match action {
            Action::Load { limit, .. } => Some(*limit),
            _ => None,
        });
        loads.collect()
    };
    world.command(CommandKind::Pause);
    world.rest();
    let ids: Vec<_> = (0..10).map(|_| world.submit()).collect();
    world.turn(vec![LaneEvent::Work]);
    assert_eq!(limits(&world), [4], "twice the window");
    world.rest();
    assert_eq!(world.desk.lane.waiting.len(), 4);
    world.turn(vec![LaneEvent::Work]);
    assert_eq!(limits(&world), [0], "only commands");
    world.rest();

    world.command(CommandKind::Resume);
    world.rest();
    assert_eq!(world.desk.store.state(ids[1]), TxState::Broadcast);
    assert_eq!(world.desk.lane.waiting.len(), 6, "twice the window beyond those that were here");
    world.calm_down(50);
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
    assert!(world.desk.lane.is_idle(), "nothing is left to read");
}

fn handed(world: &super::super::test_world::World, ids: &[TxId]) -> LaneEvent {
    LaneEvent::Admitted(ids.iter().map(|id| world.desk.store.tx(*id).clone()).collect())
}

fn stored(world: &mut super::super::test_world::World) -> TxId {
    world.desk.admit(payment_with_gas(1), Options::default())
}

#[test]
fn what_is_handed_over_is_not_read_back() {
    let mut world = world(settings());
    world.rest();
    let ids = [stored(&mut world), stored(&mut world)];
    let admitted = handed(&world, &ids);
    world.turn(vec![admitted]);
    assert!(!world.started(Kind::Load) && world.started(Kind::Sign));
    world.rest();
    assert_eq!(ids.map(|id| world.slot_of(id)), [Some(5), Some(6)]);
    world.calm_down(50);
    assert!(world.desk.lane.is_idle());
}

/// Others may wait before it, which only the answer to the load says.
#[test]
fn what_comes_while_the_queue_is_read_has_its_place_behind_it() {
    let mut world = world(settings());
    world.rest();
    let first = stored(&mut world);
    world.turn(vec![LaneEvent::Work]);
    let second = stored(&mut world);
    let admitted = handed(&world, &[second]);
    world.turn(vec![admitted]);
    assert!(!world.started(Kind::Sign), "it waits for the answer");
    world.rest();
    assert_eq!([first, second].map(|id| world.slot_of(id)), [Some(5), Some(6)]);
    world.calm_down(50);
    assert!(world.desk.lane.is_idle());
}

#[test]
fn what_comes_while_a_load_fails_is_read_with_the_next() {
    let mut world = world(settings());
    world.rest();
    world.turn(vec![LaneEvent::Work]);
    let id = stored(&mut world);
    let admitted = handed(&world, &[id]);
    world.turn(vec![admitted]);
    world.carry(Kind::Load, Fault::NotDone);
    world.wait(1_000);
    world.rest();
    assert_eq!(world.desk.store.state(id), TxState::Broadcast);
    world.calm_down(50);
}

/// A queue that is longer than what is in memory goes on in its order.
#[test]
fn nothing_is_taken_over_the_heads_of_those_that_wait_in_the_store() {
    let mut world = world(LaneSettings { max_in_flight: 1, ..settings() });
    world.command(CommandKind::Pause);
    world.rest();
    let mut ids: Vec<_> = (0..10).map(|_| world.submit()).collect();
    world.rest();
    let late = stored(&mut world);
    let admitted = handed(&world, &[late]);
    world.turn(vec![admitted]);
    assert!(world.desk.lane.waiting.by_id(late).is_none());
    ids.push(late);
    world.rest();
    world.command(CommandKind::Resume);
    world.rest();
    world.calm_down(50);
    let slots: Vec<_> = ids.iter().map(|id| world.slot_of(*id)).collect();
    assert!(slots.is_sorted(), "{slots:?}");
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
    assert!(world.desk.lane.is_idle());
}

#[test]
fn what_is_known_is_not_taken_twice() {
    let mut world = world(settings());
    let id = world.submit();
    let admitted = handed(&world, &[id]);
    world.carry(Kind::Load, Fault::None);
    world.turn(vec![admitted.clone()]);
    world.rest();
    world.turn(vec![admitted]);
    world.rest();
    world.calm_down(50);
    assert_eq!(world.attempts(6), [], "it has one slot");
}

/// It was stored, read and landed before the word that it was stored came.
#[test]
fn what_has_landed_is_not_taken_when_it_is_handed_over_late() {
    let mut world = world(settings());
    let id = world.submit();
    let admitted = handed(&world, &[id]);
    world.rest();
    world.finalise();
    world.calm_down(50);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    world.turn(vec![admitted]);
    assert!(
        world.started.iter().all(|action| matches!(action, Action::Load { .. })),
        "it is looked for at most"
    );
    world.rest();
    assert!(world.desk.lane.is_idle());
    assert_eq!(world.attempts(6), [], "it has one slot");
}
