//! What a transaction should pay: fee history and suggestions.

use alloy_eips::BlockNumberOrTag;
use alloy_rpc_types_eth::FeeHistory;
use serde::Deserialize;
use serde_json::Value;

use super::{Call, RpcError, convert::quantity, read::to_value, view::View};
use crate::block::Block;

/// geth's bound on one answer.
const MAX_BLOCKS: u64 = 1024;
/// How far suggestions look back, how many of the cheapest tips per block they count, and what they say on an empty chain.
const SUGGEST_BLOCKS: u64 = 20;
const SUGGEST_PER_BLOCK: usize = 3;
const DEFAULT_TIP: u128 = 1_000_000_000;

/// A block count comes as hexadecimal or as a plain number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Count {
    Hex(alloy_primitives::U64),
    Plain(u64),
}

pub(crate) fn history(call: &Call<'_>) -> Result<Value, RpcError> {
    let count = match call.params.get(0)? {
        Count::Hex(count) => count.to(),
        Count::Plain(count) => count,
    };
    let newest = call.params.get::<BlockNumberOrTag>(1)?;
    let percentiles = call.params.optional::<Vec<f64>>(2)?.unwrap_or_default();
    check_percentiles(&percentiles)?;
    let chain = call.control.chain();
    let view = View::new(&chain, call);
    let newest = view.require(newest.into())?.header.number;
    let count = count.min(MAX_BLOCKS).min(newest + 1);
    if count == 0 {
        return to_value(&FeeHistory::default());
    }
    let oldest = newest + 1 - count;
    let blocks: Vec<_> = (oldest..=newest).filter_map(|n| view.block(n)).collect();
    // It follows from the newest block alone, so a node that lags knows it too.
    let following =
        chain.blocks.get(newest as usize + 1).map_or_else(|| chain.next_base_fee(), |b| b.base_fee());
    let base_fees = blocks.iter().map(|b| b.base_fee()).chain([following]).map(u128::from);
    let ratio = |b: &Block| b.header.gas_used as f64 / b.header.gas_limit as f64;
    let rewards = || blocks.iter().map(|b| rewards(b, &percentiles)).collect();
    to_value(&FeeHistory {
        base_fee_per_gas: base_fees.collect(),
        gas_used_ratio: blocks.iter().map(|b| ratio(b)).collect(),
        base_fee_per_blob_gas: vec![1; blocks.len() + 1],
        blob_gas_used_ratio: vec![0.0; blocks.len()],
        oldest_block: oldest,
        reward: (!percentiles.is_empty()).then(rewards),
    })
}

fn check_percentiles(percentiles: &[f64]) -> Result<(), RpcError> {
    let outside = percentiles.iter().find(|p| !(0.0..=100.0).contains(*p));
    if let Some(outside) = outside {
        return Err(RpcError::server(format!("invalid reward percentile: {outside}")));
    }
    if percentiles.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(RpcError::server("invalid reward percentile: not in rising order"));
    }
    Ok(())
}

/// The tips that the given shares of a block's gas were bought for.
fn rewards(block: &Block, percentiles: &[f64]) -> Vec<u128> {
    let mut sold = 0;
    let mut at = block.tips().iter();
    let mut tip = 0;
    let reward = |percentile: &f64| {
        let threshold = (block.header.gas_used as f64 * percentile / 100.0) as u64;
        while sold < threshold || sold == 0 {
            let Some((next, gas)) = at.next() else { break };
            tip = *next;
            sold += gas;
        }
        tip
    };
    percentiles.iter().map(reward).collect()
}

pub(crate) fn tip(call: &Call<'_>) -> Result<Value, RpcError> {
    let chain = call.control.chain();
    Ok(quantity(suggested_tip(&View::new(&chain, call))))
}

pub(crate) fn gas_price(call: &Call<'_>) -> Result<Value, RpcError> {
    let chain = call.control.chain();
    let view = View::new(&chain, call);
    Ok(quantity(suggested_tip(&view) + u128::from(view.head_block().base_fee())))
}

/// As geth's oracle: the 60th percentile of the cheapest few tips of recent blocks.
fn suggested_tip(view: &View<'_>) -> u128 {
    let from = view.head.saturating_sub(SUGGEST_BLOCKS - 1);
    let mut tips = Vec::new();
    for block in (from..=view.head).filter_map(|n| view.block(n)) {
        tips.extend(block.tips().iter().take(SUGGEST_PER_BLOCK).map(|(tip, _)| *tip));
    }
    tips.sort_unstable();
    let at = tips.len().saturating_sub(1) * 60 / 100;
    tips.get(at).copied().unwrap_or(DEFAULT_TIP).max(view.chain.config.min_tip)
}
