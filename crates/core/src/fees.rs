//! Fee arithmetic: the first price of an attempt, and the price of the one that replaces it.
//!
//! Pure functions with three properties that tests hold them to: the tip never exceeds the cap, a replacement beats
//! every live attempt by the pool's rule, and nothing exceeds the ceiling.

use alloy_primitives::U256;
use serde::{Deserialize, Serialize};

use crate::request::{AskedFees, Speed};
use crate::{Price, Wei};

/// What one attempt offers per gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Fees {
    #[serde(rename_all = "camelCase")]
    Legacy { gas_price: Price },
    #[serde(rename_all = "camelCase")]
    Dynamic { max_fee: Price, tip: Price },
}

impl Fees {
    /// The most that is paid per gas.
    #[must_use]
    pub fn cap(&self) -> Price {
        match self {
            Self::Legacy { gas_price } => *gas_price,
            Self::Dynamic { max_fee, .. } => *max_fee,
        }
    }

    /// The most that goes to the block's maker.
    #[must_use]
    pub fn tip(&self) -> Price {
        match self {
            Self::Legacy { gas_price } => *gas_price,
            Self::Dynamic { tip, .. } => *tip,
        }
    }
}

/// What the chain asks at one head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeeQuote {
    /// The next block's base fee. Absent: the chain knows legacy prices only.
    pub base_fee: Option<Price>,
    pub slow: Price,
    pub normal: Price,
    pub fast: Price,
    /// What a rollup charges on top of gas for a transaction's bytes. Absent: nothing.
    pub data_fee: Option<DataFee>,
}

/// A bound of the fee for a transaction's bytes on the parent chain: no more than this, whatever the bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DataFee {
    pub fixed: Wei,
    pub per_byte: Wei,
}

impl DataFee {
    /// The most that this many bytes cost.
    #[must_use]
    pub fn of(&self, bytes: usize) -> U256 {
        self.fixed.0.saturating_add(self.per_byte.0.saturating_mul(U256::from(bytes)))
    }
}

impl FeeQuote {
    /// The most that the bytes of a transaction cost on top of its gas.
    #[must_use]
    pub fn data_cost(&self, bytes: usize) -> U256 {
        self.data_fee.map_or(U256::ZERO, |fee| fee.of(bytes))
    }

    fn tip(&self, speed: Speed) -> Price {
        match speed {
            Speed::Slow => self.slow,
            Speed::Normal => self.normal,
            Speed::Fast => self.fast,
        }
    }
}

/// What contents may offer under the chain's ceiling: a replacement step less, so that a cancel always fits. `rule` is
/// the pool's: how much dearer a replacement must be, in percent.
#[must_use]
pub fn content_ceiling(ceiling: Price, rule: u32) -> Price {
    let whole = u128::from(rule) + 100;
    Price(ceiling.0 / whole * 100 + ceiling.0 % whole * 100 / whole)
}

/// What a first attempt offers.
#[must_use]
pub fn first_price(quote: &FeeQuote, speed: Speed, asked: AskedFees, ceiling: Price) -> Fees {
    let market_tip = quote.tip(speed);
    match (asked, quote.base_fee) {
        (AskedFees::Legacy { gas_price }, base) => {
            let market = Price(base.map_or(0, |b| b.0).saturating_add(market_tip.0));
            Fees::Legacy { gas_price: gas_price.unwrap_or(market).min(ceiling) }
        }
        (AskedFees::Market, None) => Fees::Legacy { gas_price: market_tip.min(ceiling) },
        (AskedFees::Market, Some(base)) => dynamic(base, market_tip, ceiling),
        (AskedFees::Dynamic { max_fee, tip }, base) => {
            let base = base.unwrap_or_default();
            let tip = tip.unwrap_or(market_tip);
            let cap = max_fee.unwrap_or(Price(base.0.saturating_mul(2).saturating_add(tip.0))).min(ceiling);
            Fees::Dynamic { max_fee: cap, tip: tip.min(cap) }
        }
    }
}

/// Twice the base fee and the tip: stays includable through six full blocks.
fn dynamic(base: Price, tip: Price, top: Price) -> Fees {
    let cap = Price(base.0.saturating_mul(2).saturating_add(tip.0)).min(top);
    Fees::Dynamic { max_fee: cap, tip: tip.min(cap) }
}

