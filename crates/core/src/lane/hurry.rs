//! Hurry: a caller's speed-up. The wish is stored with the transaction and fulfilled by the next attempt of its slot, so a
//! crash does not lose it. Any open slot may be sped up, not only the lowest; the ceiling and the pool's rule hold as for
//! every other price.

use super::Lane;
use crate::journal::Entry;
use crate::request::{AskedFees, Speed};
use crate::transaction::Hurry;
use crate::{Millis, Slot, TxId};

impl Lane {
    pub(super) fn speed_up(&mut self, id: TxId, fees: AskedFees, speed: Option<Speed>, now: Millis) {
        let over = self.bound.get(&id).and_then(|tx| tx.status.slot).and_then(|slot| self.over(slot));
        if !self.bound.contains_key(&id) {
            // What is being signed has the old price.
            self.stop_signing(id);
        }
        let tx = match self.bound.get_mut(&id) {
            Some(tx) => tx,
            None => match self.waiting.by_id_mut(id) {
                Some(waiting) => &mut waiting.tx,
                None => return,
            },
        };
        tx.status.terms.speed = speed.or(tx.status.terms.speed);
        tx.status.hurry = Some(Hurry { over, fees });
        let mut tx = tx.clone();
        self.changes.tx(&mut tx, now);
        self.changes.journal(Some(id), now, Entry::SpeedUpAsked { fees, speed });
        if let Some(record) = tx.status.slot.and_then(|slot| self.slots.get_mut(&slot)) {
            record.work.at_ceiling = None;
            record.work.sign_at = now;
        }
    }

    /// The newest attempt of a slot, also one that is being signed: it was priced before the wish.
    fn over(&self, slot: Slot) -> Option<(Slot, u32)> {
        let record = self.slots.get(&slot)?;
        let newest = record.attempts.last().map(|attempt| attempt.ordinal);
        match (newest, record.work.signing) {
            (Some(newest), None) => Some((slot, newest)),
            (Some(newest), Some(_)) => Some((slot, newest.saturating_add(1))),
            (None, Some(_)) => Some((slot, 0)),
            (None, None) => None,
        }
    }

    /// A caller wants a dearer attempt than the newest one of this slot.
    pub(super) fn is_hurried(&self, slot: Slot) -> bool {
        let Some(record) = self.slots.get(&slot) else { return false };
        let tx = record.tx.and_then(|id| self.bound.get(&id));
        let newest = record.attempts.last();
        tx.zip(newest).is_some_and(|(tx, newest)| tx.is_hurried_over(slot, newest.ordinal))
    }
}
