//! `landfall audit`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Remote;

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Who asked for what, and who was sent away, newest first.
    List {
        /// How many.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// Read the store that this configuration names, instead of asking a server.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        #[command(flatten)]
        remote: Remote,
    },
    /// Check that no row was changed, removed, added or moved. Ends with 7 if one was.
    Verify(VerifyAudit),
    /// Write every row, one on a line, as `verify --file` reads them.
    Export {
        /// The file to write; it must not exist. Printed if left out.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Read the store that this configuration names, instead of asking a server.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        #[command(flatten)]
        remote: Remote,
    },
}

#[derive(Debug, Args)]
pub(crate) struct VerifyAudit {
    /// A hash that was noted before, as this command prints it: its row must still be there.
    #[arg(long, value_name = "HASH")]
    pub(crate) head: Option<String>,
    /// The hash of the newest row that had been removed because of its age, noted with it: it is told which went since.
    #[arg(long, value_name = "HASH")]
    pub(crate) anchor: Option<String>,
    /// Check a file that `export` wrote.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) file: Option<PathBuf>,
    /// Check the store that this configuration names, instead of asking a server.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}
