//! The command line: what can be typed, with examples.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

mod bench;

pub(crate) use bench::{Bench, BenchChain, BenchMode};

/// A self-hosted transaction engine: hand it a transaction once, it lands exactly once.
#[derive(Debug, Parser)]
#[command(
    name = "landfall",
    version,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        landfall dev                                    a chain, a funded signer and the API, with nothing else installed\n  \
        landfall demo                                   1,000 transactions through kills, lost replies and reorgs\n  \
        landfall serve --config landfall.toml           the server\n  \
        landfall tx send --to 0x7099…79C8 --value 1ether --wait\n  \
        landfall tx list --state broadcast --json"
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
    #[command(after_help = "Examples:\n  landfall serve\n  landfall serve --config /etc/landfall.toml\n  \
        LANDFALL_SERVER__LISTEN=127.0.0.1:9000 landfall serve")]
    Serve(Serve),
    /// Start everything on this machine: a chain with a block every second, funded keys, the API.
    #[command(after_help = "Example:\n  landfall dev\nthen paste the curl line that it prints.")]
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
    /// Put a development chain that was started over away.
    #[command(subcommand)]
    Chain(Chain),
    /// Make keys and see their addresses.
    #[command(subcommand)]
    Key(Key),
    /// Make, see and revoke API keys: who may call, and what each may do.
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        landfall api-key create --name me --role admin --config landfall.toml    the first key, before the server runs\n  \
        landfall api-key create --name shop --role submitter --signer 0xf39F…2266 --rate 50\n  \
        landfall api-key list\n  landfall api-key revoke 5b1c0f3a9d2e4786\n\n\
        Commands show the key in LANDFALL_API_KEY to the server."
    )]
    ApiKey(ApiKey),
    /// Measure how many transactions land per second on this machine.
    #[command(
        after_help = "Examples:\n  landfall bench\n  landfall bench --mode single --count 20000 --json\n  \
        landfall bench --store postgres://… --nodes 3 --plot run.svg\n  landfall bench --waiting 1000000"
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
        landfall migrate --from sqlite://landfall.db --to postgres://landfall:…@db/landfall\n  \
        landfall migrate --from sqlite://landfall.db --to postgres://… --dry-run\n  \
        landfall migrate --from sqlite://landfall.db --abandon\n\n\
        Stop the server first. Whatever interrupts it, run it again: it goes on where it was. When it is done, set store.url \
        to the new database and start the server; it refuses to start on the file. docs/migrate.md says more.")]
    Migrate(Migrate),
    /// Make a configuration from what another relayer has, or from a folder of keystores.
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        landfall import openzeppelin --config config/config.json --out landfall.toml\n  \
        landfall import keystores ~/.ethereum/keystore --chain 1=https://… --password-file secret --out landfall.toml\n\n\
        Keys stay in their files, and passwords where they are. docs/moving-in.md says more."
    )]
    Import(Import),
    /// Print a commented configuration file.
    #[command(after_help = "Example:\n  landfall config > landfall.toml")]
    Config {
        /// As the page in docs/ instead.
        #[arg(long)]
        markdown: bool,
    },
    /// Print the OpenAPI document of the API, as the server has it at /openapi.json.
    #[command(after_help = "Example:\n  landfall openapi > docs/openapi.json")]
    Openapi,
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
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Tx {
    /// Hand over a transaction.
    #[command(after_help = "Examples:\n  \
        landfall tx send --to 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --value 1ether --wait\n  \
        landfall tx send --to 0x… --data 0xa9059cbb… --request-id invoice-17 --speed fast")]
    Send(TxSend),
    /// Show one transaction.
    Get {
        /// Its txId.
        id: String,
        /// Its time line as well.
        #[arg(long)]
        journal: bool,
        #[command(flatten)]
        remote: Remote,
    },
    /// List transactions, newest first.
    #[command(after_help = "Example:\n  landfall tx list --state mined --limit 20")]
    List(TxList),
    /// Follow a transaction until it has ended.
    Watch {
        /// Its txId.
        id: String,
        #[command(flatten)]
        remote: Remote,
    },
    /// Ask for a transaction to be cancelled; the chain decides.
    Cancel(TxName),
    /// Give a transaction another content; the chain decides which one wins.
    #[command(
        after_help = "Example:\n  landfall tx replace 01a1e0d3-… --to 0x… --value 2ether --max-fee 90gwei"
    )]
    Replace(TxReplace),
    /// Ask for a dearer attempt now.
    #[command(
        after_help = "Examples:\n  landfall tx speed-up 01a1e0d3-…\n  landfall tx speed-up 01a1e0d3-… --max-fee 90gwei"
    )]
    SpeedUp(TxSpeedUp),
    /// Say yes: to a content above the approval limit, or to going on without what was to come first.
    Approve(TxDecision),
    /// Say no.
    Reject(TxDecision),
    /// Do a transaction again that ended without success, as a new one.
    Retry(TxName),
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
    /// viewer, submitter, operator or admin.
    #[arg(long)]
    pub(crate) role: String,
    /// A signer it may see and use; repeat for more. All if left out.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) signer: Vec<String>,
    /// Requests per second.
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

