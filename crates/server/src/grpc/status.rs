//! Problems as gRPC statuses.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use crate::problem::{Code as ProblemCode, Problem};

/// A request that wants a gRPC answer.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/grpc"))
}

/// A problem as a whole answer.
pub(crate) fn refusal(problem: &Problem) -> Response {
    status(problem).into_http()
}

/// A problem as the end of an answer that has begun.
pub(crate) fn trailers(problem: &Problem) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    // The code is there also where the words cannot be said in a header.
    status(problem).add_header(&mut trailers).ok();
    trailers
}

pub(super) fn code(problem: &Problem) -> Code {
    match (problem.code, problem.code.status()) {
        (ProblemCode::RequestIdReused, _) => Code::AlreadyExists,
        (ProblemCode::OutcomeUnknown, _) => Code::Unknown,
        (_, StatusCode::BAD_REQUEST | StatusCode::UNSUPPORTED_MEDIA_TYPE) => Code::InvalidArgument,
        (_, StatusCode::UNAUTHORIZED) => Code::Unauthenticated,
        (_, StatusCode::FORBIDDEN) => Code::PermissionDenied,
        (_, StatusCode::NOT_FOUND | StatusCode::GONE) => Code::NotFound,
        (_, StatusCode::METHOD_NOT_ALLOWED) => Code::Unimplemented,
        (_, StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY) => Code::FailedPrecondition,
        (_, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::TOO_MANY_REQUESTS) => Code::ResourceExhausted,
        (_, StatusCode::REQUEST_TIMEOUT) => Code::DeadlineExceeded,
        (_, StatusCode::SERVICE_UNAVAILABLE) => Code::Unavailable,
        _ => Code::Internal,
    }
}

pub(super) fn status(problem: &Problem) -> Status {
    let mut metadata = MetadataMap::new();
    let mut tell = |name: &'static str, text: &str| {
        if let Ok(value) = text.parse() {
            metadata.insert(name, value);
        }
    };
    tell("landfall-code", problem.code.text());
    if let Some(field) = &problem.field {
        tell("landfall-field", field);
    }
    if let Some(owner) = &problem.owner {
        tell("landfall-owner", owner.address.as_ref().unwrap_or(&owner.node));
    }
    Status::with_metadata(code(problem), problem.detail.clone(), metadata)
}

impl From<Problem> for Status {
    fn from(problem: Problem) -> Self {
        status(&problem)
    }
}
