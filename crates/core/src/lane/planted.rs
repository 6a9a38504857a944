//! Bugs that the simulator plants in itself (`LaneSettings::planted`), one function for each. With nothing planted,
//! and nothing but the simulator plants anything, none of this is reached.

use super::{Lane, Prep};
use crate::journal::Entry;
use crate::outcome::SendOutcome;
use crate::settings::PlantedInLane;
use crate::transaction::{Transaction, TxState, Whose};
use crate::view::{BlockRef, ChainView};
use crate::{Millis, Slot, TxId};

impl Lane {
    /// What unknown slots did is compared with nothing.
    pub(super) fn planted_compares_nothing(&self) -> bool {
        self.has_planted(PlantedInLane::ComparesNothing)
    }

    fn has_planted(&self, bug: PlantedInLane) -> bool {
        self.settings.planted == Some(bug)
    }

    /// A send that was not answered gives its slot back.
    pub(super) fn planted_recycle(&mut self, slot: Slot, outcome: SendOutcome, now: Millis) {
        if outcome == SendOutcome::Unknown && self.has_planted(PlantedInLane::RecycleOnTimeout) {
            self.planted_requeue(slot, now);
            self.row.returned.insert(slot);
        }
    }

    /// What no pool shows gives its slot back.
    pub(super) fn planted_probe(&mut self, slot: Slot, now: Millis) {
        if self.has_planted(PlantedInLane::ProbeRecycles) {
            self.planted_requeue(slot, now);
            self.row.returned.insert(slot);
        }
    }

    /// A node's no counts whoever has the bytes: it ends the transaction, or frees its slot. True if it ends it.
    pub(super) fn planted_refusal(&mut self, slot: Slot, now: Millis) -> bool {
        if self.has_planted(PlantedInLane::RefusalFreesSlot) {
            self.planted_requeue(slot, now);
            self.row.returned.insert(slot);
        }
        self.has_planted(PlantedInLane::RefusalEndsTaken)
    }

    /// A passed slot without a receipt sends its transaction back to the queue.
    pub(super) fn planted_null_receipt(&mut self, slot: Slot, now: Millis) {
        if self.has_planted(PlantedInLane::RequeueOnNullReceipt) {
            self.planted_requeue(slot, now);
        }
    }

    /// A re-price takes a new slot. True if it did.
    pub(super) fn planted_bump(&mut self, slot: Slot, now: Millis) -> bool {
        let planted = self.has_planted(PlantedInLane::BumpTakesNewSlot);
        if planted {
            self.planted_requeue(slot, now);
        }
        planted
    }

    /// The next slot is what the node counts.
    pub(super) fn planted_cursor(&mut self, count: Slot) {
        if self.has_planted(PlantedInLane::CursorFollowsCount) {
            self.row.cursor = Some(count);
        }
    }

    /// A receipt counts by its block's number alone.
    pub(super) fn planted_no_hash(&self) -> bool {
        self.has_planted(PlantedInLane::NoBlockHash)
    }

    /// A slot is forgotten when its transaction ends.
    pub(super) fn planted_forget(&self) -> bool {
        self.has_planted(PlantedInLane::ForgottenAtFinality)
    }

    /// A cancel is done when it was asked for. True if it was.
    pub(super) fn planted_cancel(&mut self, id: TxId, now: Millis) -> bool {
        let slot = self.bound.get(&id).and_then(|tx| tx.status.slot);
        let Some(slot) = slot.filter(|_| self.has_planted(PlantedInLane::CancelAtOnce)) else { return false };
        let Some(mut tx) = self.planted_abandon(slot) else { return false };
        let reason = crate::transaction::Reason {
            code: crate::transaction::ReasonCode::CancelledByCaller,
            text: "cancelled by the caller".to_owned(),
        };
        tx.status.state = TxState::Cancelled;
        self.changes.tx(&mut tx, now);
        self.changes.journal(Some(id), now, Entry::Cancelled { reason });
        true
    }

    /// A replace sends its transaction to a new slot. True if it did.
    pub(super) fn planted_replace(
        &mut self,
        id: TxId,
        payload: &crate::request::Payload,
        now: Millis,
    ) -> bool {
        let slot = self.bound.get(&id).and_then(|tx| tx.status.slot);
        let Some(slot) = slot.filter(|_| self.has_planted(PlantedInLane::ReplaceTakesNewSlot)) else {
            return false;
        };
        self.planted_requeue(slot, now);
        let Some(waiting) = self.waiting.by_id_mut(id) else { return false };
        waiting.tx.status.later.push(crate::transaction::Content::Payload(payload.clone()));
        let mut tx = waiting.tx.clone();
        self.changes.tx(&mut tx, now);
        true
    }

