//! What a chain does to those who use it: reorganisations, forgotten transactions, fee spikes, halts.
//!
//! It is the chain's miner as well, so that one clock says when blocks come and when they do not. It works over JSON-RPC
//! on a node that mines by hand: `anvil`, or a devchain in this process. Every draw comes from one seed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};

use crate::{proxy::Upstream, rng::Rng};

const DEEPEST_REORG: u64 = 3;
/// What the base fee goes back to after a spike, in wei.
const CALM_BASE_FEE: u64 = 1_000_000_000;

/// How often something happens, for each block.
const REORG: f64 = 0.04;
const DROP_SOME: f64 = 0.08;
const DROP_ALL: f64 = 0.01;
const SPIKE: f64 = 0.02;
const HALT: f64 = 0.012;

/// Whose words the node understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    Anvil,
    Devchain,
}

/// What was done to the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainTroubles {
    pub blocks: u64,
    pub reorgs: u64,
    pub reorganised_blocks: u64,
    /// Transactions whose block was taken back.
    pub unmined: u64,
    /// Those that the node forgot then; the others went back to its pool.
    pub forgotten: u64,
    /// Thrown out of the pool.
    pub dropped: u64,
    pub fee_spikes: u64,
    pub halts: u64,
}

impl ChainTroubles {
    /// Each of them in words.
    pub fn each(&self) -> [(&'static str, u64); 6] {
        [
            ("blocks reorganised", self.reorganised_blocks),
            ("transactions taken out of blocks again", self.unmined),
            ("of these forgotten by the node", self.forgotten),
            ("transactions dropped from the pool", self.dropped),
            ("base-fee spikes", self.fee_spikes),
            ("halts of the chain", self.halts),
        ]
    }
}

/// A miner with bad intentions; it stops when it is dropped.
#[derive(Debug)]
pub struct Nemesis {
    done: Arc<Mutex<ChainTroubles>>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl Nemesis {
    /// Blocks that a reorganisation takes back at most: finality must be deeper.
    pub const DEEPEST_REORG: u64 = DEEPEST_REORG;

    /// Mines at the node behind `url`, a block every so often.
    pub fn start(url: &str, ground: Ground, block: Duration, seed: u64) -> Self {
        let done = Arc::new(Mutex::default());
        let (stop, stopped) = watch::channel(false);
        let miner = Miner {
            node: Upstream::new(url),
            ground,
            rng: Rng::new(seed),
            done: Arc::clone(&done),
            spike: None,
        };
        let task = tokio::spawn(miner.run(block, stopped));
        Self { done, stop, task: Some(task) }
    }

    /// What it has done so far.
    pub fn done(&self) -> ChainTroubles {
        *lock(&self.done)
    }

    /// No more blocks and no more trouble once this returns.
    pub async fn stop(&mut self) {
        self.stop.send_replace(true);
        if let Some(task) = self.task.take()
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the miner ended early");
        }
    }
}

fn lock(done: &Mutex<ChainTroubles>) -> MutexGuard<'_, ChainTroubles> {
    // Plain numbers: a panic elsewhere leaves them readable.
    done.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Spike {
    blocks_left: u64,
    base_fee: u64,
}

struct Miner {
    node: Upstream,
    ground: Ground,
    rng: Rng,
    done: Arc<Mutex<ChainTroubles>>,
    spike: Option<Spike>,
}

impl Miner {
    async fn run(mut self, block: Duration, mut stopped: watch::Receiver<bool>) {
        loop {
            let mut wait = block;
            if self.rng.chance(HALT) {
                self.note(|done| done.halts += 1);
                wait += Duration::from_millis(1_000 + self.below(2_000));
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // An error means that the handle is gone, which is the other way to stop.
                _ = stopped.wait_for(|stop| *stop) => return,
            }
            self.make_trouble().await;
            self.mine().await;
        }
    }

    fn note(&self, what: impl FnOnce(&mut ChainTroubles)) {
        what(&mut lock(&self.done));
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.rng.next_u64() % bound.max(1)
    }

    async fn mine(&mut self) {
        let base_fee = match &mut self.spike {
            Some(spike) if spike.blocks_left > 0 => {
                spike.blocks_left -= 1;
                Some(spike.base_fee)
            }
            Some(_) => {
                self.spike = None;
                Some(CALM_BASE_FEE)
            }
            None => None,
        };
        if let Some(wei) = base_fee {
            let (anvil, devchain) = ("anvil_setNextBlockBaseFeePerGas", "devchain_setNextBaseFee");
            self.tell(anvil, devchain, json!([format!("{wei:#x}")])).await;
        }
        self.tell("evm_mine", "devchain_mine", json!([])).await;
        self.note(|done| done.blocks += 1);
    }

