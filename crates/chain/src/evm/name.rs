//! What an endpoint is called in reports, logs and errors: its URL without anything that could be a credential.

use std::fmt;

use reqwest::Url;
use serde_json::Value;

/// A path segment this long may be an API key.
const LONG_SEGMENT: usize = 12;
/// What stands in for something secret.
const MASK: &str = "***";
/// The longest text of a node that is kept.
const MAX_TEXT: usize = 300;

/// The public name of an endpoint, and the secrets that must not be shown with it.
#[derive(Clone)]
pub(crate) struct Name {
    shown: String,
    secrets: Vec<String>,
}

impl Name {
    pub(crate) fn of(url: &Url) -> Self {
        let mut secrets = Vec::new();
        let mut shown = format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default());
        if let Some(port) = url.port() {
            shown.push_str(&format!(":{port}"));
        }
        for segment in url.path_segments().into_iter().flatten().filter(|segment| !segment.is_empty()) {
            shown.push('/');
            if segment.len() >= LONG_SEGMENT {
                shown.push_str(MASK);
                secrets.extend(forms(segment));
            } else {
                shown.push_str(segment);
            }
        }
        secrets.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
        secrets.extend(url.query().into_iter().flat_map(|query| query.split('&')).flat_map(|pair| {
            let value = pair.split_once('=').map_or(pair, |(_, value)| value);
            forms(value)
        }));
        secrets.extend(url.query().map(str::to_owned));
        secrets.extend(credentials(url));
        // Longest first, so that a secret inside another does not leave the rest of it standing.
        secrets.retain(|secret| secret.len() >= 4);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { shown, secrets }
    }

    /// A text that came from outside, fit to be shown: on one line, not too long, without this endpoint's secrets.
    pub(crate) fn clean(&self, text: &str) -> String {
        one_line(&self.hide(text, 0))
    }

    /// JSON that came from outside, as it is but without this endpoint's secrets. In bytes (`0x…`) a short one is none: what they
    /// say must stay readable.
    pub(crate) fn cleaned(&self, value: Value) -> Value {
        match value {
            Value::String(text) => {
                Value::String(self.hide(&text, if is_hex(&text) { LONG_SEGMENT } else { 0 }))
            }
            Value::Array(items) => items.into_iter().map(|item| self.cleaned(item)).collect(),
            Value::Object(fields) => {
                let fields =
                    fields.into_iter().map(|(name, value)| (self.hide(&name, 0), self.cleaned(value)));
                Value::Object(fields.collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }

    /// A text without this endpoint's secrets of at least this length.
    fn hide(&self, text: &str, least: usize) -> String {
        let secrets = self.secrets.iter().filter(|secret| secret.len() >= least);
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), MASK))
    }
}

/// User and password in every form that a node may see them in: as the URL has them, decoded, together, and as in the header.
fn credentials(url: &Url) -> Vec<String> {
    let (users, passwords) = (forms(url.username()), forms(url.password().unwrap_or_default()));
    let pairs = users.iter().zip(&passwords).map(|(user, password)| format!("{user}:{password}"));
    let pairs: Vec<String> = pairs.filter(|pair| pair != ":").collect();
    let headers: Vec<String> = pairs.iter().map(|pair| base64(pair.as_bytes())).collect();
    users.into_iter().chain(passwords).chain(pairs).chain(headers).collect()
}

/// A part of a URL as it stands there, and without its percent signs.
fn forms(part: &str) -> [String; 2] {
    let bytes = part.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let coded = part.get(at + 1..at + 3).filter(|_| *byte == b'%');
        match coded.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(meant) => {
                decoded.push(meant);
                at += 3;
            }
            None => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    [part.to_owned(), String::from_utf8_lossy(&decoded).into_owned()]
}

/// Bytes as a `Basic` header has them, without the signs that fill it up: they say nothing, and may be left out.
fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let of_three = |three: &[u8]| {
        let bits =
            three.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * (3 - three.len()));
        let signs = [18, 12, 6, 0].map(|shift| char::from(SIGNS[bits >> shift & 63]));
        signs.into_iter().take(three.len() + 1)
    };
    bytes.chunks(3).flat_map(of_three).collect()
}

fn is_hex(text: &str) -> bool {
    text.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// A text from outside on one line, without control characters, cut where it gets too long.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.retain(|c| !c.is_control());
    match line.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(url: &str) -> Name {
        Name::of(&Url::parse(url).unwrap())
    }

    #[test]
    fn a_name_never_contains_credentials() {
        let cases = [
            ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
            ("https://node.example/", "https://node.example"),
            ("https://user:hunter22@node.example/rpc", "https://node.example/rpc"),
            ("https://node.example/v3/0123456789abcdef0123456789abcdef", "https://node.example/v3/***"),
            ("wss://node.example/ws?apikey=topsecret", "wss://node.example/ws"),
            ("https://node.example/0123456789abcdef/ext", "https://node.example/***/ext"),
        ];
        for (url, shown) in cases {
            assert_eq!(name(url).to_string(), shown);
        }
    }

    #[test]
    fn a_nodes_text_is_shown_without_the_endpoints_secrets() {
        let name = name("https://user:hunter22@node.example/v3/0123456789abcdef?key=topsecret");
        let text = name.clean("project 0123456789abcdef,\n key topsecret, hunter22 \u{7}is unknown");
        assert_eq!(text, "project ***, key ***, *** is unknown");
        assert!(name.clean(&"x".repeat(1_000)).chars().count() <= MAX_TEXT + 1);
    }

    #[test]
    fn secrets_are_hidden_also_in_the_form_in_which_the_node_got_them() {
        let name = name(
            "https://usr:p%40ssw0rd%21x@node.example/v3/a%2Fb%2Fc%2Fd%2Fe?tok=zz%2Fsecret99&k=a%20b%20c",
        );
        // Of "usr:p@ssw0rd!x" and of "usr:p%40ssw0rd%21x".
        for header in ["dXNyOnBAc3N3MHJkIXg=", "dXNyOnAlNDBzc3cwcmQlMjF4"] {
            assert_eq!(name.clean(&format!("Basic {header}")).trim_end_matches('='), "Basic ***");
        }
        for said in [
            "usr:p@ssw0rd!x",
            "p@ssw0rd!x",
            "p%40ssw0rd%21x",
            "zz/secret99",
            "zz%2Fsecret99",
            "a/b/c/d/e",
            "a%20b%20c",
        ] {
            assert_eq!(name.clean(&format!("no {said} here")), "no *** here", "{said}");
        }
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        // RFC 4648, without padding.
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "+/8");
    }

    #[test]
    fn json_of_a_node_is_handed_on_without_the_endpoints_secrets_and_otherwise_as_it_is() {
        let name = name("https://user:hunter22@node.example/v3/0123456789abcdef?year=2024");
        let said = json!({
            "url": "https://node.example/v3/0123456789abcdef", "hunter22": [1, null, true, "as hunter22"],
            "data": "0x08c379a02024", "long": "x y\n".repeat(500), "hex": "0x000123456789abcdef",
        });
        let cleaned = json!({
            "url": "https://node.example/v3/***", "***": [1, null, true, "as ***"],
            "data": "0x08c379a02024", "long": "x y\n".repeat(500), "hex": "0x00***",
        });
        assert_eq!(name.cleaned(said), cleaned);
    }
}
