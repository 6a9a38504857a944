//! The parameters of a call: an array, taken from the front.

use std::fmt;

use alloy_primitives::B256;
use landfall_core::{Account, TxHash};
use serde_json::Value;

use super::error::{INVALID_PARAMS, RpcError};
use crate::body::address;
use crate::problem::{quoted, repeated};

pub(super) struct Params {
    items: std::vec::IntoIter<Value>,
    at: usize,
}

impl Params {
    pub(super) fn of(params: Value) -> Result<Self, RpcError> {
        match params {
            Value::Array(items) => Ok(Self { items: items.into_iter(), at: 0 }),
            _ => Err(bad("params is an array here")),
        }
    }

    /// The next one; null counts as absent.
    pub(super) fn next(&mut self) -> Option<Value> {
        self.at += 1;
        self.items.next().filter(|value| !value.is_null())
    }

    pub(super) fn need(&mut self, what: &str) -> Result<Value, RpcError> {
        let at = self.at;
        self.next().ok_or_else(|| bad(format!("params[{at}] is missing: {what}")))
    }

    pub(super) fn text(&mut self, what: &str) -> Result<String, RpcError> {
        let at = self.at;
        match self.need(what)? {
            Value::String(text) => Ok(text),
            other => {
                let other = repeated(other);
                Err(bad(format!("params[{at}] is {other}; it must be a string: {what}")))
            }
        }
    }

    pub(super) fn account(&mut self) -> Result<Account, RpcError> {
        let path = format!("params[{}]", self.at);
        Ok(address(&path, &self.text("an address")?)?)
    }

    pub(super) fn hash(&mut self) -> Result<TxHash, RpcError> {
        let text = self.text("the hash of a transaction")?;
        hash(&text)
            .ok_or_else(|| bad(format!("{} is not a hash: 0x and 64 hexadecimal digits", quoted(&text))))
    }
}

pub(super) fn bad(text: impl fmt::Display) -> RpcError {
    RpcError::coded(INVALID_PARAMS, text, "bad_value")
}

pub(super) fn hash(text: &str) -> Option<TxHash> {
    let parsed: B256 = text.starts_with("0x").then(|| text.parse().ok()).flatten()?;
    Some(TxHash(parsed))
}

/// A number as JSON-RPC writes it.
pub(super) fn quantity(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// A number as JSON-RPC writes it.
pub(super) fn hex(number: u64) -> Value {
    Value::String(format!("{number:#x}"))
}
