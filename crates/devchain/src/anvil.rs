//! A real anvil, for what must not believe devchain alone. It is killed when the handle is dropped.

use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::config::Mining;

/// The variable that names the binary.
pub const PATH_VARIABLE: &str = "LANDFALL_ANVIL";
/// Starting takes well under a second; a busy machine gets this long.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Without a bound its memory grows by the block.
const STATES_KEPT: u64 = 256;

/// What to start.
#[derive(Clone, Debug)]
pub struct Options {
    pub mining: Mining,
    pub chain_id: u64,
    /// Further arguments, as on its command line.
    pub args: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { mining: Mining::Manual, chain_id: 31_337, args: Vec::new() }
    }
}

/// A running anvil; dropping it kills the process.
#[derive(Debug)]
pub struct Anvil {
    port: u16,
    child: Child,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{PATH_VARIABLE} is not set: run cargo xtask test, which installs anvil")]
    NotInstalled,
    #[error("cannot start anvil at {path}: {source}")]
    Start { path: String, source: io::Error },
    #[error("anvil ended before it listened: {0}")]
    Ended(String),
    #[error("anvil did not listen within {} seconds", START_LIMIT.as_secs())]
    Silent,
}

impl Anvil {
    /// Starts the one that `LANDFALL_ANVIL` names, on a free port, and returns once it listens.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let path = std::env::var_os(PATH_VARIABLE).ok_or(Error::NotInstalled)?;
        Self::start_at(Path::new(&path), options).await
    }

    /// As [`Self::start`], with a binary that [`find`] found.
    pub async fn start_at(path: &Path, options: Options) -> Result<Self, Error> {
        let mut child = Command::new(path)
            .args(arguments(&options))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| Error::Start { path: path.display().to_string(), source })?;
        let stdout = child.stdout.take().ok_or_else(|| Error::Ended("it has no output".to_owned()))?;
        let mut lines = BufReader::new(stdout).lines();
        let port =
            tokio::time::timeout(START_LIMIT, find_port(&mut lines)).await.map_err(|_| Error::Silent)??;
        tokio::spawn(drain(lines));
        Ok(Self { port, child })
    }

    pub fn http_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn ws_url(&self) -> String {
        format!("ws://127.0.0.1:{}", self.port)
    }

    /// The process id, as long as it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }
}

/// Looks for the binary: what `LANDFALL_ANVIL` names, then what is on the path, then what `cargo xtask test` installed
/// below the current folder.
pub fn find() -> Option<PathBuf> {
    let named = std::env::var_os(PATH_VARIABLE).map(PathBuf::from);
    let on_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join("anvil")).find(|file| file.is_file())
    };
    named.or_else(on_path).or_else(|| installed(Path::new(".cache")))
}

fn installed(cache: &Path) -> Option<PathBuf> {
    let folders = std::fs::read_dir(cache).ok()?.flatten();
    let anvils = folders.filter(|folder| folder.file_name().to_string_lossy().starts_with("anvil-"));
    anvils.map(|folder| folder.path().join("anvil")).filter(|file| file.is_file()).max()
}

fn arguments(options: &Options) -> Vec<String> {
    let mut args = vec!["--host=127.0.0.1".to_owned(), "--port=0".to_owned()];
    args.push(format!("--chain-id={}", options.chain_id));
    args.push(format!("--prune-history={STATES_KEPT}"));
    match options.mining {
        Mining::Instant => {}
        Mining::Manual => args.push("--no-mining".to_owned()),
        Mining::Interval(every) => args.push(format!("--block-time={}", every.as_secs_f64())),
    }
    args.extend(options.args.iter().cloned());
    args
}

/// It takes port 0 and prints which one it got, so there is no race for a free one.
async fn find_port(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<u16, Error> {
    let mut last = String::new();
    while let Some(line) = lines.next_line().await.map_err(|e| Error::Ended(e.to_string()))? {
        let port = line.strip_prefix("Listening on ").and_then(|a| a.rsplit_once(':')?.1.parse().ok());
        if let Some(port) = port {
            return Ok(port);
        }
        last = line;
    }
    Err(Error::Ended(last))
}

/// Its log would fill the pipe and stop it.
async fn drain(mut lines: Lines<BufReader<ChildStdout>>) {
    while let Ok(Some(_)) = lines.next_line().await {}
}
