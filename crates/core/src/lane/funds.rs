//! Funds: what an account must be able to pay before a slot is taken (E16, R4).
//!
//! A pool adds up the worst cost of everything an account has in it, so that sum is what is compared with the balance,
//! at the block of the view. A transaction that does not fit waits, says so, and lets cheaper ones go first; it goes on
//! by itself when funds come. One whose caller asked to fail then fails, if the whole balance could not pay it: a balance that was
//! read after that was found out ([`super::doubt`]).
//!
//! A bump offers no more than can be paid beside what else is out, and is not signed where that is less than pools ask for; what
//! costs no more than the slot's own attempts (a cancel, most often) can be signed as far as the balance goes. If the balance
//! falls below what the newest attempt of the lowest slot may cost, nodes drop that one: the dearest attempt of the same content
//! that can still be paid is sent beside it.
//!
//! A balance that is not known is no reason to wait.

use alloy_primitives::U256;

use super::doubt::By;
use super::keep::current;
use super::{Lane, Outgoing, Plan, Prep, SlotRecord, Waiting};
use crate::attempt::{Attempt, Draft, Sealed};
use crate::fees::{Fees, first_price};
use crate::journal::Entry;
use crate::request::{AccessItem, OnInsufficientFunds};
use crate::transaction::{Ending, ReasonCode, Transaction};
use crate::view::ChainView;
use crate::{Account, Gas, Millis, Price, Slot, TxId, Wei};

/// A no-op's bytes with its signature, and what an envelope adds to data.
pub(super) const NO_OP_BYTES: usize = 200;
/// A storage key, or an address, in a signed transaction.
const WORD_BYTES: usize = 33;
const AUTHORIZATION_BYTES: usize = 130;

/// The most that an attempt can cost; `data` is what its bytes cost on top, where the chain is a rollup.
pub(super) fn worst_cost(fees: &Fees, gas: Gas, value: Wei, data: U256) -> U256 {
    fees.cap().cost(gas).0.saturating_add(value.0).saturating_add(data)
}

/// At least as many bytes as a transaction will have when it is signed.
pub(super) fn unsigned_bytes(tx: &Transaction) -> usize {
    let payload = tx.payload();
    signed_bytes(&payload.data, &payload.access_list, payload.authorization_list.len())
}

/// The same for a draft.
pub(super) fn draft_bytes(draft: &Draft) -> usize {
    let call = &draft.call;
    signed_bytes(&call.data, &call.access_list, call.authorization_list.len())
}

fn signed_bytes(data: &[u8], access_list: &[AccessItem], authorizations: usize) -> usize {
    let words: usize = access_list.iter().map(|item| 1 + item.storage_keys.len()).sum();
    NO_OP_BYTES + data.len() + words * WORD_BYTES + authorizations * AUTHORIZATION_BYTES
}

/// The most that one attempt can cost.
fn attempt_cost(attempt: &Attempt, view: &ChainView) -> U256 {
    let data = view.fees.data_cost(attempt.raw.len());
    worst_cost(&attempt.fees, attempt.gas, attempt.value, data)
}

/// The most that a slot in no block can cost, with the attempt that is being signed or still to be: the chain takes one.
fn slot_cost(record: &SlotRecord, view: &ChainView) -> U256 {
    if record.mined.is_some() {
        return U256::ZERO;
    }
    let stored = record.attempts.iter().map(|attempt| attempt_cost(attempt, view)).max().unwrap_or_default();
    match &record.work.expected {
        Some(expected) if record.work.signing.is_some() || record.attempts.is_empty() => {
            stored.max(expected.cost)
        }
        Some(_) | None => stored,
    }
}

impl Lane {
    /// Everything that was to be done is under way: the slots rest until something happens, or until the first of them is to be
    /// thought of again.
    pub(super) fn rest(&mut self, plan: &mut Plan) {
        let Some(view) = &self.view else { return };
        self.slots.rest(plan.wake_at, |record| slot_cost(record, view));
        if let Some(at) = self.slots.rest_until() {
            plan.wake(at);
        }
    }

    /// What is left of the balance when everything out has cost its worst. None if the balance is not known.
    pub(super) fn funds_left(&self) -> Option<U256> {
        let view = self.view.as_ref()?;
        let balance = view.balance(&self.id.signer)?;
        Some(balance.0.saturating_sub(self.funds_out(view)))
    }

    /// What everything out, and everything that is being signed, costs at worst.
    fn funds_out(&self, view: &ChainView) -> U256 {
        let out = self.slots.cost(|record| slot_cost(record, view));
        self.tentative.values().map(|tentative| tentative.cost).fold(out, U256::saturating_add)
    }

    /// What another attempt of this slot may cost: as much as what else is out leaves of the balance, or as what is out for the slot
    /// itself, which takes nothing from others. None if the balance is not known.
    fn funds_for(&self, record: &SlotRecord) -> Option<U256> {
        let view = self.view.as_ref()?;
        let balance = view.balance(&self.id.signer)?.0;
        let own = slot_cost(record, view);
        let others = self.funds_out(view).saturating_sub(own);
        Some(balance.saturating_sub(others).max(own.min(balance)))
    }

