//! Slots that something alike took, and a person's word on whose it was.

use super::super::test_world::{Fault, Step, World, payment_with_gas};
use super::prove::{like, taken, wishing};
use super::{Kind, settings};
use crate::journal::Entry;
use crate::lane::LaneEvent;
use crate::ports::chain::Taker;
use crate::ports::store::CommandKind;
use crate::request::{Authorization, OnDisplaced, SignedAuthorization};
use crate::settings::LaneSettings;
use crate::transaction::{ReasonCode, TxState, Whose};
use crate::view::Receipt;
use crate::{Gas, Price, Slot, TxHash, TxId, Wei};

/// Slot 5 went to a transaction that does the same, for good.
fn taken_alike(wish: OnDisplaced) -> (World, TxId, Taker) {
    let (mut world, id) = taken(wishing(wish));
    let taker = like(&payment_with_gas(1));
    world.proven(5, Some(taker.clone()));
    assert!(world.desk.store.tx(id).status.taken.is_some());
    (world, id, taker)
}

impl World {
    fn settle_as(&mut self, tx: TxId, whose: Whose, hash: TxHash) {
        self.command(CommandKind::Settle { tx, whose, hash });
        self.carry(Kind::Load, Fault::None);
    }

    fn all_done(&self) -> bool {
        self.desk.store.commands.iter().all(|(_, done)| *done)
    }

    fn receipt_of(&self, taker: &Taker, success: bool) -> Receipt {
        Receipt {
            hash: taker.hash,
            block: self.winner_block(5),
            index: 0,
            success,
            gas_used: Gas(21_000),
            data_fee: None,
            gas_price: Price::gwei(1),
            contract: None,
        }
    }
}

#[test]
fn it_is_written_down_once_and_the_sentence_names_the_hash_and_the_command() {
    for crashes in [false, true] {
        let (mut world, id, taker) = taken_alike(OnDisplaced::Requeue);
        if crashes {
            world.play(Step::Crash);
            world.show(0, true);
            world.look_in_vain(5);
        }
        let said = world.desk.lane.explain(id, world.desk.now).expect("it is still here");
        for part in
            [taker.hash.to_string(), format!("landfall tx settle {id} --ours"), "--foreign".to_owned()]
        {
            assert!(said.contains(&part), "{said}");
        }
        assert!(!world.started(Kind::Prove), "it is known: {:?}", world.started);
        assert_eq!(world.told(id, |entry| matches!(entry, Entry::TakenAlike { slot: Slot(5), .. })), 1);
    }
}

#[test]
fn one_that_was_ours_has_ended_by_that_hash_and_callers_may_see_past_it() {
    for crashes in [false, true] {
        let (mut world, id, taker) = taken_alike(OnDisplaced::Requeue);
        assert_eq!(world.desk.lane.shown_up_to(), Some(Slot(5)), "a caller's count stays there");
        let ours = world.attempts(5)[0].hash;
        if crashes {
            world.play(Step::Crash);
        }
        world.settle_as(id, Whose::Ours, taker.hash);
        world.show(0, true);
        let status = &world.desk.store.tx(id).status;
        assert_eq!((status.state, status.slot, status.displaced), (TxState::Confirmed, Some(Slot(5)), false));
        assert_eq!((status.hash, status.told_hash()), (Some(taker.hash), Some(ours)));
        assert_eq!(status.won.as_ref().map(|won| won.hash), Some(taker.hash));
        assert!(status.taken.is_none() && world.all_done());
        assert_eq!(world.told(id, |entry| matches!(entry, Entry::CarriedOut { slot: Slot(5), .. })), 1);
        assert_eq!(world.desk.lane.shown_up_to(), Some(Slot(u64::MAX)));
        world.rest();
        assert!(world.desk.lane.is_idle(), "nothing is left of it");
        let next = world.broadcast();
        assert_eq!(world.slot_of(next), Some(6), "the lane goes on");
    }
}

