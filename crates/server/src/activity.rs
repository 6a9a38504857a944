//! Requests of one connection, each with where it comes from, and counted until the last of its answer is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use futures::future::BoxFuture;
use http_body::{Frame, SizeHint};
use tower_service::Service;

use crate::doors::{Line, Peer, Running};

/// The router of one connection.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(crate) router: Router,
    pub(crate) line: Arc<Line>,
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

    fn call(&mut self, mut request: axum::http::Request<B>) -> Self::Future {
        let mut running = self.line.begins();
        request.extensions_mut().insert(Peer(self.line.peer()));
        request.extensions_mut().insert(self.line.clone());
        let answered = self.router.call(request.map(Body::new));
        Box::pin(async move {
            let answer = answered.await?;
            running.is_answered();
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
