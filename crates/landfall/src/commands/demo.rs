//! `landfall demo`: transactions land exactly once while everything around them breaks.
//!
//! The chain runs in this process, the engine in a child that is killed with `SIGKILL`. The summary is made by reading
//! the chain's own blocks, not by asking the engine. `--hostile` is another run: [`super::hostile`].

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use landfall_devchain::{Devchain, Fault, Mining, Removed, Rule};
use serde_json::json;

use super::hostile;
use super::rig::{self, Rig};
use crate::cli::Demo;
use crate::config::{Chain, ConfiguredFinality};
use crate::output::{self, Colour, coloured};
use crate::system::{moment, unix_seconds};

const BLOCK: Duration = Duration::from_millis(200);
/// Nothing takes this long; a run that does is reported as stuck.
const LIMIT: Duration = Duration::from_secs(300);
/// How many blocks each reorganisation takes back.
const REORG_DEPTH: u64 = 2;

pub(crate) async fn run(args: &Demo) -> Result<ExitCode> {
    if args.hostile {
        return hostile::run(args).await;
    }
    let begun = moment();
    let chain = start_chain(args.seed).await?;
    let settings = Chain {
        id: chain.config().chain_id,
        rpc: vec![chain.http_url()],
        finality: ConfiguredFinality::Blocks(2),
        poll_ms: 50,
        max_in_flight: 32,
        resubmit_after_s: 1,
        bump_percent: 20,
        max_fee_gwei: 500,
        max_spend_per_day_eth: 0.0,
        request_timeout_ms: 2_000,
    };
    let mut rig = Rig::start(settings, usize::try_from(args.lanes())?).await?;
    add_faults(&chain);
    let signers = rig.signers.iter().cycle();
    let items = (0..args.count())
        .zip(signers)
        .map(|(n, signer)| rig::submission(chain.config().chain_id, *signer, n));
    let callers = rig::start_callers(&rig, items)?;
    let bar = progress(args);
    let done = tokio::time::timeout(LIMIT, carry(&mut rig, &chain, args, &bar)).await;
    bar.finish_and_clear();
    let mut troubles = match done {
        Ok(Ok(troubles)) => troubles,
        Ok(Err(error)) => return Err(error.context(format!("the server's last words:\n{}", rig.last_log()))),
        Err(_) => {
            eprintln!("The server's last words:\n{}", rig.last_log());
            Troubles { stuck: true, ..Troubles::default() }
        }
    };
    if !troubles.stuck {
        for caller in callers {
            caller.await.context("a caller's task ended early")??;
        }
    }
    troubles.seconds = begun.elapsed().as_secs_f64();
    let audit = audit(&rig, &chain, args).await?;
    Ok(summary(args, &chain, &troubles, &audit))
}

/// What was done to the engine.
#[derive(Default)]
struct Troubles {
    kills: u64,
    reorged_blocks: u64,
    evicted: u64,
    stuck: bool,
    seconds: f64,
}

async fn start_chain(seed: u64) -> Result<Devchain> {
    let mut config = landfall_devchain::Config::new(Arc::new(unix_seconds));
    config.mining = Mining::Interval(BLOCK);
    config.seed = seed;
    Ok(Devchain::start(config).await?)
}

fn add_faults(chain: &Devchain) {
    let send = "eth_sendRawTransaction";
    chain.add_fault(Rule::sometimes(Fault::LoseReply, 0.03).on(send));
    chain.add_fault(Rule::sometimes(Fault::LoseRequest, 0.01).on(send));
    chain.add_fault(Rule::sometimes(Fault::EvictAfterAdmit, 0.03).on(send));
    chain.add_fault(Rule::sometimes(Fault::SilentDrop, 0.02).on(send));
    chain.add_fault(
        Rule::sometimes(Fault::Refuse { code: -32000, message: "txpool is full".into() }, 0.01).on(send),
    );
    chain.add_fault(Rule::sometimes(Fault::NullReceipts, 0.05).on("eth_getTransactionReceipt"));
    chain.add_fault(Rule::sometimes(Fault::LoseReply, 0.01));
    chain.add_fault(Rule::sometimes(Fault::Delay { ms: 30 }, 0.05));
    let gateway = Fault::HttpStatus { status: 502, body: "<html>Bad Gateway</html>".into(), processed: true };
    chain.add_fault(Rule::sometimes(gateway, 0.01));
}

pub(super) fn progress(args: &Demo) -> ProgressBar {
    if args.json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} landed  {elapsed}  {msg}");
    ProgressBar::new(args.count()).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Breaks things as the work goes on, until all of it is done.