/// These fees, raised to what a caller asks for as far as the ceiling lets them. They keep their type.
#[must_use]
pub fn raised_to(fees: Fees, asked: AskedFees, ceiling: Price) -> Fees {
    let (cap, tip) = match asked {
        AskedFees::Market => return fees,
        AskedFees::Legacy { gas_price } => (gas_price.unwrap_or_default(), Price::default()),
        AskedFees::Dynamic { max_fee, tip } => {
            let tip = tip.unwrap_or_default();
            (max_fee.unwrap_or_default().max(tip), tip)
        }
    };
    match fees {
        Fees::Legacy { gas_price } => Fees::Legacy { gas_price: gas_price.max(cap.min(ceiling)) },
        Fees::Dynamic { max_fee, tip: old } => {
            let max_fee = max_fee.max(cap.min(ceiling));
            Fees::Dynamic { max_fee, tip: old.max(tip.min(max_fee)) }
        }
    }
}

/// How a price rises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    /// What the ladder adds at each step, in percent.
    pub step: u32,
    /// The pool's rule: tip and cap both at least this much higher, in percent.
    pub rule: u32,
    pub ceiling: Price,
}

/// Why a price could not be raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtCeiling {
    /// What a replacement would have to offer.
    pub needed: Price,
    pub ceiling: Price,
}

