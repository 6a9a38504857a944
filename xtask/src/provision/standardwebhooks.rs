//! The public Standard Webhooks library for Node.js: receivers in the tests verify signatures with it, not with ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Scratch, Tool};
use crate::process;

const VARIABLE: &str = "LANDFALL_STANDARDWEBHOOKS";
const PACKAGE: &str = "standardwebhooks";
const VERSION: &str = "1.1.1";

pub(super) fn provide(cache: &Path) -> Result<Tool> {
    if let Some(given) = std::env::var_os(VARIABLE).filter(|given| !given.is_empty()) {
        let version = version_of(Path::new(&given)).with_context(|| {
            format!("{VARIABLE} names a folder without {PACKAGE} in it; unset it to have it provided")
        })?;
        return Ok(tool(PathBuf::from(given), version));
    }
    let kept = cache.join(format!("{PACKAGE}-{VERSION}"));
    if version_of(&kept).is_ok_and(|version| version == VERSION) {
        return Ok(tool(kept, VERSION.to_owned()));
    }
    install(cache, &kept)?;
    let version = version_of(&kept)?;
    Ok(tool(kept, version))
}

fn tool(path: PathBuf, version: String) -> Tool {
    Tool { variable: VARIABLE, value: path.into(), version, running: None }
}

fn install(cache: &Path, kept: &Path) -> Result<()> {
    println!("{PACKAGE} {VERSION}: not in {}, installing it with npm", cache.display());
    let npm = || Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
    if process::output(npm().arg("--version")).is_err() {
        bail!(
            "the tests verify webhooks with {PACKAGE} for Node.js, and npm does not run here. Install Node.js 18 or newer \
             (npm comes with it)"
        );
    }
    let scratch = Scratch::new(cache, PACKAGE)?;
    let folder = scratch.0.join("whole");
    std::fs::create_dir(&folder)?;
    // npm looks for the nearest package.json upwards: this one keeps it inside.
    std::fs::write(folder.join("package.json"), "{\"private\":true}\n")?;
    process::output(
        npm()
            .args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"])
            .args(["--loglevel=error", "--prefix"])
            .arg(&folder)
            .arg(format!("{PACKAGE}@{VERSION}"))
            .current_dir(&folder),
    )
    .with_context(|| format!("cannot install {PACKAGE} {VERSION}"))?;
    let version = version_of(&folder)?;
    if version != VERSION {
        bail!("{PACKAGE} {VERSION} brought another version: {version}");
    }
    match std::fs::rename(&folder, kept) {
        // Another run was faster.
        Err(_) if version_of(kept).is_ok_and(|version| version == VERSION) => Ok(()),
        renamed => renamed.with_context(|| format!("cannot move {} to {}", folder.display(), kept.display())),
    }
}

/// What the package says of itself, once it can be loaded.
fn version_of(folder: &Path) -> Result<String> {
    let script = format!(
        "const path = require('path').join(process.argv[1], 'node_modules', '{PACKAGE}'); new (require(path).Webhook)('dGVzdA=='); \
         console.log(JSON.parse(require('fs').readFileSync(require('path').join(path, 'package.json'))).version)"
    );
    let text = process::output(Command::new("node").arg("-e").arg(script).arg(folder))?;
    Ok(text.trim().to_owned())
}
