//! A signed transaction as the pool and the blocks hold it: decoded, its sender recovered, what it may cost known.
//! Recovering is the expensive part, so it happens here, before anybody takes the chain's lock.

use alloy_consensus::{
    Transaction as _, TxEnvelope,
    transaction::{Recovered, SignerRecoverable},
};
use alloy_eips::eip2718::Decodable2718;
use alloy_primitives::{Address, B256, U256};

use crate::reject::Reject;

/// geth's bound on the encoded size of a pooled transaction.
const MAX_SIZE: usize = 128 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Tx {
    envelope: TxEnvelope,
    pub(crate) sender: Address,
    pub(crate) hash: B256,
    /// The most it can take from its sender.
    pub(crate) cost: U256,
    pub(crate) size: usize,
}

impl Tx {
    pub(crate) fn decode(raw: &[u8]) -> Result<Self, Reject> {
        match raw.first() {
            None => return Err(Reject::TooShort),
            Some(3) => return Err(Reject::TypeNotPooled(3)),
            // Above the type bytes a legacy transaction's list begins.
            Some(1 | 2 | 4 | 0x80..) => {}
            Some(_) => return Err(Reject::UnknownType),
        }
        let envelope = TxEnvelope::decode_2718_exact(raw).map_err(|error| Reject::Rlp(error.to_string()))?;
        if raw.len() > MAX_SIZE {
            return Err(Reject::Oversized { size: raw.len(), limit: MAX_SIZE });
        }
        let sender = envelope.recover_signer().map_err(|_| Reject::Signature)?;
        let gas = U256::from(envelope.gas_limit());
        let fee = gas.saturating_mul(U256::from(envelope.max_fee_per_gas()));
        let cost = fee.saturating_add(envelope.value());
        let hash = *envelope.tx_hash();
        Ok(Self { envelope, sender, hash, cost, size: raw.len() })
    }

    /// A transaction nobody signed, for tests of what does not look at signatures.
    #[cfg(test)]
    pub(crate) fn unsigned(sender: Address, nonce: u64, fee_cap: u128) -> Self {
        use alloy_consensus::{SignableTransaction, TxEip1559};
        let tx = TxEip1559 {
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: fee_cap,
            max_priority_fee_per_gas: 1,
            // Senders differ in nothing else, and the hash must tell them apart.
            input: sender.to_vec().into(),
            ..TxEip1559::default()
        };
        let envelope = TxEnvelope::from(tx.into_signed(alloy_primitives::Signature::test_signature()));
        let cost = U256::from(21_000) * U256::from(fee_cap);
        Self { hash: *envelope.tx_hash(), envelope, sender, cost, size: 0 }
    }

    pub(crate) fn body(&self) -> &TxEnvelope {
        &self.envelope
    }

    pub(crate) fn nonce(&self) -> u64 {
        self.envelope.nonce()
    }

    pub(crate) fn fee_cap(&self) -> u128 {
        self.envelope.max_fee_per_gas()
    }

    pub(crate) fn tip_cap(&self) -> u128 {
        self.envelope.priority_fee_or_price()
    }

    /// What the block producer earns per gas, or nothing if the fee cap is under the base fee.
    pub(crate) fn tip_at(&self, base_fee: u64) -> Option<u128> {
        self.envelope.effective_tip_per_gas(base_fee)
    }

    pub(crate) fn recovered(&self) -> Recovered<TxEnvelope> {
        Recovered::new_unchecked(self.envelope.clone(), self.sender)
    }
}
