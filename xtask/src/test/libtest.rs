//! Plain `cargo test`: the doc tests, which nextest does not run, and everything where nextest is missing.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Result, bail};

use super::suites::{self, Tests};
use super::tally::{self, Tally};
use crate::process::{self, Report};
use crate::workspace::Workspace;

/// Runs one suite.
pub(crate) fn run(
    workspace: &Workspace,
    tests: Tests,
    filters: &[String],
    env: impl Fn(&mut Command),
) -> Result<(bool, Option<Tally>)> {
    let mut command = process::cargo();
    command.args(["test", "--no-fail-fast"]).current_dir(&workspace.root);
    match tests {
        Tests::Doc => {
            // All packages, not only those with examples: a choice of packages has other features, and so would
            // build the dependencies once more.
            command.args(["--doc", "--workspace"]);
        }
        Tests::Counts => bail!("the counts are no tests of cargo's"),
        Tests::Binary { package, name } => {
            command.args(["--package", package, "--test", name]);
        }
        Tests::Rest => {
            command.args(["--workspace", "--lib", "--bins"]);
            let own: BTreeSet<_> = suites::own_binaries().collect();
            for package in &workspace.packages {
                for binary in package.test_binaries() {
                    if !own.contains(&(package.name.as_str(), binary)) {
                        command.args(["--test", binary]);
                    }
                }
            }
        }
    }
    command.arg("--").args(filters);
    // These are real processes and a chain: one at a time, as nextest's configuration has it.
    if let Tests::Binary { .. } = tests {
        command.arg("--test-threads=1");
    }
    env(&mut command);
    println!("$ {}", process::show(&command));
    let (status, report) = process::tee(&mut command, Report::Stdout)?;
    Ok((status.success(), tally::of_libtest(&report)))
}
