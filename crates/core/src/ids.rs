//! Typed identifiers. No bare integer or string crosses a crate border.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Declares a number that stands for one thing only.
macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id! {
    /// The EIP-155 id of a chain.
    ChainId(u64)
}
number_id! {
    /// One nonce of a lane.
    Slot(u64)
}
number_id! {
    /// The nonce that a caller gave with its call. It names the call, and no slot.
    CallerNonce(u64)
}
number_id! {
    /// The fencing token of a lane: raised by every acquisition, checked by every write.
    Token(u64)
}
number_id! {
    /// Raised by every write to a lane, so that an owner is fenced against its own lost commits too.
    LaneVersion(u64)
}
number_id! {
    /// Which content of a transaction: 1 as asked, later ones by replace, cancel, expiry or failure.
    ContentVersion(u32)
}
number_id! {
    /// The order in which the store admitted transactions; first in, first out within a lane.
    QueueOrder(i64)
}
number_id! {
    /// The position of an entry in the journal of the whole store.
    JournalSeq(i64)
}

impl Slot {
    /// The slot after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// How many slots lie from `lower` up to, not including, this one.
    #[must_use]
    pub fn since(self, lower: Self) -> u64 {
        self.0.saturating_sub(lower.0)
    }
}

impl CallerNonce {
    /// The nonce after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl ContentVersion {
    /// What the caller asked for.
    pub const FIRST: Self = Self(1);

    /// The version that replaces this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Declares a 128-bit id shown as a UUID.
macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A time-ordered id (UUID version 7) from a time and random bits that the caller brings.
            #[must_use]
            pub fn new(at: crate::Millis, random: u128) -> Self {
                let mut bytes = random.to_be_bytes();
                bytes[..6].copy_from_slice(&at.0.to_be_bytes()[2..]);
                Self(uuid::Builder::from_bytes(bytes)
                    .with_version(uuid::Version::SortRand)
                    .with_variant(uuid::Variant::RFC4122)
                    .into_uuid())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(s: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(s).map(Self)
            }
        }
    };
}

uuid_id! {
    /// A transaction: what a caller asked for, once.
    TxId
}
uuid_id! {
    /// A command on an existing transaction or lane.
    CommandId
}
uuid_id! {
    /// One run of one process: the owner of leases.
    SessionId
}

impl CommandId {
    /// The id of a command that its caller gave a key: the same key on the same lane is the same command.
    #[must_use]
    pub fn of_key(lane: &LaneId, key: &RequestId) -> Self {
        let hash = alloy_primitives::keccak256(format!("{lane} {key}"));
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash[..16]);
        Self(
            uuid::Builder::from_bytes(bytes)
                .with_version(uuid::Version::Custom)
                .with_variant(uuid::Variant::RFC4122)
                .into_uuid(),
        )
    }
}

/// An account on a chain. Compared as bytes, shown with its checksum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Account(pub Address);

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_checksum(None))
    }
}

/// The hash by which a chain knows signed bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TxHash(pub B256);

impl fmt::Debug for TxHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TxHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What a request asks for, as one number: the same key with another fingerprint is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub B256);

/// One account on one chain: an ordered stream of slots.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LaneId {
    pub chain: ChainId,
    pub signer: Account,
}

impl fmt::Debug for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.chain, self.signer)
    }
}

/// The caller's idempotency key: 1 to 255 printable characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(String);

/// Why a text cannot be an idempotency key.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadRequestId {
    #[error("requestId must not be empty")]
    Empty,
    #[error("requestId may have at most 255 bytes, this one has {0}")]
    TooLong(usize),
    #[error("requestId may not contain control characters")]
    Control,
    #[error(
        "requestId {0:?} is one that Landfall makes itself, for a retry or for calls that were handed over together; choose another"
    )]
    Own(String),
}

impl RequestId {
    /// The longest key that is stored.
    pub const MAX_BYTES: usize = 255;

    /// Accepts a key as the caller wrote it; nothing is trimmed, since two keys that differ are two keys.
    pub fn parse(text: &str) -> Result<Self, BadRequestId> {
        if text.is_empty() {
            return Err(BadRequestId::Empty);
        }
        if text.len() > Self::MAX_BYTES {
            return Err(BadRequestId::TooLong(text.len()));
        }
        if text.chars().any(char::is_control) {
            return Err(BadRequestId::Control);
        }
        Ok(Self(text.to_owned()))
    }

    /// As [`Self::parse`], for a key that a caller chose: not one of those that Landfall makes itself, or one caller could take the
    /// place of another's retry.
    pub fn chosen(text: &str) -> Result<Self, BadRequestId> {
        let is_retry = text.strip_prefix("retry:").is_some_and(|id| id.parse::<TxId>().is_ok());
        match is_retry || text.starts_with("calls:") {
            true => Err(BadRequestId::Own(text.chars().take(64).collect())),
            false => Self::parse(text),
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The public id of the API key that a call came with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApiKeyId(pub String);

/// Separates installations that share one store (E29).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Namespace(pub String);

impl Default for Namespace {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Millis;

    #[test]
    fn a_caller_chooses_no_key_that_is_made_here() {
        let id = TxId::new(Millis(1_000), 7);
        for own in [format!("retry:{id}"), "calls:0x12:0".to_owned()] {
            assert!(matches!(RequestId::chosen(&own), Err(BadRequestId::Own(_))), "{own}");
            assert!(RequestId::parse(&own).is_ok());
        }
        for chosen in ["retry:17", "retry", "my calls:1"] {
            assert_eq!(RequestId::chosen(chosen).unwrap().as_str(), chosen);
        }
    }

    #[test]
    fn ids_made_later_sort_later() {
        let early = TxId::new(Millis(1_000), u128::MAX);
        let late = TxId::new(Millis(1_001), 0);
        assert!(early < late);
        assert_eq!(early.to_string().parse::<TxId>().unwrap(), early);
        assert_eq!(early.0.get_version_num(), 7);
    }

    #[test]
    fn a_request_id_is_kept_as_written_or_refused() {
        assert_eq!(RequestId::parse(" a ").unwrap().as_str(), " a ");
        assert_eq!(RequestId::parse(""), Err(BadRequestId::Empty));
        assert_eq!(RequestId::parse("a\u{0}"), Err(BadRequestId::Control));
        assert_eq!(RequestId::parse(&"x".repeat(256)), Err(BadRequestId::TooLong(256)));
    }
}
