//! Signed transactions of every kind, from the public test keys.

use alloy_consensus::{SignableTransaction, Signed, TxEip1559, TxEnvelope, crypto::secp256k1::sign_message};
use alloy_eips::{eip2718::Encodable2718, eip7702::Authorization};
use alloy_primitives::{Address, B256, Signature, TxKind, U256, hex};
use landfall_devchain::dev_accounts;

pub(crate) const GWEI: u128 = 1_000_000_000;

#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) address: Address,
    secret: B256,
}

/// One of the ten test accounts.
pub(crate) fn key(index: usize) -> Key {
    let account = dev_accounts().nth(index).unwrap();
    Key { address: account.address, secret: account.key }
}

impl Key {
    pub(crate) fn text(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn authorize(
        &self,
        chain_id: u64,
        to: Address,
        nonce: u64,
    ) -> alloy_eips::eip7702::SignedAuthorization {
        let authorization = Authorization { chain_id: U256::from(chain_id), address: to, nonce };
        let hash = authorization.signature_hash();
        authorization.into_signed(sign_message(self.secret, hash).unwrap())
    }
}

/// A plain EIP-1559 transfer of one wei at a comfortable price; change what the case is about.
pub(crate) fn dynamic(nonce: u64) -> TxEip1559 {
    TxEip1559 {
        chain_id: 31_337,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 20 * GWEI,
        max_priority_fee_per_gas: GWEI,
        to: TxKind::Call(Address::repeat_byte(0xee)),
        value: U256::from(1),
        ..TxEip1559::default()
    }
}

/// The transfer above, signed.
pub(crate) fn transfer(key: Key, nonce: u64) -> String {
    raw(key, dynamic(nonce))
}

/// Signs and encodes.
pub(crate) fn raw<T: SignableTransaction<Signature>>(key: Key, tx: T) -> String
where
    Signed<T>: Into<TxEnvelope>,
{
    let signature = sign_message(key.secret, tx.signature_hash()).unwrap();
    let envelope: TxEnvelope = tx.into_signed(signature).into();
    hex::encode_prefixed(envelope.encoded_2718())
}
