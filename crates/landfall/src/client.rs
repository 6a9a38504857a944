//! The API as the command line uses it.

use anyhow::{Context, Result, bail};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode};
use serde_json::Value;

/// The variable that holds the key that is shown to servers.
const API_KEY: &str = "LANDFALL_API_KEY";

/// A server by its URL.
pub(crate) struct Client {
    url: String,
    http: reqwest::Client,
}

/// One answer: its status and its JSON.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

impl Client {
    pub(crate) fn new(url: &str) -> Result<Self> {
        let mut headers = HeaderMap::new();
        // Not an argument: other users of the machine see those.
        if let Ok(key) = std::env::var(API_KEY)
            && !key.is_empty()
        {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
                .with_context(|| format!("{API_KEY} has characters that no API key has"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let http = reqwest::Client::builder()
            .no_proxy()
            .default_headers(headers)
            .timeout(std::time::Duration::from_secs(30))
            .build()?;
        Ok(Self { url: url.trim_end_matches('/').to_owned(), http })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Asks, and gives back whatever came.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer> {
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.with_context(|| {
            format!("no server answers at {}; start one (`landfall dev`) or name it with --url", self.url)
        })?;
        let status = response.status();
        let text = response.text().await.context("the answer broke off")?;
        let body = serde_json::from_str(&text)
            .with_context(|| format!("{} does not answer like Landfall (HTTP {status})", self.url))?;
        Ok(Answer { status, body })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        let answer = self.ask(Method::GET, path, None).await?;
        good(answer)
    }

    /// Asks with any method.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let answer = self.ask(method, path, body).await?;
        good(answer)
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value> {
        let answer = self.ask(Method::DELETE, path, None).await?;
        good(answer)
    }

    pub(crate) async fn post(&self, path: &str, body: Option<&Value>) -> Result<Value> {
        let answer = self.ask(Method::POST, path, body).await?;
        good(answer)
    }
}

/// The body of a good answer, or the server's own words.
fn good(answer: Answer) -> Result<Value> {
    if answer.status.is_success() {
        return Ok(answer.body);
    }
    let part = |name: &str| answer.body.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
    if answer.status == StatusCode::UNAUTHORIZED {
        bail!("{} ({}); this command shows the key in {API_KEY}", part("detail"), part("code"));
    }
    bail!("{} ({})", part("detail"), part("code"))
}
