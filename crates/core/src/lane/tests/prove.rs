//! E11: nothing that is missing ends a transaction, and what is proven does so once.

use std::sync::Arc;

use super::super::test_world::{Fault, Step, World, payment, payment_with_gas};
use super::{Kind, remote, settings, world};
use crate::journal::{Entry, replay};
use crate::lane::{Action, LaneEvent, Proof};
use crate::outcome::SendOutcome;
use crate::ports::chain::Taker;
use crate::ports::signer;
use crate::request::{Authorization, Finality, OnDisplaced, Options, Payload, SignedAuthorization};
use crate::settings::LaneSettings;
use crate::transaction::{ReasonCode, TxState};
use crate::view::BlockRef;
use crate::{Account, Millis, Slot, TxHash, TxId};

pub(super) fn wishing(on_displaced: OnDisplaced) -> Options {
    Options { on_displaced: Some(on_displaced), ..Options::default() }
}

/// A transaction that the pool had, until a stranger took its slot 5, for good.
fn taken_in(mut world: World, options: Options) -> (World, TxId) {
    let id = world.submit_as(payment_with_gas(1), options);
    world.rest();
    world.stranger();
    (world, id)
}

pub(super) fn taken(options: Options) -> (World, TxId) {
    taken_in(world(settings()), options)
}

impl World {
    /// A stranger takes the next slot, and two blocks come on top.
    fn stranger(&mut self) {
        self.play(Step::Foreign);
        for _ in 0..2 {
            self.chain.mine(0, true, self.desk.now);
        }
        self.show(0, true);
    }

    pub(super) fn look_in_vain(&mut self, times: usize) {
        for _ in 0..times {
            self.wait(15_000);
            self.carry(Kind::Look, Fault::NotDone);
        }
    }

