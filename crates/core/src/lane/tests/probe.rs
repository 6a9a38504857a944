use super::super::test_world::Fault;
use super::{Kind, World, settings, world};
use crate::lane::{Action, LaneEvent, Pooled};
use crate::outcome::SendOutcome;
use crate::transaction::TxState;
use crate::{Millis, Slot};

impl World {
    /// Waits until the pool is asked for something, and says after how long.
    fn until_probed(&mut self) -> (u64, Vec<(Slot, crate::TxHash)>) {
        for waited in 1..2_000 {
            self.wait(100);
            if self.started(Kind::Send) {
                panic!("sent again after {} ms without a look at the pool", waited * 100);
            }
            if self.started(Kind::Probe) {
                let Action::Probe(wanted) = self.take(Kind::Probe) else { unreachable!() };
                return (waited * 100, wanted);
            }
        }
        panic!("the pool was not asked");
    }

    pub(super) fn pool_says(&mut self, wanted: &[(Slot, crate::TxHash)], shown: Option<bool>) {
        let answers = wanted.iter().map(|&(slot, hash)| Pooled { slot, hash, shown }).collect();
        self.turn(vec![LaneEvent::Pooled(answers)]);
    }
}

// covers: C5, C7, E4
#[test]
fn what_a_node_took_and_does_not_show_is_sent_again_at_once_with_the_same_bytes() {
    let mut world = world(settings());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    world.carry(Kind::Send, Fault::Silent);
    assert!(world.chain.pool.is_empty(), "the node said yes and kept nothing");
    let (after, wanted) = world.until_probed();
    assert!(after <= 2_000, "long before the resubmit interval of a minute, not after {after} ms");
    assert_eq!(wanted.len(), 1);
    world.pool_says(&wanted, Some(false));
    let Action::Send(again) = world.take(Kind::Send) else { unreachable!() };
    assert_eq!(again[0].sealed.raw, world.attempts(5)[0].raw);
    let answer = world.act(Action::Send(again), &Fault::None);
    world.turn(vec![answer]);
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert_eq!(world.attempts(5).len(), 1, "nothing was signed anew");
}

#[test]
fn looks_at_the_pool_get_rarer_and_end_at_the_resubmit_interval() {
    let mut world = world(settings());
    world.broadcast();
    let mut pauses = Vec::new();
    let begun = world.desk.now;
    while world.desk.now < Millis(begun.0 + 57_000) {
        world.wait(100);
        if world.started(Kind::Probe) {
            pauses.push(world.desk.now.0 - begun.0);
            world.carry(Kind::Probe, Fault::None);
        }
        assert!(!world.started(Kind::Send), "what the pool shows is left alone");
    }
    assert!((3..=6).contains(&pauses.len()), "{pauses:?}");
    assert!(pauses.windows(3).all(|at| at[2] - at[1] > at[1] - at[0]), "{pauses:?}");
}

#[test]
fn only_the_lowest_open_slots_are_looked_up_in_one_question() {
    let mut world = world(crate::settings::LaneSettings { max_in_flight: 12, ..settings() });
    for _ in 0..12 {
        world.submit();
    }
    world.rest();
    let (_, wanted) = world.until_probed();
    let slots: Vec<u64> = wanted.iter().map(|(slot, _)| slot.0).collect();
    assert_eq!(slots, [5, 6, 7, 8]);
    assert!(!world.started(Kind::Probe), "one at a time");
}

#[test]
fn a_pool_that_cannot_be_asked_says_nothing_and_one_that_never_shows_it_costs_little() {
    let mut world = world(settings());
    world.broadcast();
    let (_, wanted) = world.until_probed();
    world.pool_says(&wanted, None);
    assert!(!world.started(Kind::Send));
    let mut sends = 0;
    for _ in 0..600 {
        world.wait(100);
        if world.started(Kind::Probe) {
            let Action::Probe(wanted) = world.take(Kind::Probe) else { unreachable!() };
            world.pool_says(&wanted, Some(false));
        }
        if world.started(Kind::Send) {
            sends += 1;
            world.say(SendOutcome::AlreadyKnown);
        }
    }
    assert!((2..=6).contains(&sends), "{sends} sends in a minute");
}

#[test]
fn an_answer_about_older_bytes_changes_nothing_for_the_newer_ones() {
    let mut world = world(settings());
    world.broadcast();
    let (_, wanted) = world.until_probed();
    let send_at = world.desk.lane.slots[&Slot(5)].work.send_at;
    let other = [(Slot(5), crate::TxHash(alloy_primitives::B256::ZERO)), (Slot(99), wanted[0].1)];
    world.pool_says(&other, Some(false));
    assert_eq!(world.desk.lane.slots[&Slot(5)].work.send_at, send_at);
    assert!(!world.started(Kind::Send));
}
