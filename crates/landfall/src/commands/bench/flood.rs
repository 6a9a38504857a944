//! A real anvil with a block every second: what a bare flood of signed transactions lands on it, and what Landfall
//! does, in alternating runs on fresh anvils. Both are timed from the first request until the chain's counts have
//! all of them.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use landfall_chain::evm::EvmChain;
use landfall_core::attempt::{Call, Draft};
use landfall_core::fees::Fees;
use landfall_core::ports::chain::Chain as _;
use landfall_core::ports::signer::Signer as _;
use landfall_core::request::Payload;
use landfall_core::{Account, ChainId, ContentVersion, Gas, LaneId, Price, Slot};
use landfall_devchain::anvil::{self, Anvil};
use landfall_devchain::{DevAccount, Mining, dev_accounts};
use serde_json::{Value, json};

use super::super::rig::{Ground, Rig};
use super::history::History;
use super::load::{Loader, Plan};
use super::report::{median, round};
use super::store::Opened;
use super::{progress, settings, site, verdict};
use crate::cli::Bench;
use crate::commands::dev_keys;
use crate::output;
use crate::system::{SystemClock, moment};

const CHAIN_ID: u64 = 31_337;
const BLOCK: Duration = Duration::from_secs(1);
const GAS: u64 = 30_000;
/// Full blocks raise the base fee; both offer enough for all of a run.
const MAX_FEE_GWEI: u64 = 500;
/// Sends in one request of the flood.
const SENDS: usize = 100;
const LOOK_EVERY: Duration = Duration::from_millis(25);

