//! Connections: how many there may be, how long a caller may take to say what it wants, and how much HTTP keeps for it.
//!
//! A caller that sends its headers too slowly is cut off, so that a few of them cannot hold the server. At the most connections,
//! an idle one makes room, or new ones get one of the few places that are kept for administrators and health; one that is idle ends by
//! the same limit as slow headers. What bodies may cost is bounded in [`crate::doors`].

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::activity::Watched;
use crate::doors::{Crowd, Line, MOMENT, More, Yielded};
use crate::limits::Limits;

/// How long requests that are under way when the server stops may take: a caller that never finishes its own must
/// not keep it from stopping.
const FINISH_LIMIT: Duration = Duration::from_secs(5);
/// The system may be out of file handles; connections that end give some back.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);

/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 100;
/// Bytes of bodies that HTTP/2 keeps before they are read: of one stream, and of all streams of a connection.
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
/// Bytes of answers that HTTP/2 keeps for each stream while the caller does not read.
const SEND_BUFFER: usize = 64 << 10;
/// Streams that a caller took back before they were looked at; one more ends the connection.
const RESETS: usize = 20;
/// Streams that were ended for breaking the protocol; one more ends the connection.
const ERRORS: usize = 64;
/// Bytes of headers: those of a request over HTTP/2, and what HTTP/1 reads ahead.
const HEADERS: u32 = 16 << 10;
const READ_AHEAD: usize = 64 << 10;

/// Bytes that are read of one connection until others have their turn.
const TURN: usize = 64 << 10;
/// How long it takes until it is looked again whether there are bytes for a message.
const PAUSE: Duration = Duration::from_millis(50);

/// Answers requests until `stop` comes, then lets those under way finish, as long as they do not take too long.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    router: Router,
    limits: Limits,
    crowd: Arc<Crowd>,
    stop: impl Future<Output = ()>,
) {
    let places = Places {
        free: Arc::new(Semaphore::new(limits.connections)),
        kept: Arc::new(Semaphore::new(crowd.kept())),
    };
    let acceptor = tls.map(TlsAcceptor::from);
    let http = Arc::new(protocols(&limits));
    let (stopping, stopped) = watch::channel(false);
    tokio::pin!(stop);
    loop {
        let next = accept(&listener, &places, &crowd);
        let (stream, peer, (place, kept)) = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = next => accepted,
        };
        let (http, acceptor, stopped, router, crowd) =
            (http.clone(), acceptor.clone(), stopped.clone(), router.clone(), crowd.clone());
        tokio::spawn(async move {
            let Some(entered) = crowd.enter(peer, kept).await else { return };
            let ended =
                answer(&http, acceptor, stream, router, &entered.0, limits.header_time, stopped).await;
            if let Err(why) = ended {
                tracing::debug!(%peer, "{why}");
            }
            drop((entered, place));
        });
    }
    drop(listener);
    stopping.send_replace(true);
    // Every place is free again when every connection has ended.
    let count = |places: usize| u32::try_from(places).unwrap_or(u32::MAX);
    let all = places.free.acquire_many(count(limits.connections));
    let all = futures::future::join(all, places.kept.acquire_many(count(crowd.kept())));
    if tokio::time::timeout(FINISH_LIMIT, all).await.is_err() {
        tracing::warn!("some requests did not come to their end; they are broken off");
    }
}

fn protocols(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(limits.header_time).max_buf_size(READ_AHEAD);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(ERRORS)
        .max_header_list_size(HEADERS)
        .keep_alive_interval(limits.header_time);
    http
}

