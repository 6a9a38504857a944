use alloy_primitives::U256;

use super::super::test_world::{Fault, World, payment, payment_with_gas};
use super::{Kind, remote, settings, world};
use crate::journal::Entry;
use crate::outcome::SendOutcome;
use crate::ports::store::CommandKind;
use crate::request::{Options, Payload};
use crate::settings::LaneSettings;
use crate::transaction::{Terms, TxState};
use crate::{ContentVersion, Price, TxId, Wei};

impl World {
    pub(super) fn replace_with(&mut self, tx: TxId, payload: Payload, terms: Terms) {
        self.command(CommandKind::Replace { tx, payload: Box::new(payload), terms });
        self.carry(Kind::Load, Fault::None);
    }

    pub(super) fn replace(&mut self, tx: TxId, value: u64) {
        self.replace_with(tx, payment_with_gas(value), Terms::default());
    }

    /// The value that the chain took in this slot.
    fn landed_value(&self, slot: u64) -> Wei {
        let (_, winner) = self.chain.winner(crate::Slot(slot)).expect("the slot is used");
        winner.draft.as_ref().expect("it is ours").call.value
    }

    fn won(&self, id: TxId) -> Option<u32> {
        self.desk.store.tx(id).status.won.as_ref().map(|won| won.version.0)
    }
}

fn wei(value: u64) -> Wei {
    Wei(U256::from(value))
}

fn approval() -> LaneSettings {
    LaneSettings { approve_above: Some(wei(100)), ..settings() }
}

#[test]
fn before_any_bytes_the_new_content_takes_the_old_ones_place() {
    let stages: [(&str, LaneSettings, &[Kind]); 4] = [
        ("not loaded", settings(), &[]),
        ("being estimated", settings(), &[Kind::Load]),
        ("being signed", settings(), &[Kind::Load, Kind::Prepare]),
        ("reserved", remote(), &[Kind::Load, Kind::Prepare]),
    ];
    for (stage, settings, done) in stages {
        let mut world = world(settings);
        let id = world.submit_as(payment(1), Options::default());
        for kind in done {
            world.carry(*kind, Fault::None);
        }
        let (loads, under_way): (Vec<_>, Vec<_>) = std::mem::take(&mut world.started)
            .into_iter()
            .partition(|action| super::kind(action) == Kind::Load);
        world.started = loads;
        world.command(CommandKind::Replace {
            tx: id,
            payload: Box::new(payment(7)),
            terms: Terms::default(),
        });
        world.carry(Kind::Load, Fault::None);
        // Answers about the old content come late, and say nothing.
        for action in under_way {
            let late = world.act(action, &Fault::None);
            world.turn(vec![late]);
        }
        world.rest();
        world.finalise();
        assert_eq!(world.desk.store.state(id), TxState::Confirmed, "{stage}");
        assert_eq!((world.landed_value(5), world.won(id)), (wei(7), Some(2)), "{stage}");
        assert_eq!(world.attempts(5).len(), 1, "{stage}: the old content was never signed");
    }
}

#[test]
fn with_stored_bytes_the_new_content_goes_into_the_same_slot_above_every_attempt() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.replace(id, 7);
    world.rest();
    let made = world.attempts(5);
    assert_eq!(made.iter().map(|a| a.version.0).collect::<Vec<_>>(), [1, 2]);
    assert!(made[1].fees.cap().0 * 100 >= made[0].fees.cap().0 * 110);
    world.finalise();
    assert_eq!((world.desk.store.state(id), world.won(id)), (TxState::Confirmed, Some(2)));
    assert_eq!(world.landed_value(5), wei(7));
}

#[test]
fn an_older_content_that_won_is_what_counts_and_the_journal_says_so() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.block();
    world.replace(id, 7);
    world.finalise();
    assert_eq!((world.desk.store.state(id), world.won(id)), (TxState::Confirmed, Some(1)));
    assert_eq!(world.landed_value(5), wei(1));
    let late = Entry::EarlierWon { won: ContentVersion(1), newest: ContentVersion(2) };
    assert_eq!(world.told(id, |entry| *entry == late), 1);
}

#[test]
fn a_reorg_that_gives_the_slot_back_lets_the_new_content_in() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.block();
    world.replace(id, 7);
    world.chain.reorg(1, false, 1, world.desk.now);
    world.show(0, true);
    world.calm_down(20);
    assert_eq!((world.won(id), world.landed_value(5)), (Some(2), wei(7)));
}

