//! The endpoints of one chain: asked in order of health, one after the other, until one answers.
//!
//! A question that changes nothing may be asked again: where all answers were lost or came from nodes that are behind,
//! there is another round, for as long as one request may take.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use landfall_core::ChainId;
use landfall_core::ports::chain::{EndpointHealth, Error};
use landfall_core::ports::clock::Clock;
use landfall_core::view::BlockRef;
use reqwest::Url;
use tokio::time::Instant;

use super::classify::{Table, Trouble};
use super::config::{BuildError, Config};
use super::counts;
use super::endpoint::{Best, Endpoint};
use super::fees;
use super::health::{HeadDoubt, Standing};
use super::name::Name;
use super::planted::{self, Planted};
use super::rpc::Failure;
use super::transport::Link;

/// How often all endpoints are asked before a question is given up.
const ROUNDS: u32 = 3;
/// The pause before the second round; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(40);

/// The endpoints of a chain.
pub(crate) struct Pool {
    chain: ChainId,
    endpoints: Vec<Arc<Endpoint>>,
    /// Texts of nodes and their meaning.
    pub(crate) table: Arc<Table>,
    max_lag: u64,
    /// No new round is begun after this time.
    patience: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) straggler_grace: Duration,
    /// Doubts about the heads of each endpoint, in the order of the endpoints.
    doubts: Mutex<Vec<HeadDoubt>>,
    pub(super) agreed_fees: fees::Agreed,
    /// Accounts whose count, and whose balance, two endpoints have said lately.
    pub(super) heard_counts: counts::Heard,
    pub(super) heard_balances: counts::Heard,
}

/// Counts the rounds of one question.
pub(crate) struct Rounds {
    made: u32,
    until: Option<Instant>,
}

impl Rounds {
    /// Waits for the next round; false if there is none: nothing was lost, or it has taken long enough.
    pub(crate) async fn another(&mut self, failures: &[(Arc<Endpoint>, Failure)]) -> bool {
        let passing = |failure: &Failure| match failure {
            Failure::Lost(_) => true,
            Failure::TurnedAway { trouble, .. } => *trouble == Trouble::Behind,
            Failure::Refused(_) | Failure::Unreadable(_) => false,
        };
        self.made += 1;
        let pause = FIRST_PAUSE.saturating_mul(1 << (self.made - 1).min(8));
        let in_time = self.until.is_some_and(|until| Instant::now() + pause < until);
        let again = self.made < ROUNDS && in_time && failures.iter().any(|(_, failure)| passing(failure));
        if again {
            tokio::time::sleep(pause).await;
        }
        again
    }
}

impl Pool {
    pub(crate) fn new(config: &Config, clock: Arc<dyn Clock>) -> Result<Self, BuildError> {
        if config.endpoints.is_empty() {
            return Err(BuildError::NoEndpoint(config.id));
        }
        let links = config
            .endpoints
            .iter()
            .enumerate()
            .map(|(at, url)| link(config, at, url, config.request_timeout));
        Self::over(config, clock, links.collect::<Result<_, _>>()?)
    }

    /// The pool over these ways to its endpoints, in the configured order.
    pub(crate) fn over(
        config: &Config,
        clock: Arc<dyn Clock>,
        links: Vec<(Name, Link)>,
    ) -> Result<Self, BuildError> {
        let table = Arc::new(Table::load().map_err(|error| BuildError::Table(error.to_string()))?);
        let endpoint = |(at, (name, link)): (usize, (Name, Link))| {
            let (table, clock) = (Arc::clone(&table), Arc::clone(&clock));
            let rate = config.requests_per_s.get(at).or(config.requests_per_s.last()).copied().unwrap_or(0);
            Arc::new(Endpoint::new(name, link, config.id, table, clock, config.request_timeout, rate))
        };
        let endpoints: Vec<_> = links.into_iter().enumerate().map(endpoint).collect();
        let doubts = endpoints.iter().map(|_| HeadDoubt::default()).collect();
        Ok(Self {
            chain: config.id,
            endpoints,
            table,
            max_lag: config.max_lag,
            patience: config.request_timeout,
            clock,
            straggler_grace: config.straggler_grace,
            doubts: Mutex::new(doubts),
            agreed_fees: fees::Agreed::default(),
            heard_counts: counts::Heard::default(),
            heard_balances: counts::Heard::default(),
        })
    }

    pub(crate) fn chain(&self) -> ChainId {
        self.chain
    }

    pub(crate) fn all(&self) -> &[Arc<Endpoint>] {
        &self.endpoints
    }

