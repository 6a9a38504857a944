//! Transactions that may have landed before the store was put back: why each is held, and what a person's word does.

use super::super::test_world::{Fault, Step, payment, payment_with_gas};
use super::older::{accept, put_back, used};
use super::put_back::never_used;
use super::{Kind, World, remote, settings, world};
use crate::journal::Entry;
use crate::lane::{Hold, LaneEvent};
use crate::ports::store::CommandKind;
use crate::request::{After, AfterState, OnDisplaced, OnFailure, Options, Payload};
use crate::settings::LaneSettings;
use crate::transaction::{Reason, ReasonCode, Terms, TxState};
use crate::{ContentVersion, Slot, TxId};

/// A lane that went on by a person's word, over a slot that did this.
fn went_on_over(did: &Payload) -> World {
    let mut world = world(settings());
    put_back(&mut world, did);
    accept(&mut world);
    world.finalise();
    world
}

#[test]
fn one_that_is_released_for_another_reason_is_held_as_landed() {
    let mut world = never_used();
    let pred = world.submit_as(payment(1), Options::default());
    let after = After { tx: pred, state: AfterState::Confirmed, on_failure: OnFailure::Hold };
    let like_it = world.submit_as(payment(7), Options { after: Some(after), ..Options::default() });
    world.desk.store.txs.get_mut(&pred).unwrap().status.state = TxState::Failed;
    let reason = Reason { code: ReasonCode::PredecessorFailed, text: "x".to_owned() };
    world.desk.store.txs.get_mut(&like_it).unwrap().status.held = Some(reason);
    world.desk.crash();
    accept(&mut world);
    for _ in 0..5 {
        world.finalise();
    }
    assert_eq!(
        world.desk.store.tx(like_it).status.held.as_ref().unwrap().code,
        ReasonCode::PredecessorFailed
    );
    world.command(CommandKind::Approve { tx: like_it, version: None, held_for: None });
    world.rest();
    world.finalise();
    assert_eq!(world.slot_of(like_it), None, "it may have landed");
    assert!(world.desk.store.tx(like_it).status.may_have_landed());
}

#[test]
fn one_that_may_have_landed_and_expires_is_remembered() {
    let mut world = went_on_over(&payment(7));
    let deadline = Some(crate::Millis(world.desk.now.0 + 1_000));
    let held = world.submit_as(payment(7), Options { deadline, ..Options::default() });
    world.rest();
    assert!(world.desk.store.tx(held).status.may_have_landed());
    for _ in 0..5 {
        world.desk.pass(60_000);
        world.finalise();
    }
    let status = world.desk.store.tx(held).status.clone();
    assert_eq!(status.state, TxState::Expired);
    assert!(!status.ended_unsigned());
    let again = world.submit_as(payment(7), Options::default());
    world.rest();
    assert_eq!(world.slot_of(again), None);
}

/// Two that do the same have landed, and two are handed in that a person calls the first of them.
#[test]
fn a_person_who_says_which_one_landed_speaks_of_the_nonce_that_was_shown() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    used(&mut world, &payment(7));
    accept(&mut world);
    world.finalise();
    let held: Vec<TxId> = (0..2).map(|_| world.submit_as(payment(7), Options::default())).collect();
    world.rest();
    for tx in held {
        world.command(CommandKind::Reject { tx, version: None, held_for: None });
        world.rest();
        let status = world.desk.store.tx(tx).status.clone();
        assert_eq!(status.reason.map(|reason| reason.code), Some(ReasonCode::LandedBefore));
    }
    let late = world.submit_as(payment(7), Options::default());
    world.use_up_forgotten();
    assert!(world.slot_of(late).is_some(), "both are accounted for, each by its own word");
}

/// Two have landed and three wait that do the same: each word is about a nonce of its own, and the last one is another payment.
#[test]
fn words_on_several_alike_account_for_a_nonce_each() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    used(&mut world, &payment(7));
    let held: Vec<TxId> = (0..3).map(|_| world.submit_as(payment(7), Options::default())).collect();
    accept(&mut world);
    world.finalise();
    let shown = |world: &World, tx: TxId| world.desk.store.tx(tx).status.forgotten_as;
    let slots: Vec<_> = held.iter().map(|tx| shown(&world, *tx)).collect();
    assert_eq!(slots, [Some(Slot(5)), Some(Slot(6)), Some(Slot(5))]);
    world.command(CommandKind::Reject { tx: held[0], version: None, held_for: None });
    world.rest();
    assert_eq!(shown(&world, held[2]), Some(Slot(6)), "its nonce is accounted for; another one did the same");
    world.command(CommandKind::Reject { tx: held[1], version: None, held_for: None });
    world.command(CommandKind::Approve { tx: held[2], version: None, held_for: None });
    world.rest();
    for tx in &held[..2] {
        let reason = world.desk.store.tx(*tx).status.reason.clone();
        assert_eq!(reason.map(|reason| reason.code), Some(ReasonCode::LandedBefore));
    }
    world.use_up_forgotten();
    assert_eq!(world.slot_of(held[2]), Some(11), "one yes is enough");
    let next = world.submit_as(payment(7), Options::default());
    world.rest();
    assert!(!world.desk.store.tx(next).status.may_have_landed(), "nothing is remembered any more");
}

