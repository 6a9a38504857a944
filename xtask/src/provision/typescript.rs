//! What the TypeScript client is made and checked with: the packages of its lock file, beside it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Tool;
use crate::process;

const VARIABLE: &str = "LANDFALL_TYPESCRIPT";

pub(super) fn provide(root: &Path) -> Result<Tool> {
    let folder = root.join("clients").join("typescript");
    let lock =
        std::fs::read(folder.join("package-lock.json")).context("cannot read the client's lock file")?;
    // A copy of the lock that was installed last: written at the end, so an interrupted installation has none.
    let installed = folder.join("node_modules").join(".landfall-lock");
    if std::fs::read(&installed).ok().as_ref() != Some(&lock) {
        println!("the TypeScript client: installing what its lock file names, with npm");
        let npm = Command::new(if cfg!(windows) { OsStr::new("npm.cmd") } else { OsStr::new("npm") });
        install(npm, &folder)?;
        std::fs::write(&installed, &lock).with_context(|| format!("cannot write {}", installed.display()))?;
    }
    let mut tsc = Command::new("node");
    tsc.arg(folder.join("node_modules/typescript/bin/tsc")).arg("--version");
    let version = format!("TypeScript {}", process::output(&mut tsc)?.trim());
    Ok(Tool { variable: VARIABLE, value: folder.into(), version, running: None })
}

fn install(mut npm: Command, folder: &Path) -> Result<()> {
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]).current_dir(folder);
    if let Err(error) = process::output(&mut npm) {
        bail!(
            "the TypeScript client's packages could not be installed (Node.js 18 or newer with npm is needed): {error:#}"
        );
    }
    Ok(())
}
