//! No slot by an old count, and no end by old facts.

use std::sync::Arc;

use alloy_primitives::U256;

use super::super::test_world::{Fault, LANE, Step, payment, payment_with_gas};
use super::{Kind, World, remote, settings, world};
use crate::lane::{Action, LaneEvent, Prepared, Wants};
use crate::ports::chain::EstimateFailure;
use crate::request::{OnInsufficientFunds, Options, Payload};
use crate::settings::LaneSettings;
use crate::transaction::{ReasonCode, TxState};
use crate::view::Look;
use crate::{Gas, TxId, Wei};

/// As much as a payment needs, and more.
const PLENTY: u64 = 1_000_000_000_000_000_000;

impl World {
    /// A new head, with what was known of the account before: nobody asked about it.
    fn show_head_alone(&mut self) {
        let mut view = self.chain.view(0);
        let known = self.desk.lane.account().copied().expect("the account was seen");
        view.accounts.insert(LANE.signer, known);
        self.turn(vec![LaneEvent::Chain { view: Arc::new(view), receipts: Vec::new() }]);
    }

    /// A look that had begun before: it shows the newest head, and counts as older than what was asked for since.
    fn show_look_of_before(&mut self, begun: Look) {
        let mut view = self.chain.view(0);
        view.accounts.get_mut(&LANE.signer).unwrap().read = begun;
        self.turn(vec![LaneEvent::Chain { view: Arc::new(view), receipts: Vec::new() }]);
    }

    fn submit_or_fail(&mut self, payload: Payload) -> TxId {
        let fail = OnInsufficientFunds::Fail;
        let id = self.submit_as(payload, Options { on_insufficient_funds: fail, ..Options::default() });
        self.carry(Kind::Load, Fault::None);
        id
    }
}

#[test]
fn a_slot_is_handed_out_by_a_count_of_the_head_and_by_no_older_one() {
    for settings in [settings(), remote()] {
        let mut world = world(settings);
        world.chain.mine(0, true, world.desk.now);
        world.show_head_alone();
        let id = world.submit();
        world.carry(Kind::Load, Fault::None);
        assert!(!world.started(Kind::Sign), "{:?}", world.started);
        assert_eq!((world.desk.wants, world.slot_of(id)), (Wants::Head, None));
        world.show(0, true);
        world.rest();
        assert_eq!(world.slot_of(id), Some(5));
    }
}

#[test]
fn what_was_signed_while_the_head_moved_waits_for_the_count_of_that() {
    let mut world = world(settings());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.chain.mine(0, true, world.desk.now);
    world.show_head_alone();
    world.carry(Kind::Sign, Fault::None);
    assert_eq!((world.slot_of(id), world.desk.wants), (None, Wants::Head));
    world.show(0, true);
    assert_eq!(world.slot_of(id), Some(5), "the signature is as good as before");
}

/// The key was used by somebody else between the head that was known and the newest one.
#[test]
fn a_slot_that_was_used_meanwhile_is_not_signed_for() {
    let mut world = world(settings());
    world.play(Step::Foreign);
    world.show_head_alone();
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    assert!(!world.started(Kind::Sign));
    world.show(0, true);
    assert!(!world.started(Kind::Sign), "slot 5 is somebody else's");
    assert_eq!(world.slot_of(id), None);
}

#[test]
fn a_no_op_fills_a_slot_by_a_count_of_the_head_only() {
    let mut world = world(remote());
    let (low, high) = (world.submit(), world.submit());
    world.carry(Kind::Load, Fault::None);
    assert_eq!((world.slot_of(low), world.slot_of(high)), (Some(5), Some(6)));
    world.chain.mine(0, true, world.desk.now);
    world.show_head_alone();
    world.cancel(low);
    world.carry(Kind::Prepare, Fault::None);
    let fills = |action: &Action| matches!(action, Action::Sign(drafts) if drafts.iter().any(|d| d.no_op));
    assert!(!world.started.iter().any(fills), "{:?}", world.started);
    assert_eq!(world.desk.wants, Wants::Head);
    world.rest();
    assert_eq!(world.attempts(5).len(), 1);
    assert!(world.attempts(5)[0].no_op);
}

#[test]
fn a_lane_at_rest_wants_nothing() {
    let mut world = world(settings());
    world.broadcast();
    world.finalise();
    assert!(world.desk.lane.is_idle());
    world.chain.mine(0, true, world.desk.now);
    world.show_head_alone();
    assert_eq!((world.desk.wants, world.desk.lane.gives()), (Wants::Nothing, false));
}

#[test]
fn a_transaction_does_not_fail_on_a_balance_of_before_it_was_asked_for() {
    let mut world = world(settings());
    world.chain.balance = Some(Wei(U256::ZERO));
    world.show(0, true);
    // Funded, and nobody has told the lane.
    world.chain.balance = Some(Wei(U256::from(PLENTY)));
    world.chain.mine(0, true, world.desk.now);
    let ids: Vec<TxId> = (1..=3).map(|value| world.submit_or_fail(payment_with_gas(value))).collect();
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Accepted));
    assert_eq!(world.desk.wants, Wants::Anew);
    world.rest();
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Broadcast), "every one lands");
}

