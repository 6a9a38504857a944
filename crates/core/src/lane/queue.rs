//! The waiting transactions that are in memory, in the order in which they were accepted.
//!
//! They are many where a queue is long, and a turn must not go through all of them. So those to which a slot can be given are
//! kept apart from those about which something has still to be found out, and those that are new in a turn, or ready for
//! the first time, are known: what was judged before is judged again only when the chain has moved.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Deref};

use super::Prep;
use super::transactions::ById;
use crate::transaction::Transaction;
use crate::{QueueOrder, TxId};

type Place = (QueueOrder, TxId);

/// A transaction without a slot.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) tx: Transaction,
    prep: Prep,
}

impl Waiting {
    pub(super) fn prep(&self) -> &Prep {
        &self.prep
    }
}

/// It is to follow another one, or looks like something that has landed.
fn may_wait_for_others(tx: &Transaction) -> bool {
    tx.request.options.after.is_some() || tx.status.held.is_some()
}

/// The oldest waiting ones; more may be in the store. Each has a place of its own in memory, as slots do. It is read as a map; changes go through what is here.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<Place, Box<Waiting>>,
    orders: ById<QueueOrder>,
    ready: BTreeSet<Place>,
    /// Neither ready nor being signed.
    unready: BTreeSet<Place>,
    /// Came, or became ready, since the last turn.
    fresh: BTreeSet<Place>,
    /// How many have callers that wait for their hash.
    hurried: usize,
    /// How many are to follow another one, or may have to wait for a person.
    followers: usize,
    /// One of them has left or is not what it was; more coming is no such change.
    changed: bool,
}

impl Deref for Queue {
    type Target = BTreeMap<Place, Box<Waiting>>;

    fn deref(&self) -> &Self::Target {
        &self.waiting
    }
}

impl Queue {
    pub(super) fn add(&mut self, tx: Transaction, prep: Prep) {
        self.take(tx.id);
        let place = (tx.order, tx.id);
        self.orders.insert(tx.id, tx.order);
        self.hurried += usize::from(tx.request.at_once.is_some());
        self.followers += usize::from(may_wait_for_others(&tx));
        self.fresh.insert(place);
        self.file(place, &prep);
        self.waiting.insert(place, Box::new(Waiting { tx, prep }));
    }

    pub(super) fn take(&mut self, id: TxId) -> Option<Waiting> {
        let place = (self.orders.remove(&id)?, id);
        let waiting = self.waiting.remove(&place)?;
        self.changed = true;
        self.hurried -= usize::from(waiting.tx.request.at_once.is_some());
        self.followers -= usize::from(may_wait_for_others(&waiting.tx));
        for set in [&mut self.ready, &mut self.unready, &mut self.fresh] {
            set.remove(&place);
        }
        Some(*waiting)
    }

    /// Changes a transaction in a way that others look at.
    pub(super) fn change(&mut self, id: TxId, change: impl FnOnce(&mut Transaction)) {
        if let Some(Waiting { mut tx, prep }) = self.take(id) {
            change(&mut tx);
            self.add(tx, prep);
        }
    }

    pub(super) fn contains(&self, id: TxId) -> bool {
        self.orders.contains_key(&id)
    }

    fn at(&self, place: &Place) -> Option<&Waiting> {
        self.waiting.get(place).map(Box::as_ref)
    }

    pub(super) fn by_id(&self, id: TxId) -> Option<&Waiting> {
        self.at(&(*self.orders.get(&id)?, id))
    }

    pub(super) fn by_id_mut(&mut self, id: TxId) -> Option<&mut Waiting> {
        self.changed = true;
        self.waiting.get_mut(&(*self.orders.get(&id)?, id)).map(Box::as_mut)
    }

    pub(super) fn set_prep(&mut self, id: TxId, prep: Prep) {
        let Some(place) = self.orders.get(&id).map(|order| (*order, id)) else { return };
        self.changed = true;
        self.ready.remove(&place);
        self.unready.remove(&place);
        self.file(place, &prep);
        if let Some(waiting) = self.waiting.get_mut(&place) {
            waiting.prep = prep;
        }
    }

    fn file(&mut self, place: Place, prep: &Prep) {
        match prep {
            Prep::Ready { .. } => {
                self.ready.insert(place);
                self.fresh.insert(place);
            }
            Prep::New | Prep::Running { .. } | Prep::Retry { .. } => {
                self.unready.insert(place);
            }
            Prep::Signing { .. } => {}
        }
    }

    /// Those to which a slot can be given, oldest first, before a place in the queue or all of them.
    pub(super) fn ready(&self, before: Option<Place>) -> impl Iterator<Item = &Waiting> {
        let end = before.map_or(Bound::Unbounded, Bound::Excluded);
        self.ready.range((Bound::Unbounded, end)).filter_map(|place| self.at(place))
    }

    /// A slot can be given to one of them.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Those about which something has to be found out, oldest first.
    pub(super) fn unready(&self) -> impl Iterator<Item = (Place, &Waiting)> {
        self.unready.iter().filter_map(|place| Some((*place, self.at(place)?)))
    }

    /// Those that came or became ready since the last turn, or all of them.
    pub(super) fn to_judge(&self, all: bool) -> Box<dyn Iterator<Item = &Waiting> + '_> {
        if all {
            return Box::new(self.waiting.values().map(Box::as_ref));
        }
        Box::new(self.fresh.iter().filter_map(|place| self.at(place)))
    }

    /// All were judged.
    pub(super) fn judged(&mut self) {
        self.fresh.clear();
    }

    /// How many are not being signed.
    pub(super) fn unsigned(&self) -> usize {
        self.ready.len() + self.unready.len()
    }

    /// Has one of them left, or become another, since this was last asked?
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Somebody waits for the hash of one of them.
    pub(super) fn hurries(&self) -> bool {
        self.hurried > 0
    }

    /// One of them may be to follow another transaction.
    pub(super) fn has_followers(&self) -> bool {
        self.followers > 0
    }
}
