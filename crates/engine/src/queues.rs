//! How much may wait in a lane: a caller that hands in faster than the chain takes would fill the store. Transactions are counted, and the
//! bytes that they have there, since few large ones take as much as many small ones.
//!
//! ```text
//! take ── room ──► on its way ──► stored: counted ── the store is asked ──► in its own count
//!   │                  └── nothing new came of it: given back
//!   └── no room ──► the store is asked, once for all who wait for its answer ──► room after all, or refused with its number
//! ```
//!
//! The store is asked only when so much was counted that a bound may be near, so that a lane far from it costs an addition. What left
//! the queue since still counts: the number is never too low, but for what other nodes took in meanwhile. So nobody is refused by it: who
//! finds no room is told what the store said after they came.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use landfall_core::LaneId;
use landfall_core::ports::store::{Error, Store};
use landfall_core::settings::LaneSettings;
use tokio::sync::Mutex as Turn;
use tokio::time::Instant;

/// A lane that is only near a bound is counted again after so long.
const AGAIN: Duration = Duration::from_secs(1);
/// The store rests so many times as long as it took to count, within bounds, before it counts for those who came meanwhile.
const REST: u32 = 2;
const SHORTEST_REST: Duration = Duration::from_millis(5);
const LONGEST_REST: Duration = Duration::from_millis(500);
/// The store is asked after every so-many-th part of the bound.
const PART: u64 = 20;

/// Queues of lanes that took something in. They are lanes of signers that are configured here, so they are few.
#[derive(Clone, Default)]
pub(crate) struct Queues(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    lanes: BTreeMap<LaneId, Queue>,
    /// How often any store was asked: what was asked after a caller came has a higher number than it saw.
    asked: u64,
}

#[derive(Default)]
struct Queue {
    transactions: Gauge,
    bytes: Gauge,
    /// Whoever asks the store has it.
    turn: Arc<Turn<()>>,
    /// When it may be asked again.
    rested: Option<Instant>,
}

/// How much of one kind waits.
#[derive(Default)]
struct Gauge {
    /// As the store last counted, and the number of that question.
    counted: u64,
    asked: u64,
    /// When it was asked, or somebody set out to.
    at: Option<Instant>,
    /// Stored since.
    since: u64,
    /// Neither stored nor refused yet.
    on_its_way: u64,
}

/// A caller's load, as it counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) transactions: u64,
    pub(crate) bytes: u64,
}

/// The moment at which a caller came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Came(u64);

/// A bound that one more would pass, and how much waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Transactions(u64),
    Bytes(u64),
}

/// Room that was taken for what is on its way to the store. Dropped before that has set out, it is given back.
pub(crate) struct Room {
    queues: Queues,
    lane: LaneId,
    load: Load,
    has_set_out: bool,
}

/// The outcome of a try.
enum Tried {
    Taken,
    Full(Full),
    /// The store is to be asked first, for these.
    Ask {
        transactions: bool,
        bytes: bool,
    },
}

impl Queues {
    pub(crate) fn came(&self) -> Came {
        Came(self.with(|counts| counts.asked))
    }

    /// Takes room in a lane, if there is any. The lane is one of ours.
    pub(crate) async fn take(
        &self,
        store: &dyn Store,
        lane: LaneId,
        load: Load,
        most: &LaneSettings,
        came: Came,
    ) -> Result<Result<Room, Full>, Error> {
        loop {
            match self.of(lane, |queue| queue.try_take(load, most, came)) {
                Tried::Taken => {
                    let room = Room { queues: self.clone(), lane, load, has_set_out: false };
                    return Ok(Ok(room));
                }
                Tried::Full(full) => return Ok(Err(full)),
                Tried::Ask { transactions, bytes } => {
                    self.ask(store, lane, transactions, bytes, came).await?;
                }
            }
        }
    }

