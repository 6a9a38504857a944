//! # landfall-signer
//!
//! Keys, behind the [`Signer`](landfall_core::ports::signer::Signer) port. [`local`] holds keys in this process.
//!
//! What belongs here: finding a key, proving that it is the wanted one, and signing digests with it. What does not:
//! what is being signed, and when. Key material never leaves this crate: not in a log, an error, a `Debug` or a
//! `Display`, and memory that held it is wiped when it is dropped.

pub mod local;

pub use local::{
    FileError, LoadError, Loader, LocalSigner, Place, SecretFile, Source, is_env_name, keystore,
};
