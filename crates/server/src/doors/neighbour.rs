//! Neighbours: all connections of one address.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::bytes::Budget;

/// Requests without a key that one address may make per second, and at once. Health checks need a few.
const PER_SECOND: f64 = 200.0;
const AT_ONCE: f64 = 1_000.0;
/// Bytes without a key that cost as much as a request.
const BYTES_PER_REQUEST: f64 = 2_048.0;

/// Address that counts as one: an IPv4 address, or the 64 bits of an IPv6 one that a site is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Net(IpAddr);

impl Net {
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.into()),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
        }
    }
}

/// State of one address. Its counts of connections change under the crowd's lock only.
pub(crate) struct Neighbour {
    pub(super) connections: AtomicUsize,
    pub(super) keyless: AtomicUsize,
    pub(super) streams: AtomicUsize,
    pub(super) bytes: Budget,
    /// Requests without a key that it may still make, as of when.
    left: Mutex<(f64, Instant)>,
}

impl Neighbour {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            connections: AtomicUsize::new(0),
            keyless: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            bytes: Budget::new(bytes),
            left: Mutex::new((AT_ONCE, Instant::now())),
        }
    }

    /// Counts a request without a key; false if there were too many.
    pub(super) fn asks_without_key(&self, now: Instant) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_duration_since(left.1).as_secs_f64();
        *left = ((left.0 + since * PER_SECOND).min(AT_ONCE), now);
        let may = left.0 >= 1.0;
        if may {
            left.0 -= 1.0;
        }
        may
    }

    /// A request that was counted turned out to be one with a key.
    pub(super) fn gives_back(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.0 = (left.0 + 1.0).min(AT_ONCE);
    }

    /// Counts bytes without a key, as so many requests; false if there were too many. Whoever is cut off for a flood of frames gains
    /// nothing by coming again.
    pub(super) fn reads_without_key(&self, bytes: u64, now: Instant) -> bool {
        if bytes == 0 {
            return true;
        }
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_duration_since(left.1).as_secs_f64();
        let has = (left.0 + since * PER_SECOND).min(AT_ONCE);
        *left = ((has - bytes as f64 / BYTES_PER_REQUEST).max(0.0), now);
        has >= 1.0
    }

    /// It asked for more without a key than it may.
    pub(super) fn asks_too_much(&self, now: Instant) -> bool {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_duration_since(left.1).as_secs_f64();
        left.0 + since * PER_SECOND < 1.0
    }

    /// Nothing of it has to be remembered.
    pub(super) fn is_gone(&self, now: Instant) -> bool {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_duration_since(left.1).as_secs_f64();
        self.connections.load(Ordering::Relaxed) == 0 && left.0 + since * PER_SECOND >= AT_ONCE
    }

    /// A place for a stream without a key, if the address has one left.
    pub(super) fn take_stream(self: &Arc<Self>, most: usize) -> Option<StreamPlace> {
        let taken = self
            .streams
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < most).then_some(count + 1));
        taken.ok().map(|_| StreamPlace(self.clone()))
    }
}

/// One of the streams that an address may have without a key.
pub(super) struct StreamPlace(Arc<Neighbour>);

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_site_counts_as_one_however_many_addresses_it_has() {
        let net = |text: &str| Net::of(text.parse().unwrap());
        assert_eq!(net("2001:db8:1:2::1"), net("2001:db8:1:2:ffff::9"));
        assert_ne!(net("2001:db8:1:2::1"), net("2001:db8:1:3::1"));
        assert_eq!(net("::ffff:192.0.2.7"), net("192.0.2.7"));
        assert_ne!(net("192.0.2.7"), net("192.0.2.8"));
    }

    #[test]
    fn requests_without_a_key_have_a_rate_that_is_forgotten_only_when_it_has_recovered() {
        let (neighbour, start) = (Neighbour::new(1), Instant::now());
        let asked = (0..5_000).filter(|_| neighbour.asks_without_key(start)).count();
        assert_eq!(asked, 1_000);
        assert!(neighbour.asks_too_much(start));
        assert!(!neighbour.is_gone(start + Duration::from_secs(1)));
        let later = start + Duration::from_secs(1);
        let asked = (0..5_000).filter(|_| neighbour.asks_without_key(later)).count();
        assert_eq!(asked, 200);
        assert!(neighbour.is_gone(later + Duration::from_secs(6)));
    }

    #[test]
    fn whoever_agrees_on_tls_and_shows_a_key_costs_its_address_nothing() {
        let line = crate::doors::test_line();
        let agreed =
            |line: &std::sync::Arc<crate::doors::Line>| (0..5_000).take_while(|_| line.agrees()).count();
        let caller =
            crate::access::Caller::with("one".into(), "one", crate::access::Role::Viewer, None, None);
        for _ in 0..5_000 {
            assert!(line.agrees());
            line.shows_key(&caller).unwrap();
            line.forgets_key();
        }
        assert!((1_000..1_100).contains(&agreed(&line)));
    }

    #[test]
    fn bytes_without_a_key_have_a_rate_too() {
        let (neighbour, start) = (Neighbour::new(1), Instant::now());
        let read = (0..1_000).filter(|_| neighbour.reads_without_key(16 << 10, start)).count();
        assert_eq!(read, 125, "two megabytes at once");
        assert!(neighbour.asks_too_much(start));
        assert!(neighbour.reads_without_key(0, start), "what is free is free");
        assert!(neighbour.reads_without_key(16 << 10, start + Duration::from_secs(1)));
    }

    #[test]
    fn streams_without_a_key_are_given_back() {
        let neighbour = Arc::new(Neighbour::new(1));
        let (one, two) = (neighbour.take_stream(2), neighbour.take_stream(2));
        assert!(one.is_some() && two.is_some() && neighbour.take_stream(2).is_none());
        drop(one);
        assert!(neighbour.take_stream(2).is_some());
    }
}
