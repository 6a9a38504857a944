//! Reading back what the chain holds, from its canonical blocks only, so that a caller can count what landed and how often.

use std::sync::Arc;

use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use crate::{block::Block, pool::PoolSize};

/// A transaction in a canonical block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Landed {
    pub hash: B256,
    pub from: Address,
    pub nonce: u64,
    pub to: Option<Address>,
    pub value: U256,
    pub input: Bytes,
    pub block: u64,
    pub success: bool,
}

/// The chain in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    pub head: u64,
    /// Transactions in canonical blocks.
    pub tx_count: u64,
    pub pool: PoolSize,
    pub reorgs: u64,
}

/// The transactions of the given blocks, in chain order.
pub(crate) fn landed(blocks: Vec<Arc<Block>>) -> impl Iterator<Item = Landed> {
    blocks.into_iter().flat_map(|block| {
        let txs: Vec<Landed> = block
            .txs
            .iter()
            .map(|mined| Landed {
                hash: mined.tx.hash,
                from: mined.tx.sender,
                nonce: mined.tx.nonce(),
                to: mined.tx.body().to(),
                value: mined.tx.body().value(),
                input: mined.tx.body().input().clone(),
                block: block.header.number,
                success: mined.success,
            })
            .collect();
        txs
    })
}
