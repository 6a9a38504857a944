use super::super::test_world::{COMMANDS, Fault, Step, payment};
use super::{Kind, World, remote, settings, world};
use crate::lane::{Action, Hold, LaneEvent};
use crate::ports::chain::Taker;
use crate::ports::store::{CommandKind, Older};
use crate::request::{Options, Payload};
use crate::transaction::TxState;
use crate::{JournalSeq, Slot, TxHash};

pub(super) fn older() -> Older {
    Older::Behind { journal: JournalSeq(3), mark: JournalSeq(9) }
}

#[test]
fn an_older_store_sends_what_it_has_and_signs_nothing() {
    let mut world = world(settings());
    let sent = world.broadcast();
    let signed = world.desk.store.attempts.len();
    world.desk.store.older = Some(older());
    world.desk.crash();
    let waits = world.submit_as(payment(7), Options::default());
    let cancelled = world.submit_as(payment(8), Options::default());
    world.command(CommandKind::Cancel { tx: cancelled });
    // Stalled for long: in its right mind it would offer more.
    for _ in 0..5 {
        world.show(0, true);
        world.rest();
        world.desk.pass(120_000);
    }
    assert_eq!(world.desk.lane.hold(), Some(Hold::StoreOlder { why: older() }));
    assert_eq!(world.desk.store.attempts.len(), signed, "no slot, no bump, no no-op");
    assert_eq!(world.desk.store.state(waits), TxState::Accepted);
    assert_eq!(world.desk.store.state(cancelled), TxState::Accepted, "it may have landed");
    // What was signed before lands, and that counts.
    world.finalise();
    assert_eq!(world.desk.store.state(sent), TxState::Confirmed);
    assert_eq!(world.desk.store.attempts.len(), signed);

    world.desk.store.older = None;
    world.command(CommandKind::AcceptStore { seen: None });
    world.rest();
    world.show(0, true);
    world.rest();
    assert_eq!(world.desk.lane.hold(), None);
    assert_eq!(world.desk.store.state(cancelled), TxState::Cancelled, "commands were left where they are");
    world.use_up_forgotten();
    assert_eq!(world.desk.store.state(waits), TxState::Confirmed);
}

/// The only endpoint is some seconds behind when the store is accepted: what it shows next had landed before.
#[test]
fn an_acceptance_goes_by_a_head_of_after_the_word() {
    let mut world = world(settings());
    world.desk.store.older = Some(older());
    world.desk.crash();
    world.show(0, true);
    world.rest();
    world.desk.store.older = None;
    let landed = world.desk.now;
    world.desk.pass(7_000);
    world.command(CommandKind::AcceptStore { seen: None });
    world.show(0, true);
    world.rest();
    assert_eq!(world.desk.lane.hold(), Some(Hold::StoreOlder { why: Older::Accepted }), "not by this head");
    let word = std::mem::replace(&mut world.desk.now, landed);
    used(&mut world, &payment(7));
    world.desk.now = word;
    world.show(0, true);
    world.rest();
    world.finalise();
    world.use_up_forgotten();
    assert_eq!(world.desk.lane.hold(), None);
    let again = world.submit_as(payment(7), Options::default());
    world.finalise();
    let status = &world.desk.store.tx(again).status;
    assert!(status.may_have_landed() && status.slot.is_none(), "{status:?}");
}

/// A chain that rests makes no block of after the word, and by a clock that is ahead no block is.
#[test]
fn an_acceptance_is_followed_within_two_minutes_whatever_the_clocks_say() {
    let mut world = world(settings());
    world.desk.store.older = Some(older());
    world.desk.crash();
    world.show(0, true);
    world.rest();
    world.desk.store.older = None;
    world.desk.pass(3_600_000);
    world.command(CommandKind::AcceptStore { seen: None });
    world.show(0, true);
    world.rest();
    assert!(world.desk.lane.hold().is_some());
    world.desk.now = crate::Millis(world.desk.now.0 - 1_800_000);
    world.wait(1_000);
    world.rest();
    assert!(
        world.desk.wake_at.is_some_and(|at| at <= world.desk.now.after(std::time::Duration::from_secs(120)))
    );
    world.wait(120_000);
    world.rest();
    assert_eq!(world.desk.lane.hold(), None);
}

