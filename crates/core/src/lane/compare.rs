//! Compare: slots that this store does not know may have been ours before it went back. Before a lane goes on over them by a
//! person's word (`lane resume`, `store accept`), what took each is compared with what waits.
//!
//! | what took the slot did the same as | what happens |
//! |---|---|
//! | a transaction that waits, or that had reserved the slot | it ends as landed, once that is settled |
//! | more transactions than slots, or one that may not have been wanted in the end | all of them wait for a person: one may have landed, nobody knows which |
//! | the same, in a lane that the store had never used | it waits for a person: the account's own history may look like it |
//! | nothing that is here | it is remembered, and one that comes later and does the same waits for a person |
//! | nothing that is here, and as many as can be are remembered | the lane holds there until a person resumes it |
//!
//! Done in steps of as many as are looked up at once; the cursor moves with each.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::keccak256;

use super::check::needs_approval;
use super::{Lane, SlotRecord, Waiting};
use crate::journal::Entry;
use crate::ports::chain::Taker;
use crate::request::{Authorization, Payload};
use crate::settings::OnUnknownSlots;
use crate::transaction::{Did, Reason, ReasonCode, TakenAlike, Transaction};
use crate::view::BlockRef;
use crate::{Account, CommandId, ContentVersion, Millis, Slot, TxId, Wei};

/// So many effects of forgotten slots are remembered: the lane's row is written with every commit. A lane that would have to remember
/// more holds before them, until a person resumes it.
pub(super) const MOST_REMEMBERED: usize = 1_000;

/// How far a comparison is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    /// Something is still to be read.
    NotYet,
    /// Nobody could say what took one of the slots.
    Unreadable,
    Done,
}

/// What a call does, in a number: enough to ask a person about one that looks the same.
fn effect(to: Option<Account>, value: Wei, data: &[u8], authorizations: &[Authorization]) -> u64 {
    let mut bytes = Vec::with_capacity(53 + data.len());
    bytes.push(u8::from(to.is_some()));
    bytes.extend(to.iter().flat_map(|to| to.0));
    bytes.extend_from_slice(&value.0.to_be_bytes::<32>());
    bytes.extend_from_slice(data);
    bytes.extend(authorizations.iter().flat_map(|authorization| authorization.address.0));
    let [a, b, c, d, e, f, g, h, ..] = keccak256(&bytes).0;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

fn effect_of(payload: &Payload) -> u64 {
    effect(payload.to, payload.value, &payload.data, &payload.authorization_list)
}

fn effect_of_taker(taker: &Taker) -> u64 {
    effect(taker.to, taker.value, &taker.data, &taker.authorizations)
}

/// A block shows what was asked for. One that the sender itself signs has no signature when it is asked for.
fn shows(shown: &Authorization, asked: &Authorization) -> bool {
    match asked.signed {
        Some(_) => shown == asked,
        None => shown.address == asked.address,
    }
}

fn does_the_same(taker: &Taker, payload: &Payload) -> bool {
    taker.to == payload.to
        && taker.value == payload.value
        && taker.data == payload.data
        && taker.authorizations.len() == payload.authorization_list.len()
        && taker
            .authorizations
            .iter()
            .zip(&payload.authorization_list)
            .all(|(shown, asked)| shows(shown, asked))
}

/// It does what a no-op of ours does.
pub(super) fn is_no_op(taker: &Taker, signer: Account) -> bool {
    taker.to == Some(signer)
        && taker.value == Wei::default()
        && taker.data.is_empty()
        && taker.authorizations.is_empty()
}

/// The content of the transaction that the taker carried out, if it did one; the newest, if several are the same.
pub(super) fn carries_out(taker: &Taker, tx: &Transaction) -> Option<ContentVersion> {
    let asked = (ContentVersion::FIRST.0..=tx.version().0).rev().map(ContentVersion);
    let mut contents = asked.filter(|version| !tx.is_no_op_at(*version));
    contents.find(|version| does_the_same(taker, tx.payload_of(*version)))
}

/// Slots that did the same, and transactions without bytes of which one content does it.
struct Alike<'a> {
    takers: BTreeMap<Slot, &'a Taker>,
    txs: Vec<&'a Transaction>,
    is_plain: bool,
}

