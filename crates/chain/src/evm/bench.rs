//! What the benchmarks need of this crate, and nobody else may use: the table of texts, read.

use landfall_core::outcome::SendOutcome;

use super::classify::Table;

pub struct Texts(Table);

impl Texts {
    pub fn load() -> Result<Self, toml::de::Error> {
        Table::load().map(Self)
    }

    /// The class of a text as the answer to a send.
    #[must_use]
    pub fn class(&self, code: Option<i64>, text: &str) -> SendOutcome {
        self.0.classify(code, text).of_send()
    }
}
