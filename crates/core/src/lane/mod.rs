//! A lane in memory: the one place where decisions are made.
//!
//! ```text
//! events ─► apply ─► LaneCommit ─► (store) ─► committed ─► plan ─► actions
//! ```
//!
//! [`Lane::apply`] takes what happened and changes the lane; [`Lane::take_commit`] hands over what must be on disk
//! before anything else is done; [`Lane::plan`] says what to do next. All three are pure. A lane whose commit was
//! refused or whose outcome is not known is thrown away and loaded again, so memory is never ahead of the store.
//!
//! The files follow a transaction's life: [`admit`], [`check`], [`allocate`], [`sign`], [`broadcast`] within its
//! [`window`], [`probe`], [`refuse`], [`cheap`], [`reprice`], [`watch`], [`second`], [`finish`], [`keep`]; [`command`] takes what callers and operators ask
//! for on the way ([`replace`], [`hurry`], [`cancel_all`], [`fill`], [`reset`], [`settle`]), [`older`] holds what a store that went back may
//! not do, [`after`] who follows whom, [`delegate`] to whose code the account may be delegated, [`pair`] the
//! second slot of such a transaction, [`explain`] the sentences, [`counts`] the numbers for
//! gauges, [`alarm`] what must never happen. [`slots`] and [`queue`] hold what is out and what waits, and know what of it
//! a turn has to look at.
//! Recovery has no file: a freshly loaded lane goes through the same steps.

mod admit;
mod after;
mod alarm;
mod allocate;
mod broadcast;
mod budget;
mod cancel_all;
mod changes;
mod cheap;
mod check;
mod command;
mod compare;
mod counts;
mod delegate;
mod doubt;
mod explain;
mod fill;
mod finish;
mod funds;
mod hurry;
mod keep;
mod older;
mod pair;
mod planted;
mod probe;
mod prove;
mod queue;
mod refuse;
mod replace;
mod reprice;
mod reset;
mod second;
mod settle;
mod sign;
mod slots;
mod stranger;
#[cfg(test)]
mod test_world;
#[cfg(test)]
mod tests;
mod transactions;
mod watch;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::U256;

use crate::attempt::{Attempt, Draft, Sealed};
use crate::outcome::SendReport;
use crate::ports::chain::Taker;
use crate::ports::signer;
use crate::ports::store::{Command, LaneCommit, LaneRecord, LaneRow, Older};
use crate::settings::LaneSettings;
use crate::transaction::{Status, Transaction};
use crate::view::{BlockRef, ChainView, Receipt};
use crate::witness::SecondWord;
use crate::{
    CommandId, ContentVersion, Gas, LaneId, LaneVersion, Millis, Origin, QueueOrder, Slot, Token, TxHash,
    TxId,
};

pub use alarm::Alarm;
pub use changes::Broken;
pub use check::{PrepareJob, PrepareTarget, Prepared};
pub use counts::LaneCounts;
pub use explain::{Hold, also_delegates, in_block};
pub use fill::MOST_SLOTS;
pub use older::UsingUp;
pub use probe::Pooled;
pub use replace::MOST_CONTENTS;
pub use settle::taken_sentence;
pub use stranger::{Settles, SoFar, UnknownSlot, Until};

use queue::{Queue, Waiting};
use transactions::Transactions;

