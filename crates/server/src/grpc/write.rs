//! REST's JSON as messages. Every message has the whole of it too, so that nothing is lost.

use serde_json::Value;

use super::proto;

fn text(value: &Value, name: &str) -> Option<String> {
    match &value[name] {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// Numbers are numbers or decimal strings.
fn number(value: &Value, name: &str) -> Option<u64> {
    value[name].as_u64().or_else(|| value[name].as_str()?.parse().ok())
}

fn flag(value: &Value, name: &str) -> bool {
    value[name].as_bool().unwrap_or(false)
}

fn caller(value: &Value, name: &str) -> Option<proto::Caller> {
    let caller = value.get(name).filter(|caller| caller.is_object())?;
    Some(proto::Caller {
        key_id: text(caller, "keyId"),
        name: text(caller, "name").unwrap_or_default(),
        address: text(caller, "address"),
    })
}

pub(super) fn submitted(value: &Value, replay: bool) -> proto::Submitted {
    proto::Submitted {
        tx_id: text(value, "txId").unwrap_or_default(),
        state: text(value, "state").unwrap_or_default(),
        nonce: number(value, "nonce"),
        hash: text(value, "hash"),
        replay,
    }
}

pub(super) fn transaction(value: &Value) -> proto::Transaction {
    let receipt = value.get("receipt").filter(|receipt| receipt.is_object()).map(|receipt| proto::Receipt {
        transaction_hash: text(receipt, "transactionHash").unwrap_or_default(),
        block_number: number(receipt, "blockNumber").unwrap_or_default(),
        block_hash: text(receipt, "blockHash").unwrap_or_default(),
        success: receipt["status"] == "success",
        gas_used: number(receipt, "gasUsed").unwrap_or_default(),
        effective_gas_price: text(receipt, "effectiveGasPrice").unwrap_or_default(),
        contract_address: text(receipt, "contractAddress"),
        data_fee: text(receipt, "dataFee"),
    });
    proto::Transaction {
        tx_id: text(value, "txId").unwrap_or_default(),
        chain_id: number(value, "chainId").unwrap_or_default(),
        signer: text(value, "signer").unwrap_or_default(),
        request_id: text(value, "requestId"),
        state: text(value, "state").unwrap_or_default(),
        nonce: number(value, "nonce"),
        hash: text(value, "hash"),
        confirmations: number(value, "confirmations"),
        receipt,
        reason_code: text(&value["reason"], "code"),
        reason: text(&value["reason"], "text"),
        stuck_reason: text(value, "stuckReason"),
        cancelling: flag(value, "cancelling"),
        accepted_at: text(value, "acceptedAt").unwrap_or_default(),
        updated_at: text(value, "updatedAt").unwrap_or_default(),
        json: value.to_string(),
        submitted_by: caller(value, "submittedBy"),
    }
}

pub(super) fn lane(value: &Value) -> proto::Lane {
    proto::Lane {
        chain_id: number(value, "chainId").unwrap_or_default(),
        signer: text(value, "signer").unwrap_or_default(),
        next_nonce: number(value, "nextNonce"),
        chain_count: number(value, "chainCount"),
        waiting: number(value, "waiting").unwrap_or_default(),
        in_flight: number(value, "inFlight").unwrap_or_default(),
        paused: flag(value, "paused"),
        disabled: flag(value, "disabled"),
        healthy: flag(value, "healthy"),
        hold_reason: text(value, "holdReason"),
        json: value.to_string(),
    }
}

pub(super) fn event(seq: i64, name: &str, value: &Value) -> proto::Event {
    proto::Event {
        seq,
        r#type: name.to_owned(),
        at: text(value, "at").unwrap_or_default(),
        chain_id: number(value, "chainId").unwrap_or_default(),
        signer: text(value, "signer").unwrap_or_default(),
        tx_id: text(value, "txId"),
        json: value.to_string(),
        by: caller(value, "by"),
    }
}
