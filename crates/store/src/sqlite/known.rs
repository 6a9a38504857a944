//! What the writing thread remembers of the file, so that it need not look it up for every write.
//!
//! It is true because nothing else writes the file: what is remembered was read or written by this thread, and all of it
//! is dropped whenever a transaction is rolled back or its commit fails.

use std::collections::{BTreeMap, HashMap};

use landfall_core::{LaneId, TxId};

/// How many transactions are remembered: more than are under way at once. With more, all are looked up anew.
const PLACES: usize = 65_536;

/// The row numbers of a lane and of its account.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaneKey {
    pub(super) lane: i64,
    pub(super) account: i64,
}

/// Where a transaction is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) lane: i64,
    pub(super) order: i64,
    pub(super) phase: i64,
    pub(super) state: i64,
    pub(super) slot: Option<i64>,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) lanes: BTreeMap<LaneId, LaneKey>,
    places: HashMap<TxId, Place>,
    /// The number of the last journal entry.
    pub(super) journal_end: Option<i64>,
    /// Whether the history of any transaction was ever removed.
    pub(super) forgotten: Option<bool>,
}

impl Known {
    pub(super) fn place(&self, id: TxId) -> Option<Place> {
        self.places.get(&id).copied()
    }

    /// Its row was read or written, and says this.
    pub(super) fn is_at(&mut self, id: TxId, place: Place) {
        if self.places.len() >= PLACES && !self.places.contains_key(&id) {
            self.places.clear();
        }
        self.places.insert(id, place);
    }

    /// It has ended, or is gone: it will hardly be asked for again.
    pub(super) fn drop_place(&mut self, id: TxId) {
        self.places.remove(&id);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_remembered_than_the_limit() {
        let mut known = Known::default();
        let place = Place { lane: 1, order: 1, phase: 0, state: 0, slot: None };
        for n in 0..=PLACES {
            known.is_at(TxId(uuid::Uuid::from_u128(n as u128)), place);
        }
        assert!(known.places.len() <= PLACES);
        assert!(known.place(TxId(uuid::Uuid::from_u128(PLACES as u128))).is_some(), "the last one is");
    }
}
