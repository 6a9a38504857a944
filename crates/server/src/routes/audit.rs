//! The audit log, for administrators.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Query, State};
use landfall_core::Millis;
use serde_json::{Value, json};

use crate::problem::{Code, Problem};
use crate::serve::App;
use crate::show;

const PAGE: u32 = 50;
const LARGEST_PAGE: u32 = 500;

pub(crate) async fn list(
    State(app): State<App>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Result<Json<Value>, Problem> {
    let (mut cursor, mut limit) = (None, PAGE);
    for (name, text) in query {
        match name.as_str() {
            "cursor" => cursor = Some(text),
            "limit" => {
                let asked = text.parse().ok().filter(|limit| (1..=LARGEST_PAGE).contains(limit));
                limit = asked.ok_or_else(|| {
                    Problem::at(Code::BadQuery, "limit", format!("{text:?} is not a number from 1 to 500"))
                })?;
            }
            _ => return Err(Problem::at(Code::BadQuery, name.as_str(), "there are cursor and limit")),
        }
    }
    let entries = app.audit.list(cursor, limit).await?;
    let more = entries.len() >= limit as usize;
    let next = entries.last().filter(|_| more).map(|entry| entry.id.clone());
    let items: Vec<Value> = entries
        .into_iter()
        .map(|entry| {
            let mut body = entry.body;
            let at = body["at"].as_u64().map(|at| show::time(Millis(at)));
            body["at"] = json!(at);
            body["id"] = json!(entry.id);
            body
        })
        .collect();
    Ok(Json(json!({ "items": items, "nextCursor": next })))
}
