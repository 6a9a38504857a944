use alloy_primitives::U256;

use super::super::test_world::{Fault, payment_with_gas, request};
use super::{Kind, World, settings, world};
use crate::fees::DataFee;
use crate::lane::{Action, LaneEvent};
use crate::outcome::SendOutcome;
use crate::ports::store::CommandKind;
use crate::request::{AtOnce, Options, Request};
use crate::settings::LaneSettings;
use crate::transaction::TxState;
use crate::{Gas, Slot, Wei};

fn gapless() -> LaneSettings {
    LaneSettings { gapless: true, ..settings() }
}

impl World {
    fn signed_four(&mut self) -> Vec<crate::TxId> {
        let ids: Vec<_> = (0..4).map(|_| self.submit()).collect();
        for kind in [Kind::Load, Kind::Load, Kind::Sign] {
            while self.started(kind) {
                self.carry(kind, Fault::None);
            }
        }
        ids
    }

    fn sending(&self) -> Vec<u64> {
        let outgoing = self.started.iter().filter_map(|action| match action {
            Action::Send(outgoing) => Some(outgoing.iter().map(|one| one.slot.0)),
            _ => None,
        });
        outgoing.flatten().collect()
    }
}

// covers: A2, F5, F6
#[test]
fn on_a_chain_without_a_mempool_a_slot_is_sent_when_every_lower_one_was_taken_and_at_once() {
    let mut world = world(gapless());
    world.chain.refuses_gaps = true;
    let ids = world.signed_four();
    assert_eq!(world.sending(), [5]);
    world.carry(Kind::Send, Fault::NotDone);
    assert_eq!(world.sending(), [0_u64; 0], "slot 5 was not answered");
    world.wait(250);
    assert_eq!(world.sending(), [5], "the same bytes again");
    for slot in 5..8 {
        assert_eq!(world.sending(), [slot]);
        world.carry(Kind::Send, Fault::None);
        assert_eq!(world.sending(), [slot + 1], "the next goes out at once");
    }
    world.rest();
    world.finalise();
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
    assert_eq!(
        ids.iter().map(|id| world.slot_of(*id)).collect::<Vec<_>>(),
        [Some(5), Some(6), Some(7), Some(8)]
    );
}

#[test]
fn a_node_that_misses_a_lower_slot_is_given_the_lowest_again() {
    let mut world = world(gapless());
    world.signed_four();
    // It says yes and keeps nothing.
    world.carry(Kind::Send, Fault::Silent);
    assert_eq!(world.sending(), [6]);
    world.say(SendOutcome::NonceTooHigh);
    world.wait(250);
    assert_eq!(world.sending(), [5, 6]);
}

// covers: E7, E9
#[test]
fn a_delegated_account_has_the_window_that_its_chain_allows_and_gets_it_back() {
    let mut world = world(LaneSettings { delegated_in_flight: 1, ..settings() });
    world.chain.delegated = true;
    world.show(0, true);
    let ids: Vec<_> = (0..3).map(|_| world.submit()).collect();
    world.rest();
    assert_eq!(ids.iter().map(|id| world.slot_of(*id)).collect::<Vec<_>>(), [Some(5), None, None]);
    world.block();
    world.rest();
    assert_eq!(world.slot_of(ids[1]), Some(6), "the next one when the first is in a block");
    world.chain.delegated = false;
    world.show(0, true);
    world.rest();
    assert_eq!(world.slot_of(ids[2]), Some(7));
    world.finalise();
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
}

// covers: E7
#[test]
fn an_account_that_becomes_delegated_keeps_its_slots_and_sends_no_more_than_its_window() {
    let mut world = world(LaneSettings { delegated_in_flight: 2, ..settings() });
    let ids = world.signed_four();
    world.chain.delegated = true;
    world.show(0, true);
    world.started.clear();
    world.desk.crash();
    world.show(0, true);
    world.rest();
    assert_eq!(world.chain.pool.keys().map(|slot| slot.0).collect::<Vec<_>>(), [5, 6]);
    world.finalise();
    world.finalise();
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
}

