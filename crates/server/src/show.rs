//! Showing what is stored: camelCase JSON, wei as decimal strings, times as RFC 3339.

use landfall_core::attempt::{Attempt, Tally};
use landfall_core::confirmations;
use landfall_core::fees::Fees;
use landfall_core::journal::JournalRow;
use landfall_core::lane::UnknownSlot;
use landfall_core::outcome::SendReport;
use landfall_core::ports::store::{Kept, LaneSummary, ResetRecord, TxRecord};
use landfall_core::request::{AccessItem, AskedFees, Authorization, Finality, Options, Payload};
use landfall_core::settings::Allocation;
use landfall_core::transaction::{Content, Ending, Transaction};
use landfall_core::view::{BlockRef, ChainView, Receipt, Standing};
use landfall_core::{ContentVersion, LaneId, Millis, Origin, SessionId};
use serde_json::{Map, Value, json};

/// Always with three digits of a second, so that texts sort as times do.
pub(crate) fn time(at: Millis) -> Value {
    let ms = i64::try_from(at.0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).map_or(Value::Null, |time| json!(format!("{time:.3}")))
}

/// Whether the addresses that callers came from are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addresses {
    Shown,
    Hidden,
}

/// Who asked: the id and the name of the API key, and where it was used.
fn by(origin: &Origin, addresses: Addresses) -> Value {
    let address = origin.address.filter(|_| addresses == Addresses::Shown);
    without_nulls(json!({ "keyId": origin.key.as_deref(), "name": &*origin.name, "address": address }))
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
pub(crate) fn kept(kept: &Kept, addresses: Addresses) -> Value {
    without_nulls(json!({
        "txId": kept.id,
        "chainId": kept.lane.chain,
        "signer": kept.lane.signer.to_string(),
        "requestId": kept.request_id,
        "state": kept.state,
        "nonce": kept.slot,
        "hash": kept.hash,
        "reason": kept.reason,
        "submittedBy": kept.origin.as_deref().map(|origin| by(origin, addresses)),
        "acceptedAt": time(kept.accepted_at),
        "updatedAt": time(kept.ended_at),
        "removed": true,
    }))
}

/// A transaction as lists show it.
pub(crate) fn transaction(tx: &Transaction, view: Option<&ChainView>, addresses: Addresses) -> Value {
    let status = &tx.status;
    let shown = status.won.as_ref().map_or(tx.version(), |won| won.version);
    let shown = tx.payload_version(shown);
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
        "payload": payload(tx.payload_of(shown)),
        "payloadVersion": shown,
        "version": tx.version(),
        "contents": contents(tx),
        "options": options(&tx.request.options),
        "changed": changed(tx),
        "retryOf": tx.request.retry_of,
        "asksApproval": tx.status.asks_approval.then_some(true),
        "held": tx.status.held,
        "heldFor": tx.status.forgotten_as.filter(|_| tx.status.may_have_landed()),
        "receipt": status.receipt.as_ref().map(receipt),
        "confirmations": confirmations,
        "wonVersion": status.won.as_ref().map(|won| won.version),
        "singleWitness": status.single_witness.then_some(true),
        "reason": status.reason,
        "submittedBy": tx.request.origin.as_deref().map(|origin| by(origin, addresses)),
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
    addresses: Addresses,
) -> Value {
    let mut value = transaction(&record.tx, view, addresses);
    if let Some(mined) = mined_attempt(record) {
        let shown = record.tx.payload_version(mined.version);
        value["payload"] = payload(record.tx.payload_of(shown));
        value["payloadVersion"] = json!(shown);
        value["receipt"]["version"] = json!(mined.version);
        value["receipt"]["noOp"] = json!(mined.no_op);
    }
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

/// The attempt that is in a block now.
fn mined_attempt(record: &TxRecord) -> Option<&Attempt> {
    let receipt = record.tx.status.receipt.as_ref()?;
    record.attempts.iter().find(|attempt| attempt.hash == receipt.hash)
}

/// All contents in their order; absent where there is only the one that was asked for.
fn contents(tx: &Transaction) -> Option<Vec<Value>> {
    let first = ContentVersion::FIRST;
    let asked = json!({ "version": first, "payload": payload(&tx.request.payload) });
    let versions = std::iter::successors(Some(first.next()), |version| Some(version.next()));
    let later = tx.status.later.iter().zip(versions).map(|(content, version)| match content {
        Content::Payload(content) => json!({ "version": version, "payload": payload(content) }),
        Content::NoOp => json!({ "version": version, "noOp": true }),
    });
    (!tx.status.later.is_empty()).then(|| std::iter::once(asked).chain(later).collect())
}

/// What a replace or a speed-up changed of the options; absent where nothing was.
fn changed(tx: &Transaction) -> Option<Value> {
    let terms = &tx.status.terms;
    let shown = without_nulls(json!({
        "speed": terms.speed,
        "maxFeePerGas": terms.max_fee_per_gas,
        "deadline": terms.deadline.map(time),
    }));
    (shown != json!({})).then_some(shown)
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
    if !payload.authorization_list.is_empty() {
        value["authorizationList"] = payload.authorization_list.iter().map(authorization).collect();
    }
    without_nulls(value)
}

fn authorization(item: &Authorization) -> Value {
    without_nulls(json!({
        "chainId": item.chain.map_or(0, |chain| chain.0),
        "address": item.address.to_string(),
        "nonce": item.signed.map(|signed| signed.count),
        "yParity": item.signed.map(|signed| u8::from(signed.y_parity)),
        "r": item.signed.map(|signed| signed.r),
        "s": item.signed.map(|signed| signed.s),
    }))
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
        "after": options.after.map(|after| json!({
            "txId": after.tx, "state": after.state, "onFailure": after.on_failure,
        })),
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
        "dataFee": receipt.data_fee,
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
pub(crate) fn journal_row(row: &JournalRow, addresses: Addresses) -> Value {
    let mut map = Map::new();
    map.insert("seq".into(), json!(row.seq));
    map.insert("at".into(), time(row.at));
    if let Some(event) = row.entry.event() {
        map.insert("event".into(), json!(event));
    }
    if let Some(origin) = row.by.as_deref() {
        map.insert("by".into(), by(origin, addresses));
    }
    if let Ok(Value::Object(entry)) = serde_json::to_value(&row.entry) {
        map.extend(entry);
    }
    Value::Object(map)
}

/// The settings of a lane on this node.
pub(crate) struct Rules {
    pub(crate) window: Option<u64>,
    /// None if there is no signer for it.
    pub(crate) allocation: Option<Allocation>,
}

/// A lane as lists show it.
pub(crate) fn lane(summary: &LaneSummary, rules: Rules, hold: Option<String>) -> Value {
    without_nulls(json!({
        "chainId": summary.lane.chain,
        "signer": summary.lane.signer.to_string(),
        "nextNonce": summary.row.cursor,
        "chainCount": summary.row.chain_count,
        "waiting": summary.waiting,
        "inFlight": summary.bound,
        "window": rules.window,
        "allocation": rules.allocation,
        "returned": summary.row.returned,
        "paused": summary.row.paused,
        "disabled": summary.row.disabled,
        "resets": resets(summary),
        "healthy": hold.is_none(),
        "holdReason": hold,
        "notCompared": summary.row.compared_from.filter(|below| below.0 > 0),
        "owner": summary.owner.as_ref().map(|(node, session)| {
            let until = summary.owned_until.map(time);
            let mut owner = json!({ "node": node, "session": session, "since": begun(*session) });
            if let Some(until) = until {
                owner["until"] = until;
            }
            owner
        }),
        "token": summary.token,
        "version": summary.version,
    }))
}

/// A nonce that something else used, as far as it is known what that was.
pub(crate) fn unknown_nonce(unknown: &UnknownSlot) -> Value {
    let taker = unknown.taker.as_ref();
    without_nulls(json!({
        "nonce": unknown.slot,
        "hash": taker.map(|taker| taker.hash),
        "to": taker.and_then(|taker| taker.to).map(|to| to.to_string()),
        "value": taker.map(|taker| taker.value.to_string()),
        "block": unknown.block.map(|block| block.number),
        "sameAs": unknown.same_as,
    }))
}

/// When a session began, by its node's clock: its id says so.
fn begun(session: SessionId) -> Option<Value> {
    let (seconds, nanos) = session.0.get_timestamp()?.to_unix();
    Some(time(Millis(seconds * 1_000 + u64::from(nanos / 1_000_000))))
}

fn resets(summary: &LaneSummary) -> Option<Vec<Value>> {
    let reset = |reset: &ResetRecord| json!({ "at": time(reset.at), "from": reset.from, "to": reset.to, "givenUp": reset.given_up });
    let resets = &summary.row.resets;
    (!resets.is_empty()).then(|| resets.iter().map(reset).collect())
}

/// A lane that is configured and was never used.
pub(crate) fn unused_lane(lane: LaneId, rules: Rules, hold: Option<String>) -> Value {
    without_nulls(json!({
        "chainId": lane.chain,
        "signer": lane.signer.to_string(),
        "waiting": 0,
        "inFlight": 0,
        "window": rules.window,
        "allocation": rules.allocation,
        "returned": [],
        "paused": false,
        "disabled": false,
        "healthy": hold.is_none(),
        "holdReason": hold,
        "token": 0,
        "version": 0,
    }))
}
