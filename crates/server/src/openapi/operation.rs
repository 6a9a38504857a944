//! One call: what it takes, what it answers, and how it is refused. What all calls have in common is added here.

use std::collections::BTreeMap;

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::schema::{refer, words};
use crate::access::{self, Need, Role};
use crate::problem::Code;

pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) path: &'static str,
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    description: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: Vec<(u16, Value)>,
    refuses: Vec<Code>,
}

pub(super) fn get(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::GET, path, id, summary)
}

pub(super) fn post(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::POST, path, id, summary)
}

pub(super) fn patch(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::PATCH, path, id, summary)
}

pub(super) fn delete(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::DELETE, path, id, summary)
}

impl Operation {
    pub(super) fn new(method: Method, path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self {
            method,
            path,
            id,
            tag: "",
            summary,
            description: "",
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
            refuses: Vec::new(),
        }
    }

    pub(super) fn tag(mut self, tag: &'static str) -> Self {
        self.tag = tag;
        self
    }

    pub(super) fn says(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// A part of the path.
    pub(super) fn at(mut self, name: &str, schema: Value) -> Self {
        self.parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
        self
    }

    /// A parameter of the query that may be left out.
    pub(super) fn query(mut self, name: &str, schema: Value, text: &str) -> Self {
        let parameter =
            json!({ "name": name, "in": "query", "required": false, "schema": schema, "description": text });
        self.parameters.push(parameter);
        self
    }

    /// A parameter of the query that must be there.
    pub(super) fn asks(mut self, name: &str, schema: Value, text: &str) -> Self {
        let parameter =
            json!({ "name": name, "in": "query", "required": true, "schema": schema, "description": text });
        self.parameters.push(parameter);
        self
    }

    /// A parameter as it stands in the document.
    pub(super) fn parameter(mut self, parameter: Value) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// A JSON body.
    pub(super) fn takes(self, schema: Value, required: bool) -> Self {
        let mut operation = self.refuses(READING);
        operation.body =
            Some(json!({ "required": required, "content": { "application/json": { "schema": schema } } }));
        operation
    }

    /// A JSON answer.
    pub(super) fn answers(self, status: u16, text: &str, schema: Value) -> Self {
        self.answers_as(status, text, "application/json", schema)
    }

    pub(super) fn answers_as(mut self, status: u16, text: &str, kind: &str, schema: Value) -> Self {
        let answer = json!({ "description": text, "content": { kind: { "schema": schema } } });
        self.answers.push((status, answer));
        self
    }

    /// An answer without a body.
    pub(super) fn answers_nothing(mut self, status: u16, text: &str) -> Self {
        self.answers.push((status, json!({ "description": text })));
        self
    }

    /// An example of an answer that was just named.
    pub(super) fn like(mut self, example: Value) -> Self {
        if let Some((_, answer)) = self.answers.last_mut()
            && let Some(content) = answer
                .get_mut("content")
                .and_then(Value::as_object_mut)
                .and_then(|map| map.values_mut().next())
        {
            content["example"] = example;
        }
        self
    }

    /// Codes that only some calls have.
    pub(super) fn refuses(mut self, codes: &[Code]) -> Self {
        self.refuses.extend(codes);
        self
    }

    /// The operation as it stands in the document, for callers who need this.
    pub(super) fn document(self, need: Need) -> Value {
        let mut problems: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
        let mut add = |code: Code| {
            let codes = problems.entry(code.status().as_u16()).or_default();
            if !codes.contains(&code) {
                codes.push(code);
            }
        };
        ALWAYS.iter().copied().for_each(&mut add);
        if !matches!(self.method, Method::GET) {
            add(Code::CrossOrigin);
        }
        if need != Need::Nobody {
            [Code::Unauthorized, Code::Forbidden].into_iter().for_each(&mut add);
        }
        if access::needs_a_sure_key(&self.method, self.path, need) {
            add(Code::StoreOlder);
        }
        if self.path.contains('{') {
            add(Code::NotFound);
        }
        if self.parameters.iter().any(|parameter| parameter["in"] == "query") {
            add(Code::BadQuery);
        }
        if self.parameters.iter().any(|parameter| parameter["name"] == "Idempotency-Key") {
            add(Code::BadRequestId);
        }
        self.refuses.iter().copied().for_each(&mut add);

        let mut responses: Map<String, Value> =
            problems.into_iter().map(|(status, codes)| (status.to_string(), refusal(&codes))).collect();
        for (status, answer) in self.answers {
            let place = responses.entry(status.to_string()).or_insert_with(|| json!({}));
            // One status may be an answer and a problem: the content type says which.
            let problem = place.get("content").and_then(Value::as_object).cloned().unwrap_or_default();
            *place = answer;
            if let Some(content) = place.get_mut("content").and_then(Value::as_object_mut) {
                content.extend(problem);
            }
        }
        let role = match need {
            Need::Nobody => "nobody",
            Need::Role(role) => role.name(),
        };
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "responses": responses,
            "security": security(need),
            "x-landfall-role": role,
        });
        if !self.description.is_empty() {
            operation["description"] = json!(self.description);
        }
        if !self.parameters.is_empty() {
            operation["parameters"] = json!(self.parameters);
        }
        if let Some(body) = self.body {
            operation["requestBody"] = body;
        }
        operation
    }
}

/// What any call may be refused for, whatever it asks.
const ALWAYS: &[Code] = &[
    Code::WrongHost,
    Code::BodyTooLarge,
    Code::BodyTooSlow,
    Code::TooManyBytes,
    Code::TooManyBytesOfOne,
    Code::TooManyConnections,
    Code::QuotaReached,
    Code::InvalidJson,
    Code::RateLimited,
    Code::StoreUnavailable,
    Code::Internal,
];

/// What any body may be refused for.
const READING: &[Code] =
    &[Code::InvalidJson, Code::WrongContentType, Code::MissingField, Code::UnknownField, Code::WrongType];

/// A refusal with one of these codes, which all have the same status.
fn refusal(codes: &[Code]) -> Value {
    let lines: Vec<String> =
        codes.iter().map(|code| format!("`{}`: {}", code.text(), code.title())).collect();
    let one = words(codes.iter().map(|code| code.text()));
    let schema = json!({ "allOf": [refer("Problem"), { "properties": { "code": one } }] });
    let mut response = json!({
        "description": lines.join("; "),
        "content": { "application/problem+json": { "schema": schema } },
    });
    let again = codes.iter().any(|code| matches!(code.status().as_u16(), 429 | 503));
    if again {
        let seconds = json!({ "type": "integer", "minimum": 0 });
        response["headers"] = json!({ "Retry-After": { "schema": seconds, "description": "after how many seconds to ask again" } });
    }
    if codes.contains(&Code::NotOwner) {
        let owner =
            json!({ "schema": { "type": "string" }, "description": "with `not_the_owner`: who to ask" });
        response["headers"] = json!({ "Landfall-Owner": owner });
    }
    response
}

fn security(need: Need) -> Value {
    match need {
        Need::Nobody => json!([]),
        Need::Role(Role::Viewer | Role::Approver | Role::Submitter | Role::Operator | Role::Admin) => {
            json!([{ "bearer": [] }, { "header": [] }, { "basic": [] }])
        }
    }
}
