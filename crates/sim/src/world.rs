//! What everything in a run shares: chance, the trace, the chains, the gates of the nodes, and what went wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Arguments;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use landfall_core::ports::clock::{Clock, Random};
use landfall_core::{ChainId, LaneId, Millis, SessionId, Slot, TxHash, TxId};
use landfall_engine::Submission;
use std::sync::Arc;
use tokio::time::Instant;

use crate::chain::model::ChainModel;
use crate::chain::wire::{Content, Wire};
use crate::planted::Planted;
use crate::rng::Rng;
use crate::scenario::{Fault, Scenario};
use crate::trace::Trace;

/// When simulated time begins.
const EPOCH_MS: u64 = 1_800_000_000_000;
const DAY_MS: u64 = 86_400_000;

/// A rule that was broken.
#[derive(Debug, Clone)]
pub struct Violation {
    pub rule: Rule,
    pub text: String,
}

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// No transaction wins twice.
    LandsOnce,
    /// No slot has two of our winners.
    OneWinnerPerSlot,
    /// What reaches a pool was stored before.
    StoredBeforeSent,
    /// Every write carried the current token.
    Fenced,
    /// No lane is taken from an owner whose session lasts, and no such session is ended.
    LiveOwnerKeeps,
    /// Once the faults have stopped, what a dead process held is soon free.
    DeadOwnerGoes,
    /// A final state never changes.
    FinalStays,
    /// A final state says what the chain shows.
    FinalIsTrue,
    /// The journal alone reproduces the state.
    JournalExplains,
    /// Nothing grows without bound.
    Bounded,
    /// No attempt offers more than its ceiling.
    WithinCeiling,
    /// One key is one transaction, for ever.
    OneKeyOneTransaction,
    /// One call, by its caller's nonce, is one transaction and one hash, for as long as the transaction is known.
    OneCallOneTransaction,
    /// What was accepted is not lost.
    AcceptedIsKept,
    /// Every accepted transaction ends.
    Ends,
    /// Every slot that was handed out is used.
    NoGaps,
    /// A lane that cannot know what the chain has holds, and says so.
    HoldsWhenUnsure,
    /// Every attempt of a slot beats the ones before it by the pool's rule.
    BeatsTheFormer,
    /// Nothing that was there when everything was cancelled is signed afterwards.
    CancelAllEndsAll,
    /// What follows another transaction is signed after that one has succeeded.
    FollowsInOrder,
    /// While the chain stands still nothing is re-priced, confirmed or expired.
    QuietWhileHalted,
    /// What a lane commits is written once, also if its answer was lost.
    CommittedOnce,
    /// Nothing is sent by a node whose session has ended.
    ActsWhileItMay,
    /// Whoever reads the journal as it grows has read all of it.
    ReadersMissNothing,
    /// What needs a person's yes reaches no pool before.
    ApprovedFirst,
    /// The fees of a lane stay within what it may spend in a day.
    WithinBudget,
    /// A deadline has passed by the chain's clock before anything expires.
    ExpiresByBlockTime,
    /// A slot that a caller was told is stored.
    SlotAsTold,
    /// What a node has taken is not given up because a node refuses it.
    TakenIsCarried,
    /// Of several that do the same, a lane calls none landed that has not.
    TellsApart,
    /// In a quiet world: no slot is handed out, and nothing made dearer, for an account that is seen to be empty.
    PaidFor,
    /// Where nothing hides the chain: nothing fails, and no slot is bound, by facts that have long changed.
    JudgedByNow,
    /// In a quiet world: only the lowest open slot is made dearer, unless a caller asks for it.
    OnlyTheLowest,
    /// In a quiet world: what the pools have lost is soon in one again.
    BackInThePool,
    /// Nothing is final in a block that one endpoint alone has shown.
    NotByOne,
}

