//! JSON-RPC errors with geth's codes and texts.

use alloy_primitives::Bytes;
use serde_json::{Value, json};

use crate::{reject::Reject, state::Pruned};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RpcError {
    code: i64,
    message: String,
    data: Option<Bytes>,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// geth's code for everything that has no code of its own.
    pub(crate) fn server(message: impl Into<String>) -> Self {
        Self::new(-32000, message)
    }

    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub(crate) fn invalid(message: &str) -> Self {
        Self::new(-32600, message)
    }

    pub(crate) fn parse() -> Self {
        Self::new(-32700, "parse error")
    }

    pub(crate) fn no_method(method: &str) -> Self {
        Self::new(-32601, format!("the method {method} does not exist/is not available"))
    }

    pub(crate) fn no_subscription(name: &str) -> Self {
        Self::new(-32601, format!("no \"{name}\" subscription in eth namespace"))
    }

    pub(crate) fn reverted(output: Bytes) -> Self {
        let message = match revert_reason(&output) {
            Some(reason) => format!("execution reverted: {reason}"),
            None => "execution reverted".to_owned(),
        };
        Self { code: 3, message, data: Some(output) }
    }

    pub(crate) fn is_invalid_request(&self) -> bool {
        self.code == -32600
    }

    pub(crate) fn to_json(&self) -> Value {
        match &self.data {
            Some(data) => json!({"code": self.code, "message": self.message, "data": data}),
            None => json!({"code": self.code, "message": self.message}),
        }
    }
}

impl From<Reject> for RpcError {
    fn from(reject: Reject) -> Self {
        Self::server(reject.to_string())
    }
}

impl From<Pruned> for RpcError {
    fn from(pruned: Pruned) -> Self {
        Self::server(pruned.to_string())
    }
}

/// The text of Solidity's `Error(string)`.
fn revert_reason(output: &[u8]) -> Option<String> {
    let body = output.strip_prefix(&[0x08, 0xc3, 0x79, 0xa0])?;
    let word = |at: usize| -> Option<usize> {
        let word = body.get(at..at.checked_add(32)?)?;
        let (high, low) = word.split_at(24);
        high.iter().all(|b| *b == 0).then_some(())?;
        usize::try_from(u64::from_be_bytes(low.try_into().ok()?)).ok()
    };
    let at = word(0)?;
    let length = word(at)?;
    let start = at.checked_add(32)?;
    let text = body.get(start..start.checked_add(length)?)?;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use alloy_primitives::hex;

    use super::*;

    #[test]
    fn a_revert_reason_is_read_and_a_broken_one_ignored() {
        let good = hex!(
            "08c379a0"
            "0000000000000000000000000000000000000000000000000000000000000020"
            "0000000000000000000000000000000000000000000000000000000000000002"
            "6e6f000000000000000000000000000000000000000000000000000000000000"
        );
        assert_eq!(revert_reason(&good).as_deref(), Some("no"));
        assert_eq!(revert_reason(&good[..40]), None);
        assert_eq!(revert_reason(&[0xff; 100]), None);
        let mut far = good;
        far[4..36].fill(0xff);
        assert_eq!(revert_reason(&far), None);
    }
}
