//! Accepting a reorganisation that went deeper than what was called final: a person's word that the chain is still the
//! same one. Everything that is stored of it stays; only the block that it is known by is replaced.

use alloy_primitives::B256;

use super::store::{ChainRecord, Error as StoreError, Store, Write, WriteError};
use crate::ChainId;
use crate::view::BlockRef;

/// Why it was not accepted. Nothing was changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("nothing is stored of chain {0}")]
    UnknownChain(ChainId),
    /// Its first block is another one.
    #[error(
        "the endpoints show another first block ({shown:#x}, not {known:#x}): this is not a reorganisation but another \
         chain. If an endpoint is the wrong one, correct `rpc`: nothing is lost. If the chain was started over on purpose, use \
         `landfall chain forget {chain}`"
    )]
    AnotherChain { chain: ChainId, known: B256, shown: B256 },
    /// There is nothing to accept.
    #[error("block {} of chain {chain} is still the one that was final: there is nothing to accept", block.number)]
    Unchanged { chain: ChainId, block: BlockRef },
    #[error(
        "no block of chain {0} was final yet, so none can have been replaced: there is nothing to accept"
    )]
    NothingFinal(ChainId),
    /// A node that runs would go on by what it remembers.
    #[error("a node is at work on this store; stop every node, then try again")]
    AtWork,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The block by which a chain is known, and its first one; as the store remembers them.
pub async fn known(store: &dyn Store, chain: ChainId) -> Result<(ChainRecord, BlockRef), Error> {
    let record = store.chain(chain).await?.ok_or(Error::UnknownChain(chain))?;
    let settled = record.settled.ok_or(Error::NothingFinal(chain))?;
    Ok((record, settled))
}

/// Replaces the block by which a chain is known by the one that the endpoints show at its number. Transactions, request ids
/// and slots stay: what was not final is carried on as after any reorganisation, and a lane whose history is open again
/// holds until a person resumes it.
pub async fn accept(
    store: &dyn Store,
    chain: ChainId,
    genesis: B256,
    shown: BlockRef,
) -> Result<ChainRecord, Error> {
    let (record, settled) = known(store, chain).await?;
    if genesis != record.genesis {
        return Err(Error::AnotherChain { chain, known: record.genesis, shown: genesis });
    }
    if shown == settled {
        return Err(Error::Unchanged { chain, block: settled });
    }
    if !store.holders().await?.live.is_empty() {
        return Err(Error::AtWork);
    }
    // From there on its blocks are read again.
    let record = ChainRecord { scanned: shown, settled: Some(shown), ..record };
    for written in store.write(vec![Write::Chain(Box::new(record.clone()))]).await {
        written?;
    }
    Ok(record)
}
