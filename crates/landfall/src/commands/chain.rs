//! `landfall chain`: putting a chain away that was started over, or going on with one that took back what was final.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use anyhow::{Context, Result, bail};
use landfall_chain::evm::EvmChain;
use landfall_core::ports::chain::{BlockAt, Chain as _};
use landfall_core::ports::reorg;
use landfall_core::view::BlockRef;
use landfall_core::witness;
use landfall_core::{ChainId, Namespace};
use landfall_store::{Archived, Postgres, Sqlite};
use serde_json::json;

use super::audit;
use crate::cli::Chain;
use crate::config::{Config, Store};
use crate::node::{Stores, open_store};
use crate::output;
use crate::system::SystemClock;

/// How long a large database may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long endpoints may take to show the same block.
const AGREE_WITHIN: Duration = Duration::from_secs(20);

pub(crate) async fn run(command: Chain) -> Result<()> {
    match command {
        Chain::Forget { id, config, yes, json } => forget(id, &config, yes, json).await,
        Chain::AcceptReorg { id, config, yes, json } => accept_reorg(id, &config, yes, json).await,
    }
}

async fn forget(id: u64, config: &Path, yes: bool, json: bool) -> Result<()> {
    let config = Config::load(config, std::env::vars())?;
    if !yes {
        bail!(
            "this frees the request ids and slots of chain {id}. If that chain still exists, what was sent there could \
             be sent again: after a deep reorganisation use `landfall chain accept-reorg {id}`, which keeps them. Say --yes \
             if the chain was started over"
        );
    }
    let Some(archived) = archive(&config.store, ChainId(id)).await? else {
        bail!("nothing is stored of chain {id} in {}", config.store.shown());
    };
    let Archived { namespace, lanes, transactions } = archived;
    if json {
        output::json(&json!({ "namespace": namespace, "lanes": lanes, "transactions": transactions }));
    } else {
        println!(
            "chain {id} is put away: {lanes} lanes with {transactions} transactions are in the namespace {namespace}. \
             Start the server: the chain is new to it"
        );
    }
    Ok(())
}

async fn accept_reorg(id: u64, config: &Path, yes: bool, json: bool) -> Result<()> {
    let config = Config::load(config, std::env::vars())?;
    let Some(chain) = config.chain.iter().find(|chain| chain.id == id) else {
        bail!("chain {id} is not configured; its endpoints must be asked what they show now");
    };
    let evm = EvmChain::new(chain.chain_config(), Arc::new(SystemClock))?;
    let Stores { store, audit: log, .. } = open_store(&config).await?;
    let (record, before) = reorg::known(store.as_ref(), ChainId(id)).await?;
    let genesis =
        evm.block(BlockAt::Number(0)).await?.context("the endpoints do not show the first block")?;
    let now = tokio::time::timeout(AGREE_WITHIN, shown(&evm, before.number, chain.rpc.len()));
    let now = now.await.unwrap_or_else(|_| {
        bail!(
            "two endpoints must show the same block {}, and within {} s they did not; look at them, or configure only the \
             one that is right",
            before.number,
            AGREE_WITHIN.as_secs()
        )
    })?;
    // What is no reorganisation is refused below, whatever was said.
    if !yes && now != before && genesis.at.hash == record.genesis {
        bail!(
            "block {} of chain {id} was {:#x} and final, and is {:#x} now. If that is the chain, say --yes: request ids and \
             nonces stay taken, and what is not on the chain any more is sent again where it had not ended",
            before.number,
            before.hash,
            now.hash
        );
    }
    let about = json!({ "chainId": id, "block": now.number, "was": before.hash, "is": now.hash });
    audit::note(log.as_ref(), "chain accept-reorg", about).await?;
    reorg::accept(store.as_ref(), ChainId(id), genesis.at.hash, now).await?;
    if json {
        output::json(&json!({ "block": now.number, "was": before.hash, "is": now.hash }));
    } else {
        println!(
            "chain {id} is known by block {} ({:#x}) from now on; it was {:#x}. Start the server: accounts whose final nonces \
             are open again stay on hold until they are resumed",
            now.number, now.hash, before.hash
        );
    }
    Ok(())
}

/// The block with that number, as two endpoints show it where there are two.
async fn shown(evm: &EvmChain, number: u64, endpoints: usize) -> Result<BlockRef> {
    loop {
        // Asks all of them for their heads as well.
        let head = evm.block(BlockAt::Latest).await?.map_or(0, |head| head.at.number);
        if head < number {
            bail!(
                "the endpoints are at block {head}, and block {number} was final: wait until they have got there"
            );
        }
        if let Some(block) = evm.block(BlockAt::Number(number)).await? {
            let ours: BTreeMap<u64, B256> = [(number, block.at.hash)].into();
            let agreed = witness::by_two(&evm.witnesses(&ours).await);
            if endpoints < 2 || agreed == Some(number) {
                return Ok(block.at);
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn archive(store: &Store, chain: ChainId) -> Result<Option<Archived>> {
    let namespace = Namespace(store.namespace.clone());
    let about = json!({ "chainId": chain });
    if store.is_postgres() {
        let options = landfall_store::postgres::Options { lease: PATIENCE, ..Default::default() };
        let store = Postgres::open(&store.url, &namespace, &options).await?;
        audit::note(&store, "chain forget", about).await?;
        return Ok(store.archive_chain(chain).await?);
    }
    let store = Sqlite::open(&store.url, &namespace, &landfall_store::sqlite::Options::default())?;
    audit::note(&store, "chain forget", about).await?;
    Ok(store.archive_chain(chain).await?)
}
