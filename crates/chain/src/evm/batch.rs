//! Many questions at once: in batches where the endpoint takes them, one by one where it does not.
//!
//! However it goes, there is one answer for each question, in the order asked.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use alloy_json_rpc::{ErrorPayload, Id, RequestPacket, Response, ResponsePacket, ResponsePayload};
use futures::StreamExt;
use serde_json::Value;

use super::endpoint::{Endpoint, no_answer, too_late};
use super::rpc::{Answer, Ask, Failure};

/// What a batch is cut down to at an endpoint that refuses large ones.
const SMALL_BATCH: usize = 10;
/// The most that one batch may weigh, in bytes: nodes refuse bodies of a few megabytes, and a refused batch would
/// be refused again. One question goes out whatever it weighs.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// How many single questions are under way at once at an endpoint without batches.
const SINGLES_AT_ONCE: usize = 8;

/// JSON-RPC's own codes for what is not a request at all, which a batch is to an endpoint that knows none.
const NOT_A_REQUEST: [i64; 4] = [-32700, -32600, -32601, -32602];

enum BatchFailure {
    NotSupported(String),
    NotThisTime(String),
    Whole(Failure),
}

/// Cuts questions into batches that a node takes.
fn chunks(asks: &[Ask], most: usize) -> Vec<&[Ask]> {
    let mut chunks = Vec::new();
    let mut rest = asks;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fitting = rest
            .iter()
            .take(most)
            .take_while(|ask| {
                bytes += weight(&ask.params);
                bytes <= MAX_BATCH_BYTES
            })
            .count();
        let (chunk, after) = rest.split_at(fitting.max(1));
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

/// About how many bytes a value takes as JSON.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 3,
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + 2,
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + 4 + weight(value)).sum(),
    }
}

fn mentions_batch(text: &str) -> bool {
    text.to_lowercase().contains("batch")
}

