//! The body of a gRPC request, measured as it comes. A stream of messages holds the bytes of the message that is being read; who
//! works on whole messages holds those by itself. A message is whole within the time of a body, and a large one comes at a pace, or it
//! gives up what it holds.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tonic::Status;

use super::bytes::{Charge, Full, SMALL};
use super::intake::{PACE_BYTES, PACE_TIME, too_slow};
use crate::problem::{Code, Problem};
use crate::span::span;

/// A message's first bytes: whether it is compressed, and its length.
const PREFIX: usize = 5;

pub(super) struct Measured {
    body: Body,
    charge: Arc<Charge>,
    /// None: everything is held until the request is answered.
    messages: Option<Messages>,
    /// Bytes of messages that are whole; they are the reader's once it asks for more.
    done: usize,
    waiting: Option<(Bytes, BoxFuture<'static, Result<(), Full>>)>,
    /// Bytes that are held here.
    held: usize,
    /// Bytes that came since the pace was looked at, and when it is looked at next.
    came: usize,
    look: Option<Pin<Box<Sleep>>>,
    /// How long a message may be waited for, how long this one was, and since when it is now.
    time: Duration,
    waited: Duration,
    since: Option<Instant>,
    late: Option<Pin<Box<Sleep>>>,
}

impl Measured {
    pub(super) fn new(body: Body, charge: Arc<Charge>, streams: bool, time: Duration) -> Self {
        let messages = streams.then(Messages::default);
        Self {
            body,
            charge,
            messages,
            done: 0,
            waiting: None,
            held: 0,
            came: 0,
            look: None,
            time,
            waited: Duration::ZERO,
            since: None,
            late: None,
        }
    }

    /// Whether a message is waited for that should be whole by now. A stream may be silent between two of them.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        if self.messages.as_ref().is_some_and(|messages| messages.open == 0) {
            return false;
        }
        let until = *self.since.get_or_insert_with(Instant::now) + self.time.saturating_sub(self.waited);
        let late = self.late.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        late.as_mut().poll(cx).is_ready()
    }

    /// Something came. Only what the caller was waited for counts.
    fn heard(&mut self) {
        self.late = None;
        if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
        }
    }

    fn too_late(&self) -> Problem {
        let detail = format!("a message was not whole after {}; nothing of it was done", span(self.time));
        Problem::new(Code::BodyTooSlow, detail)
    }

    /// Whether a large message comes too slowly to be waited for.
    fn is_too_slow(&mut self, cx: &mut Context<'_>) -> bool {
        if self.held <= SMALL {
            self.look = None;
            return false;
        }
        loop {
            let begin = || Box::pin(tokio::time::sleep(PACE_TIME));
            let is_new = self.look.is_none();
            if self.look.get_or_insert_with(begin).as_mut().poll(cx).is_pending() {
                if is_new {
                    self.came = 0;
                }
                return false;
            }
            self.look = None;
            if self.came < PACE_BYTES {
                return true;
            }
        }
    }

    fn pass(&mut self, data: Bytes) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(messages) = &mut self.messages {
            self.done = messages.completed(&data);
            if self.done > 0 {
                self.waited = Duration::ZERO;
            }
        }
        self.held += data.len();
        self.came += data.len();
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

