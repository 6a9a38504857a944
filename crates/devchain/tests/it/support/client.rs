//! A plain JSON-RPC client: what is asserted is what came over the wire.

use serde_json::{Value, json};

#[derive(Clone)]
pub(crate) struct Rpc {
    url: String,
    http: reqwest::Client,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RpcFailure {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Value,
}

impl Rpc {
    pub(crate) fn new(url: String) -> Self {
        // The client asks for a provider even where it speaks plain HTTP. Fails only where one is set already.
        rustls::crypto::ring::default_provider().install_default().ok();
        Self { url, http: reqwest::Client::new() }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The raw HTTP answer, for what is not JSON-RPC.
    pub(crate) async fn post(&self, body: &Value) -> reqwest::Result<reqwest::Response> {
        self.http.post(&self.url).json(body).send().await
    }

    pub(crate) async fn try_call(
        &self,
        method: &str,
        params: Value,
    ) -> reqwest::Result<Result<Value, RpcFailure>> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let reply: Value = self.post(&body).await?.json().await?;
        Ok(match reply.get("error") {
            Some(error) => Err(RpcFailure {
                code: error["code"].as_i64().unwrap(),
                message: error["message"].as_str().unwrap().to_owned(),
                data: error["data"].clone(),
            }),
            None => Ok(reply["result"].clone()),
        })
    }

    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        match self.try_call(method, params).await.unwrap() {
            Ok(result) => result,
            Err(error) => panic!("{method}: {error:?}"),
        }
    }

    pub(crate) async fn refused(&self, method: &str, params: Value) -> RpcFailure {
        match self.try_call(method, params).await.unwrap() {
            Ok(result) => panic!("{method} was not refused: {result}"),
            Err(error) => error,
        }
    }

    pub(crate) async fn send(&self, raw: &str) -> String {
        self.call("eth_sendRawTransaction", json!([raw])).await.as_str().unwrap().to_owned()
    }

    pub(crate) async fn send_refused(&self, raw: &str) -> RpcFailure {
        self.refused("eth_sendRawTransaction", json!([raw])).await
    }

    pub(crate) async fn receipt(&self, hash: &str) -> Value {
        self.call("eth_getTransactionReceipt", json!([hash])).await
    }

    pub(crate) async fn number(&self, method: &str, params: Value) -> u64 {
        let value = self.call(method, params).await;
        u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    }

    pub(crate) async fn count(&self, address: &str, at: Value) -> u64 {
        self.number("eth_getTransactionCount", json!([address, at])).await
    }

    pub(crate) async fn head(&self) -> u64 {
        self.number("eth_blockNumber", json!([])).await
    }
}
