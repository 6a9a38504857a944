//! `landfall import`: a configuration made from what another relayer has.
//!
//! Keys stay where they are: what is written names their files and the variables with their passwords, never a secret. What has no
//! counterpart is said, so that nothing is lost in silence.

mod found;
mod keystores;
mod openzeppelin;

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use crate::cli::Import;
use crate::config::Config;
use crate::output;

pub(crate) fn run(command: Import) -> Result<()> {
    let (mut found, to) = match command {
        Import::Openzeppelin { config, networks, to } => {
            (openzeppelin::read(&config, networks.as_deref())?, to)
        }
        Import::Keystores { folder, chain, password, to } => {
            (keystores::read(&folder, &chain, &password)?, to)
        }
    };
    found.open_keys()?;
    let text = found.toml()?;
    // What is printed must be what the server takes.
    Config::parse(&text, std::iter::empty()).context("what was found does not make a configuration")?;
    if to.json {
        output::json(
            &json!({ "toml": text, "notes": found.notes, "signers": found.signers.len(), "chains": found.chains.len() }),
        );
        return Ok(());
    }
    match &to.out {
        None => print!("{text}"),
        Some(file) => write_new(file, &text)?,
    }
    for note in &found.notes {
        eprintln!("note: {note}");
    }
    eprintln!(
        "{} signers on {} chains. Before the first start: stop what used these keys before, and wait until its last \
         transaction is in a block. Two senders on one key take each other's nonces",
        found.signers.len(),
        found.chains.len()
    );
    Ok(())
}

fn write_new(file: &Path, text: &str) -> Result<()> {
    let made = std::fs::File::options().write(true).create_new(true).open(file);
    match made {
        Ok(mut made) => {
            made.write_all(text.as_bytes()).with_context(|| format!("{} cannot be written", file.display()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{} exists; name another file with --out, or remove it", file.display())
        }
        Err(error) => Err(error).with_context(|| format!("{} cannot be written", file.display())),
    }
}