impl Default for Alike<'_> {
    fn default() -> Self {
        Self { takers: BTreeMap::new(), txs: Vec::new(), is_plain: true }
    }
}

impl Alike<'_> {
    /// The slot of each transaction, its own if it had reserved one of them; none if there are too few.
    fn pairs(&self) -> Option<Vec<(Slot, (TxId, ContentVersion))>> {
        let mut slots = self.takers.clone();
        let (reserved, others): (Vec<&Transaction>, Vec<&Transaction>) =
            self.txs.iter().partition(|tx| tx.status.slot.is_some_and(|slot| slots.contains_key(&slot)));
        let mut pairs = Vec::new();
        for tx in reserved.into_iter().chain(others) {
            let own = tx.status.slot.filter(|slot| slots.contains_key(slot));
            let slot = own.or_else(|| slots.first_key_value().map(|(slot, _)| *slot))?;
            let taker = slots.remove(&slot)?;
            pairs.push((slot, (tx.id, carries_out(taker, tx)?)));
        }
        Some(pairs)
    }

    /// The planted way: as many of the oldest as there are slots, one each.
    fn planted_oldest(&self) -> Vec<(Slot, (TxId, ContentVersion))> {
        let pair = |(tx, (slot, taker)): (&&Transaction, (&Slot, &&Taker))| {
            Some((*slot, (tx.id, carries_out(taker, tx)?)))
        };
        self.txs.iter().zip(&self.takers).filter_map(pair).collect()
    }

    /// Each transaction with one of the slots: as many slots as there are stand beside one, so that a person can account for each.
    fn doubtful(&self) -> Vec<(TxId, Slot)> {
        let slots = self.takers.keys().copied().cycle();
        self.txs.iter().map(|tx| tx.id).zip(slots).collect()
    }
}

/// The effects of the slots that we do not know, beside what waits.
#[derive(Default)]
struct Landed {
    /// The transaction that each carried out.
    plain: BTreeMap<Slot, (TxId, ContentVersion)>,
    /// Transactions that may have landed, each with a slot that did the same.
    doubtful: BTreeMap<TxId, Slot>,
}

impl Lane {
    /// For each slot that we do not know, the transaction without bytes that it carried out; each carried out one. The one that had
    /// reserved the slot comes first, then the oldest that waits.
    pub(super) fn same_effect(&self) -> BTreeMap<Slot, (TxId, ContentVersion)> {
        let mut same = BTreeMap::new();
        // By what is quick to compare: a queue may be long.
        let mut takers: BTreeMap<_, Vec<(Slot, &Taker)>> = BTreeMap::new();
        for (slot, (_, taker)) in self.seen_takers() {
            let Some(taker) = taker else { continue };
            let reserved = self.slots.bare().get(&slot).and_then(|slot| self.slots.get(slot)?.tx);
            let reserved = reserved.and_then(|id| self.bound.get(&id));
            match reserved.and_then(|tx| Some((tx.id, carries_out(taker, tx)?))) {
                Some(carried) => drop(same.insert(slot, carried)),
                None => takers.entry((taker.to, taker.value)).or_default().push((slot, taker)),
            }
        }
        if takers.is_empty() {
            return same;
        }
        // One that had reserved a slot may have landed in another.
        let is_found: BTreeSet<TxId> = same.values().map(|(id, _)| *id).collect();
        let waiting = self.waiting.values().map(|waiting| &waiting.tx);
        for tx in waiting.chain(self.reserved()).filter(|tx| !is_found.contains(&tx.id)) {
            let alike = tx.payloads().filter_map(|payload| takers.get(&(payload.to, payload.value)));
            let mut alike = alike.flatten().filter(|(slot, _)| !same.contains_key(slot));
            let carried = alike.find_map(|(slot, taker)| Some((*slot, carries_out(taker, tx)?)));
            if let Some((slot, version)) = carried {
                same.insert(slot, (tx.id, version));
            }
        }
        same
    }

