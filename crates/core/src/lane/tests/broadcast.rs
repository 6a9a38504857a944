use super::super::test_world::Fault;
use super::{Kind, sent, settings, world};
use crate::journal::Entry;
use crate::lane::Action;
use crate::outcome::SendOutcome::{self, *};
use crate::transaction::TxState;

/// What one answer to the first send of a slot leads to.
struct Case {
    outcome: SendOutcome,
    /// The same slot is sent again after at most this.
    again_ms: u64,
    state: TxState,
    repriced: bool,
    ending: bool,
}

#[rustfmt::skip]
const CASES: [Case; 16] = [
    Case { outcome: Accepted,               again_ms: 60_000, state: TxState::Broadcast, repriced: false, ending: false },
    Case { outcome: AlreadyKnown,           again_ms: 60_000, state: TxState::Broadcast, repriced: false, ending: false },
    Case { outcome: Unknown,                again_ms: 250,    state: TxState::Signed,    repriced: false, ending: false },
    Case { outcome: Endpoint,               again_ms: 250,    state: TxState::Signed,    repriced: false, ending: false },
    Case { outcome: PoolFull,               again_ms: 250,    state: TxState::Signed,    repriced: false, ending: false },
    Case { outcome: NodePolicy,             again_ms: 250,    state: TxState::Signed,    repriced: false, ending: false },
    Case { outcome: AccountLimit,           again_ms: 250,    state: TxState::Signed,    repriced: false, ending: false },
    Case { outcome: NonceTooLow,            again_ms: 250,    state: TxState::Signed,    repriced: false, ending: false },
    Case { outcome: NonceTooHigh,           again_ms: 250,    state: TxState::Signed,    repriced: false, ending: false },
    Case { outcome: InsufficientFunds,      again_ms: 5_000,  state: TxState::Signed,    repriced: false, ending: false },
    Case { outcome: ReplacementUnderpriced, again_ms: 250,    state: TxState::Signed,    repriced: true,  ending: false },
    Case { outcome: Underpriced,            again_ms: 250,    state: TxState::Signed,    repriced: true,  ending: false },
    Case { outcome: FeeBelowBase,           again_ms: 250,    state: TxState::Signed,    repriced: true,  ending: false },
    Case { outcome: Invalid,                again_ms: 250,    state: TxState::Signed,    repriced: false, ending: true  },
    Case { outcome: Reverted,               again_ms: 250,    state: TxState::Signed,    repriced: false, ending: true  },
    Case { outcome: NeverIncludable,        again_ms: 250,    state: TxState::Signed,    repriced: false, ending: true  },
];

#[test]
fn every_answer_has_its_reaction_and_none_ends_the_transaction_or_frees_its_slot() {
    for case in CASES {
        let outcome = case.outcome;
        let mut world = world(settings());
        let id = world.submit();
        world.carry(Kind::Load, Fault::None);
        world.carry(Kind::Sign, Fault::None);
        world.say(outcome);
        assert_eq!(world.started(Kind::Sign), case.repriced, "{outcome:?}");
        let tx = &world.desk.lane.bound[&id];
        assert_eq!(tx.status.state, case.state, "{outcome:?}");
        assert_eq!(tx.status.ending.is_some(), case.ending, "{outcome:?}");
        assert_eq!(tx.status.slot.map(|slot| slot.0), Some(5), "{outcome:?}");
        assert!(!world.started(Kind::Send), "{outcome:?}");
        world.started.clear();
        world.wait(case.again_ms - 1);
        assert!(!world.started(Kind::Send), "{outcome:?} is sent again too soon");
        world.wait(1);
        let Action::Send(outgoing) = world.take(Kind::Send) else { unreachable!() };
        assert_eq!(outgoing[0].sealed.hash, world.attempts(5)[0].hash, "{outcome:?}");
    }
}

