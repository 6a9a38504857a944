//! `LANDFALL_SERVER__LISTEN` and the like: two underscores part the steps, numbers name entries of a list.

use anyhow::{Result, bail};
use toml::{Table, Value};

const PREFIX: &str = "LANDFALL_";
/// Variables of that prefix that are not configuration keys.
const OTHERS: &[&str] =
    &["LANDFALL_LOG", "LANDFALL_CONFIG", "LANDFALL_URL", "LANDFALL_ANVIL", "LANDFALL_CACHE"];

/// Lays the variables over the file's table.
pub(super) fn overlay(table: &mut Table, vars: impl Iterator<Item = (String, String)>) -> Result<()> {
    let mut vars: Vec<(String, String)> = vars
        .filter(|(name, _)| {
            name.starts_with(PREFIX) && name.contains("__") && !OTHERS.contains(&name.as_str())
        })
        .collect();
    vars.sort();
    for (name, text) in vars {
        let path: Vec<String> = name[PREFIX.len()..].split("__").map(str::to_lowercase).collect();
        if let Some(why) = super::unknown::wrong_path(&path) {
            bail!("the variable {name} names no key: {why}");
        }
        let mut root = Value::Table(std::mem::take(table));
        let set = set(&mut root, &path, value(&text));
        if let Value::Table(filled) = root {
            *table = filled;
        }
        if let Err(why) = set {
            bail!("the variable {name} names no key: {why}");
        }
    }
    Ok(())
}

/// Numbers and booleans as such, everything else as text.
fn value(text: &str) -> Value {
    if let Ok(number) = text.parse::<i64>() {
        return Value::Integer(number);
    }
    // Only what looks like one: `inf` and `nan` are words.
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && let Ok(number) = text.parse::<f64>()
    {
        return Value::Float(number);
    }
    match text {
        "true" => Value::Boolean(true),
        "false" => Value::Boolean(false),
        _ => Value::String(text.to_owned()),
    }
}

fn set(at: &mut Value, path: &[String], to: Value) -> Result<()> {
    let Some((step, rest)) = path.split_first() else {
        *at = to;
        return Ok(());
    };
    let next_is_list = rest.first().is_some_and(|step| step.parse::<usize>().is_ok());
    let empty = || if next_is_list { Value::Array(Vec::new()) } else { Value::Table(Table::new()) };
    match at {
        Value::Table(table) => set(table.entry(step.clone()).or_insert_with(empty), rest, to),
        Value::Array(list) => {
            let Ok(position) = step.parse::<usize>() else { bail!("{step} is not a place in a list") };
            if position > list.len() {
                bail!("entry {position} of the list, but it has {} entries", list.len());
            }
            if position == list.len() {
                list.push(empty());
            }
            set(&mut list[position], rest, to)
        }
        _ => bail!("{step} is below a plain value"),
    }
}
