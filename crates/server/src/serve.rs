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
use tokio::sync::Semaphore;
use tower_http::catch_panic::CatchPanicLayer;

use crate::connections;
use crate::guard;
use crate::metrics::Metrics;
use crate::problem::{Code, Problem};
use crate::routes;
use crate::tail::Tail;
use crate::webhooks::{Desk, Webhooks};

/// What is taken at most.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one body.
    pub body: usize,
    /// Transactions of one batch.
    pub batch: usize,
    /// Connections at once.
    pub connections: usize,
    /// Callers that listen to events at once.
    pub listeners: usize,
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
            listeners: 200,
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
    pub webhooks: Webhooks,
}

/// What handlers see.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) handle: Handle,
    pub(crate) records: Arc<dyn Records>,
    pub(crate) tail: Tail,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) desk: Desk,
    /// Places for callers that listen to events.
    pub(crate) listeners: Arc<Semaphore>,
}

/// A server that listens.
pub struct Server {
    handle: Handle,
    tail: Tail,
    desk: Desk,
    listener: TcpListener,
    router: Router,
    limits: Limits,
}

impl Server {
    /// Takes the address; requests wait until [`Server::run`].
    pub async fn bind(listen: SocketAddr, parts: Parts) -> std::io::Result<Self> {
        let Parts { handle, records, limits, metrics, webhooks } = parts;
        let listener = TcpListener::bind(listen).await?;
        let guarded = from_fn_with_state(listener.local_addr()?, guard::same_origin);
        let tail = Tail::new();
        let desk = Desk::new(handle.clone(), records.clone(), tail.clone(), webhooks, metrics.clone())?;
        let app = App {
            handle: handle.clone(),
            records,
            tail: tail.clone(),
            limits,
            metrics,
            desk: desk.clone(),
            listeners: Arc::new(Semaphore::new(limits.listeners)),
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
        Ok(Self { handle, tail, desk, listener, router, limits })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until `stop` comes, then lets those under way finish, as long as they do not take too long.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) {
        let (tail, handle) = (self.tail, self.handle);
        let ended = tail.clone();
        // Listeners never come to their end by themselves.
        let stop = async move {
            stop.await;
            ended.stop();
        };
        let follow = tail.follow(&handle);
        let serve = connections::serve(self.listener, self.router, self.limits, stop);
        tokio::join!(follow, serve, self.desk.run());
    }
}