    /// A sped-up price is one wei above the newest attempt's.
    pub(super) fn planted_speed_up(&self, slot: Slot, fees: crate::fees::Fees) -> crate::fees::Fees {
        use crate::fees::Fees;
        if !self.has_planted(PlantedInLane::SpeedUpTooCheap) || !self.is_hurried(slot) {
            return fees;
        }
        let more = |price: crate::Price| crate::Price(price.0 + 1);
        match self.live_fees(slot).last() {
            Some(Fees::Legacy { gas_price }) => Fees::Legacy { gas_price: more(*gas_price) },
            Some(Fees::Dynamic { max_fee, tip }) => {
                Fees::Dynamic { max_fee: more(*max_fee), tip: more(*tip) }
            }
            None => fees,
        }
    }

    /// A cancel of everything stops at what is in memory.
    pub(super) fn planted_cancel_all(&self) -> bool {
        self.has_planted(PlantedInLane::CancelAllInMemory)
    }

    /// A fill takes the slots of transactions.
    pub(super) fn planted_fill(&mut self, from: Slot, to: Slot, now: Millis) {
        if !self.has_planted(PlantedInLane::FillOverBound) {
            return;
        }
        for slot in self.slots.range(from..=to.max(from)).map(|(slot, _)| *slot).collect::<Vec<_>>() {
            self.planted_requeue(slot, now);
        }
    }

    /// A reset begins again at the chain's count.
    pub(super) fn planted_reset(&self, count: Slot) -> Option<Slot> {
        self.has_planted(PlantedInLane::ResetToCount).then_some(count)
    }

    /// Any end of a predecessor is good enough.
    pub(super) fn planted_after(&self) -> bool {
        self.has_planted(PlantedInLane::AfterIgnoresFailure)
    }

    /// A page of commands is the oldest ones, whatever of them was read before.
    pub(super) fn planted_page(&self) -> bool {
        self.has_planted(PlantedInLane::WaitingHideOthers)
    }

    /// A person's word is the same, whichever it is.
    pub(super) fn planted_word(&self, whose: Whose) -> Whose {
        if self.has_planted(PlantedInLane::OursIsSentAgain) { Whose::Foreign } else { whose }
    }

    /// What a store has forgotten will not land any more.
    pub(super) fn planted_many_beside_late(&self) -> bool {
        self.has_planted(PlantedInLane::ManyBesideLate)
    }

    /// What lands late was never ours.
    pub(super) fn planted_late_forgotten(&self) -> bool {
        self.has_planted(PlantedInLane::LateForgotten)
    }

    /// The oldest was it.
    pub(super) fn planted_oldest_landed(&self) -> bool {
        self.has_planted(PlantedInLane::OldestHasLanded)
    }

    /// Whatever did the same is accounted for with it.
    pub(super) fn planted_word_frees(&mut self, did: u64) {
        if self.has_planted(PlantedInLane::WordFreesOthers) {
            self.row.forgotten.retain(|_, other| *other != did);
        }
    }

    /// The slot that a word is about: the one that is known now, whenever it was given.
    pub(super) fn planted_shown(&self, id: TxId, shown: Option<Slot>) -> Option<Slot> {
        if shown.is_none() && self.has_planted(PlantedInLane::WordsFromBefore) {
            return self.known(id).and_then(|tx| tx.status.forgotten_as);
        }
        shown
    }

    /// Whoever resumed it meant everything, whenever that was.
    pub(super) fn planted_old_resume(&self) -> bool {
        self.has_planted(PlantedInLane::OldResumeMeansAll)
    }

    /// What was taken back is gone.
    pub(super) fn planted_taken_back(&self) -> bool {
        self.has_planted(PlantedInLane::TakenBackForgotten)
    }

    /// What refusals taught stays, down to nothing.
    pub(super) fn planted_limit(&self) -> bool {
        self.has_planted(PlantedInLane::LimitForEver)
    }

    /// A yes is the last word.
    pub(super) fn planted_yes(&mut self, slot: Slot, outcome: SendOutcome, now: Millis) {
        if outcome.is_taken()
            && self.has_planted(PlantedInLane::YesIsProof)
            && let Some(record) = self.slots.get_mut(&slot)
        {
            record.work.probe_at = None;
            record.work.send_at = now.after(std::time::Duration::from_secs(86_400));
        }
    }

    /// The slot after a delegating transaction's is as free as any.
    pub(super) fn planted_one_slot(&self) -> bool {
        self.has_planted(PlantedInLane::SecondSlotForgotten)
    }

    /// Only what is final counts against the budget.
    pub(super) fn planted_budget(&self) -> bool {
        self.has_planted(PlantedInLane::BudgetForgetsOut)
    }

    /// A day begins when our clock says so, and never falls.
    pub(super) fn planted_day(&self, chains: u64, ours: u64) -> u64 {
        if self.has_planted(PlantedInLane::DayByOwnClock) { ours.max(chains) } else { chains }
    }

    /// A day that was stored is the truth.
    pub(super) fn planted_stored_day(&self) -> bool {
        self.has_planted(PlantedInLane::DayByOwnClock)
    }

    /// What was stored is not sent before the time that was stored with it.
    pub(super) fn planted_stored_time(&self) -> bool {
        self.has_planted(PlantedInLane::WaitsForStoredTime)
    }

