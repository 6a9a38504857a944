//! `landfall dev`: a chain, funded keys and the API in one process, with nothing kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use landfall_chain::spec::Finality;
use landfall_core::ports::clock::Random;
use landfall_core::ports::signer::Signer as SignerPort;
use landfall_core::{Account, ChainId, LaneId};
use landfall_devchain::{Devchain, Mining, dev_accounts};
use landfall_server::webhooks::Webhooks;

use super::dev_keys;
use super::serve::OPEN;
use crate::cli::Dev;
use crate::config::{Chain, Config};
use crate::node::{Keys, Node, addressed, stop_signal};
use crate::output::{Colour, coloured};
use crate::system::{SystemRandom, unix_seconds};

/// How many of the funded accounts may be signers.
const SIGNERS: usize = 4;

pub(crate) async fn run(args: &Dev) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let every = Duration::from_millis(args.block_ms);
    let mut chain_config = landfall_devchain::Config::new(Arc::new(unix_seconds));
    chain_config.listen = args.chain_listen;
    chain_config.mining = Mining::Interval(every);
    let chain = Devchain::start(chain_config).await.map_err(|error| {
        anyhow!(
            "{error} ({}); if another program has the address, choose one with --chain-listen",
            error.source
        )
    })?;
    let mut config = Config::default();
    config.server.listen = args.listen;
    config.store.url = format!("sqlite://{}", folder.path().join("landfall.db").display());
    config.node.name = "dev".to_owned();
    config.access.open = true;
    config.chain = vec![dev_chain(&chain)?];
    let mut keys = dev_signers(chain.config().chain_id, SIGNERS)?;
    keys.webhooks = Some(dev_webhooks(&config));
    let node = Node::start_with(&config, keys).await.map_err(|error| addressed(error, "--listen"))?;
    greet(&node, &chain, every)?;
    node.run(stop_signal()).await
}

/// The settings of `landfall dev`: finality 2, and quick.
fn dev_chain(chain: &Devchain) -> Result<Chain> {
    let mut settings = Chain::new(chain.config().chain_id, vec![chain.http_url()])?;
    settings.spec.finality = Finality::Blocks(2);
    settings.spec.poll_ms = 100;
    settings.spec.max_in_flight = 64;
    settings.resubmit_after_s = 10;
    Ok(settings)
}

/// Webhooks with a secret of their own, to receivers on this machine as well, and quick.
fn dev_webhooks(config: &Config) -> Webhooks {
    let secret = format!("{:032x}", SystemRandom.bits());
    Webhooks {
        allow_loopback: true,
        allow_http: true,
        retry_first: Duration::from_secs(1),
        retry_longest: Duration::from_secs(30),
        ..config.webhooks.settings(Some(&secret))
    }
}

/// Signers for the first of the public test accounts.
fn dev_signers(chain: u64, count: usize) -> Result<Keys> {
    let mut signers: BTreeMap<LaneId, Arc<dyn SignerPort>> = BTreeMap::new();
    for account in dev_accounts().take(count) {
        let signer = dev_keys::signer(&account)?;
        signers.insert(LaneId { chain: ChainId(chain), signer: signer.account() }, Arc::new(signer));
    }
    Ok(Keys { signers, ..Keys::default() })
}

fn greet(node: &Node, chain: &Devchain, every: Duration) -> Result<()> {
    let url = format!("http://{}", node.address()?);
    let id = chain.config().chain_id;
    let accounts: Vec<Account> = dev_accounts().map(|account| Account(account.address)).collect();
    let (Some(sender), Some(receiver)) = (accounts.first(), accounts.last()) else { return Ok(()) };
    println!("{}", coloured("Landfall is running.", Colour::Green));
    println!("  API      {url}");
    println!("  chain    {} (id {id}, a block every {every:?})", chain.http_url());
    println!("  store    a temporary folder, gone when this ends");
    println!("  signers  funded with 10,000 ether each; their keys are known to everyone, for play only:");
    for account in accounts.iter().take(node.lanes().len()) {
        println!("           {account}");
    }
    println!("  access   {OPEN}");
    println!("\nLand a transaction:\n");
    println!(
        "curl -s {url}/api/v1/tx -H 'content-type: application/json' -d '{{\"chainId\":{id},\"signer\":\"{sender}\",\
         \"requestId\":\"first\",\"payload\":{{\"to\":\"{receiver}\",\"value\":\"1000000000000000000\"}}}}'"
    );
    println!("\nSee where it is:\n");
    println!("curl -s '{url}/api/v1/tx/by-request?signer={sender}&requestId=first'");
    println!("\nCtrl-C ends it.");
    Ok(())
}
