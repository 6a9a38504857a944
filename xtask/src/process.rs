//! Child processes: never with a stdin, always with an error that names the command.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

/// The cargo that started this program, without the variables it set for this program's own package: build
/// scripts that watch them would otherwise be run again after every direct call of cargo.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// A command as one would type it.
pub(crate) fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    // Cargo is known to us by its full path, which nobody types.
    let name = if program.ends_with("cargo") { OsStr::new("cargo") } else { program.as_os_str() };
    let mut words = vec![name.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|argument| {
        let argument = argument.to_string_lossy();
        if argument.contains([' ', '(', '*']) { format!("'{argument}'") } else { argument.into_owned() }
    }));
    words.join(" ")
}

/// Runs it with its output going where ours goes.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus> {
    command.stdin(Stdio::null()).status().with_context(|| format!("cannot start `{}`", show(command)))
}

/// What it wrote to stdout; an error with its stderr if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let done =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{}`", show(command)))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!("`{}` failed ({}): {}", show(command), done.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// What it wrote to stdout, with its stderr going where ours goes, so that a long build shows its progress.
pub(crate) fn stdout_of(command: &mut Command) -> Result<String> {
    let done = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{}`", show(command)))?;
    if !done.status.success() {
        bail!("`{}` failed ({})", show(command), done.status);
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Which stream of a child carries its report.
#[derive(Clone, Copy)]
pub(crate) enum Report {
    Stdout,
    Stderr,
}

/// Runs it with one stream both shown as it comes and returned.
pub(crate) fn tee(command: &mut Command, report: Report) -> Result<(ExitStatus, String)> {
    command.stdin(Stdio::null());
    match report {
        Report::Stdout => command.stdout(Stdio::piped()),
        Report::Stderr => command.stderr(Stdio::piped()),
    };
    let mut child = command.spawn().with_context(|| format!("cannot start `{}`", show(command)))?;
    let text = match report {
        Report::Stdout => child.stdout.take().map(|stream| copy(stream, std::io::stdout())),
        Report::Stderr => child.stderr.take().map(|stream| copy(stream, std::io::stderr())),
    };
    let status = child.wait().with_context(|| format!("cannot wait for `{}`", show(command)))?;
    Ok((status, text.transpose()?.unwrap_or_default()))
}

fn copy(from: impl Read, mut to: impl Write) -> Result<String> {
    let mut from = BufReader::new(from);
    let (mut all, mut line) = (String::new(), Vec::new());
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        all.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    to.flush()?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("some/where/cargo");
        command.args(["nextest", "run", "-E", "not binary_id(a::b)"]);
        assert_eq!(show(&command), "cargo nextest run -E 'not binary_id(a::b)'");
    }
}