impl Rule {
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::LandsOnce => "no transaction wins twice",
            Self::OneWinnerPerSlot => "no slot has two of our winners",
            Self::StoredBeforeSent => "what reaches a pool was stored before",
            Self::Fenced => "every write carries the current token",
            Self::LiveOwnerKeeps => "no lane is taken from a live owner",
            Self::DeadOwnerGoes => "what a dead process held is soon free",
            Self::FinalStays => "a final state never changes",
            Self::FinalIsTrue => "a final state says what the chain shows",
            Self::JournalExplains => "the journal alone reproduces the state",
            Self::Bounded => "nothing grows without bound",
            Self::WithinCeiling => "no attempt offers more than its ceiling",
            Self::OneKeyOneTransaction => "one key is one transaction",
            Self::OneCallOneTransaction => "one call is one transaction and one hash",
            Self::AcceptedIsKept => "what was accepted is kept",
            Self::Ends => "every accepted transaction ends",
            Self::NoGaps => "every slot that was handed out is used",
            Self::HoldsWhenUnsure => "a lane that cannot know what the chain has holds",
            Self::BeatsTheFormer => "every attempt beats the ones before it",
            Self::CancelAllEndsAll => "a cancel of everything leaves nothing",
            Self::FollowsInOrder => "what follows another comes after it",
            Self::QuietWhileHalted => "a chain that stands still re-prices, confirms and expires nothing",
            Self::CommittedOnce => "what is committed is committed once",
            Self::ActsWhileItMay => "a node whose session has ended sends nothing",
            Self::ReadersMissNothing => "whoever reads the journal as it grows misses nothing",
            Self::ApprovedFirst => "what needs a yes is not sent before",
            Self::WithinBudget => "a lane spends no more than its budget",
            Self::ExpiresByBlockTime => "nothing expires before the chain's clock says so",
            Self::SlotAsTold => "a slot that a caller was told is the one it has",
            Self::TakenIsCarried => "what a node has taken is not given up for a node's no",
            Self::TellsApart => "of several alike none is called landed that has not",
            Self::PaidFor => "an empty account gets no slots and no dearer attempts",
            Self::JudgedByNow => "nothing is decided by facts that have long changed",
            Self::OnlyTheLowest => "only the lowest open slot is made dearer",
            Self::BackInThePool => "what the pools have lost is soon in one again",
            Self::NotByOne => "nothing is final by the word of one endpoint",
        }
    }
}

/// What stands between a node and the world.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gate {
    pub(crate) paused_until: u64,
    pub(crate) store_cut_until: u64,
    pub(crate) rpc_cut_until: u64,
    pub(crate) renewals_lost_until: u64,
    pub(crate) skew_ms: i64,
}

/// What a caller asked for and was told.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) key: String,
    pub(crate) submission: Submission,
    pub(crate) tx: Option<TxId>,
    /// It asked for it to be cancelled, or gave it a deadline.
    pub(crate) may_end_otherwise: bool,
    pub(crate) max_fee: Option<u128>,
    /// The slot it was told when it handed its transaction over.
    pub(crate) slot: Option<Slot>,
    /// The hash that its call was answered with.
    pub(crate) hash: Option<TxHash>,
    /// Every transaction that its call ever stood for, if its caller gave a nonce.
    pub(crate) stood_for: BTreeSet<TxId>,
}

