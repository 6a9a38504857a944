//! A real server in another process, on a chain that its caller holds: what the demos and the benchmark run on.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::Address;
use anyhow::{Context, Result, bail};
use landfall_devchain::dev_accounts;
use reqwest::Method;
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

pub(crate) struct Rig {
    pub(crate) client: Client,
    pub(crate) signers: Vec<Address>,
    config_file: PathBuf,
    server: Option<Child>,
    folder: TempDir,
}

impl Rig {
    /// Writes the configuration and starts the server.
    pub(crate) async fn start(settings: Chain, signers: usize) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let listen = free_address().context("no port is free for the server")?;
        let accounts: Vec<_> = dev_accounts().take(signers).collect();
        let mut config = Config::default();
        config.server.listen = listen;
        config.store.url = format!("sqlite://{}", folder.path().join("landfall.db").display());
        config.chain = vec![settings];
        config.signer = (0..accounts.len())
            .map(|n| Signer { private_key_env: Some(key_name(n)), ..Signer::default() })
            .collect();
        let config_file = folder.path().join("landfall.toml");
        std::fs::write(&config_file, toml::to_string(&config)?)?;
        let mut rig = Self {
            client: Client::new(&format!("http://{listen}"))?,
            signers: accounts.iter().map(|account| account.address).collect(),
            config_file,
            server: None,
            folder,
        };
        rig.start_server().await?;
        Ok(rig)
    }

    /// Starts the server, and waits until it can admit.
    pub(crate) async fn start_server(&mut self) -> Result<()> {
        let program = std::env::current_exe().context("this program's own file is not known")?;
        let log = std::fs::File::options().create(true).append(true).open(self.log_file())?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(&self.config_file).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        for (n, account) in dev_accounts().take(self.signers.len()).enumerate() {
            command.env(key_name(n), account.key.to_string());
        }
        self.server = Some(command.spawn().context("the server could not be started")?);
        let ready = async {
            loop {
                if self.client.get("/health/ready").await.is_ok() {
                    return Ok(());
                }
                if let Some(server) = &mut self.server
                    && let Some(status) = server.try_wait()?
                {
                    bail!("the server ended at its start ({status}); it said:\n{}", self.last_log());
                }
                tokio::time::sleep(ASK_EVERY).await;
            }
        };
        tokio::time::timeout(START_LIMIT, ready).await.context("the server did not get ready")?
    }

    /// `SIGKILL`: nothing is finished, nothing is said.
    pub(crate) async fn kill_server(&mut self) -> Result<()> {
        if let Some(mut server) = self.server.take() {
            server.kill().await.context("the server could not be killed")?;
        }
        Ok(())
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    /// The end of the server's log.
    pub(crate) fn last_log(&self) -> String {
        let text = std::fs::read_to_string(self.log_file()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
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
        let lanes = self.client.get("/api/v1/lanes").await.ok()?;
        let count =
            |lane: &Value| lane["waiting"].as_u64().unwrap_or(0) + lane["inFlight"].as_u64().unwrap_or(0);
        Some(lanes["items"].as_array()?.iter().map(count).sum())
    }

    /// The slots each signer's lane has handed out.
    pub(crate) async fn slots(&self) -> Result<BTreeMap<String, u64>> {
        let lanes = self.client.get("/api/v1/lanes").await?;
        let lanes = lanes["items"].as_array().cloned().unwrap_or_default();
        let slot = |lane: &Value| lane["nextNonce"].as_u64().unwrap_or(0);
        Ok(lanes.iter().map(|lane| (crate::output::text(lane, "signer"), slot(lane))).collect())
    }
}

fn key_name(n: usize) -> String {
    format!("LANDFALL_TEST_KEY_{n}")
}

/// An address that was free a moment ago, below the ports that the system gives to outgoing connections: while the
/// server is down, none of its callers can be given its port.
fn free_address() -> Option<SocketAddr> {
    const FIRST: u32 = 20_000;
    const PORTS: u32 = 12_000;
    let start = std::process::id().wrapping_mul(37);
    (0..PORTS).find_map(|step| {
        let port = FIRST + start.wrapping_add(step * 101) % PORTS;
        let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).ok()?));
        TcpListener::bind(address).ok().map(|_| address)
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
            if let Ok(answer) = client.ask(Method::POST, "/api/v1/tx/batch", Some(&body)).await
                && answer.status.is_success()
            {
                let answers = answer.body["items"].as_array().cloned().unwrap_or_default();
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
