//! `cargo nextest`: lists first, then runs, so that what ran can be held against what there was.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::suites::{self, Tests};
use super::tally::{self, Tally};
use crate::process::{self, Report};
use crate::workspace::Workspace;

pub(crate) fn present() -> bool {
    process::output(process::cargo().args(["nextest", "--version"])).is_ok()
}

/// What there is to run: per binary, the tests that the caller's filters let through.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    /// By binary id, such as `landfall-core` or `landfall::e2e`.
    pub(crate) chosen: BTreeMap<String, usize>,
    /// Marked as ignored, or left out by something that is not the caller's filter.
    pub(crate) silenced: Vec<String>,
}

impl Listing {
    /// How many of them belong to a suite.
    pub(crate) fn count(&self, tests: Tests) -> usize {
        let own: Vec<String> = suites::own_binaries().map(|(package, name)| id(package, name)).collect();
        self.chosen
            .iter()
            .filter(|(binary, _)| match tests {
                Tests::Rest => !own.contains(binary),
                Tests::Binary { package, name } => **binary == id(package, name),
                Tests::Doc | Tests::Counts => false,
            })
            .map(|(_, count)| count)
            .sum()
    }
}

/// Builds every test binary of the workspace and asks each for its tests.
pub(crate) fn list(workspace: &Workspace, filters: &[String]) -> Result<Listing> {
    let text = process::stdout_of(
        process::cargo()
            .args(["nextest", "list", "--workspace", "--message-format", "json"])
            .args(filters)
            .current_dir(&workspace.root),
    )?;
    listing(&text)
}

/// Runs one suite. `env` tells the tests where their tools are.
pub(crate) fn run(
    workspace: &Workspace,
    tests: Tests,
    filters: &[String],
    env: impl Fn(&mut Command),
) -> Result<(bool, Option<Tally>)> {
    let mut command = process::cargo();
    command.args(["nextest", "run", "--workspace", "--no-tests=pass"]).current_dir(&workspace.root);
    if let Some(expression) = expression(workspace, tests) {
        command.args(["-E", &expression]);
    }
    command.args(filters);
    env(&mut command);
    println!("$ {}", process::show(&command));
    let (status, report) = process::tee(&mut command, Report::Stderr)?;
    Ok((status.success(), tally::of_nextest(&report)))
}

fn id(package: &str, name: &str) -> String {
    format!("{package}::{name}")
}

/// Nextest refuses to name a binary that does not exist, so only those that do are named.
fn expression(workspace: &Workspace, tests: Tests) -> Option<String> {
    match tests {
        Tests::Rest => {
            let own: Vec<String> = suites::own_binaries()
                .filter(|(package, name)| workspace.has_test_binary(package, name))
                .map(|(package, name)| format!("binary_id({})", id(package, name)))
                .collect();
            (!own.is_empty()).then(|| format!("not ({})", own.join(" | ")))
        }
        Tests::Binary { package, name } => Some(format!("binary_id({})", id(package, name))),
        Tests::Doc | Tests::Counts => None,
    }
}

fn listing(text: &str) -> Result<Listing> {
    let said: Said = serde_json::from_str(text).context("cannot read what `cargo nextest list` says")?;
    let mut listing = Listing::default();
    for (binary, suite) in said.suites {
        let mut chosen = 0;
        for (name, case) in suite.testcases {
            let because = case.filter_match.reason.as_deref();
            match (case.ignored, case.filter_match.status.as_str(), because) {
                (true, _, _) => listing.silenced.push(format!("{binary} {name} (marked as ignored)")),
                (false, "matches", _) => chosen += 1,
                (false, _, Some("string")) => {}
                (false, status, other) => {
                    listing.silenced.push(format!("{binary} {name} (left out: {})", other.unwrap_or(status)));
                }
            }
        }
        listing.chosen.insert(binary, chosen);
    }
    Ok(listing)
}

#[derive(Deserialize)]
struct Said {
    #[serde(rename = "rust-suites")]
    suites: BTreeMap<String, SaidSuite>,
}

#[derive(Deserialize)]
struct SaidSuite {
    testcases: BTreeMap<String, SaidCase>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SaidCase {
    ignored: bool,
    filter_match: SaidMatch,
}

#[derive(Deserialize)]
struct SaidMatch {
    status: String,
    reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{
      "rust-build-meta": {"target-directory": "x"},
      "test-count": 5,
      "rust-suites": {
        "landfall-core": {"binary-id": "landfall-core", "testcases": {
          "fee::never_falls": {"kind": "test", "ignored": false, "filter-match": {"status": "matches"}},
          "fee::too_slow": {"kind": "test", "ignored": true, "filter-match": {"status": "mismatch", "reason": "ignored"}},
          "slot::is_kept": {"kind": "test", "ignored": false, "filter-match": {"status": "mismatch", "reason": "string"}},
          "slot::is_lost": {"kind": "test", "ignored": false, "filter-match": {"status": "mismatch", "reason": "default-filter"}}
        }},
        "landfall::e2e": {"binary-id": "landfall::e2e", "testcases": {
          "it_lands": {"kind": "test", "ignored": false, "filter-match": {"status": "matches"}}
        }}
      }
    }"#;

    #[test]
    fn a_listing_counts_what_each_suite_has_to_run() {
        let listing = listing(LIST).unwrap();
        assert_eq!(listing.count(Tests::Rest), 1);
        assert_eq!(listing.count(Tests::Binary { package: "landfall", name: "e2e" }), 1);
        assert_eq!(listing.count(Tests::Doc), 0);
    }

    #[test]
    fn a_listing_names_every_test_that_would_be_left_out_without_the_callers_wish() {
        assert_eq!(
            listing(LIST).unwrap().silenced,
            [
                "landfall-core fee::too_slow (marked as ignored)",
                "landfall-core slot::is_lost (left out: default-filter)"
            ]
        );
    }
}
