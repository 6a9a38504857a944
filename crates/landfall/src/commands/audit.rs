//! `landfall audit`: who did what, and whether the record of it is whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use landfall_core::Millis;
use landfall_core::audit::{Ends, Link, Noted, Row, Seal, Trimmed, Verified, Verifier};
use landfall_core::ports::audit::{AuditLog, Page};
use landfall_server::audit::{Entry, What};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli::{Audit, Remote, VerifyAudit};
use crate::client::Client;
use crate::config::Config;
use crate::exit::Exit;
use crate::node::open_store;
use crate::output::{self, text};
use crate::system::{self, SystemClock};

/// Rows that are read at once.
const PAGE: u32 = 1_000;
/// The version of the format, which the first line of an export names.
const FORMAT: u32 = 1;

pub(crate) async fn run(command: Audit) -> Result<ExitCode> {
    match command {
        Audit::List { limit, config, remote } => list(limit, config.as_deref(), &remote).await?,
        Audit::Export { out, config, remote } => export(out, config.as_deref(), &remote).await?,
        Audit::Verify(args) => return verify(&args).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// A row on its way: from a server, or in a file.
#[derive(Serialize, Deserialize)]
struct Line {
    seq: u64,
    at: Millis,
    entry: String,
    hash: Seal,
}

impl From<Row> for Line {
    fn from(Row { seq, at, text, hash }: Row) -> Self {
        Self { seq, at, entry: text, hash }
    }
}

impl From<Line> for Row {
    fn from(Line { seq, at, entry, hash }: Line) -> Self {
        Self { seq, at, text: entry, hash }
    }
}

/// The first line of an export.
#[derive(Serialize, Deserialize)]
struct First {
    #[serde(rename = "landfallAudit")]
    format: u32,
    anchor: Link,
    head: Link,
    /// Rows with numbers that no server gives. They are not in the file.
    #[serde(default)]
    unnumbered: u64,
}

/// A page of rows, as a server gives it.
#[derive(Deserialize)]
struct Exported {
    anchor: Link,
    head: Link,
    #[serde(default)]
    unnumbered: u64,
    items: Vec<Line>,
}

/// Where rows come from.
enum Source {
    Server(Client),
    /// With how long rows are kept there.
    Store(Arc<dyn AuditLog>, Option<Millis>),
    File(BufReader<File>, First),
}

impl Source {
    async fn open(config: Option<&Path>, remote: &Remote) -> Result<Self> {
        match config {
            None => Ok(Self::Server(Client::of(remote)?)),
            Some(config) => {
                let config = Config::load(config, std::env::vars())?;
                let keep = config
                    .access
                    .keep_audit()
                    .map(|keep| Millis(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX)));
                Ok(Self::Store(open_store(&config).await?.audit, keep))
            }
        }
    }

    fn file(path: &Path) -> Result<Self> {
        let said = || format!("{} cannot be read", path.display());
        let mut lines = BufReader::new(File::open(path).with_context(said)?);
        let mut first = String::new();
        lines.read_line(&mut first).with_context(said)?;
        let first: Option<First> = serde_json::from_str(&first).ok();
        match first {
            Some(first) if first.format == FORMAT => Ok(Self::File(lines, first)),
            Some(First { format, .. }) => {
                bail!(
                    "{} is of format {format}, and this program knows {FORMAT}; use a newer one",
                    path.display()
                )
            }
            None => bail!(
                "{} is not what `landfall audit export` writes: its first line is another",
                path.display()
            ),
        }
    }

    async fn ends(&self) -> Result<Ends> {
        match self {
            Self::Server(client) => {
                let Exported { anchor, head, .. } = client.get("/api/v1/audit/export?limit=1").await?;
                Ok(Ends { anchor, head })
            }
            Self::Store(log, _) => Ok(log.audit_ends().await?),
            Self::File(_, First { anchor, head, .. }) => Ok(Ends { anchor: *anchor, head: *head }),
        }
    }

    /// How many rows have numbers that no server gives.
    async fn unnumbered(&self) -> Result<u64> {
        match self {
            Self::Server(client) => {
                let Exported { unnumbered, .. } = client.get("/api/v1/audit/export?limit=1").await?;
                Ok(unnumbered)
            }
            Self::Store(log, _) => Ok(log.unnumbered_audit().await?),
            Self::File(_, first) => Ok(first.unnumbered),
        }
    }

    /// How long rows are kept, where that is known.
    fn keep(&self) -> Option<Millis> {
        match self {
            Self::Store(_, keep) => *keep,
            Self::Server(_) | Self::File(..) => None,
        }
    }

    /// Rows after this number, oldest first; none at the end.
    async fn rows(&mut self, after: u64) -> Result<Vec<Row>> {
        match self {
            Self::Server(client) => {
                let path = format!("/api/v1/audit/export?limit={PAGE}&cursor={after}");
                let Exported { items, .. } = client.get(&path).await?;
                Ok(items.into_iter().map(Row::from).collect())
            }
            Self::Store(log, _) => Ok(log.audit_rows(Page::After(after), PAGE).await?),
            Self::File(lines, _) => {
                let mut rows = Vec::new();
                for line in (&mut *lines).lines().take(PAGE as usize) {
                    let line: Line = serde_json::from_str(&line?)
                        .map_err(|error| anyhow!("a line after row {after} cannot be read: {error}"))?;
                    rows.push(line.into());
                }
                Ok(rows)
            }
        }
    }
}

async fn list(limit: u32, config: Option<&Path>, remote: &Remote) -> Result<()> {
    let items: Vec<Value> = match Source::open(config, remote).await? {
        Source::Store(log, _) => {
            log.audit_rows(Page::Before(u64::MAX), limit).await?.iter().map(stored).collect()
        }
        Source::Server(client) => {
            let page: Value = client.get(&format!("/api/v1/audit?limit={limit}")).await?;
            page["items"].as_array().cloned().unwrap_or_default()
        }
        Source::File(..) => Vec::new(),
    };
    if remote.json {
        output::json(&json!({ "items": items }));
    } else {
        println!("{}", output::table(&HEADER, items.iter().map(line).collect()));
    }
    Ok(())
}

const HEADER: [&str; 8] = ["row", "at", "what", "key", "name", "address", "request", "status"];

/// A time as people read it.
fn time(at: Millis) -> String {
    let ms = i64::try_from(at.0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).map(|at| format!("{at:.3}")).unwrap_or_default()
}

/// A row of a store that no server reads for us.
fn stored(row: &Row) -> Value {
    let mut shown: Value = serde_json::from_str(&row.text).unwrap_or_else(|_| json!({ "body": row.text }));
    shown["id"] = json!(row.seq.to_string());
    shown["at"] = json!(time(row.at));
    shown["hash"] = json!(row.hash);
    shown
}

fn line(item: &Value) -> Vec<String> {
    let [id, at, what, key, name, address, method, path, status] =
        ["id", "at", "what", "keyId", "keyName", "address", "method", "path", "status"]
            .map(|name| text(item, name));
    let more = match item["count"].as_u64() {
        Some(count) if what == "refused" => format!("and {count} more"),
        Some(count) => format!("{count} transactions"),
        None => String::new(),
    };
    // What is not there is shown as a dash.
    let said = [method, path, more].into_iter().filter(|part| !part.is_empty() && part != "-");
    let request = said.collect::<Vec<_>>().join(" ");
    vec![id, at, what, key, name, address, request, status]
}

/// How often an export is begun anew because the oldest rows went meanwhile.
const BEGINNINGS: u32 = 20;

async fn export(out: Option<PathBuf>, config: Option<&Path>, remote: &Remote) -> Result<()> {
    let mut source = Source::open(config, remote).await?;
    let (ends, mut rows) = first_page(&mut source).await?;
    let unnumbered = source.unnumbered().await?;
    let mut to: Box<dyn Write> = match &out {
        Some(file) => Box::new(std::io::BufWriter::new(new_file(file)?)),
        None => Box::new(std::io::stdout().lock()),
    };
    let Ends { anchor, head } = ends;
    serde_json::to_writer(&mut to, &First { format: FORMAT, anchor, head, unnumbered })?;
    writeln!(to)?;
    let (mut after, mut count) = (anchor.seq, 0_u64);
    'all: while !rows.is_empty() {
        for row in rows {
            if row.seq > head.seq {
                break 'all;
            }
            if row.seq > after + 1 && source.ends().await?.anchor.seq > after {
                bail!(
                    "rows went because of their age before they were read, and what was written so far is not whole: remove it, and \
                     export again"
                );
            }
            after = after.max(row.seq);
            serde_json::to_writer(&mut to, &Line::from(row))?;
            writeln!(to)?;
            count += 1;
        }
        rows = source.rows(after).await?;
    }
    to.flush()?;
    if let Some(file) = out {
        println!("{} holds {count} rows up to row {}, whose hash is {}", file.display(), head.seq, head.hash);
    }
    Ok(())
}

