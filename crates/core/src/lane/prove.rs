//! Prove: a slot that the chain has used and that shows no receipt of ours may have gone to somebody else (E11).
//!
//! Nothing that is missing proves it. What does is the final block in which the account's count passed the slot, holding
//! none of our hashes. Then the transaction is queued again or fails, as its caller said ([`super::finish`]). If what
//! took the slot does the very same as the transaction, it may be ours: this store may have forgotten an attempt (an
//! older copy), and sending again would land it twice. Then a person must say whose it was ([`super::settle`]).

use super::compare::{carries_out, is_no_op};
use super::{Action, Lane, Plan, Proof, back_off};
use crate::ports::chain::Taker;
use crate::settings::LaneSettings;
use crate::transaction::{Did, Transaction};
use crate::view::{BlockRef, ChainView, Standing};
use crate::{Millis, Slot};

/// Looks without a receipt before a proof is asked for; a slot is shown as displaced from then on.
pub(super) const LOOKS_UNTIL_DISPLACED: u32 = 3;

impl Lane {
    pub(super) fn plan_prove(&mut self, plan: &mut Plan, now: Millis) {
        let (Some(view), Some(count)) = (self.live_view(), self.chain_count()) else { return };
        let (settings, early) = (self.settings.clone(), self.planted_early_proof(&view));
        self.slots.each_to_look_at(..count, |slot, record| {
            let work = &mut record.work;
            let due = record.mined.is_none()
                && !record.attempts.is_empty()
                && work.looks >= LOOKS_UNTIL_DISPLACED
                && !work.proving
                && !self.strangers.asks(slot);
            if !due {
                return;
            }
            let tx = record.tx.and_then(|id| self.bound.get(&id).or_else(|| self.reopened.get(&id)));
            if tx.is_some_and(|tx| tx.status.taken.is_some()) {
                return;
            }
            let Some(up_to) = early.or(settled_for(tx, &view, &settings)) else { return };
            if work.prove_at > now {
                plan.wake(work.prove_at);
                return;
            }
            work.proving = true;
            let ours = record.attempts.iter().map(|attempt| attempt.hash).collect();
            plan.actions.push(Action::Prove(Proof { slot, up_to, ours }));
        });
    }

    /// There is no proof yet: the block is not final, or cannot be read.
    pub(super) fn take_unproven(&mut self, slot: Slot, now: Millis) {
        if self.take_no_taker(slot, now) {
            return;
        }
        if let Some(record) = self.slots.get_mut(&slot) {
            record.work.proving = false;
            record.work.proofs = record.work.proofs.saturating_add(1);
            record.work.prove_at = now.after(back_off(record.work.proofs, 1_000, 30_000));
        }
    }

    /// The slot went to something that is none of our attempts, for good.
    pub(super) fn take_foreign(&mut self, slot: Slot, block: BlockRef, taker: Option<&Taker>, now: Millis) {
        // Asked about a slot without bytes of ours, which it may have by now.
        if self.take_taker(slot, block, taker, now) {
            return;
        }
        let Some(view) = self.live_view() else { return self.take_unproven(slot, now) };
        let (alike_counts, early) = (!self.planted_alike(), self.planted_early_proof(&view));
        let Some(record) = self.slots.get_mut(&slot) else { return };
        let tx = record.tx.and_then(|id| self.bound.get(&id).or_else(|| self.reopened.get(&id)));
        // The endpoints were asked after the view that said what is final: what they show now must be part of it, and
        // deep enough by what is known now.
        let settled = early.or(settled_for(tx, &view, &self.settings));
        if view.standing(&block) == Standing::Orphaned || settled < Some(block.number) {
            return self.take_unproven(slot, now);
        }
        record.work.proving = false;
        // What was sent before an older copy was put back may be ours, whatever it did: a newer copy may have cancelled or replaced it.
        let may_be_ours = self.row.accepted_below.is_some_and(|below| slot < below);
        // Any content that it ever had: a store that has forgotten one may have forgotten its bytes.
        let alike = taker.zip(tx).filter(|_| alike_counts);
        let alike = alike.map(|(taker, tx)| (tx.id, taker, carries_out(taker, tx), tx.version()));
        match alike {
            Some((id, taker, Some(version), _)) => {
                self.taken_alike(id, slot, block, taker, (version, Did::Same), now);
                if may_be_ours {
                    // By the word of whoever accepted the store.
                    self.settle_taken_as_ours(id, slot, now);
                }
            }
            Some((id, taker, None, newest)) if may_be_ours => {
                let did = if is_no_op(taker, self.id.signer) { Did::Nothing } else { Did::Other };
                self.taken_alike(id, slot, block, taker, (newest, did), now);
                // It may be what another request asks for that waits.
                self.remember_late(slot, Some(taker).filter(|_| did == Did::Other), now);
            }
            Some(_) | None => {
                self.remember_late(slot, taker, now);
                self.remember_unaccounted((slot, block), taker, now);
                self.slot_is_foreign(slot, block, now);
            }
        }
    }
}

/// The newest block by which it may be decided that a slot of this transaction, or of nobody's, has ended without it: final
/// for the lane, for its caller, who may have asked for more, and for the chain. To have asked for less is no wish to land
/// twice. What one endpoint alone shows decides nothing, however long it is alone.
pub(super) fn settled_for(
    tx: Option<&Transaction>,
    view: &ChainView,
    settings: &LaneSettings,
) -> Option<u64> {
    let asked = tx.and_then(|tx| tx.request.options.finality);
    view.settled_for(std::iter::once(settings.finality).chain(asked), settings.watch_depth)
}
