//! `landfall key`: making keys and seeing their addresses. A key itself is never printed.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use landfall_core::ports::signer::Signer as _;
use landfall_signer::{LocalSigner, Place, keystore};
use serde_json::json;

use crate::cli::{Key, KeyAddress, Password};
use crate::config::Signer;
use crate::config::secrets::{Files, check_env_name};
use crate::output;

pub(crate) fn run(command: Key) -> Result<()> {
    match command {
        Key::New { file, password, json } => {
            let password = password_from(&password)?.read(&|name| std::env::var(name).ok())?;
            make_folder(&file)?;
            let address = keystore::create(&file, &password, &randomness())?;
            if json {
                output::json(&json!({ "address": address.to_string(), "keystore": file }));
            } else {
                println!("{address}");
                println!("Its key is in {}, encrypted; without the password it is lost.", file.display());
            }
        }
        Key::Address(args) => {
            let json = args.json;
            let signer = LocalSigner::load(&named(args)?.source(Files::Named)?, None)?;
            if json {
                output::json(&json!({ "address": signer.account().to_string() }));
            } else {
                println!("{}", signer.account());
            }
        }
    }
    Ok(())
}

/// The folder of a key is its owner's alone. One that is there stays as it is.
fn make_folder(file: &Path) -> Result<()> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).with_context(|| format!("the folder {} cannot be made", folder.display()))
}

/// From the system, for one key and its file.
fn randomness() -> keystore::Randomness {
    let mut bytes = keystore::Randomness::from([0; 64]);
    rand::fill(bytes.as_mut_slice());
    bytes
}

fn password_from(password: &Password) -> Result<Place> {
    match (&password.password_env, &password.password_file) {
        (Some(env), None) => {
            check_env_name("--password-env", env)?;
            Ok(Place::Env(env.clone()))
        }
        (None, Some(file)) => Ok(Place::File(Files::Named.checked("--password-file", file)?)),
        _ => bail!(
            "the key file is encrypted: name its password with one of --password-env or --password-file"
        ),
    }
}

/// The same choice as in the configuration.
fn named(args: KeyAddress) -> Result<Signer> {
    let names = [
        ("--private-key-env", &args.private_key_env),
        ("--password-env", &args.password.password_env),
        ("--mnemonic-env", &args.mnemonic_env),
    ];
    for (option, name) in names {
        name.as_deref().map_or(Ok(()), |name| check_env_name(option, name))?;
    }
    Ok(Signer {
        private_key_env: args.private_key_env,
        private_key_file: args.private_key_file,
        keystore: args.keystore,
        password_env: args.password.password_env,
        password_file: args.password.password_file,
        mnemonic_env: args.mnemonic_env,
        mnemonic_file: args.mnemonic_file,
        index: args.index,
        ..Signer::default()
    })
}