    fn proof(&mut self) -> Proof {
        match self.take(Kind::Prove) {
            Action::Prove(proof) => proof,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn winner_block(&self, slot: u64) -> BlockRef {
        self.chain.winner(Slot(slot)).expect("the slot was used").0.at
    }

    /// Looks in vain until a proof is asked for, and answers that this took the slot.
    pub(super) fn proven(&mut self, slot: u64, taker: Option<Taker>) {
        self.look_in_vain(3);
        assert_eq!(self.proof().slot, Slot(slot));
        let block = self.winner_block(slot);
        self.turn(vec![LaneEvent::Foreign { slot: Slot(slot), block, taker }]);
    }
}

/// A transaction that does the same as this payload.
pub(super) fn like(payload: &Payload) -> Taker {
    Taker {
        hash: TxHash(alloy_primitives::B256::repeat_byte(0x77)),
        to: payload.to,
        value: payload.value,
        data: payload.data.clone(),
        authorizations: Vec::new(),
        receipt: None,
    }
}

#[test]
fn a_proof_is_asked_for_after_three_looks_without_a_receipt_and_not_before() {
    let (mut world, id) = taken(wishing(OnDisplaced::Requeue));
    for _ in 0..3 {
        assert!(!world.started(Kind::Prove), "{:?}", world.started);
        world.look_in_vain(1);
    }
    assert!(world.desk.store.tx(id).status.displaced);
    let proof = world.proof();
    let ours: Vec<TxHash> = world.attempts(5).iter().map(|attempt| attempt.hash).collect();
    assert_eq!((proof.slot, proof.ours), (Slot(5), ours));
    assert_eq!(proof.up_to, world.chain.head().at.number - 2, "the newest final block");
}

#[test]
fn a_proof_names_every_attempt_of_the_slot() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.cancel(id);
    world.rest();
    world.stranger();
    world.look_in_vain(3);
    assert_eq!(world.attempts(5).len(), 2);
    assert_eq!(world.proof().ours, world.attempts(5).iter().map(|a| a.hash).collect::<Vec<_>>());
}

#[test]
fn a_slot_that_the_count_has_not_passed_is_not_proven() {
    let mut world = world(settings());
    let (_, above) = (world.broadcast(), world.broadcast());
    world.stranger();
    world.look_in_vain(5);
    assert_eq!(world.proof().slot, Slot(5));
    assert!(!world.started(Kind::Prove), "slot 6 is still to land: {:?}", world.started);
    assert!(!world.desk.store.tx(above).status.displaced);
}

#[test]
fn a_proof_is_not_asked_for_again_while_one_is_under_way() {
    let (mut world, _) = taken(wishing(OnDisplaced::Requeue));
    world.look_in_vain(3);
    world.proof();
    world.look_in_vain(3);
    world.block();
    world.wait(600_000);
    assert!(!world.started(Kind::Prove), "{:?}", world.started);
}

#[test]
fn what_is_not_proven_is_asked_for_again_later_and_less_often_and_nothing_ends() {
    let (mut world, id) = taken(wishing(OnDisplaced::Fail));
    world.look_in_vain(3);
    for after in [2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
        world.carry(Kind::Prove, Fault::NotDone);
        assert!(!world.started(Kind::Prove), "not at once");
        assert!(world.desk.wake_at.is_some_and(|at| at.0 <= world.desk.now.0 + after), "it wakes for it");
        world.wait(after - 1);
        assert!(!world.started(Kind::Prove), "not before {after} ms");
        world.wait(1);
        assert!(world.started(Kind::Prove), "after {after} ms");
    }
    assert!(!world.desk.store.state(id).is_terminal());
    world.carry(Kind::Prove, Fault::None);
    assert_eq!(world.desk.store.state(id), TxState::Failed);
}

#[test]
fn one_that_could_not_be_proven_yet_says_so() {
    let (mut world, id) = taken(wishing(OnDisplaced::Fail));
    world.look_in_vain(3);
    world.carry(Kind::Prove, Fault::NotDone);
    let said = world.desk.lane.explain(id, world.desk.now).expect("it is still here");
    assert!(
        said.ends_with("no final block could be read yet that shows who took it, tried 1 times"),
        "{said}"
    );
}

#[test]
fn a_proof_by_a_block_of_another_chain_than_the_lane_sees_proves_nothing() {
    let (mut world, id) = taken(wishing(OnDisplaced::Fail));
    world.look_in_vain(3);
    let slot = world.proof().slot;
    let block = world.winner_block(5);
    let elsewhere = BlockRef { hash: alloy_primitives::B256::repeat_byte(0x99), ..block };
    world.turn(vec![LaneEvent::Foreign { slot, block: elsewhere, taker: None }]);
    assert!(!world.desk.store.state(id).is_terminal());
    world.play(Step::ShowOther);
    world.turn(vec![LaneEvent::Foreign { slot, block, taker: None }]);
    assert!(!world.desk.store.state(id).is_terminal(), "the endpoints show another chain");
    world.show(0, true);
    world.wait(30_000);
    world.carry(Kind::Prove, Fault::None);
    assert_eq!(world.desk.store.state(id), TxState::Failed);
}

#[test]
fn a_proof_needs_the_finality_of_the_lane_and_that_of_the_caller() {
    for (asked, depth) in [(Finality::Blocks(4), 4), (Finality::Blocks(0), 2)] {
        let options = Options { finality: Some(asked), ..wishing(OnDisplaced::Requeue) };
        let (mut world, _) = taken(options);
        world.block();
        world.look_in_vain(3);
        assert_eq!(world.proof().up_to, world.chain.head().at.number - depth);
    }
    let options = Options { finality: Some(Finality::Finalized), ..wishing(OnDisplaced::Requeue) };
    let (mut world, _) = taken(options);
    world.look_in_vain(3);
    assert!(!world.started(Kind::Prove), "the chain shows no such block");
}

#[test]
fn a_proof_that_was_lost_in_a_crash_is_asked_for_again() {
    let (mut world, id) = taken(wishing(OnDisplaced::Fail));
    world.look_in_vain(3);
    world.proof();
    world.play(Step::Crash);
    world.show(0, true);
    world.look_in_vain(3);
    world.carry(Kind::Prove, Fault::None);
    assert_eq!(world.desk.store.state(id), TxState::Failed);
}

#[test]
fn a_foreign_slot_sends_the_transaction_back_in_its_old_order_and_it_lands_once() {
    let (mut world, id) = taken(wishing(OnDisplaced::Requeue));
    world.play(Step::Pause);
    world.rest();
    let later = world.submit();
    world.rest();
    world.proven(5, None);
    let status = &world.desk.store.tx(id).status;
    assert_eq!((status.state, status.slot, status.displaced), (TxState::Accepted, None, false));
    assert_eq!((status.hash, &status.receipt), (None, &None));
    world.play(Step::Resume);
    world.rest();
    assert_eq!((world.slot_of(id), world.slot_of(later)), (Some(6), Some(7)));
    world.calm_down(20);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::Requeued { slot: Slot(5), .. })), 1);
}

