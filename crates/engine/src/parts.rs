//! What an engine is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use landfall_core::ports::chain::Chain;
use landfall_core::ports::clock::{Clock, Random};
use landfall_core::ports::signer::{Custody, Signer};
use landfall_core::ports::store::Store;
use landfall_core::settings::{Allocation, LaneSettings, OnUnknownSlots};
use landfall_core::{Account, ChainId, LaneId};

use crate::telemetry::Telemetry;

/// One chain and the rules of its lanes.
#[derive(Clone)]
pub struct ChainParts {
    pub chain: Arc<dyn Chain>,
    pub settings: LaneSettings,
}

/// How often and how long.
#[derive(Debug, Clone)]
pub struct Timings {
    /// How long a session lasts without renewal (L1).
    pub lease: Duration,
    /// How often it is renewed; under half of the lease.
    pub renew: Duration,
    /// A node stops acting this long before its session ends.
    pub skew: Duration,
    /// How often the store is asked for lanes with work that nobody told this node of.
    pub scan: Duration,
    /// How long a lane without work keeps its lease.
    pub idle: Duration,
    /// How long the history of a finished transaction is kept; none: for ever (E22).
    pub keep_finished: Option<Duration>,
    /// How often it is looked what may go.
    pub forget_every: Duration,
    /// A bug planted by the simulator, to see that it is found. Nothing else sets it.
    pub planted: Option<PlantedInEngine>,
}

/// Bugs of the kind real senders had, for the simulator to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedInEngine {
    /// A session lasts from when its renewal was answered.
    RenewedFromAnswer,
    /// After a commit whose outcome is not known the lane is loaded again under the token it had.
    ReloadedUnderOldToken,
    /// Another chain with the same id is as good.
    AnyChainWillDo,
    /// A caller is told its slot before that is on disk.
    ToldBeforeCommit,
    /// Any finality is taken that a caller asks for.
    AnyFinality,
    /// One endpoint's word is as good as that of two.
    OneIsEnough,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            renew: Duration::from_secs(3),
            skew: Duration::from_secs(1),
            scan: Duration::from_secs(2),
            idle: Duration::from_secs(30),
            keep_finished: None,
            forget_every: Duration::from_secs(60),
            planted: None,
        }
    }
}

/// Everything an engine needs.
#[derive(Clone)]
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub chains: BTreeMap<ChainId, ChainParts>,
    /// One signer for each lane this installation may use.
    pub signers: BTreeMap<LaneId, Arc<dyn Signer>>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    /// Lanes whose slots are handed out at admission.
    pub slots_at_admission: BTreeSet<LaneId>,
    /// Lanes that go on by themselves over slots which they do not know, once those are proven to be none of their own.
    pub adopts_unknown: BTreeSet<LaneId>,
    /// To which addresses' code a lane's account may be delegated (EIP-7702); a lane that is not here: to none.
    pub delegates: BTreeMap<LaneId, BTreeSet<Account>>,
    /// Where callers reach this node, if they may be told.
    pub address: Option<String>,
    /// A readable name for leases, logs and metrics (L15).
    pub node: String,
    pub timings: Timings,
    pub telemetry: Telemetry,
}

impl Parts {
    /// The rules of one lane: its chain's, and what its signer's custody asks for.
    pub(crate) fn lane_settings(&self, lane: LaneId) -> Option<LaneSettings> {
        let mut settings = self.chains.get(&lane.chain)?.settings.clone();
        settings.reserve_before_signing = self.signers.get(&lane)?.custody() == Custody::Remote;
        settings.delegate_to = self.delegates.get(&lane).cloned().unwrap_or_default();
        if self.slots_at_admission.contains(&lane) {
            settings.allocation = Allocation::Admission;
        }
        if self.adopts_unknown.contains(&lane) {
            settings.on_unknown_slots = OnUnknownSlots::Adopt;
        }
        Some(settings)
    }
}
