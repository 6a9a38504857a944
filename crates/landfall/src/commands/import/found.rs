//! What was found, and the configuration that it makes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use landfall_core::ports::signer::Signer as _;
use landfall_signer::{LocalSigner, Place, SecretFile, Source};
use serde_json::Value;

/// A chain that the other relayer used.
#[derive(Debug, Default)]
pub(super) struct FoundChain {
    /// How it was called there.
    pub(super) name: String,
    pub(super) rpc: Vec<String>,
    pub(super) finality: Option<u64>,
    pub(super) max_fee_gwei: Option<u64>,
    pub(super) low_balance_eth: Option<f64>,
}

/// A key in a file.
#[derive(Debug)]
pub(super) struct FoundSigner {
    pub(super) name: String,
    pub(super) keystore: PathBuf,
    pub(super) password: FoundPassword,
    pub(super) chains: BTreeSet<u64>,
    /// As its file says, or as the key itself says where the password is at hand.
    pub(super) address: Option<String>,
}

impl FoundSigner {
    pub(super) fn new(
        name: String,
        keystore: PathBuf,
        password: FoundPassword,
        chains: BTreeSet<u64>,
    ) -> Self {
        let address = address_in(&keystore);
        Self { name, keystore, password, chains, address }
    }
}

/// Where its password is.
#[derive(Debug, Clone)]
pub(super) enum FoundPassword {
    Env(String),
    File(PathBuf),
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) from: String,
    pub(super) chains: BTreeMap<u64, FoundChain>,
    pub(super) signers: Vec<FoundSigner>,
    /// What a person should know.
    pub(super) notes: Vec<String>,
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

impl Found {
    /// Opens every key whose password is at hand: one that does not open it is better found now than at the first start.
    pub(super) fn open_keys(&mut self) -> Result<()> {
        for signer in &mut self.signers {
            let password = match &signer.password {
                FoundPassword::Env(name) if std::env::var_os(name).is_none() => {
                    self.notes.push(format!("{} was not opened: {name} is not set", signer.name));
                    continue;
                }
                FoundPassword::Env(name) => Place::Env(name.clone()),
                FoundPassword::File(file) => Place::File(SecretFile::loose(file)),
            };
            // Whether others can read it is looked at when the server starts.
            let source = Source::Keystore { file: SecretFile::loose(&signer.keystore), password };
            let opened =
                LocalSigner::load(&source, None).with_context(|| format!("signer {}", signer.name))?;
            signer.address = Some(opened.account().to_string());
        }
        Ok(())
    }

    pub(super) fn toml(&self) -> Result<String> {
        if self.signers.is_empty() {
            bail!(
                "no key was found that Landfall can use{}",
                self.notes.iter().fold(String::new(), |all, note| all + "; " + note)
            );
        }
        let mut text = String::new();
        self.write(&mut text).context("the configuration cannot be written")?;
        Ok(text)
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "# Made by `landfall import` from {}. `landfall config` prints every key there is.\n",
            self.from
        )?;
        writeln!(text, "[server]\nlisten = \"127.0.0.1:8645\"\n\n[store]\nurl = \"sqlite://landfall.db\"")?;
        for (id, chain) in &self.chains {
            writeln!(text, "\n# {}\n[[chain]]\nid = {id}", chain.name)?;
            let rpc: Vec<String> = chain.rpc.iter().map(|url| quoted(url)).collect();
            writeln!(text, "rpc = [{}]", rpc.join(", "))?;
            if let Some(blocks) = chain.finality {
                writeln!(text, "finality = {blocks}")?;
            }
            if let Some(gwei) = chain.max_fee_gwei {
                writeln!(text, "max_fee_gwei = {gwei}")?;
            }
            if let Some(eth) = chain.low_balance_eth {
                writeln!(text, "low_balance_eth = {eth:?}")?;
            }
        }
        for signer in &self.signers {
            writeln!(text, "\n# {}\n[[signer]]", signer.name)?;
            if let Some(address) = &signer.address {
                writeln!(text, "address = {}", quoted(address))?;
            }
            writeln!(text, "keystore = {}", quoted(&signer.keystore.display().to_string()))?;
            match &signer.password {
                FoundPassword::Env(name) => writeln!(text, "password_env = {}", quoted(name))?,
                FoundPassword::File(file) => {
                    writeln!(text, "password_file = {}", quoted(&file.display().to_string()))?;
                }
            }
            let chains: Vec<String> = signer.chains.iter().map(u64::to_string).collect();
            writeln!(text, "chains = [{}]", chains.join(", "))?;
        }
        Ok(())
    }
}

/// The address that a keystore says it is of; some say none.
fn address_in(keystore: &Path) -> Option<String> {
    let document: Value = serde_json::from_str(&std::fs::read_to_string(keystore).ok()?).ok()?;
    let address = document.get("address")?.as_str()?;
    let address: alloy_primitives::Address = address.parse().ok()?;
    Some(address.to_checksum(None))
}

/// Whether a file is an encrypted key.
pub(super) fn is_keystore(file: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(file) else { return false };
    let Ok(document) = serde_json::from_str::<Value>(&text) else { return false };
    document.get("crypto").or_else(|| document.get("Crypto")).is_some_and(Value::is_object)
}
