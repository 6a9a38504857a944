//! Positional parameters, with geth's complaints about wrong ones.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::RpcError;

pub(crate) struct Params(Vec<Value>);

impl Params {
    pub(crate) fn new(value: Value) -> Result<Self, RpcError> {
        match value {
            Value::Null => Ok(Self(Vec::new())),
            Value::Array(values) => Ok(Self(values)),
            _ => Err(RpcError::params("non-array args")),
        }
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, index: usize) -> Result<T, RpcError> {
        self.optional(index)?
            .ok_or_else(|| RpcError::params(format!("missing value for required argument {index}")))
    }

    pub(crate) fn optional<T: DeserializeOwned>(&self, index: usize) -> Result<Option<T>, RpcError> {
        match self.0.get(index) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => T::deserialize(value)
                .map(Some)
                .map_err(|error| RpcError::params(format!("invalid argument {index}: {error}"))),
        }
    }
}
