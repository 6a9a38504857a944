//! The command line: what can be typed, with examples.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

mod audit;
mod bench;
mod chain;
mod keys;
mod lane;
mod tx;
mod webhook;

pub(crate) use audit::{Audit, VerifyAudit};
pub(crate) use bench::{Bench, BenchChain, BenchMode};
pub(crate) use chain::Chain;
pub(crate) use keys::{ApiKey, Import, Key, KeyAddress, NewApiKey, Password};
pub(crate) use lane::{Lane, LaneName};
pub(crate) use tx::{Tx, TxDecision, TxList, TxName, TxReplace, TxSend, TxSettle};
pub(crate) use webhook::{Webhook, WebhookDeliveries, WebhookName, WebhookWanted};

/// A self-hosted transaction engine: hand it a transaction once, it lands exactly once.
#[derive(Debug, Parser)]
#[command(
    name = "landfall",
    version,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        landfall dev                               # a chain, funded signers and the API, with nothing else installed\n  \
        landfall demo                              # 1,000 transactions through kills, lost replies and reorgs\n  \
        landfall serve --config landfall.toml      # the server\n  \
        landfall tx send --to 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --value 1ether --wait\n  \
        landfall tx list --state confirmed --json\n\n\
        Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 3 the transaction ended without success, 4 not found, \
        5 not delivered, 6 no server answers, 7 the audit log is not what was written."
)]
pub(crate) struct Cli {
    /// What to log, such as `debug` or `landfall_engine=debug` (also LANDFALL_LOG).
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server.
    #[command(
        after_help = "Examples:\n  landfall serve\n  landfall serve --config /etc/landfall/landfall.toml\n  \
        LANDFALL_SERVER__LISTEN=127.0.0.1:9000 landfall serve"
    )]
    Serve(Serve),
    /// Start everything on this machine: a chain with a block every second, funded keys, the API.
    #[command(
        after_help = "Examples:\n  landfall dev\n  landfall dev --listen 127.0.0.1:9000 --block-ms 200\n\n\
        Then paste the curl line that it prints."
    )]
    Dev(Dev),
    /// Land 1,000 transactions while replies are lost, blocks reorganised and the engine killed; then check the chain.
    #[command(after_help = "Examples:\n  landfall demo\n  landfall demo --hostile\n  \
            landfall demo --count 5000 --lanes 8 --seed 7 --json")]
    Demo(Demo),
    /// Send transactions and see where they are.
    #[command(subcommand)]
    Tx(Tx),
    /// See and steer lanes: one account on one chain.
    #[command(subcommand)]
    Lane(Lane),
    /// Have events delivered to a URL, and see how that goes.
    #[command(subcommand)]
    Webhook(Webhook),
    /// Go on after a replaced final block, or archive a reset development chain.
    #[command(subcommand)]
    Chain(Chain),
    /// Make keys and see their addresses.
    #[command(subcommand)]
    Key(Key),
    /// Make, see and revoke API keys: who may call, and what each may do.
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        landfall api-key create --name me --role admin --config landfall.toml    # the first key, before the server runs\n  \
        landfall api-key create --name shop --role submitter --signer 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 --rate 50\n  \
        landfall api-key list\n  landfall api-key revoke 5b1c0f3a9d2e4786\n\n\
        Commands show the key in LANDFALL_API_KEY to the server."
    )]
    ApiKey(ApiKey),
    /// See who asked for what, and check that the record of it is whole.
    #[command(
        subcommand,
        after_help = "Examples:\n  landfall audit list --limit 20\n  landfall audit verify\n  \
        landfall audit verify --config landfall.toml --head 0x37ae4f0aa21587ac00aa68d4805da5b063692b2bb0090902c171b4e30c9ab664\n  \
        landfall audit export --out audit.jsonl\n  landfall audit verify --file audit.jsonl\n\n\
        An administrator's key is needed (LANDFALL_API_KEY). docs/audit.md says what is recorded, and what it can prove."
    )]
    Audit(Audit),
    /// Measure how many transactions land per second on this machine.
    #[command(
        after_help = "Examples:\n  landfall bench\n  landfall bench --mode single --count 20000 --json\n  \
        landfall bench --store postgres://landfall:secret@127.0.0.1/bench --nodes 3 --plot run.svg\n  landfall bench --waiting 1000000"
    )]
    Bench(Bench),
    /// The chain of a benchmark, as a process.
    #[command(hide = true)]
    BenchChain(BenchChain),
    /// The load of a benchmark, as a process.
    #[command(hide = true)]
    BenchLoad,
    /// Run the real engine against a simulated world that breaks in every way it knows.
    #[command(
        after_help = "Examples:\n  landfall sim --seeds 200\n  landfall sim --seed 17\n  landfall sim --teeth"
    )]
    Sim(Sim),
    /// Move a store from an SQLite file to PostgreSQL, with everything that is under way.
    #[command(after_help = "Examples:\n  \
        landfall migrate --from sqlite://landfall.db --to postgres://landfall:secret@127.0.0.1/landfall\n  \
        landfall migrate --from sqlite://landfall.db --to postgres://landfall:secret@127.0.0.1/landfall --dry-run\n  \
        landfall migrate --from sqlite://landfall.db --abandon\n\n\
        Stop the server first. Whatever interrupts it, run it again: it goes on where it was. When it is done, set store.url \
        to the new database and start the server; it refuses to start on the file. docs/migrate.md says more.")]
    Migrate(Migrate),
    /// Copy the store to a file, whether the server runs or not.
    #[command(after_help = "Examples:\n  landfall backup landfall-backup.db\n  \
        landfall backup --config /etc/landfall.toml --force /var/backups/landfall.db\n\n\
        How to put one back: docs/backup.md.")]
    Backup(Backup),
    /// See whether the store is an older copy of itself, accept one that is, or say that one is.
    #[command(
        subcommand,
        after_help = "Examples:\n  landfall store show\n  landfall store accept\n  landfall store accept --yes\n  \
            landfall store older          # offline: says what it would do\n  landfall store older --yes\n\n\
            docs/backup.md says what to do before."
    )]
    Store(Store),
    /// Make a configuration from what another relayer has, or from a folder of keystores.
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        landfall import openzeppelin --config config/config.json --out landfall.toml\n  \
        landfall import keystores keys --chain 1=https://eth.example --password-env KEY_PASSWORD --out landfall.toml\n\n\
        Keys stay in their files, and passwords where they are. docs/moving-in.md says more."
    )]
    Import(Import),
    /// Print a commented configuration file.
    #[command(after_help = "Examples:\n  landfall config > landfall.toml\n  \
        landfall config --chain 137 --rpc https://polygon.example > landfall.toml")]
    Config(PrintConfig),
    /// Print the OpenAPI document of the API, as the server has it at /openapi.json.
    #[command(after_help = "Example:\n  landfall openapi > openapi.json")]
    Openapi,
}

