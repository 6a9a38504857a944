//! Explain: one sentence for every transaction that waits, and for every lane that holds.

use super::cheap::explain_cheap;
use super::delegate::too_dear;
use super::finish::comes_again;
use super::{Lane, Prep, Settles, SlotRecord, Until, Waiting};
use crate::fees::AtCeiling;
use crate::journal::Entry;
use crate::outcome::SendOutcome;
use crate::ports::store::Older;
use crate::request::Finality;
use crate::transaction::{Transaction, TxState};
use crate::view::{BlockRef, ChainStatus, ChainView, Receipt, Standing, Tag};
use crate::{Millis, Slot, TxId};

/// Why a lane hands out no slots. Slots that are out go on being carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// The store is an older copy of itself, and nobody has accepted it yet.
    StoreOlder { why: Older },
    /// A person has accepted it, and these slots, which it does not know, are compared with what waits.
    Comparing { first: Slot, last: Slot, settles: Option<Settles> },
    /// The chain has taken these slots back since the store was taken for an older copy.
    TakenBack { first: Slot, last: Slot },
    /// The chain was not seen since the start.
    NoView,
    /// Commands that were there before are being read.
    Reading,
    /// Nonces of ours went to something that this store does not know, and the endpoints may have more of it to show.
    Behind,
    /// This slot was used, by ours or by something else: which it was is being looked up.
    LookingUp { slot: Slot },
    /// The endpoints show another chain.
    ChainChanged,
    /// Only one endpoint has given the count with which the lane is to begin.
    FirstCount { count: Slot },
    /// The chain has used slots for which we have stored no bytes.
    UnknownSlots { first: Slot, last: Slot, until: Until },
    /// Slots below this one were used before the store was put back, and nobody knows what they did.
    NotCompared { below: Slot },
    /// A slot that is history is open again: the chain took back more than it calls final itself.
    FinalReplaced { slot: Slot },
    /// The bytes of this slot do not go out again, and its no-op would have to offer more than the ceiling.
    NoOpTooDear { slot: Slot, at: AtCeiling },
    /// An operator paused it.
    Paused,
}

impl Hold {
    /// The store is an older copy, accepted or not: what callers hand in again is stored, to be compared.
    #[must_use]
    pub fn is_of_older_store(&self) -> bool {
        matches!(self, Self::StoreOlder { .. } | Self::Comparing { .. } | Self::TakenBack { .. })
    }

    /// The sentence for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::StoreOlder { why: why @ Older::Accepted } => why.sentence(),
            Self::StoreOlder { why } => format!(
                "{}. What it has forgotten may have been sent, so no nonces are assigned and nothing is signed. Hand all requests in \
                 again with their request ids, then run `landfall store accept`; see docs/backup.md",
                why.sentence()
            ),
            Self::Comparing { first, last, settles } => format!(
                "the store is an older copy, and an operator accepted it; nonces {first} to {last}, which it does not know, are being \
                 compared with what waits, so that nothing is done twice{}",
                until_settled(*settles)
            ),
            Self::TakenBack { first, last } => format!(
                "the store is an older copy, and a reorganisation took nonces {first} to {last} back, which it does not know. What used them \
                 may land again, so the lane waits for that. If it never will, stop the server, run `landfall store older`, start it and \
                 accept the store again"
            ),
            Self::NotCompared { below } => not_compared(*below),
            Self::Reading => "commands that were given before are being read".to_owned(),
            Self::Behind => "another program, or a newer copy of this store, used nonces that transactions here were signed for, and \
                 the endpoints may not have shown all of it yet: their newest block is old, or what used a nonce is not final. No nonces are \
                 assigned until that is known, so that nothing is paid twice. If the chain makes no blocks and you know that there is no \
                 more of it, resume the lane"
                .to_owned(),
            Self::LookingUp { slot } => format!(
                "nonce {slot} was used before this node had looked at the chain, and it is being looked up by which transaction; if it was \
                 none of ours, until that is final. No nonces are assigned until then, so that nothing is paid twice. If no endpoint can say \
                 it, and you know that it was no payment of yours, resume the lane"
            ),
            Self::NoView => "no view of the chain counts yet: it has not been reached since the start, or what its endpoints show is not \
                 taken; `GET /health/ready` says why. It goes on by itself"
                .to_owned(),
            Self::ChainChanged => "the endpoints show another chain than the one this lane was used on; `GET /health/ready` shows the \
                 blocks. If an endpoint is the wrong one, correct `rpc` and start again: nothing is lost. If a block that was \
                 final has been replaced, stop Landfall and run `landfall chain accept-reorg`, which keeps everything. Only if the chain \
                 was started over on purpose, with another first block, stop Landfall and run `landfall chain forget`: what was paid \
                 on the chain that is stored is then not known any more"
                .to_owned(),
            Self::FirstCount { count } => format!(
                "this lane is new, and only one endpoint says that its first nonce is {count}: two must give the same count, and are asked \
                 every second. If no other one answers, the lane begins by the word of one after witness_wait_s (never where that is 0). If \
                 another one gives another count, take the one that is wrong out of the configuration; `GET /health/ready` shows how \
                 the endpoints do"
            ),
            Self::UnknownSlots { first, last, until } => unknown(*first, *last, until),
            Self::FinalReplaced { slot } => format!(
                "the chain took nonce {slot} back after it was settled: a reorganisation deeper than what the chain itself \
                 calls final; what was confirmed there is not on the chain any more. Look, then resume the lane: the \
                 nonce is filled by a no-op"
            ),
            Self::NoOpTooDear { slot, at } => format!(
                "the bytes of nonce {slot} are not sent again, since they would delegate the account to an address that delegate_to does \
                 not list any more; {}",
                too_dear(at)
            ),
            Self::Paused => "an operator paused the lane".to_owned(),
        }
    }
}

