//! `cargo xtask bench`: builds a release, starts a throw-away PostgreSQL that syncs every commit, runs the matrix and
//! writes `docs/benchmarks.md` with its plots.
//!
//! - `matrix`: what is run, and how often
//! - `machine`: what it ran on
//! - `page`: what is written

mod machine;
mod matrix;
mod page;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use landfall_pgtest::{Cluster, Settings};
use serde_json::Value;

use crate::clock;
use crate::process;
use crate::provision;
use crate::workspace::Workspace;
use matrix::{Case, Part};

/// The runs of one case.
struct Measured {
    case: Case,
    runs: Vec<Value>,
}

pub(crate) fn run(workspace: &Workspace, quick: bool, only: Option<&str>) -> Result<bool> {
    let mut build = process::cargo();
    build.args(["build", "--release", "--package", "landfall"]).current_dir(&workspace.root);
    if !process::status(&mut build)?.success() {
        bail!("the release cannot be built");
    }
    let program = workspace.target.join("release").join("landfall");
    let anvil = provision::anvil(workspace)?;
    let database = Cluster::start(Settings { fsync: true, ..Settings::default() })
        .context("cannot start a PostgreSQL for the benchmark")?;
    let plots = workspace.root.join("docs").join("benchmarks");
    std::fs::create_dir_all(&plots)?;
    let file = workspace.root.join("docs").join("benchmarks.md");
    let (machine, version) = (machine::describe(), landfall_pgtest::version()?);
    let mut failed = false;
    let is_wanted = |case: &Case| only.is_none_or(|word| case.name.contains(word));
    let wanted = matrix::all(quick).into_iter().filter(is_wanted);
    let mut measured: Vec<Measured> = wanted.map(|case| Measured { case, runs: Vec::new() }).collect();
    if measured.is_empty() {
        bail!("no case has {:?} in its name", only.unwrap_or_default());
    }
    for (place, n) in matrix::turns(measured.iter().map(|measured| &measured.case)) {
        let Some(Measured { case, runs }) = measured.get_mut(place) else { continue };
        // One that has failed is not tried again.
        if runs.len() < n {
            continue;
        }
        println!("{} ({} of {})", case.name, n + 1, case.runs);
        let plot =
            (n == 0 && case.part == Part::Throughput).then(|| plots.join(format!("{}.svg", case.name)));
        let mut command = Command::new(&program);
        command.env(anvil.variable, &anvil.value);
        let (result, took) = clock::timed(|| one(&mut command, case, &database.url(), plot.as_deref()));
        match result {
            Ok(result) => {
                println!("  {} in {}", page::short(&result), clock::show(took));
                runs.push(result);
            }
            // What the others measured is not to be lost with it.
            Err(error) => {
                eprintln!("  case {} failed and is left out: {error:#}", case.name);
                failed = true;
            }
        }
        if only.is_none() {
            // After each run: the last ones take long.
            std::fs::write(&file, page::write(&machine, &version, quick, &measured))?;
        }
    }
    if only.is_none() {
        println!("written: docs/benchmarks.md");
    }
    Ok(!failed)
}

/// One run; its exit code says whether everything landed once.
fn one(command: &mut Command, case: &Case, database: &str, plot: Option<&Path>) -> Result<Value> {
    command.arg("bench").args(&case.words).arg("--json");
    if case.postgres {
        command.args(["--store", database]);
    }
    if let Some(plot) = plot {
        command.arg("--plot").arg(plot);
    }
    Ok(serde_json::from_str(&process::stdout_of(command)?)?)
}
