//! Real servers in other processes, on a chain that their caller holds: what the demos and the benchmark run on.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::Address;
use anyhow::{Context, Result, bail};
use landfall_core::ports::clock::Clock as _;
use landfall_devchain::dev_accounts;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::client::Client;
use crate::config::{Chain, Config, Signer};
use crate::system::SystemClock;

/// How long the server may take to answer after it was started.
const START_LIMIT: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_millis(50);
/// What each key more may add to that.
const START_LIMIT_PER_KEY: Duration = Duration::from_millis(10);
/// How many transactions are handed over at once.
const BATCH: usize = 25;
/// The phrase that the public test accounts come from: the ten that are known by their keys, and as many more as asked for.
const MNEMONIC: (&str, &str) =
    ("LANDFALL_TEST_MNEMONIC", "test test test test test test test test test test test junk");

/// Where the servers keep what they know, and how many there are.
pub(crate) struct Ground {
    /// Absent: an SQLite file of their own.
    pub(crate) store: Option<String>,
    pub(crate) nodes: usize,
    /// Whether they are started at once, or only made ready.
    pub(crate) started: bool,
}

impl Default for Ground {
    fn default() -> Self {
        Self { store: None, nodes: 1, started: true }
    }
}

/// One server.
struct Node {
    url: String,
    config_file: PathBuf,
    log_file: PathBuf,
    process: Option<Child>,
}

pub(crate) struct Rig {
    /// Of the first server.
    pub(crate) client: Client,
    pub(crate) signers: Vec<Address>,
    nodes: Vec<Node>,
    /// Where their files are; gone with this.
    _folder: TempDir,
    /// Of the last server; the others differ in name and address.
    config: Config,
    keys: usize,
}

impl Rig {
    /// Writes the configuration and starts one server on an SQLite file.
    pub(crate) async fn start(settings: Chain, signers: usize) -> Result<Self> {
        Self::start_on(Ground::default(), settings, signers).await
    }

