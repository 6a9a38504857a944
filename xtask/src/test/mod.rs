//! `cargo xtask test`: provide, build, run suite by suite, say what ran and how long it took.
//!
//! Nothing is left out in silence: a test that is marked as ignored, one that a configuration filters away, and a
//! suite that ran fewer tests than it has are failures; a suite that does not exist yet is named as absent.

mod doctests;
mod libtest;
mod nextest;
mod report;
mod suites;
mod tally;

use std::process::Command;

use anyhow::Result;

use crate::provision::{self, Absent, Tool};
use crate::workspace::Workspace;
use crate::{clock, counts};
use report::{Outcome, Row};
use suites::{SUITES, Suite, Tests};
pub(crate) use tally::Tally;

/// Whether everything that should run ran and passed.
pub(crate) fn run(workspace: &Workspace, all: bool, filters: &[String]) -> Result<bool> {
    let (finished, total) = clock::timed(|| rows(workspace, all, filters));
    let rows = match finished {
        Ok(rows) => rows,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            vec![Row::broken("preparation", total, format!("{error:#}"))]
        }
    };
    Ok(report::print(&rows, total))
}

fn rows(workspace: &Workspace, all: bool, filters: &[String]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();

    heading("tools");
    let (tools, time) = clock::timed(|| provision::all(workspace));
    let tools = tools?;
    for tool in &tools {
        let started = if tool.running.is_some() { ", started for this run" } else { "" };
        println!("{} = {} ({}{started})", tool.variable, tool.value.display(), tool.version);
    }
    rows.push(Row::step("tools", time));
    let on_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    rows.extend(provision::absent().into_iter().map(|absent| without(absent, on_ci)));

    let runner = if nextest::present() {
        heading("build");
        let (listing, time) = clock::timed(|| nextest::list(workspace, filters));
        rows.push(Row::step("build", time));
        Runner::Nextest(listing?)
    } else {
        println!(
            "notice: cargo-nextest is not installed, so plain `cargo test` runs the tests: slower, without a"
        );
        println!(
            "notice: limit per test, and build times are part of the suites' times. See CONTRIBUTING.md."
        );
        Runner::Libtest
    };
    if let Runner::Nextest(listing) = &runner
        && !listing.silenced.is_empty()
    {
        for test in &listing.silenced {
            eprintln!("not run: {test}");
        }
        rows.push(Row::problem(
            "silenced tests",
            listing.silenced.len(),
            "these would be left out in silence (listed above): make each of them run, or delete it"
                .to_owned(),
        ));
    }

    for suite in SUITES {
        if suite.by_default || all {
            rows.push(run_suite(workspace, suite, all, &runner, &tools, filters));
        } else {
            rows.push(Row::not_run(suite.name, "only with --all".to_owned()));
        }
    }
    if !filters.is_empty() && rows.iter().all(|row| row.tally.ran() == 0) {
        rows.push(Row::problem(
            "filter",
            1,
            format!("no test has a name containing {}", filters.join(" or ")),
        ));
    }
    Ok(rows)
}

enum Runner {
    Nextest(nextest::Listing),
    Libtest,
}

fn run_suite(
    workspace: &Workspace,
    suite: &Suite,
    all: bool,
    runner: &Runner,
    tools: &[Tool],
    filters: &[String],
) -> Row {
    heading(&format!("suite: {} ({})", suite.name, suite.covers));
    match suite.tests {
        Tests::Rest => {}
        Tests::Doc => match doctests::packages(workspace) {
            Ok(packages) if packages.is_empty() => return absent(suite, "no doc comment has an example"),
            Ok(_) => {}
            Err(error) => return Row::broken(suite.name, std::time::Duration::ZERO, format!("{error:#}")),
        },
        Tests::Counts => match counts::impossible(workspace) {
            Ok(None) => {}
            Ok(Some(why)) => return absent(suite, &why),
            Err(error) => return Row::broken(suite.name, std::time::Duration::ZERO, format!("{error:#}")),
        },
        Tests::Binary { package, name } => {
            if !workspace.has_test_binary(package, name) {
                return absent(suite, &format!("package {package} has no test binary `{name}` yet"));
            }
        }
    }
    let env = |command: &mut Command| {
        for tool in tools {
            command.env(tool.variable, &tool.value);
        }
        // Tests that look for trouble by chance do so for longer.
        if all {
            command.env("LANDFALL_THOROUGH", "1");
        }
        // A short run of each decoder is part of every test run.
        if all && std::env::var_os("LANDFALL_FUZZ_INPUTS").is_none() {
            command.env("LANDFALL_FUZZ_INPUTS", "1000000");
        }
        // The simulator's new seeds begin elsewhere each day; a failing one is named whole in the output.
        if std::env::var_os("LANDFALL_SIM_FROM").is_none() {
            command.env("LANDFALL_SIM_FROM", clock::seed().to_string());
        }
    };
    let (finished, time) = clock::timed(|| match (suite.tests, runner) {
        (Tests::Rest | Tests::Binary { .. }, Runner::Nextest(_)) => {
            nextest::run(workspace, suite.tests, filters, env)
        }
        (Tests::Counts, _) => counts::suite(workspace, filters).map(|tally| (tally.failed == 0, Some(tally))),
        (Tests::Doc, _) | (_, Runner::Libtest) => libtest::run(workspace, suite.tests, filters, env),
    });
    let expected = match (suite.tests, runner) {
        (Tests::Rest | Tests::Binary { .. }, Runner::Nextest(listing)) => Some(listing.count(suite.tests)),
        (Tests::Doc | Tests::Counts, _) | (_, Runner::Libtest) => None,
    };
    match finished {
        Ok((succeeded, tally)) => judge(suite, succeeded, tally, expected).at(time),
        Err(error) => Row::broken(suite.name, time, format!("{error:#}")),
    }
}

