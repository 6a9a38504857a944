//! Transactions by their id.
//!
//! Each has a place of its own in memory: a tree moves its entries about, and these are large.

use std::collections::BTreeMap;

use crate::TxId;
use crate::transaction::Transaction;

#[derive(Debug, Default)]
pub(super) struct Transactions(BTreeMap<TxId, Box<Transaction>>);

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

    pub(super) fn values(&self) -> impl Iterator<Item = &Transaction> {
        self.0.values().map(Box::as_ref)
    }
}
