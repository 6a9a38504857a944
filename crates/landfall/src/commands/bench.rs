//! `landfall bench`: how many transactions land per second, beside how many this machine could sign.
//!
//! The server is a real process and the load comes over HTTP; the chain runs in this process and checks nonces,
//! replacement rules and hashes, but runs no contract code. At the end the chain is asked whether each landed once.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{B256, Bytes};
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use landfall_chain::spec::Finality;
use landfall_core::ports::signer::{Preimage, Signer as _};
use landfall_devchain::{Devchain, Mining, dev_accounts};
use serde_json::json;

use super::rig::{self, Ground, Rig};
use super::{dev_keys, failover};
use crate::cli::Bench;
use crate::client::Client;
use crate::config::Chain;
use crate::output;
use crate::system::{moment, unix_seconds};

const BLOCK: Duration = Duration::from_millis(250);
const LIMIT: Duration = Duration::from_secs(600);
const WINDOW: u64 = 2_000;

pub(crate) async fn run(args: &Bench) -> Result<ExitCode> {
    if let Some(store) = args.store.as_ref().filter(|_| args.failover) {
        return failover::run(store, args.json).await;
    }
    anyhow::ensure!(
        args.nodes == 1 || args.store.is_some(),
        "several nodes need a database that they can share: add --store postgres://…"
    );
    let sign_limit = sign_limit().await?;
    let mut config = landfall_devchain::Config::new(Arc::new(unix_seconds));
    config.mining = Mining::Interval(BLOCK);
    config.execute = false;
    config.gas_limit = 10_000_000_000;
    config.queue_per_account = usize::try_from(WINDOW)?;
    config.pool_limit = 200_000;
    let chain = Devchain::start(config).await?;
    let mut settings = Chain::new(chain.config().chain_id, vec![chain.http_url()])?;
    settings.spec.finality = Finality::Blocks(2);
    settings.spec.poll_ms = 50;
    settings.spec.max_in_flight = WINDOW;
    let ground = Ground { store: args.store.clone(), nodes: usize::try_from(args.nodes)? };
    let rig = Rig::start_on(ground, settings, usize::try_from(args.signers)?).await?;
    let begun = moment();
    let bar = progress(args);
    let mut accepted = tokio::time::timeout(LIMIT, load(&rig, &chain, args, &bar))
        .await
        .context("the load took too long")??;
    let accept_s = begun.elapsed().as_secs_f64();
    tokio::time::timeout(LIMIT, finish(&rig, &chain, args, &bar))
        .await
        .context("the transactions did not all land")??;
    let landed_s = begun.elapsed().as_secs_f64();
    bar.finish_and_clear();
    accepted.sort();
    let once = landed_once(&chain, args.count);
    report(args, &rig, &accepted, &Times { accept_s, landed_s, sign_limit, once });
    Ok(if once { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Times {
    accept_s: f64,
    landed_s: f64,
    sign_limit: f64,
    once: bool,
}

/// Bare signatures per second of one core.
async fn sign_limit() -> Result<f64> {
    let account = dev_accounts().next().context("there are no test accounts")?;
    let signer = dev_keys::signer(&account)?;
    let requests: Vec<Preimage> = (0..5_000_u64)
        .map(|n| Preimage { bytes: Bytes::new(), digest: B256::left_padding_from(&n.to_be_bytes()) })
        .collect();
    let count = requests.len() as f64;
    let begun = moment();
    let signed = signer.sign(requests).await;
    let took = begun.elapsed().as_secs_f64();
    anyhow::ensure!(signed.iter().all(Result::is_ok), "signing failed");
    Ok(count / took)
}

async fn load(rig: &Rig, chain: &Devchain, args: &Bench, bar: &ProgressBar) -> Result<Vec<Duration>> {
    bar.set_message("handing over");
    let chain = chain.config().chain_id;
    let mut callers = Vec::new();
    // Callers do not know who owns a lane: any node takes in for any.
    for ((lane, signer), url) in rig.signers.iter().enumerate().zip(rig.urls().cycle()) {
        let mine = (0..args.count).filter(|n| (n % args.signers) as usize == lane);
        let items = mine.map(|n| rig::submission(chain, *signer, n)).collect();
        let client = Arc::new(Client::new(url)?);
        let batch = usize::try_from(args.batch)?;
        callers.push(tokio::spawn(rig::hand_over(client, items, Some(batch))));
    }
    let mut took = Vec::new();
    for caller in callers {
        took.extend(caller.await.context("a caller's task ended early")??);
    }
    Ok(took)
}

async fn finish(rig: &Rig, chain: &Devchain, args: &Bench, bar: &ProgressBar) -> Result<()> {
    bar.set_message("landing");
    loop {
        bar.set_position(chain.tx_count().min(args.count));
        if chain.tx_count() >= args.count && rig.unfinished().await == Some(0) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn landed_once(chain: &Devchain, count: u64) -> bool {
    let mut times: BTreeMap<u64, u64> = BTreeMap::new();
    for n in chain.landed(0).filter_map(|landed| rig::number_of(&landed.input)) {
        *times.entry(n).or_default() += 1;
    }
    times.len() as u64 == count && times.values().all(|times| *times == 1)
}

fn progress(args: &Bench) -> ProgressBar {
    if args.json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len}  {elapsed}  {msg}");
    ProgressBar::new(args.count).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(0.0, |took| took.as_secs_f64() * 1_000.0)
}

fn report(args: &Bench, rig: &Rig, accepted: &[Duration], times: &Times) {
    let count = args.count as f64;
    let landed_per_s = count / times.landed_s;
    let bytes = args.store.is_none().then(|| rig.store_bytes() as f64 / count);
    let store = args.store.as_ref().map_or("SQLite", |_| "PostgreSQL");
    if args.json {
        output::json(&json!({
            "count": args.count,
            "signers": args.signers,
            "store": store,
            "nodes": args.nodes,
            "batch": args.batch,
            "landed_once": times.once,
            "landed_per_s": landed_per_s,
            "accepted_per_s": count / times.accept_s,
            "accept_p50_ms": percentile(accepted, 50),
            "accept_p99_ms": percentile(accepted, 99),
            "sign_limit_per_s": times.sign_limit,
            "landed_to_sign_limit": landed_per_s / times.sign_limit,
            "store_bytes_per_tx": bytes,
            "settings": { "max_in_flight": WINDOW, "block_ms": BLOCK.as_millis() as u64, "finality": 2, "poll_ms": 50 },
        }));
        return;
    }
    let rows = [
        ("landed per second", format!("{landed_per_s:.0}")),
        ("accepted per second", format!("{:.0}", count / times.accept_s)),
        (
            "accept, half within",
            format!("{:.1} ms for {} transactions", percentile(accepted, 50), args.batch),
        ),
        ("accept, 99 % within", format!("{:.1} ms", percentile(accepted, 99))),
        ("one core could sign", format!("{:.0} per second", times.sign_limit)),
        ("store", bytes.map_or("–".to_owned(), |bytes| format!("{bytes:.0} bytes per transaction"))),
        ("each landed once", if times.once { "yes".to_owned() } else { "NO".to_owned() }),
    ];
    println!(
        "{} transactions over {} signers, {} nodes on {store}, a block every {BLOCK:?}, finality 2:",
        args.count, args.signers, args.nodes
    );
    for (name, value) in rows {
        println!("  {name:<22} {value}");
    }
}
