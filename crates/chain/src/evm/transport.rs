//! The wire: one packet of requests out, one packet of answers in, over HTTP or a WebSocket.
//!
//! HTTP is spoken with `reqwest` itself: alloy's HTTP transport writes the whole URL, API key included, into its
//! spans and errors. WebSockets are alloy's, with its reconnecting service.

use std::time::Duration;

use alloy_json_rpc::{
    Id, Request, RequestPacket, Response, ResponsePacket, ResponsePayload, SerializedRequest,
};
use alloy_primitives::B256;
use alloy_pubsub::{PubSubConnect, PubSubFrontend, RawSubscription};
use alloy_transport::TransportError;
use alloy_transport_ws::{WebSocketConfig, WsConnect};
use landfall_core::ports::chain::{NoRoom, Room};
use reqwest::{StatusCode, Url, header};
use tokio::sync::Mutex;

use super::classify::Trouble;
use super::rpc::Failure;

/// The largest answer that is read: the receipts of a very full block are some tens of megabytes.
const MAX_BODY: usize = 256 << 20;
/// The most that is set aside for an answer because it says that it is so long.
const EXPECTED_BODY: usize = 16 << 20;
/// The most that waits to be sent over a WebSocket, several of our largest batches. Every ping of a node is answered by a pong, and one that
/// sends pings and reads nothing would have pongs pile up without an end: those beyond this are dropped.
const MAX_UNSENT: usize = 8 << 20;
/// How often a lost WebSocket is connected again before its requests are given up.
const WS_RETRIES: u32 = 3;
const WS_RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Connections that were not used for this long are closed.
const IDLE: Duration = Duration::from_secs(90);

/// A way to an endpoint.
pub(crate) enum Link {
    Http {
        client: reqwest::Client,
        url: Url,
    },
    Ws(WsLink),
    /// To a node that a test made up.
    #[cfg(test)]
    Made(std::sync::Arc<dyn MadeNode>),
}

/// A node without a socket.
#[cfg(test)]
#[async_trait::async_trait]
pub(crate) trait MadeNode: Send + Sync {
    /// What comes back for a body: a status, a body, and how long it asks us to wait. None: nothing does.
    async fn post(&self, body: serde_json::Value) -> Option<(StatusCode, String, Option<Duration>)>;
}

impl Link {
    pub(crate) fn http(url: Url, connect: Duration, request: Duration) -> Result<Self, reqwest::Error> {
        install_tls();
        let client = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(connect)
            .timeout(request)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(reqwest::Error::without_url)?;
        Ok(Self::Http { client, url })
    }

    pub(crate) fn ws(url: &Url, connect: Duration) -> Self {
        install_tls();
        let target = WsConnect::new(url.as_str())
            .with_config(WebSocketConfig::default().max_write_buffer_size(MAX_UNSENT))
            .with_max_retries(WS_RETRIES)
            .with_retry_interval(WS_RETRY_INTERVAL);
        Self::Ws(WsLink { target, limit: connect, front: Mutex::new(None) })
    }

    /// Sends a packet and waits for its answers.
    pub(crate) async fn exchange(&self, packet: RequestPacket) -> Result<ResponsePacket, Failure> {
        match self {
            Self::Http { client, url } => post(client, url.clone(), &packet).await,
            Self::Ws(link) => link.exchange(packet).await,
            #[cfg(test)]
            Self::Made(node) => {
                let unreadable = |error: serde_json::Error| Failure::Unreadable(error.to_string());
                let body = serde_json::to_value(&packet).map_err(unreadable)?;
                let answer = node.post(body).await;
                let (status, body, wait) =
                    answer.ok_or_else(|| Failure::Lost("connection reset".to_owned()))?;
                decode(status, body.as_bytes(), wait)
            }
        }
    }
}

/// Bytes that came over the wire for one request; nobody has judged them.
pub(crate) enum Heard {
    /// Over HTTP: a status, how long to wait, and a body.
    Body { status: StatusCode, wait: Option<Duration>, body: Vec<u8> },
    /// Over a WebSocket.
    Answer(Response),
}

/// Why nothing, or not all of it, came over the wire.
pub(crate) enum Unheard {
    Lost(Failure),
    NoRoom(NoRoom),
}

