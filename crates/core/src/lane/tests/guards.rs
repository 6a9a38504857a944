//! Guards that no file of their own tests: each of these failed when one of them was taken out.

use super::super::test_world::{Fault, Step, World, payment_with_gas};
use super::{Kind, settings, world};
use crate::TxId;
use crate::lane::{Action, LaneEvent};
use crate::outcome::SendOutcome::Invalid;
use crate::ports::chain::Taker;
use crate::ports::store::CommandKind;
use crate::request::{AskedFees, Options, Payload};
use crate::transaction::TxState;
use crate::{Slot, TxHash};

fn taker(payload: &Payload, byte: u8) -> Taker {
    Taker {
        hash: TxHash(alloy_primitives::B256::repeat_byte(byte)),
        to: payload.to,
        value: payload.value,
        data: payload.data.clone(),
        authorizations: Vec::new(),
        receipt: None,
    }
}

fn found(world: &mut World, slot: u64, taker: &Taker) {
    let Action::Prove(proof) = world.take(Kind::Prove) else { unreachable!() };
    assert_eq!(proof.slot, Slot(slot));
    let block = world.chain.winner(Slot(slot)).expect("the slot was used").0.at;
    world.turn(vec![LaneEvent::Foreign { slot: Slot(slot), block, taker: Some(taker.clone()) }]);
}

/// What was seen of an unknown nonce is forgotten when the chain takes its block back: another transaction may have it then.
#[test]
fn what_took_an_unknown_nonce_is_looked_up_anew_after_a_reorganisation() {
    let mut world = world(settings());
    world.play(Step::Foreign);
    world.play(Step::Crash);
    world.show(0, true);
    let same = world.submit_as(payment_with_gas(1), Options::default());
    world.carry(Kind::Load, Fault::None);
    found(&mut world, 5, &taker(&payment_with_gas(9), 0x66));
    world.play(Step::Reorg { depth: 1, keep: false, refill: 1 });
    world.chain.pool.clear();
    world.play(Step::Foreign);
    world.show(0, true);
    if world.started(Kind::Prove) {
        found(&mut world, 5, &taker(&payment_with_gas(1), 0x77));
    }
    world.command(CommandKind::Resume);
    world.carry(Kind::Load, Fault::None);
    for _ in 0..4 {
        world.block();
        while world.started(Kind::Prove) {
            found(&mut world, 5, &taker(&payment_with_gas(1), 0x77));
        }
        while world.started(Kind::Load) {
            world.carry(Kind::Load, Fault::None);
        }
        while world.started(Kind::Sign) {
            world.carry(Kind::Sign, Fault::None);
        }
    }
    let status = &world.desk.store.tx(same).status;
    assert_eq!((status.state, status.slot), (TxState::Confirmed, None), "it landed with nonce 5");
}

fn sent_before_a_crash(world: &mut World) -> TxId {
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    world.carry(Kind::Send, Fault::AnswerLost);
    world.play(Step::Crash);
    world.show(0, true);
    while world.started(Kind::Load) {
        world.carry(Kind::Load, Fault::None);
    }
    id
}

fn is_ending(world: &World, id: TxId) -> bool {
    world.desk.lane.bound.get(&id).is_some_and(|tx| tx.status.ending.is_some())
}

/// It was in a block, and a crash took what was known of the bytes; the stored state still says that a node had them.
#[test]
fn what_was_in_a_block_is_not_given_up_for_a_no_after_a_crash_and_a_reorganisation() {
    let mut world = world(settings());
    let id = sent_before_a_crash(&mut world);
    world.chain.mine(100, true, world.desk.now);
    world.show(0, true);
    assert_eq!(world.desk.store.state(id), TxState::Mined);
    world.play(Step::Crash);
    world.play(Step::Reorg { depth: 1, keep: false, refill: 2 });
    world.chain.pool.clear();
    world.show(0, true);
    while world.started(Kind::Load) {
        world.carry(Kind::Load, Fault::None);
    }
    for _ in 0..600 {
        if world.started(Kind::Send) {
            world.say(Invalid);
        }
        if world.started(Kind::Probe) {
            world.carry(Kind::Probe, Fault::None);
        }
        world.wait(250);
    }
    assert_eq!(world.desk.store.state(id), TxState::Broadcast);
    assert!(!is_ending(&world, id));
}

/// A node may have the bytes from before the crash, whatever it says to dearer ones.
#[test]
fn a_dearer_attempt_that_is_refused_after_a_crash_does_not_end_what_was_sent_before() {
    let mut world = world(settings());
    let id = sent_before_a_crash(&mut world);
    world.started.retain(|action| !matches!(action, Action::Send(_)));
    world.command(CommandKind::SpeedUp { tx: id, fees: AskedFees::Market, speed: None });
    world.carry(Kind::Load, Fault::None);
    while !world.started(Kind::Sign) {
        world.wait(250);
    }
    world.carry(Kind::Sign, Fault::None);
    let attempts = world.attempts(5);
    assert_eq!(attempts.len(), 2);
    let newest = attempts.last().unwrap().clone();
    world.started.retain(|action| !matches!(action, Action::Send(_)));
    world.turn(vec![super::sent(&newest, Invalid)]);
    assert!(!is_ending(&world, id));
}

/// What was counted for a day that the head has not reached again counts.
#[test]
fn a_day_that_the_head_has_left_again_still_counts() {
    const DAY: u64 = 86_400_000;
    let cost = crate::Price::gwei(50).cost(crate::Gas(21_000));
    let mut world = world(crate::settings::LaneSettings { max_spend_per_day: Some(cost), ..settings() });
    let first = world.broadcast();
    world.finalise();
    assert_eq!(world.desk.store.state(first), TxState::Confirmed);
    world.play(Step::Crash);
    world.desk.store.row.spend.day += 1;
    world.desk.store.row.spend.fees = cost;
    let _ = DAY;
    world.play(Step::Crash);
    world.show(0, true);
    let second = world.broadcast();
    assert_eq!(world.slot_of(second), None, "what was spent counts");
}
