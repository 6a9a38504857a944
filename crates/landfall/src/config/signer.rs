//! `[[signer]]`: a key, the chains it may be used on, and what it may be used for.

use std::path::PathBuf;

use alloy_primitives::Address;
use anyhow::{Result, bail};
use landfall_core::Account;
use landfall_core::settings::{Allocation, OnUnknownSlots};
use landfall_signer::{Place, Source};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::secrets::{Files, check_env_name};

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Signer {
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "one_account")]
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
    #[serde(deserialize_with = "accounts")]
    pub(crate) delegate_to: Vec<Account>,
}

fn one_account<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Account>, D::Error> {
    account(&String::deserialize(d)?)
        .map(Some)
        .map_err(|why| D::Error::custom(format!("it is not an address: {why}")))
}

fn accounts<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Account>, D::Error> {
    let entries = Vec::<String>::deserialize(d)?;
    let parsed = entries.iter().enumerate().map(|(position, text)| {
        account(text)
            .map_err(|why| D::Error::custom(format!("entry {} is not an address: {why}", position + 1)))
    });
    parsed.collect()
}

/// 20 bytes in hex, as the API takes them: mixed case must carry a right checksum.
fn account(text: &str) -> Result<Account, String> {
    let digits = text.strip_prefix("0x").ok_or("it must start with 0x")?;
    if digits.len() != 40 {
        return Err(format!("it must have 40 hex digits, not {}", digits.len()));
    }
    let address: Address = text.parse().map_err(|_| "it has characters that are not hex digits")?;
    let has = |is: fn(&char) -> bool| digits.chars().any(|c| is(&c));
    let is_mixed = has(char::is_ascii_lowercase) && has(char::is_ascii_uppercase);
    if is_mixed && address.to_checksum(None) != text {
        return Err("its checksum (EIP-55) is wrong; check it, or write it in lower case".to_owned());
    }
    Ok(Account(address))
}

impl Signer {
    pub(super) fn check(&self) -> Result<()> {
        let names = [
            ("private_key_env", &self.private_key_env),
            ("password_env", &self.password_env),
            ("mnemonic_env", &self.mnemonic_env),
        ];
        for (key, name) in names {
            name.as_deref().map_or(Ok(()), |name| check_env_name(key, name))?;
        }
        Ok(())
    }

    /// The setting that names its key.
    pub(crate) fn setting(&self) -> &'static str {
        match self {
            Self { private_key_env: Some(_), .. } => "private_key_env",
            Self { private_key_file: Some(_), .. } => "private_key_file",
            Self { keystore: Some(_), .. } => "keystore",
            Self { mnemonic_env: Some(_), .. } => "mnemonic_env",
            Self { mnemonic_file: Some(_), .. } => "mnemonic_file",
            _ => "its key",
        }
    }

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
                Ok(Source::Keystore { file: files.checked("signer.keystore", keystore)?, password })
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
    use crate::config::Config;

    fn refused(signer: &str) -> String {
        let text = format!("[[signer]]\n{signer}");
        format!("{:#} {0:?}", Config::parse(&text, std::iter::empty()).unwrap_err())
    }

    #[test]
    fn a_secret_where_the_name_of_a_variable_belongs_is_refused_and_not_repeated() {
        let key = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        let phrase = "test test test test test test test test test test test junk";
        for (setting, secret) in [
            ("private_key_env", format!("0x{key}")),
            ("private_key_env", key.to_owned()),
            ("mnemonic_env", phrase.to_owned()),
            ("password_env", "correct horse".to_owned()),
        ] {
            let said = refused(&format!("{setting} = \"{secret}\""));
            assert!(said.contains(&format!("signer 0: {setting} must NAME")), "{said}");
            assert!(!said.contains(&secret) && said.contains("is not shown"), "{said}");
        }
        for (section, setting) in [("access", "admin_key_env"), ("webhooks", "secret_env")] {
            let text = format!("[{section}]\n{setting} = \"0x{key}\"");
            let said = format!("{:#}", Config::parse(&text, std::iter::empty()).unwrap_err());
            assert!(said.contains(setting) && said.contains("must NAME") && !said.contains(key), "{said}");
        }
    }

    #[test]
    fn an_address_with_a_wrong_checksum_is_refused_and_its_entry_is_named() {
        let right = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
        let wrong = "0xf39fd6e51aad88F6F4ce6aB8827279cffFb92266";
        let said = refused(&format!("delegate_to = [\"{right}\", \"{wrong}\"]"));
        assert!(said.contains("delegate_to") && said.contains("entry 2"), "{said}");
        assert!(said.contains("checksum (EIP-55) is wrong"), "{said}");
        let said = refused(&format!("address = \"{wrong}\""));
        assert!(said.contains("signer.address") && said.contains("checksum"), "{said}");
        for good in [right.to_owned(), right.to_lowercase(), format!("0x{}", "0".repeat(40))] {
            let text = format!("[[signer]]\nprivate_key_env = \"K\"\ndelegate_to = [\"{good}\"]");
            assert!(Config::parse(&text, std::iter::empty()).is_ok(), "{good}");
        }
        assert!(refused("delegate_to = [\"0x12\"]").contains("40 hex digits"));
    }

    #[test]
    fn a_signer_names_one_place_for_its_key() {
        let files = Files::Loose;
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
        let expected = Place::File(landfall_signer::SecretFile::loose("keys/a"));
        assert_eq!(file.source(files).unwrap(), Source::PrivateKey { from: expected });
    }
}
