//! Listening, and stopping kindly.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use landfall_engine::Handle;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tower_http::catch_panic::CatchPanicLayer;

use crate::guard;
use crate::problem::{Code, Problem};
use crate::routes;

/// How long requests that are under way when the server stops may take: a caller that never finishes its own must
/// not keep it from stopping.
const FINISH_LIMIT: Duration = Duration::from_secs(5);

/// What is taken at most.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one body.
    pub body: usize,
    /// Transactions of one batch.
    pub batch: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body: 8 * 1024 * 1024, batch: 1_000 }
    }
}

/// What handlers see.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) handle: Handle,
    pub(crate) limits: Limits,
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    router: Router,
}

impl Server {
    /// Takes the address; requests wait until [`Server::run`].
    pub async fn bind(listen: SocketAddr, handle: Handle, limits: Limits) -> std::io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let guarded = from_fn_with_state(listener.local_addr()?, guard::same_origin);
        let router = routes::router(App { handle, limits })
            .layer(DefaultBodyLimit::max(limits.body))
            .layer(guarded)
            .layer(CatchPanicLayer::custom(|_| {
                use axum::response::IntoResponse;
                Problem::new(Code::Internal, "the request could not be handled; the log says more")
                    .into_response()
            }));
        Ok(Self { listener, router })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until `stop` comes, then lets those under way finish, as long as they do not take too long.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        let stopping = Arc::new(Notify::new());
        let begun = stopping.clone();
        let stop = async move {
            stop.await;
            begun.notify_one();
        };
        let too_long = async {
            stopping.notified().await;
            tokio::time::sleep(FINISH_LIMIT).await;
        };
        tokio::select! {
            served = axum::serve(self.listener, self.router).with_graceful_shutdown(stop) => served,
            () = too_long => {
                tracing::warn!("some requests did not come to their end; they are broken off");
                Ok(())
            }
        }
    }
}