// covers: E7, E8, E10
#[test]
fn a_pool_that_takes_no_more_of_an_account_teaches_the_window_which_grows_again_slowly() {
    let mut world = world(settings());
    world.signed_four();
    let late = world.submit();
    world.carry(Kind::Load, Fault::None);
    assert_eq!(world.sending(), [5, 6, 7, 8]);
    world.take(Kind::Send);
    // The pool takes two of them.
    let said =
        [SendOutcome::Accepted, SendOutcome::Accepted, SendOutcome::AccountLimit, SendOutcome::AccountLimit];
    for (slot, outcome) in (5..).zip(said) {
        let attempt = world.attempts(slot).remove(0);
        world.chain.pool.clear();
        world.turn(vec![super::sent(&attempt, outcome)]);
    }
    assert_eq!(world.desk.lane.window(), 2);
    world.wait(30_000);
    assert_eq!(world.sending(), [0_u64; 0], "what was refused is not sent again");
    world.started.clear();
    world.wait(30_000);
    assert_eq!(world.desk.lane.window(), 3, "one more after an interval");
    assert!(world.sending().contains(&7) && !world.sending().contains(&8), "{:?}", world.sending());
    let said = world.desk.lane.explain(late, world.desk.now).unwrap();
    world.take(Kind::Send);
    world.turn(vec![super::sent(&world.attempts(7).remove(0), SendOutcome::AccountLimit)]);
    assert_eq!(world.desk.lane.window(), 2, "refused again");
    assert!(said.contains("nodes refused to take more"), "{said}");
    world.wait(120_000);
    assert_eq!(world.desk.lane.window(), 4, "and no more than what was configured");
    assert!(world.desk.lane.learned.is_none());
}

// covers: L9
#[test]
fn the_fee_for_bytes_on_the_parent_chain_counts_in_the_funds_check() {
    let mut world = world(settings());
    let one = 21_000_u64 * 4_000_000_000;
    world.chain.data_fee = Some(DataFee { fixed: Wei(U256::from(one)), per_byte: Wei(U256::from(1)) });
    world.chain.balance = Some(Wei(U256::from(one * 3 / 2)));
    world.show(0, true);
    let id = world.submit();
    world.rest();
    assert_eq!(world.slot_of(id), None, "gas alone would fit");
    world.chain.balance = Some(Wei(U256::from(one * 2 + 1_000)));
    world.show(0, true);
    world.rest();
    assert_eq!(world.slot_of(id), Some(5));
}

// covers: M6
#[test]
fn gas_above_what_the_chain_takes_in_one_transaction_fails_before_a_slot() {
    let limits = crate::settings::TxLimits { gas: Some(Gas(1 << 24)), ..Default::default() };
    let mut world = world(LaneSettings { limits, ..settings() });
    let payload = crate::request::Payload { gas: Some(Gas(20_000_000)), ..super::payment_with_gas(1) };
    let id = world.submit_as(payload, crate::request::Options::default());
    world.rest();
    assert_eq!((world.desk.store.state(id), world.slot_of(id)), (TxState::Failed, None));
}

// covers: L3, L5
#[test]
fn slots_at_admission_are_bound_and_signed_beyond_the_window_and_sent_within_it() {
    let at_admission = LaneSettings {
        allocation: crate::settings::Allocation::Admission,
        max_signed_ahead: 3,
        max_in_flight: 2,
        ..settings()
    };
    let mut world = world(at_admission);
    let ids = world.signed_four();
    let slots = |world: &World| ids.iter().map(|id| world.slot_of(*id)).collect::<Vec<_>>();
    assert_eq!(slots(&world), [Some(5), Some(6), Some(7), None], "as far ahead as allowed");
    assert_eq!(world.sending(), [5, 6], "and sent as far as the window goes");
    // The window moves on twice.
    for _ in 0..3 {
        world.rest();
        world.finalise();
    }
    assert_eq!(slots(&world), [Some(5), Some(6), Some(7), Some(8)]);
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
}

