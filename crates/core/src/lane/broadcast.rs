//! Broadcast: stored bytes go out, and what nodes answer is read (E4, E17, L7, R6).
//!
//! | answer | what happens |
//! |---|---|
//! | accepted, already known | looked up in the pool ([`super::probe`]); sent again after the resubmit interval at the latest, since a yes is no proof |
//! | unknown, endpoint, pool full, node policy | the same bytes again, soon, then less often |
//! | account limit | the same, and the [`super::window`] shrinks to what is below |
//! | nonce too low | the receipts of all attempts are looked at |
//! | nonce too high | the lowest slot goes again, and the same bytes soon after it |
//! | replacement underpriced, underpriced, below base fee | a dearer attempt for the lowest slot, unless a node may have these bytes ([`super::cheap`]) |
//! | insufficient funds | the same bytes again later |
//! | invalid, reverted, never includable | if no node can have this content, the transaction is to fail: its slot gets a no-op; else the pools are asked first ([`super::refuse`]) |
//!
//! No answer ends a transaction or frees its slot.

use super::cheap::Cheap;
use super::keep::current;
use super::{Action, Lane, Outgoing, Plan, Sent, back_off};
use crate::attempt::Sealed;
use crate::journal::Entry;
use crate::outcome::{SendOutcome, SendReport};
use crate::transaction::TxState;
use crate::{Millis, Slot};

/// How long an account that cannot pay is left alone.
const FUNDS_WAIT_MS: u64 = 5_000;

impl Lane {
    pub(super) fn plan_send(&mut self, plan: &mut Plan, now: Millis) {
        let Some(count) = self.chain_count().filter(|_| self.may_send()) else { return };
        let mut instead = self.payable_instead(count);
        let end = Slot(count.0.saturating_add(self.window()));
        let end = self.first_out_of_order(count).map_or(end, |first| first.min(end));
        let mut outgoing = Vec::new();
        let mut kept_back = self.unlisted_slots();
        kept_back.extend(self.seconds_kept_back(count));
        self.look_at_seconds();
        self.slots.each_to_look_at(count..end.max(count), |slot, record| {
            if record.mined.is_some() || record.work.sending || kept_back.contains(&slot) {
                return;
            }
            let Some(attempt) = current(&self.reopened, record) else { return };
            if record.work.send_at > now {
                plan.wake(record.work.send_at);
                return;
            }
            let sealed = Sealed { raw: attempt.raw.clone(), hash: attempt.hash };
            let again = attempt.hints.sends > 0;
            record.work.sending = true;
            outgoing.push(Outgoing { slot, sealed, again });
            outgoing.extend(instead.take_if(|instead| instead.slot == slot));
        });
        if !outgoing.is_empty() {
            plan.actions.push(Action::Send(outgoing));
        }
    }

    pub(super) fn take_answers(&mut self, answers: Vec<Sent>, now: Millis) {
        for Sent { slot, hash, report } in answers {
            self.take_answer(slot, hash, report, now);
        }
    }

