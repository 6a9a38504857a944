//! A transaction: what was asked, and how far it has come.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::attempt::Call;
use crate::request::{After, AskedFees, CallId, Payload, Request, Speed};
use crate::view::{BlockRef, Receipt};
use crate::{ContentVersion, LaneId, Millis, Price, QueueOrder, Slot, TxHash, TxId};

/// The states a caller sees, in the order of a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TxState {
    /// Stored; waiting for its slot.
    Accepted,
    /// The checks before signing have passed.
    Simulated,
    /// A person must say yes first.
    AwaitingApproval,
    /// Bound to a slot, with signed bytes stored.
    Signed,
    /// Some node said it has the bytes.
    Broadcast,
    /// In a block, not yet final.
    Mined,
    /// Final, and did what was asked.
    Confirmed,
    /// Final, and reverted.
    Reverted,
    /// Will not be done; the reason says why.
    Failed,
    /// Ended by the caller.
    Cancelled,
    /// Ended by its deadline.
    Expired,
}

impl TxState {
    /// All of them, in order.
    pub const ALL: [Self; 11] = [
        Self::Accepted,
        Self::Simulated,
        Self::AwaitingApproval,
        Self::Signed,
        Self::Broadcast,
        Self::Mined,
        Self::Confirmed,
        Self::Reverted,
        Self::Failed,
        Self::Cancelled,
        Self::Expired,
    ];

    /// The word in JSON, metrics and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Simulated => "simulated",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Signed => "signed",
            Self::Broadcast => "broadcast",
            Self::Mined => "mined",
            Self::Confirmed => "confirmed",
            Self::Reverted => "reverted",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// The state of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Never left again.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Confirmed | Self::Reverted | Self::Failed | Self::Cancelled | Self::Expired => true,
            Self::Accepted
            | Self::Simulated
            | Self::AwaitingApproval
            | Self::Signed
            | Self::Broadcast
            | Self::Mined => false,
        }
    }

    /// Before any bytes were stored.
    #[must_use]
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::Accepted | Self::Simulated | Self::AwaitingApproval)
    }
}

/// A stable word for why a transaction ended as it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonCode {
    /// The estimate says it would revert.
    WouldRevert,
    /// It was mined and reverted.
    Reverted,
    /// The account cannot pay, and the caller asked to fail then.
    InsufficientFunds,
    /// The chain can never take it (gas, size, type).
    Invalid,
    /// The key refused to sign it.
    SignatureRefused,
    /// Its slot was taken by a transaction that is not ours.
    Displaced,
    /// An approver said no.
    Rejected,
    /// Its deadline passed.
    DeadlinePassed,
    /// The caller cancelled it.
    CancelledByCaller,
    /// The transaction that it was to follow did not succeed.
    PredecessorFailed,
    /// A new content could not take the old one's place.
    NotReplaced,
    /// The store went back, and what it has forgotten did the same.
    MayHaveLanded,
    /// A person said that it is what the store had forgotten: it had landed already.
    LandedBefore,
    /// It would delegate the account to an address that the operator does not list any more.
    DelegationNotAllowed,
}

impl ReasonCode {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::WouldRevert,
        Self::Reverted,
        Self::InsufficientFunds,
        Self::Invalid,
        Self::SignatureRefused,
        Self::Displaced,
        Self::Rejected,
        Self::DeadlinePassed,
        Self::CancelledByCaller,
        Self::PredecessorFailed,
        Self::NotReplaced,
        Self::MayHaveLanded,
        Self::LandedBefore,
        Self::DelegationNotAllowed,
    ];

    /// The word in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WouldRevert => "would_revert",
            Self::Reverted => "reverted",
            Self::InsufficientFunds => "insufficient_funds",
            Self::Invalid => "invalid",
            Self::SignatureRefused => "signature_refused",
            Self::Displaced => "displaced",
            Self::Rejected => "rejected",
            Self::DeadlinePassed => "deadline_passed",
            Self::CancelledByCaller => "cancelled_by_caller",
            Self::PredecessorFailed => "predecessor_failed",
            Self::NotReplaced => "not_replaced",
            Self::MayHaveLanded => "may_have_landed",
            Self::LandedBefore => "landed_before",
            Self::DelegationNotAllowed => "delegation_not_allowed",
        }
    }
}

