//! A store that is full: the server's memory beside it, and how quickly more is taken in, against an empty store in
//! alternating runs. Lanes are paused all the while, so that only admission is measured.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use landfall_core::ports::clock::Clock as _;
use serde_json::json;

use super::super::rig::Rig;
use super::load::Loader;
use super::report::{median, round};
use super::rows::{GROUP, Rows};
use super::site::{self, Site};
use super::store::Opened;
use super::{progress, settings, verdict};
use crate::cli::{Bench, BenchMode};
use crate::output;
use crate::system::SystemClock;

/// What the store is full of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Full {
    Waiting(u64),
    Finished(u64),
}

/// At most so many are handed over in each measured run: about a second of work, so that the store also has to move its log.
const MEASURED: u64 = 50_000;
/// And at least so many, beside a store with fewer.
const FEWEST: u64 = 5_000;
/// Handed over at once while the store is filled, and how many go in one request.
const FILL: u64 = 50_000;
const FILL_BATCH: u64 = 1_000;
const PAUSE_LIMIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(super) async fn run(args: &Bench, full: Full) -> Result<ExitCode> {
    let (name, wanted) = match full {
        Full::Waiting(count) => ("waiting", count),
        Full::Finished(count) => ("finished", count),
    };
    let bar = progress(args, wanted);
    bar.set_message(format!("filling the store: {name}"));
    let mut site = Site::start(args, false).await?;
    if let Full::Finished(count) = full {
        fill_finished(&site, count, &bar).await?;
    }
    site.rig.start_all().await?;
    let start = site.used();
    pause(&site.rig, site.chain.chain_id).await?;
    let mut next = 0;
    if let Full::Waiting(count) = full {
        let filling = Bench { mode: BenchMode::Batch, batch: FILL_BATCH, ..args.clone() };
        while next < count {
            let some = FILL.min(count - next);
            Loader::prepare(&site.plan(&filling, next, some)).await?.go().await?;
            next += some;
            bar.set_position(next);
        }
    }
    let filled = site.used();
    bar.set_message("taking in more");
    let (mut empty, mut beside) = (Vec::new(), Vec::new());
    let measured = wanted.clamp(FEWEST, MEASURED);
    for _ in 0..args.runs {
        let fresh = site::rig(args, &site.chain, usize::try_from(args.nodes)?, true).await?;
        pause(&fresh, site.chain.chain_id).await?;
        empty.push(admitted_per_s(site::plan(args, &site.chain, &fresh, next, measured)).await?);
        drop(fresh);
        beside.push(admitted_per_s(site.plan(args, next, measured)).await?);
        next += measured;
    }
    let after = site.used();
    // Everything that was handed over waits, since the lanes are paused.
    let kept = site.rig.unfinished().await.context("the server does not answer")? == next;
    bar.finish_and_clear();
    let (empty, beside) = (median(empty), median(beside));
    let result = json!({
        "scenario": name,
        "store": args.store_name(),
        "mode": args.mode.name(),
        "count": wanted,
        "runs": args.runs,
        "rss_mb": {
            "start": round(start.now_mb, 1),
            "filled": round(filled.now_mb, 1),
            "peak": round(after.peak_mb, 1),
        },
        "admitted_per_s": { "empty": round(empty, 0), "full": round(beside, 0) },
        "full_to_empty": round(beside / empty, 3),
        "none_lost": kept,
        "settings": settings::changed(site.rig.config()),
        "durability": site::durability(&mut site.rig).await?,
    });
    output::json(&result);
    Ok(verdict(kept))
}

/// Written straight into the store, before the server starts, for accounts whose keys it does not have.
async fn fill_finished(site: &Site, count: u64, bar: &indicatif::ProgressBar) -> Result<()> {
    let opened = Opened::open(site.rig.config()).await?;
    let store = opened.store();
    let mut rows = Rows::new(store.as_ref(), site.chain.chain_id, SystemClock.now()).await?;
    for group in 0..count.div_ceil(GROUP) {
        rows.finish(group).await?;
        bar.set_position((group + 1) * GROUP);
    }
    rows.close().await
}

async fn pause(rig: &Rig, chain: u64) -> Result<()> {
    for signer in &rig.signers {
        rig.client.steer_lane(chain, &signer.to_string(), "pause").await?;
    }
    // It is a wish until the lane's owner has it.
    let applied = async {
        while rig.client.lanes().await?.iter().filter(|lane| lane.paused).count() < rig.signers.len() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    };
    tokio::time::timeout(PAUSE_LIMIT, applied).await.context("the lanes were not paused")?
}

async fn admitted_per_s(plan: super::load::Plan) -> Result<f64> {
    let count = plan.count as f64;
    let loaded = Loader::prepare(&plan).await?.go().await?;
    Ok(count / loaded.took_s)
}
