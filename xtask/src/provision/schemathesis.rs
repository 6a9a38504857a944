//! schemathesis, which makes requests out of the OpenAPI document, from PyPI.
//!
//! Every package has its version in `schemathesis.txt`. They are put into a folder of their own, with a small program beside
//! them that finds them wherever the folder is.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Scratch, Tool};
use crate::process;

const VARIABLE: &str = "LANDFALL_SCHEMATHESIS";
const PACKAGES: &str = include_str!("schemathesis.txt");
const VERSION: &str = "4.32.5";
const PROGRAM: &str = "#!/bin/sh\n\
    here=$(dirname \"$0\")\n\
    PYTHONPATH=\"$here/lib\" exec python3 -m schemathesis.cli \"$@\"\n";

pub(super) fn provide(cache: &Path) -> Result<Tool> {
    if let Some(given) = std::env::var_os(VARIABLE).filter(|given| !given.is_empty()) {
        let version = version_of(Path::new(&given)).with_context(|| {
            format!(
                "{VARIABLE} is set to something that does not run; unset it to have schemathesis provided"
            )
        })?;
        return Ok(tool(PathBuf::from(given), version));
    }
    let folder = cache.join(format!("schemathesis-{VERSION}"));
    let kept = folder.join("st");
    if version_of(&kept).is_err() {
        install(cache, &folder)?;
    }
    let version = version_of(&kept)?;
    Ok(tool(kept, version))
}

fn tool(path: PathBuf, version: String) -> Tool {
    Tool { variable: VARIABLE, value: path.into(), version, running: None }
}

fn install(cache: &Path, folder: &Path) -> Result<()> {
    println!("schemathesis {VERSION}: not in {}, installing it with pip", cache.display());
    if process::output(Command::new("python3").args(["-m", "pip", "--version"])).is_err() {
        bail!(
            "the API is tested with schemathesis, which comes from PyPI, and python3 with pip does not run here. Install \
             Python 3.10 or newer with pip, or set {VARIABLE} to a schemathesis program"
        );
    }
    let scratch = Scratch::new(cache, "schemathesis")?;
    let whole = scratch.0.join("whole");
    std::fs::create_dir(&whole)?;
    let list = scratch.0.join("schemathesis.txt");
    std::fs::write(&list, PACKAGES)?;
    process::output(
        Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--target"])
            .arg(whole.join("lib"))
            .arg("--requirement")
            .arg(&list),
    )
    .context("cannot install schemathesis")?;
    let program = whole.join("st");
    std::fs::write(&program, PROGRAM)?;
    process::output(Command::new("chmod").arg("+x").arg(&program))?;
    version_of(&program)?;
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    std::fs::rename(&whole, folder)
        .with_context(|| format!("cannot move {} to {}", whole.display(), folder.display()))
}

/// Its one line, such as `st, version 4.32.5`.
fn version_of(program: &Path) -> Result<String> {
    Ok(process::output(Command::new(program).arg("--version"))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_has_its_version() {
        assert!(PACKAGES.lines().all(|line| line.split_once("==").is_some()), "{PACKAGES}");
        assert!(PACKAGES.lines().any(|line| line == format!("schemathesis=={VERSION}")));
    }
}
