//! Where several endpoints are configured, what one of them shows ends nothing.

use std::sync::Arc;
use std::time::Duration;

use super::super::test_world::{Step, World};
use super::{Kind, settings, world};
use crate::Slot;
use crate::journal::Entry;
use crate::lane::{Action, Hold, LaneEvent};
use crate::request::{Finality, OnDisplaced, OnReorg, Options};
use crate::settings::LaneSettings;
use crate::transaction::TxState;
use crate::view::Receipt;
use crate::witness::{Lack, SecondWord, TagWord, Witnessed};

impl World {
    /// From now on two endpoints are configured, and both have shown the chain up to so many blocks below its head.
    fn two_show(&mut self, below: u64) {
        let head = self.chain.head().at.number;
        let called = (self.chain.deep > 0).then(|| self.chain.finalized());
        self.chain.witnessed = Some(Witnessed {
            several: true,
            by_two: head.checked_sub(below),
            alone: false,
            safe: TagWord::default(),
            time: Some(self.chain.head().timestamp),
            finalized: TagWord { by_two: called, by_one: called },
            lack: (below > 0).then(|| {
                Arc::new(Lack {
                    since: self.desk.now,
                    until: Some(self.desk.now.after(std::time::Duration::from_secs(590))),
                    disagree: false,
                    others: format!("http://b is {below} blocks behind"),
                })
            }),
        });
        self.show(0, true);
        self.hear_second();
    }

    /// A second endpoint is asked for receipts, if it is.
    fn hear_second(&mut self) {
        while self.started(Kind::Second) {
            self.carry(Kind::Second, super::Fault::None);
        }
    }

    /// Only one endpoint has shown anything new for so long that its word counts.
    fn one_alone(&mut self) {
        if let Some(witnessed) = &mut self.chain.witnessed {
            witnessed.alone = true;
        }
        self.show(0, true);
        self.hear_second();
    }

    fn entries(&self, id: crate::TxId) -> Vec<Entry> {
        let rows = self.desk.store.journal.iter().filter(|row| row.tx == Some(id));
        rows.map(|row| row.entry.clone()).collect()
    }
}

#[test]
fn a_new_lane_begins_with_a_count_that_two_endpoints_give() {
    let mut world = World::new(settings(), 2);
    let id = world.submit();
    world.chain.agreed = false;
    world.two_show(0);
    let hold = world.desk.lane.hold().unwrap();
    assert_eq!(hold, Hold::FirstCount { count: Slot(5) });
    let said = hold.sentence();
    assert!(said.contains("only one endpoint says that its first nonce is 5"), "{said}");
    assert!(said.contains("after witness_wait_s") && said.contains("out of the configuration"), "{said}");
    assert_eq!((world.desk.lane.row.cursor, world.desk.store.state(id)), (None, TxState::Accepted));
    world.chain.agreed = true;
    world.two_show(0);
    assert_eq!((world.desk.lane.row.cursor, world.desk.lane.hold()), (Some(Slot(5)), Some(Hold::Reading)));
}

#[test]
fn a_new_lane_begins_with_one_endpoints_count_where_its_word_counts_alone() {
    let mut world = World::new(settings(), 2);
    world.chain.agreed = false;
    world.two_show(0);
    assert_eq!(world.desk.lane.row.cursor, None);
    world.one_alone();
    assert_eq!(world.desk.lane.row.cursor, Some(Slot(5)));
}

#[test]
fn what_one_endpoint_shows_is_mined_and_becomes_final_when_a_second_shows_it() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.chain.mine(100, true, world.desk.now);
    world.two_show(1);
    assert_eq!(world.desk.store.state(id), TxState::Mined, "that is not delayed");
    for _ in 0..4 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.two_show(3);
    assert_eq!(world.desk.store.state(id), TxState::Mined);
    let said = world.desk.lane.explain(id, world.desk.now).unwrap();
    assert_eq!(
        said,
        "block 1, 4 of 2 confirmations; block 3 is shown by one endpoint only: waiting for a second one, at most 590 s \
         more; http://b is 3 blocks behind"
    );
    world.two_show(2);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert!(!world.desk.store.tx(id).status.single_witness);
}

