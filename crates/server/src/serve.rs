//! Listening, and stopping kindly.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use landfall_core::ports::records::Records;
use landfall_engine::Handle;
use tokio::net::TcpListener;
use tower_http::catch_panic::CatchPanicLayer;

use crate::connections;
use crate::guard;
use crate::metrics::Metrics;
use crate::problem::{Code, Problem};
use crate::routes;
use crate::rpc::{Keeper, Sockets};
use crate::tail::Tail;

/// What is taken at most.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one body.
    pub body: usize,
    /// Transactions of one batch.
    pub batch: usize,
    /// Connections at once.
    pub connections: usize,
    /// Time for a request's headers, and how long a connection may be idle.
    pub header_time: Duration,
    /// Time for a request's body.
    pub body_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 8 * 1024 * 1024,
            batch: 1_000,
            connections: 1_000,
            header_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
        }
    }
}

/// What a server is made of.
pub struct Parts {
    pub handle: Handle,
    /// The same store that the handle's engine writes to.
    pub records: Arc<dyn Records>,
    pub limits: Limits,
    /// The meter that the engine behind the handle was started with.
    pub metrics: Arc<Metrics>,
}

/// What handlers see.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) handle: Handle,
    pub(crate) records: Arc<dyn Records>,
    pub(crate) tail: Tail,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) sockets: Arc<Sockets>,
}

/// A server that listens.
pub struct Server {
    handle: Handle,
    tail: Tail,
    keeper: Arc<Keeper>,
    sockets: Arc<Sockets>,
    listener: TcpListener,
    router: Router,
    limits: Limits,
}

impl Server {
    /// Takes the address; requests wait until [`Server::run`].
    pub async fn bind(listen: SocketAddr, parts: Parts) -> std::io::Result<Self> {
        let Parts { handle, records, limits, metrics } = parts;
        let listener = TcpListener::bind(listen).await?;
        let guarded = from_fn_with_state(listener.local_addr()?, guard::same_origin);
        let tail = Tail::new();
        let keeper = Arc::new(Keeper::new(handle.clone(), records.clone()));
        let sockets = Arc::new(Sockets::new());
        let app = App {
            handle: handle.clone(),
            records,
            tail: tail.clone(),
            limits,
            metrics,
            keeper: keeper.clone(),
            sockets: sockets.clone(),
        };
        let router = routes::router(app)
            // The body is read, and measured, before.
            .layer(DefaultBodyLimit::disable())
            .layer(from_fn_with_state(limits, connections::whole_body))
            .layer(guarded)
            .layer(CatchPanicLayer::custom(|_| {
                use axum::response::IntoResponse;
                Problem::new(Code::Internal, "the request could not be handled; the log says more")
                    .into_response()
            }));
        Ok(Self { handle, tail, keeper, sockets, listener, router, limits })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until `stop` comes, then lets those under way finish, as long as they do not take too long.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) {
        let (tail, handle) = (self.tail, self.handle);
        let (ended, sockets, keeper) = (tail.clone(), self.sockets.clone(), self.keeper);
        // Listeners never come to their end by themselves.
        let stop = async move {
            stop.await;
            ended.stop();
            sockets.stop();
        };
        let follow = tail.follow(&handle);
        let serve = connections::serve(self.listener, self.router, self.limits, stop);
        let keep = keeper.run(self.sockets.stopped());
        tokio::join!(follow, keep, serve);
    }
}
