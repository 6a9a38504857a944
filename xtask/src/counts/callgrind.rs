//! The program of `crates/benches`, run under `valgrind --tool=callgrind`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process;
use crate::provision::Tool;
use crate::workspace::Workspace;

const EXAMPLE: &str = "instructions";

/// glibc picks its copying loops by what the processor can do. Without these it picks the same on every one.
const SAME_LOOPS: &str = "glibc.cpu.hwcaps=-AVX2,-AVX_Fast_Unaligned_Load,-ERMS";

pub(super) struct Program {
    path: PathBuf,
    /// Where the profiles stay, for whoever wants to see what costs so much.
    profiles: PathBuf,
}

/// Builds it as one of the tests' programs, so that it is there already after they were built: asked for alone, it would be built
/// with other features, and half of the dependencies once more.
pub(super) fn build(workspace: &Workspace) -> Result<Program> {
    let text = process::stdout_of(
        process::cargo()
            .args(["test", "--workspace", "--no-run"])
            .args(["--message-format", "json-render-diagnostics"])
            .current_dir(&workspace.root),
    )?;
    let path = built(&text).with_context(|| format!("cargo built no example `{EXAMPLE}`"))?;
    let profiles = path.ancestors().nth(3).unwrap_or(&workspace.root).join("callgrind");
    std::fs::create_dir_all(&profiles).with_context(|| format!("cannot create {}", profiles.display()))?;
    Ok(Program { path, profiles })
}

impl Program {
    /// The program itself: without arguments it lists its cases.
    pub(super) fn plain(&self) -> Command {
        Command::new(&self.path)
    }

    /// The instructions of a run from its start to its end; the profile stays under that name.
    pub(super) fn count(&self, valgrind: &Tool, case: &str, rounds: u64, profile: &str) -> Result<u64> {
        let profile = self.profiles.join(profile);
        let mut command = Command::new(&valgrind.value);
        // What is in the environment must not matter; PATH is for valgrind's own scripts.
        command.env_clear().env("GLIBC_TUNABLES", SAME_LOOPS);
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.args(["--tool=callgrind", "--quiet"]).arg(out_file(&profile)).arg(&self.path);
        command.args([case, &rounds.to_string()]);
        process::output(&mut command)?;
        let text = std::fs::read_to_string(&profile)
            .with_context(|| format!("callgrind left no {}", profile.display()))?;
        total(&text).with_context(|| format!("{} has no sum", profile.display()))
    }
}

fn out_file(profile: &Path) -> String {
    format!("--callgrind-out-file={}", profile.display())
}

#[derive(Deserialize)]
struct Message {
    target: Option<Named>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Cargo tells of everything it built, a line of JSON each.
fn built(messages: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter(|message| message.target.as_ref().is_some_and(|target| target.name == EXAMPLE))
        .find_map(|message| message.executable)
}

/// `totals: 12345`, near the end of a profile.
fn total(profile: &str) -> Option<u64> {
    profile.lines().rev().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_found_among_what_cargo_built() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"landfall_benches"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"instructions"},"executable":"target/debug/examples/instructions"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(built(messages), Some(PathBuf::from("target/debug/examples/instructions")));
        assert_eq!(built("{\"reason\":\"build-finished\",\"success\":true}"), None);
    }

    #[test]
    fn the_sum_of_a_profile_is_read() {
        assert_eq!(total("events: Ir\nfn=(1) main\n3 17\n\ntotals: 123456\n"), Some(123_456));
        assert_eq!(total("events: Ir\n"), None);
    }
}
