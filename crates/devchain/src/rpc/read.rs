//! Questions about blocks, accounts, transactions and receipts.

use std::sync::Arc;

use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256, U256};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Call, Reply, RpcError,
    convert::{self, Detail, quantity},
    view::View,
};
use crate::state::code_of;

pub(crate) fn to_value(value: &impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(value).map_err(|error| RpcError::new(-32603, error.to_string()))
}

impl Call<'_> {
    fn block_id(&self, index: usize) -> Result<BlockId, RpcError> {
        Ok(self.params.optional(index)?.unwrap_or(BlockId::latest()))
    }

    fn detail(&self) -> Result<Detail, RpcError> {
        let full = self.params.optional::<bool>(1)?.unwrap_or_default();
        Ok(if full { Detail::Full } else { Detail::Hashes })
    }
}

pub(crate) fn block_number(call: &Call<'_>) -> Result<Value, RpcError> {
    Ok(quantity(View::new(&call.control.chain(), call).head))
}

pub(crate) fn balance(call: &Call<'_>) -> Result<Value, RpcError> {
    let (address, id) = (call.params.get::<Address>(0)?, call.block_id(1)?);
    let chain = call.control.chain();
    let view = View::new(&chain, call);
    let block = view.require(id)?.header.number;
    let balance = view.account(block, address)?.balance;
    let config = call.control.config();
    to_value(&if config.execute { balance } else { balance.max(config.everyone_has) })
}

pub(crate) fn code(call: &Call<'_>) -> Result<Value, RpcError> {
    let (address, id) = (call.params.get::<Address>(0)?, call.block_id(1)?);
    let chain = call.control.chain();
    let view = View::new(&chain, call);
    let block = view.require(id)?.header.number;
    to_value(&code_of(&view.account(block, address)?))
}

pub(crate) fn storage(call: &Call<'_>) -> Result<Value, RpcError> {
    let (address, slot) = (call.params.get::<Address>(0)?, call.params.get::<U256>(1)?);
    let id = call.block_id(2)?;
    let chain = call.control.chain();
    let block = View::new(&chain, call).require(id)?.header.number;
    to_value(&convert::word(chain.state.slot_at(block, address, slot)?))
}

pub(crate) fn transaction_count(call: &Call<'_>) -> Result<Value, RpcError> {
    let (address, id) = (call.params.get::<Address>(0)?, call.block_id(1)?);
    let chain = call.control.chain();
    let view = View::new(&chain, call);
    let block = view.require(id)?.header.number;
    let count = view.account(block, address)?.nonce;
    // A node that lags behind has not seen the pool's newest either.
    let pending = id == BlockId::Number(BlockNumberOrTag::Pending) && !view.lagging;
    Ok(quantity(if pending { count + chain.pool.ready(address) } else { count }))
}

pub(crate) fn block_by_number(call: &Call<'_>) -> Result<Reply, RpcError> {
    let (tag, detail) = (call.params.get::<BlockNumberOrTag>(0)?, call.detail()?);
    block(call, tag.into(), detail)
}

pub(crate) fn block_by_hash(call: &Call<'_>) -> Result<Reply, RpcError> {
    let (hash, detail) = (call.params.get::<B256>(0)?, call.detail()?);
    block(call, BlockId::hash(hash), detail)
}

fn block(call: &Call<'_>, id: BlockId, detail: Detail) -> Result<Reply, RpcError> {
    let chain = call.control.chain();
    let block = View::new(&chain, call).find(id).cloned();
    drop(chain);
    let Some(block) = block else { return Ok(Value::Null.into()) };
    match detail {
        Detail::Full => Ok(to_value(&convert::block(&block, detail))?.into()),
        Detail::Hashes => {
            block.with_hashes.get(|| to_text(&convert::block(&block, detail))).map(Reply::Ready)
        }
    }
}

pub(crate) fn block_receipts(call: &Call<'_>) -> Result<Reply, RpcError> {
    let id = call.params.get::<BlockId>(0)?;
    let chain = call.control.chain();
    let block = View::new(&chain, call).find(id).cloned();
    drop(chain);
    let Some(block) = block else { return Ok(Value::Null.into()) };
    if call.withholds_receipts(!block.txs.is_empty()) {
        return Ok(Value::Null.into());
    }
    block.receipts.get(|| to_text(&convert::receipts(&block))).map(Reply::Ready)
}

fn to_text(value: &impl Serialize) -> Result<Arc<str>, RpcError> {
    let text = serde_json::to_string(value).map_err(|error| RpcError::new(-32603, error.to_string()))?;
    Ok(text.into())
}

pub(crate) fn transaction(call: &Call<'_>) -> Result<Value, RpcError> {
    let hash = call.params.get::<B256>(0)?;
    let chain = call.control.chain();
    let view = View::new(&chain, call);
    match view.mined(&hash) {
        Some((block, index, mined)) => to_value(&convert::transaction(block, index, mined)),
        None => to_value(&chain.pool.get(&hash).map(|tx| convert::waiting(tx))),
    }
}

pub(crate) fn receipt(call: &Call<'_>) -> Result<Value, RpcError> {
    let hash = call.params.get::<B256>(0)?;
    let chain = call.control.chain();
    let found = View::new(&chain, call).mined(&hash).map(|(block, index, _)| (block.clone(), index));
    drop(chain);
    let receipt = found
        .and_then(|(block, index)| block.txs.get(index).map(|mined| convert::receipt(&block, index, mined)));
    if call.withholds_receipts(receipt.is_some()) {
        return Ok(Value::Null);
    }
    to_value(&receipt)
}

impl Call<'_> {
    /// True if a fault hides receipts that are there.
    fn withholds_receipts(&self, there: bool) -> bool {
        let withheld = self.plan.null_receipts && there;
        if withheld {
            self.control.faults().count_null_receipts();
        }
        withheld
    }
}

pub(crate) fn pool_status(call: &Call<'_>) -> Result<Value, RpcError> {
    let size = call.control.pool_size();
    Ok(json!({"pending": quantity(size.pending), "queued": quantity(size.queued)}))
}

/// Everything in the pool, by sender and nonce.
pub(crate) fn pool_content(call: &Call<'_>) -> Result<Value, RpcError> {
    let chain = call.control.chain();
    let mut parts = json!({"pending": {}, "queued": {}});
    for waiting in chain.pool.all() {
        let (sender, nonce) = (waiting.tx.sender, waiting.tx.nonce());
        let part = if chain.pool.is_ready(sender, nonce) { "pending" } else { "queued" };
        parts[part][sender.to_string()][nonce.to_string()] = to_value(&convert::waiting(&waiting.tx))?;
    }
    Ok(parts)
}

/// The same of one sender, by nonce.
pub(crate) fn pool_content_from(call: &Call<'_>) -> Result<Value, RpcError> {
    let address = call.params.get::<Address>(0)?;
    let mut all = pool_content(call)?;
    let mut part = |name: &str| match all[name][address.to_string()].take() {
        Value::Null => json!({}),
        listed => listed,
    };
    Ok(json!({"pending": part("pending"), "queued": part("queued")}))
}
