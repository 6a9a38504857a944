//! Pair: the slot after one that delegates the account's own code (EIP-7702).
//!
//! A transaction with slot N that carries the account's own authorization uses up N + 1 as well. The authorization is public as soon as
//! its bytes are, and anybody can carry it to the chain as long as the account's count is exactly N + 1. So where anything else than
//! that content may take N, a no-op of nobody's is signed for N + 1 together with it, and both go out together.
//!
//! | who has N | what becomes of N + 1 |
//! |---|---|
//! | a content with the authorization | it is used up with N; its no-op, if there is one, can never land and ends with N |
//! | a no-op, another content, a stranger | its no-op takes it; the transaction ends when both are final |
//! | the same, and a stranger was faster with the authorization | that is told when it is final, with whether the account's code is a delegation |
//!
//! Bytes that are stored may be out.

use super::allocate::uses_two;
use super::keep::current;
use super::{Lane, SlotRecord};
use crate::attempt::Attempt;
use crate::journal::Entry;
use crate::transaction::{Ending, Transaction};
use crate::view::{BlockRef, Receipt};
use crate::{Millis, Slot, TxId};

/// A slot whose stored bytes carry the account's own authorization.
struct Pair<'a> {
    first: Slot,
    second: Slot,
    tx: &'a Transaction,
    record: &'a SlotRecord,
}

impl Pair<'_> {
    /// The chain took a content with the authorization, so the second slot went with it.
    fn is_used_by(&self, hash: crate::TxHash) -> bool {
        let winner = self.record.attempts.iter().find(|attempt| attempt.hash == hash);
        winner.is_some_and(|winner| uses_two(self.tx, winner))
    }

    fn is_won(&self) -> bool {
        self.record.mined.as_ref().is_some_and(|receipt| self.is_used_by(receipt.hash))
    }

    /// The first slot is in a block, by something that leaves the second to whoever comes first.
    fn is_lost(&self) -> bool {
        self.record.mined.is_some() && !self.is_won()
    }
}

