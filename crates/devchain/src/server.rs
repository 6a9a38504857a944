//! HTTP and WebSocket on one port and path. A connection carries a switch with which a fault can cut it, so that the
//! client sees an end without an answer instead of a well-formed reply.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::{
    Router,
    body::Bytes,
    extract::{ConnectInfo, State, WebSocketUpgrade, connect_info::Connected},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::{
    control::Control,
    devchain::until_stopped,
    rpc::{self, Reaction},
    ws,
};

#[derive(Clone)]
struct App {
    control: Control,
    stopped: watch::Receiver<bool>,
}

pub(crate) async fn serve(listener: TcpListener, control: Control, stopped: watch::Receiver<bool>) {
    let app = App { control, stopped: stopped.clone() };
    let router = Router::new().route("/", get(upgrade).post(post)).with_state(app);
    let router = router.layer(axum::extract::DefaultBodyLimit::max(64 * 1024 * 1024));
    let service = router.into_make_service_with_connect_info::<Cut>();
    let server = axum::serve(CuttableListener(listener), service);
    if let Err(error) = server.with_graceful_shutdown(until_stopped(stopped)).await {
        tracing::error!(%error, "the devchain server ended");
    }
}

async fn post(State(app): State<App>, ConnectInfo(cut): ConnectInfo<Cut>, body: Bytes) -> Response {
    match rpc::answer(&app.control, &body).await {
        Reaction::Reply(body) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
        Reaction::Silence => StatusCode::OK.into_response(),
        Reaction::Status(answer) => {
            let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
            (status, [(CONTENT_TYPE, "text/html")], answer.body).into_response()
        }
        Reaction::HangUp => {
            cut.cut();
            StatusCode::OK.into_response()
        }
    }
}

async fn upgrade(State(app): State<App>, socket: WebSocketUpgrade) -> Response {
    socket
        .max_message_size(64 * 1024 * 1024)
        .on_upgrade(move |socket| ws::serve(socket, app.control, app.stopped))
}

/// The switch of one connection.
#[derive(Clone, Debug, Default)]
struct Cut(Arc<AtomicBool>);

impl Cut {
    fn cut(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::Acquire) { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl Connected<IncomingStream<'_, CuttableListener>> for Cut {
    fn connect_info(stream: IncomingStream<'_, CuttableListener>) -> Self {
        stream.io().cut.clone()
    }
}

struct CuttableListener(TcpListener);

impl Listener for CuttableListener {
    type Io = CuttableStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (CuttableStream, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY");
        }
        (CuttableStream { stream, cut: Cut::default() }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// A connection whose every write fails once it is cut; the server then drops it.
struct CuttableStream {
    stream: TcpStream,
    cut: Cut,
}

impl AsyncRead for CuttableStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.cut.check()?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for CuttableStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.cut.check()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.cut.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.cut.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
