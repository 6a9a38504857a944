//! Nonces that the chain has used and the store does not know, for people.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::amount;
use crate::client::Client;
use crate::output::{self, text};

/// So many are shown of one lane.
const MOST_SHOWN: usize = 20;
/// So many the server looks up at once: where there are so many, there may be more.
const MOST_LOOKED_UP: usize = 256;
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The ones of a lane, as the server shows it.
pub(super) fn of(lane: &Value) -> &[Value] {
    lane["unknownNonces"].as_array().map_or(&[], Vec::as_slice)
}

/// Why they were not looked at by the server that shows the lane.
pub(super) fn not_looked_at(lane: &Value) -> Option<&str> {
    lane["notLookedAt"].as_str()
}

/// By when a lane that no node runs was looked at: the server has it taken when it is asked for, once the session of a dead node has ended.
pub(super) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(15)
}

/// A lane when the server has looked at it. As it is, if that takes too long, or another node renews its lease.
pub(super) async fn lane(client: &Client, chain: u64, signer: &str, deadline: Instant) -> Result<Value> {
    let mut before: Option<Value> = None;
    loop {
        let lane = json!(client.lane(chain, signer).await?);
        let is_renewed = before.as_ref().is_some_and(|before| {
            lane["owner"]["session"].is_string()
                && before["session"] == lane["owner"]["session"]
                && before["until"] != lane["owner"]["until"]
        });
        if not_looked_at(&lane).is_none() || is_renewed || Instant::now() >= deadline {
            return Ok(lane);
        }
        before = Some(lane["owner"].clone());
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The first ones as a table, and how many more there are.
pub(super) fn table(unknown: &[Value]) -> String {
    let header = ["nonce", "block", "hash", "to", "value", "same as"];
    let shown = output::table(&header, unknown.iter().take(MOST_SHOWN).map(row).collect());
    let at_least = if unknown.len() >= MOST_LOOKED_UP { "at least " } else { "" };
    match unknown.len().saturating_sub(MOST_SHOWN) {
        0 => shown,
        more => format!("{shown}\n… and {at_least}{more} more"),
    }
}

fn row(unknown: &Value) -> Vec<String> {
    if !unknown["hash"].is_string() {
        return vec![text(unknown, "nonce"), text(unknown, "block"), "not found yet".to_owned()];
    }
    let to = if unknown["to"].is_string() { text(unknown, "to") } else { "a new contract".to_owned() };
    let value = amount::shown_text(&text(unknown, "value"));
    let [nonce, block, hash, same_as] =
        ["nonce", "block", "hash", "sameAs"].map(|field| text(unknown, field));
    vec![nonce, block, hash, to, value, same_as]
}

/// How many nonces of the account the chain has used: what the lane has stored, or what was seen since. A stored number says nothing
/// where the server has not looked.
pub(super) fn chain_count(lane: &Value) -> String {
    if not_looked_at(lane).is_some() {
        return "?".to_owned();
    }
    let unknown = of(lane);
    let seen = unknown.iter().filter_map(|one| one["nonce"].as_u64()?.checked_add(1)).max();
    let stored = lane["chainCount"].as_u64();
    match seen.max(stored) {
        None => "-".to_owned(),
        seen if seen > stored && unknown.len() >= MOST_LOOKED_UP => {
            format!("{} or more", seen.unwrap_or_default())
        }
        count => count.unwrap_or_default().to_string(),
    }
}

/// The question to a person before a lane goes on whose nonces were not looked at.
pub(super) fn blind_question(why_not: &str) -> String {
    format!(
        "Nonces that the chain has used and this store does not know cannot be shown here: {why_not}.\n\
         Go on without having seen them?"
    )
}

/// The question to a person before a lane goes on after them.
pub(super) fn question(unknown: &[Value]) -> String {
    let nonce = |one: Option<&Value>| one.map_or("-".to_owned(), |one| text(one, "nonce"));
    let which = match unknown {
        [one] => format!("nonce {}", nonce(Some(one))),
        _ => format!("nonces {} to {}", nonce(unknown.first()), nonce(unknown.last())),
    };
    let same = match unknown.iter().any(|one| one["sameAs"].is_string()) {
        true => {
            "What stands under \"same as\" then ends as landed and is not sent: if it is another payment, hand it in again with a new \
             request id.\n"
        }
        false => "",
    };
    let unread: Vec<String> =
        unknown.iter().filter(|one| !one["block"].is_u64()).map(|one| text(one, "nonce")).collect();
    if !unread.is_empty() {
        return format!(
            "This store does not know who used {which}: another program, or a newer copy of this store.\n\
             It was not found what {} did, and what nobody can tell is compared with NOTHING: everything that waits is then sent, also \
             what has been paid by it already.\n\
             Have you looked at it in an explorer, and cancelled what has landed (`landfall tx cancel`)?",
            unread.join(", ")
        );
    }
    format!(
        "This store does not know who used {which}: another program, or a newer copy of this store.\n\
         If they are other payments, go on. If this store was put back, have all requests handed in again first: one that waits \
         and is the same payment as one of them then ends as landed, and is not sent.\n\
         {same}Go on after them?"
    )
}

/// The question to a person before a lane goes on some of whose nonces were compared with nothing.
pub(super) fn not_compared_question(lane: &Value) -> Option<String> {
    let below = lane["notCompared"].as_u64().filter(|below| *below > 0)?;
    let (which, were) = match below {
        1 => ("Nonce 0".to_owned(), "was"),
        _ => (format!("Nonces 0 to {}", below - 1), "were"),
    };
    Some(format!(
        "{which} of this account {were} used before this store knew it, and {were} compared with nothing. Everything that waits is sent \
         when the lane goes on, also what one of them has paid already.\n\
         Have you looked at them, and cancelled what has landed?"
    ))
}

/// A sentence about nonces of a lane that was never used: only its newest are shown and compared.
pub(super) fn not_shown(lane: &Value) -> Option<String> {
    let first = of(lane).first()?["nonce"].as_u64().filter(|first| *first > 0)?;
    if lane["nextNonce"].is_u64() {
        return None;
    }
    let (which, are, them) = match first {
        1 => ("Nonce 0".to_owned(), "is", "it"),
        _ => (format!("Nonces 0 to {}", first - 1), "are", "them"),
    };
    Some(format!(
        "{which} {are} not shown and will not be compared: the lane holds for {them} after the store is accepted."
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lane(nonces: std::ops::Range<u64>) -> Value {
        let one = |nonce| json!({ "nonce": nonce, "block": 9, "hash": "0xab", "to": "0xcd", "value": "1500000000000000000" });
        json!({ "chainCount": 3, "unknownNonces": nonces.map(one).collect::<Vec<_>>() })
    }

    #[test]
    fn unknown_nonces_are_shown_with_what_they_did_and_only_so_many_of_them() {
        let mut few = lane(3..5);
        few["unknownNonces"][0]["sameAs"] = json!("01a1");
        few["unknownNonces"][1] = json!({ "nonce": 4 });
        let shown = table(of(&few));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1], "3      9      0xab           0xcd  1.5 ether  01a1", "{shown}");
        assert_eq!(lines[2], "4      -      not found yet", "{shown}");
        assert_eq!((lines.len(), chain_count(&few)), (3, "5".to_owned()));

        let more = lane(3..24);
        let shown = table(of(&more));
        assert_eq!((shown.lines().count(), shown.lines().last()), (22, Some("… and 1 more")));
        let many = lane(3..259);
        assert!(table(of(&many)).ends_with("… and at least 236 more"));
        assert_eq!(chain_count(&many), "259 or more");
    }

    #[test]
    fn a_lane_whose_nonces_are_all_known_has_the_count_that_it_stored() {
        assert_eq!(chain_count(&json!({ "chainCount": 3 })), "3");
        assert_eq!(chain_count(&json!({})), "-");
        assert_eq!(chain_count(&json!({ "chainCount": 3, "notLookedAt": "node b runs it" })), "?");
    }

    #[test]
    fn a_person_is_asked_about_nonces_that_were_compared_with_nothing() {
        let asked = not_compared_question(&json!({ "notCompared": 31 })).unwrap();
        assert!(asked.starts_with("Nonces 0 to 30 of this account were used before"), "{asked}");
        let asked = not_compared_question(&json!({ "notCompared": 1 })).unwrap();
        assert!(asked.starts_with("Nonce 0 of this account was used before"), "{asked}");
        assert_eq!(not_compared_question(&json!({})), None);
    }

    #[test]
    fn nonces_of_a_new_lane_that_are_not_shown_are_named() {
        let mut new = lane(31..40);
        let said = not_shown(&new).unwrap();
        assert!(
            said.starts_with("Nonces 0 to 30 are not shown") && said.contains("holds for them"),
            "{said}"
        );
        assert!(not_shown(&lane(1..2)).unwrap().starts_with("Nonce 0 is not shown"));
        assert_eq!(not_shown(&lane(0..2)), None);
        new["nextNonce"] = json!(31);
        assert_eq!(not_shown(&new), None, "the store knows those below");
    }

    #[test]
    fn nothing_is_promised_of_nonces_that_nobody_can_tell_about() {
        let mut two = lane(3..5);
        two["unknownNonces"][1] = json!({ "nonce": 4 });
        let asked = question(of(&two));
        assert!(asked.contains("not found what 4 did") && asked.contains("compared with NOTHING"), "{asked}");
        assert!(!asked.contains("is not sent"), "{asked}");
    }

    #[test]
    fn a_person_is_told_what_becomes_of_one_that_did_the_same() {
        let mut one = lane(3..4);
        assert!(!question(of(&one)).contains("same as"));
        one["unknownNonces"][0]["sameAs"] = json!("01a1");
        assert!(question(of(&one)).contains("hand it in again with a new request id"));
    }
}
