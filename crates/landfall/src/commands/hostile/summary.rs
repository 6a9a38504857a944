//! The end of the run in words or as JSON.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::audit::InStore;
use super::{CEILING_GWEI, Report};
use crate::cli::Demo;
use crate::commands::rig::Rig;
use crate::output::{self, Colour, coloured, text};

/// How many of the slowest are shown.
const SLOWEST: usize = 5;

/// A transaction that took long, and its time line.
pub(super) struct Slow {
    id: String,
    seconds: f64,
    time_line: Vec<String>,
}

/// Those that took longest from their first signature to their end.
pub(super) async fn slowest(rig: &Rig, stored: &[InStore]) -> Result<Vec<Slow>> {
    let mut slow = Vec::with_capacity(stored.len());
    for tx in stored {
        let journal: serde_json::Value =
            rig.client.get(&format!("/api/v1/tx/{}/journal?limit=500", tx.id)).await?;
        slow.extend(journal["items"].as_array().and_then(|entries| time(&tx.id, entries)));
    }
    slow.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    slow.truncate(SLOWEST);
    Ok(slow)
}

fn time(id: &str, entries: &[Value]) -> Option<Slow> {
    let at = |entry: &Value| text(entry, "at").parse::<jiff::Timestamp>().ok();
    let signed = at(entries.iter().find(|entry| entry["type"] == "signed")?)?;
    let since = |entry: &Value| at(entry).map_or(0.0, |at| at.duration_since(signed).as_secs_f64());
    let line = |entry: &Value| {
        let more = entry.pointer("/report/outcome").or(entry.pointer("/fees/maxFee")).and_then(Value::as_str);
        format!("{:+.1} s {} {}", since(entry), text(entry, "type"), more.unwrap_or_default())
            .trim_end()
            .to_owned()
    };
    let seconds = since(entries.last()?);
    Some(Slow { id: id.to_owned(), seconds, time_line: entries.iter().map(line).collect() })
}

pub(super) fn show(args: &Demo, report: &Report) -> ExitCode {
    let clean = report.findings.is_clean(args.count()) && !report.stuck;
    if args.json {
        output::json(&as_json(args, report, clean));
    } else {
        in_words(args, report, clean);
    }
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn as_json(args: &Demo, report: &Report, clean: bool) -> Value {
    let found = &report.findings;
    let slow = |slow: &Slow| json!({ "txId": slow.id, "seconds": slow.seconds, "timeLine": slow.time_line });
    json!({
        "clean": clean,
        "chain": report.ground,
        "count": args.count(),
        "landedOnce": found.landed_once,
        "landedTwice": found.landed_twice,
        "lost": found.lost,
        "gaps": found.gaps,
        "overCeiling": found.over_ceiling,
        "notConfirmed": found.not_confirmed,
        "differing": found.differing,
        "noOps": found.no_ops,
        "examples": found.examples,
        "stuck": report.stuck,
        "kills": report.kills,
        "faults": report.proxies,
        "chainTroubles": report.chain,
        "slowest": report.slowest.iter().map(slow).collect::<Vec<_>>(),
        "seconds": report.seconds,
        "seed": args.seed,
    })
}

fn in_words(args: &Demo, report: &Report, clean: bool) {
    let row = |count: u64, what: &str| println!("  {count:>6}  {what}");
    let found = &report.findings;
    println!("What was done to it in {:.1} s and {} blocks:", report.seconds, report.chain.blocks);
    row(report.kills, "hard kills of the engine (SIGKILL)");
    for (what, count) in report.chain.each() {
        row(count, what);
    }
    println!("and by two endpoints, in {} requests:", report.proxies.requests);
    for (what, count) in report.proxies.each() {
        row(count, what);
    }
    println!("What the chain shows of {} transactions over {} signers:", args.count(), args.lanes());
    row(found.landed_once, "landed once");
    row(found.landed_twice, "landed twice");
    row(found.lost, "lost");
    row(found.gaps, "gaps");
    row(found.over_ceiling, &format!("above their ceiling (the chain's is {CEILING_GWEI} gwei)"));
    row(found.not_confirmed, "not confirmed in the store");
    row(found.differing, "of which the store says something else than the chain");
    if let Some(slow) = report.slowest.first() {
        println!("The slowest took {:.1} s from its first signature to its end.", slow.seconds);
    }
    for example in &found.examples {
        println!("  {example}");
    }
    if report.ground != "anvil" {
        println!(
            "There was no anvil, so this ran on the built-in chain. To run it on anvil, install Foundry"
        );
        println!("(https://getfoundry.sh), or name the binary in LANDFALL_ANVIL.");
    }
    let (verdict, colour) = if report.stuck {
        ("The run did not end in time.", Colour::Red)
    } else if clean {
        ("Every transaction landed exactly once, within its ceiling.", Colour::Green)
    } else {
        ("Something is wrong.", Colour::Red)
    };
    println!("{}", coloured(verdict, colour));
}
