//! What is remembered between commits, so that it need not be read for every one of them.
//!
//! Where a lane's transactions are changes only with the lane's version. So what is remembered is true for a commit that finds the lane at
//! the version which the last commit from here left, and every commit looks at that under the lane's lock. It is taken out for a commit
//! and put back when that is done: whatever goes wrong in between, it is forgotten.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use landfall_core::TxId;
use landfall_core::ports::store::LaneCommit;

use super::commit::{self, Place};
use super::rows::bits;

/// How many transactions of a lane are remembered: more than are under way at once.
const PLACES: usize = 65_536;

/// Where a lane's transactions are; those that are not here have to be looked up.
pub(super) type OfLane = HashMap<TxId, Place>;

struct Remembered {
    token: i64,
    version: i64,
    places: OfLane,
}

#[derive(Default)]
pub(super) struct Known {
    lanes: Mutex<BTreeMap<i64, Remembered>>,
    alone: AtomicBool,
}

/// What a database transaction teaches, once it is committed.
#[derive(Default)]
pub(super) struct Learned<'g> {
    pub(super) lanes: Vec<(i64, &'g LaneCommit, OfLane)>,
    pub(super) alone: Option<bool>,
}

impl Known {
    fn lanes(&self) -> MutexGuard<'_, BTreeMap<i64, Remembered>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out what is true for a commit that passes its fence. What is admitted meanwhile is gathered for the version which it makes.
    pub(super) fn take(&self, lane: i64, commit: &LaneCommit) -> OfLane {
        let (token, version) = (bits(commit.token.0), bits(commit::next_version(commit).0));
        let remembered = self.lanes().insert(lane, Remembered { token, version, places: OfLane::new() });
        let fits = |known: &Remembered| known.token == token && known.version == bits(commit.version.0);
        remembered.filter(fits).map(|known| known.places).unwrap_or_default()
    }

    /// These are about to be committed as waiting. Nobody hears of them before, so that nothing newer can be known of one.
    pub(super) fn admitted(&self, admitted: &[(i64, TxId, Place)]) {
        let mut lanes = self.lanes();
        for (lane, id, place) in admitted {
            let Some(known) = lanes.get_mut(lane) else { continue };
            // One that was tried before, and not committed, had another number.
            if known.places.remove(id).is_some() || known.places.len() < PLACES {
                known.places.insert(*id, *place);
            }
        }
    }

    /// The transaction is committed.
    pub(super) fn learn(&self, learned: Learned<'_>) {
        let mut lanes = self.lanes();
        for (lane, commit, mut places) in learned.lanes {
            let (token, version) = (bits(commit.token.0), bits(commit::next_version(commit).0));
            let Some(known) = lanes.get_mut(&lane) else { continue };
            if (known.token, known.version) != (token, version) || places.len() > PLACES {
                continue;
            }
            places.extend(known.places.drain());
            known.places = places;
        }
        drop(lanes);
        if let Some(alone) = learned.alone {
            self.alone.store(alone, Ordering::Release);
        }
    }

    /// When something was last admitted from here, no other process had a session: nobody else stores anything.
    pub(super) fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Acquire)
    }
}
