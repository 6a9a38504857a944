//! What is remembered between commits, so that it need not be read for every one of them.
//!
//! Where a lane's transactions are changes only with the lane's version. So what is remembered is true for a commit that finds the lane at
//! the version which the last commit from here left, and every commit looks at that under the lane's lock. It is taken out for a commit
//! and put back when that is done: whatever goes wrong in between, it is forgotten.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use landfall_core::ports::store::LaneCommit;
use landfall_core::{SessionId, TxId};
use uuid::Uuid;

use super::commit::{self, Place};
use super::rows::bits;

/// How many transactions are remembered, of all lanes together: more than are under way at once. With more, all are looked up anew. A
/// lane that has gone to another node leaves its transactions behind, and those that are still handed over here are added to them.
const PLACES: usize = 131_072;

/// Where a lane's transactions are; those that are not here have to be looked up.
pub(super) type OfLane = HashMap<TxId, Place>;

struct Remembered {
    token: i64,
    version: i64,
    places: OfLane,
}

#[derive(Default)]
struct Lanes {
    by_number: BTreeMap<i64, Remembered>,
    /// How many transactions they have together.
    places: usize,
}

impl Lanes {
    fn forget_all_if_too_many(&mut self) {
        if self.places > PLACES {
            *self = Self::default();
        }
    }
}

#[derive(Default)]
pub(super) struct Known {
    lanes: Mutex<Lanes>,
    /// The session that was opened last from here; one that nobody has before that.
    session: Mutex<Uuid>,
    alone: AtomicBool,
}

/// What a database transaction teaches, once it is committed.
#[derive(Default)]
pub(super) struct Learned<'g> {
    pub(super) lanes: Vec<(i64, &'g LaneCommit, OfLane)>,
    pub(super) alone: Option<bool>,
}

impl Known {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This process is about to have this session.
    pub(super) fn opens(&self, session: SessionId) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session.0;
    }

    pub(super) fn session(&self) -> Uuid {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out what is true for a commit that passes its fence. What is admitted meanwhile is gathered for the version which it makes.
    pub(super) fn take(&self, lane: i64, commit: &LaneCommit) -> OfLane {
        let (token, version) = (bits(commit.token.0), bits(commit::next_version(commit).0));
        let mut lanes = self.lanes();
        let new = Remembered { token, version, places: OfLane::new() };
        let Some(known) = lanes.by_number.insert(lane, new) else { return OfLane::new() };
        lanes.places -= known.places.len();
        let fits = known.token == token && known.version == bits(commit.version.0);
        if fits { known.places } else { OfLane::new() }
    }

    /// These are about to be committed as waiting. Nobody hears of them before, so that nothing newer can be known of one.
    pub(super) fn admitted(&self, admitted: &[(i64, TxId, Place)]) {
        let mut lanes = self.lanes();
        for (lane, id, place) in admitted {
            let Some(known) = lanes.by_number.get_mut(lane) else { continue };
            // One that was tried before, and not committed, had another number.
            lanes.places += usize::from(known.places.insert(*id, *place).is_none());
        }
        lanes.forget_all_if_too_many();
    }

    /// The transaction is committed.
    pub(super) fn learn(&self, learned: Learned<'_>) {
        let mut lanes = self.lanes();
        for (lane, commit, mut places) in learned.lanes {
            let (token, version) = (bits(commit.token.0), bits(commit::next_version(commit).0));
            let Some(known) = lanes.by_number.get_mut(&lane) else { continue };
            if (known.token, known.version) != (token, version) {
                continue;
            }
            let before = known.places.len();
            places.extend(known.places.drain());
            known.places = places;
            let after = known.places.len();
            lanes.places = lanes.places - before + after;
        }
        lanes.forget_all_if_too_many();
        drop(lanes);
        if let Some(alone) = learned.alone {
            self.alone.store(alone, Ordering::Release);
        }
    }

    #[cfg(test)]
    fn remembered(&self) -> usize {
        let lanes = self.lanes();
        let counted = lanes.by_number.values().map(|known| known.places.len()).sum();
        assert_eq!(lanes.places, counted);
        counted
    }

    /// When something was last admitted from here, no other process had a session: nobody else stores anything.
    pub(super) fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use landfall_core::ports::store::LaneRow;
    use landfall_core::{Account, ChainId, LaneId, LaneVersion, Millis, Token};

    use super::*;

    fn commit(version: u64) -> LaneCommit {
        LaneCommit {
            lane: LaneId { chain: ChainId(1), signer: Account(alloy_primitives::Address::ZERO) },
            token: Token(1),
            version: LaneVersion(version),
            row: LaneRow::default(),
            txs: Vec::new(),
            attempts: Vec::new(),
            hints: Vec::new(),
            closed: Vec::new(),
            journal: Vec::new(),
            commands_done: Vec::new(),
        }
    }

    fn admitted(lane: i64, from: u64, count: u64) -> Vec<(i64, TxId, Place)> {
        (from..from + count).map(|n| (lane, TxId::new(Millis(n), 1), Place::admitted(1))).collect()
    }

    fn learned<'g>(lane: i64, commit: &'g LaneCommit, places: OfLane) -> Learned<'g> {
        Learned { lanes: vec![(lane, commit, places)], alone: None }
    }

    #[test]
    fn what_was_admitted_is_known_to_the_next_commit_of_its_version_and_to_no_other() {
        let known = Known::default();
        let (first, second) = (commit(1), commit(2));
        let places = known.take(7, &first);
        known.admitted(&admitted(7, 0, 3));
        known.learn(learned(7, &first, places));
        assert_eq!(known.take(7, &second).len(), 3);
        assert_eq!(known.remembered(), 0, "it is taken out until that commit is done");
        assert!(known.take(7, &second).is_empty(), "it failed, and is tried again");
    }

    #[test]
    fn a_lane_that_went_to_another_node_does_not_fill_the_memory() {
        let known = Known::default();
        let stays = commit(1);
        let places = known.take(1, &stays);
        known.learn(learned(1, &stays, places));
        for lane in 2..6 {
            known.take(lane, &commit(1));
        }
        let most = PLACES as u64;
        for n in 0..4 * most / 1_000 {
            let lane = 2 + i64::try_from(n % 4).unwrap();
            known.admitted(&admitted(lane, n * 1_000, 1_000));
            assert!(known.remembered() <= PLACES);
        }
        assert!(known.take(1, &commit(2)).is_empty(), "what is forgotten is looked up");
    }
}
