//! Programs under test, and the signals they get.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A command that answers does so within a second or two; a busy machine gets this long.
const RUN_LIMIT: Duration = Duration::from_secs(60);

/// Names another binary than the one that was built with the tests, to see what an earlier version did.
const BINARY: &str = "LANDFALL_E2E_BINARY";

/// The binary that is tested, started in `folder`, where nothing of this machine's settings reaches it.
pub(crate) fn program(folder: &Path) -> Command {
    let other = std::env::var_os(BINARY);
    let built = env!("CARGO_BIN_EXE_landfall");
    let mut command = Command::new(other.as_deref().unwrap_or(built.as_ref()));
    command.current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LANDFALL_") {
            command.env_remove(name);
        }
    }
    // Most tests show no key. Those about that say otherwise. An earlier version may not know the setting, and needs it less.
    if other.is_none() {
        command.env("LANDFALL_ACCESS__OPEN", "true");
    }
    command
}

/// Sends a signal such as `TERM` to one process.
pub(crate) fn signal(name: &str, id: u32) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(id.to_string()).status();
    assert!(status.expect("kill runs").success(), "process {id} did not take SIG{name}");
}

/// What a program that has ended left behind.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    /// Both streams, one after the other.
    pub(crate) said: String,
}

impl Output {
    pub(crate) fn ok(&self) -> bool {
        self.code == Some(0)
    }
}

/// Runs a program to its end.
pub(crate) async fn run(command: Command) -> Output {
    run_within(RUN_LIMIT, command).await
}

/// As [`run`], with a limit of its own.
pub(crate) async fn run_within(limit: Duration, command: Command) -> Output {
    let mut command = tokio::process::Command::from(command);
    let output = command.kill_on_drop(true).output();
    let output = tokio::time::timeout(limit, output).await.expect("the program ends").expect("it starts");
    let stdout = String::from_utf8(output.stdout).expect("text");
    let stderr = String::from_utf8(output.stderr).expect("text");
    Output { code: output.status.code(), said: format!("{stdout}{stderr}"), stdout }
}

/// Whether a program of this machine runs. Where it does not, it is said what was not checked. On CI that is a failure, and for root,
/// who may install it (`cargo xtask test` does).
pub(crate) fn is_here(program: &str, package: &str, checks: &str) -> bool {
    let here = Command::new(program).arg("--version").output().is_ok();
    let said =
        format!("{program} is not on this machine (Debian's package {package}): it was NOT checked {checks}");
    let is_on_ci = std::env::var("CI").ok().as_deref() == Some("true");
    assert!(here || !(is_on_ci || landfall_pgtest::is_root()), "{said}");
    if !here {
        eprintln!("{said}");
    }
    here
}

/// Writes a file that only its owner may read.
pub(crate) fn secret_file(file: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(file, text).expect("a file is written");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).expect("its mode is set");
}
