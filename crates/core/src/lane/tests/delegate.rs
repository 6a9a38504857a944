//! A transaction by which the sender delegates its own code uses up two slots (EIP-7702).

use std::sync::Arc;

use alloy_primitives::{Address, U256};

use super::super::Hold;
use super::super::test_world::{Fault, Step, payment_with_gas};
use super::{Action, Kind, World, remote, settings, world};
use crate::ports::store::CommandKind;
use crate::request::{AskedFees, Authorization, OnDisplaced, Options, Payload, SignedAuthorization};
use crate::settings::LaneSettings;
use crate::transaction::{ReasonCode, Terms, TxState};
use crate::{Account, Slot, TxHash, TxId};

pub(super) fn delegating() -> Payload {
    delegating_to(Account(Address::repeat_byte(0xcc)))
}

/// Another delegation, to an address that is listed too.
pub(super) fn delegating_again() -> Payload {
    delegating_to(Account(Address::with_last_byte(0xc0)))
}

fn delegating_to(address: Account) -> Payload {
    Payload {
        authorization_list: vec![Authorization { chain: None, address, signed: None }],
        fees: AskedFees::Dynamic { max_fee: None, tip: None },
        ..payment_with_gas(7)
    }
}

impl World {
    pub(super) fn delegate(&mut self) -> TxId {
        self.submit_as(delegating(), Options::default())
    }

    pub(super) fn slots_of(&self, ids: &[TxId]) -> Vec<Option<u64>> {
        ids.iter().map(|id| self.slot_of(*id)).collect()
    }
}

#[test]
fn the_slot_after_it_is_used_up_by_the_chain_and_given_to_nobody() {
    for settings in [settings(), remote()] {
        let mut world = world(settings);
        let ids = [world.submit(), world.delegate(), world.submit(), world.submit()];
        world.rest();
        assert_eq!(
            world.slots_of(&ids),
            [Some(5), Some(6), None, None],
            "none above it until it is in a block"
        );
        world.block();
        world.rest();
        assert_eq!(world.chain.count(), Slot(8));
        assert_eq!(world.slots_of(&ids), [Some(5), Some(6), Some(8), Some(9)]);
        world.finalise();
        assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
        assert_eq!(world.desk.lane.hold(), None);
    }
}

#[test]
fn a_reservation_that_is_given_back_gives_both_slots_back() {
    let mut world = world(remote());
    let id = world.delegate();
    world.carry(Kind::Load, Fault::None);
    assert_eq!(world.slot_of(id), Some(5));
    world.cancel(id);
    world.rest();
    assert_eq!(world.desk.store.state(id), TxState::Cancelled);
    let next = world.broadcast();
    assert_eq!(world.slot_of(next), Some(5));
    world.finalise();
    assert_eq!(world.desk.store.state(next), TxState::Confirmed);
}

