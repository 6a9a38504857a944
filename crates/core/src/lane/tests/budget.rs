use alloy_primitives::U256;

use super::super::test_world::{Fault, Step};
use super::{Kind, World, payment_with_gas, settings, world};
use crate::fees::DataFee;
use crate::ports::store::CommandKind;
use crate::request::{AskedFees, Options, Payload};
use crate::settings::LaneSettings;
use crate::transaction::TxState;
use crate::{Gas, TxId, Wei};

const DAY_MS: u64 = 86_400_000;
/// What a transfer costs at most: 21,000 gas at twice the base fee of 1 gwei and a tip of 2.
const ONE: u64 = 21_000 * 4_000_000_000;

/// A budget of so many transfers at what the first attempt offers at worst.
pub(super) fn budget_of(transfers: u64) -> LaneSettings {
    let mut world = world(settings());
    world.broadcast();
    let first = &world.attempts(5)[0];
    let worst = first.fees.cap().cost(first.gas).0;
    LaneSettings { max_spend_per_day: Some(Wei(worst * U256::from(transfers))), ..settings() }
}

// covers: D8, L5
#[test]
fn beyond_the_days_budget_no_slot_is_handed_out_and_it_says_so() {
    let mut world = world(budget_of(2));
    let ids: Vec<_> = (0..4).map(|_| world.submit()).collect();
    world.rest();
    let slots: Vec<_> = ids.iter().map(|id| world.slot_of(*id)).collect();
    assert_eq!(slots, [Some(5), Some(6), None, None]);
    let said = world.desk.lane.explain(ids[2], world.desk.now).unwrap();
    assert!(said.contains("may spend today"), "{said}");
    // What became final cost less than its worst, so one more fits; the day's fees are kept over a restart.
    world.finalise();
    let spent = world.desk.store.row.spend.fees;
    assert!(spent.0 > U256::ZERO);
    world.play(Step::Crash);
    world.show(0, true);
    world.rest();
    assert_eq!(world.desk.store.row.spend.fees, spent);
    for _ in 0..10 {
        world.finalise();
    }
    let day = world.desk.store.row.spend;
    assert!(day.fees <= budget_of(2).max_spend_per_day.unwrap(), "{day:?}");
    // The next day is another one.
    let now = world.desk.now.0;
    world.wait(DAY_MS - now % DAY_MS);
    let tomorrows = world.submit();
    for _ in 0..10 {
        world.show(0, true);
        world.rest();
        world.finalise();
    }
    assert_eq!(world.desk.store.state(tomorrows), TxState::Confirmed);
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
    assert!(world.desk.store.row.spend.day > day.day);
}

#[test]
fn a_re_price_beyond_the_budget_waits_and_a_cancel_does_not() {
    let mut world = world(budget_of(1));
    let id = world.broadcast();
    let before = world.attempts(5).len();
    for _ in 0..120 {
        world.desk.pass(1_000);
        world.chain.mine(0, true, world.desk.now);
        world.show(0, true);
        world.rest();
    }
    assert_eq!(world.attempts(5).len(), before, "a dearer attempt would go beyond it");
    let said = world.desk.lane.explain(id, world.desk.now).unwrap();
    assert!(said.contains("may spend today"), "{said}");
    world.cancel(id);
    world.rest();
    let newest = world.attempts(5).pop().unwrap();
    assert!(newest.no_op, "the no-op of a cancel is always allowed");
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Cancelled);
}

/// Reserves slots for transfers of so much gas each, and nothing signs them before the market has risen.
fn reserved(budget: u64, gas: &[u64]) -> (World, Vec<TxId>) {
    let mut world = world(LaneSettings { reserve_before_signing: true, ..budget_of(budget) });
    let transfer = |gas: &u64| Payload { gas: Some(Gas(*gas)), ..payment_with_gas(1) };
    let ids: Vec<_> = gas.iter().map(|gas| world.submit_as(transfer(gas), Options::default())).collect();
    while world.started(Kind::Load) {
        world.carry(Kind::Load, Fault::None);
    }
    world.show(0, true);
    assert!(ids.iter().zip(5..).all(|(id, slot)| world.slot_of(*id) == Some(slot)));
    world.play(Step::Crash);
    world.play(Step::BaseFee(30));
    world.wait(10_000);
    world.show(0, true);
    world.rest();
    (world, ids)
}

#[test]
fn a_slot_that_was_reserved_before_the_market_rose_is_given_back_if_it_is_beyond_the_budget() {
    let (world, ids) = reserved(4, &[21_000, 21_000]);
    let budget = budget_of(4).max_spend_per_day.unwrap().0;
    let offered = |slot| world.attempts(slot).last().map_or(U256::ZERO, |a| a.fees.cap().cost(a.gas).0);
    assert!(offered(5) + offered(6) <= budget, "{} and {} of {budget}", offered(5), offered(6));
    assert_eq!(world.slot_of(ids[1]), None);
    let said = world.desk.lane.explain(ids[1], world.desk.now).unwrap();
    assert!(said.contains("may spend today"), "{said}");
}

