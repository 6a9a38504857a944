//! After: a transaction that is to follow another one, of whatever lane and chain (M2).
//!
//! It waits without a slot and without an estimate, since what it depends on has not happened yet, and others behind it go
//! first. How far the other is comes from the store: asked for with growing pauses, and at once where the other's lane
//! runs in the same process and has moved.
//!
//! | the other | `state: confirmed` | `state: mined` |
//! |---|---|---|
//! | in a block, successful | waits | goes on; waits again if the block is lost before it is signed |
//! | confirmed | goes on | goes on |
//! | ended in another way | cancelled, or held for a person | the same |

use std::collections::BTreeSet;

use super::{Action, Lane, Plan, Prep, Waiting, back_off};
use crate::journal::Entry;
use crate::request::{AfterState, OnFailure};
use crate::transaction::{Reason, ReasonCode, Status, Transaction, TxState};
use crate::{ContentVersion, Millis, Slot, TxId};

/// What is known of a transaction that others follow.
#[derive(Debug, Clone, Default)]
pub(super) struct Followed {
    status: Option<Standing>,
    asking: bool,
    ask_at: Millis,
    tries: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    state: TxState,
    /// In a block, and it did what was asked.
    landed: bool,
}

/// May a transaction go on?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    GoesOn,
    Waits,
    Failed(TxState),
}

impl Lane {
    fn verdict(&self, tx: &Transaction) -> Verdict {
        if tx.status.may_have_landed() {
            return Verdict::Waits;
        }
        let Some(after) = tx.after() else { return Verdict::GoesOn };
        let Some(standing) = self.followed.get(&after.tx).and_then(|followed| followed.status) else {
            return Verdict::Waits;
        };
        match (standing.state, after.state) {
            (TxState::Confirmed, _) => Verdict::GoesOn,
            (TxState::Mined, AfterState::Mined) if standing.landed => Verdict::GoesOn,
            (state, _) if state.is_terminal() && self.planted_after() => Verdict::GoesOn,
            (state, _) if state.is_terminal() => Verdict::Failed(state),
            _ => Verdict::Waits,
        }
    }

    /// It waits for another transaction.
    pub(super) fn is_behind(&self, tx: &Transaction) -> bool {
        self.verdict(tx) != Verdict::GoesOn
    }

    /// Waiting transactions that wait for another one.
    pub(super) fn behind(&self) -> BTreeSet<TxId> {
        if !self.waiting.has_followers() {
            return BTreeSet::new();
        }
        let behind = self.waiting.values().filter(|waiting| self.is_behind(&waiting.tx));
        behind.map(|waiting| waiting.tx.id).collect()
    }

    /// The transactions that matter to those that have no bytes yet.
    fn followed_now(&self) -> BTreeSet<TxId> {
        let waiting =
            self.waiting.values().filter(|_| self.waiting.has_followers()).map(|waiting| &waiting.tx);
        waiting.chain(self.reserved()).filter_map(|tx| tx.after().map(|after| after.tx)).collect()
    }

    pub(super) fn plan_follow(&mut self, plan: &mut Plan, now: Millis) {
        let wanted = self.followed_now();
        self.followed.retain(|id, _| wanted.contains(id));
        let mut ask = Vec::new();
        for id in wanted {
            let followed = self.followed.entry(id).or_default();
            let ended = followed.status.is_some_and(|standing| standing.state.is_terminal());
            if ended || followed.asking {
                continue;
            }
            if followed.ask_at > now {
                plan.wake(followed.ask_at);
                continue;
            }
            followed.asking = true;
            ask.push(id);
        }
        if !ask.is_empty() {
            plan.actions.push(Action::Follow(ask));
        }
    }

    /// Something was committed about these: ask now.
    pub(super) fn take_moved(&mut self, ids: &[TxId]) {
        for id in ids {
            if let Some(followed) = self.followed.get_mut(id) {
                followed.ask_at = Millis(0);
                followed.tries = 0;
            }
        }
    }

    pub(super) fn follow_failed(&mut self, ids: &[TxId], now: Millis) {
        for id in ids {
            if let Some(followed) = self.followed.get_mut(id) {
                followed.asking = false;
                followed.tries = followed.tries.saturating_add(1);
                followed.ask_at = now.after(back_off(followed.tries, 250, 10_000));
            }
        }
    }

    pub(super) fn take_followed(&mut self, statuses: &[(TxId, Status)], asked: &[TxId], now: Millis) {
        for id in asked {
            let status = statuses.iter().find(|(of, _)| of == id).map(|(_, status)| status);
            let standing = status.map(|status| Standing {
                state: status.state,
                // What is in a block may be the no-op of one that ends, or of one that is to be checked anew.
                landed: status.receipt.as_ref().is_some_and(|receipt| receipt.success)
                    && status.ending.is_none()
                    && !status.rechecking,
            });
            let Some(followed) = self.followed.get_mut(id) else { continue };
            if followed.status != standing {
                followed.tries = 0;
            }
            followed.status = standing;
            let in_a_block = standing.is_some_and(|standing| standing.state == TxState::Mined);
            // A block can be lost: what hangs on it looks often.
            let pause =
                if in_a_block { back_off(1, 250, 500) } else { back_off(followed.tries, 250, 10_000) };
            followed.asking = false;
            followed.tries = followed.tries.saturating_add(1);
            followed.ask_at = now.after(pause);
        }
    }

