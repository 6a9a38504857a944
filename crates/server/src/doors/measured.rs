//! The body of a gRPC request, measured as it comes. A stream of messages holds the bytes of the message that is being read; who
//! works on whole messages holds those by itself.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body::{Frame, SizeHint};
use tonic::Status;

use super::bytes::{Charge, Full};
use crate::problem::Problem;

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
}

impl Measured {
    pub(super) fn new(body: Body, charge: Arc<Charge>, streams: bool) -> Self {
        let messages = streams.then(Messages::default);
        Self { body, charge, messages, done: 0, waiting: None }
    }

    fn pass(&mut self, data: Bytes) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(messages) = &mut self.messages {
            self.done = messages.completed(&data);
        }
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
            this.charge.give_back(std::mem::take(&mut this.done));
        }
        let frame = match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => frame,
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
