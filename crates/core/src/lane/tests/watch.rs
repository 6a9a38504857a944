use std::sync::Arc;

use super::super::test_world::{Fault, Step};
use super::{Kind, settings, world};
use crate::journal::Entry;
use crate::lane::{Action, Hold, LaneEvent};
use crate::transaction::TxState;

#[test]
fn a_mined_transaction_whose_block_is_gone_is_broadcast_again_with_the_same_bytes() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.block();
    assert_eq!(world.desk.store.state(id), TxState::Mined);
    world.chain.reorg(1, false, 1, world.desk.now);
    world.show(0, true);
    let status = world.desk.store.tx(id).status.clone();
    assert_eq!((status.state, status.receipt), (TxState::Broadcast, None));
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::Reorged { .. })), 1);
    let Action::Send(outgoing) = &world.started[0] else { panic!("{:?}", world.started) };
    assert_eq!(outgoing[0].sealed.hash, world.attempts(5)[0].hash);
    world.calm_down(20);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert_eq!(world.attempts(5).len(), 1);
}

#[test]
fn a_view_that_ends_below_the_block_decides_nothing() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.block();
    world.show(1, true);
    assert_eq!(world.desk.store.state(id), TxState::Mined);
    assert!(world.started.is_empty());
}

#[test]
fn the_receipt_may_belong_to_an_earlier_attempt() {
    let mut world = world(settings());
    let id = world.broadcast();
    let first = world.attempts(5)[0].clone();
    world.cancel(id);
    world.carry(Kind::Prepare, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    world.block();
    let status = &world.desk.store.tx(id).status;
    assert_eq!((status.state, status.hash), (TxState::Mined, Some(first.hash)));
}

#[test]
fn a_slot_that_the_count_has_passed_is_looked_up_and_found() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.chain.mine(1, true, world.desk.now);
    world.show(0, false);
    assert_eq!(world.desk.store.state(id), TxState::Broadcast);
    world.carry(Kind::Look, Fault::None);
    assert_eq!(world.desk.store.state(id), TxState::Mined);
}

#[test]
fn three_looks_without_a_receipt_show_it_as_displaced_and_a_receipt_takes_that_back() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.chain.mine(1, true, world.desk.now);
    world.show(0, false);
    for displaced in [false, false, true] {
        world.carry(Kind::Look, Fault::NotDone);
        assert_eq!(world.desk.store.tx(id).status.displaced, displaced);
        assert!(!world.desk.store.state(id).is_terminal());
        world.wait(15_000);
    }
    world.carry(Kind::Look, Fault::None);
    let status = &world.desk.store.tx(id).status;
    assert_eq!((status.state, status.displaced), (TxState::Mined, false));
}

/// Blocks come and go while the lane is not there.
#[test]
fn a_winner_whose_block_was_reorged_during_a_downtime_is_not_confirmed() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.block();
    world.chain.reorg(1, false, 0, world.desk.now);
    for _ in 0..20 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.play(Step::Crash);
    world.show(0, true);
    assert_eq!(world.desk.store.state(id), TxState::Broadcast);
    world.calm_down(20);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert!(world.chain.winner(crate::Slot(5)).is_some());
}

#[test]
fn a_winner_that_still_stands_after_a_downtime_is_looked_up_and_no_reorg_is_reported() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.block();
    world.play(Step::Crash);
    for _ in 0..20 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.show(0, true);
    assert_eq!(world.desk.store.state(id), TxState::Mined);
    world.carry(Kind::Look, Fault::None);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::Reorged { .. })), 0);
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::Mined { .. })), 1);
}

#[test]
fn a_look_that_was_answered_before_a_reorg_and_arrives_after_it_is_looked_up_again() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.chain.mine(1, true, world.desk.now);
    world.show(0, false);
    let look = world.take(Kind::Look);
    let early = world.act(look, &Fault::None);
    world.chain.reorg(1, false, 0, world.desk.now);
    for _ in 0..20 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.show(0, false);
    world.turn(vec![early]);
    assert_eq!(world.desk.store.state(id), TxState::Broadcast);
}

#[test]
fn another_chain_stops_everything_and_decides_nothing() {
    let mut world = world(settings());
    let mined = world.broadcast();
    world.block();
    let out = world.broadcast();
    let waiting = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.play(Step::ShowOther);
    assert_eq!(world.desk.lane.hold(), Some(Hold::ChainChanged));
    world.started.clear();
    world.wait(600_000);
    assert!(world.started.is_empty(), "{:?}", world.started);
    assert_eq!(world.desk.store.state(mined), TxState::Mined);
    assert_eq!(world.desk.store.state(out), TxState::Broadcast);
    assert_eq!(world.desk.store.state(waiting), TxState::Accepted);
    let held = |entry: &crate::journal::NewEntry| matches!(entry.entry, Entry::LaneHeld { .. });
    assert_eq!(world.desk.store.journal.iter().filter(|entry| held(entry)).count(), 1);
}

#[test]
fn the_first_count_ever_seen_is_where_the_lane_begins() {
    let mut world = super::World::new(settings(), 2);
    assert_eq!(world.desk.lane.hold(), Some(Hold::NoView));
    let view = Arc::new(world.chain.view(0));
    world.turn(vec![LaneEvent::Chain { view, receipts: Vec::new() }]);
    assert_eq!(world.desk.lane.row.cursor.map(|cursor| cursor.0), Some(5));
    world.rest();
    assert_eq!(world.desk.lane.hold(), None);
}

#[test]
fn another_chains_count_is_not_where_a_lane_begins() {
    let mut world = super::World::new(settings(), 2);
    world.play(Step::ShowOther);
    assert_eq!((world.desk.lane.row.cursor, world.desk.lane.row.chain_count), (None, None));
    world.show(0, true);
    assert_eq!(world.desk.lane.row.cursor.map(|cursor| cursor.0), Some(5));
}