#[test]
fn while_the_new_content_is_checked_the_old_one_is_sent_and_not_made_dearer() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.replace_with(id, payment(7), Terms::default());
    // The estimate does not come, and the slot stalls.
    let _lost = world.take(Kind::Prepare);
    world.wait(61_000);
    assert!(world.started(Kind::Send), "the old bytes go on");
    assert!(!world.started(Kind::Sign), "and are not re-priced");
    world.say(SendOutcome::Underpriced);
    world.wait(61_000);
    assert!(!world.started(Kind::Sign));
    let why = world.desk.lane.explain(id, world.desk.now).unwrap();
    assert!(why.contains("version 2 is being checked"), "{why}");
}

#[test]
fn a_new_content_that_would_revert_is_dropped_and_the_old_one_goes_on() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.replace_with(id, payment(7), Terms::default());
    world.carry(Kind::Prepare, Fault::Never);
    world.show(0, true);
    world.carry(Kind::Prepare, Fault::Never);
    assert_eq!(world.told(id, dropped), 1);
    world.finalise();
    assert_eq!((world.desk.store.state(id), world.won(id)), (TxState::Confirmed, Some(1)));
    assert!(world.desk.lane.doubts.is_empty());
}

fn dropped(entry: &Entry) -> bool {
    matches!(entry, Entry::ReplaceDropped { .. })
}

#[test]
fn a_new_content_is_not_dropped_for_one_estimate_nor_for_two_before_the_newest_head_was_known() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.replace_with(id, payment(7), Terms::default());
    world.carry(Kind::Prepare, Fault::Never);
    assert_eq!(world.desk.wants, crate::lane::Wants::Anew);
    // The chain cannot be reached for a while, and another estimate is asked for meanwhile.
    world.wait(5_000);
    world.show(0, true);
    world.carry(Kind::Prepare, Fault::Never);
    assert_eq!(world.told(id, dropped), 0, "this one began before the head was known");
    let why = world.desk.lane.explain(id, world.desk.now).unwrap();
    assert!(why.contains("version 2 could not be checked"), "{why}");
    world.show(0, true);
    assert!(world.started(Kind::Prepare), "at once when it is known");
    world.rest();
    world.finalise();
    assert_eq!((world.won(id), world.landed_value(5)), (Some(2), wei(7)), "the node was behind");
}

#[test]
fn a_no_to_one_content_says_nothing_about_the_next_one() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.replace_with(id, payment(7), Terms::default());
    world.carry(Kind::Prepare, Fault::Never);
    world.show(0, true);
    // The head is known; the content is another one before the second estimate has come.
    let late = world.take(Kind::Prepare);
    world.replace_with(id, payment(8), Terms::default());
    let late = world.act(late, &Fault::Never);
    world.turn(vec![late]);
    world.carry(Kind::Prepare, Fault::Never);
    assert_eq!(world.told(id, dropped), 0, "the first no to it");
    world.rest();
    world.finalise();
    assert_eq!(world.landed_value(5), wei(8));
}

#[test]
fn a_new_content_above_the_limit_needs_its_own_yes_also_after_a_crash() {
    let mut world = world(approval());
    let id = world.broadcast();
    world.replace(id, 1_000);
    world.rest();
    assert_eq!(world.attempts(5).len(), 1, "nothing is signed before the yes");
    let why = world.desk.lane.explain(id, world.desk.now).unwrap();
    assert!(why.contains("version 2 waits for a person"), "{why}");
    world.play(super::super::test_world::Step::Crash);
    world.show(0, true);
    world.rest();
    assert_eq!(world.attempts(5).len(), 1);
    let yes =
        |version| CommandKind::Approve { tx: id, version: Some(ContentVersion(version)), held_for: None };
    world.command(yes(1));
    world.rest();
    assert_eq!(world.attempts(5).len(), 1, "a yes to another content is none");
    world.command(yes(2));
    world.rest();
    assert_eq!(world.attempts(5).len(), 2);
    world.finalise();
    assert_eq!(world.won(id), Some(2));
}

