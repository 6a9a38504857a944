//! What a caller sees of local keys: which account a source gives, what signatures are worth, and what goes wrong how.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod keystore;
mod loading;
mod secrecy;
mod signing;

use std::collections::HashMap;

use alloy_primitives::{Address, address};
use landfall_core::Account;
use landfall_signer::{LocalSigner, Place, Source};

/// The first of anvil's public test keys, and its account.
const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const FIRST: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
/// The phrase that anvil's public test keys come from.
const PHRASE: &str = "test test test test test test test test test test test junk";

fn env(entries: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    let map: HashMap<String, String> =
        entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    move |name| map.get(name).cloned()
}

fn from_key(value: &str) -> Result<LocalSigner, landfall_signer::LoadError> {
    LocalSigner::load_with(
        &Source::PrivateKey { from: Place::Env("KEY".into()) },
        None,
        env(&[("KEY", value)]),
    )
}

fn from_phrase(value: &str, index: u32) -> Result<LocalSigner, landfall_signer::LoadError> {
    LocalSigner::load_with(
        &Source::Mnemonic { from: Place::Env("WORDS".into()), index },
        None,
        env(&[("WORDS", value)]),
    )
}

fn account(address: Address) -> Account {
    Account(address)
}
