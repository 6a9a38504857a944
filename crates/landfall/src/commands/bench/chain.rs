//! The bench chain: devchain in a process of its own, without an EVM. It still recovers senders and checks nonces,
//! replacement rules and hashes, and it counts what is asked of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::U256;
use anyhow::{Context, Result, bail};
use landfall_devchain::{Devchain, Landed, Mining, Stats, Traffic};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::rig;
use super::process::{Helper, Usage};
use crate::cli::BenchChain;
use crate::system::unix_seconds;

/// So many blocks are asked for at once when the chain is read back.
const PAGE: u64 = 8;

/// What the process says first.
#[derive(Serialize, Deserialize)]
struct Listening {
    url: String,
    chain_id: u64,
}

/// The process: a chain that lives until its standard input closes.
pub(in super::super) async fn run(args: &BenchChain) -> Result<()> {
    let mut config = landfall_devchain::Config::new(Arc::new(unix_seconds));
    config.mining = Mining::Interval(Duration::from_millis(args.block_ms));
    config.execute = false;
    config.everyone_has = U256::from(10_u64).pow(U256::from(24));
    config.gas_limit = 100_000_000_000;
    config.queue_per_account = usize::try_from(args.window)?;
    config.pool_limit = usize::MAX;
    let chain = Devchain::start(config).await?;
    // As on a chain that is never full: the price stays where it is.
    chain.hold_base_fee(Some(chain.next_base_fee()));
    let listening = Listening { url: chain.http_url(), chain_id: chain.config().chain_id };
    println!("{}", serde_json::to_string(&listening)?);
    let closed = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    tokio::task::spawn_blocking(closed).await??;
    Ok(())
}

/// A bench chain that runs.
pub(super) struct BenchChainHandle {
    helper: Helper,
    http: reqwest::Client,
    pub(super) url: String,
    pub(super) chain_id: u64,
}

impl BenchChainHandle {
    pub(super) async fn start(block: Duration, window: u64) -> Result<Self> {
        let args = [
            "--block-ms".to_owned(),
            block.as_millis().to_string(),
            "--window".to_owned(),
            window.to_string(),
        ];
        let mut helper = Helper::start("bench-chain", &args)?;
        let Listening { url, chain_id } = helper.hear().await?;
        Ok(Self { helper, http: reqwest::Client::builder().no_proxy().build()?, url, chain_id })
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        Ok(Usage::of_id(self.helper.id()?))
    }

    async fn ask<T: DeserializeOwned>(&self, method: &str, params: Value) -> Result<T> {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer =
            self.http.post(&self.url).json(&call).send().await.context("the chain does not answer")?;
        let mut answer: Value = answer.json().await?;
        if answer.get("error").is_some() {
            bail!("the chain refused {method}: {}", answer["error"]);
        }
        Ok(serde_json::from_value(answer["result"].take())?)
    }

    pub(super) async fn stats(&self) -> Result<Stats> {
        self.ask("devchain_stats", json!([])).await
    }

    pub(super) async fn traffic(&self) -> Result<Traffic> {
        self.ask("devchain_traffic", json!([])).await
    }

    /// Lets blocks come, or not.
    pub(super) async fn mine(&self, on: bool) -> Result<()> {
        let method = if on { "devchain_resumeMining" } else { "devchain_stopMining" };
        self.ask::<bool>(method, json!([])).await.map(drop)
    }

    /// Whether each of these landed, and once: read from the chain's own blocks.
    pub(super) async fn landed_once(&self, numbers: std::ops::Range<u64>) -> Result<bool> {
        let mut times: BTreeMap<u64, u64> = BTreeMap::new();
        let head = self.stats().await?.head;
        for first in (0..=head).step_by(usize::try_from(PAGE)?) {
            let page: Vec<Landed> = self.ask("devchain_landed", json!([first, PAGE])).await?;
            for n in page.iter().filter_map(|landed| rig::number_of(&landed.input)) {
                *times.entry(n).or_default() += 1;
            }
        }
        Ok(numbers.clone().all(|n| times.get(&n) == Some(&1)) && times.keys().all(|n| numbers.contains(n)))
    }
}
