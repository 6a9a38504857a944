//! A caller of the HTTP API.

use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{contract, until};

/// A client that opens as many connections as it has requests under way.
pub(crate) fn http_client() -> reqwest::Client {
    // Set by whoever comes first; all set the same.
    rustls::crypto::ring::default_provider().install_default().ok();
    reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(60)).build().expect("an HTTP client")
}

/// One answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: Value,
}

impl Answer {
    /// The body of an answer with this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    /// Checks that this is a problem with this status and code, and gives its sentence.
    #[track_caller]
    pub(crate) fn expect_problem(self, status: u16, code: &str) -> String {
        assert_eq!((self.status, &self.body["code"]), (status, &json!(code)), "{}", self.body);
        assert_eq!(self.content_type, "application/problem+json");
        assert_eq!(self.body["status"], status);
        for name in ["type", "title", "detail"] {
            assert!(!text(&self.body, name).is_empty(), "{name} is missing: {}", self.body);
        }
        text(&self.body, "detail")
    }
}

/// The text of a field, empty where there is none.
pub(crate) fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn is_terminal(state: &str) -> bool {
    ["confirmed", "reverted", "failed", "cancelled", "expired"].contains(&state)
}

#[derive(Clone)]
pub(crate) struct Api {
    url: String,
    http: reqwest::Client,
    key: Option<String>,
}

impl Api {
    pub(crate) fn at(url: &str) -> Self {
        Self { url: url.to_owned(), http: http_client(), key: None }
    }

    /// The same server, called with this API key.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self.clone() }
    }

    /// The API key that it is called with.
    pub(crate) fn key(&self) -> &str {
        self.key.as_deref().unwrap_or_default()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A request to a path, for the caller to fill.
    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.url));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Sends a request; none if nobody answers.
    pub(crate) async fn try_send(&self, request: reqwest::RequestBuilder) -> Option<Answer> {
        let (client, request) = request.build_split();
        let request = request.expect("a request that can be sent");
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let response = client.execute(request).await.ok()?;
        let status = response.status().as_u16();
        let content_type = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let bytes = response.bytes().await.ok()?;
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        let answer = Answer { status, content_type, body };
        contract::check(&method, &path, &answer);
        Some(answer)
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        self.try_send(request).await.expect("the server answers")
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// A command: a request without a body.
    pub(crate) async fn command(&self, path: &str) -> Answer {
        self.send(self.request(Method::POST, path)).await
    }

    /// Hands over a new transaction and gives its id.
    pub(crate) async fn submit(&self, body: &Value) -> String {
        text(&self.post("/api/v1/tx", body).await.expect(202), "txId")
    }

    pub(crate) async fn tx(&self, id: &str) -> Value {
        self.get(&format!("/api/v1/tx/{id}")).await.expect(200)
    }

    pub(crate) async fn journal(&self, id: &str) -> Vec<Value> {
        let page = self.get(&format!("/api/v1/tx/{id}/journal")).await.expect(200);
        page["items"].as_array().expect("a list").clone()
    }

    /// The kinds of a transaction's journal entries, in order.
    pub(crate) async fn time_line(&self, id: &str) -> Vec<String> {
        self.journal(id).await.iter().map(|entry| text(entry, "type")).collect()
    }

    /// Waits until a transaction looks as wanted, and gives it.
    pub(crate) async fn until_tx(&self, id: &str, what: &str, looks: impl Fn(&Value) -> bool) -> Value {
        let last = RefCell::new(Value::Null);
        let what = fmt::from_fn(|f| write!(f, "{what}; it looks like this: {:#}", last.borrow()));
        until(what, async || {
            let tx = self.tx(id).await;
            last.replace(tx.clone());
            looks(&tx).then_some(tx)
        })
        .await
    }

    /// Waits until a transaction is in this state.
    pub(crate) async fn until_state(&self, id: &str, state: &str) -> Value {
        let tx = self
            .until_tx(id, &format!("it becomes {state}"), |tx| {
                let now = text(tx, "state");
                now == state || is_terminal(&now)
            })
            .await;
        assert_eq!(text(&tx, "state"), state, "{tx:#}");
        tx
    }

    /// Every transaction that fits the filter, oldest first, page by page.
    pub(crate) async fn list(&self, filter: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("/api/v1/tx?limit=500{filter}{cursor}")).await.expect(200);
            all.extend(page["items"].as_array().expect("a list").clone());
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        all.reverse();
        all
    }

    pub(crate) async fn lane(&self, signer: &str) -> Value {
        self.get(&format!("/api/v1/lanes/{}/{signer}", super::CHAIN_ID)).await.expect(200)
    }

    /// Waits until no lane has anything left to do.
    pub(crate) async fn until_all_done(&self, limit: Duration) {
        super::until_within(limit, "every lane is done", async || {
            let lanes = self.get("/api/v1/lanes").await.expect(200);
            let left =
                |lane: &Value| lane["waiting"].as_u64().unwrap_or(1) + lane["inFlight"].as_u64().unwrap_or(1);
            (lanes["items"].as_array()?.iter().map(left).sum::<u64>() == 0).then_some(())
        })
        .await;
    }
}
