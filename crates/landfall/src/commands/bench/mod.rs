//! `landfall bench`: how many transactions land per second, beside what this machine's parts allow.
//!
//! | file | what it holds |
//! |---|---|
//! | `process`, `database` | processes of ours, and what a process or a database uses |
//! | `chain`, `load`, `http` | the bench chain and the load, each a process |
//! | `site`, `store`, `settings` | what a run happens on, and with which settings |
//! | `limits`, `rows` | what signing and the store allow |
//! | `history` | when each transaction was accepted, sent and final |
//! | `report`, `plot` | what is told |
//! | `scale`, `restart`, `idle`, `flood` | how cost grows |
//!
//! The servers are real (`serve`), the load comes over HTTP, and at the end the chain itself is asked whether each
//! transaction landed once. While a run is going on, the servers are asked nothing else.

mod chain;
mod database;
mod flood;
mod history;
mod http;
mod idle;
mod limits;
mod load;
mod plot;
mod process;
mod report;
mod restart;
mod rows;
mod scale;
mod settings;
mod site;
mod store;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

pub(super) use chain::run as run_chain;
pub(super) use load::run as run_load;

use super::failover;
use crate::cli::Bench;
use history::History;
use load::Loader;
use report::Run;
use site::Site;
use store::Opened;

/// Where the plot goes if nobody says where.
const PLOT: &str = "landfall-bench.svg";

pub(crate) async fn run(args: &Bench) -> Result<ExitCode> {
    if args.failover {
        let store = args.postgres().context("--failover needs a database: add --store postgres://…")?;
        return failover::run(store, args.json).await;
    }
    anyhow::ensure!(
        args.nodes == 1 || args.postgres().is_some(),
        "several nodes need a database that they can share: add --store postgres://…"
    );
    if let Some(count) = args.waiting {
        return scale::run(args, scale::Full::Waiting(count)).await;
    }
    if let Some(count) = args.finished {
        return scale::run(args, scale::Full::Finished(count)).await;
    }
    if let Some(count) = args.restart {
        return restart::run(args, count).await;
    }
    if let Some(lanes) = args.idle {
        return idle::run(args, lanes).await;
    }
    if args.anvil {
        return flood::run(args).await;
    }
    throughput(args).await
}

/// All that is asked for, from the first request to the last final state.
async fn throughput(args: &Bench) -> Result<ExitCode> {
    let bar = progress(args, args.count);
    bar.set_message("measuring what the parts allow");
    let sign_limit_per_s = limits::sign_per_s().await?;
    let store_limit_per_s = limits::store_per_s(args.postgres(), args.count).await?;
    bar.set_message("starting");
    let mut site = Site::start(args, true).await?;
    // A file is this run's alone; a database may have had others before.
    let bytes_before = match args.postgres() {
        Some(_) => store::bytes(site.rig.config()).await?,
        None => 0,
    };
    let loader = Loader::prepare(&site.plan(args, 0, args.count)).await?;
    let before = site.read().await?;
    bar.set_message("landing");
    let seen = |landed: u64| bar.set_position(landed.min(args.count));
    let (loaded, ended_ms) = tokio::try_join!(loader.go(), site.finish(args.count, seen))?;
    let after = site.read().await?;
    bar.set_message("checking");
    let landed_once = site.chain.landed_once(0..args.count).await?;
    site.rig.stop_all().await?;
    let opened = Opened::open(site.rig.config()).await?;
    let history = History::read(opened.store().as_ref()).await?;
    let durability = opened.durability().await?;
    drop(opened);
    let store_bytes = store::bytes(site.rig.config()).await?.saturating_sub(bytes_before);
    bar.finish_and_clear();
    let landed_once = landed_once && history.confirmed == args.count;
    let settings = settings::changed(site.rig.config());
    let run = Run {
        args,
        sign_limit_per_s,
        store_limit_per_s,
        before,
        after,
        loaded,
        ended_ms,
        history,
        store_bytes,
        durability,
        settings,
        landed_once,
    };
    run.print();
    let unasked = (!args.json).then(|| PathBuf::from(PLOT));
    if let Some(file) = args.plot.clone().or(unasked) {
        let title = format!(
            "{} transactions, {} signers, {}, {}",
            args.count,
            args.signers,
            args.store_name(),
            args.mode.name()
        );
        std::fs::write(&file, plot::draw(&title, run.loaded.begun_ms, &run.history))
            .with_context(|| format!("the plot {} cannot be written", file.display()))?;
        if !args.json {
            println!("accepted, sent and final over time: {}", file.display());
        }
    }
    Ok(verdict(landed_once))
}

fn verdict(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn progress(args: &Bench, length: u64) -> ProgressBar {
    if args.json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len}  {elapsed}  {msg}");
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