    fn take_answer(&mut self, slot: Slot, hash: crate::TxHash, report: SendReport, now: Millis) {
        let resubmit = self.settings.resubmit_after;
        let planted_cheap = self.planted_cheap();
        let Some(record) = self.slots.get_mut(&slot) else { return };
        record.work.sending = false;
        let newest = current(&self.reopened, record).is_some_and(|newest| newest.hash == hash);
        let Some(attempt) = record.attempts.iter_mut().find(|a| a.hash == hash) else { return };
        let is_first = attempt.hints.sends == 0;
        let first_of_its_kind = attempt.hints.answered(report.clone(), now);
        let ordinal = attempt.ordinal;
        let tx = record.tx;
        let outcome = match report.outcome {
            SendOutcome::ReplacementUnderpriced if attempt.hints.accepted && !planted_cheap => {
                SendOutcome::AlreadyKnown
            }
            said => said,
        };
        // A verdict on a content that was replaced says nothing about the new one.
        let wanted = tx.and_then(|id| self.bound.get(&id)).map(|tx| tx.version());
        let judged = !attempt.no_op && wanted == Some(attempt.version);
        let is_new = is_first && record.work.made_from.is_some_and(|first| first <= ordinal);
        let work = &mut record.work;
        let unclear = work.unclear_sends;
        let soon = now.after(back_off(unclear, 250, 10_000).min(resubmit));
        let mut refused = false;
        let mut missing_below = false;
        let limited = outcome == SendOutcome::AccountLimit;
        let planned = work.send_at;
        work.unclear_sends = unclear.saturating_add(1);
        match outcome {
            SendOutcome::Accepted | SendOutcome::AlreadyKnown => {
                work.unclear_sends = 0;
                work.refused = None;
                work.send_at = now.after(resubmit);
                if newest {
                    work.cheap = Cheap::No;
                    Self::probe_later(work, resubmit, now);
                }
            }
            SendOutcome::Unknown
            | SendOutcome::Endpoint
            | SendOutcome::PoolFull
            | SendOutcome::NodePolicy
            | SendOutcome::AccountLimit => work.send_at = soon,
            SendOutcome::NonceTooHigh => {
                work.send_at = soon;
                missing_below = true;
            }
            SendOutcome::NonceTooLow => {
                work.look_at = now;
                work.send_at = soon;
            }
            SendOutcome::ReplacementUnderpriced | SendOutcome::Underpriced | SendOutcome::FeeBelowBase => {
                if newest {
                    work.refused_as_cheap(is_new || planted_cheap, now);
                }
                work.send_at = soon;
            }
            SendOutcome::InsufficientFunds => {
                work.send_at = now.after(std::time::Duration::from_millis(FUNDS_WAIT_MS).min(resubmit));
            }
            SendOutcome::Invalid | SendOutcome::Reverted | SendOutcome::NeverIncludable => {
                refused = judged;
                work.send_at = soon;
            }
        }
        if outcome == SendOutcome::Unknown {
            // Somebody may have taken it just now.
            work.refused = None;
        }
        if !newest {
            // Newer bytes were stored meanwhile, and an answer to old ones is no reason to keep them back.
            work.send_at = planned;
            work.unclear_sends = unclear;
        }
        if limited {
            self.learn_limit(slot, now);
        }
        if missing_below {
            self.send_lowest_again(slot, soon);
        }
        let told = self.journal_answer(slot, hash, &report, first_of_its_kind, now);
        self.changes.attempt_hint(slot, ordinal, told && is_first, now);
        self.planted_yes(slot, report.outcome, now);
        self.planted_recycle(slot, report.outcome, now);
        if refused && !self.is_older() {
            self.take_refusal(slot, hash, is_first, &report, now);
        }
    }

    /// A node misses what comes before this slot, whatever it said when it got it: the lowest open one goes again.
    fn send_lowest_again(&mut self, below: Slot, at: Millis) {
        let Some(count) = self.chain_count() else { return };
        let mut lower = self.slots.range(count..below.max(count));
        let lowest = lower.find(|(_, record)| record.mined.is_none()).map(|(slot, _)| *slot);
        if let Some(record) = lowest.and_then(|slot| self.slots.get_mut(&slot)) {
            record.work.send_at = record.work.send_at.min(at);
        }
    }

    /// The first answer of a kind is written; repeats are counted in the attempt. True: it is told as the broadcast.
    fn journal_answer(
        &mut self,
        slot: Slot,
        hash: crate::TxHash,
        report: &SendReport,
        first_of_its_kind: bool,
        now: Millis,
    ) -> bool {
        let Some(id) = self.slots.get(&slot).and_then(|record| record.tx) else { return false };
        let Some(tx) = self.bound.get_mut(&id) else { return false };
        if report.outcome.is_taken() && tx.status.state == TxState::Signed {
            tx.status.state = TxState::Broadcast;
            self.changes.tx_hint(tx, now);
            let entry = Entry::Broadcast { hash, report: report.clone() };
            self.changes.journal_hint(Some(id), now, entry);
            return true;
        }
        if first_of_its_kind && report.outcome != SendOutcome::Accepted {
            let entry = Entry::SendAnswered { hash, report: report.clone() };
            self.changes.journal_hint(Some(id), now, entry);
        }
        false
    }
}
