//! Check: everything that can fail is done before a slot is taken (E14, E15): the gas estimate, which also tells a
//! certain revert, then approval where it applies.
//!
//! | answer | what happens |
//! |---|---|
//! | gas | ready for a slot |
//! | would revert, invalid | asked again when the newest head is known; if that says so too: failed, with the reason; no slot was taken |
//! | cannot pay | waits and is asked again (or as above, if the caller said so); others go first |
//! | no verdict | asked again after 100, 200, 400 ms … 5 s; others go first |

use super::doubt::{By, FACTS_WAIT};
use super::{Action, Lane, Plan, Prep, back_off};
use crate::attempt::Call;
use crate::journal::Entry;
use crate::ports::chain::EstimateFailure;
use crate::request::OnInsufficientFunds;
use crate::settings::{LaneSettings, PlantedInLane};
use crate::transaction::{Ending, Reason, ReasonCode, Transaction, TxState};
use crate::{ContentVersion, Gas, Millis, TxId};

/// How long an account that cannot pay is left alone.
const FUNDS_RECHECK_MS: u64 = 5_000;

/// What a preparation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrepareTarget {
    /// This content of a transaction.
    Tx(TxId, ContentVersion),
    /// The gas that a no-op needs on this chain.
    NoOp,
}

/// One call to be estimated.
#[derive(Debug, Clone)]
pub struct PrepareJob {
    pub target: PrepareTarget,
    pub call: Call,
}

/// What became of it.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub target: PrepareTarget,
    pub result: Result<Gas, EstimateFailure>,
}

impl Lane {
    pub(super) fn plan_prepare(&mut self, plan: &mut Plan, now: Millis) {
        if !self.may_send() {
            return;
        }
        let mut jobs = self.prepare_waiting(plan, now);
        for slot in self.slots.bare().clone() {
            let Some(record) = self.slots.get_mut(&slot) else { continue };
            let Some(tx) = record.tx.and_then(|id| self.bound.get(&id)) else { continue };
            let work = &mut record.work;
            if work.gas.or(tx.payload().gas).is_some() || work.estimating {
                continue;
            }
            if work.sign_at > now {
                plan.wake(work.sign_at);
                continue;
            }
            work.estimating = true;
            jobs.push(PrepareJob { target: PrepareTarget::Tx(tx.id, tx.version()), call: tx.call() });
        }
        jobs.extend(self.prepare_fresh(plan, now));
        if self.no_op_gas.is_none() && !self.estimating_no_op && self.needs_no_op(plan, now) {
            self.estimating_no_op = true;
            jobs.push(PrepareJob { target: PrepareTarget::NoOp, call: Call::no_op(self.id.signer) });
        }
        if !jobs.is_empty() {
            plan.actions.push(Action::Prepare(jobs));
        }
    }

    /// First estimates and due retries, as many at once as twice what can be bound.
    fn prepare_waiting(&mut self, plan: &mut Plan, now: Millis) -> Vec<PrepareJob> {
        if self.held().is_some() {
            return Vec::new();
        }
        let most = usize::try_from(self.prepared_ahead()).unwrap_or(usize::MAX);
        let running =
            self.waiting.unready().filter(|(_, w)| matches!(w.prep(), Prep::Running { .. })).count();
        let mut jobs = Vec::new();
        let mut begun = Vec::new();
        for (_, waiting) in self.waiting.unready() {
            let tx = &waiting.tx;
            // What it is to follow has not happened yet, so an estimate would say nothing. And while a person thinks
            // nothing is asked; it is checked again after the yes (F4).
            if tx.status.state == TxState::AwaitingApproval || self.is_behind(tx) {
                continue;
            }
            let tries = match waiting.prep() {
                Prep::New => 0,
                Prep::Retry { tries, at, .. } if *at <= now => *tries,
                Prep::Retry { at, .. } => {
                    plan.wake(*at);
                    continue;
                }
                Prep::Running { .. } | Prep::Ready { .. } | Prep::Signing { .. } => continue,
            };
            if running + jobs.len() >= most {
                break;
            }
            begun.push((tx.id, Prep::Running { tries }));
            jobs.push(PrepareJob { target: PrepareTarget::Tx(tx.id, tx.version()), call: tx.call() });
        }
        for (id, prep) in begun {
            self.waiting.set_prep(id, prep);
        }
        jobs
    }

