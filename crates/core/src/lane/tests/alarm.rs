use super::super::test_world::{Step, World, payment_with_gas};
use super::{Kind, settings, world};
use crate::lane::{Alarm, LaneEvent};
use crate::request::{OnDisplaced, Options};
use crate::transaction::TxState;
use crate::view::Receipt;
use crate::{Slot, TxHash};

/// The chain also shows this attempt, in its newest block.
fn also_shown(world: &mut World, hash: TxHash, like: &Receipt) -> Vec<Alarm> {
    let view = world.desk.lane.view.clone().unwrap();
    let receipt = Receipt { hash, block: view.head.at, ..like.clone() };
    let now = world.desk.now;
    world.desk.lane.apply(vec![LaneEvent::Chain { view, receipts: vec![receipt] }], now);
    world.desk.lane.take_alarms()
}

#[test]
fn two_attempts_of_a_slot_in_blocks_of_one_chain_raise_an_alarm_once() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.cancel(id);
    world.carry(Kind::Prepare, super::Fault::None);
    world.carry(Kind::Sign, super::Fault::None);
    world.block();
    let receipt = world.desk.store.tx(id).status.receipt.clone().unwrap();
    let [first, second] = [world.attempts(5)[0].hash, world.attempts(5)[1].hash];
    assert_eq!(receipt.hash, first);
    assert!(world.desk.lane.take_alarms().is_empty());
    let alarm = Alarm::TwoWinners { slot: Slot(5), first, second };
    assert_eq!(also_shown(&mut world, second, &receipt), [alarm]);
    assert_eq!(also_shown(&mut world, second, &receipt), [], "told once");
}

#[test]
fn a_transaction_that_wins_in_its_old_slot_as_well_raises_an_alarm() {
    let mut world = world(settings());
    let options = Options { on_displaced: Some(OnDisplaced::Requeue), ..Options::default() };
    let id = world.submit_as(payment_with_gas(1), options);
    world.rest();
    world.play(Step::Foreign);
    world.finalise();
    world.prove();
    world.rest();
    assert_eq!(world.slot_of(id), Some(6));
    world.watched_still(5, 8);
    world.show(0, true);
    world.block();
    assert_eq!(world.desk.store.state(id), TxState::Mined);
    let receipt = world.desk.store.tx(id).status.receipt.clone().unwrap();
    let old = world.attempts(5)[0].hash;
    let alarm = Alarm::WonTwice { tx: id, one: Slot(6), other: Slot(5) };
    assert_eq!(also_shown(&mut world, old, &receipt), [alarm]);
}

#[test]
fn a_slot_whose_winner_was_taken_back_may_be_won_by_another_attempt() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.block();
    world.chain.reorg(1, false, 1, world.desk.now);
    world.show(0, true);
    world.calm_down(20);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert!(world.desk.lane.take_alarms().is_empty());
}
