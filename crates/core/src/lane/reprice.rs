//! Re-price: a slot gets a dearer attempt (E7, E8, F8).
//!
//! Only the lowest open slot is re-priced for its price, since none above it can land first: for being slow, though not while
//! the chain makes no blocks, or since nodes refuse it as too cheap ([`super::cheap`]). Any slot is when its caller asks for it, or
//! when its transaction has a newer content (a cancel's no-op, a replace that has passed its checks). Every replacement
//! beats all live attempts of its slot. The ladder ends at the ceiling, at the most attempts a content may have, and at what
//! the account can pay beside what else is out ([`super::funds`]); from there on the same bytes go on being sent.

use std::collections::BTreeSet;

use super::keep::current;
use super::{Action, Lane, NextGas, Plan, Prep, PrepareJob, PrepareTarget, SlotRecord};
use crate::attempt::{Call, Draft};
use crate::fees::{AtCeiling, Fees, Ladder, raised_to, replacement_price};
use crate::journal::Entry;
use crate::outcome::SendOutcome;
use crate::ports::chain::EstimateFailure;
use crate::request::{AskedFees, Speed};
use crate::transaction::Transaction;
use crate::{ContentVersion, Gas, Millis, Price, Slot, TxId};

impl Lane {
    pub(super) fn reprice(&mut self, plan: &mut Plan, now: Millis) -> Vec<Draft> {
        let Some(count) = self.chain_count().filter(|_| self.may_send()) else { return Vec::new() };
        let lowest = self.lowest_open(count);
        let open: Vec<Slot> = self
            .slots
            .to_look_at(count..)
            .map(|(slot, _)| slot)
            .chain(lowest)
            .collect::<BTreeSet<Slot>>()
            .into_iter()
            .filter(|slot| self.slots.get(slot).is_some_and(|record| may_have_another(record)))
            .collect();
        let mut drafts = Vec::new();
        for slot in open {
            let Some(record) = self.slots.get(&slot) else { continue };
            // Nobody wants the old content dearer while the new one is being checked.
            if self.unsigned_content(record).is_some() && !self.may_be_signed(record) {
                continue;
            }
            let hurried = self.is_hurried(slot) && self.may_climb(record);
            if hurried || self.wants_new_content(slot) || self.is_too_cheap(slot, lowest) {
                drafts.extend(self.replacement(slot, plan, now));
            } else if lowest == Some(slot)
                && let Some(stalls_at) = self.stalls_at(slot)
            {
                if stalls_at > now {
                    plan.wake(stalls_at);
                } else if (self.chain_moves(now) || self.planted_moves()) && !self.planted_bump(slot, now) {
                    drafts.extend(self.replacement(slot, plan, now));
                }
            }
        }
        drafts
    }

    /// The one slot that the chain can take next, whatever is going on for it: in use, or returned and not yet filled.
    pub(super) fn lowest_open(&self, count: Slot) -> Option<Slot> {
        let used =
            self.slots.range(count..).find(|(_, record)| record.mined.is_none()).map(|(slot, _)| *slot);
        let returned = self.row.returned.range(count..).next().copied();
        [used, returned].into_iter().flatten().min()
    }

    /// The version of the content that the slot is to carry: the newest, or of one that had ended the one that won.
    fn wanted_version(&self, record: &SlotRecord) -> ContentVersion {
        let Some(id) = record.tx else { return ContentVersion::FIRST };
        let won = self.reopened.get(&id).and_then(|tx| tx.status.won.as_ref()).map(|won| won.version);
        won.or_else(|| self.bound.get(&id).map(Transaction::version)).unwrap_or(ContentVersion::FIRST)
    }

    /// The transaction's newest content has no bytes yet.
    fn wants_new_content(&self, slot: Slot) -> bool {
        let Some(record) = self.slots.get(&slot) else { return false };
        let wanted = self.wanted_version(record);
        let Some(newest) = record.attempts.last() else { return false };
        // A stranger's slot that is open again holds bytes of a transaction that is elsewhere by now.
        let abandoned = record.tx.is_none() && !newest.no_op;
        record.work.at_ceiling != Some(wanted) && (newest.version < wanted || abandoned)
    }

