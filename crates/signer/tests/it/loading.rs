//! Keys from the environment, and the sentences that bad ones give.

use alloy_primitives::address;
use landfall_core::ports::signer::{Custody, Signer};
use landfall_signer::{Loader, LocalSigner, Place, Source};

use super::{FIRST, KEY, PHRASE, account, env, from_key, from_phrase};

/// Anvil's public test keys and their accounts.
const KNOWN: [(&str, alloy_primitives::Address); 3] = [
    (KEY, FIRST),
    (
        "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
        address!("70997970C51812dc3A010C7d01b50e0d17dc79C8"),
    ),
    (
        "5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
        address!("3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"),
    ),
];

#[test]
fn a_key_in_hex_gives_its_account_with_and_without_prefix() {
    for (key, address) in KNOWN {
        for text in [key.to_owned(), format!("0x{key}"), format!("0X{}\n", key.to_uppercase())] {
            let signer = from_key(&text).unwrap();
            assert_eq!(signer.account(), account(address));
            assert_eq!(signer.custody(), Custody::Local);
        }
    }
}

#[test]
fn a_mnemonic_gives_the_accounts_of_the_usual_path() {
    for (index, (_, address)) in KNOWN.into_iter().enumerate() {
        let signer = from_phrase(PHRASE, u32::try_from(index).unwrap()).unwrap();
        assert_eq!(signer.account(), account(address));
    }
    let spaced = PHRASE.replace(' ', "  ") + "\n";
    assert_eq!(from_phrase(&spaced, 0).unwrap().account(), account(FIRST));
}

#[test]
fn keys_that_are_loaded_together_are_those_that_are_loaded_alone() {
    let mut loader = Loader::default();
    for index in [7, 0, 1_000, 7] {
        let source = Source::Mnemonic { from: Place::Env("PHRASE".to_owned()), index };
        let signer = loader.load_with(&source, None, |_| Some(PHRASE.to_owned())).unwrap();
        assert_eq!(signer.account(), from_phrase(PHRASE, index).unwrap().account());
    }
}

#[test]
fn bad_input_is_told_apart_in_words() {
    let cases = [
        (from_key(&KEY[..63]).unwrap_err(), "64 hex digits, with or without 0x; it has 63"),
        (from_key(&format!("{KEY}00")).unwrap_err(), "it has 66"),
        (from_key("").unwrap_err(), "it has 0"),
        (from_key(&format!("0xg{}", &KEY[1..])).unwrap_err(), "character 3 is not a hex digit"),
        (from_key(&"0".repeat(64)).unwrap_err(), "zero or not below the order of the curve"),
        (from_key(&"f".repeat(64)).unwrap_err(), "zero or not below the order of the curve"),
        (from_phrase("test test", 0).unwrap_err(), "12, 15, 18, 21 or 24 words; it has 2"),
        (from_phrase(&PHRASE.replace("junk", "jonk"), 0).unwrap_err(), "word 12 of the mnemonic"),
        (from_phrase(&PHRASE.replace("junk", "test"), 0).unwrap_err(), "checksum does not fit"),
        (from_phrase(PHRASE, 1 << 31).unwrap_err(), "index 2147483648 is too high"),
    ];
    for (error, part) in cases {
        assert!(error.to_string().contains(part), "{error} / {part}");
    }
}

#[test]
fn a_missing_variable_is_named() {
    let source = Source::PrivateKey { from: Place::Env("KEY_A".into()) };
    let error = LocalSigner::load_with(&source, None, env(&[])).unwrap_err();
    assert_eq!(error.to_string(), "environment variable KEY_A is not set");
    let error =
        LocalSigner::load(&Source::PrivateKey { from: Place::Env("LANDFALL_NO_SUCH_KEY".into()) }, None)
            .unwrap_err();
    assert!(error.to_string().contains("LANDFALL_NO_SUCH_KEY"));
}

#[test]
fn an_expected_address_is_checked_and_both_are_named() {
    let source = Source::PrivateKey { from: Place::Env("KEY".into()) };
    let other = account(KNOWN[1].1);
    let error = LocalSigner::load_with(&source, Some(other), env(&[("KEY", KEY)])).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "the key from environment variable KEY belongs to {}, but {other} was expected",
            account(FIRST)
        )
    );
    assert!(LocalSigner::load_with(&source, Some(account(FIRST)), env(&[("KEY", KEY)])).is_ok());
}

#[test]
fn a_key_of_a_phrase_that_everybody_knows_is_public_at_every_index() {
    for index in [0, 33, 1_000_000] {
        assert!(from_phrase(PHRASE, index).unwrap().is_public(), "{index}");
    }
    assert!(from_key(KEY).unwrap().is_public(), "also by its account alone");
    let own = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318";
    assert!(!from_key(&own.replace('4', "5")).unwrap().is_public());
}
