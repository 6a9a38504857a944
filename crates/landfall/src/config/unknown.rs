//! Keys that Landfall does not know: where they stand, and which one was meant.

use anyhow::{Result, bail};
use toml::{Table, Value};

use super::reference::KEYS;

/// How alike two names must be for the one to be meant by the other: from 0 to 1.
const ALIKE: f64 = 0.8;

/// Refuses a file that has a key which is none.
pub(super) fn check_file(text: &str, table: &Table) -> Result<()> {
    for (section, value) in table {
        if let Some(why) = wrong_section(section) {
            bail!("{}{why}", line(text, None, section));
        }
        let entries: Vec<&Table> = match value {
            Value::Table(entries) => vec![entries],
            Value::Array(list) => list.iter().filter_map(Value::as_table).collect(),
            // Told when it is read.
            _ => Vec::new(),
        };
        for name in entries.into_iter().flat_map(Table::keys) {
            if let Some(why) = wrong_key(section, name) {
                bail!("{}{why}", line(text, Some(section), name));
            }
        }
    }
    Ok(())
}

/// Why the path of a variable, such as `chain`, `0`, `rpc`, leads to no key.
pub(super) fn wrong_path(path: &[String]) -> Option<String> {
    let (section, rest) = path.split_first()?;
    let name = rest.iter().find(|step| step.parse::<usize>().is_err());
    wrong_section(section).or_else(|| wrong_key(section, name?))
}

fn wrong_section(section: &str) -> Option<String> {
    let mut known: Vec<&str> = KEYS.iter().map(|key| parts(key.path).0).collect();
    known.dedup();
    if known.contains(&section) {
        return None;
    }
    let meant = nearest(section, known.into_iter())
        .map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
    Some(format!("there is no section `{section}`{meant}"))
}

fn wrong_key(section: &str, name: &str) -> Option<String> {
    let all = || KEYS.iter().map(|key| parts(key.path));
    if all().any(|known| known == (section, name)) {
        return None;
    }
    let elsewhere = all().find(|(_, known)| *known == name).map(|(other, _)| other);
    let near = nearest(name, all().filter(|(of, _)| *of == section).map(|(_, known)| known));
    let meant = match (near, elsewhere) {
        (Some(meant), _) => format!("; did you mean `{meant}`?"),
        (None, Some(other)) => format!("; it belongs to `{other}`"),
        (None, None) => "; `landfall config` prints all keys".to_owned(),
    };
    Some(format!("`{section}` has no key `{name}`{meant}"))
}

/// Section and name.
fn parts(path: &'static str) -> (&'static str, &'static str) {
    path.split_once('.').unwrap_or((path, ""))
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |known: &'a str| (strsim::jaro_winkler(name, known), known);
    let best = known.map(likeness).max_by(|one, other| one.0.total_cmp(&other.0));
    best.filter(|(alike, _)| *alike >= ALIKE).map(|(_, known)| known)
}

/// `line 7: `, where the text has the key or the section. Empty where it cannot be told.
fn line(text: &str, section: Option<&str>, name: &str) -> String {
    let mut current = "";
    let found = text.lines().position(|line| {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            current = header.trim_start_matches('[').split(']').next().unwrap_or_default().trim();
            return section.is_none() && current.split('.').next() == Some(name);
        }
        let key = line.split('=').next().unwrap_or_default().trim();
        let key = key.trim_matches(['"', '\'']);
        match section {
            None => current.is_empty() && key.split('.').next() == Some(name),
            Some(section) => (current == section && key == name) || key == format!("{section}.{name}"),
        }
    });
    found.map_or(String::new(), |at| format!("line {}: ", at + 1))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn said(text: &str, vars: &[(&str, &str)]) -> String {
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        format!("{:#}", Config::parse(text, vars).unwrap_err())
    }

    #[test]
    fn a_key_that_is_none_is_told_with_its_line_and_the_one_that_was_meant() {
        let chain = "[[chain]]\nid = 5\nrpc = \"http://a\"\n";
        for (text, parts) in [
            (format!("{chain}finalty = 5"), ["line 4", "`finalty`", "did you mean `finality`?"]),
            ("[server]\n\nlisen = \"x\"".to_owned(), ["line 3", "`server` has no key `lisen`", "`listen`"]),
            ("[servr]\nlisten = \"x\"".to_owned(), ["line 1", "`servr`", "did you mean `server`?"]),
            ("server.lisen = \"x\"".to_owned(), ["line 1", "`lisen`", "`listen`"]),
            (
                "[store]\nmnemonic_env = \"X\"".to_owned(),
                ["line 2", "`mnemonic_env`", "it belongs to `signer`"],
            ),
            ("[store]\nqqq = 1".to_owned(), ["line 2", "`qqq`", "landfall config"]),
        ] {
            let said = said(&text, &[]);
            assert!(parts.iter().all(|part| said.contains(part)), "{text}: {said}");
        }
    }

    #[test]
    fn a_variable_that_names_no_key_is_named_as_it_is() {
        for (name, meant) in [
            ("LANDFALL_SERVER__LISEN", "`listen`"),
            ("LANDFALL_CHAIN__0__FINALTY", "`finality`"),
            ("LANDFALL_SERVR__LISTEN", "`server`"),
        ] {
            let said = said("", &[(name, "x")]);
            assert!(said.contains(&format!("the variable {name}")) && said.contains(meant), "{said}");
        }
    }
}
