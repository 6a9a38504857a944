//! Many seeds, on as many threads as asked. Each run stays on one thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::planted::Planted;
use crate::run::{Options, Report, run};
use crate::scenario::{Fault, Scenario};
use crate::world::Rule;

/// Which seeds.
#[derive(Debug, Clone, Copy)]
pub struct Many {
    pub from: u64,
    pub seeds: u64,
    pub jobs: usize,
    /// Stop at this many failing seeds.
    pub most_failures: usize,
}

/// What they came to.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    pub runs: u64,
    pub simulated: Duration,
    pub transactions: u64,
    pub events: u64,
    pub runs_with_three_nodes: u64,
    /// How often each fault struck, and in how many runs.
    pub faults: BTreeMap<Fault, (u64, u64)>,
    pub failures: Vec<Report>,
}

impl Summary {
    fn add(&mut self, report: Report) {
        self.runs += 1;
        self.simulated += report.simulated;
        self.transactions += report.transactions;
        self.events += report.events;
        self.runs_with_three_nodes += u64::from(report.nodes >= 3);
        for (fault, times) in &report.faults {
            let entry = self.faults.entry(*fault).or_default();
            entry.0 += times;
            entry.1 += 1;
        }
        if !report.violations.is_empty() {
            self.failures.push(report);
            self.failures.sort_by_key(|report| report.seed);
        }
    }
}

/// Runs them; `done` is told of each as it ends.
pub fn many(which: Many, options: Options, done: &(dyn Fn(&Report) + Sync)) -> std::io::Result<Summary> {
    let next = AtomicU64::new(which.from);
    let end = which.from.saturating_add(which.seeds);
    let summary = Mutex::new(Summary::default());
    let trouble = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..which.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let failures = summary.lock().unwrap_or_else(PoisonError::into_inner).failures.len();
                    if seed >= end || failures >= which.most_failures {
                        return;
                    }
                    let scenario = match options.planted {
                        Some(planted) => planted.scenario(seed),
                        None => Scenario::from_seed(seed),
                    };
                    match run(scenario, options) {
                        Ok(report) => {
                            done(&report);
                            summary.lock().unwrap_or_else(PoisonError::into_inner).add(report);
                        }
                        Err(error) => {
                            *trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                            return;
                        }
                    }
                }
            });
        }
    });
    match trouble.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(summary.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

/// How many seeds it takes until a planted bug is found, and by which rule. None if that many are not enough, or only
/// a rule that is not meant to find it does.
pub fn seeds_to_find(
    planted: Planted,
    from: u64,
    most: u64,
    jobs: usize,
) -> std::io::Result<Option<(u64, Rule)>> {
    let options = Options { planted: Some(planted), readable: false };
    let chunk = (jobs.max(1) as u64) * 2;
    let mut begun = 0;
    while begun < most {
        let seeds = chunk.min(most - begun);
        let which = Many { from: from + begun, seeds, jobs, most_failures: usize::MAX };
        let summary = many(which, options, &|_| ())?;
        for report in &summary.failures {
            let rules = report.violations.iter().map(|violation| violation.rule);
            if let Some(rule) = rules.into_iter().find(|rule| planted.found_by().contains(rule)) {
                return Ok(Some((report.seed - from + 1, rule)));
            }
        }
        begun += seeds;
    }
    Ok(None)
}
