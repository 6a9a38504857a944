//! A request's body, once its caller may come in: within its time, measured as it comes, and no longer than allowed. The body
//! of whoever is refused is not kept; a little of it is taken in and forgotten, so that the caller hears why.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use http_body::{Body as _, Frame};
use tokio::time::Instant;

use super::bytes::{Charge, Full, SMALL};
use super::line::Line;
use super::measured::Measured;
use crate::access::{Caller, Need};
use crate::grpc;
use crate::metrics::NoRoom;
use crate::problem::{Code, Problem};
use crate::serve::App;
use crate::span::span;

/// A body that is too large is read this far past its limit, only so that the caller hears the answer.
const DISCARD_AT_MOST: usize = 4 << 20;
const DISCARD_REST_TIME: Duration = Duration::from_secs(5);
/// The same for a caller that is refused, and how long that may take.
const DISCARD_OF_REFUSED: usize = 256 << 10;
const DISCARD_TIME: Duration = Duration::from_secs(1);
/// A body that is not small comes at a pace, or gives up what it holds: so many bytes in so long.
pub(super) const PACE_BYTES: usize = 128 << 10;
pub(super) const PACE_TIME: Duration = Duration::from_secs(4);

/// The connection that a request came on.
pub(crate) fn line(request: &Request) -> Option<&Arc<Line>> {
    request.extensions().get::<Arc<Line>>()
}

/// The request with its body read, and what it holds until it is answered.
pub(crate) async fn take(
    app: &App,
    (caller, need): (&Caller, Need),
    request: Request,
) -> Result<(Request, Arc<Charge>), Problem> {
    let charge = Arc::new(app.doors.charge(line(&request), caller));
    // Messages of a stream come one by one, and each is measured by who reads it.
    if grpc::is_service(request.uri().path()) && grpc::is_grpc(request.headers()) {
        let streams = grpc::takes_a_stream(request.uri().path());
        let time = app.limits.body_time;
        let request = request.map(|body| Body::new(Measured::new(body, charge.clone(), streams, time)));
        return Ok((request, charge));
    }
    let (parts, body) = request.into_parts();
    if body.is_end_stream() {
        return Ok((Request::from_parts(parts, Body::empty()), charge));
    }
    if need == Need::Nobody {
        // Nothing that needs nobody is told anything.
        refused(app, &parts.headers, body).await;
        return Ok((Request::from_parts(parts, Body::empty()), charge));
    }
    let bytes = whole(app, &parts.headers, body, &charge).await?;
    Ok((Request::from_parts(parts, Body::from(bytes)), charge))
}

/// The whole body.
async fn whole(app: &App, headers: &HeaderMap, mut body: Body, charge: &Charge) -> Result<Bytes, Problem> {
    let limits = &app.limits;
    let too_large = || Problem::new(Code::BodyTooLarge, format!("at most {} bytes are taken", limits.body));
    let said = said(headers);
    // A caller that asks before it sends is answered before it has sent, and what says it is far too large is not read.
    let most = limits.body + if asks_first(headers) { 0 } else { DISCARD_AT_MOST };
    if said.is_some_and(|length| length > most as u64) {
        return Err(too_large());
    }
    let problem =
        match tokio::time::timeout(limits.body_time, read(&mut body, limits.body, said, charge)).await {
            Ok(Ok(bytes)) => return Ok(bytes),
            Ok(Err(Stopped::TooLarge)) => too_large(),
            Ok(Err(Stopped::Full(full))) => {
                app.metrics.turned_away(NoRoom::Bytes);
                full.into()
            }
            Ok(Err(Stopped::Broken(error))) => {
                return Err(Problem::new(Code::InvalidJson, format!("the body could not be read: {error}")));
            }
            Ok(Err(Stopped::TooSlow)) => return Err(too_slow()),
            Err(_) => {
                let detail = format!("it was not whole after {}", span(limits.body_time));
                return Err(Problem::new(Code::BodyTooSlow, detail));
            }
        };
    // What is refused is not kept.
    charge.give_back(usize::MAX);
    // A connection that is closed with unread bytes is reset, and a caller that is still sending then never sees why it was
    // refused.
    let time = limits.body_time.min(DISCARD_REST_TIME);
    tokio::time::timeout(time, discard(&mut body, DISCARD_AT_MOST)).await.ok();
    Err(problem)
}

