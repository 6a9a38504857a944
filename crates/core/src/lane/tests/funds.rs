use alloy_primitives::U256;

use super::super::test_world::payment_with_gas;
use super::{World, settings, world};
use crate::request::{OnInsufficientFunds, Options};
use crate::settings::LaneSettings;
use crate::transaction::{ReasonCode, TxState};
use crate::{TxId, Wei};

/// What a payment of next to nothing costs at most: 21,000 gas at twice the base fee of 1 gwei and a tip of 2.
const ONE: u64 = 21_000 * 4_000_000_000;

impl World {
    fn fund(&mut self, wei: u64) {
        self.chain.balance = Some(Wei(U256::from(wei)));
        self.show(0, true);
        self.rest();
    }

    fn why(&self, id: TxId) -> String {
        self.desk.lane.explain(id, self.desk.now).unwrap()
    }
}

#[test]
fn the_window_holds_no_more_than_the_balance_can_pay_at_worst() {
    // covers: L1, L3
    let mut world = world(settings());
    world.fund(ONE * 5 / 2);
    let ids: Vec<_> = (0..3).map(|_| world.submit()).collect();
    world.rest();
    let slots: Vec<_> = ids.iter().map(|id| world.slot_of(*id)).collect();
    assert_eq!(slots, [Some(5), Some(6), None]);
    assert!(world.why(ids[2]).contains("waits for funds"), "{}", world.why(ids[2]));
    world.fund(ONE * 4);
    assert_eq!(world.slot_of(ids[2]), Some(7), "it goes on by itself");
}

#[test]
fn a_dear_transaction_does_not_block_cheaper_ones() {
    let mut world = world(settings());
    world.fund(ONE * 2);
    let dear = world.submit_as(payment_with_gas(ONE * 3), Options::default());
    let cheap = world.submit();
    world.rest();
    assert_eq!((world.slot_of(dear), world.slot_of(cheap)), (None, Some(5)));
    assert_eq!(world.desk.store.tx(dear).status.state, TxState::Accepted);
}

/// The queue is counted again when less is left.
#[test]
fn those_that_cannot_be_paid_any_more_do_not_hide_those_behind_them() {
    let mut world = world(LaneSettings { max_in_flight: 1, ..settings() });
    world.fund(ONE * 10);
    world.submit();
    world.rest();
    for _ in 0..6 {
        world.submit_as(payment_with_gas(ONE * 3), Options::default());
    }
    let cheap = world.submit();
    world.rest();
    assert!(world.desk.lane.waiting.by_id(cheap).is_none(), "enough are before it");
    world.fund(ONE * 3);
    assert!(world.desk.lane.waiting.by_id(cheap).is_some());
}

#[test]
fn one_that_would_rather_fail_than_wait_fails_without_a_slot() {
    let mut world = world(settings());
    world.fund(ONE * 2);
    let options = Options { on_insufficient_funds: OnInsufficientFunds::Fail, ..Options::default() };
    let dear = world.submit_as(payment_with_gas(ONE * 3), options.clone());
    // What the balance could pay alone waits its turn, whatever else is out.
    let others: Vec<_> = (0..3).map(|_| world.submit_as(payment_with_gas(1), options.clone())).collect();
    world.rest();
    let status = &world.desk.store.tx(dear).status;
    assert_eq!((status.state, status.slot), (TxState::Failed, None));
    assert_eq!(status.reason.as_ref().map(|reason| reason.code), Some(ReasonCode::InsufficientFunds));
    assert!(others.iter().all(|id| world.desk.store.tx(*id).status.state != TxState::Failed));
}

#[test]
fn a_balance_that_is_not_known_holds_nothing_up() {
    let mut world = world(settings());
    let id = world.submit();
    world.rest();
    assert_eq!(world.slot_of(id), Some(5));
}

// covers: L9
#[test]
fn too_little_is_written_down_once_and_so_is_enough_again() {
    let low = LaneSettings { low_balance: Some(Wei(U256::from(1_000))), ..settings() };
    let mut world = world(low);
    let notes = |world: &super::World| {
        let events = world.desk.store.journal.iter().filter_map(|told| told.entry.event());
        events.filter(|event| event.starts_with("lane.")).map(str::to_owned).collect::<Vec<_>>()
    };
    for balance in [1_000u64, 500, 0] {
        world.chain.balance = Some(Wei(U256::from(balance)));
        world.block();
        world.rest();
    }
    assert_eq!(notes(&world), ["lane.low_balance"]);
    world.chain.balance = Some(Wei(U256::MAX));
    world.block();
    world.rest();
    assert_eq!(notes(&world), ["lane.low_balance", "lane.balance_restored"]);
}

#[test]
fn a_transaction_that_waits_for_funds_is_written_down_as_a_low_balance() {
    let mut world = world(settings());
    world.chain.balance = Some(Wei(U256::from(1)));
    world.block();
    world.broadcast();
    let low = |told: &&crate::journal::NewEntry| told.entry.event() == Some("lane.low_balance");
    assert_eq!(world.desk.store.journal.iter().filter(low).count(), 1);
}
