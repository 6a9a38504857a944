//! Texts of nodes into classes, by the table in `specs/errors.toml`. Pure.
//!
//! The table's head says how it is read. A new text goes into the table, with a row in `golden.rs`.

#[cfg(test)]
mod golden;

use landfall_core::outcome::SendOutcome;
use serde::Deserialize;

/// What an endpoint's own trouble is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Trouble {
    /// It asks to be asked less.
    Limited,
    /// It wants credentials that it was not given.
    Unauthorised,
    /// It is not in sync.
    Syncing,
    /// It does not know a block that others know.
    Behind,
    /// It serves another chain. Not by a text: by the chain id it reports.
    #[serde(skip)]
    Foreign,
    /// It has as many questions of ours as it may have. Not by a text: by our own count.
    #[serde(skip)]
    Busy,
}

/// What a text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The node's word on the transaction.
    Outcome(SendOutcome),
    /// No word on the transaction.
    Endpoint(Trouble),
    /// Nobody knows this text.
    Unknown,
}

impl Verdict {
    /// What it means as the answer to a send.
    pub(crate) fn of_send(self) -> SendOutcome {
        match self {
            Self::Outcome(outcome) => outcome,
            Self::Endpoint(_) => SendOutcome::Endpoint,
            Self::Unknown => SendOutcome::Unknown,
        }
    }
}

/// The parsed table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    rule: Vec<Rule>,
    trouble: Vec<TroubleRule>,
    limit: Vec<LimitRule>,
    unsupported: CodeRule,
    bad_parameter: CodeRule,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    class: SendOutcome,
    #[serde(default)]
    any: Vec<String>,
    #[serde(default)]
    all: Vec<String>,
    #[serde(default)]
    unless: Vec<String>,
    #[expect(dead_code, reason = "for whoever reads the table")]
    note: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TroubleRule {
    kind: Trouble,
    #[serde(default)]
    any: Vec<String>,
    #[serde(default)]
    all: Vec<String>,
    #[expect(dead_code, reason = "for whoever reads the table")]
    note: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitRule {
    code: i64,
    /// Empty: the code is enough.
    #[serde(default)]
    any: Vec<String>,
    #[expect(dead_code, reason = "for whoever reads the table")]
    note: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CodeRule {
    codes: Vec<i64>,
    any: Vec<String>,
}

impl CodeRule {
    fn fits(&self, code: i64, text: &str) -> bool {
        self.codes.contains(&code) || contains_any(&text.to_lowercase(), &self.any)
    }
}

impl Table {
    /// Reads the table that is built in.
    pub(crate) fn load() -> Result<Self, toml::de::Error> {
        toml::from_str(include_str!("../../../specs/errors.toml"))
    }

    /// What a node's error means.
    pub(crate) fn classify(&self, code: Option<i64>, text: &str) -> Verdict {
        let text = text.to_lowercase();
        let outcome = self
            .rule
            .iter()
            .find(|rule| fits(&text, &rule.any, &rule.all) && !contains_any(&text, &rule.unless));
        if let Some(rule) = outcome {
            return Verdict::Outcome(rule.class);
        }
        if let Some(rule) = self.trouble.iter().find(|rule| fits(&text, &rule.any, &rule.all)) {
            return Verdict::Endpoint(rule.kind);
        }
        let limited = self
            .limit
            .iter()
            .any(|rule| code == Some(rule.code) && (rule.any.is_empty() || contains_any(&text, &rule.any)));
        if limited { Verdict::Endpoint(Trouble::Limited) } else { Verdict::Unknown }
    }

    /// The endpoint does not know the method.
    pub(crate) fn is_unsupported(&self, code: i64, text: &str) -> bool {
        self.unsupported.fits(code, text)
    }

    /// The endpoint does not take a parameter in this form.
    pub(crate) fn is_bad_parameter(&self, code: i64, text: &str) -> bool {
        self.bad_parameter.fits(code, text)
    }
}

fn fits(text: &str, any: &[String], all: &[String]) -> bool {
    contains_any(text, any) || (!all.is_empty() && all.iter().all(|part| text.contains(part.as_str())))
}

fn contains_any(text: &str, parts: &[String]) -> bool {
    parts.iter().any(|part| text.contains(part.as_str()))
}
