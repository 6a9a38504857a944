//! What `landfall bench` takes, and the two processes that it starts beside the servers.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

/// Out at once on an anvil, over all lanes: what fills its next two blocks and more. With ten times as many its first blocks came late and half
/// empty, since it was busy taking them in.
const ON_ANVIL: u64 = 4_000;

/// How the load hands transactions over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BenchMode {
    /// One in each request.
    Single,
    /// Many in each request.
    Batch,
    /// By JSON-RPC, `eth_sendTransaction`.
    Rpc,
}

impl BenchMode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Batch => "batch",
            Self::Rpc => "rpc",
        }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Bench {
    /// How many transactions.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: u64,
    /// Over how many signers.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) signers: u64,
    /// How they are handed over.
    #[arg(long, value_enum, default_value = "batch")]
    pub(crate) mode: BenchMode,
    /// `sqlite`, or a PostgreSQL database (`postgres://…`); each run has a namespace of its own in it.
    #[arg(long, value_name = "STORE", default_value = "sqlite", value_parser = known_store)]
    pub(crate) store: String,
    /// How many servers share the database; more than one needs PostgreSQL.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16))]
    pub(crate) nodes: u64,
    /// How many transactions go in one request, in batch mode.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) batch: u64,
    /// How many connections the load keeps open [default: 16 in batch mode, 64 in single mode, 256 in rpc mode].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    pub(crate) connections: Option<u64>,
    /// How many transactions of a lane may be out at once [default: 10000; on an anvil 4000 over all lanes].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) window: Option<u64>,
    /// Draw accepted, sent and final over time into this SVG file [default: landfall-bench.svg; with --json none]
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Measure instead the server's memory with this many waiting, and how quickly it takes in more.
    #[arg(long, value_name = "N", group = "scenario")]
    pub(crate) waiting: Option<u64>,
    /// Measure instead the server's memory with this many finished, and how quickly it takes in more.
    #[arg(long, value_name = "N", group = "scenario")]
    pub(crate) finished: Option<u64>,
    /// Measure instead how soon a server that was killed with this many unfinished is ready again.
    #[arg(long, value_name = "N", group = "scenario")]
    pub(crate) restart: Option<u64>,
    /// Measure instead what this many lanes without work cost.
    #[arg(long, value_name = "LANES", group = "scenario", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) idle: Option<u64>,
    /// Measure instead against a bare flood of signed transactions, each into fresh anvils with a block every second.
    #[arg(long, group = "scenario")]
    pub(crate) anvil: bool,
    /// Measure instead how long lanes stand still when their node is killed, and when it is stopped, with three nodes
    /// on the database that --store names.
    #[arg(long, group = "scenario", conflicts_with_all = ["count", "signers", "nodes", "batch"])]
    pub(crate) failover: bool,
    /// How many runs of each kind a comparison takes; the medians count.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=99))]
    pub(crate) runs: u64,
    /// The result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Bench {
    /// The database, if it is one.
    pub(crate) fn postgres(&self) -> Option<&str> {
        self.store.starts_with("postgres").then_some(self.store.as_str())
    }

    pub(crate) fn store_name(&self) -> &'static str {
        if self.postgres().is_some() { "PostgreSQL" } else { "SQLite" }
    }

    /// Transactions in one request.
    pub(crate) fn batch_size(&self) -> u64 {
        match self.mode {
            BenchMode::Batch => self.batch,
            BenchMode::Single | BenchMode::Rpc => 1,
        }
    }

    /// How many transactions of a lane may be out at once.
    pub(crate) fn window(&self) -> u64 {
        self.window.unwrap_or(if self.anvil { (ON_ANVIL / self.signers.max(1)).max(1) } else { 10_000 })
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.unwrap_or(match self.mode {
            BenchMode::Batch => 16,
            BenchMode::Single => 64,
            BenchMode::Rpc => 256,
        })
    }
}

fn known_store(text: &str) -> Result<String, String> {
    let known = text == "sqlite" || text.starts_with("postgres://") || text.starts_with("postgresql://");
    if known { Ok(text.to_owned()) } else { Err("write sqlite, or postgres://…".to_owned()) }
}

/// The chain of a benchmark.
#[derive(Debug, Args)]
pub(crate) struct BenchChain {
    #[arg(long)]
    pub(crate) block_ms: u64,
    /// How many transactions of an account may wait behind a gap.
    #[arg(long)]
    pub(crate) window: u64,
}
