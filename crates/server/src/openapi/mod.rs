//! The OpenAPI document: what callers may rely on, for programs that read it.
//!
//! Requests are read field by field and answers are written as JSON (decision 0009), so there are no types to derive a
//! document from. It is written here in the words of [`schema`], takes its lists of words and its limits from the code,
//! and is held to the code from three sides: to the [table](crate::routes) of paths by a test in this file, to every answer
//! that the end-to-end tests get, and to what a generator of requests can think of.

mod calls;
mod journal;
mod operation;
mod others;
mod page;
mod requests;
mod schema;
mod transaction;
mod webhooks;
mod words;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::routes::table;

// What examples are about.
const SIGNER: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const RECEIVER: &str = "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720";
const TX_ID: &str = "01a1e0d3-0d68-723f-adfc-baff0193aae9";
const COMMAND_ID: &str = "01a1e0d3-a5bd-73c7-995f-56431dbe49d9";

const ABOUT: &str = "Hand Landfall a transaction once, and it lands on chain exactly once.\n\n\
    Bodies and answers are JSON in camelCase. Wei amounts and prices are decimal strings. Times are RFC 3339 in UTC. A field \
    that has no value is left out, and a field that is not known is refused. Failures are problems (RFC 9457) with a stable \
    `code`. `x-landfall-role` is the least role that an API key needs for a call.";

/// The document as served and as committed in `docs/openapi.json`.
pub static DOCUMENT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", document()));

/// The same as a page to read.
pub(crate) static PAGE: LazyLock<page::Page> = LazyLock::new(|| page::Page::of(&document()));

fn document() -> Value {
    let mut paths = Map::new();
    for call in calls::all() {
        // What the table does not have is closed, and is not offered here.
        let Some(need) = table::need(&call.method, call.path) else { continue };
        let method = call.method.as_str().to_ascii_lowercase();
        let path = paths.entry(call.path.to_owned()).or_insert_with(|| json!({}));
        path[method] = call.document(need);
    }
    let schemas: Map<String, Value> = [
        words::schemas(),
        requests::schemas(),
        transaction::schemas(),
        journal::schemas(),
        others::schemas(),
        webhooks::schemas(),
    ]
    .into_iter()
    .flatten()
    .map(|(name, schema)| (name.to_owned(), schema))
    .collect();
    let tags = calls::TAGS.map(|(name, text)| json!({ "name": name, "description": text }));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Landfall",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "`Authorization: Bearer lf_…`" },
                "header": { "type": "apiKey", "in": "header", "name": "X-API-Key", "description": "the same in a header of its own" },
                "basic": { "type": "http", "scheme": "basic", "description": "the key as the password, for programs that only take a URL" },
            },
        },
    })
}

#[cfg(test)]
mod tests;