/// The sentence for slots that were used before the store knew the account.
fn not_compared(below: Slot) -> String {
    let (which, were) = match below.0.saturating_sub(1) {
        0 => ("nonce 0".to_owned(), "was"),
        last => (format!("nonces 0 to {last}"), "were"),
    };
    format!(
        "this store had never used this account. Its newest 1,000 nonces were compared; {which} {were} not, and may have done what was \
         handed in again. Look at them in an explorer, `landfall tx cancel` what they have done, then `landfall lane resume CHAIN \
         SIGNER`: all that waits, but for what is held, is then sent"
    )
}

/// The sentence for slots that the chain has used and that we do not know.
fn unknown(first: Slot, last: Slot, until: &Until) -> String {
    let (which, were) = match first == last {
        true => (format!("nonce {first}"), "was"),
        false => (format!("nonces {first} to {last}"), "were"),
    };
    let not_known =
        format!("this store does not know who used {which}: another program, or a newer copy of this store");
    match until {
        Until::Person => format!(
            "{not_known}. Look at them. If they are other payments, resume the lane. If this store was put back, have all requests \
             handed in again first: one that waits and is the same payment as one of them is then not sent. It ends as landed, or waits \
             for a person where more of them are the same"
        ),
        Until::Same { slot, tx } => format!(
            "{not_known}; what used nonce {slot} did the same as transaction {tx}, which waits. If it is that payment, resume the \
             lane: the transaction then ends as landed, and is not sent. If it is another one, resume the lane as well, and hand the \
             transaction in again with a new request id"
        ),
        Until::Unread { first, last } => {
            let unread = match first == last {
                true => format!("nonce {first}"),
                false => format!("nonces {first} to {last}"),
            };
            format!(
                "{not_known}, and no endpoint can say what {unread} did: an endpoint that keeps the chain's history could. NOTHING is \
                 compared with it. Look in an explorer, `landfall tx cancel` what has landed already, then `landfall lane resume` \
                 again: all that still waits is then sent"
            )
        }
        Until::LookedUp { settles } => format!(
            "{which} {were} used by something that this store does not know, and an operator resumed the lane; it is being looked up \
             what that was, so that nothing is done twice{}",
            until_settled(*settles)
        ),
        Until::Final { block: Some(block), so_far } => {
            let so_far = so_far.map_or(String::new(), |so_far| so_far.to_string());
            format!(
                "{which} {were} used by another program in block {block}; Landfall goes on when that is final{so_far}"
            )
        }
        Until::Final { block: None, .. } => format!(
            "{which} {were} used by another program; Landfall goes on when the block is found in which that was, and is final"
        ),
    }
}

