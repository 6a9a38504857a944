//! Real servers in other processes, on a chain that their caller holds: what the demos and the benchmark run on.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::Address;
use anyhow::{Context, Result, bail};
use landfall_devchain::dev_accounts;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::client::Client;
use crate::config::{Chain, Config, Signer};

/// How long the server may take to answer after it was started.
const START_LIMIT: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_millis(50);
/// How many transactions are handed over at once.
const BATCH: usize = 25;

/// Where the servers keep what they know, and how many there are.
pub(crate) struct Ground {
    /// Absent: an SQLite file of their own.
    pub(crate) store: Option<String>,
    pub(crate) nodes: usize,
}

impl Default for Ground {
    fn default() -> Self {
        Self { store: None, nodes: 1 }
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
    folder: TempDir,
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
        match ground.store {
            Some(url) => {
                config.store.url = url;
                // A database may have been used before: each run has a namespace of its own.
                config.store.namespace =
                    format!("rig-{}-{}", crate::system::unix_seconds(), std::process::id());
            }
            None => {
                config.store.url = format!("sqlite://{}", folder.path().join("landfall.db").display());
            }
        }
        config.chain = vec![settings];
        config.signer = (0..accounts.len())
            .map(|n| Signer { private_key_env: Some(key_name(n)), ..Signer::default() })
            .collect();
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
            folder,
        };
        for n in 0..rig.nodes.len() {
            rig.start_node(n).await?;
        }
        Ok(rig)
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
        let keys = self.signers.len();
        let node = self.nodes.get_mut(n).context("there is no such server")?;
        let program = std::env::current_exe().context("this program's own file is not known")?;
        let log = std::fs::File::options().create(true).append(true).open(&node.log_file)?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(&node.config_file).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        for (n, account) in dev_accounts().take(keys).enumerate() {
            command.env(key_name(n), account.key.to_string());
        }
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
        tokio::time::timeout(START_LIMIT, ready).await.context("the server did not get ready")?
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

    /// Bytes of the database, with what is still in its log.
    pub(crate) fn store_bytes(&self) -> u64 {
        let sizes = ["landfall.db", "landfall.db-wal"]
            .iter()
            .filter_map(|name| std::fs::metadata(self.folder.path().join(name)).ok());
        sizes.map(|meta| meta.len()).sum()
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
