//! `eth_sendRawTransaction`: bytes that callers signed themselves. They are kept before they are sent, and sent again until
//! they are final ([`super::keeper`]).

use alloy_primitives::hex;
use landfall_core::LaneId;
use landfall_core::attempt::Sealed;
use serde_json::{Value, json};

use super::error::{INVALID_INPUT, REJECTED, RpcError};
use super::keeper::Giver;
use super::params::{Params, bad};
use super::{Asker, look};

/// What nodes take of one transaction, blobs aside.
const LARGEST: usize = 128 * 1_024;

/// Bytes of accounts that nobody here manages: the role is enough, and was judged before.
pub(super) async fn send(asker: &Asker, params: Value) -> Result<String, RpcError> {
    let text = Params::of(params)?.text("a signed transaction in hex")?;
    let digits = text.strip_prefix("0x").ok_or_else(|| bad("a signed transaction begins with 0x"))?;
    if digits.len() > 2 * LARGEST {
        let text = format!("it has {} bytes; nodes take at most {LARGEST}", digits.len() / 2);
        return Err(RpcError::coded(REJECTED, text, "data_too_large"));
    }
    let raw = hex::decode(digits).map_err(|error| bad(format!("it is not hex: {error}")))?;
    let read = asker.adapter.codec().read(&raw);
    let signed = read.map_err(|why| {
        RpcError::coded(
            INVALID_INPUT,
            format!("it cannot be read as a signed transaction: {why}"),
            "bad_data",
        )
    })?;
    if signed.chain != Some(asker.chain) {
        let said = signed.chain.map_or("no chain".to_owned(), |chain| format!("chain {chain}"));
        let text = format!(
            "invalid chain id: it is signed for {said}, and this is the door of chain {}",
            asker.chain
        );
        return Err(RpcError::coded(INVALID_INPUT, text, "unknown_chain"));
    }
    let lane = LaneId { chain: asker.chain, signer: signed.from };
    if asker.app.handle.parts().signers.contains_key(&lane) {
        let text = format!(
            "{} is a signer of this installation, which gives out its nonces: bytes that were signed elsewhere would take \
             one away; use eth_sendTransaction",
            signed.from
        );
        return Err(RpcError::coded(REJECTED, text, "nonce_not_allowed"));
    }
    let sealed = Sealed { raw: raw.into(), hash: signed.hash };
    let hash = signed.hash;
    let (caller, adapter) = (asker.caller.clone(), asker.adapter.clone());
    let giver = Giver { caller, chain: asker.chain, adapter, view: look::head(asker).await? };
    asker.app.keeper.send(giver, signed, sealed).await?;
    Ok(json!(hash).to_string())
}