/// The ends, and the oldest rows that belong to them: the oldest may go because of their age between two questions.
async fn first_page(source: &mut Source) -> Result<(Ends, Vec<Row>)> {
    let mut ends = source.ends().await?;
    for _ in 0..BEGINNINGS {
        // From the very beginning: what stands before the anchor, where nothing may, must not be hidden.
        let rows = source.rows(0).await?;
        let now = source.ends().await?;
        if now.anchor == ends.anchor {
            return Ok((ends, rows));
        }
        ends = now;
    }
    bail!("the oldest rows go because of their age faster than they are read; export again later")
}

/// A file that only its owner may read: rows have names and addresses.
fn new_file(file: &Path) -> Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => anyhow!(
            "{} is there already, and an export is not written over it: name another file, or move that one away",
            file.display()
        ),
        _ => anyhow!("{} cannot be written: {error}", file.display()),
    })
}

/// A hash that was noted, as it was given.
fn noted(name: &str, given: Option<&str>) -> Result<Option<Seal>> {
    given
        .map(str::parse)
        .transpose()
        .map_err(|why| anyhow!("{name}: {why}; `landfall audit verify` prints it"))
}

async fn verify(args: &VerifyAudit) -> Result<ExitCode> {
    let noted = Noted {
        head: noted("--head", args.head.as_deref())?,
        anchor: noted("--anchor", args.anchor.as_deref())?,
    };
    if noted.head == Some(Link::ORIGIN.hash) {
        bail!("--head: all zeros are the hash of no row; give the one that `landfall audit verify` printed");
    }
    let mut source = match &args.file {
        Some(file) => Source::file(file)?,
        None => Source::open(args.config.as_deref(), &args.remote).await?,
    };
    let (mut verified, mut runs) = look(&mut source, noted).await?;
    if !verified.is_whole() && args.file.is_none() && source.ends().await? != verified.ends {
        // Rows went because of their age while it was looked: a second look is not at what goes.
        (verified, runs) = look(&mut source, noted).await?;
    }
    tell(&verified, &runs, noted, args.remote.json);
    Ok(if verified.is_whole() { ExitCode::SUCCESS } else { Exit::Tampered.into() })
}

