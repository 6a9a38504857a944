use super::super::test_world::{Fault, Step, World};
use super::{Kind, remote, settings, world};
use crate::Slot;
use crate::journal::Entry;
use crate::ports::store::CommandKind;
use crate::transaction::TxState;

impl World {
    fn fill(&mut self, from: u64, to: u64) {
        self.command(CommandKind::Fill { from: Slot(from), to: Slot(to) });
        self.carry(Kind::Load, Fault::None);
    }

    fn done(&self) -> bool {
        self.desk.store.commands.iter().all(|(_, done)| *done)
    }
}

#[test]
fn free_slots_get_no_ops_before_anything_else_does() {
    for settings in [settings(), remote()] {
        let mut world = world(settings);
        world.fill(5, 7);
        let id = world.submit();
        world.rest();
        for slot in 5..=7 {
            let made = world.attempts(slot);
            assert!(made.len() == 1 && made[0].no_op && made[0].tx.is_none(), "slot {slot}");
        }
        assert!(world.done());
        assert_eq!(world.slot_of(id), Some(8));
        world.calm_down(20);
    }
}

#[test]
fn slots_in_use_are_never_filled() {
    let mut world = world(settings());
    let ids = [world.broadcast(), world.broadcast()];
    world.fill(5, 7);
    world.rest();
    assert!(world.attempts(5).iter().chain(&world.attempts(6)).all(|attempt| !attempt.no_op));
    assert!(world.attempts(7)[0].no_op);
    assert!(world.done());
    world.finalise();
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
}

#[test]
fn a_fill_outlives_a_crash_and_works_in_a_pause() {
    let mut world = world(settings());
    world.command(CommandKind::Pause);
    world.rest();
    world.fill(5, 6);
    world.play(Step::Crash);
    assert!(!world.done());
    world.show(0, true);
    world.rest();
    assert!(world.done());
    world.finalise();
    assert_eq!(world.chain.count(), Slot(7));
}

#[test]
fn a_range_that_would_leave_a_hole_is_refused_in_words() {
    let mut world = world(settings());
    world.fill(7, 8);
    world.rest();
    assert!(world.done() && world.desk.store.attempts.is_empty());
    let said = world.desk.store.journal.iter().any(|new| match &new.entry {
        Entry::LaneFilled { text } => text.contains("a hole would be left"),
        _ => false,
    });
    assert!(said);
}

#[test]
fn slots_that_the_chain_has_used_are_done() {
    let mut world = world(settings());
    world.broadcast();
    world.finalise();
    world.fill(0, 5);
    world.rest();
    assert!(world.done());
    assert_eq!(world.desk.store.attempts.len(), 1);
}
