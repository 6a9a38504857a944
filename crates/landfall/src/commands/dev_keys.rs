//! The public test keys as signers. Everyone knows them: for play, tests and measurements only.

use anyhow::Result;
use landfall_core::Account;
use landfall_devchain::DevAccount;
use landfall_signer::{LocalSigner, Place, Source};

pub(crate) fn signer(account: &DevAccount) -> Result<LocalSigner> {
    let source = Source::PrivateKey { from: Place::Env("the public test key".to_owned()) };
    let key = account.key.to_string();
    let found = |_: &str| Some(key.clone());
    Ok(LocalSigner::load_with(&source, Some(Account(account.address)), found)?)
}
