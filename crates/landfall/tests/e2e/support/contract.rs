//! Every answer that a test gets is held to the OpenAPI document: its status, its type and its fields.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use reqwest::Method;
use serde_json::{Value, json};

use super::Answer;

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(&landfall_server::OPENAPI).expect("the document is JSON"));

/// Schemas that were needed before, by where they stand.
static KNOWN: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// Panics if the document does not have such an answer to such a call.
pub(crate) fn check(method: &Method, path: &str, answer: &Answer) {
    // A HEAD's answer is cut off; what the document does not have is refused, which other tests look at.
    let Some((template, call)) = call(method, path) else { return };
    let what = format!("{method} {template} answered {}", answer.status);
    let response = &call["responses"][answer.status.to_string()];
    assert!(response.is_object(), "{what}, which the document does not have: {}", answer.body);
    if response.get("content").is_none() {
        assert_eq!(answer.body, "", "{what}, which has no body");
        return;
    }
    let kind = answer.content_type.split(';').next().unwrap_or_default().trim();
    let Some(schema) = response["content"].get(kind).map(|content| &content["schema"]) else {
        panic!("{what} as {kind:?}, which the document does not have: {}", answer.body);
    };
    if !kind.ends_with("json") {
        return;
    }
    let place = format!("{method} {template} {} {kind}", answer.status);
    if let Err(error) = validator(place, schema).validate(&answer.body) {
        panic!("{what}, and the answer is not as the document says: {error} in {:#}", answer.body);
    }
}

/// The call that a path is meant for: one that is written out goes before one with a place for an id.
fn call(method: &Method, path: &str) -> Option<(&'static str, &'static Value)> {
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |template: &str| {
        let wanted: Vec<&str> = template.split('/').collect();
        wanted.len() == parts.len()
            && wanted.iter().zip(&parts).all(|(wanted, part)| wanted.starts_with('{') || wanted == part)
    };
    let paths = DOCUMENT["paths"].as_object()?;
    let (template, item) = paths
        .iter()
        .filter(|(template, _)| fits(template))
        .min_by_key(|(template, _)| template.matches('{').count())?;
    Some((template, item.get(method.as_str().to_ascii_lowercase())?))
}

fn validator(place: String, schema: &Value) -> Arc<Validator> {
    let mut known = KNOWN.lock().unwrap_or_else(|broken| broken.into_inner());
    let make = || {
        let whole = json!({ "components": DOCUMENT["components"], "allOf": [schema] });
        Arc::new(jsonschema::options().should_validate_formats(true).build(&whole).expect("a schema"))
    };
    known.entry(place).or_insert_with(make).clone()
}

/// Panics if these bytes are no event as the document has it.
pub(crate) fn check_event(data: &Value) {
    let schema = json!({ "$ref": "#/components/schemas/Event" });
    if let Err(error) = validator("an event".to_owned(), &schema).validate(data) {
        panic!("an event is not as the document says: {error} in {data:#}");
    }
}
