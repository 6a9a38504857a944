//! What a lane is configured with. The binary fills these from `landfall.toml`; defaults are DESIGN's.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::request::{Finality, OnDisplaced};
use crate::{Account, Gas, Price, Wei};

/// Bugs of the kind real senders had, for the simulator to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedInLane {
    /// A send that was not answered gives its slot back.
    RecycleOnTimeout,
    /// A node's final no gives the slot back.
    RefusalFreesSlot,
    /// A node's final no begins the end of a transaction that another node, or the same one before, had taken.
    RefusalEndsTaken,
    /// A passed slot without a receipt sends its transaction back to the queue.
    RequeueOnNullReceipt,
    /// A receipt counts by its block's number alone.
    NoBlockHash,
    /// A re-price takes a new slot.
    BumpTakesNewSlot,
    /// A slot is forgotten when its transaction ends.
    ForgottenAtFinality,
    /// A cancel is done when it was asked for.
    CancelAtOnce,
    /// The next slot is what the node counts.
    CursorFollowsCount,
    /// A replace takes a new slot.
    ReplaceTakesNewSlot,
    /// A speed-up is signed a little above the attempt before, not by the pool's rule.
    SpeedUpTooCheap,
    /// A cancel of everything forgets what is not in memory.
    CancelAllInMemory,
    /// A fill does not look whether a slot is in use.
    FillOverBound,
    /// A reset begins again at the chain's count.
    ResetToCount,
    /// What another transaction ended as does not matter, only that it did.
    AfterIgnoresFailure,
    /// What no pool shows gives its slot back.
    ProbeRecycles,
    /// A yes is the last word: what a node took is neither looked up nor sent again.
    YesIsProof,
    /// What refusals taught about the window is never forgotten, down to nothing.
    LimitForEver,
    /// A transaction by which the sender delegates its own code takes one slot.
    SecondSlotForgotten,
    /// A replacement needs no yes of its own.
    ReplacedUnapproved,
    /// What is out does not count against the day's budget.
    BudgetForgetsOut,
    /// The fee for bytes on the parent chain does not count against the day's budget.
    BudgetForgetsData,
    /// Slots are handed out whatever the account can pay.
    FundsIgnored,
    /// A dearer attempt is signed whatever the account can pay.
    BumpsUnpaid,
    /// Bytes that a node has, and calls a replacement that is too cheap, are re-priced, in any slot.
    KnownIsReplacement,
    /// A stranger's use of a slot is believed before it is final.
    ProvenBeforeFinal,
    /// A stranger's use of a slot is believed at the lane's finality, also where the chain may take back more.
    ProvenAtFinality,
    /// What took a slot and does the same as its transaction is a stranger.
    AlikeIsForeign,
    /// The cursor jumps over slots that the chain has used and nobody here knows.
    JumpsOverUnknown,
    /// What is to be checked anew after a reorganisation leaves its slot at once.
    RecheckedAtOnce,
    /// Deadlines are judged by the node's own clock.
    ExpiresByOwnClock,
    /// A slot is re-priced for being slow also while the chain makes no blocks.
    BumpsWhileHalted,
    /// What is in a block for long enough is final.
    FinalByTime,
    /// A caller's own ceiling is forgotten.
    CeilingForgotten,
    /// A transaction ends by what is known, however long ago that was read.
    FailsOnOldFacts,
    /// A slot is bound by the count that is known, however long ago that was read.
    BindsOnOldCount,
    /// The day of a budget is that of the owner's clock, and never falls.
    DayByOwnClock,
    /// What was stored is not sent before the time that was stored with it.
    WaitsForStoredTime,
    /// Slots that are not known when a lane is loaded are a stranger's.
    AdoptsAtLoad,
    /// A lane goes on over slots that it does not know without a look at what they did.
    ComparesNothing,
    /// Commands that wait are read again and again, and hide those behind them.
    WaitingHideOthers,
    /// What a person called ours is queued again.
    OursIsSentAgain,
    /// After a store was accepted as many go out at once as before, although bytes may be out that it has forgotten.
    ManyBesideLate,
    /// What landed late, after a store was accepted, is taken for a stranger's.
    LateForgotten,
    /// Where more wait that do the same than landed, the oldest end as landed.
    OldestHasLanded,
    /// A person's word that one has landed accounts for all that did the same.
    WordFreesOthers,
    /// A word from before a store was accepted is about what may have landed.
    WordsFromBefore,
    /// A resume from before a lane was loaded is about everything that the chain has used since.
    OldResumeMeansAll,
    /// What a reorganisation took back before a store was accepted will not land again.
    TakenBackForgotten,
    /// A lane that was just loaded gives out slots before it knows what used those of its own.
    BindsUnseen,
    /// A stranger that took a slot of ours before everything was accounted for is forgotten.
    UnaccountedForgotten,
    /// A store that was accepted has forgotten no more than today's window allows.
    TodaysWindow,
    /// A reset does not look at slots that are history.
    ResetIntoHistory,
}

/// When a transaction of a lane is bound to a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allocation {
    /// When it can go out: a caller hears of its slot later.
    #[default]
    Dispatch,
    /// As soon as its checks have passed, however many are out: a caller is told its slot when it hands it over.
    Admission,
}

/// What a lane does about slots that the chain has used and that it does not know, where they may be its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknownSlots {
    /// It holds until a person resumes it.
    #[default]
    Hold,
    /// It goes on once each is proven to be none of its own, as far as it knows.
    Adopt,
}