pub(crate) struct Inner {
    pub(crate) rng: Rng,
    pub(crate) trace: Trace,
    pub(crate) chains: BTreeMap<ChainId, ChainModel>,
    pub(crate) gates: Vec<Gate>,
    pub(crate) struck: BTreeMap<Fault, u64>,
    pub(crate) violations: Vec<Violation>,
    pub(crate) faults_on: bool,
    /// When each session ends, by the true clock.
    pub(crate) sessions: BTreeMap<SessionId, u64>,
    /// Hashes of attempts that were committed.
    pub(crate) stored: BTreeSet<TxHash>,
    /// Bytes that some pool has been handed, by anybody here.
    pub(crate) sent: BTreeMap<TxHash, Wire>,
    /// Hashes that some pool has been handed.
    pub(crate) met: BTreeSet<TxHash>,
    /// Transactions that a caller did again: what landed may be the later one's.
    pub(crate) retried: BTreeSet<TxId>,
    /// When chains stood still, by the true clock.
    pub(crate) halts: Vec<(ChainId, Millis, Millis)>,
    /// By the marker that each carries in its data.
    pub(crate) asked: BTreeMap<u64, Asked>,
    /// What callers were told is theirs, in that order.
    pub(crate) told: Vec<TxId>,
    /// Lanes in which everything was cancelled at some time.
    pub(crate) cancelled_lanes: BTreeSet<LaneId>,
    /// Lanes that were asked for many fills at once.
    pub(crate) flooded_lanes: BTreeSet<LaneId>,
    /// Contents to which a person said yes.
    pub(crate) approved: BTreeSet<Content>,
    /// Transactions that were held and that somebody let go on.
    pub(crate) let_go: BTreeSet<Content>,
    /// Contents that were refused for good, by all who were asked.
    pub(crate) refused: BTreeSet<Content>,
    /// When accounts were empty, by the true clock.
    pub(crate) empties: Vec<(LaneId, Millis, Millis)>,
    /// When the chains were replaced by new ones.
    pub(crate) started_over_at: Option<u64>,
    /// How many may be out at once, where that was changed.
    pub(crate) window: Option<u64>,
    /// How many days have begun, by block time.
    pub(crate) days: u64,
    /// How far the database's clock is off.
    pub(crate) database_skew_ms: i64,
    /// When the faults stopped.
    pub(crate) healed_at: Option<u64>,
}

pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) planted: Option<Planted>,
    begun: Instant,
    inner: Mutex<Inner>,
}

