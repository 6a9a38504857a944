//! Drafts into bytes: legacy (EIP-155), access-list (EIP-2930) and dynamic-fee (EIP-1559) transactions.

use alloy_consensus::{
    SignableTransaction, TxEip1559, TxEip2930, TxLegacy, transaction::RlpEcdsaEncodableTx,
};
use alloy_eips::eip2718::Encodable2718;
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::{Bytes, TxKind};
use landfall_core::TxHash;
use landfall_core::attempt::{Draft, Sealed};
use landfall_core::fees::Fees;
use landfall_core::ports::chain::Codec;
use landfall_core::ports::signer::{Preimage, Signature};

/// The codec of every EVM chain; the chain id comes with the draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvmCodec;

impl Codec for EvmCodec {
    fn preimage(&self, draft: &Draft) -> Preimage {
        match unsigned(draft) {
            Unsigned::Legacy(tx) => preimage_of(&tx),
            Unsigned::AccessList(tx) => preimage_of(&tx),
            Unsigned::Dynamic(tx) => preimage_of(&tx),
        }
    }

    fn seal(&self, draft: &Draft, signature: &Signature) -> Sealed {
        match unsigned(draft) {
            Unsigned::Legacy(tx) => sealed(tx, signature),
            Unsigned::AccessList(tx) => sealed(tx, signature),
            Unsigned::Dynamic(tx) => sealed(tx, signature),
        }
    }
}

enum Unsigned {
    Legacy(TxLegacy),
    AccessList(TxEip2930),
    Dynamic(TxEip1559),
}

fn unsigned(draft: &Draft) -> Unsigned {
    let chain_id = draft.lane.chain.0;
    let nonce = draft.slot.0;
    let gas_limit = draft.gas.0;
    let to = draft.call.to.map_or(TxKind::Create, |account| TxKind::Call(account.0));
    let value = draft.call.value.0;
    let input = draft.call.data.clone();
    let access_list = AccessList(
        draft
            .call
            .access_list
            .iter()
            .map(|item| AccessListItem { address: item.address.0, storage_keys: item.storage_keys.clone() })
            .collect(),
    );
    match draft.fees {
        Fees::Legacy { gas_price } if access_list.0.is_empty() => Unsigned::Legacy(TxLegacy {
            chain_id: Some(chain_id),
            nonce,
            gas_price: gas_price.0,
            gas_limit,
            to,
            value,
            input,
        }),
        Fees::Legacy { gas_price } => Unsigned::AccessList(TxEip2930 {
            chain_id,
            nonce,
            gas_price: gas_price.0,
            gas_limit,
            to,
            value,
            access_list,
            input,
        }),
        Fees::Dynamic { max_fee, tip } => Unsigned::Dynamic(TxEip1559 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas: max_fee.0,
            max_priority_fee_per_gas: tip.0,
            to,
            value,
            access_list,
            input,
        }),
    }
}

type AlloySignature = alloy_primitives::Signature;

fn preimage_of(tx: &impl SignableTransaction<AlloySignature>) -> Preimage {
    let bytes = Bytes::from(tx.encoded_for_signing());
    Preimage { digest: alloy_primitives::keccak256(&bytes), bytes }
}

fn sealed<T>(tx: T, signature: &Signature) -> Sealed
where
    T: SignableTransaction<AlloySignature> + RlpEcdsaEncodableTx,
{
    let signature = AlloySignature::new(signature.r, signature.s, signature.y_parity);
    let signed = tx.into_signed(signature);
    Sealed { raw: Bytes::from(signed.encoded_2718()), hash: TxHash(*signed.hash()) }
}
