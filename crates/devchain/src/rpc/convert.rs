//! From blocks and transactions to the shapes that go over the wire.

use alloy_consensus::{Transaction as _, TxEnvelope};
use alloy_primitives::B256;
use alloy_rpc_types_eth::{
    Block as RpcBlock, BlockTransactions, Header as RpcHeader, Log as RpcLog, Transaction,
    TransactionReceipt, Withdrawals,
};

use crate::{
    block::{Block, Mined},
    tx::Tx,
};

/// Whether a block shows its transactions or their hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    Hashes,
    Full,
}

pub(crate) fn header(block: &Block) -> RpcHeader {
    RpcHeader { hash: block.hash, inner: block.header.clone(), total_difficulty: None, size: None }
}

pub(crate) fn block(block: &Block, detail: Detail) -> RpcBlock<Transaction<TxEnvelope>> {
    let mut header = header(block);
    let body: usize = block.txs.iter().map(|m| m.tx.size).sum();
    header.size = Some(alloy_primitives::U256::from(block.header.size() + body));
    let transactions = match detail {
        Detail::Hashes => BlockTransactions::Hashes(block.txs.iter().map(|m| m.tx.hash).collect()),
        Detail::Full => {
            let mined = block.txs.iter().enumerate();
            BlockTransactions::Full(mined.map(|(index, m)| transaction(block, index, m)).collect())
        }
    };
    RpcBlock { header, uncles: Vec::new(), transactions, withdrawals: Some(Withdrawals::default()) }
}

pub(crate) fn transaction(block: &Block, index: usize, mined: &Mined) -> Transaction<TxEnvelope> {
    Transaction {
        inner: mined.tx.recovered(),
        block_hash: Some(block.hash),
        block_number: Some(block.header.number),
        transaction_index: Some(index as u64),
        effective_gas_price: Some(mined.gas_price),
        block_timestamp: None,
    }
}

pub(crate) fn waiting(tx: &Tx) -> Transaction<TxEnvelope> {
    Transaction {
        inner: tx.recovered(),
        block_hash: None,
        block_number: None,
        transaction_index: None,
        // As geth does: until a block decides, the price is the most it may be.
        effective_gas_price: Some(tx.fee_cap()),
        block_timestamp: None,
    }
}

pub(crate) fn logs(block: &Block, index: usize, mined: &Mined) -> Vec<RpcLog> {
    let wrap = |(at, log): (usize, &alloy_primitives::Log)| RpcLog {
        inner: log.clone(),
        block_hash: Some(block.hash),
        block_number: Some(block.header.number),
        block_timestamp: Some(block.header.timestamp),
        transaction_hash: Some(mined.tx.hash),
        transaction_index: Some(index as u64),
        log_index: Some(mined.first_log + at as u64),
        removed: false,
    };
    mined.logs.iter().enumerate().map(wrap).collect()
}

pub(crate) fn receipt(block: &Block, index: usize, mined: &Mined) -> TransactionReceipt {
    TransactionReceipt {
        inner: mined.receipt(logs(block, index, mined)),
        transaction_hash: mined.tx.hash,
        transaction_index: Some(index as u64),
        block_hash: Some(block.hash),
        block_number: Some(block.header.number),
        gas_used: mined.gas_used,
        effective_gas_price: mined.gas_price,
        blob_gas_used: None,
        blob_gas_price: None,
        from: mined.tx.sender,
        to: mined.tx.body().to(),
        contract_address: mined.created,
    }
}

pub(crate) fn receipts(block: &Block) -> Vec<TransactionReceipt> {
    block.txs.iter().enumerate().map(|(index, mined)| receipt(block, index, mined)).collect()
}

/// A number as hexadecimal without leading zeros.
pub(crate) fn quantity(number: impl std::fmt::LowerHex) -> serde_json::Value {
    serde_json::Value::String(format!("0x{number:x}"))
}

/// A storage word: always 32 bytes.
pub(crate) fn word(value: alloy_primitives::U256) -> B256 {
    B256::from(value)
}
