//! The answer to a message on its way to the caller, and the room that it takes until it is there.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::stream;

use super::MessageRoom;
use super::wire::{Answer, Pieces};

/// The answer to a message.
pub(crate) struct Answered {
    pieces: Vec<String>,
    room: Arc<MessageRoom>,
}

impl Answered {
    pub(super) fn one(answer: Answer, room: Arc<MessageRoom>) -> Self {
        let mut pieces = Pieces::default();
        answer.write(&mut pieces);
        Self { pieces: pieces.into_pieces(), room }
    }

    pub(super) fn batch(answers: Vec<Answer>, room: Arc<MessageRoom>) -> Self {
        let mut pieces = Pieces::default();
        let mut before = "[";
        for answer in answers {
            pieces.add(before.to_owned());
            before = ",";
            answer.write(&mut pieces);
        }
        pieces.add("]".to_owned());
        Self { pieces: pieces.into_pieces(), room }
    }

    fn length(&self) -> usize {
        self.pieces.iter().map(String::len).sum()
    }

    /// As one text, and the room that it takes: give it back when the text is sent.
    pub(super) fn into_text(mut self) -> (String, Arc<MessageRoom>) {
        self.room.fill(self.length());
        let text = if self.pieces.len() == 1 { self.pieces.pop() } else { Some(self.pieces.concat()) };
        (text.unwrap_or_default(), self.room)
    }
}

impl IntoResponse for Answered {
    fn into_response(mut self) -> Response {
        let length = self.length();
        self.room.fill(length);
        let json = (header::CONTENT_TYPE, "application/json");
        if self.pieces.len() == 1 && self.room.is_empty() {
            return ([json], self.pieces.pop().unwrap_or_default()).into_response();
        }
        // The room goes with the pieces: to the end, or until the caller hangs up.
        let pieces = stream::unfold((self.pieces.into_iter(), self.room), |(mut pieces, room)| async move {
            let piece = Bytes::from(pieces.next()?);
            Some((Ok::<_, Infallible>(piece), (pieces, room)))
        });
        ([json, (header::CONTENT_LENGTH, length.to_string().as_str())], Body::from_stream(pieces))
            .into_response()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::rpc::{Answers, Budget};

    fn answers(lengths: &[usize]) -> Vec<Answer> {
        let answer = |(id, length): (usize, &usize)| Answer {
            id: json!(id),
            said: Ok(format!("\"{}\"", "x".repeat(*length))),
        };
        lengths.iter().enumerate().map(answer).collect()
    }

    #[tokio::test]
    async fn a_large_answer_takes_room_until_it_is_sent_also_if_it_is_an_error() {
        let answers = Arc::new(Answers::new(Budget::default()));
        let data = Some(json!("x".repeat(100_000)));
        let error = crate::rpc::error::RpcError { code: 3, message: "execution reverted".into(), data };
        let answer = || Answer { id: json!(1), said: Err(error.clone()) };
        let response = Answered::one(answer(), answers.message(None)).into_response();
        assert!(!answers.is_empty());
        drop(response);
        assert!(answers.is_empty());
        let (text, room) = Answered::one(answer(), answers.message(None)).into_text();
        assert!(!answers.is_empty() && text.len() > 100_000);
        drop(room);
        assert!(answers.is_empty());
    }

    #[tokio::test]
    async fn short_and_long_answers_make_one_text_in_their_order() {
        let room = || Arc::new(Answers::new(Budget::default())).message(None);
        for lengths in [&[3][..], &[3, 4, 5], &[100_000], &[1, 100_000, 2, 3, 70_000, 70_000, 4]] {
            let (text, _) = Answered::batch(answers(lengths), room()).into_text();
            let read: Vec<Value> = serde_json::from_str(&text).unwrap();
            assert_eq!(read.len(), lengths.len());
            for (id, (answer, length)) in read.iter().zip(lengths).enumerate() {
                assert_eq!((&answer["id"], &answer["jsonrpc"]), (&json!(id), &json!("2.0")));
                assert_eq!(answer["result"].as_str().unwrap().len(), *length);
            }
            let response = Answered::batch(answers(lengths), room()).into_response();
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            assert_eq!(body, text.as_bytes());
        }
    }
}
