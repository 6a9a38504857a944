use super::super::test_world::{Fault, payment, payment_with_gas};
use super::{Kind, settings, world};
use crate::journal::Entry;
use crate::lane::{Action, LaneEvent, PrepareTarget, Prepared};
use crate::ports::chain::EstimateFailure;
use crate::ports::store::CommandKind;
use crate::request::{OnInsufficientFunds, Options, Payload};
use crate::settings::LaneSettings;
use crate::transaction::{ReasonCode, TxState};
use crate::{Gas, TxId, Wei};

impl super::World {
    /// Answers the estimate that is under way.
    fn estimated(&mut self, result: Result<Gas, EstimateFailure>) {
        let Action::Prepare(jobs) = self.take(Kind::Prepare) else { unreachable!() };
        let answer = jobs.iter().map(|job| Prepared { target: job.target, result: result.clone() }).collect();
        self.turn(vec![LaneEvent::Prepared(answer)]);
    }

    /// As [`Self::estimated`], and again when the newest head is known: a node that is behind says no as well.
    fn refused(&mut self, failure: EstimateFailure) {
        self.estimated(Err(failure.clone()));
        assert!(self.desk.store.txs.values().all(|tx| !tx.status.state.is_terminal()), "not by one answer");
        assert!(!self.started(Kind::Prepare), "the head comes first");
        self.show(0, true);
        self.estimated(Err(failure));
    }

    fn estimating(&mut self, options: Options) -> TxId {
        let id = self.submit_as(payment(1), options);
        self.carry(Kind::Load, Fault::None);
        id
    }
}

fn text() -> String {
    "as the node says".to_owned()
}

#[test]
fn an_estimate_gets_headroom_but_a_plain_transfer_does_not() {
    for (estimate, gas) in [(21_000, 21_000), (100_000, 120_000), (29_000_000, 30_000_000)] {
        let mut world = world(settings());
        world.estimating(Options::default());
        world.estimated(Ok(Gas(estimate)));
        assert_eq!(world.drafts()[0].gas, Gas(gas));
    }
}

#[test]
fn what_can_never_work_fails_without_a_slot() {
    let never = [
        (EstimateFailure::Reverted { reason: text() }, ReasonCode::WouldRevert),
        (EstimateFailure::Invalid { text: text() }, ReasonCode::Invalid),
    ];
    for (failure, code) in never {
        let mut world = world(settings());
        let id = world.estimating(Options::default());
        world.refused(failure);
        let status = &world.desk.store.tx(id).status;
        assert_eq!((status.state, status.slot), (TxState::Failed, None));
        assert_eq!(status.reason.as_ref().map(|reason| reason.code), Some(code));
        assert!(world.desk.lane.is_idle());
    }
}

// covers: A7
#[test]
fn an_estimate_that_fails_in_the_middle_of_a_burst_leaves_no_gap() {
    let mut world = world(settings());
    world.command(CommandKind::Pause);
    let ids: Vec<_> = (1..=3).map(|value| world.submit_as(payment(value), Options::default())).collect();
    world.rest();
    world.command(CommandKind::Resume);
    world.carry(Kind::Load, Fault::None);
    let Action::Prepare(jobs) = world.take(Kind::Prepare) else { unreachable!() };
    let reverts = |target| target == PrepareTarget::Tx(ids[1], crate::ContentVersion::FIRST);
    let answer = jobs.iter().map(|job| Prepared {
        target: job.target,
        result: if reverts(job.target) {
            Err(EstimateFailure::Reverted { reason: text() })
        } else {
            Ok(Gas(40_000))
        },
    });
    world.turn(vec![LaneEvent::Prepared(answer.collect())]);
    world.show(0, true);
    world.estimated(Err(EstimateFailure::Reverted { reason: text() }));
    world.rest();
    let slots: Vec<_> = ids.iter().map(|id| world.slot_of(*id)).collect();
    assert_eq!(slots, [Some(5), None, Some(6)]);
    world.finalise();
    let states: Vec<_> = ids.iter().map(|id| world.desk.store.state(*id)).collect();
    assert_eq!(states, [TxState::Confirmed, TxState::Failed, TxState::Confirmed]);
}