/// The two minutes are over, and the lane waits for what a reorganisation took back: it sleeps.
#[test]
fn an_accepted_lane_that_waits_for_something_else_is_not_awake_all_the_time() {
    let mut world = world(settings());
    world.desk.store.older = Some(older());
    world.desk.crash();
    world.show(0, true);
    world.rest();
    world.desk.store.older = None;
    world.command(CommandKind::AcceptStore { seen: Some(Slot(9)) });
    world.show(0, true);
    world.rest();
    for _ in 0..40 {
        world.wait(5_000);
        world.rest();
    }
    assert!(matches!(world.desk.lane.hold(), Some(Hold::TakenBack { .. })), "{:?}", world.desk.lane.hold());
    let (now, wake_at) = (world.desk.now, world.desk.wake_at);
    assert!(wake_at.is_none_or(|at| at > now), "{wake_at:?} {now:?}");
}

/// Accepts the store, as the engine does: the command is stored with the word.
pub(super) fn accept(world: &mut World) {
    world.desk.store.older = None;
    world.command(CommandKind::AcceptStore { seen: None });
    world.show(0, true);
    world.rest();
}

/// The copy was put back; since then a slot was used that did this.
pub(super) fn put_back(world: &mut World, did: &Payload) {
    world.desk.store.older = Some(older());
    world.desk.crash();
    used(world, did);
}

pub(super) fn used(world: &mut World, did: &Payload) {
    let slot = world.chain.count();
    let hash = TxHash(alloy_primitives::B256::repeat_byte(0x77));
    let taker = Taker {
        hash,
        to: did.to,
        value: did.value,
        data: did.data.clone(),
        authorizations: Vec::new(),
        receipt: None,
    };
    world.chain.takers.insert(slot, taker);
    world.chain.mine_foreign(world.desk.now);
}

#[test]
fn an_accepted_store_ends_what_its_forgotten_slots_did_and_sends_the_rest() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    let landed = world.submit_as(payment(7), Options::default());
    let other = world.submit_as(payment(8), Options::default());
    accept(&mut world);
    // It may be reorganised yet: nothing is decided by it.
    assert!(world.desk.lane.hold().is_some_and(|hold| hold.is_of_older_store()));
    assert_eq!(world.desk.store.state(landed), TxState::Accepted);
    // However often it is loaded meanwhile.
    world.desk.crash();
    world.show(0, true);
    world.rest();
    let hold = world.desk.lane.hold().unwrap();
    assert!(matches!(hold, Hold::Comparing { first: Slot(5), last: Slot(5), .. }), "{hold:?}");
    assert!(hold.sentence().contains("up to block 1 must be final first"), "{}", hold.sentence());
    world.finalise();
    assert_eq!(world.desk.lane.hold(), None);
    let status = world.desk.store.tx(landed).status.clone();
    assert_eq!((status.state, status.slot), (TxState::Confirmed, None));
    world.use_up_forgotten();
    assert_eq!((world.slot_of(other), world.desk.store.state(other)), (Some(10), TxState::Confirmed));
    let sent = world.desk.store.attempts.values().filter(|attempt| !attempt.no_op).count();
    assert_eq!(sent, 1, "one was sent");
}

