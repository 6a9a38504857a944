//! JSON-RPC over a WebSocket: the same calls, answered as they are done, and subscriptions.
//!
//! A socket outlives its HTTP connection's place, so there is a bound of its own. One whose caller says nothing for long, or
//! does not read what it is sent, is closed.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::HeaderMap;
use axum::response::Response;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::error::RpcError;
use super::methods;
use super::subscribe::{Next, Subscriptions};
use super::wire::{self, Call, Incoming, Refusal};
use super::{Answered, Asker, MessageRoom, answer};
use crate::access::{Caller, Place, Quota, Role, no_longer_good};
use crate::doors::{Charge, Line, Partial};
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
/// Pings and pongs of a caller that are taken in so long. They cost no rate and are answered, also when nobody reads the answers.
const CONTROLS: usize = 100;
const CONTROLS_TIME: Duration = Duration::from_secs(10);
/// Bytes that are read at once: frames of which nothing is seen here are taken without a pause as long as there are some.
const READ_BUFFER: usize = 8 << 10;
/// The longest reason that a socket is closed with: what WebSockets have room for.
const LONGEST_REASON: usize = 123;
/// Bytes before those of a ping or a pong.
const CONTROL_HEAD: usize = 6;
/// So much of what was sent before the end was heard is still read.
const LAST_WORDS: usize = 1_000;
const LAST_WORDS_TIME: Duration = Duration::from_secs(2);
/// So long may what was asked for before take to be answered, once a socket is to be closed.
const LAST_ANSWERS_TIME: Duration = Duration::from_secs(30);
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
    let upgrade = upgrade.max_message_size(largest).max_frame_size(largest).read_buffer_size(READ_BUFFER);
    let line = line.map(|Extension(line)| line);
    if let Some(line) = &line {
        let charge = asker.app.doors.charge(Some(line), &asker.caller);
        line.carries(Partial::new(charge, largest, asker.app.limits.body_time));
    }
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

/// An answer that is ready, with what was paid for its message.
struct Ready {
    /// The id of its message.
    id: Value,
    answered: Option<Answered>,
    only_reads: bool,
    _charge: Charge,
}

/// Why a socket is closed; none says nothing.
type Reason = Option<CloseFrame>;

/// A socket that is open.
struct Open {
    asker: Asker,
    held: Held,
    running: FuturesUnordered<BoxFuture<'static, Ready>>,
    subscriptions: Subscriptions,
    heard: Instant,
    controls: Controls,
    /// It is closed as soon as all that is under way is answered: who sent something must hear what became of it, or may send it
    /// again with another key. That takes until then at most.
    leaving: Option<(Reason, Instant)>,
}

/// What is to be sent, and the room that it takes until then.
type Said = (Vec<Message>, Option<Arc<MessageRoom>>);

const NOTHING: Said = (Vec::new(), None);

fn say(text: String) -> Said {
    (vec![Message::text(text)], None)
}

async fn serve(asker: Asker, held: Held, mut socket: WebSocket) {
    let sockets = asker.app.sockets.clone();
    let stopped = sockets.stopped();
    tokio::pin!(stopped);
    let mut ping = tokio::time::interval(PING_EVERY);
    let mut open = Open::new(asker, held);
    let why = loop {
        let (stays, until) = (open.leaving.is_none(), open.leaves_until());
        let (messages, room) = tokio::select! {
            () = &mut stopped, if stays => open.leave(None),
            Some(ready) = open.running.next() => open.done(ready).await,
            next = open.subscriptions.next(), if stays && !open.subscriptions.is_empty() => open.told(next).await,
            _ = ping.tick(), if stays => open.ping().await,
            () = tokio::time::sleep_until(until), if !stays => open.gives_up(),
            message = socket.recv(), if stays && open.running.len() < AT_ONCE => match message {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(message)) => open.hear(message).await,
            },
        };
        for message in messages {
            if !matches!(tokio::time::timeout(SEND_LIMIT, socket.send(message)).await, Ok(Ok(()))) {
                return;
            }
        }
        drop(room);
        if open.running.is_empty()
            && let Some((why, _)) = open.leaving.take()
        {
            break why;
        }
    };
    // The place is kept until the other side has gone, too.
    let _held = open.held;
    tokio::time::timeout(SEND_LIMIT, close(socket, why)).await.ok();
}

