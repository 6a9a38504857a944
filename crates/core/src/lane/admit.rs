//! Admit: waiting transactions come from the store into memory, oldest first, a window at a time (E2).
//!
//! They are found by state, not by number, so nothing is missed when two admissions commit in another order than
//! their numbers. One load runs at a time; what stops waiting while it runs is left out of its answer.
//!
//! | in memory, not yet being signed | news | the store has more |
//! |---|---|---|
//! | fewer than twice the window, and than a thousand | commands and the queue are read | the queue is read |
//! | more | only commands are read, the queue later | later |
//!
//! Where one process alone writes the store, it hands over what it stores, so that it need not be read back. That is taken
//! only while everything that waits is in memory: otherwise others wait before it, and it is read with them.

use std::time::Duration;

use super::check::needs_approval;
use super::window::MOST_AHEAD;
use super::{Action, Lane, Loaded, Plan, Prep, Waiting, back_off};
use crate::settings::LaneSettings;
use crate::transaction::Transaction;
use crate::{Millis, QueueOrder, TxId};

/// With so many in memory the queue is not read for news, however wide the window: reading it costs time for each of them.
const ENOUGH: u64 = 1_000;

/// The pause between two readings of commands where there are more than one reading shows.
const NEXT_COMMANDS_AFTER: Duration = Duration::from_millis(20);

/// Where the preparation of a content begins: at the end, where nothing has to be found out.
pub(super) fn first_prep(tx: &Transaction, settings: &LaneSettings) -> Prep {
    match tx.payload().gas {
        Some(gas) if !settings.checks && !needs_approval(tx, settings) => Prep::Ready { gas },
        Some(_) | None => Prep::New,
    }
}

impl Lane {
    pub(super) fn plan_load(&mut self, plan: &mut Plan, now: Millis) {
        if self.waiting.take_changed() || self.slots.looks_at_all() {
            self.load.enough_with = None;
        }
        if self.load.running || !(self.load.news || self.load.more) {
            return;
        }
        let ahead = self.prepared_ahead();
        let here = self.waiting.unsigned() as u64;
        // Few are counted as held up without a look at each: it only makes the load reach further.
        let few = self.few();
        let held_up = if here < few { here } else { self.held_up(few) };
        let reads_all = self.reads_on();
        let enough = self.are_enough(here - held_up);
        // A load begins at the front of the queue: it must reach beyond what is here, or it would show that again for ever.
        let ahead = match reads_all {
            true => ahead.max(here.saturating_mul(2)).max(super::cancel_all::STEP),
            false => ahead,
        };
        if enough && !self.load.news {
            return;
        }
        if self.load.not_before > now {
            plan.wake(self.load.not_before);
            return;
        }
        // Those that are held up, or leave the queue, must not hide those behind them.
        let leaving = self.waiting.len() as u64 - here;
        let limit = if enough { 0 } else { held_up.saturating_add(leaving).saturating_add(ahead) };
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        self.load.running = true;
        self.load.began_accepted = self.is_accepted();
        self.load.more = false;
        self.load.news = false;
        plan.actions.push(Action::Load { limit, taken: self.taken_commands() });
    }

    /// So many that could have a slot are enough in memory.
    fn few(&self) -> u64 {
        self.prepared_ahead().min(ENOUGH)
    }

    /// The queue is read to its end, however many are in memory.
    fn reads_on(&self) -> bool {
        self.cancelling_all || self.reads_all()
    }

    /// With so many in memory that could have a slot, no more of the queue is read.
    pub(super) fn are_enough(&self, able: u64) -> bool {
        able >= self.few() && !self.reads_on()
    }