#[test]
fn one_that_is_handed_in_after_the_store_was_accepted_and_may_have_landed_waits_for_a_person() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    accept(&mut world);
    world.finalise();
    assert_eq!(world.desk.lane.hold(), None);
    let late = world.submit_as(payment(7), Options::default());
    world.rest();
    assert_eq!((world.slot_of(late), world.desk.store.state(late)), (None, TxState::Accepted));
    let why = world.desk.lane.explain(late, world.desk.now).unwrap();
    assert!(why.contains("nonce 5") && why.contains("approve") && why.contains("reject"), "{why}");
    // Nobody knows which of those that do the same it was, before and after a restart.
    let next = world.submit_as(payment(7), Options::default());
    world.rest();
    world.desk.crash();
    world.show(0, true);
    world.rest();
    assert_eq!((world.slot_of(late), world.slot_of(next)), (None, None));
    // A person says that one of them is new; the other may still be what landed.
    world.command(CommandKind::Approve { tx: next, version: None, held_for: None });
    world.use_up_forgotten();
    assert_eq!((world.slot_of(late), world.slot_of(next)), (None, Some(10)));
    world.desk.crash();
    world.show(0, true);
    world.rest();
    assert_eq!((world.slot_of(late), world.slot_of(next)), (None, Some(10)));
    let third = world.submit_as(payment(7), Options::default());
    world.rest();
    assert_eq!(world.slot_of(third), None, "what a person approved was another one");
    // That was it.
    world.command(CommandKind::Reject { tx: late, version: None, held_for: None });
    world.rest();
    let status = world.desk.store.tx(late).status.clone();
    assert_eq!(status.state, TxState::Failed);
    assert!(
        status
            .reason
            .is_some_and(|reason| reason.text == "a person said that it has landed already, with nonce 5")
    );
    let fourth = world.submit_as(payment(7), Options::default());
    world.rest();
    assert!(!world.desk.store.tx(fourth).status.may_have_landed(), "the nonce is accounted for");
    world.finalise();
    assert_eq!(world.slot_of(fourth), Some(11));
}

/// By any way but a person's word: its caller would make the same call again, or ask for the same anew.
#[test]
fn one_that_may_have_landed_and_ends_without_a_persons_word_is_remembered_and_keeps_its_call() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    accept(&mut world);
    world.finalise();
    let held = world.submit_as(payment(7), Options::default());
    world.rest();
    world.command(CommandKind::Withdraw { tx: held });
    world.rest();
    assert_eq!(world.desk.store.state(held), TxState::Accepted, "its caller will ask again");
    world.command(CommandKind::Cancel { tx: held });
    world.rest();
    let status = world.desk.store.tx(held).status.clone();
    assert_eq!(status.state, TxState::Cancelled);
    assert!(!status.ended_unsigned(), "the call is not free: it may have landed");
    let why = status.reason.unwrap().text;
    assert_eq!(why, "cancelled by the caller; nonce 5 did the same and stays remembered");
    let again = world.submit_as(payment(7), Options::default());
    world.rest();
    assert_eq!(world.slot_of(again), None);
}

/// A lane at rest asks the chain for nothing: what it knows of its count may be old.
#[test]
fn an_acceptance_goes_by_a_count_of_the_head_that_is_not_below_what_the_person_was_shown() {
    let mut world = world(settings());
    world.desk.store.older = Some(older());
    world.desk.crash();
    world.show(0, true);
    world.rest();
    // This lands after the lane has read its count, and what the lane is shown from now on is a new head with the old count.
    used(&mut world, &payment(7));
    world.desk.store.older = None;
    world.command(CommandKind::AcceptStore { seen: Some(Slot(6)) });
    world.rest();
    assert_eq!(
        world.desk.lane.hold(),
        Some(Hold::TakenBack { first: Slot(5), last: Slot(5) }),
        "the count is below"
    );
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(world.desk.lane.hold(), None);
    let late = world.submit_as(payment(7), Options::default());
    world.rest();
    assert_eq!(world.slot_of(late), None, "it may have landed");
}

