//! `landfall demo --hostile`: the same promise on a real node, with everything between it and the engine against it.
//!
//! ```text
//! callers ─► server (killed with SIGKILL) ─► two proxies that lie, each in its own way ─► anvil ◄─ a hostile miner
//! ```
//!
//! At the end the node itself is asked, not the proxies, and the store is held against it: [`audit`].

mod audit;
mod ground;
mod summary;

use std::process::ExitCode;
use std::time::Duration;

use alloy_primitives::Address;
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use landfall_chain::spec::Finality;
use landfall_devchain::{ChainTroubles, Nemesis, Proxy, ProxyCounts, Rates};
use serde_json::{Value, json};

use super::demo::progress;
use super::rig::{self, Rig};
use crate::cli::Demo;
use crate::config::Chain;
use crate::system::moment;
use ground::Ground;

const BLOCK: Duration = Duration::from_millis(250);
/// Deeper than any reorganisation of the miner's.
const FINALITY: u64 = Nemesis::DEEPEST_REORG + 2;
/// A run that takes this long is reported as stuck.
const LIMIT: Duration = Duration::from_secs(600);
const GWEI: u128 = 1_000_000_000;
/// The chain's ceiling. Fee spikes go above it.
const CEILING_GWEI: u64 = 30;
/// Every so many transactions have a lower ceiling of their own.
const OWN_CEILING_EVERY: u64 = 7;
const OWN_CEILING_GWEI: u64 = 12;

/// What goes wrong at both endpoints.
const RATES: Rates = Rates {
    lose_reply: 0.30,
    lose_request: 0.03,
    hang: 0.003,
    limit: 0.01,
    bad_gateway: 0.03,
    truncate: 0.01,
    delay: 0.10,
    null_receipts: 0.20,
    stale: 0.25,
    stale_blocks: 5,
    duplicate: 0.10,
    swallow: 0.03,
};

/// Everything that was done and what came of it.
struct Report {
    ground: &'static str,
    kills: u64,
    proxies: ProxyCounts,
    chain: ChainTroubles,
    stuck: bool,
    seconds: f64,
    findings: audit::Findings,
    slowest: Vec<summary::Slow>,
}

pub(crate) async fn run(args: &Demo) -> Result<ExitCode> {
    let begun = moment();
    let ground = Ground::start(args.seed).await?;
    // Three seeds of one, so that neither endpoint does what the other does.
    let seeds = [1, 2, 3].map(|n| args.seed.wrapping_mul(1_000_003).wrapping_add(n));
    let first = Proxy::start(&ground.url(), RATES, seeds[0]).await?;
    // The second is behind half of the time.
    let second = Proxy::start(&ground.url(), Rates { stale: 0.5, ..RATES }, seeds[1]).await?;
    let mut nemesis = Nemesis::start(&ground.url(), ground.kind(), BLOCK, seeds[2]);
    let settings = settings(vec![first.url(), second.url()])?;
    let mut rig = Rig::start(settings, usize::try_from(args.lanes())?).await?;
    let callers = rig::start_callers(&rig, submissions(args, &rig.signers))?;
    let bar = progress(args);
    let faults = || first.counts().faults() + second.counts().faults();
    let done = tokio::time::timeout(LIMIT, carry(&mut rig, &ground, args, &bar, faults)).await;
    bar.finish_and_clear();
    nemesis.stop().await;
    let (kills, stuck) = match done {
        Ok(Ok(kills)) => (kills, false),
        Ok(Err(error)) => return Err(error.context(format!("the server's last words:\n{}", rig.last_log()))),
        Err(_) => {
            eprintln!("The server's last words:\n{}", rig.last_log());
            (args.kills, true)
        }
    };
    for caller in callers {
        if stuck {
            caller.abort();
        } else {
            caller.await.context("a caller's task ended early")??;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let stored = stored(&rig).await?;
    let slots = rig.slots().await?;
    let findings = audit::judge(args.count(), &ground.landed().await?, &stored, &slots, ceiling);
    let report = Report {
        ground: ground.name(),
        kills,
        proxies: first.counts() + second.counts(),
        chain: nemesis.done(),
        stuck,
        seconds,
        findings,
        slowest: summary::slowest(&rig, &stored).await?,
    };
    Ok(summary::show(args, &report))
}

fn settings(rpc: Vec<String>) -> Result<Chain> {
    let mut settings = Chain::new(ground::CHAIN_ID, rpc)?;
    settings.spec.finality = Finality::Blocks(FINALITY);
    settings.spec.poll_ms = 100;
    settings.spec.max_in_flight = 32;
    settings.resubmit_after_s = 1;
    settings.max_fee_gwei = CEILING_GWEI;
    settings.request_timeout_ms = 1_500;
    Ok(settings)
}

/// The ceiling of what this transaction may offer per gas, in wei; a no-op has the chain's.
fn ceiling(number: Option<u64>) -> u128 {
    let own = number.is_some_and(|n| n.is_multiple_of(OWN_CEILING_EVERY));
    GWEI * u128::from(if own { OWN_CEILING_GWEI } else { CEILING_GWEI })
}

fn submissions(args: &Demo, signers: &[Address]) -> Vec<Value> {
    let with_ceiling = |(n, signer): (u64, &Address)| {
        let mut item = rig::submission(ground::CHAIN_ID, *signer, n);
        if n.is_multiple_of(OWN_CEILING_EVERY) {
            item["options"] = json!({ "maxFeePerGas": ceiling(Some(n)).to_string() });
        }
        item
    };
    (0..args.count()).zip(signers.iter().cycle()).map(with_ceiling).collect()
}

/// Kills the server as the work goes on, until all of it is done; how often it was killed.
async fn carry(
    rig: &mut Rig,
    ground: &Ground,
    args: &Demo,
    bar: &ProgressBar,
    faults: impl Fn() -> u64,
) -> Result<u64> {
    let mut kills = 0;
    loop {
        let landed = ground.used_slots(&rig.signers).await;
        bar.set_position(landed.min(args.count()));
        // Spread over the run by what has landed, so that each hits work in flight.
        if kills < args.kills && landed * (args.kills + 1) >= args.count() * (kills + 1) {
            bar.set_message(format!("kill {} …", kills + 1));
            rig.kill_server().await?;
            kills += 1;
            rig.start_server().await?;
        }
        bar.set_message(format!("{kills} kills, {} faults", faults()));
        if landed >= args.count() && kills == args.kills && rig.unfinished().await == Some(0) {
            return Ok(kills);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Everything in the store, as callers see it.
async fn stored(rig: &Rig) -> Result<Vec<audit::InStore>> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let page: serde_json::Value = rig.client.get(&format!("/api/v1/tx?limit=500{cursor}")).await?;
        let items = page["items"].as_array().context("the server gave no list")?;
        all.extend(items.iter().map(audit::InStore::read));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(all),
        }
    }
}
