//! Levels, read when somebody wants to know: how many wait where, how endpoints are doing.
//!
//! Everything comes from memory, except how many wait behind those that a lane has loaded: that is counted by the store,
//! for lanes with more than fits, and not more often than every few seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use landfall_core::LaneId;
use landfall_core::lane::LaneCounts;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::handle::{ChainHealth, Handle};

/// How long a count of the store serves.
const COUNTED_EVERY: Duration = Duration::from_secs(10);

/// One moment of an engine.
#[derive(Debug, Clone)]
pub struct Gauges {
    /// The lanes that run here.
    pub lanes: BTreeMap<LaneId, LaneCounts>,
    /// Lanes that should run here and cannot be loaded or written.
    pub lanes_in_trouble: usize,
    pub chains: Vec<ChainHealth>,
    /// How long ago each chain's head was new.
    pub head_ages: BTreeMap<landfall_core::ChainId, Duration>,
    /// For how long each lane's oldest waiting transaction has waited.
    pub oldest_waiting: BTreeMap<LaneId, Duration>,
    /// Writes that wait for their group.
    pub writes_waiting: usize,
    /// This node may act.
    pub session_is_live: bool,
    /// The store is an older copy of itself, and nobody has accepted it.
    pub store_is_older: bool,
}

/// What the store last counted.
#[derive(Default)]
pub(crate) struct Backlogs(Mutex<Option<(Instant, BTreeMap<LaneId, u64>)>>);

impl Handle {
    /// How everything stands, without asking a node and with little asked of the store.
    pub async fn gauges(&self) -> Gauges {
        let shared = self.shared();
        let mut lanes = shared.lane_counts();
        let behind: Vec<LaneId> =
            lanes.iter().filter(|(_, counts)| counts.more).map(|(lane, _)| *lane).collect();
        for (lane, waiting) in self.backlogs(&behind).await {
            if let Some(counts) = lanes.get_mut(&lane) {
                counts.waiting = counts.waiting.max(waiting);
            }
        }
        let now = shared.parts.clock.now();
        let age = |(lane, counts): (&LaneId, &LaneCounts)| Some((*lane, now.since(counts.oldest_waiting?)));
        let chains = shared.parts.chains.keys();
        Gauges {
            oldest_waiting: lanes.iter().filter_map(age).collect(),
            lanes,
            lanes_in_trouble: shared.lane_troubles().len(),
            head_ages: chains.filter_map(|id| Some((*id, shared.directory.head_age(*id)?))).collect(),
            chains: self.chains(),
            writes_waiting: shared.writer.waiting(),
            session_is_live: shared.session_is_live(),
            store_is_older: matches!(self.older().await, Ok(Some(_))),
        }
    }

    /// How many wait in these lanes, by the store's count of a moment ago. One asker at a time.
    async fn backlogs(&self, lanes: &[LaneId]) -> BTreeMap<LaneId, u64> {
        if lanes.is_empty() {
            return BTreeMap::new();
        }
        let mut counted = self.shared().backlogs.0.lock().await;
        if let Some((at, known)) = counted.as_ref()
            && at.elapsed() < COUNTED_EVERY
        {
            return known.clone();
        }
        let mut read = BTreeMap::new();
        for lane in lanes {
            // A store that cannot be read shows elsewhere; here the number is what memory says.
            if let Ok(Some(summary)) = self.store().lane(*lane).await {
                read.insert(*lane, summary.waiting);
            }
        }
        *counted = Some((Instant::now(), read.clone()));
        read
    }
}