    /// Transactions that the slots which we do not know have carried out, as far as that is plain. Where more do the same than slots did it, or where one of
    /// them may not have been wanted in the end, nobody knows which of them landed, and all are in doubt.
    fn landed(&self) -> Landed {
        let mut groups: BTreeMap<u64, Alike<'_>> = BTreeMap::new();
        // Of what whoever resumed the lane did not mean, nothing is remembered yet that a person could speak of.
        for (slot, (_, taker)) in self.seen_takers().filter(|(slot, _)| self.strangers.is_meant(*slot)) {
            if let Some(taker) = taker {
                groups.entry(effect_of_taker(taker)).or_default().takers.insert(slot, taker);
            }
        }
        let waiting = self.waiting.values().map(|waiting| &waiting.tx);
        for tx in waiting.chain(self.reserved()) {
            for did in effects_of(tx) {
                if let Some(alike) = groups.get_mut(&did) {
                    alike.txs.push(tx);
                    alike.is_plain &= self.was_used() && self.is_plain(tx, did);
                }
            }
        }
        let mut landed = Landed::default();
        for alike in groups.into_values().filter(|alike| !alike.txs.is_empty()) {
            match alike.pairs().filter(|_| alike.is_plain) {
                Some(pairs) => landed.plain.extend(pairs),
                None if self.planted_oldest_landed() => landed.plain.extend(alike.planted_oldest()),
                None => landed.doubtful.extend(alike.doubtful()),
            }
        }
        landed
    }

    /// Nothing speaks against that it was carried out: it still wants this content and no other, whoever else spoke of it.
    fn is_plain(&self, tx: &Transaction, did: u64) -> bool {
        let late =
            |deadline| self.live_view().and_then(|view| view.time()).is_none_or(|time| time >= deadline);
        effect_of(tx.payload()) == did
            && !tx.is_no_op()
            && tx.status.held.is_none()
            && tx.after().is_none()
            && !tx.deadline().is_some_and(late)
            && !needs_approval(tx, &self.settings)
            && !self.spoken_of.contains(&Some(tx.id))
            && !self.spoken_of.contains(&None)
    }

    /// A person says that slots which we do not know are not ours, and that what the chain took back may be filled. Done when the
    /// chain was seen and what took the slots is known. One word is enough: a second one adds nothing to it.
    ///
    /// A word that came before the lane was loaded is not about what the chain has used since: in an older copy of the store that
    /// may be ours. Whoever means it has to say it again.
    pub(super) fn ask_resume(&mut self, command: CommandId, is_new: bool) {
        let is_old = !self.load.heard_all && !self.planted_old_resume();
        let up_to = is_old.then(|| self.stored_count.unwrap_or_default());
        let knows_unread = self.unread().is_some();
        match self.strangers.resume(command, is_new, up_to, knows_unread) {
            Some(first) if first != command => self.finish_command(command),
            Some(_) | None => {
                self.row.resuming = Some(command);
                self.changes.row();
            }
        }
    }

    /// A slot that was history and that the chain took back may be filled, by the word of a person.
    fn open_history(&mut self, count: Slot, now: Millis) {
        if self.strangers.take_new() && self.row.history.is_some_and(|history| count <= history) {
            self.row.history = count.0.checked_sub(1).map(Slot);
            let text = format!("an operator resumed it: nonce {count}, which was final, may be filled");
            self.changes.journal(None, now, Entry::LaneResumed { text });
        }
    }

    /// Everything that waits is to be read, so that it can be compared with what took the slots.
    pub(super) fn reads_all(&self) -> bool {
        self.strangers.is_resuming() || self.is_older() || self.adopts_at_load()
    }

