//! What an endpoint is called in reports, logs and errors: its URL without anything that could be a credential.

use std::fmt;

use reqwest::Url;

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
                secrets.push(segment.to_owned());
            } else {
                shown.push_str(segment);
            }
        }
        secrets.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
        secrets.extend(url.query().map(str::to_owned));
        secrets.extend(url.password().map(str::to_owned));
        secrets.push(url.username().to_owned());
        // Longest first, so that a secret inside another does not leave the rest of it standing.
        secrets.retain(|secret| secret.len() >= 4);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { shown, secrets }
    }

    /// A text that came from outside, fit to be shown: on one line, not too long, without this endpoint's secrets.
    pub(crate) fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            text = text.replace(secret.as_str(), MASK);
        }
        one_line(&text)
    }
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
}