impl Link {
    /// Sends one request and reads what comes back as long as there is room for it.
    pub(crate) async fn hear(&self, request: SerializedRequest, room: &dyn Room) -> Result<Heard, Unheard> {
        match self {
            Self::Http { client, url } => hear_body(client, url.clone(), &request, room).await,
            Self::Ws(link) => {
                // Messages come whole, so they are measured when they are there.
                let lost = || Unheard::Lost(Failure::Lost("no answer to this request came back".to_owned()));
                let packet = link.exchange(RequestPacket::Single(request)).await.map_err(Unheard::Lost)?;
                let answer = match packet {
                    ResponsePacket::Single(answer) => answer,
                    ResponsePacket::Batch(answers) => answers.into_iter().next().ok_or_else(lost)?,
                };
                let length = match &answer.payload {
                    ResponsePayload::Success(result) => result.get().len(),
                    ResponsePayload::Failure(error) => {
                        error.message.len() + error.data.as_ref().map_or(0, |data| data.get().len())
                    }
                };
                room.take(length).map_err(Unheard::NoRoom)?;
                Ok(Heard::Answer(answer))
            }
            #[cfg(test)]
            Self::Made(node) => {
                let unreadable = |error: serde_json::Error| Unheard::Lost(Failure::Lost(error.to_string()));
                let answer = node.post(serde_json::to_value(&request).map_err(unreadable)?).await;
                let lost = || Unheard::Lost(Failure::Lost("connection reset".to_owned()));
                let (status, body, wait) = answer.ok_or_else(lost)?;
                room.take(body.len()).map_err(Unheard::NoRoom)?;
                Ok(Heard::Body { status, wait, body: body.into_bytes() })
            }
        }
    }
}

/// TLS is rustls with `ring`. A provider that is installed already is as good.
fn install_tls() {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::trace!("a TLS provider is installed already");
    }
}