#[derive(Debug, Args)]
pub(crate) struct TxName {
    /// Its txId.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

#[derive(Debug, Args)]
pub(crate) struct TxReplace {
    /// Its txId.
    pub(crate) id: String,
    /// The recipient; leave out to create a contract.
    #[arg(long)]
    pub(crate) to: Option<String>,
    /// The amount in wei, or as 1.5ether, 20gwei.
    #[arg(long, default_value = "0")]
    pub(crate) value: String,
    /// Call data in hex.
    #[arg(long)]
    pub(crate) data: Option<String>,
    /// The gas limit; estimated if left out.
    #[arg(long)]
    pub(crate) gas: Option<u64>,
    /// slow, normal or fast.
    #[arg(long)]
    pub(crate) speed: Option<String>,
    /// The new ceiling of the price per gas, such as 90gwei.
    #[arg(long)]
    pub(crate) max_fee: Option<String>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

#[derive(Debug, Args)]
pub(crate) struct TxSpeedUp {
    /// Its txId.
    pub(crate) id: String,
    /// What to offer per gas at least, such as 90gwei.
    #[arg(long)]
    pub(crate) max_fee: Option<String>,
    /// What to give the block's maker per gas at least.
    #[arg(long)]
    pub(crate) tip: Option<String>,
    /// slow, normal or fast.
    #[arg(long)]
    pub(crate) speed: Option<String>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

#[derive(Debug, Args)]
pub(crate) struct TxDecision {
    /// Its txId.
    pub(crate) id: String,
    /// The version of the content that is meant; the newest if left out.
    #[arg(long)]
    pub(crate) version: Option<u32>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

#[derive(Debug, Args)]
pub(crate) struct TxSend {
    /// The recipient; leave out to create a contract.
    #[arg(long)]
    pub(crate) to: Option<String>,
    /// The amount in wei, or as 1.5ether, 20gwei.
    #[arg(long, default_value = "0")]
    pub(crate) value: String,
    /// Call data in hex.
    #[arg(long)]
    pub(crate) data: Option<String>,
    /// The gas limit; estimated if left out.
    #[arg(long)]
    pub(crate) gas: Option<u64>,
    /// slow, normal or fast.
    #[arg(long)]
    pub(crate) speed: Option<String>,
    /// The signer's address; may be left out where there is only one lane.
    #[arg(long)]
    pub(crate) signer: Option<String>,
    /// The chain's id; may be left out where there is only one lane.
    #[arg(long)]
    pub(crate) chain: Option<u64>,
    /// An idempotency key: the same one never lands twice.
    #[arg(long)]
    pub(crate) request_id: Option<String>,
    /// Wait until it has ended.
    #[arg(long)]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

#[derive(Debug, Args)]
pub(crate) struct TxList {
    #[arg(long)]
    pub(crate) state: Option<String>,
    #[arg(long)]
    pub(crate) signer: Option<String>,
    #[arg(long)]
    pub(crate) chain: Option<u64>,
    #[arg(long)]
    pub(crate) hash: Option<String>,
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: u32,
    /// Where the page before ended.
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Lane {
    /// List all lanes.
    List {
        #[command(flatten)]
        remote: Remote,
    },
    /// Show one lane.
    #[command(after_help = "Example:\n  landfall lane show 31337 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")]
    Show(LaneName),
    /// Hand out no more slots; what is out goes on.
    Pause(LaneName),
    /// Go on, and take transactions in again; also confirms that slots used by others are not ours.
    Resume(LaneName),
    /// Take no new transactions in; those that are here are finished.
    Disable(LaneName),
    /// Give up slots without stored bytes, after a look at the chain.
    Reset(LaneName),
    /// Cancel everything that has not ended; the chain decides for what is out.
    CancelAll(LaneName),
    /// Use free slots up by no-ops, both ends included.
    #[command(after_help = "Example:\n  landfall lane fill 31337 0xf39F… --from 12 --to 14")]
    Fill(LaneFill),
}

#[derive(Debug, Args)]
pub(crate) struct LaneFill {
    #[command(flatten)]
    pub(crate) lane: LaneName,
    /// The first slot.
    #[arg(long)]
    pub(crate) from: u64,
    /// The last slot.
    #[arg(long)]
    pub(crate) to: u64,
}

#[derive(Debug, Args)]
pub(crate) struct LaneName {
    /// The chain's id.
    pub(crate) chain: u64,
    /// The signer's address.
    pub(crate) signer: String,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Webhook {
    /// Deliver events to a URL; prints the secret that signs them, this once.
    #[command(after_help = "Examples:\n  landfall webhook create https://example.com/hook\n  \
        landfall webhook create https://example.com/hook --event tx.confirmed --event tx.failed --chain 1")]
    Create(WebhookCreate),
    /// List all webhooks.
    List {
        #[command(flatten)]
        remote: Remote,
    },
    /// Show one webhook: how far it is, and why it stands still if it does.
    Show(WebhookName),
    /// Change where events go, or which.
    #[command(after_help = "Example:\n  landfall webhook change wh_… --to https://example.com/other")]
    Change(WebhookChange),
    /// Deliver nothing to it any more, and forget it.
    Delete(WebhookName),
    /// Make a new secret and print it, this once; the old one signs as well for a while.
    Rotate(WebhookRotate),
    /// Go on with a webhook that was disabled, from where it was.
    Enable(WebhookName),
    /// Deliver nothing for now; events wait.
    Disable(WebhookName),
    /// Send a made-up event now and say what came of it.
    Test(WebhookName),
    /// List events that failed, are held back, or were given up.
    #[command(after_help = "Example:\n  landfall webhook deliveries wh_… --state given_up")]
    Deliveries(WebhookDeliveries),
    /// Deliver one event again, by its number.
    #[command(after_help = "Example:\n  landfall webhook redeliver wh_… 4711")]
    Redeliver {
        #[command(flatten)]
        webhook: WebhookName,
        /// The number of the event (`seq`).
        seq: u64,
    },
    /// Deliver everything after an event again.
    #[command(after_help = "Example:\n  landfall webhook replay wh_… --after 4711")]
    Replay {
        #[command(flatten)]
        webhook: WebhookName,
        /// The number of the last event that is not delivered again; 0: all are.
        #[arg(long)]
        after: u64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct WebhookName {
    /// Its id.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

#[derive(Debug, Args)]
pub(crate) struct WebhookCreate {
    /// Where events are delivered to.
    #[arg(value_name = "RECEIVER")]
    pub(crate) receiver: String,
    #[command(flatten)]
    pub(crate) wanted: WebhookWanted,
    /// Deliver everything after this event, instead of what happens from now on; 0: all.
    #[arg(long)]
    pub(crate) after: Option<u64>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

#[derive(Debug, Args)]
pub(crate) struct WebhookWanted {
    /// Only these events, such as tx.confirmed; may be given several times.
    #[arg(long = "event", value_name = "NAME")]
    pub(crate) events: Vec<String>,
    /// Only events of these chains.
    #[arg(long = "chain", value_name = "ID")]
    pub(crate) chains: Vec<u64>,
    /// Only events of these signers.
    #[arg(long = "signer", value_name = "ADDRESS")]
    pub(crate) signers: Vec<String>,
    /// What it is for.
    #[arg(long)]
    pub(crate) description: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WebhookChange {
    #[command(flatten)]
    pub(crate) webhook: WebhookName,
    /// Where events are delivered to from now on.
    #[arg(long, value_name = "RECEIVER")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) wanted: WebhookWanted,
}

#[derive(Debug, Args)]
pub(crate) struct WebhookRotate {
    #[command(flatten)]
    pub(crate) webhook: WebhookName,
    /// How long the old secret signs as well; 0 if it is known to others.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) overlap: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct WebhookDeliveries {
    #[command(flatten)]
    pub(crate) webhook: WebhookName,
    /// waiting, held or given_up.
    #[arg(long)]
    pub(crate) state: Option<String>,
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: u32,
    /// Where the page before ended.
    #[arg(long)]
    pub(crate) cursor: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Chain {
    /// Archive everything that is stored of a chain, so that a new chain with its id can be used.
    ///
    /// For a development chain that was started over. Nothing is deleted: it moves to a namespace of its own. Never do
    /// this to a chain that goes on: request ids become free again, and what is under way there would be forgotten. The
    /// server must be stopped.
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
        /// The answer as JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Make a new key in an encrypted file.
    #[command(
        after_help = "Example:\n  KEY_PASSWORD=… landfall key new keys/a.json --password-env KEY_PASSWORD"
    )]
    New {
        /// Where to write it; an existing file is never overwritten.
        file: PathBuf,
        #[command(flatten)]
        password: Password,
        #[arg(long)]
        json: bool,
    },
    /// Show the address of a key.
    #[command(after_help = "Examples:\n  landfall key address --private-key-env KEY_A\n  \
        landfall key address --keystore keys/a.json --password-env KEY_PASSWORD")]
    Address(KeyAddress),
}

#[derive(Debug, Args)]
pub(crate) struct Password {
    /// The variable that holds the password.
    #[arg(long)]
    pub(crate) password_env: Option<String>,
    /// The file that holds the password.
    #[arg(long)]
    pub(crate) password_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct KeyAddress {
    /// The variable that holds the key in hex.
    #[arg(long)]
    pub(crate) private_key_env: Option<String>,
    /// An encrypted key file.
    #[arg(long)]
    pub(crate) keystore: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) password: Password,
    /// The variable that holds a BIP-39 phrase.
    #[arg(long)]
    pub(crate) mnemonic_env: Option<String>,
    /// Which account of the phrase.
    #[arg(long)]
    pub(crate) index: Option<u32>,
    #[arg(long)]
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
