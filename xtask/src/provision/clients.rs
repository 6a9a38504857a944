//! The client libraries that the programs in `examples/` use: from npm and PyPI, in the versions of their lock files; and
//! cast, from its npm package.
//!
//! They are installed beside copies of those files, in a folder named after what the files say, so that a new version is
//! a new folder.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Scratch, Tool};
use crate::process;

const VARIABLE: &str = "LANDFALL_CLIENTS";
const FILES: [&str; 3] = ["package.json", "package-lock.json", "requirements.txt"];
const CAST: &str = "@foundry-rs/cast@1.7.1";
/// Written last: what has it is whole.
const WHOLE: &str = "whole";

pub(super) fn provide(root: &Path, cache: &Path) -> Result<Tool> {
    let examples = root.join("examples");
    let version = version(&examples)?;
    let kept = cache.join(format!("clients-{version}"));
    let tool = |version| Tool { variable: VARIABLE, value: kept.clone().into(), version, running: None };
    if kept.join(WHOLE).is_file() {
        return Ok(tool(version));
    }
    println!("client libraries: not in {}, installing them with npm and pip", cache.display());
    let scratch = Scratch::new(cache, "clients")?;
    for file in FILES {
        std::fs::copy(examples.join(file), scratch.0.join(file))?;
    }
    let npm = if cfg!(windows) { OsStr::new("npm.cmd") } else { OsStr::new("npm") };
    process::output(
        Command::new(npm)
            .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"])
            .current_dir(&scratch.0),
    )
    .context("cannot install the npm packages of examples/package-lock.json")?;
    // Its programs are packages per platform, and a lock file made on one does not name those of the others.
    let cast = scratch.0.join("cast");
    std::fs::create_dir(&cast)?;
    std::fs::write(cast.join("package.json"), "{\"private\":true}\n")?;
    process::output(
        Command::new(npm)
            .args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"])
            .args(["--loglevel=error", "--prefix"])
            .arg(&cast)
            .arg(CAST)
            .current_dir(&cast),
    )
    .with_context(|| format!("cannot install {CAST}"))?;
    // A Python environment would name the folder it was made in; a plain folder of packages can be moved.
    let target = scratch.0.join("python");
    process::output(
        Command::new("python3")
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-input",
                "--no-deps",
            ])
            .args(["--only-binary", ":all:", "--requirement", "requirements.txt", "--target"])
            .arg(&target)
            .current_dir(&scratch.0),
    )
    .context("cannot install the Python packages of examples/requirements.txt; python3 with pip is needed")?;
    std::fs::write(scratch.0.join(WHOLE), "")?;
    // Another run may have been faster; what it made is the same.
    if !kept.join(WHOLE).is_file() {
        std::fs::rename(&scratch.0, &kept)
            .with_context(|| format!("cannot move the client libraries to {}", kept.display()))?;
        // What is dropped is to find its folder.
        std::fs::create_dir_all(&scratch.0)?;
    }
    Ok(tool(version))
}

/// A short word for what the lock files say.
fn version(examples: &Path) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    CAST.hash(&mut hasher);
    for file in FILES {
        let path = examples.join(file);
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}
