//! The audit log, for administrators: as people read it, and as it is checked.

use std::collections::{BTreeMap, HashMap};

use axum::Json;
use axum::extract::{Query, State};
use landfall_core::Millis;
use landfall_core::audit::Row;
use landfall_core::ports::audit::Page;
use landfall_core::ports::records::Record;
use serde_json::{Map, Value, json};

use crate::access::Audit;
use crate::access::audit::{Entry, What};
use crate::problem::{Code, Problem};
use crate::serve::App;
use crate::show;

const PAGE: u32 = 50;
const LARGEST_PAGE: u32 = 500;
/// Of rows as they are stored a page may have more.
const LARGEST_EXPORT: u32 = 5_000;
/// So many rows after one that asked for something it is looked for how that ended.
const LOOK_AHEAD: u32 = 100;

type Answer = Result<Json<Value>, Problem>;

/// Reads the parameters: where to go on, and how many.
fn asked(query: BTreeMap<String, String>, most: u32, first: u32) -> Result<(Option<String>, u32), Problem> {
    let (mut cursor, mut limit) = (None, first);
    for (name, text) in query {
        match name.as_str() {
            "cursor" => cursor = Some(text),
            "limit" => {
                let asked = text.parse().ok().filter(|limit| (1..=most).contains(limit));
                limit = asked.ok_or_else(|| {
                    Problem::at(Code::BadQuery, "limit", format!("{text:?} is not a number from 1 to {most}"))
                })?;
            }
            _ => return Err(Problem::at(Code::BadQuery, name.as_str(), "there are cursor and limit")),
        }
    }
    Ok((cursor, limit))
}

/// The log, newest first: an entry for each thing that was asked for, with how it ended. After the first row of the chain come
/// the entries from before there was one.
pub(crate) async fn list(State(app): State<App>, Query(query): Query<BTreeMap<String, String>>) -> Answer {
    let (cursor, limit) = asked(query, LARGEST_PAGE, PAGE)?;
    let wanted = limit as usize;
    let mut items = Vec::new();
    // Names of entries from before the chain have a dash, numbers of rows have none.
    let mut old = cursor.clone().filter(|cursor| cursor.contains('-'));
    if old.is_none() {
        let before = cursor.as_deref().map_or(Ok(u64::MAX), str::parse);
        let mut before =
            before.map_err(|_| Problem::at(Code::BadQuery, "cursor", "it is of no page here"))?;
        let mut ends = HashMap::new();
        while items.len() < wanted {
            let rows = app.audit.rows(Page::Before(before), limit).await?;
            let Some(last) = rows.last() else { break };
            before = last.seq;
            for row in &rows {
                if items.len() < wanted
                    && let Some(item) = shown(&app.audit, row, &mut ends).await?
                {
                    items.push(item);
                }
            }
        }
    }
    if items.len() < wanted {
        let room = u32::try_from(wanted - items.len()).unwrap_or(limit);
        let entries = app.audit.before_the_chain(old.take(), room).await?;
        items.extend(entries.into_iter().map(unchained));
    }
    let next = if items.len() >= wanted { items.last().map(|item| item["id"].clone()) } else { None };
    Ok(Json(json!({ "items": items, "nextCursor": next })))
}

/// A row for people. None for one that says how another ended: it is told there.
async fn shown(audit: &Audit, row: &Row, ends: &mut HashMap<u64, u16>) -> Result<Option<Value>, Problem> {
    let entry: Result<Entry, _> = serde_json::from_str(&row.text);
    let mut status = None;
    match &entry {
        Ok(Entry { what: What::Done, of: Some(of), status, .. }) => {
            ends.insert(*of, status.unwrap_or_default());
            return Ok(None);
        }
        Ok(Entry { what: What::Asked, .. }) => {
            status = match ends.remove(&row.seq) {
                Some(status) => Some(status),
                None => end_of(audit, row.seq).await?,
            };
        }
        _ => {}
    }
    // What this program does not know is shown as it was written.
    let text = || serde_json::from_str::<Value>(&row.text).unwrap_or_else(|_| json!(row.text));
    let written = match entry {
        Ok(_) => text(),
        Err(_) if row.text.starts_with(r#"{"trimmed""#) => json!({ "what": "trimmed", "body": text() }),
        Err(_) => json!({ "what": "other", "body": text() }),
    };
    let mut item = Map::new();
    for always in ["keyId", "keyName", "role", "address", "node", "method", "path", "body", "status"] {
        item.insert(always.to_owned(), Value::Null);
    }
    if let Value::Object(written) = written {
        item.extend(written);
    }
    if let Some(status) = status {
        item.insert("status".to_owned(), json!(status));
    }
    item.insert("id".to_owned(), json!(row.seq.to_string()));
    item.insert("at".to_owned(), show::time(row.at));
    item.insert("hash".to_owned(), json!(row.hash));
    Ok(Some(Value::Object(item)))
}

/// How what a row asked for has ended, if a row on a newer page says so.
async fn end_of(audit: &Audit, seq: u64) -> Result<Option<u16>, Problem> {
    let rows = audit.rows(Page::After(seq), LOOK_AHEAD).await?;
    let ends = rows.iter().filter_map(|row| serde_json::from_str::<Entry>(&row.text).ok());
    Ok(ends.filter(|entry| entry.of == Some(seq)).find_map(|entry| entry.status))
}

/// An entry from before the chain.
fn unchained(entry: Record) -> Value {
    let mut body = entry.body;
    let at = body["at"].as_u64().map(|at| show::time(Millis(at)));
    body["at"] = json!(at);
    body["id"] = json!(entry.id);
    body["what"] = json!("unchained");
    body["address"] = Value::Null;
    body
}

/// Rows as they are stored, oldest first, with the ends of the chain: enough to check it.
pub(crate) async fn export(State(app): State<App>, Query(query): Query<BTreeMap<String, String>>) -> Answer {
    let (cursor, limit) = asked(query, LARGEST_EXPORT, LARGEST_EXPORT)?;
    let after = cursor.as_deref().map_or(Ok(0), str::parse);
    let after: u64 = after.map_err(|_| Problem::at(Code::BadQuery, "cursor", "it is of no page here"))?;
    // The ends first: rows that are added meanwhile are beyond the head, and are left for the next time.
    let ends = app.audit.ends().await?;
    let unnumbered = app.audit.unnumbered().await?;
    let rows = app.audit.rows(Page::After(after), limit).await?;
    let next = if rows.len() >= limit as usize { rows.last().map(|row| row.seq.to_string()) } else { None };
    let items: Vec<Value> = rows.iter().map(row).collect();
    Ok(Json(json!({
        "anchor": ends.anchor, "head": ends.head, "unnumbered": unnumbered, "items": items, "nextCursor": next,
    })))
}

fn row(row: &Row) -> Value {
    json!({ "seq": row.seq, "at": row.at, "entry": row.text, "hash": row.hash })
}
