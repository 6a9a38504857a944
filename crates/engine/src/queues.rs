//! How much may wait in a lane: a caller that hands in faster than the chain takes would fill the store. Transactions are counted, and the
//! bytes of their requests, since few large ones take as much as many small ones.
//!
//! Every admission counts. The store is asked only when so much was counted that a bound may be near, so that a lane far from it
//! costs an addition. What left the queue since the store was last asked still counts: the number is never too low, but for what other
//! nodes took in meanwhile.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use landfall_core::LaneId;
use landfall_core::ports::store::{Error, Store};
use landfall_core::settings::LaneSettings;
use tokio::time::Instant;

/// A full lane is counted again after so long.
const AGAIN: Duration = Duration::from_secs(1);
/// The store is asked after every so-many-th part of the bound.
const PART: u64 = 20;

/// Queues of lanes that took something in.
#[derive(Default)]
pub(crate) struct Queues(Mutex<BTreeMap<LaneId, Queue>>);

#[derive(Default)]
struct Queue {
    transactions: Gauge,
    bytes: Gauge,
}

/// How much of one kind waits.
#[derive(Default)]
struct Gauge {
    /// As the store last counted, and when it was asked.
    counted: u64,
    at: Option<Instant>,
    /// Taken in since.
    since: u64,
}

/// A bound that one more would pass, and how much waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Transactions(u64),
    Bytes(u64),
}

impl Queues {
    /// Counts one more of so many bytes in a lane, if there is room for it.
    pub(crate) async fn is_full(
        &self,
        store: &dyn Store,
        lane: LaneId,
        bytes: u64,
        most: &LaneSettings,
    ) -> Result<Option<Full>, Error> {
        let (ask_number, ask_bytes) = self.of(lane, |queue| {
            // Of several at once only one asks.
            (
                queue.transactions.must_ask(1, most.max_waiting),
                queue.bytes.must_ask(bytes, most.max_waiting_bytes),
            )
        });
        if let Some(before) = ask_number {
            let waiting = store.lane(lane).await?.map_or(0, |summary| summary.waiting);
            self.of(lane, |queue| queue.transactions.learn(waiting, before));
        }
        if let Some(before) = ask_bytes {
            let waiting = store.waiting_bytes(lane).await?;
            self.of(lane, |queue| queue.bytes.learn(waiting, before));
        }
        Ok(self.of(lane, |queue| {
            if !queue.transactions.has_room(1, most.max_waiting) {
                return Some(Full::Transactions(queue.transactions.waiting()));
            }
            if !queue.bytes.has_room(bytes, most.max_waiting_bytes) {
                return Some(Full::Bytes(queue.bytes.waiting()));
            }
            queue.transactions.since += 1;
            queue.bytes.since = queue.bytes.since.saturating_add(bytes);
            None
        }))
    }

    fn of<T>(&self, lane: LaneId, act: impl FnOnce(&mut Queue) -> T) -> T {
        // Plain numbers: a panic elsewhere leaves them readable.
        act(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(lane).or_default())
    }
}

impl Gauge {
    fn waiting(&self) -> u64 {
        self.counted.saturating_add(self.since)
    }

    fn has_room(&self, more: u64, most: u64) -> bool {
        self.waiting().saturating_add(more) <= most
    }

    /// Some: the bound may be near, and the store is to be asked; how much was taken in until now.
    fn must_ask(&mut self, more: u64, most: u64) -> Option<u64> {
        let is_near = !self.has_room(more, most) || self.since >= most / PART;
        let asked_lately = self.at.is_some_and(|at| at.elapsed() < AGAIN);
        if !is_near || asked_lately {
            return None;
        }
        self.at = Some(Instant::now());
        Some(self.since)
    }

    /// The store's own count. What was taken in before it was asked is in it.
    fn learn(&mut self, counted: u64, before: u64) {
        self.counted = counted;
        self.since = self.since.saturating_sub(before);
    }
}
