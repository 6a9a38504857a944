//! gRPC calls of callers without a key: whether the server is healthy, and what it can do. Both may be asked for ever, so there
//! are so many of them at most, of all and of one address, and each ends after a time with a status that says so.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

use super::intake::line;
use super::line::AGE_WITHOUT_KEY;
use super::neighbour::StreamPlace;
use crate::access::Caller;
use crate::grpc;
use crate::metrics::NoRoom;
use crate::problem::{Code, Problem};
use crate::serve::App;

/// Bounds what is asked without a key.
pub(crate) async fn bound(State(app): State<App>, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>();
    if caller.is_some_and(Caller::is_known) {
        return next.run(request).await;
    }
    let Some(place) = place(&app, &request) else {
        app.metrics.turned_away(NoRoom::Stream);
        let detail = format!(
            "callers without an API key hold as many streams as they may (server.max_keyless_streams is {}, a quarter of \
             it for one address); show a key, or try again later",
            app.doors.most_streams
        );
        return grpc::refusal(&Problem {
            retry_after: Some(1),
            ..Problem::new(Code::TooManyStreams, detail)
        });
    };
    // A caller that sends for ever is no longer heard when its time is over.
    let asked = request.map(|body| Body::new(Aged::new(body, None)));
    next.run(asked).await.map(|body| Body::new(Aged::new(body, Some(place))))
}

struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_address: Option<StreamPlace>,
}

fn place(app: &App, request: &Request) -> Option<Place> {
    let doors = &app.doors;
    let of_all = doors.streams.clone().try_acquire_owned().ok()?;
    let of_address = match line(request) {
        Some(line) => Some(line.neighbour().take_stream(doors.most_streams_per_address)?),
        None => None,
    };
    Some(Place { _of_all: of_all, _of_address: of_address })
}

/// A body that ends when it is old.
struct Aged {
    body: Body,
    end: Pin<Box<Sleep>>,
    /// An answer says why it ends; a request just does.
    place: Option<Place>,
    over: bool,
}

impl Aged {
    fn new(body: Body, place: Option<Place>) -> Self {
        Self { body, end: Box::pin(tokio::time::sleep(AGE_WITHOUT_KEY)), place, over: false }
    }
}

impl http_body::Body for Aged {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if this.over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        if this.end.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        this.over = true;
        Poll::Ready(this.place.take().map(|_| Ok(Frame::trailers(too_old()))))
    }

    fn is_end_stream(&self) -> bool {
        self.over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// `UNAVAILABLE`, on which callers ask again.
fn too_old() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("14"));
    let why = "this call was open for 5 minutes without an API key; ask again, or show one";
    trailers.insert("grpc-message", HeaderValue::from_static(why));
    trailers
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_never_ends_is_ended_with_a_status() {
        let silent = Body::from_stream(futures::stream::pending::<Result<Bytes, axum::Error>>());
        let limit = Arc::new(tokio::sync::Semaphore::new(1));
        let permit = limit.clone().try_acquire_owned().unwrap();
        let place = Place { _of_all: permit, _of_address: None };
        let mut body = Aged::new(silent, Some(place));
        let mut next =
            async || std::future::poll_fn(|cx| http_body::Body::poll_frame(Pin::new(&mut body), cx)).await;
        let last = next().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(last["grpc-status"], "14");
        assert!(next().await.is_none());
        assert_eq!(limit.available_permits(), 1, "its place is free");
    }
}