/// What a replacement offers: over every live attempt by the pool's rule and by the ladder's step, and at least the
/// market plus that step; never above the ceiling.
///
/// The replacement has the type of the newest live attempt, so that a pool that keeps types apart takes it.
pub fn replacement_price(
    live: &[Fees],
    quote: &FeeQuote,
    speed: Speed,
    ladder: Ladder,
) -> Result<Fees, AtCeiling> {
    let Ladder { step, rule, ceiling } = ladder;
    let Some(newest) = live.last() else {
        return Ok(first_price(quote, speed, AskedFees::Market, ceiling));
    };
    let highest_cap = live.iter().map(Fees::cap).max().unwrap_or_default();
    let highest_tip = live.iter().map(Fees::tip).max().unwrap_or_default();
    let must_cap = highest_cap.raised_by(rule);
    let must_tip = highest_tip.raised_by(rule);
    let percent = step.max(rule);
    if must_cap > ceiling {
        return Err(AtCeiling { needed: must_cap, ceiling });
    }
    let base = quote.base_fee.unwrap_or_default();
    let market_tip = quote.tip(speed);
    let market_cap = Price(base.0.saturating_mul(2).saturating_add(market_tip.0));
    // Wanted is what the ladder asks for; where that does not fit, what the pool asks for still may.
    let want_cap = highest_cap.raised_by(percent).max(market_cap).min(ceiling).max(must_cap);
    match newest {
        Fees::Legacy { .. } => {
            let market = Price(base.0.saturating_add(market_tip.0)).raised_by(percent);
            let price = highest_cap.raised_by(percent).max(market).min(ceiling).max(must_cap);
            Ok(Fees::Legacy { gas_price: price })
        }
        Fees::Dynamic { .. } => {
            let want_tip = highest_tip.raised_by(percent).max(market_tip.raised_by(percent)).min(want_cap);
            Ok(Fees::Dynamic {
                max_fee: want_cap.max(must_tip.min(ceiling)),
                tip: want_tip.max(must_tip.min(ceiling)),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quote(base: u128, tip: u128) -> FeeQuote {
        FeeQuote {
            base_fee: Some(Price(base)),
            slow: Price(tip / 2),
            normal: Price(tip),
            fast: Price(tip * 2),
            data_fee: None,
        }
    }

    fn ladder(ceiling: Price) -> Ladder {
        Ladder { step: 20, rule: 10, ceiling }
    }

    #[test]
    fn a_market_price_is_twice_the_base_fee_and_the_tip() {
        let fees = first_price(&quote(10, 3), Speed::Normal, AskedFees::Market, Price(1_000));
        assert_eq!(fees, Fees::Dynamic { max_fee: Price(23), tip: Price(3) });
    }

    #[test]
    fn a_chain_without_base_fee_gets_legacy_prices() {
        let quote =
            FeeQuote { base_fee: None, slow: Price(1), normal: Price(2), fast: Price(3), data_fee: None };
        assert_eq!(
            first_price(&quote, Speed::Fast, AskedFees::Market, Price(1_000)),
            Fees::Legacy { gas_price: Price(3) }
        );
    }

    #[test]
    fn a_falling_market_still_raises() {
        let live = [Fees::Dynamic { max_fee: Price(1_000), tip: Price(100) }];
        let next = replacement_price(&live, &quote(1, 1), Speed::Normal, ladder(Price(10_000))).unwrap();
        assert_eq!(next, Fees::Dynamic { max_fee: Price(1_200), tip: Price(120) });
    }

    #[test]
    fn at_the_ceiling_a_cancel_still_fits() {
        let ceiling = Price(1_100);
        let live = [Fees::Dynamic { max_fee: Price(1_000), tip: Price(10) }];
        let quote = quote(1, 1);
        let top = content_ceiling(ceiling, 10);
        assert!(replacement_price(&live, &quote, Speed::Normal, ladder(top)).is_err());
        let cancel = replacement_price(&live, &quote, Speed::Normal, ladder(ceiling)).unwrap();
        assert_eq!(cancel.cap(), Price(1_100));
    }

    fn any_fees() -> impl Strategy<Value = Fees> {
        prop_oneof![
            (0u128..1u128 << 80).prop_map(|p| Fees::Legacy { gas_price: Price(p) }),
            (0u128..1u128 << 80, 0u128..1u128 << 80)
                .prop_map(|(a, b)| Fees::Dynamic { max_fee: Price(a.max(b)), tip: Price(a.min(b)) }),
        ]
    }

    fn any_quote() -> impl Strategy<Value = FeeQuote> {
        (proptest::option::of(0u128..1u128 << 80), 0u128..1u128 << 70).prop_map(|(base, tip)| FeeQuote {
            base_fee: base.map(Price),
            slow: Price(tip / 2),
            normal: Price(tip),
            fast: Price(tip * 2),
            data_fee: None,
        })
    }

    fn any_speed() -> impl Strategy<Value = Speed> {
        prop_oneof![Just(Speed::Slow), Just(Speed::Normal), Just(Speed::Fast)]
    }

    #[test]
    fn the_bytes_of_a_transaction_cost_what_the_rollup_says() {
        let fee = DataFee { fixed: Wei(U256::from(100)), per_byte: Wei(U256::from(3)) };
        let quote = FeeQuote { data_fee: Some(fee), ..quote(1, 1) };
        assert_eq!((quote.data_cost(0), quote.data_cost(10)), (U256::from(100), U256::from(130)));
    }

    proptest! {
        #[test]
        fn the_tip_never_exceeds_the_cap_nor_the_cap_the_ceiling(
            quote in any_quote(), speed in any_speed(), ceiling in 1u128..1u128 << 90,
            max_fee in proptest::option::of(0u128..1u128 << 90), tip in proptest::option::of(0u128..1u128 << 90),
        ) {
            for asked in [
                AskedFees::Market,
                AskedFees::Legacy { gas_price: max_fee.map(Price) },
                AskedFees::Dynamic { max_fee: max_fee.map(Price), tip: tip.map(Price) },
            ] {
                let fees = first_price(&quote, speed, asked, Price(ceiling));
                prop_assert!(fees.tip() <= fees.cap());
                prop_assert!(fees.cap() <= Price(ceiling));
            }
        }

        #[test]
        fn a_replacement_beats_every_live_attempt_by_the_pools_rule(
            live in proptest::collection::vec(any_fees(), 1..5), quote in any_quote(), speed in any_speed(),
            step in 1u32..200, rule in 1u32..120, ceiling in 1u128..1u128 << 90,
        ) {
            let ladder = Ladder { step, rule, ceiling: Price(ceiling) };
            let over = u128::from(rule) + 100;
            if let Ok(next) = replacement_price(&live, &quote, speed, ladder) {
                prop_assert!(next.cap() <= Price(ceiling));
                prop_assert!(next.tip() <= next.cap());
                for old in &live {
                    prop_assert!(next.cap().0 * 100 >= old.cap().0 * over);
                    prop_assert!(next.tip().0 * 100 >= old.tip().0 * over);
                    prop_assert!(next.cap() > old.cap() && next.tip() > old.tip());
                }
            } else {
                let highest = live.iter().map(Fees::cap).max().unwrap();
                prop_assert!(highest.raised_by(rule).0 > ceiling);
            }
        }

        #[test]
        fn raising_lowers_nothing_and_stays_under_the_ceiling(
            fees in any_fees(), cap in 0u128..1u128 << 90, tip in 0u128..1u128 << 90, room in 0u128..1u128 << 80,
        ) {
            let ceiling = Price(fees.cap().0 + room);
            for asked in [
                AskedFees::Market,
                AskedFees::Legacy { gas_price: Some(Price(cap)) },
                AskedFees::Dynamic { max_fee: Some(Price(cap)), tip: Some(Price(tip)) },
                AskedFees::Dynamic { max_fee: None, tip: Some(Price(tip)) },
            ] {
                let raised = raised_to(fees, asked, ceiling);
                prop_assert!(raised.cap() >= fees.cap() && raised.tip() >= fees.tip());
                prop_assert!(raised.cap() <= ceiling && raised.tip() <= raised.cap());
            }
        }

        #[test]
        fn above_any_content_there_is_room_for_a_cancel(ceiling in 1u128..1u128 << 90, rule in 1u32..120) {
            let top = content_ceiling(Price(ceiling), rule);
            // A price of nothing can still be raised by one.
            prop_assert!(top.0 == 0 || top.raised_by(rule).0 <= ceiling);
            prop_assert!(Price(top.0 + 1).raised_by(rule).0 > ceiling);
        }
    }
}
