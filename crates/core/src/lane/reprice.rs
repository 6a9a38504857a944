//! Re-price: a slot gets a dearer attempt (E7, E8, F8).
//!
//! Only the lowest open slot is re-priced for being slow, since none above it can land first; any slot is when a node
//! refused its newest attempt as too cheap, or when its transaction has a newer content (a cancel's no-op). Every
//! replacement beats all live attempts of its slot. While the chain makes no blocks nothing is re-priced.

use super::{Lane, Plan};
use crate::attempt::{Call, Draft};
use crate::fees::replacement_price;
use crate::journal::Entry;
use crate::outcome::SendOutcome;
use crate::request::Speed;
use crate::{ContentVersion, Millis, Slot};

impl Lane {
    pub(super) fn reprice(&mut self, plan: &mut Plan, now: Millis) -> Vec<Draft> {
        let Some(count) = self.chain_count().filter(|_| self.may_send()) else { return Vec::new() };
        let open: Vec<Slot> = self
            .slots
            .range(count..)
            .filter(|(_, r)| r.mined.is_none() && !r.work.signing && !r.attempts.is_empty())
            .map(|(slot, _)| *slot)
            .collect();
        let mut drafts = Vec::new();
        for (position, slot) in open.into_iter().enumerate() {
            if self.wants_new_content(slot) || self.refused_as_cheap(slot) {
                drafts.extend(self.replacement(slot, plan, now));
            } else if position == 0
                && let Some(stalls_at) = self.stalls_at(slot)
            {
                if stalls_at > now {
                    plan.wake(stalls_at);
                } else if self.chain_moves(now) {
                    drafts.extend(self.replacement(slot, plan, now));
                }
            }
        }
        drafts
    }

    /// The transaction's newest content has no bytes yet.
    fn wants_new_content(&self, slot: Slot) -> bool {
        let Some(record) = self.slots.get(&slot) else { return false };
        let Some(tx) = record.tx.and_then(|id| self.bound.get(&id)) else { return false };
        record.attempts.last().is_some_and(|newest| newest.version < tx.version())
    }

    fn refused_as_cheap(&self, slot: Slot) -> bool {
        self.slots.get(&slot).is_some_and(|record| record.work.reprice_now && !record.work.at_ceiling)
    }

    /// When this slot counts as stalled: an interval after its newest attempt and after anything last moved.
    fn stalls_at(&self, slot: Slot) -> Option<Millis> {
        let record = self.slots.get(&slot)?;
        let newest = record.attempts.last()?;
        if record.work.at_ceiling || record.attempts.len() as u64 >= u64::from(self.settings.max_attempts) {
            return None;
        }
        newest.hints.first_sent_at?;
        // A dearer attempt is the last thing that an account without funds can pay (E7).
        let refused = newest.hints.last.as_ref().map(|last| last.outcome);
        if refused == Some(SendOutcome::InsufficientFunds) {
            return None;
        }
        Some(newest.created_at.max(self.moved_at).after(self.settings.resubmit_after))
    }

    /// A head came within the interval.
    fn chain_moves(&self, now: Millis) -> bool {
        self.view.as_ref().is_some_and(|view| now.since(view.head_since) < self.settings.resubmit_after)
    }

    fn replacement(&mut self, slot: Slot, plan: &mut Plan, now: Millis) -> Option<Draft> {
        let view = self.view.clone()?;
        let record = self.slots.get(&slot)?;
        if record.work.sign_at > now {
            plan.wake(record.work.sign_at);
            return None;
        }
        let newest = record.attempts.last()?;
        let tx = record.tx.and_then(|id| self.bound.get(&id));
        let no_op = tx.is_none_or(|tx| tx.is_no_op());
        let gas = match (no_op, newest.no_op) {
            (true, false) => self.no_op_gas?,
            _ => newest.gas,
        };
        let ceiling = if no_op { self.settings.max_fee } else { self.ceiling(tx) };
        let speed = tx.map_or(Speed::Normal, |tx| tx.request.options.speed);
        let live = self.live_fees(slot);
        let price = replacement_price(&live, &view.fees, speed, self.settings.bump_percent, ceiling, no_op);
        let call = tx.map_or_else(|| Call::no_op(self.id.signer), |tx| tx.call());
        let version = tx.map_or(ContentVersion::FIRST, |tx| tx.version());
        let tx = record.tx;
        let fees = match price {
            Ok(fees) => fees,
            Err(at) => {
                let entry = Entry::AtCeiling { slot, needed: at.needed, ceiling: at.ceiling };
                self.changes.journal_hint(tx, now, entry);
                self.slots.get_mut(&slot)?.work.at_ceiling = true;
                return None;
            }
        };
        let serial = self.serial();
        self.slots.get_mut(&slot)?.work.signing = true;
        Some(Draft { serial, lane: self.id, slot, tx, version, no_op, call, gas, fees })
    }
}
