//! Dependencies: their licences, where they come from, and versions that say "any". The rules are in `deny.toml`.
//!
//! `cargo deny` reads the same file and knows more, above all advisories; building it takes minutes, so it is used where it
//! is installed. What can be told from `cargo metadata` is checked here in any case, and what was not checked is said.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::licence;
use crate::process;
use crate::workspace::Workspace;

/// The keys of `deny.toml` that are read here.
#[derive(Deserialize)]
struct Rules {
    licenses: Licences,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

/// The answer of `cargo metadata` about everything that `Cargo.lock` names.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// None for a crate of this workspace.
    source: Option<String>,
    dependencies: Vec<Wish>,
}

/// A dependency as a manifest asks for it.
#[derive(Deserialize)]
struct Wish {
    name: String,
    req: String,
    /// A folder.
    path: Option<PathBuf>,
}

pub(super) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let file = workspace.root.join("deny.toml");
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let rules: Rules = toml::from_str(&text).context("cannot read deny.toml")?;
    let text = process::output(
        process::cargo().args(["metadata", "--locked", "--format-version", "1"]).current_dir(&workspace.root),
    )?;
    let metadata: Metadata = serde_json::from_str(&text).context("cannot read what `cargo metadata` says")?;
    let mut complaints = judge(&rules, &metadata.packages);
    let twice = several_versions(&metadata.packages);
    if twice > 0 {
        println!("notice: {twice} crates are there in several versions (`cargo tree --duplicates`)");
    }
    complaints.extend(by_cargo_deny(&workspace.root)?);
    Ok(complaints)
}

fn judge(rules: &Rules, packages: &[Package]) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in packages {
        let Package { name, version, license, source, dependencies } = package;
        if let Some(source) = source {
            let is_known = |registry: &String| source.strip_prefix("registry+") == Some(registry.as_str());
            if !rules.sources.allow_registry.iter().any(is_known) {
                complaints.push(format!(
                    "{name} {version} comes from {source}; only crates.io is allowed (deny.toml, [sources]): nobody else keeps what \
                     was published unchanged"
                ));
            }
        } else {
            let any = dependencies.iter().filter(|wish| wish.path.is_none() && wish.req.trim() == "*");
            complaints.extend(any.map(|wish| {
                format!("{name} takes any version of {}: name the oldest that will do", wish.name)
            }));
        }
        let exception = |allowed: &str| {
            let of = rules.licenses.exceptions.iter().filter(|exception| exception.name == *name);
            of.flat_map(|exception| &exception.allow).any(|licence| licence == allowed)
        };
        let is_allowed =
            |one: &str| rules.licenses.allow.iter().any(|licence| licence == one) || exception(one);
        let complaint = match license.as_deref().map(|text| (text, licence::is_met(text, &is_allowed))) {
            Some((_, Ok(true))) => continue,
            Some((text, Ok(false))) => format!("is under `{text}`, which deny.toml does not allow"),
            Some((text, Err(why))) => format!("has a licence that cannot be read, `{text}`: {why:#}"),
            None => "names no licence".to_owned(),
        };
        complaints.push(format!(
            "{name} {version} {complaint}: do without it, or allow it in deny.toml with a reason"
        ));
    }
    complaints
}

fn several_versions(packages: &[Package]) -> usize {
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for package in packages {
        *versions.entry(&package.name).or_default() += 1;
    }
    versions.values().filter(|count| **count > 1).count()
}

