//! `landfall bench --failover`: how long a lane stands still when its node is killed, and when it is stopped.
//!
//! Three real servers on one PostgreSQL, with the default lease. A lane works again when a transaction that was handed
//! over after its node went away is signed and stored by another.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::Address;
use anyhow::{Context, Result, bail};
use landfall_chain::spec::Finality;
use landfall_devchain::{Devchain, Mining};
use serde_json::{Value, json};

use super::rig::{self, Ground, Rig};
use crate::client::Client;
use crate::config::Chain;
use crate::output::{self, text};
use crate::system::{moment, unix_seconds};

const NODES: usize = 3;
const LANES: usize = 9;
const BLOCK: Duration = Duration::from_millis(250);
const LIMIT: Duration = Duration::from_secs(60);
const ASK_EVERY: Duration = Duration::from_millis(20);

/// How a node goes away.
#[derive(Debug, Clone, Copy)]
enum Way {
    Killed,
    Stopped,
}

/// What was seen of the lanes of one node.
struct Seen {
    way: Way,
    lanes: usize,
    first: Duration,
    last: Duration,
}

pub(crate) async fn run(database: &str, as_json: bool) -> Result<ExitCode> {
    let mut config = landfall_devchain::Config::new(Arc::new(unix_seconds));
    config.mining = Mining::Interval(BLOCK);
    let chain = Devchain::start(config).await?;
    let mut settings = Chain::new(chain.config().chain_id, vec![chain.http_url()])?;
    settings.spec.finality = Finality::Blocks(2);
    settings.spec.poll_ms = 50;
    let ground = Ground { store: Some(database.to_owned()), nodes: NODES, started: true };
    let rig = Rig::start_on(ground, settings, LANES).await?;
    let clients = rig.urls().map(Client::new).collect::<Result<Vec<_>, _>>()?;
    let mut bench = Failover { chain: chain.config().chain_id, rig, clients, handed_over: 0 };
    let seen = tokio::time::timeout(LIMIT * 4, bench.both_ways()).await.context("it took too long")??;
    report(&seen, as_json);
    Ok(ExitCode::SUCCESS)
}

struct Failover {
    chain: u64,
    rig: Rig,
    clients: Vec<Client>,
    handed_over: u64,
}

impl Failover {
    async fn both_ways(&mut self) -> Result<Vec<Seen>> {
        let mut seen = Vec::new();
        for (way, node) in [(Way::Killed, 0), (Way::Stopped, 1)] {
            let watcher = NODES - 1;
            let lanes = self.lanes_of(node, watcher).await?;
            let begun = moment();
            let stopped = match way {
                Way::Killed => {
                    self.rig.kill_node(node).await?;
                    None
                }
                Way::Stopped => Some(self.rig.stop_node(node)?),
            };
            let mut waiting = Vec::new();
            for lane in &lanes {
                waiting.push(self.hand_over(watcher, *lane).await?);
            }
            let mut took = Vec::new();
            let client = self.client(watcher)?;
            while !waiting.is_empty() {
                let mut still = Vec::new();
                for id in waiting {
                    let tx = client.transaction(&id).await?;
                    if tx.hash.is_some() { took.push(begun.elapsed()) } else { still.push(id) }
                }
                waiting = still;
                tokio::time::sleep(ASK_EVERY).await;
            }
            took.sort();
            let (Some(first), Some(last)) = (took.first(), took.last()) else {
                bail!("node {node} had no lane");
            };
            seen.push(Seen { way, lanes: lanes.len(), first: *first, last: *last });
            if let Some(mut process) = stopped {
                process.wait().await.context("the server's end was not seen")?;
            }
            self.rig.start_node(node).await?;
        }
        Ok(seen)
    }

    /// Gives every lane work until each node has some, and says which this one has.
    async fn lanes_of(&mut self, node: usize, watcher: usize) -> Result<Vec<Address>> {
        let name = format!("node-{node}");
        let begun = moment();
        let mut calm = 0;
        loop {
            for signer in self.rig.signers.clone() {
                self.hand_over(watcher, signer).await?;
            }
            let lanes = self.client(watcher)?.lanes().await?;
            let lanes: Vec<serde_json::Value> =
                lanes.into_iter().map(|lane| serde_json::json!(lane)).collect();
            let owners: BTreeSet<String> = lanes.iter().map(|lane| text(lane, "owner.node")).collect();
            let here: Vec<Address> = lanes
                .iter()
                .filter(|lane| text(lane, "owner.node") == name)
                .filter_map(|lane| text(lane, "signer").parse().ok())
                .collect();
            // Lanes move for a while after a node has come.
            calm = if owners.len() == NODES && !owners.contains("") { calm + 1 } else { 0 };
            if calm >= 8 && !here.is_empty() {
                return Ok(here);
            }
            if begun.elapsed() > LIMIT {
                bail!("the lanes did not spread over all nodes; they are with {owners:?}");
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn hand_over(&mut self, through: usize, signer: Address) -> Result<String> {
        let item = rig::submission(self.chain, signer, self.handed_over);
        self.handed_over += 1;
        let answer: serde_json::Value = self.client(through)?.post("/api/v1/tx", Some(&item)).await?;
        Ok(text(&answer, "txId"))
    }

    fn client(&self, node: usize) -> Result<&Client> {
        self.clients.get(node).context("there is no such node")
    }
}

fn report(seen: &[Seen], as_json: bool) {
    let word = |way| match way {
        Way::Killed => "killed",
        Way::Stopped => "stopped",
    };
    if as_json {
        let items: Vec<Value> = seen
            .iter()
            .map(|seen| {
                json!({ "node": word(seen.way), "lanes": seen.lanes, "firstMs": seen.first.as_millis(), "lastMs": seen.last.as_millis() })
            })
            .collect();
        output::json(&json!({ "items": items }));
        return;
    }
    for seen in seen {
        println!(
            "a node {}: lanes it had: {}; working again after {:.2} s (the first) to {:.2} s (the last)",
            word(seen.way),
            seen.lanes,
            seen.first.as_secs_f64(),
            seen.last.as_secs_f64()
        );
    }
}