async fn post(client: &reqwest::Client, url: Url, packet: &RequestPacket) -> Result<ResponsePacket, Failure> {
    let mut response = client.post(url).json(packet).send().await.map_err(lost)?;
    let status = response.status();
    let wait = wait_of(&response);
    let length = response.content_length().and_then(|length| usize::try_from(length).ok());
    let mut body = Vec::with_capacity(length.unwrap_or(0).min(EXPECTED_BODY));
    while let Some(chunk) = response.chunk().await.map_err(lost)? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(Failure::Lost(format!("the answer is longer than {MAX_BODY} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    decode(status, &body, wait)
}

/// How long an endpoint asks us to wait.
fn wait_of(response: &reqwest::Response) -> Option<Duration> {
    let said = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    said.trim().parse().ok().map(Duration::from_secs)
}

/// Room for a body is made in such steps at least, and by a quarter of what there is.
const STEP: usize = 16 << 10;

/// Reads a body piece by piece. One that says how long it is needs room for all of it before any is read.
async fn hear_body(
    client: &reqwest::Client,
    url: Url,
    request: &SerializedRequest,
    room: &dyn Room,
) -> Result<Heard, Unheard> {
    let lost = |error| Unheard::Lost(lost(error));
    let mut response = client.post(url).json(request).send().await.map_err(lost)?;
    let (status, wait) = (response.status(), wait_of(&response));
    let length = response.content_length().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    let mut taken = length.unwrap_or(0);
    room.take(taken).map_err(Unheard::NoRoom)?;
    let mut body: Vec<u8> = Vec::with_capacity(taken.min(EXPECTED_BODY));
    while let Some(chunk) = response.chunk().await.map_err(lost)? {
        let wanted = body.len() + chunk.len();
        if wanted > taken {
            room.take(wanted - taken).map_err(Unheard::NoRoom)?;
            taken = wanted;
        }
        if wanted > body.capacity() {
            // Doubling, as vectors do, would take twice the room that was asked for.
            body.reserve_exact(chunk.len() + STEP.max(body.len() / 4));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Heard::Body { status, wait, body })
}

/// What a HTTP answer says. Some nodes send JSON-RPC errors with an error status, so the body is looked at first.
fn decode(status: StatusCode, body: &[u8], wait: Option<Duration>) -> Result<ResponsePacket, Failure> {
    let shown =
        || format!("HTTP {}: {}", status.as_u16(), String::from_utf8_lossy(&body[..body.len().min(600)]));
    let trouble = match status {
        StatusCode::TOO_MANY_REQUESTS => Some(Trouble::Limited),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Some(Trouble::Unauthorised),
        _ => None,
    };
    if let Some(trouble) = trouble {
        return Err(Failure::TurnedAway { trouble, code: None, text: shown(), wait });
    }
    match serde_json::from_slice(body) {
        Ok(packet) => Ok(packet),
        Err(_) if !status.is_success() => Err(Failure::Lost(shown())),
        Err(error) => Err(Failure::Lost(format!("the answer is not JSON-RPC ({error}): {}", shown()))),
    }
}

/// A reqwest error in words, without the URL that may hold a key.
fn lost(error: reqwest::Error) -> Failure {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    Failure::Lost(text)
}

/// A WebSocket, connected when it is first needed and again after it was lost for good.
pub(crate) struct WsLink {
    target: WsConnect,
    limit: Duration,
    front: Mutex<Option<PubSubFrontend>>,
}

impl WsLink {
    async fn front(&self) -> Result<PubSubFrontend, Failure> {
        let mut slot = self.front.lock().await;
        if let Some(front) = &*slot {
            return Ok(front.clone());
        }
        let connecting = self.target.clone().into_service();
        let front = tokio::time::timeout(self.limit, connecting)
            .await
            .map_err(|_| Failure::Lost(format!("no connection within {} ms", self.limit.as_millis())))?
            .map_err(|error| Failure::Lost(error.to_string()))?;
        *slot = Some(front.clone());
        Ok(front)
    }

    async fn exchange(&self, packet: RequestPacket) -> Result<ResponsePacket, Failure> {
        match self.front().await?.send_packet(packet).await {
            Ok(answers) => Ok(answers),
            Err(error) => Err(self.gone(error).await),
        }
    }

    /// The error in words; a connection that ended for good is forgotten.
    async fn gone(&self, error: TransportError) -> Failure {
        if matches!(&error, TransportError::Transport(kind) if kind.is_backend_gone()) {
            *self.front.lock().await = None;
        }
        Failure::Lost(error.to_string())
    }

    /// A stream of new heads, for as long as the connection and its reconnects last.
    pub(crate) async fn new_heads(&self, id: Id) -> Result<RawSubscription, Failure> {
        let unreadable = |error: serde_json::Error| Failure::Unreadable(error.to_string());
        let front = self.front().await?;
        let mut request = Request::new("eth_subscribe", id, ["newHeads"]).serialize().map_err(unreadable)?;
        request.set_is_subscription();
        let answer = match front.send(request).await {
            Ok(answer) => answer,
            Err(error) => return Err(self.gone(error).await),
        };
        let local: B256 = match answer.payload {
            ResponsePayload::Success(raw) => serde_json::from_str(raw.get()).map_err(unreadable)?,
            ResponsePayload::Failure(error) => return Err(Failure::Unreadable(error.message.into_owned())),
        };
        front.get_subscription(local).await.map_err(|error| Failure::Lost(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(status: u16, body: &str) -> Result<ResponsePacket, Failure> {
        decode(StatusCode::from_u16(status).unwrap(), body.as_bytes(), None)
    }

    #[test]
    fn bodies_that_are_not_json_rpc_leave_the_question_open() {
        let html = "<html><head><title>502 Bad Gateway</title></head></html>";
        let truncated = r#"{"jsonrpc":"2.0","id":1,"resu"#;
        for (status, body) in [(502, html), (200, html), (200, ""), (503, ""), (200, truncated), (200, "7")] {
            assert!(matches!(decoded(status, body), Err(Failure::Lost(_))), "{status} {body}");
        }
    }

    #[test]
    fn a_status_that_turns_away_is_the_endpoints_trouble() {
        for (status, wanted) in
            [(429, Trouble::Limited), (401, Trouble::Unauthorised), (403, Trouble::Unauthorised)]
        {
            let answer = decoded(status, r#"{"jsonrpc":"2.0","id":1,"result":"0x1"}"#);
            assert!(
                matches!(answer, Err(Failure::TurnedAway { trouble, .. }) if trouble == wanted),
                "{status}"
            );
        }
    }

    #[test]
    fn a_json_rpc_error_counts_whatever_the_status() {
        let body = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"nonce too low"}}"#;
        for status in [200, 400, 500] {
            assert!(matches!(decoded(status, body), Ok(ResponsePacket::Single(_))), "{status}");
        }
    }
}