/// Two are held for one nonce, and another one that did the same lands late.
#[test]
fn each_of_several_shows_a_nonce_of_its_own_also_when_that_lands_late() {
    let mut world = went_on_over(&payment(7));
    let held = [1, 2].map(|_| world.submit_as(payment(7), Options::default()));
    world.rest();
    let shown = |world: &World| held.map(|tx| world.desk.store.tx(tx).status.forgotten_as);
    assert_eq!(shown(&world), [Some(Slot(5)); 2]);
    used(&mut world, &payment(7));
    world.command(CommandKind::Resume);
    for _ in 0..5 {
        world.finalise();
    }
    assert_eq!(shown(&world), [Some(Slot(5)), Some(Slot(6))]);
    // Whoever was shown the first nonce has not spoken of the second.
    for (slot, waits) in [(5, true), (6, false)] {
        let word = CommandKind::Approve { tx: held[1], version: None, held_for: Some(Slot(slot)) };
        world.desk.store.command(word, world.desk.now);
        world.turn(vec![LaneEvent::Work]);
        world.rest();
        assert_eq!(world.desk.store.tx(held[1]).status.may_have_landed(), waits);
    }
}

/// A resume from before the load is about the first nonce. What the second one did is remembered when that is passed, and a word counts then.
#[test]
fn nothing_is_held_for_a_nonce_that_a_resume_did_not_mean() {
    let mut world = world(settings());
    used(&mut world, &payment(8));
    world.loaded_again();
    world.rest();
    world.desk.crash();
    world.started.clear();
    world.desk.store.command(CommandKind::Resume, world.desk.now);
    used(&mut world, &payment(7));
    let both = [1, 2].map(|_| world.submit_as(payment(7), Options::default()));
    for _ in 0..3 {
        world.finalise();
    }
    let may_have_landed = |world: &World| both.map(|tx| world.desk.store.tx(tx).status.may_have_landed());
    let hold = world.desk.lane.hold();
    assert!(matches!(hold, Some(Hold::UnknownSlots { first: Slot(6), last: Slot(6), .. })), "{hold:?}");
    assert_eq!(may_have_landed(&world), [false; 2]);
    world.command(CommandKind::Resume);
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(may_have_landed(&world), [true; 2]);
    world.command(CommandKind::Reject { tx: both[0], version: None, held_for: None });
    world.rest();
    let remembered: Vec<_> = world.desk.store.row.forgotten.keys().copied().collect();
    assert_eq!(remembered, [Slot(5)], "the other one is accounted for");
}

#[test]
fn a_persons_word_on_what_is_held_is_for_the_content_that_was_looked_at() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    used(&mut world, &payment(8));
    accept(&mut world);
    world.finalise();
    let id = world.submit_as(payment(8), Options::default());
    world.rest();
    let replace = |payload: Payload| CommandKind::Replace {
        tx: id,
        payload: Box::new(payload),
        terms: Terms::default(),
    };
    world.command(replace(payment(7)));
    world.rest();
    // Whoever looked at the first content has not spoken of the second.
    for word in [
        CommandKind::Approve { tx: id, version: Some(ContentVersion(1)), held_for: None },
        CommandKind::Reject { tx: id, version: Some(ContentVersion(1)), held_for: None },
    ] {
        world.command(word);
        world.rest();
        assert!(world.desk.store.tx(id).status.may_have_landed());
    }
    world.command(CommandKind::Pause);
    world.rest();
    let why = world.desk.lane.explain(id, world.desk.now).unwrap();
    assert!(why.starts_with("nonce 5") && why.ends_with("; also, an operator paused the lane"), "{why}");
    for slot in [5, 6] {
        let status = world.desk.store.tx(id).status.clone();
        assert_eq!(status.forgotten_as, Some(Slot(slot)), "the newest content first, then the one before");
        world.command(CommandKind::Approve { tx: id, version: Some(ContentVersion(2)), held_for: None });
        world.rest();
    }
    assert!(!world.desk.store.tx(id).status.may_have_landed());
    world.command(replace(payment(7)));
    world.rest();
    assert!(!world.desk.store.tx(id).status.may_have_landed(), "that content was approved");
    world.command(CommandKind::Resume);
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

