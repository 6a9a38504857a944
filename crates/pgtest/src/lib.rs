//! # landfall-pgtest
//!
//! A real PostgreSQL for tests: a throw-away cluster in a temporary folder, on a free port, that can be stopped,
//! started again, killed, and followed by a standby. `cargo xtask test` starts one for all tests and hands its URL
//! over in `LANDFALL_POSTGRES`; a test that breaks the database starts one of its own.
//!
//! It knows nothing of Landfall and is used by tests and xtask only. When it is dropped, or the process that started
//! it dies in whatever way, the server is stopped; when it is dropped the folder is gone too.

mod find;

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

pub use find::{User, is_root, programs, version};

/// The variable by which tests find the cluster that was started for all of them.
pub const VARIABLE: &str = "LANDFALL_POSTGRES";

const SUPERUSER: &str = "postgres";
const PASSWORD: &str = "landfall";

/// How long a server may take to come up or go down.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How a cluster is set up.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Sync every commit to disk. Off where only the behaviour counts: it is much quicker, and outlives a killed
    /// server, though not a killed machine.
    pub fsync: bool,
    /// Offer TLS, with a certificate that the server signed itself, for 127.0.0.1.
    pub tls: bool,
    /// More settings of the server, by name.
    pub more: Vec<(String, String)>,
}

/// A cluster of our own.
pub struct Cluster {
    folder: TempDir,
    port: u16,
    user: Option<User>,
    programs: PathBuf,
    settings: Settings,
    running: Option<Child>,
}

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Connections are ended, everything is written down.
    Fast,
    /// As a crash: the next start recovers.
    Immediate,
}

impl Cluster {
    /// Makes a cluster and starts it.
    pub fn start(settings: Settings) -> Result<Self> {
        let mut cluster = Self::folder(settings)?;
        let secret = cluster.folder.path().join("password");
        fs::write(&secret, PASSWORD)?;
        cluster.own(&secret)?;
        let mut initdb = cluster.command("initdb");
        initdb.args([
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
            "--auth=scram-sha-256",
            "--username",
            SUPERUSER,
        ]);
        initdb.arg("--pwfile").arg(&secret).arg("--pgdata").arg(cluster.data());
        run(&mut initdb)?;
        if cluster.settings.tls {
            cluster.certify()?;
        }
        cluster.configure(&[])?;
        cluster.go()?;
        Ok(cluster)
    }