    pub(crate) fn report(&self) -> Vec<EndpointHealth> {
        let doubts = self.doubts();
        let report = |(endpoint, doubt): (&Arc<Endpoint>, &HeadDoubt)| {
            let report = endpoint.report();
            match doubt.trouble() {
                Some(trouble) => {
                    let trouble = report.trouble.unwrap_or_else(|| trouble.to_owned());
                    EndpointHealth { usable: false, trouble: Some(trouble), ..report }
                }
                None => report,
            }
        };
        self.endpoints.iter().zip(doubts.iter()).map(report).collect()
    }

    fn doubts(&self) -> MutexGuard<'_, Vec<HeadDoubt>> {
        // Plain data: a panic elsewhere leaves it readable.
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does this with the doubts about one endpoint.
    pub(crate) fn with_doubt<T>(&self, at: usize, act: impl FnOnce(&mut HeadDoubt) -> T) -> Option<T> {
        self.doubts().get_mut(at).map(act)
    }

    /// Its word about the head does not count. Where no other endpoint's does, all do.
    pub(crate) fn is_aside(&self, at: usize) -> bool {
        let doubts = self.doubts();
        doubts.get(at).is_some_and(HeadDoubt::is_aside) && !doubts.iter().all(HeadDoubt::is_aside)
    }

    /// The place of an endpoint in the configuration.
    pub(crate) fn place(&self, endpoint: &Endpoint) -> Option<usize> {
        self.endpoints.iter().position(|other| std::ptr::eq(Arc::as_ptr(other), endpoint))
    }

    /// The block in whose place an endpoint has shown another one: nothing is asked of it until it shows this one. Where no other
    /// endpoint's word counts, its does too.
    pub(crate) fn elsewhere(&self, at: usize) -> Option<BlockRef> {
        self.with_doubt(at, |doubt| doubt.must_show()).flatten().filter(|_| self.is_aside(at))
    }

    /// An endpoint does not serve the chain with this block.
    pub(crate) fn set_aside(&self, at: usize, block: BlockRef) {
        let Some(endpoint) = self.endpoints.get(at) else { return };
        // What it has shown is no word on this chain.
        endpoint.shown().forget();
        if self.with_doubt(at, |doubt| doubt.is_elsewhere(block, Instant::now())) == Some(true) {
            tracing::error!(
                chain = %self.chain, endpoint = %endpoint.name, block = block.number, hash = %block.hash,
                "this endpoint serves another chain: it does not show the block that others show, and that was final. It is not used \
                 until it does; take it out of the configuration"
            );
        }
    }

    fn is_set_aside(&self, endpoint: &Endpoint) -> bool {
        self.place(endpoint).is_some_and(|at| self.is_aside(at))
    }

    /// Blocks below one that this endpoint shows, the head or one on the way down from it, could not be read. True if its word is set
    /// aside now.
    pub(crate) fn doubt(&self, at: usize, head: u64) -> bool {
        let Some(endpoint) = self.endpoints.get(at) else { return false };
        let struck = |doubt: &mut HeadDoubt| (doubt.strike(head, Instant::now()), doubt.is_aside());
        let (is_new, is_aside) = self.with_doubt(at, struck).unwrap_or_default();
        if is_new {
            tracing::warn!(
                chain = %self.chain, endpoint = %endpoint.name, head,
                "blocks below those that this endpoint shows cannot be read: its head does not count until they can"
            );
        }
        is_aside
    }

    /// A head of this endpoint was handed on, and nothing below it was missing.
    pub(crate) fn followed(&self, at: usize) {
        let was_aside = self.with_doubt(at, |doubt| {
            doubt.followed();
            doubt.is_aside()
        });
        if was_aside == Some(true) {
            self.acquit(at);
        }
    }

    /// The head that this endpoint shows is one.
    pub(crate) fn acquit(&self, at: usize) {
        let Some(endpoint) = self.endpoints.get(at) else { return };
        self.with_doubt(at, HeadDoubt::acquit);
        tracing::info!(chain = %self.chain, endpoint = %endpoint.name, "what this endpoint shows counts again");
    }

    /// Those that may be asked, the healthiest first. Among equals the configured order counts.
    pub(crate) fn by_health(&self) -> Vec<Arc<Endpoint>> {
        let best = self.best();
        let mut ranked: Vec<_> = self
            .endpoints
            .iter()
            .enumerate()
            .filter(|(at, _)| self.elsewhere(*at).is_none())
            .map(|(_, endpoint)| ((self.is_set_aside(endpoint), endpoint.rank(best)), endpoint))
            .filter(|((_, rank), _)| rank.standing != Standing::Resting)
            .collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        if planted::has(Planted::NoSecondEndpoint) {
            ranked.truncate(1);
        }
        ranked.into_iter().map(|(_, endpoint)| Arc::clone(endpoint)).collect()
    }