/// Something that happened.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "few are under way at once, and the large one is rare")]
pub enum LaneEvent {
    /// The store may have new transactions or commands for this lane.
    Work,
    /// These were just stored, by the only process that stores any, and come in the order in which they were.
    Admitted(Vec<Transaction>),
    /// An answer to [`Action::Load`].
    Loaded(Loaded),
    /// The store could not be read; ask again.
    LoadFailed,
    /// An answer to [`Action::Prepare`].
    Prepared(Vec<Prepared>),
    /// An answer to [`Action::Sign`].
    Signed(Vec<(Draft, Result<Sealed, signer::Error>)>),
    /// An answer to [`Action::Send`].
    Sent(Vec<Sent>),
    /// A new picture of the chain, with the receipts of this lane's attempts in the blocks that are new in it.
    Chain { view: Arc<ChainView>, receipts: Vec<Receipt> },
    /// An answer to [`Action::Look`]; what was not found may still exist.
    Looked { slots: Vec<Slot>, found: Vec<Receipt> },
    /// An answer to [`Action::Look`]: nobody could be asked. No look.
    LookFailed { slots: Vec<Slot> },
    /// An answer to [`Action::Second`], in the order asked.
    Second(Vec<(Slot, Receipt, SecondWord)>),
    /// An answer to [`Action::Prove`]: the final block in which the slot was used holds none of our attempts.
    Foreign { slot: Slot, block: BlockRef, taker: Option<Taker> },
    /// An answer to [`Action::Prove`]: nothing is proven yet.
    Unproven { slot: Slot },
    /// An answer to [`Action::Follow`]; those that the store does not know are left out.
    Followed { asked: Vec<TxId>, statuses: Vec<(TxId, Status)> },
    /// An answer to [`Action::Follow`]: the store could not be read.
    FollowFailed { asked: Vec<TxId> },
    /// Something was committed about transactions that others follow.
    Moved(Vec<TxId>),
    /// An answer to [`Action::Probe`].
    Pooled(Vec<Pooled>),
}

/// What the store had for the lane.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The oldest waiting transactions, at most as many as were asked for.
    pub waiting: Vec<Transaction>,
    pub asked: u32,
    /// Commands that were not applied yet.
    pub commands: Vec<Command>,
    /// The store may have more of them.
    pub more_commands: bool,
    /// The transactions that the commands are about, wherever they stand in the queue.
    pub mentioned: Vec<Transaction>,
}

/// One answer to one send.
#[derive(Debug, Clone)]
pub struct Sent {
    pub slot: Slot,
    pub hash: TxHash,
    pub report: SendReport,
}

/// Something to do. Each is answered by one event; until then the lane does not ask for it again.
#[derive(Debug, Clone)]
pub enum Action {
    /// Read the oldest waiting transactions and the open commands from the store, without commands that the lane has.
    Load { limit: u32, taken: BTreeSet<CommandId> },
    /// Find out the gas, or that it cannot work.
    Prepare(Vec<PrepareJob>),
    /// Sign; nothing of it counts until it comes back and is committed.
    Sign(Vec<Draft>),
    /// Send bytes that are stored.
    Send(Vec<Outgoing>),
    /// Ask for the receipts of every attempt of slots that the chain's count has passed.
    Look(Vec<(Slot, Vec<TxHash>)>),
    /// Ask a second endpoint for receipts that one gave.
    Second(Vec<(Slot, Receipt)>),
    /// Find the final block in which the account's count passed a slot, and what of the account's is in it.
    Prove(Proof),
    /// Read how far these transactions are, whatever their lanes.
    Follow(Vec<TxId>),
    /// Ask whether any endpoint still shows these attempts.
    Probe(Vec<(Slot, TxHash)>),
}

/// What is to be proven.
#[derive(Debug, Clone)]
pub struct Proof {
    pub slot: Slot,
    /// The newest block that counts as final.
    pub up_to: u64,
    pub ours: Vec<TxHash>,
}

/// Bytes to send.
#[derive(Debug, Clone)]
pub struct Outgoing {
    pub slot: Slot,
    pub sealed: Sealed,
    /// These very bytes went out before.
    pub again: bool,
}

/// What to do now, and when to think again if nothing happens.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub wake_at: Option<Millis>,
    pub wants: Wants,
}

/// What a lane wants to know of its account before it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wants {
    #[default]
    Nothing,
    /// The account at the newest head, before a slot is bound.
    Head,
    /// The account at a head that is asked for from now on, before something ends for good: [`Lane::asked`].
    Anew,
}

impl Plan {
    fn wake(&mut self, at: Millis) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }
}