#[test]
fn a_reservation_whose_content_is_replaced_gives_both_slots_back() {
    let mut world = world(remote());
    let id = world.delegate();
    world.carry(Kind::Load, Fault::None);
    assert_eq!(world.slot_of(id), Some(5));
    world.replace(id, 3);
    world.rest();
    let next = world.submit();
    world.rest();
    assert_eq!(world.slot_of(id), Some(5), "neither of its two slots was left behind");
    world.finalise();
    assert_eq!(world.slot_of(next), Some(6), "its new content uses up one");
    world.finalise();
    assert!([id, next].iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
}

#[test]
fn after_a_crash_the_second_slot_is_still_kept() {
    let mut world = world(settings());
    let id = world.delegate();
    world.rest();
    world.started.clear();
    world.desk.crash();
    world.show(0, true);
    let next = world.submit();
    world.rest();
    assert_eq!(world.slots_of(&[id, next]), [Some(5), None]);
    world.block();
    world.rest();
    assert_eq!(world.slot_of(next), Some(7));
    world.finalise();
    assert_eq!(world.desk.store.state(next), TxState::Confirmed);
}

#[test]
fn a_reset_while_it_is_out_leaves_it_both_slots() {
    let mut world = world(settings());
    let id = world.delegate();
    world.rest();
    let next = world.submit();
    world.rest();
    world.command(CommandKind::Reset);
    world.rest();
    world.show(0, true);
    world.rest();
    assert_eq!(world.desk.store.row.cursor, Some(Slot(7)), "the second slot stays its own");
    world.block();
    world.rest();
    assert_eq!(world.desk.lane.hold(), None, "nobody else has used it");
    world.finalise();
    world.finalise();
    assert!([id, next].iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
}

#[test]
fn a_second_slot_that_a_no_op_has_taken_is_given_to_nobody_else() {
    let mut world = world(settings());
    let wish = Options { on_displaced: Some(OnDisplaced::Fail), ..Options::default() };
    let id = world.submit_as(delegating(), wish);
    world.rest();
    // A stranger takes the first slot. The second gets a no-op, which is out when the stranger is proven.
    world.play(Step::Foreign);
    for _ in 0..2 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.show(0, true);
    world.command(CommandKind::Fill { from: Slot(6), to: Slot(6) });
    world.rest();
    assert!(matches!(world.attempts(6).as_slice(), [only] if only.no_op), "{:?}", world.attempts(6));
    world.proven(5, None);
    assert_eq!(world.desk.store.state(id), TxState::Failed);
    let next = world.submit();
    world.rest();
    assert_eq!(world.slot_of(next), Some(7));
    assert!(world.attempts(6).iter().all(|attempt| attempt.no_op));
}

impl World {
    /// The operator lists no address any more and starts the program anew.
    pub(super) fn unlist(&mut self) {
        self.list(&[]);
    }

    /// The same for a list of some.
    pub(super) fn list(&mut self, listed: &[Account]) {
        let delegate_to = listed.iter().copied().collect();
        self.desk.settings = Arc::new(LaneSettings { delegate_to, ..(*self.desk.settings).clone() });
        self.started.clear();
        self.desk.crash();
        self.show(0, true);
    }

    /// These bytes are on their way out.
    fn sends(&self, hash: TxHash) -> bool {
        let is_sent = |action: &Action| matches!(action, Action::Send(all) if all.iter().any(|one| one.sealed.hash == hash));
        self.started.iter().any(is_sent)
    }

    /// It has ended since its delegation is not listed, and says so.
    pub(super) fn is_refused(&self, id: TxId) {
        let status = &self.desk.store.tx(id).status;
        let reason = status.reason.as_ref().expect("it has ended");
        assert_eq!((status.state, reason.code), (TxState::Failed, ReasonCode::DelegationNotAllowed));
        assert!(reason.text.contains("delegate_to does not list any more"), "{}", reason.text);
    }
}

#[test]
fn one_that_waited_while_the_list_was_shortened_fails_and_takes_no_slot() {
    let paused = |world: &mut World| world.command(CommandKind::Pause);
    let dear = |world: &mut World| world.play(Step::Balance(0));
    for stop in [paused, dear] {
        for settings in [settings(), remote()] {
            let mut world = world(settings);
            stop(&mut world);
            world.show(0, true);
            world.rest();
            let id = world.delegate();
            world.rest();
            assert_eq!((world.slot_of(id), world.desk.store.state(id)), (None, TxState::Accepted));
            world.unlist();
            world.rest();
            world.is_refused(id);
            assert!(world.desk.store.attempts.is_empty(), "nothing was signed");
        }
    }
}

#[test]
fn one_that_a_person_is_asked_about_is_not_asked_about_any_more() {
    let asking = LaneSettings { approve_above: Some(crate::Wei::default()), ..settings() };
    let mut world = world(asking);
    let id = world.delegate();
    world.rest();
    assert_eq!(world.desk.store.state(id), TxState::AwaitingApproval);
    world.unlist();
    world.rest();
    world.is_refused(id);
}

#[test]
fn a_reservation_for_an_address_that_is_not_listed_any_more_gives_both_slots_back() {
    let mut world = world(remote());
    let id = world.delegate();
    world.carry(Kind::Load, Fault::None);
    assert_eq!(world.slot_of(id), Some(5));
    world.unlist();
    world.rest();
    world.is_refused(id);
    assert!(world.desk.store.attempts.is_empty(), "nothing was signed");
    let next = world.broadcast();
    assert_eq!(world.slot_of(next), Some(5));
    world.finalise();
    assert_eq!(world.desk.store.state(next), TxState::Confirmed);
}

/// While it is found out what took other slots, a reservation may still turn out to have landed.
#[test]
fn a_reservation_that_is_not_listed_any_more_ends_when_the_lane_has_found_out_what_landed() {
    let mut world = world(remote());
    let ids = [world.submit(), world.delegate()];
    world.carry(Kind::Load, Fault::None);
    assert_eq!(world.slots_of(&ids), [Some(5), Some(6)]);
    world.play(Step::Foreign);
    world.unlist();
    world.carry(Kind::Load, Fault::None);
    assert!(
        matches!(world.desk.lane.hold(), Some(Hold::UnknownSlots { .. })),
        "{:?}",
        world.desk.lane.hold()
    );
    assert_eq!(world.desk.store.state(ids[1]), TxState::Accepted);
    assert_eq!(world.slot_of(ids[1]), Some(6));
    world.finalise();
    world.command(CommandKind::Resume);
    world.rest();
    world.finalise();
    world.is_refused(ids[1]);
}

/// Bytes may be in a pool: only the chain ends the slot.
#[test]
fn bytes_for_an_address_that_is_not_listed_any_more_are_not_sent_and_give_way_to_a_no_op() {
    for sent in [false, true] {
        for settings in [settings(), remote()] {
            let mut world = world(settings);
            let id = world.delegate();
            while world.desk.store.attempts.is_empty() {
                let kind = if world.started(Kind::Load) { Kind::Load } else { Kind::Sign };
                world.carry(kind, Fault::None);
            }
            if sent {
                world.rest();
            }
            let before = world.attempts(5);
            world.unlist();
            let said = world.desk.lane.explain(id, world.desk.now).unwrap();
            for part in ["delegate_to does not list any more", "a no-op is to take its nonce"] {
                assert!(said.contains(part), "{said}");
            }
            for _ in 0..20 {
                assert!(!world.sends(before[0].hash), "it went out again");
                let Some(action) = world.started.pop() else { break };
                let answer = world.act(action, &Fault::None);
                world.turn(vec![answer]);
            }
            let attempts = world.attempts(5);
            let no_ops: Vec<bool> = attempts.iter().map(|attempt| attempt.no_op).collect();
            assert_eq!(no_ops, [false, true], "none was made dearer");
            world.finalise();
            world.is_refused(id);
        }
    }
}

#[test]
fn bytes_that_land_all_the_same_are_told_as_landed() {
    let mut world = world(settings());
    let id = world.delegate();
    world.rest();
    let hash = world.attempts(5)[0].hash;
    world.unlist();
    world.rest();
    assert_eq!(world.attempts(5).len(), 2);
    world.chain.pool.insert(Slot(5), hash);
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert_eq!(world.desk.store.tx(id).status.won.as_ref().map(|won| won.hash), Some(hash));
}

#[test]
fn a_new_content_that_is_not_listed_any_more_is_dropped_and_the_bytes_before_it_count() {
    let asking = LaneSettings { approve_above: Some(crate::Wei(U256::from(7))), ..settings() };
    let mut world = world(asking);
    let other = Account(Address::with_last_byte(0xc0));
    let id = world.submit_as(delegating_to(other), Options::default());
    world.rest();
    world.command(CommandKind::Approve { tx: id, version: None, held_for: None });
    world.rest();
    assert_eq!(world.attempts(5).len(), 1);
    world.replace_with(id, delegating(), Terms::default());
    world.rest();
    assert!(world.desk.store.tx(id).status.asks_approval, "a person is asked first");
    world.list(&[other]);
    world.rest();
    let tx = world.desk.store.tx(id);
    assert_eq!((tx.version().0, &tx.status.ending, tx.status.asks_approval), (1, &None, false));
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert_eq!(world.desk.store.attempts.len(), 1, "nothing was signed for the new content");
}

/// The command was stored while the address was listed, and is read after it was taken off.
#[test]
fn a_new_content_of_one_that_waits_is_judged_like_a_first_one() {
    let mut world = world(settings());
    world.command(CommandKind::Pause);
    world.rest();
    let other = Account(Address::with_last_byte(0xc0));
    let id = world.submit_as(delegating_to(other), Options::default());
    world.rest();
    world.replace_with(id, delegating(), Terms::default());
    world.list(&[other]);
    world.rest();
    world.is_refused(id);
    assert!(world.desk.store.attempts.is_empty(), "nothing was signed");
}

#[test]
fn what_others_have_authorized_needs_no_list() {
    let mut world = world(settings());
    world.unlist();
    let signed = SignedAuthorization { count: Slot(6), r: U256::from(1), s: U256::from(1), y_parity: true };
    let address = Account(Address::repeat_byte(0xdd));
    let by_another = vec![Authorization { chain: None, address, signed: Some(signed) }];
    let id = world.submit_as(Payload { authorization_list: by_another, ..delegating() }, Options::default());
    world.rest();
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}
