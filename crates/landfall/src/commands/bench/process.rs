//! The other processes of a run: this program under another command, spoken to by lines of JSON, and what a process
//! has used of the machine.

use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// One of ours in another process. It ends when this is dropped: its standard input closes, and it is killed.
pub(super) struct Helper {
    name: &'static str,
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Helper {
    pub(super) fn start(name: &'static str, args: &[String]) -> Result<Self> {
        let program = std::env::current_exe().context("this program's own file is not known")?;
        let mut child = Command::new(program)
            .arg(name)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{name} could not be started"))?;
        let stdin = child.stdin.take().context("it has no input")?;
        let stdout = child.stdout.take().context("it has no output")?;
        Ok(Self { name, child, stdin, stdout: BufReader::new(stdout).lines() })
    }

    pub(super) fn id(&self) -> Result<u32> {
        self.child.id().with_context(|| format!("{} has ended", self.name))
    }

    pub(super) async fn tell(&mut self, value: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.stdin.write_all(&line).await.with_context(|| format!("{} does not listen", self.name))?;
        Ok(self.stdin.flush().await?)
    }

    /// The next line it prints; what it has to say when it fails went to standard error.
    pub(super) async fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        match self.stdout.next_line().await? {
            Some(line) => serde_json::from_str(&line).with_context(|| format!("{} said {line:?}", self.name)),
            None => bail!("{} ended without a word", self.name),
        }
    }
}

/// What a process has used since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Usage {
    pub(super) cpu_s: f64,
    /// The most memory it ever had.
    pub(super) peak_mb: f64,
    /// What it has now.
    pub(super) now_mb: f64,
}

impl Usage {
    /// As Linux tells it; nothing where there is no /proc.
    pub(super) fn of(process: &str) -> Self {
        let read =
            |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
        let status = read("status");
        let kilobytes = |name: &str| -> f64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
        };
        Self {
            cpu_s: cpu_seconds(&read("stat")),
            peak_mb: kilobytes("VmHWM:") / 1_024.0,
            now_mb: kilobytes("VmRSS:") / 1_024.0,
        }
    }

    pub(super) fn of_id(id: u32) -> Self {
        Self::of(&id.to_string())
    }

    /// Of a process that shares most of its memory with others: of what they share, its part.
    pub(super) fn sharing(id: u32) -> Self {
        let shares = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap_or_default();
        let part = shares.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kilobytes = part.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0);
        let now_mb = kilobytes / 1_024.0;
        Self { now_mb, peak_mb: now_mb, ..Self::of_id(id) }
    }

    /// The same, with the time of those that it started and that have ended.
    pub(super) fn with_ended(id: u32) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        Self { cpu_s: seconds(&stat, 4), ..Self::sharing(id) }
    }

    /// What was used between an earlier look and this one.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self { cpu_s: self.cpu_s - earlier.cpu_s, ..self }
    }

    /// Of several processes together.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            cpu_s: self.cpu_s + other.cpu_s,
            peak_mb: self.peak_mb + other.peak_mb,
            now_mb: self.now_mb + other.now_mb,
        }
    }
}

/// User and system time of a line of /proc/…/stat.
fn cpu_seconds(stat: &str) -> f64 {
    seconds(stat, 2)
}

/// The first so many of its times: user, system, and both of its children that have ended. Linux counts in hundredths
/// for every program.
fn seconds(stat: &str, times: usize) -> f64 {
    const TICKS_PER_S: f64 = 100.0;
    // The second field is a name in brackets, which may hold anything.
    let Some((_, rest)) = stat.rsplit_once(')') else { return 0.0 };
    let ticks = rest.split_whitespace().skip(11).take(times).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS_PER_S
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0 100";
        assert!((cpu_seconds(stat) - 2.0).abs() < f64::EPSILON);
        let with_children = "12 (a) S 1 2 3 4 5 6 7 8 9 10 150 50 30 20 20 0 1 0 100";
        assert!((seconds(with_children, 4) - 2.5).abs() < f64::EPSILON);
        assert!(cpu_seconds("").abs() < f64::EPSILON);
    }
}
