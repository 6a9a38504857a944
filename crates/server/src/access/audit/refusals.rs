//! How many refusals are written one by one: a flood of them must not fill the disk, or hide what others do.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// As long as the numbers below hold for.
const SPAN: Duration = Duration::from_secs(60);
/// Of one API key.
const PER_KEY: u32 = 10;
/// Of one address without a key.
const PER_ADDRESS: u32 = 5;
/// Of all addresses without a key.
const OF_STRANGERS: u32 = 30;

/// Whoever was sent away.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Stranger {
    Key(Arc<str>),
    Address(Option<IpAddr>),
}

/// The refusals of the last minute.
pub(super) struct Refusals {
    since: Instant,
    told: HashMap<Stranger, u32>,
    of_strangers: u32,
    /// Refusals that were not written, by their status.
    more: BTreeMap<u16, u64>,
}

impl Refusals {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, told: HashMap::new(), of_strangers: 0, more: BTreeMap::new() }
    }

    /// It is to be written; if not, it is counted. What is remembered is bounded: of addresses no more than are written.
    pub(super) fn is_told(&mut self, who: Stranger, status: u16) -> bool {
        let is_stranger = matches!(who, Stranger::Address(_));
        let most = if is_stranger { PER_ADDRESS } else { PER_KEY };
        let told = self.told.get(&who).copied().unwrap_or(0);
        if told >= most || (is_stranger && self.of_strangers >= OF_STRANGERS) {
            *self.more.entry(status).or_default() += 1;
            return false;
        }
        self.of_strangers += u32::from(is_stranger);
        self.told.insert(who, told + 1);
        true
    }

    /// Refusals that were not written, by status, when the minute is over or `now` is all there is.
    pub(super) fn summed(&mut self, now: Instant, at_once: bool) -> Option<BTreeMap<u16, u64>> {
        if now.saturating_duration_since(self.since) < SPAN && !at_once {
            return None;
        }
        let more = std::mem::take(&mut self.more);
        *self = Self::new(now);
        (!more.is_empty()).then_some(more)
    }
}

/// So much of what a key asks for in a minute may come to nothing, although it was written down before. Beyond it nothing is written,
/// and nothing done: or whoever names what is not there would fill the disk.
pub(super) const IN_VAIN: u32 = 100;

/// What each key asked for in the last minute that came to nothing, or has not come to its end yet.
pub(super) struct InVain {
    since: Instant,
    of_keys: HashMap<Arc<str>, u32>,
}

impl InVain {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, of_keys: HashMap::new() }
    }

    /// Counts one more; if it is one too many, how long it is until the next.
    pub(super) fn begin(&mut self, key: &Arc<str>, now: Instant) -> Result<(), Duration> {
        let past = now.saturating_duration_since(self.since);
        if past >= SPAN {
            *self = Self::new(now);
        }
        let count = self.of_keys.entry(key.clone()).or_default();
        if *count >= IN_VAIN {
            return Err(SPAN.saturating_sub(past));
        }
        *count += 1;
        Ok(())
    }

    /// It came to something.
    pub(super) fn give_back(&mut self, key: &Arc<str>) {
        if let Some(count) = self.of_keys.get_mut(key) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_to_nothing_is_bounded_for_a_key_and_what_comes_to_something_is_not() {
        let start = Instant::now();
        let (mut in_vain, one, other) = (InVain::new(start), Arc::from("one"), Arc::from("other"));
        for _ in 0..10_000 {
            assert_eq!(in_vain.begin(&one, start), Ok(()));
            in_vain.give_back(&one);
        }
        let begun = (0..10_000).filter(|_| in_vain.begin(&one, start).is_ok()).count();
        assert_eq!(begun, IN_VAIN as usize);
        let later = start + Duration::from_secs(59);
        assert_eq!(in_vain.begin(&one, later), Err(Duration::from_secs(1)));
        assert_eq!(in_vain.begin(&other, later), Ok(()), "another key has its own");
        assert_eq!(in_vain.begin(&one, start + SPAN), Ok(()));
    }

    fn address(n: u32) -> Stranger {
        Stranger::Address(Some(IpAddr::from(n.to_be_bytes())))
    }

    #[test]
    fn a_flood_is_a_few_rows_and_a_number() {
        let start = Instant::now();
        let mut refusals = Refusals::new(start);
        let told = (0..1_209).filter(|_| refusals.is_told(address(1), 401)).count();
        assert_eq!(told, 5);
        let told = (0..100_000).filter(|n| refusals.is_told(address(*n), 401)).count();
        assert_eq!(told, 25, "from however many addresses");
        assert!(refusals.told.len() <= 30, "{}", refusals.told.len());
        assert!(refusals.is_told(Stranger::Key("a".into()), 403), "strangers do not hide who has a key");
        assert_eq!(refusals.summed(start + Duration::from_secs(59), false), None);
        let summed = refusals.summed(start + Duration::from_secs(60), false);
        assert_eq!(summed, Some([(401, 1_209 - 5 + 100_000 - 25)].into()));
        assert!(refusals.is_told(address(1), 401), "the next minute begins anew");
        assert_eq!(
            refusals.summed(start + Duration::from_secs(200), false),
            None,
            "and nothing more, nothing told"
        );
    }
}
