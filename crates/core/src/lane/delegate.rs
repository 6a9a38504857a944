//! Delegate: to whose code an account may be delegated (EIP-7702) is judged again before anything is signed, since the
//! operator may have shortened the list while a transaction waited.
//!
//! | what would delegate the account to an address that is not listed | what happens |
//! |---|---|
//! | a content without a slot, or in one without stored bytes | the transaction fails |
//! | a new content, not signed, of a slot with stored bytes | it is dropped, and the one before it counts again |
//! | stored bytes | they are not sent again and not made dearer; the transaction is to fail: its slot gets a no-op, and the chain decides |
//! | stored bytes of one that had ended, and that the chain took back | they are sent as before, and not made dearer |
//!
//! Authorizations that others signed are no concern of this list. The slot after a delegation's own is in [`super::pair`].

use super::keep::current;
use super::{Hold, Lane, SlotRecord, Waiting};
use crate::fees::{AtCeiling, Ladder, replacement_price};
use crate::request::Payload;
use crate::transaction::{Ending, Reason, ReasonCode, Transaction};
use crate::{Account, Millis, Slot, TxId};

/// A content with stored bytes, or to be signed for a slot that has some, and the reason not to sign it.
struct Unlisted {
    tx: TxId,
    /// Nothing of this content is signed, and older bytes of the slot are.
    fresh: bool,
    reason: Reason,
}

impl Lane {
    /// The address to which this content would delegate the account although the operator does not list it.
    pub(super) fn unlisted(&self, payload: &Payload) -> Option<Account> {
        let own = payload.authorization_list.iter().filter(|item| item.signed.is_none());
        own.map(|item| item.address).find(|to| !self.settings.delegate_to.contains(to))
    }

    /// The same of a transaction without a slot, as soon as nothing else is to be found out about it: while the lane compares
    /// what landed, or a person is asked whether this one did, it may still end as landed.
    pub(super) fn waits_unlisted(&self, waiting: &Waiting) -> Option<Account> {
        let to = self.unlisted(waiting.tx.payload())?;
        self.is_judged(&waiting.tx).then_some(to)
    }

    /// Nothing is to be found out any more that could say that it landed.
    fn is_judged(&self, tx: &Transaction) -> bool {
        tx.status.held.is_none() && matches!(self.held(), None | Some(Hold::Paused))
    }

    /// Ends what is bound to a slot and would delegate the account to an address that is not listed.
    pub(super) fn end_unlisted(&mut self, now: Millis) {
        // A drop brings the content before it back, which is judged too; a transaction has few.
        loop {
            let found = self.slots.double().find_map(|record| self.bound_unlisted(record));
            let Some(Unlisted { tx, fresh, reason }) = found else { return };
            if fresh {
                self.drop_content(tx, reason, now);
            } else {
                self.begin_ending(tx, Ending::Fail(reason), now);
            }
        }
    }

    fn bound_unlisted(&self, record: &SlotRecord) -> Option<Unlisted> {
        let tx = record.tx.and_then(|id| self.bound.get(&id))?;
        let slot = tx.status.slot?;
        let is_open = record.mined.is_none() && self.chain_count().is_some_and(|count| slot >= count);
        if !is_open || tx.status.ending.is_some() || tx.is_no_op() {
            return None;
        }
        let to = self.unlisted(tx.payload())?;
        // A reservation ends here and now, as one that waits does.
        if record.attempts.is_empty() && !self.is_judged(tx) {
            return None;
        }
        let fresh = self.unsigned_content(record).is_some();
        Some(Unlisted { tx: tx.id, fresh, reason: reason(self.id.signer, to) })
    }

    /// Slots whose bytes are not to go out again.
    pub(super) fn unlisted_slots(&self) -> Vec<Slot> {
        let is_unlisted = |record: &&SlotRecord| {
            let tx = record.tx.and_then(|id| self.bound.get(&id));
            let newest = current(&self.reopened, record).filter(|attempt| !attempt.no_op);
            tx.zip(newest).is_some_and(|(tx, newest)| self.unlisted(tx.payload_of(newest.version)).is_some())
        };
        let slots = self.slots.double().filter(is_unlisted);
        slots.filter_map(|record| record.attempts.last().map(|newest| newest.slot)).collect()
    }

    /// The sentence for bytes that do not go out again.
    pub(super) fn explain_kept_back(&self, tx: &Transaction, slot: Slot) -> Option<String> {
        let to = self.unlisted(tx.payload()).filter(|_| self.unlisted_slots().contains(&slot))?;
        let why = not_listed(self.id.signer, to);
        let dear = self.no_op_too_dear().filter(|(of, _)| *of == slot);
        let no_op = match dear {
            Some((_, at)) => too_dear(&at),
            None => "a no-op is to take its nonce".to_owned(),
        };
        Some(format!("its bytes are not sent again, since {why}; {no_op}"))
    }

    /// A slot whose bytes do not go out again, and whose no-op would have to offer more than the ceiling: nothing is sent for it.
    pub(super) fn no_op_too_dear(&self) -> Option<(Slot, AtCeiling)> {
        let (view, count) = (self.live_view()?, self.chain_count()?);
        let (step, rule) = (self.settings.bump_percent, self.settings.replacement_percent);
        let ladder = Ladder { step, rule, ceiling: self.settings.max_fee };
        let dear = |slot: Slot| {
            let record = self.slots.get(&slot).filter(|record| record.mined.is_none())?;
            let tx = record.tx.and_then(|id| self.bound.get(&id)).filter(|_| slot >= count)?;
            let price = replacement_price(&self.live_fees(slot), &view.fees, tx.speed(), ladder);
            price.err().map(|at| (slot, at))
        };
        self.unlisted_slots().into_iter().find_map(dear)
    }

    /// The sentence for bytes that are not made dearer.
    pub(super) fn explain_unlisted(&self, tx: &Transaction) -> Option<String> {
        let to = self.unlisted(tx.payload())?;
        Some(format!("{}; ", not_listed(self.id.signer, to)))
    }
}

/// The sentence for a no-op above the ceiling.
pub(super) fn too_dear(at: &AtCeiling) -> String {
    format!(
        "its no-op needs {} per gas to replace them, and the ceiling is {}: raise max_fee_gwei",
        at.needed.in_gwei(),
        at.ceiling.in_gwei()
    )
}

pub(super) fn reason(signer: Account, to: Account) -> Reason {
    Reason { code: ReasonCode::DelegationNotAllowed, text: not_listed(signer, to) }
}

fn not_listed(signer: Account, to: Account) -> String {
    format!(
        "it would let the code at {to}, which the signer's delegate_to does not list any more, act for {signer}; nothing is signed for \
         it"
    )
}
