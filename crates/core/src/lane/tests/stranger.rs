//! Slots that somebody else used: adopted after proof where they cannot be ours, held where they may be.

use super::super::test_world::{Fault, LANE, Step, payment, payment_with_gas};
use super::{Kind, World, remote, settings, world};
use crate::journal::Entry;
use crate::lane::{Action, Hold, LaneEvent};
use crate::ports::chain::Taker;
use crate::ports::store::CommandKind;
use crate::request::{Options, Payload};
use crate::settings::{LaneSettings, OnUnknownSlots};
use crate::transaction::TxState;
use crate::view::BlockRef;
use crate::{Slot, TxHash, TxId};

fn adopting() -> LaneSettings {
    LaneSettings { on_unknown_slots: OnUnknownSlots::Adopt, ..settings() }
}

/// A transaction that does the same as this payload.
fn like(payload: &Payload) -> Taker {
    let hash = TxHash(alloy_primitives::B256::repeat_byte(0x77));
    Taker {
        hash,
        to: payload.to,
        value: payload.value,
        data: payload.data.clone(),
        authorizations: Vec::new(),
        receipt: None,
    }
}

impl World {
    fn adopted(&self) -> Vec<Slot> {
        let nonces = |entry: &Entry| match entry {
            Entry::LaneAdopted { nonces, .. } => nonces.clone(),
            _ => Vec::new(),
        };
        self.desk.store.journal.iter().flat_map(|told| nonces(&told.entry)).collect()
    }

    fn holds_for_strangers(&self) -> bool {
        matches!(self.desk.lane.hold(), Some(Hold::UnknownSlots { .. }))
    }

    /// Who took the slot is found, and later proven.
    fn found(&mut self, slot: u64, taker: &Taker) {
        let Action::Prove(proof) = self.take(Kind::Prove) else { unreachable!() };
        assert_eq!(proof.slot, Slot(slot));
        let block = self.chain.winner(Slot(slot)).expect("the slot was used").0.at;
        self.turn(vec![LaneEvent::Foreign { slot: Slot(slot), block, taker: Some(taker.clone()) }]);
    }

    pub(super) fn loaded_again(&mut self) {
        self.play(Step::Crash);
        self.show(0, true);
    }
}

/// Whatever the lane was at when the key was used.
#[test]
fn a_slot_that_was_used_while_the_lane_was_held_is_adopted_when_that_is_settled_and_not_before() {
    for moment in 0..4 {
        let mut world = world(settings());
        let before = (moment > 0).then(|| world.broadcast());
        if moment > 1 {
            world.block();
        }
        if moment > 2 {
            world.finalise();
        }
        world.play(Step::Foreign);
        world.show(0, true);
        let id = world.submit();
        world.rest();
        if moment == 1 {
            // The stranger was faster with the slot that was out: another matter.
            continue;
        }
        assert!(world.holds_for_strangers() && world.slot_of(id).is_none(), "moment {moment}");
        assert!(world.adopted().is_empty());
        world.block();
        world.rest();
        assert!(world.holds_for_strangers(), "one confirmation of two");
        world.block();
        world.rest();
        let used = 5 + u64::from(before.is_some());
        assert_eq!(world.adopted(), [Slot(used)]);
        assert_eq!((world.slot_of(id), world.desk.store.state(id)), (Some(used + 1), TxState::Broadcast));
        world.finalise();
        assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    }
}

#[test]
fn several_in_a_row_are_adopted_one_by_one_as_they_are_settled() {
    let mut world = world(settings());
    for _ in 0..3 {
        world.play(Step::Foreign);
        world.show(0, true);
        world.rest();
    }
    world.finalise();
    assert_eq!(world.adopted(), [Slot(5), Slot(6), Slot(7)]);
    let id = world.broadcast();
    assert_eq!(world.slot_of(id), Some(8));
}

#[test]
fn a_reserved_slot_that_a_stranger_took_is_adopted_and_its_transaction_gets_another() {
    let mut world = world(remote());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.take(Kind::Sign);
    world.play(Step::Foreign);
    world.finalise();
    assert_eq!(world.adopted(), [Slot(5)]);
    assert_eq!((world.slot_of(id), world.desk.store.state(id)), (Some(6), TxState::Mined));
}