#[derive(Debug, Args)]
pub(crate) struct PrintConfig {
    /// The chain that the file is for, by its id.
    #[arg(long, value_name = "ID")]
    pub(crate) chain: Option<u64>,
    /// An endpoint of the chain; repeat for more.
    #[arg(long, value_name = "URL", requires = "chain")]
    pub(crate) rpc: Vec<String>,
    /// As the page in docs/ instead.
    #[arg(long, conflicts_with_all = ["chain", "rpc"])]
    pub(crate) markdown: bool,
}

impl Command {
    /// What is logged unless somebody says otherwise: a server says what it does, the others print an answer, and the
    /// simulator's engines are in trouble all the time.
    pub(crate) fn logs(&self) -> &'static str {
        match self {
            Self::Serve(_) => "info",
            Self::Sim(_) => "off",
            _ => "error",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The configuration file.
    #[arg(long, short, default_value = "landfall.toml", env = "LANDFALL_CONFIG", value_name = "FILE")]
    pub(crate) config: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The file to write; it must not exist.
    pub(crate) file: PathBuf,
    /// The configuration file, which names the store.
    #[arg(long, short, default_value = "landfall.toml", env = "LANDFALL_CONFIG", value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Replace the file if it exists, once the backup is whole.
    #[arg(long)]
    pub(crate) force: bool,
    /// The result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Say whether the store is an older copy, and why.
    Show {
        #[command(flatten)]
        remote: Remote,
    },
    /// Go on with a store that is an older copy. Without --yes it only shows: lanes, and the nonces that the store does not know.
    Accept(StoreAccept),
    /// Say that the store is an older copy, where it cannot notice that itself: every lane is on hold until it is accepted.
    ///
    /// For what brings a store back just as it was: recovery to a point in time, a snapshot of a disk, a standby that took over
    /// without the last commits, an SQLite file that was put back together with its mark. The server must be stopped.
    Older(StoreOlder),
}

#[derive(Debug, Args)]
pub(crate) struct StoreOlder {
    /// The configuration file, which names the store.
    #[arg(long, short, default_value = "landfall.toml", env = "LANDFALL_CONFIG", value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Yes, an older copy was put back.
    #[arg(long)]
    pub(crate) yes: bool,
    /// The result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StoreAccept {
    /// All requests were handed in again: go on.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Also if an endpoint's pool has transactions that the store does not know, or an endpoint does not tell.
    #[arg(long)]
    pub(crate) despite_pool: bool,
    /// Also if the newest block that is seen is old: the chain makes no blocks, or this machine's clock is ahead.
    #[arg(long)]
    pub(crate) despite_old_head: bool,
    /// Also if the server has not looked at every lane, such as one that another node runs.
    #[arg(long)]
    pub(crate) despite_unseen: bool,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// The file that is moved, such as sqlite://landfall.db.
    #[arg(long, value_name = "URL")]
    pub(crate) from: String,
    /// The empty database it is moved to, such as postgres://user:password@host/database.
    #[arg(long, value_name = "URL", env = "LANDFALL_MIGRATE_TO", required_unless_present = "abandon")]
    pub(crate) to: Option<String>,
    /// Say what would be moved, and whether it can be. The tables are made; nothing is moved.
    #[arg(long, conflicts_with = "abandon")]
    pub(crate) dry_run: bool,
    /// Give up a move that is not finished: the file is served again.
    #[arg(long)]
    pub(crate) abandon: bool,
    /// The result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// Where the API listens.
    #[arg(long, default_value = "127.0.0.1:8645")]
    pub(crate) listen: SocketAddr,
    /// Where the chain's own JSON-RPC listens; a free port by default.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) chain_listen: SocketAddr,
    /// Milliseconds between blocks.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(10..))]
    pub(crate) block_ms: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// On a real anvil, behind two endpoints that lose a third of all replies, lag, disagree and repeat, on a chain
    /// that reorganises, forgets, halts and has fee spikes.
    #[arg(long)]
    pub(crate) hostile: bool,
    /// How many transactions [default: 1000, hostile 2000].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    count: Option<u64>,
    /// Over how many signers [default: 4, hostile 5].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10))]
    lanes: Option<u64>,
    /// How often the engine is killed.
    #[arg(long, default_value_t = 6)]
    pub(crate) kills: u64,
    /// Fixes what goes wrong and when.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Demo {
    pub(crate) fn count(&self) -> u64 {
        self.count.unwrap_or(if self.hostile { 2_000 } else { 1_000 })
    }

