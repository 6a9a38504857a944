//! Bytes that callers signed: to every endpoint that may be asked, at once. What the nodes say is classified for the caller's
//! verdict, and changes nothing else. A caller acts on a no, so it is told one only if no endpoint may have the bytes.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use landfall_core::attempt::Sealed;
use landfall_core::outcome::{SendOutcome, SendReport, merge_for_caller};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::endpoint::{CallersEndpoint, Little, Unsaid, Whose};
use super::reply::Said;
use super::{Callers, NO_SUCH_METHOD};

/// The longest answer to a send that is read.
const LONGEST_ANSWER: usize = 64 << 10;

impl Callers {
    /// Sends in the owner's turn. Once some node has the bytes, the others are waited for a little only.
    pub(crate) async fn send(&self, raw: &Sealed, owner: &str) -> SendReport {
        let until = Instant::now() + self.limit;
        let _turn = match self.turns.take(owner, until).await {
            Ok(turn) => turn,
            Err(no_turn) => return not_sent("none".to_owned(), self.busy(owner, no_turn).to_string()),
        };
        let params = json!([raw.raw]);
        let mut sending: FuturesUnordered<_> =
            self.by_health().into_iter().map(|endpoint| self.to_one(endpoint, raw, &params, until)).collect();
        let mut reports: Vec<SendReport> = Vec::new();
        loop {
            let said = if reports.iter().any(|report| report.outcome.is_taken()) {
                tokio::time::timeout(self.engines.straggler_grace, sending.next()).await.ok().flatten()
            } else {
                sending.next().await
            };
            let Some(report) = said else { break };
            reports.push(report);
        }
        if reports.len() == self.endpoints.len() && reports.iter().all(lacks_the_method) {
            // Nobody here will ever send it.
            reports.iter_mut().for_each(|report| report.outcome = SendOutcome::NodePolicy);
        }
        merge_for_caller(reports).unwrap_or_else(|| {
            let all =
                self.endpoints.iter().map(|endpoint| format!("{}: {}", endpoint.name, endpoint.trouble()));
            not_sent("none".to_owned(), all.collect::<Vec<_>>().join("; "))
        })
    }

    async fn to_one(
        &self,
        endpoint: &CallersEndpoint,
        raw: &Sealed,
        params: &Value,
        until: Instant,
    ) -> SendReport {
        let name = endpoint.name.to_string();
        if let Err(unsaid) = endpoint.vet(until).await {
            return not_sent(name, unsaid.into_text());
        }
        let started = self.engines.clock.now();
        let room = Little::of(LONGEST_ANSWER);
        let answer = endpoint.exchange(Whose::Callers, "eth_sendRawTransaction", params, &room, until).await;
        let latency = self.engines.clock.now().since(started);
        let latency_ms = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
        let is_limited = matches!(answer, Err(Unsaid::Limited(..)));
        let (outcome, code, text) = self.verdict(endpoint, raw, answer);
        if matches!(outcome, SendOutcome::Endpoint | SendOutcome::Unknown)
            && !is_limited
            && endpoint.is_news(outcome, code)
        {
            let (chain, why) = (self.chain, text.as_deref().unwrap_or_default());
            tracing::warn!(%chain, endpoint = %endpoint.name, why, "an endpoint does not say that it takes callers' transactions; they are kept and sent again");
        }
        SendReport { outcome, endpoint: name, code, text, latency_ms }
    }

    /// The meaning of an endpoint's answer for whoever signed the bytes.
    fn verdict(
        &self,
        endpoint: &CallersEndpoint,
        raw: &Sealed,
        answer: Result<Said, Unsaid>,
    ) -> (SendOutcome, Option<i64>, Option<String>) {
        match answer {
            Ok(Said::Result(result)) => match serde_json::from_str::<String>(&result) {
                Ok(named) => {
                    if named.parse() != Ok(raw.hash.0) {
                        let answer = endpoint.name.clean(&named);
                        tracing::warn!(endpoint = %endpoint.name, ours = %raw.hash, %answer, "node names another hash for a caller's bytes");
                    }
                    (SendOutcome::Accepted, None, None)
                }
                Err(_) => {
                    let text = format!("it answered {}", endpoint.name.clean(&result));
                    (SendOutcome::Unknown, None, Some(text))
                }
            },
            Ok(Said::Error { code, message, .. }) => {
                let outcome = self.engines.table.classify(Some(code), &message).of_send();
                let lacks = outcome == SendOutcome::Unknown && NO_SUCH_METHOD.contains(&code);
                let outcome = if lacks { SendOutcome::Endpoint } else { outcome };
                (outcome, Some(code), Some(endpoint.name.clean(&message)))
            }
            Err(Unsaid::Limited(text, _) | Unsaid::Refused(text)) => {
                (SendOutcome::Endpoint, None, Some(text))
            }
            Err(unsaid @ (Unsaid::Lost(_) | Unsaid::NoRoom(_))) => {
                (SendOutcome::Unknown, None, Some(unsaid.into_text()))
            }
        }
    }
}

/// The endpoint takes no transactions at all.
fn lacks_the_method(report: &SendReport) -> bool {
    report.outcome == SendOutcome::Endpoint && report.code.is_some_and(|code| NO_SUCH_METHOD.contains(&code))
}

/// Not a byte was sent.
fn not_sent(endpoint: String, text: String) -> SendReport {
    SendReport { outcome: SendOutcome::Endpoint, endpoint, code: None, text: Some(text), latency_ms: 0 }
}
