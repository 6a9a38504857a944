//! The map of incidents: every test that it names exists, each row says one of three things, and its numbers add up. The page
//! of threats: every test that its table names exists.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

const PAGE: &str = "docs/incidents.md";
const THREATS: &str = "docs/threats.md";
/// The table of threats whose last column names tests.
const SHOWN_BY: &str = "| shown by |";

pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let listed = process::output(
        Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.rs"])
            .current_dir(&workspace.root),
    )?;
    let mut known = BTreeSet::new();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let Ok(text) = std::fs::read_to_string(workspace.root.join(name)) else { continue };
        known.extend(defined(&text).map(str::to_owned));
    }
    let page = std::fs::read_to_string(workspace.root.join(PAGE))?;
    let mut complaints = complaints(&page, &known);
    let threats = std::fs::read_to_string(workspace.root.join(THREATS))?;
    complaints.extend(unshown(&threats, &known));
    Ok(complaints)
}

/// Threats that name a test which is not there, or neither a test nor a page.
fn unshown(page: &str, known: &BTreeSet<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    let after = page.lines().skip_while(|line| !line.ends_with(SHOWN_BY)).skip(2);
    for line in after.take_while(|line| line.starts_with("| ")) {
        let shown_by = line.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default();
        let names: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        if names.is_empty() && !shown_by.contains("](") {
            complaints.push(format!("{THREATS}: nothing shows this: {line}"));
        }
        let missing = names.iter().filter(|name| !known.contains(**name) && !shown_by.contains("]("));
        complaints.extend(
            missing.map(|name| format!("{THREATS} names `{name}`, which is no test: correct the name")),
        );
    }
    if !page.contains(SHOWN_BY) {
        complaints.push(format!("{THREATS} has no table with a column `shown by`"));
    }
    complaints
}

/// The names that a source file gives to something: functions, and the tests that a macro makes of a list.
fn defined(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.trim_start();
        let after = line.split_once("fn ").map_or(line, |(_, rest)| rest);
        let end = after.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')?;
        let (name, then) = after.split_at(end);
        (line.contains("fn ") || then.starts_with([':', ',', ';'])).then_some(name)
    })
}

/// How many rows of a section have a test, not yet one, or need none.
type Numbers = [usize; 3];

fn complaints(page: &str, known: &BTreeSet<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut found: BTreeMap<char, Numbers> = BTreeMap::new();
    let mut written: BTreeMap<char, Numbers> = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let Some(section) = cells[0].chars().next().filter(char::is_ascii_uppercase) else { continue };
        if let [heading, numbers @ ..] = cells.as_slice()
            && heading.get(1..3) == Some(". ")
        {
            let numbers: Vec<usize> = numbers.iter().filter_map(|text| text.parse().ok()).collect();
            written.insert(section, numbers.try_into().unwrap_or_default());
            continue;
        }
        let [row, .., tests] = cells.as_slice() else { continue };
        let numbers = found.entry(section).or_default();
        if tests.starts_with("cannot apply") {
            numbers[2] += 1;
        } else if tests.starts_with("not yet") {
            numbers[1] += 1;
        } else {
            numbers[0] += 1;
            let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
            if names.is_empty() {
                complaints.push(format!("{PAGE}: row {row} names no test and gives no reason"));
            }
            for name in names.iter().filter(|name| !known.contains(**name)) {
                complaints
                    .push(format!("{PAGE}: row {row} names `{name}`, which is no test: correct the name"));
            }
        }
    }
    for (section, numbers) in &found {
        if written.get(section) != Some(numbers) {
            let [tests, later, never] = numbers;
            complaints.push(format!(
                "{PAGE}: section {section} has {tests} rows with a test, {later} not yet, {never} cannot apply; correct the table"
            ));
        }
    }
    let sum = |which: usize| found.values().map(|numbers| numbers[which]).sum::<usize>();
    let (tests, later, never) = (sum(0), sum(1), sum(2));
    let whole = format!(
        "**{} rows: {tests} with a test, {later} not yet, {never} cannot apply.**",
        tests + later + never
    );
    if !page.contains(&whole) {
        complaints.push(format!("{PAGE}: the sum should read {whole}"));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "**3 rows: 1 with a test, 1 not yet, 1 cannot apply.**\n\
        | A. Some | 1 | 1 | 1 |\n\
        | A1 | this | that | core `it_holds` |\n\
        | A2 | this | that | not yet: later |\n\
        | A3 | this | that | cannot apply: there is none |\n";

    fn known() -> BTreeSet<String> {
        let source = "    fn it_holds() {\nteeth! {\n    it_is_found: Bug;\n    listed,\n";
        defined(source).map(str::to_owned).collect()
    }

    #[test]
    fn a_page_whose_tests_exist_and_whose_numbers_add_up_passes() {
        assert_eq!(complaints(PAGE, &known()), [""; 0]);
        assert!(known().is_superset(&["it_holds", "it_is_found", "listed"].map(str::to_owned).into()));
    }

    #[test]
    fn a_threat_names_a_test_that_exists_or_a_page() {
        let page = "| from | attack | shown by |\n|---|---|---|\n| a | b | `it_holds`, `listed` |\n| a | b | [c](c.md) |\n\n| a | `no` |\n";
        assert_eq!(unshown(page, &known()), [""; 0]);
        let missing = unshown(&page.replace("it_holds", "it_held"), &known());
        assert!(missing.len() == 1 && missing[0].contains("it_held"), "{missing:?}");
        let bare = unshown(&page.replace("`it_holds`, `listed`", "it is so"), &known());
        assert!(bare.len() == 1 && bare[0].contains("nothing shows"), "{bare:?}");
        assert_eq!(unshown("no table", &known()).len(), 1);
    }

    #[test]
    fn a_missing_test_and_a_wrong_number_are_named() {
        let missing = complaints(&PAGE.replace("it_holds", "it_held"), &known());
        assert!(missing.len() == 1 && missing[0].contains("it_held"), "{missing:?}");
        let wrong = complaints(&PAGE.replace("| 1 | 1 | 1 |", "| 2 | 1 | 1 |"), &known());
        assert!(wrong.len() == 1 && wrong[0].contains("section A"), "{wrong:?}");
        let sum = complaints(&PAGE.replace("**3 rows: 1", "**3 rows: 2"), &known());
        assert!(sum.len() == 1 && sum[0].contains("should read"), "{sum:?}");
        let bare = complaints(&PAGE.replace("core `it_holds`", "it is so"), &known());
        assert!(bare.len() == 1 && bare[0].contains("names no test"), "{bare:?}");
    }
}
