//! Funds: what an account must be able to pay before a slot is taken (E16, R4).
//!
//! A pool adds up the worst cost of everything an account has in it, so that sum is what is compared with the balance,
//! at the block of the view. A transaction that does not fit waits, says so, and lets cheaper ones go first; it goes on
//! by itself when funds come. One whose caller asked to fail then fails, if the whole balance could not pay it.
//! A balance that is not known is no reason to wait.

use alloy_primitives::U256;

use super::{Lane, Prep, Waiting};
use crate::Gas;
use crate::fees::{Fees, first_price};
use crate::journal::Entry;
use crate::request::OnInsufficientFunds;
use crate::transaction::{ReasonCode, Transaction};
use crate::{Millis, TxId, Wei};

/// The most that an attempt can cost.
pub(super) fn worst_cost(fees: &Fees, gas: Gas, value: Wei) -> U256 {
    fees.cap().cost(gas).0.saturating_add(value.0)
}

impl Lane {
    /// What is left of the balance when everything out has cost its worst. None if the balance is not known.
    pub(super) fn funds_left(&self) -> Option<U256> {
        let balance = self.view.as_ref()?.balances.get(&self.id.signer)?;
        let out = self.slots.values().filter(|record| record.mined.is_none()).filter_map(|record| {
            let cost =
                |attempt: &crate::attempt::Attempt| worst_cost(&attempt.fees, attempt.gas, attempt.value);
            record.attempts.iter().map(cost).max()
        });
        let signing = self.tentative.values().map(|tentative| tentative.cost);
        let committed = out.chain(signing).fold(U256::ZERO, U256::saturating_add);
        Some(balance.0.saturating_sub(committed))
    }

    /// What a transaction's first attempt can cost at most.
    pub(super) fn first_cost(&self, tx: &Transaction, gas: Gas) -> Option<U256> {
        let quote = &self.view.as_ref()?.fees;
        let fees = first_price(quote, tx.request.options.speed, tx.payload().fees, self.ceiling(Some(tx)));
        Some(worst_cost(&fees, gas, tx.payload().value))
    }

    /// Ready, and dearer than what is left: how much it needs and how much there is.
    pub(super) fn lacks_funds(&self, waiting: &Waiting, left: Option<U256>) -> Option<(U256, U256)> {
        let Prep::Ready { gas } = waiting.prep else { return None };
        let needs = self.first_cost(&waiting.tx, gas)?;
        let left = left?;
        (needs > left).then_some((needs, left))
    }

    /// Writes down, once, that the account has too little: at or below its threshold, or less than a transaction that
    /// waits needs; and, once, that it has enough again.
    pub(super) fn note_funds(&mut self, now: Millis) {
        let Some(balance) = self.view.as_ref().and_then(|view| view.balances.get(&self.id.signer)).copied()
        else {
            return;
        };
        let threshold = self.settings.low_balance.filter(|threshold| balance <= *threshold);
        let left = self.funds_left();
        let needs =
            self.waiting.values().filter_map(|waiting| self.lacks_funds(waiting, left)).map(|(n, _)| n);
        let needs = needs.min().map(Wei);
        let low = threshold.or(needs).is_some();
        if low && !self.funds_low {
            let text = match (threshold, needs) {
                (Some(threshold), _) => {
                    format!("the balance is {balance} wei, and the threshold {threshold}")
                }
                (None, needs) => format!(
                    "the balance is {balance} wei, and beside what is out a transaction that waits needs {}",
                    needs.unwrap_or_default()
                ),
            };
            self.changes.journal(None, now, Entry::LowBalance { balance, text });
        } else if !low && self.funds_low {
            self.changes.journal(None, now, Entry::BalanceRestored { balance });
        }
        self.funds_low = low;
    }

    /// Ends those whose own gas no block can hold: at admission the limit may not have been known yet.
    pub(super) fn fail_unholdable(&mut self, now: Millis) {
        let Some(limit) = self.live_view().map(|view| view.head.gas_limit) else { return };
        let too_much = |waiting: &Waiting| {
            let gas = waiting.tx.payload().gas.filter(|gas| *gas > limit)?;
            Some((waiting.tx.id, gas))
        };
        let ended: Vec<_> = self.waiting.values().filter_map(too_much).collect();
        for (id, gas) in ended {
            let text = format!("its gas of {gas} is above the block gas limit of {limit}");
            self.fail_waiting(id, ReasonCode::Invalid, text, now);
        }
    }

    /// Ends those that the whole balance could not pay and whose callers do not want to wait.
    pub(super) fn fail_unpayable(&mut self, now: Millis) {
        let Some(balance) = self.view.as_ref().and_then(|view| view.balances.get(&self.id.signer)).copied()
        else {
            return;
        };
        let unpayable = |waiting: &Waiting| -> Option<(TxId, U256)> {
            let Prep::Ready { gas } = waiting.prep else { return None };
            let fails = waiting.tx.request.options.on_insufficient_funds == OnInsufficientFunds::Fail;
            let needs = self.first_cost(&waiting.tx, gas)?;
            (fails && needs > balance.0).then_some((waiting.tx.id, needs))
        };
        let ended: Vec<_> = self.waiting.values().filter_map(unpayable).collect();
        for (id, needs) in ended {
            let text = format!("the account has {balance} wei and it needs up to {needs}");
            self.fail_waiting(id, ReasonCode::InsufficientFunds, text, now);
        }
    }
}
