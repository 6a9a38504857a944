//! API keys: what a caller shows, and what is kept of it.
//!
//! A key is `lf_<id>_<secret>`. The id is public and names the key in lists and in the audit log; of the secret only a hash
//! is kept. A secret is 256 random bits, so a plain hash cannot be undone by guessing.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use landfall_core::{Account, ChainId, Millis};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::role::Role;

const PREFIX: &str = "lf_";

/// The hash of a secret.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct Hash([u8; 32]);

impl Hash {
    pub(super) fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Takes the same time whatever differs.
    pub(super) fn is_of(&self, secret: &str) -> bool {
        self.0.ct_eq(&Self::of(secret).0).into()
    }
}

/// Not even a hash is of use to whoever reads a log.
impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash")
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hex(&hash.0)
    }
}

impl TryFrom<String> for Hash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes: alloy_primitives::B256 = text.parse().map_err(|_| "not a hash in hexadecimal digits")?;
        Ok(Self(bytes.0))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

/// What is kept of a key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiKey {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The signers it may see and use; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signers: Option<BTreeSet<Account>>,
    /// The chains it may see and use them on; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chains: Option<BTreeSet<ChainId>>,
    /// Requests per second; none: as the configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rate_per_s: Option<u32>,
    pub(super) hash: Hash,
    pub(crate) created_at: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revoked_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revoked_by: Option<String>,
}

impl ApiKey {
    /// It opens the door now.
    pub(crate) fn is_good(&self, now: Millis) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

/// A key as its holder has it: shown once, when it is made.
pub(super) struct Shown {
    pub(super) id: String,
    pub(super) secret: String,
}

impl Shown {
    /// A new one. The bits must be such as nobody can guess.
    pub(super) fn new(bits: [u128; 3]) -> Self {
        let [id, high, low] = bits;
        let id = hex(&id.to_be_bytes()[..8]);
        let secret = format!("{}{}", hex(&high.to_be_bytes()), hex(&low.to_be_bytes()));
        Self { id, secret }
    }

    pub(super) fn text(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, self.secret)
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        Some(Self { id: id.to_owned(), secret: secret.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_shown_and_its_hash_opens_to_it_alone() {
        let shown = Shown::new([1 << 127, 2, 3]);
        assert_eq!(shown.secret.len(), 64);
        let read = Shown::read(&shown.text()).unwrap();
        assert_eq!((&read.id, &read.secret), (&shown.id, &shown.secret));
        let hash = Hash::of(&shown.secret);
        assert!(hash.is_of(&read.secret));
        assert!(!hash.is_of(&Shown::new([1 << 127, 2, 4]).secret));
        let kept = serde_json::to_string(&hash).unwrap();
        assert!(!kept.contains(&shown.secret));
        assert!(serde_json::from_str::<Hash>(&kept).unwrap().is_of(&shown.secret));
        for text in ["", "lf_", "lf_abc", "xx_abc_def", "lf"] {
            assert!(Shown::read(text).is_none(), "{text}");
        }
    }
}
