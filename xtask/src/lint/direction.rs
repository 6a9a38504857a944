//! Who may know whom: `core ← engine ← server ← landfall` and `core ← {store, chain, signer} ← landfall`.
//!
//! The table below is the rule. Ordinary and build dependencies must follow it; dev-dependencies are free, except
//! in core, whose tests must be as pure as its code.

use anyhow::Result;

use crate::process;
use crate::workspace::{Kind, Package, Workspace};

struct Rule {
    package: &'static str,
    /// The crates of this workspace that it may know.
    knows: &'static [&'static str],
    /// Crates from outside that it may not know.
    never: &'static [&'static [&'static str]],
    /// The same as a sentence, for the one who has just broken it.
    because: &'static str,
}

const PROVIDERS: &[&str] = &[
    "alloy",
    "alloy-network",
    "alloy-provider",
    "alloy-pubsub",
    "alloy-rpc-client",
    "alloy-transport",
    "alloy-transport-http",
    "alloy-transport-ipc",
    "alloy-transport-ws",
];
const DATABASES: &[&str] = &[
    "deadpool-postgres",
    "diesel",
    "libsqlite3-sys",
    "postgres",
    "redis",
    "rusqlite",
    "sqlx",
    "sqlx-core",
    "tokio-postgres",
];
const OUTSIDE_WORLD: &[&str] = &["axum", "hyper", "rand", "reqwest", "tokio"];

const RULES: &[Rule] = &[
    Rule {
        package: "landfall-core",
        knows: &[],
        never: &[PROVIDERS, DATABASES, OUTSIDE_WORLD],
        because: "core is pure: it knows no other crate of the workspace and does no I/O",
    },
    Rule {
        package: "landfall-engine",
        knows: &["landfall-core"],
        never: &[PROVIDERS, DATABASES],
        because: "the engine knows the ports in core only, and compiles without alloy's providers and any database",
    },
    Rule {
        package: "landfall-server",
        knows: &["landfall-core", "landfall-engine"],
        never: &[PROVIDERS, DATABASES],
        because: "the server knows the engine's handle and core's types; chains and stores are behind the ports",
    },
    Rule {
        package: "landfall-store",
        knows: &["landfall-core"],
        never: &[PROVIDERS],
        because: "an adapter knows only the ports in core",
    },
    Rule {
        package: "landfall-chain",
        knows: &["landfall-core"],
        never: &[DATABASES],
        because: "an adapter knows only the ports in core",
    },
    Rule {
        package: "landfall-signer",
        knows: &["landfall-core"],
        never: &[DATABASES],
        because: "an adapter knows only the ports in core",
    },
    Rule {
        package: "landfall-devchain",
        knows: &[],
        never: &[DATABASES],
        because: "the devchain stands for somebody else's node: it knows no crate of the workspace",
    },
    Rule {
        package: "landfall-sim",
        // Of the store only the memory adapter: `cargo tree` below sees that no database comes with it.
        knows: &["landfall-core", "landfall-engine", "landfall-store"],
        never: &[PROVIDERS, DATABASES],
        because: "the simulator runs the engine on the memory store and fakes of its own, without alloy's providers and any database",
    },
    Rule {
        package: "landfall-client",
        knows: &[],
        never: &[PROVIDERS, DATABASES],
        because: "a client knows the API from the outside, as a stranger's program does",
    },
    Rule {
        package: "landfall",
        knows: &[
            "landfall-client",
            "landfall-core",
            "landfall-engine",
            "landfall-server",
            "landfall-store",
            "landfall-chain",
            "landfall-signer",
            "landfall-devchain",
            "landfall-sim",
        ],
        never: &[],
        because: "the binary puts all together",
    },
    Rule {
        package: "landfall-pgtest",
        knows: &[],
        never: &[PROVIDERS, DATABASES],
        because: "it starts somebody else's database for tests: it knows no crate of the workspace",
    },
    Rule {
        package: "landfall-benches",
        knows: &["landfall-core", "landfall-server", "landfall-chain", "landfall-signer"],
        never: &[DATABASES],
        because: "the benchmarks measure pieces of the hot path, none of which needs a database",
    },
    Rule {
        package: "xtask",
        knows: &["landfall-pgtest"],
        never: &[],
        because: "the tools know the workspace from the outside",
    },
];

/// Complaints about what packages name in their manifests.
pub(crate) fn check(packages: &[Package]) -> Vec<String> {
    packages.iter().flat_map(|package| check_package(package, packages)).collect()
}

fn check_package(package: &Package, packages: &[Package]) -> Vec<String> {
    let Some(rule) = RULES.iter().find(|rule| rule.package == package.name) else {
        return vec![format!(
            "{} is not in the table of {}: add a row that says which crates it may know",
            package.name,
            file!()
        )];
    };
    let is_ours = |name: &str| packages.iter().any(|other| other.name == name);
    let mut complaints = Vec::new();
    for dependency in &package.dependencies {
        let name = dependency.name.as_str();
        if dependency.kind == Kind::Dev && (rule.package != "landfall-core" || !is_ours(name)) {
            continue;
        }
        let refused = is_ours(name) && !rule.knows.contains(&name);
        if refused || rule.never.iter().any(|group| group.contains(&name)) {
            complaints.push(format!("{} must not depend on {name}: {}", package.name, rule.because));
        }
    }
    complaints
}