#[test]
fn a_transaction_fails_on_a_balance_that_was_read_after_it_was_found_out() {
    let mut world = world(settings());
    world.chain.balance = Some(Wei(U256::ZERO));
    world.show(0, true);
    let begun = world.chain.looks;
    let id = world.submit_or_fail(payment_with_gas(1));
    world.show_look_of_before(begun);
    assert_eq!(world.desk.store.state(id), TxState::Accepted, "this look began before");
    world.show(0, true);
    let status = &world.desk.store.tx(id).status;
    assert_eq!((status.state, status.slot), (TxState::Failed, None));
    assert_eq!(status.reason.as_ref().map(|reason| reason.code), Some(ReasonCode::InsufficientFunds));
    assert!(world.desk.lane.doubts.is_empty());
}

#[test]
fn one_after_the_other_each_is_judged_by_the_look_that_was_made_for_it() {
    let mut world = world(settings());
    world.chain.balance = Some(Wei(U256::ZERO));
    world.show(0, true);
    let first = world.submit_or_fail(payment_with_gas(1));
    // A look begins, and does not end before the next one comes.
    world.chain.looks.0 += 1;
    let under_way = world.chain.looks;
    let second = world.submit_or_fail(payment_with_gas(2));
    world.show_look_of_before(under_way);
    assert_eq!(world.desk.store.state(first), TxState::Failed);
    assert_eq!(world.desk.store.state(second), TxState::Accepted);
    world.show(0, true);
    assert_eq!(world.desk.store.state(second), TxState::Failed);
}

#[test]
fn gas_above_the_limit_of_an_old_block_is_no_reason_to_fail() {
    let mut world = world(settings());
    let mut view = world.chain.view(0);
    view.head.gas_limit = Gas(20_000);
    world.turn(vec![LaneEvent::Chain { view: Arc::new(view), receipts: Vec::new() }]);
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    assert!(!world.started(Kind::Sign), "it is in doubt");
    assert_eq!((world.desk.store.state(id), world.desk.wants), (TxState::Accepted, Wants::Anew));
    world.rest();
    assert_eq!(world.slot_of(id), Some(5));
}

#[test]
fn an_estimate_that_says_no_is_asked_for_again_when_the_newest_head_is_known() {
    let failures = [
        EstimateFailure::Reverted { reason: "behind".into() },
        EstimateFailure::Invalid { text: "behind".into() },
        EstimateFailure::InsufficientFunds { text: "behind".into() },
    ];
    for failure in failures {
        let mut world = world(settings());
        let id = world.submit_or_fail(payment(1));
        world.estimate_says(failure);
        assert_eq!((world.desk.store.state(id), world.desk.wants), (TxState::Accepted, Wants::Anew));
        world.rest();
        assert_eq!(world.desk.store.state(id), TxState::Broadcast, "the node was behind");
    }
}

impl World {
    fn estimate_says(&mut self, failure: EstimateFailure) {
        let Action::Prepare(jobs) = self.take(Kind::Prepare) else { unreachable!() };
        let no =
            |job: &crate::lane::PrepareJob| Prepared { target: job.target, result: Err(failure.clone()) };
        let answers = jobs.iter().map(no).collect();
        self.turn(vec![LaneEvent::Prepared(answers)]);
    }
}

#[test]
fn an_estimate_that_began_before_the_head_was_known_does_not_count_as_the_second() {
    let mut world = world(settings());
    let id = world.submit_as(payment(1), Options::default());
    world.carry(Kind::Load, Fault::None);
    let no = || EstimateFailure::Reverted { reason: "no".into() };
    world.estimate_says(no());
    // The chain cannot be reached for a while, and another estimate is asked for meanwhile.
    world.wait(5_000);
    world.show(0, true);
    world.estimate_says(no());
    assert_eq!(world.desk.store.state(id), TxState::Accepted);
    world.show(0, true);
    world.estimate_says(no());
    assert_eq!(world.desk.store.state(id), TxState::Failed);
}

#[test]
fn a_reserved_slot_is_not_given_up_for_one_estimate() {
    let mut world = world(remote());
    let id = world.submit_as(payment(1), Options::default());
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Prepare, Fault::None);
    world.play(Step::Crash);
    world.show(0, true);
    world.estimate_says(EstimateFailure::Reverted { reason: "behind".into() });
    assert_eq!((world.slot_of(id), world.desk.store.state(id)), (Some(5), TxState::Accepted));
    world.show(0, true);
    world.estimate_says(EstimateFailure::Reverted { reason: "so it is".into() });
    assert_eq!((world.slot_of(id), world.desk.store.state(id)), (None, TxState::Failed));
}

#[test]
fn an_old_balance_raises_no_alarm() {
    let low = LaneSettings { low_balance: Some(Wei(U256::from(1_000))), ..settings() };
    let mut world = World::new(low, 2);
    let notes = |world: &World| {
        let low = |told: &&crate::journal::NewEntry| told.entry.event() == Some("lane.low_balance");
        world.desk.store.journal.iter().filter(low).count()
    };
    world.chain.balance = Some(Wei(U256::from(PLENTY)));
    world.show(0, true);
    let mut view = world.chain.view(0);
    world.chain.mine(0, true, world.desk.now);
    let old = view.accounts.get_mut(&LANE.signer).unwrap();
    old.balance = Some(Wei(U256::ZERO));
    let accounts = view.accounts.clone();
    let view = crate::view::ChainView { accounts, ..world.chain.view(0) };
    world.turn(vec![LaneEvent::Chain { view: Arc::new(view), receipts: Vec::new() }]);
    assert_eq!(notes(&world), 0);
    world.chain.balance = Some(Wei(U256::ZERO));
    world.show(0, true);
    assert_eq!(notes(&world), 1);
}
