//! What a lane is configured with. The binary fills these from `landfall.toml`; defaults are DESIGN's.

use std::time::Duration;

use crate::request::{Finality, OnDisplaced};
use crate::{Gas, Price, Wei};

/// Bugs of the kind real senders had, for the simulator to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedInLane {
    /// A send that was not answered gives its slot back.
    RecycleOnTimeout,
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
}

/// The rules a lane follows: its chain's settings and its signer's custody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneSettings {
    /// When a mined transaction is done, unless the caller says otherwise.
    pub finality: Finality,
    /// How many slots may be out at once, counted from the chain's own count.
    pub max_in_flight: u64,
    /// After this time the same bytes are sent again, and the lowest slot is re-priced if it stalled.
    pub resubmit_after: Duration,
    /// How much a re-price adds at least, in percent.
    pub bump_percent: u32,
    /// The ceiling of the price per gas of any attempt.
    pub max_fee: Price,
    /// The most that the fees of a lane may come to in a day.
    pub max_spend_per_day: Option<Wei>,
    /// Added to gas estimates, in percent.
    pub gas_headroom_percent: u32,
    /// Where the chain has no `finalized` block: this many blocks after its end a transaction's slot is still watched,
    /// in case the chain takes back more than was called final.
    pub watch_depth: u64,
    /// The most attempts one slot may have: re-pricing is always bounded.
    pub max_attempts: u32,
    /// What happens to a displaced transaction whose caller did not say.
    pub on_displaced: OnDisplaced,
    /// Every transaction is simulated before it is signed, also one that brings its own gas.
    pub checks: bool,
    /// At or below this balance the lane says that it has little.
    pub low_balance: Option<Wei>,
    /// A value above this needs a person's yes.
    pub approve_above: Option<Wei>,
    /// Remote signers: the slot is committed before the signature is asked for.
    pub reserve_before_signing: bool,
    /// A bug planted by the simulator in itself, to see that it is found. Nothing else sets it.
    pub planted: Option<PlantedInLane>,
    /// Used for no-ops until the chain's own estimate is known.
    pub no_op_gas: Gas,
}

impl Default for LaneSettings {
    fn default() -> Self {
        Self {
            finality: Finality::Blocks(20),
            max_in_flight: 16,
            resubmit_after: Duration::from_secs(60),
            bump_percent: 20,
            max_fee: Price::gwei(500),
            max_spend_per_day: None,
            gas_headroom_percent: 20,
            watch_depth: 64,
            max_attempts: 32,
            on_displaced: OnDisplaced::Fail,
            checks: false,
            low_balance: None,
            approve_above: None,
            reserve_before_signing: false,
            planted: None,
            no_op_gas: Gas(21_000),
        }
    }
}
