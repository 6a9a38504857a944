//! The document as a page. It is made here, once: the browser runs no script and loads nothing, so the page works
//! without a network and its policy can forbid everything.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::calls::TAGS;

const STYLE: &str = include_str!("page.css");
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

pub(crate) struct Page {
    pub(crate) html: String,
    /// The content security policy that goes with it.
    pub(crate) policy: String,
}

impl Page {
    pub(super) fn of(document: &Value) -> Self {
        let hash = BASE64_STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        Self { html: html(document), policy }
    }
}

fn html(document: &Value) -> String {
    let info = &document["info"];
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Landfall API</title><style>{STYLE}</style></head><body>\
         <h1>Landfall API</h1><p class=\"role\">version {} · for programs: <a href=\"/openapi.json\">openapi.json</a></p>{}",
        escaped(text(&info["version"])),
        paragraphs(text(&info["description"])),
    );
    for (tag, about) in TAGS {
        push(&mut page, format_args!("<h2 id=\"{tag}\">{tag}</h2><p>{}</p>", escaped(about)));
        for (path, method, call) in calls(document).filter(|(_, _, call)| call["tags"][0] == tag) {
            one_call(&mut page, path, method, call);
        }
    }
    page.push_str("<h2 id=\"schemas\">Schemas</h2><nav>");
    let schemas = document["components"]["schemas"].as_object();
    for name in schemas.into_iter().flat_map(|schemas| schemas.keys()) {
        push(&mut page, format_args!("<a href=\"#schema-{name}\">{name}</a>"));
    }
    page.push_str("</nav>");
    for (name, schema) in schemas.into_iter().flatten() {
        push(&mut page, format_args!("<h3 id=\"schema-{name}\">{name}</h3>{}", shown(schema, true)));
    }
    page.push_str("</body></html>\n");
    page
}

fn calls(document: &Value) -> impl Iterator<Item = (&str, &'static str, &Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths.flat_map(|(path, item)| {
        METHODS.into_iter().filter_map(move |method| Some((path.as_str(), method, item.get(method)?)))
    })
}

fn one_call(page: &mut String, path: &str, method: &str, call: &Value) {
    push(
        page,
        format_args!(
            "<details id=\"{}\"><summary><span class=\"method\">{}</span> <code>{}</code> — {} <span class=\"role\">{}</span></summary><div>{}",
            escaped(text(&call["operationId"])),
            method.to_ascii_uppercase(),
            escaped(path),
            escaped(text(&call["summary"])),
            escaped(text(&call["x-landfall-role"])),
            paragraphs(text(&call["description"])),
        ),
    );
    let parameters = call["parameters"].as_array();
    if parameters.is_some_and(|all| !all.is_empty()) {
        page.push_str("<h4>Parameters</h4><table>");
        for parameter in parameters.into_iter().flatten() {
            let must = if parameter["required"] == true { "" } else { "optional" };
            push(
                page,
                format_args!(
                    "<tr><td><code>{}</code></td><td class=\"must\">{} {must}</td><td>{} {}</td></tr>",
                    escaped(text(&parameter["name"])),
                    escaped(text(&parameter["in"])),
                    shown(&parameter["schema"], false),
                    inline(text(&parameter["description"])),
                ),
            );
        }
        page.push_str("</table>");
    }
    if let Some(body) = call.get("requestBody") {
        let must = if body["required"] == true { "" } else { " <span class=\"must\">optional</span>" };
        push(page, format_args!("<h4>Body{must}</h4>{}", contents(&body["content"])));
    }
    page.push_str("<h4>Answers</h4><table>");
    for (status, answer) in call["responses"].as_object().into_iter().flatten() {
        let description =
            text(&answer["description"]).split("; ").map(inline).collect::<Vec<_>>().join("<br>");
        // Refusals all look the same, and their words are in the description.
        let is_problem = answer["content"].get("application/problem+json").is_some();
        let content = if is_problem && answer["content"].as_object().is_some_and(|all| all.len() == 1) {
            String::new()
        } else {
            contents(&answer["content"])
        };
        push(page, format_args!("<tr><td>{}</td><td>{description}{content}</td></tr>", escaped(status)));
    }
    page.push_str("</table></div></details>");
}

fn contents(content: &Value) -> String {
    let mut all = String::new();
    for (kind, media) in
        content.as_object().into_iter().flatten().filter(|(kind, _)| !kind.contains("problem"))
    {
        push(
            &mut all,
            format_args!("<p><code>{}</code>: {}</p>", escaped(kind), shown(&media["schema"], false)),
        );
        if let Some(example) = media.get("example") {
            push(&mut all, format_args!("<pre>{}</pre>", escaped(&format!("{example:#}"))));
        }
    }
    all
}

/// A schema in words; its fields as a table where it stands by itself.
fn shown(schema: &Value, with_text: bool) -> String {
    let mut all = if with_text { paragraphs(text(&schema["description"])) } else { String::new() };
    all.push_str(&kind(schema));
    if let Some(fields) = schema["properties"].as_object() {
        all.push_str("<table>");
        for (name, field) in fields {
            let must = schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
            push(
                &mut all,
                format_args!(
                    "<tr><td><code>{}</code></td><td class=\"must\">{}</td><td>{} {}</td></tr>",
                    escaped(name),
                    if must { "" } else { "optional" },
                    shown(field, false),
                    inline(text(&field["description"])),
                ),
            );
        }
        all.push_str("</table>");
    }
    for example in schema["examples"].as_array().into_iter().flatten().filter(|_| with_text) {
        push(&mut all, format_args!("<pre>{}</pre>", escaped(&format!("{example:#}"))));
    }
    all
}

/// What kind of value it is.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("<a href=\"#schema-{0}\">{0}</a>", escaped(name));
    }
    for (word, between) in [("anyOf", " or "), ("oneOf", "<hr>"), ("allOf", " and ")] {
        if let Some(choices) = schema[word].as_array() {
            return choices.iter().map(|choice| shown(choice, false)).collect::<Vec<_>>().join(between);
        }
    }
    if let Some(word) = schema.get("const") {
        return format!("<code>{}</code>", escaped(&word.to_string()));
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> =
            words.iter().map(|word| format!("<code>{}</code>", escaped(&word.to_string()))).collect();
        return words.join(", ");
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("list of {}", shown(&schema["items"], false)),
        Value::String(kind) => escaped(kind),
        Value::Array(kinds) => {
            let kinds: Vec<String> = kinds
                .iter()
                .map(|kind| match kind.as_str() {
                    Some("array") => format!("list of {}", shown(&schema["items"], false)),
                    other => escaped(other.unwrap_or_default()),
                })
                .collect();
            kinds.join(" or ")
        }
        _ => "any JSON".to_owned(),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn paragraphs(text: &str) -> String {
    let parts = text.split("\n\n").filter(|part| !part.is_empty());
    parts.map(|part| format!("<p>{}</p>", inline(part))).collect()
}

/// Words between backquotes are code.
fn inline(text: &str) -> String {
    let parts = escaped(text);
    let parts = parts.split('`').enumerate();
    parts.map(|(n, part)| if n % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() }).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn push(page: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    page.write_fmt(what).ok();
}