    pub(super) fn take_prepared(&mut self, results: Vec<Prepared>, now: Millis) {
        for Prepared { target, result } in results {
            match target {
                // An answer about a content that was replaced meanwhile says nothing.
                PrepareTarget::Tx(id, version) if self.known(id).is_none_or(|tx| tx.version() != version) => {
                }
                PrepareTarget::Tx(id, _) if self.is_reserved(id) => self.reserved_prepared(id, result, now),
                PrepareTarget::Tx(id, _) if self.bound.contains_key(&id) => {
                    if !self.gas_again(id, &result) {
                        self.fresh_prepared(id, result, now);
                    }
                }
                PrepareTarget::Tx(id, _) => self.tx_prepared(id, result, now),
                PrepareTarget::NoOp => {
                    self.estimating_no_op = false;
                    self.no_op_gas =
                        Some(result.map_or(self.settings.no_op_gas, |gas| self.with_headroom(gas)));
                }
            }
        }
    }

    fn tx_prepared(&mut self, id: TxId, result: Result<Gas, EstimateFailure>, now: Millis) {
        let Some(waiting) = self.waiting.by_id(id) else { return };
        let Prep::Running { tries } = *waiting.prep() else { return };
        let on_funds = waiting.tx.request.options.on_insufficient_funds;
        match result {
            Ok(gas) => {
                self.no_doubt(id, By::Estimate);
                self.checks_passed(id, gas, now);
            }
            Err(EstimateFailure::Reverted { reason }) => {
                self.estimate_says_no(id, tries, ReasonCode::WouldRevert, reason, now);
            }
            Err(EstimateFailure::Invalid { text }) => {
                self.estimate_says_no(id, tries, ReasonCode::Invalid, text, now);
            }
            Err(EstimateFailure::InsufficientFunds { text }) => match on_funds {
                OnInsufficientFunds::Fail => {
                    self.estimate_says_no(id, tries, ReasonCode::InsufficientFunds, text, now);
                }
                OnInsufficientFunds::Hold => {
                    let again = now.after(std::time::Duration::from_millis(FUNDS_RECHECK_MS));
                    self.prepare_later(id, tries, again, format!("the account cannot pay: {text}"), now);
                }
            },
            Err(EstimateFailure::Unavailable { text }) => {
                self.no_doubt(id, By::Estimate);
                let again = now.after(back_off(tries, 100, 5_000));
                self.prepare_later(id, tries, again, text, now);
            }
        }
    }

    /// The node that was asked may be behind: it ends only if that is said again, after the newest head was asked for.
    fn estimate_says_no(&mut self, id: TxId, tries: u32, code: ReasonCode, text: String, now: Millis) {
        if self.is_certain(id, By::Estimate) {
            self.fail_waiting(id, code, text, now);
        } else {
            self.estimate_anew(id, tries, text, now);
        }
    }

    /// The gas of a slot that was reserved before a restart.
    fn reserved_prepared(&mut self, id: TxId, result: Result<Gas, EstimateFailure>, now: Millis) {
        let gas = result.as_ref().ok().map(|gas| self.with_headroom(*gas));
        let slot = self.bound.get(&id).and_then(|tx| tx.status.slot);
        let Some(record) = slot.and_then(|slot| self.slots.get_mut(&slot)) else { return };
        record.work.estimating = false;
        record.work.gas = gas;
        let (code, text) = match result {
            Ok(_) => return,
            Err(EstimateFailure::Reverted { reason }) => (ReasonCode::WouldRevert, reason),
            Err(EstimateFailure::Invalid { text }) => (ReasonCode::Invalid, text),
            Err(EstimateFailure::InsufficientFunds { .. } | EstimateFailure::Unavailable { .. }) => {
                record.work.sign_tries = record.work.sign_tries.saturating_add(1);
                record.work.sign_at = now.after(back_off(record.work.sign_tries, 500, 30_000));
                return;
            }
        };
        if self.is_certain(id, By::Estimate) {
            self.begin_ending(id, Ending::Fail(Reason { code, text }), now);
        } else if let Some(record) = slot.and_then(|slot| self.slots.get_mut(&slot)) {
            record.work.sign_at = now.after(FACTS_WAIT);
        }
    }

