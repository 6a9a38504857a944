//! Encrypted key files: made once, private, never overwritten, opened by their password only.

use std::path::Path;

use landfall_core::ports::signer::Signer;
use landfall_signer::keystore::{self, Error, Randomness};
use landfall_signer::{LoadError, LocalSigner, Place, SecretFile, Source};

use super::{FIRST, KEY, account, env};

fn randomness() -> Randomness {
    let mut bytes = [7; 64];
    alloy_primitives::hex::decode_to_slice(KEY, &mut bytes[..32]).unwrap();
    bytes.into()
}

fn load(path: &Path, password: &str) -> Result<LocalSigner, LoadError> {
    let source = Source::Keystore { file: SecretFile::loose(path), password: Place::Env("PW".into()) };
    LocalSigner::load_with(&source, None, env(&[("PW", password)]))
}

#[test]
fn a_new_key_file_is_private_and_opens_with_its_password_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.json");
    assert_eq!(keystore::create(&path, "secret", &randomness()).unwrap(), account(FIRST));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains(KEY) && text.contains("scrypt"), "{text}");
    assert_eq!(keystore::address(&SecretFile::new(&path), "secret").unwrap(), account(FIRST));
    assert_eq!(load(&path, "secret").unwrap().account(), account(FIRST));
    let error = load(&path, "other").unwrap_err().to_string();
    assert_eq!(error, format!("the password does not open keystore {}", path.display()));
}

#[test]
fn a_key_file_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.json");
    std::fs::write(&path, "precious").unwrap();
    let error = keystore::create(&path, "secret", &randomness()).unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    let nowhere = dir.path().join("no/such/dir/key.json");
    let error = keystore::create(&nowhere, "secret", &randomness()).unwrap_err();
    assert!(matches!(error, Error::Unwritable { .. }), "{error}");
}

#[test]
fn bytes_that_are_no_key_are_refused_before_a_file_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.json");
    let error = keystore::create(&path, "secret", &[0; 64].into()).unwrap_err();
    assert!(matches!(error, Error::BadRandomness), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_password_file_may_end_in_a_line_break() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.json");
    keystore::create(&path, "two words", &randomness()).unwrap();
    let password = dir.path().join("password");
    std::fs::write(&password, "two words\r\n").unwrap();
    let source =
        Source::Keystore { file: SecretFile::new(path), password: Place::File(SecretFile::loose(password)) };
    assert_eq!(LocalSigner::load(&source, None).unwrap().account(), account(FIRST));
}

/// A file written by another library (eth-account), for the first test key.
const OF_ANOTHER_TOOL: &str = r#"{"address":"f39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"30e1704ad8e4067e796398d9fbd0ae06"},
    "ciphertext":"488c31f53ad53cedefe455d72f25a36d67830d0be94fd8347c1bbff8edcd7cae","kdf":"scrypt",
    "kdfparams":{"dklen":32,"n":4096,"r":8,"p":1,"salt":"4f9cf55f425dcc50b4c5745a999cf01f"},
    "mac":"ef9f0057c2ab0bfee365cc2a8d722b9d8b838897717f0680662265c5c7ea8d2d"},
    "id":"58e9bbb4-ee5d-4fd0-863d-71e235526657","version":3}"#;

#[test]
fn damaged_files_are_errors_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.json");
    let good = OF_ANOTHER_TOOL;
    let cases = [
        ("not json".to_owned(), "it is not JSON"),
        ("{}".to_owned(), "its version is not 3"),
        (good.replace("aes-128-ctr", "rot13"), "its cipher"),
        (good.replace("30e1704ad8e4067e796398d9fbd0ae06", "60"), "its initialisation vector"),
        (good.replace("\"dklen\":32", "\"dklen\":8"), "its derived key"),
        (good.replace("488c31f5", ""), "its ciphertext"),
        (good.replace("scrypt", "md5"), "md5"),
        (good.replace("4096", "1073741824"), "512 MB"),
        (good.replace("4096", "1000"), "power of two"),
    ];
    for (text, part) in cases {
        std::fs::write(&path, text).unwrap();
        let error = load(&path, "testpassword").unwrap_err().to_string();
        assert!(error.contains("is not an Ethereum keystore") && error.contains(part), "{error} / {part}");
    }
    let error = load(&dir.path().join("absent"), "x").unwrap_err().to_string();
    assert!(error.contains("could not be read"), "{error}");
}

#[test]
fn a_file_of_another_tool_opens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.json");
    std::fs::write(&path, OF_ANOTHER_TOOL).unwrap();
    let signer = load(&path, "testpassword").unwrap();
    assert_eq!(signer.account(), account(FIRST));
}