#[test]
fn before_the_depth_is_reached_nobody_is_waited_for() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.chain.mine(100, true, world.desk.now);
    world.two_show(1);
    let said = world.desk.lane.explain(id, world.desk.now).unwrap();
    assert_eq!(said, "block 1, 0 of 2 confirmations");
}

#[test]
fn a_tag_counts_only_as_far_as_two_endpoints_show_the_chain() {
    let mut world = World::new(LaneSettings { finality: Finality::Finalized, ..settings() }, 2);
    world.chain.deep = 1;
    world.show(0, true);
    world.rest();
    let id = world.broadcast();
    world.chain.mine(100, true, world.desk.now);
    for _ in 0..9 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.two_show(10);
    assert_eq!(world.desk.store.state(id), TxState::Mined, "one endpoint calls block 1 final");
    let said = world.desk.lane.explain(id, world.desk.now).unwrap();
    assert!(said.contains("block 1 is shown by one endpoint only"), "{said}");
    world.two_show(9);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

#[test]
fn what_ends_by_the_word_of_one_endpoint_says_so() {
    let mut world = world(settings());
    let (first, second) = (world.broadcast(), world.broadcast());
    world.chain.mine(1, true, world.desk.now);
    world.chain.mine(1, true, world.desk.now);
    for _ in 0..4 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.two_show(3);
    assert_eq!(world.desk.store.state(first), TxState::Confirmed, "block 3 is shown by two");
    assert_eq!(world.desk.store.state(second), TxState::Mined);
    world.one_alone();
    assert_eq!(world.desk.store.state(second), TxState::Confirmed);
    assert!(!world.desk.store.tx(first).status.single_witness);
    assert!(world.desk.store.tx(second).status.single_witness);
    let events = |entries: Vec<Entry>| entries.iter().filter_map(Entry::event).collect::<Vec<_>>();
    assert!(!events(world.entries(first)).contains(&"chain.single_witness"));
    let told = events(world.entries(second));
    assert_eq!(told[told.len() - 2..], ["chain.single_witness", "tx.confirmed"]);
}

#[test]
fn who_took_a_slot_is_proven_by_what_two_endpoints_show_and_by_nothing_else() {
    let mut world = world(settings());
    let options = Options { on_displaced: Some(OnDisplaced::Requeue), ..Options::default() };
    world.submit_as(super::payment_with_gas(1), options);
    world.rest();
    world.play(Step::Foreign);
    for _ in 0..6 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.two_show(6);
    world.one_alone();
    for _ in 0..3 {
        world.wait(15_000);
        world.carry(Kind::Look, super::Fault::NotDone);
    }
    // Block 1 has the stranger's, and two have shown it, but not the two on top of it.
    let up_to = |world: &mut World| match world.take(Kind::Prove) {
        Action::Prove(proof) => proof.up_to,
        other => panic!("{other:?}"),
    };
    assert!(!world.started(Kind::Prove), "{:?}", world.started);
    world.two_show(4);
    world.one_alone();
    assert_eq!(up_to(&mut world), 1);
    world.turn(vec![LaneEvent::Unproven { slot: Slot(5) }]);
}

/// Its content goes to another slot then: if one endpoint were wrong, it would land twice.
#[test]
fn a_no_op_that_sends_its_transaction_to_another_slot_is_not_left_to_one_endpoint() {
    let mut world = world(settings());
    let options = Options { on_reorg: OnReorg::Cancel, ..Options::default() };
    let id = world.submit_as(super::payment_with_gas(1), options);
    world.rest();
    world.block();
    world.play(Step::Reorg { depth: 1, keep: false, refill: 1 });
    world.show(0, true);
    world.rest();
    for _ in 0..6 {
        world.chain.mine(100, true, world.desk.now);
    }
    world.two_show(6);
    assert_eq!(world.desk.store.state(id), TxState::Mined, "its no-op is in a block");
    world.one_alone();
    assert_eq!(world.desk.store.state(id), TxState::Mined);
    assert_eq!(world.desk.store.tx(id).status.slot, Some(Slot(5)));
    world.two_show(0);
    assert_eq!(world.desk.store.tx(id).status.slot, None, "it is checked anew");
}

impl World {
    /// Shows a transaction in a block that is final to two endpoints, of which the second says this of its receipt.
    fn final_with(&mut self, second: Option<SecondWord>) -> crate::TxId {
        let id = self.broadcast();
        self.chain.second = second;
        self.chain.mine(100, true, self.desk.now);
        for _ in 0..4 {
            self.chain.mine(0, true, self.desk.now);
        }
        self.two_show(0);
        id
    }

    /// The receipt that the lane has of the only slot.
    fn receipt_at(&self, slot: Slot) -> Receipt {
        self.desk.lane.slots.get(&slot).and_then(|record| record.mined.clone()).expect("it is in a block")
    }

    /// The second endpoint is asked again, and says this.
    fn second_says(&mut self, word: Option<SecondWord>) {
        self.chain.second = word;
        self.wait(10_000);
        self.hear_second();
    }
}

fn lacking(seconds: u64) -> SecondWord {
    SecondWord::Lacking { waited: Duration::from_secs(seconds), why: "http://b: no answer".into() }
}

// covers: G9
#[test]
fn a_receipt_that_two_endpoints_differ_about_ends_nothing_however_long_it_lasts() {
    let mut world = world(settings());
    let said = "http://a shows that it reverted, http://b shows that it succeeded";
    let id = world.final_with(Some(SecondWord::Differs(said.into())));
    for _ in 0..200 {
        world.second_says(Some(SecondWord::Differs(said.into())));
    }
    assert_eq!(world.desk.store.state(id), TxState::Mined);
    world.one_alone();
    assert_eq!(world.desk.store.state(id), TxState::Mined, "that is not left to one");
    let hash = world.receipt_at(Slot(5)).hash;
    let text = world.desk.lane.explain(id, world.desk.now).unwrap();
    let wanted =
        format!("two endpoints disagree about the receipt of {hash} in block 1 ({said}): it does not end");
    assert!(text.contains(&wanted), "{text}");
    world.second_says(None);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert!(!world.desk.store.tx(id).status.single_witness);
}

/// A word that comes late may be about another block, or another status, than what is shown by now.
#[test]
fn a_word_on_one_receipt_says_nothing_of_another() {
    let mut world = world(settings());
    let id = world.final_with(Some(SecondWord::Differs("they differ".into())));
    let shown = world.receipt_at(Slot(5));
    let reverted = Receipt { success: !shown.success, ..shown.clone() };
    let block = crate::view::BlockRef { hash: alloy_primitives::B256::repeat_byte(0x55), ..shown.block };
    let elsewhere = Receipt { block, ..shown.clone() };
    for other in [reverted, elsewhere] {
        world.turn(vec![LaneEvent::Second(vec![(Slot(5), other, SecondWord::Same)])]);
        assert_eq!(world.desk.store.state(id), TxState::Mined, "nobody has given this one");
    }
    world.turn(vec![LaneEvent::Second(vec![(Slot(5), shown, SecondWord::Same)])]);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

/// The block was replaced while the second endpoint was being asked, and the transaction is in another one.
#[test]
fn a_receipt_that_comes_while_the_one_before_it_is_asked_about_is_asked_about_as_well() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.chain.mine(100, true, world.desk.now);
    let head = world.chain.head().at.number;
    world.chain.witnessed = Some(Witnessed { several: true, ..Witnessed::by_one(head) });
    world.show(0, true);
    // The answer takes its time.
    let Action::Second(before) = world.take(Kind::Second) else { unreachable!() };
    let before = before[0].1.clone();
    world.chain.reorg(1, true, 1, world.desk.now);
    world.chain.mine(100, true, world.desk.now);
    for _ in 0..4 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.chain.witnessed = Some(Witnessed { several: true, ..Witnessed::by_one(head + 5) });
    world.show(0, true);
    assert_ne!(world.receipt_at(Slot(5)).block, before.block);
    world.turn(vec![LaneEvent::Second(vec![(Slot(5), before, SecondWord::Same)])]);
    assert_eq!(world.desk.store.state(id), TxState::Mined, "that was another block");
    world.hear_second();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert!(!world.desk.store.tx(id).status.single_witness);
}

#[test]
fn a_second_endpoint_is_asked_once_two_have_shown_the_block_and_not_where_there_is_one() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.chain.mine(100, true, world.desk.now);
    world.two_show(1);
    assert!(!world.started(Kind::Second), "the second one does not know the block");
    world.chain.second = Some(lacking(0));
    world.two_show(0);
    assert!(world.desk.lane.slots.get(&Slot(5)).unwrap().work.second.is_some(), "before its block is final");
    // Whatever else comes, it is asked once at a time, and no more when it has said the same.
    world.chain.second = None;
    world.wait(10_000);
    world.hear_second();
    world.wait(60_000);
    assert!(!world.started(Kind::Second));
    for _ in 0..2 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.two_show(0);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed, "in the turn in which its block is final");
}

