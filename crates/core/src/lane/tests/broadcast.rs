use super::super::test_world::{CommitFate, Fault, Step};
use super::{Kind, sent, settings, world};
use crate::TxId;
use crate::journal::Entry;
use crate::lane::{Action, LaneEvent, Sent};
use crate::outcome::SendOutcome::{self, *};
use crate::outcome::SendReport;
use crate::settings::LaneSettings;
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
        let tx = world.desk.lane.bound.get(&id).unwrap();
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
    /// Signed and about to be sent for the first time.
    fn signed(&mut self) -> TxId {
        let id = self.submit();
        while !self.started(Kind::Send) {
            let next = if self.started(Kind::Load) { Kind::Load } else { Kind::Sign };
            self.carry(next, Fault::None);
        }
        id
    }

    /// Each slot's send meets its own luck.
    fn send_each(&mut self, mut luck: impl FnMut(u64) -> Fault) {
        let Action::Send(outgoing) = self.take(Kind::Send) else { unreachable!() };
        let answers = outgoing.into_iter().map(|one| {
            let fault = luck(one.slot.0);
            self.act(Action::Send(vec![one]), &fault)
        });
        let answers = answers.collect();
        self.turn(answers);
    }

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
fn a_transaction_that_lands_at_once_is_written_once_for_the_send_and_the_block() {
    let mut world = world(settings());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    let before = world.desk.lane.version;
    world.carry(Kind::Send, Fault::None);
    world.block();
    assert_eq!(world.desk.lane.version.0, before.0 + 1);
    let names: Vec<_> = world.desk.store.journal_of(id).filter_map(Entry::event).collect();
    assert_eq!(names, ["tx.accepted", "tx.signed", "tx.broadcast", "tx.mined"]);
    world.block();
    world.block();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    // What the journal says is not written a second time, and can be told from it.
    let mut attempt = world.attempts(5)[0].clone();
    assert_eq!(attempt.hints.sends, 0);
    let of_it = world.desk.store.journal.iter().filter(|row| row.tx == Some(id));
    attempt.told_by(of_it.map(|row| (row.at, &row.entry)));
    assert_eq!((attempt.hints.sends, attempt.hints.accepted), (1, true));
    assert_eq!(attempt.hints.last().map(|report| report.outcome), Some(Accepted));
}

#[test]
fn hints_of_one_transaction_do_not_go_with_the_commit_of_another() {
    let mut world = world(settings());
    let first = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    world.carry(Kind::Send, Fault::None);
    world.desk.pass(400);
    let second = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    assert_eq!(world.desk.store.state(second), TxState::Signed);
    assert_eq!(world.desk.store.state(first), TxState::Signed, "it waits on");
    world.desk.pass(500);
    world.carry(Kind::Send, Fault::None);
    world.wait(100);
    assert_eq!(world.desk.store.state(first), TxState::Broadcast, "a second is over");
    assert_eq!(world.desk.store.state(second), TxState::Signed, "of this one only a tenth is");
    world.wait(900);
    assert_eq!(world.desk.store.state(second), TxState::Broadcast);
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
    let report = world.attempts(5)[0].hints.last().cloned();
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

// covers: A2, E9, F5
#[test]
fn after_a_minute_without_answers_from_a_node_that_refuses_gaps_every_slot_lands_in_order() {
    let mut world = world(settings());
    world.chain.refuses_gaps = true;
    let lost = |slot| if slot == 5 { Fault::NotDone } else { Fault::None };
    let ids: Vec<_> = (0..4).map(|_| world.signed_past(lost)).collect();
    for _ in 0..240 {
        if world.started(Kind::Send) {
            world.send_each(lost);
        }
        world.wait(250);
    }
    assert!(world.chain.pool.is_empty(), "without the lowest slot the node keeps none");
    world.calm_down(100);
    let slots: Vec<_> = ids.iter().map(|id| world.slot_of(*id)).collect();
    assert_eq!(slots, [Some(5), Some(6), Some(7), Some(8)]);
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
}

impl super::World {
    /// Signed, and sent for the first time with this luck.
    fn signed_past(&mut self, luck: impl FnMut(u64) -> Fault) -> TxId {
        let id = self.signed();
        self.send_each(luck);
        id
    }
}

// covers: A6, E13
#[test]
fn a_pool_that_forgot_twenty_four_slots_gets_them_all_back_with_the_same_bytes() {
    let mut world = world(LaneSettings { max_in_flight: 24, ..settings() });
    let ids: Vec<_> = (0..24).map(|_| world.broadcast()).collect();
    let before = std::mem::take(&mut world.chain.pool);
    assert_eq!(before.len(), 24);
    world.wait(60_000);
    world.rest();
    assert_eq!(world.chain.pool, before);
    world.finalise();
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
}

// covers: A9, A10
#[test]
fn when_every_second_send_is_turned_away_slots_stay_and_all_land_in_order() {
    let mut world = world(settings());
    let mut sends = 0;
    let mut every_second = |_| {
        sends += 1;
        if sends % 2 == 1 { Fault::Says { outcome: Endpoint, taken: false } } else { Fault::None }
    };
    let ids: Vec<_> = (0..4).map(|_| world.signed_past(&mut every_second)).collect();
    for _ in 0..20 {
        world.wait(500);
        if world.started(Kind::Send) {
            world.send_each(&mut every_second);
        }
    }
    assert_eq!(world.chain.pool.len(), 4);
    assert!((5..9).all(|slot| world.attempts(slot).len() == 1));
    world.finalise();
    let slots: Vec<_> = ids.iter().map(|id| world.slot_of(*id)).collect();
    assert_eq!(slots, [Some(5), Some(6), Some(7), Some(8)]);
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
}

// covers: B2, B5
#[test]
fn a_node_that_says_nonce_too_low_for_an_hour_is_asked_seldom_and_ends_nothing() {
    let mut world = world(settings());
    let id = world.signed();
    for _ in 0..3_600 {
        if world.started(Kind::Send) {
            world.say(NonceTooLow);
        }
        world.wait(1_000);
    }
    let sends = world.attempts(5)[0].hints.sends;
    assert!((300..400).contains(&sends), "{sends} sends in an hour");
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::SendAnswered { .. })), 1);
    assert_eq!((world.desk.store.state(id), world.slot_of(id)), (TxState::Signed, Some(5)));
    world.calm_down(100);
    assert_eq!((world.desk.store.state(id), world.slot_of(id)), (TxState::Confirmed, Some(5)));
}