/// Why a transaction ended, for programs and for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    pub code: ReasonCode,
    pub text: String,
}

/// A transaction that is to end without its content: its slot is being filled by a no-op.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Cancel(Reason),
    Expire(Reason),
    Fail(Reason),
}

impl Ending {
    /// The state it ends in if the no-op wins.
    #[must_use]
    pub fn state(&self) -> TxState {
        match self {
            Self::Cancel(_) => TxState::Cancelled,
            Self::Expire(_) => TxState::Expired,
            Self::Fail(_) => TxState::Failed,
        }
    }

    #[must_use]
    pub fn reason(&self) -> &Reason {
        match self {
            Self::Cancel(reason) | Self::Expire(reason) | Self::Fail(reason) => reason,
        }
    }
}

/// What a content version does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a transaction has few contents, and most are payloads")]
pub enum Content {
    Payload(Payload),
    NoOp,
}

/// The one attempt of the slot that the chain took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Won {
    pub version: ContentVersion,
    pub hash: TxHash,
}

/// The effect of a transaction that took a slot of ours, beside our contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Did {
    /// The same as one of them.
    #[default]
    Same,
    /// Nothing, as a no-op of ours would: a newer copy of the store may have cancelled it.
    Nothing,
    /// Something else: a newer copy of the store may have replaced it.
    Other,
}

impl Did {
    fn is_same(&self) -> bool {
        *self == Self::Same
    }
}

/// A transaction that took the slot of one of ours, is no attempt that is known, and may be ours all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenAlike {
    pub hash: TxHash,
    pub block: BlockRef,
    /// The content that it does, where it does one.
    pub version: ContentVersion,
    #[serde(default, skip_serializing_if = "Did::is_same")]
    pub did: Did,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

/// Whose transaction took a slot, by the word of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// It was ours: what was asked for is done.
    Ours,
    /// It was somebody else's: what was asked for is still to be done, or fails, as its caller wants.
    Foreign,
}

/// What a caller changed of how a transaction is carried, after it was accepted. What is absent is as asked at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terms {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_fee_per_gas: Option<Price>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
}

impl Terms {
    fn is_unchanged(&self) -> bool {
        *self == Self::default()
    }

    /// What is given here counts, the rest stays.
    pub fn change(&mut self, to: Self) {
        self.speed = to.speed.or(self.speed);
        self.max_fee_per_gas = to.max_fee_per_gas.or(self.max_fee_per_gas);
        self.deadline = to.deadline.or(self.deadline);
    }
}

/// A caller's wish for a dearer attempt. It is stored, so that a crash does not lose it, and fulfilled by the next attempt
/// of the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hurry {
    /// The slot and its newest attempt when the wish came: a later one fulfils it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<(Slot, u32)>,
    /// What every attempt from now on offers at least, under the ceiling.
    pub fees: AskedFees,
}

/// The part of a transaction that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub state: TxState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// Contents after the first: version 2, 3, …
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    #[serde(default, skip_serializing_if = "Terms::is_unchanged")]
    pub terms: Terms,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hurry: Option<Hurry>,
    /// The newest content waits for a person's yes, while an older one is out in the slot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks_approval: bool,
    /// What it was to follow has failed, or it may have landed already: it waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Reason>,
    /// A person let it go on without what it was to follow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
    /// The slot that this store has forgotten and that did the same, where it waits for that reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten_as: Option<Slot>,
    /// Slots that this store has forgotten and that did the same, of which a person said that they are another payment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told_apart: Vec<Slot>,
    /// A person said yes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approved: bool,
    /// Its block was replaced and its caller wants it checked anew: a no-op is to take its slot first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rechecking: bool,
    /// The chain's count has passed the slot and no attempt of ours is known to have won it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub displaced: bool,
    /// What took its slot does the same: a person must say whose it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<Box<TakenAlike>>,
    /// The hash a caller should look for: the winner's, else the newest attempt's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<TxHash>,
    /// The first hash of all, once `hash` is or was another: callers were told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_hash: Option<TxHash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub won: Option<Won>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
    /// It became final by the word of one endpoint, where several are configured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub single_witness: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    pub updated_at: Millis,
}

