//! An authorization that went out is public: whoever has seen it may use the slot after its transaction's.

use super::super::test_world::{Fault, Step, payment_with_gas};
use super::super::{Action, Hold, LaneEvent};
use super::{Kind, World, remote, settings, world};
use crate::journal::Entry;
use crate::ports::signer;
use crate::request::{Finality, Options};
use crate::settings::LaneSettings;
use crate::transaction::{Terms, TxState};
use crate::{Price, Slot, TxId};
use std::sync::Arc;

impl World {
    /// Attempts that are being sent now, by slot.
    fn sent_slots(&self) -> Vec<u64> {
        let sent = self.started.iter().filter_map(|action| match action {
            Action::Send(all) => Some(all.iter().map(|one| one.slot.0)),
            _ => None,
        });
        sent.flatten().collect()
    }

    /// A delegation that the pool has.
    fn delegated_out(&mut self) -> TxId {
        let id = self.delegate();
        self.rest();
        assert_eq!(self.slot_of(id), Some(5));
        id
    }

    /// Until something is to be signed.
    fn until_signing(&mut self) {
        while !self.started(Kind::Sign) {
            let kind = if self.started(Kind::Load) { Kind::Load } else { Kind::Prepare };
            self.carry(kind, Fault::None);
        }
    }

    fn used_by_others(&self) -> Vec<String> {
        let all = self.desk.store.journal.iter();
        let texts = all.filter_map(|new| match &new.entry {
            Entry::LaneAdopted { text, .. } => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    }

    fn ended_as(&self, id: TxId) -> String {
        self.desk.store.tx(id).status.reason.as_ref().map_or(String::new(), |reason| reason.text.clone())
    }

    fn sentence_of(&self, id: TxId) -> String {
        self.desk.lane.explain(id, self.desk.now).unwrap_or_default()
    }

    /// One block with so many of the pool's, shown to the lane.
    fn block_of(&mut self, most: usize) {
        self.chain.mine(most, true, self.desk.now);
        self.show(0, true);
    }
}

type Ends = fn(&mut World, TxId);

fn cancelled(world: &mut World, id: TxId) {
    world.cancel(id);
}

fn unlisted(world: &mut World, _: TxId) {
    world.unlist();
}

fn replaced(world: &mut World, id: TxId) {
    world.replace(id, 9);
}

/// Whatever takes the place of a delegation that is out.
const WAYS: [(Ends, TxState); 3] =
    [(cancelled, TxState::Cancelled), (unlisted, TxState::Failed), (replaced, TxState::Confirmed)];

#[test]
fn what_takes_the_place_of_a_delegation_goes_out_with_a_no_op_for_the_slot_after_it() {
    for (end, state) in WAYS {
        for settings in [settings(), remote()] {
            let mut world = world(settings);
            let id = world.delegated_out();
            let next = world.submit();
            world.rest();
            end(&mut world, id);
            world.until_signing();
            world.carry(Kind::Sign, Fault::None);
            assert_eq!(world.sent_slots(), [5, 6], "both go out together");
            assert!(matches!(world.attempts(6).as_slice(), [only] if only.no_op && only.tx.is_none()));
            world.rest();
            world.block();
            world.rest();
            assert_eq!(world.chain.count(), Slot(7), "nobody can use the authorization any more");
            assert_eq!(world.slot_of(next), None, "until that is final the delegation may still win");
            world.finalise();
            assert_eq!(world.desk.store.state(id), state);
            assert_eq!(world.slot_of(next), Some(7));
            world.finalise();
            assert_eq!(world.desk.store.state(next), TxState::Confirmed);
            assert_eq!(world.used_by_others(), Vec::<String>::new());
        }
    }
}

#[test]
fn it_does_not_end_before_the_slot_after_it_is_used_for_good() {
    for (end, state) in WAYS {
        let mut world = world(settings());
        let id = world.delegated_out();
        end(&mut world, id);
        world.rest();
        for _ in 0..4 {
            world.block_of(usize::from(world.chain.count() == Slot(5)));
            world.rest();
        }
        assert_eq!(world.chain.count(), Slot(6));
        assert_eq!(world.desk.store.state(id), TxState::Mined);
        let said = world.sentence_of(id);
        assert!(
            said.contains("nonce 6, which its authorization could use") && said.contains("is out"),
            "{said}"
        );
        // Also not by a process that knows only what was stored.
        world.started.clear();
        world.desk.crash();
        world.show(0, true);
        world.rest();
        assert_eq!(world.desk.store.state(id), TxState::Mined);
        world.block();
        world.rest();
        assert!(world.sentence_of(id).contains("a no-op took it in block"), "{}", world.sentence_of(id));
        assert_eq!(world.desk.store.state(id), TxState::Mined);
        world.finalise();
        assert_eq!(world.desk.store.state(id), state);
    }
}

#[test]
fn a_delegation_that_wins_all_the_same_uses_the_slot_and_is_no_strangers_doing() {
    for (end, _) in WAYS {
        let mut world = world(settings());
        let id = world.delegated_out();
        let hash = world.attempts(5)[0].hash;
        end(&mut world, id);
        world.rest();
        assert_eq!(world.attempts(6).len(), 1);
        world.chain.pool.insert(Slot(5), hash);
        world.chain.delegated = true;
        world.block();
        assert_eq!(world.chain.count(), Slot(7));
        for _ in 0..5 {
            world.wait(15_000);
            world.rest();
        }
        world.finalise();
        assert_eq!(world.desk.store.state(id), TxState::Confirmed);
        assert_eq!(world.desk.store.tx(id).status.won.as_ref().map(|won| won.hash), Some(hash));
        assert_eq!(world.used_by_others(), Vec::<String>::new());
        assert_eq!((world.desk.lane.hold(), world.desk.lane.is_idle()), (None, true));
        let next = world.broadcast();
        assert_eq!(world.slot_of(next), Some(7));
    }
}

/// Its caller waits for longer than the lane does, so that the proof about the second slot comes first.
#[test]
fn a_proof_that_no_no_op_took_the_slot_says_nothing_where_the_delegation_won() {
    let mut world = world(settings());
    let wish = Options { finality: Some(Finality::Blocks(8)), ..Options::default() };
    let id = world.submit_as(super::delegate::delegating(), wish);
    world.rest();
    let hash = world.attempts(5)[0].hash;
    world.cancel(id);
    world.rest();
    world.chain.pool.insert(Slot(5), hash);
    world.chain.delegated = true;
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Mined);
    let block = world.winner_block(5);
    world.turn(vec![LaneEvent::Foreign { slot: Slot(6), block, taker: None }]);
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert_eq!(world.used_by_others(), Vec::<String>::new());
}

#[test]
fn a_stranger_who_uses_the_authorization_first_is_told_of() {
    for (end, state) in WAYS {
        let mut world = world(settings());
        let id = world.delegated_out();
        end(&mut world, id);
        world.rest();
        world.block_of(1);
        world.rest();
        world.chain.mine_foreign(world.desk.now);
        world.chain.delegated = true;
        world.show(0, true);
        for _ in 0..3 {
            world.wait(15_000);
            world.rest();
        }
        let said = world.sentence_of(id);
        assert!(said.contains("the account is delegated now"), "{said}");
        assert_eq!(world.used_by_others(), Vec::<String>::new(), "the chain may still take it back");
        for _ in 0..3 {
            world.block();
            world.rest();
            world.wait(15_000);
            world.rest();
        }
        assert_eq!(world.desk.store.state(id), state);
        let told = world.used_by_others();
        assert!(matches!(told.as_slice(), [only] if only.contains("IS delegated now")), "{told:?}");
        let ends_by_no_op = state != TxState::Confirmed;
        assert_eq!(world.ended_as(id).contains("IS delegated now"), ends_by_no_op, "{}", world.ended_as(id));
        let next = world.broadcast();
        assert_eq!(world.slot_of(next), Some(7));
    }
}

/// The signer gave the no-op of the first slot and not of the second.
#[test]
fn a_slot_that_is_used_before_its_no_op_was_signed_is_looked_up_and_told_of() {
    let mut world = world(settings());
    let id = world.delegated_out();
    world.cancel(id);
    world.until_signing();
    let Action::Sign(drafts) = world.take(Kind::Sign) else { panic!("drafts") };
    assert_eq!(drafts.iter().map(|draft| draft.slot.0).collect::<Vec<_>>(), [5, 6]);
    let LaneEvent::Signed(mut results) = world.act(Action::Sign(drafts), &Fault::None) else {
        panic!("signatures")
    };
    results[1].1 = Err(signer::Error::Unavailable("no answer".into()));
    world.turn(vec![LaneEvent::Signed(results)]);
    world.carry(Kind::Send, Fault::None);
    world.block_of(1);
    world.chain.mine_foreign(world.desk.now);
    world.chain.delegated = true;
    world.show(0, true);
    world.rest();
    assert!(
        matches!(world.desk.lane.hold(), Some(Hold::UnknownSlots { .. })),
        "{:?}",
        world.desk.lane.hold()
    );
    world.finalise();
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Cancelled);
    assert!(world.ended_as(id).contains("IS delegated now"), "{}", world.ended_as(id));
    assert_eq!((world.used_by_others().len(), world.desk.lane.hold()), (1, None));
    let next = world.broadcast();
    assert_eq!(world.slot_of(next), Some(7));
}