// covers: B6
#[test]
fn a_nonce_too_low_for_bytes_that_another_node_has_taken_ends_nothing() {
    let mut world = world(settings());
    let id = world.signed();
    world.carry(Kind::Send, Fault::Says { outcome: NonceTooLow, taken: true });
    assert_eq!((world.desk.store.state(id), world.slot_of(id)), (TxState::Signed, Some(5)));
    assert!(!world.started(Kind::Sign));
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert_eq!(world.attempts(5).len(), 1);
}

// covers: C1, C3, C4
#[test]
fn a_lost_reply_is_followed_by_the_same_bytes_and_it_lands_once() {
    let mut world = world(settings());
    let id = world.signed();
    let first = world.attempts(5)[0].clone();
    world.carry(Kind::Send, Fault::AnswerLost);
    assert_eq!(world.chain.pool.values().next(), Some(&first.hash), "the node has it");
    world.wait(250);
    let again = world.take(Kind::Send);
    assert!(matches!(&again, Action::Send(one) if one.len() == 1 && one[0].sealed.raw == first.raw));
    let answer = world.act(again, &Fault::None);
    world.turn(vec![answer]);
    world.finalise();
    assert_eq!((world.desk.store.state(id), world.slot_of(id)), (TxState::Confirmed, Some(5)));
    assert_eq!(world.desk.store.attempts.len(), 1);
}

// covers: C2
#[test]
fn a_nonce_too_low_after_a_lost_reply_finds_its_own_receipt_and_takes_no_other_slot() {
    let mut world = world(settings());
    let id = world.signed();
    world.carry(Kind::Send, Fault::AnswerLost);
    world.chain.mine(1, true, world.desk.now);
    world.wait(250);
    world.carry(Kind::Send, Fault::None);
    let said = world.desk.lane.slots[&crate::Slot(5)].attempts[0].hints.last().cloned();
    assert_eq!(said.map(|report| report.outcome), Some(NonceTooLow));
    world.show(0, false);
    world.carry(Kind::Look, Fault::None);
    assert_eq!((world.desk.store.state(id), world.slot_of(id)), (TxState::Mined, Some(5)));
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert_eq!(world.desk.store.attempts.len(), 1);
}