    /// Everything that waits is in memory.
    pub(super) fn has_read_all(&self) -> bool {
        !self.load.more && !self.load.running
    }

    /// What took the lowest slots that we do not know, as many as are looked up at once, was compared with everything that waits.
    pub(super) fn compared(&self) -> Compared {
        let same = self.same_effect();
        // Of an older store, everything that was there when it was accepted. Whatever comes later is compared as it comes.
        let has_read = if self.is_older() { self.load.read_accepted } else { self.has_read_all() };
        let mut compared = if has_read { Compared::Done } else { Compared::NotYet };
        for slot in self.unknown_list().into_iter().filter(|slot| self.strangers.is_meant(*slot)) {
            // What an older store goes on over is remembered by what it did: a reorganisation must not make that untrue.
            match self.strangers.state(slot, self.is_older() || same.contains_key(&slot)) {
                Compared::NotYet => return Compared::NotYet,
                Compared::Unreadable if compared == Compared::Done => compared = Compared::Unreadable,
                Compared::Unreadable | Compared::Done => {}
            }
        }
        compared
    }

    /// Goes on over the lowest slots that we do not know: what they carried out ends as landed, the rest is remembered. Says what
    /// was done.
    pub(super) fn pass_over_unknown(&mut self, now: Millis) -> String {
        let mut unknown = self.unknown_list();
        unknown.retain(|slot| self.strangers.is_meant(*slot));
        let (Some(first), Some(last)) = (unknown.first().copied(), unknown.last().copied()) else {
            return String::new();
        };
        let mut text = format!("nonces {first} to {last} were used by what this store does not know");
        let Landed { mut plain, mut doubtful } = self.landed();
        let seen: BTreeMap<Slot, (BlockRef, Option<Taker>)> =
            self.seen_takers().map(|(slot, (block, taker))| (slot, (*block, taker.clone()))).collect();
        for slot in &unknown {
            let Some((block, Some(taker))) = seen.get(slot).filter(|_| !self.planted_compares_nothing())
            else {
                continue;
            };
            match plain.remove(slot) {
                Some((id, version)) => {
                    let (hash, receipt) = (taker.hash, taker.receipt.clone());
                    let by = TakenAlike { hash, block: *block, version, did: Did::Same, receipt };
                    self.carried_out(id, *slot, &by, now);
                    text.push_str(&format!(
                        "; nonce {slot} carried out transaction {id}, which has ended as landed"
                    ));
                }
                None if self.is_older()
                    || !self.may_adopt(block)
                    || doubtful.values().any(|at| at == slot) =>
                {
                    self.remember(*slot, taker);
                }
                // A stranger's, or bytes of ours that an accepted store has forgotten and that came late.
                None => self.remember_late(*slot, Some(taker), now),
            }
        }
        for slot in unknown {
            self.leave_to_stranger(slot, now);
        }
        if self.planted_compares_nothing() {
            doubtful.clear();
        }
        for (id, slot) in doubtful {
            if self.is_reserved(id) {
                self.unreserve(id, now);
            }
            self.hold_as_landed(id, slot, now);
        }
        self.spread_shown(now);
        self.changes.row();
        self.forget_found();
        text
    }

    /// The store had used the lane when it was copied.
    fn was_used(&self) -> bool {
        self.row.cursor.is_some() && self.row.compared_from.is_none()
    }

    /// There is room to remember the next step: the slots by which nothing that waits was carried out.
    pub(super) fn has_room(&self) -> bool {
        let plain = self.landed().plain;
        let more = self.unknown_list().iter().filter(|slot| !plain.contains_key(slot)).count();
        self.row.forgotten.len() + more <= MOST_REMEMBERED
    }

    /// The effect of a slot that this store may have forgotten: one that does the same is held. Nothing that was remembered goes for it.
    fn remember(&mut self, slot: Slot, taker: &Taker) {
        if self.row.forgotten.len() < MOST_REMEMBERED {
            self.note_effect(slot, taker);
        }
    }

