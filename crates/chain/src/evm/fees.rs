//! What the chain asks now: the next block's base fee, and the tips that recent blocks took.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use landfall_core::Price;
use landfall_core::fees::FeeQuote;
use landfall_core::ports::chain::Error;
use landfall_core::view::{Block, BlockRef};
use serde_json::json;
use tokio::time::Instant;

use super::config::Pricing;
use super::data_fee;
use super::endpoint::Endpoint;
use super::health::Standing;
use super::pool::Pool;
use super::rpc::{Ask, Failure};
use super::wire::{Quantity, RawFeeHistory, hex};

/// How many blocks are looked at.
const BLOCKS: u64 = 20;
/// Which tips of a block count as slow, normal and fast: those that this percentage of its gas paid less than.
const PERCENTILES: [u8; 3] = [10, 50, 90];
/// The most that is offered where nothing is known of the market.
const BLIND_TIP: Price = Price(1_000_000_000);

/// So much above what two endpoints asked for lately, a price needs a second word again: a quarter.
const SOME: u128 = 4;
/// How long the word of two holds.
const AGREED_FOR: Duration = Duration::from_secs(60);
/// How long a second word is waited for.
const SECOND_WAIT: Duration = Duration::from_secs(1);

/// The price that two endpoints asked for last, and when. Kept, so that a second one is not asked at every block.
#[derive(Default)]
pub(super) struct Agreed(Mutex<Option<(FeeQuote, Instant)>>);

impl Agreed {
    /// It is not much above what two asked for lately.
    fn bears_out(&self, quote: &FeeQuote, now: Instant) -> bool {
        let agreed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let near = |price: Price, known: Price| price.0 <= known.0.saturating_add(known.0 / SOME);
        agreed.as_ref().is_some_and(|(known, at)| {
            now.saturating_duration_since(*at) < AGREED_FOR
                && near(quote.base_fee.unwrap_or_default(), known.base_fee.unwrap_or_default())
                && near(quote.slow, known.slow)
                && near(quote.normal, known.normal)
                && near(quote.fast, known.fast)
        })
    }

    fn note(&self, quote: FeeQuote, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((quote, now));
    }
}

pub(super) async fn quote(pool: &Pool, head: Block, pricing: &Pricing) -> Result<FeeQuote, Error> {
    let (by, first) = pool
        .first("read fees", |endpoint| async move {
            let asked = of_one(&endpoint, head, pricing).await?;
            let data_fee = data_fee::bound(&endpoint, pricing.data_fee).await?;
            Ok((endpoint, FeeQuote { data_fee, ..asked }))
        })
        .await?;
    Ok(at_least(lower(pool, &by, first, head, pricing).await, pricing))
}

async fn of_one(endpoint: &Endpoint, head: Block, pricing: &Pricing) -> Result<FeeQuote, Failure> {
    match head.base_fee.filter(|_| pricing.dynamic) {
        Some(base) => dynamic(endpoint, head, base, pricing).await,
        None => legacy(endpoint).await,
    }
}

/// The lower of two endpoints' prices, where two are up: what one alone asks for could be paid in full.
async fn lower(pool: &Pool, by: &Arc<Endpoint>, first: FeeQuote, head: Block, pricing: &Pricing) -> FeeQuote {
    if pool.all().len() < 2 || first.fast == Price(0) || pool.agreed_fees.bears_out(&first, Instant::now()) {
        return first;
    }
    let asking = async {
        for endpoint in pool.by_health() {
            if Arc::ptr_eq(&endpoint, by) || endpoint.standing() != Standing::Ready || pool.lags(&endpoint) {
                continue;
            }
            // A little behind will do: tips are those of many blocks.
            let number = endpoint.head().map_or(head.at.number, |own| own.min(head.at.number));
            let head = Block { at: BlockRef { number, ..head.at }, ..head };
            let second = match endpoint.vet().await {
                Ok(()) => of_one(&endpoint, head, pricing).await,
                Err(failure) => Err(failure),
            };
            if let Ok(second) = second {
                return Some(second);
            }
        }
        None
    };
    let Ok(Some(second)) = tokio::time::timeout(SECOND_WAIT, asking).await else { return first };
    let quote = FeeQuote {
        // Where one price is all that is offered (types 0 and 1), the base fee is paid in full as well.
        base_fee: first.base_fee.map(|base| second.base_fee.map_or(base, |other| base.min(other))),
        slow: first.slow.min(second.slow),
        normal: first.normal.min(second.normal),
        fast: first.fast.min(second.fast),
        ..first
    };
    pool.agreed_fees.note(quote, Instant::now());
    quote
}

