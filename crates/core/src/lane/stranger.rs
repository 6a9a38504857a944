//! Strangers: slots that the chain has used and for which we have no bytes (L3).
//!
//! | found out | what happens |
//! |---|---|
//! | while this owner held the lane, and everything was accounted for before, at a head of the present | once each is proven foreign, the lane goes on by itself |
//! | at any other load | they may be ours, from a newer copy of the store: the lane holds until a person resumes it, or by itself after the same proof where the signer says so |
//! | one does the same as a transaction that waits | as at a load, whoever the signer is: to go on would do it twice |
//!
//! Meanwhile what took each is looked up, and shown. A resume waits for that ([`super::compare`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::compare::Compared;
use super::prove::settled_for;
use super::{Action, Lane, Plan, Prep, Proof, SlotRecord, back_off};
use crate::journal::Entry;
use crate::ports::chain::Taker;
use crate::settings::OnUnknownSlots;
use crate::view::{BlockRef, Standing};
use crate::{CommandId, Millis, Slot, TxHash, TxId};

/// So many of them are looked up at most.
pub(super) const MOST_LOOKED_UP: usize = 256;
/// So many at once.
const AT_ONCE: usize = 16;
/// After so many vain tries a slot counts as unread: a node that keeps little history cannot tell. Then a person may go on without a look,
/// by a word that is given after that was said.
const MOST_TRIES: u32 = 8;

/// A slot that the chain has used and for which we have no bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSlot {
    pub slot: Slot,
    /// The block in which it was used, if that was found yet.
    pub block: Option<BlockRef>,
    /// The account's transaction there.
    pub taker: Option<Taker>,
    /// A transaction that waits and does the same.
    pub same_as: Option<TxId>,
}

/// Is everything that the chain has used of this account known?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Accounted {
    /// The chain's count was not seen yet, at a head of the present.
    #[default]
    Open,
    /// It was not when the lane was loaded.
    No,
    /// At this head it was, and this owner has held the lane since.
    At(BlockRef),
}

/// How long the newest block has to keep up with the clock before it counts that everything from before was shown: what an endpoint holds
/// back for less than that, it has shown by then.
const IN_STEP: Duration = Duration::from_secs(300);

/// Blocks are not made every second.
const OUT_OF_STEP: Duration = Duration::from_secs(60);

/// The newest block's time, watched beside a clock that calls it old: a chain that stands still or is being caught up with does not keep
/// up with the clock, one on a machine whose clock is wrong does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watched {
    since: Millis,
    head: Millis,
    /// It kept up for long enough.
    is_enough: bool,
}

impl Watched {
    fn from(now: Millis, head: Millis) -> Self {
        Self { since: now, head, is_enough: false }
    }

    fn after(self, now: Millis, head: Millis) -> Self {
        if self.is_enough {
            return self;
        }
        let (Some(passed), Some(moved)) = (now.0.checked_sub(self.since.0), head.0.checked_sub(self.head.0))
        else {
            return Self::from(now, head);
        };
        if u128::from(passed.abs_diff(moved)) > OUT_OF_STEP.as_millis() {
            return Self::from(now, head);
        }
        Self { is_enough: u128::from(passed.min(moved)) >= IN_STEP.as_millis(), ..self }
    }
}

/// What is known of one of them.
#[derive(Debug, Clone, Default)]
struct Found {
    /// It is being looked up, up to the newest settled block or up to the head.
    asking: Option<Depth>,
    ask_at: Millis,
    tries: u32,
    seen: Option<(BlockRef, Option<Taker>)>,
    /// What was seen is settled.
    proven: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Head,
    Settled,
}

#[derive(Debug, Default)]
pub(super) struct Strangers {
    accounted: Accounted,
    /// While that is open.
    watched: Option<Watched>,
    found: BTreeMap<Slot, Found>,
    /// Slots that were kept for a transaction which takes two, and were used by something else.
    seconds: BTreeSet<Slot>,
    /// A person's word that these are not ours.
    resuming: Option<CommandId>,
    /// Slots below this are meant. None: all, since it was given to a lane that was here.
    up_to: Option<Slot>,
    /// The word was not yet heard for slots that were history.
    is_new: bool,
    /// When it was given, it was known that nobody can say what took some of them.
    knew_unread: bool,
}

impl Strangers {
    /// A person has spoken, and what took the slots is being looked up.
    pub(super) fn is_resuming(&self) -> bool {
        self.resuming.is_some()
    }

    pub(super) fn resuming(&self) -> Option<CommandId> {
        self.resuming
    }

