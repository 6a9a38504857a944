//! Connections: how many there may be, and how long a caller may take to say what it wants.
//!
//! A caller that sends its headers or its body too slowly is cut off, so that a few of them cannot hold the server. At
//! the most connections, new ones wait in the system's queue until one ends; one that is idle ends by the same limit
//! as slow headers.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::activity::{Activity, Watched};
use crate::grpc;
use crate::problem::{Code, Problem};
use crate::serve::Limits;
use crate::span::span;

/// How long requests that are under way when the server stops may take: a caller that never finishes its own must
/// not keep it from stopping.
const FINISH_LIMIT: Duration = Duration::from_secs(5);
/// A body that is too large is read this far past its limit, only so that the caller hears the answer.
const DISCARD_AT_MOST: u64 = 4 << 20;
/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 100;
/// The system may be out of file handles; connections that end give some back.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);

/// Answers requests until `stop` comes, then lets those under way finish, as long as they do not take too long.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    router: Router,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let free = Arc::new(Semaphore::new(limits.connections));
    let open = GracefulShutdown::new();
    let acceptor = tls.map(TlsAcceptor::from);
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(limits.header_time);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(limits.header_time);
    let http = Arc::new(http);
    tokio::pin!(stop);
    loop {
        let next = accept(&listener, &free);
        let (stream, place) = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = next => accepted,
        };
        let activity = Activity::new();
        let service = Watched { router: router.clone(), activity: activity.clone() };
        let service = TowerToHyperService::new(service);
        let (http, acceptor, watcher) = (http.clone(), acceptor.clone(), open.watcher());
        tokio::spawn(async move {
            let stream = match acceptor {
                None => Stream::Plain(stream),
                Some(acceptor) => {
                    match tokio::time::timeout(limits.header_time, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => Stream::Secure(Box::new(stream)),
                        Ok(Err(error)) => return tracing::debug!(%error, "a caller could not agree on TLS"),
                        Err(_) => return tracing::debug!("a caller took too long to agree on TLS"),
                    }
                }
            };
            let connection = http.serve_connection_with_upgrades(TokioIo::new(stream), service);
            tokio::select! {
                // A caller that hangs up, or sends what is not HTTP, concerns nobody else.
                ended = watcher.watch(connection) => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection broke off");
                    }
                }
                () = activity.silent_for(limits.header_time) => {
                    tracing::debug!("a connection on which nothing went on is given up");
                }
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(FINISH_LIMIT, open.shutdown()).await.is_err() {
        tracing::warn!("some requests did not come to their end; they are broken off");
    }
}

/// A caller's bytes, as they come or out of TLS.
enum Stream {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Secure(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Secure(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Secure(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Secure(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// The next caller, once there is a place for it.
async fn accept(
    listener: &TcpListener,
    free: &Arc<Semaphore>,
) -> (TcpStream, Option<tokio::sync::OwnedSemaphorePermit>) {
    if free.available_permits() == 0 {
        tracing::warn!("as many connections are open as server.max_connections allows; new callers wait");
    }
    // The semaphore is never closed, so there always is a place at some time.
    let place = free.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are small and whole: waiting to fill a packet only delays them.
                stream.set_nodelay(true).ok();
                return (stream, place);
            }
            Err(error) if is_the_callers(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted; trying again");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

fn is_the_callers(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Reads the body before anything else sees the request: within its time, and only if it is not too large.
pub(crate) async fn whole_body(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    // Messages of a stream come one by one, and each is measured by who reads it.
    if grpc::is_service(request.uri().path()) && grpc::is_grpc(request.headers()) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let said = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let said = said.and_then(|length| length.parse::<u64>().ok());
    // A caller that asks before it sends is answered before it has sent, and what says it is far too large is not read.
    let asks = parts.headers.contains_key(header::EXPECT);
    let most = limits.body as u64 + if asks { 0 } else { DISCARD_AT_MOST };
    if said.is_some_and(|length| length > most) {
        return refuse(&limits);
    }
    let mut chunks = body.into_data_stream();
    match tokio::time::timeout(limits.body_time, read(&mut chunks, limits.body)).await {
        Ok(Ok(Some(bytes))) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Ok(Ok(None)) => {
            tokio::time::timeout(limits.body_time, discard(chunks)).await.ok();
            refuse(&limits)
        }
        Ok(Err(error)) => {
            Problem::new(Code::InvalidJson, format!("the body could not be read: {error}")).into_response()
        }
        Err(_) => {
            let detail = format!("it was not whole after {}", span(limits.body_time));
            Problem::new(Code::BodyTooSlow, detail).into_response()
        }
    }
}

/// The whole body, or none if it is longer than `most`.
async fn read(chunks: &mut BodyDataStream, most: usize) -> Result<Option<Vec<u8>>, axum::Error> {
    let mut whole = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        if whole.len() + chunk.len() > most {
            return Ok(None);
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(Some(whole))
}

/// Takes in and forgets what a caller goes on sending after its body was found too large. A connection that is
/// closed with unread bytes is reset, and a caller that is still sending then never sees why it was refused.
async fn discard(mut chunks: BodyDataStream) {
    let mut taken = 0;
    while let Some(Ok(chunk)) = chunks.next().await {
        taken += chunk.len() as u64;
        if taken > DISCARD_AT_MOST {
            break;
        }
    }
}

fn refuse(limits: &Limits) -> Response {
    Problem::new(Code::BodyTooLarge, format!("at most {} bytes are taken", limits.body)).into_response()
}
