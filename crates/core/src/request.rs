//! What a caller asks for: the payload, the options, and the fingerprint that tells two requests apart.
//!
//! Values here are decoded and valid in form. What needs the configuration or the chain (a known signer, the block
//! gas limit) is checked by the engine's admission; JSON shapes belong to the server.

use alloy_primitives::{B256, Bytes, keccak256};
use serde::{Deserialize, Serialize};

use crate::{Account, Fingerprint, Gas, LaneId, Millis, Price, RequestId, TxId, Wei};

/// One thing to do on chain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Payload {
    /// Absent: create a contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Account>,
    #[serde(default)]
    pub value: Wei,
    #[serde(default, skip_serializing_if = "no_bytes")]
    pub data: Bytes,
    /// Absent: estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gas: Option<Gas>,
    #[serde(default, skip_serializing_if = "AskedFees::is_market")]
    pub fees: AskedFees,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_list: Vec<AccessItem>,
}

/// The first price a caller asks for; the ladder may rise above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AskedFees {
    /// By the chain's fee history and the speed.
    #[default]
    Market,
    /// A legacy transaction, with a price or the market's.
    #[serde(rename_all = "camelCase")]
    Legacy { gas_price: Option<Price> },
    /// An EIP-1559 transaction with either fee given.
    #[serde(rename_all = "camelCase")]
    Dynamic { max_fee: Option<Price>, tip: Option<Price> },
}

impl AskedFees {
    fn is_market(&self) -> bool {
        matches!(self, Self::Market)
    }
}

/// Storage that a transaction announces (EIP-2930).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessItem {
    pub address: Account,
    pub storage_keys: Vec<B256>,
}

/// How fast it should land: which percentile of recent tips is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    Slow,
    #[default]
    Normal,
    Fast,
}

/// When a mined transaction is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finality {
    /// This many blocks on top of the including one.
    Blocks(u64),
    /// The chain's `safe` block has reached it.
    Safe,
    /// The chain's `finalized` block has reached it.
    Finalized,
}

/// What becomes of a transaction whose slot was provably taken by a foreign one (E11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDisplaced {
    Requeue,
    Fail,
}

/// What becomes of a mined transaction whose block was replaced (F9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnReorg {
    /// The same bytes go out again for the same slot.
    #[default]
    Resend,
    /// Its slot gets a no-op; once that is final the transaction goes through the checks again, for a new slot.
    Cancel,
}

/// What becomes of a transaction that the account cannot pay for (E16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnInsufficientFunds {
    #[default]
    Hold,
    Fail,
}

/// How a transaction is to be carried. Every field has a default and is left out when unset, so that a field added
/// later does not change the fingerprints of requests made before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Options {
    #[serde(skip_serializing_if = "is_default")]
    pub speed: Speed,
    /// The most that any attempt may offer per gas; the chain's ceiling applies as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_fee_per_gas: Option<Price>,
    /// Judged by block time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finality: Option<Finality>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_displaced: Option<OnDisplaced>,
    #[serde(skip_serializing_if = "is_default")]
    pub on_reorg: OnReorg,
    #[serde(skip_serializing_if = "is_default")]
    pub on_insufficient_funds: OnInsufficientFunds,
    /// The caller's own JSON, handed back with it: at most 4 KB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
}

fn no_bytes(data: &Bytes) -> bool {
    data.as_ref().is_empty()
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A request as it is stored, once and unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    pub payload: Payload,
    #[serde(default)]
    pub options: Options,
    pub fingerprint: Fingerprint,
    pub accepted_at: Millis,
}

/// A transaction on its way into the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTransaction {
    pub id: TxId,
    pub lane: LaneId,
    pub request: Request,
}

/// One number for what is asked: chain, payload and options, by decoded value.
///
/// The signer is not part of it: it is part of the key itself.
pub fn fingerprint(
    lane: &LaneId,
    payload: &Payload,
    options: &Options,
) -> Result<Fingerprint, serde_json::Error> {
    let text = serde_json::to_vec(&(lane.chain, payload, options))?;
    Ok(Fingerprint(keccak256(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ChainId;
    use alloy_primitives::{Address, U256};

    fn lane(chain: u64) -> LaneId {
        LaneId { chain: ChainId(chain), signer: Account(Address::ZERO) }
    }

    #[test]
    fn the_fingerprint_covers_chain_payload_and_options() {
        let payload = Payload { value: Wei(U256::from(1)), ..Payload::default() };
        let options = Options::default();
        let base = fingerprint(&lane(1), &payload, &options).unwrap();
        assert_eq!(base, fingerprint(&lane(1), &payload.clone(), &options).unwrap());
        assert_ne!(base, fingerprint(&lane(2), &payload, &options).unwrap());
        let dearer = Payload { value: Wei(U256::from(2)), ..payload.clone() };
        assert_ne!(base, fingerprint(&lane(1), &dearer, &options).unwrap());
        let fast = Options { speed: Speed::Fast, ..options };
        assert_ne!(base, fingerprint(&lane(1), &payload, &fast).unwrap());
    }

    #[test]
    fn unset_options_leave_no_trace_in_what_is_hashed() {
        assert_eq!(serde_json::to_string(&Options::default()).unwrap(), "{}");
    }
}