#[test]
fn an_approval_does_not_go_over_to_another_content_that_was_forgotten() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    used(&mut world, &payment(8));
    accept(&mut world);
    world.finalise();
    world.command(CommandKind::Pause);
    let id = world.submit_as(payment(8), Options::default());
    world.rest();
    world.command(CommandKind::Approve { tx: id, version: None, held_for: None });
    world.rest();
    assert!(!world.desk.store.tx(id).status.may_have_landed());
    let payload = Box::new(payment(7));
    world.command(CommandKind::Replace { tx: id, payload, terms: Terms::default() });
    world.rest();
    let status = world.desk.store.tx(id).status.clone();
    assert!(status.may_have_landed() && status.forgotten_as == Some(Slot(5)), "{status:?}");
}

/// One has landed, and two are handed in again that do the same; one of them had been cancelled or had expired since.
#[test]
fn where_more_do_the_same_than_landed_a_person_says_which() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    let both = [1, 2].map(|_| world.submit_as(payment(7), Options::default()));
    let other = world.submit_as(payment(8), Options::default());
    accept(&mut world);
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(world.desk.store.state(other), TxState::Confirmed);
    for id in both {
        assert!(world.desk.store.tx(id).status.may_have_landed() && world.slot_of(id).is_none());
    }
    world.command(CommandKind::Reject { tx: both[0], version: None, held_for: None });
    world.command(CommandKind::Approve { tx: both[1], version: None, held_for: None });
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(both.map(|id| world.desk.store.state(id)), [TxState::Failed, TxState::Confirmed]);
}

/// As many landed as do the same.
#[test]
fn where_as_many_landed_as_do_the_same_all_have_ended() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    used(&mut world, &payment(7));
    let both = [1, 2].map(|_| world.submit_as(payment(7), Options::default()));
    accept(&mut world);
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(both.map(|id| world.desk.store.state(id)), [TxState::Confirmed; 2]);
    assert!(world.desk.store.attempts.is_empty());
}

/// A replace that comes for one with bytes, and whose content a forgotten slot did.
#[test]
fn a_content_that_may_have_landed_does_not_take_the_place_of_bytes() {
    let mut world = went_on_over(&payment(7));
    let first = world.submit_as(payment(1), Options::default());
    world.use_up_forgotten();
    assert_eq!(world.desk.store.state(first), TxState::Confirmed);
    let out = world.broadcast();
    let signed = world.desk.store.attempts.len();
    let payload = Box::new(payment(7));
    world.command(CommandKind::Replace { tx: out, payload, terms: Terms::default() });
    world.rest();
    assert_eq!(world.desk.store.attempts.len(), signed);
    let dropped = |new: &&crate::journal::NewEntry| match &new.entry {
        Entry::ReplaceDropped { reason, .. } => reason.text.contains("nonce 5"),
        _ => false,
    };
    assert_eq!(world.desk.store.journal.iter().filter(dropped).count(), 1);
}

/// Whoever rejects one whose content is another one by now has not said what landed.
#[test]
fn a_replaced_one_that_is_rejected_accounts_for_no_nonce() {
    let mut world = went_on_over(&payment(7));
    let id = world.submit_as(payment(7), Options::default());
    world.rest();
    let payload = Box::new(payment(9));
    world.command(CommandKind::Replace { tx: id, payload, terms: Terms::default() });
    world.rest();
    assert!(world.desk.store.tx(id).status.may_have_landed(), "its first content may have landed");
    world.command(CommandKind::Reject { tx: id, version: None, held_for: None });
    world.rest();
    let late = world.submit_as(payment(7), Options::default());
    world.rest();
    assert!(world.desk.store.tx(late).status.may_have_landed());
}

/// An approver's word that was given before the store was accepted is about the amount, not about what landed.
#[test]
fn a_word_from_before_an_acceptance_says_nothing_of_what_may_have_landed() {
    let settings = LaneSettings { approve_above: Some(crate::Wei::default()), ..settings() };
    for (word, state) in [
        (
            (|tx| CommandKind::Approve { tx, version: None, held_for: None }) as fn(TxId) -> CommandKind,
            TxState::Accepted,
        ),
        (|tx| CommandKind::Reject { tx, version: None, held_for: None }, TxState::Failed),
    ] {
        let mut world = world(settings.clone());
        put_back(&mut world, &payment(7));
        let id = world.submit_as(payment(7), Options::default());
        world.desk.store.command(word(id), world.desk.now);
        accept(&mut world);
        for _ in 0..5 {
            world.finalise();
        }
        let status = world.desk.store.tx(id).status.clone();
        assert!(status.may_have_landed() && world.slot_of(id).is_none(), "{status:?}");
        assert_eq!(status.state.is_terminal(), state.is_terminal(), "{status:?}");
        let again = world.submit_as(payment(7), Options::default());
        world.rest();
        assert!(world.desk.store.tx(again).status.may_have_landed());
    }
}

