//! Comparisons after an acceptance or a resume: when they are made, and by what they go.

use super::super::test_world::{COMMANDS, payment};
use super::older::{accept, older, put_back, used};
use super::{settings, world};
use crate::TxId;
use crate::ports::store::CommandKind;
use crate::request::{OnDisplaced, Options};
use crate::settings::{LaneSettings, OnUnknownSlots};
use crate::transaction::{Terms, TxState, Whose};

#[test]
fn a_resume_ends_nothing_as_landed_before_that_is_settled() {
    let mut world = world(settings());
    used(&mut world, &payment(7));
    world.loaded_again();
    let id = world.submit_as(payment(7), Options::default());
    world.rest();
    world.command(CommandKind::Resume);
    world.rest();
    assert_eq!(world.desk.store.state(id), TxState::Accepted, "the block may be taken back");
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

#[test]
fn an_older_store_is_not_adopted_over_whatever_the_signer_says() {
    let adopts = LaneSettings { on_unknown_slots: OnUnknownSlots::Adopt, ..settings() };
    let mut world = world(adopts);
    put_back(&mut world, &payment(7));
    for _ in 0..5 {
        world.finalise();
    }
    accept(&mut world);
    for _ in 0..5 {
        world.finalise();
    }
    let late = world.submit_as(payment(7), Options::default());
    world.use_up_forgotten();
    assert!(world.desk.store.tx(late).status.may_have_landed(), "{:?}", world.desk.store.tx(late).status);
}

#[test]
fn one_that_is_queued_again_and_may_have_landed_waits() {
    let mut world = world(LaneSettings { on_displaced: OnDisplaced::Requeue, ..settings() });
    let id = world.broadcast();
    let did = world.desk.store.tx(id).payload().clone();
    world.desk.store.older = Some(older());
    world.desk.crash();
    used(&mut world, &payment(99));
    used(&mut world, &did);
    accept(&mut world);
    world.settle_strangers();
    world.said_whose(id, Whose::Foreign);
    for _ in 0..5 {
        world.finalise();
    }
    let status = world.desk.store.tx(id).status.clone();
    assert!(status.may_have_landed(), "{status:?}");
}

#[test]
fn nothing_is_compared_before_every_replace_was_read() {
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    let unwanted = world.submit_as(payment(7), Options::default());
    let others: Vec<TxId> =
        (0..COMMANDS + 10).map(|_| world.submit_as(payment(1), Options::default())).collect();
    for tx in &others {
        world.desk.store.command(CommandKind::Cancel { tx: *tx }, world.desk.now);
    }
    let kind = CommandKind::Replace { tx: unwanted, payload: Box::new(payment(9)), terms: Terms::default() };
    world.desk.store.command(kind, world.desk.now);
    for _ in 0..5 {
        world.finalise();
    }
    accept(&mut world);
    for _ in 0..10 {
        world.wait(20);
        world.finalise();
    }
    let status = world.desk.store.tx(unwanted).status.clone();
    assert!(status.may_have_landed(), "{status:?}");
}
