//! Bytes of bodies in flight: of everybody together, of each address, and of each key. They are taken as they come, not as they are
//! announced, and given back when the request is answered. Small bodies have a reserve for when larger ones hold the rest.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::neighbour::Neighbour;
use crate::problem::{Code, Problem};

/// How long a body may wait for others to end. The caller's own buffers fill meanwhile, not ours.
const WAIT: Duration = Duration::from_secs(2);
const RETRY_AFTER_S: u64 = 1;
/// A body of so many bytes is small: most transactions, and most questions.
pub(super) const SMALL: usize = 64 << 10;
/// Bytes that only small bodies may have, of all callers and of one key.
const RESERVE: usize = 4 << 20;
const RESERVE_OF_KEY: usize = RESERVE / 4;

/// Bytes that may be held at once.
pub(crate) struct Budget {
    free: Semaphore,
    most: usize,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self { free: Semaphore::new(most), most }
    }

    fn try_take(&self, bytes: u32) -> bool {
        self.free.try_acquire_many(bytes).map(|permit| permit.forget()).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.free.add_permits(bytes);
    }
}

/// Budgets of bytes of each key, those that are in use.
pub(super) struct OfKeys {
    most: usize,
    all: Mutex<HashMap<Arc<str>, Arc<KeyBytes>>>,
}

/// Bytes that one key may hold, and of the reserve.
pub(super) struct KeyBytes {
    bytes: Budget,
    reserve: Budget,
}

/// Keys that are remembered before it is looked which may be forgotten.
const MANY: usize = 256;

impl OfKeys {
    pub(super) fn new(most: usize) -> Self {
        Self { most, all: Mutex::default() }
    }

    pub(super) fn of(&self, key: &Arc<str>) -> Arc<KeyBytes> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MANY {
            // What nobody else holds has all its bytes.
            all.retain(|_, bytes| Arc::strong_count(bytes) > 1);
        }
        let made =
            || Arc::new(KeyBytes { bytes: Budget::new(self.most), reserve: Budget::new(RESERVE_OF_KEY) });
        all.entry(key.clone()).or_insert_with(made).clone()
    }
}

/// The reserve for small bodies.
pub(super) fn reserve() -> Arc<Budget> {
    Arc::new(Budget::new(RESERVE))
}

/// Why no more bytes are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// All callers together hold as many as they may.
    Everybody {
        most: usize,
    },
    Address {
        most: usize,
    },
    Key {
        most: usize,
    },
}

impl From<Full> for Problem {
    fn from(full: Full) -> Self {
        let (code, detail) = match full {
            Full::Everybody { most } => (
                Code::TooManyBytes,
                format!(
                    "{most} bytes of bodies are being read, as many as server.max_bytes_in_flight allows; nothing of this \
                     request was done. Send it again in a moment"
                ),
            ),
            Full::Key { most } => (
                Code::QuotaReached,
                format!(
                    "{most} bytes of bodies that this API key sends are being read, as many as \
                     access.max_bytes_in_flight_per_key allows; nothing of this request was done. Send it again when others are \
                     answered"
                ),
            ),
            Full::Address { most } => (
                Code::TooManyBytesOfOne,
                format!(
                    "{most} bytes of bodies from this address are being read, as many as \
                     server.max_bytes_in_flight_per_address allows; nothing of this request was done. Send it again when \
                     others are answered"
                ),
            ),
        };
        Self { retry_after: Some(RETRY_AFTER_S), ..Self::new(code, detail) }
    }
}

/// Bytes that one request holds.
pub(crate) struct Charge {
    everybody: Arc<Budget>,
    address: Option<Arc<Neighbour>>,
    key: Option<Arc<KeyBytes>>,
    reserve: Arc<Budget>,
    held: AtomicUsize,
    /// Held of the reserve instead.
    reserved: AtomicUsize,
}

impl Charge {
    pub(super) fn new(
        everybody: Arc<Budget>,
        address: Option<Arc<Neighbour>>,
        key: Option<Arc<KeyBytes>>,
        reserve: Arc<Budget>,
    ) -> Self {
        let (held, reserved) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { everybody, address, key, reserve, held, reserved }
    }

    /// The budgets that bytes are taken from, the narrowest first, and what it means when one is full.
    fn budgets(&self) -> impl Iterator<Item = (&Budget, Full)> {
        let key = self.key.as_ref().map(|key| (&key.bytes, Full::Key { most: key.bytes.most }));
        let address = self.address.as_ref();
        let address = address.map(|at| (&at.bytes, Full::Address { most: at.bytes.most }));
        let everybody = (&*self.everybody, Full::Everybody { most: self.everybody.most });
        key.into_iter().chain(address).chain([everybody])
    }

