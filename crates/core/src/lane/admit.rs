//! Admit: waiting transactions come from the store into memory, oldest first, a window at a time (E2).
//!
//! They are found by state, not by number, so nothing is missed when two admissions commit in another order than
//! their numbers. One load runs at a time; what stops waiting while it runs is left out of its answer. News (a command
//! may be among them) are loaded however many wait already; the rest of the queue only when there is room.

use super::check::needs_approval;
use super::{Action, Lane, Loaded, Plan, Prep, Waiting, back_off};
use crate::{Millis, TxId};

impl Lane {
    pub(super) fn plan_load(&mut self, plan: &mut Plan, now: Millis) {
        let ahead = self.settings.max_in_flight.saturating_mul(2);
        let funds = self.funds_left();
        let held_up = self.waiting.values().filter(|waiting| self.is_held_up(waiting, funds)).count() as u64;
        let moving = (self.waiting.len() as u64).saturating_sub(held_up);
        let wanted = self.load.news || (self.load.more && moving < ahead);
        if self.load.running || !wanted {
            return;
        }
        if self.load.not_before > now {
            plan.wake(self.load.not_before);
            return;
        }
        // Those that are held up must not hide those behind them.
        let limit = u32::try_from(held_up.saturating_add(ahead)).unwrap_or(u32::MAX);
        self.load.running = true;
        self.load.more = false;
        self.load.news = false;
        plan.actions.push(Action::Load { limit });
    }

    pub(super) fn take_loaded(&mut self, loaded: Loaded, now: Millis) {
        self.load.running = false;
        if loaded.waiting.len() as u64 >= u64::from(loaded.asked) {
            self.load.more = true;
        }
        let left = std::mem::take(&mut self.load.left);
        for tx in loaded.waiting.into_iter().chain(loaded.mentioned) {
            let known = left.contains(&tx.id)
                || self.bound.contains_key(&tx.id)
                || self.waiting.contains_key(&(tx.order, tx.id));
            if !known && tx.is_waiting() {
                let checked = self.settings.checks || needs_approval(&tx, &self.settings);
                let prep = match tx.payload().gas {
                    Some(gas) if !checked => Prep::Ready { gas },
                    Some(_) | None => Prep::New,
                };
                self.waiting.insert((tx.order, tx.id), Waiting { tx, prep });
            }
        }
        self.take_commands(loaded.commands, now);
    }

    pub(super) fn load_failed(&mut self, now: Millis) {
        self.load.running = false;
        self.load.news = true;
        self.load.left.clear();
        self.load.not_before = now.after(back_off(3, 100, 1_000));
    }

    /// Takes a transaction out of the waiting ones; a load that is under way may still show it.
    pub(super) fn leave_waiting(&mut self, id: TxId) -> Option<Waiting> {
        let key = *self.waiting.keys().find(|(_, waiting)| *waiting == id)?;
        if self.load.running {
            self.load.left.insert(id);
        }
        self.waiting.remove(&key)
    }

    pub(super) fn waiting_mut(&mut self, id: TxId) -> Option<&mut Waiting> {
        self.waiting.values_mut().find(|waiting| waiting.tx.id == id)
    }
}