    /// Neither the ceiling nor the number of attempts forbids another one. Each content has its own count, so that a
    /// cancel can climb as well.
    pub(super) fn may_climb(&self, record: &SlotRecord) -> bool {
        let wanted = self.wanted_version(record);
        let made = record.attempts.iter().filter(|attempt| attempt.version == wanted).count() as u64;
        record.work.at_ceiling != Some(wanted) && made < u64::from(self.settings.max_attempts)
    }

    /// When this slot counts as stalled: an interval after its newest attempt and after anything last moved.
    fn stalls_at(&self, slot: Slot) -> Option<Millis> {
        let record = self.slots.get(&slot).filter(|record| self.may_climb(record))?;
        let newest = current(&self.reopened, record)?;
        newest.hints.first_sent_at?;
        // A dearer attempt is the last thing that an account without funds can pay (E7).
        let refused = newest.hints.last().map(|last| last.outcome);
        if refused == Some(SendOutcome::InsufficientFunds) {
            return None;
        }
        Some(newest.created_at.max(self.moved_at).after(self.settings.resubmit_after))
    }

    /// A head came within the interval.
    pub(super) fn chain_moves(&self, now: Millis) -> bool {
        self.head_since.is_some_and(|since| now.since(since) < self.settings.resubmit_after)
    }

    /// Its gas was estimated, and another attempt may need more (M3 of the catalogue).
    fn moves(&self, record: &SlotRecord, tx: Option<&Transaction>) -> bool {
        let open = tx.is_some_and(|tx| self.bound.contains_key(&tx.id) && tx.payload().gas.is_none());
        self.settings.estimate_each_attempt && open && self.unsigned_content(record).is_none()
    }

    fn ask_gas_again(&mut self, slot: Slot, plan: &mut Plan) {
        let Some(record) = self.slots.get_mut(&slot) else { return };
        let Some(tx) = record.tx.and_then(|id| self.bound.get(&id)) else { return };
        record.work.next_gas = NextGas::Asked { after: record.attempts.len(), version: tx.version() };
        let job = PrepareJob { target: PrepareTarget::Tx(tx.id, tx.version()), call: tx.call() };
        plan.actions.push(Action::Prepare(vec![job]));
    }

    /// The answer to that, if it was asked. One that says no changes nothing: bytes for the slot are out already.
    pub(super) fn gas_again(&mut self, id: TxId, result: &Result<Gas, EstimateFailure>) -> bool {
        let gas = result.as_ref().ok().map(|gas| self.with_headroom(*gas));
        let Some(tx) = self.bound.get(&id) else { return false };
        let (slot, wanted) = (tx.status.slot, tx.version());
        let Some(record) = slot.and_then(|slot| self.slots.get_mut(&slot)) else { return false };
        let NextGas::Asked { after, version } = record.work.next_gas else { return false };
        if version != wanted {
            return false;
        }
        let gas = gas.or(record.attempts.last().map(|newest| newest.gas)).unwrap_or_default();
        record.work.next_gas = NextGas::Known { after, gas };
        true
    }

