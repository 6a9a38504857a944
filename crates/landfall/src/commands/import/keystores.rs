//! A folder of keystores, as geth and most wallets make them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::found::{Found, FoundChain, FoundPassword, FoundSigner, is_keystore};
use crate::cli::Password;

pub(super) fn read(folder: &Path, chains: &[String], password: &Password) -> Result<Found> {
    let password = match (&password.password_env, &password.password_file) {
        (Some(env), None) => FoundPassword::Env(env.clone()),
        (None, Some(file)) => FoundPassword::File(file.clone()),
        _ => {
            bail!("the keys are encrypted: name their password with one of --password-env or --password-file")
        }
    };
    let mut found = Found { from: folder.display().to_string(), ..Found::default() };
    for chain in chains {
        let (id, rpc) = chain
            .split_once('=')
            .with_context(|| format!("--chain {chain}: write ID=URL, such as 1=https://…"))?;
        let id: u64 =
            id.parse().with_context(|| format!("--chain {chain}: {id:?} is not the id of a chain"))?;
        let known = found
            .chains
            .entry(id)
            .or_insert_with(|| FoundChain { name: format!("chain {id}"), ..FoundChain::default() });
        known.rpc.push(rpc.to_owned());
    }
    if found.chains.is_empty() {
        bail!("name the chains that these keys are for: --chain 1=https://…");
    }
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut files: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect();
    files.sort();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !is_keystore(&file) {
            found.notes.push(format!("{name} is not a keystore and was left out"));
            continue;
        }
        let chains = found.chains.keys().copied().collect();
        found.signers.push(FoundSigner::new(name, file, password.clone(), chains));
    }
    Ok(found)
}