/// All that differs is who was paid: nothing of the reservation was carried out.
#[test]
fn a_reserved_slot_that_paid_another_recipient_as_much_is_adopted() {
    let mut world = world(remote());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.take(Kind::Sign);
    let other = Some(crate::Account(alloy_primitives::Address::repeat_byte(0xdd)));
    super::older::used(&mut world, &Payload { to: other, ..payment_with_gas(1) });
    world.show(0, true);
    world.rest();
    assert_eq!(world.desk.lane.unknown()[0].same_as, None);
    for _ in 0..2 {
        world.finalise();
    }
    assert_eq!(world.adopted(), [Slot(5)]);
    assert_eq!((world.slot_of(id), world.desk.store.state(id)), (Some(6), TxState::Confirmed));
}

#[test]
fn a_returned_slot_that_a_stranger_took_is_adopted() {
    let mut world = world(remote());
    let (low, high) = (world.submit(), world.submit());
    world.carry(Kind::Load, Fault::None);
    world.play(Step::Foreign);
    world.cancel(low);
    world.finalise();
    assert_eq!(world.adopted(), [Slot(5)]);
    assert!(world.desk.lane.row.returned.is_empty());
    assert_eq!(world.slot_of(high), Some(6));
}

#[test]
fn slots_found_at_a_load_hold_until_a_person_speaks_however_long_they_are_final() {
    let mut world = world(settings());
    world.play(Step::Foreign);
    world.loaded_again();
    let id = world.submit();
    for _ in 0..10 {
        world.block();
        world.rest();
    }
    assert!(world.holds_for_strangers() && world.adopted().is_empty());
    let shown = world.desk.lane.unknown();
    assert_eq!(
        shown.iter().map(|one| (one.slot, one.block.is_some())).collect::<Vec<_>>(),
        [(Slot(5), true)]
    );
    world.command(CommandKind::Resume);
    world.rest();
    assert_eq!(world.slot_of(id), Some(6));
}

#[test]
fn slots_found_at_a_load_are_adopted_where_the_signer_says_so() {
    let mut world = world(adopting());
    world.play(Step::Foreign);
    world.loaded_again();
    world.finalise();
    assert_eq!(world.adopted(), [Slot(5)]);
    let id = world.broadcast();
    assert_eq!(world.slot_of(id), Some(6));
}

/// A transaction deep in the queue that does the same is read after the slot is proven to be used.
#[test]
fn slots_found_at_a_load_are_not_adopted_before_everything_that_waits_was_compared() {
    let mut world = world(LaneSettings { max_in_flight: 2, ..adopting() });
    world.play(Step::Foreign);
    world.show(0, true);
    for _ in 0..1_200 {
        world.submit();
    }
    let deep = world.submit_as(payment(9_999), Options::default());
    world.loaded_again();
    world.carry(Kind::Load, Fault::None);
    assert!(world.started(Kind::Load), "there is more to read");
    let taker = like(&payment(9_999));
    world.found(5, &taker);
    for _ in 0..2 {
        world.block();
    }
    world.found(5, &taker);
    world.block();
    assert!(world.holds_for_strangers() && world.adopted().is_empty());
    world.finalise();
    assert_eq!(world.desk.lane.unknown()[0].same_as, Some(deep));
    assert!(world.holds_for_strangers() && world.adopted().is_empty());
    world.command(CommandKind::Resume);
    world.rest();
    let status = &world.desk.store.tx(deep).status;
    assert_eq!((status.state, status.hash), (TxState::Confirmed, Some(taker.hash)), "it is not paid again");
}

#[test]
fn a_lane_that_nobody_else_had_meanwhile_adopts_as_if_it_had_been_here() {
    let mut world = world(settings());
    let at: BlockRef = world.desk.lane.accounted_at().expect("nothing is unknown");
    world.play(Step::Foreign);
    world.play(Step::Crash);
    world.desk.lane.was_accounted_for(at);
    world.finalise();
    assert_eq!(world.adopted(), [Slot(5)]);
}

/// The first count came from an endpoint that was behind.
#[test]
fn a_slot_that_was_used_before_everything_was_accounted_for_is_not_adopted() {
    let mut world = world(settings());
    world.play(Step::Foreign);
    let head = world.chain.head().at;
    world.play(Step::Crash);
    world.desk.lane.was_accounted_for(head);
    world.finalise();
    assert!(world.adopted().is_empty() && world.holds_for_strangers());
}

