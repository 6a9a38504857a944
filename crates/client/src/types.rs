//! What is sent and what comes back. Amounts are strings, as in the API: they have more digits than a number holds.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Problem;

/// What a server said beyond the named fields.
type Rest = Map<String, Value>;

/// Where a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Accepted,
    Simulated,
    AwaitingApproval,
    Signed,
    Broadcast,
    Mined,
    Confirmed,
    Reverted,
    Failed,
    Cancelled,
    Expired,
}

impl State {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Simulated => "simulated",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Signed => "signed",
            Self::Broadcast => "broadcast",
            Self::Mined => "mined",
            Self::Confirmed => "confirmed",
            Self::Reverted => "reverted",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// Never left again.
    #[must_use]
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Confirmed | Self::Reverted | Self::Failed | Self::Cancelled | Self::Expired)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A transaction to hand over.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Submission {
    pub chain_id: u64,
    pub signer: String,
    /// The idempotency key. Without one every call is a new transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    pub payload: Payload,
    /// As the API has them.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
}

impl Submission {
    #[must_use]
    pub fn new(chain_id: u64, signer: impl Into<String>, payload: Payload) -> Self {
        Self { chain_id, signer: signer.into(), request_id: None, payload, options: Map::new() }
    }

    /// A retry with the same key gives back the same transaction.
    #[must_use]
    pub fn request_id(mut self, key: impl Into<String>) -> Self {
        self.request_id = Some(key.into());
        self
    }

    /// All options at once.
    #[must_use]
    pub fn options(mut self, options: Map<String, Value>) -> Self {
        self.options = options;
        self
    }

    /// One of the options, such as `speed`.
    #[must_use]
    pub fn option(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.options.insert(name.to_owned(), value.into());
        self
    }
}

/// What to do on chain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Payload {
    /// None: create a contract from `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Wei.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// None: estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gas: Option<u64>,
    /// Prices and lists, as the API has them.
    #[serde(flatten)]
    pub rest: Rest,
}

impl Payload {
    /// So much wei to somebody.
    #[must_use]
    pub fn transfer(to: impl Into<String>, wei: impl Into<String>) -> Self {
        Self { to: Some(to.into()), value: Some(wei.into()), ..Self::default() }
    }

    /// A call of a contract.
    #[must_use]
    pub fn call(to: impl Into<String>, data: impl Into<String>) -> Self {
        Self { to: Some(to.into()), data: Some(data.into()), ..Self::default() }
    }
}

/// It is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    pub tx_id: String,
    pub state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    #[serde(flatten)]
    pub rest: Rest,
}

/// What became of one item of a batch.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BatchItem {
    Refused(Box<Problem>),
    Accepted(Accepted),
}

/// A transaction, and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Transaction {
    pub tx_id: String,
    pub chain_id: u64,
    pub signer: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    pub state: State,
    /// While it has not ended: what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck_reason: Option<String>,
    /// When it ended without success: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<u64>,
    /// The one to look for: the winner's, else the newest attempt's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmations: Option<u64>,
    pub accepted_at: String,
    pub updated_at: String,
    /// `payload`, `options`, `attempts` and the rest, as the API has them.
    #[serde(flatten)]
    pub rest: Rest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    pub code: String,
    pub text: String,
}

/// What the chain made of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    pub transaction_hash: String,
    pub block_number: u64,
    pub block_hash: String,
    pub status: String,
    pub gas_used: u64,
    pub effective_gas_price: String,
    /// What a rollup charged on top for the bytes on its parent chain, in wei.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_fee: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_address: Option<String>,
    #[serde(flatten)]
    pub rest: Rest,
}

/// One thing that happened to a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    pub seq: i64,
    pub at: String,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(flatten)]
    pub rest: Rest,
}

/// One account on one chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    pub chain_id: u64,
    pub signer: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_nonce: Option<u64>,
    /// Transactions without a slot, and with one.
    pub waiting: u64,
    pub in_flight: u64,
    pub paused: bool,
    pub disabled: bool,
    pub healthy: bool,
    /// Why no slots are handed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_reason: Option<String>,
    #[serde(flatten)]
    pub rest: Rest,
}

/// The wish is stored; the chain decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandAccepted {
    pub command_id: String,
    #[serde(flatten)]
    pub rest: Rest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    pub id: String,
    pub name: String,
    pub role: String,
    pub state: String,
    /// The key itself; only of one that was just made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(flatten)]
    pub rest: Rest,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    pub items: Vec<T>,
    /// What the next page is asked for with; none on the last.
    pub next_cursor: Option<String>,
}

/// Which transactions are listed.
#[derive(Debug, Clone, Default)]
pub struct TxFilter {
    pub state: Option<String>,
    pub signer: Option<String>,
    pub chain_id: Option<u64>,
    /// Of any attempt.
    pub hash: Option<String>,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
}

impl TxFilter {
    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let Self { state, signer, chain_id, hash, cursor, limit } = self.clone();
        let all = [
            ("state", state),
            ("signer", signer),
            ("chainId", chain_id.map(|id| id.to_string())),
            ("hash", hash),
            ("cursor", cursor),
            ("limit", limit.map(|limit| limit.to_string())),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}
