//! Questions of callers, passed on as they are, and bytes that they signed (`send`): to endpoints, with health, pace, places and
//! time of their own.
//!
//! Nothing here changes what the engine knows of its endpoints, and the engine waits for nothing here. The first endpoint whose
//! node looks at a question answers it, with a result or with its own error; one that does not know the method leaves it to
//! the next. Each key has a share of the places (`turns`).

mod endpoint;
mod reply;
mod send;
#[cfg(test)]
mod tests;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use landfall_core::ChainId;
use landfall_core::ports::chain::{AskError, Error, Room};
use landfall_core::ports::clock::Clock;
use serde_json::Value;
use tokio::time::Instant;

use self::endpoint::{CallersEndpoint, Little, Unsaid, Whose};
use self::reply::Said;
use self::turns::{NoTurn, Turns};
use super::config::{BuildError, Config};
use super::health::Standing;
use super::name::Name;
use super::pool::{Pool, link};
use super::transport::Link;

/// JSON-RPC's and EIP-1474's words for a method that is not there.
const NO_SUCH_METHOD: [i64; 2] = [-32601, -32004];
/// How often all endpoints are asked before a question whose answers were lost is given up.
const ROUNDS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(40);
/// The longest answer of one endpoint where every one is asked: a number, or an error with its data.
const LONGEST_OF_EACH: usize = 64 << 10;

/// The endpoints of a chain as callers use them.
pub(crate) struct Callers {
    chain: ChainId,
    endpoints: Vec<CallersEndpoint>,
    /// Looked at for which of its endpoints lag, never changed.
    engines: Arc<Pool>,
    turns: Turns,
    limit: Duration,
}