    pub(crate) fn lanes(&self) -> u64 {
        self.lanes.unwrap_or(if self.hostile { 5 } else { 4 })
    }
}

/// Which server is asked, and how the answer is printed.
#[derive(Debug, Clone, Args)]
pub(crate) struct Remote {
    /// The server.
    #[arg(
        long,
        global = true,
        default_value = "http://127.0.0.1:8645",
        env = "LANDFALL_URL",
        value_name = "URL"
    )]
    pub(crate) url: String,
    /// A PEM file with the authority that signed the server's certificate, where the system does not know it.
    #[arg(
        long,
        global = true,
        env = "LANDFALL_CACERT",
        value_name = "FILE",
        value_parser = clap::builder::TypedValueParser::map(clap::builder::OsStringValueParser::new(), PathBuf::from)
    )]
    pub(crate) cacert: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// Repeat one seed, with a line for everything that happens.
    #[arg(long, conflicts_with_all = ["seeds", "teeth"])]
    pub(crate) seed: Option<u64>,
    /// How many seeds to run.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    pub(crate) from: u64,
    /// How many runs at once.
    #[arg(long, default_value_t = 2)]
    pub(crate) jobs: usize,
    /// Plant known bugs and see that each is found.
    #[arg(long)]
    pub(crate) teeth: bool,
    /// The result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// The example lines of a command and of all below it, with the name of the command.
    fn examples(command: &clap::Command, name: &str, found: &mut Vec<(String, String)>) {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let block = after.split_once("Example").map_or("", |(_, rest)| rest);
        let lines = block.lines().skip(1).take_while(|line| !line.is_empty());
        found.extend(lines.map(|line| (name.to_owned(), line.trim().to_owned())));
        for below in
            command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
        {
            let has_own = below.get_subcommands().next().is_some();
            let name = format!("{name} {}", below.get_name());
            let before = found.len();
            examples(below, &name, found);
            assert!(
                has_own || found.len() > before || NO_EXAMPLE.contains(&name.as_str()),
                "{name} has no example"
            );
        }
    }

    /// Their group has examples of them.
    const NO_EXAMPLE: [&str; 11] = [
        "landfall audit list",
        "landfall audit verify",
        "landfall audit export",
        "landfall api-key create",
        "landfall api-key list",
        "landfall api-key revoke",
        "landfall import openzeppelin",
        "landfall import keystores",
        "landfall store show",
        "landfall store accept",
        "landfall store older",
    ];

    #[test]
    fn every_example_is_a_command_that_is_understood() {
        let mut found = Vec::new();
        examples(&Cli::command(), "landfall", &mut found);
        assert!(found.len() > 40, "{found:?}");
        for (of, line) in found {
            let words = line.split(" #").next().unwrap_or_default().split_whitespace();
            let words = words.take_while(|word| *word != ">").skip_while(|word| word.contains('='));
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("an example of `{of}` is not understood: {line}\n{error}");
            }
        }
    }

    #[test]
    fn the_parts_fit_together() {
        Cli::command().debug_assert();
    }
}
