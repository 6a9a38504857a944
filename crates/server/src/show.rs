//! Showing what is stored: camelCase JSON, wei as decimal strings, times as RFC 3339.

use landfall_core::attempt::{Attempt, Tally};
use landfall_core::confirmations;
use landfall_core::fees::Fees;
use landfall_core::journal::JournalRow;
use landfall_core::outcome::SendReport;
use landfall_core::ports::store::{Kept, LaneSummary, TxRecord};
use landfall_core::request::{AccessItem, AskedFees, Finality, Options, Payload};
use landfall_core::transaction::{Ending, Transaction};
use landfall_core::view::{BlockRef, ChainView, Receipt, Standing};
use landfall_core::{LaneId, Millis};
use serde_json::{Map, Value, json};

/// Always with three digits of a second, so that texts sort as times do.
pub(crate) fn time(at: Millis) -> Value {
    let ms = i64::try_from(at.0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).map_or(Value::Null, |time| json!(format!("{time:.3}")))
}

/// Leaves out what is null, so that an absent thing is absent.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(map.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        other => other,
    }
}

/// The short answer to a submission.
pub(crate) fn accepted(tx: &Transaction) -> Value {
    without_nulls(json!({
        "txId": tx.id,
        "state": tx.status.state,
        "nonce": tx.status.slot,
        "hash": tx.status.hash,
    }))
}

/// The short answer to a submission whose history was removed.
pub(crate) fn accepted_before(kept: &Kept) -> Value {
    without_nulls(json!({
        "txId": kept.id,
        "state": kept.state,
        "nonce": kept.slot,
        "hash": kept.hash,
        "removed": true,
    }))
}

/// What stayed of a transaction whose history was removed.
pub(crate) fn kept(kept: &Kept) -> Value {
    without_nulls(json!({
        "txId": kept.id,
        "chainId": kept.lane.chain,
        "signer": kept.lane.signer.to_string(),
        "requestId": kept.request_id,
        "state": kept.state,
        "nonce": kept.slot,
        "hash": kept.hash,
        "reason": kept.reason,
        "acceptedAt": time(kept.accepted_at),
        "updatedAt": time(kept.ended_at),
        "removed": true,
    }))
}

/// A transaction as lists show it.
pub(crate) fn transaction(tx: &Transaction, view: Option<&ChainView>) -> Value {
    let status = &tx.status;
    let confirmations = status.receipt.as_ref().zip(view).and_then(|(receipt, view)| {
        // A block that the chain has replaced confirms nothing.
        let gone = view.standing(&receipt.block) == Standing::Orphaned;
        (!gone).then(|| view.confirmations(&receipt.block))
    });
    without_nulls(json!({
        "txId": tx.id,
        "chainId": tx.lane.chain,
        "signer": tx.lane.signer.to_string(),
        "requestId": tx.request.request_id,
        "state": status.state,
        "cancelling": matches!(status.ending, Some(Ending::Cancel(_))) && !status.state.is_terminal(),
        "displaced": status.displaced,
        "nonce": status.slot,
        "hash": status.hash,
        "payload": payload(&tx.request.payload),
        "options": options(&tx.request.options),
        "receipt": status.receipt.as_ref().map(receipt),
        "confirmations": confirmations,
        "wonVersion": status.won.as_ref().map(|won| won.version),
        "reason": status.reason,
        "acceptedAt": time(tx.request.accepted_at),
        "updatedAt": time(status.updated_at),
    }))
}

/// A transaction with everything that was signed for it, and why it waits.
pub(crate) fn record(
    record: &TxRecord,
    view: Option<&ChainView>,
    finality: Finality,
    stuck_reason: Option<String>,
) -> Value {
    let mut value = transaction(&record.tx, view);
    if let Some((view, receipt)) = view.zip(record.tx.status.receipt.as_ref()) {
        let finality = record.tx.request.options.finality.unwrap_or(finality);
        let blocks = confirmations::list(view, receipt, most_confirmations(finality));
        value["confirmationBlocks"] = blocks.iter().map(block).collect();
    }
    value["attempts"] = record.attempts.iter().map(attempt).collect();
    if let Some(reason) = stuck_reason {
        value["stuckReason"] = json!(reason);
    }
    value
}

/// How many blocks on top are listed: as many as make it final.
pub(crate) fn most_confirmations(finality: Finality) -> u64 {
    match finality {
        Finality::Blocks(blocks) => blocks,
        Finality::Safe | Finality::Finalized => 128,
    }
}

pub(crate) fn block(block: &BlockRef) -> Value {
    json!({ "number": block.number, "hash": block.hash })
}