    pub(super) fn take_loaded(&mut self, loaded: Loaded, now: Millis) {
        self.load.running = false;
        if loaded.waiting.len() as u64 >= u64::from(loaded.asked) {
            self.load.more = true;
        }
        self.load.read_accepted |= self.load.began_accepted && !self.load.more;
        let left = std::mem::take(&mut self.load.left);
        let done = std::mem::take(&mut self.load.done);
        let read = loaded.waiting.iter().map(|tx| tx.order).max();
        self.load.shown = self.load.shown.max(read);
        let reach = self.load.more.then(|| read.unwrap_or(QueueOrder(i64::MIN)));
        for tx in loaded.waiting.into_iter().chain(loaded.mentioned) {
            if !left.contains(&tx.id) {
                self.add_waiting(tx, now);
            }
        }
        let came = std::mem::take(&mut self.load.came);
        self.take_admitted(came, now);
        if loaded.more_commands {
            self.load.news = true;
            // Those that take long stay in the store, and are read each time.
            self.load.not_before = now.after(NEXT_COMMANDS_AFTER);
        }
        if std::mem::take(&mut self.load.skips_commands) {
            self.load.news = true;
            return;
        }
        let commands = loaded.commands.into_iter().filter(|command| !done.contains(&command.id));
        self.load.reads_again = false;
        self.take_commands(commands.collect(), reach, now);
        if !loaded.more_commands && !self.load.heard_all && !self.load.reads_again {
            self.load.heard_all = true;
            self.keep_count();
        }
    }

    /// Takes what was just stored, if nothing waits in the store that is not here.
    pub(super) fn take_admitted(&mut self, mut txs: Vec<Transaction>, now: Millis) {
        let is_newer = |tx: &Transaction| self.load.shown.is_none_or(|shown| tx.order > shown);
        // One that no load has shown was overtaken: another process stored something after all.
        let overtaken = txs.iter().any(|tx| !is_newer(tx) && !self.knows(tx.id));
        txs.retain(is_newer);
        self.load.news |= overtaken;
        if txs.is_empty() {
            return;
        }
        let here = self.waiting.unsigned() + self.load.came.len() + txs.len();
        if self.load.news || self.load.more || here as u64 > MOST_AHEAD {
            self.load.news = true;
        } else if self.load.running {
            self.load.came.extend(txs);
        } else {
            txs.into_iter().for_each(|tx| self.add_waiting(tx, now));
        }
    }

    fn add_waiting(&mut self, tx: Transaction, now: Millis) {
        if !self.knows(tx.id) && tx.is_waiting() {
            let (id, prep, is_held) = (tx.id, first_prep(&tx, &self.settings), tx.status.may_have_landed());
            self.waiting.add(tx, prep);
            if !self.unclaimed.is_empty() {
                self.claim_landed(id, now);
            }
            self.hold_if_forgotten(id, now);
            if is_held {
                self.show_next(id, None, now);
            }
        }
    }

    /// It waits here, or has a slot.
    pub fn knows(&self, id: TxId) -> bool {
        self.bound.contains_key(&id) || self.waiting.contains(id)
    }

    /// The store is being read: what is handed over meanwhile is taken with what was read, or left to be read.
    #[must_use]
    pub fn is_loading(&self) -> bool {
        self.load.running
    }

    pub(super) fn load_failed(&mut self, now: Millis) {
        self.load.running = false;
        self.load.came.clear();
        self.load.news = true;
        self.load.left.clear();
        self.load.done.clear();
        self.load.skips_commands = false;
        self.load.not_before = now.after(back_off(3, 100, 1_000));
    }

    /// Takes a transaction out of the waiting ones; a load that is under way may still show it.
    pub(super) fn leave_waiting(&mut self, id: TxId) -> Option<Waiting> {
        let waiting = self.waiting.take(id)?;
        self.forget_doubts(id);
        if self.load.running {
            self.load.left.insert(id);
        }
        Some(waiting)
    }

    /// How many are not being signed and cannot have a slot for now, for reasons of their own. A long queue is not counted
    /// again in every turn: where enough could have one, that holds until one of them, the chain or the account changes.
    fn held_up(&mut self, enough: u64) -> u64 {
        let means = self.means();
        if self.load.enough_with == Some(means) {
            return 0;
        }
        let unready = self.waiting.unready().map(|(_, waiting)| waiting);
        let waiting = self.waiting.ready(None).chain(unready);
        let held_up = waiting.filter(|waiting| self.is_held_up(waiting, &means)).count() as u64;
        let free = self.waiting.unsigned() as u64 - held_up;
        self.load.enough_with = (free >= enough).then_some(means);
        held_up
    }
}
