//! How many transactions may wait in a lane: a caller that hands in faster than the chain takes would fill the store.
//!
//! Every admission counts one. The store is asked only when so many were counted that the bound may be near, so that a lane far from it
//! costs an addition. What left the queue since the store was last asked still counts: the number is never too low, but for what other
//! nodes took in meanwhile.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use landfall_core::LaneId;
use landfall_core::ports::store::{Error, Store};
use tokio::time::Instant;

/// A full lane is counted again after so long.
const AGAIN: Duration = Duration::from_secs(1);
/// The store is asked after every so-many-th part of the bound.
const PART: u64 = 20;

/// Lengths of the queues of lanes that took something in.
#[derive(Default)]
pub(crate) struct Queues(Mutex<BTreeMap<LaneId, Queue>>);

#[derive(Default)]
struct Queue {
    /// As the store last counted, and when.
    counted: u64,
    at: Option<Instant>,
    /// Taken in since.
    since: u64,
}

impl Queues {
    /// Counts one more in a lane. Some(waiting): it has as many as it may.
    pub(crate) async fn is_full(
        &self,
        store: &dyn Store,
        lane: LaneId,
        most: u64,
    ) -> Result<Option<u64>, Error> {
        if let Some(verdict) = self.by_memory(lane, most) {
            return Ok(verdict);
        }
        let waiting = store.lane(lane).await?.map_or(0, |summary| summary.waiting);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = all.entry(lane).or_default();
        queue.counted = waiting;
        queue.since = 1;
        Ok((waiting >= most).then_some(waiting))
    }

    /// The verdict, if the store need not be asked. Of several at once only one asks.
    fn by_memory(&self, lane: LaneId, most: u64) -> Option<Option<u64>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = all.entry(lane).or_default();
        let waiting = queue.counted + queue.since;
        let is_full = waiting >= most;
        let asked_lately = queue.at.is_some_and(|at| at.elapsed() < AGAIN);
        if (is_full || queue.since >= most / PART) && !asked_lately {
            queue.at = Some(Instant::now());
            return None;
        }
        if is_full {
            return Some(Some(waiting));
        }
        queue.since += 1;
        Some(None)
    }
}
