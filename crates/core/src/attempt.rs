//! Attempts: one signed byte string for a slot, and the draft it is made from.

use alloy_primitives::{Bytes, U256};
use serde::{Deserialize, Serialize};

use crate::fees::Fees;
use crate::journal::Entry;
use crate::outcome::SendReport;
use crate::request::{AccessItem, Authorization, Payload, SignedAuthorization};
use crate::{Account, ContentVersion, Gas, LaneId, Millis, Slot, TxHash, TxId, Wei};

/// What is to be done, without price and slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub from: Account,
    pub to: Option<Account>,
    pub value: Wei,
    pub data: Bytes,
    pub access_list: Vec<AccessItem>,
    pub authorization_list: Vec<Authorization>,
}

impl Call {
    /// What the payload asks for.
    #[must_use]
    pub fn of(from: Account, payload: &Payload) -> Self {
        Self {
            from,
            to: payload.to,
            value: payload.value,
            data: payload.data.clone(),
            access_list: payload.access_list.clone(),
            authorization_list: payload.authorization_list.clone(),
        }
    }

    /// The sender delegates its own code with it, which uses up the slot after the transaction's as well.
    #[must_use]
    pub fn authorizes_sender(&self) -> bool {
        self.authorization_list.iter().any(|item| item.signed.is_none())
    }

    /// Nothing, to oneself: it uses up a slot (E9).
    #[must_use]
    pub fn no_op(from: Account) -> Self {
        Self {
            from,
            to: Some(from),
            value: Wei(U256::ZERO),
            data: Bytes::new(),
            access_list: Vec::new(),
            authorization_list: Vec::new(),
        }
    }
}

/// Everything that is signed for one attempt. Made by `plan`, signed by the engine, and nothing until it comes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Tells drafts of one loaded lane apart, so that a late signature cannot be taken for another.
    pub serial: u64,
    pub lane: LaneId,
    pub slot: Slot,
    /// Absent: a no-op that fills a slot of nobody's.
    pub tx: Option<TxId>,
    pub version: ContentVersion,
    pub no_op: bool,
    pub call: Call,
    pub gas: Gas,
    pub fees: Fees,
}

impl Draft {
    /// With the sender's own authorization signed: for this chain, and for the count that it has once this transaction has
    /// begun.
    #[must_use]
    pub fn authorized(&self, r: U256, s: U256, y_parity: bool) -> Self {
        let mut draft = self.clone();
        for item in draft.call.authorization_list.iter_mut().filter(|item| item.signed.is_none()) {
            item.chain = item.chain.or(Some(self.lane.chain));
            item.signed = Some(SignedAuthorization { count: self.slot.next(), r, s, y_parity });
        }
        draft
    }
}

/// Signed bytes and the hash the chain will know them by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    pub raw: Bytes,
    pub hash: TxHash,
}

/// One signed byte string for a slot, as stored before its first send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub slot: Slot,
    /// 0 for the first attempt of the slot.
    pub ordinal: u32,
    pub tx: Option<TxId>,
    pub version: ContentVersion,
    pub no_op: bool,
    pub hash: TxHash,
    pub raw: Bytes,
    pub gas: Gas,
    pub fees: Fees,
    pub value: Wei,
    pub created_at: Millis,
    pub hints: SendHints,
}

impl Attempt {
    /// Fills in what the journal says of its first send, where nothing else was written of it: the same is not written twice
    /// for a transaction that lands at once.
    pub fn told_by<'a>(&mut self, journal: impl IntoIterator<Item = (Millis, &'a Entry)>) {
        if self.hints.sends > 0 {
            return;
        }
        for (at, entry) in journal {
            if let Entry::Broadcast { hash, report } = entry
                && *hash == self.hash
            {
                self.hints.answered(report.clone(), at);
            }
        }
    }
}

/// What is known of an attempt's sends. A hint: it may be lost in a crash, since the bytes are then sent again anyway.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendHints {
    pub sends: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_sent_at: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_sent_at: Option<Millis>,
    /// Some node said it has these bytes. Not a proof that it kept them.
    pub accepted: bool,
    /// What nodes answered, repeats counted (E18); the one that was given last is last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Tally>,
}

/// An answer and how often it was given: by one endpoint, of one class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// The newest of them.
    #[serde(flatten)]
    pub report: SendReport,
    pub count: u32,
    pub first_at: Millis,
    pub last_at: Millis,
}

/// An attempt remembers as many kinds of answers; the one that was not given for longest goes first.
const MOST_ANSWERS: usize = 16;

impl SendHints {
    /// The newest answer.
    #[must_use]
    pub fn last(&self) -> Option<&SendReport> {
        self.answers.last().map(|tally| &tally.report)
    }

    /// A node answered. True if it is the first of its class.
    pub fn answered(&mut self, report: SendReport, now: Millis) -> bool {
        self.sends = self.sends.saturating_add(1);
        self.first_sent_at.get_or_insert(now);
        self.last_sent_at = Some(now);
        self.accepted |= report.outcome.is_taken();
        let first = self.answers.iter().all(|tally| tally.report.outcome != report.outcome);
        let same = |tally: &Tally| {
            tally.report.outcome == report.outcome && tally.report.endpoint == report.endpoint
        };
        let before = self.answers.iter().position(same).map(|at| self.answers.remove(at));
        if self.answers.len() == MOST_ANSWERS {
            self.answers.remove(0);
        }
        self.answers.push(match before {
            Some(tally) => Tally { report, count: tally.count.saturating_add(1), last_at: now, ..tally },
            None => Tally { report, count: 1, first_at: now, last_at: now },
        });
        first
    }
}