    /// A person's word; the one that is being followed already, if there is one.
    pub(super) fn resume(
        &mut self,
        command: CommandId,
        is_new: bool,
        up_to: Option<Slot>,
        knows_unread: bool,
    ) -> Option<CommandId> {
        self.is_new |= is_new;
        self.knew_unread |= knows_unread;
        let first = self.resuming;
        self.up_to = match first {
            Some(_) => self.up_to.zip(up_to).map(|(one, other)| one.max(other)),
            None => up_to,
        };
        self.resuming.get_or_insert(command);
        first
    }

    /// The person who resumed the lane meant this slot.
    pub(super) fn is_meant(&self, slot: Slot) -> bool {
        !self.is_resuming() || self.up_to.is_none_or(|up_to| slot < up_to)
    }

    /// The person who resumed the lane could know of everything.
    pub(super) fn means_all(&self) -> bool {
        self.is_resuming() && self.up_to.is_none()
    }

    pub(super) fn take_resuming(&mut self) -> Option<CommandId> {
        self.knew_unread = false;
        self.resuming.take()
    }

    /// Whoever resumed the lane knew that some of them are compared with nothing.
    pub(super) fn knew_unread(&self) -> bool {
        self.knew_unread
    }

    pub(super) fn take_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// How far the comparison of a slot is. `settles`: what took it must be settled.
    pub(super) fn state(&self, slot: Slot, settles: bool) -> Compared {
        match self.found.get(&slot) {
            Some(found) if found.proven || (found.seen.is_some() && !settles) => Compared::Done,
            Some(found) if found.seen.is_none() && found.tries >= MOST_TRIES => Compared::Unreadable,
            Some(_) | None => Compared::NotYet,
        }
    }

    /// False: it was noted before.
    pub(super) fn note_second(&mut self, slot: Slot) -> bool {
        self.seconds.insert(slot)
    }

    /// It was looked up since this owner has the lane.
    pub(super) fn was_second(&self, slot: Slot) -> bool {
        self.seconds.contains(&slot)
    }

    /// What took the slot is being looked up.
    pub(super) fn asks(&self, slot: Slot) -> bool {
        self.found.get(&slot).is_some_and(|found| found.asking.is_some())
    }
}

impl Lane {
    /// Everything was accounted for at that head, and nobody else has taken or written the lane since.
    pub fn was_accounted_for(&mut self, at: BlockRef) {
        self.strangers.accounted = Accounted::At(at);
    }

    /// The head at which everything was accounted for, if it was since this owner has the lane.
    #[must_use]
    pub fn accounted_at(&self) -> Option<BlockRef> {
        match self.strangers.accounted {
            Accounted::At(at) => Some(at),
            Accounted::Open | Accounted::No => None,
        }
    }

    /// Everything that the chain has used is known, by a person's word.
    pub(super) fn all_accounted_for(&mut self) {
        if let Some(at) = self.account().map(|account| account.at) {
            self.strangers.accounted = Accounted::At(at);
        }
        self.forget_found();
    }

    /// Everything that this store does not know was resumed over. That word was not about slots with bytes of ours: what used those is
    /// looked up first, and the lane says so.
    pub(super) fn resumed_over_all(&mut self) {
        match self.passed_unseen().filter(|_| self.strangers.accounted == Accounted::No) {
            Some(_) => self.strangers.accounted = Accounted::Open,
            None => self.all_accounted_for(),
        }
    }

    /// Something that this store does not know has taken slots of ours, and what took others is still to be seen: a transaction that
    /// gets another slot before that may be the one that landed there. What is used later is somebody else's, and stops nothing.
    pub(super) fn may_show_more(&self) -> bool {
        if self.row.forgotten.is_empty() {
            return false;
        }
        self.strangers.accounted == Accounted::Open
            && (!self.strangers.watched.is_some_and(|watched| watched.is_enough)
                || self.passed_unseen().is_some())
    }

    /// The lowest slot with bytes of ours that was used before this owner had accounted for everything, and of which is not known by
    /// what. It may be the work of a newer copy of this store, and do what waits.
    pub(super) fn looks_up(&self) -> Option<Slot> {
        if self.strangers.accounted != Accounted::Open || self.planted_unseen() {
            return None;
        }
        self.passed_unseen()
    }

