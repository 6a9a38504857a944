//! How answers look: tables and colours on a terminal, JSON for programs.

use std::io::IsTerminal;

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

/// The error and what led to it, for a person.
pub(crate) fn failure(error: &anyhow::Error) {
    let mark = paint("error", Colour::Red, std::io::stderr().is_terminal());
    eprintln!("{mark}: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  because: {cause}");
    }
    if let Some(advice) = crate::client::advice(error) {
        eprintln!("  {advice}");
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Colour {
    Red,
    Green,
    Yellow,
    Grey,
}

fn paint(text: &str, colour: Colour, on_terminal: bool) -> String {
    if !on_terminal || std::env::var_os("NO_COLOR").is_some() {
        return text.to_owned();
    }
    let code = match colour {
        Colour::Red => 31,
        Colour::Green => 32,
        Colour::Yellow => 33,
        Colour::Grey => 90,
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// Coloured on a terminal, plain elsewhere.
pub(crate) fn coloured(text: &str, colour: Colour) -> String {
    paint(text, colour, std::io::stdout().is_terminal())
}

/// A state in its colour.
pub(crate) fn state(name: &str) -> String {
    let colour = match name {
        "confirmed" => Colour::Green,
        "reverted" | "failed" => Colour::Red,
        "cancelled" | "expired" => Colour::Grey,
        _ => Colour::Yellow,
    };
    coloured(name, colour)
}

/// A table without frills.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>());
    for row in rows {
        table.add_row(row);
    }
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// JSON for programs.
pub(crate) fn json(value: &Value) {
    println!("{value:#}");
}

/// A field as text; a dash where there is none.
pub(crate) fn text(value: &Value, path: &str) -> String {
    let found = path.split('.').try_fold(value, |at, step| at.get(step));
    match found {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
