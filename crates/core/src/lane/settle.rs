//! Settle: something that is no attempt of ours took a slot, and may be ours all the same (E11): it does the same as the slot's
//! transaction, or the store went back and a newer copy may have cancelled or replaced that. Nothing on chain tells. A person must say.
//!
//! | the word | the transaction |
//! |---|---|
//! | ours, and it did the same | has ended, as what took its slot did |
//! | ours, and it did nothing or something else | was cancelled or replaced by it: has ended without success |
//! | foreign | is queued again or fails, as its caller said; one that was to end has ended |
//! | none yet | stays as it is, also if it is to be cancelled, and says so |
//!
//! What a transaction that had ended before is settled as changes nothing of how it ended.

use super::allocate::takes_next;
use super::finish::has_reverted;
use super::{Lane, SlotRecord};
use crate::journal::Entry;
use crate::ports::chain::Taker;
use crate::transaction::{Did, Ending, Reason, ReasonCode, TakenAlike, Transaction, TxState, Whose, Won};
use crate::view::{BlockRef, Standing};
use crate::{CommandId, ContentVersion, Millis, Slot, TxHash, TxId};

/// What a person said.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    tx: TxId,
    whose: Whose,
    /// Of this one, and of no other.
    hash: TxHash,
}

impl Lane {
    /// The slot went to something that may be ours, for good.
    pub(super) fn taken_alike(
        &mut self,
        id: TxId,
        slot: Slot,
        block: BlockRef,
        taker: &Taker,
        (version, did): (ContentVersion, Did),
        now: Millis,
    ) {
        let (hash, receipt) = (taker.hash, taker.receipt.clone());
        let Some(tx) = self.bound.get_mut(&id).or_else(|| self.reopened.get_mut(&id)) else { return };
        tx.status.taken = Some(Box::new(TakenAlike { hash, block, version, did, receipt }));
        let two = tx.takes_two_slots();
        self.changes.tx(tx, now);
        self.changes.journal(Some(id), now, Entry::TakenAlike { slot, hash, block });
        if two && did != Did::Same && self.may_have_forgotten(slot.next()) {
            self.free_second_slot(slot);
        }
    }

    /// What took a slot counts while its block is part of the chain: after that the slot is looked at anew.
    pub(super) fn check_taken(&mut self, now: Millis) {
        let (Some(view), Some(count)) = (self.live_view(), self.chain_count()) else { return };
        let is_gone = |slot: Slot, taken: &TakenAlike| match view.standing(&taken.block) {
            Standing::Orphaned => true,
            Standing::Older => slot >= count,
            Standing::Canonical | Standing::Ahead => false,
        };
        let gone: Vec<TxId> = self
            .bound
            .values()
            .chain(self.reopened.values())
            .filter(|tx| tx.status.slot.zip(tx.status.taken.as_deref()).is_some_and(|(s, t)| is_gone(s, t)))
            .map(|tx| tx.id)
            .collect();
        for id in gone {
            let Some(tx) = self.bound.get_mut(&id).or_else(|| self.reopened.get_mut(&id)) else { continue };
            tx.status.taken = None;
            self.changes.tx(tx, now);
        }
    }

    pub(super) fn ask_settle(&mut self, command: CommandId, tx: TxId, whose: Whose, hash: TxHash) {
        self.settles.insert(command, Word { tx, whose, hash });
    }

    /// Words are followed once the chain was seen and still shows what they are about.
    pub(super) fn finish_settles(&mut self, now: Millis) {
        if self.settles.is_empty() || self.live_view().is_none() || self.chain_count().is_none() {
            return;
        }
        for (command, word) in std::mem::take(&mut self.settles) {
            let tx = self.bound.get(&word.tx).or_else(|| self.reopened.get(&word.tx));
            let about = tx.and_then(|tx| {
                let taken = tx.status.taken.as_deref().filter(|taken| taken.hash == word.hash)?;
                Some((tx.status.slot?, taken.clone()))
            });
            // It was settled, or something else is known by now.
            let Some((slot, taken)) = about else {
                self.finish_command(command);
                continue;
            };
            // What is not settled may be taken back, and its slot is then looked at anew.
            if self.settled().is_none_or(|settled| taken.block.number > settled) {
                self.settles.insert(command, word);
                continue;
            }
            self.speak_again_for(command);
            match self.planted_word(word.whose) {
                Whose::Ours => self.settle_as_ours(word.tx, slot, &taken, now),
                Whose::Foreign => self.settle_as_foreign(word.tx, slot, &taken, now),
            }
            self.finish_command(command);
        }
    }

    /// What was just found to have taken the slot is ours, by a word that was given before.
    pub(super) fn settle_taken_as_ours(&mut self, id: TxId, slot: Slot, now: Millis) {
        let tx = self.bound.get(&id).or_else(|| self.reopened.get(&id));
        if let Some(taken) = tx.and_then(|tx| tx.status.taken.as_deref().cloned()) {
            self.settle_as_ours(id, slot, &taken, now);
        }
    }

