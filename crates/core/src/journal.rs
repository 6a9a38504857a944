//! The journal: the ordered list of everything that happened to a transaction.
//!
//! It is also the outbox (callers' events are journal entries), and it alone reproduces the state: [`replay`] folds a
//! transaction's entries into the state they lead to, and tests hold the lane to that.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::fees::Fees;
use crate::outcome::SendReport;
use crate::request::{AskedFees, Speed};
use crate::transaction::{Reason, TxState};
use crate::view::{BlockRef, Receipt};
use crate::{ContentVersion, Gas, JournalSeq, LaneId, Millis, Origin, QueueOrder, Slot, TxHash, TxId, Wei};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Entry {
    /// Stored and acknowledged.
    Accepted,
    /// The checks before signing passed.
    Simulated,
    /// A person is asked.
    ApprovalAsked,
    /// A person said yes.
    Approved,
    /// Preparing failed; it will be tried again, and others may go first.
    PrepareFailed {
        reason: String,
        tries: u32,
    },
    /// A slot was set aside before its signature was asked for.
    SlotReserved {
        slot: Slot,
    },
    /// A slot without stored bytes was given back.
    SlotReturned {
        slot: Slot,
    },
    /// Bytes were signed and stored for the slot; from here on it ends only on chain.
    Signed {
        slot: Slot,
        attempt: u32,
        version: ContentVersion,
        no_op: bool,
        hash: TxHash,
        fees: Fees,
        gas: Gas,
    },
    /// A node said it has the bytes.
    Broadcast {
        hash: TxHash,
        report: SendReport,
    },
    /// A node said something else. Repeats of the same class are counted in the attempt, not written again.
    SendAnswered {
        hash: TxHash,
        report: SendReport,
    },
    /// A price could not be raised any further; the same bytes go on being sent.
    AtCeiling {
        slot: Slot,
        needed: crate::Price,
        ceiling: crate::Price,
    },
    /// An attempt is in a block.
    Mined {
        receipt: Receipt,
        version: ContentVersion,
        /// It does nothing of what was asked: a cancel's, an expiry's or a failure's.
        #[serde(default)]
        no_op: bool,
    },
    /// The block it was in is no longer part of the chain.
    Reorged {
        hash: TxHash,
        block: BlockRef,
    },
    /// Its block was replaced: a no-op is to take its slot, and then it is checked anew.
    RecheckBegan {
        slot: Slot,
    },
    /// It had ended, and the block that said so is no longer part of the chain. What it ended as stays, and the bytes
    /// that won go out again.
    FinalReorged {
        hash: TxHash,
        block: BlockRef,
    },
    /// After that an attempt of its slot is in a block again.
    LandedAgain {
        receipt: Receipt,
        version: ContentVersion,
    },
    /// It waited for another slot, and landed in its old one after all.
    BoundBack {
        slot: Slot,
    },
    /// After that its slot went to somebody else: what it ended as is true no more.
    FinalLost {
        slot: Slot,
        block: BlockRef,
    },
    /// It ends by the word of one endpoint: several are configured, and for long no second one answered or kept up.
    SingleWitness {
        hash: TxHash,
        block: BlockRef,
    },
    /// It is to end without its content, by a no-op in its slot.
    EndingBegan {
        state: TxState,
        reason: Reason,
    },
    /// The caller gave it another content. Where bytes of an older one are out, either may win.
    Replaced {
        version: ContentVersion,
    },
    /// A content that was never signed is given up; the one before it counts again.
    ReplaceDropped {
        version: ContentVersion,
        reason: Reason,
    },
    /// The chain took an earlier content than the newest: what replaced it came too late.
    EarlierWon {
        won: ContentVersion,
        newest: ContentVersion,
    },
    /// The caller asked for a dearer attempt.
    SpeedUpAsked {
        fees: AskedFees,
        #[serde(skip_serializing_if = "Option::is_none")]
        speed: Option<Speed>,
    },
    /// A person is asked about a new content, while an older one is out.
    VersionApprovalAsked {
        version: ContentVersion,
    },
    /// A person said yes to it.
    VersionApproved {
        version: ContentVersion,
    },
    /// What it was to follow did not succeed: it waits for a person.
    Held {
        reason: Reason,
    },
    /// A person let it go on without what it was to follow.
    Released,
    /// The chain's count passed the slot and none of our attempts is known to have won it.
    Displaced {
        slot: Slot,
    },
    /// What took the slot does the same as it, and is no attempt that is known: a person must say whose it was.
    TakenAlike {
        slot: Slot,
        hash: TxHash,
        block: BlockRef,
    },
    /// An operator said that what took the slot was somebody else's.
    TakenByOther {
        slot: Slot,
        hash: TxHash,
        block: BlockRef,
    },
    /// The slot was proven foreign and the transaction waits for a new one.
    Requeued {
        slot: Slot,
        block: BlockRef,
    },
    /// An operator accepted that something which this store does not know has done it.
    CarriedOut {
        slot: Slot,
        hash: TxHash,
        block: BlockRef,
    },
    /// Final, and did what was asked.
    Confirmed {
        hash: TxHash,
        block: BlockRef,
        version: ContentVersion,
    },
    /// Final, and reverted.
    Reverted {
        hash: TxHash,
        block: BlockRef,
        reason: Reason,
    },
    Failed {
        reason: Reason,
    },
    Cancelled {
        reason: Reason,
    },
    Expired {
        reason: Reason,
    },
    /// The account has little.
    LowBalance {
        balance: Wei,
        text: String,
    },
    /// The account has enough again.
    BalanceRestored {
        balance: Wei,
    },
    /// The lane stopped handing out slots.
    LaneHeld {
        text: String,
    },
    /// The lane hands out slots again.
    LaneResumed {
        text: String,
    },
    /// Slots that another program used are left to it: each was proven to be none of ours.
    LaneAdopted {
        nonces: Vec<Slot>,
        /// What used them, where that was a transaction.
        hashes: Vec<TxHash>,
        text: String,
    },
    LanePaused {
        text: String,
    },
    /// The lane takes no new transactions in.
    LaneDisabled {
        text: String,
    },
    /// Slots were used up by no-ops, as an operator asked.
    LaneFilled {
        text: String,
    },
    /// Slots without stored bytes were given up.
    LaneReset {
        text: String,
    },
    /// Everything up to a transaction is being cancelled.
    AllCancelled {
        up_to: QueueOrder,
        text: String,
    },
}

