//! The audit chain: rows in which each is sealed with the one before it, so that whoever has one hash can tell whether anything
//! up to it was changed, removed, added or put in another order.
//!
//! ```text
//! hash(n) = SHA-256( hash(n-1) | n | time | length of the text | text )        numbers as 8 bytes, the highest first
//! ```
//!
//! The text is JSON as it was written, and is hashed by its bytes. The first row follows the [`Link::ORIGIN`]. There is no secret in
//! it: whoever may write to the database can make a chain anew, and that is found only by a hash that was noted elsewhere.

mod trim;
mod verify;

use std::fmt;
use std::str::FromStr;

use alloy_primitives::B256;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Millis;

pub use trim::Cut;
pub use verify::{Finding, Noted, Verified, Verifier};

/// The hash of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seal(pub B256);

impl fmt::Display for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Seal {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|_| "not a hash: 0x and 64 hexadecimal digits")
    }
}

/// A place in the chain: the number of a row and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub seq: u64,
    pub hash: Seal,
}

impl Link {
    /// Before the first row.
    pub const ORIGIN: Self = Self { seq: 0, hash: Seal(B256::ZERO) };

    /// The row that follows this place.
    #[must_use]
    pub fn then(self, new: New) -> Row {
        let seq = self.seq.saturating_add(1);
        let hash = self.seal(seq, new.at, &new.text);
        Row { seq, at: new.at, text: new.text, hash }
    }

    fn seal(self, seq: u64, at: Millis, text: &str) -> Seal {
        let mut sha = Sha256::new();
        sha.update(self.hash.0);
        sha.update(seq.to_be_bytes());
        sha.update(at.0.to_be_bytes());
        sha.update((text.len() as u64).to_be_bytes());
        sha.update(text.as_bytes());
        Seal(B256::from(<[u8; 32]>::from(sha.finalize())))
    }
}

/// An entry on its way into the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct New {
    pub at: Millis,
    /// The event, as JSON.
    pub text: String,
}

/// A row of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub seq: u64,
    pub at: Millis,
    pub text: String,
    pub hash: Seal,
}

impl Row {
    #[must_use]
    pub fn link(&self) -> Link {
        Link { seq: self.seq, hash: self.hash }
    }

    /// It is what was sealed after this place.
    #[must_use]
    pub fn follows(&self, before: Link) -> bool {
        self.seq == before.seq.saturating_add(1) && self.hash == before.seal(self.seq, self.at, &self.text)
    }
}

/// Where a chain begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// The newest row that was removed because of its age.
    pub anchor: Link,
    /// The newest row.
    pub head: Link,
}

impl Ends {
    /// A chain without rows.
    pub const EMPTY: Self = Self { anchor: Link::ORIGIN, head: Link::ORIGIN };
}

/// That the oldest rows went, as the row says that is appended when they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trimmed {
    pub trimmed: Link,
    /// The time of the newest row among them.
    pub newest: Millis,
}

impl Trimmed {
    /// The entry for rows up to this one, and with it.
    pub fn entry(up_to: Link, newest: Millis, at: Millis) -> Result<New, serde_json::Error> {
        Ok(New { at, text: serde_json::to_string(&Self { trimmed: up_to, newest })? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes are noted elsewhere and held against rows later, so what they are made of must never change.
    #[test]
    fn the_hash_of_a_row_is_the_one_it_always_was() {
        let first = Link::ORIGIN.then(New { at: Millis(1_000), text: r#"{"a":1}"#.to_owned() });
        assert_eq!(
            first.hash.to_string(),
            "0x37ae4f0aa21587ac00aa68d4805da5b063692b2bb0090902c171b4e30c9ab664"
        );
        let second = first.link().then(New { at: Millis(1_001), text: "{}".to_owned() });
        assert_eq!(
            second.hash.to_string(),
            "0x5fd2b99bf9d3570bb207b168cf5b40e4ca037c2a5ea01ea4c468134935108c8e"
        );
        assert!(first.follows(Link::ORIGIN) && second.follows(first.link()));
        assert!(!second.follows(Link::ORIGIN));
    }
}