    /// The most that another attempt of this slot can offer per gas. None if the balance is not known.
    pub(super) fn most_payable(&self, record: &SlotRecord, draft: &Draft) -> Option<Price> {
        let view = self.view.as_ref().filter(|_| !self.planted_unpaid_bump())?;
        let data = view.fees.data_cost(draft_bytes(draft));
        let others = draft.call.value.0.saturating_add(data);
        let for_gas = self.funds_for(record)?.saturating_sub(others);
        let price = for_gas.checked_div(U256::from(draft.gas.0)).unwrap_or(U256::MAX);
        Some(Price(price.saturating_to()))
    }

    /// The cost of a draft at worst.
    pub(super) fn draft_cost(&self, draft: &Draft) -> U256 {
        let data = self.view.as_ref().map_or(U256::ZERO, |view| view.fees.data_cost(draft_bytes(draft)));
        worst_cost(&draft.fees, draft.gas, draft.call.value, data)
    }

    /// The lowest slot in no block.
    fn lowest_out(&self, count: Slot) -> Option<&SlotRecord> {
        self.slots.range(count..).map(|(_, record)| record.as_ref()).find(|record| record.mined.is_none())
    }

    /// The newest attempt of a slot that the whole balance cannot pay, and that balance.
    fn unpaid<'a>(&self, record: &'a SlotRecord) -> Option<(&'a Attempt, U256)> {
        let view = self.view.as_ref()?;
        let balance = view.balance(&self.id.signer)?.0;
        let newest = current(&self.reopened, record)?;
        (attempt_cost(newest, view) > balance).then_some((newest, balance))
    }

    /// The dearest attempt of the lowest slot's content that can be paid, where the newest cannot be.
    pub(super) fn payable_instead(&self, count: Slot) -> Option<Outgoing> {
        let record = self.lowest_out(count).filter(|record| record.attempts.len() > 1)?;
        let (newest, balance) = self.unpaid(record)?;
        let view = self.view.as_ref()?;
        let is_alike = |attempt: &&Attempt| attempt.version == newest.version && attempt.hash != newest.hash;
        let mut others = record.attempts.iter().rev().filter(is_alike);
        let found = others.find(|attempt| attempt_cost(attempt, view) <= balance)?;
        let sealed = Sealed { raw: found.raw.clone(), hash: found.hash };
        Some(Outgoing { slot: found.slot, sealed, again: found.hints.sends > 0 })
    }

    /// A dearer attempt of the lowest open slot that cannot be paid: the slot, and what that attempt needs.
    fn unpaid_bump(&self) -> Option<(Slot, U256)> {
        let slot = self.lowest_open(self.chain_count()?)?;
        let record = self.slots.get(&slot)?;
        let needs = **record.work.bump_needs.as_ref()?;
        (needs > self.funds_for(record)?).then_some((slot, needs))
    }

    /// The sentence for a slot whose newest attempt, or whose bump, the account cannot pay.
    pub(super) fn explain_funds(&self, slot: Slot, record: &SlotRecord) -> Option<String> {
        let (signer, count, view) = (self.id.signer, self.chain_count()?, self.view.as_ref()?);
        let is_lowest =
            self.lowest_out(count).and_then(|lowest| lowest.attempts.first()).map(|a| a.slot) == Some(slot);
        if let Some((newest, balance)) = self.unpaid(record).filter(|_| is_lowest) {
            let cost = attempt_cost(newest, view);
            let instead = self.payable_instead(count);
            let instead = instead.map_or("", |_| "; the dearest attempt that it can pay is sent beside it");
            let more = cost.saturating_sub(balance);
            return Some(format!(
                "the newest attempt costs up to {cost} wei, and {signer} has {balance}: it needs {more} more{instead}; "
            ));
        }
        let needs = **record.work.bump_needs.as_ref()?;
        let left = self.funds_for(record)?;
        let more = needs.checked_sub(left).filter(|more| !more.is_zero())?;
        Some(format!(
            "the bump needs {more} wei more: it costs up to {needs}, and {signer} has {left} for it beside what else is in \
             flight; send it funds, or wait until others have landed or fees fall; until then what is out goes on being sent; "
        ))
    }

    /// What a transaction's first attempt can cost at most.
    pub(super) fn first_cost(&self, tx: &Transaction, gas: Gas) -> Option<U256> {
        let quote = &self.view.as_ref()?.fees;
        let fees = first_price(quote, tx.speed(), tx.asked_fees(), self.ceiling(Some(tx)));
        Some(worst_cost(&fees, gas, tx.payload().value, quote.data_cost(unsigned_bytes(tx))))
    }

    /// Ready, and dearer than what is left: how much it needs and how much there is.
    pub(super) fn lacks_funds(&self, waiting: &Waiting, left: Option<U256>) -> Option<(U256, U256)> {
        let Prep::Ready { gas } = *waiting.prep() else { return None };
        let needs = self.first_cost(&waiting.tx, gas)?;
        let left = left?;
        (needs > left).then_some((needs, left))
    }

    /// Writes down, once, that the account has too little: at or below its threshold, or less than a transaction that
    /// waits needs; and, once, that it has enough again. An old balance says neither.
    pub(super) fn note_funds(&mut self, now: Millis) {
        let balance = self.account().filter(|_| self.sees_head).and_then(|account| account.balance);
        let Some(balance) = balance else { return };
        let threshold = self.settings.low_balance.filter(|threshold| balance <= *threshold);
        let left = self.funds_left();
        let fell = left < std::mem::replace(&mut self.funds_judged, left);
        let needs = |waiting: &Waiting| self.lacks_funds(waiting, left).map(|(needs, _)| needs);
        let needs = if self.funds_low || fell {
            self.waiting.ready(None).filter_map(needs).min()
        } else {
            // The others fitted into less.
            self.waiting.to_judge(self.slots.looks_at_all()).filter_map(needs).min()
        };
        let needs = needs.map(Wei);
        let bump = self.unpaid_bump();
        let low = threshold.or(needs).is_some() || bump.is_some();
        if low && !self.funds_low {
            let text = match (threshold, bump) {
                (Some(threshold), _) => {
                    format!("the balance is {balance} wei, and the threshold {threshold}")
                }
                (None, Some((slot, needs))) => format!(
                    "the balance is {balance} wei, and the bump of nonce {slot} needs {needs} beside what else is out"
                ),
                (None, None) => format!(
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

    /// Ends those whose own gas no block can hold (at admission the limit may not have been known yet), those that the
    /// whole balance could not pay and whose callers do not want to wait, and delegations that the operator does not list any
    /// more. What the chain says was read for it.
    pub(super) fn fail_hopeless(&mut self, now: Millis) {
        let Some(view) = self.live_view() else { return };
        let block = view.head.gas_limit;
        let limit = self.settings.limits.gas.map_or(block, |most| most.min(block));
        let balance = view.balance(&self.id.signer);
        let hopeless = |waiting: &Waiting| {
            let too_much = waiting.tx.payload().gas.filter(|gas| *gas > limit);
            let too_much = too_much.map(|gas| Hopeless::Gas { gas, limit });
            let unlisted = || self.waits_unlisted(waiting).map(Hopeless::Delegation);
            unlisted().or(too_much).or_else(|| self.unpayable(waiting, balance?))
        };
        let judged = self.waiting.to_judge(self.slots.looks_at_all());
        let mut verdicts: Vec<(TxId, Option<Hopeless>)> =
            judged.filter_map(|waiting| Some((waiting.tx.id, Some(hopeless(waiting)?)))).collect();
        // What is in doubt is judged also if nothing has changed but that it was read.
        let doubtful = self.doubts.by_facts().filter_map(|id| self.waiting.by_id(id));
        verdicts.extend(doubtful.map(|waiting| (waiting.tx.id, hopeless(waiting))));
        for (id, verdict) in verdicts {
            match verdict {
                None => self.no_doubt(id, By::Facts),
                Some(Hopeless::Delegation(to)) => {
                    let reason = super::delegate::reason(self.id.signer, to);
                    self.begin_ending(id, Ending::Fail(reason), now);
                }
                Some(Hopeless::Gas { .. } | Hopeless::Funds { .. })
                    if !self.waiting.contains(id) || !self.is_certain(id, By::Facts) => {}
                Some(Hopeless::Gas { gas, limit }) => {
                    let text =
                        format!("its gas of {gas} is above the limit of {limit} that this chain has for one");
                    self.fail_waiting(id, ReasonCode::Invalid, text, now);
                }
                Some(Hopeless::Funds { balance, needs }) => {
                    let text = format!("the account has {balance} wei and it needs up to {needs}");
                    self.fail_waiting(id, ReasonCode::InsufficientFunds, text, now);
                }
            }
        }
    }

    /// The whole balance could not pay it, and its caller does not want to wait.
    fn unpayable(&self, waiting: &Waiting, balance: Wei) -> Option<Hopeless> {
        let Prep::Ready { gas } = *waiting.prep() else { return None };
        let fails = waiting.tx.request.options.on_insufficient_funds == OnInsufficientFunds::Fail;
        let needs = fails.then(|| self.first_cost(&waiting.tx, gas)).flatten()?;
        (needs > balance.0).then_some(Hopeless::Funds { balance, needs })
    }
}

/// Why a transaction can never have a slot.
enum Hopeless {
    Gas {
        gas: Gas,
        limit: Gas,
    },
    Funds {
        balance: Wei,
        needs: U256,
    },
    /// It would delegate the account to this address.
    Delegation(Account),
}