/// A slot that is bound or has stored bytes.
#[derive(Debug, Clone, Default)]
struct SlotRecord {
    /// Absent: a no-op of nobody's.
    tx: Option<TxId>,
    /// Oldest first. Empty only between a reservation and its signature.
    attempts: Vec<Attempt>,
    /// The attempt that is in a block now.
    mined: Option<Receipt>,
    work: SlotWork,
}

/// What is going on for a slot: not stored, and gone after a crash.
#[derive(Debug, Clone, Default)]
struct SlotWork {
    /// What the first attempt is numbered, where the slot had a life before.
    first_ordinal: u32,
    /// The first attempt that was signed since the load.
    made_from: Option<u32>,
    /// Found out before the slot was taken; asked for again after a crash.
    gas: Option<Gas>,
    estimating: bool,
    /// The serial of the draft that is being signed.
    signing: Option<u64>,
    /// The most that it can cost; of a reserved slot also before it is asked for.
    expected: Option<Box<Expected>>,
    /// Not before this time.
    sign_at: Millis,
    sign_tries: u32,
    sending: bool,
    send_at: Millis,
    unclear_sends: u32,
    /// When the newest attempt is looked up in the pool, if it is.
    probe_at: Option<Millis>,
    probing: bool,
    probes: u32,
    /// Nodes refuse the content for good, and one of them may have it.
    refused: Option<refuse::Refused>,
    /// Receipts are being asked for; the head that was known then.
    looking: Option<BlockRef>,
    look_at: Millis,
    looks: u32,
    /// The receipt is one that the store had. Whoever gave it may have been taken out since for giving it: it ends nothing before it was
    /// looked up again.
    stored: bool,
    /// A second endpoint's word on the receipt.
    second: Option<Box<second::Second>>,
    proving: bool,
    prove_at: Millis,
    proofs: u32,
    /// What nodes say of the newest attempt's price.
    cheap: cheap::Cheap,
    /// How often it was too low: the first time it is re-priced at once, then less and less often.
    cheap_refusals: u32,
    /// A dearer attempt is not made, since today's budget is spent.
    beyond_budget: bool,
    /// The cost at worst of a dearer attempt that is not made, since the account cannot pay it.
    bump_needs: Option<Box<U256>>,
    /// The content for which the ladder's end was reported.
    at_ceiling: Option<ContentVersion>,
    /// What is known of the gas of the next attempt, where it moves.
    next_gas: NextGas,
    /// How far the checks of a new content are, where an older one has stored bytes.
    fresh: Prep,
    /// What it costs at worst, as it was last counted.
    counted: U256,
}

/// An attempt that is not signed yet, at worst: its fee, and all that it costs.
#[derive(Debug, Clone, Copy)]
struct Expected {
    fee: U256,
    cost: U256,
}

/// The gas of the attempt after so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum NextGas {
    #[default]
    Unknown,
    Asked {
        after: usize,
        version: ContentVersion,
    },
    Known {
        after: usize,
        gas: Gas,
    },
}

/// How far a preparation is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Prep {
    #[default]
    New,
    Running {
        tries: u32,
    },
    /// To be tried again; others may go first.
    Retry {
        tries: u32,
        at: Millis,
        why: String,
    },
    Ready {
        gas: Gas,
    },
    Signing {
        slot: Slot,
        serial: u64,
    },
}

/// A slot that is being signed for the first time. Nothing is stored of it yet.
#[derive(Debug, Clone)]
struct Tentative {
    serial: u64,
    tx: Option<TxId>,
    /// It may use up the slot after its own as well.
    two: bool,
    signed: Option<(Draft, Sealed)>,
    /// The most that it can cost, and the fee of it.
    cost: U256,
    fee: U256,
}

