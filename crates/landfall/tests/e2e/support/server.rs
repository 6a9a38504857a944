//! A real server: the binary with a configuration, a database and a log in a folder of its own.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Child;

use super::{Api, CHAIN_ID, Output, account, program, run, signal, until, until_within};

/// A graceful stop takes well under a second; this is still "within seconds".
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// How much of the log a failed test shows.
const LAST_LINES: usize = 25;

/// Receivers of webhooks on this machine, and no long waits.
pub(crate) const QUICK_WEBHOOKS: &str = "[webhooks]\nallow_private = true\nallow_http = true\ntimeout_ms = 1000\nretry_first_ms = 100\n\
    retry_longest_s = 1\n";
/// What webhooks' secrets are derived from.
pub(crate) const WEBHOOK_SECRET: &str = "LANDFALL_WEBHOOK_SECRET";

/// What a test may want otherwise than the rest.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) signers: usize,
    pub(crate) finality: u64,
    pub(crate) max_in_flight: u64,
    pub(crate) resubmit_after_s: u64,
    pub(crate) request_timeout_ms: u64,
    /// The node's name.
    pub(crate) node: String,
    /// Lines for the `[[chain]]` part.
    pub(crate) chain: &'static str,
    /// Lines for every `[[signer]]` part.
    pub(crate) signer: &'static str,
    /// Lines for the `[server]` part.
    pub(crate) server: &'static str,
    /// The URL of the store.
    pub(crate) store_url: String,
    /// Lines for the `[store]` part.
    pub(crate) store: &'static str,
    /// The seconds of a lease, its renewal and its skew.
    pub(crate) lease: (f64, f64, f64),
    /// Which log lines are written.
    pub(crate) log: &'static str,
    /// Further environment variables.
    pub(crate) env: Vec<(&'static str, String)>,
    /// Further sections of the configuration.
    pub(crate) sections: &'static str,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            signers: 1,
            finality: 1,
            max_in_flight: 64,
            resubmit_after_s: 2,
            request_timeout_ms: 2_000,
            node: "landfall".to_owned(),
            chain: "",
            signer: "",
            server: "",
            store_url: "sqlite://landfall.db".to_owned(),
            store: "",
            lease: (10.0, 3.0, 1.0),
            log: "info",
            env: vec![(WEBHOOK_SECRET, "a secret of the tests that is long enough".to_owned())],
            sections: "",
        }
    }
}

impl Settings {
    /// The configuration file.
    pub(crate) fn toml(&self, port: u16, rpc: &str) -> String {
        let (duration, renew, skew) = self.lease;
        let mut text = format!(
            "[server]\nlisten = \"127.0.0.1:{port}\"\n{}\n[store]\nurl = \"{}\"\n{}\n\
             [node]\nname = \"{}\"\n[lease]\nduration_s = {duration}\nrenew_s = {renew}\nskew_s = {skew}\n\
             [[chain]]\nid = {CHAIN_ID}\nrpc = [\"{rpc}\"]\nfinality = {}\npoll_ms = 100\nmax_in_flight = {}\n\
             resubmit_after_s = {}\nrequest_timeout_ms = {}\n{}\n",
            self.server,
            self.store_url,
            self.store,
            self.node,
            self.finality,
            self.max_in_flight,
            self.resubmit_after_s,
            self.request_timeout_ms,
            self.chain
        );
        for n in 0..self.signers {
            let address = account(n).address;
            writeln!(
                text,
                "[[signer]]\naddress = \"{address}\"\nprivate_key_env = \"KEY_{n}\"\n{}",
                self.signer
            )
            .unwrap();
        }
        text.push_str(self.sections);
        text
    }
}

