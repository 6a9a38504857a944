//! Sending: every byte string to every usable endpoint at once, and one report for each.
//!
//! Nothing here decides what an answer means for a slot. A batch that fails as a whole, an answer that is missing, a
//! text that nobody knows: all of these are "unknown", for each byte string they touch.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use landfall_core::attempt::Sealed;
use landfall_core::outcome::{SendOutcome, SendReport, merge};
use serde_json::json;

use super::endpoint::Endpoint;
use super::outbox;
use super::pool::Pool;
use super::rpc::{Answer, Ask, Failure};

pub(super) async fn all(pool: &Arc<Pool>, raw: &[Sealed]) -> Vec<SendReport> {
    if raw.is_empty() {
        return Vec::new();
    }
    let endpoints = pool.for_sending();
    if endpoints.is_empty() {
        return vec![nobody(pool); raw.len()];
    }
    let bytes: Arc<[Sealed]> = raw.into();
    // Tasks of their own: the bytes still go out to a slow endpoint when the answers of the others have to do.
    let mut sending: FuturesUnordered<_> = endpoints
        .into_iter()
        .map(|endpoint| tokio::spawn(to_one(Arc::clone(pool), endpoint, Arc::clone(&bytes))))
        .collect();
    let mut answers: Vec<Vec<SendReport>> = vec![Vec::new(); raw.len()];
    while let Some(done) = next(&mut sending, pool, &answers).await {
        match done {
            Ok(reports) => {
                for (of_one, report) in answers.iter_mut().zip(reports) {
                    of_one.push(report);
                }
            }
            Err(error) => tracing::error!(%error, "a send task ended early"),
        }
    }
    answers.into_iter().map(|of_one| merge(of_one).unwrap_or_else(|| nobody(pool))).collect()
}

type Reports = Result<Vec<SendReport>, tokio::task::JoinError>;

/// The next endpoint's answers. Once some node has everything, the others are waited for a little only.
async fn next(
    sending: &mut FuturesUnordered<tokio::task::JoinHandle<Vec<SendReport>>>,
    pool: &Pool,
    answers: &[Vec<SendReport>],
) -> Option<Reports> {
    let taken = answers.iter().all(|of_one| of_one.iter().any(|report| report.outcome.is_taken()));
    if taken {
        tokio::time::timeout(pool.straggler_grace, sending.next()).await.ok().flatten()
    } else {
        sending.next().await
    }
}

/// No endpoint was asked, so nothing was sent.
fn nobody(pool: &Pool) -> SendReport {
    let error = pool.none("send", &[]);
    SendReport {
        outcome: SendOutcome::Endpoint,
        endpoint: "none".to_owned(),
        code: None,
        text: Some(error.to_string()),
        latency_ms: 0,
    }
}

/// Everything to one endpoint, in order, batch by batch.
async fn to_one(pool: Arc<Pool>, endpoint: Arc<Endpoint>, raw: Arc<[Sealed]>) -> Vec<SendReport> {
    let report = |outcome, code, text, latency_ms| {
        endpoint.judged(outcome);
        SendReport { outcome, endpoint: endpoint.name.to_string(), code, text, latency_ms }
    };
    if let Err(failure) = endpoint.vet().await {
        // Not a byte was sent to it.
        let text = failure.to_string();
        return raw.iter().map(|_| report(SendOutcome::Endpoint, None, Some(text.clone()), 0)).collect();
    }
    let asks: Vec<_> =
        raw.iter().map(|sealed| Ask::new("eth_sendRawTransaction", json!([sealed.raw]))).collect();
    let started = pool.clock.now();
    let answers = outbox::ask(&endpoint, asks).await;
    let latency = pool.clock.now().since(started);
    let latency_ms = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
    raw.iter()
        .zip(answers)
        .map(|(sealed, answer)| {
            let (outcome, code, text) = judge(&endpoint, sealed, answer);
            report(outcome, code, text, latency_ms)
        })
        .collect()
}

/// What one answer to one send means.
fn judge(endpoint: &Endpoint, sealed: &Sealed, answer: Answer) -> (SendOutcome, Option<i64>, Option<String>) {
    match answer {
        Ok(raw) => match serde_json::from_str::<String>(raw.get()) {
            Ok(named) => {
                check_hash(endpoint, sealed, &named);
                (SendOutcome::Accepted, None, None)
            }
            Err(_) => {
                (SendOutcome::Unknown, None, Some(format!("it answered {}", endpoint.name.clean(raw.get()))))
            }
        },
        Err(Failure::Refused(error)) => (error.verdict.of_send(), Some(error.code), Some(error.message)),
        Err(Failure::TurnedAway { code, text, .. }) => (SendOutcome::Endpoint, code, Some(text)),
        Err(Failure::Lost(text) | Failure::Unreadable(text)) => (SendOutcome::Unknown, None, Some(text)),
    }
}

/// A node that names another hash still took the bytes; but someone should know.
fn check_hash(endpoint: &Endpoint, sealed: &Sealed, named: &str) {
    if named.parse() != Ok(sealed.hash.0) {
        let answer = endpoint.name.clean(named);
        tracing::warn!(endpoint = %endpoint.name, ours = %sealed.hash, %answer, "node names another hash for our bytes");
    }
}