    fn settle_as_ours(&mut self, id: TxId, slot: Slot, taken: &TakenAlike, now: Millis) {
        if let Some(receipt) = &taken.receipt {
            self.spend(slot, receipt, now);
        }
        if let Some(mut tx) = self.bound.remove(&id) {
            if taken.did == Did::Same && takes_next(&tx, taken.version) {
                self.end_second(slot, taken.block);
            } else if tx.takes_two_slots() {
                self.free_second_slot(slot);
            }
            if taken.did != Did::Same {
                self.keep(slot, taken.block, None);
                return self.end_undone(tx, slot, taken, now);
            }
            self.end_carried_out(&mut tx, slot, taken, now);
            return self.keep(slot, taken.block, Some(tx));
        }
        let Some(mut tx) = self.reopened.remove(&id) else { return };
        tx.status.taken = None;
        tx.status.receipt.clone_from(&taken.receipt);
        self.changes.tx(&mut tx, now);
        let TakenAlike { hash, block, .. } = *taken;
        self.changes.journal(Some(id), now, Entry::CarriedOut { slot, hash, block });
        self.keep(slot, block, Some(tx));
    }

    /// A newer copy of the store had cancelled or replaced it: what it was to do was not done.
    fn end_undone(&mut self, mut tx: Transaction, slot: Slot, by: &TakenAlike, now: Millis) {
        (tx.status.displaced, tx.status.taken) = (false, None);
        let TakenAlike { hash, block, .. } = *by;
        self.changes.journal(Some(tx.id), now, Entry::CarriedOut { slot, hash, block });
        let ending = tx.status.ending.clone().unwrap_or_else(|| match by.did {
            Did::Nothing => {
                let text = format!("nonce {slot} was used by the no-op {hash}: it had been cancelled before this store was put back");
                Ending::Cancel(Reason { code: ReasonCode::CancelledByCaller, text })
            }
            Did::Same | Did::Other => {
                let text = format!("nonce {slot} was used by {hash}: it had been replaced before this store was put back");
                Ending::Fail(Reason { code: ReasonCode::Displaced, text })
            }
        });
        self.end(tx, ending, now);
    }

    fn settle_as_foreign(&mut self, id: TxId, slot: Slot, taken: &TakenAlike, now: Millis) {
        let TakenAlike { hash, block, .. } = *taken;
        let Some(tx) = self.bound.get_mut(&id).or_else(|| self.reopened.get_mut(&id)) else { return };
        tx.status.taken = None;
        self.changes.tx(tx, now);
        self.changes.journal(Some(id), now, Entry::TakenByOther { slot, hash, block });
        self.slot_is_foreign(slot, block, now);
    }

    /// A transaction has ended by something that is none of its attempts.
    pub(super) fn end_carried_out(&mut self, tx: &mut Transaction, slot: Slot, by: &TakenAlike, now: Millis) {
        let TakenAlike { hash, block, version, .. } = *by;
        let status = &mut tx.status;
        status.won = Some(Won { version, hash });
        status.look_for(Some(hash));
        status.receipt.clone_from(&by.receipt);
        status.displaced = false;
        status.taken = None;
        let reverted = by.receipt.as_ref().is_some_and(|receipt| !receipt.success);
        let entry = if reverted {
            let reason = has_reverted();
            status.state = TxState::Reverted;
            status.reason = Some(reason.clone());
            Entry::Reverted { hash, block, reason }
        } else {
            status.state = TxState::Confirmed;
            Entry::Confirmed { hash, block, version }
        };
        let id = tx.id;
        self.changes.tx(tx, now);
        self.changes.journal(Some(id), now, Entry::CarriedOut { slot, hash, block });
        self.changes.journal(Some(id), now, entry);
    }

    /// Why a transaction whose slot something alike took does not go on.
    pub(super) fn explain_taken(&self, tx: &Transaction, slot: Slot, record: &SlotRecord) -> Option<String> {
        let taken = tx.status.taken.as_deref().filter(|_| record.mined.is_none())?;
        let asked = self.settles.values().any(|word| word.tx == tx.id);
        if asked {
            return Some(format!(
                "nonce {slot} was taken by {}, and an operator said whose that is; it is followed when the chain is seen",
                taken.hash
            ));
        }
        Some(taken_sentence(tx, slot, taken))
    }
}

/// What took the slot, and what is to be done about it.
#[must_use]
pub fn taken_sentence(tx: &Transaction, slot: Slot, taken: &TakenAlike) -> String {
    let waits = match &tx.status.ending {
        Some(_) => "; until then it can neither be sent nor ended",
        None => "; until then it is not sent again",
    };
    let (hash, block, id) = (taken.hash, taken.block.number, tx.id);
    let done = match taken.did {
        Did::Same => {
            return format!(
                "nonce {slot} was taken by {hash} in block {block}, which does the same and is not known here: the store may have \
                 forgotten it, or somebody did the same with this key. Look at it, then say whose it was: `landfall tx settle {id} \
                 --ours` if this transaction is done by it, `--foreign` if not{waits}"
            );
        }
        Did::Nothing => "which does nothing: this transaction may have been cancelled",
        Did::Other => "which does something else: this transaction may have been replaced",
    };
    let (ours, foreign) = match &tx.status.ending {
        Some(ending @ Ending::Cancel(_)) => {
            let state = ending.state().name();
            (format!("as {state}"), format!("ends it as {state}, as was asked"))
        }
        Some(ending @ (Ending::Expire(_) | Ending::Fail(_))) => {
            let state = ending.state().name();
            (format!("as {state}"), format!("ends it as {state} too"))
        }
        None => {
            ("as cancelled, or as failed (displaced)".to_owned(), "sends it with another nonce".to_owned())
        }
    };
    format!(
        "nonce {slot} was taken by {hash} in block {block}, {done} before this store was put back, or somebody used the key. Look at it, \
         then say whose it was: `landfall tx settle {id} --ours` ends the transaction {ours}, `--foreign` {foreign}{waits}"
    )
}