    fn note_effect(&mut self, slot: Slot, taker: &Taker) {
        let did = effect_of_taker(taker);
        self.row.forgotten.insert(slot, did);
        self.changes.row();
    }

    /// The end of the slots for which bytes may be out that an accepted store has forgotten: as far above its cursor as it may have sent.
    /// Bytes that were signed further ahead were shown to nobody. A window that became wider since then concerns what is known.
    fn late_end(&self) -> Option<Slot> {
        let below = self.row.accepted_below?;
        Some(Slot(below.0.saturating_add(self.accepted_ahead())))
    }

    fn accepted_ahead(&self) -> u64 {
        match self.row.accepted_ahead {
            // Accepted before this was stored.
            0 => self.settings.max_in_flight.max(self.row.widest),
            ahead => ahead,
        }
    }

    /// The end of the slots whose use is remembered if it is not known here. A reorganisation from before the first look at the chain may have
    /// lowered the count by which the acceptance went, and nobody knows by how much: as far as another window, a stranger may be we.
    fn late_use_end(&self) -> Option<Slot> {
        let end = self.late_end()?;
        Some(Slot(end.0.saturating_add(self.accepted_ahead())))
    }

    /// The end of the slots in which bytes that this store has forgotten may still land: whoever has them can send them until their nonce
    /// is used for good. Until then nothing that waits is sent: it may be what lands there.
    pub(super) fn awaits_late(&self) -> Option<Slot> {
        let end = self.late_end().filter(|_| !self.planted_many_beside_late())?;
        let is_used = self.chain_count().is_some_and(|count| count >= end);
        // What took a slot for good, and only a person can say whose it is, is known as well.
        let is_taken = |id| self.bound.get(&id).is_some_and(|tx| tx.status.taken.is_some());
        let is_open = |record: &SlotRecord| !record.tx.is_some_and(is_taken);
        // What a reorganisation can still take back may land otherwise: as long as that is watched, nothing is over.
        let is_watched = self.row.accepted_below.is_some_and(|below| self.kept.any_of(below..end));
        let is_over = is_used && !is_watched && !self.slots.range(..end).any(|(_, record)| is_open(record));
        (!is_over).then_some(end)
    }

    /// The chain has used a slot for which we have nothing, and which an accepted store may have forgotten.
    pub(super) fn may_have_forgotten(&self, slot: Slot) -> bool {
        self.late_end().is_some_and(|end| slot < end)
            && self.chain_count().is_some_and(|count| count > slot)
            && !self.strangers.was_second(slot)
            && self.row.history.is_none_or(|history| history < slot)
            && !self.slots.contains_key(&slot)
            && !self.kept.contains(slot)
    }

    /// The end of the slots that no-ops are to use up, as soon as something waits: there, bytes that were forgotten meet nothing that could
    /// be lost.
    pub(super) fn late_to_fill(&self) -> Option<Slot> {
        self.awaits_late().filter(|_| self.held().is_none() && self.waiting.has_ready())
    }

    /// A slot went to something that is not known here, after the store was accepted. It may be what the store had forgotten and what
    /// landed late: whatever waits and does the same waits for a person.
    pub(super) fn remember_late(&mut self, slot: Slot, taker: Option<&Taker>, now: Millis) {
        let end = self.late_use_end().filter(|_| !self.planted_late_forgotten());
        let Some(taker) = taker.filter(|_| end.is_some_and(|end| slot < end)) else { return };
        self.hold_what_does_the_same(slot, taker, now);
    }

