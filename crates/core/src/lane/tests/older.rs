use super::super::test_world::{Fault, payment};
use super::{Kind, settings, world};
use crate::lane::Hold;
use crate::ports::store::{CommandKind, Older};
use crate::request::Options;
use crate::transaction::TxState;
use crate::{JournalSeq, Slot};

fn older() -> Older {
    Older::Behind { journal: JournalSeq(3), mark: JournalSeq(9) }
}

#[test]
fn an_older_store_sends_what_it_has_and_signs_nothing() {
    let mut world = world(settings());
    let sent = world.broadcast();
    let signed = world.desk.store.attempts.len();
    world.desk.store.older = Some(older());
    world.desk.crash();
    let waits = world.submit_as(payment(7), Options::default());
    let cancelled = world.submit_as(payment(8), Options::default());
    world.command(CommandKind::Cancel { tx: cancelled });
    // Stalled for long: in its right mind it would offer more.
    for _ in 0..5 {
        world.show(0, true);
        world.rest();
        world.desk.pass(120_000);
    }
    assert_eq!(world.desk.lane.hold(), Some(Hold::StoreOlder { why: older() }));
    assert_eq!(world.desk.store.attempts.len(), signed, "no slot, no bump, no no-op");
    assert_eq!(world.desk.store.state(waits), TxState::Accepted);
    assert_eq!(world.desk.store.state(cancelled), TxState::Accepted, "it may have landed");
    // What was signed before lands, and that counts.
    world.finalise();
    assert_eq!(world.desk.store.state(sent), TxState::Confirmed);
    assert_eq!(world.desk.store.attempts.len(), signed);

    world.desk.store.older = None;
    world.command(CommandKind::AcceptStore);
    world.rest();
    world.show(0, true);
    world.rest();
    assert_eq!(world.desk.lane.hold(), None);
    assert_eq!(world.desk.store.state(cancelled), TxState::Cancelled, "commands were left where they are");
    world.finalise();
    assert_eq!(world.desk.store.state(waits), TxState::Confirmed);
}

#[test]
fn an_accepted_store_holds_where_the_chain_has_slots_that_it_does_not_know() {
    let mut world = world(settings());
    world.desk.store.older = Some(older());
    world.desk.crash();
    let waits = world.submit_as(payment(7), Options::default());
    let now = world.desk.now;
    world.chain.mine_foreign(now);
    world.desk.store.older = None;
    world.command(CommandKind::AcceptStore);
    world.rest();
    world.show(0, true);
    world.rest();
    let hold = world.desk.lane.hold();
    assert!(matches!(hold, Some(Hold::UnknownSlots { first: Slot(5), .. })), "{hold:?}");
    assert_eq!(world.desk.store.state(waits), TxState::Accepted);
}

#[test]
fn a_lane_that_the_older_copy_never_used_does_not_begin_at_the_chains_count() {
    let mut world = world(settings());
    world.desk.store.row = crate::ports::store::LaneRow::default();
    world.desk.store.older = Some(older());
    world.desk.crash();
    world.submit_as(payment(7), Options::default());
    world.show(0, true);
    world.carry(Kind::Load, Fault::None);
    assert_eq!(world.desk.store.row.cursor, None);
    world.desk.store.older = None;
    world.command(CommandKind::AcceptStore);
    world.rest();
    assert!(matches!(world.desk.lane.hold(), Some(Hold::UnknownSlots { first: Slot(0), last: Slot(4), .. })));
    assert!(world.desk.store.attempts.is_empty());
}
