//! The slots in use, and which of them a turn must look at.
//!
//! A lane may have thousands of slots out, and most of them rest: some pool has their bytes, and nothing is to be done
//! until a block comes or a time is reached. So a turn looks at the slots that something has happened to since the last
//! plan, and at all of them when something came that may concern any:
//!
//! | what came | looked at |
//! |---|---|
//! | an answer, a receipt, a signature for a slot | that slot: whoever takes a record to change it has touched it |
//! | a new head, another count, balance or code of the account | all |
//! | a command, a proof, another window | all |
//! | the earliest time at which one of those at rest wanted to be thought of again | all |
//!
//! What is missed by mistake is therefore looked at with the next block.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, RangeBounds};

use alloy_primitives::{U256, Uint};

use super::SlotRecord;
use crate::attempt::Attempt;
use crate::{Millis, Slot};

/// Wide enough for the sum of any number of amounts.
type Sum = Uint<320, 5>;

/// Every slot that is bound or has stored bytes. It is read as a map; changes go through what is here. Each record has a place of its
/// own in memory: a tree moves its entries about, and these are large.
#[derive(Debug)]
pub(super) struct Slots {
    records: BTreeMap<Slot, Box<SlotRecord>>,
    /// Those without stored bytes.
    bare: BTreeSet<Slot>,
    /// Those whose transactions may use up the slot after their own as well.
    double: BTreeSet<Slot>,
    touched: BTreeSet<Slot>,
    all: bool,
    /// When one of those at rest is to be looked at again, if nothing happens before.
    rest_until: Option<Millis>,
    /// What the slots in no block cost at worst, as counted at the last plan.
    counted: Sum,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            records: BTreeMap::new(),
            bare: BTreeSet::new(),
            double: BTreeSet::new(),
            touched: BTreeSet::new(),
            all: true,
            rest_until: None,
            counted: Sum::ZERO,
        }
    }
}

impl Deref for Slots {
    type Target = BTreeMap<Slot, Box<SlotRecord>>;

    fn deref(&self) -> &Self::Target {
        &self.records
    }
}

impl Slots {
    /// The record, to be changed: the slot is looked at in this turn.
    pub(super) fn get_mut(&mut self, slot: &Slot) -> Option<&mut SlotRecord> {
        let record = self.records.get_mut(slot)?;
        self.touched.insert(*slot);
        Some(record)
    }

    pub(super) fn insert(&mut self, slot: Slot, record: SlotRecord) {
        self.remove(&slot);
        self.touched.insert(slot);
        if record.attempts.is_empty() {
            self.bare.insert(slot);
        }
        self.records.insert(slot, Box::new(record));
    }

    /// The record of a slot that may be new.
    pub(super) fn entry(&mut self, slot: Slot) -> &mut SlotRecord {
        self.touched.insert(slot);
        let bare = &mut self.bare;
        self.records.entry(slot).or_insert_with(|| {
            bare.insert(slot);
            Box::default()
        })
    }

    pub(super) fn remove(&mut self, slot: &Slot) -> Option<SlotRecord> {
        let mut record = self.records.remove(slot)?;
        self.bare.remove(slot);
        self.double.remove(slot);
        self.counted -= Sum::from(std::mem::take(&mut record.work.counted));
        Some(*record)
    }

    /// Bytes for the slot, newer than those it has.
    pub(super) fn add_attempt(&mut self, slot: Slot, attempt: Attempt) {
        self.bare.remove(&slot);
        if let Some(record) = self.get_mut(&slot) {
            // Most have one for ever, and there are many slots.
            record.attempts.reserve_exact(1);
            record.attempts.push(attempt);
        }
    }

    /// Its transaction may use up the slot after it as well.
    pub(super) fn mark_double(&mut self, slot: Slot) {
        self.double.insert(slot);
    }

    /// Slots without stored bytes.
    pub(super) fn bare(&self) -> &BTreeSet<Slot> {
        &self.bare
    }

    pub(super) fn is_double(&self, slot: Slot) -> bool {
        !self.double.is_empty() && self.double.contains(&slot)
    }

    pub(super) fn any_double(&self) -> bool {
        !self.double.is_empty()
    }

    /// The records of slots whose transactions may use up two.
    pub(super) fn double(&self) -> impl Iterator<Item = &SlotRecord> {
        self.double.iter().filter_map(|slot| self.records.get(slot).map(Box::as_ref))
    }

    /// Something came that may concern any slot.
    pub(super) fn look_at_all(&mut self) {
        self.all = true;
    }

    /// The same, if a time has come that one of them waited for.
    pub(super) fn look_at_due(&mut self, now: Millis) {
        self.all |= self.rest_until.is_some_and(|at| at <= now);
    }

    pub(super) fn looks_at_all(&self) -> bool {
        self.all
    }

    /// The slots to look at, in order.
    pub(super) fn to_look_at<R>(&self, range: R) -> Box<dyn Iterator<Item = (Slot, &SlotRecord)> + '_>
    where
        R: RangeBounds<Slot> + 'static,
    {
        if self.all {
            return Box::new(self.records.range(range).map(|(slot, record)| (*slot, record.as_ref())));
        }
        let touched = self.touched.range(range);
        Box::new(touched.filter_map(|slot| Some((*slot, self.records.get(slot)?.as_ref()))))
    }

    /// The same, to be marked as under way. That touches nothing.
    pub(super) fn each_to_look_at<R>(&mut self, range: R, mut look: impl FnMut(Slot, &mut SlotRecord))
    where
        R: RangeBounds<Slot>,
    {
        if self.all {
            self.records.range_mut(range).for_each(|(slot, record)| look(*slot, record));
            return;
        }
        for slot in self.touched.range(range) {
            if let Some(record) = self.records.get_mut(slot) {
                look(*slot, record);
            }
        }
    }

    /// Every record of a range, to be changed in a turn that looks at all of them.
    pub(super) fn each_mut<R>(&mut self, range: R) -> impl Iterator<Item = (&Slot, &mut SlotRecord)>
    where
        R: RangeBounds<Slot>,
    {
        self.records.range_mut(range).map(|(slot, record)| (slot, record.as_mut()))
    }

    /// What the slots cost at worst, each as `cost` says.
    pub(super) fn cost(&self, cost: impl Fn(&SlotRecord) -> U256) -> U256 {
        if self.all {
            return self.records.values().map(|record| cost(record)).fold(U256::ZERO, U256::saturating_add);
        }
        let changed = self.touched.iter().filter_map(|slot| self.records.get(slot));
        let sum = changed
            .fold(self.counted, |sum, record| sum - Sum::from(record.work.counted) + Sum::from(cost(record)));
        sum.saturating_to()
    }

    /// A plan was made: the slots rest, until that time at the latest.
    pub(super) fn rest(&mut self, until: Option<Millis>, cost: impl Fn(&SlotRecord) -> U256) {
        let Self { records, touched, counted, .. } = self;
        let mut count = |record: &mut SlotRecord| {
            let before = record.work.counted;
            record.work.counted = cost(record);
            *counted = *counted - Sum::from(before) + Sum::from(record.work.counted);
        };
        if self.all {
            records.values_mut().for_each(|record| count(record));
            self.rest_until = until;
        } else {
            touched.iter().for_each(|slot| records.get_mut(slot).map_or((), |record| count(record)));
            self.rest_until = [self.rest_until, until].into_iter().flatten().min();
        }
        touched.clear();
        self.all = false;
    }

    /// When one of those at rest is to be looked at again.
    pub(super) fn rest_until(&self) -> Option<Millis> {
        self.rest_until
    }
}
