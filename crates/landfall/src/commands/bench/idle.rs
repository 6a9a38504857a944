//! Lanes that are known and have no work: what they cost the server and the chain's node.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::load::Loader;
use super::report::round;
use super::site::Site;
use super::{progress, verdict};
use crate::cli::{Bench, BenchMode};
use crate::output;
use crate::system::moment;

/// After the last work, so that what belongs to it is over.
const SETTLE: Duration = Duration::from_secs(5);
const WATCHED: Duration = Duration::from_secs(10);

pub(super) async fn run(args: &Bench, lanes: u64) -> Result<ExitCode> {
    let args = Bench { signers: lanes, count: lanes, mode: BenchMode::Batch, ..args.clone() };
    let bar = progress(&args, lanes);
    bar.set_message("one transaction in each lane");
    let site = Site::start(&args, true).await?;
    Loader::prepare(&site.plan(&args, 0, lanes)).await?.go().await?;
    site.finish(lanes, |landed| bar.set_position(landed)).await?;
    bar.set_message("doing nothing");
    tokio::time::sleep(SETTLE).await;
    let (before, begun) = (site.read().await?, moment());
    tokio::time::sleep(WATCHED).await;
    let (after, seconds) = (site.read().await?, begun.elapsed().as_secs_f64());
    bar.finish_and_clear();
    let per_s = |now: u64, then: u64| round((now - then) as f64 / seconds, 2);
    let once = site.chain.landed_once(0..lanes).await?;
    output::json(&json!({
        "scenario": "idle",
        "store": args.store_name(),
        "lanes": lanes,
        "seconds": round(seconds, 1),
        "cpu_share": round(after.server.since(before.server).cpu_s / seconds, 4),
        "rss_mb": round(after.server.now_mb, 1),
        "rpc_requests_per_s": per_s(after.traffic.requests, before.traffic.requests),
        "rpc_methods_per_s": per_s(after.traffic.calls, before.traffic.calls),
        "store_commits_per_s": round((after.commits - before.commits) / seconds, 2),
        "landed_once": once,
    }));
    Ok(verdict(once))
}
