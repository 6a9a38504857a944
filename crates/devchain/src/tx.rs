//! A signed transaction as the pool and the blocks hold it: decoded, its sender recovered, what it may cost known.
//! Recovering is the expensive part, so it happens here, before anybody takes the chain's lock.

use alloy_consensus::{
    Transaction as _, TxEnvelope,
    transaction::{Recovered, SignerRecoverable},
};
use alloy_eips::eip2718::{Decodable2718, Eip2718Error};
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
            Some(_) => {}
        }
        let envelope = TxEnvelope::decode_2718_exact(raw).map_err(|error| match error {
            Eip2718Error::UnexpectedType(_) => Reject::UnknownType,
            Eip2718Error::RlpError(error) => Reject::Rlp(error.to_string()),
            other => Reject::Rlp(other.to_string()),
        })?;
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