    /// Takes bytes that are there; false if they would have to be waited for.
    pub(super) fn try_take(&self, bytes: usize) -> bool {
        let Ok(count) = u32::try_from(bytes) else { return false };
        for (done, (budget, _)) in self.budgets().enumerate() {
            if !budget.try_take(count) {
                self.budgets().take(done).for_each(|(budget, _)| budget.give_back(bytes));
                return self.try_take_reserve(count);
            }
        }
        self.held.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Takes bytes of a body that is small so far from the reserve.
    fn try_take_reserve(&self, count: u32) -> bool {
        let bytes = count as usize;
        let sum = self.held.load(Ordering::Relaxed) + self.reserved.load(Ordering::Relaxed) + bytes;
        let own = self.key.as_ref().map(|key| &key.reserve);
        if sum > SMALL || own.is_some_and(|own| !own.try_take(count)) {
            return false;
        }
        if !self.reserve.try_take(count) {
            if let Some(own) = own {
                own.give_back(bytes);
            }
            return false;
        }
        self.reserved.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Takes bytes, and waits a moment for them if others hold too many.
    pub(crate) async fn take(&self, bytes: usize) -> Result<(), Full> {
        if self.try_take(bytes) {
            return Ok(());
        }
        let everybody = Full::Everybody { most: self.everybody.most };
        let count = u32::try_from(bytes).map_err(|_| everybody)?;
        let until = tokio::time::Instant::now() + WAIT;
        let mut taken = Vec::with_capacity(3);
        for (budget, full) in self.budgets() {
            // None is ever closed.
            let Ok(Ok(permit)) = tokio::time::timeout_at(until, budget.free.acquire_many(count)).await else {
                return Err(full);
            };
            taken.push(permit);
        }
        taken.into_iter().for_each(tokio::sync::SemaphorePermit::forget);
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Gives some back before the end.
    pub(super) fn give_back(&self, bytes: usize) {
        let reserved = lowered(&self.reserved, bytes);
        self.reserve.give_back(reserved);
        if let Some(key) = &self.key {
            key.reserve.give_back(reserved);
        }
        let held = lowered(&self.held, bytes - reserved);
        self.budgets().for_each(|(budget, _)| budget.give_back(held));
    }
}

/// Takes so many from a count, or all it has; how many that were.
fn lowered(count: &AtomicUsize, by: usize) -> usize {
    let less = |held: usize| Some(held.saturating_sub(by));
    by.min(count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or(0))
}

impl Drop for Charge {
    fn drop(&mut self) {
        let held = self.held.load(Ordering::Relaxed) + self.reserved.load(Ordering::Relaxed);
        if held > 0 {
            self.give_back(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(budget: &Budget) -> usize {
        budget.free.available_permits()
    }

    /// Bytes of a request from there, without a reserve.
    fn charge(all: &Arc<Budget>, address: Option<&Arc<Neighbour>>) -> Charge {
        Charge::new(all.clone(), address.cloned(), None, Arc::new(Budget::new(0)))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_held_is_given_back_and_what_is_too_much_is_told_after_a_moment() {
        let (all, one) = (Arc::new(Budget::new(100)), Arc::new(Neighbour::new(60)));
        let other = Arc::new(Neighbour::new(60));
        let first = charge(&all, Some(&one));
        first.take(50).await.unwrap();
        let second = charge(&all, Some(&one));
        assert_eq!(second.take(20).await, Err(Full::Address { most: 60 }));
        assert_eq!((free(&all), free(&one.bytes)), (50, 10), "a refusal holds nothing");
        let third = charge(&all, Some(&other));
        third.take(50).await.unwrap();
        assert_eq!(second.take(10).await, Err(Full::Everybody { most: 100 }));
        assert_eq!((free(&all), free(&one.bytes)), (0, 10));
        drop(first);
        second.take(20).await.unwrap();
        second.give_back(5);
        assert_eq!((free(&all), free(&one.bytes)), (35, 45));
        drop((second, third));
        assert_eq!((free(&all), free(&one.bytes), free(&other.bytes)), (100, 60, 60));
    }

    #[tokio::test(start_paused = true)]
    async fn one_key_never_holds_all_and_small_bodies_of_others_find_room_when_all_is_held() {
        const MANY: usize = 10 * SMALL;
        let (all, reserve) = (Arc::new(Budget::new(MANY)), reserve());
        let keys = OfKeys::new(MANY / 2);
        let of = |key: &str| Charge::new(all.clone(), None, Some(keys.of(&key.into())), reserve.clone());
        let (first, greedy) = (of("greedy"), of("greedy"));
        first.take(MANY / 2).await.unwrap();
        assert_eq!(greedy.take(2 * SMALL).await, Err(Full::Key { most: MANY / 2 }));
        let other = of("other");
        other.take(MANY / 2).await.unwrap();
        let small = of("third");
        small.take(SMALL).await.unwrap();
        assert_eq!(small.take(1).await, Err(Full::Everybody { most: MANY }), "it is no longer small");
        let many: Vec<_> = (0..100).map(|_| of("greedy")).collect();
        let found = many.iter().filter(|charge| charge.try_take(SMALL)).count();
        assert_eq!(found, RESERVE_OF_KEY / SMALL, "nor does one key hold the reserve");
        drop((first, greedy, other, small, many));
        assert_eq!((free(&all), free(&reserve)), (MANY, RESERVE));
        let of_greedy = keys.of(&"greedy".into());
        assert_eq!((free(&of_greedy.bytes), free(&of_greedy.reserve)), (MANY / 2, RESERVE_OF_KEY));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_gets_what_another_gives_back() {
        let all = Arc::new(Budget::new(10));
        let first = charge(&all, None);
        first.take(10).await.unwrap();
        let second = charge(&all, None);
        let (taken, ()) = tokio::join!(second.take(10), async { drop(first) });
        assert_eq!(taken, Ok(()));
    }
}
