//! Making a failing scenario smaller: faults, nodes, chains and requests are left out for as long as it still fails.

use crate::run::{Options, Report, run};
use crate::scenario::{Fault, Scenario};
use crate::world::Rule;

/// At most this many runs are spent on it.
const TRIES: usize = 60;

/// The smallest scenario found that still breaks the same rule, and its run. The seed stays: what is left out is said.
pub fn shorten(scenario: Scenario, options: Options) -> std::io::Result<Option<(Scenario, Report)>> {
    let first = run(scenario.clone(), options)?;
    let Some(rule) = first.violations.first().map(|violation| violation.rule) else { return Ok(None) };
    let mut best = (scenario, first);
    let mut tries = 0;
    loop {
        let mut smaller = None;
        for candidate in candidates(&best.0) {
            if tries == TRIES {
                return Ok(Some(best));
            }
            tries += 1;
            let report = run(candidate.clone(), options)?;
            if breaks(&report, rule) {
                smaller = Some((candidate, report));
                break;
            }
        }
        match smaller {
            Some(smaller) => best = smaller,
            None => return Ok(Some(best)),
        }
    }
}

fn breaks(report: &Report, rule: Rule) -> bool {
    report.violations.iter().any(|violation| violation.rule == rule)
}

/// One step smaller, the largest steps first.
fn candidates(scenario: &Scenario) -> Vec<Scenario> {
    let mut smaller = Vec::new();
    if scenario.requests_per_caller > 1 {
        let half = Scenario { requests_per_caller: scenario.requests_per_caller / 2, ..scenario.clone() };
        smaller.push(half);
    }
    for (field, at) in [
        (scenario.callers, 0),
        (scenario.nodes, 1),
        (scenario.chains, 2),
        (scenario.endpoints, 3),
        (scenario.signers, 4),
    ] {
        if field > 1 {
            let mut less = scenario.clone();
            match at {
                0 => less.callers -= 1,
                1 => less.nodes -= 1,
                2 => less.chains -= 1,
                3 => less.endpoints -= 1,
                _ => less.signers -= 1,
            }
            smaller.push(less);
        }
    }
    let faults: Vec<Fault> = scenario.rates.keys().copied().collect();
    for fault in faults {
        let mut calmer = scenario.clone();
        calmer.rates.remove(&fault);
        smaller.push(calmer);
    }
    smaller
}
