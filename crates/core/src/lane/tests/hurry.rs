use super::super::test_world::{Fault, Step, World};
use super::{Kind, settings, world};
use crate::Price;
use crate::TxId;
use crate::journal::Entry;
use crate::ports::store::CommandKind;
use crate::request::{AskedFees, Speed};
use crate::transaction::TxState;

impl World {
    pub(super) fn speed_up(&mut self, tx: TxId, gwei: Option<u64>, speed: Option<Speed>) {
        let fees = gwei.map_or(AskedFees::Market, |gwei| AskedFees::Dynamic {
            max_fee: Some(Price::gwei(gwei)),
            tip: None,
        });
        self.command(CommandKind::SpeedUp { tx, fees, speed });
        self.carry(Kind::Load, Fault::None);
    }

    fn caps(&self, slot: u64) -> Vec<u128> {
        self.attempts(slot).iter().map(|attempt| attempt.fees.cap().0).collect()
    }
}

#[test]
fn a_speed_up_makes_one_dearer_attempt_by_the_pools_rule_in_any_open_slot() {
    let mut world = world(settings());
    let (low, high) = (world.broadcast(), world.broadcast());
    world.speed_up(high, None, None);
    world.rest();
    assert_eq!((world.caps(5).len(), world.caps(6).len()), (1, 2));
    let caps = world.caps(6);
    assert!(caps[1] * 100 >= caps[0] * 110, "{caps:?}");
    world.wait(1_000);
    world.rest();
    assert_eq!(world.caps(6).len(), 2, "once");
    world.finalise();
    assert_eq!(world.desk.store.state(low), TxState::Confirmed);
    assert_eq!(world.desk.store.state(high), TxState::Confirmed);
}

#[test]
fn the_price_that_is_asked_for_is_offered_up_to_the_ceiling() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.speed_up(id, Some(20), None);
    world.rest();
    assert_eq!(world.caps(5)[1], Price::gwei(20).0);
    world.speed_up(id, Some(1_000), None);
    world.rest();
    let top = crate::fees::content_ceiling(Price::gwei(50), 10).0;
    assert_eq!(world.caps(5)[2], top, "a cancel still fits");
    world.speed_up(id, None, None);
    world.rest();
    assert_eq!(world.caps(5).len(), 3);
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::AtCeiling { .. })), 1);
    world.cancel(id);
    world.rest();
    assert!(world.attempts(5)[3].no_op);
}

#[test]
fn a_wish_outlives_a_crash_and_is_fulfilled_once() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.speed_up(id, Some(20), None);
    let _lost = world.take(Kind::Sign);
    world.play(Step::Crash);
    world.show(0, true);
    world.rest();
    assert_eq!(world.caps(5)[1..], [Price::gwei(20).0]);
    world.play(Step::Crash);
    world.show(0, true);
    world.rest();
    assert_eq!(world.caps(5).len(), 2);
}

#[test]
fn a_waiting_transaction_starts_at_the_new_price() {
    let mut world = world(settings());
    world.command(CommandKind::Pause);
    world.rest();
    let id = world.submit();
    world.rest();
    world.speed_up(id, Some(20), Some(Speed::Fast));
    world.command(CommandKind::Resume);
    world.rest();
    assert_eq!(world.caps(5), [Price::gwei(20).0]);
    assert_eq!(world.desk.store.tx(id).speed(), Speed::Fast);
}

#[test]
fn a_no_op_is_sped_up_as_well() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.cancel(id);
    world.rest();
    world.speed_up(id, None, None);
    world.rest();
    let made = world.attempts(5);
    assert!(made.len() == 3 && made[2].no_op);
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Cancelled);
}

#[test]
fn what_is_mined_is_not_sped_up() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.block();
    world.speed_up(id, Some(20), None);
    world.finalise();
    assert_eq!(world.caps(5).len(), 1);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}
