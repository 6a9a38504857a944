//! The JSON shapes of Ethereum's JSON-RPC, as far as they are read here.
//!
//! Chains add and leave out fields; only what is needed is asked for.

use alloy_primitives::{Address, B256, Bytes, U256};
use landfall_core::ports::chain::{Codec, Taker};
use landfall_core::request::{Authorization, SignedAuthorization};
use landfall_core::view::{Block, BlockRef, Receipt};
use landfall_core::{Account, ChainId, Gas, Millis, Price, Slot, TxHash, Wei};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::codec::EvmCodec;
use super::rpc::Failure;

/// A number in hex after `0x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Quantity(U256);

impl Quantity {
    /// What does not fit is taken as the largest number that does: no real value comes near.
    pub(crate) fn as_u64(self) -> u64 {
        self.0.saturating_to()
    }

    pub(crate) fn as_wei(self) -> Wei {
        Wei(self.0)
    }

    pub(crate) fn as_price(self) -> Price {
        Price(self.0.saturating_to())
    }
}

/// A number as a node wants to be asked for it.
pub(crate) fn hex(number: u64) -> Value {
    json!(format!("{number:#x}"))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawBlock {
    number: Option<Quantity>,
    hash: Option<B256>,
    parent_hash: B256,
    timestamp: Quantity,
    gas_limit: Quantity,
    base_fee_per_gas: Option<Quantity>,
    transactions: Option<Vec<Value>>,
}

impl RawBlock {
    /// What is in the block; a header alone does not say that there is nothing.
    pub(crate) fn transactions(self) -> Result<Vec<Value>, Failure> {
        self.transactions.ok_or_else(|| Failure::Unreadable("a block without its transactions".to_owned()))
    }

    pub(crate) fn read(&self) -> Result<Block, Failure> {
        let (Some(number), Some(hash)) = (self.number, self.hash) else {
            return Err(Failure::Unreadable("a block without number or hash".to_owned()));
        };
        Ok(Block {
            at: BlockRef { number: number.as_u64(), hash },
            parent: self.parent_hash,
            timestamp: Millis(self.timestamp.as_u64().saturating_mul(1_000)),
            gas_limit: Gas(self.gas_limit.as_u64()),
            base_fee: self.base_fee_per_gas.map(Quantity::as_price),
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawReceipt {
    transaction_hash: B256,
    block_hash: Option<B256>,
    block_number: Option<Quantity>,
    transaction_index: Option<Quantity>,
    status: Option<Quantity>,
    gas_used: Option<Quantity>,
    effective_gas_price: Option<Quantity>,
    /// Of an OP-stack chain, and of those that charge for bytes alike.
    #[serde(default, deserialize_with = "if_readable")]
    l1_fee: Option<Quantity>,
    contract_address: Option<Address>,
}

impl RawReceipt {
    /// The receipt, or none if it is for a block that is not made yet (some nodes answer with those).
    pub(crate) fn read(self) -> Result<Option<Receipt>, Failure> {
        let (Some(hash), Some(number)) = (self.block_hash.filter(|hash| !hash.is_zero()), self.block_number)
        else {
            return Ok(None);
        };
        let Some(status) = self.status else {
            return Err(Failure::Unreadable(format!(
                "the receipt of {:#x} does not say whether it succeeded",
                self.transaction_hash
            )));
        };
        Ok(Some(Receipt {
            hash: TxHash(self.transaction_hash),
            block: BlockRef { number: number.as_u64(), hash },
            index: self.transaction_index.unwrap_or_default().as_u64(),
            success: status.as_u64() == 1,
            gas_used: Gas(self.gas_used.unwrap_or_default().as_u64()),
            gas_price: self.effective_gas_price.unwrap_or_default().as_price(),
            data_fee: self.l1_fee.map(Quantity::as_wei),
            contract: self.contract_address.map(Account),
        }))
    }
}

/// A field that only some chains have: whatever another one means by the name is no reason to do without the rest.
fn if_readable<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Quantity>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Field {
        Number(Quantity),
        Other(IgnoredAny),
    }
    Ok(match Option::<Field>::deserialize(field)? {
        Some(Field::Number(number)) => Some(number),
        Some(Field::Other(_)) | None => None,
    })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawFeeHistory {
    #[serde(default)]
    pub(crate) base_fee_per_gas: Vec<Quantity>,
    #[serde(default)]
    pub(crate) gas_used_ratio: Vec<f64>,
    pub(crate) reward: Option<Vec<Vec<Quantity>>>,
}

/// A transaction inside a block, as far as it tells who used a count for what.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawTransaction {
    hash: B256,
    pub(crate) from: Address,
    pub(crate) nonce: Quantity,
    to: Option<Address>,
    value: Quantity,
    input: Bytes,
    #[serde(default)]
    authorization_list: Option<Vec<RawAuthorization>>,
}

/// An authorization (EIP-7702) as it stands in a transaction.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAuthorization {
    chain_id: Quantity,
    address: Address,
    nonce: Quantity,
    #[serde(alias = "v")]
    y_parity: Quantity,
    r: U256,
    s: U256,
}

impl RawAuthorization {
    fn read(&self) -> Authorization {
        let said = self.chain_id.as_u64();
        Authorization {
            chain: (said != 0).then_some(ChainId(said)),
            address: Account(self.address),
            signed: Some(SignedAuthorization {
                count: Slot(self.nonce.as_u64()),
                r: self.r,
                s: self.s,
                y_parity: self.y_parity.as_u64() == 1,
            }),
        }
    }
}

impl RawTransaction {
    /// The counts that authorizations of this account in it are for.
    pub(crate) fn authorized_by(&self, account: Account, chain: ChainId) -> Vec<Slot> {
        let list = self.authorization_list.iter().flatten();
        let of_account = |raw: &RawAuthorization| {
            let authorization = raw.read();
            let is_here = authorization.chain.is_none_or(|said| said == chain);
            (is_here && EvmCodec.authority(&authorization) == Some(account))
                .then_some(Slot(raw.nonce.as_u64()))
        };
        list.filter_map(of_account).collect()
    }

    pub(crate) fn taker(self) -> Taker {
        let authorizations = self.authorization_list.iter().flatten().map(RawAuthorization::read).collect();
        Taker {
            hash: TxHash(self.hash),
            to: self.to.map(Account),
            value: Wei(self.value.0),
            data: self.input,
            authorizations,
            receipt: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receipt of OP Mainnet, shortened, with this field or without.
    fn data_fee(l1_fee: Option<Value>) -> Option<Wei> {
        let mut raw = json!({
            "transactionHash": B256::repeat_byte(1), "blockHash": B256::repeat_byte(2), "blockNumber": "0x5",
            "transactionIndex": "0x1", "status": "0x1", "gasUsed": "0x5208", "effectiveGasPrice": "0xf4288",
            "l1GasPrice": "0x3f5a1b2c", "l1GasUsed": "0x640", "l1BlobBaseFee": "0x1", "contractAddress": null,
        });
        if let Some(l1_fee) = l1_fee {
            raw["l1Fee"] = l1_fee;
        }
        let raw: RawReceipt = serde_json::from_value(raw).unwrap();
        let receipt = raw.read().unwrap().unwrap();
        assert_eq!((receipt.gas_used, receipt.gas_price), (Gas(21_000), Price(1_000_072)));
        receipt.data_fee
    }

    #[test]
    fn a_rollups_receipt_tells_the_fee_for_its_bytes() {
        assert_eq!(data_fee(Some(json!("0x1bc16d674ec80"))), Some(Wei(U256::from(488_281_250_000_000_u64))));
        assert_eq!(data_fee(Some(json!("0x0"))), Some(Wei(U256::ZERO)), "a deposit pays nothing");
    }

    #[test]
    fn a_receipt_without_that_fee_or_with_one_that_nobody_can_read_is_a_receipt_all_the_same() {
        for l1_fee in [None, Some(json!(null)), Some(json!({ "paid": "0x1" })), Some(json!("none"))] {
            assert_eq!(data_fee(l1_fee.clone()), None, "{l1_fee:?}");
        }
    }
}
