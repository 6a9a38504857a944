//! Random lists of steps. The desk, the store and the chain of the model world check at every turn; here the lists are
//! made, and what must hold at the end of them is checked.

use std::time::Duration;

use proptest::prelude::*;

use super::super::test_world::{Ask, CommitFate, Fault, Step, World};
use crate::journal::Entry;
use crate::outcome::SendOutcome;
use crate::request::Finality;
use crate::settings::LaneSettings;
use crate::transaction::TxState;
use crate::{Price, Slot, Wei};

fn any_outcome() -> impl Strategy<Value = SendOutcome> {
    use SendOutcome::*;
    proptest::sample::select(vec![
        Accepted,
        AlreadyKnown,
        NonceTooLow,
        NonceTooHigh,
        ReplacementUnderpriced,
        Underpriced,
        FeeBelowBase,
        InsufficientFunds,
        AccountLimit,
        PoolFull,
        Invalid,
        Reverted,
        NodePolicy,
        Endpoint,
        NeverIncludable,
        Unknown,
    ])
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        12 => Just(Fault::None),
        2 => Just(Fault::AnswerLost),
        2 => Just(Fault::NotDone),
        1 => Just(Fault::Silent),
        2 => (any_outcome(), any::<bool>()).prop_map(|(outcome, taken)| Fault::Says { outcome, taken }),
        1 => Just(Fault::Never),
        1 => Just(Fault::Funds),
    ]
}

fn any_ask() -> impl Strategy<Value = Ask> {
    let fees = (proptest::option::weighted(0.2, 3u64..30), proptest::option::weighted(0.2, 2u64..60));
    let switches = (any::<bool>(), any::<bool>(), any::<bool>());
    (any::<bool>(), proptest::bool::weighted(0.2), fees, switches).prop_map(
        |(own_gas, big, (ceiling_gwei, asked_gwei), (requeue, fast, handed_over))| Ask {
            own_gas,
            big,
            ceiling_gwei,
            asked_gwei,
            deadline_in: None,
            requeue,
            fast,
            after: None,
            handed_over,
        },
    )
}

/// What happens in a world that only has bad luck.
fn luck() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => any_ask().prop_map(Step::Admit),
        20 => (0usize..8, any_fault()).prop_map(|(nth, fault)| Step::Act(nth, fault)),
        20 => (0usize..8).prop_map(Step::Deliver),
        8 => Just(Step::Settle),
        8 => prop_oneof![1u64..500, 500u64..12_000].prop_map(Step::Tick),
        1 => (1u64..3_000).prop_map(Step::ClockBack),
        10 => (0usize..4, proptest::bool::weighted(0.9)).prop_map(|(most, success)| Step::Mine { most, success }),
        4 => (1u64..3, any::<bool>(), 0u64..3).prop_map(|(depth, keep, refill)| Step::Reorg { depth, keep, refill }),
        2 => (0usize..8).prop_map(Step::Evict),
        3 => (1u64..60).prop_map(Step::BaseFee),
        // From nothing to a few transfers at a high price.
        2 => (0u64..8_000_000).prop_map(Step::Balance),
        12 => (0u64..2, proptest::bool::weighted(0.8)).prop_map(|(lag, receipts)| Step::Show { lag, receipts }),
        3 => Just(Step::Crash),
        2 => prop_oneof![Just(CommitFate::AnswerLost), Just(CommitFate::NotDone)].prop_map(Step::NextCommit),
        2 => (0usize..8).prop_map(Step::Ghost),
    ]
}

/// Other people as well: callers who change their minds, operators, strangers with the key, another chain.
fn people() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => luck(),
        2 => (0usize..8).prop_map(Step::Cancel),
        1 => (0usize..8).prop_map(Step::Approve),
        1 => (0usize..8).prop_map(Step::Reject),
        1 => prop_oneof![4 => Just(Step::Pause), 1 => Just(Step::CancelAll)],
        1 => Just(Step::Resume),
        1 => Just(Step::Foreign),
        1 => Just(Step::Prove),
        1 => Just(Step::ShowOther),
        2 => (0usize..8, any_ask()).prop_map(|(nth, ask)| Step::Replace(nth, ask)),
        1 => (0usize..8, proptest::option::of(2u64..60), any::<bool>())
            .prop_map(|(nth, gwei, fast)| Step::SpeedUp(nth, gwei, fast)),
        1 => (0u64..4, 0u64..3).prop_map(|(above, slots)| Step::Fill(above, slots)),
        1 => Just(Step::Reset),
        1 => Just(Step::Disable),
        1 => (any_ask(), 0usize..8, any::<bool>(), any::<bool>())
            .prop_map(|(ask, nth, mined, hold)| Step::Admit(Ask { after: Some((nth, mined, hold)), ..ask })),
        1 => (any_ask(), 0u64..30_000)
            .prop_map(|(ask, millis)| Step::Admit(Ask { deadline_in: Some(millis), ..ask })),
    ]
}

