//! `landfall migrate`: a store from an SQLite file to PostgreSQL.

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use landfall_core::Namespace;
use landfall_core::ports::clock::Random as _;
use landfall_store::Postgres;
use landfall_store::moving::{self, Outcome, Progress, Step};
use landfall_store::postgres::{Options, without_password};
use serde_json::json;

use super::audit;
use crate::cli::Migrate;
use crate::output;
use crate::system::SystemRandom;

pub(crate) async fn run(args: &Migrate) -> Result<()> {
    if args.abandon {
        moving::abandon(&args.from)?;
        say(args, &json!({ "abandoned": true }), "given up: servers start on the file again");
        return Ok(());
    }
    let Some(to) = &args.to else { bail!("--to must name the database it is moved to") };
    let place = without_password(to);
    if args.dry_run {
        let rows = moving::look(&args.from, to, &Options::default()).await?;
        let sentence = format!("would be moved to {place}:\n{}", table(&rows));
        say(args, &json!({ "to": place, "rows": by_name(&rows) }), &sentence);
        return Ok(());
    }
    let bar = progress_bar();
    let random = SystemRandom.bits();
    let moved = moving::migrate(&args.from, to, &Options::default(), random, &mut |at| show(&bar, at)).await;
    bar.finish_and_clear();
    match moved? {
        Outcome::Moved(rows) => {
            let namespace = Namespace("default".to_owned());
            let store = Postgres::open(to, &namespace, &Options::default()).await?;
            audit::note(&store, "migrate", json!({ "from": args.from, "to": place })).await?;
            let sentence = format!(
                "moved to {place}, and compared row by row:\n{}\nSet store.url to the new database and start the server.",
                table(&rows)
            );
            say(args, &json!({ "moved": true, "to": place, "rows": by_name(&rows) }), &sentence);
        }
        Outcome::WasMoved { place } => {
            let sentence = format!("was moved to {place} before; there is nothing left to do");
            say(args, &json!({ "moved": true, "to": place, "before": true }), &sentence);
        }
    }
    Ok(())
}

fn say(args: &Migrate, value: &serde_json::Value, sentence: &str) {
    if args.json {
        output::json(value);
    } else {
        println!("{} {sentence}", args.from);
    }
}

fn table(rows: &[(&'static str, u64)]) -> String {
    let lines = rows.iter().map(|(name, count)| vec![(*name).to_owned(), count.to_string()]);
    output::table(&["table", "rows"], lines.collect())
}

fn by_name(rows: &[(&'static str, u64)]) -> serde_json::Value {
    rows.iter()
        .map(|(name, count)| ((*name).to_owned(), json!(count)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{msg:24} {wide_bar} {pos}/{len} rows  {eta}") {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, at: Progress) {
    let doing = match at.step {
        Step::Marking => "marking",
        Step::Copying => "copying",
        Step::Verifying => "comparing",
        Step::Finishing => "finishing",
    };
    bar.set_length(at.of);
    bar.set_position(at.done);
    bar.set_message(format!("{doing} {}", at.table));
}