/// The rules a lane follows: its chain's settings and its signer's custody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneSettings {
    /// When a mined transaction is done, unless the caller says otherwise.
    pub finality: Finality,
    /// The chain has `safe` and `finalized` blocks, as far as it is configured.
    pub tags: bool,
    /// How many slots may be out at once, counted from the chain's own count.
    pub max_in_flight: u64,
    /// When slots are handed out.
    pub allocation: Allocation,
    /// How many slots may be bound, counted from the chain's own count, where they are handed out at admission.
    pub max_signed_ahead: u64,
    /// How many transactions may wait for a slot; more are not taken in.
    pub max_waiting: u64,
    /// How many bytes the requests of waiting transactions may have, as they are stored; more are not taken in.
    pub max_waiting_bytes: u64,
    /// As `max_in_flight`, for an account whose code is a delegation (EIP-7702, E24).
    pub delegated_in_flight: u64,
    /// The chain keeps no slot whose predecessor is missing: one is sent only when every lower one was taken.
    pub gapless: bool,
    /// The first transaction of an account goes out alone.
    pub first_alone: bool,
    /// Gas has a part that moves with the parent chain's price: it is estimated again for every attempt.
    pub estimate_each_attempt: bool,
    /// After this time the same bytes are sent again, and the lowest slot is re-priced if it stalled.
    pub resubmit_after: Duration,
    /// How much a re-price adds at least, in percent.
    pub bump_percent: u32,
    /// How much dearer a replacement must be for the chain's pools, in percent.
    pub replacement_percent: u32,
    /// The ceiling of the price per gas of any attempt.
    pub max_fee: Price,
    /// The most that the fees of a lane may come to in a day.
    pub max_spend_per_day: Option<Wei>,
    /// Added to gas estimates, in percent.
    pub gas_headroom_percent: u32,
    /// Where the chain has no `finalized` block: this many blocks after its end a transaction's slot is still watched,
    /// in case the chain takes back more than was called final; and as deep must lie what sends a transaction to another
    /// slot.
    pub watch_depth: u64,
    /// Where several endpoints are configured: after this time without a second one, what one shows becomes final by its
    /// word alone. None: never.
    pub witness_wait: Option<Duration>,
    /// The most attempts one slot may have: re-pricing is always bounded.
    pub max_attempts: u32,
    /// Slots that the chain has used and that are not known here, found when the lane is loaded.
    pub on_unknown_slots: OnUnknownSlots,
    /// What happens to a displaced transaction whose caller did not say.
    pub on_displaced: OnDisplaced,
    /// Every transaction is simulated before it is signed, also one that brings its own gas.
    pub checks: bool,
    /// At or below this balance the lane says that it has little.
    pub low_balance: Option<Wei>,
    /// A value above this needs a person's yes.
    pub approve_above: Option<Wei>,
    /// To which addresses' code the account may be delegated (EIP-7702).
    pub delegate_to: BTreeSet<Account>,
    /// More returned slots than this lead to a reset (E23).
    pub reset_above_returned: Option<usize>,
    /// Remote signers: the slot is committed before the signature is asked for.
    pub reserve_before_signing: bool,
    /// A bug planted by the simulator in itself, to see that it is found. Nothing else sets it.
    pub planted: Option<PlantedInLane>,
    /// Used for no-ops until the chain's own estimate is known.
    pub no_op_gas: Gas,
    /// What the chain takes at all.
    pub limits: TxLimits,
}

/// Which transactions a chain takes: checked at submission, since a node would refuse them for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxLimits {
    /// EIP-2718 type numbers.
    pub types: Vec<u8>,
    /// The most gas of one transaction (EIP-7825), where that is less than a block's.
    pub gas: Option<Gas>,
    /// The most bytes of one signed transaction.
    pub bytes: Option<u64>,
    /// Gas must cover the data as if that were all the transaction did (EIP-7623).
    pub calldata_floor: bool,
}

impl Default for TxLimits {
    fn default() -> Self {
        Self { types: vec![0, 1, 2, 4], gas: None, bytes: Some(131_072), calldata_floor: false }
    }
}

impl Default for LaneSettings {
    fn default() -> Self {
        Self {
            finality: Finality::Blocks(20),
            tags: true,
            max_in_flight: 16,
            allocation: Allocation::Dispatch,
            max_signed_ahead: 1_000,
            max_waiting: 1_000_000,
            max_waiting_bytes: 1 << 30,
            delegated_in_flight: 1,
            gapless: false,
            first_alone: false,
            estimate_each_attempt: false,
            resubmit_after: Duration::from_secs(60),
            bump_percent: 20,
            replacement_percent: 10,
            max_fee: Price::gwei(500),
            max_spend_per_day: None,
            gas_headroom_percent: 20,
            watch_depth: 64,
            witness_wait: Some(Duration::from_secs(600)),
            max_attempts: 32,
            on_unknown_slots: OnUnknownSlots::Hold,
            on_displaced: OnDisplaced::Fail,
            checks: false,
            low_balance: None,
            approve_above: None,
            delegate_to: BTreeSet::new(),
            reset_above_returned: Some(64),
            reserve_before_signing: false,
            planted: None,
            no_op_gas: Gas(21_000),
            limits: TxLimits::default(),
        }
    }
}
