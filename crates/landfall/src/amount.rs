//! Amounts of the chain's coin, as people write and read them.

use alloy_primitives::U256;

const UNITS: [(&str, usize); 2] = [("ether", 18), ("gwei", 9)];

/// `5`, `0x5`, `20gwei`, `1.5ether`.
pub(crate) fn wei(text: &str) -> Result<U256, String> {
    let wrong = || format!("{text:?} is not an amount: write 1.5ether, 20gwei, or wei as a whole number");
    let text = text.trim();
    let parse = |digits: &str| digits.parse::<landfall_core::Wei>().map(|wei| wei.0).map_err(|_| wrong());
    let unit = UNITS.iter().find_map(|(unit, decimals)| Some((text.strip_suffix(unit)?.trim(), *decimals)));
    let Some((number, decimals)) = unit else { return parse(text) };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let is_decimal = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if part.len() > decimals || whole.is_empty() || !is_decimal(whole) || !is_decimal(part) {
        return Err(wrong());
    }
    parse(&format!("{whole}{part:0<decimals$}"))
}

/// `1.5 ether`, `20 gwei`, `7 wei`: the largest unit in which it is short. All digits are kept.
pub(crate) fn shown(wei: U256) -> String {
    let digits = wei.to_string();
    // From a thousandth of an ether on, and from a thousandth of a gwei on.
    let unit = UNITS.iter().find(|(_, decimals)| digits.len() + 3 > *decimals && !wei.is_zero());
    let Some((unit, decimals)) = unit else { return format!("{digits} wei") };
    let padded = format!("{digits:0>width$}", width = decimals + 1);
    let (whole, part) = padded.split_at(padded.len() - decimals);
    let part = part.trim_end_matches('0');
    if part.is_empty() { format!("{whole} {unit}") } else { format!("{whole}.{part} {unit}") }
}

/// As [`shown`], of an amount in decimal digits; what is none is shown as it is.
pub(crate) fn shown_text(wei: &str) -> String {
    wei.parse::<U256>().map_or_else(|_| wei.to_owned(), shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_may_be_written_in_ether_gwei_or_wei() {
        assert_eq!(wei("1ether").unwrap(), U256::from(10).pow(U256::from(18)));
        assert_eq!(wei("1.5gwei").unwrap(), U256::from(1_500_000_000));
        assert_eq!(wei("0x10").unwrap(), U256::from(16));
        assert_eq!(wei("7").unwrap(), U256::from(7));
        for bad in
            ["ether", ".5ether", "1.0000000001gwei", "-1", "1,5ether", "1e3", "much", "0x1ether", "+1gwei"]
        {
            assert!(wei(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn amounts_are_read_in_the_unit_in_which_they_are_short_and_lose_nothing() {
        for (text, short) in [
            ("0", "0 wei"),
            ("7", "7 wei"),
            ("1500000", "0.0015 gwei"),
            ("1500000000", "1.5 gwei"),
            ("999999999999999", "999999.999999999 gwei"),
            ("1000000000000000", "0.001 ether"),
            ("1000000000000000000", "1 ether"),
            ("1000000000000000001", "1.000000000000000001 ether"),
            ("10000000000000000000000", "10000 ether"),
        ] {
            assert_eq!(shown_text(text), short);
            let again = short.trim_end_matches(" wei").replace(' ', "");
            assert_eq!(wei(&again).unwrap().to_string(), text);
        }
    }
}
