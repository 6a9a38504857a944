//! Encrypted key files: the Ethereum keystore, version 3 (AES-128-CTR under scrypt or PBKDF2).

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use aes::Aes128;
use alloy_primitives::{Keccak256, hex};
use alloy_signer_local::{LocalSignerError, PrivateKeySigner};
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit as _, StreamCipher as _};
use landfall_core::Account;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::file::{FileError, SecretFile, path_to, text_of};
use super::secret::Secret;

/// Why a key file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is not an Ethereum keystore: {why}", path.display())]
    NotKeystore { path: PathBuf, why: String },
    #[error("the password does not open keystore {}", path.display())]
    WrongPassword { path: PathBuf },
    #[error("{} exists already; a key file is never overwritten", path.display())]
    Exists { path: PathBuf },
    #[error("keystore {} could not be written: {why}", path.display())]
    Unwritable { path: PathBuf, why: String },
    #[error(
        "the password is empty, and whoever reads the file would have the key; give one, such as by `openssl rand -hex 32`"
    )]
    EmptyPassword,
    #[error("the random bytes are not a private key; draw others")]
    BadRandomness,
}

/// Random bytes from the operating system, for one new key file: the key, then a seed for salt, vector and id.
pub type Randomness = Zeroizing<[u8; 64]>;

/// How hard a password of a new file is to guess: as geth has it, 256 MB and about a second for each try.
const LOG_N: u8 = 18;
const R: u32 = 8;
const P: u32 = 1;

/// Makes a new key and writes it, encrypted, to a file that only its owner may read. Never overwrites.
pub fn create(path: &Path, password: &str, randomness: &Randomness) -> Result<Account, Error> {
    let unwritable = |why: String| Error::Unwritable { path: path.to_owned(), why };
    if password.trim().is_empty() {
        return Err(Error::EmptyPassword);
    }
    let mut key = Zeroizing::new([0; 32]);
    key.copy_from_slice(&randomness[..32]);
    let account = Secret::new(&key).map_err(|_| Error::BadRandomness)?.account();
    if path.file_name().is_none() {
        return Err(unwritable("the path does not end in a file name".to_owned()));
    }
    let mut file = reserve(path)?;
    let written = encrypted(&key, account, password, &randomness[32..]).and_then(|text| {
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|cause| cause.to_string())
    });
    written.map_err(|why| match fs::remove_file(path) {
        Ok(()) => unwritable(why),
        Err(left) => unwritable(format!("{why}; and the file could not be removed: {left}")),
    })?;
    Ok(account)
}

/// The content of a key file.
fn encrypted(
    key: &Zeroizing<[u8; 32]>,
    account: Account,
    password: &str,
    seed: &[u8],
) -> Result<String, String> {
    let (salt, more) = (drawn(seed, 0), drawn(seed, 1));
    let (iv, id) = more.split_at(16);
    let strength = scrypt::Params::new(LOG_N, R, P).map_err(|error| error.to_string())?;
    let mut derived = Zeroizing::new([0; 32]);
    scrypt::scrypt(password.as_bytes(), &salt, &strength, derived.as_mut_slice())
        .map_err(|error| error.to_string())?;
    let mut cipher =
        Ctr128BE::<Aes128>::new_from_slices(&derived[..16], iv).map_err(|error| error.to_string())?;
    let mut ciphertext = Zeroizing::new(**key);
    cipher.apply_keystream(ciphertext.as_mut_slice());
    let mut mac = Keccak256::new();
    mac.update(&derived[16..]);
    mac.update(ciphertext.as_slice());
    let file = json!({
        "address": hex::encode(account.0),
        "crypto": {
            "cipher": "aes-128-ctr",
            "cipherparams": { "iv": hex::encode(iv) },
            "ciphertext": hex::encode(ciphertext.as_slice()),
            "kdf": "scrypt",
            "kdfparams": { "dklen": 32, "n": 1_u32 << LOG_N, "r": R, "p": P, "salt": hex::encode(salt) },
            "mac": hex::encode(mac.finalize()),
        },
        "id": uuid(id),
        "version": 3,
    });
    Ok(file.to_string())
}

/// A seed drawn out into as many blocks as are asked for: block `i` is keccak(seed, i).
fn drawn(seed: &[u8], block: u64) -> [u8; 32] {
    let mut hasher = Keccak256::new();
    hasher.update(seed);
    hasher.update(block.to_be_bytes());
    hasher.finalize().0
}