/// A suite passes if its run succeeded, reported its numbers, and ran as many tests as there are.
fn judge(suite: &Suite, succeeded: bool, tally: Option<Tally>, expected: Option<usize>) -> Row {
    let Some(tally) = tally else {
        let sentence = "the run ended without a summary: see its output above".to_owned();
        return Row::problem(suite.name, 1, sentence).within(suite.budget);
    };
    let complaint = match expected {
        Some(expected) if expected != tally.ran() => {
            Some(format!("{expected} tests should have run, {} did", tally.ran()))
        }
        // Nextest counts other suites' tests as left out; the listing has seen the ignored ones.
        Some(_) => None,
        None if tally.left_out > 0 => {
            Some(format!("{} ignored: make each of them run, or delete it", tally.left_out))
        }
        None => None,
    };
    let complaint = complaint.or_else(|| {
        (!succeeded && tally.failed == 0)
            .then(|| "all tests passed, but the run failed: see above".to_owned())
    });
    let outcome = match complaint {
        Some(sentence) => Outcome::Broken(sentence),
        None if tally.failed > 0 => Outcome::Failed,
        None => Outcome::Passed,
    };
    // A run that is broken without a failed test is one failure, so that the closing line cannot look well.
    let failed = if matches!(outcome, Outcome::Broken(_)) { tally.failed.max(1) } else { tally.failed };
    Row::new(suite.name, Tally { failed, ..tally }, outcome).within(suite.budget)
}

/// A program that is not here leaves something unchecked. CI may not do so.
fn without(Absent { name, sentence }: Absent, on_ci: bool) -> Row {
    eprintln!("{name}: {sentence}");
    if on_ci { Row::problem(name, 1, sentence) } else { Row::not_run(name, sentence) }
}

fn absent(suite: &Suite, why: &str) -> Row {
    println!("ABSENT: {why}; nothing was run for `{}`", suite.name);
    Row::not_run(suite.name, format!("ABSENT: {why}"))
}

fn heading(text: &str) {
    println!("\n== {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(
        succeeded: bool,
        tally: Option<(usize, usize, usize)>,
        expected: Option<usize>,
    ) -> (usize, bool) {
        let tally = tally.map(|(passed, failed, left_out)| Tally { passed, failed, left_out });
        let row = judge(&SUITES[0], succeeded, tally, expected);
        (row.tally.failed, row.is_good())
    }

    #[test]
    fn a_suite_passes_only_if_it_ran_all_it_has_and_nothing_failed() {
        assert_eq!(judged(true, Some((5, 0, 3)), Some(5)), (0, true));
        assert_eq!(judged(false, Some((4, 1, 0)), Some(5)), (1, false));
        assert_eq!(judged(true, Some((4, 0, 0)), Some(5)), (1, false));
        assert_eq!(judged(false, Some((5, 0, 0)), Some(5)), (1, false));
        assert_eq!(judged(false, None, Some(5)), (1, false));
    }

    #[test]
    fn a_program_that_is_not_here_is_named_in_the_table_and_fails_a_run_of_ci() {
        let absent = || Absent { name: "a-program", sentence: "it was NOT checked".to_owned() };
        let (here, on_ci) = (without(absent(), false), without(absent(), true));
        assert_eq!((here.name.as_str(), here.tally.failed, here.is_good()), ("a-program", 0, true));
        assert_eq!((on_ci.tally.failed, on_ci.is_good()), (1, false));
    }

    #[test]
    fn without_a_listing_an_ignored_test_is_a_failure() {
        assert_eq!(judged(true, Some((5, 0, 1)), None), (1, false));
        assert_eq!(judged(true, Some((5, 0, 0)), None), (0, true));
    }
}