    fn passed_unseen(&self) -> Option<Slot> {
        let count = self.chain_count()?;
        // What took a slot that waits for a person's word is known.
        let is_seen = |record: &SlotRecord| {
            let tx = record.tx.and_then(|id| self.bound.get(&id));
            tx.is_some_and(|tx| tx.status.taken.is_some())
        };
        let is_unseen =
            |record: &SlotRecord| record.mined.is_none() && !record.attempts.is_empty() && !is_seen(record);
        self.slots.range(..count).find(|(_, record)| is_unseen(record)).map(|(slot, _)| *slot)
    }

    /// What was seen of the slots that we do not know.
    pub(super) fn seen_takers(&self) -> impl Iterator<Item = (Slot, &(BlockRef, Option<Taker>))> {
        self.strangers.found.iter().filter_map(|(slot, found)| Some((*slot, found.seen.as_ref()?)))
    }

    /// The signer says that unknown slots found at a load are not ours.
    pub(super) fn adopts_at_load(&self) -> bool {
        self.settings.on_unknown_slots == OnUnknownSlots::Adopt
            && self.accounted_at().is_none()
            && self.unknown_slots().is_some()
    }

    /// A count was seen. One of a head from long ago tells nothing of what was used since: a node that has to catch up shows it later, and
    /// it may be ours, from a newer copy of the store.
    pub(super) fn account_for(&mut self, now: Millis) {
        let Some(at) = self.account().map(|account| account.at) else { return };
        // What an older copy has forgotten may be in a pool: only a person can say that everything is known.
        if self.is_older() {
            self.strangers.accounted = Accounted::No;
        }
        if self.strangers.accounted == Accounted::Open {
            let is_present = self.view.as_ref().is_some_and(|view| view.is_present(now));
            if let Some(head) = self.view.as_ref().map(|view| view.head.timestamp) {
                let watched = self.strangers.watched;
                self.strangers.watched =
                    Some(watched.map_or(Watched::from(now, head), |watched| watched.after(now, head)));
            }
            // A head that has kept up with the clock for long has shown what there was, whatever its date.
            let is_present = is_present || self.strangers.watched.is_some_and(|watched| watched.is_enough);
            self.strangers.accounted = match self.unknown_slots() {
                Some(_) => Accounted::No,
                None if is_present && self.passed_unseen().is_none() => Accounted::At(at),
                None => Accounted::Open,
            };
        }
        self.forget_found();
    }

    /// What is known by now needs no looking up. What is being looked up is forgotten when it is answered.
    pub(super) fn forget_found(&mut self) {
        if self.strangers.found.is_empty() {
            return;
        }
        let unknown: BTreeSet<Slot> = self.unknown_list().into_iter().collect();
        self.strangers.found.retain(|slot, found| unknown.contains(slot) || found.asking.is_some());
    }

    /// The lowest of them, as many as are looked up.
    pub(super) fn unknown_list(&self) -> Vec<Slot> {
        let (Some(cursor), Some(count)) = (self.known_up_to(), self.chain_count()) else { return Vec::new() };
        let reserved = self.slots.bare().range(..count).copied();
        let below: BTreeSet<Slot> = reserved.chain(self.row.returned.range(..count).copied()).collect();
        below.into_iter().chain((cursor.0..count.0).map(Slot)).take(MOST_LOOKED_UP).collect()
    }

    /// The slots that the chain has used and that we do not know, lowest first; at most as many as are looked up.
    #[must_use]
    pub fn unknown(&self) -> Vec<UnknownSlot> {
        let same = self.same_effect();
        let of = |slot: Slot| {
            let seen = self.strangers.found.get(&slot).and_then(|found| found.seen.clone());
            let (block, taker) = seen.map_or((None, None), |(block, taker)| (Some(block), taker));
            UnknownSlot { slot, block, taker, same_as: same.get(&slot).map(|(id, _)| *id) }
        };
        self.unknown_list().into_iter().map(of).collect()
    }

    /// Looks up what took them: first as far as the head, so that it can be said, then when that is settled.
    pub(super) fn plan_strangers(&mut self, plan: &mut Plan, now: Millis) {
        if self.unknown_slots().is_none() {
            return;
        }
        let Some(view) = self.live_view() else { return };
        let settled = settled_for(None, &view, &self.settings);
        let head = view.head.at.number;
        let mut under_way = self.strangers.found.values().filter(|found| found.asking.is_some()).count();
        for slot in self.unknown_list() {
            let found = self.strangers.found.entry(slot).or_default();
            if found.seen.as_ref().is_some_and(|(block, _)| view.standing(block) == Standing::Orphaned) {
                (found.seen, found.proven) = (None, false);
            }
            if found.proven || found.asking.is_some() {
                continue;
            }
            let depth = match &found.seen {
                None => Depth::Head,
                Some((block, _)) if settled >= Some(block.number) => Depth::Settled,
                Some(_) => continue,
            };
            if found.ask_at > now {
                plan.wake(found.ask_at);
                continue;
            }
            if under_way >= AT_ONCE {
                break;
            }
            under_way += 1;
            found.asking = Some(depth);
            let up_to = if depth == Depth::Head { head } else { settled.unwrap_or_default() };
            plan.actions.push(Action::Prove(Proof { slot, up_to, ours: Vec::new() }));
        }
    }