#[test]
fn an_account_that_cannot_pay_holds_or_fails_as_the_caller_said() {
    let funds = || Err(EstimateFailure::InsufficientFunds { text: text() });
    let mut patient = world(settings());
    let id = patient.estimating(Options::default());
    patient.estimated(funds());
    assert_eq!(patient.desk.store.state(id), TxState::Accepted);
    patient.wait(4_000);
    assert!(!patient.started(Kind::Prepare));
    patient.wait(1_000);
    patient.rest();
    assert_eq!(patient.desk.store.state(id), TxState::Broadcast);

    let mut world = world(settings());
    let fail = OnInsufficientFunds::Fail;
    let id = world.estimating(Options { on_insufficient_funds: fail, ..Options::default() });
    world.refused(EstimateFailure::InsufficientFunds { text: text() });
    assert_eq!(world.desk.store.state(id), TxState::Failed);
}

#[test]
fn without_a_verdict_it_is_asked_again_after_100_200_and_400_ms_and_others_go_first() {
    let mut world = world(settings());
    let id = world.estimating(Options::default());
    let second = world.submit();
    world.carry(Kind::Load, Fault::None);
    assert!(!world.started(Kind::Sign), "the first one's first try holds the queue");
    for pause in [100, 200, 400] {
        world.estimated(Err(EstimateFailure::Unavailable { text: text() }));
        assert!(!world.started(Kind::Prepare));
        world.wait(pause - 1);
        assert!(!world.started(Kind::Prepare));
        world.wait(1);
        assert!(world.started(Kind::Prepare));
    }
    world.carry(Kind::Sign, Fault::None);
    assert_eq!(world.slot_of(second), Some(5));
    world.rest();
    assert_eq!(world.slot_of(id), Some(6));
    // A long outage does not fill the journal: tries 1, 2, 4, …
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::PrepareFailed { .. })), 2);
}

#[test]
fn checks_are_run_and_shown_also_for_one_that_brings_its_gas() {
    let mut world = world(LaneSettings { checks: true, ..settings() });
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.estimated(Ok(Gas(90_000)));
    assert_eq!(world.desk.store.state(id), TxState::Simulated);
    assert_eq!(world.drafts()[0].gas, Gas(21_000));
}

fn with_approval() -> LaneSettings {
    LaneSettings { approve_above: Some(Wei(alloy_primitives::U256::from(100))), ..settings() }
}

#[test]
fn above_the_limit_a_person_is_asked_even_if_it_brings_its_gas() {
    for payload in [payment(101), payment_with_gas(101)] {
        let mut world = world(with_approval());
        let id = world.submit_as(payload, Options::default());
        world.rest();
        assert_eq!(world.desk.store.state(id), TxState::AwaitingApproval);
        assert_eq!(world.slot_of(id), None);
    }
}

#[test]
fn a_delegation_of_the_senders_own_code_is_above_every_limit() {
    let address = crate::Account(alloy_primitives::Address::repeat_byte(0xcc));
    let list = vec![crate::request::Authorization { chain: None, address, signed: None }];
    let payload = crate::request::Payload { authorization_list: list, ..payment_with_gas(0) };
    let mut asking = world(with_approval());
    let id = asking.submit_as(payload.clone(), Options::default());
    asking.rest();
    assert_eq!(asking.desk.store.state(id), TxState::AwaitingApproval);
    assert_eq!(asking.slot_of(id), None);
    // Whoever is asked is told what for.
    let said = asking.desk.lane.explain(id, asking.desk.now).unwrap();
    let signer = asking.desk.lane.id().signer;
    let gives = format!("to approve it: it lets the code at {address} act for {signer}");
    assert!(said.contains(&gives) && said.contains("spend all that account has"), "{said}");
    let mut unasked = world(settings());
    let id = unasked.submit_as(payload, Options::default());
    unasked.rest();
    assert_eq!(unasked.desk.store.state(id), TxState::Broadcast);
}

