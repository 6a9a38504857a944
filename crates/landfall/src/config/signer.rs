//! `[[signer]]`: a key, the chains it may be used on, and what it may be used for.

use std::path::PathBuf;

use anyhow::{Result, bail};
use landfall_core::Account;
use landfall_core::settings::{Allocation, OnUnknownSlots};
use landfall_signer::{Place, Source};
use serde::{Deserialize, Serialize};

use super::secrets::Files;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Signer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<Account>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) private_key_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) private_key_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keystore: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) password_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) password_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mnemonic_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mnemonic_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) chains: Vec<u64>,
    pub(crate) allocation: Allocation,
    pub(crate) on_unknown_slots: OnUnknownSlots,
    pub(crate) delegate_to: Vec<Account>,
}

impl Signer {
    /// Where the key is, from the keys that are set. Files that others can read are refused, if the rules say so.
    pub(crate) fn source(&self, files: Files) -> Result<Source> {
        let plain = place(files, "signer.private_key_file", &self.private_key_env, &self.private_key_file)?;
        let phrase = place(files, "signer.mnemonic_file", &self.mnemonic_env, &self.mnemonic_file)?;
        match (plain, &self.keystore, phrase) {
            (Some(from), None, None) => Ok(Source::PrivateKey { from }),
            (None, None, Some(from)) => Ok(Source::Mnemonic { from, index: self.index.unwrap_or(0) }),
            (None, Some(keystore), None) => {
                let password = place(files, "signer.password_file", &self.password_env, &self.password_file)?;
                let Some(password) = password else {
                    bail!("a keystore needs exactly one of password_env or password_file");
                };
                Ok(Source::Keystore { path: files.checked("signer.keystore", keystore)?, password })
            }
            _ => bail!(
                "a signer needs exactly one of private_key_env, private_key_file, keystore, mnemonic_env or mnemonic_file"
            ),
        }
    }
}

/// One of the two, or none.
fn place(files: Files, key: &str, env: &Option<String>, file: &Option<PathBuf>) -> Result<Option<Place>> {
    match (env, file) {
        (None, None) => Ok(None),
        (Some(env), None) => Ok(Some(Place::Env(env.clone()))),
        (None, Some(file)) => Ok(Some(Place::File(files.checked(key, file)?))),
        (Some(_), Some(_)) => bail!("{key} and its variable are both set; keep one of them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signer_names_one_place_for_its_key() {
        let files = Files { loose: true };
        assert!(Signer::default().source(files).is_err());
        let two =
            Signer { private_key_env: Some("A".into()), mnemonic_env: Some("B".into()), ..Signer::default() };
        assert!(two.source(files).is_err());
        let both = Signer {
            private_key_env: Some("A".into()),
            private_key_file: Some("b".into()),
            ..Signer::default()
        };
        assert!(both.source(files).unwrap_err().to_string().contains("keep one"));
        let file = Signer { private_key_file: Some("keys/a".into()), ..Signer::default() };
        assert_eq!(file.source(files).unwrap(), Source::PrivateKey { from: Place::File("keys/a".into()) });
    }
}
