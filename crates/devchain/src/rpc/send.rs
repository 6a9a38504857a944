//! `eth_sendRawTransaction`.

use alloy_primitives::{Bytes, keccak256};
use serde_json::{Value, json};

use super::{Call, RpcError};

pub(crate) fn raw(call: &Call<'_>) -> Result<Value, RpcError> {
    let raw = call.params.get::<Bytes>(0)?;
    if call.plan.silent_drop {
        return Ok(json!(keccak256(&raw)));
    }
    let sent = if call.plan.evict { call.control.send_and_evict(&raw) } else { call.control.send_raw(&raw) };
    Ok(json!(sent?))
}