/// A port below those that the system gives to outgoing connections: while a server is down, none of its callers can
/// be given its port.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (std::process::id().wrapping_mul(37).wrapping_add(step * 101)) % 12_000;
        let port = u16::try_from(port).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub(crate) struct Server {
    pub(crate) api: Api,
    folder: TempDir,
    signers: usize,
    log: &'static str,
    env: Vec<(&'static str, String)>,
    child: Option<Child>,
}

impl Server {
    /// Starts one on the chain at `rpc` and waits until it can admit.
    pub(crate) async fn start(rpc: &str, settings: Settings) -> Self {
        let mut server = Self::prepare(rpc, &settings);
        server.spawn();
        server.until_ready().await;
        server
    }

    /// Everything but the process.
    pub(crate) fn prepare(rpc: &str, settings: &Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        std::fs::write(folder.path().join("landfall.toml"), settings.toml(port, rpc)).unwrap();
        let api = Api::at(&format!("http://127.0.0.1:{port}"));
        Self {
            api,
            folder,
            signers: settings.signers,
            log: settings.log,
            env: settings.env.clone(),
            child: None,
        }
    }

    /// Starts the process, on what an earlier one left behind.
    pub(crate) fn spawn(&mut self) {
        let log = std::fs::File::options().create(true).append(true).open(self.log_file()).unwrap();
        let mut command = program(self.folder.path());
        let printed = std::fs::File::create(self.folder.path().join("server.out")).unwrap();
        command.args(["serve", "--config", "landfall.toml"]).stdout(printed).stderr(log);
        command.env("LANDFALL_LOG", self.log).envs(self.env.clone());
        for n in 0..self.signers {
            command.env(format!("KEY_{n}"), account(n).key.to_string());
        }
        let child = tokio::process::Command::from(command).kill_on_drop(true).spawn();
        self.child = Some(child.expect("the server starts"));
    }

    pub(crate) async fn until_ready(&mut self) {
        let child = self.child.as_mut().expect("the server was started");
        let api = self.api.clone();
        until("the server is ready", async || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("the server ended at its start: {status}");
            }
            let ready = api.try_send(api.request(reqwest::Method::GET, "/health/ready")).await?;
            (ready.status == 200).then_some(())
        })
        .await;
    }

    /// Kills it, and starts another on the same folder.
    pub(crate) async fn restart_after_kill(&mut self) {
        self.kill().await;
        self.spawn();
        self.until_ready().await;
    }

    /// Kills it, and starts another that knows this many signers, the last ones left out.
    pub(crate) async fn restart_with(&mut self, signers: usize, rpc: &str, settings: &Settings) {
        self.kill().await;
        self.signers = signers;
        let port = self.api.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let toml = Settings { signers, ..settings.clone() }.toml(port, rpc);
        std::fs::write(self.folder.path().join("landfall.toml"), toml).unwrap();
        self.spawn();
        self.until_ready().await;
    }

    /// Changes a variable for the next start; an empty one counts as none.
    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.env.retain(|(known, _)| *known != name);
        self.env.push((name, value.to_owned()));
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().and_then(Child::id).expect("the server runs")
    }

    /// `SIGKILL`: nothing is finished, nothing is said.
    pub(crate) async fn kill(&mut self) {
        let mut child = self.child.take().expect("the server runs");
        child.kill().await.expect("the server is killed");
    }

    /// `SIGTERM`, without waiting.
    pub(crate) fn terminate(&self) {
        signal("TERM", self.id());
    }

    /// Waits for the end of one that was told to stop.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the server runs");
        until_within(STOP_LIMIT, "the server stops", async || child.try_wait().unwrap()).await
    }

    /// Runs one that does not come up to its end.
    pub(crate) async fn run_to_end(&self) -> Output {
        let mut command = program(self.folder.path());
        command.args(["serve", "--config", "landfall.toml"]);
        for n in 0..self.signers {
            command.env(format!("KEY_{n}"), account(n).key.to_string());
        }
        run(command).await
    }

    /// Runs another one on the same database, on a port of its own, to its end.
    pub(crate) async fn try_another(&self, rpc: &str) -> Output {
        let settings = Settings { signers: self.signers, ..Settings::default() };
        std::fs::write(self.folder.path().join("another.toml"), settings.toml(free_port(), rpc)).unwrap();
        let mut command = program(self.folder.path());
        command.args(["serve", "--config", "another.toml"]);
        for n in 0..self.signers {
            command.env(format!("KEY_{n}"), account(n).key.to_string());
        }
        run(command).await
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    /// What it printed since its last start, beside the log.
    pub(crate) fn printed(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("server.out")).unwrap_or_default()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!(
                "the server's last words:\n{}",
                lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
            );
        }
    }
}
