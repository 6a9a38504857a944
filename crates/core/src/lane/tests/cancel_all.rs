use super::super::test_world::{Fault, Step, World, payment};
use super::{Kind, settings, world};
use crate::TxId;
use crate::ports::store::CommandKind;
use crate::request::Options;
use crate::transaction::TxState;

impl World {
    fn cancel_all(&mut self) {
        let up_to = self.desk.store.txs.values().map(|tx| tx.order).max().unwrap_or_default();
        self.command(CommandKind::CancelAll { up_to });
    }
}

#[test]
fn everything_that_was_there_ends_also_what_is_in_the_store_only() {
    let mut world = world(settings());
    let out = [world.broadcast(), world.broadcast()];
    world.command(CommandKind::Pause);
    world.rest();
    // Far more than one window.
    let waiting: Vec<TxId> = (0..1_200).map(|n| world.desk.admit(payment(n), Options::default())).collect();
    world.cancel_all();
    let later = world.desk.admit(payment(1), Options::default());
    // A crash in the middle loses nothing.
    world.carry(Kind::Load, Fault::None);
    world.play(Step::Crash);
    world.show(0, true);
    world.rest();
    assert!(waiting.iter().all(|id| world.desk.store.state(*id) == TxState::Cancelled));
    world.finalise();
    assert!(out.iter().all(|id| world.desk.store.state(*id) == TxState::Cancelled));
    assert_eq!(world.desk.store.state(later), TxState::Accepted, "it came after");
    assert!(world.desk.store.commands.iter().all(|(_, done)| *done));
}

#[test]
fn what_is_mined_ends_as_the_chain_shows() {
    let mut world = world(settings());
    let mined = world.broadcast();
    world.block();
    let out = world.broadcast();
    world.cancel_all();
    world.rest();
    world.finalise();
    assert_eq!(world.desk.store.state(mined), TxState::Confirmed);
    assert_eq!(world.desk.store.state(out), TxState::Cancelled);
}
