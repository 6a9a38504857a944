//! Second: where several endpoints are configured, a receipt ends nothing before a second one has given it.
//!
//! That a block is known to two says nothing of the receipts that one of them shows for it: a status that was changed, a
//! receipt left out or made up would end a transaction as something that it is not, and a retry would pay again. So once
//! two have shown the block of a receipt, a second endpoint is asked for it, and what counts is that it is there and its
//! status. `mined` is shown by the word of one.
//!
//! | second word | what happens |
//! |---|---|
//! | the same | it may end |
//! | another one | nothing ends, however long that lasts; asked again |
//! | two say the same otherwise | theirs counts |
//! | none could be had | it may end by one after `witness_wait`, and says so; never where its transaction would go to another slot |

use alloy_primitives::B256;

use super::{Action, Lane, Plan, SlotRecord, back_off};
use crate::journal::Entry;
use crate::request::Finality;
use crate::transaction::TxState;
use crate::view::{ChainView, Receipt};
use crate::witness::SecondWord;
use crate::{Millis, Slot, TxHash};

/// Part of a receipt that must be known to two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Core {
    hash: TxHash,
    block: B256,
    success: bool,
}

impl From<&Receipt> for Core {
    fn from(receipt: &Receipt) -> Self {
        Self { hash: receipt.hash, block: receipt.block.hash, success: receipt.success }
    }
}

/// A second endpoint's word on a receipt, as far as it was asked for.
#[derive(Debug, Clone)]
pub(super) struct Second {
    of: Core,
    word: Option<SecondWord>,
    asking: bool,
    ask_at: Millis,
    tries: u32,
}

/// Whose word a receipt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenBy {
    /// Two endpoints, or the only one.
    Two,
    /// One, which is enough by now.
    One,
    /// Not enough of them.
    Nobody,
}

impl Lane {
    /// Receipts whose blocks two endpoints have shown, or one where that is enough: ask a second one for them.
    pub(super) fn plan_second(&mut self, plan: &mut Plan, now: Millis) {
        let Some(view) = self.live_view().filter(|view| view.witnessed.several) else { return };
        let shown = view.counted_from();
        let mut asks = Vec::new();
        self.slots.each_to_look_at(.., |slot, record| {
            let Some(receipt) = record.mined.as_ref().filter(|receipt| Some(receipt.block.number) <= shown)
            else {
                return;
            };
            let of = Core::from(receipt);
            let new = || Box::new(Second { of, word: None, asking: false, ask_at: now, tries: 0 });
            let second = record.work.second.get_or_insert_with(new);
            if second.of != of {
                *second = new();
            }
            if second.asking || second.word == Some(SecondWord::Same) {
                return;
            }
            if second.ask_at > now {
                plan.wake(second.ask_at);
                return;
            }
            second.asking = true;
            asks.push((slot, receipt.clone()));
        });
        if !asks.is_empty() {
            plan.actions.push(Action::Second(asks));
        }
    }

    pub(super) fn take_second(&mut self, words: Vec<(Slot, Receipt, SecondWord)>, now: Millis) {
        for (slot, receipt, word) in words {
            let Some(record) = self.slots.get_mut(&slot) else { continue };
            let of = Core::from(&receipt);
            let Some(second) = record.work.second.as_mut().filter(|second| second.of == of) else { continue };
            second.asking = false;
            second.tries = second.tries.saturating_add(1);
            second.ask_at = now.after(back_off(second.tries, 500, 10_000));
            second.word = Some(word.clone());
            let is_there = record.mined.as_ref().is_some_and(|mined| Core::from(mined) == of);
            if let SecondWord::Wrong(other) = word
                && is_there
            {
                self.was_wrong(slot, other.map(|other| *other), now);
            }
        }
    }

