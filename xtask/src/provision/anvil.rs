//! anvil, the development node of Foundry, from its npm package.
//!
//! The package itself is a launcher; the program is in a package per platform that npm picks as an optional
//! dependency. Only the program is kept.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Scratch, Tool};
use crate::process;

const VARIABLE: &str = "LANDFALL_ANVIL";
const PACKAGE: &str = "@foundry-rs/anvil";
const VERSION: &str = "1.7.1";

pub(super) fn provide(cache: &Path) -> Result<Tool> {
    if let Some(given) = std::env::var_os(VARIABLE).filter(|given| !given.is_empty()) {
        let version = version_of(Path::new(&given)).with_context(|| {
            format!("{VARIABLE} is set to something that does not run; unset it to have anvil provided")
        })?;
        return Ok(tool(PathBuf::from(given), version));
    }
    let kept = cache.join(format!("anvil-{VERSION}")).join(file_name());
    if let Ok(version) = version_of(&kept)
        && is_pinned(&version)
    {
        return Ok(tool(kept, version));
    }
    install(cache, &kept)?;
    let version = version_of(&kept)?;
    Ok(tool(kept, version))
}

fn tool(path: PathBuf, version: String) -> Tool {
    Tool { variable: VARIABLE, value: path.into(), version, running: None }
}

fn install(cache: &Path, kept: &Path) -> Result<()> {
    println!("anvil {VERSION}: not in {}, installing {PACKAGE} with npm", cache.display());
    if process::output(npm().arg("--version")).is_err() {
        bail!(
            "the tests run against anvil, which comes as an npm package, and npm does not run here. \
             Install Node.js 18 or newer (npm comes with it), or install Foundry and set {VARIABLE} to its anvil"
        );
    }
    let scratch = Scratch::new(cache, "anvil")?;
    // npm looks for the nearest package.json upwards: this one keeps it inside.
    std::fs::write(scratch.0.join("package.json"), "{\"private\":true}\n")?;
    process::output(
        npm()
            .args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"])
            .args(["--loglevel=error", "--prefix"])
            .arg(&scratch.0)
            .arg(format!("{PACKAGE}@{VERSION}"))
            .current_dir(&scratch.0),
    )
    .with_context(|| format!("cannot install {PACKAGE} {VERSION}"))?;
    let program = find(&scratch.0.join("node_modules").join("@foundry-rs"))?;
    let version = version_of(&program)?;
    if !is_pinned(&version) {
        bail!("{PACKAGE} {VERSION} brought another version: {version}");
    }
    if let Some(folder) = kept.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    std::fs::rename(&program, kept)
        .with_context(|| format!("cannot move {} to {}", program.display(), kept.display()))
}

/// The program inside the one platform package that npm chose.
fn find(scope: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(scope).with_context(|| format!("cannot read {}", scope.display()))?;
    for entry in entries {
        let program = entry?.path().join("bin").join(file_name());
        if program.is_file() {
            return Ok(program);
        }
    }
    bail!(
        "{PACKAGE} {VERSION} has no program for this platform ({} {}); set {VARIABLE} to an anvil that runs here",
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}

/// Its first line, such as `anvil Version: 1.7.1`.
fn version_of(program: &Path) -> Result<String> {
    let text = process::output(Command::new(program).arg("--version"))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

fn is_pinned(version: &str) -> bool {
    version.split([' ', '-', '+']).any(|word| word == VERSION)
}

fn npm() -> Command {
    Command::new(if cfg!(windows) { OsStr::new("npm.cmd") } else { OsStr::new("npm") })
}

fn file_name() -> String {
    format!("anvil{}", std::env::consts::EXE_SUFFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pinned_version_counts() {
        assert!(is_pinned(&format!("anvil Version: {VERSION}")));
        assert!(is_pinned(&format!("anvil Version: {VERSION}-stable")));
        assert!(!is_pinned(&format!("anvil Version: {VERSION}1")));
        assert!(!is_pinned("anvil Version: 0.3.0"));
    }

    #[test]
    fn the_program_is_found_in_the_platform_package() {
        let root = std::env::temp_dir().join(format!("xtask-anvil-{}", std::process::id()));
        let package = root.join("anvil-some-platform").join("bin");
        std::fs::create_dir_all(root.join("anvil")).unwrap();
        std::fs::create_dir_all(&package).unwrap();
        assert!(find(&root).is_err());
        std::fs::write(package.join(file_name()), "").unwrap();
        assert_eq!(find(&root).unwrap(), package.join(file_name()));
        std::fs::remove_dir_all(root).unwrap();
    }
}
