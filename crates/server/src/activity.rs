//! Whether anything goes on on a connection: requests that are answered, and answers that are still being sent. One on which
//! nothing does, from its first moment on, is given up after a time, so that silent callers cannot take all places.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use futures::future::BoxFuture;
use http_body::{Frame, SizeHint};
use tokio::time::Instant;
use tower_service::Service;

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What goes on on one connection.
pub(crate) struct Activity {
    began: Instant,
    running: AtomicUsize,
    /// When something last went on, in milliseconds since it began.
    last: AtomicU64,
}

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), running: AtomicUsize::new(0), last: AtomicU64::new(0) })
    }

    fn touch(&self) {
        let since = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(since, Ordering::Relaxed);
    }

    /// Comes when nothing has gone on for so long.
    pub(crate) async fn silent_for(&self, limit: Duration) {
        loop {
            tokio::time::sleep(LOOK_EVERY.min(limit)).await;
            let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
            let silent = self.began.elapsed().saturating_sub(last);
            if self.running.load(Ordering::Relaxed) == 0 && silent >= limit {
                return;
            }
        }
    }
}

/// One request, until the last of its answer.
struct Running(Arc<Activity>);

impl Running {
    fn new(activity: &Arc<Activity>) -> Self {
        activity.running.fetch_add(1, Ordering::Relaxed);
        activity.touch();
        Self(activity.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.touch();
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The router of one connection.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(crate) router: Router,
    pub(crate) activity: Arc<Activity>,
}

impl<B> Service<axum::http::Request<B>> for Watched
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        <Router as Service<Request>>::poll_ready(&mut self.router, cx)
    }

    fn call(&mut self, request: axum::http::Request<B>) -> Self::Future {
        let running = Running::new(&self.activity);
        let answered = self.router.call(request.map(Body::new));
        Box::pin(async move {
            let answer = answered.await?;
            Ok(answer.map(|body| Body::new(Sent { body, _running: running })))
        })
    }
}

/// An answer's body, which counts as long as it is sent.
struct Sent {
    body: Body,
    _running: Running,
}

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
