//! A node's final no ends only what nobody can have.

use super::super::test_world::{Fault, Step, World, payment_with_gas};
use super::{Kind, settings, world};
use crate::TxId;
use crate::lane::Action;
use crate::outcome::SendOutcome::{self, Invalid, NeverIncludable, Reverted, Underpriced, Unknown};
use crate::request::Options;
use crate::transaction::{ReasonCode, TxState};

const FATAL: [SendOutcome; 3] = [Invalid, Reverted, NeverIncludable];

impl World {
    fn is_ending(&self, id: TxId) -> bool {
        self.desk.lane.bound.get(&id).is_some_and(|tx| tx.status.ending.is_some())
    }

    fn said(&self, id: TxId) -> String {
        self.desk.lane.explain(id, self.desk.now).expect("it is still here")
    }

    /// Every send is answered like this, and every look at the pool as it is.
    fn refuse_for(&mut self, seconds: u64, outcome: SendOutcome) {
        for _ in 0..seconds * 4 {
            if self.started(Kind::Send) {
                self.say(outcome);
            }
            if self.started(Kind::Probe) {
                self.carry(Kind::Probe, Fault::None);
            }
            self.wait(250);
        }
    }

    /// Signed and sent before a crash; nothing was written of the answer.
    fn sent_before_a_crash(&mut self, taken: bool) -> TxId {
        let id = self.submit();
        self.carry(Kind::Load, Fault::None);
        self.carry(Kind::Sign, Fault::None);
        if taken {
            self.carry(Kind::Send, Fault::AnswerLost);
        }
        self.play(Step::Crash);
        self.show(0, true);
        while self.started(Kind::Load) {
            self.carry(Kind::Load, Fault::None);
        }
        id
    }
}

#[test]
fn what_a_node_has_taken_is_not_given_up_for_any_no_however_often_it_comes() {
    for outcome in FATAL {
        for shown in [true, false] {
            let mut world = world(settings());
            let id = world.broadcast();
            if !shown {
                world.chain.pool.clear();
            }
            world.wait(60_000);
            world.refuse_for(600, outcome);
            assert!(!world.is_ending(id), "{outcome:?}");
            let said = world.said(id);
            assert!(said.contains("a node had taken it before") && said.contains("cancel it"), "{said}");
            world.calm_down(20);
            assert_eq!(world.desk.store.state(id), TxState::Confirmed, "{outcome:?}");
        }
    }
}

#[test]
fn after_a_crash_a_no_ends_nothing_as_long_as_a_node_shows_the_bytes() {
    let mut world = world(settings());
    let id = world.sent_before_a_crash(true);
    world.refuse_for(300, Invalid);
    assert!(!world.is_ending(id));
    assert!(world.said(id).contains("a node had taken it before"), "{}", world.said(id));
    world.rest();
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

#[test]
fn after_a_crash_what_everybody_refuses_and_nobody_shows_for_an_interval_fails_by_a_no_op() {
    let mut world = world(settings());
    let id = world.sent_before_a_crash(false);
    world.refuse_for(58, Reverted);
    assert!(!world.is_ending(id), "a minute is not over");
    let said = world.said(id);
    assert!(said.contains("node refused it: reverted") && said.contains("a node may have it"), "{said}");
    world.refuse_for(4, Reverted);
    assert!(world.is_ending(id), "the lane must not wait for ever");
    world.rest();
    assert!(world.attempts(5).last().unwrap().no_op);
    world.finalise();
    let reason = world.desk.store.tx(id).status.reason.clone().unwrap();
    assert_eq!((world.desk.store.state(id), reason.code), (TxState::Failed, ReasonCode::WouldRevert));
}

#[test]
fn a_send_that_is_not_answered_begins_the_interval_again() {
    let mut world = world(settings());
    let id = world.sent_before_a_crash(false);
    world.refuse_for(50, Invalid);
    while !world.started(Kind::Send) {
        world.wait(250);
    }
    world.say(Unknown);
    world.refuse_for(50, Invalid);
    assert!(!world.is_ending(id), "somebody may have taken it then");
    world.refuse_for(20, Invalid);
    assert!(world.is_ending(id));
}

#[test]
fn a_pool_that_cannot_be_asked_is_no_reason_to_give_up() {
    let mut world = world(settings());
    let id = world.sent_before_a_crash(false);
    for _ in 0..1_200 {
        if world.started(Kind::Send) {
            world.say(Invalid);
        }
        if world.started(Kind::Probe) {
            world.carry(Kind::Probe, Fault::NotDone);
        }
        world.wait(250);
    }
    assert!(!world.is_ending(id));
}

#[test]
fn a_dearer_attempt_that_is_refused_does_not_end_what_the_one_before_it_may_land() {
    for first in [Underpriced, Unknown] {
        let mut world = world(settings());
        let id = world.submit_as(payment_with_gas(1), Options::default());
        world.carry(Kind::Load, Fault::None);
        world.carry(Kind::Sign, Fault::None);
        world.carry(Kind::Send, Fault::Says { outcome: first, taken: true });
        while !world.started(Kind::Sign) {
            world.wait(1_000);
            world.started.retain(|action| !matches!(action, Action::Send(_)));
            if first == Unknown {
                world.command(crate::ports::store::CommandKind::SpeedUp {
                    tx: id,
                    fees: crate::request::AskedFees::Market,
                    speed: None,
                });
                world.carry(Kind::Load, Fault::None);
            }
        }
        world.carry(Kind::Sign, Fault::None);
        assert_eq!(world.attempts(5).len(), 2);
        if !world.started(Kind::Send) {
            let old = world.attempts(5)[0].clone();
            world.turn(vec![super::sent(&old, Unknown)]);
        }
        world.say(Invalid);
        assert!(!world.is_ending(id), "{first:?}");
        world.finalise();
        assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    }
}

#[test]
fn the_first_answer_to_a_new_content_counts_also_where_an_older_one_is_out() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.replace(id, 7);
    while !world.started(Kind::Send) {
        let kind = if world.started(Kind::Prepare) { Kind::Prepare } else { Kind::Sign };
        world.carry(kind, Fault::None);
    }
    world.say(Invalid);
    assert!(world.is_ending(id), "its caller does not want the older one any more");
}