async fn carry(rig: &mut Rig, chain: &Devchain, args: &Demo, bar: &ProgressBar) -> Result<Troubles> {
    let mut troubles = Troubles::default();
    let mut reorgs = 0;
    loop {
        let landed = chain.landed(0).filter(|landed| rig::number_of(&landed.input).is_some()).count() as u64;
        bar.set_position(landed.min(args.count()));
        // Spread over the run by what has landed, so that each hits work in flight.
        if troubles.kills < args.kills && landed * (args.kills + 1) >= args.count() * (troubles.kills + 1) {
            bar.set_message(format!("kill {} …", troubles.kills + 1));
            rig.kill_server().await?;
            troubles.kills += 1;
            rig.start_server().await?;
        }
        if reorgs < 2 && landed * 3 >= args.count() * (reorgs + 1) && chain.head() > REORG_DEPTH {
            let what = if reorgs == 0 { Removed::Repool } else { Removed::Drop };
            chain.reorg(REORG_DEPTH, what).map_err(|error| anyhow::anyhow!("reorg: {error:?}"))?;
            troubles.reorged_blocks += REORG_DEPTH;
            reorgs += 1;
        }
        if landed < args.count() && chain.head().is_multiple_of(10) {
            troubles.evicted += chain.evict_random(1).len() as u64;
        }
        bar.set_message(format!("{} kills, {} faults", troubles.kills, chain.fault_counts().total()));
        if landed >= args.count() && troubles.kills == args.kills && rig.unfinished().await == Some(0) {
            return Ok(troubles);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What the chain itself says.
struct Audit {
    landed_once: u64,
    landed_twice: u64,
    lost: u64,
    gaps: u64,
    no_ops: u64,
}

impl Audit {
    fn is_clean(&self, count: u64) -> bool {
        self.landed_once == count && self.landed_twice == 0 && self.lost == 0 && self.gaps == 0
    }
}

async fn audit(rig: &Rig, chain: &Devchain, args: &Demo) -> Result<Audit> {
    let mut times: BTreeMap<u64, u64> = (0..args.count()).map(|n| (n, 0)).collect();
    let mut used: BTreeMap<String, u64> = BTreeMap::new();
    let mut no_ops = 0;
    for landed in chain.landed(0) {
        *used.entry(landed.from.to_string()).or_default() += 1;
        match rig::number_of(&landed.input).and_then(|n| times.get_mut(&n)) {
            Some(times) => *times += 1,
            None => no_ops += 1,
        }
    }
    // A gap is a slot that was handed out and that the chain did not use.
    let slots = rig.slots().await.unwrap_or_default();
    let gap = |(signer, slots): (&String, &u64)| slots.abs_diff(used.get(signer).copied().unwrap_or(0));
    Ok(Audit {
        landed_once: times.values().filter(|times| **times == 1).count() as u64,
        landed_twice: times.values().filter(|times| **times > 1).count() as u64,
        lost: times.values().filter(|times| **times == 0).count() as u64,
        gaps: slots.iter().map(gap).sum(),
        no_ops,
    })
}

fn summary(args: &Demo, chain: &Devchain, troubles: &Troubles, audit: &Audit) -> ExitCode {
    let faults = chain.fault_counts();
    let clean = audit.is_clean(args.count()) && !troubles.stuck;
    if args.json {
        output::json(&json!({
            "clean": clean,
            "count": args.count(),
            "landedOnce": audit.landed_once,
            "landedTwice": audit.landed_twice,
            "lost": audit.lost,
            "gaps": audit.gaps,
            "noOps": audit.no_ops,
            "stuck": troubles.stuck,
            "kills": troubles.kills,
            "reorganisedBlocks": troubles.reorged_blocks,
            "evicted": troubles.evicted + faults.evict_after_admit,
            "faults": faults,
            "blocks": chain.head(),
            "seconds": troubles.seconds,
            "seed": args.seed,
        }));
    } else {
        println!("What was done to it in {:.1} s and {} blocks:", troubles.seconds, chain.head());
        println!("  {:>6}  hard kills of the engine (SIGKILL)", troubles.kills);
        println!("  {:>6}  blocks reorganised", troubles.reorged_blocks);
        println!("  {:>6}  replies lost after the node had acted", faults.lose_reply + faults.http_status);
        println!("  {:>6}  requests lost", faults.lose_request);
        println!(
            "  {:>6}  transactions evicted or silently dropped",
            troubles.evicted + faults.evict_after_admit + faults.silent_drop
        );
        println!(
            "  {:>6}  refusals, null receipts and delays",
            faults.refuse + faults.null_receipts + faults.delay
        );
        println!("What the chain shows of {} transactions over {} lanes:", args.count(), args.lanes());
        println!("  {:>6}  landed once", audit.landed_once);
        println!("  {:>6}  landed twice", audit.landed_twice);
        println!("  {:>6}  lost", audit.lost);
        println!("  {:>6}  gaps", audit.gaps);
        if troubles.stuck {
            println!("{}", coloured("The run did not end in time.", Colour::Red));
        } else if clean {
            println!("{}", coloured("Every transaction landed exactly once.", Colour::Green));
        } else {
            println!("{}", coloured("Something is wrong.", Colour::Red));
        }
    }
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