    /// A slot with bytes of ours went to something in a block of which it is not known that all below it was accounted for: an older copy of
    /// the store that nobody noticed may have sent it.
    pub(super) fn remember_unaccounted(
        &mut self,
        (slot, block): (Slot, BlockRef),
        taker: Option<&Taker>,
        now: Millis,
    ) {
        let is_accounted = self.accounted_at().is_some_and(|at| block.number > at.number);
        // Where the signer says so, what is not known here is another program's.
        let is_foreign = self.settings.on_unknown_slots == OnUnknownSlots::Adopt;
        let is_forgotten = is_accounted || is_foreign || self.planted_unaccounted();
        let Some(taker) = taker.filter(|_| !is_forgotten) else { return };
        self.hold_what_does_the_same(slot, taker, now);
    }

    fn hold_what_does_the_same(&mut self, slot: Slot, taker: &Taker, now: Millis) {
        self.note_effect(slot, taker);
        let waiting: Vec<TxId> = self.waiting.values().map(|waiting| waiting.tx.id).collect();
        for id in waiting {
            self.hold_if_forgotten(id, now);
        }
        self.spread_shown(now);
    }

    /// A resume goes on when it is known what took the slots, and, where one carried out what waits, when that is settled.
    pub(super) fn finish_resumes(&mut self, now: Millis) {
        if !self.strangers.is_resuming() || self.is_older() {
            return;
        }
        // What landed since an older count must be compared too.
        let Some(count) = self.chain_count().filter(|_| self.may_bind()) else { return };
        self.open_history(count, now);
        if self.has_meant() {
            match self.compared() {
                Compared::NotYet => return,
                // The word was given for slots that would be compared, and these cannot be.
                Compared::Unreadable if !self.strangers.knew_unread() => return self.take_back_resume(now),
                // What nobody can tell is left to the person's word.
                Compared::Unreadable | Compared::Done => {}
            }
            if let Some(command) = self.strangers.resuming() {
                self.speak_again_for(command);
            }
            let text = format!("an operator resumed it: {}", self.pass_over_unknown(now));
            self.changes.journal(None, now, Entry::LaneResumed { text });
            self.changes.by = None;
            if self.has_meant() {
                return;
            }
        }
        if self.strangers.means_all() {
            self.row.compared_from = None;
        }
        if let Some(command) = self.strangers.take_resuming() {
            self.finish_command(command);
        }
        self.row.resuming = None;
        self.changes.row();
        if self.unknown_slots().is_none() {
            self.resumed_over_all();
        }
    }

    /// A person resumed the lane without knowing that nobody can say what took some slots: it has to be said again.
    fn take_back_resume(&mut self, now: Millis) {
        if let Some(command) = self.strangers.take_resuming() {
            self.finish_command(command);
        }
        self.row.resuming = None;
        self.changes.row();
        if let Some(hold) = self.hold() {
            let text = format!("it was resumed, and does not go on: {}", hold.sentence());
            self.changes.journal(None, now, Entry::LaneHeld { text });
        }
    }

    /// There are unknown slots that whoever resumed the lane meant.
    fn has_meant(&self) -> bool {
        self.unknown_slots().is_some_and(|(first, _)| self.strangers.is_meant(first))
    }

    /// A transaction without bytes was carried out under a nonce that this store does not know, by the word of a person.
    fn carried_out(&mut self, id: TxId, slot: Slot, by: &TakenAlike, now: Millis) {
        // One that had reserved a slot gives it up first.
        if let Some(reserved) = self.bound.get(&id).and_then(|tx| tx.status.slot) {
            match reserved == slot {
                true => self.leave_to_stranger(slot, now),
                false => self.unreserve(id, now),
            }
        }
        self.stop_signing(id);
        let Some(Waiting { mut tx, .. }) = self.leave_waiting(id) else { return };
        self.end_carried_out(&mut tx, slot, by, now);
    }

    /// A transaction came. If a slot that this store has forgotten did the same, it may be that one, handed in again. The slot stays
    /// remembered: others may come that do the same, and one of them was it.
    pub(super) fn hold_if_forgotten(&mut self, id: TxId, now: Millis) {
        if self.row.forgotten.is_empty() {
            return;
        }
        let Some(tx) = self.waiting.by_id(id).map(|waiting| &waiting.tx) else { return };
        if let Some(slot) = self.forgotten_alike(tx) {
            self.hold_as_landed(id, slot, now);
        }
    }

