//! Replace: a caller's new content for a transaction that has not ended.
//!
//! | where it is | what happens |
//! |---|---|
//! | no slot | the new content takes the old one's place and begins anew: checks, approval |
//! | a slot without stored bytes | it gives the slot back, then as above |
//! | a slot with stored bytes | a new content version for the same slot; the chain decides which one wins |
//! | being ended by a no-op | nothing: an ending that has begun stays |
//!
//! A version with bytes before it passes the same checks before it is signed: the estimate, then approval. Until then the
//! older bytes go on being sent, so that the slots above are not held up, and are not re-priced: nobody wants them any
//! dearer. A version that can never work, by two estimates of which the second knew the newest head ([`super::doubt`]), or to
//! which a person says no, is dropped, and the one before it counts again.

use std::time::Duration;

use super::cheap::Cheap;
use super::check::needs_approval;
use super::doubt::{By, FACTS_WAIT};
use super::{Lane, NextGas, Plan, Prep, PrepareJob, PrepareTarget, SlotRecord, back_off};
use crate::journal::Entry;
use crate::ports::chain::EstimateFailure;
use crate::request::Payload;
use crate::transaction::{Content, Reason, ReasonCode, Terms, Transaction, TxState};
use crate::{ContentVersion, Gas, Millis, Slot, TxId};

/// The most contents a transaction may have, without the no-op of its end: each is kept with it.
pub const MOST_CONTENTS: u32 = 8;

impl Lane {
    pub(super) fn replace(&mut self, id: TxId, payload: Payload, terms: Terms, now: Millis) {
        if self.planted_replace(id, &payload, now) {
            return;
        }
        let Some(tx) = self.known(id) else { return };
        let version = tx.version().next();
        let needs_more = payload.authorizes_sender() && !tx.takes_two_slots();
        // One that waits is held for it instead.
        let landed =
            self.forgotten_as(tx, &payload).filter(|_| self.bound.contains_key(&id) && !self.is_reserved(id));
        if tx.status.ending.is_some() || version.0 > MOST_CONTENTS || needs_more || landed.is_some() {
            let text = match &tx.status.ending {
                Some(ending) => format!("it is already on its way to {}", ending.state().name()),
                None if let Some(slot) = landed => format!(
                    "nonce {slot} of this account was used by something that this store does not know, and did what the new content does: \
                     it may have landed. Hand it in as a transaction of its own, which waits for a person"
                ),
                None if needs_more => "it would use up a second nonce, which it does not have".to_owned(),
                None => format!("it has had {MOST_CONTENTS} contents, which is the most"),
            };
            let reason = Reason { code: ReasonCode::NotReplaced, text };
            return self.changes.journal(Some(id), now, Entry::ReplaceDropped { version, reason });
        }
        if self.is_reserved(id) {
            self.unreserve(id, now);
        }
        self.forget_doubts(id);
        if let Some(tx) = self.bound.get_mut(&id) {
            take_content(tx, payload, terms);
            self.changes.tx(tx, now);
            let slot = tx.status.slot;
            if let Some(record) = slot.and_then(|slot| self.slots.get_mut(&slot)) {
                record.work.fresh = Prep::New;
                record.work.cheap = Cheap::No;
                record.work.sign_at = now;
            }
        } else {
            self.stop_signing(id);
            let settings = self.settings.clone();
            let Some(waiting) = self.waiting.by_id_mut(id) else { return };
            take_content(&mut waiting.tx, payload, terms);
            // Judged anew: whoever speaks of it is to be shown what the new content does.
            if waiting.tx.status.may_have_landed() {
                (waiting.tx.status.held, waiting.tx.status.forgotten_as) = (None, None);
            }
            waiting.tx.status.state = TxState::Accepted;
            self.changes.tx(&mut waiting.tx, now);
            let prep = super::admit::first_prep(&waiting.tx, &settings);
            self.waiting.set_prep(id, prep);
        }
        self.changes.journal(Some(id), now, Entry::Replaced { version });
        self.hold_if_forgotten(id, now);
    }

    /// The newest content of a slot with stored bytes that has none itself, unless it is a no-op.
    pub(super) fn unsigned_content(&self, record: &SlotRecord) -> Option<ContentVersion> {
        let tx = record.tx.and_then(|id| self.bound.get(&id)).filter(|tx| !tx.is_no_op())?;
        let newest = record.attempts.last()?;
        (newest.version < tx.version()).then(|| tx.version())
    }

    /// It has passed everything that it must pass before it is signed.
    pub(super) fn may_be_signed(&self, record: &SlotRecord) -> bool {
        let tx = record.tx.and_then(|id| self.bound.get(&id));
        tx.is_some_and(|tx| !needs_approval(tx, &self.settings) && self.unlisted(tx.payload()).is_none())
            && matches!(record.work.fresh, Prep::Ready { .. })
            // A no-op for the slot after it may have to be signed with it.
            && (self.no_op_gas.is_some() || !self.seconds_to_come())
    }