#[test]
fn after_a_crash_nobody_takes_what_a_reserved_slot_needs_of_the_budget() {
    let mut world = world(LaneSettings { reserve_before_signing: true, ..budget_of(1) });
    let ids = [1, 2].map(|value| world.submit_as(payment_with_gas(value), Options::default()));
    while world.started(Kind::Load) {
        world.carry(Kind::Load, Fault::None);
    }
    world.show(0, true);
    assert_eq!(ids.map(|id| world.slot_of(id)), [Some(5), None], "the budget is for one");
    world.play(Step::Crash);
    while world.started(Kind::Load) {
        world.carry(Kind::Load, Fault::None);
    }
    world.show(0, true);
    world.rest();
    assert_eq!(ids.map(|id| world.slot_of(id)), [Some(5), None]);
    assert!(!world.attempts(5)[0].no_op);
}

#[test]
fn what_is_above_a_slot_that_was_given_back_for_its_price_lands() {
    let (mut world, ids) = reserved(30, &[600_000, 21_000]);
    assert_eq!((world.slot_of(ids[0]), world.slot_of(ids[1])), (None, Some(6)));
    world.calm_down(20);
    assert_eq!(world.desk.store.state(ids[1]), TxState::Confirmed);
    assert!(world.attempts(5).iter().all(|attempt| attempt.no_op));
}

#[test]
fn two_that_are_re_priced_at_once_count_together() {
    let two = budget_of(20).max_spend_per_day.unwrap().0 / U256::from(10);
    // Each may become a fifth dearer, but not both.
    let budget = two + two * U256::from(15) / U256::from(100);
    let mut world = world(LaneSettings { max_spend_per_day: Some(Wei(budget)), ..settings() });
    for id in [world.broadcast(), world.broadcast()] {
        world.command(CommandKind::SpeedUp { tx: id, fees: AskedFees::Market, speed: None });
    }
    world.carry(Kind::Load, Fault::None);
    let drafts: Vec<_> = world.drafts().iter().map(|draft| draft.slot.0).collect();
    assert_eq!(drafts, [5], "the second would go beyond it");
}

#[test]
fn a_clock_that_goes_back_does_not_begin_an_old_day_again() {
    let mut world = world(budget_of(1));
    let first = world.broadcast();
    world.finalise();
    assert_eq!(world.desk.store.state(first), TxState::Confirmed);
    let day = world.desk.store.row.spend;
    world.play(Step::ClockBack(2 * DAY_MS));
    world.play(Step::Crash);
    world.show(0, true);
    world.submit();
    world.rest();
    world.finalise();
    assert_eq!(world.desk.store.row.spend.day, day.day, "the same day");
    assert!(world.desk.store.row.spend.fees >= day.fees, "what was spent is not forgotten");
}

/// A rollup that charges so much for the bytes of any transaction.
fn rollup(data_fee: u64, budget: u64) -> World {
    let mut world = world(LaneSettings { max_spend_per_day: Some(Wei(U256::from(budget))), ..settings() });
    world.chain.data_fee = Some(DataFee { fixed: Wei(U256::from(data_fee)), per_byte: Wei::default() });
    world.show(0, true);
    world
}

#[test]
fn the_fee_for_bytes_on_the_parent_chain_counts_against_the_budget() {
    let mut world = rollup(ONE, 3 * ONE);
    let ids = [world.submit(), world.submit()];
    world.rest();
    assert_eq!(ids.map(|id| world.slot_of(id)), [Some(5), None], "by gas alone there is room for three");
    let said = world.desk.lane.explain(ids[1], world.desk.now).unwrap();
    assert!(said.contains(&format!("come to {} wei", 2 * ONE)) && said.contains(&ONE.to_string()), "{said}");
}

#[test]
fn a_reserved_slot_whose_bytes_have_become_dear_is_given_back() {
    let budget = Some(Wei(U256::from(3 * ONE)));
    let mut world = world(LaneSettings { max_spend_per_day: budget, ..super::remote() });
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    assert_eq!(world.slot_of(id), Some(5));
    world.play(Step::Crash);
    world.chain.data_fee = Some(DataFee { fixed: Wei(U256::from(3 * ONE)), per_byte: Wei::default() });
    world.show(0, true);
    world.rest();
    assert_eq!((world.slot_of(id), world.attempts(5).len()), (None, 0));
}

#[test]
fn a_bump_is_counted_with_the_fee_for_its_bytes() {
    // A fifth more for gas fits, if the bytes of what is out are not counted twice, nor left out.
    for (budget, fits) in [(2 * ONE + ONE / 4, true), (2 * ONE + ONE / 10, false)] {
        let mut world = rollup(ONE, budget);
        let id = world.broadcast();
        world.command(CommandKind::SpeedUp { tx: id, fees: AskedFees::Market, speed: None });
        world.rest();
        assert_eq!(world.attempts(5).len() == 2, fits, "{budget}");
    }
}

#[test]
fn what_a_receipt_tells_of_the_fee_for_bytes_is_spent_and_where_it_tells_nothing_the_most_it_can_be() {
    let by_gas = U256::from(21_000u64 * 1_000_000_000);
    for (told, counted) in [(Some(7), 7), (Some(0), 0), (None, ONE)] {
        let mut world = rollup(ONE, 10 * ONE);
        world.chain.data_fee_told = told.map(|wei: u64| Wei(U256::from(wei)));
        let id = world.broadcast();
        world.finalise();
        assert_eq!(world.desk.store.state(id), TxState::Confirmed);
        assert_eq!(world.desk.store.row.spend.fees.0, by_gas + U256::from(counted), "{told:?}");
    }
}
