//! An accepted store: what it goes by, what it remembers, and what a person's word does.

use super::super::test_world::{COMMANDS, payment};
use super::delegate::delegating;
use super::older::{accept, older, put_back, used};
use super::{World, settings, world};
use crate::journal::Entry;
use crate::lane::compare::MOST_REMEMBERED;
use crate::lane::{Hold, LaneEvent};
use crate::ports::chain::Taker;
use crate::ports::store::CommandKind;
use crate::request::{Authorization, OnDisplaced, Options, Payload, SignedAuthorization};
use crate::settings::LaneSettings;
use crate::transaction::{ReasonCode, Terms, TxState, Whose};
use crate::{Account, Slot, TxId};

fn stale_head(world: &mut World) {
    let mut view = world.chain.view(0);
    let known = world.desk.lane.account().copied().expect("the account was seen");
    view.accounts.insert(super::super::test_world::LANE.signer, known);
    world.turn(vec![LaneEvent::Chain { view: std::sync::Arc::new(view), receipts: Vec::new() }]);
}

#[test]
fn an_acceptance_waits_for_a_count_of_the_head() {
    let mut world = world(settings());
    world.desk.store.older = Some(older());
    world.desk.crash();
    world.show(0, true);
    world.rest();
    used(&mut world, &payment(7));
    stale_head(&mut world);
    world.desk.store.older = None;
    world.desk.wants = crate::lane::Wants::Nothing;
    world.command(CommandKind::AcceptStore { seen: None });
    while !world.started.is_empty() {
        world.settle();
    }
    assert!(matches!(world.desk.lane.hold(), Some(Hold::StoreOlder { .. })), "the count is of an older head");
    assert_eq!(world.desk.wants, crate::lane::Wants::Head);
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(world.desk.lane.hold(), None);
    let late = world.submit_as(payment(7), Options::default());
    world.rest();
    assert_eq!(world.slot_of(late), None, "it may have landed");
}

#[test]
fn a_resume_waits_for_a_count_of_the_head() {
    let mut world = world(settings());
    used(&mut world, &payment(8));
    world.loaded_again();
    world.rest();
    assert!(
        matches!(world.desk.lane.hold(), Some(Hold::UnknownSlots { .. })),
        "{:?}",
        world.desk.lane.hold()
    );
    used(&mut world, &payment(7));
    stale_head(&mut world);
    world.desk.wants = crate::lane::Wants::Nothing;
    world.command(CommandKind::Resume);
    while !world.started.is_empty() {
        world.settle();
    }
    assert_eq!(world.desk.wants, crate::lane::Wants::Head);
    assert_eq!(world.desk.store.row.cursor, Some(Slot(5)), "nothing is passed over by an older count");
}

pub(super) fn never_used() -> World {
    let mut world = world(settings());
    world.chain.first = Slot(0);
    world.desk.store.row = crate::ports::store::LaneRow::default();
    world.desk.store.older = Some(older());
    world.desk.crash();
    used(&mut world, &payment(7));
    world
}

#[test]
fn what_a_lane_that_was_never_used_holds_is_remembered() {
    let mut world = never_used();
    let like_it = world.submit_as(payment(7), Options::default());
    accept(&mut world);
    for _ in 0..5 {
        world.finalise();
    }
    assert_eq!(world.desk.lane.hold(), None);
    assert!(world.desk.store.tx(like_it).status.may_have_landed());
    world.command(CommandKind::Cancel { tx: like_it });
    world.rest();
    let again = world.submit_as(payment(7), Options::default());
    world.rest();
    assert_eq!(world.slot_of(again), None, "it may have landed");
}

