//! `/rpc/{chainId}`: JSON-RPC for unchanged clients, over HTTP and WebSocket.
//!
//! ```text
//! bytes ─► wire ─► dispatch ─┬─► send    eth_sendTransaction of managed accounts
//!                            ├─► raw     eth_sendRawTransaction, kept until it is final
//!                            ├─► look    heads, counts, receipts, look-ups: from one picture of the chain
//!                            ├─► calls   wallet_* (EIP-5792)
//!                            ├─► own     landfall_*
//!                            └─► pass    what else may be asked of the endpoints (allow), and how much of it (room)
//! ```
//!
//! It is part of the same server: the same port, keys, limits and problems (docs/decisions/0023). What a library sees here
//! must hold together, or it reports what is not so: that is `look`'s work.

mod allow;
mod answered;
mod calls;
mod calls_kept;
mod dispatch;
mod errand;
mod error;
mod first_send;
mod keeper;
mod look;
pub mod methods;
mod note;
mod own;
mod params;
mod pass;
mod quota;
mod raw;
mod room;
mod send;
mod socket;
mod subscribe;
mod underway;
pub mod wire;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use futures::stream::FuturesOrdered;
use landfall_core::ports::chain::Chain;
use landfall_core::{ChainId, RequestId};
use serde_json::Value;

pub use allow::{Allow, READS};
pub(crate) use answered::Answered;
pub(crate) use calls_kept::CallsKept;
pub(crate) use keeper::Keeper;
pub use quota::RawQuota;
pub use room::Budget;
pub(crate) use room::{Answers, LARGE, MessageRoom};
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

/// Settings of the door.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub allow: Allow,
    pub budget: Budget,
    pub raw: RawQuota,
}

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
    /// For what nodes answer to one message.
    pub(crate) room: Arc<MessageRoom>,
}

impl Asker {
    pub(crate) fn new(app: App, chain: &str, caller: Caller) -> Result<Self, Problem> {
        let unknown = || Problem::new(Code::NotFound, format!("chain {chain} is not configured here"));
        let id = params::quantity(chain).or_else(|| chain.parse().ok()).map(ChainId).ok_or_else(unknown)?;
        // To a key of other chains it is as one that is not configured.
        if !caller.sees_chain(id) {
            return Err(unknown());
        }
        let adapter =
            app.handle.parts().chains.get(&id).map(|parts| parts.chain.clone()).ok_or_else(unknown)?;
        let room = app.answers.message(caller.key.as_ref());
        Ok(Self { app, chain: id, adapter, caller, key: None, room })
    }

    /// The same asker with another message.
    pub(crate) fn again(&self) -> Self {
        Self { room: self.app.answers.message(self.caller.key.as_ref()), ..self.clone() }
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
    let key = key.map(|key| RequestId::chosen(&key)).transpose();
    asker.key = key.map_err(|error| Problem::new(Code::BadRequestId, error.to_string()))?;
    let incoming = wire::decode(&body, asker.app.limits.batch);
    Ok(match answer(&asker, incoming).await {
        Some(answered) => answered.into_response(),
        // Nobody waits for an answer.
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// The answer to a message; none where there is nobody to answer.
pub(crate) async fn answer(asker: &Asker, incoming: Incoming) -> Option<Answered> {
    let room = Arc::clone(&asker.room);
    match incoming {
        Incoming::One(one) => {
            let answer = finish(asker, begin(asker, one).await).await?;
            Some(Answered::one(answer, room))
        }
        Incoming::Batch(_) if asker.key.is_some() => {
            let text = "a batch has no Idempotency-Key: it would be one key for several calls";
            let error = RpcError::coded(error::INVALID_PARAMS, text, "bad_request_id");
            Some(Answered::one(wire::Answer { id: Value::Null, said: Err(error) }, room))
        }
        Incoming::Batch(calls) => {
            // The first was counted with the message.
            if let Err(problem) = asker.app.keyring.charge(&asker.caller, calls.len().saturating_sub(1)) {
                let error = problem.into();
                asker.refused("batch", &error);
                return Some(Answered::one(wire::Answer { id: Value::Null, said: Err(error) }, room));
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
            (!answers.is_empty()).then(|| Answered::batch(answers, room))
        }
    }
}

/// A call under way, and whom to answer.
struct Begun {
    id: Option<Value>,
    method: String,
    started: Result<Started, RpcError>,
}

async fn begin(asker: &Asker, call: Result<Call, Refusal>) -> Begun {
    match call {
        Ok(Call { id, method, params }) => {
            let started = dispatch::start(asker, &method, params).await;
            Begun { id, method, started }
        }
        Err(Refusal { id, error }) => Begun { id: Some(id), method: String::new(), started: Err(error) },
    }
}

async fn finish(asker: &Asker, begun: Begun) -> Option<wire::Answer> {
    let said = match begun.started {
        Ok(started) => dispatch::finish(asker, started).await,
        Err(error) => Err(error),
    };
    if let Err(error) = &said {
        asker.refused(&begun.method, error);
        tracing::debug!(chain = %asker.chain, code = error.code, message = %error.message, "answered with an error");
    }
    begun.id.map(|id| wire::Answer { id, said })
}
