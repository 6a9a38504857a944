//! Every crate takes the workspace's lints. One that forgets is free of all of them, in silence.

use anyhow::{Context, Result};

use crate::workspace::Workspace;

pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for package in &workspace.packages {
        let path = &package.manifest_path;
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        if !takes_workspace_lints(&text).with_context(|| format!("cannot parse {}", path.display()))? {
            complaints.push(format!(
                "{} does not take the workspace's lints: add `[lints]` with `workspace = true` to its Cargo.toml",
                package.name
            ));
        }
    }
    Ok(complaints)
}

fn takes_workspace_lints(manifest: &str) -> Result<bool> {
    let manifest: toml::Table = manifest.parse()?;
    let value = manifest.get("lints").and_then(|lints| lints.get("workspace"));
    Ok(value.and_then(toml::Value::as_bool) == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_explicit_true_is_an_opt_in() {
        assert!(takes_workspace_lints("[package]\nname = \"a\"\n[lints]\nworkspace = true\n").unwrap());
        assert!(takes_workspace_lints("lints.workspace = true").unwrap());
        assert!(!takes_workspace_lints("[lints]\nworkspace = false").unwrap());
        assert!(!takes_workspace_lints("[lints.rust]\nunsafe_code = \"forbid\"").unwrap());
        assert!(!takes_workspace_lints("[package]\nname = \"a\"").unwrap());
    }
}