#[test]
fn after_a_yes_it_is_checked_again_and_then_signed() {
    let mut world = world(with_approval());
    let id = world.submit_as(payment(101), Options::default());
    world.rest();
    world.command(CommandKind::Approve { tx: id, version: None, held_for: None });
    world.carry(Kind::Load, Fault::None);
    assert_eq!(world.desk.store.state(id), TxState::Simulated);
    assert!(world.started(Kind::Prepare) && !world.started(Kind::Sign));
    world.rest();
    assert_eq!(world.desk.store.state(id), TxState::Broadcast);
}

#[test]
fn after_a_no_it_fails() {
    let mut world = world(with_approval());
    let id = world.submit_as(payment(101), Options::default());
    world.rest();
    world.command(CommandKind::Reject { tx: id, version: None, held_for: None });
    world.rest();
    let reason = world.desk.store.tx(id).status.reason.clone();
    assert_eq!(reason.map(|reason| reason.code), Some(ReasonCode::Rejected));
}

#[test]
fn an_approval_survives_a_restart_and_while_it_is_awaited_nothing_is_estimated() {
    let mut world = world(with_approval());
    let id = world.submit_as(payment(101), Options::default());
    world.rest();
    world.play(super::super::test_world::Step::Crash);
    world.show(0, true);
    world.carry(Kind::Load, Fault::None);
    assert!(!world.started(Kind::Prepare));
    assert_eq!(world.desk.store.state(id), TxState::AwaitingApproval);
    let other = world.submit();
    world.rest();
    assert_eq!(world.desk.store.state(other), TxState::Broadcast);
    world.calm_down(20);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

#[test]
fn a_slot_that_was_reserved_before_a_restart_is_estimated_again() {
    let mut world = world(super::remote());
    let id = world.submit_as(payment(1), Options::default());
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Prepare, Fault::None);
    assert_eq!(world.slot_of(id), Some(5));
    world.play(super::super::test_world::Step::Crash);
    world.show(0, true);
    let Action::Prepare(jobs) = world.take(Kind::Prepare) else { unreachable!() };
    assert_eq!(jobs[0].target, PrepareTarget::Tx(id, crate::ContentVersion::FIRST));
    let again =
        Prepared { target: jobs[0].target, result: Err(EstimateFailure::Unavailable { text: text() }) };
    world.turn(vec![LaneEvent::Prepared(vec![again])]);
    world.wait(1_000);
    world.rest();
    assert_eq!((world.slot_of(id), world.desk.store.state(id)), (Some(5), TxState::Broadcast));
}

#[test]
fn gas_of_the_callers_own_above_a_limit_that_is_learnt_late_fails_without_a_slot() {
    // Nothing of the chain was seen yet, so admission had no limit to compare with.
    let mut world = super::World::new(settings(), 2);
    let large = world.submit_as(Payload { gas: Some(Gas(30_000_001)), ..payment(1) }, Options::default());
    let fits = world.submit_as(Payload { gas: Some(Gas(30_000_000)), ..payment(2) }, Options::default());
    world.rest();
    assert_eq!(world.desk.store.state(large), TxState::Accepted, "without a limit nothing is said");
    world.show(0, true);
    world.rest();
    let status = world.desk.store.tx(large).status.clone();
    assert_eq!((status.state, status.slot), (TxState::Failed, None));
    let reason = status.reason.unwrap();
    assert_eq!(reason.code, ReasonCode::Invalid);
    assert!(reason.text.contains("30000001") && reason.text.contains("30000000"), "{}", reason.text);
    assert_eq!(world.slot_of(fits), Some(5), "the next one gets the slot");
}