impl Lane {
    fn pair_of(&self, slot: Slot) -> Option<Pair<'_>> {
        if !self.slots.is_double(slot) || self.planted_one_slot() {
            return None;
        }
        let record = self.slots.get(&slot)?;
        let tx = record.tx.and_then(|id| self.bound.get(&id)).filter(|tx| tx.takes_two_slots())?;
        let is_signed = record.attempts.iter().any(|attempt| uses_two(tx, attempt));
        is_signed.then(|| Pair { first: slot, second: slot.next(), tx, record })
    }

    fn pairs(&self) -> impl Iterator<Item = Pair<'_>> {
        let firsts = self.slots.double().filter_map(|record| record.attempts.last());
        firsts.filter_map(|newest| self.pair_of(newest.slot))
    }

    /// Nothing is stored for the second slot, and the chain has not used it.
    fn is_open(&self, second: Slot) -> bool {
        self.chain_count().is_some_and(|count| second >= count)
            && !self.slots.contains_key(&second)
            && !self.is_over(second)
            && !self.row.returned.contains(&second)
    }

    /// The second slot has ended, by a no-op or by something that is not ours.
    fn is_over(&self, second: Slot) -> bool {
        self.kept.contains(second) || self.row.history >= Some(second) || self.is_left(second)
    }

    /// The second slot was used before it had bytes, and that is final.
    fn is_left(&self, second: Slot) -> bool {
        self.row.passed >= Some(second) && !self.row.returned.contains(&second)
    }

    /// Second slots that no-ops are to use up, now or as soon as something else is signed for the first.
    pub(super) fn seconds_to_come(&self) -> bool {
        self.pairs().any(|pair| {
            let other = !pair.tx.call().authorizes_sender() || self.chain_count() == Some(pair.second);
            other && !pair.is_won() && self.is_open(pair.second)
        })
    }

    /// Second slots that no-ops are to use up now: with the first one's other content, or where something else took the first.
    pub(super) fn seconds_to_fill(&self) -> Vec<Slot> {
        let Some(count) = self.chain_count().filter(|_| self.may_send()) else { return Vec::new() };
        let is_exposed = |pair: &Pair<'_>| {
            let is_other = |attempt: &Attempt| !uses_two(pair.tx, attempt);
            let is_signing = pair.record.work.signing.is_some() && !pair.tx.call().authorizes_sender();
            count == pair.second || is_signing || pair.record.attempts.iter().any(is_other)
        };
        let open = self.pairs().filter(|pair| !pair.is_won() && is_exposed(pair)).map(|pair| pair.second);
        open.filter(|second| self.is_open(*second) && !self.tentative.contains_key(second)).collect()
    }

    /// Second slots with a no-op, while what is sent for the first carries the authorization: pools refuse the one beside the other.
    pub(super) fn seconds_kept_back(&self, count: Slot) -> Vec<Slot> {
        let goes_on = |pair: &Pair<'_>| {
            pair.first >= count
                && current(&self.reopened, pair.record).is_some_and(|newest| uses_two(pair.tx, newest))
        };
        self.pairs().filter(goes_on).map(|pair| pair.second).collect()
    }

    /// Second slots with bytes: whether they go out is for their first ones to say, so they are looked at with those.
    pub(super) fn look_at_seconds(&mut self) {
        let seconds: Vec<Slot> = self.pairs().map(|pair| pair.second).collect();
        for second in seconds {
            self.slots.get_mut(&second);
        }
    }

    /// First slots in blocks that may have waited for their second ones.
    pub(super) fn mined_firsts(&self) -> Vec<Slot> {
        self.pairs().filter(Pair::is_lost).map(|pair| pair.first).collect()
    }

    /// The slot may end by this receipt: there is no second one, or it has ended or ends now.
    pub(super) fn second_is_used(&self, slot: Slot, receipt: &Receipt, ends: impl Fn(Slot) -> bool) -> bool {
        let Some(pair) = self.pair_of(slot).filter(|pair| !pair.is_used_by(receipt.hash)) else {
            return true;
        };
        self.is_over(pair.second) || ends(pair.second)
    }

    /// A stranger has the first slot, and a no-op for the second is still to be signed.
    pub(super) fn second_is_open(&self, slot: Slot) -> bool {
        self.pair_of(slot).is_some_and(|pair| self.is_open(pair.second))
    }

    /// The stored bytes of this slot have used up the next one, or others have: there is nothing of it to give back.
    pub(super) fn spoke_for_second(&self, slot: Slot) -> bool {
        self.pair_of(slot).is_some()
    }

    /// The winner of this slot has used up the second one too: a no-op for that can never land.
    pub(super) fn end_second(&mut self, slot: Slot, block: BlockRef) {
        let second = slot.next();
        // A reorganisation may have given the slot to the delegation after something else had it.
        if self.row.returned.remove(&second) {
            self.changes.row();
        }
        if self.slots.get(&second).is_some_and(|record| record.tx.is_none() && record.mined.is_none()) {
            self.keep(second, block, None);
        }
    }

    /// Second slots that the chain used before they had bytes: looked up like every slot that nobody knows.
    pub(super) fn note_lost_seconds(&mut self) {
        let Some(count) = self.chain_count().filter(|_| !self.is_older()) else { return };
        let is_lost =
            |second: &Slot| *second < count && !self.slots.contains_key(second) && !self.is_over(*second);
        let lost: Vec<Slot> =
            self.pairs().filter(Pair::is_lost).map(|pair| pair.second).filter(is_lost).collect();
        for second in lost {
            if self.row.returned.insert(second) {
                self.changes.row();
            }
        }
    }

    /// A slot with a no-op of nobody's went to something else, for good. Where it is the second one of a transaction that did not
    /// use it up itself, somebody else has carried the authorization to the chain.
    pub(super) fn tell_used_second(&mut self, second: Slot, block: BlockRef, now: Millis) {
        let Some(first) = second.0.checked_sub(1).map(Slot) else { return };
        let Some(pair) = self.pair_of(first).filter(Pair::is_lost) else { return };
        let (id, text) = (pair.tx.id, self.used_sentence(&pair, Some(block)));
        self.add_to_ending(id, &text, now);
        self.changes.journal(
            None,
            now,
            Entry::LaneAdopted { nonces: vec![second], hashes: Vec::new(), text },
        );
    }

    /// The same for one that had no bytes, when its transaction ends.
    pub(super) fn tell_left_second(&mut self, first: Slot, now: Millis) {
        let pair = self.pair_of(first).filter(|pair| pair.is_lost() && self.is_left(pair.second));
        // One that had a no-op was told of when that was over.
        let had_bytes = |second: Slot| {
            self.slots.contains_key(&second) || self.kept.contains(second) || self.row.history >= Some(second)
        };
        let Some(pair) = pair.filter(|pair| !had_bytes(pair.second)) else { return };
        let (id, text) = (pair.tx.id, self.used_sentence(&pair, None));
        self.add_to_ending(id, &text, now);
    }

    fn add_to_ending(&mut self, id: TxId, text: &str, now: Millis) {
        let Some(tx) = self.bound.get_mut(&id) else { return };
        let Some(Ending::Cancel(reason) | Ending::Expire(reason) | Ending::Fail(reason)) =
            &mut tx.status.ending
        else {
            return;
        };
        reason.text = format!("{}. But {text}", reason.text);
        self.changes.tx(tx, now);
    }

    fn used_sentence(&self, pair: &Pair<'_>, block: Option<BlockRef>) -> String {
        let Pair { first, second, tx, .. } = pair;
        let signer = self.id.signer;
        let block = block.map_or(String::new(), |block| format!(" in block {}", block.number));
        let mut to: Vec<String> = Vec::new();
        for item in tx.payloads().flat_map(|payload| &payload.authorization_list) {
            let address = item.address.to_string();
            if item.signed.is_none() && !to.contains(&address) {
                to.push(address);
            }
        }
        let code = match self.account().is_some_and(|account| account.delegated) {
            true => format!(
                "The account IS delegated now: that code can spend all that {signer} has. Take it back by a delegation to the zero \
                 address, and move what it has"
            ),
            false => "The account's code is no delegation now".to_owned(),
        };
        format!(
            "nonce {second} was used{block} by none of its no-ops: somebody else has carried the authorization of {signer} for {} to the \
             chain, which went out with nonce {first}, or used the key. {code}",
            to.join(" or ")
        )
    }

    /// The sentence for a transaction in a block that still waits for its second slot.
    pub(super) fn explain_second(&self, tx: &Transaction) -> Option<String> {
        let pair = self.pair_of(tx.status.slot?).filter(Pair::is_lost)?;
        let second = pair.second;
        if self.is_over(second) {
            return None;
        }
        let is_passed = self.chain_count().is_some_and(|count| count > second);
        let used = match self.slots.get(&second).map(|record| record.mined.as_ref()) {
            Some(Some(receipt)) => {
                let landed = super::in_block(self.view.as_deref(), &receipt.block, self.settings.finality);
                format!("a no-op took it in {landed}")
            }
            Some(None) | None if is_passed => {
                let code = match self.account().is_some_and(|account| account.delegated) {
                    true => ", and the account is delegated now",
                    false => "",
                };
                format!(
                    "it was used, and no no-op of ours is known to have taken it{code}; that is told when it is final"
                )
            }
            Some(None) => "a no-op is out for it".to_owned(),
            None => "a no-op is being signed for it".to_owned(),
        };
        Some(format!("nonce {second}, which its authorization could use, must be used up too: {used}"))
    }

    /// The transaction that decides which slot is the next one.
    pub(super) fn explain_pair(&self) -> Option<String> {
        let (id, slot) = self.next_is_open_for()?;
        let until = match self.slots.get(&slot).is_some_and(|record| record.mined.is_some()) {
            true => "it has ended",
            false => "it is in a block",
        };
        Some(format!(
            "waiting for a nonce: transaction {id} may use nonces {slot} and {}, and no other is assigned until {until}",
            slot.next()
        ))
    }
}