pub(super) async fn run(args: &Bench) -> Result<ExitCode> {
    let signers = dev_accounts().take(usize::try_from(args.signers)?).count() as u64;
    let args = Bench { signers, nodes: 1, ..args.clone() };
    let path = anvil::find()
        .context("there is no anvil: set LANDFALL_ANVIL to its path, or run cargo xtask test once")?;
    let bar = progress(&args, args.runs * 2);
    bar.set_message("signing");
    let signed = sign(&args).await?;
    let (mut flood, mut landfall) = (Vec::new(), Vec::new());
    let (mut none_lost, mut told) = (true, Value::Null);
    for _ in 0..args.runs {
        bar.set_message("a bare flood");
        flood.push(flooded_per_s(&path, &args, &signed).await?);
        bar.inc(1);
        bar.set_message("Landfall");
        let landed = landed_per_s(&path, &args).await?;
        landfall.push(landed.per_s);
        none_lost &= landed.once;
        told = json!([landed.settings, landed.durability]);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let rounded = |values: &[f64]| values.iter().map(|value| round(*value, 1)).collect::<Vec<_>>();
    let (flood_each, landfall_each) = (rounded(&flood), rounded(&landfall));
    let (flood, landfall) = (median(flood), median(landfall));
    output::json(&json!({
        "scenario": "anvil",
        "store": args.store_name(),
        "mode": args.mode.name(),
        "signers": args.signers,
        "count": args.count,
        "runs": args.runs,
        "block_ms": BLOCK.as_millis() as u64,
        "window": args.window(),
        "flood_per_s": round(flood, 1),
        "landed_per_s": round(landfall, 1),
        "landed_to_flood": round(landfall / flood, 3),
        "each_flood_per_s": flood_each,
        "each_landed_per_s": landfall_each,
        "landed_once": none_lost,
        "settings": told[0],
        "durability": told[1],
    }));
    Ok(verdict(none_lost))
}

async fn start(path: &Path) -> Result<Node> {
    let options = anvil::Options { mining: Mining::Interval(BLOCK), chain_id: CHAIN_ID, args: Vec::new() };
    let anvil = Anvil::start_at(path, options).await?;
    let http = reqwest::Client::builder().no_proxy().build()?;
    Ok(Node { url: anvil.http_url(), _anvil: anvil, http })
}

struct Node {
    url: String,
    _anvil: Anvil,
    http: reqwest::Client,
}

impl Node {
    async fn ask(&self, calls: &Value) -> Result<Vec<Value>> {
        let answer = self.http.post(&self.url).json(calls).send().await?;
        Ok(answer.json().await?)
    }

    /// How many transactions of these accounts are in blocks.
    async fn landed(&self, accounts: &[DevAccount]) -> Result<u64> {
        let call = |account: &DevAccount| json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_getTransactionCount", "params": [account.address, "latest"] });
        let answers = self.ask(&accounts.iter().map(call).collect()).await?;
        let mut sum = 0;
        for answer in answers {
            let text = answer["result"].as_str().context("anvil gave no count")?;
            sum += u64::from_str_radix(text.trim_start_matches("0x"), 16)?;
        }
        Ok(sum)
    }

    async fn wait_for(&self, accounts: &[DevAccount], count: u64) -> Result<()> {
        let wait = async {
            while self.landed(accounts).await? < count {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Ok(())
        };
        tokio::time::timeout(site::LIMIT, wait).await.context("anvil did not take all of them")?
    }
}

fn accounts(args: &Bench) -> Vec<DevAccount> {
    dev_accounts().take(args.signers as usize).collect()
}

/// For each account its requests, each with many sends, in the order of its nonces.
async fn sign(args: &Bench) -> Result<Vec<Vec<Value>>> {
    let config = landfall_chain::evm::Config::new(ChainId(CHAIN_ID), vec!["http://127.0.0.1:1".to_owned()]);
    let chain = EvmChain::new(config, Arc::new(SystemClock))?;
    let mut all = Vec::new();
    for (lane, account) in accounts(args).iter().enumerate() {
        let signer = dev_keys::signer(account)?;
        let mine = (0..args.count).filter(|n| n % args.signers == lane as u64);
        let drafts: Vec<Draft> = mine.zip(0..).map(|(n, slot)| draft(account, n, slot)).collect();
        let signatures =
            signer.sign(drafts.iter().map(|draft| chain.codec().preimage(draft)).collect()).await;
        let mut sends = Vec::new();
        for (draft, signature) in drafts.iter().zip(signatures) {
            let raw = chain.codec().seal(draft, &signature?).raw;
            sends.push(json!({ "jsonrpc": "2.0", "id": draft.slot.0, "method": "eth_sendRawTransaction", "params": [raw] }));
        }
        all.push(sends.chunks(SENDS).map(|some| Value::Array(some.to_vec())).collect());
    }
    Ok(all)
}

fn draft(account: &DevAccount, n: u64, slot: u64) -> Draft {
    let signer = Account(account.address);
    let payload = Payload { to: Some(signer), data: n.to_be_bytes().into(), ..Payload::default() };
    Draft {
        serial: slot,
        lane: LaneId { chain: ChainId(CHAIN_ID), signer },
        slot: Slot(slot),
        tx: None,
        version: ContentVersion::FIRST,
        no_op: false,
        call: Call::of(signer, &payload),
        gas: Gas(GAS),
        fees: Fees::Dynamic { max_fee: Price::gwei(MAX_FEE_GWEI), tip: Price::gwei(1) },
    }
}

/// One connection for each account, each sending the next request when the last was answered.
async fn flooded_per_s(path: &Path, args: &Bench, signed: &[Vec<Value>]) -> Result<f64> {
    let node = start(path).await?;
    let begun = moment();
    let senders = signed.iter().map(|requests| flood(&node, requests));
    let sending = futures_all(senders);
    let accounts = accounts(args);
    tokio::try_join!(sending, node.wait_for(&accounts, args.count))?;
    Ok(args.count as f64 / begun.elapsed().as_secs_f64())
}

async fn futures_all(senders: impl Iterator<Item = impl Future<Output = Result<()>>>) -> Result<()> {
    for done in futures::future::join_all(senders).await {
        done?;
    }
    Ok(())
}

async fn flood(node: &Node, requests: &[Value]) -> Result<()> {
    for request in requests {
        for answer in node.ask(request).await? {
            if answer.get("error").is_some() {
                bail!("anvil refused a transaction of the flood: {}", answer["error"]);
            }
        }
    }
    Ok(())
}

struct Landed {
    per_s: f64,
    once: bool,
    settings: Value,
    durability: String,
}

/// The same work by Landfall.
async fn landed_per_s(path: &Path, args: &Bench) -> Result<Landed> {
    let node = start(path).await?;
    let mut settings = site::settings(args, CHAIN_ID, &node.url)?;
    settings.max_fee_gwei = MAX_FEE_GWEI * 2;
    let ground = Ground { store: args.postgres().map(str::to_owned), nodes: 1, started: true };
    let mut rig = Rig::start_on(ground, settings, usize::try_from(args.signers)?).await?;
    let plan = Plan {
        urls: rig.urls().map(str::to_owned).collect(),
        chain_id: CHAIN_ID,
        signers: rig.signers.clone(),
        mode: args.mode,
        batch: args.batch,
        connections: args.connections(),
        max_fee_gwei: Some(MAX_FEE_GWEI),
        first: 0,
        count: args.count,
    };
    let loader = Loader::prepare(&plan).await?;
    let accounts = accounts(args);
    let begun = moment();
    tokio::try_join!(loader.go(), node.wait_for(&accounts, args.count))?;
    let per_s = args.count as f64 / begun.elapsed().as_secs_f64();
    let finished = async {
        while rig.unfinished().await != Some(0) {
            tokio::time::sleep(BLOCK / 4).await;
        }
    };
    tokio::time::timeout(site::LIMIT, finished).await.context("Landfall did not finish")?;
    // Each is confirmed by its own record, and the accounts have used exactly as many nonces.
    let used = node.landed(&accounts).await?;
    let durability = site::durability(&mut rig).await?;
    let opened = Opened::open(rig.config()).await?;
    let confirmed = History::read(opened.store().as_ref()).await?.confirmed;
    let settings = settings::changed(rig.config());
    Ok(Landed { per_s, once: used == args.count && confirmed == args.count, settings, durability })
}
