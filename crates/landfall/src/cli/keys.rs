//! `landfall key`, `landfall api-key` and `landfall import`: who signs and who may call.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Remote;

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Make a new key in an encrypted file.
    #[command(
        after_help = "Example:\n  KEY_PASSWORD=correct-horse landfall key new keys/a.json --password-env KEY_PASSWORD"
    )]
    New {
        /// Where to write it; its folder is made if it is missing, and an existing file is never overwritten.
        file: PathBuf,
        #[command(flatten)]
        password: Password,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the address of a key.
    #[command(after_help = "Examples:\n  landfall key address --private-key-env KEY_A\n  \
        landfall key address --keystore keys/a.json --password-env KEY_PASSWORD")]
    Address(KeyAddress),
}

#[derive(Debug, Args)]
#[group(id = "password", multiple = false)]
pub(crate) struct Password {
    /// The variable that holds the password.
    #[arg(long)]
    pub(crate) password_env: Option<String>,
    /// The file that holds the password.
    #[arg(long)]
    pub(crate) password_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("where").required(true).args([
    "private_key_env",
    "private_key_file",
    "keystore",
    "mnemonic_env",
    "mnemonic_file",
]))]
pub(crate) struct KeyAddress {
    /// The variable that holds the key in hex.
    #[arg(long)]
    pub(crate) private_key_env: Option<String>,
    /// The file that holds the key in hex.
    #[arg(long, value_name = "FILE")]
    pub(crate) private_key_file: Option<PathBuf>,
    /// An encrypted key file.
    #[arg(long, requires = "password", value_name = "FILE")]
    pub(crate) keystore: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) password: Password,
    /// The variable that holds a BIP-39 phrase.
    #[arg(long)]
    pub(crate) mnemonic_env: Option<String>,
    /// The file that holds a BIP-39 phrase.
    #[arg(long, value_name = "FILE")]
    pub(crate) mnemonic_file: Option<PathBuf>,
    /// Which account of the phrase.
    #[arg(long)]
    pub(crate) index: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApiKey {
    /// Make a key and print it. It is shown this once.
    Create(NewApiKey),
    /// List the keys, without their secrets.
    List {
        #[command(flatten)]
        remote: Remote,
    },
    /// End a key: it opens nothing any more, on any node, within a second.
    Revoke {
        /// Its id, as `list` shows it.
        id: String,
        #[command(flatten)]
        remote: Remote,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NewApiKey {
    /// What it is for.
    #[arg(long)]
    pub(crate) name: String,
    /// viewer, approver, submitter, operator or admin.
    #[arg(long)]
    pub(crate) role: String,
    /// A signer it may see and use; repeat for more. All if left out.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) signer: Vec<String>,
    /// A chain it may see and use them on, by its id; repeat for more. All if left out.
    #[arg(long, value_name = "ID")]
    pub(crate) chain: Vec<u64>,
    /// Requests per second; 0 is no limit. If left out, as access.rate_per_s says.
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<u32>,
    /// When it ends, such as 2027-01-31T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
    /// Write it into the store that this configuration names, instead of asking a server.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Import {
    /// From an OpenZeppelin relayer's config.json, network files and keystores.
    Openzeppelin {
        /// Its configuration.
        #[arg(long, value_name = "FILE", default_value = "config/config.json")]
        config: PathBuf,
        /// A folder with network files, besides those that the configuration names.
        #[arg(long, value_name = "FOLDER")]
        networks: Option<PathBuf>,
        #[command(flatten)]
        to: ImportTo,
    },
    /// From a folder of encrypted key files, such as geth's.
    Keystores {
        folder: PathBuf,
        /// A chain that the keys are for and an endpoint of it; repeat for more.
        #[arg(long, value_name = "ID=URL", required = true)]
        chain: Vec<String>,
        #[command(flatten)]
        password: Password,
        #[command(flatten)]
        to: ImportTo,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ImportTo {
    /// The file to write; it must not exist. Printed if left out.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// The result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
