//! Which method is done where.

use landfall_core::LaneId;
use serde_json::{Value, json};

use super::error::{RpcError, UNSUPPORTED};
use super::params::hex;
use super::send::Waited;
use super::{Asker, calls, look, methods, own, pass, raw, send};

/// A call under way: what must happen in the order of a batch has happened.
pub(super) enum Started {
    Done(String),
    /// Admitted; its hash is waited for.
    Waiting(Box<Waited>),
    /// Nothing has happened yet.
    Asked {
        method: String,
        params: Value,
    },
}

/// Nothing of a method is looked at before its caller has the role for it.
pub(super) async fn start(asker: &Asker, method: &str, params: Value) -> Result<Started, RpcError> {
    let role = methods::needed(method);
    if !asker.caller.is(role) {
        return Err(asker.caller.lacks(role).into());
    }
    asker.must_be_good(role).await?;
    match method {
        "eth_sendTransaction" | "wallet_sendTransaction" => send::start(asker, params).await,
        "eth_sendRawTransaction" => Ok(Started::Done(raw::send(asker, params).await?)),
        "wallet_sendCalls" => Ok(Started::Done(calls::send(asker, params).await?.to_string())),
        _ => Ok(Started::Asked { method: method.to_owned(), params }),
    }
}

pub(super) async fn finish(asker: &Asker, started: Started) -> Result<String, RpcError> {
    let (method, params) = match started {
        Started::Done(result) => return Ok(result),
        Started::Waiting(waited) => return send::finish(*waited).await,
        Started::Asked { method, params } => (method, params),
    };
    let value = match method.as_str() {
        "eth_chainId" => hex(asker.chain.0),
        "net_version" => json!(asker.chain.to_string()),
        "web3_clientVersion" => json!(concat!("Landfall/v", env!("CARGO_PKG_VERSION"))),
        "eth_accounts" | "eth_requestAccounts" => accounts(asker),
        "eth_blockNumber" => look::block_number(asker).await?,
        "eth_getBlockByNumber" => return look::block_by_number(asker, params).await,
        "eth_getTransactionCount" => look::count(asker, params).await?,
        "eth_getTransactionReceipt" => return look::receipt(asker, params).await,
        "eth_getTransactionByHash" => look::transaction(asker, params).await?,
        "eth_subscribe" | "eth_unsubscribe" => {
            let text = "subscriptions need a WebSocket, and there a message of their own, not a batch; elsewhere ask for eth_blockNumber or eth_getLogs";
            return Err(RpcError::coded(UNSUPPORTED, text, "unsupported"));
        }
        "wallet_getCallsStatus" => calls::status(asker, params).await?,
        "wallet_getCapabilities" => calls::capabilities(asker, params)?,
        "landfall_getTransaction" => own::transaction(asker, params).await?,
        "landfall_getJournal" => own::journal(asker, params).await?,
        "landfall_cancel" => own::cancel(asker, params).await?,
        "landfall_speedUp" => own::speed_up(asker, params).await?,
        method if pass::may(asker, method) => return pass::on(asker, method, &params).await,
        method => return Err(pass::refused(method)),
    };
    let text = value.to_string();
    asker.room.keep(text.len())?;
    Ok(text)
}

/// The managed accounts of this chain that the caller may know of.
fn accounts(asker: &Asker) -> Value {
    let signers = asker.app.handle.parts().signers.keys();
    let of_chain = signers.filter(|LaneId { chain, .. }| *chain == asker.chain);
    of_chain.filter(|lane| asker.caller.sees_lane(**lane)).map(|lane| json!(lane.signer.0)).collect()
}