/// One account on one chain, owned under a token.
#[derive(Debug)]
pub struct Lane {
    id: LaneId,
    token: Token,
    version: LaneVersion,
    settings: Arc<LaneSettings>,
    row: LaneRow,
    slots: slots::Slots,
    /// Transactions bound to a slot.
    bound: Transactions,
    waiting: Queue,
    tentative: BTreeMap<Slot, Tentative>,
    by_hash: BTreeMap<TxHash, Slot>,
    /// Attempts whose slots were closed since the engine last asked.
    closed_hashes: Vec<TxHash>,
    /// Slots that have ended and that the chain may still take back.
    kept: keep::Kept,
    /// The highest slot that has stored bytes, also if they are history: no slot up to it is new.
    highest_signed: Option<Slot>,
    /// Transactions that have ended and whose slots the chain took back: their bytes are sent again.
    reopened: Transactions,
    /// Contents that landed in slots of nobody's before their transactions were read from the store.
    unclaimed: BTreeMap<TxId, Slot>,
    /// So many receipts of the store were not looked up again, at most.
    stored_receipts: u64,
    view: Option<Arc<ChainView>>,
    /// When the view's head came, by the time that this lane is told.
    head_since: Option<Millis>,
    /// The chain's count of this account, as seen since the load: what was stored may be of long ago.
    seen_count: Option<Slot>,
    /// The count that was stored at the load. A word that came before the load is about nothing that was used since.
    stored_count: Option<Slot>,
    /// The count and the balance are those at the head of the view.
    sees_head: bool,
    doubts: doubt::Doubts,
    strangers: stranger::Strangers,
    /// When a slot of ours last moved on chain.
    moved_at: Millis,
    no_op_gas: Option<Gas>,
    estimating_no_op: bool,
    /// No slot is filled before this time: the signer had trouble.
    fill_at: Millis,
    fill_tries: u32,
    next_serial: u64,
    learned: Option<window::Learned>,
    /// What others in this lane are to follow.
    followed: BTreeMap<TxId, after::Followed>,
    /// Ranges that an operator wants filled.
    fills: BTreeMap<CommandId, (Slot, Slot)>,
    reset: reset::Asked,
    /// What people said of slots that something alike took.
    settles: BTreeMap<CommandId, settle::Word>,
    /// The store is an older copy of itself, and nobody has accepted it yet.
    older: Option<Older>,
    /// Acceptances that were read and wait for the chain to be seen.
    accepted: BTreeSet<CommandId>,
    /// The count that the chain had then.
    accepted_from: Option<Slot>,
    accepted_at: Option<older::Word>,
    /// When the last turn was.
    turned_at: Millis,
    /// Commands that were read and left where they are until the store is accepted.
    left_open: BTreeSet<CommandId>,
    /// Who asked for the commands that are being done.
    asked_by: BTreeMap<CommandId, Arc<Origin>>,
    /// Transactions that these would end; none: all of them.
    spoken_of: BTreeSet<Option<TxId>>,
    /// The number of returned slots that last led to a reset.
    reset_at: Option<usize>,
    /// More of the queue is to be read and cancelled.
    cancelling_all: bool,
    load: LoadState,
    changes: changes::Changes,
    /// That the account has too little was written down.
    funds_low: bool,
    /// What was left of its balance when that was last judged.
    funds_judged: Option<U256>,
    hold_noted: Option<std::mem::Discriminant<Hold>>,
    alarms: alarm::Alarms,
}

/// What is left to be spent, beside what is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Means {
    funds: Option<U256>,
    /// Of today's budget.
    budget: Option<U256>,
}

/// Whether the store is being asked for more.
#[derive(Debug, Default)]
struct LoadState {
    running: bool,
    /// The store may have new transactions or commands.
    news: bool,
    /// The store has more waiting transactions than it was asked for.
    more: bool,
    /// Not before this time.
    not_before: Millis,
    /// Transactions that stopped waiting while a load was running: its answer may still show them.
    left: BTreeSet<TxId>,
    /// Commands that were finished while a load was running: the same.
    done: BTreeSet<CommandId>,
    /// Every command was read that the store had at the load, or when it was accepted.
    heard_all: bool,
    /// The store was accepted while they were read: they are read once more.
    reads_again: bool,
    /// The load that is running began after the store was accepted.
    began_accepted: bool,
    /// Such a load has shown the whole queue: everything that waited when the store was accepted is here.
    read_accepted: bool,
    /// A load that is running leaves commands out that are to be read by now: what it shows of later ones comes too early.
    skips_commands: bool,
    /// The newest that a load has shown as waiting. What is handed over and not newer was shown, or waits no more.
    shown: Option<QueueOrder>,
    /// So much could be spent when enough in memory could have a slot. None: they have to be counted.
    enough_with: Option<Means>,
    /// Those that came while a load was running: whether others wait before them is known when it answers.
    came: Vec<Transaction>,
}

