//! Bytes of bodies in flight: of everybody together, and of each address. They are taken as they come, not as they are
//! announced, and given back when the request is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::neighbour::Neighbour;
use crate::problem::{Code, Problem};

/// How long a body may wait for others to end. The caller's own buffers fill meanwhile, not ours.
const WAIT: Duration = Duration::from_secs(2);
const RETRY_AFTER_S: u64 = 1;

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
    held: AtomicUsize,
}

impl Charge {
    pub(super) fn new(everybody: Arc<Budget>, address: Option<Arc<Neighbour>>) -> Self {
        Self { everybody, address, held: AtomicUsize::new(0) }
    }

    /// Takes bytes that are there; false if they would have to be waited for.
    pub(super) fn try_take(&self, bytes: usize) -> bool {
        let Ok(count) = u32::try_from(bytes) else { return false };
        let own = self.address.as_ref().map(|address| &address.bytes);
        if own.is_some_and(|own| !own.try_take(count)) {
            return false;
        }
        if !self.everybody.try_take(count) {
            if let Some(own) = own {
                own.give_back(bytes);
            }
            return false;
        }
        self.held.fetch_add(bytes, Ordering::Relaxed);
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
        let own = match &self.address {
            None => None,
            Some(address) => {
                let own = &address.bytes;
                let taken = tokio::time::timeout_at(until, own.free.acquire_many(count)).await;
                // None is ever closed.
                let Ok(Ok(permit)) = taken else { return Err(Full::Address { most: own.most }) };
                Some(permit)
            }
        };
        let taken = tokio::time::timeout_at(until, self.everybody.free.acquire_many(count)).await;
        let Ok(Ok(permit)) = taken else { return Err(everybody) };
        permit.forget();
        if let Some(own) = own {
            own.forget();
        }
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Gives some back before the end.
    pub(super) fn give_back(&self, bytes: usize) {
        let before = self
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| Some(held.saturating_sub(bytes)));
        let bytes = bytes.min(before.unwrap_or(0));
        self.everybody.give_back(bytes);
        if let Some(address) = &self.address {
            address.bytes.give_back(bytes);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let held = self.held.load(Ordering::Relaxed);
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

    #[tokio::test(start_paused = true)]
    async fn what_is_held_is_given_back_and_what_is_too_much_is_told_after_a_moment() {
        let (all, one) = (Arc::new(Budget::new(100)), Arc::new(Neighbour::new(60)));
        let other = Arc::new(Neighbour::new(60));
        let first = Charge::new(all.clone(), Some(one.clone()));
        first.take(50).await.unwrap();
        let second = Charge::new(all.clone(), Some(one.clone()));
        assert_eq!(second.take(20).await, Err(Full::Address { most: 60 }));
        assert_eq!((free(&all), free(&one.bytes)), (50, 10), "a refusal holds nothing");
        let third = Charge::new(all.clone(), Some(other.clone()));
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
    async fn whoever_waits_gets_what_another_gives_back() {
        let all = Arc::new(Budget::new(10));
        let first = Charge::new(all.clone(), None);
        first.take(10).await.unwrap();
        let second = Charge::new(all.clone(), None);
        let (taken, ()) = tokio::join!(second.take(10), async { drop(first) });
        assert_eq!(taken, Ok(()));
    }
}
