//! Where the workspace is and what is in it, as `cargo metadata` tells.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process;

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Where built programs are.
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// How a package depends on another. Cargo writes the ordinary kind as null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<String>::deserialize(deserializer)?.as_deref() {
            None | Some("normal") => Ok(Self::Normal),
            Some("build") => Ok(Self::Build),
            Some("dev") => Ok(Self::Dev),
            Some(other) => Err(serde::de::Error::custom(format!("unknown kind of dependency `{other}`"))),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    pub(crate) doctest: bool,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        // The manifest's folder is known at run time through cargo; a built path would not survive a move.
        let here = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
        let text = process::output(
            process::cargo().args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(here),
        )?;
        let Metadata { packages, workspace_root, target_directory } =
            serde_json::from_str(&text).context("cannot read what `cargo metadata` says")?;
        Ok(Self { root: workspace_root, target: target_directory, packages })
    }

    /// Where provided tools are kept between runs.
    pub(crate) fn cache(&self) -> PathBuf {
        match std::env::var_os("LANDFALL_CACHE") {
            Some(folder) if !folder.is_empty() => self.root.join(folder),
            _ => self.root.join(".cache"),
        }
    }

    /// Whether a package has an integration test binary of this name.
    pub(crate) fn has_test_binary(&self, package: &str, name: &str) -> bool {
        self.packages
            .iter()
            .filter(|candidate| candidate.name == package)
            .any(|candidate| candidate.test_binaries().any(|binary| binary == name))
    }
}

impl Package {
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("."))
    }

    /// Names of its integration test binaries.
    pub(crate) fn test_binaries(&self) -> impl Iterator<Item = &str> {
        self.targets
            .iter()
            .filter(|target| target.kind.iter().any(|kind| kind == "test"))
            .map(|target| target.name.as_str())
    }

    pub(crate) fn has_doctests(&self) -> bool {
        self.targets.iter().any(|target| target.doctest)
    }
}