    /// What took a slot was found. True if it was asked for here.
    pub(super) fn take_taker(
        &mut self,
        slot: Slot,
        block: BlockRef,
        taker: Option<&Taker>,
        now: Millis,
    ) -> bool {
        let Some(view) = self.live_view() else { return self.take_no_taker(slot, now) };
        let settled = settled_for(None, &view, &self.settings);
        if view.standing(&block) == Standing::Orphaned {
            return self.take_no_taker(slot, now);
        }
        let Some(found) = self.strangers.found.get_mut(&slot) else { return false };
        let Some(depth) = found.asking.take() else { return false };
        found.tries = 0;
        found.seen = Some((block, taker.cloned()));
        found.proven = depth == Depth::Settled && settled >= Some(block.number);
        self.forget_found();
        true
    }

    /// Nobody could say what took a slot. True if it was asked for here.
    pub(super) fn take_no_taker(&mut self, slot: Slot, now: Millis) -> bool {
        let Some(found) = self.strangers.found.get_mut(&slot) else { return false };
        if found.asking.take().is_none() {
            return false;
        }
        found.tries = found.tries.saturating_add(1);
        found.ask_at = now.after(back_off(found.tries, 500, 30_000));
        self.forget_found();
        true
    }

    /// A slot that was used in this block cannot be ours, or its signer does not care.
    pub(super) fn may_adopt(&self, block: &BlockRef) -> bool {
        self.settings.on_unknown_slots == OnUnknownSlots::Adopt
            || self.accounted_at().is_some_and(|at| block.number > at.number)
            || self.planted_adopts()
    }

    /// Goes on by itself over slots that are proven to be a stranger's.
    pub(super) fn adopt_strangers(&mut self, now: Millis) {
        if self.strangers.found.is_empty() || self.strangers.is_resuming() || self.is_older() {
            return;
        }
        if self.adopts_at_load() && !self.has_read_all() {
            return;
        }
        let same = if self.planted_adopts() { BTreeMap::new() } else { self.same_effect() };
        let mut next = self.row.cursor;
        let mut adopted = Vec::new();
        for slot in self.unknown_list() {
            let found = self.strangers.found.get(&slot).filter(|found| found.proven);
            let seen = found.and_then(|found| found.seen.as_ref());
            let is_beyond = self.row.cursor.is_none_or(|cursor| slot >= cursor);
            match seen.filter(|(block, _)| self.may_adopt(block) && !same.contains_key(&slot)) {
                Some((block, taker)) if !is_beyond || next == Some(slot) => {
                    adopted.push((slot, *block, taker.clone()));
                    next = next.max(Some(slot.next()));
                }
                Some(_) | None if is_beyond => break,
                Some(_) | None => {}
            }
        }
        if adopted.is_empty() {
            return;
        }
        for (slot, _, taker) in &adopted {
            self.remember_late(*slot, taker.as_ref(), now);
            self.leave_to_stranger(*slot, now);
        }
        let each = adopted.iter().map(|(slot, block, taker)| match taker {
            Some(Taker { hash, .. }) => format!("nonce {slot} by {hash} in block {}", block.number),
            None => format!("nonce {slot} in block {}, by no transaction of its own", block.number),
        });
        let each: Vec<String> = each.collect();
        let text = format!(
            "another program used the key, and that is final: {}. The lane goes on after it",
            each.join(", ")
        );
        let nonces = adopted.iter().map(|(slot, _, _)| *slot).collect();
        let hashes: Vec<TxHash> =
            adopted.iter().filter_map(|(_, _, taker)| taker.as_ref().map(|taker| taker.hash)).collect();
        self.changes.journal(None, now, Entry::LaneAdopted { nonces, hashes, text });
        self.forget_found();
    }

