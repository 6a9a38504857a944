//! Spans of time for people.

use std::time::Duration;

const UNITS: [(u64, &str); 4] = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];

/// `3 days`, `90 minutes`, `1 second`: in the largest unit of which it has a whole number.
pub(crate) fn span(time: Duration) -> String {
    told(time, |seconds, unit| seconds.is_multiple_of(unit))
}

/// How long something took, without digits that say nothing: `3 days`, also of some minutes more.
pub(crate) fn about(time: Duration) -> String {
    told(time, |seconds, unit| seconds.is_multiple_of(unit) || seconds / unit >= 2)
}

fn told(time: Duration, fits: impl Fn(u64, u64) -> bool) -> String {
    let seconds = time.as_secs();
    if seconds == 0 {
        return format!("{} ms", time.as_millis());
    }
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| fits(seconds, *unit)).unwrap_or((1, "second"));
    let count = seconds / unit;
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_told_in_the_largest_unit_that_divides_it() {
        for (seconds, told) in [
            (259_200, "3 days"),
            (86_400, "1 day"),
            (5_400, "90 minutes"),
            (3_600, "1 hour"),
            (61, "61 seconds"),
            (1, "1 second"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), told);
        }
        assert_eq!(span(Duration::from_millis(250)), "250 ms");
        assert_eq!(about(Duration::from_secs(259_237)), "3 days");
        assert_eq!(about(Duration::from_secs(61)), "61 seconds");
    }
}