#[derive(Debug, Clone)]
struct Setup {
    reserve: bool,
    finality: u64,
    /// How much of what is final for callers the chain may take back.
    deep: u64,
    checks: bool,
    approval: bool,
    window: u64,
    refuses_below_base: bool,
    refuses_gaps: bool,
    gapless: bool,
    delegated: bool,
}

fn any_setup() -> impl Strategy<Value = Setup> {
    let finality = prop_oneof![1 => Just(0u64), 3 => Just(2u64)];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (any::<bool>(), finality, flags, 1u64..5, any::<bool>(), any::<bool>()).prop_map(
        |(
            reserve,
            finality,
            (checks, approval, refuses_below_base, refuses_gaps),
            window,
            gapless,
            delegated,
        )| Setup {
            reserve,
            finality,
            deep: 0,
            checks,
            approval,
            window,
            refuses_below_base,
            refuses_gaps,
            gapless,
            delegated,
        },
    )
}

fn world(setup: &Setup) -> World {
    let settings = LaneSettings {
        finality: Finality::Blocks(setup.finality),
        max_in_flight: setup.window,
        resubmit_after: Duration::from_secs(10),
        max_fee: Price::gwei(50),
        max_attempts: 6,
        checks: setup.checks,
        approve_above: setup.approval.then_some(Wei(alloy_primitives::U256::from(1_000_000))),
        reserve_before_signing: setup.reserve,
        gapless: setup.gapless,
        watch_depth: setup.finality + setup.deep,
        ..LaneSettings::default()
    };
    let mut world = World::new(settings, setup.finality);
    world.chain.refuses_below_base = setup.refuses_below_base;
    world.chain.refuses_gaps = setup.refuses_gaps;
    world.chain.delegated = setup.delegated;
    world.chain.deep = setup.deep;
    world
}

fn run(setup: &Setup, steps: Vec<Step>) -> World {
    let mut world = world(setup);
    for step in steps {
        world.play(step);
    }
    world.calm_down(400);
    let store = &world.desk.store;
    for slot in store.attempts.keys().map(|(slot, _)| *slot) {
        assert!(world.chain.winner(slot).is_some(), "slot {slot} was never used up");
    }
    world
}

/// What has ended is what the chain shows, or the journal says that the chain changed its mind about it.
fn check_ends(world: &World) {
    for tx in world.desk.store.txs.values() {
        let told = |entry: &Entry| match entry {
            Entry::LandedAgain { version, receipt } => {
                let reverted = tx.status.state == TxState::Reverted;
                reverted == receipt.success
                    || tx.status.won.as_ref().is_none_or(|won| won.version != *version)
            }
            Entry::FinalLost { .. } => true,
            _ => false,
        };
        if !world.desk.store.journal_of(tx.id).any(told) {
            world.check_ending(tx.id);
        }
    }
}

/// Transactions that were never held up are bound in the order in which they came.
fn check_order(world: &World) {
    let store = &world.desk.store;
    let mut last = (Slot(0), crate::QueueOrder(0));
    for (id, slot) in &store.bindings {
        let tx = store.tx(*id);
        let asks = tx.payload().fees != crate::request::AskedFees::Market;
        if world.overtaken.contains(id) || asks || tx.request.options.max_fee_per_gas.is_some() {
            continue;
        }
        assert!(*slot > last.0 && tx.order > last.1, "{id} went to slot {slot} out of order, after {last:?}");
        last = (*slot, tx.order);
    }
}

/// `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(200), max_shrink_iters: 20_000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn through_bad_luck_every_transaction_lands_once_and_no_gap_stays(
        setup in any_setup(), steps in proptest::collection::vec(luck(), 0..120),
    ) {
        run(&setup, steps);
    }

    #[test]
    fn with_cancels_deadlines_pauses_and_strangers_nothing_lands_twice_and_all_ends(
        setup in any_setup(), steps in proptest::collection::vec(people(), 0..120),
    ) {
        run(&setup, steps);
    }

    #[test]
    fn when_the_chain_takes_back_what_was_final_it_lands_again_and_nothing_lands_twice(
        setup in any_setup(), deep in 1u64..6,
        steps in proptest::collection::vec(
            prop_oneof![
                12 => people(),
                1 => (2u64..8, any::<bool>(), 0u64..3)
                    .prop_map(|(depth, keep, refill)| Step::Reorg { depth, keep, refill }),
            ],
            0..120,
        ),
    ) {
        check_ends(&run(&Setup { deep, ..setup }, steps));
    }

    #[test]
    fn slots_are_handed_out_first_in_first_out(
        setup in any_setup(), steps in proptest::collection::vec(luck(), 0..120),
    ) {
        let setup = Setup { reserve: false, approval: false, ..setup };
        // One that the account cannot pay is overtaken.
        let steps = steps.into_iter().filter(|step| !matches!(step, Step::Balance(_))).collect();
        check_order(&run(&setup, steps));
    }
}