impl Status {
    /// A transaction that was just stored.
    #[must_use]
    pub fn accepted(at: Millis) -> Self {
        Self {
            state: TxState::Accepted,
            slot: None,
            later: Vec::new(),
            ending: None,
            terms: Terms::default(),
            hurry: None,
            asks_approval: false,
            held: None,
            released: false,
            forgotten_as: None,
            told_apart: Vec::new(),
            approved: false,
            rechecking: false,
            displaced: false,
            taken: None,
            hash: None,
            first_hash: None,
            won: None,
            receipt: None,
            single_witness: false,
            reason: None,
            updated_at: at,
        }
    }

    /// From now on this is the hash to look for; none while nothing is signed for it.
    pub fn look_for(&mut self, hash: Option<TxHash>) {
        if self.hash != hash {
            self.first_hash = self.first_hash.or(self.hash);
        }
        self.hash = hash;
    }

    /// The hash of the first bytes that were ever stored for it. Who waits for a hash is told this one, however often it asks.
    #[must_use]
    pub fn told_hash(&self) -> Option<TxHash> {
        self.first_hash.or(self.hash)
    }

    /// It has ended, and no bytes were ever stored for it: nothing of it can land, and a call that is made again is a new one. One
    /// that may have landed before this store went back is not meant.
    #[must_use]
    pub fn ended_unsigned(&self) -> bool {
        self.state.is_terminal() && self.told_hash().is_none() && !self.may_have_landed()
    }

    /// It does the same as what this store has forgotten, and no person has said that it is another one.
    #[must_use]
    pub fn may_have_landed(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.code == ReasonCode::MayHaveLanded)
    }
}

/// A transaction as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    pub id: TxId,
    pub lane: LaneId,
    pub order: QueueOrder,
    pub request: Arc<Request>,
    pub status: Status,
}

impl Transaction {
    /// The newest content's version.
    #[must_use]
    pub fn version(&self) -> ContentVersion {
        let later = u32::try_from(self.status.later.len()).unwrap_or(u32::MAX);
        ContentVersion(ContentVersion::FIRST.0.saturating_add(later))
    }

    /// The call that it answers to, if its caller gave a nonce.
    #[must_use]
    pub fn call_id(&self) -> Option<&CallId> {
        self.request.call().filter(|_| !self.status.ended_unsigned())
    }

    /// The newest content is a no-op.
    #[must_use]
    pub fn is_no_op(&self) -> bool {
        matches!(self.status.later.last(), Some(Content::NoOp))
    }

    /// What one content version does.
    #[must_use]
    pub fn call_of(&self, version: ContentVersion) -> Call {
        let later = version.0.checked_sub(ContentVersion::FIRST.0 + 1).and_then(|n| usize::try_from(n).ok());
        match later.and_then(|n| self.status.later.get(n)) {
            Some(Content::NoOp) => Call::no_op(self.lane.signer),
            Some(Content::Payload(payload)) => Call::of(self.lane.signer, payload),
            None => Call::of(self.lane.signer, &self.request.payload),
        }
    }

    /// That content version is a no-op.
    #[must_use]
    pub fn is_no_op_at(&self, version: ContentVersion) -> bool {
        let later = version.0.checked_sub(ContentVersion::FIRST.0 + 1).and_then(|n| usize::try_from(n).ok());
        matches!(later.and_then(|n| self.status.later.get(n)), Some(Content::NoOp))
    }

