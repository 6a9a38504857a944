//! Bugs of the kind real senders had, planted on purpose: a simulator that does not find them finds nothing.
//!
//! Those that live in an adapter are planted in the simulator's own adapters. Those that live in a lane's decisions
//! are switched on by `LaneSettings::planted`, which nothing but the simulator sets.

use std::time::Duration;

use landfall_core::settings::PlantedInLane;
use landfall_engine::PlantedInEngine;

use crate::scenario::{Fault, Scenario};
use crate::world::Rule;

macro_rules! planted {
    ($($(#[$doc:meta])* $name:ident = $word:literal, found by [$($rule:ident),*];)*) => {
        /// A bug that can be planted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Planted { $($(#[$doc])* $name),* }

        impl Planted {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// The rules by which it is to be found.
            #[must_use]
            pub fn found_by(self) -> &'static [Rule] {
                match self { $(Self::$name => &[$(Rule::$rule),*]),* }
            }
        }
    };
}

planted! {
    /// The store takes a lane's write whatever token it carries.
    FenceSkipped = "fence check skipped", found by [Fenced];
    /// The token is compared, and the commit done a moment later.
    FenceBeforeCommit = "token compared before the commit", found by [Fenced, CommittedOnce];
    /// A write is taken also if its lane's session has ended.
    SessionUnchecked = "write after the session's end", found by [Fenced];
    /// Taking a lane over does not raise its token.
    TokenKept = "takeover that keeps the token", found by [Fenced];
    /// A commit whose answer was lost is made again, on what is there now.
    LostCommitRepeated = "lost commit taken for failed", found by [CommittedOnce];
    /// A commit whose answer was lost is taken to be done.
    LostCommitAssumedDone = "lost commit taken for done", found by [StoredBeforeSent];
    /// A lane is loaded again while its last commit, whose answer was lost, may still be running.
    ReloadedUnderOldToken = "reload beside a running commit", found by [JournalExplains, Ends, LandsOnce, FinalIsTrue];
    /// A session lasts from when its renewal was answered.
    RenewedFromAnswer = "renewal counted from its answer", found by [ActsWhileItMay];
    /// Two processes with the same node name are one session.
    NameIsSession = "node name taken for the session", found by [LiveOwnerKeeps];
    /// Journal numbers are given before the entries become visible.
    JournalBySequence = "journal numbers out of order", found by [ReadersMissNothing];
    /// A commit is acknowledged before it is done.
    StoredAfterSent = "bytes stored after sending", found by [StoredBeforeSent];
    /// The key is looked up, and the row inserted a moment later.
    IdempotencyOutside = "idempotency checked outside the transaction", found by [OneKeyOneTransaction, LandsOnce];
    /// A lease ends when the asking node's clock says so.
    LeaseByLocalClock = "lease judged by the local clock", found by [LiveOwnerKeeps];
    /// A lease ends when the database's clock says so.
    LeaseByDatabaseClock = "lease judged by the database's clock", found by [LiveOwnerKeeps];
    /// A dead session is waited for until the database's clock says that it is over.
    DeadByDatabaseClock = "dead session waited for by the database's clock", found by [DeadOwnerGoes, Ends];
    /// A node that has the bytes already is taken to refuse them.
    AlreadyKnownIsFailure = "already known read as failure", found by [FinalIsTrue];
    /// Only the newest attempt's receipt is asked for, in blocks too.
    NewestHashOnly = "only the newest hash looked up", found by [Ends];
    /// The next slot is the node's pending count.
    PendingCount = "cursor from the pending count", found by [NoGaps, Ends, LandsOnce, FinalIsTrue];
    /// New work is not told to its lane, and the store is not scanned for it.
    LostWakeUp = "lost wake-up", found by [Ends];
    /// A send that was not answered gives its slot back.
    RecycleOnTimeout = "slot recycled on timeout", found by [LandsOnce];
    /// A node's final no gives the slot back.
    RefusalFreesSlot = "slot freed by a node's no", found by [LandsOnce];
    /// A node's final no ends what a node had taken.
    RefusalEndsTaken = "ended by a node's no to a re-send", found by [TakenIsCarried];
    /// A passed slot without a receipt sends its transaction back to the queue.
    RequeueOnNullReceipt = "re-queued on a null receipt", found by [LandsOnce];
    /// A receipt counts by its block's number alone.
    NoBlockHash = "confirmed without block hash", found by [FinalIsTrue];
    /// A re-price takes a new slot.
    BumpTakesNewSlot = "bump that takes a new slot", found by [LandsOnce];
    /// Removing the history of a transaction frees its key.
    RemovalForgetsKey = "removal forgets the key", found by [OneKeyOneTransaction, OneCallOneTransaction, LandsOnce];
    /// A call is looked for by the slot that has its nonce's number.
    NonceIsSlot = "retry matched by slot only", found by [OneCallOneTransaction, LandsOnce];
    /// A slot is forgotten when its transaction ends.
    ForgottenAtFinality = "slot forgotten when its transaction ends", found by [FinalIsTrue, Ends, NoGaps];
    /// A cancel is done when it was asked for.
    CancelAtOnce = "cancel ended before the chain decided", found by [FinalIsTrue, LandsOnce];
    /// A replace takes a new slot.
    ReplaceTakesNewSlot = "replace that takes a new slot", found by [LandsOnce];
    /// A speed-up is signed a little above the attempt before, not by the pool's rule.
    SpeedUpTooCheap = "speed-up under the pool's rule", found by [BeatsTheFormer];
    /// A cancel of everything forgets what is not in memory.
    CancelAllInMemory = "cancel-all that forgets the store", found by [CancelAllEndsAll];
    /// A fill does not look whether a slot is in use.
    FillOverBound = "fill over a bound slot", found by [LandsOnce];
    /// A reset begins again at the chain's count.
    ResetToCount = "reset that re-issues live slots", found by [Ends, NoGaps, LandsOnce];
    /// What another transaction ended as does not matter, only that it did.
    AfterIgnoresFailure = "after that ignores failure", found by [FollowsInOrder];
    /// What no pool shows gives its slot back.
    ProbeRecycles = "slot recycled when no pool shows it", found by [LandsOnce];
    /// What a node took is neither looked up nor sent again.
    YesIsProof = "yes taken for proof", found by [BackInThePool];
    /// What refusals taught about the window is never forgotten, down to nothing.
    LimitForEver = "learnt window that never grows", found by [Ends];
    /// A transaction by which the sender delegates its own code takes one slot.
    SecondSlotForgotten = "delegation that takes one slot", found by [FinalIsTrue, NoGaps, Ends, LandsOnce];
    /// A replacement needs no yes of its own.
    ReplacedUnapproved = "replacement without approval", found by [ApprovedFirst];
    /// What is out does not count against the day's budget.
    BudgetForgetsOut = "budget that forgets what is out", found by [WithinBudget];
    /// The fee for bytes on the parent chain does not count against the day's budget.
    BudgetForgetsData = "budget without data fees", found by [WithinBudget];
    /// Slots are handed out whatever the account can pay.
    FundsIgnored = "slots without funds", found by [PaidFor];
    /// A dearer attempt is signed whatever the account can pay.
    BumpsUnpaid = "bump that cannot be paid", found by [PaidFor];
    /// Bytes that a node has, and calls a replacement that is too cheap, are re-priced, in any slot.
    KnownIsReplacement = "known bytes taken for a replacement", found by [OnlyTheLowest];
    /// A stranger's use of a slot is believed before it is final.
    ProvenBeforeFinal = "stranger believed before finality", found by [LandsOnce, FinalIsTrue];
    /// A stranger's use of a slot is believed at the lane's finality, also where the chain may take back more.
    ProvenAtFinality = "stranger believed at the lane's finality", found by [LandsOnce, FinalIsTrue];
    /// What took a slot and does the same as its transaction is a stranger.
    AlikeIsForeign = "own bytes taken for a stranger's", found by [LandsOnce, HoldsWhenUnsure];
    /// The cursor jumps over slots that the chain has used and nobody here knows.
    JumpsOverUnknown = "cursor that jumps over unknown slots", found by [HoldsWhenUnsure, LandsOnce];
    /// Slots found used at a load are taken for a stranger's, although a newer copy of the store may have used them.
    AdoptsAtLoad = "unknown slots adopted at a load", found by [HoldsWhenUnsure, LandsOnce];
    /// A lane goes on over slots that it does not know without a look at what they did.
    ComparesNothing = "accepted store that compares nothing", found by [LandsOnce];
    /// Another chain with the same id is as good.
    AnyChainWillDo = "another chain taken for the same", found by [HoldsWhenUnsure];
    /// What is to be checked anew after a reorganisation leaves its slot at once.
    RecheckedAtOnce = "recheck without a no-op", found by [LandsOnce];
    /// Deadlines are judged by the node's own clock.
    ExpiresByOwnClock = "deadline by the node's clock", found by [ExpiresByBlockTime];
    /// A slot is re-priced for being slow also while the chain makes no blocks.
    BumpsWhileHalted = "bumps while the chain stands still", found by [QuietWhileHalted];
    /// A caller is told its slot before that is on disk.
    ToldBeforeCommit = "slot told before it is stored", found by [SlotAsTold];
    /// What is in a block for long enough is final.
    FinalByTime = "final by time", found by [QuietWhileHalted];
    /// A caller's own ceiling is forgotten.
    CeilingForgotten = "caller's ceiling forgotten", found by [WithinCeiling];
    /// The day of a budget is that of the owner's clock, and never falls.
    DayByOwnClock = "day of the budget by the node's clock", found by [Ends];
    /// What was stored is not sent before the time that was stored with it.
    WaitsForStoredTime = "stored time in the future waited for", found by [Ends];
    /// Commands that wait are read again and again, and hide those behind them.
    WaitingHideOthers = "waiting commands that hide others", found by [Ends];
    /// A transaction ends by what is known, however long ago that was read.
    FailsOnOldFacts = "failed on a balance of long ago", found by [JudgedByNow];
    /// A slot is bound by the count that is known, however long ago that was read.
    BindsOnOldCount = "slot bound by a count of long ago", found by [JudgedByNow];
    /// What a person called ours is queued again.
    OursIsSentAgain = "own transaction sent again after a person's word", found by [HoldsWhenUnsure, LandsOnce];
    /// After a store was accepted as many go out at once as before, although bytes may be out that it has forgotten.
    ManyBesideLate = "many sent beside forgotten bytes", found by [LandsOnce];
    /// What landed late, after a store was accepted, is taken for a stranger's.
    LateForgotten = "late landing not remembered", found by [LandsOnce];
    /// Where more wait that do the same than landed, the oldest end as landed.
    OldestHasLanded = "oldest of several alike called landed", found by [TellsApart];
    /// A person's word that one has landed accounts for all that did the same.
    WordFreesOthers = "word on one that frees others", found by [LandsOnce];
    /// A word from before a store was accepted is about what may have landed.
    WordsFromBefore = "word from before that releases", found by [LandsOnce];
    /// A resume from before a lane was loaded is about everything that the chain has used since.
    OldResumeMeansAll = "resume from before that means all", found by [HoldsWhenUnsure];
    /// What a reorganisation took back before a store was accepted will not land again.
    TakenBackForgotten = "slots taken back and forgotten", found by [HoldsWhenUnsure, LandsOnce];
    /// A caller may wait for blocks that the chain never names.
    AnyFinality = "finality that the chain lacks taken in", found by [Ends];
    /// One endpoint's word is as good as that of two.
    OneIsEnough = "final by the word of one endpoint", found by [NotByOne];
    /// A store that was accepted has forgotten no more than today's window allows.
    TodaysWindow = "forgotten bytes bounded by today's window", found by [LandsOnce];
    /// A reset lets the cursor fall onto slots that are history, once the chain has taken them back.
    ResetIntoHistory = "reset that falls into history", found by [Ends];
    /// Where a final block was replaced, everything that is known of the chain is forgotten.
    AcceptForgets = "replaced final block that forgets the keys", found by [OneKeyOneTransaction, OneCallOneTransaction, AcceptedIsKept];
    /// A lane that was just loaded gives out slots before it knows what used those of its own.
    BindsUnseen = "slots given out beside unseen ones", found by [LandsOnce];
    /// A stranger that took a slot of ours before everything was accounted for is forgotten.
    UnaccountedForgotten = "unaccounted use of a slot forgotten", found by [LandsOnce];
}

impl Planted {
    /// The switch in the lane, for bugs that live there.
    #[must_use]
    pub fn in_lane(self) -> Option<PlantedInLane> {
        match self {
            Self::RecycleOnTimeout => Some(PlantedInLane::RecycleOnTimeout),
            Self::RefusalFreesSlot => Some(PlantedInLane::RefusalFreesSlot),
            // Since a no to a re-send ends nothing, the misreading alone does no harm.
            Self::RefusalEndsTaken | Self::AlreadyKnownIsFailure => Some(PlantedInLane::RefusalEndsTaken),
            Self::RequeueOnNullReceipt => Some(PlantedInLane::RequeueOnNullReceipt),
            Self::NoBlockHash => Some(PlantedInLane::NoBlockHash),
            Self::BumpTakesNewSlot => Some(PlantedInLane::BumpTakesNewSlot),
            Self::ForgottenAtFinality => Some(PlantedInLane::ForgottenAtFinality),
            Self::CancelAtOnce => Some(PlantedInLane::CancelAtOnce),
            Self::PendingCount => Some(PlantedInLane::CursorFollowsCount),
            Self::ReplaceTakesNewSlot => Some(PlantedInLane::ReplaceTakesNewSlot),
            Self::SpeedUpTooCheap => Some(PlantedInLane::SpeedUpTooCheap),
            Self::CancelAllInMemory => Some(PlantedInLane::CancelAllInMemory),
            Self::FillOverBound => Some(PlantedInLane::FillOverBound),
            Self::ResetToCount => Some(PlantedInLane::ResetToCount),
            Self::AfterIgnoresFailure => Some(PlantedInLane::AfterIgnoresFailure),
            Self::ProbeRecycles => Some(PlantedInLane::ProbeRecycles),
            Self::YesIsProof => Some(PlantedInLane::YesIsProof),
            Self::LimitForEver => Some(PlantedInLane::LimitForEver),
            Self::SecondSlotForgotten => Some(PlantedInLane::SecondSlotForgotten),
            Self::ReplacedUnapproved => Some(PlantedInLane::ReplacedUnapproved),
            Self::BudgetForgetsOut => Some(PlantedInLane::BudgetForgetsOut),
            Self::BudgetForgetsData => Some(PlantedInLane::BudgetForgetsData),
            Self::FundsIgnored => Some(PlantedInLane::FundsIgnored),
            Self::BumpsUnpaid => Some(PlantedInLane::BumpsUnpaid),
            Self::KnownIsReplacement => Some(PlantedInLane::KnownIsReplacement),
            Self::ProvenBeforeFinal => Some(PlantedInLane::ProvenBeforeFinal),
            Self::ProvenAtFinality => Some(PlantedInLane::ProvenAtFinality),
            Self::AlikeIsForeign => Some(PlantedInLane::AlikeIsForeign),
            Self::JumpsOverUnknown => Some(PlantedInLane::JumpsOverUnknown),
            Self::AdoptsAtLoad => Some(PlantedInLane::AdoptsAtLoad),
            Self::ComparesNothing => Some(PlantedInLane::ComparesNothing),
            Self::RecheckedAtOnce => Some(PlantedInLane::RecheckedAtOnce),
            Self::ExpiresByOwnClock => Some(PlantedInLane::ExpiresByOwnClock),
            Self::BumpsWhileHalted => Some(PlantedInLane::BumpsWhileHalted),
            Self::FinalByTime => Some(PlantedInLane::FinalByTime),
            Self::CeilingForgotten => Some(PlantedInLane::CeilingForgotten),
            Self::DayByOwnClock => Some(PlantedInLane::DayByOwnClock),
            Self::WaitsForStoredTime => Some(PlantedInLane::WaitsForStoredTime),
            Self::WaitingHideOthers => Some(PlantedInLane::WaitingHideOthers),
            Self::FailsOnOldFacts => Some(PlantedInLane::FailsOnOldFacts),
            Self::BindsOnOldCount => Some(PlantedInLane::BindsOnOldCount),
            Self::OursIsSentAgain => Some(PlantedInLane::OursIsSentAgain),
            Self::ManyBesideLate => Some(PlantedInLane::ManyBesideLate),
            Self::LateForgotten => Some(PlantedInLane::LateForgotten),
            Self::OldestHasLanded => Some(PlantedInLane::OldestHasLanded),
            Self::WordFreesOthers => Some(PlantedInLane::WordFreesOthers),
            Self::WordsFromBefore => Some(PlantedInLane::WordsFromBefore),
            Self::OldResumeMeansAll => Some(PlantedInLane::OldResumeMeansAll),
            Self::TakenBackForgotten => Some(PlantedInLane::TakenBackForgotten),
            Self::TodaysWindow => Some(PlantedInLane::TodaysWindow),
            Self::ResetIntoHistory => Some(PlantedInLane::ResetIntoHistory),
            Self::BindsUnseen => Some(PlantedInLane::BindsUnseen),
            Self::UnaccountedForgotten => Some(PlantedInLane::UnaccountedForgotten),
            Self::FenceSkipped
            | Self::FenceBeforeCommit
            | Self::SessionUnchecked
            | Self::TokenKept
            | Self::LostCommitRepeated
            | Self::LostCommitAssumedDone
            | Self::ReloadedUnderOldToken
            | Self::AnyChainWillDo
            | Self::ToldBeforeCommit
            | Self::AnyFinality
            | Self::OneIsEnough
            | Self::AcceptForgets
            | Self::RenewedFromAnswer
            | Self::NameIsSession
            | Self::JournalBySequence
            | Self::StoredAfterSent
            | Self::IdempotencyOutside
            | Self::LeaseByLocalClock
            | Self::LeaseByDatabaseClock
            | Self::DeadByDatabaseClock
            | Self::NewestHashOnly
            | Self::LostWakeUp
            | Self::NonceIsSlot
            | Self::RemovalForgetsKey => None,
        }
    }

    /// The switch in the engine, for bugs that live there.
    #[must_use]
    pub fn in_engine(self) -> Option<PlantedInEngine> {
        match self {
            Self::RenewedFromAnswer => Some(PlantedInEngine::RenewedFromAnswer),
            Self::ReloadedUnderOldToken => Some(PlantedInEngine::ReloadedUnderOldToken),
            Self::AnyChainWillDo => Some(PlantedInEngine::AnyChainWillDo),
            Self::ToldBeforeCommit => Some(PlantedInEngine::ToldBeforeCommit),
            Self::AnyFinality => Some(PlantedInEngine::AnyFinality),
            Self::OneIsEnough => Some(PlantedInEngine::OneIsEnough),
            _ => None,
        }
    }

    /// The world of a seed in which it can show: a special one, or one with the faults that it takes.
    #[must_use]
    pub fn scenario(self, seed: u64) -> Scenario {
        match self {
            Self::YesIsProof | Self::FundsIgnored => Scenario::quiet(seed),
            // Many are out of an account that runs dry, and all are sent again and again.
            Self::BumpsUnpaid | Self::KnownIsReplacement => {
                let quiet = Scenario::quiet(seed);
                let (resubmit, max_in_flight) = (Duration::from_secs(3), quiet.max_in_flight.max(8));
                Scenario {
                    resubmit,
                    max_in_flight,
                    chains: 1,
                    endpoints: 1,
                    signers: 2,
                    block_ms: 2_000,
                    ..quiet
                }
            }
            Self::BudgetForgetsData => {
                let (data_fee, budget) = (1_000_000_000_000_000, Some(13_000_000_000_000_000));
                Scenario { data_fee, budget, signers: 2, keep: None, ..Scenario::from_seed(seed) }
            }
            // More waits in each lane than one load brings into memory.
            Self::CancelAllInMemory => {
                let many = Scenario::from_seed(seed);
                Scenario {
                    requests_per_caller: many.requests_per_caller * 2,
                    chains: 1,
                    max_in_flight: 2,
                    ..many
                }
            }
            Self::FailsOnOldFacts | Self::BindsOnOldCount => Scenario::sleepy(seed),
            Self::ManyBesideLate
            | Self::LateForgotten
            | Self::OldestHasLanded
            | Self::WordFreesOthers
            | Self::WordsFromBefore
            | Self::TakenBackForgotten => Scenario::put_back(seed),
            Self::OneIsEnough => Scenario::forked(seed),
            Self::ResetIntoHistory | Self::AcceptForgets => Scenario::replaced(seed),
            Self::TodaysWindow => Scenario { narrowed: true, ..Scenario::put_back(seed) },
            Self::BindsUnseen | Self::UnaccountedForgotten => Scenario::unnoticed(seed),
            Self::OldResumeMeansAll => Scenario {
                keep: None,
                wishes: false,
                flooded: true,
                ..Scenario::from_seed(seed).with(self.takes())
            },
            Self::ProvenBeforeFinal => Scenario::contested(seed),
            Self::ProvenAtFinality => Scenario::untagged(seed),
            Self::BumpsWhileHalted | Self::FinalByTime => Scenario::halted(seed),
            // Some slots can still be taken back when the chain starts over.
            Self::AnyChainWillDo => {
                let few = Scenario {
                    requests_per_caller: 8,
                    block_ms: 3_000,
                    deep: 12,
                    ..Scenario::from_seed(seed)
                };
                few.with(self.takes())
            }
            // Dear enough that the budget of a day is not enough for all.
            Self::DayByOwnClock => {
                let rates = self.takes().iter().map(|fault| (*fault, 100)).collect();
                let budget = Some(13_000_000_000_000_000);
                Scenario { rates, budget, chains: 1, signers: 1, keep: None, ..Scenario::from_seed(seed) }
            }
            Self::WaitingHideOthers => {
                Scenario { flooded: true, ..Scenario::from_seed(seed) }.with(self.takes())
            }
            Self::AnyFinality => {
                Scenario { some_choose_finality: true, tagged: false, ..Scenario::from_seed(seed) }
            }
            Self::ToldBeforeCommit => Scenario { slots_at_admission: true, ..Scenario::from_seed(seed) },
            _ => Scenario::from_seed(seed).with(self.takes()),
        }
    }

    /// The faults without which it cannot show.
    fn takes(self) -> &'static [Fault] {
        match self {
            Self::FenceSkipped | Self::FenceBeforeCommit | Self::TokenKept => {
                &[Fault::Pause, Fault::LateCommit]
            }
            Self::SessionUnchecked => &[Fault::LeaseCut],
            Self::RenewedFromAnswer => &[Fault::LeaseCut, Fault::SlowAnswer],
            Self::ReloadedUnderOldToken => &[Fault::LateCommit],
            Self::LimitForEver => &[Fault::Refusal],
            Self::RefusalFreesSlot | Self::RefusalEndsTaken => &[Fault::Verdict],
            Self::AlikeIsForeign | Self::OursIsSentAgain => &[Fault::RestoredStore, Fault::FeeSpike],
            Self::OldResumeMeansAll => &[Fault::RestoredStore, Fault::ForeignUse, Fault::Crash],
            Self::WaitingHideOthers => &[Fault::ForeignUse, Fault::Crash],
            Self::JumpsOverUnknown | Self::AdoptsAtLoad | Self::ComparesNothing => &[Fault::RestoredStore],
            Self::AnyChainWillDo => &[Fault::ChainRestart],
            Self::RecheckedAtOnce => &[Fault::Reorg],
            // Slots that had ended are open again.
            Self::ResetToCount => &[Fault::Reorg, Fault::DeepReorg],
            Self::ExpiresByOwnClock | Self::WaitsForStoredTime => &[Fault::ClockStep],
            Self::LeaseByDatabaseClock => &[Fault::DatabaseClock],
            Self::DeadByDatabaseClock => &[Fault::DatabaseClock, Fault::Crash],
            Self::DayByOwnClock => &[Fault::ClockStep, Fault::FeeSpike],
            Self::BudgetForgetsOut => &[Fault::FeeSpike],
            _ => &[],
        }
    }
}