#[test]
fn without_a_second_word_a_receipt_counts_after_the_wait_and_says_so() {
    let mut one = world(settings());
    let id = one.final_with(Some(lacking(30)));
    assert_eq!(one.desk.store.state(id), TxState::Mined);
    let text = one.desk.lane.explain(id, one.desk.now).unwrap();
    let wanted = "its receipt is given by one endpoint only: waiting for a second one, at most 570 s more; http://b: no";
    assert!(text.contains(wanted), "{text}");
    one.second_says(Some(lacking(599)));
    assert_eq!(one.desk.store.state(id), TxState::Mined);
    one.second_says(Some(lacking(600)));
    assert_eq!(one.desk.store.state(id), TxState::Confirmed);
    assert!(one.desk.store.tx(id).status.single_witness);
    let told: Vec<_> = one.entries(id).iter().filter_map(Entry::event).collect();
    assert_eq!(told[told.len() - 2..], ["chain.single_witness", "tx.confirmed"]);
    // Never, where that is configured.
    let mut never = world(LaneSettings { witness_wait: None, ..settings() });
    let id = never.final_with(Some(lacking(1_000_000)));
    assert_eq!(never.desk.store.state(id), TxState::Mined);
}

#[test]
fn what_two_others_say_of_a_receipt_counts() {
    let mut world = world(settings());
    let id = world.broadcast();
    let hash = world.desk.lane.slots.get(&Slot(5)).unwrap().attempts[0].hash;
    world.chain.mine(100, true, world.desk.now);
    let true_one = world.chain.receipts(&[hash]).remove(0);
    let false_one = Receipt { success: false, ..true_one.clone() };
    // One endpoint shows that it reverted.
    let view = Arc::new(world.chain.view(0));
    world.turn(vec![LaneEvent::Chain { view, receipts: vec![false_one.clone()] }]);
    assert_eq!(world.receipt_at(Slot(5)), false_one);
    world.chain.second = Some(SecondWord::Wrong(Some(Box::new(true_one.clone()))));
    world.two_show(0);
    assert_eq!(world.receipt_at(Slot(5)), true_one);
    assert_eq!(world.desk.store.tx(id).status.receipt, Some(true_one));
    world.second_says(None);
    for _ in 0..4 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.two_show(0);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
}