    /// The slot is somebody else's. A transaction that had reserved it waits for another.
    pub(super) fn leave_to_stranger(&mut self, slot: Slot, now: Millis) {
        if let Some(id) =
            self.slots.get(&slot).filter(|record| record.attempts.is_empty()).and_then(|record| record.tx)
        {
            self.slots.remove(&slot);
            if let Some(mut tx) = self.bound.remove(&id) {
                tx.status.slot = None;
                if tx.takes_two_slots() {
                    self.free_second_slot(slot);
                }
                self.changes.tx(&mut tx, now);
                self.changes.journal(Some(id), now, Entry::SlotReturned { slot });
                self.waiting.add(tx, Prep::New);
                self.hold_if_forgotten(id, now);
            }
        }
        self.row.returned.remove(&slot);
        self.row.cursor = self.row.cursor.max(Some(slot.next()));
        self.row.passed = self.row.passed.max(Some(slot));
        self.changes.row();
    }

    /// The slots of which nobody can say what took them.
    pub(super) fn unread(&self) -> Option<(Slot, Slot)> {
        let mut unread = self.unknown_list();
        unread.retain(|slot| self.strangers.state(*slot, false) == Compared::Unreadable);
        Some((*unread.first()?, *unread.last()?))
    }

    /// When the lane goes on, in words.
    pub(super) fn unknown_until(&self) -> Until {
        if self.strangers.is_resuming() {
            return Until::LookedUp { settles: self.compared_when() };
        }
        if let Some((first, last)) = self.unread() {
            return Until::Unread { first, last };
        }
        if let Some((slot, (id, _))) = self.same_effect().first_key_value() {
            return Until::Same { slot: *slot, tx: *id };
        }
        let adopts = self.settings.on_unknown_slots == OnUnknownSlots::Adopt;
        let lowest = self.unknown_list().first().copied();
        let found = lowest.and_then(|slot| self.strangers.found.get(&slot));
        let block = found.and_then(|found| found.seen.as_ref()).map(|(block, _)| *block);
        if !adopts && block.map_or(self.accounted_at().is_none(), |block| !self.may_adopt(&block)) {
            return Until::Person;
        }
        let so_far = block.and_then(|block| self.until_settled(&block));
        Until::Final { block: block.map(|block| block.number), so_far }
    }

    /// How far a block is from settled.
    fn until_settled(&self, block: &BlockRef) -> Option<SoFar> {
        let view = self.live_view()?;
        let settled = settled_for(None, &view, &self.settings)?;
        if view.finalized.is_some() {
            return Some(SoFar::FinalUpTo(settled));
        }
        let needs = view.head.at.number.saturating_sub(settled);
        Some(SoFar::Confirmations { has: view.confirmations(block), needs })
    }

    /// The newest block that must settle before a comparison is done: of all that an older store does not know, elsewhere of what did the
    /// same as what waits.
    pub(super) fn compared_when(&self) -> Option<Settles> {
        let awaited: Vec<Slot> = match self.is_older() {
            true => self.unknown_list(),
            false => self.same_effect().into_keys().collect(),
        };
        let is_open = |slot: &Slot| self.strangers.state(*slot, true) == Compared::NotYet;
        let open = awaited.iter().filter(|slot| is_open(slot)).filter_map(|slot| {
            let (block, _) = self.strangers.found.get(slot)?.seen.as_ref()?;
            Some(*block)
        });
        let block = open.max_by_key(|block| block.number)?;
        Some(Settles { block: block.number, so_far: self.until_settled(&block) })
    }
}

/// How far a block is from settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoFar {
    /// By blocks on top of it.
    Confirmations { has: u64, needs: u64 },
    /// By the chain's own word, which it has given up to this block. How far its head is ahead of that says nothing.
    FinalUpTo(u64),
}

impl std::fmt::Display for SoFar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Confirmations { has, needs } => write!(f, " ({has} of {needs} confirmations)"),
            Self::FinalUpTo(block) => write!(f, " (the chain calls blocks up to {block} final)"),
        }
    }
}

/// A block that must settle first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settles {
    pub block: u64,
    pub so_far: Option<SoFar>,
}

/// What a lane that holds for unknown slots waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// A person's word.
    Person,
    /// A person's word: one of them did the same as this transaction.
    Same { slot: Slot, tx: TxId },
    /// A person's word: nobody can say what took these.
    Unread { first: Slot, last: Slot },
    /// A person has spoken, and what took them is being looked up.
    LookedUp { settles: Option<Settles> },
    /// The transaction that took the lowest of them is final: how far that is, once its block is known.
    Final { block: Option<u64>, so_far: Option<SoFar> },
}