#[test]
fn a_no_to_a_new_content_leaves_the_old_one() {
    let mut world = world(approval());
    let id = world.broadcast();
    world.replace(id, 1_000);
    world.rest();
    world.command(CommandKind::Reject { tx: id, version: None, held_for: None });
    world.rest();
    world.finalise();
    assert_eq!((world.desk.store.state(id), world.won(id)), (TxState::Confirmed, Some(1)));
}

#[test]
fn what_was_approved_before_is_not_approved_in_its_new_form() {
    let mut world = world(approval());
    let id = world.submit_as(payment(1_000), Options::default());
    world.rest();
    assert_eq!(world.desk.store.state(id), TxState::AwaitingApproval);
    world.replace(id, 2_000);
    world.rest();
    assert_eq!(world.desk.store.state(id), TxState::AwaitingApproval);
    world.command(CommandKind::Approve { tx: id, version: Some(ContentVersion(1)), held_for: None });
    world.rest();
    assert_eq!(world.desk.store.state(id), TxState::AwaitingApproval, "the yes was to the first content");
}

#[test]
fn a_cancel_after_a_replace_wins_over_both_and_a_replace_after_a_cancel_does_nothing() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.replace(id, 7);
    world.rest();
    world.cancel(id);
    world.rest();
    world.replace(id, 8);
    world.rest();
    assert_eq!(world.attempts(5).iter().map(|a| a.version.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(world.told(id, |entry| matches!(entry, Entry::ReplaceDropped { .. })), 1);
    world.finalise();
    assert_eq!((world.desk.store.state(id), world.won(id)), (TxState::Cancelled, Some(3)));
}

#[test]
fn a_new_content_that_cannot_beat_the_old_one_says_so_and_goes_out_when_its_ceiling_rises() {
    let mut world = world(settings());
    let options = Options { max_fee_per_gas: Some(Price::gwei(3)), ..Options::default() };
    let id = world.submit_as(payment_with_gas(1), options);
    world.rest();
    let terms = Terms { max_fee_per_gas: Some(Price::gwei(2)), ..Terms::default() };
    world.replace_with(id, payment_with_gas(7), terms);
    world.rest();
    assert_eq!(world.attempts(5).len(), 1);
    let why = world.desk.lane.explain(id, world.desk.now).unwrap();
    assert!(why.contains("more than its ceiling"), "{why}");
    let terms = Terms { max_fee_per_gas: Some(Price::gwei(40)), ..Terms::default() };
    world.replace_with(id, payment_with_gas(8), terms);
    world.rest();
    world.finalise();
    assert_eq!((world.won(id), world.landed_value(5)), (Some(3), wei(8)));
}

#[test]
fn contents_are_bounded() {
    let mut world = world(settings());
    let id = world.broadcast();
    for value in 0..20 {
        world.replace(id, 100 + value);
        world.rest();
    }
    assert_eq!(world.desk.store.tx(id).version(), ContentVersion(crate::lane::MOST_CONTENTS));
    world.calm_down(20);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

#[test]
fn a_verdict_on_the_old_content_does_not_end_the_new_one() {
    let mut world = world(settings());
    let id = world.broadcast();
    let old = world.attempts(5)[0].clone();
    world.replace(id, 7);
    world.turn(vec![super::sent(&old, SendOutcome::Invalid)]);
    world.rest();
    world.turn(vec![super::sent(&old, SendOutcome::Reverted)]);
    world.rest();
    world.finalise();
    assert_eq!((world.desk.store.state(id), world.won(id)), (TxState::Confirmed, Some(2)));
}

#[test]
fn a_stranger_that_does_what_an_older_content_does_is_no_stranger() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.replace(id, 7);
    world.rest();
    world.play(super::super::test_world::Step::Foreign);
    for _ in 0..2 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.show(0, true);
    let slot = crate::Slot(5);
    let block = world.chain.winner(slot).expect("the stranger's").0.at;
    let first = payment_with_gas(1);
    let taker = crate::ports::chain::Taker {
        hash: crate::TxHash(alloy_primitives::B256::repeat_byte(9)),
        to: first.to,
        value: first.value,
        data: first.data,
        authorizations: Vec::new(),
        receipt: None,
    };
    world.turn(vec![crate::lane::LaneEvent::Foreign { slot, block, taker: Some(taker) }]);
    assert!(!world.desk.store.state(id).is_terminal());
    let why = world.desk.lane.explain(id, world.desk.now).unwrap();
    assert!(why.contains("say whose it was"), "{why}");
}
