//! valgrind, which counts instructions: the machine's own, or Debian's package unpacked into the cache. It needs no root for
//! that, and the machine stays as it was.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Scratch, Tool};
use crate::process;

const VARIABLE: &str = "LANDFALL_VALGRIND";
const FOLDER: &str = "valgrind";
/// Unpacked elsewhere than it was built for, it must be told where its parts are.
const LAUNCHER: &str = "#!/bin/sh
here=$(dirname \"$0\")
VALGRIND_LIB=\"$here/usr/libexec/valgrind\" exec \"$here/usr/bin/valgrind.bin\" \"$@\"
";

pub(super) fn provide(cache: &Path) -> Result<Tool> {
    if let Some(given) = std::env::var_os(VARIABLE).filter(|given| !given.is_empty()) {
        let version = version_of(Path::new(&given))
            .with_context(|| format!("{VARIABLE} is set to something that does not run"))?;
        return Ok(tool(PathBuf::from(given), version));
    }
    let kept = cache.join(FOLDER).join("valgrind");
    for path in [PathBuf::from("valgrind"), kept.clone()] {
        if let Ok(version) = version_of(&path) {
            return Ok(tool(path, version));
        }
    }
    unpack(cache).with_context(|| {
        format!(
            "instructions are counted with valgrind, which is not on this machine and could not be fetched. Install your \
             system's package (`apt-get install valgrind` on Debian and Ubuntu), or set {VARIABLE} to the program"
        )
    })?;
    let version = version_of(&kept)?;
    Ok(tool(kept, version))
}

fn tool(path: PathBuf, version: String) -> Tool {
    Tool { variable: VARIABLE, value: path.into(), version, running: None }
}

fn version_of(path: &Path) -> Result<String> {
    Ok(process::output(Command::new(path).arg("--version"))?.trim().to_owned())
}

fn unpack(cache: &Path) -> Result<()> {
    println!("valgrind: not on this machine, unpacking Debian's package into {}", cache.display());
    let scratch = Scratch::new(cache, FOLDER)?;
    let download = |folder: &Path| {
        process::output(Command::new("apt-get").args(["download", "-qq", "valgrind"]).current_dir(folder))
    };
    // A fresh machine has no lists of packages; only root may fetch them.
    if download(&scratch.0).is_err() {
        process::output(Command::new("apt-get").args(["update", "-qq"]))?;
        download(&scratch.0)?;
    }
    let tree = scratch.0.join("tree");
    process::output(Command::new("dpkg").arg("-x").arg(package_in(&scratch.0)?).arg(&tree))?;
    let launcher = tree.join("valgrind");
    std::fs::write(&launcher, LAUNCHER).with_context(|| format!("cannot write {}", launcher.display()))?;
    process::output(Command::new("chmod").arg("755").arg(&launcher))?;
    version_of(&launcher)?;
    let kept = cache.join(FOLDER);
    std::fs::rename(&tree, &kept).with_context(|| format!("cannot move it to {}", kept.display()))
}

fn package_in(folder: &Path) -> Result<PathBuf> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            return Ok(path);
        }
    }
    bail!("apt-get left no package in {}", folder.display())
}