/// Unreadable slots below: the lane was never used all the same.
#[test]
fn a_lane_that_was_never_used_ends_nothing_also_where_some_slots_cannot_be_read() {
    let mut world = world(settings());
    world.desk.store.row = crate::ports::store::LaneRow::default();
    world.desk.store.older = Some(older());
    world.desk.crash();
    used(&mut world, &payment(7));
    let like_it = world.submit_as(payment(7), Options::default());
    world.show(0, true);
    world.rest();
    accept(&mut world);
    for _ in 0..12 {
        world.finalise();
        world.wait(30_000);
        world.rest();
    }
    world.command(CommandKind::Resume);
    for _ in 0..3 {
        world.finalise();
    }
    let status = &world.desk.store.tx(like_it).status;
    assert!(status.may_have_landed() && !status.state.is_terminal(), "{status:?}");
}

/// A stranger may have had it before the lane began.
#[test]
fn a_slot_below_the_first_count_that_is_taken_back_gets_a_no_op() {
    let mut world = world(settings());
    world.desk.store.row = crate::ports::store::LaneRow::default();
    used(&mut world, &payment(7));
    world.desk.crash();
    world.show(0, true);
    world.rest();
    assert_eq!(world.desk.store.row.cursor, Some(Slot(6)));
    world.chain.reorg(1, false, 2, world.desk.now);
    world.show(0, true);
    world.command(CommandKind::Reset);
    world.rest();
    world.show(0, true);
    let id = world.submit();
    world.rest();
    assert_eq!(world.slot_of(id), Some(6));
}

fn requeues() -> LaneSettings {
    LaneSettings { on_displaced: OnDisplaced::Requeue, ..settings() }
}

/// A transaction that was out when the store was copied; its slot was then used by what a newer copy did.
fn out_and_taken(did: Payload) -> (World, TxId) {
    let mut world = world(requeues());
    let id = world.broadcast();
    world.desk.store.older = Some(older());
    world.desk.crash();
    // Nothing of it is in a block when the store is accepted.
    accept(&mut world);
    world.finalise_without(&did);
    (world, id)
}

impl World {
    /// A stranger's transaction is mined in place of ours, and becomes final.
    fn finalise_without(&mut self, did: &Payload) {
        used(self, did);
        self.settle_strangers();
    }

    /// Blocks without anything of ours, until what others have done is settled.
    pub(super) fn settle_strangers(&mut self) {
        for _ in 0..10 {
            for _ in 0..4 {
                self.chain.mine(0, true, self.desk.now);
            }
            self.show(0, true);
            self.rest();
            self.wait(30_000);
            self.rest();
        }
    }

    fn taker_hash(&self, id: TxId) -> crate::TxHash {
        self.desk.store.tx(id).status.taken.as_ref().expect("it was taken").hash
    }

    pub(super) fn said_whose(&mut self, id: TxId, whose: Whose) {
        let hash = self.taker_hash(id);
        self.command(CommandKind::Settle { tx: id, whose, hash });
        for _ in 0..3 {
            self.finalise();
        }
    }
}

fn no_op() -> Payload {
    let mut nothing = payment(0);
    (nothing.to, nothing.value) = (Some(super::super::test_world::LANE.signer), crate::Wei::default());
    nothing.data = alloy_primitives::Bytes::new();
    nothing
}

/// As much as the first transaction pays, to somebody else.
fn paid_to_another() -> Payload {
    Payload { to: Some(Account(alloy_primitives::Address::repeat_byte(0xdd))), ..payment(1) }
}

/// A newer copy had cancelled or replaced it, and that was not in a block when the store was accepted.
#[test]
fn one_that_was_out_and_whose_slot_something_else_took_waits_for_a_person() {
    for (did, said, state, code) in [
        (no_op(), "may have been cancelled", TxState::Cancelled, ReasonCode::CancelledByCaller),
        (payment(99), "may have been replaced", TxState::Failed, ReasonCode::Displaced),
        (paid_to_another(), "may have been replaced", TxState::Failed, ReasonCode::Displaced),
    ] {
        let (mut world, id) = out_and_taken(did);
        let status = world.desk.store.tx(id).status.clone();
        assert!(!status.state.is_terminal() && status.slot == Some(Slot(5)), "{status:?}");
        let why = world.desk.lane.explain(id, world.desk.now).unwrap();
        assert!(why.contains(said) && why.contains(&format!("tx settle {id} --ours")), "{why}");
        assert!(why.contains("as cancelled, or as failed (displaced), `--foreign` sends it"), "{why}");
        world.said_whose(id, Whose::Ours);
        let status = world.desk.store.tx(id).status.clone();
        assert_eq!((status.state, status.reason.unwrap().code), (state, code), "it was not carried out");
        assert!(status.won.is_none());
        let landed = |new: &&crate::journal::NewEntry| matches!(new.entry, Entry::Confirmed { .. });
        assert_eq!(world.desk.store.journal.iter().filter(landed).count(), 0);
        let next = world.submit_as(payment(1), Options::default());
        world.use_up_forgotten();
        assert_eq!(world.slot_of(next), Some(10), "the lane goes on");
    }
}