/// Goes through all rows. The head is read after them, so that whatever is beyond it was not written by a server.
async fn look(source: &mut Source, noted: Noted) -> Result<(Verified, Runs)> {
    let mut ends = source.ends().await?;
    let (mut verifier, mut runs) = (Verifier::new(ends.anchor, noted, source.keep()), Runs::default());
    verifier.unnumbered(source.unnumbered().await?);
    // Also what stands before the anchor is read: nothing may.
    let mut after = 0;
    loop {
        let rows = source.rows(after).await?;
        if rows.is_empty() {
            let now = source.ends().await?;
            if now.head == ends.head || after >= now.head.seq {
                return Ok((verifier.end(now.head), runs));
            }
            // More was written meanwhile.
            ends = now;
        }
        for row in &rows {
            verifier.take(row);
            runs.take(row);
            after = after.max(row.seq);
        }
    }
}

/// Runs of servers: which began, and which ended without a goodbye.
#[derive(Default)]
struct Runs {
    /// By node: the row that it began with.
    open: BTreeMap<String, u64>,
    broken_off: Vec<(String, u64)>,
}

impl Runs {
    fn take(&mut self, row: &Row) {
        let Ok(entry) = serde_json::from_str::<Entry>(&row.text) else { return };
        let node = entry.node.as_deref().unwrap_or_default().to_owned();
        match entry.what {
            What::Began => {
                if let Some(before) = self.open.insert(node.clone(), row.seq) {
                    self.broken_off.push((node, before));
                }
            }
            What::Ended => {
                if entry.run.is_some_and(|run| self.open.get(&node) == Some(&run)) {
                    self.open.remove(&node);
                }
            }
            What::Asked | What::Done | What::Wrote | What::Refused | What::CommandLine | What::Lost => {}
        }
    }
}

