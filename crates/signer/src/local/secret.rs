//! The key itself. Nothing outside this file sees its bytes, except the keystore while it encrypts them.

use std::fmt;

use alloy_primitives::{Address, B256, U256};
use landfall_core::Account;
use landfall_core::ports::signer::Signature;
use secp256k1::ecdsa::RecoverableSignature;
use secp256k1::{Message, SecretKey};
use zeroize::Zeroizing;

/// Why 32 bytes are not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is zero or not below the order of the curve")]
pub(crate) struct OutOfRange;

/// A private key. Boxed, so that moving it leaves no copies behind; wiped on drop.
pub(crate) struct Secret(Box<SecretKey>);

impl Secret {
    /// Takes a key from its bytes, if they are one.
    pub(crate) fn new(bytes: &Zeroizing<[u8; 32]>) -> Result<Self, OutOfRange> {
        SecretKey::from_secret_bytes(**bytes).map(|key| Self(Box::new(key))).map_err(|_| OutOfRange)
    }

    /// The account that this key signs for.
    pub(crate) fn account(&self) -> Account {
        let public = self.0.public_key().serialize_uncompressed();
        // The first byte tells the encoding; the point itself is the 64 bytes behind it.
        Account(Address::from_raw_public_key(&public[1..]))
    }

    /// Signs a digest: deterministic (RFC 6979), recoverable, and with the lower of the two possible `s`.
    pub(crate) fn sign(&self, digest: B256) -> Signature {
        let signed = RecoverableSignature::sign_ecdsa_recoverable(Message::from_digest(digest.0), &self.0);
        let (recovery, rs) = signed.serialize_compact();
        Signature {
            r: U256::from_be_slice(&rs[..32]),
            s: U256::from_be_slice(&rs[32..]),
            y_parity: recovery.to_u8() & 1 == 1,
        }
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.non_secure_erase();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