/// Says no to a body that holds much and hardly goes on.
pub(super) fn too_slow() -> Problem {
    let detail = format!(
        "a body of more than {SMALL} bytes must go on by {PACE_BYTES} bytes in {} at least, so that none holds what others could \
         have; send it again, or less at once",
        span(PACE_TIME)
    );
    Problem::new(Code::BodyTooSlow, detail)
}

/// Lets a caller that is refused say a little more, so that it hears the answer. At most so many are listened to at once.
pub(crate) async fn refused(app: &App, headers: &HeaderMap, mut body: Body) {
    let long = said(headers).is_some_and(|length| length > DISCARD_OF_REFUSED as u64);
    // A gRPC caller hears the answer while it sends.
    if body.is_end_stream() || asks_first(headers) || long || grpc::is_grpc(headers) {
        return;
    }
    if let Ok(_place) = app.doors.discards.try_acquire() {
        tokio::time::timeout(DISCARD_TIME, discard(&mut body, DISCARD_OF_REFUSED)).await.ok();
    }
}

/// The length that a caller announces.
fn said(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn asks_first(headers: &HeaderMap) -> bool {
    headers.contains_key(header::EXPECT)
}

/// Why a body is not read to its end.
enum Stopped {
    TooLarge,
    Full(Full),
    TooSlow,
    Broken(axum::Error),
}

/// All bytes, if they are no more than `most`.
async fn read(body: &mut Body, most: usize, said: Option<u64>, charge: &Charge) -> Result<Bytes, Stopped> {
    let mut whole = Vec::new();
    // Where the body was when its pace was last looked at, and when it is looked at next.
    let (mut before, mut look) = (0, Instant::now() + PACE_TIME);
    loop {
        let chunk = loop {
            match tokio::time::timeout_at(look, next(body)).await {
                Ok(chunk) => break chunk,
                Err(_) if whole.len() > SMALL && whole.len() - before < PACE_BYTES => {
                    return Err(Stopped::TooSlow);
                }
                Err(_) => (before, look) = (whole.len(), Instant::now() + PACE_TIME),
            }
        };
        let Some(chunk) = chunk else { break };
        let chunk = chunk.map_err(Stopped::Broken)?;
        if whole.len() + chunk.len() > most {
            return Err(Stopped::TooLarge);
        }
        charge.take(chunk.len()).await.map_err(Stopped::Full)?;
        if whole.is_empty() {
            // Most bodies come in one piece.
            if body.is_end_stream() {
                return Ok(chunk);
            }
            // Room that is only promised costs nothing until it is written to.
            let announced = said.and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
            whole.reserve_exact(announced.clamp(chunk.len(), most));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.into())
}

/// Takes in and forgets what a caller goes on sending, up to a bound.
async fn discard(body: &mut Body, most: usize) {
    let mut taken = 0;
    while let Some(Ok(chunk)) = next(body).await {
        taken += chunk.len();
        if taken > most {
            break;
        }
    }
}

/// The next piece of a body's data.
async fn next(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => return Some(Ok(data)),
            // What follows the data is nothing that is read here.
            Ok(Err(_)) => {}
            Err(error) => return Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;
    use crate::access::Caller;
    use crate::doors::Doors;
    use crate::limits::Limits;

    /// A body of pieces of 64 KiB, each after a pause.
    fn body(pieces: usize, pause: Duration) -> Body {
        let pieces = futures::stream::iter(0..pieces).then(move |_| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, axum::Error>(Bytes::from(vec![b' '; 64 << 10]))
        });
        Body::from_stream(pieces)
    }

    async fn taken(mut body: Body) -> Result<usize, &'static str> {
        let charge = Doors::new(&Limits::default()).charge(None, &Caller::anyone());
        match read(&mut body, 8 << 20, None, &charge).await {
            Ok(bytes) => Ok(bytes.len()),
            Err(Stopped::TooSlow) => Err("too slow"),
            Err(_) => Err("something else"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_body_that_stalls_or_drips_gives_its_bytes_back_soon_and_one_that_comes_is_taken() {
        let began = Instant::now();
        let stalls = body(32, Duration::ZERO).into_data_stream().chain(futures::stream::pending());
        assert_eq!(taken(Body::from_stream(stalls)).await, Err("too slow"));
        assert!(began.elapsed() <= 2 * PACE_TIME, "{:?}", began.elapsed());
        assert_eq!(taken(body(64, Duration::from_millis(2_500))).await, Err("too slow"));
        assert_eq!(taken(body(64, Duration::from_millis(1_000))).await, Ok(4 << 20));
        assert_eq!(taken(body(1, Duration::from_secs(20))).await, Ok(64 << 10), "a small one has more time");
    }
}