#[test]
fn a_receipt_that_two_others_do_not_have_is_taken_back_and_looked_for_anew() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.chain.mine(100, true, world.desk.now);
    world.chain.second = Some(SecondWord::Wrong(None));
    world.two_show(0);
    assert_eq!(world.desk.store.state(id), TxState::Broadcast);
    assert_eq!(world.desk.store.tx(id).status.receipt, None);
    assert!(world.started(Kind::Look), "{:?}", world.started);
}

/// One endpoint alone is enough here for its block and for its receipt; but nothing of the slot can be in that block.
#[test]
fn a_receipt_in_a_block_that_has_not_used_the_slot_ends_nothing() {
    for several in [false, true] {
        let mut world = world(settings());
        let id = world.broadcast();
        let hash = world.desk.lane.slots.get(&Slot(5)).unwrap().attempts[0].hash;
        world.chain.pool.clear();
        world.chain.mine(100, true, world.desk.now);
        let block = world.chain.head().at;
        for _ in 0..4 {
            world.chain.mine(0, true, world.desk.now);
        }
        if several {
            world.two_show(0);
        }
        let (index, gas_used, gas_price) = (0, crate::Gas(21_000), crate::Price(1));
        let made_up = Receipt {
            hash,
            block,
            index,
            success: true,
            gas_used,
            gas_price,
            data_fee: None,
            contract: None,
        };
        let view = Arc::new(world.chain.view(0));
        world.turn(vec![LaneEvent::Chain { view, receipts: vec![made_up] }]);
        world.hear_second();
        assert_eq!(world.desk.store.state(id), TxState::Mined);
        let text = world.desk.lane.explain(id, world.desk.now).unwrap();
        assert!(text.contains("the account's count there is 5: nonce 5 cannot have been used"), "{text}");
    }
}

