//! Errors of a configuration, without a word of what it says: any line may hold a password.

use std::fmt;

use anyhow::{Error, anyhow};
use toml::{Table, Value};

/// Words of a message shorter than this are no secrets.
const SHORT: usize = 4;

/// Where the text is no TOML: the place and the key, and what is wrong with it where that repeats nothing of the line.
pub(super) fn syntax(text: &str, error: &toml::de::Error) -> Error {
    let at = error.span().map_or(0, |span| span.start).min(text.len());
    let before = text.get(..at).unwrap_or_default();
    let (line, column) = (before.lines().count().max(1), before.rsplit('\n').next().unwrap_or_default());
    let line = if before.ends_with('\n') { line + 1 } else { line };
    let whole = text.lines().nth(line - 1).unwrap_or_default();
    let (key, value) = whole.split_once('=').unwrap_or(("", whole));
    let key = key.trim();
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let named = match !key.is_empty() && key.chars().all(is_key) {
        true => format!(" ({key})"),
        false => String::new(),
    };
    let words = value.split(|c: char| !c.is_alphanumeric()).map(str::to_owned);
    let why = without(error.message(), words);
    let column = column.chars().count() + 1;
    anyhow!(
        "it is not TOML at line {line}, column {column}{named}: {why}. The line is not shown, since it may hold a secret"
    )
}

/// Where a value does not fit its key: the key and what is expected, without the value.
pub(super) fn value(table: &Table, error: &impl fmt::Display) -> Error {
    let mut words = Vec::new();
    table.iter().for_each(|(_, value)| texts(value, &mut words));
    // The last line names the key.
    let said = error.to_string();
    let (why, key) = said.trim_end().rsplit_once("\nin `").unwrap_or((said.trim_end(), ""));
    let why = without(why, words.into_iter());
    match key.trim_end_matches('`') {
        "" => anyhow!("{why}"),
        key => anyhow!("{key}: {why}"),
    }
}

/// Every text in it.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|value| texts(value, found)),
        Value::Table(table) => table.iter().for_each(|(_, value)| texts(value, found)),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

/// The message with these words left out, as they stand and as they would be quoted.
fn without(message: &str, words: impl Iterator<Item = String>) -> String {
    let mut words: Vec<String> = words.filter(|word| word.chars().count() >= SHORT).collect();
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    words.iter().fold(message.trim().to_owned(), |message, word| {
        let quoted = format!("{word:?}");
        let inside = quoted.trim_matches('"');
        message.replace(inside, "…").replace(word.as_str(), "…")
    })
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    /// The words about a configuration that cannot be used.
    fn said(text: &str) -> String {
        format!("{:#} {0:?}", Config::parse(text, std::iter::empty()).unwrap_err())
    }

    #[test]
    fn no_part_of_a_line_that_cannot_be_read_is_repeated() {
        for text in [
            "[store]\nurl = \"postgres://landfall:hunter2@db/landfall",
            "[store]\nurl = postgres://landfall:hunter2@db/landfall",
            "[store]\nurl = 'postgres://landfall:hunter2@db/landfall'' ",
            "[store]\nurl = \"a\" hunter2",
            "[store]\nurl = \"\\hunter2\"",
            "[store]\nhunter2",
            "[store]\nurl = \"\"\"\npostgres://landfall:hunter2@db/landfall",
        ] {
            let said = said(text);
            assert!(!said.contains("hunter2") && said.contains("line "), "{said}");
        }
        let named = said("[server]\n[store]\nurl = \"postgres://landfall:hunter2@db/landfall");
        assert!(named.contains("line 3") && named.contains("(url)"), "{named}");
    }

    #[test]
    fn no_value_that_does_not_fit_is_repeated_and_its_key_is_named() {
        for (text, key) in [
            ("[store]\nwait_s = \"hunter2\"", "wait_s"),
            ("[server]\nlisten = \"hunter2\"", "listen"),
            ("[server]\nmax_batch = \"hunter2\"", "max_batch"),
            ("[[signer]]\nallocation = \"hunter2\"", "allocation"),
            ("[[signer]]\naddress = \"hunter2\"", "address"),
            ("[[chain]]\nid = 5\nrpc = \"x\"\nfinality = \"hunter2\"", "chain"),
            ("[[chain]]\nid = \"hunter2\"\nrpc = \"x\"", "id"),
            ("[[chain]]\nid = 5\nrpc = { a = \"hunter2\" }", "rpc"),
            ("[[chain]]\nid = 5\nrpc = \"x\"\napprove_above_wei = \"hunter2\"", "approve_above_wei"),
            ("store = \"hunter2\"", "store"),
        ] {
            let said = said(text);
            assert!(!said.contains("hunter2"), "{said}");
            assert!(said.contains(key), "{key}: {said}");
        }
    }
}