/// Says why, and reads what the other side sent before it heard that: a socket that is dropped with unread bytes is reset, and the
/// reason with it.
async fn close(mut socket: WebSocket, why: Reason) {
    if socket.send(Message::Close(why)).await.is_err() {
        return;
    }
    let until = Instant::now() + LAST_WORDS_TIME;
    for _ in 0..LAST_WORDS {
        match tokio::time::timeout_at(until, socket.recv()).await {
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(_)) | None) | Err(_) => return,
        }
    }
}

impl Open {
    fn new(asker: Asker, held: Held) -> Self {
        Self {
            subscriptions: Subscriptions::new(&asker),
            asker,
            held,
            running: FuturesUnordered::new(),
            heard: Instant::now(),
            controls: Controls::new(),
            leaving: None,
        }
    }

    fn leave(&mut self, why: Reason) -> Said {
        self.leaving.get_or_insert_with(|| (why, Instant::now() + LAST_ANSWERS_TIME));
        NOTHING
    }

    fn leaves_until(&self) -> Instant {
        self.leaving.as_ref().map_or_else(Instant::now, |(_, until)| *until)
    }

    /// A call that is not answered by now goes on without its caller, who is told so by an end without an answer.
    fn gives_up(&mut self) -> Said {
        self.running.clear();
        NOTHING
    }

    async fn done(&mut self, ready: Ready) -> Said {
        let Ready { id, answered, only_reads, _charge } = ready;
        if only_reads && self.asker.app.keyring.has_revoked(&self.asker.caller).await {
            let over = no_longer_good();
            self.leave(Some(ending(&over)));
            return answered.map_or(NOTHING, |_| say(wire::encode(&id, &Err(over.into()))));
        }
        let (text, room) = answered.map(Answered::into_text).unzip();
        (text.map(Message::text).into_iter().collect(), room)
    }

    async fn told(&mut self, next: Next) -> Said {
        // A key may have been taken back since the socket was opened.
        let may_hear = self.asker.app.keyring.still(&self.asker.caller).await;
        match next {
            Next::Say(text) if may_hear => say(text),
            Next::Close(reason) if may_hear => self.leave(Some(closing(close_code::AGAIN, &reason))),
            Next::Say(_) | Next::Close(_) => self.leave(Some(ending(&no_longer_good()))),
        }
    }

    async fn ping(&mut self) -> Said {
        if self.heard.elapsed() >= SILENT_LIMIT {
            return self.leave(None);
        }
        if !self.asker.app.keyring.still(&self.asker.caller).await {
            return self.leave(Some(ending(&no_longer_good())));
        }
        let reads = self.running.len() < AT_ONCE;
        if self.held.line.as_ref().is_some_and(|line| line.is_late(reads)) {
            return self.leave(Some(too_slow()));
        }
        (vec![Message::Ping(Default::default())], None)
    }

    async fn hear(&mut self, message: Message) -> Said {
        self.heard = Instant::now();
        self.held.line.iter().for_each(|line| match &message {
            Message::Text(text) => line.is_heard(text.len()),
            Message::Binary(bytes) => line.is_heard(bytes.len()),
            Message::Ping(bytes) | Message::Pong(bytes) => line.is_signalled(bytes.len() + CONTROL_HEAD),
            Message::Close(_) => {}
        });
        let bytes = match message {
            Message::Text(text) => text.as_bytes().to_vec(),
            Message::Binary(bytes) => bytes.to_vec(),
            Message::Ping(_) | Message::Pong(_) if self.controls.take(self.heard) => return NOTHING,
            Message::Ping(_) | Message::Pong(_) => return self.leave(Some(too_many_controls())),
            Message::Close(_) => return self.leave(None),
        };
        if let Err(problem) = self.known().await {
            self.leave(Some(ending(&problem)));
            return self.refuse(&self.decode(&bytes), problem);
        }
        let asker = &self.asker;
        let charge = asker.app.doors.charge(self.held.line.as_ref(), &asker.caller);
        let taken = charge.take(bytes.len()).await.map_err(Problem::from);
        let incoming = self.decode(&bytes);
        if let Err(problem) = taken.and_then(|()| asker.app.keyring.charge(&asker.caller, 1)) {
            return self.refuse(&incoming, problem);
        }
        match incoming {
            Incoming::One(Ok(call)) if is_subscription(&call) => {
                let answered = self.subscriptions.answer(&call.method, call.params).await;
                // A notification gets no answer.
                call.id.map_or(NOTHING, |id| say(wire::encode(&id, &answered)))
            }
            incoming => {
                let (asker, id, only_reads) = (asker.again(), incoming.id(), only_reads(&incoming));
                self.running.push(Box::pin(async move {
                    Ready { id, answered: answer(&asker, incoming).await, only_reads, _charge: charge }
                }));
                NOTHING
            }
        }
    }

