//! `docs/benchmarks.md`: tables of medians, the plots, and how to repeat it.

use serde_json::Value;

use super::Measured;
use super::matrix::Part;

/// The most telling number of a run, for the terminal.
pub(super) fn short(result: &Value) -> String {
    let names =
        ["landed_per_s", "landed_to_sign_limit", "full_to_empty", "ready_s", "cpu_share", "landed_to_flood"];
    let found = names.iter().filter(|name| result[**name].is_number());
    found.map(|name| format!("{name} {}", result[*name])).collect::<Vec<_>>().join(", ")
}

pub(super) fn write(
    machine: &[(&str, String)],
    postgres: &str,
    quick: bool,
    measured: &[Measured],
) -> String {
    let mut page = String::from(
        "# Benchmarks\n\nWritten by `cargo xtask bench`, which anyone can run; do not edit. What bounds the numbers is told in \
         [performance.md](performance.md), how far several nodes go in [scale.md](scale.md).\n\n",
    );
    if quick {
        page.push_str("**A quick run: small numbers of transactions, one run each. Not to be quoted.**\n\n");
    }
    page.push_str("## The machine\n\nEverything runs on it at once: servers, database, chain and load.\n\n| | |\n|---|---|\n");
    for (name, value) in machine {
        page.push_str(&format!("| {name} | {value} |\n"));
    }
    page.push_str(&format!("| PostgreSQL | {postgres}, every commit synced |\n\n"));
    page.push_str(HOW);
    let measured: Vec<&Measured> = measured.iter().filter(|one| !one.runs.is_empty()).collect();
    let of = |part: Part| measured.iter().copied().filter(move |one| one.case.part == part);
    for (part, title) in [
        (Part::Throughput, "Stores and modes"),
        (Part::Lanes, "The same work over more lanes (SQLite, batches of 100)"),
        (Part::Nodes, "Several nodes on one PostgreSQL (batches of 100, 9 signers)"),
    ] {
        page.push_str(&format!("## {title}\n\n"));
        page.push_str(&table(&of(part).collect::<Vec<_>>()));
        page.push('\n');
        for one in of(part).filter(|_| part == Part::Throughput) {
            page.push_str(&format!("![{0}](benchmarks/{0}.svg)\n", one.case.name));
        }
        page.push('\n');
    }
    page.push_str("## How cost grows\n\n");
    for one in of(Part::Scale) {
        let words = one.case.words.join(" ");
        page.push_str(&format!("`landfall bench {words}`:\n\n```json\n"));
        for run in &one.runs {
            page.push_str(&format!("{run:#}\n"));
        }
        page.push_str("```\n\n");
    }
    page.push_str("## Settings that are not the defaults\n\n");
    for one in &measured {
        if let Some(run) = one.runs.first() {
            page.push_str(&format!(
                "- {}: `{}`; durability: {}\n",
                one.case.name,
                run["settings"],
                text(run, "durability")
            ));
        }
    }
    page
}

const HOW: &str = "Medians of the runs. `landed_per_s` counts from the first request until everything is stored as final (finality 2, \
a block every 250 ms); `final` is by the times in the journal, from acceptance, and `accept` by request. Every transaction names its gas, so nothing is \
estimated. `sign` and `store` are what one thread signs and what the store commits (three rows a transaction, fenced, groups \
of 1,024), measured in the same run before the load; the shares are of `landed_per_s`. Requests and methods are those that the chain was \
asked, per transaction. Rows are what commits hand to the store. CPU seconds are for the whole run, of several servers together; memory is the most that \
a server ever had. What PostgreSQL uses is told where it can be seen.\n\n";

/// Columns: a heading, where the number is, and digits behind the point.
const COLUMNS: &[(&str, &str, usize)] = &[
    ("landed/s", "landed_per_s", 0),
    ("of sign", "landed_to_sign_limit", 3),
    ("of store", "landed_to_store_limit", 3),
    ("sign/s", "sign_limit_per_s", 0),
    ("store/s", "store_limit_per_s", 0),
    ("accept p50 ms", "accept_p50_ms", 1),
    ("p99", "accept_p99_ms", 1),
    ("final p50 ms", "final_p50_ms", 0),
    ("p99", "final_p99_ms", 0),
    ("rows", "rows_per_tx", 2),
    ("bytes", "store_bytes_per_tx", 0),
    ("requests", "rpc_requests_per_tx", 4),
    ("methods", "rpc_methods_per_tx", 3),
    ("CPU s server", "cpu_s.server", 1),
    ("PostgreSQL", "cpu_s.postgres", 1),
    ("chain", "cpu_s.chain", 1),
    ("load", "cpu_s.load", 1),
    ("MB server", "rss_mb.server", 0),
];

fn table(cases: &[&Measured]) -> String {
    let mut table = String::from("| case |");
    COLUMNS.iter().for_each(|(heading, ..)| table.push_str(&format!(" {heading} |")));
    table.push_str("\n|---|");
    COLUMNS.iter().for_each(|_| table.push_str("---:|"));
    table.push('\n');
    for one in cases {
        table.push_str(&format!("| {} |", one.case.name));
        for (_, path, digits) in COLUMNS {
            let value = median(one.runs.iter().filter_map(|run| number(run, path)).collect());
            match value {
                Some(value) => table.push_str(&format!(" {value:.digits$} |")),
                None => table.push_str(" – |"),
            }
        }
        table.push('\n');
    }
    table
}

fn number(run: &Value, path: &str) -> Option<f64> {
    path.split('.').try_fold(run, |at, step| at.get(step))?.as_f64()
}

fn text(run: &Value, name: &str) -> String {
    run[name].as_str().unwrap_or("unknown").to_owned()
}

/// The middle one; of an even number the upper of the two.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::super::matrix;
    use super::*;

    #[test]
    fn the_page_has_the_medians_and_no_path() {
        let case = matrix::all(true).remove(0);
        let run =
            |n: u64| serde_json::json!({ "landed_per_s": n, "cpu_s": { "server": 1.5 }, "settings": {} });
        let measured = [Measured { case, runs: vec![run(7), run(900), run(8)] }];
        let page = write(&[("cores", "2".to_owned())], "15", true, &measured);
        assert!(page.contains("| sqlite-batch | 8 |"), "{page}");
        assert!(page.contains(" 1.5 |") && page.contains("| cores | 2 |"));
    }
}