/// Bytes that the copy has forgotten and that no pool showed.
#[test]
fn what_lands_late_in_a_lane_that_was_accepted_is_remembered_too() {
    let mut world = world(settings());
    world.desk.store.older = Some(older());
    world.desk.crash();
    accept(&mut world);
    world.finalise();
    assert_eq!(world.desk.lane.hold(), None);
    used(&mut world, &payment(7));
    let other = world.submit_as(payment(8), Options::default());
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(world.desk.store.state(other), TxState::Confirmed, "the lane went on by itself");
    let late = world.submit_as(payment(7), Options::default());
    world.rest();
    assert_eq!(world.slot_of(late), None, "it may have landed");
}

/// The store is accepted, and nobody can say what took any slot.
pub(super) fn unreadable(world: &mut World) {
    world.desk.store.older = None;
    world.command(CommandKind::AcceptStore { seen: None });
    world.show(0, true);
    for _ in 0..12 {
        for action in std::mem::take(&mut world.started) {
            let fault = if matches!(action, Action::Prove(_)) { Fault::NotDone } else { Fault::None };
            let answer = world.act(action, &fault);
            world.answers.push(answer);
        }
        let answers = std::mem::take(&mut world.answers);
        world.turn(answers);
        world.wait(30_000);
    }
}

#[test]
fn slots_that_nobody_can_read_hold_an_accepted_store_until_a_person_resumes_it() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    let waits = world.submit_as(payment(7), Options::default());
    unreadable(&mut world);
    assert!(matches!(world.desk.lane.hold(), Some(Hold::UnknownSlots { first: Slot(5), .. })));
    assert_eq!(world.slot_of(waits), None);
}

/// The copy holds a resume that was not followed yet. Whoever gave it knew nothing of what the copy has forgotten, however often that was seen since.
#[test]
fn a_resume_from_the_copy_does_not_mean_what_it_has_forgotten_also_if_the_process_died_meanwhile() {
    let mut world = world(settings());
    world.desk.store.command(CommandKind::Resume, world.desk.now);
    put_back(&mut world, &payment(7));
    let waits = world.submit_as(payment(8), Options::default());
    for _ in 0..2 {
        world.show(0, true);
        world.rest();
        world.play(Step::Crash);
    }
    unreadable(&mut world);
    assert!(matches!(world.desk.lane.hold(), Some(Hold::UnknownSlots { first: Slot(5), .. })));
    assert!(world.desk.store.commands.iter().all(|(_, done)| *done), "it was heard");
    assert_eq!(world.slot_of(waits), None);
}

#[test]
fn more_slots_than_are_looked_up_at_once_are_all_compared() {
    let mut world = world(settings());
    world.desk.store.older = Some(older());
    world.desk.crash();
    for _ in 0..300 {
        used(&mut world, &payment(1));
    }
    used(&mut world, &payment(7));
    let landed = world.submit_as(payment(7), Options::default());
    world.desk.store.older = None;
    world.command(CommandKind::AcceptStore { seen: None });
    for _ in 0..100 {
        world.block();
        world.settle();
    }
    assert_eq!(world.desk.lane.hold(), None);
    assert_eq!(world.desk.store.state(landed), TxState::Confirmed);
    assert!(world.desk.store.attempts.is_empty(), "nothing was sent");
}

#[test]
fn a_lane_that_the_older_copy_never_used_ends_nothing_by_what_its_key_did_before() {
    let mut world = world(settings());
    world.desk.store.row = crate::ports::store::LaneRow::default();
    world.desk.store.older = Some(older());
    world.desk.crash();
    used(&mut world, &payment(7));
    let like_it = world.submit_as(payment(7), Options::default());
    let other = world.submit_as(payment(8), Options::default());
    world.show(0, true);
    world.rest();
    assert_eq!(world.desk.store.row.cursor, None, "it does not begin at the count");
    accept(&mut world);
    // The model has no blocks for what came before the first one: a person says so.
    for _ in 0..12 {
        world.finalise();
        world.wait(30_000);
        world.rest();
    }
    world.command(CommandKind::Resume);
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(world.slot_of(like_it), None);
    assert_eq!(world.desk.store.state(like_it), TxState::Accepted, "it waits for a person");
    assert_eq!(world.desk.store.state(other), TxState::Confirmed);
}