    /// A slot that this store has forgotten and that did the same, unless a person has told them apart; as the newest content
    /// does, if there is one.
    fn forgotten_alike(&self, tx: &Transaction) -> Option<Slot> {
        if let Some(slot) = self.forgotten_as(tx, tx.payload()) {
            return Some(slot);
        }
        self.forgotten_by(tx, &effects_of(tx))
    }

    /// A slot that has done this content already, unless a person has told them apart.
    pub(super) fn forgotten_as(&self, tx: &Transaction, payload: &Payload) -> Option<Slot> {
        self.forgotten_by(tx, &BTreeSet::from([effect_of(payload)]))
    }

    /// The lowest forgotten slot with one of these effects, before all others one that no transaction is held for: a person can account
    /// for each of them then.
    fn forgotten_by(&self, tx: &Transaction, effects: &BTreeSet<u64>) -> Option<Slot> {
        let is_told_apart = |slot: &Slot| tx.status.told_apart.contains(slot);
        let alike = self.row.forgotten.iter().filter(|(_, did)| effects.contains(did)).map(|(slot, _)| *slot);
        let alike: Vec<Slot> = alike.filter(|slot| !is_told_apart(slot)).collect();
        let lowest = *alike.first()?;
        if alike.len() == 1 {
            return Some(lowest);
        }
        let others = self.waiting.values().filter(|waiting| waiting.tx.id != tx.id);
        let shown: BTreeSet<Slot> = others.filter_map(|waiting| waiting.tx.status.forgotten_as).collect();
        alike.into_iter().find(|slot| !shown.contains(slot)).or(Some(lowest))
    }

    /// The slot that a transaction is held for. None if that slot was accounted for, and no other did the same.
    pub(super) fn held_for(&self, tx: &Transaction) -> Option<Slot> {
        tx.status.forgotten_as.filter(|slot| self.row.forgotten.contains_key(slot))
    }

    /// This forgotten slot, and all others that did the same.
    pub(super) fn alike_to(&self, slot: Option<Slot>) -> Vec<Slot> {
        let Some(did) = slot.and_then(|slot| self.row.forgotten.get(&slot)) else { return Vec::new() };
        self.row.forgotten.iter().filter(|(_, other)| *other == did).map(|(slot, _)| *slot).collect()
    }

    /// A person says that a transaction is what a forgotten slot did, the one that was shown: it is accounted for, and no other.
    pub(super) fn remember_no_more(&mut self, id: TxId, shown: Slot, now: Millis) {
        let tx = self.waiting.by_id(id).map(|waiting| &waiting.tx);
        let did = tx.filter(|tx| tx.status.may_have_landed()).map(|tx| effect_of(tx.payload()));
        // Of a content that it has no more, a word says nothing.
        if let Some(did) = did.filter(|did| self.row.forgotten.get(&shown) == Some(did)) {
            self.row.forgotten.remove(&shown);
            self.planted_word_frees(did);
            self.changes.row();
            self.show_anew(shown, id, now);
        }
    }

    /// Others that were held for a slot which is accounted for now show the next one that did the same, if there is one.
    fn show_anew(&mut self, gone: Slot, was: TxId, now: Millis) {
        let held = self.waiting.values().filter(|waiting| waiting.tx.status.forgotten_as == Some(gone));
        let held: Vec<TxId> = held.map(|waiting| waiting.tx.id).filter(|id| *id != was).collect();
        for other in held {
            self.show_next(other, Some(was), now);
        }
    }