impl Lane {
    /// A lane as its owner found it in the store.
    #[must_use]
    pub fn load(record: LaneRecord, settings: Arc<LaneSettings>, now: Millis) -> Self {
        let mut lane = Self {
            id: record.lane,
            token: record.token,
            version: record.version,
            settings,
            stored_count: record.row.chain_count,
            row: record.row,
            slots: slots::Slots::default(),
            bound: Transactions::default(),
            waiting: Queue::default(),
            tentative: BTreeMap::new(),
            by_hash: BTreeMap::new(),
            closed_hashes: Vec::new(),
            kept: keep::Kept::default(),
            highest_signed: record.highest_signed,
            reopened: Transactions::default(),
            unclaimed: BTreeMap::new(),
            stored_receipts: 0,
            view: None,
            head_since: None,
            seen_count: None,
            sees_head: false,
            doubts: doubt::Doubts::default(),
            strangers: stranger::Strangers::default(),
            moved_at: now,
            no_op_gas: None,
            estimating_no_op: false,
            fill_at: Millis(0),
            fill_tries: 0,
            next_serial: 0,
            learned: None,
            followed: BTreeMap::new(),
            fills: BTreeMap::new(),
            reset: reset::Asked::default(),
            settles: BTreeMap::new(),
            older: record.older,
            accepted: BTreeSet::new(),
            accepted_from: None,
            accepted_at: None,
            turned_at: Millis(0),
            left_open: BTreeSet::new(),
            asked_by: BTreeMap::new(),
            spoken_of: BTreeSet::new(),
            reset_at: None,
            cancelling_all: false,
            load: LoadState { news: true, ..LoadState::default() },
            changes: changes::Changes::default(),
            funds_low: false,
            funds_judged: None,
            hold_noted: None,
            alarms: alarm::Alarms::default(),
        };
        lane.keep_above_signed();
        for tx in record.bound {
            let Some(slot) = tx.status.slot else { continue };
            if tx.takes_two_slots() {
                lane.slots.mark_double(slot);
            }
            let slot_record = lane.slots.entry(slot);
            slot_record.tx = Some(tx.id);
            slot_record.mined.clone_from(&tx.status.receipt);
            slot_record.work.stored = tx.status.receipt.is_some();
            lane.stored_receipts += u64::from(slot_record.work.stored);
            lane.bound.insert(tx);
        }
        lane.load_ended(record.ended);
        for mut attempt in record.attempts {
            let signed_at = attempt.created_at;
            // Whoever signed it may have had a clock that was ahead: nothing waits until that time comes.
            attempt.created_at = signed_at.min(now);
            lane.by_hash.insert(attempt.hash, attempt.slot);
            match lane.kept.get_mut(attempt.slot) {
                Some(kept) => kept.attempts.push(attempt),
                None => {
                    let waits = lane.planted_stored_time();
                    let work = &mut lane.slots.entry(attempt.slot).work;
                    work.send_at = if waits { signed_at } else { work.send_at };
                    lane.slots.add_attempt(attempt.slot, attempt);
                }
            }
        }
        lane
    }

    #[must_use]
    pub fn id(&self) -> LaneId {
        self.id
    }

    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    #[must_use]
    pub fn version(&self) -> LaneVersion {
        self.version
    }