#[test]
fn what_does_the_same_as_a_transaction_that_waits_is_never_adopted_and_a_resume_ends_that_as_landed() {
    for (settings, crashes) in [(settings(), false), (settings(), true), (adopting(), true)] {
        let mut world = world(settings);
        world.play(Step::Foreign);
        if crashes {
            world.play(Step::Crash);
        }
        world.show(0, true);
        let options = Options::default();
        let same = world.submit_as(payment_with_gas(1), options.clone());
        let other = world.submit_as(payment_with_gas(2), options.clone());
        world.carry(Kind::Load, Fault::None);
        let taker = like(&payment_with_gas(1));
        world.found(5, &taker);
        for _ in 0..2 {
            world.block();
        }
        world.found(5, &taker);
        world.finalise();
        assert!(world.holds_for_strangers() && world.adopted().is_empty());
        assert_eq!(world.desk.lane.unknown()[0].same_as, Some(same), "the oldest");
        assert!(world.desk.lane.hold().unwrap().sentence().contains(&same.to_string()));
        world.command(CommandKind::Resume);
        world.rest();
        let status = &world.desk.store.tx(same).status;
        assert_eq!((status.state, status.hash), (TxState::Confirmed, Some(taker.hash)));
        assert_eq!(world.told(same, |entry| matches!(entry, Entry::CarriedOut { slot: Slot(5), .. })), 1);
        assert_eq!(world.slot_of(other), Some(6), "it is another payment");
    }
}

#[test]
fn a_resume_waits_until_it_is_known_what_took_the_slots() {
    let mut world = world(settings());
    world.play(Step::Foreign);
    world.loaded_again();
    let id: TxId = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.command(CommandKind::Resume);
    world.carry(Kind::Load, Fault::None);
    assert!(world.desk.store.commands.iter().any(|(_, done)| !done));
    assert!(world.desk.lane.hold().unwrap().sentence().contains("is being looked up"));
    world.rest();
    assert!(world.desk.store.commands.iter().all(|(_, done)| *done));
    assert_eq!(world.slot_of(id), Some(6));
}

/// Whoever resumes a lane is promised that its nonces are compared. Where that cannot be, the person is told, and has to say it again.
#[test]
fn a_resume_goes_over_nonces_that_nobody_can_tell_about_only_when_that_was_said() {
    let mut world = world(settings());
    world.play(Step::Foreign);
    world.loaded_again();
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.command(CommandKind::Resume);
    world.carry(Kind::Load, Fault::None);
    for _ in 0..8 {
        assert_eq!(world.slot_of(id), None);
        world.carry(Kind::Prove, Fault::NotDone);
        world.wait(30_000);
    }
    world.show(0, true);
    while world.started(Kind::Load) {
        world.carry(Kind::Load, Fault::None);
    }
    let done = |world: &World| world.desk.store.commands.iter().all(|(_, done)| *done);
    assert!(done(&world), "the word is not kept for what it did not mean");
    let said = world.desk.lane.hold().unwrap().sentence();
    assert!(
        said.contains("NOTHING is compared") && said.contains("all that still waits is then sent"),
        "{said}"
    );
    assert_eq!(world.slot_of(id), None);
    world.command(CommandKind::Resume);
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    assert!(done(&world));
    assert_eq!(world.slot_of(id), Some(6));
}

/// It was asked about a slot without bytes; by the time of the answer the slot is one of ours.
#[test]
fn an_answer_about_an_unknown_slot_displaces_nothing() {
    let mut world = world(settings());
    world.play(Step::Foreign);
    let block = world.chain.head().at;
    world.show(0, true);
    world.take(Kind::Prove);
    // The stranger's block is gone, and the slot is given to a transaction.
    world.play(Step::Reorg { depth: 1, keep: false, refill: 2 });
    world.show(0, true);
    let id = world.broadcast();
    assert_eq!(world.slot_of(id), Some(5));
    world.turn(vec![LaneEvent::Foreign { slot: Slot(5), block, taker: None }]);
    assert_eq!(world.desk.store.state(id), TxState::Broadcast);
    assert_eq!(world.desk.lane.id(), LANE);
}

