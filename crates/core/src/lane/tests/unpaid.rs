//! No bump that the account cannot pay, and what it can pay goes on being sent.

use alloy_primitives::U256;

use super::super::test_world::{Fault, Step, World, payment_with_gas};
use super::{Kind, remote, settings, world};
use crate::fees::DataFee;
use crate::lane::Action;
use crate::outcome::SendOutcome;
use crate::request::Options;
use crate::transaction::TxState;
use crate::{Slot, TxHash, TxId, Wei};

/// What a payment of next to nothing costs at most: 21,000 gas at twice the base fee of 1 gwei and a tip of 2.
const ONE: u64 = 21_000 * 4_000_000_000;
/// What the values of a few payments come to.
const VALUES: u64 = 100;

impl World {
    /// The account has this from the next block on.
    fn has(&mut self, wei: u64) {
        self.chain.set_balance(Wei(U256::from(wei)));
        self.chain.mine(0, true, self.desk.now);
        self.show(0, true);
    }

    fn sent_now(&mut self) -> Vec<TxHash> {
        let Action::Send(outgoing) = self.take(Kind::Send) else { unreachable!() };
        let hashes = outgoing.iter().map(|one| one.sealed.hash).collect();
        let answer = self.act(Action::Send(outgoing), &Fault::None);
        self.turn(vec![answer]);
        hashes
    }

    fn stuck(&self, id: TxId) -> String {
        self.desk.lane.explain(id, self.desk.now).unwrap()
    }

    fn caps_of(&self, slot: u64) -> Vec<u128> {
        self.attempts(slot).iter().map(|attempt| attempt.fees.cap().0).collect()
    }
}

#[test]
fn a_bump_that_cannot_be_paid_is_not_signed_until_funds_come_and_what_is_out_goes_on_being_sent() {
    let mut world = world(settings());
    world.has(ONE + ONE / 20);
    let id = world.broadcast();
    for _ in 0..3 {
        world.stall();
        assert!(!world.started(Kind::Sign));
        assert!(world.started(Kind::Send), "the same bytes go on");
        world.rest();
    }
    // A tenth is what pools ask for.
    let (needs, has) = (ONE + ONE / 10 + 1, ONE + ONE / 20);
    let said = world.stuck(id);
    assert!(said.contains(&format!("the bump needs {} wei more", needs - has)), "{said}");
    assert!(said.contains(&needs.to_string()) && said.contains(&has.to_string()), "{said}");
    let told = |told: &crate::journal::NewEntry| told.entry.event().map(str::to_owned);
    let lane = |event: &String| event.starts_with("lane.");
    assert_eq!(
        world.desk.store.journal.iter().filter_map(told).filter(lane).collect::<Vec<_>>(),
        ["lane.low_balance"]
    );
    world.has(2 * ONE);
    world.rest();
    assert_eq!(world.attempts(5).len(), 2, "by itself");
    assert!(!world.stuck(id).contains("the bump needs"), "{}", world.stuck(id));
    world.wait(1_000);
    assert_eq!(
        world.desk.store.journal.iter().filter_map(told).filter(lane).collect::<Vec<_>>(),
        ["lane.low_balance", "lane.balance_restored"]
    );
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

#[test]
fn a_bump_offers_what_can_be_paid_where_that_is_less_than_the_ladder_wants_and_enough_for_pools() {
    let mut world = world(settings());
    let balance = ONE + ONE * 15 / 100;
    world.has(balance);
    world.broadcast();
    world.stall();
    world.rest();
    let caps = world.caps_of(5);
    assert_eq!(caps.len(), 2);
    assert!(caps[1] * 100 >= caps[0] * 110 && caps[1] * 21_000 <= u128::from(balance), "{caps:?}");
}

#[test]
fn what_else_is_out_counts_and_the_slots_own_cost_is_released() {
    for (balance, bumped) in [(2 * ONE + ONE / 20, false), (2 * ONE + ONE / 4, true)] {
        let mut world = world(settings());
        world.has(balance + VALUES);
        world.broadcast();
        world.broadcast();
        world.stall();
        world.rest();
        assert_eq!(world.attempts(5).len() == 2, bumped, "{balance}");
    }
}

#[test]
fn the_fee_for_bytes_on_the_parent_chain_is_part_of_what_a_bump_costs() {
    for (balance, bumped) in [(2 * ONE + ONE / 20, false), (2 * ONE + ONE / 4, true)] {
        let mut world = world(settings());
        world.chain.data_fee = Some(DataFee { fixed: Wei(U256::from(ONE)), per_byte: Wei::default() });
        world.has(balance);
        world.broadcast();
        world.stall();
        world.rest();
        assert_eq!(world.attempts(5).len() == 2, bumped, "{balance}");
    }
}

#[test]
fn two_bumps_at_once_count_together() {
    let mut world = world(settings());
    let ids = [world.broadcast(), world.broadcast()];
    // Each may become a fifth dearer, but not both.
    world.has(2 * ONE + ONE * 25 / 100 + VALUES);
    for id in ids {
        let fees = crate::request::AskedFees::Market;
        world.command(crate::ports::store::CommandKind::SpeedUp { tx: id, fees, speed: None });
    }
    world.carry(Kind::Load, Fault::None);
    assert_eq!(world.drafts().iter().map(|draft| draft.slot.0).collect::<Vec<_>>(), [5]);
    let said = world.stuck(ids[1]);
    assert!(said.contains("the bump needs") && said.contains("waits for nonce 5"), "{said}");
}

#[test]
fn a_cancel_that_costs_less_than_what_is_out_is_signed_whatever_others_leave() {
    let mut world = world(settings());
    world.has(10 * ONE);
    let id = world.submit_as(payment_with_gas(5 * ONE), Options::default());
    world.rest();
    for _ in 0..3 {
        world.broadcast();
    }
    // Less than what all may cost: nothing is left for a bump, and too little for a no-op, which costs nearly three.
    world.has(5 * ONE);
    world.stall();
    world.rest();
    assert_eq!(world.attempts(5).len(), 1);
    world.cancel(id);
    world.rest();
    assert!(world.attempts(5)[1].no_op);
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Cancelled);
}

