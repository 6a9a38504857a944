//! The workspace's own tools: what developers and CI call.
//!
//! `cargo xtask test` makes a fresh machine ready and runs the tests; `cargo xtask lint` checks what a compiler
//! does not; `cargo xtask bench` measures, `cargo xtask flame` shows where the time
//! goes, `cargo xtask counts` counts instructions. This crate knows the workspace from the outside
//! only (files, `cargo metadata`, child processes) and
//! depends on no other crate of it.

mod bench;
mod clock;
mod counts;
mod flame;
mod lint;
mod process;
mod provision;
mod test;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

const EXAMPLES: &str = "\
Examples:
  cargo xtask test          run all default suites, as CI does
  cargo xtask lint          format, clippy, crate direction, texts
  cargo xtask counts        instructions of the hot path, held against the committed ones
  cargo xtask help test     more on one command";

const TEST_EXAMPLES: &str = "\
Examples:
  cargo xtask test                      all default suites
  cargo xtask test --all                also the suites that do not fit the default's time budget
  cargo xtask test fee_ladder           only tests whose name contains fee_ladder
  cargo xtask test fence lease          only tests whose name contains fence or lease
  LANDFALL_ANVIL=anvil cargo xtask test use an anvil of your own
  LANDFALL_CACHE=DIR cargo xtask test   keep provided tools in DIR instead of .cache/

What the tests need and the machine lacks (today: anvil, through npm) is put into the cache folder.
The last line is always `N passed, N failed`; the exit code is 0 only if everything that should run did, and passed.";

const BENCH_EXAMPLES: &str = "\
Examples:
  cargo xtask bench                     the whole matrix, medians of three runs; writes docs/benchmarks.md
  cargo xtask bench --quick             one small run of each, to see that it works
  cargo xtask bench --only postgres     only the cases with this in their name; nothing is written

Leave the machine alone meanwhile. One case by hand: `landfall bench --help`.";

const FLAME_EXAMPLES: &str = "\
Examples:
  cargo xtask flame                     the default run: SQLite, batches, 8 signers
  cargo xtask flame -- --mode single    any words that `landfall bench` takes

Needs `perf`, and the right to use it (sysctl kernel.perf_event_paranoid).";

const LINT_EXAMPLES: &str = "\
Examples:
  cargo xtask lint                      everything; the exit code is 0 only if all steps pass
  cargo fmt --all                       repair what the format step reports
  cargo clippy --fix --workspace        repair some of what clippy reports";

const COUNTS_EXAMPLES: &str = "\
Examples:
  cargo xtask counts                    every case; fails if one takes over 10 % more than committed
  cargo xtask counts lane               only cases whose name contains lane
  cargo xtask counts --accept           writes what is counted now to crates/benches/instructions.toml
  callgrind_annotate --auto=no target/callgrind/seal.out   where the instructions of a case are";

#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", about = "Tools of the Landfall workspace", after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Provide what the tests need, then build and run them
    #[command(after_help = TEST_EXAMPLES)]
    Test {
        /// Also run the suites that are not in the default
        #[arg(long)]
        all: bool,
        /// Run only tests whose name contains one of these
        filters: Vec<String>,
    },
    /// Build a release, measure it on both stores, and write docs/benchmarks.md
    #[command(after_help = BENCH_EXAMPLES)]
    Bench {
        /// Small numbers, one run each
        #[arg(long)]
        quick: bool,
        /// Only cases with this in their name
        #[arg(long, value_name = "WORD")]
        only: Option<String>,
    },
    /// Draw where the server's time goes into docs/benchmarks/flame.svg
    #[command(after_help = FLAME_EXAMPLES)]
    Flame {
        /// Words for `landfall bench`
        #[arg(last = true)]
        words: Vec<String>,
    },
    /// Check format, clippy, crate direction, lint opt-in and texts
    #[command(after_help = LINT_EXAMPLES)]
    Lint,
    /// Count the instructions of the hot path under valgrind
    #[command(after_help = COUNTS_EXAMPLES)]
    Counts {
        /// Commit to what is counted now
        #[arg(long)]
        accept: bool,
        /// Only cases whose name contains one of these
        filters: Vec<String>,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = Workspace::find().and_then(|workspace| match cli.command {
        Command::Test { all, filters } => test::run(&workspace, all, &filters),
        Command::Bench { quick, only } => bench::run(&workspace, quick, only.as_deref()),
        Command::Flame { words } => flame::run(&workspace, &words),
        Command::Lint => lint::run(&workspace),
        Command::Counts { accept, filters } => counts::run(&workspace, accept, &filters),
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
