//! Clocks that step by hours to years. Whoever runs a lane loads it again when its clock has stepped; here is what a loaded
//! lane makes of times that were stored, or shown to it, by a clock that was off.

use super::super::test_world::Step;
use super::budget::budget_of;
use super::{World, settings, world};
use crate::Millis;
use crate::settings::LaneSettings;
use crate::transaction::TxState;

const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600 * SECOND;
const DAY: i64 = 24 * HOUR;
const YEARS: i64 = 3_652 * DAY;

const STEPS: [i64; 8] = [-10 * SECOND, 10 * SECOND, -HOUR, HOUR, -DAY, DAY, -YEARS, YEARS];

/// As [`world`], late enough that a clock can go back by years.
fn late_world(settings: LaneSettings) -> World {
    let mut world = world(settings);
    world.wait(40 * 365 * DAY as u64);
    world.block();
    world.rest();
    world
}

impl World {
    /// The lane's clock steps, the chain's does not, and the lane is loaded again.
    fn step_clock(&mut self, by: i64) {
        self.desk.now = Millis(self.desk.now.0.saturating_add_signed(by));
        self.chain.behind_ms += by;
        self.play(Step::Crash);
        self.show(0, true);
        self.rest();
    }

    /// The chain moves and takes nothing of ours, or stands still.
    fn seconds(&mut self, seconds: u64, moves: bool) {
        for _ in 0..seconds {
            self.desk.pass(1_000);
            if moves {
                self.chain.mine(0, true, self.desk.now);
            }
            self.show(0, true);
            self.rest();
        }
    }
}

#[test]
fn bytes_that_were_stored_by_a_clock_that_was_off_are_sent_and_re_priced_in_time() {
    for step in STEPS {
        let mut world = late_world(settings());
        let id = world.broadcast();
        world.step_clock(step);
        // The pool has lost them.
        world.chain.evict(0);
        world.seconds(61, true);
        assert!(!world.chain.pool.is_empty(), "sent again after a step of {step} ms");
        assert_eq!(world.attempts(5).len(), 2, "re-priced after a step of {step} ms");
        world.finalise();
        assert_eq!(world.desk.store.state(id), TxState::Confirmed, "after a step of {step} ms");
    }
}

#[test]
fn a_chain_that_stands_still_is_not_bid_against_by_a_clock_that_was_off() {
    for step in STEPS {
        let mut world = late_world(settings());
        world.broadcast();
        world.seconds(120, false);
        let before = world.attempts(5).len();
        world.step_clock(step);
        world.seconds(180, false);
        assert_eq!(world.attempts(5).len(), before, "after a step of {step} ms");
        // It goes on.
        world.seconds(30, true);
        assert_eq!(world.attempts(5).len(), before + 1, "after a step of {step} ms");
    }
}

#[test]
fn a_new_transaction_lands_whatever_the_clock_did_before() {
    for step in STEPS {
        let mut world = late_world(settings());
        let first = world.broadcast();
        world.step_clock(step);
        let second = world.broadcast();
        world.finalise();
        world.step_clock(-step);
        let third = world.broadcast();
        world.finalise();
        for id in [first, second, third] {
            assert_eq!(world.desk.store.state(id), TxState::Confirmed, "after a step of {step} ms");
        }
    }
}

#[test]
fn a_budget_is_for_a_day_of_the_chain_whatever_our_clock_says() {
    for step in STEPS {
        let mut world = late_world(budget_of(1));
        world.broadcast();
        world.step_clock(step);
        world.finalise();
        let spent = world.desk.store.row.spend.fees;
        assert!(spent.0 > alloy_primitives::U256::ZERO);
        // The clock is right again, and it is still the same day.
        world.step_clock(-step);
        let second = world.broadcast();
        let said = world.desk.lane.explain(second, world.desk.now).unwrap();
        assert!(said.contains("may spend today"), "after a step of {step} ms: {said}");
        // The next day has its own budget.
        world.wait(DAY as u64);
        world.finalise();
        world.finalise();
        assert_eq!(world.desk.store.state(second), TxState::Confirmed, "after a step of {step} ms");
    }
}

/// Stored by an older version, whose days were those of its own clock.
#[test]
fn a_stored_day_that_the_chain_has_not_reached_counts_as_today_and_not_for_ever() {
    for ahead in [2, 30, 3_652] {
        let mut world = late_world(budget_of(1));
        world.broadcast();
        world.finalise();
        world.desk.store.row.spend.day += ahead;
        let spent = world.desk.store.row.spend.fees;
        world.play(Step::Crash);
        world.show(0, true);
        let second = world.broadcast();
        assert_eq!(world.slot_of(second), None, "{ahead} days ahead: what was spent counts");
        assert_eq!(world.desk.store.row.spend.fees, spent);
        world.wait(DAY as u64);
        world.finalise();
        world.finalise();
        assert_eq!(world.desk.store.state(second), TxState::Confirmed, "{ahead} days ahead");
    }
}

/// The head may go back over midnight: a reorganisation, or a node that is behind.
#[test]
fn what_was_spent_after_midnight_is_not_forgotten_when_the_head_goes_back_before_it() {
    let mut world = late_world(budget_of(1));
    let now = world.desk.now.0;
    world.wait(DAY as u64 - now % DAY as u64 - 1_500);
    world.block();
    world.wait(2_000);
    world.broadcast();
    world.finalise();
    let spend = world.desk.store.row.spend;
    let after_midnight = world.desk.now;
    world.chain.reorg_past_finality(3, 0, after_midnight);
    world.play(Step::Crash);
    world.show(0, true);
    world.rest();
    assert_eq!(world.desk.store.row.spend, spend);
    let second = world.broadcast();
    assert_eq!(world.slot_of(second), None, "what was spent counts");
    world.wait(1_000);
    world.block();
    world.rest();
    assert_eq!(world.slot_of(second), None, "and still when it is that day again");
}
