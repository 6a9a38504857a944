//! A key in this process. Found by [`load`](LocalSigner::load), signs with libsecp256k1.
//!
//! - `load`: where keys come from (environment, keystore file, mnemonic), and every way that can go wrong
//! - `place`: an environment variable or a file that holds a secret
//! - `file`: which files with secrets are used, and how they are read
//! - `known`: keys and phrases that everybody knows
//! - `keystore`: encrypted key files, read and written
//! - `secret`: the key itself, and the only code that touches its bytes

mod file;
pub mod keystore;
mod known;
mod load;
mod place;
mod secret;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::Account;
use landfall_core::ports::signer::{Custody, Error, Preimage, Signature, Signer};

pub use file::{FileError, SecretFile};
pub use load::{LoadError, Source};
pub use place::{Place, is_env_name};
use secret::Secret;

/// A batch up to this size is signed where it is asked for: half a millisecond, less than a hand-over may cost.
/// A larger one would hold up the other tasks of the runtime's thread.
const INLINE_UP_TO: usize = 16;

/// A key that signs in this process.
#[derive(Clone)]
pub struct LocalSigner {
    account: Account,
    secret: Arc<Secret>,
    /// Everybody knows the phrase that its key comes from.
    of_public_phrase: bool,
}

impl LocalSigner {
    /// Finds the key and, where an address is expected, proves that it is that one's.
    pub fn load(source: &Source, expected: Option<Account>) -> Result<Self, LoadError> {
        Self::load_with(source, expected, |name| std::env::var(name).ok())
    }

    /// The same, with the environment passed in.
    pub fn load_with(
        source: &Source,
        expected: Option<Account>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, LoadError> {
        Loader::default().load_with(source, expected, env)
    }

    /// Everybody knows its key: it is one of test networks or examples, or of a phrase that is.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.of_public_phrase || known::is_public(self.account)
    }
}

/// Loads keys that belong together; of one mnemonic a thousand take hardly longer than one.
#[derive(Default)]
pub struct Loader {
    parents: load::Parents,
}

impl Loader {
    /// Finds a key and, where an address is expected, proves that it is that one's.
    pub fn load(&mut self, source: &Source, expected: Option<Account>) -> Result<LocalSigner, LoadError> {
        self.load_with(source, expected, |name| std::env::var(name).ok())
    }

    /// The same, with the environment passed in, which must not change between two keys.
    pub fn load_with(
        &mut self,
        source: &Source,
        expected: Option<Account>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<LocalSigner, LoadError> {
        let (secret, of_public_phrase) = load::find(source, &env, &mut self.parents)?;
        let signer = LocalSigner { account: secret.account(), secret: Arc::new(secret), of_public_phrase };
        match expected {
            Some(expected) if expected != signer.account => {
                Err(LoadError::OtherAccount { origin: source.to_string(), expected, found: signer.account })
            }
            Some(_) | None => Ok(signer),
        }
    }
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Loader")
    }
}

impl fmt::Debug for LocalSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSigner").field("account", &self.account).finish_non_exhaustive()
    }
}

#[async_trait]
impl Signer for LocalSigner {
    fn account(&self) -> Account {
        self.account
    }

    fn custody(&self) -> Custody {
        Custody::Local
    }

    async fn sign(&self, requests: Vec<Preimage>) -> Vec<Result<Signature, Error>> {
        if requests.len() <= INLINE_UP_TO || !has_other_threads() {
            return sign_all(&self.secret, &requests);
        }
        let secret = Arc::clone(&self.secret);
        let count = requests.len();
        match tokio::task::spawn_blocking(move || sign_all(&secret, &requests)).await {
            Ok(signatures) => signatures,
            Err(stopped) => vec![Err(Error::Unavailable(stopped.to_string())); count],
        }
    }
}

fn sign_all(secret: &Secret, requests: &[Preimage]) -> Vec<Result<Signature, Error>> {
    secret.sign(requests.iter().map(|request| request.digest)).into_iter().map(Ok).collect()
}

/// Is there a runtime with threads that a long batch could be handed to? A simulator has none, and must stay in step.
fn has_other_threads() -> bool {
    tokio::runtime::Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread)
}