    /// Makes the server's key and certificate, with the program that Debian's PostgreSQL brings along.
    fn certify(&self) -> Result<()> {
        let mut openssl = Command::new("openssl");
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=127.0.0.1",
        ]);
        openssl.args([
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ]);
        openssl.arg("-keyout").arg(self.data().join("server.key")).arg("-out").arg(self.certificate());
        openssl.current_dir(self.folder.path()).stdin(Stdio::null());
        self.as_user(&mut openssl);
        run(&mut openssl)
    }

    /// The certificate of a server that offers TLS.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.data().join("server.crt")
    }

    fn folder(settings: Settings) -> Result<Self> {
        let programs = programs()?;
        let user = User::to_run_as()?;
        // A socket's path must be short, so not below a folder that may be deep.
        let place = if Path::new("/tmp").is_dir() { PathBuf::from("/tmp") } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new().prefix("landfall-pg-").tempdir_in(place)?;
        let cluster = Self { folder, port: free_port()?, user, programs, settings, running: None };
        cluster.own(cluster.folder.path())?;
        Ok(cluster)
    }

    /// A second server that follows this one and is waited for by every commit, once it is up.
    pub fn standby(&self) -> Result<Self> {
        let mut standby = Self::folder(self.settings.clone())?;
        let mut copy = standby.command("pg_basebackup");
        copy.args(["--checkpoint=fast", "--write-recovery-conf", "--no-sync", "--dbname"]);
        copy.arg(format!("{} application_name=standby", self.words())).arg("--pgdata").arg(standby.data());
        run(&mut copy)?;
        standby.configure(&[])?;
        standby.go()?;
        self.configure(&[("synchronous_standby_names", "standby"), ("synchronous_commit", "on")])?;
        run(self.command("pg_ctl").arg("reload").arg("--pgdata").arg(self.data()))?;
        Ok(standby)
    }

    /// Makes a standby a primary, which waits for nobody.
    pub fn promote(&self) -> Result<()> {
        run(self.command("pg_ctl").args(["promote", "--wait"]).arg("--pgdata").arg(self.data()))
    }

    /// Where clients find it, as the superuser of its one database.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{}/postgres", self.port)
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Stops the server; its data stays.
    pub fn stop(&mut self, how: Stop) -> Result<()> {
        let mode = match how {
            Stop::Fast => "--mode=fast",
            Stop::Immediate => "--mode=immediate",
        };
        run(self.command("pg_ctl").args(["stop", "--wait", mode]).arg("--pgdata").arg(self.data()))?;
        self.reap()
    }

    /// Ends the server's first process as a power cut would; the others follow it by themselves.
    pub fn kill(&mut self) -> Result<()> {
        let first = self.status().context("the server does not run")?.0;
        run(Command::new("kill").args(["-KILL", &first]))?;
        self.reap()
    }

    /// Starts a server that was stopped or killed, on the same port.
    pub fn start_again(&mut self) -> Result<()> {
        self.go()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// How another server of ours connects.
    fn words(&self) -> String {
        format!("host=127.0.0.1 port={} user={SUPERUSER} password={PASSWORD}", self.port)
    }

    fn configure(&self, more: &[(&str, &str)]) -> Result<()> {
        let folder = self.folder.path().display();
        let sync = if self.settings.fsync { "on" } else { "off" };
        let mut text = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{folder}'\nfsync = {sync}\n\
             full_page_writes = {sync}\nmax_connections = 300\nshared_buffers = '128MB'\nautovacuum_naptime = '10s'\n\
             wal_level = replica\nmax_wal_senders = 4\nlog_min_messages = warning\n",
            self.port
        );
        let given = self.settings.more.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let secure = self.settings.tls.then_some(("ssl", "on"));
        for (name, value) in given.chain(secure).chain(more.iter().copied()) {
            text.push_str(&format!("{name} = '{value}'\n"));
        }
        let file = self.data().join("landfall.conf");
        fs::write(&file, text)?;
        self.own(&file)?;
        let main = self.data().join("postgresql.conf");
        if !fs::read_to_string(&main)?.contains("landfall.conf") {
            writeln!(fs::OpenOptions::new().append(true).open(&main)?, "include 'landfall.conf'")?;
        }
        Ok(())
    }

    /// Starts the server below a shell that stops it when our end of a pipe closes, however we end.
    fn go(&mut self) -> Result<()> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log())?;
        let watch = "\"$@\" & server=$!; read -r _; kill -INT $server; wait $server";
        let mut shell = Command::new("sh");
        shell.args(["-c", watch, "sh"]).arg(self.programs.join("postgres")).arg("-D").arg(self.data());
        shell.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log).current_dir(self.folder.path());
        self.as_user(&mut shell);
        let mut child = shell.spawn().context("cannot start a shell for postgres")?;
        for _ in 0..looks() {
            // A status left by a server that was killed says "ready" too: it must be a process that lives.
            if self.status().is_some_and(|(pid, ready)| ready && Path::new(&format!("/proc/{pid}")).exists())
            {
                self.running = Some(child);
                return Ok(());
            }
            if !still_starting(&mut child)? {
                // The processes of one that was killed may still be going: the next try comes in a moment.
                std::thread::sleep(LOOK_EVERY * 5);
                child = shell.spawn().context("cannot start a shell for postgres")?;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        child.kill().ok();
        child.wait().ok();
        bail!("PostgreSQL did not come up: {}", fs::read_to_string(self.log()).unwrap_or_default())
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// The first process, and whether it takes connections, as the server writes it down.
    fn status(&self) -> Option<(String, bool)> {
        let text = fs::read_to_string(self.data().join("postmaster.pid")).ok()?;
        let mut lines = text.lines();
        let pid = lines.next()?.trim().to_owned();
        let word = lines.nth(6).unwrap_or_default().trim().to_owned();
        Some((pid, word == "ready" || word == "standby"))
    }

    fn reap(&mut self) -> Result<()> {
        if let Some(mut shell) = self.running.take() {
            // With its pipe closed the shell has nothing left to wait for.
            drop(shell.stdin.take());
            shell.wait()?;
        }
        Ok(())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        self.as_user(&mut command);
        command
    }

    /// PostgreSQL refuses to run as root.
    fn as_user(&self, command: &mut Command) {
        #[cfg(unix)]
        if let Some(user) = &self.user {
            use std::os::unix::process::CommandExt;
            command.uid(user.uid).gid(user.gid);
        }
    }

    fn own(&self, path: &Path) -> Result<()> {
        #[cfg(unix)]
        if let Some(user) = &self.user {
            std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid))?;
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.running.is_some() && self.stop(Stop::Immediate).is_err() {
            self.reap().ok();
        }
    }
}

fn looks() -> u128 {
    PATIENCE.as_millis() / LOOK_EVERY.as_millis()
}

fn still_starting(child: &mut Child) -> Result<bool> {
    Ok(child.try_wait()?.is_none())
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().with_context(|| format!("cannot start {name}"))?;
    if !done.status.success() {
        bail!("{name} failed ({}): {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(())
}
