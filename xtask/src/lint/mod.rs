//! `cargo xtask lint`: what CI refuses. Every step runs, cheap ones first, and each complaint is a sentence that
//! says what to do.

mod dependencies;
mod direction;
mod incidents;
mod licence;
mod links;
mod opt_in;
mod texts;

use std::process::Command;

use anyhow::Result;

use crate::workspace::Workspace;
use crate::{clock, process};

/// A name, and what finds complaints.
type Step<'a> = (&'a str, &'a dyn Fn() -> Result<Vec<String>>);

/// Whether every step passed.
pub(crate) fn run(workspace: &Workspace) -> Result<bool> {
    let steps: [Step<'_>; 9] = [
        ("crate direction", &|| Ok(direction::check(&workspace.packages))),
        ("crate direction, all the way down", &|| direction::check_reach(workspace)),
        ("dependencies", &|| dependencies::check(workspace)),
        ("lint opt-in", &|| opt_in::check(workspace)),
        ("texts", &|| texts::check(workspace)),
        ("incidents", &|| incidents::check(workspace)),
        ("links", &|| links::check(workspace)),
        ("format", &|| cargo(workspace, &["fmt", "--all", "--check"], "run `cargo fmt --all`")),
        ("clippy", &|| cargo(workspace, CLIPPY, "mend what clippy names above")),
    ];
    let mut good = true;
    for (name, step) in steps {
        let (complaints, time) = clock::timed(step);
        let complaints = complaints.unwrap_or_else(|error| vec![format!("{error:#}")]);
        for complaint in &complaints {
            eprintln!("{name}: {complaint}");
        }
        good &= complaints.is_empty();
        let word = if complaints.is_empty() { "ok" } else { "FAILED" };
        println!("{name:<34} {word:<6} {}", clock::show(time));
    }
    println!("{}", if good { "lint: all steps passed" } else { "lint: FAILED, see above" });
    Ok(good)
}

/// The workspace's lints deny `unwrap`, `expect`, `panic!` and `todo!` outside tests; where an exception stands, it
/// gives its reason.
const CLIPPY: &[&str] = &[
    "clippy",
    "--workspace",
    "--all-targets",
    "--",
    "-D",
    "warnings",
    "-D",
    "clippy::allow_attributes_without_reason",
];

fn cargo(workspace: &Workspace, arguments: &[&str], advice: &str) -> Result<Vec<String>> {
    let mut command: Command = process::cargo();
    command.args(arguments).current_dir(&workspace.root);
    println!("$ {}", process::show(&command));
    let status = process::status(&mut command)?;
    Ok(if status.success() { Vec::new() } else { vec![format!("failed; {advice}")] })
}