    /// The key is looked up again with every message: it may have been changed or taken back since the last.
    async fn known(&mut self) -> Result<(), Problem> {
        let Some(mut caller) = self.asker.app.keyring.caller(&self.held.headers).await? else {
            let detail = "an API key is needed here now; open a WebSocket with one";
            return Err(Problem::new(Code::Unauthorized, detail));
        };
        caller.address = self.asker.caller.address;
        self.asker.caller = caller;
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Incoming {
        wire::decode(bytes, self.asker.app.limits.batch)
    }

    /// What is not done is said under the id of its message, and written down.
    fn refuse(&self, incoming: &Incoming, problem: Problem) -> Said {
        let error = RpcError::from(problem);
        self.asker.refused(method_of(incoming), &error);
        match incoming {
            Incoming::One(Ok(Call { id: None, .. })) => NOTHING,
            incoming => say(wire::encode(&incoming.id(), &Err(error))),
        }
    }
}

/// Pings and pongs that a caller may still send in this time.
struct Controls {
    began: Instant,
    taken: usize,
}

impl Controls {
    fn new() -> Self {
        Self { began: Instant::now(), taken: 0 }
    }

    /// Counts one; false if it is one too many.
    fn take(&mut self, now: Instant) -> bool {
        if now.duration_since(self.began) >= CONTROLS_TIME {
            (self.began, self.taken) = (now, 0);
        }
        self.taken += 1;
        self.taken <= CONTROLS
    }
}

/// The end of a socket whose caller sent too many pings and pongs.
fn too_many_controls() -> CloseFrame {
    let reason = format!("at most {CONTROLS} pings and pongs are taken in {} s", CONTROLS_TIME.as_secs());
    CloseFrame { code: close_code::POLICY, reason: reason.into() }
}

/// The end of a socket whose key is not known to be good.
fn ending(problem: &Problem) -> CloseFrame {
    let code = if problem.code == Code::Unauthorized { close_code::POLICY } else { close_code::AGAIN };
    closing(code, &problem.detail)
}

/// The end of a socket with a message that is never whole.
fn too_slow() -> CloseFrame {
    closing(close_code::POLICY, "a message did not come to its end in time")
}

fn closing(code: u16, reason: &str) -> CloseFrame {
    let mut end = reason.len().min(LONGEST_REASON);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    CloseFrame { code, reason: reason[..end].into() }
}

fn method_of(incoming: &Incoming) -> &str {
    match incoming {
        Incoming::One(Ok(call)) => &call.method,
        Incoming::One(Err(_)) => "none",
        Incoming::Batch(_) => "batch",
    }
}

fn is_subscription(call: &Call) -> bool {
    matches!(call.method.as_str(), "eth_subscribe" | "eth_unsubscribe")
}

/// No call of a message stores or changes anything.
fn only_reads(incoming: &Incoming) -> bool {
    let reads = |call: &Result<Call, Refusal>| match call {
        Ok(call) => methods::needed(&call.method) == Role::Viewer,
        Err(_) => true,
    };
    match incoming {
        Incoming::One(call) => reads(call),
        Incoming::Batch(calls) => calls.iter().all(reads),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_and_pongs_have_a_bound_that_comes_again_with_time() {
        let mut controls = Controls::new();
        let start = controls.began;
        assert_eq!((0..1_000).filter(|_| controls.take(start)).count(), CONTROLS);
        assert!(controls.take(start + CONTROLS_TIME));
        assert!(too_many_controls().reason.len() <= LONGEST_REASON);
    }

    #[test]
    fn a_message_that_sends_anything_is_answered_also_to_a_key_that_was_revoked_meanwhile() {
        let reads = |text: &str| only_reads(&wire::decode(text.as_bytes(), 10));
        let call = |method: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":[]}}"#);
        assert!(reads(&call("eth_getBlockByNumber")) && reads(&call("eth_call")) && reads("no JSON"));
        for method in ["eth_sendTransaction", "eth_sendRawTransaction", "wallet_sendCalls", "landfall_cancel"]
        {
            assert!(!reads(&call(method)), "{method}");
            assert!(!reads(&format!("[{},{}]", call("eth_call"), call(method))), "{method}");
        }
        assert!(reads(&format!("[{},{}]", call("eth_call"), call("eth_blockNumber"))));
    }
}
