//! The journal's entries, and the events that are made of them. In code: `landfall_core::journal::Entry`.

use serde_json::{Value, json};

use super::schema::{Field, any_of, flag, has, list, may, number, object, or_null, refer, said, text, word};
use super::transaction::answer;

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let entries = kinds()
        .into_iter()
        .map(|(kind, event, fields)| object("", base(kind, event).into_iter().chain(fields)));
    let events = kinds().into_iter().filter_map(|(kind, event, fields)| {
        let event = Some(event?);
        Some(object("", base(kind, event).into_iter().chain(fields).chain(whose())))
    });
    vec![
        (
            "JournalEntry",
            said(
                json!({ "oneOf": entries.collect::<Vec<_>>() }),
                "one thing that happened; `type` says what",
            ),
        ),
        (
            "Event",
            said(json!({ "oneOf": events.collect::<Vec<_>>() }), "a journal entry as listeners get it"),
        ),
        ("JournalReceipt", receipt()),
        ("JournalFees", fees()),
        ("AskedFees", asked_fees()),
        ("SendReport", object("what a node said to a send", answer())),
    ]
}

/// The names that can be subscribed to.
pub(super) fn events() -> Vec<&'static str> {
    kinds().into_iter().filter_map(|(_, event, _)| event).collect()
}

type Kind = (&'static str, Option<&'static str>, Vec<Field>);

fn kinds() -> Vec<Kind> {
    let slot = || has("slot", refer("Nonce"));
    let hash = || has("hash", refer("Hash"));
    let block = || has("block", refer("Block"));
    let version = || has("version", refer("Version"));
    let reason = || has("reason", refer("Reason"));
    let said = || has("text", text());
    let receipt = || has("receipt", refer("JournalReceipt"));
    let report = || has("report", refer("SendReport"));
    let balance = || has("balance", refer("Wei"));
    let signed = vec![
        slot(),
        has("attempt", number()),
        version(),
        has("noOp", flag()),
        hash(),
        has("fees", refer("JournalFees")),
        has("gas", number()),
    ];
    vec![
        ("accepted", Some("tx.accepted"), vec![]),
        ("simulated", None, vec![]),
        ("approval_asked", None, vec![]),
        ("approved", None, vec![]),
        ("prepare_failed", None, vec![has("reason", text()), has("tries", number())]),
        ("slot_reserved", None, vec![slot()]),
        ("slot_returned", None, vec![slot()]),
        ("signed", Some("tx.signed"), signed),
        ("broadcast", Some("tx.broadcast"), vec![hash(), report()]),
        ("send_answered", None, vec![hash(), report()]),
        ("at_ceiling", None, vec![slot(), has("needed", refer("Wei")), has("ceiling", refer("Wei"))]),
        ("mined", Some("tx.mined"), vec![receipt(), version(), has("noOp", flag())]),
        ("reorged", Some("tx.reorged"), vec![hash(), block()]),
        ("recheck_began", None, vec![slot()]),
        ("final_reorged", Some("chain.final_reorged"), vec![hash(), block()]),
        ("landed_again", Some("chain.landed_again"), vec![receipt(), version()]),
        ("bound_back", None, vec![slot()]),
        ("final_lost", Some("chain.final_lost"), vec![slot(), block()]),
        ("single_witness", Some("chain.single_witness"), vec![hash(), block()]),
        ("ending_began", None, vec![has("state", refer("State")), reason()]),
        ("replaced", None, vec![version()]),
        ("replace_dropped", None, vec![version(), reason()]),
        ("earlier_won", None, vec![has("won", refer("Version")), has("newest", refer("Version"))]),
        ("speed_up_asked", None, vec![has("fees", refer("AskedFees")), may("speed", refer("Speed"))]),
        ("version_approval_asked", None, vec![version()]),
        ("version_approved", None, vec![version()]),
        ("held", None, vec![reason()]),
        ("released", None, vec![]),
        ("displaced", Some("tx.displaced"), vec![slot()]),
        ("requeued", None, vec![slot(), block()]),
        ("carried_out", None, vec![slot(), hash(), block()]),
        ("taken_alike", Some("tx.taken"), vec![slot(), hash(), block()]),
        ("taken_by_other", None, vec![slot(), hash(), block()]),
        ("confirmed", Some("tx.confirmed"), vec![hash(), block(), version()]),
        ("reverted", Some("tx.reverted"), vec![hash(), block(), reason()]),
        ("failed", Some("tx.failed"), vec![reason()]),
        ("cancelled", Some("tx.cancelled"), vec![reason()]),
        ("expired", Some("tx.expired"), vec![reason()]),
        ("low_balance", Some("lane.low_balance"), vec![balance(), said()]),
        ("balance_restored", Some("lane.balance_restored"), vec![balance()]),
        ("lane_held", Some("lane.held"), vec![said()]),
        ("lane_resumed", Some("lane.resumed"), vec![said()]),
        (
            "lane_adopted",
            Some("lane.adopted"),
            vec![has("nonces", list(refer("Nonce"))), has("hashes", list(refer("Hash"))), said()],
        ),
        ("lane_paused", Some("lane.paused"), vec![said()]),
        ("lane_disabled", Some("lane.disabled"), vec![said()]),
        ("lane_filled", Some("lane.filled"), vec![said()]),
        ("lane_reset", Some("lane.reset"), vec![said()]),
        (
            "all_cancelled",
            Some("lane.all_cancelled"),
            vec![has("upTo", json!({ "type": "integer" })), said()],
        ),
    ]
}

/// What every entry has.
fn base(kind: &str, event: Option<&str>) -> Vec<Field> {
    let mut fields = vec![
        has("type", word(kind)),
        has("seq", said(json!({ "type": "integer" }), "its number in the journal of the whole store")),
        has("at", refer("Time")),
        may("by", said(refer("Caller"), "who asked for it; absent where nobody did")),
    ];
    match event {
        // Later attempts of a slot are signed without an event.
        Some(event) if kind == "signed" => fields.push(may("event", word(event))),
        Some(event) => fields.push(has("event", word(event))),
        None => {}
    }
    fields
}

/// What an event says beyond its entry.
fn whose() -> Vec<Field> {
    vec![
        has("chainId", refer("ChainId")),
        has("signer", refer("Address")),
        may("txSeq", said(number(), "the how manieth event of its transaction it is")),
        may("state", said(refer("State"), "where its transaction is then")),
        may("txId", said(refer("TxId"), "left out where it is about the lane")),
    ]
}

fn receipt() -> Value {
    object(
        "what the chain made of one attempt",
        [
            has("hash", refer("Hash")),
            has("block", refer("Block")),
            has("index", number()),
            has("success", flag()),
            has("gasUsed", number()),
            has("gasPrice", refer("Wei")),
            may("dataFee", refer("Wei")),
            may("contract", refer("Address")),
        ],
    )
}

fn fees() -> Value {
    any_of([
        object("", [has("kind", word("legacy")), has("gasPrice", refer("Wei"))]),
        object("", [has("kind", word("dynamic")), has("maxFee", refer("Wei")), has("tip", refer("Wei"))]),
    ])
}

fn asked_fees() -> Value {
    let wei = || or_null(refer("Wei"));
    any_of([
        word("market"),
        object("", [has("legacy", object("", [has("gasPrice", wei())]))]),
        object("", [has("dynamic", object("", [has("maxFee", wei()), has("tip", wei())]))]),
    ])
}