fn until_settled(settles: Option<Settles>) -> String {
    let Some(Settles { block, so_far }) = settles else { return String::new() };
    let so_far = so_far.map_or(String::new(), |so_far| so_far.to_string());
    format!(". What they did up to block {block} must be final first{so_far}")
}

impl Lane {
    /// Why no slots are handed out, if so.
    #[must_use]
    pub fn hold(&self) -> Option<Hold> {
        let Some(held) = self.held() else {
            return self.no_op_too_dear().map(|(slot, at)| Hold::NoOpTooDear { slot, at });
        };
        match held {
            Hold::UnknownSlots { first, last, .. } => {
                Some(Hold::UnknownSlots { first, last, until: self.unknown_until() })
            }
            Hold::StoreOlder { why: Older::Accepted } => Some(match self.unknown_slots() {
                _ if let Some((first, last)) = self.taken_back() => Hold::TakenBack { first, last },
                Some((first, last)) => Hold::Comparing { first, last, settles: self.compared_when() },
                None => Hold::StoreOlder { why: Older::Accepted },
            }),
            hold => Some(hold),
        }
    }

    /// As [`Self::hold`], without a look at what it waits for.
    pub(super) fn held(&self) -> Option<Hold> {
        if let Some(why) = self.older() {
            return Some(Hold::StoreOlder { why: why.clone() });
        }
        let Some(view) = &self.view else { return Some(Hold::NoView) };
        if view.status == ChainStatus::Changed {
            return Some(Hold::ChainChanged);
        }
        if let (Some(history), Some(count)) = (self.row.history, self.chain_count())
            && count <= history
        {
            return Some(Hold::FinalReplaced { slot: count });
        }
        if self.row.paused {
            return Some(Hold::Paused);
        }
        let Some(count) = self.chain_count() else { return Some(Hold::NoView) };
        if self.row.cursor.is_none() {
            return Some(Hold::FirstCount { count });
        }
        if let Some((first, last)) = self.unknown_slots() {
            return Some(Hold::UnknownSlots { first, last, until: Until::Person });
        }
        // A cancel or a pause may be among them.
        if !self.load.heard_all {
            return Some(Hold::Reading);
        }
        if self.may_show_more() {
            return Some(Hold::Behind);
        }
        if let Some(slot) = self.looks_up() {
            return Some(Hold::LookingUp { slot });
        }
        self.row.compared_from.filter(|below| below.0 > 0).map(|below| Hold::NotCompared { below })
    }

    /// The lowest and the highest slot that the chain has used and for which we have no bytes: never handed out,
    /// returned, or reserved.
    pub(super) fn unknown_slots(&self) -> Option<(Slot, Slot)> {
        let (cursor, count) = (self.known_up_to()?, self.chain_count()?);
        let reserved = self.slots.bare().range(..count).copied();
        let returned = self.row.returned.range(..count).copied();
        let beyond = (count > cursor).then(|| [cursor, Slot(count.0 - 1)]).into_iter().flatten();
        let mut unknown = reserved.chain(returned).chain(beyond);
        let one = unknown.next()?;
        Some(unknown.fold((one, one), |(first, last), slot| (first.min(slot), last.max(slot))))
    }

