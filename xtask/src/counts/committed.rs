//! The file that is held against: written by `cargo xtask counts --accept`, read by everything else here.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::workspace::Workspace;

pub(super) const FILE: &str = "crates/benches/instructions.toml";

const HEAD: &str = "\
# Instructions per transaction (text, signature, body) of each piece of the hot path, as counted by `cargo xtask counts`.
# `cargo xtask counts --accept` writes this file. What is more than 10 % above it fails the tests: docs/performance.md.

";

#[derive(Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Committed {
    /// Other machines have other instructions.
    pub(super) platform: String,
    /// Another compiler makes other code; told where it may explain a difference.
    pub(super) compiler: String,
    pub(super) cases: BTreeMap<String, u64>,
}

pub(super) fn platform() -> String {
    format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS)
}

impl Committed {
    pub(super) fn read(workspace: &Workspace) -> Result<Self> {
        let path = workspace.root.join(FILE);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
        toml::from_str(&text).with_context(|| format!("cannot read {FILE}"))
    }

    pub(super) fn write(&self, workspace: &Workspace) -> Result<()> {
        let text = format!("{HEAD}{}", toml::to_string(self).context("cannot write the numbers as TOML")?);
        std::fs::write(workspace.root.join(FILE), text).with_context(|| format!("cannot write {FILE}"))
    }

    /// Cases that are committed and were not counted.
    pub(super) fn without(&self, counted: &[(String, u64)]) -> Vec<String> {
        let is_counted = |name: &String| counted.iter().any(|(other, _)| other == name);
        self.cases.keys().filter(|name| !is_counted(name)).cloned().collect()
    }
}
