//! How often a key may ask: a bucket that fills by its rate and holds what may come at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Two seconds' worth may come at once.
const BURST_SECONDS: f64 = 2.0;

#[derive(Debug, Clone, Copy)]
struct Bucket {
    holds: f64,
    at: Instant,
}

/// The buckets of all keys that asked lately. There are no more keys than may be made.
#[derive(Default)]
pub(super) struct Rates(Mutex<HashMap<Arc<str>, Bucket>>);

impl Rates {
    /// Takes so many out of the key's bucket, or says how long to wait. More than fits is taken when the bucket is full, but for
    /// the one that the request itself took before, and is owed.
    pub(super) fn take(&self, key: &Arc<str>, per_s: f64, cost: f64, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let most = (per_s * BURST_SECONDS).max(1.0);
        let bucket = buckets.entry(key.clone()).or_insert(Bucket { holds: most, at: now });
        let since = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.holds = most.min(bucket.holds + since * per_s);
        bucket.at = now;
        let wanted = cost.min((most - 1.0).max(1.0));
        // Fractions of numbers that were added up may be off by very little.
        if bucket.holds + 1e-9 < wanted {
            return Err(Duration::from_secs_f64((wanted - bucket.holds) / per_s));
        }
        bucket.holds -= cost;
        Ok(())
    }

    /// Takes what something has cost that was done: it is owed, if the bucket does not hold so much.
    pub(super) fn owe(&self, key: &Arc<str>, per_s: f64, cost: f64, now: Instant) {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let most = (per_s * BURST_SECONDS).max(1.0);
        buckets.entry(key.clone()).or_insert(Bucket { holds: most, at: now }).holds -= cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_any_time_no_more_is_taken_than_the_rate_and_one_burst() {
        let (rates, key) = (Rates::default(), Arc::from("a"));
        let start = Instant::now();
        let mut taken = 0_u32;
        for step in 0..10_000_u32 {
            let now = start + Duration::from_millis(u64::from(step));
            taken += u32::from(rates.take(&key, 10.0, 1.0, now).is_ok());
        }
        // Ten seconds at ten, and two seconds' worth at once.
        assert!((119..=120).contains(&taken), "{taken}");
        let other = Arc::from("b");
        assert!(rates.take(&other, 10.0, 1.0, start).is_ok(), "keys do not share a bucket");
    }

    #[test]
    fn the_wait_that_is_told_is_enough_and_no_longer() {
        let (rates, key) = (Rates::default(), Arc::from("a"));
        let start = Instant::now();
        assert!(rates.take(&key, 4.0, 8.0, start).is_ok());
        let wait = rates.take(&key, 4.0, 1.0, start).unwrap_err();
        assert_eq!(wait, Duration::from_millis(250));
        assert!(rates.take(&key, 4.0, 1.0, start + Duration::from_millis(249)).is_err());
        assert!(rates.take(&key, 4.0, 1.0, start + wait).is_ok());
    }

    #[test]
    fn what_is_larger_than_the_bucket_is_owed() {
        let (rates, key) = (Rates::default(), Arc::from("a"));
        let start = Instant::now();
        assert!(rates.take(&key, 10.0, 100.0, start).is_ok());
        let wait = rates.take(&key, 10.0, 1.0, start).unwrap_err();
        assert!((wait.as_secs_f64() - 8.1).abs() < 1e-6, "{wait:?}");
    }

    #[test]
    fn what_was_done_is_owed_whatever_the_bucket_holds() {
        let (rates, key) = (Rates::default(), Arc::from("a"));
        let start = Instant::now();
        rates.owe(&key, 10.0, 4.0, start);
        assert!(rates.take(&key, 10.0, 16.0, start).is_ok());
        rates.owe(&key, 10.0, 4.0, start);
        let wait = rates.take(&key, 10.0, 1.0, start).unwrap_err();
        assert!((wait.as_secs_f64() - 0.5).abs() < 1e-6, "{wait:?}");
    }

    #[test]
    fn a_batch_of_more_than_the_bucket_holds_is_taken_although_its_request_was_counted_before() {
        for (per_s, items) in [(50.0, 101.0), (50.0, 1_000.0), (1.0, 3.0), (1.0, 5.0)] {
            let (rates, key) = (Rates::default(), Arc::from("a"));
            let start = Instant::now();
            assert!(rates.take(&key, per_s, 1.0, start).is_ok());
            assert!(rates.take(&key, per_s, items - 1.0, start).is_ok(), "{items} at {per_s} a second");
            // What it is over is owed, and the next batch waits for the whole of it.
            let wait = rates.take(&key, per_s, 1.0, start).unwrap_err();
            assert!(wait.as_secs_f64() >= (items - 2.0 * per_s) / per_s, "{wait:?}");
        }
    }
}