/// A newer copy had replaced it, and the replacement won.
#[test]
fn a_slot_with_bytes_that_was_used_before_the_store_was_accepted_is_not_given_away() {
    let mut world = world(settings());
    let bound = world.broadcast();
    world.desk.store.older = Some(older());
    world.desk.crash();
    used(&mut world, &payment(99));
    accept(&mut world);
    for _ in 0..10 {
        world.finalise();
        world.wait(30_000);
    }
    let status = world.desk.store.tx(bound).status.clone();
    assert!(!status.state.is_terminal() && status.slot == Some(Slot(5)), "{status:?}");
    assert_eq!(world.desk.store.attempts.len(), 1, "neither is it signed for another slot");
}

#[test]
fn an_acceptance_is_read_however_many_commands_wait_for_it_and_they_keep_their_order() {
    let mut world = world(settings());
    world.desk.store.older = Some(older());
    world.desk.crash();
    world.started.clear();
    let pauses = [CommandKind::Resume, CommandKind::Pause].into_iter().cycle();
    for kind in pauses.take(2 * COMMANDS + 2) {
        world.command(kind);
    }
    for _ in 0..5 {
        world.rest();
        world.wait(20);
    }
    assert!(world.desk.store.commands.iter().all(|(_, done)| !done));
    world.desk.store.older = None;
    world.desk.store.command(CommandKind::AcceptStore { seen: None }, world.desk.now);
    world.turn(vec![LaneEvent::Work]);
    world.carry(Kind::Load, Fault::None);
    // A load that began before the store was accepted shows what comes after those that were left.
    world.turn(vec![LaneEvent::Work]);
    world.command(CommandKind::Resume);
    world.chain.mine(0, true, world.desk.now);
    world.show(0, true);
    world.carry(Kind::Load, Fault::None);
    for _ in 0..8 {
        world.rest();
        world.wait(20);
    }
    assert!(world.desk.store.commands.iter().all(|(_, done)| *done));
    assert!(!world.desk.store.row.paused, "the last word was a resume");
    assert_eq!(world.desk.lane.hold(), None);
}

/// The queue is being read when the lane goes on: what that shows comes after the pause that was left where it is.
#[test]
fn a_word_that_is_read_while_an_acceptance_is_followed_does_not_overtake_one_that_was_left() {
    for (left, last) in [(CommandKind::Pause, CommandKind::Resume), (CommandKind::Resume, CommandKind::Pause)]
    {
        let mut world = world(settings());
        world.desk.store.older = Some(older());
        world.desk.crash();
        world.show(0, true);
        world.command(left);
        world.rest();
        world.desk.store.older = None;
        world.desk.pass(7_000);
        world.command(CommandKind::AcceptStore { seen: None });
        for _ in 0..3 {
            world.carry(Kind::Load, Fault::None);
            world.turn(vec![LaneEvent::Work]);
        }
        assert_eq!(
            world.desk.lane.hold(),
            Some(Hold::StoreOlder { why: Older::Accepted }),
            "not by this head"
        );
        assert!(world.started(Kind::Load));
        world.desk.store.command(last.clone(), world.desk.now);
        world.chain.mine(0, true, world.desk.now);
        world.show(0, true);
        assert!(!world.desk.lane.is_older(), "it has gone on, and is still reading");
        world.carry(Kind::Load, Fault::None);
        world.turn(vec![LaneEvent::Work]);
        world.rest();
        assert_eq!(world.desk.store.row.paused, last == CommandKind::Pause);
        assert!(world.desk.store.commands.iter().all(|(_, done)| *done));
    }
}