#[test]
fn a_foreign_slot_fails_the_transaction_if_the_caller_said_so() {
    let lane = world(LaneSettings { on_displaced: OnDisplaced::Requeue, ..settings() });
    let (mut world, id) = taken_in(lane, wishing(OnDisplaced::Fail));
    world.proven(5, None);
    let number = world.winner_block(5).number;
    let status = &world.desk.store.tx(id).status;
    let reason = status.reason.clone().expect("a failure has a reason");
    assert_eq!(
        (status.state, status.displaced, reason.code),
        (TxState::Failed, false, ReasonCode::Displaced)
    );
    assert_eq!(reason.text, format!("nonce 5 was taken by another transaction in block {number}"));
    world.rest();
    assert!(world.desk.lane.is_idle());
}

#[test]
fn what_becomes_of_one_whose_caller_did_not_say_is_the_lanes_to_decide() {
    for (wish, state) in [(OnDisplaced::Requeue, TxState::Accepted), (OnDisplaced::Fail, TxState::Failed)] {
        let lane = world(LaneSettings { on_displaced: wish, ..settings() });
        let (mut world, id) = taken_in(lane, Options::default());
        world.proven(5, None);
        assert_eq!(world.desk.store.state(id), state);
    }
}

#[test]
fn a_taker_that_does_something_else_is_foreign() {
    let same = like(&payment_with_gas(1));
    let others =
        [like(&payment(2)), Taker { to: None, ..same.clone() }, Taker { data: vec![1].into(), ..same }];
    for other in others {
        let (mut world, id) = taken(wishing(OnDisplaced::Fail));
        world.proven(5, Some(other));
        assert_eq!(world.desk.store.state(id), TxState::Failed);
    }
}

#[test]
fn one_that_is_being_cancelled_ends_as_cancelled_whatever_its_caller_wished_before() {
    let (mut world, id) = taken(wishing(OnDisplaced::Requeue));
    world.cancel(id);
    world.proven(5, None);
    let status = &world.desk.store.tx(id).status;
    let code = status.reason.as_ref().map(|reason| reason.code);
    assert_eq!((status.state, code), (TxState::Cancelled, Some(ReasonCode::CancelledByCaller)));
    world.calm_down(20);
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::Requeued { .. })), 0);
}

#[test]
fn one_whose_deadline_has_passed_ends_as_expired_and_is_not_queued_again() {
    let lane = world(settings());
    let deadline = Some(Millis(lane.desk.now.0 + 1_000));
    let (mut world, id) = taken_in(lane, Options { deadline, ..wishing(OnDisplaced::Requeue) });
    world.desk.pass(2_000);
    world.block();
    world.proven(5, None);
    assert_eq!(world.desk.store.state(id), TxState::Expired);
}

#[test]
fn one_that_a_node_has_refused_for_good_ends_as_failed_for_that_reason() {
    let mut world = world(settings());
    let id = world.submit_as(payment_with_gas(1), wishing(OnDisplaced::Requeue));
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    world.say(SendOutcome::Invalid);
    world.rest();
    world.stranger();
    world.proven(5, None);
    let status = &world.desk.store.tx(id).status;
    let code = status.reason.as_ref().map(|reason| reason.code);
    assert_eq!((status.state, code), (TxState::Failed, Some(ReasonCode::Invalid)));
}