    /// Stored bytes may go out: on any hold but another chain.
    pub(super) fn may_send(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.status == ChainStatus::Live)
    }

    /// Holds that need a person are written down, once, however their numbers change.
    pub(super) fn note_hold(&mut self, now: Millis) {
        let hold = self.hold();
        let kind = hold.as_ref().map(std::mem::discriminant);
        if kind == self.hold_noted {
            return;
        }
        if let Some(
            hold @ (Hold::StoreOlder { .. }
            | Hold::TakenBack { .. }
            | Hold::Behind
            | Hold::ChainChanged
            | Hold::UnknownSlots { .. }
            | Hold::NotCompared { .. }
            | Hold::NoOpTooDear { .. }
            | Hold::FinalReplaced { .. }),
        ) = &hold
        {
            self.changes.journal(None, now, Entry::LaneHeld { text: hold.sentence() });
        }
        self.hold_noted = kind;
    }

    /// Why this transaction has not moved on. None for one that is not here or has ended.
    #[must_use]
    pub fn explain(&self, id: TxId, now: Millis) -> Option<String> {
        if let Some(waiting) = self.waiting.by_id(id) {
            return Some(self.explain_waiting(waiting, now));
        }
        if let Some(tx) = self.reopened.get(&id) {
            let slot = tx.status.slot?;
            let said = self.explain_bound(tx, slot, self.slots.get(&slot)?, now);
            return Some(format!(
                "it had ended and the chain took its block back, deeper than the finality asked for; {said}"
            ));
        }
        let tx = self.bound.get(&id)?;
        let slot = tx.status.slot?;
        let record = self.slots.get(&slot)?;
        Some(self.explain_bound(tx, slot, record, now))
    }

    fn explain_waiting(&self, waiting: &Waiting, now: Millis) -> String {
        let (tx, prep) = (&waiting.tx, waiting.prep());
        if let Some(asked) = self.explain_asked(waiting) {
            // The person is asked whatever the lane does.
            return match self.hold() {
                Some(hold) => format!("{asked}; also, {}", hold.sentence()),
                None => asked,
            };
        }
        if let Some(hold) = self.hold() {
            return format!("waiting for a nonce: {}", hold.sentence());
        }
        if let Some(why) = self.explain_behind(waiting) {
            return why;
        }
        match prep {
            Prep::New | Prep::Running { .. } => "its gas is being estimated".to_owned(),
            Prep::Retry { tries, at, why } => format!(
                "it could not be prepared ({why}); try {} in {}, others may go first",
                tries.saturating_add(1),
                span(at.since(now))
            ),
            Prep::Signing { slot, .. } => format!("it is being signed for nonce {slot}"),
            Prep::Ready { .. } => match self.lacks_funds(waiting, self.funds_left()) {
                Some((needs, left)) => format!(
                    "it needs up to {needs} wei, and the account has {left} left beside what is in flight; it waits for funds, \
                     others may go first"
                ),
                None => match self.lacks_budget(waiting, self.budget_left()) {
                    Some((needs, left)) => format!(
                        "its fee may come to {needs} wei, and {left} are left of what this lane may spend today; it goes on \
                         when transactions in flight have cost less, or tomorrow (UTC)"
                    ),
                    None => self.explain_ready(tx),
                },
            },
        }
    }

    /// The question to a person that a transaction waits for.
    fn explain_asked(&self, waiting: &Waiting) -> Option<String> {
        let status = &waiting.tx.status;
        if status.held.is_some() {
            return self.explain_behind(waiting);
        }
        (status.state == TxState::AwaitingApproval)
            .then(|| format!("waiting for a person to approve it{}", also_delegates(&waiting.tx)))
    }

    fn explain_ready(&self, tx: &Transaction) -> String {
        if let Some(base) = self.view.as_ref().and_then(|view| view.fees.base_fee)
            && self.is_priced_out(tx)
        {
            return format!(
                "the base fee is {}, above what it may offer; it waits until fees fall",
                base.in_gwei()
            );
        }
        if self.fills_come_first() {
            return "waiting for a nonce: those that an operator wants filled come first".to_owned();
        }
        if let Some(using_up) = self.using_up() {
            return format!("waiting for a nonce: {}", using_up.sentence());
        }
        if let Some(pair) = self.explain_pair() {
            return pair;
        }
        let out = self.slots.values().filter(|record| record.mined.is_none()).count();
        let ahead = self.waiting.values().filter(|other| other.tx.order < tx.order).count();
        let learned = match self.learned {
            Some(_) => "; nodes refused to take more of this account at once",
            None => "",
        };
        format!(
            "waiting for a nonce: {out} of {} are in flight and {ahead} wait before it{learned}",
            self.bound_ahead()
        )
    }

    fn explain_mined(&self, tx: &Transaction, record: &SlotRecord, receipt: &Receipt, now: Millis) -> String {
        let finality = tx.request.options.finality.unwrap_or(self.settings.finality);
        let landed = in_block(self.view.as_deref(), &receipt.block, finality);
        let lacks = self
            .lacks_witness(tx, receipt, now)
            .or_else(|| self.lacks_tag(receipt, finality))
            .or_else(|| self.lacks_second(record, receipt, finality));
        let lacks = lacks.or_else(|| self.explain_second(tx));
        let why = lacks.map_or(String::new(), |lacks| format!("; {lacks}"));
        if comes_again(self.bound.get(&tx.id), record, receipt) {
            format!(
                "its nonce went to a no-op in {landed}{why}; it is checked anew when the chain cannot take that back"
            )
        } else {
            format!("{landed}{why}")
        }
    }

    /// One endpoint calls the block what makes it final, and no second one does.
    fn lacks_tag(&self, receipt: &Receipt, finality: Finality) -> Option<String> {
        let view = self.live_view().filter(|view| view.witnessed.several)?;
        let (tag, number) = (finality.tag()?, receipt.block.number);
        let word = match finality {
            Finality::Safe => view.witnessed.safe,
            Finality::Finalized => view.witnessed.finalized,
            Finality::Blocks(_) => return None,
        };
        let lacks = word.by_one >= Some(number) && !view.is_final(&receipt.block, finality);
        let by_two = word.by_two.map_or("none".to_owned(), |block| format!("up to block {block}"));
        lacks.then(|| format!("one endpoint calls block {number} {tag}, and waiting for a second one to do so ({by_two} by two)"))
    }

    /// The block that would make this one final is there, but only one endpoint has shown it.
    fn lacks_witness(&self, tx: &Transaction, receipt: &Receipt, now: Millis) -> Option<String> {
        let view = self.live_view()?;
        let finality = tx.request.options.finality.unwrap_or(self.settings.finality);
        let lack = view.witnessed.lack.as_ref().filter(|_| !view.is_final(&receipt.block, finality))?;
        let number = receipt.block.number;
        let needed = match finality {
            Finality::Blocks(depth) => number.checked_add(depth),
            Finality::Safe => view.safe.filter(|safe| *safe >= number).map(|_| number),
            Finality::Finalized => view.finalized.filter(|last| *last >= number).map(|_| number),
        };
        needed.filter(|needed| *needed <= view.head.at.number).map(|needed| lack.sentence(needed, now))
    }

    fn explain_bound(&self, tx: &Transaction, slot: Slot, record: &SlotRecord, now: Millis) -> String {
        if let Some(receipt) = &record.mined {
            return self.explain_mined(tx, record, receipt, now);
        }
        if let Some(
            hold @ (Hold::StoreOlder { .. } | Hold::NoView | Hold::ChainChanged | Hold::FinalReplaced { .. }),
        ) = self.hold()
        {
            return format!("nonce {slot} is kept: {}", hold.sentence());
        }
        let Some(newest) = record.attempts.last() else {
            return match self.hold() {
                Some(hold) => format!("nonce {slot} is reserved: {}", hold.sentence()),
                None => format!("nonce {slot} is reserved and its signature is awaited"),
            };
        };
        if let Some(said) = self.explain_taken(tx, slot, record) {
            return said;
        }
        if self.chain_count().is_some_and(|count| slot < count) {
            let mut said = format!(
                "the chain has used nonce {slot}, but shows no receipt for any of our {} attempts; \
                 looked {} times, next look in {}",
                record.attempts.len(),
                record.work.looks,
                span(record.work.look_at.since(now))
            );
            let asked = tx.request.options.finality.unwrap_or(self.settings.finality);
            if let Some(why) = self.view.as_deref().and_then(|view| no_tag(view, asked)) {
                said.push_str(&format!(
                    "; who took it counts once that is {}, and {why}",
                    asked.tag().unwrap_or("final")
                ));
            }
            if record.work.proofs > 0 {
                said.push_str(&format!(
                    "; no final block could be read yet that shows who took it, tried {} times",
                    record.work.proofs
                ));
            }
            return said;
        }
        let unpaid = self.explain_funds(slot, record).unwrap_or_default();
        let landed = |lower: &Slot| self.slots.get(lower).is_some_and(|record| record.mined.is_some());
        let first = self.chain_count().unwrap_or(slot);
        if let Some(lower) = (first.0..slot.0).map(Slot).find(|lower| !landed(lower)) {
            return format!("{unpaid}nonce {slot} waits for nonce {lower}, which must land first");
        }
        let mut said = unpaid;
        said.push_str(&self.explain_fresh(record, now).unwrap_or_default());
        said.push_str(&self.explain_refused(record, tx, now).unwrap_or_default());
        if let Some(kept_back) = self.explain_kept_back(tx, slot) {
            said.push_str(&kept_back);
            return said;
        }
        said.push_str(&self.explain_unlisted(tx).unwrap_or_default());
        if tx.status.ending.is_some() {
            said.push_str("a no-op is to take its nonce; ");
        }
        if let Some(base) = self.view.as_ref().and_then(|view| view.fees.base_fee)
            && newest.fees.cap() < base
        {
            let under = crate::Price(base.0 - newest.fees.cap().0);
            said.push_str(&format!("nonce {slot} is {} under the base fee; ", under.in_gwei()));
        }
        if record.work.at_ceiling == Some(tx.version()) && self.unsigned_content(record).is_none() {
            said.push_str("its price is at the ceiling; ");
        }
        if record.work.beyond_budget {
            said.push_str("a dearer attempt would go beyond what this lane may spend today; ");
        }
        said.push_str(explain_cheap(&record.work));
        match newest.hints.last() {
            Some(report) if report.outcome.is_taken() => said.push_str("the pool has it"),
            Some(report)
                if report.outcome == SendOutcome::ReplacementUnderpriced && newest.hints.accepted =>
            {
                said.push_str("the pool has it: a node that was sent it again said that it replaces itself");
            }
            Some(report) => said.push_str(&format!(
                "the last answer was {}{}",
                report.outcome.name(),
                report.text.as_deref().map_or(String::new(), |text| format!(" ({text})"))
            )),
            None => said.push_str("it is being sent"),
        }
        said.push_str(&format!("; next send in {}", span(record.work.send_at.since(now))));
        said
    }
}