/// The person has not spoken yet: others go on, but for the one that may be what took the slot.
#[test]
fn a_slot_that_waits_for_a_persons_word_holds_up_nothing_but_what_it_may_have_done() {
    let (mut world, _) = out_and_taken(payment(99));
    let alike = world.submit_as(payment(99), Options::default());
    let other = world.submit_as(payment(8), Options::default());
    world.use_up_forgotten();
    assert_eq!((world.slot_of(alike), world.slot_of(other)), (None, Some(10)));
    assert!(world.desk.store.tx(alike).status.may_have_landed());
    assert_eq!(world.desk.store.state(other), TxState::Confirmed);
}

#[test]
fn one_that_was_out_and_whose_slot_a_stranger_took_is_sent_again_by_a_persons_word() {
    let (mut world, id) = out_and_taken(payment(99));
    world.said_whose(id, Whose::Foreign);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

#[test]
fn one_that_is_to_be_cancelled_says_that_a_strangers_nonce_ends_it_as_asked() {
    let (mut world, id) = out_and_taken(payment(99));
    world.command(CommandKind::Cancel { tx: id });
    world.rest();
    let why = world.desk.lane.explain(id, world.desk.now).unwrap();
    assert!(why.contains("`--foreign` ends it as cancelled, as was asked"), "{why}");
    world.said_whose(id, Whose::Foreign);
    assert_eq!(world.desk.store.state(id), TxState::Cancelled);
}

/// A world whose store was put back and accepted, and nothing is unknown.
fn accepted(settings: LaneSettings) -> World {
    let mut world = world(settings);
    world.desk.store.older = Some(older());
    world.desk.crash();
    accept(&mut world);
    world.finalise();
    assert_eq!(world.desk.lane.hold(), None);
    world
}

/// A payee has kept the bytes of a payment that the store has forgotten, and sends them when their nonce comes. Whatever that nonce is, and
/// whatever is handed in again before or after it, the payment waits for a person.
#[test]
fn kept_bytes_that_land_after_an_acceptance_are_not_paid_again() {
    for late in 0..4 {
        let mut world = accepted(requeues());
        let again = world.submit_as(payment(7), Options::default());
        let other = world.submit_as(payment(8), Options::default());
        world.rest();
        assert_eq!((world.slot_of(again), world.slot_of(other)), (None, None), "nothing is sent yet");
        let why = world.desk.lane.explain(again, world.desk.now).unwrap();
        assert!(why.contains("using up nonces 5 to 8 by empty transactions"), "{why}");
        // So many of the empty ones land before the kept bytes do.
        world.chain.mine(late, true, world.desk.now);
        world.show(0, true);
        world.rest();
        world.finalise_without(&payment(7));
        for _ in 0..5 {
            world.finalise();
        }
        assert_eq!(world.desk.store.state(other), TxState::Confirmed, "after {late}");
        let status = world.desk.store.tx(again).status.clone();
        assert!(status.may_have_landed() && status.slot.is_none(), "after {late}: {status:?}");
    }
}

/// One of two that do the same had landed, and the bytes of the other come late. Whoever told them apart before has not spoken of those.
#[test]
fn a_yes_that_was_given_before_bytes_land_late_says_nothing_of_them() {
    let mut world = world(requeues());
    world.desk.store.older = Some(older());
    world.desk.crash();
    used(&mut world, &payment(7));
    let both = [1, 2].map(|_| world.submit_as(payment(7), Options::default()));
    accept(&mut world);
    world.finalise();
    assert!(both.iter().all(|id| world.desk.store.tx(*id).status.may_have_landed()));
    world.command(CommandKind::Approve { tx: both[1], version: None, held_for: Some(Slot(5)) });
    world.command(CommandKind::Reject { tx: both[0], version: None, held_for: Some(Slot(5)) });
    world.rest();
    assert_eq!(world.desk.store.state(both[0]), TxState::Failed);
    world.finalise_without(&payment(7));
    for _ in 0..5 {
        world.finalise();
    }
    let status = world.desk.store.tx(both[1]).status.clone();
    assert!(status.may_have_landed() && status.slot.is_none(), "{status:?}");
}

/// A copy in which a transaction that takes two nonces is out. Since then it was cancelled, and its second nonce was another payment's.
#[test]
fn the_second_nonce_of_one_that_was_cancelled_since_is_compared_as_well() {
    let mut world = world(requeues());
    let two = world.submit_as(delegating(), Options::default());
    world.rest();
    assert_eq!(world.slot_of(two), Some(5));
    world.desk.store.older = Some(older());
    world.desk.crash();
    used(&mut world, &no_op());
    used(&mut world, &payment(7));
    let again = world.submit_as(payment(7), Options::default());
    accept(&mut world);
    for _ in 0..10 {
        for _ in 0..4 {
            world.chain.mine(0, true, world.desk.now);
        }
        world.show(0, true);
        world.rest();
        world.wait(30_000);
        world.rest();
    }
    for _ in 0..5 {
        world.finalise();
    }
    let hold = world.desk.lane.hold();
    assert!(matches!(hold, Some(Hold::UnknownSlots { first: Slot(6), last: Slot(6), .. })), "{hold:?}");
    assert_eq!(world.slot_of(again), None, "nobody has looked at nonce 6");
    world.command(CommandKind::Resume);
    for _ in 0..5 {
        world.finalise();
    }
    assert_eq!((world.slot_of(again), world.desk.store.state(again)), (None, TxState::Confirmed));
}

/// A nonce that is not used for good may be taken by another one after a reorganisation.
#[test]
fn nothing_is_sent_while_what_was_forgotten_may_land_in_another_fork() {
    let mut world = accepted(settings());
    let waits = world.submit_as(payment(7), Options::default());
    world.rest();
    world.chain.mine(100, true, world.desk.now);
    world.show(0, true);
    world.rest();
    assert_eq!(world.slot_of(waits), None, "all nonces are used, and that is not final");
    world.use_up_forgotten();
    assert_eq!(world.desk.store.state(waits), TxState::Confirmed);
}

/// Nothing is spent on a lane that has nothing to send.
#[test]
fn a_lane_without_work_uses_nothing_up() {
    let mut world = accepted(settings());
    world.use_up_forgotten();
    assert!(world.desk.store.attempts.is_empty());
}

/// Fewer may be out now than when the forgotten bytes were sent.
#[test]
fn as_many_are_used_up_as_the_widest_window_that_the_lane_had() {
    let mut world = world(LaneSettings { max_in_flight: 9, ..settings() });
    let before = world.broadcast();
    world.finalise();
    assert_eq!(world.desk.store.state(before), TxState::Confirmed);
    world.desk.settings = std::sync::Arc::new(LaneSettings { max_in_flight: 2, ..settings() });
    world.desk.store.older = Some(older());
    world.desk.crash();
    accept(&mut world);
    let next = world.submit_as(payment(7), Options::default());
    for _ in 0..10 {
        world.finalise();
    }
    assert_eq!((world.desk.store.state(next), world.slot_of(next)), (TxState::Confirmed, Some(6 + 9)));
}

/// As many as can have been out have been used since: nothing of then can land any more.
#[test]
fn a_lane_goes_on_as_before_once_nothing_forgotten_can_land() {
    let mut world = accepted(settings());
    let first = world.submit_as(payment(7), Options::default());
    world.use_up_forgotten();
    assert_eq!(world.desk.store.state(first), TxState::Confirmed);
    let next: Vec<TxId> = (0..3).map(|_| world.submit_as(payment(9), Options::default())).collect();
    world.rest();
    assert!(next.iter().all(|id| world.slot_of(*id).is_some()), "side by side");
}

/// A wider window sends nothing that is not known: bytes that were forgotten are as far ahead as they were.
#[test]
fn a_window_that_is_made_wider_long_after_an_acceptance_uses_up_nothing() {
    let mut world = accepted(settings());
    world.submit_as(payment(7), Options::default());
    world.use_up_forgotten();
    let wider = LaneSettings { max_in_flight: 100 * settings().max_in_flight, ..settings() };
    world.desk.settings = std::sync::Arc::new(wider);
    world.desk.crash();
    world.show(0, true);
    world.rest();
    let count = world.chain.count();
    let next = world.submit_as(payment(9), Options::default());
    world.rest();
    assert_eq!(world.slot_of(next), Some(count.0), "{:?}", world.desk.lane.hold());
}

/// Before anybody looked, a reorganisation took back some of what the store has forgotten: the count by which it was accepted was lower than
/// the one by which bytes were sent.
#[test]
fn bytes_that_were_sent_by_a_higher_count_are_not_paid_again() {
    let mut world = accepted(settings());
    let first = world.submit_as(payment(8), Options::default());
    world.use_up_forgotten();
    assert_eq!(world.desk.store.state(first), TxState::Confirmed);
    assert_eq!(world.chain.count(), Slot(5 + settings().max_in_flight + 1), "nothing else is out");
    used(&mut world, &payment(7));
    for _ in 0..3 {
        world.finalise();
    }
    assert_eq!(world.desk.lane.hold(), None);
    let again = world.submit_as(payment(7), Options::default());
    world.use_up_forgotten();
    let status = world.desk.store.tx(again).status.clone();
    assert!(status.may_have_landed() && status.slot.is_none(), "{status:?}");
}

/// Far above what can have been out when the store was accepted, a stranger is a stranger.
#[test]
fn strangers_are_not_remembered_for_ever() {
    let mut world = world(settings());
    world.desk.store.older = Some(older());
    world.desk.crash();
    accept(&mut world);
    world.finalise();
    for number in 0..300 {
        used(&mut world, &payment(1_000 + number));
        if number % 16 == 15 {
            world.finalise();
            world.finalise();
        }
    }
    for _ in 0..5 {
        world.finalise();
    }
    assert_eq!(world.desk.lane.hold(), None);
    let remembered = world.desk.store.row.forgotten.len();
    assert!((1..300).contains(&remembered), "{remembered}");
}

#[test]
fn a_lane_that_cannot_remember_all_that_was_forgotten_holds_until_a_person_resumes_it() {
    let mut world = world(settings());
    world.desk.store.older = Some(older());
    world.desk.crash();
    let most = MOST_REMEMBERED as u64;
    for number in 0..most + 50 {
        used(&mut world, &payment(1_000 + number));
    }
    let waits = world.submit_as(payment(7), Options::default());
    world.desk.store.older = None;
    world.command(CommandKind::AcceptStore { seen: None });
    for _ in 0..400 {
        world.block();
        world.settle();
    }
    let hold = world.desk.lane.hold().unwrap();
    assert!(matches!(hold, Hold::UnknownSlots { last, .. } if last == Slot(5 + most + 49)), "{hold:?}");
    assert_eq!(world.slot_of(waits), None);
    let late = world.submit_as(payment(1_000), Options::default());
    world.block();
    world.settle();
    assert!(world.desk.store.tx(late).status.may_have_landed(), "the oldest is still remembered");
    // What is handed in before the person speaks is compared.
    let landed = world.submit_as(payment(1_000 + most + 49), Options::default());
    world.command(CommandKind::Resume);
    for _ in 0..100 {
        world.block();
        world.settle();
    }
    assert_eq!(world.desk.lane.hold(), None);
    assert_eq!(world.desk.store.state(landed), TxState::Confirmed);
    assert!(world.slot_of(waits).is_some());
}

#[test]
fn a_lane_that_was_never_used_holds_for_what_nobody_looked_up() {
    let mut world = world(settings());
    world.chain.first = Slot(0);
    world.desk.store.row = crate::ports::store::LaneRow::default();
    world.desk.store.older = Some(older());
    world.desk.crash();
    let most = MOST_REMEMBERED as u64;
    for number in 0..most + 44 {
        used(&mut world, &payment(1_000 + number));
    }
    let oldest = world.submit_as(payment(1_000), Options::default());
    let newest = world.submit_as(payment(1_000 + most + 43), Options::default());
    world.desk.store.older = None;
    world.command(CommandKind::AcceptStore { seen: None });
    for _ in 0..400 {
        world.block();
        world.settle();
    }
    let hold = world.desk.lane.hold().unwrap();
    assert_eq!(hold, Hold::NotCompared { below: Slot(44) });
    let said = hold.sentence();
    assert!(said.contains("nonces 0 to 43 were not") && said.contains("`landfall lane resume"), "{said}");
    let told =
        |new: &&crate::journal::NewEntry| matches!(&new.entry, Entry::LaneHeld { text } if *text == said);
    assert_eq!(world.desk.store.journal.iter().filter(told).count(), 1, "a person hears of it");
    assert!(world.desk.store.tx(newest).status.may_have_landed());
    assert_eq!(world.slot_of(oldest), None, "nobody knows");
    // Before and after a restart.
    world.desk.crash();
    world.show(0, true);
    world.rest();
    assert_eq!(world.desk.lane.hold(), Some(Hold::NotCompared { below: Slot(44) }));
    world.command(CommandKind::Resume);
    for _ in 0..5 {
        world.finalise();
    }
    assert_eq!(world.desk.lane.hold(), None);
    assert_eq!(world.desk.store.state(oldest), TxState::Confirmed, "by a person's word");
    assert_eq!(world.slot_of(newest), None);
}

/// A delegation is not carried out by a call that is like it in all else.
#[test]
fn a_delegation_is_carried_out_only_by_the_same_delegation() {
    let code = Account(alloy_primitives::Address::with_last_byte(0xc0));
    let signed = |r: u8| {
        let r = alloy_primitives::U256::from(r);
        Some(SignedAuthorization { count: Slot(6), r, s: r, y_parity: true })
    };
    let by = |signed| vec![Authorization { chain: None, address: code, signed }];
    for (authorizations, asked, carried_out) in [
        (Vec::new(), None, false),
        (by(signed(1)), None, true),
        (by(signed(1)), signed(1), true),
        (by(signed(1)), signed(2), false),
    ] {
        let mut world = world(settings());
        put_back(&mut world, &payment(7));
        let taker = world.chain.takers.values_mut().next().unwrap();
        *taker = Taker { authorizations, ..taker.clone() };
        let mut delegation = payment(7);
        delegation.authorization_list = by(asked);
        let id = world.submit_as(delegation, Options::default());
        accept(&mut world);
        for _ in 0..3 {
            world.finalise();
        }
        let is_done = world.desk.store.tx(id).status.won.as_ref().is_some_and(|won| won.hash.0[0] == 0x77);
        assert_eq!(is_done, carried_out);
    }
}

/// Bytes that the chain takes back before the lane has compared them may land again.
#[test]
fn an_acceptance_waits_for_what_was_taken_back() {
    for crashes in [false, true] {
        let mut world = world(settings());
        put_back(&mut world, &payment(7));
        let id = world.submit_as(payment(7), Options::default());
        accept(&mut world);
        assert!(matches!(world.desk.lane.hold(), Some(Hold::Comparing { .. })));
        world.chain.reorg(1, false, 2, world.desk.now);
        if crashes {
            world.desk.crash();
        }
        for _ in 0..5 {
            world.finalise();
        }
        let hold = world.desk.lane.hold().unwrap();
        assert_eq!(hold, Hold::TakenBack { first: Slot(5), last: Slot(5) });
        assert!(hold.sentence().contains("landfall store older"), "{}", hold.sentence());
        assert_eq!(world.slot_of(id), None, "it may land again");
        used(&mut world, &payment(7));
        for _ in 0..3 {
            world.finalise();
        }
        assert_eq!(world.desk.lane.hold(), None);
        assert_eq!(world.desk.store.state(id), TxState::Confirmed, "by what landed again");
        assert!(world.desk.store.attempts.is_empty());
        assert_eq!(world.desk.store.row.older_count, None, "a copy that is put back later begins anew");
    }
}

#[test]
fn one_that_may_not_have_been_wanted_in_the_end_is_not_called_landed() {
    let replaced =
        |id| CommandKind::Replace { tx: id, payload: Box::new(payment(9)), terms: Terms::default() };
    type Unwanted = (&'static str, fn(&World) -> Options, Option<fn(TxId) -> CommandKind>);
    let cases: [Unwanted; 5] = [
        ("cancelled", |_| Options::default(), Some(|tx| CommandKind::Cancel { tx })),
        ("withdrawn", |_| Options::default(), Some(|tx| CommandKind::Withdraw { tx })),
        (
            "rejected",
            |_| Options::default(),
            Some(|tx| CommandKind::Reject { tx, version: None, held_for: None }),
        ),
        (
            "expired",
            |world| Options { deadline: Some(crate::Millis(world.desk.now.0)), ..Options::default() },
            None,
        ),
        (
            "all cancelled",
            |_| Options::default(),
            Some(|_| CommandKind::CancelAll { up_to: crate::QueueOrder(i64::MAX) }),
        ),
    ];
    for (what, options, command) in cases {
        let mut world = world(settings());
        put_back(&mut world, &payment(7));
        let unwanted = world.submit_as(payment(7), options(&world));
        if let Some(command) = command {
            world.command(command(unwanted));
        }
        accept(&mut world);
        for _ in 0..5 {
            world.finalise();
        }
        let status = world.desk.store.tx(unwanted).status.clone();
        assert!(status.won.is_none(), "{what}: {status:?}");
        let real = world.submit_as(payment(7), Options::default());
        world.rest();
        assert!(world.desk.store.tx(real).status.may_have_landed(), "{what}");
    }
    let mut world = world(settings());
    put_back(&mut world, &payment(7));
    let unwanted = world.submit_as(payment(7), Options::default());
    world.desk.store.command(replaced(unwanted), world.desk.now);
    accept(&mut world);
    for _ in 0..5 {
        world.finalise();
    }
    assert!(world.desk.store.tx(unwanted).status.may_have_landed(), "its content is another one now");
}

/// Commands that were given while the store was older come before anything is signed.
#[test]
fn a_cancel_and_a_pause_that_were_given_on_an_older_copy_come_before_any_signature() {
    for cancels in [1, COMMANDS + 10] {
        let mut world = world(settings());
        world.desk.store.older = Some(older());
        world.desk.crash();
        let ids: Vec<TxId> = (0..cancels).map(|_| world.submit()).collect();
        for tx in &ids {
            world.desk.store.command(CommandKind::Cancel { tx: *tx }, world.desk.now);
        }
        world.command(CommandKind::Pause);
        let waits = world.submit();
        accept(&mut world);
        for _ in 0..10 {
            world.wait(20);
            world.finalise();
        }
        assert!(world.desk.store.attempts.is_empty(), "{} of {cancels}", world.desk.store.attempts.len());
        assert!(ids.iter().all(|id| world.desk.store.state(*id) == TxState::Cancelled));
        assert_eq!(world.slot_of(waits), None, "it is paused");
    }
}
