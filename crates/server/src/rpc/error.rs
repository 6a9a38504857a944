//! Errors in the words of JSON-RPC: the codes of EIP-1474 and EIP-1193, and in `data` the code that the rest of the API has.

use std::fmt;

use landfall_core::ports::chain::AskError;
use landfall_core::ports::store;
use landfall_engine::{SteerError, SubmitError};
use serde_json::{Value, json};

use crate::problem::{Code, Problem, sentence};

/// JSON-RPC and EIP-1474.
pub(super) const INVALID_PARAMS: i64 = -32602;
pub(super) const NO_METHOD: i64 = -32601;
pub(super) const INTERNAL: i64 = -32603;
pub(super) const INVALID_INPUT: i64 = -32000;
pub(super) const NOT_FOUND: i64 = -32001;
pub(super) const UNAVAILABLE: i64 = -32002;
pub(super) const REJECTED: i64 = -32003;
pub(super) const LIMIT: i64 = -32005;
/// EIP-1193.
pub(super) const UNAUTHORIZED: i64 = 4100;
pub(super) const UNSUPPORTED: i64 = 4200;
/// What nodes answer where a call would revert.
pub(super) const REVERTED: i64 = 3;

/// One error.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl fmt::Display) -> Self {
        Self { code, message: sentence(message), data: None }
    }

    /// With Landfall's own code.
    pub(crate) fn coded(code: i64, message: impl fmt::Display, own: &str) -> Self {
        Self { data: Some(json!({ "code": own })), ..Self::new(code, message) }
    }

    /// Says one thing more in its data.
    pub(crate) fn with(&mut self, name: &str, value: &str) {
        if let Some(Value::Object(data)) = &mut self.data {
            data.insert(name.to_owned(), value.into());
        }
    }

    /// About as many bytes as it is sent in.
    pub(super) fn length(&self) -> usize {
        let data = match &self.data {
            None => 0,
            Some(Value::String(text)) => text.len(),
            Some(data) => data.to_string().len(),
        };
        self.message.len() + data
    }

    pub(crate) fn body(&self) -> Value {
        let mut body = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            body["data"] = data.clone();
        }
        body
    }
}

fn code_of(code: Code) -> i64 {
    match code {
        Code::Unauthorized | Code::Forbidden | Code::UnknownSigner => UNAUTHORIZED,
        Code::RateLimited | Code::BatchTooLong => LIMIT,
        Code::NotFound | Code::HistoryRemoved => NOT_FOUND,
        Code::StoreUnavailable | Code::NoSlot => UNAVAILABLE,
        Code::OutcomeUnknown => INVALID_INPUT,
        Code::Internal => INTERNAL,
        other if other.status().as_u16() == 400 => INVALID_PARAMS,
        _ => REJECTED,
    }
}

impl From<Problem> for RpcError {
    fn from(problem: Problem) -> Self {
        let mut data = json!({ "code": problem.code.text() });
        if let Some(field) = &problem.field {
            data["field"] = json!(field.strip_prefix("payload.").unwrap_or(field));
        }
        if let Some(owner) = &problem.owner {
            data["owner"] = json!({ "node": owner.node, "address": owner.address });
        }
        Self { code: code_of(problem.code), message: problem.detail, data: Some(data) }
    }
}

impl From<store::Error> for RpcError {
    fn from(error: store::Error) -> Self {
        Problem::from(error).into()
    }
}

impl From<SubmitError> for RpcError {
    fn from(error: SubmitError) -> Self {
        Problem::from(error).into()
    }
}

impl From<SteerError> for RpcError {
    fn from(error: SteerError) -> Self {
        Problem::from(error).into()
    }
}

impl From<AskError> for RpcError {
    fn from(error: AskError) -> Self {
        match error {
            // As the node said it.
            AskError::Node { code, message, data } => Self { code, message, data },
            AskError::Busy(text) => {
                let mut error = Self::coded(LIMIT, text, "busy");
                error.with("setting", "rpc.max_at_once");
                error
            }
            AskError::NoRoom(no_room) => super::room::no_room(&no_room),
            AskError::NoAnswer(error) => Self::coded(UNAVAILABLE, error.to_string(), "chain_unavailable"),
        }
    }
}