    /// Hashes of every attempt whose fate is open: what the watcher looks for in blocks.
    pub fn open_hashes(&self) -> impl Iterator<Item = TxHash> + '_ {
        self.by_hash.keys().copied()
    }

    /// Hashes that need no watching any more.
    pub fn take_closed_hashes(&mut self) -> Vec<TxHash> {
        std::mem::take(&mut self.closed_hashes)
    }

    /// Nothing to do and nothing under way: the lease may be given back. One that gives out no slots yet, since the chain may show more of what
    /// was forgotten, keeps watching: to begin again with every request would never come to an end.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.slots.is_empty()
            && self.kept.is_empty()
            && self.waiting.is_empty()
            && self.tentative.is_empty()
            && self.row.returned.is_empty()
            && self.fills.is_empty()
            && self.reset.is_none()
            && self.settles.is_empty()
            && self.accepted.is_empty()
            && !self.strangers.is_resuming()
            && !self.may_show_more()
            && !self.load.running
            && !self.load.news
            && !self.load.more
            && self.changes.is_empty()
    }

    /// Takes what happened. Nothing outside may be done about it before the commit it leads to.
    pub fn apply(&mut self, events: Vec<LaneEvent>, now: Millis) {
        self.begin_turn(now);
        for event in events {
            self.look_for(&event);
            match event {
                LaneEvent::Work => self.load.news = true,
                LaneEvent::Admitted(txs) => self.take_admitted(txs, now),
                LaneEvent::Loaded(loaded) => self.take_loaded(loaded, now),
                LaneEvent::LoadFailed => self.load_failed(now),
                LaneEvent::Prepared(results) => self.take_prepared(results, now),
                LaneEvent::Signed(results) => self.take_signed(results, now),
                LaneEvent::Sent(answers) => self.take_answers(answers, now),
                LaneEvent::Chain { view, receipts } => {
                    self.take_view(view, receipts, now);
                    self.reset_if_asked(now);
                }
                LaneEvent::Looked { slots, found } => self.take_look(&slots, found, now),
                LaneEvent::LookFailed { slots } => self.look_failed(&slots, now),
                LaneEvent::Second(words) => self.take_second(words, now),
                LaneEvent::Foreign { slot, block, taker } => {
                    self.take_foreign(slot, block, taker.as_ref(), now);
                }
                LaneEvent::Unproven { slot } => self.take_unproven(slot, now),
                LaneEvent::Followed { asked, statuses } => self.take_followed(&statuses, &asked, now),
                LaneEvent::FollowFailed { asked } => self.follow_failed(&asked, now),
                LaneEvent::Moved(ids) => self.take_moved(&ids),
                LaneEvent::Pooled(answers) => self.take_pooled(answers, now),
            }
        }
        self.take_acceptance(now);
        if self.is_older() {
            self.settle(now);
        } else {
            self.decide(now);
        }
        self.note_hold(now);
        self.note_funds(now);
        self.waiting.judged();
    }

    /// What follows from everything that happened.
    fn decide(&mut self, now: Millis) {
        self.bind_signed(now);
        self.judge_followers(now);
        self.expire(now);
        self.fail_hopeless(now);
        self.settle(now);
        self.finish_settles(now);
        self.finish_resumes(now);
        self.adopt_strangers(now);
        // What took other slots is known by now, and a first slot may have waited for that.
        self.end_unlisted(now);
        if !self.mined_firsts().is_empty() {
            self.settle(now);
        }
        self.finish_fills(now);
        // After what has ended, whose budget others may have.
        if self.settings.reserve_before_signing {
            self.give_back_dear(now);
            self.reserve(now);
        }
        self.want_reset();
    }

    /// What the time alone changes.
    fn begin_turn(&mut self, now: Millis) {
        self.grow_window(now);
        self.slots.look_at_due(now);
        // Slots rest until a time that was reckoned by a later clock.
        if std::mem::replace(&mut self.turned_at, now) > now {
            self.slots.look_at_all();
        }
        // Where one slot's turn comes when the one before it is taken, and where the simulator looks for bugs that it planted
        // itself, nothing rests.
        if self.in_order_only() || self.settings.planted.is_some() {
            self.slots.look_at_all();
        }
    }

    /// Events that say something of one slot touch it; the rest may concern any. A view is judged when it is taken.
    fn look_for(&mut self, event: &LaneEvent) {
        let concerns_any = match event {
            LaneEvent::Loaded(loaded) => !loaded.commands.is_empty(),
            LaneEvent::Prepared(results) => {
                results.iter().any(|prepared| prepared.target == PrepareTarget::NoOp)
            }
            LaneEvent::LookFailed { .. }
            | LaneEvent::Foreign { .. }
            | LaneEvent::Unproven { .. }
            | LaneEvent::Followed { .. }
            | LaneEvent::FollowFailed { .. }
            | LaneEvent::Moved(_) => true,
            LaneEvent::Work
            | LaneEvent::Admitted(_)
            | LaneEvent::LoadFailed
            | LaneEvent::Signed(_)
            | LaneEvent::Sent(_)
            | LaneEvent::Chain { .. }
            | LaneEvent::Looked { .. }
            | LaneEvent::Second(_)
            | LaneEvent::Pooled(_) => false,
        };
        if concerns_any {
            self.slots.look_at_all();
        }
    }

    /// What must be committed before anything else is done. Hints alone wait for up to a second.
    pub fn take_commit(&mut self, now: Millis) -> Option<LaneCommit> {
        self.changes.take(now).map(|changes| changes.into_commit(self))
    }

    /// The commit is on disk.
    pub fn committed(&mut self, version: LaneVersion) {
        self.version = version;
    }

    /// What to do next. Everything it asks for is marked as under way.
    pub fn plan(&mut self, now: Millis) -> Plan {
        let mut plan = Plan::default();
        self.begin_turn(now);
        self.wake_for_window(&mut plan);
        self.wake_for_acceptance(&mut plan, now);
        if !self.is_older() {
            self.plan_prepare(&mut plan, now);
            self.plan_sign(&mut plan, now);
        }
        self.plan_load(&mut plan, now);
        self.plan_send(&mut plan, now);
        self.plan_probe(&mut plan, now);
        self.plan_look(&mut plan, now);
        self.plan_second(&mut plan, now);
        if !self.is_older() {
            self.plan_prove(&mut plan, now);
        }
        self.plan_strangers(&mut plan, now);
        self.plan_follow(&mut plan, now);
        self.rest(&mut plan);
        plan.wants = self.wants();
        if let Some(at) = self.changes.due() {
            plan.wake(at);
        }
        plan
    }

    /// A command is done; a load that is under way may still show it.
    fn finish_command(&mut self, id: CommandId) {
        if self.load.running {
            self.load.done.insert(id);
        }
        self.changes.command_done(id);
        self.asked_by.remove(&id);
        self.changes.by = None;
    }

    /// Has something to give a slot to, as far as a person, the chain or the account do not keep it from that.
    #[must_use]
    pub fn gives(&self) -> bool {
        let has = !self.waiting.is_empty()
            || self.load.more
            || !self.row.returned.is_empty()
            || !self.fills.is_empty()
            || !self.slots.bare().is_empty()
            || self.seconds_to_come();
        has && matches!(self.held(), None | Some(Hold::Paused))
    }

    fn wants(&self) -> Wants {
        if self.doubts.has_new() {
            Wants::Anew
        } else if !self.sees_head && (self.gives() || self.is_older() || self.strangers.is_resuming()) {
            Wants::Head
        } else {
            Wants::Nothing
        }
    }

    /// A slot may be bound: by a count of the head, and by nothing older.
    fn may_bind(&self) -> bool {
        self.sees_head || self.planted_old_count()
    }

    fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    /// The chain's count of this account; none until it was seen since the load.
    fn chain_count(&self) -> Option<Slot> {
        self.seen_count
    }
}

/// 100, 200, 400 ms … up to a limit (E14).
fn back_off(tries: u32, first: u64, most: u64) -> std::time::Duration {
    let doubled = first.saturating_mul(1_u64.checked_shl(tries.min(16)).unwrap_or(u64::MAX));
    std::time::Duration::from_millis(doubled.min(most))
}