    async fn make_trouble(&mut self) {
        if self.rng.chance(REORG) {
            self.reorg().await;
        }
        if self.rng.chance(DROP_ALL) {
            self.drop_all().await;
        } else if self.rng.chance(DROP_SOME) {
            self.drop_some().await;
        }
        if self.spike.is_none() && self.rng.chance(SPIKE) {
            // From eight times the calm price up to more than any ceiling of the demo.
            let base_fee = CALM_BASE_FEE * (8 + self.below(32));
            self.spike = Some(Spike { blocks_left: 3 + self.below(8), base_fee });
            self.note(|done| done.fee_spikes += 1);
        }
    }

    async fn drop_all(&mut self) {
        let dropped = match self.ground {
            Ground::Anvil => {
                let pooled = self.pooled().await.len() as u64;
                self.node.call("anvil_dropAllTransactions", json!([])).await.map(|_| pooled)
            }
            Ground::Devchain => {
                self.node.call("devchain_evictAll", json!([])).await.and_then(|count| count.as_u64())
            }
        };
        self.note(|done| done.dropped += dropped.unwrap_or(0));
    }

    async fn drop_some(&mut self) {
        let count = 1 + self.below(3);
        let dropped = match self.ground {
            Ground::Anvil => self.drop_by_lot(count).await,
            Ground::Devchain => {
                let gone = self.node.call("devchain_evictRandom", json!([count])).await;
                gone.and_then(|gone| Some(gone.as_array()?.len() as u64)).unwrap_or(0)
            }
        };
        self.note(|done| done.dropped += dropped);
    }

    async fn drop_by_lot(&mut self, count: u64) -> u64 {
        let mut pooled = self.pooled().await;
        // The node's order differs between runs; the lot must not.
        pooled.sort_unstable();
        let mut dropped = 0;
        while dropped < count && !pooled.is_empty() {
            let at = self.rng.below(pooled.len());
            let hash = pooled.swap_remove(at);
            self.node.call("anvil_dropTransaction", json!([hash])).await;
            dropped += 1;
        }
        dropped
    }

    /// The hashes in the pool.
    async fn pooled(&self) -> Vec<String> {
        let content = self.node.call("txpool_content", json!([])).await.unwrap_or_default();
        let parts = ["pending", "queued"].map(|part| content[part].as_object().cloned().unwrap_or_default());
        let accounts = parts.iter().flat_map(|part| part.values()).filter_map(Value::as_object);
        accounts.flat_map(|txs| txs.values()).filter_map(|tx| Some(tx["hash"].as_str()?.to_owned())).collect()
    }

    /// Takes blocks back. A node forgets their transactions, or takes some or all of them back into its pool.
    async fn reorg(&mut self) {
        let depth = 1 + self.below(DEEPEST_REORG);
        let Some(head) = self.node.head().await.filter(|head| *head > depth) else { return };
        let hashes = self.transactions(head - depth + 1, head).await;
        let returning = match self.below(3) {
            0 => Vec::new(),
            1 => hashes.iter().step_by(2).cloned().collect(),
            _ => hashes.clone(),
        };
        let unmined = hashes.len() as u64;
        let put_back = match self.ground {
            Ground::Anvil => self.reorg_anvil(depth, &returning).await,
            Ground::Devchain => {
                let mode = if returning.is_empty() { "drop" } else { "repool" };
                self.node.call("devchain_reorg", json!([depth, mode])).await;
                if returning.is_empty() { 0 } else { unmined }
            }
        };
        self.note(|done| {
            done.reorgs += 1;
            done.reorganised_blocks += depth;
            done.unmined += unmined;
            done.forgotten += unmined - put_back;
        });
    }

    /// Anvil itself forgets all of them.
    async fn reorg_anvil(&self, depth: u64, returning: &[Value]) -> u64 {
        let mut raws = Vec::new();
        for hash in returning {
            raws.extend(self.node.call("eth_getRawTransactionByHash", json!([hash])).await);
        }
        self.node.call("anvil_reorg", json!([depth, []])).await;
        let mut taken = 0;
        for raw in raws {
            taken += u64::from(self.node.call("eth_sendRawTransaction", json!([raw])).await.is_some());
        }
        taken
    }

    /// The hashes of everything in these blocks.
    async fn transactions(&self, from: u64, to: u64) -> Vec<Value> {
        let mut hashes = Vec::new();
        for at in from..=to {
            let block = self.node.call("eth_getBlockByNumber", json!([format!("{at:#x}"), false])).await;
            hashes.extend(
                block.and_then(|block| block["transactions"].as_array().cloned()).unwrap_or_default(),
            );
        }
        hashes
    }

    async fn tell(&self, anvil: &str, devchain: &str, params: Value) {
        let method = match self.ground {
            Ground::Anvil => anvil,
            Ground::Devchain => devchain,
        };
        if self.node.call(method, params).await.is_none() {
            tracing::warn!(method, "the node did not do as it was told");
        }
    }
}
