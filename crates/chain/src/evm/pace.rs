//! How fast an endpoint may be asked: so many requests a second, with a second's worth at once. No I/O.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// As much as may go out at once after a pause.
const BURST: Duration = Duration::from_secs(1);

/// Keeps requests to one endpoint apart.
#[derive(Debug)]
pub(crate) struct Pace {
    /// How long one request takes of the endpoint's time; none where there is no limit.
    each: Option<Duration>,
    /// When all that went out so far has been paid for.
    paid_until: Mutex<Option<Instant>>,
}

impl Pace {
    /// 0 is no limit.
    pub(crate) fn new(requests_per_s: u32) -> Self {
        let each = (requests_per_s > 0).then(|| Duration::from_secs(1) / requests_per_s);
        Self { each, paid_until: Mutex::new(None) }
    }

    /// The most requests that fit into one packet without waiting for more than a burst.
    pub(crate) fn most_at_once(&self) -> usize {
        let fitting = |each: Duration| BURST.as_nanos() / each.as_nanos().max(1);
        self.each.map_or(usize::MAX, |each| usize::try_from(fitting(each)).unwrap_or(usize::MAX).max(1))
    }

    /// Takes a turn for this many requests: how long to wait before they go out. None: longer than `limit`, and no turn
    /// was taken.
    pub(crate) fn turn(&self, requests: usize, now: Instant, limit: Duration) -> Option<Duration> {
        let Some(each) = self.each else { return Some(Duration::ZERO) };
        let cost = each.saturating_mul(u32::try_from(requests).unwrap_or(u32::MAX));
        let mut paid = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
        let from = paid.map_or(now, |until| until.max(now));
        let until = from.checked_add(cost)?;
        let wait = until.saturating_duration_since(now).saturating_sub(BURST);
        (wait <= limit).then(|| {
            *paid = Some(until);
            wait
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_a_limit_nothing_waits() {
        let pace = Pace::new(0);
        let now = Instant::now();
        assert!((0..10_000).all(|_| pace.turn(100, now, Duration::ZERO) == Some(Duration::ZERO)));
        assert_eq!(pace.most_at_once(), usize::MAX);
    }

    #[test]
    fn a_turn_that_would_come_too_late_is_not_taken() {
        let pace = Pace::new(10);
        let now = Instant::now();
        assert_eq!(pace.turn(10, now, Duration::ZERO), Some(Duration::ZERO), "a second's worth at once");
        assert_eq!(pace.turn(1, now, Duration::from_millis(99)), None);
        assert_eq!(pace.turn(1, now, Duration::from_millis(100)), Some(Duration::from_millis(100)));
        assert_eq!(pace.turn(10, now + Duration::from_secs(60), Duration::ZERO), Some(Duration::ZERO));
    }

    proptest! {
        #[test]
        fn in_any_second_no_more_goes_out_than_a_burst_and_the_rate(
            rate in 1u32..50, asks in prop::collection::vec((0u64..400, 1usize..5), 1..100),
        ) {
            let pace = Pace::new(rate);
            let mut now = Instant::now();
            let mut out: Vec<(Instant, usize)> = Vec::new();
            for (pause, requests) in asks {
                now += Duration::from_millis(pause);
                if let Some(wait) = pace.turn(requests, now, Duration::from_secs(10)) {
                    out.push((now + wait, requests));
                }
            }
            for (begin, _) in &out {
                let end = *begin + Duration::from_secs(1);
                let sum: usize = out.iter().filter(|(at, _)| at >= begin && *at < end).map(|(_, n)| n).sum();
                // A packet larger than a burst goes out whole.
                let most = usize::try_from(rate).unwrap() * 2 + 5;
                prop_assert!(sum <= most, "{sum} > {most}");
            }
        }
    }
}
