//! A transaction for people.

use landfall_client::{JournalEntry, State};
use serde::Deserialize as _;
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

/// The nonce of one that something else carried out, by its journal.
pub(super) fn carried_out(entries: &[JournalEntry]) -> Option<u64> {
    entries.iter().rev().find(|entry| entry.kind == "carried_out")?.rest.get("slot")?.as_u64()
}

pub(super) fn transaction(tx: &Value, carried_out: Option<u64>) {
    let line = |name: &str, value: String| println!("{name:<14} {value}");
    line("txId", text(tx, "txId"));
    line("state", output::state(&text(tx, "state")));
    if tx["cancelling"] == true {
        line(
            "cancelling",
            "yes: it ends as cancelled, unless the chain takes what was sent first".to_owned(),
        );
    }
    if tx["stuckReason"].is_string() {
        line("why", text(tx, "stuckReason"));
    }
    if tx["reason"].is_object() {
        line("reason", format!("{} ({})", text(tx, "reason.text"), text(tx, "reason.code")));
    }
    line("chain", text(tx, "chainId"));
    line("signer", text(tx, "signer"));
    line("requestId", text(tx, "requestId"));
    match carried_out {
        Some(nonce) => line("nonce", format!("{nonce}, which this store did not assign")),
        None => line("nonce", text(tx, "nonce")),
    }
    line("hash", text(tx, "hash"));
    line("to", text(tx, "payload.to"));
    line("value", amount::shown_text(&text(tx, "payload.value")));
    for said in delegations(&text(tx, "signer"), &tx["payload"]) {
        line("also", said);
    }
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
    if tx["submittedBy"].is_object() {
        line("handed over by", who(&tx["submittedBy"]));
    }
    line("accepted", text(tx, "acceptedAt"));
    line("updated", text(tx, "updatedAt"));
}

/// A content in one line.
pub(super) fn content(payload: &Value) -> String {
    let to = if payload["to"].is_string() { text(payload, "to") } else { "a new contract".to_owned() };
    let data = payload["data"].as_str().map_or(0, |data| data.trim_start_matches("0x").len() / 2);
    let bytes = if data == 1 { "1 byte".to_owned() } else { format!("{data} bytes") };
    let value = amount::shown_text(&text(payload, "value"));
    format!("to {to}, value {value}, {bytes} of data")
}

/// The caller's name, its key, and for those who may see it the address it came from.
fn who(caller: &Value) -> String {
    let key = caller["keyId"].as_str().map_or(String::new(), |id| format!(" ({id})"));
    let from = caller["address"].as_str().map_or(String::new(), |at| format!(", from {at}"));
    format!("{}{key}{from}", text(caller, "name"))
}

/// The delegation of the signer's own code (EIP-7702), in the words of `stuckReason`.
pub(super) fn delegation(signer: &str, payload: &Value) -> Option<String> {
    let item = authorizations(payload).find(|item| item["r"].is_null())?;
    let to = text(item, "address");
    let is_zero = to.trim_start_matches("0x").bytes().all(|digit| digit == b'0');
    Some(match is_zero {
        true => format!("takes the delegation of {signer} back"),
        false => format!("lets the code at {to} act for {signer}: it can spend all that account has"),
    })
}

/// Every delegation that it carries: the signer's own, and those that other accounts have signed.
pub(super) fn delegations(signer: &str, payload: &Value) -> Vec<String> {
    let others = authorizations(payload).filter(|item| !item["r"].is_null());
    let others = others.map(|item| {
        format!("lets the code at {} act for another account, which signed that", text(item, "address"))
    });
    delegation(signer, payload).into_iter().chain(others).collect()
}

fn authorizations(payload: &Value) -> impl Iterator<Item = &Value> {
    payload["authorizationList"].as_array().into_iter().flatten()
}

pub(super) fn has_ended(tx: &Value) -> bool {
    State::deserialize(&tx["state"]).is_ok_and(State::has_ended)
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
        None if has_ended(tx) => format!("{shown} of {newest}"),
        None if tx["receipt"]["noOp"] == true => format!(
            "{shown} of {newest} is shown, and NOT done: a no-op (version {}) is in block {}. That decides once it is final",
            text(tx, "receipt.version"),
            text(tx, "receipt.blockNumber")
        ),
        None => format!("{shown} of {newest}; the chain decides which wins"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_chain_decides_between_contents_only_until_the_end() {
        let of = |state: &str| version(&json!({ "state": state, "payloadVersion": 2, "version": 2 }));
        assert_eq!(of("broadcast").as_deref(), Some("2 of 2; the chain decides which wins"));
        assert_eq!(of("cancelled").as_deref(), Some("2 of 2"));
    }

    #[test]
    fn a_no_op_in_a_block_is_not_shown_as_what_was_asked_for() {
        let tx = json!({
            "state": "mined", "payloadVersion": 1, "version": 2, "receipt": { "version": 2, "noOp": true, "blockNumber": 57 },
            "contents": [{ "version": 1 }, { "version": 2, "noOp": true }],
        });
        let said = version(&tx).unwrap_or_default();
        assert!(said.contains("NOT done") && said.contains("no-op (version 2) is in block 57"), "{said}");
    }
}