impl Endpoint {
    /// Asks many questions, in batches where the endpoint takes them. One answer for each, in the order asked.
    pub(crate) async fn ask_all(&self, asks: &[Ask]) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(asks.len());
        let most = self.quirks.max_batch.load(Ordering::Relaxed).min(self.most_at_once());
        for chunk in chunks(asks, most) {
            let got = match chunk {
                [one] => vec![self.ask(one).await],
                many => self.ask_chunk(many).await,
            };
            // Whatever broke all of this chunk would break the next as well: no use in asking.
            let broken =
                got.iter().all(|answer| matches!(answer, Err(Failure::Lost(_) | Failure::TurnedAway { .. })));
            answers.extend(got);
            if let (true, Some(Err(failure))) = (broken, answers.last().cloned()) {
                answers.resize_with(asks.len(), || Err(failure.clone()));
                break;
            }
        }
        answers
    }

    async fn ask_chunk(&self, asks: &[Ask]) -> Vec<Answer> {
        if self.quirks.no_batches.load(Ordering::Relaxed) {
            return self.ask_singly(asks).await;
        }
        match self.ask_batch(asks).await {
            Ok(answers) => answers,
            Err(BatchFailure::NotSupported(text)) if asks.len() > SMALL_BATCH => {
                tracing::info!(endpoint = %self.name, %text, most = SMALL_BATCH, "endpoint refused a batch; sending smaller ones from now on");
                self.quirks.max_batch.store(SMALL_BATCH, Ordering::Relaxed);
                let mut answers = Vec::with_capacity(asks.len());
                for smaller in asks.chunks(SMALL_BATCH) {
                    answers.extend(Box::pin(self.ask_chunk(smaller)).await);
                }
                answers
            }
            Err(BatchFailure::NotSupported(text)) => {
                tracing::info!(endpoint = %self.name, %text, "endpoint takes no batches; asking one by one from now on");
                self.quirks.no_batches.store(true, Ordering::Relaxed);
                self.ask_singly(asks).await
            }
            Err(BatchFailure::NotThisTime(text)) => {
                tracing::debug!(endpoint = %self.name, %text, "a batch was refused; asking one by one");
                self.ask_singly(asks).await
            }
            Err(BatchFailure::Whole(failure)) => vec![Err(failure); asks.len()],
        }
    }

    async fn ask_singly(&self, asks: &[Ask]) -> Vec<Answer> {
        let singles: Vec<_> = asks.iter().map(|ask| self.ask(ask)).collect();
        let singles = futures::stream::iter(singles).buffered(SINGLES_AT_ONCE).collect();
        let limit = self.limit.saturating_mul(3);
        tokio::time::timeout(limit, singles).await.unwrap_or_else(|_| vec![Err(too_late(limit)); asks.len()])
    }

    async fn ask_batch(&self, asks: &[Ask]) -> Result<Vec<Answer>, BatchFailure> {
        let requests = asks
            .iter()
            .map(|ask| self.request(ask))
            .collect::<Result<Vec<_>, _>>()
            .map_err(BatchFailure::Whole)?;
        let ids: Vec<Id> = requests.iter().map(|request| request.id().clone()).collect();
        let packet = match self.exchange(RequestPacket::Batch(requests)).await {
            Ok(packet) => packet,
            Err(Failure::Lost(text)) if text.starts_with("HTTP 4") && mentions_batch(&text) => {
                return Err(BatchFailure::NotSupported(text));
            }
            Err(failure) => return Err(BatchFailure::Whole(failure)),
        };
        let mut by_id: HashMap<Id, Response> = match packet {
            ResponsePacket::Batch(answers) => match answers.as_slice() {
                [Response { payload: ResponsePayload::Failure(error), .. }]
                    if mentions_batch(&error.message) =>
                {
                    return Err(self.whole(error));
                }
                _ => answers.into_iter().map(|answer| (answer.id.clone(), answer)).collect(),
            },
            ResponsePacket::Single(Response { payload: ResponsePayload::Failure(error), .. }) => {
                return Err(self.whole(&error));
            }
            ResponsePacket::Single(Response { payload: ResponsePayload::Success(_), .. }) => {
                return Err(BatchFailure::NotSupported("one answer for a batch".to_owned()));
            }
        };
        Ok(ids
            .into_iter()
            .map(|id| by_id.remove(&id).map_or_else(|| Err(no_answer()), |answer| self.judge(answer)))
            .collect())
    }

    /// One error for a whole batch: the endpoint's trouble, or it does not take batches, or not this one.
    fn whole(&self, error: &ErrorPayload) -> BatchFailure {
        match self.failure(error) {
            failure @ Failure::TurnedAway { .. } => {
                self.note_failure(&failure);
                BatchFailure::Whole(failure)
            }
            failure @ (Failure::Lost(_) | Failure::Refused(_) | Failure::Unreadable(_)) => {
                let text = failure.to_string();
                if mentions_batch(&text) || NOT_A_REQUEST.contains(&error.code) {
                    BatchFailure::NotSupported(text)
                } else {
                    BatchFailure::NotThisTime(text)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::abilities::MAX_BATCH;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn every_question_is_in_one_batch_in_order_and_no_batch_is_too_large(
            sizes in prop::collection::vec(prop_oneof![4 => 0usize..200, 1 => 0usize..1_500_000], 0..150),
        ) {
            let asks: Vec<Ask> = sizes.iter().map(|&size| Ask::new("x", json!(["a".repeat(size)]))).collect();
            let chunks = chunks(&asks, MAX_BATCH);
            let joined: Vec<usize> =
                chunks.iter().flat_map(|chunk| chunk.iter().map(|ask| weight(&ask.params))).collect();
            prop_assert_eq!(joined, asks.iter().map(|ask| weight(&ask.params)).collect::<Vec<_>>());
            for chunk in chunks {
                let bytes: usize = chunk.iter().map(|ask| weight(&ask.params)).sum();
                prop_assert!(chunk.len() == 1 || (chunk.len() <= MAX_BATCH && bytes <= MAX_BATCH_BYTES));
            }
        }
    }
}
