//! Transactions by their id.
//!
//! A lane looks them up for every slot that it looks at, so they are found by a hash. Each has a place of its own in memory:
//! they are large, and a map moves its entries about.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::TxId;
use crate::transaction::Transaction;

/// A map by id, in an order that says nothing and is the same in every run.
pub(super) type ById<T> = HashMap<TxId, T, BuildHasherDefault<IdHasher>>;

/// Half of an id is random bits of this program's own making, so nobody can choose ids that meet in one place.
#[derive(Debug, Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        // The fractional part of the golden ratio, which spreads what differs in few bits.
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[derive(Debug, Default)]
pub(super) struct Transactions(ById<Box<Transaction>>);

impl Transactions {
    pub(super) fn insert(&mut self, tx: Transaction) {
        self.0.insert(tx.id, Box::new(tx));
    }

    pub(super) fn remove(&mut self, id: &TxId) -> Option<Transaction> {
        self.0.remove(id).map(|tx| *tx)
    }

    pub(super) fn get(&self, id: &TxId) -> Option<&Transaction> {
        self.0.get(id).map(Box::as_ref)
    }

    pub(super) fn get_mut(&mut self, id: &TxId) -> Option<&mut Transaction> {
        self.0.get_mut(id).map(Box::as_mut)
    }

    pub(super) fn contains_key(&self, id: &TxId) -> bool {
        self.0.contains_key(id)
    }

    /// In no order.
    pub(super) fn values(&self) -> impl Iterator<Item = &Transaction> {
        self.0.values().map(Box::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::Hash as _;

    use super::*;
    use crate::Millis;

    /// As many places as a map of that size has, and the bits by which it tells apart what meets in one.
    #[test]
    fn ids_of_one_moment_are_spread() {
        let (mut places, mut marks) = (BTreeSet::new(), BTreeSet::new());
        for n in 0..4_096_u128 {
            let mut hasher = IdHasher::default();
            TxId::new(Millis(1_700_000_000_000), n.wrapping_mul(0x2545_f491_4f6c_dd1d_9e37_79b9))
                .hash(&mut hasher);
            places.insert(hasher.finish() & 4_095);
            marks.insert(hasher.finish() >> 57);
        }
        // Of so many at random, 63 of a hundred places are taken.
        assert!(places.len() > 2_400, "{}", places.len());
        assert_eq!(marks.len(), 128);
    }
}
