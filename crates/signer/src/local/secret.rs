//! The key itself. Nothing outside this file sees its bytes, except the keystore while it encrypts them.

use std::cell::RefCell;
use std::fmt;

use alloy_primitives::{Address, B256, U256};
use landfall_core::Account;
use landfall_core::ports::signer::Signature;
use secp256k1::{Message, Secp256k1, SecretKey, SignOnly};
use zeroize::Zeroizing;

thread_local! {
    /// What a thread signs with. Making one costs as much as many signatures.
    static CONTEXT: RefCell<Secp256k1<SignOnly>> = RefCell::new(Secp256k1::signing_only());
}

/// Why 32 bytes are not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is zero or not below the order of the curve")]
pub(crate) struct OutOfRange;

/// A private key. Boxed, so that moving it leaves no copies behind; wiped on drop.
pub(crate) struct Secret(Box<SecretKey>);

impl Secret {
    /// Takes a key from its bytes, if they are one.
    pub(crate) fn new(bytes: &Zeroizing<[u8; 32]>) -> Result<Self, OutOfRange> {
        SecretKey::from_byte_array(**bytes).map(|key| Self(Box::new(key))).map_err(|_| OutOfRange)
    }

    /// The account that this key signs for.
    pub(crate) fn account(&self) -> Account {
        let public = CONTEXT.with_borrow(|context| self.0.public_key(context)).serialize_uncompressed();
        // The first byte tells the encoding; the point itself is the 64 bytes behind it.
        Account(Address::from_raw_public_key(&public[1..]))
    }

    /// Signs digests: deterministic (RFC 6979), recoverable, and with the lower of the two possible `s`.
    ///
    /// The context is blinded anew for every batch, against whoever measures how long it takes: doing it for every
    /// signature would cost as much as the signature.
    pub(crate) fn sign(&self, digests: impl ExactSizeIterator<Item = B256>) -> Vec<Signature> {
        let mut signatures = Vec::with_capacity(digests.len());
        CONTEXT.with_borrow_mut(|context| {
            for (position, digest) in digests.enumerate() {
                if position == 0 {
                    context.seeded_randomize(&self.seed(digest));
                }
                let (recovery, rs) = context
                    .sign_ecdsa_recoverable(Message::from_digest(digest.0), &self.0)
                    .serialize_compact();
                signatures.push(Signature {
                    r: U256::from_be_slice(&rs[..32]),
                    s: U256::from_be_slice(&rs[32..]),
                    y_parity: i32::from(recovery) & 1 == 1,
                });
            }
        });
        signatures
    }

    /// What nobody else knows, and differs from batch to batch. It is mixed with what the context was blinded with before.
    fn seed(&self, digest: B256) -> Zeroizing<[u8; 32]> {
        let mut seed = Zeroizing::new(self.0.secret_bytes());
        for (byte, of_digest) in seed.iter_mut().zip(digest) {
            *byte ^= of_digest;
        }
        seed
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
