use super::super::test_world::{CommitFate, Fault, Step, payment, seal};
use super::{Kind, remote, settings, world};
use crate::Slot;
use crate::lane::{Action, LaneEvent};
use crate::ports::signer;
use crate::request::Options;
use crate::transaction::{ReasonCode, TxState};

#[test]
fn a_failed_signature_cuts_the_batch_and_slots_stay_contiguous() {
    let mut world = world(settings());
    world.command(crate::ports::store::CommandKind::Pause);
    let ids: Vec<_> = (0..3).map(|_| world.submit()).collect();
    world.rest();
    world.command(crate::ports::store::CommandKind::Resume);
    world.carry(Kind::Load, Fault::None);
    let drafts = world.drafts();
    assert_eq!(drafts.len(), 3);
    let down = || Err(signer::Error::Unavailable("down".into()));
    let mut results: Vec<_> = drafts.into_iter().map(|d| (d.clone(), Ok(seal(&d)))).collect();
    results[1].1 = down();
    for (draft, result) in &results {
        if let Ok(sealed) = result {
            world.chain.know(draft, sealed);
        }
    }
    // The highest comes back first: it waits for those below it.
    let last = results.pop().expect("three");
    world.turn(vec![LaneEvent::Signed(vec![last])]);
    assert!(world.desk.store.attempts.is_empty());
    world.turn(vec![LaneEvent::Signed(results)]);
    assert_eq!(world.slot_of(ids[0]), Some(5));
    assert_eq!(world.slot_of(ids[1]), None);
    world.rest();
    assert_eq!(world.slot_of(ids[2]), Some(6), "the one behind takes the slot");
    world.wait(1_000);
    world.rest();
    assert_eq!(world.slot_of(ids[1]), Some(7));
}

#[test]
fn a_refused_local_signature_fails_the_transaction_without_a_slot() {
    let mut world = world(settings());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::Never);
    let status = &world.desk.store.tx(id).status;
    assert_eq!((status.state, status.slot), (TxState::Failed, None));
    assert_eq!(status.reason.as_ref().map(|reason| reason.code), Some(ReasonCode::SignatureRefused));
}

#[test]
fn a_remote_signer_that_fails_keeps_the_slot_and_is_asked_again() {
    let mut world = world(remote());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::NotDone);
    assert_eq!((world.slot_of(id), world.desk.store.state(id)), (Some(5), TxState::Accepted));
    assert!(!world.started(Kind::Sign));
    world.wait(1_000);
    world.rest();
    assert_eq!((world.slot_of(id), world.desk.store.state(id)), (Some(5), TxState::Broadcast));
}

#[test]
fn a_remote_signer_that_refuses_fails_the_transaction_and_the_slot_is_given_back() {
    let mut world = world(remote());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::Never);
    assert_eq!((world.slot_of(id), world.desk.store.state(id)), (None, TxState::Failed));
    assert_eq!(world.desk.store.row.cursor, Some(Slot(5)));
    assert!(world.desk.lane.is_idle());
}

#[test]
fn a_late_signature_for_a_slot_that_changed_hands_is_dropped() {
    let mut world = world(remote());
    let first = world.submit();
    world.carry(Kind::Load, Fault::None);
    let Action::Sign(old) = world.take(Kind::Sign) else { unreachable!() };
    world.cancel(first);
    let second = world.submit();
    world.carry(Kind::Load, Fault::None);
    assert_eq!(world.slot_of(second), Some(5));
    assert!(world.started(Kind::Sign));
    world.turn(vec![LaneEvent::Signed(
        old.into_iter().map(|draft| (draft.clone(), Ok(seal(&draft)))).collect(),
    )]);
    assert!(world.desk.store.attempts.is_empty());
    world.rest();
    assert_eq!(world.attempts(5).len(), 1);
    assert_eq!(world.attempts(5)[0].tx, Some(second));
}

#[test]
fn a_signature_for_a_cancelled_transaction_is_dropped() {
    let mut world = world(settings());
    let id = world.submit_as(payment(1), Options::default());
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Prepare, Fault::None);
    let Action::Sign(old) = world.take(Kind::Sign) else { unreachable!() };
    world.cancel(id);
    assert_eq!(world.desk.store.state(id), TxState::Cancelled);
    world.turn(vec![LaneEvent::Signed(
        old.into_iter().map(|draft| (draft.clone(), Ok(seal(&draft)))).collect(),
    )]);
    assert!(world.desk.store.attempts.is_empty());
    assert!(world.desk.lane.is_idle());
}

#[test]
fn bytes_whose_commit_failed_were_never_sent_and_those_whose_answer_was_lost_are() {
    for fate in [CommitFate::NotDone, CommitFate::AnswerLost] {
        let mut world = world(settings());
        let id = world.submit();
        world.carry(Kind::Load, Fault::None);
        world.play(Step::NextCommit(fate));
        world.carry(Kind::Sign, Fault::None);
        assert!(world.started.is_empty(), "the lane was thrown away before it could send");
        world.show(0, true);
        world.rest();
        assert_eq!(world.slot_of(id), Some(5));
        assert_eq!(world.attempts(5).len(), 1);
        assert_eq!(world.chain.pool.len(), 1);
    }
}
