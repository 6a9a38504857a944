//! Answers that their callers may leave unread. Each takes room of its key until it is written, and what is large costs of its rate.

use std::sync::Arc;

use axum::http::{Method, Version};
use axum::response::Response;
use http_body::Body as _;

use super::caller::Caller;
use crate::grpc;
use crate::problem::Problem;
use crate::rpc::{LARGE, MessageRoom};
use crate::serve::App;

/// So many bytes of an answer cost as much as a request.
const BYTES_OF_A_REQUEST: usize = 64 << 10;
/// Room of an answer that has no end yet: HTTP/2 keeps no more of it.
const OF_STREAM: usize = 64 << 10;

/// A request, as far as its answer's room goes by it.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    version: Version,
    /// Nothing was done for it that its caller has to hear of.
    may_be_refused: bool,
}

impl Asked {
    pub(super) fn new(method: &Method, path: &str, version: Version) -> Self {
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        Self { version, may_be_refused: is_read || grpc::is_service(path) && !grpc::has_done(path) }
    }
}

/// Takes the room of an answer. JSON-RPC takes more by itself while it reads what it answers. Who shows no key where one is not needed
/// has the share of one key, together with all others who show none.
pub(super) fn room(
    app: &App,
    caller: &Caller,
    asked: Asked,
    response: &mut Response,
) -> Result<Option<Arc<MessageRoom>>, Problem> {
    let told = response.extensions_mut().remove::<grpc::Length>().map(|grpc::Length(length)| length);
    let exact = response.body().size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let length = told.or(exact);
    if let Some(length) = length.filter(|_| asked.may_be_refused) {
        app.keyring.owe(caller, length / BYTES_OF_A_REQUEST);
    }
    // Over HTTP/1 one answer follows the other, so that small ones are bounded by the connections.
    let is_counted = asked.version >= Version::HTTP_2 || length.is_some_and(|length| length > LARGE);
    let bytes = length.unwrap_or(OF_STREAM);
    if !is_counted || bytes == 0 {
        return Ok(None);
    }
    let strangers = (!caller.is_known()).then(|| Arc::from(""));
    let key = caller.key.as_ref().or(strangers.as_ref());
    if asked.may_be_refused {
        return app.answers.hold(key, bytes).map(Some);
    }
    Ok(Some(app.answers.hold_anyway(key, bytes)))
}
