//! Programs from PyPI: schemathesis, which makes requests out of the OpenAPI document, and kubernetes-validate, which knows the
//! schemas of Kubernetes.
//!
//! Every package has its version in a list. They are put into a folder of their own, with a small program beside them that
//! finds them wherever the folder is.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Scratch, Tool};
use crate::process;

/// A program and the packages it consists of.
pub(super) struct Program {
    name: &'static str,
    version: &'static str,
    variable: &'static str,
    /// Names and versions, one a line.
    packages: &'static str,
    /// The module that python runs.
    module: &'static str,
    /// The program's file in its folder.
    file: &'static str,
    what_for: &'static str,
}

pub(super) const SCHEMATHESIS: Program = Program {
    name: "schemathesis",
    version: "4.32.5",
    variable: "LANDFALL_SCHEMATHESIS",
    packages: include_str!("schemathesis.txt"),
    module: "schemathesis.cli",
    file: "st",
    what_for: "the API is tested with",
};

pub(super) const KUBERNETES_VALIDATE: Program = Program {
    name: "kubernetes-validate",
    version: "1.37.0",
    variable: "LANDFALL_KUBERNETES_VALIDATE",
    packages: include_str!("kubernetes-validate.txt"),
    module: "kubernetes_validate",
    file: "kubernetes-validate",
    what_for: "the files for Kubernetes are checked with",
};

pub(super) fn provide(program: &Program, cache: &Path) -> Result<Tool> {
    let Program { name, version, variable, .. } = program;
    let tool = |path: PathBuf, version| Tool {
        variable: program.variable,
        value: path.into(),
        version,
        running: None,
    };
    if let Some(given) = std::env::var_os(variable).filter(|given| !given.is_empty()) {
        let version = version_of(Path::new(&given)).with_context(|| {
            format!("{variable} is set to something that does not run; unset it to have {name} provided")
        })?;
        return Ok(tool(PathBuf::from(given), version));
    }
    let folder = cache.join(format!("{name}-{version}"));
    let kept = folder.join(program.file);
    if version_of(&kept).is_err() {
        install(program, cache, &folder)?;
    }
    let version = version_of(&kept)?;
    Ok(tool(kept, version))
}

fn install(program: &Program, cache: &Path, folder: &Path) -> Result<()> {
    let Program { name, version, variable, what_for, .. } = program;
    println!("{name} {version}: not in {}, installing it with pip", cache.display());
    if process::output(Command::new("python3").args(["-m", "pip", "--version"])).is_err() {
        bail!(
            "{what_for} {name}, which comes from PyPI, and python3 with pip does not run here. Install Python 3.10 or newer with \
             pip, or set {variable} to the program"
        );
    }
    let scratch = Scratch::new(cache, name)?;
    let whole = scratch.0.join("whole");
    std::fs::create_dir(&whole)?;
    let list = scratch.0.join("packages.txt");
    std::fs::write(&list, program.packages)?;
    process::output(
        Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--target"])
            .arg(whole.join("lib"))
            .arg("--requirement")
            .arg(&list),
    )
    .with_context(|| format!("cannot install {name}"))?;
    let launcher = whole.join(program.file);
    std::fs::write(&launcher, script(program))?;
    process::output(Command::new("chmod").arg("+x").arg(&launcher))?;
    version_of(&launcher)?;
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    std::fs::rename(&whole, folder)
        .with_context(|| format!("cannot move {} to {}", whole.display(), folder.display()))
}

fn script(program: &Program) -> String {
    format!(
        "#!/bin/sh\nhere=$(dirname \"$0\")\nPYTHONPATH=\"$here/lib\" exec python3 -m {} \"$@\"\n",
        program.module
    )
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
        for Program { name, version, packages, .. } in [SCHEMATHESIS, KUBERNETES_VALIDATE] {
            assert!(packages.lines().all(|line| line.split_once("==").is_some()), "{packages}");
            assert!(packages.lines().any(|line| line == format!("{name}=={version}")), "{name}");
        }
    }
}