/// Its content goes to another slot then: if that receipt were made up, it would land twice.
#[test]
fn the_receipt_of_a_no_op_that_sends_its_transaction_to_another_slot_is_not_left_to_one_endpoint() {
    let mut world = world(settings());
    let options = Options { on_reorg: OnReorg::Cancel, ..Options::default() };
    let id = world.submit_as(super::payment_with_gas(1), options);
    world.rest();
    world.block();
    world.play(Step::Reorg { depth: 1, keep: false, refill: 1 });
    world.show(0, true);
    world.rest();
    for _ in 0..6 {
        world.chain.mine(100, true, world.desk.now);
    }
    world.chain.second = Some(lacking(100_000));
    world.two_show(0);
    assert_eq!(world.desk.store.tx(id).status.slot, Some(Slot(5)));
    world.second_says(None);
    assert_eq!(world.desk.store.tx(id).status.slot, None, "it is checked anew");
}

#[test]
fn what_only_one_endpoint_calls_final_ends_with_a_flag_and_decides_nothing_that_could_land_twice() {
    let mut world = World::new(LaneSettings { finality: Finality::Finalized, ..settings() }, 2);
    world.chain.deep = 1;
    world.chain.tags.finalized = crate::view::Tag::Known;
    world.show(0, true);
    world.rest();
    let id = world.broadcast();
    world.chain.mine(100, true, world.desk.now);
    for _ in 0..9 {
        world.chain.mine(0, true, world.desk.now);
    }
    world.two_show(0);
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert!(!world.desk.store.tx(id).status.single_witness);
    // One endpoint's word has become enough.
    let second = world.broadcast();
    world.chain.mine(100, true, world.desk.now);
    for _ in 0..9 {
        world.chain.mine(0, true, world.desk.now);
    }
    let head = world.chain.head().at.number;
    let (by_two, by_one) = (Some(1), Some(world.chain.finalized()));
    let finalized = TagWord { by_two, by_one };
    world.chain.witnessed = Some(Witnessed { several: true, finalized, ..Witnessed::by_one(head) });
    world.show(0, true);
    world.hear_second();
    assert_eq!(world.desk.store.state(second), TxState::Confirmed);
    assert!(world.desk.store.tx(second).status.single_witness);
    let view = world.chain.view(0);
    assert_eq!(view.settled_for([Finality::Finalized], 2), Some(1));
    let unknown = crate::view::ChainView { finalized: None, ..view };
    assert_eq!(unknown.settled_for([Finality::Blocks(2)], 2), None, "nor does depth decide it");
}