impl World {
    #[must_use]
    pub(crate) fn new(scenario: Scenario, planted: Option<Planted>, readable: bool) -> Arc<Self> {
        let inner = Inner {
            rng: Rng::new(scenario.seed.wrapping_mul(31).wrapping_add(7)),
            trace: Trace::new(readable),
            chains: BTreeMap::new(),
            gates: vec![Gate::default(); scenario.nodes],
            struck: BTreeMap::new(),
            violations: Vec::new(),
            faults_on: true,
            sessions: BTreeMap::new(),
            stored: BTreeSet::new(),
            sent: BTreeMap::new(),
            met: BTreeSet::new(),
            retried: BTreeSet::new(),
            halts: Vec::new(),
            asked: BTreeMap::new(),
            told: Vec::new(),
            cancelled_lanes: BTreeSet::new(),
            flooded_lanes: BTreeSet::new(),
            approved: BTreeSet::new(),
            let_go: BTreeSet::new(),
            refused: BTreeSet::new(),
            empties: Vec::new(),
            started_over_at: None,
            window: None,
            days: 1,
            database_skew_ms: 0,
            healed_at: None,
        };
        Arc::new(Self { scenario, planted, begun: Instant::now(), inner: Mutex::new(inner) })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[must_use]
    pub(crate) fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    /// Simulated milliseconds since the start.
    #[must_use]
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The true time of day.
    #[must_use]
    pub(crate) fn true_time(&self) -> Millis {
        Millis(EPOCH_MS + self.now())
    }

    /// The time of day by the database's clock.
    #[must_use]
    pub(crate) fn database_time(&self) -> Millis {
        let skew = self.lock().database_skew_ms;
        Millis(self.true_time().0.saturating_add_signed(skew))
    }

    /// What the next block is stamped with: days pass quickly there once the faults have stopped.
    #[must_use]
    pub(crate) fn block_time(&self) -> u64 {
        let leapt = (self.lock().days - 1) * DAY_MS;
        self.true_time().0 + leapt
    }

    pub(crate) fn trace(&self, what: Arguments<'_>) {
        let now = self.now();
        self.lock().trace.add(now, what);
    }

    pub(crate) fn violated(&self, rule: Rule, text: String) {
        self.trace(format_args!("VIOLATION {}: {text}", rule.sentence()));
        let mut inner = self.lock();
        if inner.violations.len() < 20 {
            inner.violations.push(Violation { rule, text });
        }
    }

    /// Does this fault strike now? By call, as often as the seed says.
    pub(crate) fn strikes(&self, fault: Fault) -> bool {
        let rate = self.scenario.rate(fault);
        if rate == 0 {
            return false;
        }
        let mut inner = self.lock();
        if !inner.faults_on || !inner.rng.chance(rate) {
            return false;
        }
        *inner.struck.entry(fault).or_default() += 1;
        drop(inner);
        self.trace(format_args!("fault {}", fault.word()));
        true
    }

    /// Counts a fault that strikes by time.
    pub(crate) fn struck(&self, fault: Fault, what: Arguments<'_>) {
        *self.lock().struck.entry(fault).or_default() += 1;
        self.trace(format_args!("fault {}: {what}", fault.word()));
    }

    pub(crate) fn range(&self, low: u64, high: u64) -> u64 {
        self.lock().rng.range(low, high)
    }

    pub(crate) fn chance(&self, permille: u64) -> bool {
        self.lock().rng.chance(permille)
    }

    /// Some time on the way, and the whole of a pause.
    pub(crate) async fn pass(&self, node: usize) {
        let latency = self.range(0, 25);
        tokio::time::sleep(Duration::from_millis(latency)).await;
        loop {
            let until = self.gate(node).paused_until;
            let now = self.now();
            if until <= now {
                return;
            }
            tokio::time::sleep(Duration::from_millis(until - now)).await;
        }
    }

    /// A chain stands still.
    pub(crate) fn halted(&self, chain: ChainId, from: u64, until: u64) {
        self.lock().halts.push((chain, Millis(EPOCH_MS + from), Millis(EPOCH_MS + until)));
    }

    /// A session was begun, prolonged or ended.
    pub(crate) fn session_lasts(&self, session: SessionId, lasting: Duration, done: bool) {
        if done {
            let until = self.now() + u64::try_from(lasting.as_millis()).unwrap_or(u64::MAX);
            self.lock().sessions.insert(session, until);
        }
    }

    #[must_use]
    pub(crate) fn session_ends(&self, session: SessionId) -> Option<u64> {
        self.lock().sessions.get(&session).copied()
    }

    #[must_use]
    pub(crate) fn gate(&self, node: usize) -> Gate {
        self.lock().gates.get(node).copied().unwrap_or_default()
    }
}

/// The database's clock, which may be off.
pub(crate) struct DatabaseClock(pub(crate) Arc<World>);

impl Clock for DatabaseClock {
    fn now(&self) -> Millis {
        self.0.database_time()
    }
}

impl Inner {
    /// A person says yes, to what `asks` for it or to what is only held. Whoever lets the same go on twice may find that the second word is read
    /// after it has asked.
    pub(crate) fn says_yes(&mut self, content: Content, asks: bool) {
        if !self.let_go.insert(content) || asks {
            self.approved.insert(content);
        }
    }
}

/// A node's clock, which may be off. Where days pass quickly they pass on it as well: a chain that is far ahead of it, and ever further, shows
/// no present.
pub(crate) struct NodeClock {
    pub(crate) world: Arc<World>,
    pub(crate) node: usize,
}

impl Clock for NodeClock {
    fn now(&self) -> Millis {
        let skew = self.world.gate(self.node).skew_ms;
        Millis(self.world.block_time().saturating_add_signed(skew))
    }
}

/// Chance for ids, from the seed.
pub(crate) struct SeededRandom(pub(crate) Arc<World>);

impl Random for SeededRandom {
    fn bits(&self) -> u128 {
        let mut inner = self.0.lock();
        (u128::from(inner.rng.next()) << 64) | u128::from(inner.rng.next())
    }
}
