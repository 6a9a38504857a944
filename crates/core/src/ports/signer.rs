//! The signer port: something that holds a key and signs with it.

use alloy_primitives::{B256, Bytes, U256};
use async_trait::async_trait;

use crate::Account;

/// Where the key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Custody {
    /// In this process: signing is quick and does not fail half-way, so slot and bytes are one commit.
    Local,
    /// Behind a network: the slot is committed before the signature is asked for.
    Remote,
}

/// What is to be signed: the bytes whose hash is signed, and that hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preimage {
    pub bytes: Bytes,
    pub digest: B256,
}

/// A recoverable ECDSA signature with a low `s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    pub r: U256,
    pub s: U256,
    pub y_parity: bool,
}

/// Why there is no signature. The texts never carry key material.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It may work later.
    #[error("the signer is not available: {0}")]
    Unavailable(String),
    /// It will not work for this content.
    #[error("the signer refuses: {0}")]
    Refused(String),
}

/// One key.
#[async_trait]
pub trait Signer: Send + Sync {
    fn account(&self) -> Account;
    fn custody(&self) -> Custody;
    /// Signs each preimage; answers are in the order of the requests.
    async fn sign(&self, requests: Vec<Preimage>) -> Vec<Result<Signature, Error>>;
}
