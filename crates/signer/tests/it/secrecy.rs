//! Key material appears nowhere: not in `Debug`, not in any error.

use std::fmt::Debug;

use landfall_signer::{LocalSigner, Place, SecretFile, Source};

use super::{KEY, PHRASE, env, from_key, from_phrase};

/// No run of eight characters of the secret appears in the text, in either case.
fn assert_free_of(text: &str, secret: &str) {
    let text = text.to_lowercase();
    let secret = secret.to_lowercase();
    let letters: Vec<char> = secret.chars().collect();
    for window in letters.windows(8) {
        let part: String = window.iter().collect();
        assert!(!text.contains(&part), "{text:?} shows {part:?}");
    }
}

fn shown(value: &(impl Debug + ?Sized)) -> String {
    format!("{value:?} {value:#?}")
}

#[test]
fn a_signer_shows_its_account_only() {
    let signer = from_key(KEY).unwrap();
    assert_free_of(&shown(&signer), KEY);
    assert!(shown(&signer).contains("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"));
}

#[test]
fn no_error_repeats_what_was_read() {
    let long = format!("{KEY}ab");
    let no_hex = format!("{}zz", &KEY[..62]);
    let high = "f".repeat(64);
    for bad in [&KEY[..60], &long, &no_hex, &high] {
        let error = from_key(bad).unwrap_err();
        assert_free_of(&format!("{error} {}", shown(&error)), bad);
    }
    let phrases = [
        "legal winner thank year wave sausage worth useful legal winner thank yellowish",
        "legal winner thank year wave sausage worth useful legal winner thank legal",
        "legal winner thank year",
    ];
    for bad in phrases {
        let error = from_phrase(bad, 0).unwrap_err();
        for word in ["winner", "thank", "sausage", "useful", "yellow"] {
            assert!(!format!("{error} {}", shown(&error)).contains(word), "{error}");
        }
    }
    let other = "0x0000000000000000000000000000000000000001".parse().map(landfall_core::Account).unwrap();
    let source = Source::Mnemonic { from: Place::Env("WORDS".into()), index: 0 };
    let error = LocalSigner::load_with(&source, Some(other), env(&[("WORDS", PHRASE)])).unwrap_err();
    assert_free_of(&format!("{error} {}", shown(&error)), KEY);
}

#[test]
fn a_wrong_password_is_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.json");
    landfall_signer::keystore::create(&path, "r1ght-pa55w0rd", &[7; 64].into()).unwrap();
    let source = Source::Keystore { file: SecretFile::new(path), password: Place::Env("PW".into()) };
    let error = LocalSigner::load_with(&source, None, env(&[("PW", "wr0ng-pa55w0rd")])).unwrap_err();
    assert_free_of(&format!("{error} {}", shown(&error)), "wr0ng-pa55w0rd");
}