impl Callers {
    pub(crate) fn new(
        config: &Config,
        engines: &Arc<Pool>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, BuildError> {
        let limit = config.callers.answer_time;
        let urls = urls(config);
        let links = urls.iter().enumerate().map(|(at, url)| {
            let own = config.endpoints.iter().position(|other| other.trim() == url.trim());
            Ok((link(config, at, url, limit)?, own))
        });
        Ok(Self::over(config, engines, clock, links.collect::<Result<_, BuildError>>()?))
    }

    /// Over these ways to endpoints; beside each, which of the engine's endpoints is at the same address.
    pub(crate) fn over(
        config: &Config,
        engines: &Arc<Pool>,
        clock: &Arc<dyn Clock>,
        links: Vec<((Name, Link), Option<usize>)>,
    ) -> Self {
        let settings = &config.callers;
        let endpoint = |(link, own): ((Name, Link), Option<usize>)| {
            let own = own.and_then(|own| engines.all().get(own)).map(Arc::clone);
            CallersEndpoint::new(link, config.id, Arc::clone(clock), settings.requests_per_s, own)
        };
        Self {
            chain: config.id,
            endpoints: links.into_iter().map(endpoint).collect(),
            engines: Arc::clone(engines),
            turns: Turns::new(settings.at_once.max(1)),
            limit: settings.answer_time,
        }
    }

    /// Passes a question on; the JSON of its result as the node wrote it.
    pub(crate) async fn ask(
        &self,
        method: &str,
        params: &Value,
        room: &dyn Room,
    ) -> Result<String, AskError> {
        let until = Instant::now() + self.limit;
        let turn = self.turns.take(room.owner(), until).await;
        let _turn = turn.map_err(|no_turn| self.busy(room.owner(), no_turn))?;
        let mut pause = FIRST_PAUSE;
        let mut unanswered = Unanswered::default();
        for _ in 0..ROUNDS {
            unanswered.lost = false;
            for endpoint in self.by_health() {
                room.begin_anew();
                let answer = match endpoint.vet(until).await {
                    Ok(()) => endpoint.exchange(Whose::Callers, method, params, room, until).await,
                    Err(unsaid) => Err(unsaid),
                };
                match answer.map(|said| endpoint.cleaned(said)) {
                    Ok(Said::Result(result)) => return Ok(result),
                    Ok(Said::Error { code, message, data }) => {
                        let error = AskError::Node { code, message, data };
                        if !NO_SUCH_METHOD.contains(&code) {
                            return Err(error);
                        }
                        unanswered.said = Some(error);
                    }
                    Err(Unsaid::NoRoom(no_room)) => {
                        room.begin_anew();
                        return Err(no_room.into());
                    }
                    Err(unsaid) => unanswered.note(endpoint, unsaid),
                }
            }
            if unanswered.said.is_some() || !unanswered.lost || Instant::now() + pause >= until {
                break;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        room.begin_anew();
        Err(unanswered.into_error(self))
    }

    /// Passes a question on to every endpoint; the answer of each, in their order. Each has room of its own: one that answers at length
    /// takes none from the others.
    pub(crate) async fn ask_each(
        &self,
        method: &str,
        params: &Value,
        room: &dyn Room,
    ) -> Vec<Result<String, AskError>> {
        let until = Instant::now() + self.limit;
        let _turn = match self.turns.take(room.owner(), until).await {
            Ok(turn) => turn,
            Err(no_turn) => {
                return vec![Err(self.busy(room.owner(), no_turn)); self.endpoints.len()];
            }
        };
        let asking = self.endpoints.iter().map(|endpoint| async move {
            let own = Little::of(LONGEST_OF_EACH);
            let answer = match endpoint.vet(until).await {
                Ok(()) => endpoint.exchange(Whose::Callers, method, params, &own, until).await,
                Err(unsaid) => Err(unsaid),
            };
            match answer.map(|said| endpoint.cleaned(said)) {
                Ok(Said::Result(result)) => Ok(result),
                Ok(Said::Error { code, message, data }) => Err(AskError::Node { code, message, data }),
                // It answers, and says nothing that can be read.
                Err(Unsaid::NoRoom(no_room)) => Err(no_room.into()),
                Err(unsaid) => {
                    let text = format!("{}: {}", endpoint.name, unsaid.into_text());
                    Err(Error::Unreachable { chain: self.chain, doing: "answer a caller", text }.into())
                }
            }
        });
        join_all(asking).await
    }

    fn busy(&self, owner: &str, no_turn: NoTurn) -> AskError {
        let (turns, chain) = (&self.turns, self.chain);
        let full = |whose: &str, at_once: usize, most: &str, why: String| {
            AskError::Busy(format!(
                "chain {chain} has {at_once} questions of {whose} under way, which is the most ({most}), and {why}; this one was not \
                 asked: ask again later, or less at once"
            ))
        };
        match no_turn {
            NoTurn::Full => {
                let why = format!("{} more wait", turns.waiting());
                full("callers", turns.at_once(), "rpc.max_at_once", why)
            }
            NoTurn::FullOfOne => {
                let why = format!("{} more wait", turns.waiting_of(owner));
                let (whose, most) = match owner {
                    "" => ("callers", "rpc.max_at_once"),
                    _ => ("this API key", "a quarter of rpc.max_at_once"),
                };
                full(whose, turns.at_once_of(owner), most, why)
            }
            NoTurn::TooLong => {
                let why = format!("none ended within {} ms", self.limit.as_millis());
                full("callers", turns.at_once(), "rpc.max_at_once, a quarter of it for one API key", why)
            }
        }
    }

    /// Endpoints that may be asked, the healthiest first. Among equals the configured order counts.
    fn by_health(&self) -> Vec<&CallersEndpoint> {
        let lags = |endpoint: &CallersEndpoint| {
            endpoint.engines.as_ref().is_some_and(|engines| self.engines.lags(engines))
        };
        let mut ranked: Vec<_> = self
            .endpoints
            .iter()
            .map(|endpoint| (endpoint.rank(), lags(endpoint), endpoint))
            .filter(|((standing, _), _, _)| *standing != Standing::Resting)
            .collect();
        ranked.sort_by_key(|((standing, failures), lags, _)| (*standing, *lags, *failures));
        ranked.into_iter().map(|(_, _, endpoint)| endpoint).collect()
    }
}

/// The error that a caller gets instead of an answer.
#[derive(Default)]
struct Unanswered {
    /// A node's own error that was not the last word.
    said: Option<AskError>,
    why: Vec<String>,
    lost: bool,
}

impl Unanswered {
    fn note(&mut self, endpoint: &CallersEndpoint, unsaid: Unsaid) {
        let text = match unsaid {
            Unsaid::Lost(text) => {
                self.lost = true;
                text
            }
            Unsaid::Limited(text, said) => {
                if let Some(Said::Error { code, message, data }) = said.map(|said| endpoint.cleaned(said)) {
                    self.said.get_or_insert(AskError::Node { code, message, data });
                }
                text
            }
            Unsaid::Refused(text) => text,
            Unsaid::NoRoom(no_room) => no_room.text,
        };
        tracing::debug!(endpoint = %endpoint.name, why = %text, "endpoint gave a caller no answer");
        self.why.push(format!("{}: {text}", endpoint.name));
    }

    fn into_error(self, callers: &Callers) -> AskError {
        if let Some(said) = self.said {
            return said;
        }
        let text = if self.why.is_empty() {
            let all = callers.endpoints.iter();
            all.map(|endpoint| format!("{}: {}", endpoint.name, endpoint.trouble()))
                .collect::<Vec<_>>()
                .join("; ")
        } else {
            self.why.join("; ")
        };
        Error::Unreachable { chain: callers.chain, doing: "answer a caller", text }.into()
    }
}

/// Where callers' questions go. A WebSocket hands over whole messages, which cannot be measured while they are read, so it is
/// taken only where there is nothing else.
fn urls(config: &Config) -> Vec<String> {
    if !config.callers.endpoints.is_empty() {
        return config.callers.endpoints.clone();
    }
    let http = config.endpoints.iter().filter(|url| url.trim().starts_with("http"));
    let http: Vec<String> = http.cloned().collect();
    if http.is_empty() { config.endpoints.clone() } else { http }
}
