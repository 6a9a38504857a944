//! Older: the store went back, and what it has forgotten may have been sent. Until a person accepts it, the lane decides nothing that
//! the forgotten part may have decided otherwise.
//!
//! | goes on | waits for the person |
//! |---|---|
//! | admissions: what callers hand in again is there to be compared | slots, estimates, signatures, fee bumps, no-ops |
//! | stored bytes are sent again: the same slot, so nothing new can land | ends without the chain: expired, refused, too poor |
//! | receipts of stored bytes count, and what is final ends | proofs that a slot is foreign: its taker may be ours |
//! | what took slots that the store does not know is looked up | commands: a cancel may come for what has landed |
//!
//! Accepted, it stays older until what took those slots was compared with what waits ([`super::compare`]).

use super::compare::{Compared, first_forgotten};
use super::{Lane, Plan};
use crate::journal::Entry;
use crate::ports::store::{CommandKind, Older};
use crate::view::PRESENT;
use crate::{CommandId, Millis, Slot};

/// When a person accepted the store, and when this lane heard of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    said_at: Millis,
    heard_at: Millis,
}

/// Slots that no-ops use up after an acceptance, since bytes that the store has forgotten may be out for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsingUp {
    pub first: Slot,
    pub last: Slot,
    /// So many of them are used for good: no reorganisation is expected to take them back.
    pub done: u64,
}

impl UsingUp {
    /// The sentence for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { first, last, done } = self;
        let all = last.0.saturating_sub(first.0).saturating_add(1);
        format!(
            "using up nonces {first} to {last} by empty transactions, since the store that this copy took the place of may have sent something with them; \
             {done} of {all} are settled, and what waits is sent when all are"
        )
    }
}

impl Lane {
    /// How far the slots are used up for which bytes may be out that an accepted store has forgotten. None if nothing waits for that.
    #[must_use]
    pub fn using_up(&self) -> Option<UsingUp> {
        let end = self.awaits_late().filter(|_| self.held().is_none() && !self.waiting.is_empty())?;
        let (first, count) = (self.row.accepted_below?, self.chain_count()?);
        let is_open =
            |slot: Slot| slot >= count || self.slots.contains_key(&slot) || self.kept.contains(slot);
        let done = (first.0..end.0).filter(|slot| !is_open(Slot(*slot))).count() as u64;
        Some(UsingUp { first, last: Slot(end.0.checked_sub(1)?), done })
    }

    /// The store is an older copy, and this lane has not gone on by a person's word yet.
    pub(super) fn is_older(&self) -> bool {
        self.older.is_some()
    }

    pub(super) fn older(&self) -> Option<&Older> {
        self.older.as_ref()
    }

    /// The next slot, or where the slots begin that an older copy may have forgotten, if it never used the lane.
    pub(super) fn known_up_to(&self) -> Option<Slot> {
        let forgotten = || self.chain_count().filter(|_| self.is_older()).map(first_forgotten);
        self.row.cursor.or_else(forgotten)
    }

    /// A person has accepted the store. One that has never used this lane says so for good: no word for the lane is stored then.
    pub(super) fn is_accepted(&self) -> bool {
        self.older == Some(Older::Accepted)
    }

    /// A person has accepted the store as it is.
    pub(super) fn accept_store(
        &mut self,
        command: CommandId,
        seen: Option<Slot>,
        said_at: Millis,
        now: Millis,
    ) {
        if self.accepted.insert(command) {
            self.accepted_from = self.accepted_from.max(seen);
            let before = self.accepted_at.map_or(said_at, |word| word.said_at.max(said_at));
            self.accepted_at = Some(Word { said_at: before, heard_at: now });
            self.older = Some(Older::Accepted);
            // Replaces among the commands that were left where they are: see below.
            self.left_open.clear();
            (self.load.news, self.load.heard_all, self.load.reads_again) = (true, false, true);
            (self.load.read_accepted, self.load.began_accepted) = (false, false);
        }
    }

    /// A command that an older store follows. Once it is accepted, a replace is followed before anything is compared: a newer copy may have
    /// followed it, and what landed is the new content.
    pub(super) fn is_heard(&self, kind: &CommandKind) -> bool {
        match kind {
            CommandKind::AcceptStore { .. } => true,
            CommandKind::Replace { .. } => self.is_accepted(),
            _ => false,
        }
    }

