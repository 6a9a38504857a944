//! What the chain asks now: the next block's base fee, and the tips that recent blocks took.

use std::sync::atomic::Ordering;

use landfall_core::Price;
use landfall_core::fees::FeeQuote;
use landfall_core::ports::chain::Error;
use landfall_core::view::Block;
use serde_json::json;

use super::endpoint::Endpoint;
use super::pool::Pool;
use super::rpc::{Ask, Failure};
use super::wire::{Quantity, RawFeeHistory, hex};

/// How many blocks are looked at.
const BLOCKS: u64 = 20;
/// Which tips of a block count as slow, normal and fast: those that this percentage of its gas paid less than.
const PERCENTILES: [u8; 3] = [10, 50, 90];
/// The least tip that is offered: some pools refuse none at all.
const LEAST_TIP: Price = Price(1);
/// The most that is offered where nothing is known of the market.
const BLIND_TIP: Price = Price(1_000_000_000);

pub(super) async fn quote(pool: &Pool, head: Block) -> Result<FeeQuote, Error> {
    pool.first("read fees", |endpoint| async move {
        match head.base_fee {
            Some(base) => dynamic(&endpoint, head, base).await,
            None => legacy(&endpoint).await,
        }
    })
    .await
}

/// One price for all: a node without base fees tells no more.
async fn legacy(endpoint: &Endpoint) -> Result<FeeQuote, Failure> {
    let price: Quantity = endpoint.ask_for(&Ask::new("eth_gasPrice", json!([]))).await?;
    let price = price.as_price().max(LEAST_TIP);
    Ok(FeeQuote { base_fee: None, slow: price, normal: price, fast: price })
}

async fn dynamic(endpoint: &Endpoint, head: Block, base: Price) -> Result<FeeQuote, Failure> {
    let history = history(endpoint, head).await?;
    let next = history
        .as_ref()
        .and_then(next_base_fee)
        // Without history: the most that it can rise by to the next block.
        .unwrap_or(Price(base.0.saturating_add(base.0 / 8)));
    let [slow, normal, fast] = match history.as_ref().and_then(tips) {
        Some(tips) => tips,
        None => [suggested(endpoint, next).await?; 3],
    };
    Ok(ordered(next, slow, normal, fast))
}

/// The fee history up to the head, or none where the endpoint has no such call.
async fn history(endpoint: &Endpoint, head: Block) -> Result<Option<RawFeeHistory>, Failure> {
    let quirk = &endpoint.quirks.no_fee_history;
    if quirk.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let params = json!([hex(BLOCKS), hex(head.at.number), PERCENTILES]);
    match endpoint.ask_for(&Ask::new("eth_feeHistory", params)).await {
        Ok(history) => Ok(Some(history)),
        Err(Failure::Refused(error)) if endpoint.table().is_unsupported(error.code, &error.message) => {
            tracing::info!(endpoint = %endpoint.name, "endpoint has no eth_feeHistory; taking its suggestions");
            quirk.store(true, Ordering::Relaxed);
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// The history has one base fee more than blocks: the next block's.
fn next_base_fee(history: &RawFeeHistory) -> Option<Price> {
    history.base_fee_per_gas.last().map(|fee| fee.as_price())
}

/// For each speed the median over the blocks that had transactions; none if no block had.
fn tips(history: &RawFeeHistory) -> Option<[Price; 3]> {
    let busy: Vec<&Vec<Quantity>> = history
        .reward
        .as_ref()?
        .iter()
        .zip(&history.gas_used_ratio)
        .filter(|(rewards, used)| **used > 0.0 && rewards.len() == PERCENTILES.len())
        .map(|(rewards, _)| rewards)
        .collect();
    let median = |speed: usize| -> Option<Price> {
        let mut tips: Vec<Price> =
            busy.iter().filter_map(|rewards| Some(rewards.get(speed)?.as_price())).collect();
        tips.sort_unstable();
        tips.get(tips.len() / 2).copied()
    };
    Some([median(0)?, median(1)?, median(2)?])
}

/// What the node suggests; where it does not, a tenth of the base fee, within reason.
async fn suggested(endpoint: &Endpoint, base: Price) -> Result<Price, Failure> {
    match endpoint.ask_for::<Quantity>(&Ask::new("eth_maxPriorityFeePerGas", json!([]))).await {
        Ok(tip) => Ok(tip.as_price()),
        Err(Failure::Refused(_)) => Ok(Price(base.0 / 10).min(BLIND_TIP)),
        Err(failure) => Err(failure),
    }
}

/// Each speed pays at least what the slower one pays.
fn ordered(base: Price, slow: Price, normal: Price, fast: Price) -> FeeQuote {
    let slow = slow.max(LEAST_TIP);
    let normal = normal.max(slow);
    FeeQuote { base_fee: Some(base), slow, normal, fast: fast.max(normal) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn history(json: serde_json::Value) -> RawFeeHistory {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn empty_blocks_do_not_lower_the_tips() {
        let history = history(json!({
            "baseFeePerGas": ["0x5", "0x6", "0x7", "0x8"],
            "gasUsedRatio": [0.5, 0.0, 0.25],
            "reward": [["0x1", "0x2", "0x3"], ["0x0", "0x0", "0x0"], ["0x3", "0x4", "0x9"]],
        }));
        assert_eq!(next_base_fee(&history), Some(Price(8)));
        assert_eq!(tips(&history), Some([Price(3), Price(4), Price(9)]));
    }

    #[test]
    fn without_busy_blocks_the_history_says_nothing() {
        for json in [
            json!({"baseFeePerGas": ["0x5", "0x6"], "gasUsedRatio": [0.0], "reward": [["0x0", "0x0", "0x0"]]}),
            json!({"baseFeePerGas": ["0x5", "0x6"], "gasUsedRatio": [0.5], "reward": null}),
            json!({"baseFeePerGas": ["0x5", "0x6"], "gasUsedRatio": [0.5], "reward": [[]]}),
            json!({}),
        ] {
            assert_eq!(tips(&history(json)), None);
        }
    }

    proptest! {
        #[test]
        fn a_faster_speed_never_pays_less(slow: u128, normal: u128, fast: u128) {
            let quote = ordered(Price(1), Price(slow), Price(normal), Price(fast));
            prop_assert!(LEAST_TIP <= quote.slow && quote.slow <= quote.normal && quote.normal <= quote.fast);
        }
    }
}