// covers: C15, O12
#[test]
fn what_a_pool_says_is_kept_with_the_attempt_and_is_not_the_transactions_reason() {
    let mut world = world(settings());
    let id = world.signed();
    world.take(Kind::Send);
    let report = SendReport {
        outcome: Underpriced,
        endpoint: "node-7".into(),
        code: Some(-32_000),
        text: Some("transaction underpriced: tip needed 2".into()),
        latency_ms: 7,
    };
    let attempt = world.attempts(5)[0].clone();
    let answer = Sent { slot: attempt.slot, hash: attempt.hash, report: report.clone() };
    world.turn(vec![LaneEvent::Sent(vec![answer])]);
    world.rest();
    assert_eq!(world.attempts(5)[0].hints.last(), Some(&report));
    assert_eq!(
        world.told(id, |entry| matches!(entry, Entry::SendAnswered { report: told, .. } if *told == report)),
        1
    );
    let status = &world.desk.store.tx(id).status;
    assert_eq!((status.state, &status.reason), (TxState::Broadcast, &None));
}

// covers: E7
#[test]
fn an_account_that_may_have_one_transaction_in_the_pool_lands_them_one_after_the_other() {
    let mut world = world(settings());
    let first = world.broadcast();
    let second = world.signed();
    world.say(AccountLimit);
    world.wait(10_000);
    assert_eq!(world.desk.lane.bound.get(&second).unwrap().status.ending, None);
    assert!(!world.started(Kind::Send), "it waits for the first");
    world.started.retain(|action| super::kind(action) == Kind::Send);
    world.block();
    world.carry(Kind::Send, Fault::None);
    world.finalise();
    for id in [first, second] {
        assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    }
    assert_eq!(world.attempts(6).len(), 1);
}

// covers: I3
#[test]
fn a_store_that_fails_after_the_send_costs_one_more_send_and_nothing_else() {
    let mut world = world(settings());
    let id = world.signed();
    world.carry(Kind::Send, Fault::None);
    world.play(Step::NextCommit(CommitFate::NotDone));
    world.wait(1_000);
    assert_eq!(world.desk.store.state(id), TxState::Signed, "it could not be written");
    world.show(0, true);
    world.rest();
    assert_eq!(world.desk.store.state(id), TxState::Broadcast);
    assert_eq!((world.attempts(5).len(), world.chain.pool.len()), (1, 1));
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

// covers: I15
#[test]
fn an_error_on_a_re_send_ends_nothing_and_what_is_mined_counts() {
    for Case { outcome, .. } in CASES {
        let mut world = world(settings());
        let id = world.broadcast();
        world.wait(60_000);
        world.say(outcome);
        assert_eq!(
            (world.desk.store.state(id), world.slot_of(id)),
            (TxState::Broadcast, Some(5)),
            "{outcome:?}"
        );
        assert_eq!(world.desk.lane.bound.get(&id).unwrap().status.ending, None, "{outcome:?}");
        world.block();
        world.finalise();
        assert_eq!(world.desk.store.state(id), TxState::Confirmed, "{outcome:?}");
    }
}

// covers: L1
#[test]
fn what_the_balance_does_not_cover_with_those_before_it_waits_and_lands_with_the_same_bytes() {
    let mut world = world(settings());
    let covered = [world.broadcast(), world.broadcast()];
    let third = world.signed();
    for _ in 0..3 {
        world.say(InsufficientFunds);
        world.wait(5_000);
    }
    assert_eq!((world.desk.store.state(third), world.slot_of(third)), (TxState::Signed, Some(7)));
    world.block();
    world.carry(Kind::Send, Fault::None);
    world.finalise();
    for id in [covered[0], covered[1], third] {
        assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    }
    assert_eq!(world.attempts(7).len(), 1);
}

// covers: E18
#[test]
fn repeated_answers_are_counted_with_their_first_and_last_time() {
    let mut world = world(settings());
    world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    let begun = world.desk.now;
    for _ in 0..3 {
        world.say(SendOutcome::PoolFull);
        world.wait(20_000);
    }
    world.say(SendOutcome::Unknown);
    let hints = world.desk.lane.slots[&crate::Slot(5)].attempts[0].hints.clone();
    let told: Vec<_> = hints.answers.iter().map(|tally| (tally.report.outcome, tally.count)).collect();
    assert_eq!(told, [(SendOutcome::PoolFull, 3), (SendOutcome::Unknown, 1)]);
    assert_eq!(
        (hints.answers[0].first_at, hints.answers[0].last_at),
        (begun, begun.after(std::time::Duration::from_secs(40)))
    );
    assert_eq!(hints.sends, 4);
}
