//! What must not be in any tracked file: tests marked as ignored, paths of one machine, hosts of private package
//! registries. Files that grew long are named, as a notice.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

// Written in two parts, so that this file does not find itself.
const IGNORE: &str = concat!("#[", "ignore");
const MACHINE_PATHS: [&str; 3] = [concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/")];

/// Words by which hosts of package registries can be told.
const REGISTRY_WORDS: [&str; 6] = ["registry", "artifactory", "nexus", "verdaccio", "mirror", "pypi"];
const PUBLIC_REGISTRIES: [&str; 2] = ["registry.npmjs.org", "pypi.org"];
const PUBLIC_CRATES: &str = "registry+https://github.com/rust-lang/crates.io-index";

const LONG: usize = 600;

pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let listed = process::output(
        Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&workspace.root),
    )?;
    let mut complaints = Vec::new();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        // Not there: deleted, not yet committed. Not text: nothing to read.
        let Ok(text) = std::fs::read_to_string(workspace.root.join(name)) else { continue };
        complaints.extend(check_file(name, &text));
        let lines = text.lines().count();
        if lines > LONG && is_written_by_hand(name) {
            println!("notice: {name} has {lines} lines; above {LONG} it is time to split it");
        }
    }
    Ok(complaints)
}

fn check_file(name: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut complain = |sentence: String| complaints.push(format!("{name}:{number}: {sentence}"));
        if name.ends_with(".rs") && line.contains(IGNORE) {
            complain("no test is ignored: make it run, or delete it".to_owned());
        }
        for path in MACHINE_PATHS {
            if has_path(line, path) {
                complain(format!("`{path}` is a path of one machine: use a relative one, or a variable"));
            }
        }
        if let Some(host) = private_registry(line) {
            complain(format!("`{host}` looks like a package registry of one machine: it is not needed here"));
        }
        if name.ends_with("Cargo.lock") && is_foreign_source(line) {
            complain(format!("a crate that does not come from crates.io: {}", line.trim()));
        }
    }
    complaints
}

/// Whether a path starts here: `/x/` at the beginning of a word, not inside of a longer path or address.
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        line[..at]
            .chars()
            .next_back()
            .is_none_or(|before| !before.is_alphanumeric() && !"._-~}/*".contains(before))
            || line[..at].ends_with("file://")
    })
}

/// The host of an address that names a package registry which is not public.
fn private_registry(line: &str) -> Option<&str> {
    line.match_indices("://").find_map(|(at, mark)| {
        let rest = &line[at + mark.len()..];
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && !".-_@:".contains(letter));
        let authority = &rest[..end.unwrap_or(rest.len())];
        let host = authority.rsplit('@').next().unwrap_or(authority).split(':').next().unwrap_or(authority);
        let suspicious = REGISTRY_WORDS.iter().any(|word| host.contains(word));
        (suspicious && !PUBLIC_REGISTRIES.contains(&host)).then_some(host)
    })
}

fn is_foreign_source(line: &str) -> bool {
    line.strip_prefix("source = ").is_some_and(|source| source.trim_matches('"') != PUBLIC_CRATES)
}

fn is_written_by_hand(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    matches!(extension, "rs" | "ts" | "tsx" | "js" | "css" | "html" | "sql" | "sh" | "proto" | "md")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(name: &str, line: &str) -> bool {
        !check_file(name, line).is_empty()
    }

    #[test]
    fn an_ignored_test_is_refused() {
        assert!(is_refused("crates/core/src/fee.rs", &format!("    {IGNORE} = \"slow\"]")));
        assert!(is_refused("crates/core/src/fee.rs", &format!("    {IGNORE}]")));
        assert!(!is_refused("docs/tests.md", &format!("never write `{IGNORE}]`")));
    }

    #[test]
    fn paths_of_one_machine_are_refused_and_ordinary_ones_are_not() {
        for path in MACHINE_PATHS {
            assert!(is_refused("a.toml", &format!("dir = \"{path}x\"")), "{path}");
            assert!(is_refused("a.md", &format!("{path}x")), "{path}");
            assert!(is_refused("a.md", &format!("see file://{path}x")), "{path}");
            assert!(!is_refused("a.md", &format!("see https://example.org{path}x")), "{path}");
            assert!(!is_refused("a.md", &format!("crates{path}x")), "{path}");
        }
    }

    #[test]
    fn hosts_of_private_registries_are_refused_and_public_ones_are_not() {
        assert!(is_refused(
            "package-lock.json",
            concat!("\"resolved\": \"https:", "//npm-registry.corp.example/a/-/a-1.tgz\"")
        ));
        assert!(is_refused(
            "a.toml",
            concat!("index = \"sparse+http:", "//user:word@nexus.example:8081/crates/\"")
        ));
        assert!(!is_refused("package-lock.json", "\"resolved\": \"https://registry.npmjs.org/a/-/a-1.tgz\""));
        assert!(!is_refused("a.md", "see https://docs.rs/registry/latest"));
    }

    #[test]
    fn the_lock_file_names_only_crates_of_the_public_registry() {
        assert!(!is_refused("Cargo.lock", &format!("source = \"{PUBLIC_CRATES}\"")));
        assert!(is_refused("Cargo.lock", "source = \"git+https://example.org/a.git#1234\""));
    }
}
