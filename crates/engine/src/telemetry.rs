//! What an engine tells of itself: facts to count, and how lanes are named in log lines.
//!
//! The engine knows no exporter. It hands [`Fact`]s to a [`Meter`], after they are committed where they are about
//! stored things, and asks it nothing: what is measured never changes what is done. What is a level and not an event
//! (how many wait, how an endpoint is doing) is read from [`Handle::gauges`](crate::Handle::gauges) when somebody wants
//! to know.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::keccak256;
use landfall_core::lane::Alarm;
use landfall_core::transaction::TxState;
use landfall_core::{Account, ChainId, LaneId, Millis, TxId};

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Submitted {
    /// Stored.
    New,
    /// It was there already.
    Replay,
    /// Its key belongs to another content.
    Conflict,
    /// It is not taken in.
    Refused,
    /// The store could not write it.
    Failed,
    /// Whether it was stored is not known.
    Unknown,
}

/// What a look for receipts led to, for one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReceiptCheck {
    /// There is a receipt for one of its attempts.
    Found,
    /// The chain's count has passed the slot, and there is none.
    Missing,
    /// Nobody could be asked.
    Failed,
}

/// How a slot ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Settled {
    /// By its transaction's content.
    Won,
    /// By its transaction's own no-op.
    NoOp,
    /// By somebody else.
    Displaced,
}

/// What an attempt was signed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signed {
    /// The first one of its slot.
    First,
    /// A dearer one, or one with another content.
    Again,
    /// One that only uses the slot up.
    NoOp,
}

/// A moment of a life whose distance from the acceptance is measured, once for each transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Milestone {
    Signed,
    Sent,
    Mined,
    Final,
}

/// How one write of a group went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteEnd {
    Done,
    Fenced,
    Failed,
    Unknown,
}

/// How one renewal of the session went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Renewal {
    Done,
    /// The session had ended.
    Ended,
    Failed,
}

/// Something that happened and is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    LeaseAcquired,
    /// A write was refused, since the lane is another's.
    LeaseFenced,
    SessionRenewed(Renewal),
    Submitted(Submitted),
    /// A transaction went from a state, in which it had stayed so long, into another; from none when it was stored.
    Moved {
        from: Option<TxState>,
        to: TxState,
        stayed: Duration,
        tx: TxId,
        chain: ChainId,
        accepted_at: Millis,
        at: Millis,
    },
    /// A transaction came so far, so long after it was accepted.
    Reached {
        chain: ChainId,
        milestone: Milestone,
        after: Duration,
    },
    Signed {
        chain: ChainId,
        what: Signed,
    },
    /// Bytes went out that had gone out before.
    Resubmitted {
        chain: ChainId,
        count: u64,
    },
    ReceiptChecked {
        chain: ChainId,
        result: ReceiptCheck,
        count: u64,
    },
    /// The chain replaced blocks that had been scanned.
    NewFork {
        chain: ChainId,
    },
    /// A transaction's block was replaced before it was final.
    Reorged {
        chain: ChainId,
    },
    /// A transaction's block was replaced after it was final, or a block that the chain had called final was.
    DeepReorg {
        chain: ChainId,
    },
    /// A transaction ended by the word of one endpoint, where several are configured.
    SingleWitness {
        chain: ChainId,
    },
    Settled {
        chain: ChainId,
        how: Settled,
    },
    /// A group of writes was committed, or not.
    Group {
        writes: usize,
        rows: usize,
        took: Duration,
    },
    Wrote(WriteEnd),
    /// Journal entries were stored.
    Journalled {
        entries: u64,
    },
    /// What must never happen.
    Alarm(Alarm),
}

/// Counts facts. Called where work is done: it must be quick, and must not block.
pub trait Meter: Send + Sync {
    fn note(&self, fact: Fact);
}

/// Counts nothing.
struct NoMeter;

impl Meter for NoMeter {
    fn note(&self, _: Fact) {}
}

/// Who counts, and how much log lines and labels say.
#[derive(Clone)]
pub struct Telemetry {
    pub meter: Arc<dyn Meter>,
    /// Accounts are not named in log lines and labels.
    pub mask_signers: bool,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { meter: Arc::new(NoMeter), mask_signers: false }
    }
}

impl Telemetry {
    pub(crate) fn note(&self, fact: Fact) {
        self.meter.note(fact);
    }

    /// An account as log lines and labels show it.
    #[must_use]
    pub fn signer(&self, account: Account) -> ShownSigner {
        ShownSigner { account, masked: self.mask_signers }
    }

    /// A lane as log lines show it.
    #[must_use]
    pub fn lane(&self, lane: LaneId) -> ShownLane {
        ShownLane { chain: lane.chain, signer: self.signer(lane.signer) }
    }
}

/// An account, or a name that stands for it: the same on every node and after every start. It keeps addresses off
/// dashboards; whoever can guess an address can check the guess.
#[derive(Debug, Clone, Copy)]
pub struct ShownSigner {
    account: Account,
    masked: bool,
}

impl fmt::Display for ShownSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.masked {
            return self.account.fmt(f);
        }
        let digest = keccak256(self.account.0);
        write!(f, "signer-{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3])
    }
}

/// A lane with its account shown or not.
#[derive(Debug, Clone, Copy)]
pub struct ShownLane {
    chain: ChainId,
    signer: ShownSigner,
}

impl fmt::Display for ShownLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.chain, self.signer)
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Address;

    use super::*;

    #[test]
    fn a_masked_account_has_a_name_that_stays_and_shows_nothing_of_it() {
        let shown = |byte: u8, mask_signers: bool| {
            let lane = LaneId { chain: ChainId(1), signer: Account(Address::repeat_byte(byte)) };
            let telemetry = Telemetry { mask_signers, ..Telemetry::default() };
            telemetry.lane(lane).to_string()
        };
        assert_eq!(shown(0x11, false), "1/0x1111111111111111111111111111111111111111");
        assert_eq!(shown(0x11, true), shown(0x11, true));
        assert_ne!(shown(0x11, true), shown(0x22, true));
        assert!(!shown(0x11, true).contains("1111"), "{}", shown(0x11, true));
    }
}
