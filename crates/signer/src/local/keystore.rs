//! Encrypted key files: the Ethereum keystore, version 3 (AES-128-CTR under scrypt or PBKDF2).

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use alloy_primitives::Keccak256;
use alloy_signer_local::{LocalSignerError, PrivateKeySigner};
use landfall_core::Account;
use rand_core::{CryptoRng, RngCore};
use serde_json::Value;
use zeroize::Zeroizing;

use super::secret::Secret;

/// Why a key file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("keystore {} could not be read: {cause}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },
    #[error("{} is not an Ethereum keystore: {why}", path.display())]
    NotKeystore { path: PathBuf, why: String },
    #[error("the password does not open keystore {}", path.display())]
    WrongPassword { path: PathBuf },
    #[error("{} exists already; a key file is never overwritten", path.display())]
    Exists { path: PathBuf },
    #[error("keystore {} could not be written: {why}", path.display())]
    Unwritable { path: PathBuf, why: String },
    #[error("the random bytes are not a private key; draw others")]
    BadRandomness,
}

/// Random bytes from the operating system, for one new key file: the key, then a seed for salt and vector.
pub type Randomness = Zeroizing<[u8; 64]>;

/// Makes a new key and writes it, encrypted, to a file that only its owner may read. Never overwrites.
pub fn create(path: &Path, password: &str, randomness: &Randomness) -> Result<Account, Error> {
    let unwritable = |why: String| Error::Unwritable { path: path.to_owned(), why };
    let mut key = Zeroizing::new([0; 32]);
    key.copy_from_slice(&randomness[..32]);
    let account = Secret::new(&key).map_err(|_| Error::BadRandomness)?.account();
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(unwritable("the path does not end in a file name".to_owned()));
    };
    // The library opens the file by name and truncates it: made here first, it is new and private.
    let file = reserve(path)?;
    let mut stream = Stream::new(&randomness[32..]);
    let written = PrivateKeySigner::encrypt_keystore(dir, &mut stream, *key, password, Some(name))
        .map_err(|cause| unwritable(cause.to_string()))
        .and_then(|_| file.sync_all().map_err(|cause| unwritable(cause.to_string())));
    if let Err(error) = written {
        return Err(match fs::remove_file(path) {
            Ok(()) => error,
            Err(left) => unwritable(format!("{error}; and the empty file could not be removed: {left}")),
        });
    }
    Ok(account)
}

/// The account whose key a file holds.
pub fn address(path: &Path, password: &str) -> Result<Account, Error> {
    let key = decrypt(path, password)?;
    let secret = Secret::new(&key).map_err(|_| Error::NotKeystore {
        path: path.to_owned(),
        why: "it holds bytes that are not a private key".to_owned(),
    })?;
    Ok(secret.account())
}

/// The key in a file.
pub(super) fn decrypt(path: &Path, password: &str) -> Result<Zeroizing<[u8; 32]>, Error> {
    let text =
        fs::read_to_string(path).map_err(|cause| Error::Unreadable { path: path.to_owned(), cause })?;
    let not_keystore = |why: String| Error::NotKeystore { path: path.to_owned(), why };
    check_form(&text).map_err(|why| not_keystore(why.to_owned()))?;
    match PrivateKeySigner::decrypt_keystore(path, password) {
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

/// A seed drawn out into as many bytes as are asked for: block `i` is keccak(seed, i).
struct Stream {
    seed: Keccak256,
    next: u64,
}

impl Stream {
    fn new(seed: &[u8]) -> Self {
        let mut hasher = Keccak256::new();
        hasher.update(seed);
        Self { seed: hasher, next: 0 }
    }
}

impl RngCore for Stream {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.fill_bytes(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_bytes(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(32) {
            let mut hasher = self.seed.clone();
            hasher.update(self.next.to_be_bytes());
            chunk.copy_from_slice(&hasher.finalize()[..chunk.len()]);
            self.next += 1;
        }
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(out);
        Ok(())
    }
}

impl CryptoRng for Stream {}
