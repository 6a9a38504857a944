//! The node that all of it happens on: a real anvil, or, where there is none, the chain that is built in.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, Bytes};
use anyhow::{Context, Result, bail};
use landfall_devchain::anvil::{self, Anvil};
use landfall_devchain::{Devchain, Mining};
use serde_json::{Value, json};

use super::audit::OnChain;
use crate::commands::rig;
use crate::system::unix_seconds;

pub(super) const CHAIN_ID: u64 = 31_337;
const ASK_LIMIT: Duration = Duration::from_secs(20);

enum Node {
    Anvil(Anvil),
    BuiltIn(Devchain),
}

pub(super) struct Ground {
    node: Node,
    http: reqwest::Client,
}

impl Ground {
    /// Blocks are made by the hostile miner, so the node makes none itself.
    pub(super) async fn start(seed: u64) -> Result<Self> {
        let http = reqwest::Client::builder().no_proxy().timeout(ASK_LIMIT).build()?;
        let node = match anvil::find() {
            Some(path) => {
                let options = anvil::Options { mining: Mining::Manual, chain_id: CHAIN_ID, args: Vec::new() };
                Node::Anvil(Anvil::start_at(&path, options).await?)
            }
            None => {
                let mut config = landfall_devchain::Config::new(Arc::new(unix_seconds));
                config.chain_id = CHAIN_ID;
                config.seed = seed;
                // What it calls final, no reorganisation of the miner's may take back.
                (config.safe_depth, config.finalized_depth) = (super::FINALITY, super::FINALITY);
                Node::BuiltIn(Devchain::start(config).await?)
            }
        };
        Ok(Self { node, http })
    }

    pub(super) fn url(&self) -> String {
        match &self.node {
            Node::Anvil(anvil) => anvil.http_url(),
            Node::BuiltIn(chain) => chain.http_url(),
        }
    }

    pub(super) fn kind(&self) -> landfall_devchain::Ground {
        match &self.node {
            Node::Anvil(_) => landfall_devchain::Ground::Anvil,
            Node::BuiltIn(_) => landfall_devchain::Ground::Devchain,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match &self.node {
            Node::Anvil(_) => "anvil",
            Node::BuiltIn(_) => "devchain",
        }
    }

    async fn call(&self, method: &str, params: Value) -> Result<Value> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let response = self.http.post(self.url()).json(&body).send().await.context("the node is gone")?;
        let mut answer: Value = response.json().await?;
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => bail!("the node refused {method}: {}", answer["error"]),
        }
    }

    /// How many slots of these accounts the chain has used, as of now.
    pub(super) async fn used_slots(&self, accounts: &[Address]) -> u64 {
        let mut used = 0;
        for account in accounts {
            let count = self.call("eth_getTransactionCount", json!([account, "latest"])).await;
            used += count.ok().and_then(|count| number(&count)).unwrap_or(0);
        }
        used
    }

    /// Every transaction in every block, with what it cost.
    pub(super) async fn landed(&self) -> Result<Vec<OnChain>> {
        let head = number(&self.call("eth_blockNumber", json!([])).await?).context("a head")?;
        let mut landed = Vec::new();
        for at in 0..=head {
            let at = format!("{at:#x}");
            let block = self.call("eth_getBlockByNumber", json!([at, true])).await?;
            let transactions = block["transactions"].as_array().context("a block without transactions")?;
            if transactions.is_empty() {
                continue;
            }
            let receipts = self.call("eth_getBlockReceipts", json!([at])).await?;
            let receipts = receipts.as_array().context("a block without receipts")?;
            for tx in transactions {
                let receipt = receipts.iter().find(|receipt| receipt["transactionHash"] == tx["hash"]);
                let receipt = receipt.with_context(|| format!("no receipt for {}", tx["hash"]))?;
                landed.push(on_chain(tx, receipt).with_context(|| format!("not a transaction: {tx}"))?);
            }
        }
        Ok(landed)
    }
}

fn on_chain(tx: &Value, receipt: &Value) -> Option<OnChain> {
    let input: Bytes = tx["input"].as_str()?.parse().ok()?;
    let cap = if tx["maxFeePerGas"].is_null() { &tx["gasPrice"] } else { &tx["maxFeePerGas"] };
    Some(OnChain {
        signer: tx["from"].as_str()?.parse().ok()?,
        nonce: number(&tx["nonce"])?,
        number: rig::number_of(&input),
        hash: tx["hash"].as_str()?.to_owned(),
        block: number(&receipt["blockNumber"])?,
        success: number(&receipt["status"])? == 1,
        cap: number(cap)?.into(),
        gas_limit: number(&tx["gas"])?.into(),
        gas_used: number(&receipt["gasUsed"])?.into(),
        price: number(&receipt["effectiveGasPrice"])?.into(),
    })
}

/// A number as JSON-RPC writes it.
fn number(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}