/// Pools refuse the one beside the other, and it would teach a smaller window.
#[test]
fn the_no_op_for_the_slot_after_it_is_not_sent_beside_the_delegation_itself() {
    let mut world = world(settings());
    let id = world.delegated_out();
    world.cancel(id);
    world.until_signing();
    let action = world.take(Kind::Sign);
    let LaneEvent::Signed(mut results) = world.act(action, &Fault::None) else { panic!("signatures") };
    results[0].1 = Err(signer::Error::Unavailable("no answer".into()));
    world.turn(vec![LaneEvent::Signed(results)]);
    assert_eq!((world.attempts(5).len(), world.attempts(6).len()), (1, 1));
    assert_eq!(world.sent_slots(), Vec::<u64>::new());
    world.wait(2_000);
    world.carry(Kind::Sign, Fault::None);
    assert_eq!(world.sent_slots(), [5, 6]);
}

/// Whoever took the slot, the authorization is public.
#[test]
fn a_slot_that_a_stranger_took_leaves_the_one_after_it_to_a_no_op_and_to_nobody_who_waits() {
    let mut world = world(settings());
    let id = world.delegated_out();
    let next = world.submit();
    world.rest();
    world.play(Step::Foreign);
    world.show(0, true);
    world.rest();
    assert!(matches!(world.attempts(6).as_slice(), [only] if only.no_op), "{:?}", world.attempts(6));
    for _ in 0..4 {
        world.block();
        world.rest();
        world.wait(15_000);
        world.rest();
    }
    assert!(world.attempts(6).iter().all(|attempt| attempt.no_op));
    assert!(world.slot_of(next) > Some(6), "{:?} {}", world.slot_of(next), world.sentence_of(next));
    assert_ne!(world.slot_of(id), Some(6));
}