#[test]
fn one_that_had_reserved_a_slot_and_landed_in_another_is_not_sent_again() {
    let mut world = world(remote());
    let id = world.submit_as(payment(7), Options::default());
    for kind in [Kind::Load, Kind::Prepare] {
        world.carry(kind, Fault::None);
    }
    assert_eq!((world.slot_of(id), world.desk.store.attempts.len()), (Some(5), 0), "reserved");
    world.desk.store.older = Some(older());
    world.desk.crash();
    used(&mut world, &payment(99));
    used(&mut world, &payment(7));
    accept(&mut world);
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert!(world.desk.store.attempts.values().all(|attempt| attempt.no_op), "nothing of it was signed");
}

/// The copy holds a replace that was not applied yet; the newer one had applied it, and it landed.
#[test]
fn a_content_that_comes_by_a_replace_after_the_store_was_accepted_may_have_landed_too() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    let id = world.submit_as(payment(1), Options::default());
    let terms = crate::transaction::Terms::default();
    world
        .desk
        .store
        .command(CommandKind::Replace { tx: id, payload: Box::new(payment(7)), terms }, world.desk.now);
    world.command(CommandKind::Pause);
    accept(&mut world);
    for _ in 0..3 {
        world.finalise();
    }
    world.command(CommandKind::Resume);
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(world.desk.store.state(id), TxState::Confirmed, "it is the content that has landed");
    assert!(world.desk.store.attempts.is_empty());
}

/// The memory of a forgotten slot must stay true: a reorganisation may still put something else there.
#[test]
fn an_accepted_store_goes_on_over_what_is_final_only() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    let other = world.submit_as(payment(8), Options::default());
    accept(&mut world);
    let hold = world.desk.lane.hold();
    assert!(matches!(hold, Some(Hold::Comparing { first: Slot(5), last: Slot(5), .. })), "{hold:?}");
    assert!(world.desk.store.row.forgotten.is_empty() && world.slot_of(other).is_none());
    world.finalise();
    assert_eq!(world.desk.lane.hold(), None);
    assert_eq!(world.desk.store.row.forgotten.len(), 1);
    world.use_up_forgotten();
    assert_eq!(world.slot_of(other), Some(10));
}

/// Callers hand everything in again just when the store is accepted: the queue never comes to rest.
#[test]
fn an_accepted_store_goes_on_while_requests_keep_coming() {
    let mut world = world(settings());
    put_back(&mut world, &payment(9_999));
    for _ in 0..1_200 {
        world.submit();
    }
    let deep = world.submit_as(payment(9_999), Options::default());
    world.desk.store.older = None;
    world.command(CommandKind::AcceptStore { seen: None });
    for _ in 0..60 {
        for _ in 0..4 {
            world.chain.mine(0, true, world.desk.now);
        }
        world.show(0, true);
        // There is news at every turn, before what was read is looked at.
        for action in std::mem::take(&mut world.started) {
            let answer = world.act(action, &Fault::None);
            world.turn(vec![LaneEvent::Work, answer]);
        }
        world.desk.pass(1_000);
    }
    assert_eq!(world.desk.lane.hold(), None);
    assert_eq!(world.desk.store.state(deep), TxState::Confirmed);
    assert_eq!(world.slot_of(deep), None, "it is not paid again");
}

#[test]
fn an_accepted_store_compares_a_queue_that_is_longer_than_one_reading() {
    let mut world = world(settings());
    put_back(&mut world, &payment(9_999));
    for _ in 0..1_200 {
        world.submit();
    }
    let deep = world.submit_as(payment(9_999), Options::default());
    accept(&mut world);
    world.finalise();
    assert_eq!(world.desk.lane.hold(), None);
    assert_eq!(world.desk.store.state(deep), TxState::Confirmed);
    assert_eq!(world.slot_of(deep), None, "it is not paid again");
}
