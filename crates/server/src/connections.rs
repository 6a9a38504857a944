//! Connections: how many there may be, and how long a caller may take to say what it wants.
//!
//! A caller that sends its headers or its body too slowly is cut off, so that a few of them cannot hold the server. At
//! the most connections, new ones wait in the system's queue until one ends; one that is idle ends by the same limit
//! as slow headers.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::problem::{Code, Problem};
use crate::serve::Limits;

/// How long requests that are under way when the server stops may take: a caller that never finishes its own must
/// not keep it from stopping.
const FINISH_LIMIT: Duration = Duration::from_secs(5);
/// The system may be out of file handles; connections that end give some back.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);

/// Answers requests until `stop` comes, then lets those under way finish, as long as they do not take too long.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let free = Arc::new(Semaphore::new(limits.connections));
    let open = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.header_time);
    tokio::pin!(stop);
    loop {
        let next = accept(&listener, &free);
        let (stream, place) = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = next => accepted,
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let connection = open.watch(connection);
        tokio::spawn(async move {
            // A caller that hangs up, or sends what is not HTTP, concerns nobody else.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection broke off");
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(FINISH_LIMIT, open.shutdown()).await.is_err() {
        tracing::warn!("some requests did not come to their end; they are broken off");
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

/// Reads the body before anything else sees the request: within its time, and only if it is not too large. One that
/// says it is too large is not read at all.
pub(crate) async fn whole_body(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    let too_large = || {
        let detail = format!("at most {} bytes are taken", limits.body);
        Problem::new(Code::BodyTooLarge, detail).into_response()
    };
    let (parts, body) = request.into_parts();
    let said = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if said.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > limits.body as u64) {
        return too_large();
    }
    match tokio::time::timeout(limits.body_time, to_bytes(body, limits.body)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Ok(Err(error)) if is_too_long(&error) => too_large(),
        Ok(Err(error)) => {
            Problem::new(Code::InvalidJson, format!("the body could not be read: {error}")).into_response()
        }
        Err(_) => {
            let detail = format!("it was not whole after {} seconds", limits.body_time.as_secs());
            Problem::new(Code::BodyTooSlow, detail).into_response()
        }
    }
}

fn is_too_long(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.to_string().contains("length limit exceeded") {
            return true;
        }
        cause = error.source();
    }
    false
}
