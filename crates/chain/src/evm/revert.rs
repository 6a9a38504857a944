//! Revert data in words: `Error(string)`, `Panic(uint256)` with its meaning, and the selector of a custom error.

use alloy_primitives::{Bytes, U256, hex};
use alloy_sol_types::{Panic, PanicKind, Revert, SolError};
use serde_json::Value;

use super::name::one_line;
use super::rpc::NodeError;

/// Why a call reverted, as well as its error tells.
pub(crate) fn reason(error: &NodeError) -> String {
    error
        .data
        .as_ref()
        .and_then(revert_bytes)
        .and_then(|bytes| decode(&bytes))
        .unwrap_or_else(|| error.message.clone())
}

/// The revert data in an error's data: as it is, after a word ("Reverted 0x…"), or some levels down.
fn revert_bytes(data: &Value) -> Option<Bytes> {
    match data {
        Value::String(text) => {
            let start = text.find("0x")?;
            hex::decode(text[start..].trim()).ok().map(Bytes::from)
        }
        Value::Object(map) => {
            ["data", "result", "output", "originalError"].iter().find_map(|key| revert_bytes(map.get(*key)?))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

fn decode(bytes: &[u8]) -> Option<String> {
    let selector: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    if selector == Revert::SELECTOR
        && let Ok(revert) = Revert::abi_decode(bytes)
    {
        return Some(one_line(&revert.reason));
    }
    if selector == Panic::SELECTOR
        && let Ok(panic) = Panic::abi_decode(bytes)
    {
        return Some(panic_words(panic.code));
    }
    Some(format!("custom error {} ({})", hex::encode_prefixed(selector), hex::encode_prefixed(shown(bytes))))
}

/// Enough of the data to tell what it is; the rest can be had from the chain.
fn shown(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(132)]
}

fn panic_words(code: U256) -> String {
    match u32::try_from(code).ok().and_then(PanicKind::from_number) {
        Some(kind) => format!("panic {code:#04x}: {}", kind.as_str()),
        None => format!("panic {code:#04x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evm::classify::Verdict;
    use alloy_sol_types::SolValue;
    use serde_json::json;

    fn error(data: Option<Value>) -> NodeError {
        NodeError { code: 3, message: "execution reverted".into(), data, verdict: Verdict::Unknown }
    }

    fn encoded(selector: [u8; 4], body: Vec<u8>) -> String {
        hex::encode_prefixed([selector.to_vec(), body].concat())
    }

    #[test]
    fn a_reason_string_is_shown_as_it_is() {
        let data = encoded(Revert::SELECTOR, ("not the owner",).abi_encode_params());
        for wrapped in [json!(data), json!({"data": data}), json!(format!("Reverted {data}"))] {
            assert_eq!(reason(&error(Some(wrapped))), "not the owner");
        }
        let nested = json!({"originalError": {"data": data}});
        assert_eq!(reason(&error(Some(nested))), "not the owner");
    }

    #[test]
    fn a_panic_is_explained() {
        let data = encoded(Panic::SELECTOR, U256::from(0x11).abi_encode());
        let words = reason(&error(Some(json!(data))));
        assert!(words.starts_with("panic 0x11: ") && words.contains("overflow"), "{words}");
    }

    #[test]
    fn a_custom_error_is_shown_by_its_selector() {
        let words = reason(&error(Some(json!("0xdeadbeef0000000000000001"))));
        assert_eq!(words, "custom error 0xdeadbeef (0xdeadbeef0000000000000001)");
    }

    #[test]
    fn without_data_the_text_has_to_do() {
        for data in
            [None, Some(json!("0x")), Some(json!("nothing")), Some(json!({"a": 1})), Some(json!(null))]
        {
            assert_eq!(reason(&error(data)), "execution reverted");
        }
    }
}