    fn replacement(&mut self, slot: Slot, plan: &mut Plan, now: Millis) -> Option<Draft> {
        let view = self.view.clone()?;
        let record = self.slots.get(&slot)?;
        if record.work.sign_at > now {
            plan.wake(record.work.sign_at);
            return None;
        }
        let before = current(&self.reopened, record).or(record.attempts.last())?;
        let tx = record.tx.and_then(|id| self.bound.get(&id).or_else(|| self.reopened.get(&id)));
        let version = self.wanted_version(record);
        let no_op = tx.is_none_or(|tx| tx.is_no_op_at(version));
        if tx.is_some_and(|tx| !no_op && self.unlisted(tx.payload_of(version)).is_some()) {
            return None;
        }
        let gas = match (no_op, before.no_op, &record.work.fresh) {
            (true, false, _) => self.no_op_gas?,
            (false, _, Prep::Ready { gas }) if before.version < version => *gas,
            (false, false, _) if self.moves(record, tx) => match record.work.next_gas {
                NextGas::Known { after, gas } if after == record.attempts.len() => gas.max(before.gas),
                NextGas::Asked { after, version: asked }
                    if after == record.attempts.len() && asked == version =>
                {
                    return None;
                }
                NextGas::Unknown | NextGas::Known { .. } | NextGas::Asked { .. } => {
                    self.ask_gas_again(slot, plan);
                    return None;
                }
            },
            _ => before.gas,
        };
        // A no-op that is to outrun its own transaction pays for it (F9).
        let speed = match tx {
            Some(tx) if tx.status.rechecking => Speed::Fast,
            Some(tx) => tx.speed(),
            None => Speed::Normal,
        };
        let asked = tx.map_or(AskedFees::Market, |tx| tx.asked_fees());
        let live = self.live_fees(slot);
        // What won before a cancel came and is open again is a content still.
        let ceiling = tx.filter(|_| !no_op).map_or(self.settings.max_fee, |tx| self.ceiling_of_content(tx));
        let call = tx.map_or_else(|| Call::no_op(self.id.signer), |tx| tx.call_of(version));
        let fees = Fees::Legacy { gas_price: Price::default() };
        let draft = Draft { serial: 0, lane: self.id, slot, tx: record.tx, version, no_op, call, gas, fees };
        let payable = self.most_payable(record, &draft).unwrap_or(ceiling);
        let ladder = Ladder {
            step: self.settings.bump_percent,
            rule: self.settings.replacement_percent,
            ceiling: ceiling.min(payable),
        };
        let fees = match replacement_price(&live, &view.fees, speed, ladder) {
            Ok(fees) => self.planted_speed_up(slot, raised_to(fees, asked, ladder.ceiling)),
            Err(at) => return self.not_dearer(&draft, AtCeiling { ceiling, ..at }, now),
        };
        self.within_budget(Draft { fees, ..draft })
    }

    /// Nothing is signed: a dearer attempt would be above its ceiling, or more than the account can pay.
    fn not_dearer(&mut self, draft: &Draft, at: AtCeiling, now: Millis) -> Option<Draft> {
        let AtCeiling { needed, ceiling } = at;
        let cost = self.draft_cost(&Draft { fees: Fees::Legacy { gas_price: needed }, ..draft.clone() });
        let slot = draft.slot;
        let work = &mut self.slots.get_mut(&slot)?.work;
        work.bump_needs = (needed <= ceiling).then(|| Box::new(cost));
        if needed > ceiling {
            work.at_ceiling = Some(draft.version);
            self.changes.journal_hint(draft.tx, now, Entry::AtCeiling { slot, needed, ceiling });
        }
        None
    }

    /// The draft, marked as being signed, if today's budget can pay it.
    fn within_budget(&mut self, draft: Draft) -> Option<Draft> {
        let slot = draft.slot;
        let expected = self.expected(&draft);
        let beyond = !draft.no_op && self.beyond_budget(self.slots.get(&slot)?, expected.fee);
        let serial = self.serial();
        let work = &mut self.slots.get_mut(&slot)?.work;
        work.beyond_budget = beyond;
        work.bump_needs = None;
        if beyond {
            return None;
        }
        work.signing = Some(serial);
        work.expected = Some(Box::new(expected));
        Some(Draft { serial, ..draft })
    }
}

/// It has bytes, is in no block, and nothing is being signed for it.
fn may_have_another(record: &SlotRecord) -> bool {
    record.mined.is_none() && record.work.signing.is_none() && !record.attempts.is_empty()
}
