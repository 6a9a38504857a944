//! Programs under test, and the signals they get.

use std::path::Path;
use std::process::{Command, Stdio};

/// The binary that is tested, started in `folder`, where nothing of this machine's settings reaches it.
pub(crate) fn program(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_landfall"));
    command.current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LANDFALL_") {
            command.env_remove(name);
        }
    }
    command
}

/// Sends a signal such as `TERM` to one process.
pub(crate) fn signal(name: &str, id: u32) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(id.to_string()).status();
    assert!(status.expect("kill runs").success(), "process {id} did not take SIG{name}");
}