    /// Writes the configurations and starts the servers.
    pub(crate) async fn start_on(ground: Ground, settings: Chain, signers: usize) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let accounts: Vec<_> = dev_accounts().take(signers).collect();
        let mut config = Config::default();
        config.access.open = true;
        match ground.store {
            Some(url) => {
                config.store.url = url;
                // A database may have been used before: each run has a namespace of its own.
                config.store.namespace = format!("rig-{}-{}", SystemClock.now().0, std::process::id());
            }
            None => {
                config.store.url = format!("sqlite://{}", folder.path().join("landfall.db").display());
            }
        }
        config.chain = vec![settings];
        config.signer = (0..signers).map(|n| signer(n, accounts.len())).collect::<Result<_>>()?;
        let mut nodes: Vec<Node> = Vec::new();
        for n in 0..ground.nodes {
            let taken =
                |address: &SocketAddr| nodes.iter().any(|node| node.url.ends_with(&address.to_string()));
            let listen = free_address(taken).context("no port is free for the server")?;
            config.server.listen = listen;
            config.node.name = format!("node-{n}");
            let config_file = folder.path().join(format!("node-{n}.toml"));
            std::fs::write(&config_file, toml::to_string(&config)?)?;
            let log_file = folder.path().join(format!("node-{n}.log"));
            nodes.push(Node { url: format!("http://{listen}"), config_file, log_file, process: None });
        }
        let first = nodes.first().context("there is no server")?;
        let mut rig = Self {
            client: Client::new(&first.url)?,
            signers: accounts.iter().map(|account| account.address).collect(),
            nodes,
            _folder: folder,
            config,
            keys: signers,
        };
        if ground.started {
            rig.start_all().await?;
        }
        Ok(rig)
    }

    /// Starts every server.
    pub(crate) async fn start_all(&mut self) -> Result<()> {
        for n in 0..self.nodes.len() {
            self.start_node(n).await?;
        }
        if self.signers.len() < self.keys {
            self.signers = self.accounts().await?;
        }
        Ok(())
    }

    /// The accounts that the first server has the keys of.
    async fn accounts(&self) -> Result<Vec<Address>> {
        let chain = self.config.chain.first().context("there is no chain")?.id;
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_accounts", "params": [] });
        let mut answer: Value = self.client.post(&format!("/rpc/{chain}"), Some(&call)).await?;
        let accounts: Vec<Address> = serde_json::from_value(answer["result"].take())?;
        anyhow::ensure!(
            accounts.len() == self.keys,
            "the server has {} keys of {}",
            accounts.len(),
            self.keys
        );
        Ok(accounts)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The processes of the servers that run.
    pub(crate) fn process_ids(&self) -> Vec<u32> {
        self.nodes.iter().filter_map(|node| node.process.as_ref()?.id()).collect()
    }

    /// `SIGTERM` for all servers; returns when they have ended.
    pub(crate) async fn stop_all(&mut self) -> Result<()> {
        for n in 0..self.nodes.len() {
            if self.nodes.get(n).is_some_and(|node| node.process.is_some()) {
                let mut process = self.stop_node(n)?;
                tokio::time::timeout(START_LIMIT, process.wait())
                    .await
                    .context("the server did not stop")??;
            }
        }
        Ok(())
    }

    /// Where a caller finds the servers.
    pub(crate) fn urls(&self) -> impl Iterator<Item = &str> + Clone {
        self.nodes.iter().map(|node| node.url.as_str())
    }

    /// Starts the first server, and waits until it can admit.
    pub(crate) async fn start_server(&mut self) -> Result<()> {
        self.start_node(0).await
    }

    /// Starts one server, and waits until it can admit.
    pub(crate) async fn start_node(&mut self, n: usize) -> Result<()> {
        let limit = START_LIMIT + START_LIMIT_PER_KEY * u32::try_from(self.keys)?;
        let node = self.nodes.get_mut(n).context("there is no such server")?;
        let program = std::env::current_exe().context("this program's own file is not known")?;
        let log = std::fs::File::options().create(true).append(true).open(&node.log_file)?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(&node.config_file).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // Settings of whoever runs this are not the run's.
        for name in std::env::vars_os().map(|(name, _)| name) {
            if name.to_string_lossy().starts_with("LANDFALL_") && name != "LANDFALL_LOG" {
                command.env_remove(name);
            }
        }
        for (n, account) in dev_accounts().enumerate() {
            command.env(key_name(n), account.key.to_string());
        }
        command.env(MNEMONIC.0, MNEMONIC.1);
        let client = Client::new(&node.url)?;
        let process = node.process.insert(command.spawn().context("the server could not be started")?);
        let log_file = &node.log_file;
        let ready = async {
            loop {
                if client.is_ready().await {
                    return Ok(());
                }
                if let Some(status) = process.try_wait()? {
                    bail!("the server ended at its start ({status}); it said:\n{}", last_lines(log_file));
                }
                tokio::time::sleep(ASK_EVERY).await;
            }
        };
        tokio::time::timeout(limit, ready).await.context("the server did not get ready")?
    }

    /// `SIGKILL` for the first server: nothing is finished, nothing is said.
    pub(crate) async fn kill_server(&mut self) -> Result<()> {
        self.kill_node(0).await
    }

    /// `SIGKILL` for one server.
    pub(crate) async fn kill_node(&mut self, n: usize) -> Result<()> {
        if let Some(mut process) = self.nodes.get_mut(n).and_then(|node| node.process.take()) {
            process.kill().await.context("the server could not be killed")?;
        }
        Ok(())
    }

    /// `SIGTERM` for one server, as a service manager sends it; gives its process to wait for.
    pub(crate) fn stop_node(&mut self, n: usize) -> Result<Child> {
        let process = self.nodes.get_mut(n).and_then(|node| node.process.take());
        let process = process.context("the server does not run")?;
        let id = process.id().context("the server does not run")?;
        let sent = std::process::Command::new("kill").arg("-TERM").arg(id.to_string()).status();
        anyhow::ensure!(sent.context("kill cannot be run")?.success(), "the server did not take the signal");
        Ok(process)
    }

    /// The first server's log.
    pub(crate) fn log_file(&self) -> PathBuf {
        self.nodes.first().map(|node| node.log_file.clone()).unwrap_or_default()
    }

    /// The end of the first server's log.
    pub(crate) fn last_log(&self) -> String {
        last_lines(&self.log_file())
    }

    /// What lanes have not finished; none while the server does not answer.
    pub(crate) async fn unfinished(&self) -> Option<u64> {
        let lanes = self.client.lanes().await.ok()?;
        Some(lanes.iter().map(|lane| lane.waiting + lane.in_flight).sum())
    }

    /// The slots each signer's lane has handed out.
    pub(crate) async fn slots(&self) -> Result<BTreeMap<String, u64>> {
        let lanes = self.client.lanes().await?;
        Ok(lanes.into_iter().map(|lane| (lane.signer, lane.next_nonce.unwrap_or(0))).collect())
    }
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// The `n`th account: by its key if that is one of those known, and from the phrase otherwise, which takes longer.
fn signer(n: usize, known: usize) -> Result<Signer> {
    if n < known {
        return Ok(Signer { private_key_env: Some(key_name(n)), ..Signer::default() });
    }
    let index = Some(u32::try_from(n)?);
    Ok(Signer { mnemonic_env: Some(MNEMONIC.0.to_owned()), index, ..Signer::default() })
}

fn key_name(n: usize) -> String {
    format!("LANDFALL_TEST_KEY_{n}")
}

/// An address that was free a moment ago, below the ports that the system gives to outgoing connections: while the
/// server is down, none of its callers can be given its port.
fn free_address(taken: impl Fn(&SocketAddr) -> bool) -> Option<SocketAddr> {
    const FIRST: u32 = 20_000;
    const PORTS: u32 = 12_000;
    let start = std::process::id().wrapping_mul(37);
    (0..PORTS).find_map(|step| {
        let port = FIRST + start.wrapping_add(step * 101) % PORTS;
        let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).ok()?));
        TcpListener::bind(address).ok().map(|_| address).filter(|address| !taken(address))
    })
}

