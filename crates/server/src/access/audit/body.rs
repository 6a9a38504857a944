//! Bodies as the log keeps them: enough to see what was asked for, and nothing that opens a door.

use alloy_primitives::hex;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// A body up to this length is kept as it is.
const WHOLE: usize = 1_000;
/// Fields whose values are secrets.
const SECRET: [&str; 3] = ["secret", "key", "password"];

/// The part of a body that is kept: all of it, or else its digest.
pub(super) fn kept(sent: &[u8]) -> (Option<Value>, Option<String>) {
    if sent.is_empty() {
        return (None, None);
    }
    // A long one is not read: its values can be many times as large as its text.
    let short = (sent.len() <= WHOLE).then(|| serde_json::from_slice::<Value>(sent).ok()).flatten();
    match short {
        Some(body) => (Some(without_secrets(body)), None),
        None => {
            (Some(json!(format!("{} bytes", sent.len()))), Some(hex::encode_prefixed(Sha256::digest(sent))))
        }
    }
}

fn without_secrets(body: Value) -> Value {
    match body {
        Value::Object(fields) => Value::Object(fields.into_iter().map(field).collect::<Map<_, _>>()),
        Value::Array(items) => items.into_iter().map(without_secrets).collect(),
        other => other,
    }
}

fn field((name, value): (String, Value)) -> (String, Value) {
    let shown = match value {
        Value::String(_) if SECRET.contains(&name.as_str()) => json!("…"),
        // Many receivers have their token in the path.
        Value::String(url) if name == "url" => json!(without_path(&url)),
        value => without_secrets(value),
    };
    (name, shown)
}

fn without_path(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "…".to_owned() };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}/…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_body_is_kept_without_what_opens_doors() {
        let sent = br#"{"url":"https://u:p@hooks.example/T0/abc?x=1","secret":"whsec_1","types":["tx.mined"],"a":{"key":"k"}}"#;
        let (body, digest) = kept(sent);
        assert_eq!(
            body,
            Some(
                json!({ "url": "https://hooks.example/…", "secret": "…", "types": ["tx.mined"], "a": { "key": "…" } })
            )
        );
        assert_eq!(digest, None);
    }

    #[test]
    fn a_long_body_is_kept_by_its_digest() {
        let (body, digest) = kept(&[b'x'; 2_000]);
        assert_eq!(body, Some(json!("2000 bytes")));
        assert!(digest.is_some_and(|digest| digest.starts_with("0x") && digest.len() == 66));
        assert_eq!(kept(b""), (None, None));
    }
}
