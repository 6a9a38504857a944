//! Links in pages: every relative one leads to a file that is there, and every anchor to a heading of it. No network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let listed = process::output(
        Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"])
            .current_dir(&workspace.root),
    )?;
    let mut pages = BTreeMap::new();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        // Not there: deleted, not yet committed.
        let Ok(text) = std::fs::read_to_string(workspace.root.join(name)) else { continue };
        pages.insert(PathBuf::from(name), text);
    }
    Ok(complaints(&pages, &|file| workspace.root.join(file).exists()))
}

fn complaints(pages: &BTreeMap<PathBuf, String>, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let anchors: BTreeMap<&PathBuf, BTreeSet<String>> =
        pages.iter().map(|(name, text)| (name, anchors(text))).collect();
    let mut complaints = Vec::new();
    for (page, text) in pages {
        for (line, link) in links(text) {
            let (file, anchor) =
                link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { Some(page.clone()) } else { beside(page, file) };
            let shown = format!("{}:{line}: the link {link}", page.display());
            let Some(target) = target else {
                complaints.push(format!("{shown} leads out of the repository"));
                continue;
            };
            if !exists(&target) {
                complaints.push(format!("{shown} leads to {}, which is not there", target.display()));
            } else if let (Some(anchor), Some(known)) = (anchor, anchors.get(&target))
                && !known.contains(anchor)
            {
                complaints.push(format!("{shown} names no heading of {}", target.display()));
            }
        }
    }
    complaints
}

/// The lines of a page that are not in a block of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !fence && !in_code
    })
}

/// Targets of `[text](target)` and `[text]: target` that lead to files, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line;
        while let Some(at) = rest.find("](") {
            let code = rest[..at].matches('`').count() % 2 == 1;
            rest = &rest[at + 2..];
            let end = rest.find([')', ' ']).unwrap_or(rest.len());
            if !code {
                found.push((number, &rest[..end]));
            }
        }
        if let Some((_, target)) = line.split_once("]: ").filter(|_| line.starts_with('[')) {
            found.push((number, target.trim()));
        }
    }
    found.retain(|(_, link)| !link.contains("://") && !link.starts_with("mailto:"));
    found
}

/// A file by its path from a page; none if that leads out of the repository.
fn beside(page: &Path, link: &str) -> Option<PathBuf> {
    let mut path = page.parent()?.to_path_buf();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            Component::Normal(name) => path.push(name),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text).filter(|(_, line)| line.starts_with('#')) {
        let plain = anchor(line.trim_start_matches('#').trim());
        let mut name = plain.clone();
        for number in 1.. {
            if anchors.insert(name.clone()) {
                break;
            }
            name = format!("{plain}-{number}");
        }
    }
    anchors
}

/// Lower case; of signs only `-` and `_` stay; spaces become `-`. Of a link, its text counts.
fn anchor(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    let kept = |letter: char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    text.to_lowercase()
        .chars()
        .filter(|letter| kept(*letter))
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(pages: &[(&str, &str)]) -> BTreeMap<PathBuf, String> {
        pages.iter().map(|(name, text)| (PathBuf::from(name), (*text).to_owned())).collect()
    }

    fn check(all: &[(&str, &str)]) -> Vec<String> {
        let known = pages(all);
        complaints(&known, &|file| known.contains_key(file) || file == Path::new("src/lib.rs"))
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let found = check(&[
            (
                "README.md",
                "# One\n[a](docs/a.md#the-second-part) [b](src/lib.rs) [web](https://x.example/#y) [here](#one)",
            ),
            (
                "docs/a.md",
                "## The `second` part\n[up](../README.md), `[no](link.md)`\n```\n[code](nowhere.md)\n# no heading\n```\n[r]: a.md",
            ),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_missing_file_a_missing_heading_and_a_way_out_are_named() {
        let found = check(&[
            ("README.md", "# One\n\n[a](docs/b.md) and [b](docs/a.md#nothing)"),
            ("docs/a.md", "# A\n[out](../../else.md)\n[here](#b)\n[r]: gone.md"),
        ]);
        assert_eq!(found.len(), 5, "{found:#?}");
        assert!(found[0].starts_with("README.md:3: the link docs/b.md leads to docs/b.md"), "{found:?}");
        assert!(found[1].contains("docs/a.md#nothing names no heading"), "{found:?}");
        assert!(found[2].contains("out of the repository"), "{found:?}");
    }

    #[test]
    fn headings_are_named_as_the_web_page_names_them() {
        for (heading, name) in [
            ("`GET /api/v1/tx`", "get-apiv1tx"),
            ("What only Landfall has", "what-only-landfall-has"),
            ("How transactions end, without success", "how-transactions-end-without-success"),
            ("See [the page](x.md) & more", "see-the-page--more"),
            ("snake_case stays", "snake_case-stays"),
        ] {
            assert_eq!(anchor(heading), name);
        }
        let twice = anchors("# A\n# A\n");
        assert!(twice.contains("a") && twice.contains("a-1"));
    }
}