    /// Two endpoints say something else than the one whose receipt was taken.
    fn was_wrong(&mut self, slot: Slot, other: Option<Receipt>, now: Millis) {
        let Some(record) = self.slots.get_mut(&slot) else { return };
        let Some(wrong) = record.mined.take() else { return };
        record.work.send_at = now;
        record.work.look_at = now;
        record.work.looks = 0;
        let newest = record.attempts.last().map(|newest| newest.hash);
        if let Some(tx) = record.tx.and_then(|id| self.bound.get_mut(&id)) {
            tx.status.receipt = None;
            tx.status.state = TxState::Broadcast;
            tx.status.look_for(newest);
            self.changes.tx(tx, now);
            let entry = Entry::Reorged { hash: wrong.hash, block: wrong.block };
            self.changes.journal(Some(tx.id), now, entry);
        } else if let Some(tx) = record.tx.and_then(|id| self.reopened.get_mut(&id)) {
            tx.status.receipt = None;
            self.changes.tx(tx, now);
        }
        if let (Some(other), Some(view)) = (other, self.live_view()) {
            self.take_receipt(other, view.head.at, now);
        }
    }

    /// By whose word a receipt may end something.
    pub(super) fn given_by(
        &self,
        slot: Slot,
        record: &SlotRecord,
        receipt: &Receipt,
        view: &ChainView,
    ) -> GivenBy {
        if record.work.stored || self.uncounted(slot, receipt, view).is_some() {
            return GivenBy::Nobody;
        }
        if !view.witnessed.several {
            return GivenBy::Two;
        }
        match word_on(record, receipt) {
            Some(SecondWord::Same) => GivenBy::Two,
            Some(SecondWord::Lacking { waited, .. })
                if view.witnessed.alone || self.settings.witness_wait.is_some_and(|wait| *waited >= wait) =>
            {
                GivenBy::One
            }
            Some(SecondWord::Lacking { .. } | SecondWord::Differs(_) | SecondWord::Wrong(_)) | None => {
                GivenBy::Nobody
            }
        }
    }

    /// The account's count at the block of the receipt or above it, where it has not passed the slot: then nothing of the slot
    /// is in that block.
    fn uncounted(&self, slot: Slot, receipt: &Receipt, view: &ChainView) -> Option<Slot> {
        let account = view.accounts.get(&self.id.signer).filter(|account| account.count <= slot)?;
        let is_of_it = account.at.number >= receipt.block.number && view.shows(&account.at);
        is_of_it.then_some(account.count)
    }

    /// Why a receipt does not end its transaction, although its block would.
    pub(super) fn lacks_second(
        &self,
        record: &SlotRecord,
        receipt: &Receipt,
        finality: Finality,
    ) -> Option<String> {
        let view = self.live_view()?;
        let (hash, block, is_final) =
            (receipt.hash, receipt.block.number, view.is_final(&receipt.block, finality));
        let slot = self.by_hash.get(&hash).copied()?;
        if let Some(count) = self.uncounted(slot, receipt, &view).filter(|_| is_final) {
            return Some(format!(
                "an endpoint shows a receipt of {hash} in block {block}, and the account's count there is {count}: nonce {slot} cannot \
                 have been used, so it does not end by that"
            ));
        }
        if record.work.stored && is_final {
            return Some("its receipt was stored before the start, and is looked up again".to_owned());
        }
        if !view.witnessed.several {
            return None;
        }
        match word_on(record, receipt)? {
            SecondWord::Differs(said) => Some(format!(
                "two endpoints disagree about the receipt of {hash} in block {block} ({said}): it does not end until they agree, or \
                 the wrong one is taken out of the configuration"
            )),
            SecondWord::Lacking { waited, why } if is_final => {
                let left = self.settings.witness_wait.map(|wait| wait.saturating_sub(*waited).as_secs());
                let left = left.map_or(String::new(), |left| format!(", at most {left} s more"));
                Some(format!(
                    "its receipt is given by one endpoint only: waiting for a second one{left}; {why}"
                ))
            }
            SecondWord::Lacking { .. } | SecondWord::Same | SecondWord::Wrong(_) => None,
        }
    }
}

/// The last word on this very receipt.
fn word_on<'a>(record: &'a SlotRecord, receipt: &Receipt) -> Option<&'a SecondWord> {
    let second = record.work.second.as_deref()?;
    second.word.as_ref().filter(|_| second.of == Core::from(receipt))
}