    /// A node that calls bytes too cheap is right, whoever has them and whatever is below.
    pub(super) fn planted_cheap(&self) -> bool {
        self.has_planted(PlantedInLane::KnownIsReplacement)
    }

    /// Nobody asks whether a dearer attempt can be paid.
    pub(super) fn planted_unpaid_bump(&self) -> bool {
        self.has_planted(PlantedInLane::BumpsUnpaid)
    }

    /// Gas is all that fees are.
    pub(super) fn planted_no_data_fee(&self) -> bool {
        self.has_planted(PlantedInLane::BudgetForgetsData)
    }

    /// Nobody asks what the account can pay.
    pub(super) fn planted_funds(&self) -> bool {
        self.has_planted(PlantedInLane::FundsIgnored)
    }

    /// The newest block by which a stranger is believed: the head, or what the lane calls final, whatever the chain may
    /// still take back.
    pub(super) fn planted_early_proof(&self, view: &ChainView) -> Option<u64> {
        if self.has_planted(PlantedInLane::ProvenBeforeFinal) {
            Some(view.head.at.number)
        } else if self.has_planted(PlantedInLane::ProvenAtFinality) {
            view.final_number(self.settings.finality)
        } else {
            None
        }
    }

    /// Whatever is not one of our attempts is a stranger's.
    pub(super) fn planted_alike(&self) -> bool {
        self.has_planted(PlantedInLane::AlikeIsForeign)
    }

    /// What the chain has used is not ours to wonder about.
    pub(super) fn planted_jump(&mut self, count: Slot) {
        if self.has_planted(PlantedInLane::JumpsOverUnknown) {
            self.row.cursor = self.row.cursor.map(|cursor| cursor.max(count));
        }
    }

    /// Back to the queue without a no-op. True if it went.
    pub(super) fn planted_recheck(&mut self, id: TxId, now: Millis) -> bool {
        let slot = self.bound.get(&id).and_then(|tx| tx.status.slot);
        let Some(slot) = slot.filter(|_| self.has_planted(PlantedInLane::RecheckedAtOnce)) else {
            return false;
        };
        self.planted_requeue(slot, now);
        true
    }

    /// What time it is for a deadline.
    pub(super) fn planted_time(&self, head: Millis, now: Millis) -> Millis {
        if self.has_planted(PlantedInLane::ExpiresByOwnClock) { now } else { head }
    }

    /// A chain without blocks moves as well.
    pub(super) fn planted_moves(&self) -> bool {
        self.has_planted(PlantedInLane::BumpsWhileHalted)
    }

    /// It has been in its block for a minute.
    pub(super) fn planted_final(&self, now: Millis) -> bool {
        self.has_planted(PlantedInLane::FinalByTime)
            && now.since(self.moved_at) >= std::time::Duration::from_secs(60)
    }

    /// The chain's ceiling is everybody's.
    pub(super) fn planted_ceiling(&self) -> bool {
        self.has_planted(PlantedInLane::CeilingForgotten)
    }

    /// What the lane knows is true, however old it is.
    pub(super) fn planted_stale_verdict(&self) -> bool {
        self.has_planted(PlantedInLane::FailsOnOldFacts)
    }

    /// Whoever used them, it was not us.
    pub(super) fn planted_adopts(&self) -> bool {
        self.has_planted(PlantedInLane::AdoptsAtLoad)
    }

    /// The next slots are free, whatever used those of ours.
    pub(super) fn planted_unseen(&self) -> bool {
        self.has_planted(PlantedInLane::BindsUnseen)
    }

    /// A stranger's doings are of no interest.
    pub(super) fn planted_unaccounted(&self) -> bool {
        self.has_planted(PlantedInLane::UnaccountedForgotten)
    }

    /// The window was always what it is.
    pub(super) fn planted_window(&self) -> bool {
        self.has_planted(PlantedInLane::TodaysWindow)
    }

    /// History is free again once the chain has taken it back.
    pub(super) fn planted_into_history(&self) -> bool {
        self.has_planted(PlantedInLane::ResetIntoHistory)
    }

    /// A count is a count, however old it is.
    pub(super) fn planted_old_count(&self) -> bool {
        self.has_planted(PlantedInLane::BindsOnOldCount)
    }

    fn planted_requeue(&mut self, slot: Slot, now: Millis) {
        let Some(mut tx) = self.planted_abandon(slot) else { return };
        tx.status.state = TxState::Accepted;
        tx.status.slot = None;
        tx.status.displaced = false;
        self.changes.tx(&mut tx, now);
        let block = BlockRef { number: 0, hash: alloy_primitives::B256::ZERO };
        self.changes.journal(Some(tx.id), now, Entry::Requeued { slot, block });
        self.waiting.add(tx, Prep::New);
    }

    fn planted_abandon(&mut self, slot: Slot) -> Option<Transaction> {
        let id = self.slots.get(&slot)?.tx?;
        let record = self.slots.remove(&slot)?;
        for attempt in &record.attempts {
            self.by_hash.remove(&attempt.hash);
        }
        self.changes.close(slot, &record.attempts);
        self.bound.remove(&id)
    }
}
