use super::super::test_world::{Fault, Step, payment, payment_with_gas};
use super::{Kind, remote, settings, world};
use crate::outcome::SendOutcome;
use crate::ports::store::CommandKind;
use crate::request::{AskedFees, Finality, Options, Payload};
use crate::settings::LaneSettings;
use crate::view::{Tag, Tags};
use crate::{Price, TxId, Wei};

impl super::World {
    /// The sentence of a transaction must hold all these words.
    fn says(&self, id: TxId, words: &[&str]) {
        let said = self.desk.lane.explain(id, self.desk.now).unwrap_or_else(|| panic!("no word about {id}"));
        for word in words {
            assert!(said.contains(word), "{said:?} does not say {word:?}");
        }
    }
}

#[test]
fn a_waiting_transaction_says_what_it_waits_for() {
    let mut world = world(LaneSettings { max_in_flight: 1, ..settings() });
    let id = world.submit_as(payment(1), Options::default());
    world.carry(Kind::Load, Fault::None);
    world.says(id, &["its gas is being estimated"]);
    world.carry(Kind::Prepare, Fault::NotDone);
    world.says(id, &["as the step says", "try 2 in 100 ms", "others may go first"]);
    world.wait(100);
    world.carry(Kind::Prepare, Fault::None);
    world.says(id, &["it is being signed for nonce 5"]);
    world.rest();
    let next = world.submit();
    world.rest();
    world.says(next, &["waiting for a nonce", "1 of 1 are in flight", "0 wait before it"]);
    world.command(CommandKind::Pause);
    world.rest();
    world.says(next, &["an operator paused the lane"]);
}

#[test]
fn one_that_needs_a_person_says_so() {
    let limit = Some(Wei(alloy_primitives::U256::from(100)));
    let mut world = world(LaneSettings { approve_above: limit, ..settings() });
    let id = world.submit_as(payment(1_000), Options::default());
    world.rest();
    world.says(id, &["a person to approve"]);
}

#[test]
fn one_that_cannot_pay_todays_fee_says_so() {
    let mut world = world(settings());
    world.play(Step::BaseFee(40));
    world.show(0, true);
    let fees = AskedFees::Dynamic { max_fee: Some(Price::gwei(10)), tip: None };
    let asked = world.submit_as(Payload { fees, ..payment_with_gas(1) }, Options::default());
    let options = Options { max_fee_per_gas: Some(Price::gwei(10)), ..Options::default() };
    let ceiling = world.submit_as(payment_with_gas(2), options);
    world.rest();
    for id in [asked, ceiling] {
        world.says(id, &["the base fee is 40 gwei", "until fees fall"]);
    }
}

// covers: D9
#[test]
fn one_that_the_chains_ceiling_prices_out_says_so_and_lands_once_the_ceiling_is_raised() {
    let mut world = world(settings());
    world.play(Step::BaseFee(60));
    world.show(0, true);
    let id = world.submit();
    world.rest();
    world.says(id, &["the base fee is 60 gwei", "above what it may offer"]);
    assert_eq!(world.slot_of(id), None, "and it takes no slot");
    world.desk.settings = std::sync::Arc::new(LaneSettings { max_fee: Price::gwei(200), ..settings() });
    world.desk.crash();
    world.show(0, true);
    world.rest();
    world.finalise();
    assert_eq!(world.desk.store.state(id), crate::transaction::TxState::Confirmed);
}

#[test]
fn every_hold_has_its_sentence() {
    let mut blind = super::World::new(settings(), 2);
    let id = blind.submit();
    blind.carry(Kind::Load, Fault::None);
    blind.says(id, &["has not been reached"]);

    let mut world = world(settings());
    let out = world.broadcast();
    world.block();
    world.play(Step::Foreign);
    world.show(0, true);
    let waiting = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.says(waiting, &["nonce 6 was used by another program", "when the block is found"]);
    world.carry(Kind::Prove, Fault::None);
    world.says(waiting, &["nonce 6 was used by another program in block 2", "(0 of 2 confirmations)"]);
    world.play(Step::Crash);
    world.show(0, true);
    world.carry(Kind::Load, Fault::None);
    world.says(waiting, &["does not know who used nonce 6", "resume the lane"]);
    world.says(out, &["block 1, 1 of 2 confirmations"]);
    world.play(Step::ShowOther);
    world.says(waiting, &["another chain"]);
}

#[test]
fn a_bound_transaction_says_what_its_slot_waits_for() {
    let mut world = world(settings());
    let first = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.carry(Kind::Sign, Fault::None);
    world.says(first, &["it is being sent"]);
    world.say(SendOutcome::PoolFull);
    world.says(first, &["pool_full", "next send in 250 ms"]);
    world.wait(250);
    world.rest();
    world.says(first, &["the pool has it", "next send in 59 s"]);
    let second = world.broadcast();
    world.says(second, &["nonce 6 waits for nonce 5"]);
    world.play(Step::BaseFee(40));
    world.show(0, true);
    world.says(first, &["nonce 5 is 36 gwei under the base fee"]);
    world.cancel(first);
    world.says(first, &["a no-op is to take its nonce"]);
    world.play(Step::ShowOther);
    world.says(first, &["nonce 5 is kept", "another chain"]);
}

#[test]
fn one_whose_slot_the_chain_has_used_says_so() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.play(Step::Foreign);
    world.show(0, true);
    world.carry(Kind::Look, Fault::None);
    world.says(id, &["the chain has used nonce 5", "our 1 attempts", "looked 1 times"]);
}

#[test]
fn a_reserved_slot_says_that_its_signature_is_awaited() {
    let mut world = world(remote());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    world.says(id, &["nonce 5 is reserved", "signature is awaited"]);
    world.play(Step::Foreign);
    world.show(0, true);
    world.says(id, &["nonce 5 is reserved", "used by another program"]);
}

#[test]
fn one_that_has_ended_has_nothing_to_explain() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.finalise();
    assert_eq!(world.desk.lane.explain(id, world.desk.now), None);
}

/// As earlier versions let it in, and as a chain may be configured.
#[test]
fn one_that_waits_for_a_tag_which_the_chain_lacks_says_so() {
    let asked = Options { finality: Some(Finality::Finalized), ..Options::default() };
    let own = LaneSettings { finality: Finality::Finalized, ..settings() };
    for (settings, options) in [(settings(), asked), (own, Options::default())] {
        let mut world = world(settings);
        let id = world.submit_as(payment_with_gas(1), options);
        world.rest();
        world.block();
        world.says(
            id,
            &["done when the chain calls it finalized", "no endpoint has shown a finalized block yet"],
        );
        world.chain.tags = Tags { safe: Tag::Known, finalized: Tag::Lacking };
        world.block();
        world.says(id, &["no endpoint knows a finalized block", "number of blocks"]);
        world.chain.tags.finalized = Tag::Known;
        world.block();
        let said = world.desk.lane.explain(id, world.desk.now).unwrap();
        assert!(said.ends_with("done when the chain calls it finalized"), "{said}");
    }
}
