//! The key itself. Nothing outside this file sees its bytes, except the keystore while it encrypts them.

use std::cell::RefCell;
use std::fmt;

use alloy_primitives::{Address, B256, U256};
use landfall_core::Account;
use landfall_core::ports::signer::Signature;
use secp256k1::{Message, Secp256k1, SecretKey, SignOnly};
use zeroize::Zeroizing;

/// A context is blinded anew after this many signatures, against whoever measures how long they take: to blind it costs as
/// much as a signature.
const BLINDED_EVERY: usize = 64;

thread_local! {
    /// What a thread signs with. Making one costs as much as many signatures.
    static CONTEXT: RefCell<Context> =
        RefCell::new(Context { curve: Secp256k1::signing_only(), signed: BLINDED_EVERY });
}

struct Context {
    curve: Secp256k1<SignOnly>,
    /// How many were signed since it was blinded.
    signed: usize,
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
        let public =
            CONTEXT.with_borrow(|context| self.0.public_key(&context.curve)).serialize_uncompressed();
        // The first byte tells the encoding; the point itself is the 64 bytes behind it.
        Account(Address::from_raw_public_key(&public[1..]))
    }

    /// Signs digests: deterministic (RFC 6979), recoverable, and with the lower of the two possible `s`.
    pub(crate) fn sign(&self, digests: impl ExactSizeIterator<Item = B256>) -> Vec<Signature> {
        CONTEXT.with_borrow_mut(|context| {
            digests
                .map(|digest| {
                    if context.signed >= BLINDED_EVERY {
                        context.curve.seeded_randomize(&self.seed(digest));
                        context.signed = 0;
                    }
                    context.signed += 1;
                    let message = Message::from_digest(digest.0);
                    let (recovery, rs) =
                        context.curve.sign_ecdsa_recoverable(message, &self.0).serialize_compact();
                    Signature {
                        r: U256::from_be_slice(&rs[..32]),
                        s: U256::from_be_slice(&rs[32..]),
                        y_parity: i32::from(recovery) & 1 == 1,
                    }
                })
                .collect()
        })
    }

    /// What nobody else knows, and differs from time to time. It is mixed with what the context was blinded with before.
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