#[test]
fn a_slot_that_can_never_be_valid_gets_a_no_op_and_the_transaction_fails_when_that_wins() {
    let mut world = world(settings());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    world.say(Invalid);
    world.rest();
    assert!(world.attempts(5)[1].no_op);
    assert!(!world.desk.store.state(id).is_terminal());
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Failed);
}

#[test]
fn an_error_is_no_proof_the_content_may_still_win() {
    let mut world = world(settings());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    world.carry(Kind::Send, Fault::Says { outcome: Invalid, taken: true });
    world.chain.mine(1, true, world.desk.now);
    world.rest();
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

#[test]
fn unclear_answers_are_followed_by_longer_and_longer_pauses() {
    let mut world = world(settings());
    world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    for pause in [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
        world.say(Unknown);
        world.wait(pause - 1);
        assert!(!world.started(Kind::Send));
        world.wait(1);
    }
}

#[test]
fn a_yes_is_no_proof_so_the_same_bytes_are_sent_again() {
    let mut world = world(settings());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    world.carry(Kind::Send, Fault::Silent);
    assert!(world.chain.pool.is_empty());
    world.wait(60_000);
    world.take_signatures();
    world.carry(Kind::Send, Fault::None);
    assert_eq!(world.chain.pool.values().next(), Some(&world.attempts(5)[0].hash));
    assert_eq!(world.attempts(5).len(), 1);
    assert_eq!(world.desk.store.state(id), TxState::Broadcast);
}

impl super::World {
    /// The signer is slow: what it was asked for stays under way.
    fn take_signatures(&mut self) {
        self.started.retain(|action| super::kind(action) != Kind::Sign);
    }
}

#[test]
fn an_answer_to_replaced_bytes_does_not_keep_the_new_ones_back() {
    let mut world = world(settings());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    let first = world.attempts(5)[0].clone();
    let slow = world.take(Kind::Send);
    world.cancel(id);
    world.carry(Kind::Prepare, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    assert_eq!(world.attempts(5).len(), 2);
    assert!(!world.started(Kind::Send), "one send at a time");
    drop(slow);
    world.turn(vec![sent(&first, Accepted)]);
    let Action::Send(outgoing) = world.take(Kind::Send) else { unreachable!() };
    assert_eq!(outgoing[0].sealed.hash, world.attempts(5)[1].hash);
}

#[test]
fn hints_are_written_within_a_second() {
    let mut world = world(settings());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    world.carry(Kind::Send, Fault::None);
    assert_eq!(world.desk.store.state(id), TxState::Signed, "not yet");
    assert_eq!(world.desk.wake_at.map(|at| at.0), Some(world.desk.now.0 + 1_000));
    world.wait(1_000);
    assert_eq!(world.desk.store.state(id), TxState::Broadcast);
    assert_eq!(world.attempts(5)[0].hints.sends, 1);
}

#[test]
fn hints_go_with_the_next_commit() {
    let mut world = world(settings());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    world.carry(Kind::Send, Fault::None);
    world.chain.mine(1, true, world.desk.now);
    world.show(0, true);
    assert!(world.attempts(5)[0].hints.accepted);
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::Broadcast { .. })), 1);
}

#[test]
fn hints_that_a_crash_took_cost_one_more_send_and_nothing_else() {
    let mut world = world(settings());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    world.carry(Kind::Send, Fault::None);
    world.play(super::super::test_world::Step::Crash);
    world.show(0, true);
    world.carry(Kind::Send, Fault::None);
    world.wait(1_000);
    let report = world.attempts(5)[0].hints.last.clone();
    assert_eq!(report.map(|report| report.outcome), Some(AlreadyKnown));
    assert_eq!(world.desk.store.state(id), TxState::Broadcast);
}

#[test]
fn each_kind_of_answer_is_written_once() {
    let mut world = world(settings());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    for outcome in [Unknown, PoolFull, Unknown, PoolFull, Unknown] {
        world.say(outcome);
        world.wait(10_000);
    }
    world.wait(1_000);
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::SendAnswered { .. })), 2);
    assert_eq!(world.attempts(5)[0].hints.sends, 5);
}