    /// The newest payload that does what a caller asked.
    #[must_use]
    pub fn payload(&self) -> &Payload {
        let replaced = self.status.later.iter().rev().find_map(|content| match content {
            Content::Payload(payload) => Some(payload),
            Content::NoOp => None,
        });
        replaced.unwrap_or(&self.request.payload)
    }

    /// The version itself, or, where it is a no-op, the newest one before it that does what a caller asked.
    #[must_use]
    pub fn payload_version(&self, version: ContentVersion) -> ContentVersion {
        let first = ContentVersion::FIRST.0;
        let asked = (first..=version.0.min(self.version().0)).rev().map(ContentVersion);
        asked.into_iter().find(|version| !self.is_no_op_at(*version)).unwrap_or(ContentVersion::FIRST)
    }

    /// What a caller asked for in one version; a no-op stands for what was asked before it.
    #[must_use]
    pub fn payload_of(&self, version: ContentVersion) -> &Payload {
        let version = self.payload_version(version);
        let later = version.0.checked_sub(ContentVersion::FIRST.0 + 1).and_then(|n| usize::try_from(n).ok());
        match later.and_then(|n| self.status.later.get(n)) {
            Some(Content::Payload(payload)) => payload,
            Some(Content::NoOp) | None => &self.request.payload,
        }
    }

    /// Everything it was ever to do, the newest first: bytes of each may be out.
    pub fn payloads(&self) -> impl Iterator<Item = &Payload> {
        let later = self.status.later.iter().rev().filter_map(|content| match content {
            Content::Payload(payload) => Some(payload),
            Content::NoOp => None,
        });
        later.chain(std::iter::once(&self.request.payload))
    }

    /// How fast it should land.
    #[must_use]
    pub fn speed(&self) -> Speed {
        self.status.terms.speed.unwrap_or(self.request.options.speed)
    }

    /// The caller's own ceiling.
    #[must_use]
    pub fn max_fee_per_gas(&self) -> Option<Price> {
        self.status.terms.max_fee_per_gas.or(self.request.options.max_fee_per_gas)
    }

    /// Judged by block time.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        self.status.terms.deadline.or(self.request.options.deadline)
    }

    /// What it is to follow, unless a person let it go on without.
    #[must_use]
    pub fn after(&self) -> Option<&After> {
        self.request.options.after.as_ref().filter(|_| !self.status.released)
    }

    /// The price its caller asks for: the payload's, and what a speed-up put on top.
    #[must_use]
    pub fn asked_fees(&self) -> AskedFees {
        let payload = if self.is_no_op() { AskedFees::Market } else { self.payload().fees };
        self.status.hurry.map_or(payload, |hurry| payload.at_least(hurry.fees))
    }

    /// A caller asked for a dearer attempt than this one, the newest of its slot.
    #[must_use]
    pub fn is_hurried_over(&self, slot: Slot, newest: u32) -> bool {
        let over = self.status.hurry.and_then(|hurry| hurry.over);
        over.is_some_and(|(of, ordinal)| of == slot && newest <= ordinal)
    }

    /// The slot after its own is kept free for it: some content of it delegates the sender's own code.
    #[must_use]
    pub fn takes_two_slots(&self) -> bool {
        let later = self.status.later.iter().filter_map(|content| match content {
            Content::Payload(payload) => Some(payload),
            Content::NoOp => None,
        });
        std::iter::once(&self.request.payload).chain(later).any(Payload::authorizes_sender)
    }

    /// What the newest content does on chain.
    #[must_use]
    pub fn call(&self) -> Call {
        if self.is_no_op() {
            Call::no_op(self.lane.signer)
        } else {
            Call::of(self.lane.signer, self.payload())
        }
    }

    /// Waiting for its first bytes.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.status.slot.is_none() && self.status.state.is_waiting()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_serialises_as_its_name() {
        for code in ReasonCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.name());
        }
    }

    #[test]
    fn every_state_has_its_own_name_and_serialises_as_it() {
        for state in TxState::ALL {
            assert_eq!(TxState::from_name(state.name()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }
}