/// The `n`th transaction: its data says which it is, so that the chain can be asked.
pub(crate) fn submission(chain: u64, signer: Address, n: u64) -> Value {
    json!({
        "chainId": chain,
        "signer": signer.to_string(),
        "requestId": format!("rig-{n}"),
        "payload": { "to": signer.to_string(), "value": "0", "data": format!("0x{n:016x}"), "gas": 30_000 },
    })
}

/// Which transaction has this data, if it is one of ours.
pub(crate) fn number_of(input: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(input.try_into().ok()?))
}

/// One caller for each lane, all at once; each repeats what was not answered, with the same keys.
pub(crate) fn start_callers(rig: &Rig, items: impl IntoIterator<Item = Value>) -> Result<Vec<Caller>> {
    let mut shares: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for item in items {
        shares.entry(crate::output::text(&item, "signer")).or_default().push(item);
    }
    let url = rig.client.url();
    shares
        .into_values()
        .map(|items| Ok(tokio::spawn(hand_over(Arc::new(Client::new(url)?), items, None))))
        .collect()
}

/// A caller's task; it ends when all of its transactions were accepted.
pub(crate) type Caller = tokio::task::JoinHandle<Result<Vec<Duration>>>;

/// Hands transactions over in batches and goes on until each was accepted, as a caller that does not give up would.
/// Returns how long each request that was answered took.
pub(crate) async fn hand_over(
    client: Arc<Client>,
    items: Vec<Value>,
    batch: Option<usize>,
) -> Result<Vec<Duration>> {
    let mut took = Vec::new();
    for chunk in items.chunks(batch.unwrap_or(BATCH)) {
        let body = Value::Array(chunk.to_vec());
        loop {
            let begun = crate::system::moment();
            if let Ok(answer) = client.post::<Value>("/api/v1/tx/batch", Some(&body)).await {
                let answers = answer["items"].as_array().cloned().unwrap_or_default();
                if let Some(refused) =
                    answers.iter().find(|a| !(a["status"] == 202 || a["status"] == 200 || a["status"] == 503))
                {
                    bail!("a transaction was refused: {refused}");
                }
                if answers.len() == chunk.len() && answers.iter().all(|a| a["status"] != 503) {
                    took.push(begun.elapsed());
                    break;
                }
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }
    Ok(took)
}