    /// A transaction that is held for a slot which is accounted for shows the next that did the same. If all are accounted for, it is none of
    /// them; it goes on by a person's word all the same, since it may ask for what `was` has done once more.
    pub(super) fn show_next(&mut self, id: TxId, was: Option<TxId>, now: Millis) {
        let Some(tx) = self.waiting.by_id(id).map(|waiting| &waiting.tx) else { return };
        let is_gone = |slot: &Slot| !self.row.forgotten.contains_key(slot);
        let Some(gone) = tx.status.forgotten_as.filter(is_gone).filter(|_| tx.status.may_have_landed())
        else {
            return;
        };
        match self.forgotten_alike(tx) {
            Some(slot) => self.show(id, slot, now),
            None => self.show_none(id, gone, was, now),
        }
    }

    /// Another slot is remembered: of those that show the same nonce, one shows this one if it did the same.
    fn spread_shown(&mut self, now: Millis) {
        let held = self.waiting.values().filter(|waiting| waiting.tx.status.may_have_landed());
        let held = held.filter_map(|waiting| Some((waiting.tx.id, waiting.tx.status.forgotten_as?)));
        let held: Vec<(TxId, Slot)> = held.collect();
        let shown: BTreeSet<Slot> = held.iter().map(|(_, slot)| *slot).collect();
        let mut spare: BTreeMap<u64, Vec<Slot>> = BTreeMap::new();
        for (slot, did) in self.row.forgotten.iter().rev().filter(|(slot, _)| !shown.contains(slot)) {
            spare.entry(*did).or_default().push(*slot);
        }
        if spare.is_empty() {
            return;
        }
        let mut seen = BTreeSet::new();
        for (id, slot) in held.into_iter().filter(|(_, slot)| !seen.insert(*slot)) {
            let did = self.row.forgotten.get(&slot);
            if let Some(other) = did.and_then(|did| spare.get_mut(did)).and_then(Vec::pop) {
                self.show(id, other, now);
            }
        }
    }

    /// A held transaction shows this nonce from now on.
    fn show(&mut self, id: TxId, slot: Slot, now: Millis) {
        self.show_held(id, may_have_landed(slot), Some(slot), now);
    }

    /// There is no nonce left that it could be, since this one was another transaction.
    fn show_none(&mut self, id: TxId, gone: Slot, was: Option<TxId>, now: Millis) {
        self.show_held(id, was_another(gone, was), None, now);
    }

    fn show_held(&mut self, id: TxId, reason: Reason, slot: Option<Slot>, now: Millis) {
        self.waiting.change(id, |tx| {
            tx.status.held = Some(reason);
            tx.status.forgotten_as = slot;
            self.changes.tx(tx, now);
        });
    }

    /// It may have landed with that nonce: only a person can say.
    fn hold_as_landed(&mut self, id: TxId, slot: Slot, now: Millis) {
        self.stop_signing(id);
        self.hold_for_person(id, may_have_landed(slot), Some(slot), now);
    }
}

fn may_have_landed(slot: Slot) -> Reason {
    let text = format!(
        "nonce {slot} of this account was used by something that this store does not know, and did the same: it may be this \
         transaction, which has landed then"
    );
    Reason { code: ReasonCode::MayHaveLanded, text }
}

/// Two that ask for the same may be one payment that was handed in twice: whoever lets this one go on has to look at the other.
fn was_another(slot: Slot, was: Option<TxId>) -> Reason {
    let other = was.map_or_else(|| "another transaction".to_owned(), |id| format!("transaction {id}"));
    let text = format!(
        "each nonce that did the same is accounted for by now; by a person's word nonce {slot} was {other}, which asked for the same as \
         this one"
    );
    Reason { code: ReasonCode::MayHaveLanded, text }
}

/// The effect of each content of a transaction.
pub(super) fn effects_of(tx: &Transaction) -> BTreeSet<u64> {
    tx.payloads().map(effect_of).collect()
}

/// Where the slots of a lane that the store never used are compared from: as many of the newest as can be remembered.
pub(super) fn first_forgotten(count: Slot) -> Slot {
    Slot(count.0.saturating_sub(MOST_REMEMBERED as u64))
}
