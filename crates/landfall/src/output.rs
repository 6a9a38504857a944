//! How answers look: tables and colours on a terminal, JSON for programs.

use std::fmt;
use std::io::{ErrorKind, IsTerminal, Write as _};

use console::measure_text_width;
use landfall_core::ports::clock::Clock as _;
use serde_json::Value;

use crate::exit::Exit;
use crate::system::SystemClock;

/// The code of a program whose reader has gone, as shells tell it (128 and the number of SIGPIPE).
const READER_GONE: i32 = 141;

/// Writes to standard output. A reader that has gone (`landfall tx list | head -3`) ends the program without a word.
pub(crate) fn write(said: fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    match out.write_fmt(said).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(READER_GONE),
        Err(error) => {
            eprintln!("landfall: standard output cannot be written: {error}");
            std::process::exit(Exit::Failed as i32);
        }
    }
}

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

/// A person reads it as it comes: colours, and tables that fit. `CLICOLOR_FORCE` says so where it cannot be seen.
pub(crate) fn on_terminal() -> bool {
    let forced = std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| value != "0");
    forced || std::io::stdout().is_terminal()
}

/// Coloured on a terminal, plain elsewhere.
pub(crate) fn coloured(text: &str, colour: Colour) -> String {
    paint(text, colour, on_terminal())
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

/// A table without frills: columns as wide as their widest cell as it is seen, two spaces between.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let header: Vec<String> = header.iter().map(|text| (*text).to_owned()).collect();
    let lines: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| measure_text_width(cell)).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let shown = lines.iter().map(|line| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| {
            let missing = width.saturating_sub(measure_text_width(cell));
            format!("{cell}{}", " ".repeat(missing))
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// An address that fits into a table on a terminal; whole elsewhere.
pub(crate) fn address(whole: &str) -> String {
    match (on_terminal(), whole.get(..6), whole.get(whole.len().saturating_sub(4)..)) {
        (true, Some(first), Some(last)) if whole.len() == 42 => format!("{first}…{last}"),
        _ => whole.to_owned(),
    }
}

/// How long ago a time was, on a terminal; the time itself elsewhere.
pub(crate) fn ago(time: &str) -> String {
    let Some(at) = on_terminal().then(|| time.parse::<jiff::Timestamp>().ok()).flatten() else {
        return time.to_owned();
    };
    let now = i64::try_from(SystemClock.now().0).unwrap_or(i64::MAX);
    let seconds = now.saturating_sub(at.as_millisecond()) / 1_000;
    match seconds {
        ..60 => format!("{}s", seconds.max(0)),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// JSON for programs.
pub(crate) fn json(value: &Value) {
    println!("{value:#}");
}

/// A field as text; a dash where there is none. Much of it was chosen by others: nothing of it steers a terminal.
pub(crate) fn text(value: &Value, path: &str) -> String {
    let found = path.split('.').try_fold(value, |at, step| at.get(step));
    match found {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => plain(text),
        Some(other) => plain(&other.to_string()),
    }
}

/// On one line, and without what terminals obey: control characters, marks that turn the direction of text, ends of lines and
/// paragraphs.
fn plain(text: &str) -> String {
    let is_mark = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let blank = |c: char| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c };
    text.chars().map(blank).filter(|c| !c.is_control() && !is_mark(*c)).collect()
}

/// Asks a person, who must say yes. None where there is nobody to ask.
pub(crate) fn asks(question: &str) -> Option<bool> {
    if !std::io::stdin().is_terminal() {
        return None;
    }
    eprint!("{question} [y/N] ");
    std::io::stderr().flush().ok();
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).ok()?;
    Some(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_chose_does_not_steer_a_terminal() {
        let shown = |said: &str| text(&serde_json::json!({ "method": said }), "method");
        assert_eq!(shown("eth\u{1b}]0;title\u{7}\u{1b}[2J"), "eth]0;title[2J");
        assert_eq!(shown("a\r\n9  all is well"), "a  9  all is well");
        assert_eq!(shown("/tx/\u{9b}31m\u{202e}\u{2066}x"), "/tx/31mx");
        assert_eq!(shown("Käufer 7"), "Käufer 7");
    }

    #[test]
    fn colours_take_no_room_in_a_table() {
        let rows = |on_terminal: bool| {
            let cell = |text: &str, colour| paint(text, colour, on_terminal);
            vec![
                vec!["1".to_owned(), cell("confirmed", Colour::Green), "x".to_owned()],
                vec!["22".to_owned(), cell("on hold", Colour::Red), "äö…".to_owned()],
                vec!["333".to_owned(), "-".to_owned(), "z".to_owned()],
            ]
        };
        let coloured = table(&["n", "state", "what"], rows(true));
        assert!(coloured.contains('\u{1b}'), "{coloured}");
        let seen = console::strip_ansi_codes(&coloured).into_owned();
        assert_eq!(seen, table(&["n", "state", "what"], rows(false)));
        assert_eq!(seen.lines().next(), Some("n    state      what"));
        assert_eq!(seen.lines().nth(2), Some("22   on hold    äö…"));
    }
}
