//! Lanes that are known and have no work: what they cost the server and the chain's node, while their leases are kept for
//! more work, and after they were given back. The chain is asked as often as it is by default.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::load::Loader;
use super::report::round;
use super::site::{self, Site};
use super::{progress, settings, verdict};
use crate::cli::{Bench, BenchMode};
use crate::output;
use crate::system::moment;

/// After the last work, so that what belongs to it is over.
const SETTLE: Duration = Duration::from_secs(5);
/// Leases are kept for longer than both together.
const WATCHED_HELD: Duration = Duration::from_secs(15);
const WATCHED: Duration = Duration::from_secs(30);
/// How long lanes may take to be given back.
const GIVEN_BACK: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn run(args: &Bench, lanes: u64) -> Result<ExitCode> {
    let args = Bench { signers: lanes, count: lanes, mode: BenchMode::Batch, ..args.clone() };
    let bar = progress(&args, lanes);
    bar.set_message("one transaction in each lane");
    let mut site = Site::start(&args, true).await?;
    Loader::prepare(&site.plan(&args, 0, lanes)).await?.go().await?;
    site.finish(lanes, |landed| bar.set_position(landed)).await?;
    bar.set_message("doing nothing");
    tokio::time::sleep(SETTLE).await;
    let held = watch(&site, WATCHED_HELD, lanes).await?;
    let given_back = async {
        while site.lanes_running().await? > 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(GIVEN_BACK, given_back).await.context("the lanes were not given back")??;
    let idle = watch(&site, WATCHED, lanes).await?;
    bar.finish_and_clear();
    let once = site.chain.landed_once(0..lanes).await?;
    let settings = settings::changed(site.rig.config());
    let mut result = json!({
        "scenario": "idle",
        "store": args.store_name(),
        "settings": settings,
        "durability": site::durability(&mut site.rig).await?,
        "lanes": lanes,
        "held": held,
        "landed_once": once,
    });
    if let (Value::Object(result), Value::Object(idle)) = (&mut result, idle) {
        result.extend(idle);
    }
    output::json(&result);
    Ok(verdict(once))
}

/// What is used in a while in which nothing is asked for.
async fn watch(site: &Site, time: Duration, lanes: u64) -> Result<Value> {
    let running = site.lanes_running().await?;
    let before = site.read().await?;
    // A page of metrics costs more than a second of rest: none is read in between.
    let (used, begun) = (site.used(), moment());
    tokio::time::sleep(time).await;
    let (used, seconds) = (site.used().since(used), begun.elapsed().as_secs_f64());
    let after = site.read().await?;
    let running = running.min(site.lanes_running().await?);
    let per_s = |now: u64, then: u64| (now - then) as f64 / seconds;
    let methods = per_s(after.traffic.calls, before.traffic.calls);
    Ok(json!({
        "lanes_running": running,
        "seconds": round(seconds, 1),
        "cpu_share": round(used.cpu_s / seconds, 4),
        "rss_mb": round(after.server().now_mb, 1),
        "rpc_requests_per_s": round(per_s(after.traffic.requests, before.traffic.requests), 2),
        "rpc_methods_per_s": round(methods, 2),
        "rpc_methods_per_lane_and_s": round(methods / lanes as f64, 4),
        "store_commits_per_s": round((after.commits - before.commits) / seconds, 2),
    }))
}
