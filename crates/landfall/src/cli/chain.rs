//! `landfall chain`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Chain {
    /// Archive everything that is stored of a chain, so that a new chain with its id can be used.
    ///
    /// For a development chain that was started over. Nothing is deleted: it moves to a namespace of its own. Request ids
    /// become free again, and what is under way would be forgotten: the endpoints are asked first, and a chain that they still
    /// show is not forgotten. The server must be stopped.
    #[command(after_help = "Example:\n  landfall chain forget 31337 --config landfall.toml --yes")]
    Forget {
        /// Its id.
        id: u64,
        /// The configuration file, which names the store.
        #[arg(long, short, default_value = "landfall.toml", env = "LANDFALL_CONFIG", value_name = "FILE")]
        config: PathBuf,
        /// Yes, the chain was started over.
        #[arg(long)]
        yes: bool,
        /// Also if no endpoint shows what became of the chain.
        #[arg(long, requires = "yes")]
        despite_unseen: bool,
        /// The answer as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Go on after a reorganisation that replaced a block which had been final, and keep everything.
    ///
    /// For a chain that is still the same one: its first block must be the one that is stored. Request ids and nonces stay
    /// taken. What was not final is carried on as after any reorganisation; an account whose final nonces are open again
    /// stays on hold until it is resumed. The endpoints are asked what they show now, two of them where there are two. The
    /// server must be stopped.
    #[command(after_help = "Example:\n  landfall chain accept-reorg 137 --config landfall.toml --yes")]
    AcceptReorg {
        /// Its id.
        id: u64,
        /// The configuration file, which names the store and the endpoints.
        #[arg(long, short, default_value = "landfall.toml", env = "LANDFALL_CONFIG", value_name = "FILE")]
        config: PathBuf,
        /// Yes, what the endpoints show now is the chain.
        #[arg(long)]
        yes: bool,
        /// The answer as JSON.
        #[arg(long)]
        json: bool,
    },
}