/// The names of all events.
pub const EVENTS: &[&str] = &[
    "tx.accepted",
    "tx.signed",
    "tx.broadcast",
    "tx.mined",
    "tx.reorged",
    "tx.displaced",
    "tx.taken",
    "tx.confirmed",
    "tx.reverted",
    "tx.failed",
    "tx.cancelled",
    "tx.expired",
    "chain.final_reorged",
    "chain.landed_again",
    "chain.final_lost",
    "chain.single_witness",
    "lane.low_balance",
    "lane.balance_restored",
    "lane.held",
    "lane.resumed",
    "lane.adopted",
    "lane.paused",
    "lane.disabled",
    "lane.filled",
    "lane.reset",
    "lane.all_cancelled",
];

impl Entry {
    /// The name callers subscribe to; entries without one are for the time line only.
    #[must_use]
    pub fn event(&self) -> Option<&'static str> {
        match self {
            Self::Accepted => Some("tx.accepted"),
            Self::Signed { attempt: 0, .. } => Some("tx.signed"),
            Self::Broadcast { .. } => Some("tx.broadcast"),
            Self::Mined { .. } => Some("tx.mined"),
            Self::Reorged { .. } => Some("tx.reorged"),
            Self::Displaced { .. } => Some("tx.displaced"),
            Self::TakenAlike { .. } => Some("tx.taken"),
            Self::FinalReorged { .. } => Some("chain.final_reorged"),
            Self::LandedAgain { .. } => Some("chain.landed_again"),
            Self::FinalLost { .. } => Some("chain.final_lost"),
            Self::SingleWitness { .. } => Some("chain.single_witness"),
            Self::Confirmed { .. } => Some("tx.confirmed"),
            Self::Reverted { .. } => Some("tx.reverted"),
            Self::Failed { .. } => Some("tx.failed"),
            Self::Cancelled { .. } => Some("tx.cancelled"),
            Self::Expired { .. } => Some("tx.expired"),
            Self::LowBalance { .. } => Some("lane.low_balance"),
            Self::BalanceRestored { .. } => Some("lane.balance_restored"),
            Self::LaneHeld { .. } => Some("lane.held"),
            Self::LaneResumed { .. } => Some("lane.resumed"),
            Self::LaneAdopted { .. } => Some("lane.adopted"),
            Self::LanePaused { .. } => Some("lane.paused"),
            Self::LaneDisabled { .. } => Some("lane.disabled"),
            Self::LaneFilled { .. } => Some("lane.filled"),
            Self::LaneReset { .. } => Some("lane.reset"),
            Self::AllCancelled { .. } => Some("lane.all_cancelled"),
            Self::Simulated
            | Self::ApprovalAsked
            | Self::Approved
            | Self::PrepareFailed { .. }
            | Self::SlotReserved { .. }
            | Self::SlotReturned { .. }
            | Self::Signed { .. }
            | Self::SendAnswered { .. }
            | Self::AtCeiling { .. }
            | Self::RecheckBegan { .. }
            | Self::BoundBack { .. }
            | Self::EndingBegan { .. }
            | Self::Replaced { .. }
            | Self::ReplaceDropped { .. }
            | Self::EarlierWon { .. }
            | Self::SpeedUpAsked { .. }
            | Self::VersionApprovalAsked { .. }
            | Self::VersionApproved { .. }
            | Self::Held { .. }
            | Self::Released
            | Self::CarriedOut { .. }
            | Self::TakenByOther { .. }
            | Self::Requeued { .. } => None,
        }
    }
}

