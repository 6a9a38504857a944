use super::super::test_world::{Fault, Step, payment, payment_with_gas};
use super::{Kind, settings, world};
use crate::journal::Entry;
use crate::outcome::SendOutcome;
use crate::request::{AskedFees, Options, Payload};
use crate::settings::LaneSettings;
use crate::transaction::TxState;
use crate::{Gas, Price};

impl super::World {
    /// A minute in which the chain moves and takes nothing of ours.
    pub(super) fn stall(&mut self) {
        self.stall_for(60);
    }

    fn stall_for(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.desk.pass(1_000);
            self.chain.mine(0, true, self.desk.now);
            self.show(0, true);
        }
    }
}

#[test]
fn only_the_lowest_slot_is_re_priced_for_being_slow() {
    let mut world = world(settings());
    for _ in 0..3 {
        world.broadcast();
    }
    world.stall();
    world.rest();
    let made: Vec<_> = (5..8).map(|slot| world.attempts(slot).len()).collect();
    assert_eq!(made, [2, 1, 1]);
}

#[test]
fn while_the_lowest_is_being_signed_anew_the_next_one_is_not_the_lowest() {
    let mut world = world(settings());
    for _ in 0..2 {
        world.broadcast();
    }
    world.stall();
    let drafts = world.drafts();
    assert!(drafts.len() == 1 && drafts[0].slot.0 == 5);
    world.stall();
    assert!(!world.started(Kind::Sign));
}

#[test]
fn a_replacement_beats_the_old_price_by_a_fifth() {
    let mut world = world(settings());
    world.broadcast();
    world.stall();
    world.rest();
    let made = world.attempts(5);
    assert_eq!(made[1].fees.cap(), made[0].fees.cap().raised_by(20));
    assert_eq!(made[1].gas, made[0].gas);
}

// covers: M3
#[test]
fn where_gas_moves_with_the_parent_chain_every_attempt_has_its_own_estimate() {
    let mut world = world(LaneSettings { estimate_each_attempt: true, ..settings() });
    world.submit_as(payment(1), Options::default());
    world.rest();
    world.chain.gas = Gas(120_000);
    world.stall();
    assert!(!world.started(Kind::Sign), "the estimate comes first");
    world.rest();
    // A node that says no, or nothing, does not keep a dearer attempt from being made.
    for fault in [Fault::Never, Fault::NotDone] {
        world.stall();
        world.carry(Kind::Prepare, fault);
        world.rest();
    }
    // What its caller has set stays as it is.
    world.submit();
    world.rest();
    let gas: Vec<_> = world.attempts(5).iter().map(|attempt| attempt.gas.0).collect();
    assert_eq!(gas, [48_000, 144_000, 144_000, 144_000], "with a fifth on top");
    world.finalise();
    world.stall();
    world.rest();
    assert!(world.attempts(6).iter().all(|attempt| attempt.gas == Gas(21_000)));
}

#[test]
fn while_the_chain_makes_no_blocks_nothing_slow_is_re_priced_but_bytes_go_on_being_sent() {
    let mut world = world(settings());
    world.broadcast();
    for _ in 0..5 {
        world.wait(60_000);
        assert!(!world.started(Kind::Sign));
        world.carry(Kind::Send, Fault::None);
    }
    world.chain.mine(0, true, world.desk.now);
    world.show(0, true);
    assert!(world.started(Kind::Sign));
}

#[test]
fn refused_as_too_cheap_again_it_is_re_priced_after_longer_and_longer_pauses() {
    let mut world = world(settings());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    world.say(SendOutcome::Underpriced);
    world.carry(Kind::Sign, Fault::None);
    for pause in [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
        world.say(SendOutcome::ReplacementUnderpriced);
        for _ in 0..3 {
            assert!(
                !world.started(Kind::Sign),
                "not at once again: a node that always says so would get them all"
            );
            world.wait(pause / 4);
            // What goes out meanwhile are the same bytes, and being refused again does not prolong the pause.
            if world.started(Kind::Send) {
                world.say(SendOutcome::ReplacementUnderpriced);
            }
        }
        assert!(!world.started(Kind::Sign), "{pause}");
        world.wait(pause / 4);
        if world.started(Kind::Send) {
            world.say(SendOutcome::ReplacementUnderpriced);
        }
        world.carry(Kind::Sign, Fault::None);
    }
    assert_eq!(world.attempts(5).len(), 9);
    let prices: Vec<_> = world.attempts(5).iter().map(|attempt| attempt.fees.cap()).collect();
    assert!(prices.is_sorted_by(|one, next| one < next), "{prices:?}");
    assert!(!world.desk.store.state(id).is_terminal());
}

