//! What sending bytes can lead to: a closed set of classes, one of which is "not known" (E17, rule 3).
//!
//! Texts are turned into classes by the chain adapter's table; what each class means for a slot is decided in
//! `lane/broadcast.rs`. Answers of several endpoints are merged here.

use serde::{Deserialize, Serialize};

/// The class of one answer to one send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendOutcome {
    /// The node took the bytes. Not a proof of admission.
    Accepted,
    /// The node has these very bytes already.
    AlreadyKnown,
    /// The slot is used up, as that node sees it: look at the receipts of all attempts.
    NonceTooLow,
    /// A lower slot is missing at that node.
    NonceTooHigh,
    /// Another attempt of the slot is in the pool and this one is not dear enough to replace it.
    ReplacementUnderpriced,
    /// Too cheap to be admitted.
    Underpriced,
    /// The fee cap is under the base fee, and the node refuses such.
    FeeBelowBase,
    /// The account cannot pay.
    InsufficientFunds,
    /// The node allows no more of this account: too many in flight, or another family of transactions is.
    AccountLimit,
    /// The node's pool is full.
    PoolFull,
    /// These bytes can never be valid on this chain.
    Invalid,
    /// The node ran it and it reverted.
    Reverted,
    /// This node refuses by its own settings; another may not.
    NodePolicy,
    /// The endpoint is the problem (rate limit, authorisation, syncing): no verdict on the transaction.
    Endpoint,
    /// Valid, but can never be included (prover limits).
    NeverIncludable,
    /// A timeout, a reset, a 5xx, a text nobody knows: the bytes may or may not be in the pool.
    Unknown,
}

impl SendOutcome {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Accepted,
        Self::AlreadyKnown,
        Self::NonceTooLow,
        Self::NonceTooHigh,
        Self::ReplacementUnderpriced,
        Self::Underpriced,
        Self::FeeBelowBase,
        Self::InsufficientFunds,
        Self::AccountLimit,
        Self::PoolFull,
        Self::Invalid,
        Self::Reverted,
        Self::NodePolicy,
        Self::Endpoint,
        Self::NeverIncludable,
        Self::Unknown,
    ];

    /// A stable word for metrics, journals and answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::AlreadyKnown => "already_known",
            Self::NonceTooLow => "nonce_too_low",
            Self::NonceTooHigh => "nonce_too_high",
            Self::ReplacementUnderpriced => "replacement_underpriced",
            Self::Underpriced => "underpriced",
            Self::FeeBelowBase => "fee_below_base",
            Self::InsufficientFunds => "insufficient_funds",
            Self::AccountLimit => "account_limit",
            Self::PoolFull => "pool_full",
            Self::Invalid => "invalid",
            Self::Reverted => "reverted",
            Self::NodePolicy => "node_policy",
            Self::Endpoint => "endpoint",
            Self::NeverIncludable => "never_includable",
            Self::Unknown => "unknown",
        }
    }

    /// A node holds the bytes, by its own word.
    #[must_use]
    pub fn is_taken(self) -> bool {
        matches!(self, Self::Accepted | Self::AlreadyKnown)
    }

    /// How much an answer weighs when several endpoints were asked; the lowest wins.
    ///
    /// A node that has the bytes outweighs all others. A verdict that would end the transaction counts only if no
    /// endpoint left the question open, since an open one may have admitted it.
    fn weight(self) -> u8 {
        match self {
            Self::Accepted => 0,
            Self::AlreadyKnown => 1,
            Self::NonceTooLow => 2,
            Self::ReplacementUnderpriced => 3,
            Self::Underpriced => 4,
            Self::FeeBelowBase => 5,
            Self::InsufficientFunds => 6,
            Self::AccountLimit => 7,
            Self::PoolFull => 8,
            Self::NonceTooHigh => 9,
            Self::NodePolicy => 10,
            Self::Unknown => 11,
            Self::NeverIncludable => 12,
            Self::Reverted => 13,
            Self::Invalid => 14,
            Self::Endpoint => 15,
        }
    }
}

/// One answer to one send, as it is kept with the attempt (E18).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendReport {
    pub outcome: SendOutcome,
    /// The endpoint's name: its URL without credentials.
    pub endpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    pub latency_ms: u64,
}

impl SendReport {
    /// Nobody said anything.
    #[must_use]
    pub fn unheard() -> Self {
        let (endpoint, text) = ("none".to_owned(), Some("nothing was reported".to_owned()));
        Self { outcome: SendOutcome::Unknown, endpoint, code: None, text, latency_ms: 0 }
    }
}

/// The one answer that counts among those of several endpoints.
#[must_use]
pub fn merge(reports: Vec<SendReport>) -> Option<SendReport> {
    reports.into_iter().min_by_key(|report| report.outcome.weight())
}

/// The same for somebody who acts on a no: it counts only if no endpoint left open whether it has the bytes.
#[must_use]
pub fn merge_for_caller(reports: Vec<SendReport>) -> Option<SendReport> {
    let is_open = reports.iter().any(|report| report.outcome == SendOutcome::Unknown);
    let counts =
        |report: &SendReport| !is_open || report.outcome.is_taken() || report.outcome == SendOutcome::Unknown;
    merge(reports.into_iter().filter(counts).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use SendOutcome::*;

    fn merged(outcomes: &[SendOutcome]) -> SendOutcome {
        merge(reports(outcomes)).unwrap().outcome
    }

    fn merged_for_caller(outcomes: &[SendOutcome]) -> SendOutcome {
        merge_for_caller(reports(outcomes)).unwrap().outcome
    }

    fn reports(outcomes: &[SendOutcome]) -> Vec<SendReport> {
        outcomes
            .iter()
            .map(|&outcome| SendReport {
                outcome,
                endpoint: "a".into(),
                code: None,
                text: None,
                latency_ms: 1,
            })
            .collect()
    }

    #[test]
    fn any_node_that_has_the_bytes_wins_the_merge() {
        assert_eq!(merged(&[Accepted, AlreadyKnown]), Accepted);
        assert_eq!(merged(&[NonceTooLow, Accepted]), Accepted);
        assert_eq!(merged(&[Unknown, AlreadyKnown]), AlreadyKnown);
        assert_eq!(merged(&[Unknown, Unknown]), Unknown);
        assert_eq!(merge(Vec::new()), None);
    }

    #[test]
    fn a_fatal_verdict_needs_every_endpoint_that_looked() {
        assert_eq!(merged(&[Invalid, Unknown]), Unknown);
        assert_eq!(merged(&[Reverted, Unknown]), Unknown);
        assert_eq!(merged(&[Invalid, Endpoint]), Invalid);
    }

    #[test]
    fn a_caller_is_told_no_only_if_no_endpoint_may_have_the_bytes() {
        for no in SendOutcome::ALL {
            let said = if no.is_taken() { no } else { Unknown };
            assert_eq!(merged_for_caller(&[Unknown, no]), said);
            assert_eq!(merged_for_caller(&[no, Endpoint]), no, "one that was not asked leaves nothing open");
        }
        assert_eq!(merged_for_caller(&[Accepted, Unknown, Invalid]), Accepted);
        assert_eq!(merge_for_caller(Vec::new()), None);
    }
}