/// An entry on its way into the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// Absent: the entry is about the lane.
    pub tx: Option<TxId>,
    pub at: Millis,
    pub entry: Entry,
    /// Who asked for what it tells; none where nobody did.
    pub by: Option<Arc<Origin>>,
}

/// Entries of one commit that tell of one transaction and follow each other. Stores may keep each of these as one row.
pub fn told_together(entries: &[NewEntry]) -> impl Iterator<Item = &[NewEntry]> {
    entries.chunk_by(|one, next| one.tx.is_some() && one.tx == next.tx)
}

/// An entry as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRow {
    pub seq: JournalSeq,
    pub lane: LaneId,
    pub tx: Option<TxId>,
    pub at: Millis,
    pub entry: Entry,
    pub by: Option<Arc<Origin>>,
}

/// Where a transaction stands, as its journal tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed {
    pub state: TxState,
    pub slot: Option<Slot>,
    pub displaced: bool,
    pub ending: bool,
}

/// Folds a transaction's entries into where they leave it. `None` for an empty journal.
#[must_use]
pub fn replay<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Option<Replayed> {
    let mut at: Option<Replayed> = None;
    for entry in entries {
        let now =
            at.unwrap_or(Replayed { state: TxState::Accepted, slot: None, displaced: false, ending: false });
        at = Some(step(now, entry));
    }
    at
}

/// The state of a transaction after this entry.
#[must_use]
pub fn state_after(state: TxState, entry: &Entry) -> TxState {
    step(Replayed { state, slot: None, displaced: false, ending: false }, entry).state
}

fn step(now: Replayed, entry: &Entry) -> Replayed {
    let to = |state| Replayed { state, ..now };
    let ended = |state| Replayed { state, displaced: false, ..now };
    match entry {
        Entry::Accepted => to(TxState::Accepted),
        Entry::Simulated | Entry::Approved => to(TxState::Simulated),
        Entry::ApprovalAsked => to(TxState::AwaitingApproval),
        Entry::SlotReserved { slot } | Entry::BoundBack { slot } => Replayed { slot: Some(*slot), ..now },
        Entry::SlotReturned { .. } => Replayed { slot: None, ..now },
        Entry::Signed { slot, .. } => {
            let state = if now.state.is_waiting() { TxState::Signed } else { now.state };
            Replayed { state, slot: Some(*slot), ..now }
        }
        Entry::Broadcast { .. } => {
            to(if now.state == TxState::Signed { TxState::Broadcast } else { now.state })
        }
        Entry::Mined { .. } => Replayed { state: TxState::Mined, displaced: false, ..now },
        Entry::Reorged { .. } => to(TxState::Broadcast),
        Entry::EndingBegan { .. } => Replayed { ending: true, ..now },
        // Without stored bytes a new content begins anew.
        Entry::Replaced { .. } => to(if now.state.is_waiting() { TxState::Accepted } else { now.state }),
        Entry::Displaced { .. } => Replayed { displaced: true, ..now },
        Entry::Requeued { .. } => Replayed { state: TxState::Accepted, slot: None, displaced: false, ..now },
        Entry::Confirmed { .. } => ended(TxState::Confirmed),
        Entry::Reverted { .. } => ended(TxState::Reverted),
        Entry::Failed { .. } => ended(TxState::Failed),
        Entry::Cancelled { .. } => ended(TxState::Cancelled),
        Entry::Expired { .. } => ended(TxState::Expired),
        Entry::PrepareFailed { .. }
        | Entry::SendAnswered { .. }
        | Entry::AtCeiling { .. }
        | Entry::ReplaceDropped { .. }
        | Entry::EarlierWon { .. }
        | Entry::SpeedUpAsked { .. }
        | Entry::VersionApprovalAsked { .. }
        | Entry::VersionApproved { .. }
        | Entry::Held { .. }
        | Entry::Released
        | Entry::RecheckBegan { .. }
        | Entry::FinalReorged { .. }
        | Entry::LandedAgain { .. }
        | Entry::FinalLost { .. }
        | Entry::SingleWitness { .. }
        | Entry::LowBalance { .. }
        | Entry::BalanceRestored { .. }
        | Entry::LaneHeld { .. }
        | Entry::LaneResumed { .. }
        | Entry::LaneAdopted { .. }
        | Entry::CarriedOut { .. }
        | Entry::TakenAlike { .. }
        | Entry::TakenByOther { .. }
        | Entry::LanePaused { .. }
        | Entry::LaneDisabled { .. }
        | Entry::LaneFilled { .. }
        | Entry::LaneReset { .. }
        | Entry::AllCancelled { .. } => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that are given above and not in the list could not be subscribed to.
    #[test]
    fn every_event_is_in_the_list() {
        let source = include_str!("journal.rs");
        let given =
            source.lines().filter_map(|line| line.trim().split_once("=> Some(\"")?.1.strip_suffix("\"),"));
        let mut given: Vec<&str> = given.collect();
        let mut listed = EVENTS.to_vec();
        given.sort_unstable();
        listed.sort_unstable();
        assert_eq!(given, listed);
    }
}
