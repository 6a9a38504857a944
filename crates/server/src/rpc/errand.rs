//! Questions and sends for callers who signed transactions themselves: on a way of its own ([`Way::Sends`]), in their key's turn and
//! with little room. The engine's own questions are not made later by it, and it is not by what others ask.

use std::sync::atomic::{AtomicUsize, Ordering};

use alloy_primitives::{B256, U256};
use landfall_core::attempt::Sealed;
use landfall_core::outcome::SendReport;
use landfall_core::ports::chain::{AskError, Chain, NoRoom, Room, Way};
use landfall_core::view::BlockRef;
use landfall_core::{Account, Slot, TxHash, Wei};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::error::RpcError;
use super::pass;

/// The longest answer: a number, or an error with its data; and a transaction as nodes show it.
const LONGEST: usize = 64 << 10;
const LONGEST_TX: usize = 1 << 20;

/// Somebody's errands at a chain.
#[derive(Clone, Copy)]
pub(super) struct Errands<'a> {
    chain: &'a dyn Chain,
    owner: &'a str,
}

/// An endpoint's word on an account's count at a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    Is(Slot),
    /// It does not say what it is at this block: it does not answer, or lags behind the block.
    AtLeast(Slot),
}

impl Count {
    /// An error, and an answer that is too long, are words all the same: that of an endpoint that has seen no nonce used.
    fn read(said: Result<String, AskError>, lags: bool) -> Self {
        let count = match said {
            Ok(text) => number(&text).map(Slot),
            Err(AskError::Node { .. } | AskError::NoRoom(_)) => None,
            Err(AskError::Busy(_) | AskError::NoAnswer(_)) => return Self::AtLeast(Slot(0)),
        };
        let count = count.unwrap_or(Slot(0));
        if lags { Self::AtLeast(count) } else { Self::Is(count) }
    }
}

fn number(text: &str) -> Option<u64> {
    serde_json::from_str::<U256>(text).ok().map(|number| number.saturating_to())
}

/// As much of a transaction as says in which block it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InBlock {
    block_hash: Option<B256>,
    block_number: Option<U256>,
}

impl<'a> Errands<'a> {
    /// For this API key; all without one share a turn.
    pub(super) fn of(chain: &'a dyn Chain, key: Option<&'a str>) -> Self {
        Self { chain, owner: key.unwrap_or_default() }
    }

    pub(super) async fn send(&self, raw: &Sealed) -> SendReport {
        self.chain.send_for(raw, self.owner).await
    }

    /// The account's count at this block; a node that has no such state says what it has now.
    pub(super) async fn count(&self, account: Account, at: &BlockRef) -> Result<Slot, RpcError> {
        self.state("eth_getTransactionCount", account, at).await.map(|count| Slot(count.saturating_to()))
    }

    /// The account's count at this block, as each endpoint for callers says it; one that has no such state says what it has now.
    pub(super) async fn counts_of_each(&self, account: Account, at: u64) -> Vec<Count> {
        let at_block = json!([account.0, U256::from(at)]);
        let counts = self.ask_each("eth_getTransactionCount", &at_block).await;
        if !counts.iter().any(|said| matches!(said, Err(AskError::Node { .. }))) {
            return counts.into_iter().map(|said| Count::read(said, false)).collect();
        }
        let now = self.ask_each("eth_getTransactionCount", &json!([account.0, "latest"])).await;
        let heads = self.ask_each("eth_blockNumber", &json!([])).await;
        let heads = heads.into_iter().map(|said| said.ok().and_then(|text| number(&text)));
        let each = counts.into_iter().zip(now.into_iter().zip(heads));
        each.map(|(said, (now, head))| match said {
            Err(AskError::Node { .. }) => Count::read(now, head.is_some_and(|head| head < at)),
            said => Count::read(said, false),
        })
        .collect()
    }

    /// The account's count with what pools hold, the highest that an endpoint for callers says.
    pub(super) async fn pending(&self, account: Account) -> Option<Slot> {
        let said = self.ask_each("eth_getTransactionCount", &json!([account.0, "pending"])).await;
        said.into_iter().filter_map(|said| number(&said.ok()?)).max().map(Slot)
    }

    async fn ask_each(&self, method: &str, params: &Value) -> Vec<Result<String, AskError>> {
        self.chain.ask_each(method, params, &self.room(LONGEST)).await
    }

    pub(super) async fn balance(&self, account: Account, at: &BlockRef) -> Result<Wei, RpcError> {
        self.state("eth_getBalance", account, at).await.map(Wei)
    }

    /// The block that these bytes are in, as a node shows it.
    pub(super) async fn block_of(&self, hash: TxHash) -> Result<Option<BlockRef>, RpcError> {
        let shown: Option<InBlock> = self.ask("eth_getTransactionByHash", json!([hash]), LONGEST_TX).await?;
        let block = shown.and_then(|shown| shown.block_hash.zip(shown.block_number));
        Ok(block.map(|(hash, number)| BlockRef { number: number.saturating_to(), hash }))
    }

    async fn state(&self, method: &str, account: Account, at: &BlockRef) -> Result<U256, RpcError> {
        let at_block = json!([account.0, { "blockHash": at.hash }]);
        match self.chain.ask(method, &at_block, &self.room(LONGEST)).await {
            Ok(text) => pass::parsed(method, &text),
            Err(AskError::Node { .. }) => self.ask(method, json!([account.0, "latest"]), LONGEST).await,
            Err(error) => Err(error.into()),
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        params: Value,
        most: usize,
    ) -> Result<T, RpcError> {
        let text = self.chain.ask(method, &params, &self.room(most)).await?;
        pass::parsed(method, &text)
    }

    fn room(&self, most: usize) -> Little<'_> {
        Little { owner: self.owner, most, taken: AtomicUsize::new(0) }
    }
}

/// Room for one short answer, whatever others have read.
struct Little<'a> {
    owner: &'a str,
    most: usize,
    taken: AtomicUsize,
}

impl Room for Little<'_> {
    fn take(&self, bytes: usize) -> Result<(), NoRoom> {
        let before = self.taken.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.most {
            return Ok(());
        }
        Err(NoRoom { setting: "", text: format!("an answer is longer than {} bytes", self.most) })
    }

    fn begin_anew(&self) {
        self.taken.store(0, Ordering::Relaxed);
    }

    fn owner(&self) -> &str {
        self.owner
    }

    fn way(&self) -> Way {
        Way::Sends
    }
}