#[test]
fn a_taker_that_does_the_same_is_not_foreign_and_the_transaction_is_never_sent_again() {
    for wish in [OnDisplaced::Requeue, OnDisplaced::Fail] {
        let (mut world, id) = taken(wishing(wish));
        let taker = like(&payment_with_gas(1));
        world.proven(5, Some(taker.clone()));
        let said = world.desk.lane.explain(id, world.desk.now).expect("it is still here");
        assert!(said.contains(&taker.hash.to_string()) && said.contains("say whose it was"), "{said}");
        world.look_in_vain(5);
        world.wait(600_000);
        for kind in [Kind::Send, Kind::Sign, Kind::Prove] {
            assert!(!world.started(kind), "{:?}", world.started);
        }
        let status = &world.desk.store.tx(id).status;
        assert_eq!((status.state, status.slot, status.displaced), (TxState::Broadcast, Some(Slot(5)), true));
    }
}

#[test]
fn a_cancelled_one_whose_slot_went_to_the_same_content_stays_open_for_a_person() {
    let (mut world, id) = taken(wishing(OnDisplaced::Requeue));
    world.cancel(id);
    world.proven(5, Some(like(&payment_with_gas(1))));
    assert!(!world.desk.store.state(id).is_terminal(), "it may well have been done");
}

#[test]
fn a_receipt_of_ours_that_comes_before_the_proof_wins_over_it() {
    let mut world = world(settings());
    let id = world.submit_as(payment_with_gas(1), wishing(OnDisplaced::Requeue));
    world.rest();
    world.chain.mine(1, true, world.desk.now);
    for _ in 0..2 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.show(0, false);
    world.look_in_vain(3);
    let proof = world.proof();
    world.wait(15_000);
    let look = world.take(Kind::Look);
    let found = world.act(look, &Fault::None);
    let block = world.winner_block(5);
    world.turn(vec![found, LaneEvent::Foreign { slot: proof.slot, block, taker: None }]);
    world.rest();
    let status = &world.desk.store.tx(id).status;
    assert_eq!((status.state, status.displaced), (TxState::Confirmed, false));
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::Requeued { .. })), 0);
}

#[test]
fn a_no_op_of_nobodys_whose_slot_went_to_a_stranger_just_closes() {
    let mut world = world(remote());
    // The first gives its slot back; the second holds the one above.
    let first = world.submit();
    world.carry(Kind::Load, Fault::None);
    let above = world.submit();
    world.carry(Kind::Load, Fault::None);
    let refused = world.drafts().into_iter().map(|d| (d, Err(signer::Error::Refused("no".into())))).collect();
    world.turn(vec![LaneEvent::Signed(refused)]);
    assert_eq!(world.desk.store.state(first), TxState::Failed);
    world.rest();
    assert!(world.attempts(5)[0].no_op && world.attempts(5)[0].tx.is_none());
    world.stranger();
    world.proven(5, Some(like(&payment(9))));
    assert!(world.desk.store.closed.contains(&Slot(5)));
    world.calm_down(20);
    assert_eq!(world.desk.store.state(above), TxState::Confirmed);
}

#[test]
fn a_chain_without_the_tag_that_finality_is_judged_by_is_asked_for_no_proof() {
    for finality in [Finality::Finalized, Finality::Safe] {
        let lane = world(LaneSettings { finality, ..settings() });
        let (mut world, id) = taken_in(lane, wishing(OnDisplaced::Fail));
        world.look_in_vain(5);
        assert!(!world.started(Kind::Prove), "{:?}", world.started);
        assert!(world.desk.store.tx(id).status.displaced, "until decided it shows as displaced");

        let mut view = world.chain.view(0);
        let tag = Some(view.head.at.number - 1);
        (view.safe, view.finalized) = if finality == Finality::Safe { (tag, None) } else { (None, tag) };
        world.turn(vec![LaneEvent::Chain { view: Arc::new(view), receipts: Vec::new() }]);
        let watched = world.chain.head().at.number - 2;
        let wanted = if finality == Finality::Safe { Some(watched) } else { tag };
        assert_eq!(Some(world.proof().up_to), wanted, "what is only safe may still be taken back");
    }
}