/// One price for all: a node without base fees tells no more.
async fn legacy(endpoint: &Endpoint) -> Result<FeeQuote, Failure> {
    let price: Quantity = endpoint.ask_for(&Ask::new("eth_gasPrice", json!([]))).await?;
    let price = price.as_price();
    Ok(FeeQuote { base_fee: None, slow: price, normal: price, fast: price, data_fee: None })
}

async fn dynamic(
    endpoint: &Endpoint,
    head: Block,
    base: Price,
    pricing: &Pricing,
) -> Result<FeeQuote, Failure> {
    let history = history(endpoint, head).await?;
    let next = history
        .as_ref()
        .and_then(next_base_fee)
        // Without history: the most that it can rise by to the next block.
        .unwrap_or(Price(base.0.saturating_add(base.0 / 8)));
    let [slow, normal, fast] = match history.as_ref().and_then(tips) {
        _ if !pricing.tips => [Price(0); 3],
        Some(tips) => tips,
        None => [suggested(endpoint, next).await?; 3],
    };
    Ok(FeeQuote { base_fee: Some(next), slow, normal, fast, data_fee: None })
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

/// Nothing under what the chain's nodes ask for, and each speed at least what the slower one pays.
fn at_least(quote: FeeQuote, pricing: &Pricing) -> FeeQuote {
    let base = quote.base_fee.unwrap_or_default();
    let floor = pricing.min_tip.max(Price(pricing.min_price.0.saturating_sub(base.0)));
    let slow = quote.slow.max(floor);
    let normal = quote.normal.max(slow);
    FeeQuote { slow, normal, fast: quote.fast.max(normal), ..quote }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_core::fees::first_price;
    use landfall_core::request::{AskedFees, Speed};
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

    fn pricing() -> impl Strategy<Value = Pricing> {
        (1u128..1 << 70, 1u128..1 << 70).prop_map(|(tip, price)| Pricing {
            min_tip: Price(tip),
            min_price: Price(price),
            ..Pricing::default()
        })
    }

    proptest! {
        #[test]
        fn a_faster_speed_never_pays_less_and_none_pays_under_the_chains_floor(
            base in proptest::option::of(0u128..1 << 80), slow: u128, normal: u128, fast: u128, pricing in pricing(),
        ) {
            let asked = FeeQuote {
                base_fee: base.map(Price), slow: Price(slow), normal: Price(normal), fast: Price(fast), data_fee: None,
            };
            let quote = at_least(asked, &pricing);
            prop_assert!(quote.slow <= quote.normal && quote.normal <= quote.fast);
            prop_assert!(quote.slow >= pricing.min_tip && quote.slow >= asked.slow);
            prop_assert!(base.unwrap_or_default().saturating_add(quote.slow.0) >= pricing.min_price.0);
            prop_assert_eq!(quote.base_fee, asked.base_fee);
        }

        #[test]
        fn what_is_offered_at_a_quote_is_never_under_the_chains_floor(
            base in 0u128..1 << 80, tip in 0u128..1 << 70, pricing in pricing(),
        ) {
            let asked = FeeQuote {
                base_fee: Some(Price(base)), slow: Price(tip), normal: Price(tip), fast: Price(tip), data_fee: None,
            };
            let quote = at_least(asked, &pricing);
            let fees = first_price(&quote, Speed::Slow, AskedFees::Market, Price(u128::MAX));
            prop_assert!(fees.tip() >= pricing.min_tip && fees.cap() >= pricing.min_price);
        }
    }
}
