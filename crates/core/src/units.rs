//! Units as types: amounts, prices per gas, gas and time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use alloy_primitives::U256;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An amount of the chain's smallest unit. JSON: a decimal string; `0x` hex is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Wei(pub U256);

/// A price in wei per unit of gas. JSON: a decimal string; `0x` hex is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Price(pub u128);

/// Why a text is not an amount.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{text:?} is not an amount: write a whole number in decimal, or in hex after 0x, of at most {bits} bits"
)]
pub struct BadAmount {
    text: String,
    bits: u32,
}

fn parse_u256(text: &str) -> Option<U256> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (text, 10),
    };
    // from_str_radix would take underscores; amounts are digits only.
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    U256::from_str_radix(digits, u64::from(radix)).ok()
}

impl FromStr for Wei {
    type Err = BadAmount;
    fn from_str(text: &str) -> Result<Self, BadAmount> {
        parse_u256(text).map(Self).ok_or_else(|| BadAmount { text: text.to_owned(), bits: 256 })
    }
}

impl FromStr for Price {
    type Err = BadAmount;
    fn from_str(text: &str) -> Result<Self, BadAmount> {
        parse_u256(text)
            .and_then(|n| u128::try_from(n).ok())
            .map(Self)
            .ok_or_else(|| BadAmount { text: text.to_owned(), bits: 128 })
    }
}

impl fmt::Display for Wei {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Wei {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&self.0)
    }
}

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Wei {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Price {
    const GWEI: u128 = 1_000_000_000;

    /// Whole gwei.
    #[must_use]
    pub const fn gwei(gwei: u64) -> Self {
        Self(gwei as u128 * Self::GWEI)
    }

    /// This price and `percent` of it more, rounded up, and at least one wei more.
    #[must_use]
    pub fn raised_by(self, percent: u32) -> Self {
        let whole = self.0 / 100;
        let rest = self.0 % 100;
        let step = whole
            .saturating_mul(u128::from(percent))
            .saturating_add((rest * u128::from(percent)).div_ceil(100));
        Self(self.0.saturating_add(step.max(1)))
    }

    /// What `gas` costs at this price.
    #[must_use]
    pub fn cost(self, gas: Gas) -> Wei {
        Wei(U256::from(self.0).saturating_mul(U256::from(gas.0)))
    }

    /// For sentences: "12.5 gwei".
    #[must_use]
    pub fn in_gwei(self) -> String {
        let thousandths = self.0 / (Self::GWEI / 1_000);
        if self.0 > 0 && thousandths == 0 {
            return format!("{} wei", self.0);
        }
        let text = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
        format!("{} gwei", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Units of gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Gas(pub u64);

impl fmt::Display for Gas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A point in time: milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// The time that lies between `earlier` and this one; none if `earlier` is later (a clock that stepped back).
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// This time and `span` more.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_are_whole_numbers_in_decimal_or_hex() {
        assert_eq!("0x10".parse(), Ok(Wei(U256::from(16))));
        assert_eq!("10".parse(), Ok(Wei(U256::from(10))));
        for bad in ["", "0x", "-1", "1.5", "1_000", " 1", "1e18", "0xzz", &"9".repeat(79)] {
            assert!(bad.parse::<Wei>().is_err(), "{bad:?}");
        }
        assert!("0x1ffffffffffffffffffffffffffffffff".parse::<Price>().is_err());
    }

    #[test]
    fn prices_read_well() {
        assert_eq!(Price::gwei(3).in_gwei(), "3 gwei");
        assert_eq!(Price(1_500_000_000).in_gwei(), "1.5 gwei");
        assert_eq!(Price(7).in_gwei(), "7 wei");
        assert_eq!(Price(0).in_gwei(), "0 gwei");
    }

    proptest! {
        #[test]
        fn a_raise_is_never_less_than_asked(price in 0u128..u128::MAX / 2_000, percent in 1u32..1_000) {
            let raised = Price(price).raised_by(percent).0;
            prop_assert!(raised > price);
            // exact: raised * 100 >= price * (100 + percent), and not by more than rounding plus one wei
            prop_assert!(raised * 100 >= price * (100 + u128::from(percent)));
            prop_assert!(raised * 100 < price * (100 + u128::from(percent)) + 200);
        }

        #[test]
        fn amounts_survive_json(n in any::<u128>()) {
            let json = serde_json::to_string(&Price(n)).unwrap();
            prop_assert_eq!(serde_json::from_str::<Price>(&json).unwrap(), Price(n));
        }
    }
}