    /// At every turn, since one may come whose predecessor is known to have failed: ends or holds those whose predecessor failed, and takes back what is not signed yet of those that wait again.
    pub(super) fn judge_followers(&mut self, now: Millis) {
        if self.followed.is_empty() {
            return;
        }
        let failed: Vec<(TxId, TxState)> = self
            .waiting
            .values()
            .filter_map(|waiting| match self.verdict(&waiting.tx) {
                Verdict::Failed(state) => Some((waiting.tx.id, state)),
                Verdict::GoesOn | Verdict::Waits => None,
            })
            .collect();
        for (id, state) in failed {
            self.predecessor_failed(id, state, now);
        }
        for id in self.behind() {
            self.stop_signing(id);
        }
        let behind: Vec<TxId> = self.reserved().filter(|tx| self.is_behind(tx)).map(|tx| tx.id).collect();
        for id in behind {
            self.unreserve(id, now);
        }
    }

    /// Transactions whose slots have no stored bytes.
    pub(super) fn reserved(&self) -> impl Iterator<Item = &Transaction> {
        let records = self.slots.bare().iter().filter_map(|slot| self.slots.get(slot));
        records.filter_map(|record| self.bound.get(&record.tx?))
    }

    fn predecessor_failed(&mut self, id: TxId, state: TxState, now: Millis) {
        let Some(waiting) = self.waiting.by_id_mut(id) else { return };
        let Some(after) = waiting.tx.after().copied() else { return };
        let text = format!("transaction {}, which it was to follow, ended as {}", after.tx, state.name());
        let reason = Reason { code: ReasonCode::PredecessorFailed, text };
        match after.on_failure {
            OnFailure::Cancel => {
                let entry = Entry::Cancelled { reason: reason.clone() };
                self.end_waiting(id, TxState::Cancelled, reason, entry, now);
            }
            OnFailure::Hold => {
                self.hold_for_person(id, reason, None, now);
            }
        }
    }

    /// It waits for a person's word: since it may have landed in that slot, or for another reason.
    pub(super) fn hold_for_person(
        &mut self,
        id: TxId,
        reason: Reason,
        forgotten_as: Option<Slot>,
        now: Millis,
    ) {
        let is_held = |waiting: &Waiting| waiting.tx.status.held.is_some();
        if self.waiting.by_id(id).is_none_or(is_held) {
            return;
        }
        self.waiting.change(id, |tx| {
            tx.status.held = Some(reason.clone());
            tx.status.forgotten_as = forgotten_as;
            self.changes.tx(tx, now);
        });
        self.changes.journal(Some(id), now, Entry::Held { reason });
    }

    /// A person lets a held transaction go on, with the content that was looked at. True if there was one.
    pub(super) fn release(&mut self, id: TxId, version: Option<ContentVersion>, now: Millis) -> bool {
        let Some(tx) = self.waiting.by_id(id).map(|waiting| &waiting.tx) else { return false };
        if tx.status.held.is_none() || version.is_some_and(|version| version != tx.version()) {
            return false;
        }
        // Of all that did the same until now: it is held again for one that lands later and does what it does.
        let told_apart = self.alike_to(self.held_for(tx));
        self.waiting.change(id, |tx| {
            // One that may have landed still follows whom it was to follow, and the other way round.
            if tx.status.may_have_landed() {
                tx.status.told_apart.extend(told_apart);
                tx.status.forgotten_as = None;
            }
            let held = tx.status.held.take();
            tx.status.released |= held.is_some_and(|held| held.code == ReasonCode::PredecessorFailed);
            self.changes.tx(tx, now);
        });
        self.changes.journal(Some(id), now, Entry::Released);
        self.hold_if_forgotten(id, now);
        true
    }

    /// Why a transaction that is to follow another one waits.
    pub(super) fn explain_behind(&self, waiting: &Waiting) -> Option<String> {
        let (tx, prep) = (&waiting.tx, waiting.prep());
        if let Some(held) = &tx.status.held {
            return Some(match held.code {
                ReasonCode::MayHaveLanded if tx.status.forgotten_as.is_none() => {
                    format!(
                        "{}; approve it only if both are wanted, and it is sent beside that one; reject it if it is that one, handed in \
                         once more",
                        held.text
                    )
                }
                ReasonCode::MayHaveLanded => {
                    format!("{}; approve it if it is another one, reject it if it is that one", held.text)
                }
                _ => format!("{}; approve it to let it go on, or cancel it", held.text),
            });
        }
        let after = tx.after().filter(|_| !matches!(prep, Prep::Signing { .. }))?;
        if !self.is_behind(tx) {
            return None;
        }
        let known = self.followed.get(&after.tx).and_then(|followed| followed.status);
        let state = known.map_or("not known yet", |standing| standing.state.name());
        let until = match after.state {
            AfterState::Confirmed => "confirmed",
            AfterState::Mined => "mined",
        };
        Some(format!("it follows transaction {}, which is {state}; it waits until that is {until}", after.tx))
    }
}
