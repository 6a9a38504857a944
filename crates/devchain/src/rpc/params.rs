//! Positional parameters, with geth's complaints about wrong ones. They stay text until a method asks for one.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::RpcError;

pub(crate) struct Params<'a>(Vec<&'a RawValue>);

impl<'a> Params<'a> {
    pub(crate) fn new(value: Option<&'a RawValue>) -> Result<Self, RpcError> {
        match value.map(RawValue::get) {
            None | Some("null") => Ok(Self(Vec::new())),
            Some(text) => {
                serde_json::from_str(text).map(Self).map_err(|_| RpcError::params("non-array args"))
            }
        }
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, index: usize) -> Result<T, RpcError> {
        self.optional(index)?
            .ok_or_else(|| RpcError::params(format!("missing value for required argument {index}")))
    }

    pub(crate) fn optional<T: DeserializeOwned>(&self, index: usize) -> Result<Option<T>, RpcError> {
        match self.0.get(index).map(|value| value.get()) {
            None | Some("null") => Ok(None),
            Some(text) => serde_json::from_str(text)
                .map(Some)
                .map_err(|error| RpcError::params(format!("invalid argument {index}: {error}"))),
        }
    }
}