/// Answers one caller, to the end of its connection. An error is why it ended otherwise: a caller that hangs up, or sends
/// what is not HTTP, concerns nobody else.
async fn answer(
    http: &auto::Builder<TokioExecutor>,
    acceptor: Option<TlsAcceptor>,
    stream: TcpStream,
    router: Router,
    line: &Arc<Line>,
    silence: Duration,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), String> {
    if let Some(wait) = line.waits() {
        tokio::time::sleep(wait).await;
    }
    // To agree on TLS costs more than most requests, and comes before any.
    if acceptor.is_some() && !line.agrees() {
        return Err("its address opens too many connections without a key".to_owned());
    }
    let mut over = pin!(line.is_over(silence));
    let stream = match acceptor {
        None => Bytes::Plain(stream),
        Some(acceptor) => tokio::select! {
            agreed = acceptor.accept(stream) => match agreed {
                Ok(stream) => Bytes::Secure(Box::new(stream)),
                Err(error) => return Err(format!("a caller could not agree on TLS: {error}")),
            },
            why = &mut over => return Err(format!("a caller did not agree on TLS: {why}")),
            _ = stopped.wait_for(|stopped| *stopped) => return Ok(()),
        },
    };
    let stream = Stream { bytes: stream, line: line.clone(), turn: 0, pause: None };
    let service = TowerToHyperService::new(Watched::new(router, line.clone()));
    let mut connection = pin!(http.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let mut leaving = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                return ended.map_err(|error| format!("a connection broke off: {error}"));
            }
            why = &mut over => return Err(format!("a connection is given up: {why}")),
            _ = stopped.wait_for(|stopped| *stopped), if !leaving => {
                leaving = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// A caller's bytes, as they come or out of TLS.
enum Bytes {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

/// The same, counted as long as nobody has shown a key.
struct Stream {
    bytes: Bytes,
    line: Arc<Line>,
    /// Bytes that were read without a pause.
    turn: usize,
    /// There are no bytes for what comes next.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Stream {
    /// Lets others have their turn: what reads here may go on as long as something comes, without an end.
    fn may_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.turn >= TURN {
            self.turn = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            match self.line.more() {
                More::Yes => break,
                More::Never => {
                    return Poll::Ready(Err(io::Error::other("a message came in too many frames")));
                }
                More::Later => {}
            }
            let pause = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(PAUSE)));
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        self.pause = None;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.may_read(cx))?;
        let before = buf.filled().len();
        let read = match &mut this.bytes {
            Bytes::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Bytes::Secure(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        let came = buf.filled().len() - before;
        this.turn = if read.is_ready() { this.turn + came } else { 0 };
        if matches!(read, Poll::Ready(Ok(()))) && !this.line.reads(came) {
            return Poll::Ready(Err(io::Error::other("a caller without a key sent too much")));
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().bytes {
            Bytes::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Bytes::Secure(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().bytes {
            Bytes::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Bytes::Secure(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().bytes {
            Bytes::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Bytes::Secure(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// Places of a listener, and those that are kept for when there is none.
struct Places {
    free: Arc<Semaphore>,
    kept: Arc<Semaphore>,
}

/// The next caller, once there is a place for it; and whether that is one of those that are kept.
async fn accept(
    listener: &TcpListener,
    places: &Places,
    crowd: &Crowd,
) -> (TcpStream, SocketAddr, (OwnedSemaphorePermit, bool)) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Answers are small and whole: waiting to fill a packet only delays them.
                stream.set_nodelay(true).ok();
                return (stream, peer, places.take(crowd).await);
            }
            Err(error) if is_the_callers(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted; trying again");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

impl Places {
    /// A place for a caller that is here. Nobody is asked to make room before.
    async fn take(&self, crowd: &Crowd) -> (OwnedSemaphorePermit, bool) {
        loop {
            if let Ok(place) = self.free.clone().try_acquire_owned() {
                return (place, false);
            }
            let is_full = crowd.make_room() == Yielded::Nobody;
            if is_full {
                if crowd.may_tell() {
                    tracing::warn!(
                        "as many connections are open as server.max_connections allows, and none is idle: of new callers only \
                         administrators are served, and those who ask for health"
                    );
                }
                if let Ok(place) = self.kept.clone().try_acquire_owned() {
                    return (place, true);
                }
                crowd.make_kept_room();
            }
            tokio::select! {
                Ok(place) = self.free.clone().acquire_owned() => return (place, false),
                Ok(place) = self.kept.clone().acquire_owned(), if is_full => return (place, true),
                () = tokio::time::sleep(MOMENT) => {}
            }
        }
    }
}

fn is_the_callers(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::access::{Caller, Role};
    use crate::doors::test_line;

    #[tokio::test]
    async fn others_have_their_turn_however_much_there_is_to_read() {
        const SENT: usize = 256 << 10;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut caller = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        // It is all there before anything is read.
        caller.write_all(&vec![7; SENT]).await.unwrap();
        let line = test_line();
        line.shows_key(&Caller::with("one".into(), "one", Role::Viewer, None, None)).unwrap();
        let mut stream = Stream { bytes: Bytes::Plain(accepted), line, turn: 0, pause: None };
        let (mut read, mut turn, mut longest) = (0, 0, 0);
        while read < SENT {
            let mut bytes = [0; 8 << 10];
            let mut buffer = ReadBuf::new(&mut bytes);
            std::future::poll_fn(|cx| {
                let polled = Pin::new(&mut stream).poll_read(cx, &mut buffer);
                turn = if polled.is_pending() { 0 } else { turn };
                polled
            })
            .await
            .unwrap();
            read += buffer.filled().len();
            turn += buffer.filled().len();
            longest = longest.max(turn);
        }
        assert!(longest <= TURN + (8 << 10), "{longest} bytes at once");
    }
}