#[test]
fn one_that_was_ours_and_reverted_has_reverted() {
    for (success, state) in [(true, TxState::Confirmed), (false, TxState::Reverted)] {
        let (mut world, id) = taken(wishing(OnDisplaced::Requeue));
        let taker = like(&payment_with_gas(1));
        let receipt = world.receipt_of(&taker, success);
        world.proven(5, Some(Taker { receipt: Some(receipt.clone()), ..taker.clone() }));
        world.settle_as(id, Whose::Ours, taker.hash);
        let status = &world.desk.store.tx(id).status;
        assert_eq!((status.state, status.receipt.as_ref()), (state, Some(&receipt)));
    }
}

#[test]
fn what_one_that_was_ours_has_cost_counts_in_the_days_budget_and_what_was_foreign_does_not() {
    for (whose, cost) in [(Whose::Ours, Price::gwei(1).cost(Gas(21_000))), (Whose::Foreign, Wei::default())] {
        let (mut world, id) = taken(wishing(OnDisplaced::Fail));
        let taker = like(&payment_with_gas(1));
        let receipt = world.receipt_of(&taker, true);
        world.proven(5, Some(Taker { receipt: Some(receipt), ..taker.clone() }));
        assert_eq!(world.desk.store.row.spend.fees, Wei::default());
        world.settle_as(id, whose, taker.hash);
        assert_eq!(world.desk.store.row.spend.fees, cost, "{whose:?}");
        world.play(Step::Crash);
        world.finalise();
        assert_eq!(world.desk.store.row.spend.fees, cost, "{whose:?}");
    }
}

#[test]
fn one_that_was_foreign_is_queued_again_or_fails_as_its_caller_wished() {
    for wish in [OnDisplaced::Requeue, OnDisplaced::Fail] {
        let (mut world, id, taker) = taken_alike(wish);
        world.settle_as(id, Whose::Foreign, taker.hash);
        assert_eq!(world.told(id, |entry| matches!(entry, Entry::TakenByOther { slot: Slot(5), .. })), 1);
        world.rest();
        world.finalise();
        let status = &world.desk.store.tx(id).status;
        assert!(status.taken.is_none() && world.all_done());
        match wish {
            OnDisplaced::Requeue => {
                assert_eq!((status.state, status.slot), (TxState::Confirmed, Some(Slot(6))));
            }
            OnDisplaced::Fail => {
                let code = status.reason.as_ref().map(|reason| reason.code);
                assert_eq!((status.state, code), (TxState::Failed, Some(ReasonCode::Displaced)));
            }
        }
    }
}

#[test]
fn one_that_is_to_be_cancelled_says_so_and_ends_as_the_word_is() {
    for (whose, state) in [(Whose::Ours, TxState::Confirmed), (Whose::Foreign, TxState::Cancelled)] {
        let (mut world, id, taker) = taken_alike(OnDisplaced::Requeue);
        world.cancel(id);
        world.rest();
        world.wait(600_000);
        assert!(!world.desk.store.state(id).is_terminal(), "it may well have been done");
        let said = world.desk.lane.explain(id, world.desk.now).expect("it is still here");
        assert!(said.contains("tx settle") && said.contains("nor ended"), "{said}");
        world.settle_as(id, whose, taker.hash);
        assert_eq!(world.desk.store.state(id), state);
    }
}

#[test]
fn a_word_on_another_hash_or_on_one_that_was_settled_changes_nothing() {
    let (mut world, id, taker) = taken_alike(OnDisplaced::Requeue);
    world.settle_as(id, Whose::Ours, TxHash(alloy_primitives::B256::repeat_byte(0x55)));
    assert!(world.all_done() && !world.desk.store.state(id).is_terminal());
    world.settle_as(id, Whose::Foreign, taker.hash);
    world.rest();
    world.settle_as(id, Whose::Ours, taker.hash);
    world.finalise();
    assert_eq!(world.slot_of(id), Some(6), "the first word counts");
    assert!(world.all_done());
}

