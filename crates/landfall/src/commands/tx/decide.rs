//! A person's yes or no, to the content that was shown.

use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::show::{delegation, delegations};
use super::{decided, find};
use crate::cli::TxDecision;
use crate::output::{self, text};

/// Approval of a transaction that may have landed sends it as another payment, and that of a delegation gives an account away: a
/// person is asked before.
pub(super) async fn approve(decision: &TxDecision, yes: bool) -> Result<ExitCode> {
    let (client, id) = find::tx(&decision.name).await?;
    let tx = json!(client.transaction(&id).await?);
    let version = show(&tx, decision);
    if let Some(question) = question(&tx, version).filter(|_| !yes) {
        match output::asks(&question) {
            Some(true) => {}
            Some(false) => bail!("nothing was approved"),
            None => bail!("{question} Say --yes: there is nobody to ask"),
        }
    }
    Ok(decided(&id, &client.approve(&id, version, held_for(&tx)).await?, &decision.name.remote))
}

pub(super) async fn reject(decision: &TxDecision) -> Result<ExitCode> {
    let (client, id) = find::tx(&decision.name).await?;
    let tx = json!(client.transaction(&id).await?);
    let version = show(&tx, decision);
    Ok(decided(&id, &client.reject(&id, version, held_for(&tx)).await?, &decision.name.remote))
}

/// Shows the content that is decided on, and gives its version: the one that was asked for, or the newest.
fn show(tx: &Value, decision: &TxDecision) -> Option<u32> {
    let newest = || tx["version"].as_u64().and_then(|version| u32::try_from(version).ok());
    let version = decision.version.or_else(newest);
    if let Some(line) =
        version.filter(|_| !decision.name.remote.json).and_then(|version| content(tx, version))
    {
        println!("{line}");
    }
    version
}

/// The nonce with which it may have landed: the one that was shown.
fn held_for(tx: &Value) -> Option<u64> {
    tx["heldFor"].as_u64()
}

/// The payload of a version; null for a no-op. None if there is no such version.
fn payload(tx: &Value, version: u32) -> Option<&Value> {
    let mut contents = tx["contents"].as_array().into_iter().flatten();
    match contents.find(|one| one["version"] == version) {
        Some(one) if one["noOp"] == true => Some(&Value::Null),
        Some(one) => Some(&one["payload"]),
        None => (tx["version"] == version).then(|| &tx["payload"]),
    }
}

/// The content of a version, in words. None if there is no such version.
fn content(tx: &Value, version: u32) -> Option<String> {
    let payload = payload(tx, version)?;
    if payload.is_null() {
        return Some(format!("version {version}: a no-op"));
    }
    let delegates = delegations(&text(tx, "signer"), payload);
    let also = delegates.iter().map(|said| format!("; it {said}")).collect::<String>();
    Some(format!("version {version}: {}{also}", super::show::content(payload)))
}

/// The question about one that may have landed, or that gives the signer's account to somebody's code.
fn question(tx: &Value, version: Option<u32>) -> Option<String> {
    if super::show::has_ended(tx) {
        return None;
    }
    let payload = version.and_then(|version| payload(tx, version));
    let delegates = payload.and_then(|payload| delegation(&text(tx, "signer"), payload));
    let delegates = delegates.map(|said| format!("It {said}."));
    let landed = (tx["held"]["code"] == "may_have_landed")
        .then(|| format!("{}.\nApproving sends it as another payment.", text(tx, "held.text")));
    let said: Vec<String> = landed.into_iter().chain(delegates).collect();
    (!said.is_empty()).then(|| format!("{} Send it?", said.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_of_the_version_that_is_decided_on_is_shown() {
        let first = json!({ "to": "0xab", "value": "1500000000000000000", "data": "0x" });
        let second = json!({ "to": null, "value": "0", "data": "0x0102" });
        let one = json!({ "version": 1, "payload": first });
        assert_eq!(content(&one, 1).unwrap(), "version 1: to 0xab, value 1.5 ether, 0 bytes of data");
        assert_eq!(content(&one, 2), None);
        let contents = json!([one, { "version": 2, "payload": second }]);
        let two = json!({ "version": 2, "payload": second, "contents": contents });
        assert_eq!(content(&two, 1).unwrap(), "version 1: to 0xab, value 1.5 ether, 0 bytes of data");
        let shown = content(&two, 2).unwrap();
        assert!(shown.contains("to a new contract") && shown.ends_with("2 bytes of data"), "{shown}");
    }

    #[test]
    fn a_person_is_asked_before_one_that_may_have_landed_is_sent() {
        let of = |code: &str| json!({ "state": "accepted", "held": { "code": code, "text": "nonce 5 did the same" } });
        let asked = question(&of("may_have_landed"), Some(1)).unwrap();
        assert!(asked.contains("nonce 5 did the same") && asked.ends_with("Send it?"), "{asked}");
        assert_eq!(question(&of("predecessor_failed"), Some(1)), None);
        assert_eq!(question(&json!({ "state": "awaiting_approval" }), Some(1)), None);
    }

    #[test]
    fn a_delegation_is_shown_and_asked_about_before_the_yes() {
        let payload = |list: Value| json!({ "to": "0xaa", "value": "0", "authorizationList": list });
        let plain = json!({ "to": "0xaa", "value": "0" });
        let own = json!([{ "address": "0xbb", "chainId": 1 }]);
        let tx = |payload: Value| json!({ "state": "awaiting_approval", "signer": "0xaa", "version": 2, "payload": payload });
        let delegating = tx(payload(own));
        let gives = "lets the code at 0xbb act for 0xaa: it can spend all that account has";
        assert!(content(&delegating, 2).unwrap().ends_with(&format!("; it {gives}")));
        let asked = question(&delegating, Some(2)).unwrap();
        assert_eq!(asked, format!("It {gives}. Send it?"));
        assert_eq!(question(&tx(plain), Some(2)), None);
        // One that may have landed as well is asked about for both.
        let mut held = delegating;
        held["held"] = json!({ "code": "may_have_landed", "text": "nonce 5 did the same" });
        let asked = question(&held, Some(2)).unwrap();
        assert!(asked.contains("nonce 5 did the same") && asked.contains(gives), "{asked}");
        // Another account's word is shown, and gives away nothing of the signer.
        let signed =
            json!([{ "address": "0xbb", "chainId": 1, "nonce": 3, "yParity": 0, "r": "1", "s": "2" }]);
        let carries = tx(payload(signed));
        assert!(content(&carries, 2).unwrap().contains("another account"), "{:?}", content(&carries, 2));
        assert_eq!(question(&carries, Some(2)), None);
    }
}
