//! `/rpc/{chainId}`: JSON-RPC for unchanged clients, over HTTP and WebSocket.
//!
//! ```text
//! bytes ─► wire ─► dispatch ─┬─► send    eth_sendTransaction of managed accounts
//!                            ├─► raw     eth_sendRawTransaction, kept until it is final
//!                            ├─► look    heads, counts, receipts, look-ups: from one picture of the chain
//!                            ├─► calls   wallet_* (EIP-5792)
//!                            ├─► own     landfall_*
//!                            └─► pass    everything else that may be asked of the endpoints
//! ```
//!
//! It is part of the same server: the same port, keys, limits and problems (docs/decisions/0023). What a library sees here
//! must hold together, or it reports what is not so: that is `look`'s work.

mod calls;
mod dispatch;
mod error;
mod keeper;
mod look;
mod own;
mod params;
mod pass;
mod raw;
mod send;
mod socket;
mod subscribe;
mod underway;
pub mod wire;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use futures::stream::FuturesOrdered;
use landfall_core::ports::chain::Chain;
use landfall_core::{ChainId, RequestId};
use serde_json::Value;

pub(crate) use keeper::Keeper;
pub(crate) use socket::{Sockets, upgrade};
pub(crate) use underway::Underway;

use crate::access::Caller;
use crate::body;
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::serve::App;
use dispatch::Started;
use error::RpcError;
use wire::{Call, Incoming, Refusal};

/// Calls of one batch that are worked on at once.
const AT_ONCE: usize = 16;

/// Who asks, and of which chain.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) app: App,
    pub(crate) chain: ChainId,
    pub(crate) adapter: Arc<dyn Chain>,
    pub(crate) caller: Caller,
    /// The `Idempotency-Key` of a message with one call.
    pub(crate) key: Option<RequestId>,
}

impl Asker {
    pub(crate) fn new(app: App, chain: &str, caller: Caller) -> Result<Self, Problem> {
        let unknown = || Problem::new(Code::NotFound, format!("chain {chain} is not configured here"));
        let id = params::quantity(chain).or_else(|| chain.parse().ok()).map(ChainId).ok_or_else(unknown)?;
        let adapter =
            app.handle.parts().chains.get(&id).map(|parts| parts.chain.clone()).ok_or_else(unknown)?;
        Ok(Self { app, chain: id, adapter, caller, key: None })
    }
}

/// One message over HTTP.
pub(crate) async fn post(
    State(app): State<App>,
    Path(chain): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let mut asker = Asker::new(app, &chain, caller)?;
    let body = body.map_err(|rejection| {
        Problem::new(Code::InvalidJson, format!("the body could not be read: {rejection}"))
    })?;
    // A web page's form cannot send this type unasked.
    body::is_json(&headers)?;
    let key = body::idempotency_key(&headers)?;
    let key = key.map(|key| RequestId::parse(&key)).transpose();
    asker.key = key.map_err(|error| Problem::new(Code::BadRequestId, error.to_string()))?;
    let incoming = wire::decode(&body, asker.app.limits.batch);
    Ok(match answer(&asker, incoming).await {
        Some(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        // Nobody waits for an answer.
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// The answer to a message; none where there is nobody to answer.
pub(crate) async fn answer(asker: &Asker, incoming: Incoming) -> Option<String> {
    match incoming {
        Incoming::One(one) => finish(asker, begin(asker, one).await).await,
        Incoming::Batch(_) if asker.key.is_some() => {
            let text = "a batch has no Idempotency-Key: it would be one key for several calls";
            Some(wire::encode(
                &Value::Null,
                &Err(RpcError::coded(error::INVALID_PARAMS, text, "bad_request_id")),
            ))
        }
        Incoming::Batch(calls) => {
            // The first was counted with the message.
            if let Err(problem) = asker.app.keyring.charge(&asker.caller, calls.len().saturating_sub(1)) {
                return Some(wire::encode(&Value::Null, &Err(problem.into())));
            }
            let mut answers = Vec::with_capacity(calls.len());
            let mut running = FuturesOrdered::new();
            for call in calls {
                // Transactions are admitted in the order of the batch; what follows runs side by side.
                let begun = begin(asker, call).await;
                running.push_back(finish(asker, begun));
                if running.len() >= AT_ONCE {
                    answers.extend(running.next().await.flatten());
                }
            }
            while let Some(answer) = running.next().await {
                answers.extend(answer);
            }
            (!answers.is_empty()).then(|| wire::encode_batch(&answers))
        }
    }
}

/// A call under way, and whom to answer.
struct Begun {
    id: Option<Value>,
    started: Result<Started, RpcError>,
}

async fn begin(asker: &Asker, call: Result<Call, Refusal>) -> Begun {
    match call {
        Ok(Call { id, method, params }) => {
            Begun { id, started: dispatch::start(asker, &method, params).await }
        }
        Err(Refusal { id, error }) => Begun { id: Some(id), started: Err(error) },
    }
}

async fn finish(asker: &Asker, begun: Begun) -> Option<String> {
    let answer = match begun.started {
        Ok(started) => dispatch::finish(asker, started).await,
        Err(error) => Err(error),
    };
    if let Err(error) = &answer {
        tracing::debug!(chain = %asker.chain, code = error.code, message = %error.message, "answered with an error");
    }
    begun.id.map(|id| wire::encode(&id, &answer))
}
