//! What a run happens on: the bench chain and the servers, each a process, and what can be seen of them from outside.

use std::time::Duration;

use anyhow::{Context, Result};
use landfall_chain::spec::Finality;
use landfall_core::ports::clock::Clock as _;
use landfall_devchain::Traffic;

use super::super::rig::{Ground, Rig};
use super::chain::BenchChainHandle;
use super::database;
use super::load::Plan;
use super::process::Usage;
use super::store::Opened;
use crate::cli::{Bench, BenchMode};
use crate::config::Chain;
use crate::system::SystemClock;

pub(super) const BLOCK: Duration = Duration::from_millis(250);
pub(super) const FINALITY: u64 = 2;
const POLL_MS: u64 = 50;
/// How often the servers are asked at the end whether everything is final, and the store.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const ASK_EVERY: Duration = Duration::from_secs(3);
/// How long everything of a run may take.
pub(super) const LIMIT: Duration = Duration::from_secs(1_800);

pub(super) struct Site {
    pub(super) chain: BenchChainHandle,
    pub(super) rig: Rig,
    http: reqwest::Client,
}

/// What was used and done up to a moment.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    /// Of each server.
    pub(super) servers: Vec<Usage>,
    pub(super) chain: Usage,
    pub(super) database: Option<Usage>,
    pub(super) traffic: Traffic,
    /// Of the stores' commits: how many, and how many rows they touched.
    pub(super) commits: f64,
    pub(super) rows: f64,
}

impl Site {
    /// Starts the chain, and the servers if they are to run at once.
    pub(super) async fn start(args: &Bench, started: bool) -> Result<Self> {
        let chain = BenchChainHandle::start(BLOCK, args.window()).await?;
        let rig = rig(args, &chain, usize::try_from(args.nodes)?, started).await?;
        Ok(Self { chain, rig, http: reqwest::Client::builder().no_proxy().build()? })
    }

    /// The load of a run on these servers.
    pub(super) fn plan(&self, args: &Bench, first: u64, count: u64) -> Plan {
        plan(args, &self.chain, &self.rig, first, count)
    }

    /// The servers' metrics pages.
    async fn pages(&self) -> Result<Vec<String>> {
        let mut pages = Vec::new();
        for url in self.rig.urls() {
            pages.push(self.http.get(format!("{url}/metrics")).send().await?.text().await?);
        }
        Ok(pages)
    }

    /// How many transactions the servers have stored as confirmed.
    async fn confirmed(&self) -> Result<u64> {
        let pages = self.pages().await?;
        let lines = pages.iter().flat_map(|page| page.lines());
        let confirmed = lines.filter(|line| {
            line.starts_with("landfall_tx_transitions_total{") && line.contains("to=\"confirmed\"")
        });
        Ok(confirmed.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64)
    }

    /// How many lanes the servers hold the leases of.
    pub(super) async fn lanes_running(&self) -> Result<u64> {
        let pages = self.pages().await?;
        Ok(pages.iter().map(|page| metric(page, "landfall_lanes_running")).sum::<f64>() as u64)
    }

    /// What the servers have used so far, without asking them.
    pub(super) fn used(&self) -> Usage {
        self.rig.process_ids().into_iter().map(Usage::of_id).fold(Usage::default(), Usage::and)
    }

    pub(super) async fn read(&self) -> Result<Reading> {
        let pages = self.pages().await?;
        let sum = |name: &str| pages.iter().map(|page| metric(page, name)).sum();
        let (commits, rows) =
            (sum("landfall_store_commit_rows_count"), sum("landfall_store_commit_rows_sum"));
        Ok(Reading {
            servers: self.rig.process_ids().into_iter().map(Usage::of_id).collect(),
            chain: self.chain.usage()?,
            database: database::usage(self.rig.config()).await?,
            traffic: self.chain.traffic().await?,
            commits,
            rows,
        })
    }

    /// Waits until the chain has so many transactions and each is stored as final: when that was, in Unix
    /// milliseconds. `seen` is told how far it is.
    pub(super) async fn finish(&self, count: u64, mut seen: impl FnMut(u64)) -> Result<u64> {
        let wait = async {
            loop {
                let landed = self.chain.stats().await?.tx_count;
                seen(landed);
                if landed >= count {
                    break;
                }
                tokio::time::sleep(BLOCK).await;
            }
            // The servers are asked only now. What they count is on disk; to count what the store has is dear, and is only
            // done in case that they do not know of all.
            let mut asked = crate::system::moment();
            while self.confirmed().await? < count {
                if asked.elapsed() >= ASK_EVERY {
                    if self.rig.unfinished().await == Some(0) {
                        break;
                    }
                    asked = crate::system::moment();
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
            let ended = SystemClock.now().0;
            while self.rig.unfinished().await != Some(0) {
                tokio::time::sleep(BLOCK).await;
            }
            Ok(ended)
        };
        tokio::time::timeout(LIMIT, wait).await.with_context(|| {
            format!(
                "the transactions did not all land; the first server's last words:\n{}",
                self.rig.last_log()
            )
        })?
    }
}

impl Reading {
    /// What all servers use together.
    pub(super) fn server(&self) -> Usage {
        self.servers.iter().copied().fold(Usage::default(), Usage::and)
    }
}

/// What an acknowledged commit means. The servers are stopped for that.
pub(super) async fn durability(rig: &mut Rig) -> Result<String> {
    rig.stop_all().await?;
    Opened::open(rig.config()).await?.durability().await
}

/// Servers on a chain.
pub(super) async fn rig(args: &Bench, chain: &BenchChainHandle, nodes: usize, started: bool) -> Result<Rig> {
    let settings = settings(args, chain.chain_id, &chain.url)?;
    let ground = Ground { store: args.postgres().map(str::to_owned), nodes, started };
    Rig::start_on(ground, settings, usize::try_from(args.signers)?).await
}

pub(super) fn plan(args: &Bench, chain: &BenchChainHandle, rig: &Rig, first: u64, count: u64) -> Plan {
    Plan {
        urls: rig.urls().map(str::to_owned).collect(),
        chain_id: chain.chain_id,
        signers: rig.signers.clone(),
        mode: args.mode,
        batch: args.batch,
        connections: args.connections(),
        max_fee_gwei: None,
        first,
        count,
    }
}

/// The window as wide as asked for; everything else as it is by default. Idleness is measured as it is shipped.
pub(super) fn settings(args: &Bench, id: u64, url: &str) -> Result<Chain> {
    let mut settings = Chain::new(id, vec![url.to_owned()])?;
    settings.spec.finality = Finality::Blocks(FINALITY);
    if args.idle.is_none() {
        settings.spec.poll_ms = POLL_MS;
    }
    settings.spec.max_in_flight = args.window();
    if args.mode == BenchMode::Rpc {
        settings.max_signed_ahead = args.window();
    }
    Ok(settings)
}

/// A number of a metrics page, over all its labels.
fn metric(page: &str, name: &str) -> f64 {
    let lines = page.lines().filter_map(|line| line.strip_prefix(name));
    let values = lines.filter(|rest| rest.starts_with([' ', '{']));
    values.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let page = "# HELP a_sum x\na_sum 4\na_sum_more 7\na_sum{b=\"c d\"} 2.5\n";
        assert!((metric(page, "a_sum") - 6.5).abs() < f64::EPSILON);
    }
}
