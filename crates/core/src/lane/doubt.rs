//! Doubt: a verdict that ends a transaction for good rests on facts that were read for it.
//!
//! What a lane knows of its account may be old, and a node that estimates may be behind the others. So the first no ends nothing:
//! the newest head is asked for, and the account at it, and then it is judged again.
//!
//! | who said no | who must say it again, once the facts have come |
//! |---|---|
//! | the balance, or the gas limit of a block | the ones that came |
//! | an estimate | another estimate, begun after they came |

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Lane, Prep};
use crate::view::Look;
use crate::{Millis, TxId};

/// So long an estimate is not asked for again, unless the facts come before.
pub(super) const FACTS_WAIT: Duration = Duration::from_secs(5);

/// Who said no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum By {
    Facts,
    Estimate,
}

/// How far the facts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    New,
    /// Only later looks count.
    Asked(Look),
    Answered,
}

/// The transactions that something said no to.
#[derive(Debug, Default)]
pub(super) struct Doubts(BTreeMap<(TxId, By), Doubt>);

impl Doubts {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Facts are to be asked for.
    pub(super) fn has_new(&self) -> bool {
        self.0.values().any(|doubt| *doubt == Doubt::New)
    }

    /// The facts that are known say no to it.
    pub(super) fn is_doubtful(&self, id: TxId) -> bool {
        !self.0.is_empty() && self.0.contains_key(&(id, By::Facts))
    }

    /// Those to which the facts said no.
    pub(super) fn by_facts(&self) -> impl Iterator<Item = TxId> + '_ {
        self.0.keys().filter(|(_, by)| *by == By::Facts).map(|(id, _)| *id)
    }
}

impl Lane {
    /// Somebody says no to this transaction. True if that rests on facts that were read for it.
    pub(super) fn is_certain(&mut self, id: TxId, by: By) -> bool {
        *self.doubts.0.entry((id, by)).or_insert(Doubt::New) == Doubt::Answered
            || self.planted_stale_verdict()
    }

    /// Nobody says no any more, or nobody can say.
    pub(super) fn no_doubt(&mut self, id: TxId, by: By) {
        if !self.doubts.is_empty() {
            self.doubts.0.remove(&(id, by));
        }
    }

    /// It has left, or is another: what was said of it says nothing.
    pub(super) fn forget_doubts(&mut self, id: TxId) {
        self.no_doubt(id, By::Facts);
        self.no_doubt(id, By::Estimate);
    }

    /// An estimate said no for the first time: it is asked for again when the facts have come.
    pub(super) fn estimate_anew(&mut self, id: TxId, tries: u32, why: String, now: Millis) {
        let at = now.after(FACTS_WAIT);
        self.waiting.set_prep(id, Prep::Retry { tries: tries.saturating_add(1), at, why });
    }

    /// The facts were asked for; looks that have begun before do not count.
    pub fn asked(&mut self, begun: Look) {
        for doubt in self.doubts.0.values_mut().filter(|doubt| **doubt == Doubt::New) {
            *doubt = Doubt::Asked(begun);
        }
    }

    /// The account was read by this look.
    pub(super) fn take_facts(&mut self, read: Look, now: Millis) {
        if self.doubts.is_empty() {
            return;
        }
        let is_here = |id: &TxId| self.waiting.contains(*id) || self.bound.contains_key(id);
        self.doubts.0.retain(|(id, _), _| is_here(id));
        for ((id, by), doubt) in &mut self.doubts.0 {
            if !matches!(*doubt, Doubt::Asked(begun) if begun < read) {
                continue;
            }
            let answered = match by {
                By::Facts => true,
                // One that is under way began before the facts came.
                By::Estimate => may_estimate(&mut self.waiting, &mut self.slots, &self.bound, *id, now),
            };
            if answered {
                *doubt = Doubt::Answered;
            }
        }
    }
}

/// Lets the estimate of a transaction be asked for at once; not if one is under way.
fn may_estimate(
    waiting: &mut super::Queue,
    slots: &mut super::slots::Slots,
    bound: &super::Transactions,
    id: TxId,
    now: Millis,
) -> bool {
    if let Some(Prep::Retry { tries, why, .. }) = waiting.by_id(id).map(|waiting| waiting.prep().clone()) {
        waiting.set_prep(id, Prep::Retry { tries, at: now, why });
        return true;
    }
    let slot = bound.get(&id).and_then(|tx| tx.status.slot);
    let Some(record) = slot.and_then(|slot| slots.get_mut(&slot)) else { return false };
    let work = &mut record.work;
    if record.attempts.is_empty() {
        work.sign_at = if work.estimating { work.sign_at } else { now };
        return !work.estimating;
    }
    // A new content of a slot with stored bytes.
    if let Prep::Retry { at, .. } = &mut work.fresh {
        *at = now;
    }
    !matches!(work.fresh, Prep::Running { .. })
}