#[test]
fn a_proof_needs_the_depth_at_which_slots_are_watched_where_the_chain_calls_nothing_final() {
    let deeper = LaneSettings { watch_depth: 6, ..settings() };
    let (mut world, id) = taken_in(world(deeper), wishing(OnDisplaced::Requeue));
    for _ in 0..4 {
        world.block();
    }
    world.look_in_vain(3);
    assert_eq!(world.proof().up_to, world.chain.head().at.number - 6);
    let block = world.winner_block(5);
    assert_eq!(block.number, world.chain.head().at.number - 6);
    world.turn(vec![LaneEvent::Foreign { slot: Slot(5), block, taker: None }]);
    assert_eq!(world.desk.store.state(id), TxState::Accepted);
    assert!(world.desk.store.closed.contains(&Slot(5)), "nothing watches what can never land");
}

#[test]
fn a_proof_by_a_block_that_is_not_deep_enough_by_now_proves_nothing() {
    let deeper = LaneSettings { watch_depth: 6, ..settings() };
    let (mut world, id) = taken_in(world(deeper), wishing(OnDisplaced::Requeue));
    world.look_in_vain(3);
    let block = world.winner_block(5);
    world.turn(vec![LaneEvent::Foreign { slot: Slot(5), block, taker: None }]);
    assert_eq!(world.slot_of(id), Some(5), "two blocks on top are not six");
}

#[test]
fn the_journal_of_a_requeued_one_tells_the_whole_story() {
    let (mut world, id) = taken(wishing(OnDisplaced::Requeue));
    world.proven(5, None);
    let told = |world: &World| replay(world.desk.store.journal_of(id)).expect("it was accepted");
    let back = told(&world);
    assert_eq!((back.state, back.slot, back.displaced), (TxState::Accepted, None, false));
    world.calm_down(20);
    let done = told(&world);
    assert_eq!((done.state, done.slot, done.displaced), (TxState::Confirmed, Some(Slot(6)), false));
    let kinds: Vec<_> = world
        .desk
        .store
        .journal_of(id)
        .map(|entry| serde_json::to_value(entry).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds,
        [
            "accepted",
            "signed",
            "broadcast",
            "displaced",
            "requeued",
            "signed",
            "broadcast",
            "mined",
            "confirmed"
        ]
    );
}

/// A call that is like a delegation in all else did something else.
#[test]
fn a_slot_of_a_delegation_is_taken_alike_only_by_the_same_delegation() {
    let code = Account(alloy_primitives::Address::with_last_byte(0xc0));
    let by = |r: u8| {
        let r = alloy_primitives::U256::from(r);
        let signed = Some(SignedAuthorization { count: Slot(6), r, s: r, y_parity: true });
        vec![Authorization { chain: None, address: code, signed }]
    };
    for (authorizations, is_alike) in [(Vec::new(), false), (by(2), false), (by(1), true)] {
        let mut delegation = payment_with_gas(1);
        delegation.authorization_list = by(1);
        let mut world = world(settings());
        let id = world.submit_as(delegation.clone(), wishing(OnDisplaced::Requeue));
        world.rest();
        world.stranger();
        world.proven(5, Some(Taker { authorizations, ..like(&delegation) }));
        assert_eq!(world.desk.store.tx(id).status.taken.is_some(), is_alike);
    }
}

/// As much, with the same data: all that differs is who was paid.
#[test]
fn one_whose_nonce_paid_another_recipient_as_much_is_sent_with_the_next_and_nobody_is_asked() {
    let (mut world, id) = taken(wishing(OnDisplaced::Requeue));
    let other = Some(Account(alloy_primitives::Address::repeat_byte(0xdd)));
    world.proven(5, Some(Taker { to: other, ..like(&payment_with_gas(1)) }));
    assert!(world.desk.store.tx(id).status.taken.is_none());
    world.rest();
    world.finalise();
    let status = &world.desk.store.tx(id).status;
    assert_eq!((status.state, status.slot), (TxState::Confirmed, Some(Slot(6))));
}