    /// Has the store count, unless it did since this caller came.
    async fn ask(
        &self,
        store: &dyn Store,
        lane: LaneId,
        transactions: bool,
        bytes: bool,
        came: Came,
    ) -> Result<(), Error> {
        let turn = self.of(lane, |queue| queue.turn.clone());
        let _turn = turn.lock().await;
        let is_answered = self.of(lane, |queue| {
            (!transactions || queue.transactions.asked > came.0) && (!bytes || queue.bytes.asked > came.0)
        });
        if is_answered {
            return Ok(());
        }
        if let Some(rested) = self.of(lane, |queue| queue.rested) {
            tokio::time::sleep_until(rested).await;
        }
        let began = Instant::now();
        if transactions {
            let (asked, before) = self.begin(lane, |queue| &mut queue.transactions);
            let waiting = store.lane(lane).await?.map_or(0, |summary| summary.waiting);
            self.of(lane, |queue| queue.transactions.learn(waiting, before, asked));
        }
        if bytes {
            let (asked, before) = self.begin(lane, |queue| &mut queue.bytes);
            let waiting = store.waiting_bytes(lane).await?;
            self.of(lane, |queue| queue.bytes.learn(waiting, before, asked));
        }
        let rest = (began.elapsed() * REST).clamp(SHORTEST_REST, LONGEST_REST);
        self.of(lane, |queue| queue.rested = Some(Instant::now() + rest));
        Ok(())
    }

    /// How many lanes are counted.
    #[cfg(test)]
    pub(crate) fn lanes(&self) -> usize {
        self.with(|counts| counts.lanes.len())
    }

    /// The number of a question, and what was stored before it.
    fn begin(&self, lane: LaneId, gauge: impl FnOnce(&mut Queue) -> &mut Gauge) -> (u64, u64) {
        self.with(|counts| {
            counts.asked += 1;
            (counts.asked, gauge(counts.lanes.entry(lane).or_default()).since)
        })
    }

    fn of<T>(&self, lane: LaneId, act: impl FnOnce(&mut Queue) -> T) -> T {
        self.with(|counts| act(counts.lanes.entry(lane).or_default()))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Counts) -> T) -> T {
        // Plain numbers: a panic elsewhere leaves them readable.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Room {
    /// It is on its way to the store now, and counts as stored if nobody hears how that ended.
    pub(crate) fn set_out(mut self) -> Self {
        self.has_set_out = true;
        self
    }

    /// Nothing new came of it.
    pub(crate) fn give_back(mut self) {
        self.has_set_out = false;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let Self { lane, load, has_set_out, .. } = *self;
        self.queues.of(lane, |queue| {
            queue.transactions.settle(load.transactions, has_set_out);
            queue.bytes.settle(load.bytes, has_set_out);
        });
    }
}

impl Queue {
    fn try_take(&mut self, load: Load, most: &LaneSettings, came: Came) -> Tried {
        let (transactions, bytes) = (&mut self.transactions, &mut self.bytes);
        let lacks_number = !transactions.has_room(load.transactions, most.max_waiting);
        let lacks_bytes = !bytes.has_room(load.bytes, most.max_waiting_bytes);
        if lacks_number && transactions.asked > came.0 {
            return Tried::Full(Full::Transactions(transactions.waiting()));
        }
        if lacks_bytes && bytes.asked > came.0 {
            return Tried::Full(Full::Bytes(bytes.waiting()));
        }
        // Of several that only come near a bound, one asks.
        let ask_number = lacks_number || transactions.is_near(most.max_waiting);
        let ask_bytes = lacks_bytes || bytes.is_near(most.max_waiting_bytes);
        if ask_number || ask_bytes {
            return Tried::Ask { transactions: ask_number, bytes: ask_bytes };
        }
        transactions.on_its_way += load.transactions;
        bytes.on_its_way = bytes.on_its_way.saturating_add(load.bytes);
        Tried::Taken
    }
}

impl Gauge {
    fn waiting(&self) -> u64 {
        self.counted.saturating_add(self.since).saturating_add(self.on_its_way)
    }

    /// An empty load always has room.
    fn has_room(&self, more: u64, most: u64) -> bool {
        more == 0 || self.waiting().saturating_add(more) <= most
    }

    /// So much was stored since the store was asked that it is time to ask again.
    fn is_near(&mut self, most: u64) -> bool {
        let asked_lately = self.at.is_some_and(|at| at.elapsed() < AGAIN);
        if self.since < most / PART || asked_lately {
            return false;
        }
        self.at = Some(Instant::now());
        true
    }

    /// The store's own count. What was stored before it was asked is in it.
    fn learn(&mut self, counted: u64, before: u64, asked: u64) {
        self.counted = counted;
        self.asked = asked;
        self.at = Some(Instant::now());
        self.since = self.since.saturating_sub(before);
    }

    /// It is on its way no more; if it may be stored, it counts.
    fn settle(&mut self, load: u64, may_be_stored: bool) {
        self.on_its_way = self.on_its_way.saturating_sub(load);
        if may_be_stored {
            self.since = self.since.saturating_add(load);
        }
    }
}