impl http_body::Body for Measured {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if let Some((data, mut waiting)) = this.waiting.take() {
            return match waiting.poll_unpin(cx) {
                Poll::Ready(Ok(())) => this.pass(data),
                Poll::Ready(Err(full)) => {
                    Poll::Ready(Some(Err(axum::Error::new(Status::from(Problem::from(full))))))
                }
                Poll::Pending => {
                    this.waiting = Some((data, waiting));
                    Poll::Pending
                }
            };
        }
        if this.done > 0 {
            this.held -= this.done;
            this.charge.give_back(std::mem::take(&mut this.done));
        }
        let frame = match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.heard();
                frame
            }
            Poll::Pending if this.is_too_slow(cx) => {
                return Poll::Ready(Some(Err(axum::Error::new(Status::from(too_slow())))));
            }
            Poll::Pending if this.is_late(cx) => {
                return Poll::Ready(Some(Err(axum::Error::new(Status::from(this.too_late())))));
            }
            other => return other,
        };
        match frame.into_data() {
            Ok(data) if this.charge.try_take(data.len()) => this.pass(data),
            Ok(data) => {
                let (charge, bytes) = (this.charge.clone(), data.len());
                this.waiting = Some((data, async move { charge.take(bytes).await }.boxed()));
                Pin::new(this).poll_frame(cx)
            }
            Err(trailers) => Poll::Ready(Some(Ok(trailers))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.waiting.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Where messages begin and end in what comes.
#[derive(Default)]
struct Messages {
    prefix: [u8; PREFIX],
    /// Bytes of the prefix that were seen.
    seen: usize,
    /// Bytes of the message that are missing.
    missing: usize,
    /// Bytes of a message that is not whole.
    open: usize,
}

impl Messages {
    /// How many of the bytes so far belong to messages that these bytes complete.
    fn completed(&mut self, mut data: &[u8]) -> usize {
        let mut completed = 0;
        while !data.is_empty() {
            if self.seen < PREFIX {
                let (byte, rest) = (data[0], &data[1..]);
                self.prefix[self.seen] = byte;
                self.seen += 1;
                self.open += 1;
                data = rest;
                if self.seen == PREFIX {
                    let [_, a, b, c, d] = self.prefix;
                    self.missing = u32::from_be_bytes([a, b, c, d]) as usize;
                }
            } else {
                let taken = self.missing.min(data.len());
                self.missing -= taken;
                self.open += taken;
                data = &data[taken..];
            }
            if self.seen == PREFIX && self.missing == 0 {
                completed += std::mem::take(&mut self.open);
                self.seen = 0;
            }
        }
        completed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_large_message_that_stalls_gives_up_what_it_holds_and_a_stream_that_waits_does_not() {
        use crate::access::Caller;
        use crate::doors::Doors;
        use crate::limits::Limits;
        use futures::StreamExt as _;

        let doors = Doors::new(&Limits::default());
        let body = |sent: Vec<u8>| {
            let sent = futures::stream::iter([Ok::<_, axum::Error>(Bytes::from(sent))]);
            let body = Body::from_stream(sent.chain(futures::stream::pending()));
            Measured::new(body, Arc::new(doors.charge(None, &Caller::anyone())), true, 10 * PACE_TIME)
        };
        let next = async |body: &mut Measured| {
            let next = std::future::poll_fn(|cx| http_body::Body::poll_frame(Pin::new(body), cx));
            tokio::time::timeout(20 * PACE_TIME, next).await
        };
        let mut begun = vec![0, 0, 16, 0, 0];
        begun.resize(2 * SMALL, 7);
        let mut stalls = body(begun);
        assert!(next(&mut stalls).await.unwrap().unwrap().is_ok());
        assert!(next(&mut stalls).await.unwrap().unwrap().is_err());
        let mut whole = vec![0, 0, 1, 0, 0];
        whole.resize(5 + SMALL, 7);
        whole.extend(whole.clone());
        let mut waits = body(whole);
        assert!(next(&mut waits).await.unwrap().unwrap().is_ok());
        assert!(next(&mut waits).await.is_err(), "nothing of a message is held");
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_message_that_is_never_whole_ends_in_time_and_a_stream_may_be_silent_between_messages() {
        use crate::access::Caller;
        use crate::doors::Doors;
        use crate::limits::Limits;
        use futures::StreamExt as _;

        const TIME: Duration = Duration::from_secs(30);
        let doors = Doors::new(&Limits::default());
        let took = async |pieces: Vec<Vec<u8>>, streams: bool| {
            let pieces = futures::stream::iter(pieces).then(async |piece| {
                tokio::time::sleep(TIME / 3).await;
                Ok::<_, axum::Error>(Bytes::from(piece))
            });
            let body = Body::from_stream(pieces.boxed().chain(futures::stream::pending()));
            let charge = Arc::new(doors.charge(None, &Caller::anyone()));
            let mut body = Measured::new(body, charge, streams, TIME);
            let began = Instant::now();
            loop {
                let next = std::future::poll_fn(|cx| http_body::Body::poll_frame(Pin::new(&mut body), cx));
                match tokio::time::timeout(20 * TIME, next).await {
                    Ok(Some(Ok(_))) => {}
                    Ok(Some(Err(error))) => {
                        assert!(format!("{error:?}").contains("not whole after"), "{error:?}");
                        return Some(began.elapsed());
                    }
                    Ok(None) | Err(_) => return None,
                }
            }
        };
        let drips = || vec![vec![0, 0, 0, 0, 200], vec![7], vec![7], vec![7], vec![7], vec![7]];
        assert_eq!(took(drips(), false).await, Some(TIME));
        assert_eq!(took(drips(), true).await, Some(TIME / 3 + TIME), "since it began");
        assert_eq!(took(Vec::new(), false).await, Some(TIME), "a call that says nothing");
        assert_eq!(took(Vec::new(), true).await, None);
        let whole = vec![0, 0, 0, 0, 1, 7];
        let cut = vec![vec![0, 0, 0, 0, 1], vec![7, 0, 0, 0], vec![0, 1, 7]];
        assert_eq!(took([vec![whole.clone(); 9], cut, vec![whole; 9]].concat(), true).await, None);
    }

    #[test]
    fn bytes_are_let_go_when_their_message_is_whole_however_they_are_cut() {
        let mut stream = Vec::new();
        for length in [0_u32, 3, 300, 1] {
            stream.push(0);
            stream.extend(length.to_be_bytes());
            stream.extend(std::iter::repeat_n(7, length as usize));
        }
        for size in [1, 2, 5, 7, 64, 1_000] {
            let mut messages = Messages::default();
            let completed: usize = stream.chunks(size).map(|chunk| messages.completed(chunk)).sum();
            assert_eq!((completed, messages.open), (stream.len(), 0), "{size}");
        }
        let mut messages = Messages::default();
        assert_eq!(messages.completed(&stream[..20]), 13);
        assert_eq!(messages.open, 7);
    }
}
