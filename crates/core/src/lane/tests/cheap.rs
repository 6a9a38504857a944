//! A node that calls bytes too cheap is believed where nobody can have them, and makes the lowest slot dearer.

use super::super::test_world::{Fault, Step, World};
use super::{Kind, settings, world};
use crate::TxId;
use crate::lane::Action;
use crate::outcome::SendOutcome::{
    self, FeeBelowBase, PoolFull, ReplacementUnderpriced, Underpriced, Unknown,
};
use crate::transaction::TxState;

const CHEAP: [SendOutcome; 3] = [ReplacementUnderpriced, Underpriced, FeeBelowBase];

impl World {
    /// Signed, and about to be sent for the first time.
    fn about_to_be_sent(&mut self) -> TxId {
        let id = self.submit();
        while !self.started(Kind::Send) {
            let next = if self.started(Kind::Load) { Kind::Load } else { Kind::Sign };
            self.carry(next, Fault::None);
        }
        id
    }

    /// So many attempts of each slot.
    fn made(&self, slots: std::ops::Range<u64>) -> Vec<usize> {
        slots.map(|slot| self.attempts(slot).len()).collect()
    }

    /// The pool is asked for the lowest slots, and says what it has.
    fn probe(&mut self) {
        assert!(!self.started(Kind::Sign), "it is looked up first");
        self.carry(Kind::Probe, Fault::None);
    }

    /// So long every send is answered like this, taken or not, and every look at the pool as it is.
    fn say_for(&mut self, seconds: u64, outcome: SendOutcome) {
        for _ in 0..seconds {
            while self.started(Kind::Send) {
                self.say(outcome);
            }
            while self.started(Kind::Probe) {
                self.carry(Kind::Probe, Fault::None);
            }
            self.wait(1_000);
        }
    }
}

#[test]
fn bytes_that_the_pools_show_are_not_made_dearer_by_a_node_that_calls_them_too_cheap() {
    for outcome in CHEAP {
        let mut world = world(settings());
        let ids: Vec<_> = (0..4).map(|_| world.broadcast()).collect();
        // The chain stands still, so nothing is slow.
        world.say_for(600, outcome);
        assert_eq!(world.made(5..9), [1, 1, 1, 1], "{outcome:?}");
        let sends = world.attempts(5)[0].hints.sends;
        assert!((8..=30).contains(&sends), "{outcome:?}: {sends} sends in ten minutes");
        world.finalise();
        assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
    }
}

/// An endpoint that shows nothing of its pool, and says of what it has that it is too cheap to replace itself.
#[test]
fn bytes_that_a_node_has_taken_replace_nothing_but_themselves_also_where_no_pool_shows_them() {
    let mut world = world(settings());
    world.broadcast();
    world.broadcast();
    for _ in 0..600 {
        while world.started(Kind::Send) {
            world.say(ReplacementUnderpriced);
        }
        if world.started(Kind::Probe) {
            let Action::Probe(wanted) = world.take(Kind::Probe) else { unreachable!() };
            world.pool_says(&wanted, Some(false));
        }
        world.wait(1_000);
    }
    assert_eq!(world.made(5..7), [1, 1]);
    let sends = world.attempts(5)[0].hints.sends;
    assert!((8..=30).contains(&sends), "{sends} sends in ten minutes");
    // As slow as any other.
    world.stall();
    world.rest();
    assert_eq!(world.made(5..7), [2, 1]);
}

#[test]
fn bytes_that_a_node_may_have_are_looked_up_before_they_are_made_dearer() {
    for outcome in CHEAP {
        for (taken, luck) in [(true, Fault::AnswerLost), (false, Fault::NotDone)] {
            let mut world = world(settings());
            let id = world.about_to_be_sent();
            world.carry(Kind::Send, luck);
            world.wait(250);
            world.say(outcome);
            world.probe();
            assert_eq!(world.started(Kind::Sign), !taken, "{outcome:?}");
            world.rest();
            assert_eq!(world.made(5..6), [if taken { 1 } else { 2 }], "{outcome:?}");
            world.finalise();
            assert_eq!(world.desk.store.state(id), TxState::Confirmed);
        }
    }
}

#[test]
fn after_a_crash_nobody_knows_who_has_the_bytes_so_they_are_looked_up() {
    for taken in [true, false] {
        let mut world = world(settings());
        world.about_to_be_sent();
        if taken {
            world.carry(Kind::Send, Fault::None);
        }
        world.play(Step::Crash);
        world.show(0, true);
        world.say(Underpriced);
        world.probe();
        assert_eq!(world.started(Kind::Sign), !taken);
    }
}

