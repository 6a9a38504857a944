//! Webhooks: events are carried to the addresses that callers named, signed, at least once, in order per transaction.
//!
//! ```text
//! journal ─► courier (one per endpoint) ─► queue: who may go now? ─► sender ─► receiver
//!    ▲           │ cursor, and a row for each event that failed
//!    │           ▼
//!  engine     records
//! ```
//!
//! The engine knows nothing of this: couriers read the journal in pages, as listeners do, and a receiver that is slow or
//! gone costs nobody else anything.
//!
//! | file | what |
//! |---|---|
//! | `endpoint` | what is stored of an endpoint, and which events it wants |
//! | `delivery` | what is stored of an event that failed |
//! | `secret` | an endpoint's secret, derived and never stored; signatures |
//! | `reach` | which addresses may be reached |
//! | `sender` | one try: a request, its limits, and what the answer means |
//! | `backoff` | when to try again |
//! | `time` | the time by which a courier waits |
//! | `queue` | which event may go now, and how far the cursor is; pure |
//! | `courier` | the loop of one endpoint |
//! | `desk` | which node carries which endpoint; starts couriers |

mod backoff;
mod courier;
mod delivery;
mod desk;
mod endpoint;
mod queue;
mod reach;
mod secret;
mod sender;
mod time;

use std::time::Duration;

use landfall_core::JournalSeq;

pub(crate) use delivery::{Delivery, DeliveryState, OrderOf, row_id, row_prefix};
pub(crate) use desk::{Desk, Level, MOST_ENDPOINTS};
pub(crate) use endpoint::{Endpoint, Filter, Keys, Progress, Stored, Switch};
pub(crate) use reach::host_only;
pub use secret::InstallationSecret;
pub(crate) use sender::{Message, without_words};

/// By this a receiver knows an event, however often it comes: `webhook-id`.
pub(crate) fn message_id(webhook: &str, seq: JournalSeq) -> String {
    format!("{}_{seq}", webhook.replacen("wh_", "msg_", 1))
}

/// How events are delivered.
#[derive(Debug, Clone)]
pub struct Webhooks {
    /// What all endpoints' secrets are derived from; none: webhooks cannot be used.
    pub secret: Option<InstallationSecret>,
    /// The variable that it comes from, for sentences.
    pub secret_env: String,
    /// Receivers in private networks and on this machine may be reached.
    pub allow_private: bool,
    /// Receivers on this machine may be reached.
    pub allow_loopback: bool,
    /// Receivers without TLS may be reached.
    pub allow_http: bool,
    /// How long a receiver may take to answer.
    pub timeout: Duration,
    /// Deliveries at once, per endpoint.
    pub at_once: usize,
    /// The wait after the first failure; it grows with every other one.
    pub retry_first: Duration,
    pub retry_longest: Duration,
    /// An event that failed for so long is given up; an endpoint that took nothing for so long is disabled.
    pub give_up_after: Duration,
    /// How many events of an endpoint may wait to be tried again.
    pub max_waiting: usize,
    /// How long an old secret is used beside its successor.
    pub rotation: Duration,
}

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            secret: None,
            secret_env: "LANDFALL_WEBHOOK_SECRET".to_owned(),
            allow_private: false,
            allow_loopback: false,
            allow_http: false,
            timeout: Duration::from_secs(15),
            at_once: 8,
            retry_first: Duration::from_secs(5),
            retry_longest: Duration::from_secs(3_600),
            give_up_after: Duration::from_secs(3 * 86_400),
            max_waiting: 10_000,
            rotation: Duration::from_secs(86_400),
        }
    }
}