/// The delegation that a person is asked about, behind the words that one is asked. Empty if there is none.
#[must_use]
pub fn also_delegates(tx: &Transaction) -> String {
    tx.payload().delegation(tx.lane.signer).map_or(String::new(), |said| format!(": it {said}"))
}

/// Where something landed, and how far that is from final: `block 5, 1 of 20 confirmations`.
#[must_use]
pub fn in_block(view: Option<&ChainView>, block: &BlockRef, finality: Finality) -> String {
    let number = block.number;
    let Some(view) = view else {
        return format!("block {number}; no view of the chain counts yet");
    };
    if view.standing(block) == Standing::Orphaned {
        return format!("block {number}, which the chain has replaced; it is looked for again");
    }
    let on_top = view.confirmations(block);
    let word = if on_top == 1 { "confirmation" } else { "confirmations" };
    match finality {
        Finality::Blocks(wanted) => format!("block {number}, {on_top} of {wanted} confirmations"),
        Finality::Safe | Finality::Finalized => {
            let tag = finality.tag().unwrap_or_default();
            let why = no_tag(view, finality).map_or(String::new(), |why| format!(", and {why}"));
            format!("block {number}, {on_top} {word}; done when the chain calls it {tag}{why}")
        }
    }
}

/// Why a block with this tag is not to be expected.
fn no_tag(view: &ChainView, finality: Finality) -> Option<String> {
    let tag = finality.tag()?;
    match view.tags.of(finality) {
        Tag::Known => None,
        Tag::Unknown => Some(format!("no endpoint has shown a {tag} block yet")),
        Tag::Lacking => Some(format!(
            "no endpoint knows a {tag} block, so that does not come: use endpoints that know it, or, where its caller did not ask \
             for it, set the chain's finality to a number of blocks"
        )),
    }
}

pub(super) fn span(time: std::time::Duration) -> String {
    if time.as_secs() >= 1 { format!("{} s", time.as_secs()) } else { format!("{} ms", time.as_millis()) }
}
