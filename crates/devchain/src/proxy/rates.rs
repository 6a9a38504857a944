//! What goes wrong on the way to a node, how often, and how often it did.

use serde::Serialize;

/// Probabilities from 0 to 1. Those of the first group are drawn for each HTTP request, the others for each call to
/// which they can apply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// The node acts, then the connection closes without an answer.
    pub lose_reply: f64,
    /// The connection closes before the node hears of it.
    pub lose_request: f64,
    /// The node acts, but nothing is said for longer than anybody waits.
    pub hang: f64,
    /// A time begins in which everything is answered 429 with `Retry-After`.
    pub limit: f64,
    /// 502, 503 or 504 with a page in HTML; the node acts in half of these.
    pub bad_gateway: f64,
    /// The node acts, and the answer breaks off in the middle.
    pub truncate: f64,
    /// The request or its answer is late, so that later ones overtake it.
    pub delay: f64,

    /// Receipts that exist are null or missing from their block.
    pub null_receipts: f64,
    /// The answer is of a node that is behind.
    pub stale: f64,
    /// How many blocks behind, at most.
    pub stale_blocks: u64,
    /// A send reaches the node a second time, some time later.
    pub duplicate: f64,
    /// A send is answered with its hash and goes nowhere.
    pub swallow: f64,
}

/// How often each fault took effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyCounts {
    /// HTTP requests that came in, whatever became of them.
    pub requests: u64,
    /// Calls in them that are sends.
    pub sends: u64,
    pub lost_replies: u64,
    pub lost_requests: u64,
    pub hung: u64,
    pub limited: u64,
    pub bad_gateways: u64,
    pub truncated: u64,
    pub delayed: u64,
    pub null_receipts: u64,
    pub stale: u64,
    pub duplicated: u64,
    pub swallowed: u64,
}

impl ProxyCounts {
    /// All that went wrong.
    pub fn faults(&self) -> u64 {
        self.each().iter().map(|(_, count)| count).sum()
    }

    /// Each fault in words.
    pub fn each(&self) -> [(&'static str, u64); 11] {
        [
            ("replies lost after the node had acted", self.lost_replies),
            ("requests lost", self.lost_requests),
            ("replies held back until nobody waited", self.hung),
            ("answers 429", self.limited),
            ("answers 502, 503 or 504 in HTML", self.bad_gateways),
            ("answers broken off", self.truncated),
            ("requests or replies late", self.delayed),
            ("receipts withheld", self.null_receipts),
            ("answers from blocks ago", self.stale),
            ("sends delivered twice", self.duplicated),
            ("sends swallowed", self.swallowed),
        ]
    }
}

impl std::ops::Add for ProxyCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            sends: self.sends + other.sends,
            lost_replies: self.lost_replies + other.lost_replies,
            lost_requests: self.lost_requests + other.lost_requests,
            hung: self.hung + other.hung,
            limited: self.limited + other.limited,
            bad_gateways: self.bad_gateways + other.bad_gateways,
            truncated: self.truncated + other.truncated,
            delayed: self.delayed + other.delayed,
            null_receipts: self.null_receipts + other.null_receipts,
            stale: self.stale + other.stale,
            duplicated: self.duplicated + other.duplicated,
            swallowed: self.swallowed + other.swallowed,
        }
    }
}
