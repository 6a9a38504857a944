//! Words to write JSON schemas with. An object has the fields that are named and no others.

use serde_json::{Map, Value, json};

/// A field of an object.
pub(super) struct Field {
    name: &'static str,
    schema: Value,
    always: bool,
}

/// A field that is always there.
pub(super) fn has(name: &'static str, schema: Value) -> Field {
    Field { name, schema, always: true }
}

/// A field that is left out where it has no value.
pub(super) fn may(name: &'static str, schema: Value) -> Field {
    Field { name, schema, always: false }
}

/// A field that a caller may leave out; `null` counts as left out.
pub(super) fn optional(name: &'static str, schema: Value) -> Field {
    may(name, or_null(schema))
}

pub(super) fn object(text: &str, fields: impl IntoIterator<Item = Field>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for Field { name, schema, always } in fields {
        if always {
            required.push(name);
        }
        properties.insert(name.to_owned(), schema);
    }
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if text.is_empty() { schema } else { said(schema, text) }
}

/// The schema of this name in the document.
pub(super) fn refer(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The same with a sentence.
pub(super) fn said(mut schema: Value, text: &str) -> Value {
    schema["description"] = json!(text);
    schema
}

pub(super) fn example(mut schema: Value, example: Value) -> Value {
    schema["examples"] = json!([example]);
    schema
}

pub(super) fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

pub(super) fn text() -> Value {
    json!({ "type": "string" })
}

pub(super) fn flag() -> Value {
    json!({ "type": "boolean" })
}

/// A whole number that fits 64 bits without a sign.
pub(super) fn number() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX })
}

pub(super) fn word(word: &str) -> Value {
    json!({ "type": "string", "const": word })
}

pub(super) fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Value {
    json!({ "type": "string", "enum": words.into_iter().collect::<Vec<_>>() })
}

pub(super) fn any_of(schemas: impl IntoIterator<Item = Value>) -> Value {
    json!({ "anyOf": schemas.into_iter().collect::<Vec<_>>() })
}

/// The value, or `null`.
pub(super) fn or_null(mut schema: Value) -> Value {
    match schema.get("type").and_then(Value::as_str).map(str::to_owned) {
        Some(kind) if schema.get("enum").is_none() && schema.get("const").is_none() => {
            schema["type"] = json!([kind, "null"]);
            schema
        }
        _ => any_of([schema, json!({ "type": "null" })]),
    }
}

/// A page of a list.
pub(super) fn page(of: &str) -> Value {
    let next = said(or_null(text()), "the `cursor` of the next page; null on the last");
    object("", [has("items", list(refer(of))), has("nextCursor", next)])
}