/// Sixteen random bytes as a UUID of version 4.
fn uuid(random: &[u8]) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&random[..16]);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let text = hex::encode(bytes);
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

/// The account whose key a file holds.
pub fn address(file: &SecretFile, password: &str) -> Result<Account, Error> {
    let key = decrypt(file, password)?;
    let secret = Secret::new(&key).map_err(|_| Error::NotKeystore {
        path: file.path().to_owned(),
        why: "it holds bytes that are not a private key".to_owned(),
    })?;
    Ok(secret.account())
}

/// The key in a file.
pub(super) fn decrypt(file: &SecretFile, password: &str) -> Result<Zeroizing<[u8; 32]>, Error> {
    let (open, path) = (file.open()?, file.path());
    let text = text_of(&open, path)?;
    let not_keystore = |why: String| Error::NotKeystore { path: path.to_owned(), why };
    check_form(&text).map_err(|why| not_keystore(why.to_owned()))?;
    match PrivateKeySigner::decrypt_keystore(path_to(&open, path), password) {
        Ok(signer) => Ok(Zeroizing::new(signer.to_bytes().0)),
        Err(LocalSignerError::EthKeystoreError(cause)) if cause.to_string() == MAC_MISMATCH => {
            Err(Error::WrongPassword { path: path.to_owned() })
        }
        // Neither text can hold key material: nothing was decrypted, or what was is not shown by the library.
        Err(LocalSignerError::EthKeystoreError(cause)) => Err(not_keystore(cause.to_string())),
        Err(_) => Err(not_keystore("it holds bytes that are not a private key".to_owned())),
    }
}

/// How the library, whose error type it does not pass on, says that the password is wrong.
const MAC_MISMATCH: &str = "Mac Mismatch";

/// Most memory that opening a key file may take: twice what the usual strongest setting (n = 2^18, r = 8) takes.
const MAX_SCRYPT_BYTES: u64 = 512 << 20;
/// Most passes over that memory, and most rounds of PBKDF2: each many times what wallets write, and done in under a minute.
const MAX_SCRYPT_PASSES: u64 = 16;
const MAX_ROUNDS: u64 = 16_000_000;

/// Looks at what the library takes for granted, so that a damaged file is an error and not a panic.
fn check_form(text: &str) -> Result<(), &'static str> {
    let json: Value = serde_json::from_str(text).map_err(|_| "it is not JSON")?;
    if json["version"] != 3 {
        return Err("its version is not 3");
    }
    let crypto = &json["crypto"];
    if crypto["cipher"] != "aes-128-ctr" {
        return Err("its cipher is not aes-128-ctr");
    }
    if crypto["cipherparams"]["iv"].as_str().map(str::len) != Some(32) {
        return Err("its initialisation vector is not 16 bytes long");
    }
    if crypto["ciphertext"].as_str().map(str::len) != Some(64) {
        return Err("its ciphertext is not 32 bytes long");
    }
    let kdf = &crypto["kdfparams"];
    if kdf["dklen"].as_u64().is_none_or(|length| length < 32) {
        return Err("its derived key is shorter than 32 bytes");
    }
    if kdf["p"].as_u64().is_some_and(|passes| passes > MAX_SCRYPT_PASSES) {
        return Err("its scrypt parameter p is above 16, and opening it would take minutes");
    }
    if kdf["c"].as_u64().is_some_and(|rounds| rounds > MAX_ROUNDS) {
        return Err("it asks for more than 16 million rounds of PBKDF2, which would take minutes");
    }
    match (kdf["n"].as_u64(), kdf["r"].as_u64()) {
        (Some(n), _) if !n.is_power_of_two() => Err("its scrypt parameter n is not a power of two"),
        (Some(n), Some(r)) if n.saturating_mul(r).saturating_mul(128) > MAX_SCRYPT_BYTES => {
            Err("its scrypt parameters ask for more than 512 MB of memory")
        }
        (Some(_) | None, Some(_) | None) => Ok(()),
    }
}

/// A new, empty file that only its owner may read.
fn reserve(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned() },
        _ => Error::Unwritable { path: path.to_owned(), why: cause.to_string() },
    })
}
