//! `landfall sim`: the real engine against a simulated world.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use landfall_sim::{Fault, Many, Options, Planted, Report, Scenario, Summary, many, run, shorten};
use serde_json::{Value, json};

use crate::cli::Sim;
use crate::output::{self, Colour, coloured};
use crate::system::moment;

/// A planted bug must be found within this many seeds.
const TEETH_SEEDS: u64 = 500;

pub(crate) fn execute(args: &Sim) -> Result<ExitCode> {
    if args.teeth {
        return teeth(args);
    }
    match args.seed {
        Some(seed) => one(args, seed),
        None => several(args),
    }
}

/// One seed, with everything that happened.
fn one(args: &Sim, seed: u64) -> Result<ExitCode> {
    let options = Options { planted: None, readable: !args.json };
    let report = run(Scenario::from_seed(seed), options)?;
    if args.json {
        output::json(&report_json(&report));
    } else {
        println!("{}", report.scenario);
        for line in &report.lines {
            println!("{line}");
        }
        say_end(&report);
    }
    if report.violations.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    explain(seed, Options::default(), args.json)?;
    Ok(ExitCode::FAILURE)
}

fn say_end(report: &Report) {
    println!(
        "trace {:016x}, {} events, {:.0} simulated seconds, {} transactions",
        report.trace_hash,
        report.events,
        report.simulated.as_secs_f64(),
        report.transactions
    );
    for violation in &report.violations {
        println!("{} {}: {}", coloured("violated", Colour::Red), violation.rule.sentence(), violation.text);
    }
    if !report.journal.is_empty() {
        println!("The journal of that lane:");
        for line in &report.journal {
            println!("{line}");
        }
    }
}

/// A failing seed, made as small as it gets.
fn explain(seed: u64, options: Options, json: bool) -> Result<()> {
    if json {
        return Ok(());
    }
    if let Some((scenario, report)) = shorten(Scenario::from_seed(seed), options)? {
        println!("\nThe smallest scenario found that still fails:\n  {}", scenario.sentence());
        say_end(&report);
    }
    println!("\nRepeat it with: landfall sim --seed {seed}");
    Ok(())
}

fn several(args: &Sim) -> Result<ExitCode> {
    let begun = moment();
    let bar = progress(args.seeds, args.json);
    let which = Many { from: args.from, seeds: args.seeds, jobs: args.jobs, most_failures: 5 };
    let summary = many(which, Options::default(), &|report| {
        bar.inc(1);
        if !report.violations.is_empty() {
            bar.println(format!("seed {} fails", report.seed));
        }
    })?;
    bar.finish_and_clear();
    let took = begun.elapsed();
    if args.json {
        output::json(&summary_json(&summary, took));
    } else {
        say(&summary, took);
    }
    for report in summary.failures.iter().take(1) {
        explain(report.seed, Options::default(), args.json)?;
    }
    Ok(if summary.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn progress(seeds: u64, hidden: bool) -> ProgressBar {
    if hidden {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds  {elapsed}  {per_sec}");
    ProgressBar::new(seeds).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn say(summary: &Summary, took: Duration) {
    println!(
        "{} runs in {:.1} s: {:.1} simulated hours, {} transactions, {} events; three or more nodes in {} runs",
        summary.runs,
        took.as_secs_f64(),
        summary.simulated.as_secs_f64() / 3_600.0,
        summary.transactions,
        summary.events,
        summary.runs_with_three_nodes
    );
    let rows = Fault::ALL.iter().map(|fault| {
        let (times, runs) = summary.faults.get(fault).copied().unwrap_or_default();
        let share = runs as f64 * 100.0 / summary.runs.max(1) as f64;
        vec![fault.word().to_owned(), times.to_string(), format!("{share:.0} %")]
    });
    println!("{}", output::table(&["fault", "times", "of runs"], rows.collect()));
    if summary.failures.is_empty() {
        println!("{}", coloured("No rule was violated.", Colour::Green));
    }
    for report in &summary.failures {
        for violation in &report.violations {
            println!("seed {}: {}: {}", report.seed, violation.rule.sentence(), violation.text);
        }
    }
}

/// Plants each bug and sees how many seeds it takes to find it.
fn teeth(args: &Sim) -> Result<ExitCode> {
    let mut rows = Vec::new();
    let mut missed = 0;
    for planted in Planted::ALL {
        let found = landfall_sim::seeds_to_find(*planted, args.from, TEETH_SEEDS, args.jobs)?;
        let text = match &found {
            Some((seeds, rule)) => format!("{seeds} (by: {})", rule.sentence()),
            None => {
                missed += 1;
                "NOT FOUND".to_owned()
            }
        };
        if !args.json {
            println!("{:<45} {text}", planted.word());
        }
        rows.push(json!({
            "bug": planted.word(),
            "seedsToFind": found.as_ref().map(|(seeds, _)| *seeds),
            "foundBy": found.map(|(_, rule)| rule.sentence()),
        }));
    }
    if args.json {
        output::json(&json!({ "planted": rows, "missed": missed }));
    }
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report_json(report: &Report) -> Value {
    let violations: Vec<Value> = report
        .violations
        .iter()
        .map(|violation| json!({ "rule": violation.rule.sentence(), "text": violation.text }))
        .collect();
    json!({
        "seed": report.seed,
        "traceHash": format!("{:016x}", report.trace_hash),
        "events": report.events,
        "simulatedSeconds": report.simulated.as_secs_f64(),
        "transactions": report.transactions,
        "scenario": report.scenario,
        "violations": violations,
    })
}

fn summary_json(summary: &Summary, took: Duration) -> Value {
    let faults: serde_json::Map<String, Value> = summary
        .faults
        .iter()
        .map(|(fault, (times, runs))| (fault.word().to_owned(), json!({ "times": times, "runs": runs })))
        .collect();
    json!({
        "runs": summary.runs,
        "seconds": took.as_secs_f64(),
        "simulatedHours": summary.simulated.as_secs_f64() / 3_600.0,
        "transactions": summary.transactions,
        "events": summary.events,
        "runsWithThreeNodes": summary.runs_with_three_nodes,
        "faults": faults,
        "failures": summary.failures.iter().map(report_json).collect::<Vec<_>>(),
    })
}
