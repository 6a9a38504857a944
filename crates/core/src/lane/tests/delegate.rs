//! A transaction by which the sender delegates its own code uses up two slots (EIP-7702).

use alloy_primitives::Address;

use super::super::test_world::{Fault, Step, payment_with_gas};
use super::{Kind, World, remote, settings, world};
use crate::ports::store::CommandKind;
use crate::request::{AskedFees, Authorization, OnDisplaced, Options, Payload};
use crate::transaction::TxState;
use crate::{Account, Slot, TxId};

pub(super) fn delegating() -> Payload {
    let address = Account(Address::repeat_byte(0xcc));
    Payload {
        authorization_list: vec![Authorization { chain: None, address, signed: None }],
        fees: AskedFees::Dynamic { max_fee: None, tip: None },
        ..payment_with_gas(7)
    }
}

impl World {
    fn delegate(&mut self) -> TxId {
        self.submit_as(delegating(), Options::default())
    }

    fn slots_of(&self, ids: &[TxId]) -> Vec<Option<u64>> {
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
fn if_its_no_op_wins_the_second_slot_is_used_by_the_next_in_line() {
    let mut world = world(settings());
    let id = world.delegate();
    world.rest();
    let next = world.submit();
    world.rest();
    world.cancel(id);
    world.rest();
    assert_eq!(world.attempts(5).len(), 2);
    world.block();
    world.rest();
    assert_eq!(world.chain.count(), Slot(6), "the no-op uses up one slot");
    assert_eq!(world.slot_of(next), None, "until that is final the content may still win");
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Cancelled);
    assert_eq!(world.slot_of(next), Some(6));
    world.finalise();
    assert_eq!(world.desk.store.state(next), TxState::Confirmed);
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