fn payload(payload: &Payload) -> Value {
    let mut value = json!({
        "to": payload.to.map(|to| to.to_string()),
        "value": payload.value,
        "data": payload.data,
        "gas": payload.gas,
    });
    match payload.fees {
        AskedFees::Market => {}
        AskedFees::Legacy { gas_price } => value["gasPrice"] = json!(gas_price),
        AskedFees::Dynamic { max_fee, tip } => {
            value["maxFeePerGas"] = json!(max_fee);
            value["maxPriorityFeePerGas"] = json!(tip);
        }
    }
    if !payload.access_list.is_empty() {
        let item = |item: &AccessItem| json!({ "address": item.address.to_string(), "storageKeys": item.storage_keys });
        value["accessList"] = payload.access_list.iter().map(item).collect();
    }
    without_nulls(value)
}

fn options(options: &Options) -> Value {
    let finality = options.finality.map(|finality| match finality {
        Finality::Blocks(blocks) => json!(blocks),
        Finality::Safe => json!("safe"),
        Finality::Finalized => json!("finalized"),
    });
    // Stored as the caller wrote it; a text that is no JSON any more is shown as text.
    let metadata = options.metadata.as_ref().map(|text| serde_json::from_str(text).unwrap_or(json!(text)));
    without_nulls(json!({
        "speed": options.speed,
        "maxFeePerGas": options.max_fee_per_gas,
        "deadline": options.deadline.map(time),
        "finality": finality,
        "onDisplaced": options.on_displaced,
        "onReorg": options.on_reorg,
        "onInsufficientFunds": options.on_insufficient_funds,
        "metadata": metadata,
    }))
}

fn receipt(receipt: &Receipt) -> Value {
    without_nulls(json!({
        "transactionHash": receipt.hash,
        "blockNumber": receipt.block.number,
        "blockHash": receipt.block.hash,
        "transactionIndex": receipt.index,
        "status": if receipt.success { "success" } else { "reverted" },
        "gasUsed": receipt.gas_used,
        "effectiveGasPrice": receipt.gas_price,
        "contractAddress": receipt.contract.map(|contract| contract.to_string()),
    }))
}

fn attempt(attempt: &Attempt) -> Value {
    let mut value = json!({
        "hash": attempt.hash,
        "nonce": attempt.slot,
        "attempt": attempt.ordinal,
        "version": attempt.version,
        "noOp": attempt.no_op,
        "gas": attempt.gas,
        "createdAt": time(attempt.created_at),
        "sends": attempt.hints.sends,
        "accepted": attempt.hints.accepted,
        "firstSentAt": attempt.hints.first_sent_at.map(time),
        "lastSentAt": attempt.hints.last_sent_at.map(time),
        "lastAnswer": attempt.hints.last().map(answer),
        "answers": attempt.hints.answers.iter().map(tally).collect::<Vec<_>>(),
    });
    match attempt.fees {
        Fees::Legacy { gas_price } => value["gasPrice"] = json!(gas_price),
        Fees::Dynamic { max_fee, tip } => {
            value["maxFeePerGas"] = json!(max_fee);
            value["maxPriorityFeePerGas"] = json!(tip);
        }
    }
    without_nulls(value)
}

fn answer(report: &SendReport) -> Value {
    without_nulls(json!({
        "outcome": report.outcome.name(),
        "endpoint": report.endpoint,
        "code": report.code,
        "text": report.text,
        "latencyMs": report.latency_ms,
    }))
}

/// An answer, how often it was given, and when first and last.
fn tally(tally: &Tally) -> Value {
    let mut value = answer(&tally.report);
    value["count"] = json!(tally.count);
    value["firstAt"] = time(tally.first_at);
    value["lastAt"] = time(tally.last_at);
    value
}

/// One line of a time line.
pub(crate) fn journal_row(row: &JournalRow) -> Value {
    let mut map = Map::new();
    map.insert("seq".into(), json!(row.seq));
    map.insert("at".into(), time(row.at));
    if let Some(event) = row.entry.event() {
        map.insert("event".into(), json!(event));
    }
    if let Ok(Value::Object(entry)) = serde_json::to_value(&row.entry) {
        map.extend(entry);
    }
    Value::Object(map)
}

/// A lane as lists show it.
pub(crate) fn lane(summary: &LaneSummary, window: Option<u64>, hold: Option<String>) -> Value {
    without_nulls(json!({
        "chainId": summary.lane.chain,
        "signer": summary.lane.signer.to_string(),
        "nextNonce": summary.row.cursor,
        "chainCount": summary.row.chain_count,
        "waiting": summary.waiting,
        "inFlight": summary.bound,
        "window": window,
        "returned": summary.row.returned,
        "paused": summary.row.paused,
        "healthy": hold.is_none(),
        "holdReason": hold,
        "owner": summary.owner.as_ref().map(|(node, session)| json!({ "node": node, "session": session })),
        "token": summary.token,
        "version": summary.version,
    }))
}

/// A lane that is configured and was never used.
pub(crate) fn unused_lane(lane: LaneId, window: Option<u64>) -> Value {
    json!({
        "chainId": lane.chain,
        "signer": lane.signer.to_string(),
        "waiting": 0,
        "inFlight": 0,
        "window": window,
        "returned": [],
        "paused": false,
        "healthy": true,
        "token": 0,
        "version": 0,
    })
}