#[test]
fn one_whose_slot_a_stranger_took_waits_until_the_one_after_it_has_its_no_op() {
    let mut world = world(settings());
    let id = world.delegated_out();
    world.play(Step::Foreign);
    for _ in 0..2 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.show(0, true);
    world.until_signing();
    // The signer takes its time.
    let signing = world.take(Kind::Sign);
    world.proven(5, None);
    assert_eq!((world.slot_of(id), world.desk.store.state(id)), (Some(5), TxState::Broadcast));
    let signed = world.act(signing, &Fault::None);
    world.turn(vec![signed]);
    assert!(matches!(world.attempts(6).as_slice(), [only] if only.no_op));
    world.wait(15_000);
    world.rest();
    assert_ne!((world.slot_of(id), world.desk.store.state(id)), (Some(5), TxState::Broadcast));
}

#[test]
fn a_new_delegation_in_its_place_goes_out_alone() {
    let mut world = world(settings());
    let id = world.delegated_out();
    world.replace_with(id, super::delegate::delegating_again(), Terms::default());
    world.rest();
    assert_eq!((world.attempts(5).len(), world.attempts(6).len()), (2, 0));
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert_eq!(world.chain.count(), Slot(7));
}

#[test]
fn those_behind_a_delegation_say_which_transaction_they_wait_for() {
    let mut world = world(settings());
    let id = world.delegated_out();
    let next = world.submit_as(payment_with_gas(3), Options::default());
    world.rest();
    let said = world.sentence_of(next);
    let wanted =
        format!("transaction {id} may use nonces 5 and 6, and no other is assigned until it is in a block");
    assert!(said.contains(&wanted), "{said}");
}

#[test]
fn a_no_op_above_the_ceiling_for_bytes_that_do_not_go_out_again_is_said_and_is_not_healthy() {
    let mut world = world(settings());
    let id = world.delegated_out();
    let next = world.submit();
    world.rest();
    assert_eq!(world.desk.lane.hold(), None);
    let low = LaneSettings { max_fee: Price::gwei(2), ..(*world.desk.settings).clone() };
    world.desk.settings = Arc::new(low);
    world.unlist();
    world.rest();
    assert_eq!(world.attempts(5).len(), 1, "the no-op is not signed");
    let said = world.sentence_of(id);
    for part in ["its bytes are not sent again, since", "its no-op needs", "and the ceiling is 2 gwei"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("next send") && !said.contains("the pool has it"), "{said}");
    assert!(matches!(world.desk.lane.hold(), Some(Hold::NoOpTooDear { slot: Slot(5), .. })));
    assert!(world.sentence_of(next).contains("the ceiling is 2 gwei"), "{}", world.sentence_of(next));
    // It lands all the same, from some pool.
    world.block();
    assert_eq!(world.desk.lane.hold(), None);
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}
