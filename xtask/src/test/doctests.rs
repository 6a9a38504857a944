//! Which packages have examples in their doc comments. Asking rustdoc would mean to compile every crate once more.

use std::path::Path;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

pub(crate) fn packages(workspace: &Workspace) -> Result<Vec<&str>> {
    let mut with = Vec::new();
    for package in workspace.packages.iter().filter(|package| package.has_doctests()) {
        if any_in(&package.folder().join("src"))? {
            with.push(package.name.as_str());
        }
    }
    Ok(with)
}

fn any_in(folder: &Path) -> Result<bool> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let found = if path.is_dir() {
            any_in(&path)?
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            has_example(
                &std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?,
            )
        } else {
            false
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a doc comment holds a fence that rustdoc takes for Rust. A page that is included as documentation
/// counts as well, whatever is in it.
fn has_example(source: &str) -> bool {
    let mut inside = false;
    for line in source.lines().map(str::trim_start) {
        if line.contains("doc = include_str!(") {
            return true;
        }
        let Some(doc) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            inside = false;
            continue;
        };
        if let Some(language) = doc.trim().strip_prefix("```") {
            if !inside && is_rust(language) {
                return true;
            }
            inside = !inside;
        }
    }
    false
}

fn is_rust(language: &str) -> bool {
    language.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty()).all(|word| {
        matches!(word, "rust" | "no_run" | "should_panic" | "compile_fail" | "standalone_crate")
            || word.starts_with("edition")
            || word.starts_with("ignore")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fences_of_rust_in_doc_comments_are_examples() {
        let table = [
            ("/// ```\n/// assert!(true);\n/// ```\nfn f() {}", true),
            ("    //! ```no_run,edition2024\n    //! run();\n    //! ```", true),
            ("/// ```text\n/// a -> b\n/// ```\nfn f() {}", false),
            ("/// ```toml\n/// ```\n/// then\n/// ```json\n/// ```", false),
            ("// ```\n// not a doc comment\n// ```", false),
            ("#![doc = include_str!(\"../README.md\")]", true),
            ("fn f() {}", false),
        ];
        for (source, expected) in table {
            assert_eq!(has_example(source), expected, "{source}");
        }
    }
}