fn tell(verified: &Verified, runs: &Runs, noted: Noted, as_json: bool) {
    let Verified { rows, ends: Ends { anchor, head }, trimmed, oldest, findings, .. } = verified;
    if as_json {
        let broken_off: Vec<Value> =
            runs.broken_off.iter().map(|(node, row)| json!({ "node": node, "began": row })).collect();
        output::json(&json!({
            "whole": verified.is_whole(),
            "rows": rows,
            "anchor": anchor,
            "head": head,
            "oldest": oldest.map(time),
            "trimmed": trimmed.map(|(row, Trimmed { trimmed, newest })| json!({ "row": row, "upTo": trimmed.seq, "newest": time(newest) })),
            "notedHead": verified.noted_head,
            "notedAnchor": verified.noted_anchor,
            "findings": findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "brokenOff": broken_off,
        }));
        return;
    }
    for finding in findings {
        println!("{finding}");
    }
    if verified.is_whole() {
        println!("{rows} rows, none changed, removed, added or moved");
    } else {
        println!("\nThe audit log is not what was written.");
    }
    if let Some((row, Trimmed { trimmed, newest })) = trimmed {
        println!(
            "Row {row} says that the rows up to {} were removed because of their age, the newest of them from {}. The oldest that is left \
             is from {}. Nobody can check what is gone: look whether that can be, and compare with an export.",
            trimmed.seq,
            time(*newest),
            oldest.map(time).unwrap_or_default()
        );
    }
    if let Some(row) = verified.noted_head {
        println!("The noted hash is row {row}'s.");
    }
    match verified.noted_anchor.filter(|_| noted.anchor.is_some()) {
        Some(row) if row == anchor.seq => println!("No row was removed since the anchor was noted."),
        Some(row) => {
            println!("Since the anchor was noted, the rows {} to {} were removed.", row + 1, anchor.seq)
        }
        None => {}
    }
    for (node, row) in &runs.broken_off {
        println!(
            "The server of node {node} that began with row {row} ended without a goodbye: rows of its last second may be missing. \
             The transactions that it stored say themselves who asked for them."
        );
    }
    println!("The newest row is {}, and its hash (head) is\n{}", head.seq, head.hash);
    println!("The newest row that was removed is {}, and its hash (anchor) is\n{}", anchor.seq, anchor.hash);
    if verified.is_whole() {
        println!(
            "Note both elsewhere, and give them to `landfall audit verify --head … --anchor …` next time: who may write to the database \
             could make all rows and both ends anew, and only hashes that they cannot reach show that."
        );
    } else {
        println!(
            "Do not note these. Keep the database as it is, with the server stopped, and compare it with an export from before."
        );
    }
}

/// Who uses this command line, as the audit log names them.
fn user() -> String {
    let name = ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    format!("{}@{}", name.unwrap_or_else(|| "somebody".to_owned()), system::host_name())
}

/// Says that this command changes a store itself, before it does.
pub(crate) async fn note(log: &dyn AuditLog, command: &'static str, about: Value) -> Result<()> {
    landfall_server::audit::command_line(log, &SystemClock, command, &user(), about)
        .await
        .context("nothing was changed: the audit log could not be written")
}