/// Complaints about what the crates reach through others: a provider or a database compiles in all the same when
/// it is somebody else's dependency.
pub(crate) fn check_reach(workspace: &Workspace) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for package in ["landfall-core", "landfall-engine", "landfall-sim"] {
        if !workspace.packages.iter().any(|other| other.name == package) {
            continue;
        }
        let tree = process::output(
            process::cargo()
                .args(["tree", "--package", package, "--edges", "normal", "--prefix", "none"])
                .current_dir(&workspace.root),
        )?;
        complaints.extend(check_tree(package, &tree));
    }
    Ok(complaints)
}

fn check_tree(package: &str, tree: &str) -> Vec<String> {
    let mut found: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| PROVIDERS.contains(name) || DATABASES.contains(name))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
        .into_iter()
        .map(|name| {
            format!(
                "{package} compiles {name}, through another crate: it must build without alloy's providers and \
                 without any database (see `cargo tree --package {package} --invert {name}`)"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::workspace::Dependency;

    fn package(name: &str, dependencies: &[(&str, Kind)]) -> Package {
        Package {
            name: name.to_owned(),
            manifest_path: PathBuf::new(),
            dependencies: dependencies
                .iter()
                .map(|&(name, kind)| Dependency { name: name.to_owned(), kind })
                .collect(),
            targets: Vec::new(),
        }
    }

    /// Complaints about one package in a workspace that has all of them.
    fn complaints(name: &str, dependencies: &[(&str, Kind)]) -> Vec<String> {
        let all: Vec<Package> = RULES.iter().map(|rule| package(rule.package, &[])).collect();
        check_package(&package(name, dependencies), &all)
    }

    fn is_refused(name: &str, dependency: &str, kind: Kind) -> bool {
        !complaints(name, &[(dependency, kind)]).is_empty()
    }

    #[test]
    fn the_path_from_the_binary_down_to_core_is_allowed() {
        let allowed = [
            ("landfall", "landfall-server"),
            ("landfall", "landfall-store"),
            ("landfall", "landfall-devchain"),
            ("landfall-server", "landfall-engine"),
            ("landfall-server", "landfall-core"),
            ("landfall-engine", "landfall-core"),
            ("landfall-store", "landfall-core"),
            ("landfall-chain", "landfall-core"),
            ("landfall-signer", "landfall-core"),
            ("landfall-sim", "landfall-engine"),
            ("landfall-engine", "tokio"),
            ("landfall-store", "rusqlite"),
            ("landfall-chain", "alloy-rpc-client"),
        ];
        for (name, dependency) in allowed {
            assert!(!is_refused(name, dependency, Kind::Normal), "{name} -> {dependency}");
        }
    }

    #[test]
    fn every_step_against_the_direction_is_refused() {
        let refused = [
            ("landfall-core", "landfall-engine"),
            ("landfall-core", "tokio"),
            ("landfall-engine", "landfall-store"),
            ("landfall-engine", "landfall-server"),
            ("landfall-engine", "rusqlite"),
            ("landfall-engine", "alloy-provider"),
            ("landfall-server", "landfall-chain"),
            ("landfall-store", "landfall-engine"),
            ("landfall-store", "landfall-chain"),
            ("landfall-chain", "landfall-signer"),
            ("landfall-signer", "landfall-chain"),
            ("landfall-devchain", "landfall-core"),
            ("landfall-sim", "landfall-chain"),
            ("landfall-sim", "landfall-devchain"),
            ("xtask", "landfall-core"),
        ];
        for (name, dependency) in refused {
            assert!(is_refused(name, dependency, Kind::Normal), "{name} -> {dependency}");
            assert!(is_refused(name, dependency, Kind::Build), "{name} -> {dependency}");
        }
    }

    #[test]
    fn dev_dependencies_are_free_except_in_core() {
        assert!(!is_refused("landfall-chain", "landfall-devchain", Kind::Dev));
        assert!(!is_refused("landfall-engine", "landfall-store", Kind::Dev));
        assert!(is_refused("landfall-core", "landfall-store", Kind::Dev));
        assert!(!is_refused("landfall-core", "proptest", Kind::Dev));
        assert!(!is_refused("landfall-core", "rand", Kind::Dev));
    }

    #[test]
    fn a_complaint_names_both_crates_and_the_reason() {
        assert_eq!(
            complaints("landfall-store", &[("landfall-engine", Kind::Normal)]),
            ["landfall-store must not depend on landfall-engine: an adapter knows only the ports in core"]
        );
    }

    #[test]
    fn a_crate_without_a_row_is_refused() {
        let said = complaints("landfall-utils", &[]);
        assert!(said.len() == 1 && said[0].starts_with("landfall-utils is not in the table"), "{said:?}");
    }

    #[test]
    fn the_table_names_only_crates_that_have_a_row() {
        for rule in RULES {
            for name in rule.knows {
                assert!(RULES.iter().any(|other| other.package == *name), "{name}");
            }
        }
    }

    #[test]
    fn a_database_behind_another_crate_is_found() {
        let tree = "landfall-engine v0.1.0 (/somewhere)\nserde v1.0.0\nhelper v0.1.0\nrusqlite v0.41.0\nrusqlite v0.41.0 (*)\n";
        let said = check_tree("landfall-engine", tree);
        assert!(said.len() == 1 && said[0].starts_with("landfall-engine compiles rusqlite"), "{said:?}");
        assert!(check_tree("landfall-engine", "landfall-engine v0.1.0\nserde v1.0.0\n").is_empty());
    }
}