    fn checks_passed(&mut self, id: TxId, estimate: Gas, now: Millis) {
        let gas = self.with_headroom(estimate);
        let settings = self.settings.clone();
        let Some(waiting) = self.waiting.by_id_mut(id) else { return };
        let tx = &mut waiting.tx;
        let next = match tx.status.state {
            TxState::Accepted | TxState::Simulated if needs_approval(tx, &settings) => {
                Some((TxState::AwaitingApproval, Entry::ApprovalAsked))
            }
            TxState::Accepted if settings.checks => Some((TxState::Simulated, Entry::Simulated)),
            _ => None,
        };
        if let Some((state, entry)) = next {
            tx.status.state = state;
            self.changes.tx(tx, now);
            self.changes.journal(Some(id), now, entry);
        }
        let gas = tx.payload().gas.unwrap_or(gas);
        self.waiting.set_prep(id, Prep::Ready { gas });
    }

    fn prepare_later(&mut self, id: TxId, tries: u32, at: Millis, why: String, now: Millis) {
        if !self.waiting.contains(id) {
            return;
        }
        self.waiting.set_prep(id, Prep::Retry { tries: tries.saturating_add(1), at, why: why.clone() });
        // The first time and every power of two after it, so that a long outage does not fill the journal.
        if tries.saturating_add(1).is_power_of_two() {
            let entry = Entry::PrepareFailed { reason: why, tries: tries.saturating_add(1) };
            self.changes.journal_hint(Some(id), now, entry);
        }
    }

    /// Ends a transaction that holds no slot.
    pub(super) fn fail_waiting(&mut self, id: TxId, code: ReasonCode, text: String, now: Millis) {
        let reason = Reason { code, text };
        self.end_waiting(id, TxState::Failed, reason.clone(), Entry::Failed { reason }, now);
    }

    pub(super) fn with_headroom(&self, estimate: Gas) -> Gas {
        // A plain transfer costs what it costs.
        if estimate.0 == 21_000 {
            return estimate;
        }
        let more = estimate.0 / 100 * u64::from(self.settings.gas_headroom_percent);
        let block = self.view.as_ref().map_or(u64::MAX, |view| view.head.gas_limit.0);
        let limit = self.settings.limits.gas.map_or(block, |most| most.0.min(block));
        Gas(estimate.0.saturating_add(more).min(limit.max(estimate.0)))
    }

    /// Some slot is waiting to be filled by a no-op.
    fn needs_no_op(&self, plan: &mut Plan, now: Millis) -> bool {
        !self.row.returned.is_empty()
            || !self.to_fill().is_empty()
            || self.seconds_to_come()
            || !self.holes(plan, now).is_empty()
            || self.slots.to_look_at(..).any(|(_, record)| {
                let abandoned =
                    record.tx.is_none() && record.attempts.last().is_some_and(|newest| !newest.no_op);
                let ending = record.tx.and_then(|id| self.bound.get(&id)).is_some_and(|tx| tx.is_no_op());
                record.mined.is_none() && (ending || abandoned)
            })
    }
}

/// A person must say yes first, and has not. Whoever gets an account's code can spend all it has, so a delegation counts as more
/// than any value.
pub(super) fn needs_approval(tx: &Transaction, settings: &LaneSettings) -> bool {
    let planted = settings.planted == Some(PlantedInLane::ReplacedUnapproved) && tx.version().0 > 1;
    let payload = tx.payload();
    settings.approve_above.is_some_and(|limit| payload.value > limit || payload.authorizes_sender())
        && !tx.status.approved
        && !planted
}