    /// Checks for new contents of slots that are open.
    pub(super) fn prepare_fresh(&mut self, plan: &mut Plan, now: Millis) -> Vec<PrepareJob> {
        let Some(count) = self.chain_count() else { return Vec::new() };
        let unsigned: Vec<Slot> = self
            .slots
            .to_look_at(count..)
            .filter(|(_, record)| record.mined.is_none() && self.unsigned_content(record).is_some())
            .map(|(slot, _)| slot)
            .collect();
        let mut jobs = Vec::new();
        for slot in unsigned {
            let Some(record) = self.slots.get_mut(&slot) else { continue };
            let Some(tx) = record.tx.and_then(|id| self.bound.get(&id)) else { continue };
            // While a person thinks nothing is asked; it is checked again after the yes (F4).
            if tx.status.asks_approval {
                continue;
            }
            let tries = match record.work.fresh {
                Prep::New => 0,
                Prep::Retry { tries, at, .. } if at <= now => tries,
                Prep::Retry { at, .. } => {
                    plan.wake(at);
                    continue;
                }
                Prep::Running { .. } | Prep::Ready { .. } | Prep::Signing { .. } => continue,
            };
            record.work.fresh = super::admit::first_prep(tx, &self.settings);
            if record.work.fresh == Prep::New {
                record.work.fresh = Prep::Running { tries };
                jobs.push(PrepareJob { target: PrepareTarget::Tx(tx.id, tx.version()), call: tx.call() });
            }
        }
        jobs
    }

    /// What became of the checks of a new content in a slot with stored bytes.
    pub(super) fn fresh_prepared(&mut self, id: TxId, result: Result<Gas, EstimateFailure>, now: Millis) {
        let gas = result.as_ref().ok().map(|gas| self.with_headroom(*gas));
        let Some(tx) = self.bound.get_mut(&id) else { return };
        let slot = tx.status.slot;
        let Some(record) = slot.and_then(|slot| self.slots.get_mut(&slot)) else { return };
        let Prep::Running { tries } = record.work.fresh else { return };
        let retry = |after: Duration, why: String| Prep::Retry {
            tries: tries.saturating_add(1),
            at: now.after(after),
            why,
        };
        let (code, text) = match result {
            Ok(_) => {
                let gas = tx.payload().gas.or(gas).unwrap_or_default();
                record.work.fresh = Prep::Ready { gas };
                if needs_approval(tx, &self.settings) {
                    tx.status.asks_approval = true;
                    self.changes.tx(tx, now);
                    let entry = Entry::VersionApprovalAsked { version: tx.version() };
                    self.changes.journal(Some(id), now, entry);
                }
                return self.no_doubt(id, By::Estimate);
            }
            Err(EstimateFailure::Reverted { reason }) => (ReasonCode::WouldRevert, reason),
            Err(EstimateFailure::Invalid { text }) => (ReasonCode::Invalid, text),
            Err(
                EstimateFailure::InsufficientFunds { text: why } | EstimateFailure::Unavailable { text: why },
            ) => {
                record.work.fresh = retry(back_off(tries.saturating_add(1), 100, 5_000), why);
                return self.no_doubt(id, By::Estimate);
            }
        };
        // The node that was asked may be behind.
        record.work.fresh = retry(FACTS_WAIT, text.clone());
        if self.is_certain(id, By::Estimate) {
            self.drop_content(id, Reason { code, text }, now);
        }
    }

    /// The newest content, which was never signed, is given up.
    pub(super) fn drop_content(&mut self, id: TxId, reason: Reason, now: Millis) {
        self.forget_doubts(id);
        let Some(tx) = self.bound.get_mut(&id) else { return };
        let version = tx.version();
        tx.status.later.pop();
        tx.status.asks_approval = false;
        self.changes.tx(tx, now);
        self.changes.journal(Some(id), now, Entry::ReplaceDropped { version, reason });
        let slot = tx.status.slot;
        if let Some(record) = slot.and_then(|slot| self.slots.get_mut(&slot)) {
            record.work.fresh = Prep::New;
            record.work.next_gas = NextGas::Unknown;
            record.work.at_ceiling = None;
        }
    }

    /// Why the newest content of a slot is not out yet.
    pub(super) fn explain_fresh(&self, record: &SlotRecord, now: Millis) -> Option<String> {
        let version = self.unsigned_content(record)?;
        let tx = record.tx.and_then(|id| self.bound.get(&id))?;
        let why = match &record.work.fresh {
            _ if tx.status.asks_approval => {
                format!("waits for a person to approve it{}", super::explain::also_delegates(tx))
            }
            _ if record.work.at_ceiling == Some(version) => {
                "cannot be signed: to replace what is out it would have to offer more than its ceiling"
                    .to_owned()
            }
            Prep::New | Prep::Running { .. } => "is being checked".to_owned(),
            Prep::Retry { at, why, .. } => {
                format!("could not be checked ({why}); next try in {}", super::explain::span(at.since(now)))
            }
            Prep::Ready { .. } | Prep::Signing { .. } => "is being signed".to_owned(),
        };
        Some(format!("version {version} {why}; until then the bytes before it are sent; "))
    }

    /// A transaction that is here, wherever.
    pub(super) fn known(&self, id: TxId) -> Option<&Transaction> {
        self.bound.get(&id).or_else(|| self.waiting.by_id(id).map(|waiting| &waiting.tx))
    }

    /// A signature that is under way for a waiting transaction is forgotten.
    pub(super) fn stop_signing(&mut self, id: TxId) {
        if let Some(&Prep::Signing { slot, .. }) = self.waiting.by_id(id).map(|waiting| waiting.prep()) {
            self.cut_from(slot);
        }
    }
}

fn take_content(tx: &mut Transaction, payload: Payload, terms: Terms) {
    tx.status.later.push(Content::Payload(payload));
    tx.status.terms.change(terms);
    // What was said about the old content says nothing about the new one.
    tx.status.hurry = None;
    tx.status.approved = false;
    tx.status.asks_approval = false;
}
