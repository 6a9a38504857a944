//! A bad provider: JSON-RPC over HTTP that forwards to a node and lies, forgets and repeats on the way.
//!
//! The node behind it is real and unharmed; only the way to it is bad. Two of these with different seeds before one
//! node are two endpoints that disagree. `rates` says what goes wrong and counts it, `serve` does it to whole requests,
//! `rewrite` to the calls in them.

mod rates;
mod rewrite;
mod serve;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, time::Instant};

use crate::{devchain::StartError, rng::Rng};

pub use rates::{ProxyCounts, Rates};

/// A node that takes longer is given up; callers have long done so.
const UPSTREAM_LIMIT: Duration = Duration::from_secs(10);

/// A running proxy; it stops when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _stop: watch::Sender<bool>,
}

impl Proxy {
    /// Stands before the node at `upstream`, on a free port of this machine.
    pub async fn start(upstream: &str, rates: Rates, seed: u64) -> Result<Self, StartError> {
        let wanted = SocketAddr::from(([127, 0, 0, 1], 0));
        let failed = |source| StartError { address: wanted, source };
        let listener = TcpListener::bind(wanted).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            upstream: Upstream::new(upstream),
            rates,
            dice: Mutex::new(Dice { rng: Rng::new(seed), limited_until: None }),
            counts: Mutex::default(),
        });
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(serve::serve(listener, Arc::clone(&shared), stopped));
        Ok(Self { address, shared, _stop: stop })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it has done so far.
    pub fn counts(&self) -> ProxyCounts {
        *self.shared.counts()
    }
}

#[derive(Debug)]
struct Shared {
    upstream: Upstream,
    rates: Rates,
    dice: Mutex<Dice>,
    counts: Mutex<ProxyCounts>,
}

#[derive(Debug)]
struct Dice {
    rng: Rng,
    /// A burst of 429 lasts until then.
    limited_until: Option<Instant>,
}

impl Shared {
    // A panic under these locks is a bug elsewhere; the data is still the best there is.
    fn counts(&self) -> MutexGuard<'_, ProxyCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dice(&self) -> MutexGuard<'_, Dice> {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn chance(&self, probability: f64) -> bool {
        self.dice().rng.chance(probability)
    }

    /// From 0 up to `most`.
    fn up_to(&self, most: u64) -> u64 {
        self.dice().rng.below(usize::try_from(most).unwrap_or(usize::MAX).saturating_add(1)) as u64
    }
}

/// A node, asked without faults.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    http: reqwest::Client,
    url: String,
}

impl Upstream {
    pub(crate) fn new(url: &str) -> Self {
        // The client wants a TLS provider even where it speaks plain HTTP; one that is installed already is as good.
        rustls::crypto::ring::default_provider().install_default().ok();
        let client = reqwest::Client::builder().no_proxy().timeout(UPSTREAM_LIMIT).build();
        Self { http: client.unwrap_or_default(), url: url.to_owned() }
    }

    /// The answer to a request or to a batch of them; none if there was none.
    pub(crate) async fn ask(&self, body: &Value) -> Option<Value> {
        self.http.post(&self.url).json(body).send().await.ok()?.json().await.ok()
    }

    /// The result of one call; none if there was none, or an error.
    pub(crate) async fn call(&self, method: &str, params: Value) -> Option<Value> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.ask(&body).await?.get_mut("result").map(Value::take)
    }

    pub(crate) async fn head(&self) -> Option<u64> {
        number(&self.call("eth_blockNumber", json!([])).await?)
    }
}

/// A number as JSON-RPC writes it.
pub(crate) fn number(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}
