//! Reading what callers send: strict, field by field, with a code and a sentence for everything that is off.

mod action;
mod authorizations;
mod fields;
mod key;
pub(crate) mod limits;
mod strict;
mod submission;

use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use serde_json::Value;

pub(crate) use action::{acceptance, decision, range, replacement, retry, session, speed_up, taken};
pub(crate) use fields::{Fields, address, wrong_type};
pub(crate) use key::new_key;
pub(crate) use submission::{payload, submission};

use crate::problem::{Code, Problem};

/// Refuses a body that does not say that it is JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    // A browser's form cannot send this type across origins unasked, so a web page cannot spend a local key.
    let sent_as = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = sent_as.split(';').next().unwrap_or("").trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let detail = format!("the content-type is {kind:?}; send the header content-type: application/json");
        return Err(Problem::new(Code::WrongContentType, detail));
    }
    Ok(())
}

/// JSON in which no field is there twice.
pub(crate) fn strict_json(body: &[u8]) -> Result<Value, serde_json::Error> {
    strict::from_slice(body)
}

/// JSON that a node answered.
pub(crate) fn of_node(text: &str) -> Result<Value, serde_json::Error> {
    strict::of_node(text)
}

/// The JSON of a request's body.
pub(crate) fn json(headers: &HeaderMap, body: &Bytes) -> Result<Value, Problem> {
    is_json(headers)?;
    strict::from_slice(body).map_err(|error| Problem::new(Code::InvalidJson, error))
}

/// As [`json`], where a body may be left out: then it is an empty object.
pub(crate) fn json_or_nothing(headers: &HeaderMap, body: &Bytes) -> Result<Value, Problem> {
    if body.is_empty() { Ok(Value::Object(serde_json::Map::new())) } else { json(headers, body) }
}

/// The `Idempotency-Key` header, where there is one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::new(Code::BadRequestId, "there is more than one Idempotency-Key header"));
    }
    match first.to_str() {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(Problem::new(Code::BadRequestId, "the Idempotency-Key header is not plain text")),
    }
}
