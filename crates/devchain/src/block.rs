//! A sealed block: a real header with its real hash, the transactions and what they did.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use alloy_consensus::{
    EMPTY_OMMER_ROOT_HASH, Header, Receipt, ReceiptEnvelope, ReceiptWithBloom, Transaction as _, TxType,
    constants::EMPTY_WITHDRAWALS,
    proofs::{calculate_receipt_root, calculate_transaction_root},
};
use alloy_eips::eip7685::EMPTY_REQUESTS_HASH;
use alloy_primitives::{Address, B256, Bloom, Keccak256, Log, logs_bloom};

use crate::{config::Config, execute::Outcome, state::chained_root, tx::Tx};

#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) header: Header,
    pub(crate) hash: B256,
    pub(crate) txs: Vec<Mined>,
    /// As JSON with its transactions' hashes.
    pub(crate) with_hashes: Written,
    /// The receipts as JSON.
    pub(crate) receipts: Written,
    /// Tips and the gas they were paid for, the smallest first; once somebody asked.
    tips: OnceLock<Vec<(u128, u64)>>,
}

/// A text that is written when it is first asked for, and kept while the block is young.
#[derive(Debug, Default)]
pub(crate) struct Written(Mutex<Option<Arc<str>>>);

impl Written {
    pub(crate) fn get<E>(&self, write: impl FnOnce() -> Result<Arc<str>, E>) -> Result<Arc<str>, E> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = kept.as_ref() {
            return Ok(text.clone());
        }
        Ok(kept.insert(write()?).clone())
    }

    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[derive(Debug)]
pub(crate) struct Mined {
    pub(crate) tx: Arc<Tx>,
    pub(crate) success: bool,
    pub(crate) gas_used: u64,
    pub(crate) cumulative_gas: u64,
    pub(crate) gas_price: u128,
    pub(crate) logs: Vec<Log>,
    /// Number of logs in the block before this transaction's.
    pub(crate) first_log: u64,
    pub(crate) created: Option<Address>,
}

impl Mined {
    pub(crate) fn tip(&self, base_fee: u64) -> u128 {
        self.tx.tip_at(base_fee).unwrap_or_default()
    }

    /// The consensus receipt, with logs of the kind the caller needs.
    pub(crate) fn receipt<L>(&self, logs: Vec<L>) -> ReceiptEnvelope<L> {
        let receipt = Receipt { status: self.success.into(), cumulative_gas_used: self.cumulative_gas, logs };
        let bloom = if self.logs.is_empty() { Bloom::ZERO } else { logs_bloom(&self.logs) };
        let inner = ReceiptWithBloom { receipt, logs_bloom: bloom };
        match self.tx.body().tx_type() {
            TxType::Legacy => ReceiptEnvelope::Legacy(inner),
            TxType::Eip2930 => ReceiptEnvelope::Eip2930(inner),
            TxType::Eip1559 => ReceiptEnvelope::Eip1559(inner),
            TxType::Eip4844 => ReceiptEnvelope::Eip4844(inner),
            TxType::Eip7702 => ReceiptEnvelope::Eip7702(inner),
        }
    }
}

/// What the roots in a header are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Transactions and receipts, as a node does it.
    Real,
    /// The transactions' hashes one after the other: cheap, and another transaction still makes another block.
    Chained,
}

impl Roots {
    pub(crate) fn of(config: &Config) -> Self {
        if config.execute { Self::Real } else { Self::Chained }
    }
}

impl Block {
    /// The header of an empty block; sealing fills in what the transactions decide.
    pub(crate) fn draft(
        number: u64,
        parent_hash: B256,
        timestamp: u64,
        gas_limit: u64,
        base_fee: u64,
    ) -> Header {
        Header {
            parent_hash,
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            number,
            timestamp,
            gas_limit,
            base_fee_per_gas: Some(base_fee),
            withdrawals_root: Some(EMPTY_WITHDRAWALS),
            blob_gas_used: Some(0),
            excess_blob_gas: Some(0),
            parent_beacon_block_root: Some(B256::ZERO),
            requests_hash: Some(EMPTY_REQUESTS_HASH),
            ..Header::default()
        }
    }

    /// `fork` tells blocks apart that differ in nothing else: those before and after a reorg.
    pub(crate) fn seal(
        mut header: Header,
        parent_root: B256,
        fork: u64,
        txs: Vec<Mined>,
        roots: Roots,
    ) -> Self {
        match roots {
            Roots::Real => {
                let bodies: Vec<_> = txs.iter().map(|m| m.tx.body()).collect();
                let receipts: Vec<_> = txs.iter().map(|m| m.receipt(m.logs.clone())).collect();
                header.transactions_root = calculate_transaction_root(&bodies);
                header.receipts_root = calculate_receipt_root(&receipts);
            }
            Roots::Chained => {
                let mut all = Keccak256::new();
                for mined in &txs {
                    all.update(mined.tx.hash);
                }
                header.transactions_root = all.finalize();
                header.receipts_root = header.transactions_root;
            }
        }
        header.logs_bloom =
            txs.iter().filter(|m| !m.logs.is_empty()).fold(Bloom::ZERO, |b, m| b | logs_bloom(&m.logs));
        header.gas_used = txs.last().map_or(0, |m| m.cumulative_gas);
        header.state_root = chained_root(parent_root, header.receipts_root, fork);
        Self {
            hash: header.hash_slow(),
            header,
            txs,
            with_hashes: Written::default(),
            receipts: Written::default(),
            tips: OnceLock::new(),
        }
    }

    /// Tips and the gas they were paid for, the smallest first.
    pub(crate) fn tips(&self) -> &[(u128, u64)] {
        self.tips.get_or_init(|| {
            let mut tips: Vec<_> = self.txs.iter().map(|m| (m.tip(self.base_fee()), m.gas_used)).collect();
            tips.sort_unstable();
            tips
        })
    }

    pub(crate) fn base_fee(&self) -> u64 {
        self.header.base_fee_per_gas.unwrap_or_default()
    }
}

/// Collects the transactions of a block under construction.
#[derive(Default)]
pub(crate) struct Body {
    pub(crate) txs: Vec<Mined>,
    pub(crate) gas_used: u64,
    logs: u64,
}

impl Body {
    pub(crate) fn push(&mut self, tx: Arc<Tx>, outcome: Outcome, base_fee: u64) {
        self.gas_used += outcome.gas_used;
        let first_log = self.logs;
        self.logs += outcome.logs.len() as u64;
        self.txs.push(Mined {
            success: outcome.success,
            gas_used: outcome.gas_used,
            cumulative_gas: self.gas_used,
            gas_price: tx.body().effective_gas_price(Some(base_fee)),
            logs: outcome.logs,
            first_log,
            created: outcome.created,
            tx,
        });
    }
}
