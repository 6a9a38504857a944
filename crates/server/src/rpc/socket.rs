//! JSON-RPC over a WebSocket: the same calls, answered as they are done, and subscriptions.
//!
//! A socket outlives its HTTP connection's place, so there is a bound of its own. One whose caller says nothing for long, or
//! does not read what it is sent, is closed.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::HeaderMap;
use axum::response::Response;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::error::RpcError;
use super::subscribe::Subscriptions;
use super::wire::{self, Call, Incoming};
use super::{Answered, Asker, answer};
use crate::access::{Caller, Place, Quota};
use crate::doors::{Charge, Line};
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::serve::App;

/// Sockets at once.
const MOST: usize = 256;
/// Messages of one socket that are worked on at once; more wait in the system's buffers.
const AT_ONCE: usize = 32;
const PING_EVERY: Duration = Duration::from_secs(20);
/// One that has not been heard for so long is closed.
const SILENT_LIMIT: Duration = Duration::from_secs(60);
/// So long may a caller take to read what it is sent.
const SEND_LIMIT: Duration = Duration::from_secs(10);
/// The largest message, if bodies may be larger: it is in memory before it can be measured.
const LARGEST: usize = 2 << 20;

/// The sockets of a server.
pub(crate) struct Sockets {
    free: Arc<Semaphore>,
    stopping: watch::Sender<bool>,
}

impl Sockets {
    pub(crate) fn new() -> Self {
        Self { free: Arc::new(Semaphore::new(MOST)), stopping: watch::channel(false).0 }
    }

    /// The server stops: all are closed.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub(crate) async fn stopped(&self) {
        // The sender is here, so this ends only when it says so.
        self.stopping.subscribe().wait_for(|stopping| *stopping).await.ok();
    }
}

pub(crate) async fn upgrade(
    State(app): State<App>,
    Path(chain): Path<String>,
    caller: Caller,
    line: Option<Extension<Arc<Line>>>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let asker = Asker::new(app, &chain, caller)?;
    let upgrade = upgrade.map_err(|_| {
        let detail = "send a JSON-RPC message by POST, or open a WebSocket here";
        Problem::new(Code::MethodNotAllowed, detail)
    })?;
    if headers.contains_key("idempotency-key") {
        let detail = "a WebSocket has no Idempotency-Key: it would be one key for all its calls. Give each call of eth_sendTransaction \
                      a nonce, which makes a repeated one the same, or send it by POST with a key of its own";
        return Err(Problem::new(Code::BadRequestId, detail));
    }
    let of_key = asker.app.keyring.quotas().take(&asker.caller, Quota::Sockets)?;
    let Ok(place) = asker.app.sockets.free.clone().try_acquire_owned() else {
        let detail = format!("{MOST} WebSockets are open, which is the most; use HTTP, or try again later");
        return Err(Problem::new(Code::TooManySockets, detail));
    };
    let largest = asker.app.limits.body.min(LARGEST);
    let upgrade = upgrade.max_message_size(largest).max_frame_size(largest);
    let line = line.map(|Extension(line)| line);
    let held = Held { headers, line, _place: place, _share: of_key };
    Ok(upgrade.on_upgrade(move |socket| serve(asker, held, socket)))
}

/// The parts of the opening request that a socket keeps.
struct Held {
    headers: HeaderMap,
    line: Option<Arc<Line>>,
    _place: OwnedSemaphorePermit,
    _share: Place,
}

async fn serve(mut asker: Asker, held: Held, mut socket: WebSocket) {
    let mut running = FuturesUnordered::new();
    let mut subscriptions = Subscriptions::new(&asker);
    let mut ping = tokio::time::interval(PING_EVERY);
    let mut heard = Instant::now();
    let sockets = asker.app.sockets.clone();
    let stopped = sockets.stopped();
    tokio::pin!(stopped);
    loop {
        // Room for an answer, until it is sent.
        let mut room = None;
        let said = tokio::select! {
            () = &mut stopped => None,
            Some(answered) = running.next() => {
                let (answered, _charge): (Option<Answered>, Charge) = answered;
                let (text, taken) = answered.map(Answered::into_text).unzip();
                room = taken;
                Some(text.map(Message::text).into_iter().collect())
            }
            events = subscriptions.next(), if !subscriptions.is_empty() => {
                // A key may have been taken back since the socket was opened.
                let may_hear = asker.app.keyring.still(&asker.caller).await;
                may_hear.then(|| events.into_iter().map(Message::text).collect())
            }
            _ = ping.tick() => {
                let stays = heard.elapsed() < SILENT_LIMIT && asker.app.keyring.still(&asker.caller).await;
                stays.then(|| vec![Message::Ping(Default::default())])
            }
            message = socket.recv(), if running.len() < AT_ONCE => {
                heard = Instant::now();
                let bytes = match message {
                    Some(Ok(Message::Text(text))) => Some(text.as_bytes().to_vec()),
                    Some(Ok(Message::Binary(bytes))) => Some(bytes.to_vec()),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => None,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                };
                let Some(bytes) = bytes else { continue };
                match asker.app.keyring.caller(&held.headers).await {
                    Ok(Some(mut caller)) => {
                        caller.address = asker.caller.address;
                        asker.caller = caller;
                    }
                    Ok(None) | Err(_) => break,
                }
                let charge = asker.app.doors.charge(held.line.as_ref(), &asker.caller);
                let taken = charge.take(bytes.len()).await.map_err(Problem::from);
                let incoming = wire::decode(&bytes, asker.app.limits.batch);
                let charged = taken.and_then(|()| asker.app.keyring.charge(&asker.caller, 1));
                match incoming {
                    Incoming::One(Ok(Call { id: None, .. })) if charged.is_err() => Some(Vec::new()),
                    incoming if charged.is_err() => {
                        let refused = charged.map(|()| String::new()).map_err(RpcError::from);
                        Some(vec![Message::text(wire::encode(&incoming.id(), &refused))])
                    }
                    Incoming::One(Ok(call)) if is_subscription(&call) => {
                        let answered = subscriptions.answer(&call.method, call.params);
                        // A notification gets no answer.
                        let text = call.id.map(|id| Message::text(wire::encode(&id, &answered)));
                        Some(text.into_iter().collect())
                    }
                    incoming => {
                        let asker = asker.again();
                        running.push(async move { (answer(&asker, incoming).await, charge) });
                        Some(Vec::new())
                    }
                }
            }
        };
        let Some(messages) = said else { break };
        for message in messages {
            if !matches!(tokio::time::timeout(SEND_LIMIT, socket.send(message)).await, Ok(Ok(()))) {
                return;
            }
        }
        drop(room);
    }
    // The other side may have gone already.
    tokio::time::timeout(SEND_LIMIT, socket.send(Message::Close(None))).await.ok();
}

fn is_subscription(call: &Call) -> bool {
    matches!(call.method.as_str(), "eth_subscribe" | "eth_unsubscribe")
}

/// What a subscriber is sent.
pub(super) fn notification(id: &str, result: &Value) -> String {
    let params = json!({ "subscription": id, "result": result });
    json!({ "jsonrpc": "2.0", "method": "eth_subscription", "params": params }).to_string()
}