#[test]
fn a_refusal_for_another_reason_does_not_make_bytes_new_again() {
    let mut world = world(settings());
    world.about_to_be_sent();
    world.say(PoolFull);
    world.wait(250);
    world.say(Underpriced);
    world.probe();
    assert!(world.started(Kind::Sign), "nobody shows them");
}

#[test]
fn a_pool_that_cannot_be_asked_makes_nothing_dearer_and_is_asked_again() {
    let mut world = world(settings());
    let id = world.about_to_be_sent();
    world.say(Unknown);
    let mut asked = 0;
    for _ in 0..120 {
        while world.started(Kind::Send) {
            world.say(Underpriced);
        }
        while world.started(Kind::Probe) {
            asked += 1;
            world.carry(Kind::Probe, Fault::NotDone);
        }
        assert!(!world.started(Kind::Sign));
        world.wait(1_000);
    }
    assert!((5..40).contains(&asked), "{asked}");
    let said = world.desk.lane.explain(id, world.desk.now).unwrap();
    assert!(said.contains("being looked up"), "{said}");
    while !world.started(Kind::Probe) {
        world.wait(1_000);
        if world.started(Kind::Send) {
            world.say(Underpriced);
        }
    }
    world.probe();
    assert!(world.started(Kind::Sign));
}

#[test]
fn one_above_the_lowest_that_is_too_cheap_goes_on_being_sent_and_is_re_priced_when_it_is_the_lowest() {
    let mut world = world(settings());
    let ids = [world.broadcast(), world.about_to_be_sent(), world.about_to_be_sent_too()];
    world.say_for(60, Underpriced);
    assert_eq!(world.made(5..8), [1, 1, 1], "none above the lowest can land first");
    assert!(world.attempts(6)[0].hints.sends > 5 && world.attempts(7)[0].hints.sends > 5);
    world.started.clear();
    world.block();
    assert_eq!(world.drafts().iter().map(|draft| draft.slot.0).collect::<Vec<_>>(), [6], "now it is");
    world.play(Step::Crash);
    world.show(0, true);
    world.calm_down(40);
    assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Confirmed));
}

impl World {
    /// Signed; the one before it is in no pool.
    fn about_to_be_sent_too(&mut self) -> TxId {
        let id = self.submit();
        while self.attempts(7).is_empty() {
            let next = if self.started(Kind::Load) { Kind::Load } else { Kind::Sign };
            self.carry(next, Fault::None);
        }
        id
    }
}

#[test]
fn one_that_a_node_has_taken_since_it_was_refused_is_not_re_priced_when_it_is_the_lowest() {
    let mut world = world(settings());
    world.broadcast();
    world.about_to_be_sent();
    world.say(Underpriced);
    world.wait(250);
    world.carry(Kind::Send, Fault::None);
    world.chain.mine(1, true, world.desk.now);
    world.show(0, true);
    assert!(!world.started(Kind::Sign));
    assert_eq!(world.made(5..7), [1, 1]);
}

/// It could land in the same block as those below it, and its caller does not want that.
#[test]
fn what_is_to_replace_an_older_content_is_re_priced_wherever_it_stands() {
    for cancel in [true, false] {
        let mut world = world(settings());
        world.broadcast();
        let id = world.broadcast();
        if cancel {
            world.cancel(id);
        } else {
            world.replace(id, 7);
        }
        while !world.started(Kind::Send) {
            let kind = if world.started(Kind::Prepare) { Kind::Prepare } else { Kind::Sign };
            world.carry(kind, Fault::None);
        }
        world.say(ReplacementUnderpriced);
        let drafts = world.drafts();
        assert_eq!((drafts[0].slot.0, drafts[0].no_op), (6, cancel));
    }
}

#[test]
fn a_block_is_proof_that_the_price_was_right() {
    let mut world = world(settings());
    let id = world.about_to_be_sent();
    // A signer that is slow, and a node that has it all the same.
    world.carry(Kind::Send, Fault::Says { outcome: Underpriced, taken: true });
    world.carry(Kind::Sign, Fault::NotDone);
    world.block();
    world.chain.reorg(1, true, 1, world.desk.now);
    world.show(0, true);
    world.wait(2_000);
    assert!(!world.started(Kind::Sign), "{:?}", world.started);
    world.rest();
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}
