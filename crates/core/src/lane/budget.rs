//! Budget: what the fees of a lane may come to in a day (D8, L5).
//!
//! Counted are the fees of everything that became final today, and the worst of everything that is out; on a rollup with what
//! it charges for bytes on its parent chain. A receipt that does not tell that is counted at its bound. Above the
//! budget no slot is handed out, nothing is re-priced, and a slot that was reserved before the market rose is given
//! back; bytes that are out go on being sent, and no-ops are always allowed, so that a cancel works and no slot stays
//! open.
//!
//! A day is one of UTC by block time, which no clock of ours can move. What was counted for a day that the head has not
//! reached counts as well: a head may go back over midnight (a reorganisation, a node that is behind). One that lies further
//! ahead was written by a clock that was off, and is taken for today, or the budget would never be whole again.

use alloy_primitives::U256;

use super::funds::{draft_bytes, unsigned_bytes};
use super::{Expected, Lane, Means, Prep, SlotRecord, Waiting};
use crate::attempt::{Attempt, Draft};
use crate::fees::{Fees, first_price};
use crate::view::{ChainStatus, Receipt};
use crate::{Gas, Millis, Slot, Wei};

const DAY_MS: u64 = 86_400_000;

/// The most that an attempt's fee can be; `data` is what its bytes cost on top, where the chain is a rollup.
pub(super) fn worst_fee(fees: &Fees, gas: Gas, data: U256) -> U256 {
    fees.cap().cost(gas).0.saturating_add(data)
}

impl Lane {
    /// Which day the chain has. None: it has shown nothing yet, or is another chain.
    fn day(&self) -> Option<u64> {
        let view = self.view.as_ref().filter(|view| view.status == ChainStatus::Live)?;
        Some(view.time()?.0 / DAY_MS)
    }

    /// A day that the chain cannot have meant is today.
    pub(super) fn mend_day(&mut self) {
        let Some(day) = self.day().filter(|_| !self.planted_stored_day()) else { return };
        if self.row.spend.day > day.saturating_add(1) {
            self.row.spend.day = day;
            self.changes.row();
        }
    }

    /// The most that so many bytes cost on top of gas.
    pub(super) fn data_fee(&self, bytes: usize) -> U256 {
        let view = self.view.as_ref().filter(|_| !self.planted_no_data_fee());
        view.map_or(U256::ZERO, |view| view.fees.data_cost(bytes))
    }

    /// The fee for bytes of what became final, as its receipt tells it, or at most.
    fn data_fee_of(&self, slot: Slot, receipt: &Receipt) -> U256 {
        let told = receipt.data_fee.filter(|_| !self.planted_no_data_fee()).map(|fee| fee.0);
        told.unwrap_or_else(|| {
            let mut attempts = self.slots.get(&slot).into_iter().flat_map(|record| &record.attempts);
            let winner = attempts.find(|attempt| attempt.hash == receipt.hash);
            winner.map_or(U256::ZERO, |winner| self.data_fee(winner.raw.len()))
        })
    }

    /// What became final has its price.
    pub(super) fn spend(&mut self, slot: Slot, receipt: &Receipt, now: Millis) {
        let data = self.data_fee_of(slot, receipt);
        let day = self.planted_day(self.day().unwrap_or_default(), now.0 / DAY_MS);
        if self.row.spend.day < day {
            self.row.spend.day = day;
            self.row.spend.fees = Wei::default();
        }
        let fee = receipt.gas_price.cost(receipt.gas_used).0.saturating_add(data);
        self.row.spend.fees = Wei(self.row.spend.fees.0.saturating_add(fee));
    }

    /// What is left of today's budget when everything out has cost its worst. None: there is no budget.
    pub(super) fn budget_left(&self) -> Option<U256> {
        let budget = self.settings.max_spend_per_day?;
        // Before the chain has shown a day, nothing is known to be left of it.
        let Some(day) = self.day() else { return Some(U256::ZERO) };
        let settled = if self.row.spend.day >= day { self.row.spend.fees.0 } else { U256::ZERO };
        if self.planted_budget() {
            return Some(budget.0.saturating_sub(settled));
        }
        let out = self.slots.values().map(|record| self.slot_fee(record));
        let signing = self.tentative.values().map(|tentative| tentative.fee);
        let committed = out.chain(signing).fold(settled, U256::saturating_add);
        Some(budget.0.saturating_sub(committed))
    }

