//! A server that is killed with many unfinished: how soon it is ready again, and whether all of them land, once.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::load::Loader;
use super::report::round;
use super::site::{self, Site};
use super::{progress, settings, verdict};
use crate::cli::Bench;
use crate::output;
use crate::system::moment;

pub(super) async fn run(args: &Bench, count: u64) -> Result<ExitCode> {
    let bar = progress(args, count);
    let mut site = Site::start(args, true).await?;
    // Without blocks nothing ends: as many as the windows hold are out, the others wait.
    site.chain.mine(false).await?;
    bar.set_message("handing over");
    Loader::prepare(&site.plan(args, 0, count)).await?.go().await?;
    let unfinished = site.rig.unfinished().await.unwrap_or_default();
    bar.set_message("killed, starting again");
    site.rig.kill_server().await?;
    let begun = moment();
    site.rig.start_server().await?;
    let ready_s = begun.elapsed().as_secs_f64();
    site.chain.mine(true).await?;
    bar.set_message("landing");
    let finished = site.finish(count, |landed| bar.set_position(landed.min(count))).await;
    let all_s = begun.elapsed().as_secs_f64();
    finished?;
    let once = site.chain.landed_once(0..count).await?;
    bar.finish_and_clear();
    let settings = settings::changed(site.rig.config());
    output::json(&json!({
        "scenario": "restart",
        "store": args.store_name(),
        "settings": settings,
        "durability": site::durability(&mut site.rig).await?,
        "signers": args.signers,
        "count": count,
        "unfinished": unfinished,
        "ready_s": round(ready_s, 2),
        "all_final_s": round(all_s, 1),
        "landed_once": once,
    }));
    Ok(verdict(once && unfinished == count))
}
