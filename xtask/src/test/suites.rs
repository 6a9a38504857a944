//! The suites, in the order in which they run. A new one is a new row.

use std::time::Duration;

pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) covers: &'static str,
    /// Whether plain `cargo xtask test` runs it; if not, only `--all` does.
    pub(crate) by_default: bool,
    /// What it may take on 2 cores once everything is built. Longer is reported, not refused.
    pub(crate) budget: Duration,
    pub(crate) tests: Tests,
}

/// Which tests a suite is made of.
#[derive(Clone, Copy)]
pub(crate) enum Tests {
    /// All that no other suite names.
    Rest,
    /// The examples in doc comments.
    Doc,
    /// One integration test binary.
    Binary { package: &'static str, name: &'static str },
    /// The cases whose instructions are counted.
    Counts,
}

pub(crate) const SUITES: &[Suite] = &[
    Suite {
        name: "unit and conformance",
        covers: "every crate on its own: rules, properties, one conformance suite per port",
        by_default: true,
        budget: Duration::from_secs(90),
        tests: Tests::Rest,
    },
    Suite {
        name: "doc tests",
        covers: "examples in doc comments",
        by_default: false,
        budget: Duration::from_secs(120),
        tests: Tests::Doc,
    },
    Suite {
        name: "simulator",
        covers: "fixed and new seeds, determinism, and every planted bug",
        by_default: true,
        budget: Duration::from_secs(150),
        tests: Tests::Binary { package: "landfall-sim", name: "sim" },
    },
    Suite {
        name: "instruction counts",
        covers: "no piece of the hot path takes over 10 % more instructions than committed",
        by_default: true,
        budget: Duration::from_secs(60),
        tests: Tests::Counts,
    },
    Suite {
        name: "e2e",
        covers: "the real binary over HTTP against anvil, killed, restarted and on a hostile chain",
        by_default: true,
        budget: Duration::from_secs(360),
        tests: Tests::Binary { package: "landfall", name: "e2e" },
    },
];

/// What plain `cargo xtask test` may take on 2 cores once everything is built.
pub(crate) const TOTAL_BUDGET: Duration = Duration::from_secs(12 * 60);

/// The binaries that have a suite of their own.
pub(crate) fn own_binaries() -> impl Iterator<Item = (&'static str, &'static str)> {
    SUITES.iter().filter_map(|suite| match suite.tests {
        Tests::Binary { package, name } => Some((package, name)),
        Tests::Rest | Tests::Doc | Tests::Counts => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_suites_fit_the_total_budget() {
        let sum: Duration = SUITES.iter().filter(|suite| suite.by_default).map(|suite| suite.budget).sum();
        assert!(sum <= TOTAL_BUDGET, "{sum:?}");
    }
}
