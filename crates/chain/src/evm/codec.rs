//! Drafts into bytes: legacy (EIP-155), access-list (EIP-2930), dynamic-fee (EIP-1559) and set-code (EIP-7702)
//! transactions.

use alloy_consensus::transaction::{RlpEcdsaEncodableTx, SignerRecoverable};
use alloy_consensus::{
    SignableTransaction, Transaction, TxEip1559, TxEip2930, TxEip7702, TxEnvelope, TxLegacy,
};
use alloy_eips::eip2718::{Decodable2718, Encodable2718};
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_eips::eip7702;
use alloy_primitives::{Bytes, TxKind, U256};
use alloy_rlp::Encodable;
use landfall_core::attempt::{Draft, Sealed};
use landfall_core::fees::Fees;
use landfall_core::ports::chain::{Codec, SignedTx};
use landfall_core::ports::signer::{Preimage, Signature};
use landfall_core::request::Authorization;
use landfall_core::{Account, ChainId, Gas, Slot, TxHash, Wei};

/// The codec of every EVM chain; the chain id comes with the draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvmCodec;

impl Codec for EvmCodec {
    fn preimage(&self, draft: &Draft) -> Preimage {
        match unsigned(draft) {
            Unsigned::Legacy(tx) => preimage_of(&tx),
            Unsigned::AccessList(tx) => preimage_of(&tx),
            Unsigned::Dynamic(tx) => preimage_of(&tx),
            Unsigned::SetCode(tx) => preimage_of(&tx),
        }
    }

    fn seal(&self, draft: &Draft, signature: &Signature) -> Sealed {
        match unsigned(draft) {
            Unsigned::Legacy(tx) => sealed(tx, signature),
            Unsigned::AccessList(tx) => sealed(tx, signature),
            Unsigned::Dynamic(tx) => sealed(tx, signature),
            Unsigned::SetCode(tx) => sealed(tx, signature),
        }
    }

    fn authorization(&self, draft: &Draft) -> Option<Preimage> {
        let own = draft.call.authorization_list.iter().find(|item| item.signed.is_none())?;
        let word = own_word(own, draft.lane.chain, draft.slot);
        let mut bytes = vec![eip7702::constants::MAGIC];
        word.encode(&mut bytes);
        Some(Preimage { digest: word.signature_hash(), bytes: bytes.into() })
    }

    fn read(&self, raw: &[u8]) -> Result<SignedTx, String> {
        let mut rest = raw;
        let tx = TxEnvelope::decode_2718(&mut rest).map_err(|error| error.to_string())?;
        if !rest.is_empty() {
            return Err("bytes are left over after the transaction".to_owned());
        }
        let from = tx.recover_signer().map_err(|error| format!("its signature is not valid: {error}"))?;
        let mut shown = serde_json::to_value(&tx).map_err(|error| error.to_string())?;
        for name in ["blockHash", "blockNumber", "transactionIndex"] {
            shown[name] = serde_json::Value::Null;
        }
        shown["from"] = serde_json::json!(from);
        // What it will pay is known when it is in a block; until then nodes show the most.
        shown["gasPrice"] = serde_json::json!(format!("{:#x}", tx.max_fee_per_gas()));
        let (chain, slot) = (tx.chain_id().map(ChainId), Slot(tx.nonce()));
        let (gas, most) = (Gas(tx.gas_limit()), Wei(most(&tx)));
        Ok(SignedTx { hash: TxHash(*tx.tx_hash()), from: Account(from), slot, chain, gas, most, shown })
    }

    fn authority(&self, authorization: &Authorization) -> Option<Account> {
        let signed = authorization.signed?;
        let digest = word_of(authorization, signed.count).signature_hash();
        let signature = AlloySignature::new(signed.r, signed.s, signed.y_parity);
        // A signature with a high `s` is not taken by the chain.
        let low = signature.normalize_s().is_none();
        signature.recover_address_from_prehash(&digest).ok().filter(|_| low).map(Account)
    }
}

/// What an authority signs.
fn word_of(authorization: &Authorization, count: Slot) -> eip7702::Authorization {
    eip7702::Authorization {
        chain_id: U256::from(authorization.chain.map_or(0, |chain| chain.0)),
        address: authorization.address.0,
        nonce: count.0,
    }
}

/// An authorization by the sender itself: always for the chain that the transaction is for.
fn own_word(authorization: &Authorization, chain: ChainId, slot: Slot) -> eip7702::Authorization {
    let here = Authorization { chain: authorization.chain.or(Some(chain)), ..authorization.clone() };
    word_of(&here, slot.next())
}

/// As it stands in a transaction. One that is not signed has a signature of nobody's: it is signed before it is sent.
fn signed_word(authorization: &Authorization, draft: &Draft) -> eip7702::SignedAuthorization {
    match authorization.signed {
        Some(s) => eip7702::SignedAuthorization::new_unchecked(
            word_of(authorization, s.count),
            s.y_parity.into(),
            s.r,
            s.s,
        ),
        None => {
            let word = own_word(authorization, draft.lane.chain, draft.slot);
            eip7702::SignedAuthorization::new_unchecked(word, 0, U256::ZERO, U256::ZERO)
        }
    }
}

/// The most that a transaction can take from its sender.
fn most(tx: &TxEnvelope) -> U256 {
    let gas = U256::from(tx.max_fee_per_gas()).saturating_mul(U256::from(tx.gas_limit()));
    let blobs = U256::from(tx.max_fee_per_blob_gas().unwrap_or_default())
        .saturating_mul(U256::from(tx.blob_gas_used().unwrap_or_default()));
    tx.value().saturating_add(gas).saturating_add(blobs)
}

enum Unsigned {
    Legacy(TxLegacy),
    AccessList(TxEip2930),
    Dynamic(TxEip1559),
    SetCode(TxEip7702),
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
    if let (false, Some(to)) = (draft.call.authorization_list.is_empty(), draft.call.to) {
        let list = draft.call.authorization_list.iter();
        return Unsigned::SetCode(TxEip7702 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas: draft.fees.cap().0,
            max_priority_fee_per_gas: draft.fees.tip().0,
            to: to.0,
            value,
            access_list,
            authorization_list: list.map(|item| signed_word(item, draft)).collect(),
            input,
        });
    }
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