    /// The newest that any endpoint has shown whose word counts.
    fn best(&self) -> Best {
        let believed = || self.endpoints.iter().filter(|endpoint| !self.is_set_aside(endpoint));
        Best {
            head: believed().filter_map(|endpoint| endpoint.head()).max(),
            finalized: believed().filter_map(|endpoint| endpoint.finalized()).max(),
            max_lag: self.max_lag,
        }
    }

    /// It is too far behind the others to say that something is not there.
    pub(crate) fn lags(&self, endpoint: &Endpoint) -> bool {
        endpoint.lags(self.best()) || self.is_set_aside(endpoint)
    }

    /// Another endpoint has shown a newer block than this one, or this one's blocks are not believed.
    pub(crate) fn is_behind(&self, endpoint: &Endpoint) -> bool {
        endpoint.head() < self.best().head || self.is_set_aside(endpoint)
    }

    /// Those that bytes are sent to: all that are ready, or all that may be asked where none is.
    pub(crate) fn for_sending(&self) -> Vec<Arc<Endpoint>> {
        let candidates = self.by_health();
        let ready: Vec<_> =
            candidates.iter().filter(|endpoint| endpoint.standing() == Standing::Ready).cloned().collect();
        if ready.is_empty() { candidates } else { ready }
    }

    /// Asks one endpoint after the other until one answers, in rounds.
    pub(crate) async fn first<T, F, Fut>(&self, doing: &'static str, ask: F) -> Result<T, Error>
    where
        F: Fn(Arc<Endpoint>) -> Fut + Send,
        Fut: Future<Output = Result<T, Failure>> + Send,
        T: Send,
    {
        let mut rounds = self.rounds();
        loop {
            let mut failures = Vec::new();
            for endpoint in self.by_health() {
                let answer = match endpoint.vet().await {
                    Ok(()) => ask(Arc::clone(&endpoint)).await,
                    Err(failure) => Err(failure),
                };
                match answer {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => {
                        tracing::debug!(endpoint = %endpoint.name, %failure, doing, "endpoint gave no answer");
                        failures.push((endpoint, failure));
                    }
                }
            }
            if !rounds.another(&failures).await {
                return Err(self.none(doing, &failures));
            }
        }
    }

    /// The rounds of a question that begins now.
    pub(crate) fn rounds(&self) -> Rounds {
        Rounds { made: 0, until: Instant::now().checked_add(self.patience) }
    }

    /// The error of a question that no endpoint answered.
    pub(crate) fn none(&self, doing: &'static str, failures: &[(Arc<Endpoint>, Failure)]) -> Error {
        let unreadable = !failures.is_empty()
            && failures.iter().all(|(_, failure)| matches!(failure, Failure::Unreadable(_)));
        let text = if failures.is_empty() {
            let doubts = self.doubts();
            let trouble = |(e, doubt): (&Arc<Endpoint>, &HeadDoubt)| {
                let trouble = doubt.trouble().map_or_else(|| e.trouble(), str::to_owned);
                format!("{}: {trouble}", e.name)
            };
            self.endpoints.iter().zip(doubts.iter()).map(trouble).collect::<Vec<_>>().join("; ")
        } else {
            failures
                .iter()
                .map(|(e, failure)| format!("{}: {failure}", e.name))
                .collect::<Vec<_>>()
                .join("; ")
        };
        if unreadable {
            Error::Unreadable { chain: self.chain, doing, text }
        } else {
            Error::Unreachable { chain: self.chain, doing, text }
        }
    }
}

/// The way to an endpoint, on which one request may take so long.
pub(super) fn link(
    config: &Config,
    at: usize,
    url: &str,
    limit: Duration,
) -> Result<(Name, Link), BuildError> {
    let chain = config.id;
    let url =
        Url::parse(url.trim()).map_err(|error| BuildError::BadUrl { chain, at, why: error.to_string() })?;
    let name = Name::of(&url);
    let link = match url.scheme() {
        "http" | "https" => Link::http(url, config.connect_timeout, limit)
            .map_err(|error| BuildError::Client { chain, name: name.to_string(), why: error.to_string() })?,
        "ws" | "wss" => Link::ws(&url, config.connect_timeout),
        other => {
            return Err(BuildError::BadScheme { chain, name: name.to_string(), scheme: other.to_owned() });
        }
    };
    Ok((name, link))
}