// covers: E15
#[test]
fn where_a_gateway_wants_it_an_accounts_first_transaction_goes_out_alone() {
    let mut world = World::new(LaneSettings { first_alone: true, ..settings() }, 2);
    world.chain.first = crate::Slot(0);
    world.show(0, true);
    world.rest();
    let ids = world.signed_four();
    assert_eq!(world.sending(), [0], "nothing races to be the first");
    world.rest();
    world.finalise();
    world.rest();
    assert_eq!(world.attempts(1).len(), 1, "and then as many as elsewhere");
    assert_eq!(world.attempts(3).len(), 1);
    world.finalise();
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
}

impl World {
    /// A payment whose caller waits for its hash.
    fn submit_at_once(&mut self) -> crate::TxId {
        let number = self.desk.store.txs.len() as u64 + 1;
        let (payload, now) = (payment_with_gas(number), self.desk.now);
        let at_once = Some(AtOnce::default());
        let id = self.desk.store.admit(Request { at_once, ..request(payload, Options::default(), now) });
        self.turn(vec![LaneEvent::Work]);
        id
    }
}

#[test]
fn one_whose_hash_is_waited_for_is_bound_beyond_the_window_and_takes_those_before_it_along() {
    let mut world = world(LaneSettings { max_in_flight: 2, max_signed_ahead: 5, ..settings() });
    let early: Vec<_> = (0..3).map(|_| world.submit()).collect();
    world.rest();
    assert_eq!(early.iter().map(|id| world.slot_of(*id)).collect::<Vec<_>>(), [Some(5), Some(6), None]);
    let awaited = world.submit_at_once();
    let late = world.submit();
    world.rest();
    assert_eq!(world.slot_of(early[2]), Some(7), "it came first");
    assert_eq!(world.slot_of(awaited), Some(8));
    assert_eq!(world.slot_of(late), None, "nobody waits for its hash");
    assert_eq!(world.chain.pool.len(), 2, "no more are sent than the window holds");
    let (last, beyond) = (world.submit_at_once(), world.submit_at_once());
    world.rest();
    assert_eq!(world.slot_of(late), Some(9), "the fifth slot is the last");
    assert_eq!((world.slot_of(last), world.slot_of(beyond)), (None, None));
    for _ in 0..6 {
        world.finalise();
    }
    let all = early.into_iter().chain([awaited, late, last, beyond]);
    assert!(all.into_iter().all(|id| world.desk.store.state(id) == TxState::Confirmed));
}

#[test]
fn a_withdrawal_ends_what_has_no_bytes_and_leaves_alone_what_has() {
    let mut world = world(LaneSettings { max_in_flight: 1, max_signed_ahead: 1, ..settings() });
    let (bound, waiting) = (world.submit_at_once(), world.submit_at_once());
    world.rest();
    for tx in [bound, waiting] {
        world.command(CommandKind::Withdraw { tx });
        world.rest();
    }
    assert_eq!(world.desk.store.state(waiting), TxState::Cancelled);
    assert_eq!(world.desk.store.tx(bound).status.ending, None);
    world.finalise();
    assert_eq!(world.desk.store.state(bound), TxState::Confirmed);
    assert_eq!(world.attempts(5).len(), 1, "nothing was signed to take its place");
}

#[test]
fn the_count_that_is_shown_stays_below_a_slot_whose_receipt_is_missing() {
    let mut world = world(settings());
    let first = world.broadcast();
    world.broadcast();
    assert_eq!(world.desk.lane.shown_up_to(), Some(Slot(5)));
    // The block is there, and its receipts were not read.
    world.chain.mine(100, true, world.desk.now);
    world.show(0, false);
    assert_eq!(world.desk.lane.shown_up_to(), Some(Slot(5)));
    world.rest();
    assert_eq!(world.desk.store.state(first), TxState::Mined);
    assert_eq!(world.desk.lane.shown_up_to(), Some(Slot(u64::MAX)), "nothing is in the way");
}