/// The block was as final as any, and the chain took it back all the same.
#[test]
fn what_the_chain_takes_back_is_looked_at_anew_and_a_word_on_it_is_void() {
    let (mut world, id, taker) = taken_alike(OnDisplaced::Requeue);
    world.chain.reorg_past_finality(4, 5, world.desk.now);
    world.show(0, true);
    assert!(world.desk.store.tx(id).status.taken.is_none());
    world.settle_as(id, Whose::Ours, taker.hash);
    assert!(!world.desk.store.state(id).is_terminal());
    world.wait(60_000);
    world.rest();
    world.finalise();
    let status = &world.desk.store.tx(id).status;
    assert_eq!((status.state, status.slot), (TxState::Confirmed, Some(Slot(5))), "its own bytes landed");
}

/// It had ended, the chain took that back, and then something alike took its slot.
#[test]
fn one_that_had_ended_before_stays_so_and_its_slot_is_settled() {
    for whose in [Whose::Ours, Whose::Foreign] {
        let mut world = World::new(LaneSettings { watch_depth: 8, ..settings() }, 2);
        world.chain.deep = 6;
        world.show(0, true);
        world.rest();
        let id = world.broadcast();
        world.finalise();
        assert_eq!(world.desk.store.state(id), TxState::Confirmed);
        world.play(Step::Reorg { depth: 4, keep: false, refill: 1 });
        world.chain.pool.clear();
        world.play(Step::Foreign);
        for _ in 0..10 {
            world.chain.mine(0, true, world.desk.now);
        }
        world.show(0, true);
        let taker = like(&payment_with_gas(1));
        world.proven(5, Some(taker.clone()));
        let said = world.desk.lane.explain(id, world.desk.now).expect("it is here again");
        assert!(said.contains("tx settle"), "{said}");
        world.settle_as(id, whose, taker.hash);
        assert_eq!(world.desk.store.state(id), TxState::Confirmed);
        assert!(world.desk.store.tx(id).status.taken.is_none() && world.all_done());
        let lost = world.told(id, |entry| matches!(entry, Entry::FinalLost { .. }));
        assert_eq!(lost, usize::from(whose == Whose::Foreign));
        world.rest();
        assert!(world.desk.lane.is_idle());
        assert_eq!(world.desk.lane.explain(id, world.desk.now), None);
    }
}

/// Its first nonce went to something that carried the authorization too, so both are used up, and that is no stranger's doing.
#[test]
fn a_delegation_that_was_ours_has_used_up_both_of_its_nonces() {
    for cancels in [false, true] {
        let mut world = super::world(settings());
        let id = world.submit_as(super::delegate::delegating(), wishing(OnDisplaced::Requeue));
        world.rest();
        assert_eq!(world.slot_of(id), Some(5));
        if cancels {
            world.cancel(id);
            world.rest();
            assert_eq!(world.attempts(6).len(), 1, "a no-op beside that of the first");
        }
        for _ in 0..2 {
            world.play(Step::Foreign);
        }
        world.finalise();
        let asked = super::delegate::delegating().authorization_list.remove(0);
        let (count, r, s) = (Slot(6), alloy_primitives::U256::from(1), alloy_primitives::U256::from(1));
        let signed = Some(SignedAuthorization { count, r, s, y_parity: true });
        let taker = Taker {
            authorizations: vec![Authorization { signed, ..asked }],
            ..like(&super::delegate::delegating())
        };
        while !world.started(Kind::Prove) {
            world.wait(15_000);
            if world.started(Kind::Look) {
                world.carry(Kind::Look, Fault::NotDone);
            }
        }
        let block = world.winner_block(5);
        world.turn(vec![LaneEvent::Foreign { slot: Slot(5), block, taker: Some(taker.clone()) }]);
        world.settle_as(id, Whose::Ours, taker.hash);
        assert_eq!(world.desk.store.state(id), TxState::Confirmed);
        assert!(world.desk.store.row.returned.is_empty());
        assert_eq!(world.desk.lane.hold(), None);
        world.started.clear();
        for _ in 0..3 {
            world.finalise();
        }
        let by_others =
            world.desk.store.journal.iter().filter(|new| matches!(new.entry, Entry::LaneAdopted { .. }));
        assert_eq!(by_others.count(), 0);
        let next = world.broadcast();
        assert_eq!(world.slot_of(next), Some(7));
    }
}
