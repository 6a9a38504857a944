//! A real anvil, asked over JSON-RPC: what it says of its blocks is what a test believes.

use std::time::Duration;

use landfall_devchain::Mining;
use landfall_devchain::anvil::{Anvil, Options};
use serde_json::{Value, json};

use super::api::http_client;
use super::{CHAIN_ID, until};

/// How many blocks are asked for at once.
const BLOCKS_AT_ONCE: u64 = 50;

/// One transaction in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Landed {
    pub(crate) from: String,
    pub(crate) nonce: u64,
    pub(crate) hash: String,
    pub(crate) input: String,
    pub(crate) block: u64,
}

/// Data that says which transaction this is, so that the chain can be asked.
pub(crate) fn marker(number: u64) -> String {
    format!("0x{number:016x}")
}

/// Which transaction this is, if it carries a marker.
pub(crate) fn number_of(landed: &Landed) -> Option<u64> {
    let digits = landed.input.strip_prefix("0x").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

pub(crate) struct Chain {
    anvil: Anvil,
    http: reqwest::Client,
}

impl Chain {
    /// Mines a block at every interval.
    pub(crate) async fn with_blocks_every(interval: Duration) -> Self {
        Self::start(Mining::Interval(interval), &[]).await
    }

    /// As [`Self::with_blocks_every`], with another first block than those: two that begin within the same second have the same one.
    pub(crate) async fn of_another_origin(interval: Duration) -> Self {
        Self::start(Mining::Interval(interval), &["--gas-limit", "29000000"]).await
    }

    /// Mines when [`Self::mine`] says so, and has the same first block as every other such chain.
    pub(crate) async fn of_one_origin() -> Self {
        Self::start(Mining::Manual, &["--timestamp", "1700000000"]).await
    }

    /// Mines when [`Self::mine`] says so, and calls a block final when two are on top of it.
    pub(crate) async fn that_settles_at_once() -> Self {
        Self::start(Mining::Manual, &["--slots-in-an-epoch", "1"]).await
    }

    /// Mines a block at every interval, and calls a block final when two are on top of it.
    pub(crate) async fn that_settles_every(interval: Duration) -> Self {
        Self::start(Mining::Interval(interval), &["--slots-in-an-epoch", "1"]).await
    }

    /// Mines when [`Self::mine`] says so.
    pub(crate) async fn without_mining() -> Self {
        Self::start(Mining::Manual, &[]).await
    }

    async fn start(mining: Mining, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let options = Options { mining, chain_id: CHAIN_ID, args };
        let anvil = Anvil::start(options).await.expect("anvil starts");
        Self { anvil, http: http_client() }
    }

    pub(crate) fn url(&self) -> String {
        self.anvil.http_url()
    }

    /// One call that must succeed.
    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer: Value = self.ask(&body).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    async fn ask(&self, body: &Value) -> Value {
        let response = self.http.post(self.url()).json(body).send().await.expect("anvil answers");
        response.json().await.expect("anvil answers JSON")
    }

    /// Mines a block every so many seconds from now on.
    pub(crate) async fn mine_every(&self, seconds: u64) {
        self.call("evm_setIntervalMining", json!([seconds])).await;
    }

    pub(crate) async fn mine(&self, blocks: u64) {
        self.call("anvil_mine", json!([format!("{blocks:#x}")])).await;
    }

    pub(crate) async fn head(&self) -> u64 {
        number(&self.call("eth_blockNumber", json!([])).await)
    }

    /// How many transactions of this account are in blocks.
    pub(crate) async fn count(&self, account: &str) -> u64 {
        number(&self.call("eth_getTransactionCount", json!([account, "latest"])).await)
    }

    pub(crate) async fn receipt(&self, hash: &str) -> Value {
        self.call("eth_getTransactionReceipt", json!([hash])).await
    }

    /// How many transactions the pool holds, ready or not.
    pub(crate) async fn pooled(&self) -> u64 {
        let status = self.call("txpool_status", json!([])).await;
        number(&status["pending"]) + number(&status["queued"])
    }

    /// Waits until the pool holds this many.
    pub(crate) async fn until_pooled(&self, wanted: u64) {
        until(format!("the pool holds {wanted}"), async || (self.pooled().await == wanted).then_some(()))
            .await;
    }

    /// Everything in the blocks from this number up to the head, in the chain's order.
    pub(crate) async fn landed_since(&self, first: u64) -> Vec<Landed> {
        let head = self.head().await;
        let mut landed = Vec::new();
        let mut from = first;
        while from <= head {
            let to = head.min(from + BLOCKS_AT_ONCE - 1);
            let batch: Vec<Value> = (from..=to)
                .map(|n| {
                    json!({ "jsonrpc": "2.0", "id": n, "method": "eth_getBlockByNumber", "params": [format!("{n:#x}"), true] })
                })
                .collect();
            let answers = self.ask(&Value::Array(batch)).await;
            let mut blocks: Vec<Value> = answers.as_array().expect("a batch of answers").clone();
            blocks.sort_by_key(|answer| answer["id"].as_u64());
            assert_eq!(blocks.len() as u64, to - from + 1, "anvil shows every block");
            for block in &blocks {
                let transactions = block["result"]["transactions"].as_array().expect("a block");
                landed.extend(transactions.iter().map(read));
            }
            from = to + 1;
        }
        landed
    }

    /// Everything that ever landed.
    pub(crate) async fn landed(&self) -> Vec<Landed> {
        self.landed_since(0).await
    }
}

fn read(transaction: &Value) -> Landed {
    let text = |name: &str| transaction[name].as_str().unwrap_or_default().to_owned();
    Landed {
        from: text("from"),
        nonce: number(&transaction["nonce"]),
        hash: text("hash"),
        input: text("input"),
        block: number(&transaction["blockNumber"]),
    }
}

/// A number as JSON-RPC writes it.
fn number(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x")).expect("a number in hex");
    u64::from_str_radix(digits, 16).expect("a number in hex")
}