/// One of them had reserved a slot above the one that was used, and would be signed for it.
#[test]
fn where_more_do_the_same_than_landed_one_that_had_reserved_a_slot_waits_too() {
    let mut world = world(remote());
    let both = [1, 2].map(|_| world.submit_as(payment(7), Options::default()));
    for kind in [Kind::Load, Kind::Prepare] {
        world.carry(kind, Fault::None);
    }
    assert_eq!(both.map(|id| world.slot_of(id)), [Some(5), Some(6)]);
    assert!(world.desk.store.attempts.is_empty(), "reserved");
    put_back(&mut world, &payment(7));
    accept(&mut world);
    for _ in 0..3 {
        world.finalise();
    }
    for id in both {
        let status = world.desk.store.tx(id).status.clone();
        assert!(status.may_have_landed() && status.slot.is_none(), "{status:?}");
    }
    assert!(world.desk.store.attempts.values().all(|attempt| attempt.no_op), "nothing of them was signed");
}

/// Whom it was to follow may have failed in a newer copy, so that it was not wanted.
#[test]
fn one_that_was_to_follow_another_is_not_called_landed() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    let first = world.submit_as(payment(1), Options::default());
    let after = After { tx: first, state: AfterState::Confirmed, on_failure: OnFailure::Hold };
    let follows = world.submit_as(payment(7), Options { after: Some(after), ..Options::default() });
    accept(&mut world);
    for _ in 0..3 {
        world.finalise();
    }
    let status = world.desk.store.tx(follows).status.clone();
    assert!(status.may_have_landed() && status.won.is_none(), "{status:?}");
    assert_eq!(world.desk.store.state(first), TxState::Confirmed);
}

/// The store went back once more, and a second nonce did the same: it may be either of them, or none.
#[test]
fn one_that_waits_for_a_person_already_is_not_called_landed_by_another_nonce() {
    let mut world = went_on_over(&payment(7));
    let held = world.submit_as(payment(7), Options::default());
    world.rest();
    put_back(&mut world, &payment(7));
    accept(&mut world);
    for _ in 0..3 {
        world.finalise();
    }
    let status = world.desk.store.tx(held).status.clone();
    assert!(status.may_have_landed() && status.won.is_none(), "{status:?}");
    assert_eq!(world.desk.store.row.forgotten.len(), 2, "both nonces are to be accounted for");
}

#[test]
fn the_nonce_that_is_shown_is_the_one_that_did_the_newest_content() {
    let mut world = world(settings());
    put_back(&mut world, &payment(8));
    used(&mut world, &payment(7));
    accept(&mut world);
    world.finalise();
    let id = world.submit_as(payment(8), Options::default());
    world.rest();
    let payload = Box::new(payment(7));
    world.command(CommandKind::Replace { tx: id, payload, terms: Terms::default() });
    world.rest();
    assert_eq!(world.desk.store.tx(id).status.forgotten_as, Some(Slot(6)), "nonce 5 did the one before");
    world.command(CommandKind::Reject { tx: id, version: None, held_for: None });
    world.rest();
    assert_eq!(world.desk.store.row.forgotten.keys().copied().collect::<Vec<_>>(), [Slot(5)]);
}

/// Another nonce did the same while it was reserved. A stranger takes its own, and it is not sent with the next.
#[test]
fn one_whose_reserved_nonce_was_taken_is_held_for_what_another_nonce_did_meanwhile() {
    let mut world = world(LaneSettings { on_displaced: OnDisplaced::Requeue, ..remote() });
    let out = world.broadcast();
    let reserved = world.submit_as(payment_with_gas(7), Options::default());
    world.carry(Kind::Load, Fault::None);
    world.take(Kind::Sign);
    assert_eq!((world.slot_of(out), world.slot_of(reserved)), (Some(5), Some(6)));
    world.desk.pass(1);
    world.play(Step::Crash);
    used(&mut world, &payment(7));
    used(&mut world, &payment(99));
    world.settle_strangers();
    assert!(matches!(world.desk.lane.hold(), Some(Hold::UnknownSlots { first: Slot(6), last: Slot(6), .. })));
    world.command(CommandKind::Resume);
    for _ in 0..5 {
        world.finalise();
    }
    assert_eq!(world.desk.lane.hold(), None);
    let status = world.desk.store.tx(reserved).status.clone();
    assert!(status.may_have_landed() && status.slot.is_none(), "{status:?}");
    assert_eq!(status.forgotten_as, Some(Slot(5)));
}
