//! What an EVM chain is built from.

use std::time::Duration;

use landfall_core::ChainId;

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
