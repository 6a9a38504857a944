//! Seeds: no rule may be broken, and a seed must always be the same run.

use landfall_sim::{Fault, Many, Options, Scenario, Summary, many, run};

/// New seeds each time, where `cargo xtask test` names a place to begin.
const NEW_SEEDS: &str = "LANDFALL_SIM_FROM";

fn run_all(from: u64, seeds: u64) -> Summary {
    let which = Many { from, seeds, jobs: 2, most_failures: 3 };
    let summary = many(which, Options::default(), &|_| ()).expect("a runtime");
    for report in &summary.failures {
        for violation in &report.violations {
            println!(
                "landfall sim --seed {}: {}: {}",
                report.seed,
                violation.rule.sentence(),
                violation.text
            );
        }
    }
    assert!(summary.failures.is_empty(), "seeds from {from} break rules; the lines above repeat them");
    summary
}

#[test]
fn a_fixed_set_of_seeds_breaks_no_rule_and_meets_every_fault() {
    let summary = run_all(1, 400);
    assert!(summary.transactions >= 100 * summary.runs, "{} transactions", summary.transactions);
    assert!(summary.runs_with_three_nodes * 2 >= summary.runs, "{} runs", summary.runs_with_three_nodes);
    for fault in Fault::ALL {
        let (_, runs) = summary.faults.get(fault).copied().unwrap_or_default();
        // Those of special worlds have no more runs than these.
        let share = if fault.is_special() { 60 } else { 20 };
        assert!(
            runs * share >= summary.runs,
            "{} struck in {runs} of {} runs only",
            fault.word(),
            summary.runs
        );
    }
}

// covers: O1, O2
#[test]
fn while_a_chain_stands_still_for_half_an_hour_nothing_is_re_priced_confirmed_or_expired() {
    for seed in 1..=6 {
        let report = run(Scenario::halted(seed), Options::default()).expect("a runtime");
        assert!(report.violations.is_empty(), "seed {seed}: {:?}", report.violations);
        assert!(report.faults.get(&Fault::Halt).is_some_and(|times| *times > 0), "seed {seed}");
        assert!(report.simulated.as_secs() > 30 * 60, "seed {seed} waited for the chain");
    }
}

#[test]
fn strangers_on_a_chain_that_calls_nothing_final_and_takes_back_more_than_callers_wait_for_break_no_rule() {
    let mut seen = [0, 0];
    for seed in 1..=40 {
        let report = run(Scenario::untagged(seed), Options::default()).expect("a runtime");
        assert!(report.violations.is_empty(), "seed {seed}: {:?}", report.violations);
        for (count, fault) in seen.iter_mut().zip([Fault::DeepReorg, Fault::ForeignUse]) {
            *count += u64::from(report.faults.get(&fault).is_some_and(|times| *times > 0));
        }
    }
    assert!(seen.iter().all(|runs| *runs > 30), "{seen:?}");
}

/// Seeds that once broke a rule: a node that woke up sent before its new session was open; an endpoint on a fork that was left showed a
/// receipt; a deep reorganisation took back the no-op of one that was checked anew; a reserved slot was signed beyond the budget; the balance of
/// a lane at rest was not asked for. The sixth was the rule's own mistake: a copy held a
/// person's word about a stranger's slot. The seventh: the second slot of one that was cancelled since was compared with nothing. The last: a lane
/// that had nothing to do forgot with each call how long it had watched the chain.
const KEPT: [u64; 8] = [
    1_794_814_249_116,
    1_794_800_002_568,
    1_794_852_903_901,
    1_794_852_900_113,
    9_001_143,
    7_000_014,
    1_000_035,
    22_000_390,
];

/// Stores that were put back after a reorganisation that nobody had seen: bytes landed further ahead than was believed.
const KEPT_PUT_BACK: [u64; 4] = [5_000_752, 21_000_781, 21_000_802, 21_002_328];

#[test]
fn seeds_that_once_broke_a_rule_break_none() {
    for seed in KEPT {
        run_all(seed, 1);
    }
    for seed in KEPT_PUT_BACK {
        let report = run(Scenario::put_back(seed), Options::default()).expect("a runtime");
        assert!(report.violations.is_empty(), "seed {seed}: {:?}", report.violations);
    }
}

#[test]
fn new_seeds_break_no_rule() {
    let from = std::env::var(NEW_SEEDS).ok().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    println!("new seeds from {from}");
    run_all(from, 200);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 1..=50 {
        let once = run(Scenario::from_seed(seed), Options::default()).expect("a runtime");
        let again = run(Scenario::from_seed(seed), Options::default()).expect("a runtime");
        assert_eq!(once.trace_hash, again.trace_hash, "seed {seed}");
        assert_eq!(once.events, again.events, "seed {seed}");
    }
}

#[test]
fn different_seeds_give_different_traces() {
    let hash = |seed| run(Scenario::from_seed(seed), Options::default()).expect("a runtime").trace_hash;
    assert_ne!(hash(1), hash(2));
}

#[test]
fn a_broken_rule_comes_with_the_journal_of_its_lane_and_a_smaller_scenario() {
    let options = Options { planted: Some(landfall_sim::Planted::RequeueOnNullReceipt), readable: false };
    let asked = |scenario: &Scenario| scenario.callers * scenario.requests_per_caller;
    let report = (1..=100)
        // Where history is removed, there may be no journal left to show.
        .filter(|seed| Scenario::from_seed(*seed).keep.is_none())
        .filter(|seed| {
            let report = run(Scenario::from_seed(*seed), options).expect("a runtime");
            report.violations.first().is_some_and(|violation| violation.rule == landfall_sim::Rule::LandsOnce)
        })
        // What takes everything that one seed has to happen at all gets no smaller.
        .take(5)
        .find_map(|seed| {
            let first = Scenario::from_seed(seed);
            let (smaller, report) = landfall_sim::shorten(first.clone(), options).expect("a runtime")?;
            let is_smaller = asked(&smaller) < asked(&first) || smaller.rates.len() < first.rates.len();
            is_smaller.then_some(report)
        })
        .expect("a world that breaks a rule gets smaller");
    assert!(!report.violations.is_empty());
    assert!(report.journal.iter().any(|line| line.contains("Requeued")), "{:#?}", report.journal);
}