/// As in an older copy of the store, which holds a resume that was not done yet.
#[test]
fn a_resume_from_before_the_load_does_not_mean_what_was_used_since() {
    let mut world = world(settings());
    world.play(Step::Foreign);
    world.loaded_again();
    let id = world.submit();
    world.rest();
    assert!(world.holds_for_strangers());
    world.desk.store.command(CommandKind::Resume, world.desk.now);
    world.play(Step::Foreign);
    world.loaded_again();
    world.rest();
    assert!(world.desk.store.commands.iter().all(|(_, done)| *done), "it was heard");
    let unknown: Vec<Slot> = world.desk.lane.unknown().iter().map(|one| one.slot).collect();
    assert_eq!(unknown, [Slot(6)], "nobody has spoken of the other");
    assert!(world.holds_for_strangers() && world.adopted().is_empty() && world.slot_of(id).is_none());
    world.finalise();
    assert!(world.holds_for_strangers(), "nor is it adopted");
    world.command(CommandKind::Resume);
    world.rest();
    assert_eq!(world.slot_of(id), Some(7));
}

/// The process died between the look at the chain and the reading of the word: nobody has said anything in between.
#[test]
fn a_resume_does_not_mean_what_was_used_since_however_often_the_process_dies_before_it_reads_it() {
    let mut world = world(settings());
    world.play(Step::Foreign);
    world.loaded_again();
    let id = world.submit();
    world.rest();
    world.desk.store.command(CommandKind::Resume, world.desk.now);
    world.play(Step::Foreign);
    for _ in 0..3 {
        world.loaded_again();
        assert!(world.holds_for_strangers(), "what was seen is written down");
    }
    world.rest();
    assert!(world.desk.store.commands.iter().all(|(_, done)| *done), "it was heard");
    world.finalise();
    assert!(world.holds_for_strangers() && world.adopted().is_empty() && world.slot_of(id).is_none());
    let unknown: Vec<Slot> = world.desk.lane.unknown().iter().map(|one| one.slot).collect();
    assert_eq!(unknown, [Slot(6)], "nobody has spoken of it");
}

/// The lane has shown the nonce to a person, who speaks of it; then the process dies before it reads that.
#[test]
fn a_resume_that_is_given_once_every_command_was_read_means_what_was_seen_before_also_after_a_crash() {
    let mut world = world(settings());
    world.play(Step::Foreign);
    world.loaded_again();
    let id = world.submit();
    // From here on the lane sees nothing new of the chain.
    while world.started(Kind::Load) {
        world.carry(Kind::Load, Fault::None);
    }
    assert!(world.holds_for_strangers());
    world.desk.store.command(CommandKind::Resume, world.desk.now);
    world.loaded_again();
    world.rest();
    assert_eq!((world.desk.lane.hold(), world.slot_of(id)), (None, Some(6)));
}

/// A copy of the store from before would take what lands there for the stranger's.
#[test]
fn a_slot_that_was_left_to_a_stranger_and_taken_back_gets_a_no_op_and_no_transaction() {
    let mut world = world(settings());
    world.play(Step::Foreign);
    world.loaded_again();
    world.rest();
    world.command(CommandKind::Resume);
    world.rest();
    assert_eq!(world.desk.store.row.cursor, Some(Slot(6)));
    world.chain.reorg(1, false, 2, world.desk.now);
    world.show(0, true);
    world.command(CommandKind::Reset);
    world.rest();
    world.show(0, true);
    let id = world.submit();
    world.rest();
    assert_eq!(world.slot_of(id), Some(6));
    world.calm_down(100);
    assert!(world.attempts(5)[0].no_op);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

/// A queue is read from its front each time.
#[test]
fn a_resume_compares_a_queue_that_is_longer_than_one_reading() {
    let mut world = world(settings());
    world.play(Step::Foreign);
    world.show(0, true);
    for _ in 0..1_200 {
        world.submit();
    }
    world.loaded_again();
    world.command(CommandKind::Resume);
    world.finalise();
    assert!(!world.holds_for_strangers(), "{:?}", world.desk.lane.hold());
}

/// Nobody knows which of them landed, or whether one did: whoever comes later waits as well.
#[test]
fn a_resume_over_a_slot_that_did_what_several_do_remembers_it() {
    let mut world = world(settings());
    super::older::used(&mut world, &payment(7));
    world.show(0, true);
    world.rest();
    let both = [1, 2].map(|_| world.submit_as(payment(7), Options::default()));
    world.command(CommandKind::Resume);
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(world.desk.lane.hold(), None);
    let late = world.submit_as(payment(7), Options::default());
    world.rest();
    for id in both.into_iter().chain([late]) {
        let status = world.desk.store.tx(id).status.clone();
        assert!(status.may_have_landed() && status.slot.is_none(), "{status:?}");
    }
}
