//! Where keys come from, and every way that can go wrong. No error here repeats a byte of what it read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use alloy_primitives::hex;
use alloy_signer_local::coins_bip39::{English, Wordlist};
use alloy_signer_local::{MnemonicBuilder, MnemonicKey};
use landfall_core::Account;
use zeroize::Zeroizing;

use super::file::{FileError, SecretFile};
use super::keystore;
use super::known::is_public_phrase;
use super::place::Place;
use super::secret::Secret;

/// Where a key is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The key in hex, with or without `0x`.
    PrivateKey { from: Place },
    /// An encrypted key file (Ethereum keystore, version 3).
    Keystore { file: SecretFile, password: Place },
    /// An English BIP-39 phrase; the key is the one at `m/44'/60'/0'/0/index`.
    Mnemonic { from: Place, index: u32 },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrivateKey { from } => write!(f, "{from}"),
            Self::Keystore { file, .. } => write!(f, "keystore {}", file.path().display()),
            Self::Mnemonic { from, index } => write!(f, "the mnemonic in {from} at index {index}"),
        }
    }
}

/// Why a key could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// As errors may show it.
    #[error("{0} is not set")]
    EnvMissing(String),
    #[error("{from} should hold a private key of 64 hex digits, with or without 0x; it has {digits}")]
    WrongLength { from: Place, digits: usize },
    #[error("{from} should hold a private key in hex, but character {at} is not a hex digit")]
    NotHex { from: Place, at: usize },
    #[error("the key from {origin} is not a private key: it is zero or not below the order of the curve")]
    OutOfRange { origin: String },
    #[error("{from} should hold a mnemonic of 12, 15, 18, 21 or 24 words; it has {words}")]
    WordCount { from: Place, words: usize },
    #[error("word {at} of the mnemonic in {from} is not in the English BIP-39 list")]
    UnknownWord { from: Place, at: usize },
    #[error("the words in {from} are no mnemonic: their checksum does not fit")]
    Checksum { from: Place },
    #[error("mnemonic index {index} is too high: the highest is {MAX_INDEX}")]
    IndexTooHigh { index: u32 },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Keystore(#[from] keystore::Error),
    #[error("the key from {origin} belongs to {found}, but {expected} was expected")]
    OtherAccount { origin: String, expected: Account, found: Account },
}

/// Indices above are BIP-32's hardened ones, which this path does not use.
const MAX_INDEX: u32 = 0x7fff_ffff;

type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The part that the keys of one mnemonic share, by the place that holds it. To find it costs as much as a hundred of the keys, so it is
/// done once for all that are loaded together. Wiped on drop.
#[derive(Default)]
pub(super) struct Parents(BTreeMap<Place, Parent>);

struct Parent {
    key: MnemonicKey,
    /// Everybody knows its phrase.
    is_public: bool,
}

/// The key that the source names, and whether it is of a phrase that everybody knows.
pub(super) fn find(
    source: &Source,
    env: Env<'_>,
    parents: &mut Parents,
) -> Result<(Secret, bool), LoadError> {
    let (bytes, is_public) = match source {
        Source::PrivateKey { from } => (private_key(from, &from.read(env)?)?, false),
        Source::Keystore { file, password } => (keystore::decrypt(file, &password.read(env)?)?, false),
        Source::Mnemonic { from, index } => parents.child(from, env, *index)?,
    };
    let secret = Secret::new(&bytes).map_err(|_| LoadError::OutOfRange { origin: source.to_string() })?;
    Ok((secret, is_public))
}

fn private_key(from: &Place, text: &str) -> Result<Zeroizing<[u8; 32]>, LoadError> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    if let Some(at) = digits.chars().position(|c| !c.is_ascii_hexdigit()) {
        let shown = text.len() - digits.len() + at + 1;
        return Err(LoadError::NotHex { from: from.clone(), at: shown });
    }
    let mut bytes = Zeroizing::new([0; 32]);
    hex::decode_to_slice(digits, bytes.as_mut_slice())
        .map_err(|_| LoadError::WrongLength { from: from.clone(), digits: digits.len() })?;
    Ok(bytes)
}

impl Parents {
    fn child(
        &mut self,
        from: &Place,
        env: Env<'_>,
        index: u32,
    ) -> Result<(Zeroizing<[u8; 32]>, bool), LoadError> {
        if index > MAX_INDEX {
            return Err(LoadError::IndexTooHigh { index });
        }
        let parent = match self.0.entry(from.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(parent(from, &from.read(env)?)?),
        };
        // One index in 2^127 has no key.
        let origin = || Source::Mnemonic { from: from.clone(), index }.to_string();
        let child = parent.key.child(index).map_err(|_| LoadError::OutOfRange { origin: origin() })?;
        Ok((Zeroizing::new(child.signer().to_bytes().0), parent.is_public))
    }
}

/// The key above all those of a mnemonic, at `m/44'/60'/0'/0`.
fn parent(from: &Place, text: &str) -> Result<Parent, LoadError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if !matches!(words.len(), 12 | 15 | 18 | 21 | 24) {
        return Err(LoadError::WordCount { from: from.clone(), words: words.len() });
    }
    if let Some(at) = words.iter().position(|word| English::get_index(word).is_err()) {
        return Err(LoadError::UnknownWord { from: from.clone(), at: at + 1 });
    }
    let phrase = Zeroizing::new(words.join(" "));
    // The library's errors repeat the phrase; only the checksum is left to be wrong here.
    let key = MnemonicBuilder::from_phrase(phrase.as_str())
        .build_parent_key()
        .map_err(|_| LoadError::Checksum { from: from.clone() })?;
    Ok(Parent { key, is_public: is_public_phrase(&words) })
}
