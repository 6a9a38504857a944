//! The calls.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::error::{Error, Problem};
use crate::events::{EventFilter, Events};
use crate::types::{
    Accepted, ApiKey, BatchItem, CommandAccepted, JournalEntry, Lane, Page, Payload, Submission, Transaction,
    TxFilter,
};

/// How long one call may take.
const CALL: Duration = Duration::from_secs(30);
/// A stream is heard of at least every 15 s.
const SILENCE: Duration = Duration::from_secs(60);
/// How often a transaction that is waited for is asked for.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// A server by its URL. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    url: String,
    http: reqwest::Client,
    /// For streams, which have no end.
    streams: reqwest::Client,
}

impl Client {
    /// `key` is an API key; a server that is open needs none.
    pub fn new(url: &str, key: Option<&str>) -> Result<Self, Error> {
        Self::trusting(url, key, None)
    }

    /// As [`Self::new`], where `authority` (PEM) may have signed the server's certificate as well as those that the
    /// system knows.
    pub fn trusting(url: &str, key: Option<&str>, authority: Option<&[u8]>) -> Result<Self, Error> {
        // The program may have chosen its own before; then this changes nothing.
        rustls::crypto::ring::default_provider().install_default().ok();
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| Error::BadKey)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let authorities = match authority {
            Some(pem) => {
                let found = reqwest::Certificate::from_pem_bundle(pem).map_err(Error::BadCertificate)?;
                if found.is_empty() {
                    return Err(Error::NoCertificate);
                }
                found
            }
            None => Vec::new(),
        };
        let builder = || {
            let builder = reqwest::Client::builder().no_proxy().default_headers(headers.clone());
            if authorities.is_empty() { builder } else { builder.tls_certs_merge(authorities.clone()) }
        };
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            http: builder().timeout(CALL).build().map_err(Error::Setup)?,
            streams: builder().read_timeout(SILENCE).build().map_err(Error::Setup)?,
        })
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Hands a transaction over. With a `request_id` it is safe to repeat.
    pub async fn submit(&self, submission: &Submission) -> Result<Accepted, Error> {
        self.post("/api/v1/tx", Some(submission)).await
    }

    /// Hands many over; what became of each is in their order.
    pub async fn submit_batch(&self, submissions: &[Submission]) -> Result<Vec<BatchItem>, Error> {
        #[derive(serde::Deserialize)]
        struct Items {
            items: Vec<BatchItem>,
        }
        let answer: Items = self.post("/api/v1/tx/batch", Some(submissions)).await?;
        Ok(answer.items)
    }

    pub async fn transaction(&self, id: &str) -> Result<Transaction, Error> {
        self.look(&["tx", id], &[]).await
    }

    /// Finds a transaction by the caller's own key.
    pub async fn by_request(&self, signer: &str, request_id: &str) -> Result<Transaction, Error> {
        self.look(
            &["tx", "by-request"],
            &[("signer", signer.to_owned()), ("requestId", request_id.to_owned())],
        )
        .await
    }

    /// Newest first.
    pub async fn transactions(&self, filter: &TxFilter) -> Result<Page<Transaction>, Error> {
        self.look(&["tx"], &filter.query()).await
    }

    /// Everything that happened to a transaction, oldest first.
    pub async fn journal(&self, id: &str) -> Result<Vec<JournalEntry>, Error> {
        let page: Page<JournalEntry> = self.look(&["tx", id, "journal"], &[]).await?;
        Ok(page.items)
    }

    /// Waits until a transaction has ended, however it did.
    pub async fn wait_until_ended(&self, id: &str, limit: Duration) -> Result<Transaction, Error> {
        let wait = async {
            loop {
                let tx = self.transaction(id).await?;
                if tx.state.has_ended() {
                    return Ok(tx);
                }
                tokio::time::sleep(ASK_EVERY).await;
            }
        };
        let ended = tokio::time::timeout(limit, wait).await;
        ended.unwrap_or_else(|_| Err(Error::NotEnded { tx: id.to_owned(), limit }))
    }

    /// Ends it without its content, if the chain lets us.
    pub async fn cancel(&self, id: &str) -> Result<CommandAccepted, Error> {
        self.on_tx(id, "cancel", None::<&()>).await
    }

    /// Gives it another content. `options` may have `maxFeePerGas`, `speed` and `deadline`.
    pub async fn replace(
        &self,
        id: &str,
        payload: &Payload,
        options: &Map<String, Value>,
    ) -> Result<CommandAccepted, Error> {
        self.on_tx(id, "replace", Some(&json!({ "payload": payload, "options": options }))).await
    }

    /// A dearer attempt now. `price` may have `maxFeePerGas`, `maxPriorityFeePerGas` and `speed`.
    pub async fn speed_up(&self, id: &str, price: &Map<String, Value>) -> Result<CommandAccepted, Error> {
        self.on_tx(id, "speed-up", Some(price)).await
    }

    /// A person's yes to its newest content, or to the one of this version.
    /// A person's yes, to this version; `held_for` is the nonce that was looked at, of one that may have landed.
    pub async fn approve(
        &self,
        id: &str,
        version: Option<u32>,
        held_for: Option<u64>,
    ) -> Result<CommandAccepted, Error> {
        self.on_tx(id, "approve", Some(&json!({ "version": version, "heldFor": held_for }))).await
    }

    pub async fn reject(
        &self,
        id: &str,
        version: Option<u32>,
        held_for: Option<u64>,
    ) -> Result<CommandAccepted, Error> {
        self.on_tx(id, "reject", Some(&json!({ "version": version, "heldFor": held_for }))).await
    }

    /// A person's word on whose transaction took its nonce and does the same: `ours` or `foreign`.
    pub async fn settle(&self, id: &str, taken: &str, hash: Option<&str>) -> Result<CommandAccepted, Error> {
        let mut settlement = json!({ "taken": taken });
        if let Some(hash) = hash {
            settlement["hash"] = json!(hash);
        }
        self.on_tx(id, "settle", Some(&settlement)).await
    }

    /// Does an ended one again, as a new one. Asking twice gives the same.
    pub async fn retry(&self, id: &str) -> Result<Accepted, Error> {
        self.on_tx(id, "retry", None::<&()>).await
    }

    async fn on_tx<T: DeserializeOwned>(
        &self,
        id: &str,
        verb: &str,
        body: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<T, Error> {
        self.call(Method::POST, &["tx", id, verb], &[], body).await
    }

    pub async fn lanes(&self) -> Result<Vec<Lane>, Error> {
        let page: Page<Lane> = self.look(&["lanes"], &[]).await?;
        Ok(page.items)
    }

    pub async fn lane(&self, chain: u64, signer: &str) -> Result<Lane, Error> {
        self.look(&["lanes", &chain.to_string(), signer], &[]).await
    }

    /// `pause`, `resume`, `disable`, `reset` or `cancel-all`.
    pub async fn steer_lane(&self, chain: u64, signer: &str, verb: &str) -> Result<CommandAccepted, Error> {
        self.call(Method::POST, &["lanes", &chain.to_string(), signer, verb], &[], None::<&()>).await
    }

    /// Uses free slots up by no-ops, both ends included.
    pub async fn fill(&self, chain: u64, signer: &str, from: u64, to: u64) -> Result<CommandAccepted, Error> {
        let range = json!({ "from": from, "to": to });
        self.call(Method::POST, &["lanes", &chain.to_string(), signer, "fill"], &[], Some(&range)).await
    }

    /// Ends the session that holds a lane and is dead. The answer has `lanes`, how many it held.
    pub async fn break_lease(&self, chain: u64, signer: &str, session: &str) -> Result<Value, Error> {
        let dead = json!({ "session": session });
        self.call(Method::POST, &["lanes", &chain.to_string(), signer, "break-lease"], &[], Some(&dead)).await
    }

    /// Whether the store is an older copy of itself: `older`, and `why`.
    pub async fn store(&self) -> Result<Value, Error> {
        self.look(&["store"], &[]).await
    }

    /// A person's word that a store which is an older copy of itself is to be used.
    pub async fn accept_store(&self, despite_pool: bool, despite_old_head: bool) -> Result<Value, Error> {
        let said = json!({ "despitePool": despite_pool, "despiteOldHead": despite_old_head });
        self.call(Method::POST, &["store", "accept"], &[], Some(&said)).await
    }

    /// `new` has `name`, `role` and maybe `signers`, `chains`, `ratePerS` and `expiresAt`.
    pub async fn create_api_key(&self, new: &Value) -> Result<ApiKey, Error> {
        self.post("/api/v1/api-keys", Some(new)).await
    }

    pub async fn api_keys(&self) -> Result<Vec<ApiKey>, Error> {
        let page: Page<ApiKey> = self.look(&["api-keys"], &[]).await?;
        Ok(page.items)
    }

    pub async fn revoke_api_key(&self, id: &str) -> Result<ApiKey, Error> {
        self.call(Method::DELETE, &["api-keys", id], &[], None::<&()>).await
    }

    /// Whether a transaction can be stored there.
    pub async fn is_ready(&self) -> bool {
        let ready: Result<Value, Error> = self.get("/health/ready").await;
        ready.is_ok()
    }

    /// What happens, as it happens.
    #[must_use]
    pub fn events(&self, filter: EventFilter) -> Events {
        Events::new(self.clone(), filter)
    }

    /// A call by its path, for what has no method here.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.ask(Method::GET, path, None::<&()>).await
    }

    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<T, Error> {
        self.ask(Method::POST, path, body).await
    }

    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.ask(Method::DELETE, path, None::<&()>).await
    }

    /// Any call by its path.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<T, Error> {
        let request = self.http.request(method, format!("{}{path}", self.url));
        self.answer(with_body(request, body)).await
    }

    /// Something of the API by the parts of its path.
    async fn look<T: DeserializeOwned>(
        &self,
        parts: &[&str],
        query: &[(&'static str, String)],
    ) -> Result<T, Error> {
        self.call(Method::GET, parts, query, None::<&()>).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        parts: &[&str],
        query: &[(&'static str, String)],
        body: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<T, Error> {
        let url = self.address(parts, query)?;
        self.answer(with_body(self.http.request(method, url), body)).await
    }

    /// What a caller gives can be no other path, and no other parameter, than the one that is meant.
    pub(crate) fn address(&self, parts: &[&str], query: &[(&'static str, String)]) -> Result<Url, Error> {
        let foreign = || Error::Foreign { url: self.url.clone(), status: 0 };
        let mut url = Url::parse(&self.url).map_err(|_| foreign())?;
        url.path_segments_mut().map_err(|()| foreign())?.pop_if_empty().extend(["api", "v1"]).extend(parts);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    pub(crate) fn stream(&self, url: Url) -> RequestBuilder {
        self.streams.get(url)
    }

    async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        let response = self.opened(request).await?;
        let status = response.status().as_u16();
        let body = response.bytes().await;
        let body = body.map_err(|source| Error::BrokeOff { url: self.url.clone(), source })?;
        serde_json::from_slice(&body).map_err(|_| Error::Foreign { url: self.url.clone(), status })
    }

    /// A good answer whose body was not read yet.
    pub(crate) async fn opened(&self, request: RequestBuilder) -> Result<reqwest::Response, Error> {
        let url = || self.url.clone();
        let response = request.send().await.map_err(|source| Error::unanswered(url(), source))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = response.bytes().await.map_err(|source| Error::BrokeOff { url: url(), source })?;
        let problem: Problem = serde_json::from_slice(&body)
            .map_err(|_| Error::Foreign { url: url(), status: status.as_u16() })?;
        Err(Error::Problem(Box::new(Problem { retry_after: after, ..problem })))
    }
}

fn with_body(request: RequestBuilder, body: Option<&(impl Serialize + ?Sized)>) -> RequestBuilder {
    match body {
        Some(body) => request.json(body),
        None => request,
    }
}