// covers: H8, O15
#[test]
fn receipts_are_matched_by_hash_in_whatever_order_they_come_and_slots_end_in_theirs() {
    let mut world = world(settings());
    let ids: Vec<_> = (0..3).map(|_| world.broadcast()).collect();
    for success in [true, false, true] {
        world.chain.mine(1, success, world.desk.now);
    }
    for _ in 0..2 {
        world.chain.mine(0, true, world.desk.now);
    }
    let open: Vec<_> = world.desk.lane.open_hashes().collect();
    let mut receipts = world.chain.receipts(&open);
    receipts.reverse();
    assert_eq!(receipts.len(), 3);
    let view = Arc::new(world.chain.view(0));
    world.turn(vec![LaneEvent::Chain { view, receipts }]);
    let states: Vec<_> = ids.iter().map(|id| world.desk.store.state(*id)).collect();
    assert_eq!(states, [TxState::Confirmed, TxState::Reverted, TxState::Confirmed]);
    let ended = |entry: &Entry| matches!(entry, Entry::Confirmed { .. } | Entry::Reverted { .. });
    let journal = world.desk.store.journal.iter();
    let order: Vec<_> = journal.filter(|told| ended(&told.entry)).filter_map(|told| told.tx).collect();
    assert_eq!(order, ids);
}

#[test]
fn a_final_slot_that_the_chain_takes_back_holds_the_lane_and_is_written_down() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.finalise();
    assert_eq!(world.desk.store.tx(id).status.state, TxState::Confirmed);
    // A reorganisation deeper than finality: the account's count is what it was before.
    let mut view = world.chain.view(0);
    view.accounts.get_mut(&world.desk.lane.id().signer).unwrap().count = crate::Slot(5);
    world.desk.lane.apply(
        vec![crate::lane::LaneEvent::Chain { view: std::sync::Arc::new(view), receipts: Vec::new() }],
        world.desk.now,
    );
    let hold = world.desk.lane.hold();
    assert_eq!(hold, Some(crate::lane::Hold::FinalReplaced { slot: crate::Slot(5) }));
    assert!(hold.unwrap().sentence().contains("nonce 5 back after it was settled"));
    let commit = world.desk.lane.take_commit(world.desk.now).unwrap();
    let held = |entry: &crate::journal::NewEntry| matches!(entry.entry, Entry::LaneHeld { .. });
    assert!(commit.journal.iter().any(held), "it is written down: {:?}", commit.journal);
}

impl super::World {
    /// The look that is under way reaches nobody.
    fn look_fails(&mut self) {
        let Action::Look(wanted) = self.take(Kind::Look) else { unreachable!() };
        let slots = wanted.into_iter().map(|(slot, _)| slot).collect();
        self.turn(vec![LaneEvent::LookFailed { slots }]);
    }
}

#[test]
fn a_look_that_reached_nobody_is_no_look_however_often_it_fails() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.chain.mine(1, true, world.desk.now);
    world.show(0, false);
    for _ in 0..20 {
        world.look_fails();
        assert!(!world.started(Kind::Look), "it is not asked for again at once");
        world.wait(5_000);
    }
    assert!(!world.desk.store.tx(id).status.displaced);
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::Displaced { .. })), 0);
    assert!(!world.started(Kind::Prove), "nothing is to be proven: nobody said that there is no receipt");
    // One look that reached somebody is one look, and not the twenty-first.
    world.carry(Kind::Look, Fault::NotDone);
    assert!(!world.desk.store.tx(id).status.displaced);
    world.wait(5_000);
    world.carry(Kind::Look, Fault::None);
    assert_eq!(world.desk.store.state(id), TxState::Mined);
}

#[test]
fn after_an_operators_word_a_final_slot_that_was_taken_back_is_filled_and_the_lane_goes_on() {
    let mut world = world(settings());
    let lost = world.broadcast();
    world.finalise();
    // Deeper than finality: the account's transaction is gone, and its slot is the next one again.
    world.chain.reorg_past_finality(3, 4, world.desk.now);
    world.show(0, true);
    assert_eq!(world.desk.lane.hold(), Some(Hold::FinalReplaced { slot: crate::Slot(5) }));
    let waiting = world.submit();
    world.rest();
    assert_eq!(world.slot_of(waiting), None, "nothing goes on before somebody has looked");
    world.play(Step::Crash);
    world.show(0, true);
    world.rest();
    assert_eq!(
        world.desk.lane.hold(),
        Some(Hold::FinalReplaced { slot: crate::Slot(5) }),
        "a restart does not forget"
    );
    world.command(crate::ports::store::CommandKind::Resume);
    world.rest();
    assert_eq!(world.desk.lane.hold(), None);
    let resumed = |entry: &crate::journal::NewEntry| matches!(&entry.entry, Entry::LaneResumed { text } if text.contains("nonce 5"));
    assert_eq!(world.desk.store.journal.iter().filter(|entry| resumed(entry)).count(), 1);
    for _ in 0..40 {
        world.wait(5_000);
        world.rest();
        world.block();
        world.rest();
    }
    // What was final stays as it ended: the slot is closed by a no-op of nobody's, and the next one lands above it.
    assert_eq!(world.desk.store.state(lost), TxState::Confirmed);
    assert_eq!((world.desk.store.state(waiting), world.slot_of(waiting)), (TxState::Confirmed, Some(6)));
    let (_, filler) = world.chain.winner(crate::Slot(5)).expect("the slot is used");
    assert!(filler.draft.as_ref().is_some_and(|draft| draft.no_op), "{filler:?}");
}
