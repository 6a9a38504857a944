//! When to try again.

use std::time::Duration;

/// Every wait is so many times the one before.
const GROWTH: u32 = 3;

/// The wait after so many failures: it grows up to the longest, and differs by up to a fifth, so that events that failed
/// together do not come back together.
pub(super) fn wait(failures: u32, first: Duration, longest: Duration, random: u128) -> Duration {
    let grown = GROWTH.checked_pow(failures.saturating_sub(1)).and_then(|times| first.checked_mul(times));
    let wait = grown.unwrap_or(longest).min(longest);
    let percent = 80 + u32::try_from(random % 41).unwrap_or(0);
    wait / 100 * percent
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIRST: Duration = Duration::from_secs(5);
    const LONGEST: Duration = Duration::from_secs(3_600);

    #[test]
    fn without_the_jitter_it_is_seconds_then_minutes_then_an_hour() {
        let seconds: Vec<u64> = (1..10).map(|n| wait(n, FIRST, LONGEST, 20).as_secs()).collect();
        assert_eq!(seconds, [5, 15, 45, 135, 405, 1_215, 3_600, 3_600, 3_600]);
    }

    proptest! {
        #[test]
        fn it_is_never_far_from_what_it_should_be(failures in 0_u32..10_000, random: u128) {
            let exact = wait(failures, FIRST, LONGEST, 20);
            let with = wait(failures, FIRST, LONGEST, random);
            prop_assert!(with >= exact / 100 * 80 && with <= exact / 100 * 120);
            prop_assert!(with >= FIRST / 100 * 80 && with <= LONGEST / 100 * 120);
        }
    }
}
