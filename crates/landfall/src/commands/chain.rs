//! `landfall chain`: putting a chain away that was started over, or going on with one that took back what was final.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use anyhow::{Context, Result, anyhow, bail};
use landfall_chain::evm::EvmChain;
use landfall_core::ports::chain::{BlockAt, Chain as _};
use landfall_core::ports::reorg;
use landfall_core::ports::store::{ChainRecord, Reads as _};
use landfall_core::view::BlockRef;
use landfall_core::witness;
use landfall_core::{ChainId, Namespace};
use landfall_store::{Archived, Postgres, Sqlite};
use serde_json::json;

use super::audit;
use crate::cli::Chain;
use crate::config::Config;
use crate::node::{Stores, open_store};
use crate::output;
use crate::system::SystemClock;

/// How long a large database may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long endpoints may take to show the same block.
const AGREE_WITHIN: Duration = Duration::from_secs(20);

pub(crate) async fn run(command: Chain) -> Result<()> {
    match command {
        Chain::Forget { id, config, yes, despite_unseen, json } => {
            forget(id, &config, &Word { yes, despite_unseen }, json).await
        }
        Chain::AcceptReorg { id, config, yes, json } => accept_reorg(id, &config, yes, json).await,
    }
}

/// The options that were said with the command.
struct Word {
    yes: bool,
    despite_unseen: bool,
}

async fn forget(id: u64, config: &Path, word: &Word, json: bool) -> Result<()> {
    let config = Config::load(config, std::env::vars())?;
    let Some(archived) = archive(&config, ChainId(id), word).await? else {
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
    if genesis.at.hash != record.genesis {
        let (known, shown) = (record.genesis, genesis.at.hash);
        return Err(reorg::Error::AnotherChain { chain: ChainId(id), known, shown }.into());
    }
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
    if !yes && now != before {
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

async fn archive(config: &Config, id: ChainId, word: &Word) -> Result<Option<Archived>> {
    let at = &config.store;
    let namespace = Namespace(at.namespace.clone());
    let about = json!({ "chainId": id });
    if at.is_postgres() {
        let options = landfall_store::postgres::Options { lease: PATIENCE, ..Default::default() };
        let store = Postgres::open(&at.url, &namespace, &options).await?;
        judge_forgotten(config, id, store.chain(id).await?, word).await?;
        audit::note(&store, "chain forget", about).await?;
        return Ok(store.archive_chain(id).await?);
    }
    let store = Sqlite::open(&at.url, &namespace, &landfall_store::sqlite::Options::default())?;
    judge_forgotten(config, id, store.chain(id).await?, word).await?;
    audit::note(&store, "chain forget", about).await?;
    Ok(store.archive_chain(id).await?)
}

/// The endpoints' view of a chain that is to be forgotten.
enum Seen {
    /// The chain that is stored: this block is still part of it.
    Same(BlockRef),
    /// Another one in the place of this block.
    Other { known: BlockRef, shown: Option<B256> },
}

/// A chain that still exists is not forgotten, nor one of which nobody shows what became of it.
async fn judge_forgotten(
    config: &Config,
    id: ChainId,
    record: Option<ChainRecord>,
    word: &Word,
) -> Result<()> {
    let Some(record) = record else { return Ok(()) };
    let seen = match tokio::time::timeout(AGREE_WITHIN, seen(config, id, &record)).await {
        Ok(seen) => seen,
        Err(_) => Err(anyhow!("no endpoint answered within {} s", AGREE_WITHIN.as_secs())),
    };
    match seen {
        Ok(Seen::Same(block)) => bail!(
            "the endpoints show block {} of chain {id} as it is stored ({:#x}): it is the same chain, and was not started over. \
             Nothing was changed. Were it forgotten, what was paid there could be paid again",
            block.number,
            block.hash
        ),
        Ok(Seen::Other { known, shown }) if !word.yes => bail!(
            "block {} of chain {id} is {:#x} in the store, and the endpoints show {}. If an endpoint is the wrong one, correct \
             `rpc` in the configuration: nothing is lost. If the chain is the same and took blocks back, use `landfall chain \
             accept-reorg {id}`, which keeps request ids and nonces. Say --yes only if the chain was started over: its request ids \
             and nonces become free, and what was paid on the chain that is stored would be paid again",
            known.number,
            known.hash,
            shown.map_or("no such block".to_owned(), |hash| format!("{hash:#x}"))
        ),
        Err(why) if !(word.yes && word.despite_unseen) => bail!(
            "whether chain {id} was started over cannot be seen: {why:#}. Nothing was changed. Configure endpoints that show it; or, if \
             you know that the chain that is stored does not exist any more, say --yes --despite-unseen"
        ),
        Ok(Seen::Other { .. }) | Err(_) => Ok(()),
    }
}

async fn seen(config: &Config, id: ChainId, record: &ChainRecord) -> Result<Seen> {
    let chain = config.chain.iter().find(|chain| chain.id == id.0);
    let chain = chain.context("it is not configured, so no endpoint can be asked")?;
    let evm = EvmChain::new(chain.chain_config(), Arc::new(SystemClock))?;
    let first = BlockRef { number: 0, hash: record.genesis };
    let newest = record.settled.unwrap_or(record.scanned);
    for known in [first, newest] {
        let shown = evm.block(BlockAt::Number(known.number)).await?.map(|block| block.at.hash);
        if shown != Some(known.hash) {
            return Ok(Seen::Other { known, shown });
        }
    }
    Ok(Seen::Same(newest))
}