#[test]
fn at_the_ceiling_the_same_bytes_go_on_and_it_is_said_once() {
    let mut world = world(settings());
    let fees = AskedFees::Dynamic { max_fee: Some(Price::gwei(9)), tip: None };
    let options = Options { max_fee_per_gas: Some(Price::gwei(10)), ..Options::default() };
    world.chain.base_fee = Price::gwei(8);
    world.show(0, true);
    let id = world.submit_as(Payload { fees, ..payment_with_gas(1) }, options);
    world.rest();
    world.chain.base_fee = Price::gwei(20);
    for _ in 0..5 {
        world.stall();
        world.rest();
    }
    let made = world.attempts(5);
    assert!(made.iter().all(|attempt| attempt.fees.cap() <= Price::gwei(10)));
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::AtCeiling { .. })), 1);
    assert!(made.last().is_some_and(|newest| newest.hints.sends > 3));
}

#[test]
fn a_cancel_fits_above_any_content_and_climbs_past_the_contents_own_ceiling() {
    for (asked, own) in [(50, None), (500, None), (9, Some(9))] {
        let mut world = world(settings());
        let fees = AskedFees::Dynamic { max_fee: Some(Price::gwei(asked)), tip: None };
        let options = Options { max_fee_per_gas: own.map(Price::gwei), ..Options::default() };
        let id = world.submit_as(Payload { fees, ..payment_with_gas(1) }, options);
        world.rest();
        world.stall();
        world.rest();
        world.chain.base_fee = Price::gwei(own.map_or(1, |_| 20));
        world.show(0, true);
        world.cancel(id);
        world.rest();
        assert!(world.attempts(5).last().is_some_and(|newest| newest.no_op), "{asked}");
        world.calm_down(100);
        assert_eq!(world.desk.store.state(id), TxState::Cancelled, "{asked}");
    }
}

#[test]
fn a_content_has_no_more_attempts_than_the_settings_allow() {
    let mut world = world(LaneSettings { max_attempts: 3, ..settings() });
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    for _ in 0..10 {
        if world.started(Kind::Send) {
            world.say(SendOutcome::Underpriced);
        }
        if world.started(Kind::Sign) {
            world.carry(Kind::Sign, Fault::None);
        }
        world.wait(10_000);
    }
    assert_eq!(world.attempts(5).len(), 3);
    world.cancel(id);
    world.rest();
    assert_eq!(world.attempts(5).len(), 4, "a cancel may still be made");
}

#[test]
fn a_re_price_that_the_signer_fails_keeps_the_old_bytes_and_is_asked_again() {
    let mut world = world(settings());
    world.broadcast();
    world.stall();
    world.carry(Kind::Sign, Fault::Never);
    assert!(!world.started(Kind::Sign));
    assert_eq!(world.attempts(5).len(), 1);
    world.desk.pass(1_000);
    world.block();
    world.rest();
    assert_eq!(world.desk.lane.slots.len(), 1);
    world.play(Step::Settle);
}

#[test]
fn a_transaction_that_the_account_cannot_pay_is_not_made_dearer() {
    let mut world = world(settings());
    world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    world.say(SendOutcome::InsufficientFunds);
    world.stall();
    assert!(!world.started(Kind::Sign));
    assert!(world.started(Kind::Send), "the same bytes go on being sent");
}

// covers: B4
#[test]
fn a_slot_that_a_stranger_has_used_is_not_re_priced() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.play(Step::Foreign);
    world.show(0, true);
    world.carry(Kind::Look, Fault::None);
    world.stall();
    world.stall();
    assert!(!world.started(Kind::Sign));
    assert!(!world.desk.store.state(id).is_terminal(), "nor is it given up");
}

// covers: D3
#[test]
fn after_a_restart_a_replacement_still_beats_every_attempt_made_before() {
    let mut world = world(settings());
    world.broadcast();
    world.stall();
    world.rest();
    world.play(Step::Crash);
    world.show(0, true);
    world.rest();
    world.stall();
    world.rest();
    let made = world.attempts(5);
    assert_eq!(made.len(), 3);
    assert!(made[2].fees.cap() >= made[1].fees.cap().raised_by(10));
    assert!(made[2].fees.tip() >= made[1].fees.tip().raised_by(10));
    assert_eq!(world.chain.pool.values().next(), Some(&made[2].hash), "the pool took it");
}

// covers: D7, O14
#[test]
fn one_that_is_in_a_block_or_was_just_reached_is_not_re_priced() {
    let mut mined = world(settings());
    mined.broadcast();
    mined.chain.mine(1, true, mined.desk.now);
    mined.show(0, false);
    mined.carry(Kind::Look, Fault::NotDone);
    mined.stall();
    assert!(!mined.started(Kind::Sign), "it is in a block, though its receipt is not shown");

    let mut world = world(settings());
    world.broadcast();
    let second = world.broadcast();
    world.stall_for(50);
    assert!(!world.started(Kind::Sign), "blocks came, and the interval has not passed");
    world.chain.mine(1, true, world.desk.now);
    world.show(0, true);
    world.stall_for(59);
    assert!(!world.started(Kind::Sign), "it could land only since the one below it did");
    world.stall_for(1);
    assert_eq!(world.drafts()[0].tx, Some(second));
}