    /// The chain was seen, the queue was read, or what took a slot was found: the lane goes on once all of it was compared. By a count
    /// of the head: what landed since an older one is what must be compared.
    pub(super) fn take_acceptance(&mut self, now: Millis) {
        let Some(count) = self.chain_count().filter(|_| self.is_accepted()) else { return };
        if !self.may_bind()
            || !self.shows_all_again(count)
            || !self.load.heard_all
            || !self.shows_acceptance(now)
        {
            return;
        }
        let mut did = String::new();
        let mut compared = self.compared();
        if compared == Compared::Done && !self.has_room() {
            did = ": there is more that nobody has handed in again than can be remembered, so it holds there"
                .to_owned();
            compared = Compared::Unreadable;
        }
        if self.row.cursor.is_none() && compared != Compared::NotYet {
            self.row.compared_from = self.known_up_to();
        }
        match compared {
            Compared::NotYet => return,
            // These slots hold the lane in their own right, until a person resumes it.
            Compared::Unreadable => self.row.cursor = self.known_up_to(),
            Compared::Done if self.unknown_slots().is_some() => {
                did = format!(": {}", self.pass_over_unknown(now));
            }
            Compared::Done => self.row.cursor = self.row.cursor.max(Some(count)),
        }
        // What has bytes here may have been cancelled or replaced by what the store has forgotten, and not be in a block yet.
        self.row.accepted_below = self.row.accepted_below.max(Some(count)).max(self.row.cursor);
        let widest = if self.planted_window() { 0 } else { self.row.widest };
        self.row.accepted_ahead = self.settings.max_in_flight.max(widest);
        self.changes.row();
        let text = format!("an operator accepted the store, which is an older copy of itself{did}");
        self.changes.journal(None, now, Entry::LaneResumed { text });
        let are_unknown = self.unknown_slots().is_some();
        if are_unknown && compared == Compared::Done {
            // That was one step; the next ones are looked up now.
            return;
        }
        if !are_unknown {
            self.all_accounted_for();
            self.row.compared_from = self.row.compared_from.filter(|from| from.0 > 0);
        }
        (self.older, self.accepted_from, self.row.older_count) = (None, None, None);
        self.accepted_at = None;
        // Commands that were left where they are. A load that is under way does not show them.
        self.left_open.clear();
        self.spoken_of.clear();
        self.load.heard_all = false;
        self.load.news = true;
        self.load.skips_commands = self.load.running;
        for command in std::mem::take(&mut self.accepted) {
            self.finish_command(command);
        }
    }

    /// The head is of after the word: what landed until then is compared, and not taken for another program's. An endpoint was allowed to be so
    /// far behind when the word was given, and by then has shown it; so a chain that rests, or a clock that is wrong, costs no more.
    fn shows_acceptance(&mut self, now: Millis) -> bool {
        let head = self.view.as_ref().map(|view| view.head.timestamp);
        let Some(word) = &mut self.accepted_at else { return true };
        // The clock went back.
        word.heard_at = word.heard_at.min(now);
        head >= Some(word.said_at) || now >= word.heard_at.after(PRESENT)
    }

    /// When an acceptance is followed at the latest, whatever the chain does.
    pub(super) fn wake_for_acceptance(&self, plan: &mut Plan, now: Millis) {
        let word = self.accepted_at.filter(|_| self.is_accepted());
        // Later it waits for something else.
        if let Some(at) = word.map(|word| word.heard_at.after(PRESENT)).filter(|at| *at > now) {
            plan.wake(at);
        }
    }

    /// The chain shows all that it showed since the store was taken for an older copy. What a reorganisation took back may land again, and
    /// until it does nobody knows what it did.
    fn shows_all_again(&self, count: Slot) -> bool {
        Some(count) >= self.accepted_from.max(self.row.older_count) || self.planted_taken_back()
    }

    /// The slots that the chain has taken back since the store was taken for an older copy.
    pub(super) fn taken_back(&self) -> Option<(Slot, Slot)> {
        let count = self.chain_count().filter(|_| self.is_older())?;
        let shown = self.accepted_from.max(self.row.older_count)?;
        (count < shown).then(|| (count, Slot(shown.0 - 1)))
    }
}
