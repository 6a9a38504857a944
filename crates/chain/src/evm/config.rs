//! What an EVM chain is built from.

use std::time::Duration;

use landfall_core::{ChainId, Price};

use crate::spec::{DataFeeKind, Spec};

/// One chain and how to reach it.
#[derive(Clone)]
pub struct Config {
    /// The chain's EIP-155 id: an endpoint that reports another is not used.
    pub id: ChainId,
    /// `http`, `https`, `ws` or `wss` URLs, the preferred one first.
    pub endpoints: Vec<String>,
    /// How long to wait between looks at the head where no endpoint announces heads by itself.
    pub poll_interval: Duration,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// How long one request may take, connection included.
    pub request_timeout: Duration,
    /// How long slower endpoints are waited for once one has answered what all were asked.
    pub straggler_grace: Duration,
    /// An endpoint that is more blocks than this behind the best one is asked last.
    pub max_lag: u64,
    /// For how long a head seen once forbids going back to an older one at another endpoint.
    pub head_memory: Duration,
    /// How many requests a second each endpoint may get, in the order of the endpoints; the last counts for the rest.
    /// None, or 0: as many as there are.
    pub requests_per_s: Vec<u32>,
    /// What the chain asks of prices.
    pub pricing: Pricing,
    /// How callers' questions are passed on.
    pub callers: CallersConfig,
}

/// How callers' questions are passed on: beside everything else, and with limits of their own.
#[derive(Debug, Clone)]
pub struct CallersConfig {
    /// Where they go; none: to the chain's endpoints, over HTTP where there is one that speaks it.
    pub endpoints: Vec<String>,
    /// How many a second each endpoint may get; 0: as many as there are.
    pub requests_per_s: u32,
    /// How many may be under way at once; four times as many more may wait.
    pub at_once: usize,
    /// How long one may take, its wait included.
    pub answer_time: Duration,
}

impl Default for CallersConfig {
    fn default() -> Self {
        Self { endpoints: Vec::new(), requests_per_s: 0, at_once: 64, answer_time: Duration::from_secs(10) }
    }
}

/// How a chain wants to be paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pricing {
    /// It takes EIP-1559 transactions; if not, one price is quoted even where blocks have a base fee.
    pub dynamic: bool,
    /// Tips matter.
    pub tips: bool,
    /// No smaller tip is quoted.
    pub min_tip: Price,
    /// No smaller price, base fee and tip together, is quoted.
    pub min_price: Price,
    pub data_fee: DataFeeKind,
}

impl Default for Pricing {
    fn default() -> Self {
        Self {
            dynamic: true,
            tips: true,
            min_tip: Price(1),
            min_price: Price(1),
            data_fee: DataFeeKind::None,
        }
    }
}

impl From<&Spec> for Pricing {
    fn from(spec: &Spec) -> Self {
        Self {
            dynamic: spec.tx_types.contains(&2),
            tips: spec.tips,
            min_tip: Price(spec.min_tip_wei.into()),
            min_price: Price(spec.min_price_wei.into()),
            data_fee: spec.data_fee,
        }
    }
}

impl Config {
    /// The defaults for everything but id and endpoints.
    #[must_use]
    pub fn new(id: ChainId, endpoints: Vec<String>) -> Self {
        Self {
            id,
            endpoints,
            poll_interval: Duration::from_millis(500),
            connect_timeout: Duration::from_secs(3),
            request_timeout: Duration::from_secs(10),
            straggler_grace: Duration::from_millis(300),
            max_lag: 3,
            head_memory: Duration::from_secs(60),
            requests_per_s: Vec::new(),
            pricing: Pricing::default(),
            callers: CallersConfig::default(),
        }
    }
}

/// Why a chain could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("chain {0} has no endpoint")]
    NoEndpoint(ChainId),
    #[error("endpoint {at} of chain {chain} is not a URL: {why}")]
    BadUrl { chain: ChainId, at: usize, why: String },
    #[error("endpoint {name} of chain {chain}: {scheme} is not spoken here; use http, https, ws or wss")]
    BadScheme { chain: ChainId, name: String, scheme: String },
    #[error("the HTTP client for endpoint {name} of chain {chain} could not be made: {why}")]
    Client { chain: ChainId, name: String, why: String },
    #[error("the table of node errors cannot be read: {0}")]
    Table(String),
}
