//! A transaction for people.

use landfall_client::JournalEntry;
use serde_json::{Map, Value};

use crate::amount;
use crate::output::{self, text};

/// The time line.
pub(super) fn journal(entries: &[JournalEntry]) -> String {
    let rows = entries.iter().map(|entry| vec![entry.at.clone(), entry.kind.clone(), detail(&entry.rest)]);
    output::table(&["at", "what", "detail"], rows.collect())
}

/// What an entry says beyond its kind.
fn detail(said: &Map<String, Value>) -> String {
    let parts = said.iter().filter(|(name, _)| *name != "event");
    let part = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    };
    parts.map(part).collect::<Vec<_>>().join(" ")
}

pub(super) fn transaction(tx: &Value) {
    let line = |name: &str, value: String| println!("{name:<14} {value}");
    line("txId", text(tx, "txId"));
    line("state", output::state(&text(tx, "state")));
    if tx["stuckReason"].is_string() {
        line("why", text(tx, "stuckReason"));
    }
    if tx["reason"].is_object() {
        line("reason", format!("{} ({})", text(tx, "reason.text"), text(tx, "reason.code")));
    }
    line("chain", text(tx, "chainId"));
    line("signer", text(tx, "signer"));
    line("requestId", text(tx, "requestId"));
    line("nonce", text(tx, "nonce"));
    line("hash", text(tx, "hash"));
    line("to", text(tx, "payload.to"));
    line("value", amount::shown_text(&text(tx, "payload.value")));
    if let Some(version) = version(tx) {
        line("version", version);
    }
    if tx["receipt"].is_object() {
        line("block", text(tx, "receipt.blockNumber"));
        line("confirmations", text(tx, "confirmations"));
        line("gas used", text(tx, "receipt.gasUsed"));
        if tx["receipt"]["dataFee"].is_string() {
            line("data fee", amount::shown_text(&text(tx, "receipt.dataFee")));
        }
    }
    for (name, field) in [("retry of", "retryOf"), ("retried as", "retriedAs")] {
        if tx[field].is_string() {
            line(name, text(tx, field));
        }
    }
    line("attempts", tx["attempts"].as_array().map_or(0, Vec::len).to_string());
    line("accepted", text(tx, "acceptedAt"));
    line("updated", text(tx, "updatedAt"));
}

/// Which of several contents is shown, and why.
fn version(tx: &Value) -> Option<String> {
    let (shown, newest) = (tx["payloadVersion"].as_u64()?, tx["version"].as_u64()?);
    if newest == 1 {
        return None;
    }
    let contents = tx["contents"].as_array().into_iter().flatten();
    let is_no_op =
        |version: u64| contents.clone().any(|one| one["version"] == version && one["noOp"] == true);
    Some(match tx["wonVersion"].as_u64() {
        Some(won) if is_no_op(won) => format!("{shown} of {newest}; a no-op (version {won}) took its nonce"),
        Some(_) => format!("{shown} of {newest}, which the chain took"),
        None => format!("{shown} of {newest}; the chain decides which wins"),
    })
}