// covers: E7
#[test]
fn a_block_time_that_one_endpoint_gives_ends_no_day_and_passes_no_deadline() {
    let mut world = world(settings());
    world.two_show(0);
    let time = world.chain.head().timestamp;
    let day = 86_400_000;
    let options = Options { deadline: Some(crate::Millis(time.0 + day / 4)), ..Options::default() };
    let id = world.submit_as(super::payment_with_gas(1), options);
    world.rest();
    assert_eq!(world.desk.store.state(id), TxState::Broadcast);
    let tell = |world: &mut World, shown: u64, by_two: Option<u64>| {
        if let Some(witnessed) = &mut world.chain.witnessed {
            witnessed.time = by_two.map(crate::Millis);
        }
        let mut view = world.chain.view(0);
        view.head.timestamp = crate::Millis(shown);
        world.turn(vec![LaneEvent::Chain { view: Arc::new(view), receipts: Vec::new() }]);
    };
    tell(&mut world, time.0 + 3 * day, Some(time.0));
    assert!(world.desk.store.tx(id).status.ending.is_none(), "two have not reached it");
    tell(&mut world, time.0 + 3 * day, None);
    assert!(world.desk.store.tx(id).status.ending.is_none(), "nobody knows the time");
    tell(&mut world, time.0 + 3 * day, Some(time.0 + day));
    assert!(world.desk.store.tx(id).status.ending.is_some());
}

#[test]
fn a_day_that_only_one_endpoint_shows_gives_no_new_budget() {
    let budget = crate::Wei(alloy_primitives::U256::from(1_000_000_000_000_000_000_u64));
    let mut world = world(LaneSettings { max_spend_per_day: Some(budget), ..settings() });
    world.two_show(0);
    let day = 86_400_000;
    let now = world.chain.head().timestamp.0 / day;
    world.desk.lane.row.spend = crate::ports::store::Spend { day: now, fees: budget };
    assert_eq!(world.desk.lane.budget_left(), Some(alloy_primitives::U256::ZERO));
    let mut view = world.chain.view(0);
    view.head.timestamp = crate::Millis(view.head.timestamp.0 + 2 * day);
    world.turn(vec![LaneEvent::Chain { view: Arc::new(view.clone()), receipts: Vec::new() }]);
    assert_eq!(world.desk.lane.budget_left(), Some(alloy_primitives::U256::ZERO));
    view.witnessed.time = Some(view.head.timestamp);
    world.turn(vec![LaneEvent::Chain { view: Arc::new(view), receipts: Vec::new() }]);
    assert_eq!(world.desk.lane.budget_left(), Some(budget.0));
}

/// The wrong endpoint was taken out of the configuration, as `stuckReason` says: what it gave must not count then.
#[test]
fn a_receipt_that_the_store_had_ends_nothing_before_it_is_looked_up_again() {
    let mut world = world(settings());
    let id = world.broadcast();
    let hash = world.desk.lane.slots.get(&Slot(5)).unwrap().attempts[0].hash;
    world.chain.mine(100, true, world.desk.now);
    let true_one = world.chain.receipts(&[hash]).remove(0);
    let view = Arc::new(world.chain.view(0));
    let false_one = Receipt { success: false, ..true_one.clone() };
    world.turn(vec![LaneEvent::Chain { view, receipts: vec![false_one.clone()] }]);
    assert_eq!(world.desk.store.tx(id).status.receipt, Some(false_one));
    world.play(Step::Crash);
    for _ in 0..3 {
        world.chain.mine(0, true, world.desk.now);
    }
    // One endpoint is left, and the block was read before the lane was loaded.
    world.show(0, false);
    assert_eq!(world.desk.store.state(id), TxState::Mined);
    world.rest();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert_eq!(world.desk.store.tx(id).status.receipt, Some(true_one));
}