#[test]
fn a_no_op_that_the_account_cannot_pay_waits_for_funds_and_says_so() {
    let mut world = world(settings());
    world.has(ONE + 1);
    let id = world.broadcast();
    world.cancel(id);
    world.rest();
    assert_eq!(world.attempts(5).len(), 1);
    assert!(world.stuck(id).contains("the bump needs"), "{}", world.stuck(id));
    // Its gas was estimated as more than a transfer's.
    world.has(4 * ONE);
    world.rest();
    assert!(world.attempts(5)[1].no_op);
}

#[test]
fn a_speed_up_waits_for_funds_in_any_slot_and_is_fulfilled_when_they_come() {
    let mut world = world(settings());
    world.has(2 * ONE + VALUES);
    world.broadcast();
    let id = world.broadcast();
    world.speed_up(id, Some(20), None);
    world.rest();
    assert_eq!(world.attempts(6).len(), 1);
    world.has(20 * ONE);
    world.rest();
    assert_eq!(world.caps_of(6)[1..], [20_000_000_000]);
}

/// A slot whose newest attempt the account could pay when it was signed.
fn bumped_twice(balance_then: u64) -> (World, TxId) {
    let mut world = world(settings());
    world.has(10 * ONE);
    let id = world.broadcast();
    for _ in 0..2 {
        world.stall();
        world.rest();
    }
    assert_eq!(world.attempts(5).len(), 3);
    world.has(balance_then);
    assert!(world.chain.pool.is_empty(), "the node has dropped what cannot be paid");
    (world, id)
}

#[test]
fn where_the_newest_attempt_cannot_be_paid_any_more_the_dearest_that_can_be_is_sent_beside_it() {
    // The first costs one, each bump a fifth more.
    let (mut world, id) = bumped_twice(ONE + ONE * 3 / 10);
    let made: Vec<TxHash> = world.attempts(5).iter().map(|attempt| attempt.hash).collect();
    while !world.started(Kind::Send) {
        world.wait(1_000);
        if world.started(Kind::Probe) {
            world.carry(Kind::Probe, Fault::None);
        }
    }
    assert_eq!(world.sent_now(), [made[2], made[1]]);
    let said = world.stuck(id);
    assert!(said.contains("the dearest attempt that it can pay is sent beside it"), "{said}");
    let sent = world.desk.lane.slots[&Slot(5)].attempts[2].hints.last().map(|report| report.outcome);
    assert_eq!(sent, Some(SendOutcome::InsufficientFunds));
    assert!(!world.started(Kind::Send), "both wait for the next time");
    world.wait(5_000);
    assert_eq!(world.sent_now(), [made[2], made[1]], "again and again");
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert_eq!(world.desk.store.tx(id).status.won.as_ref().map(|won| won.hash), Some(made[1]));
}

#[test]
fn an_older_content_is_not_sent_beside_a_newer_one_that_cannot_be_paid() {
    let mut world = world(settings());
    world.has(10 * ONE);
    let id = world.broadcast();
    world.cancel(id);
    world.rest();
    assert!(world.attempts(5)[1].no_op);
    world.has(ONE + 100);
    world.wait(60_000);
    let newest = world.attempts(5)[1].hash;
    assert_eq!(world.sent_now(), [newest], "its caller does not want it any more");
}

#[test]
fn a_balance_that_nobody_knows_keeps_nothing_from_being_bumped() {
    let mut world = world(settings());
    world.broadcast();
    world.chain.balance = None;
    world.stall();
    world.rest();
    assert_eq!(world.attempts(5).len(), 2);
}

#[test]
fn a_reserved_slot_counts_as_out_before_it_is_signed() {
    let mut world = world(remote());
    world.has(ONE + ONE / 2);
    let first = world.submit();
    world.carry(Kind::Load, Fault::None);
    assert_eq!(world.slot_of(first), Some(5));
    let second = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.has(ONE + ONE / 2);
    assert_eq!((world.attempts(5).len(), world.slot_of(second)), (0, None), "one is all it can pay");
    world.play(Step::Settle);
}
