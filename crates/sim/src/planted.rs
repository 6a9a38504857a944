//! Bugs of the kind real senders had, planted on purpose: a simulator that does not find them finds nothing.
//!
//! Those that live in an adapter are planted in the simulator's own adapters. Those that live in a lane's decisions
//! are switched on by `LaneSettings::planted`, which nothing but the simulator sets.

use landfall_core::settings::PlantedInLane;

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
    FenceBeforeCommit = "token compared before the commit", found by [Fenced];
    /// A commit is acknowledged before it is done.
    StoredAfterSent = "bytes stored after sending", found by [StoredBeforeSent];
    /// The key is looked up, and the row inserted a moment later.
    IdempotencyOutside = "idempotency checked outside the transaction", found by [OneKeyOneTransaction, LandsOnce];
    /// A lease ends when the asking node's clock says so.
    LeaseByLocalClock = "lease judged by the local clock", found by [LiveOwnerKeeps];
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
    /// A passed slot without a receipt sends its transaction back to the queue.
    RequeueOnNullReceipt = "re-queued on a null receipt", found by [LandsOnce];
    /// A receipt counts by its block's number alone.
    NoBlockHash = "confirmed without block hash", found by [FinalIsTrue];
    /// A re-price takes a new slot.
    BumpTakesNewSlot = "bump that takes a new slot", found by [LandsOnce];
    /// Removing the history of a transaction frees its key.
    RemovalForgetsKey = "removal forgets the key", found by [OneKeyOneTransaction, LandsOnce];
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
}

impl Planted {
    /// The switch in the lane, for bugs that live there.
    #[must_use]
    pub fn in_lane(self) -> Option<PlantedInLane> {
        match self {
            Self::RecycleOnTimeout => Some(PlantedInLane::RecycleOnTimeout),
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
            Self::FenceSkipped
            | Self::FenceBeforeCommit
            | Self::StoredAfterSent
            | Self::IdempotencyOutside
            | Self::LeaseByLocalClock
            | Self::AlreadyKnownIsFailure
            | Self::NewestHashOnly
            | Self::LostWakeUp
            | Self::RemovalForgetsKey => None,
        }
    }
}