    /// Gives reserved slots back whose first attempt would go beyond the budget. What is above them must not wait until
    /// tomorrow: somebody else takes the slot, or a no-op does, which is always allowed.
    pub(super) fn give_back_dear(&mut self, now: Millis) {
        let (Some(mut left), Some(view)) = (self.budget_left(), self.live_view()) else { return };
        for slot in self.unsigned_slots() {
            let Some(record) = self.slots.get(&slot) else { continue };
            let Some(draft) = self.first_draft(slot, record, &view).filter(|draft| !draft.no_op) else {
                continue;
            };
            let (before, expected) = (self.slot_fee(record), self.expected(&draft));
            let fee = expected.fee;
            // What is kept for it now is free for others, if not for itself.
            left = left.saturating_add(before);
            if fee <= left {
                left -= fee;
                if fee != before
                    && let Some(record) = self.slots.get_mut(&slot)
                {
                    record.work.expected = Some(Box::new(expected));
                }
            } else if let Some(id) = draft.tx {
                self.unreserve(id, now);
                // An estimate may fail today what it passed yesterday; it is only asked again where each content is checked.
                if !self.settings.checks {
                    self.waiting.set_prep(id, Prep::Ready { gas: draft.gas });
                }
            }
        }
    }

    /// There is a budget, and the price of a reserved slot is not known yet (its estimate went with a restart): what is left may be
    /// its own.
    pub(super) fn awaits_prices(&self) -> bool {
        let Some(view) = self.live_view().filter(|_| self.settings.max_spend_per_day.is_some()) else {
            return false;
        };
        let is_priced = |slot: &Slot| {
            let record = self.slots.get(slot);
            record.is_none_or(|record| self.first_draft(*slot, record, &view).is_some())
        };
        !self.unsigned_slots().iter().all(is_priced)
    }

    /// A dearer attempt for a slot would go beyond the budget.
    pub(super) fn beyond_budget(&self, record: &SlotRecord, draft_fee: U256) -> bool {
        let more = draft_fee.saturating_sub(self.slot_fee(record));
        self.budget_left().is_some_and(|left| more > left)
    }

    /// Ready, and its fee is more than what is left of today's budget: how much it needs and how much there is.
    pub(super) fn lacks_budget(&self, waiting: &Waiting, left: Option<U256>) -> Option<(U256, U256)> {
        let (Prep::Ready { gas }, Some(left)) = (waiting.prep(), left) else { return None };
        let (tx, quote) = (&waiting.tx, &self.view.as_ref()?.fees);
        let fees = first_price(quote, tx.speed(), tx.asked_fees(), self.ceiling(Some(tx)));
        let fee = worst_fee(&fees, *gas, self.data_fee(unsigned_bytes(tx)));
        (fee > left).then_some((fee, left))
    }

    /// What may be spent now.
    pub(super) fn means(&self) -> Means {
        Means { funds: self.funds_left(), budget: self.budget_left() }
    }

    /// The worst that the attempts of a slot can cost, the one that is being signed or is still to be signed among them:
    /// the chain takes one.
    pub(super) fn slot_fee(&self, record: &SlotRecord) -> U256 {
        let fee = |attempt: &Attempt| worst_fee(&attempt.fees, attempt.gas, self.data_fee(attempt.raw.len()));
        let stored = record.attempts.iter().map(fee).max();
        let is_expected = record.work.signing.is_some() || record.attempts.is_empty();
        let signing = record.work.expected.as_ref().filter(|_| is_expected).map(|expected| expected.fee);
        stored.max(signing).unwrap_or_default()
    }

    /// A draft, at worst.
    pub(super) fn expected(&self, draft: &Draft) -> Expected {
        let fee = worst_fee(&draft.fees, draft.gas, self.data_fee(draft_bytes(draft)));
        Expected { fee, cost: self.draft_cost(draft) }
    }
}