/// The tool's own look at the same rules, and at advisories where it has a copy of them.
fn by_cargo_deny(root: &Path) -> Result<Vec<String>> {
    let deny = |arguments: &[&str]| {
        let mut command = process::cargo();
        command.arg("deny").args(arguments).current_dir(root);
        command
    };
    if process::output(&mut deny(&["--version"])).is_err() {
        println!(
            "notice: advisories were not checked: cargo-deny is not installed (`cargo install cargo-deny --locked`). Licences, sources \
             and versions were"
        );
        return Ok(Vec::new());
    }
    let mut complaints = Vec::new();
    let mut look = |arguments: &[&str], advice: &str| -> Result<()> {
        let mut command = deny(arguments);
        println!("$ {}", process::show(&command));
        if !process::status(&mut command)?.success() {
            complaints.push(format!("cargo deny refuses; {advice}"));
        }
        Ok(())
    };
    look(
        &["check", "licenses", "sources", "bans"],
        "mend what it names above, or say in deny.toml why it may stay",
    )?;
    // A copy of the advisories that cannot be fetched is no fault of the tree.
    match process::output(&mut deny(&["fetch", "db"])) {
        Ok(_) => look(
            &["check", "--disable-fetch", "advisories"],
            "take a newer version of what it names, or say in deny.toml why it does no harm here",
        )?,
        Err(error) => {
            println!("notice: advisories were not checked: their database could not be fetched ({error:#})");
        }
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

    fn rules() -> Rules {
        toml::from_str(include_str!("../../../deny.toml")).unwrap()
    }

    fn package(name: &str, license: Option<&str>, source: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: license.map(str::to_owned),
            source: source.map(str::to_owned),
            dependencies: Vec::new(),
        }
    }

    #[test]
    fn a_crate_from_crates_io_under_a_free_licence_is_taken() {
        let packages = [
            package("a", Some("MIT OR Apache-2.0"), Some(INDEX)),
            package("b", Some("(MIT OR GPL-3.0-only) AND Unicode-3.0"), Some(INDEX)),
            package("landfall", Some("MIT OR Apache-2.0"), None),
        ];
        assert_eq!(judge(&rules(), &packages), [""; 0]);
    }

    #[test]
    fn a_crate_under_a_licence_that_is_not_listed_or_none_is_refused() {
        for (license, what) in [
            (Some("AGPL-3.0-only"), "is under `AGPL-3.0-only`"),
            (Some("MIT AND SSPL-1.0"), "is under"),
            (Some("see the file"), "cannot be read"),
            (None, "names no licence"),
        ] {
            let complaints = judge(&rules(), &[package("a", license, Some(INDEX))]);
            assert!(complaints.len() == 1 && complaints[0].contains(what), "{complaints:?}");
        }
    }

    #[test]
    fn an_exception_is_for_its_crate_alone() {
        let of = |name| judge(&rules(), &[package(name, Some("CDDL-1.0"), Some(INDEX))]).len();
        assert_eq!((of("inferno"), of("another")), (0, 1));
    }

    #[test]
    fn a_crate_from_a_repository_a_mirror_or_another_registry_is_refused() {
        for source in [
            "git+https://github.com/example/example?branch=main#0123",
            "registry+https://crates.example/index",
            "registry+https://github.com/rust-lang/crates.io-index.example/",
            "sparse+https://index.example/",
        ] {
            let complaints = judge(&rules(), &[package("a", Some("MIT"), Some(source))]);
            assert!(complaints.len() == 1 && complaints[0].contains("only crates.io"), "{complaints:?}");
        }
    }

    #[test]
    fn any_version_is_asked_for_of_folders_only() {
        let wish = |req: &str, path: Option<&str>| Wish {
            name: "b".to_owned(),
            req: req.to_owned(),
            path: path.map(PathBuf::from),
        };
        let mut ours = package("landfall", Some("MIT"), None);
        ours.dependencies = vec![wish("*", Some("crates/b")), wish("^1.2", None)];
        assert_eq!(judge(&rules(), std::slice::from_ref(&ours)), [""; 0]);
        ours.dependencies = vec![wish("*", None)];
        assert!(judge(&rules(), &[ours])[0].contains("any version of b"));
    }

    #[test]
    fn crates_in_several_versions_are_counted_once() {
        let packages = [package("a", None, None), package("a", None, None), package("b", None, None)];
        assert_eq!(several_versions(&packages), 1);
    }
}
