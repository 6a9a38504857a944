//! The small words that all others are made of: ids, amounts, times.

use landfall_core::RequestId;
use landfall_core::outcome::SendOutcome;
use landfall_core::transaction::{ReasonCode, TxState};
use serde_json::{Value, json};

use super::schema::{any_of, example, has, number, object, refer, said, text, words};
use crate::access::Role;

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let hash = "0xaa11f937c58379d939893e400492470e3aef0030b1e94b68243cec8fa5e643c5";
    vec![
        ("TxId", example(uuid("a transaction, by the id that Landfall gave it"), json!(super::TX_ID))),
        ("ChainId", example(said(number(), "the EIP-155 id of a chain"), json!(31_337))),
        (
            "Address",
            example(
                matching(
                    "^0x[0-9a-fA-F]{40}$",
                    "20 bytes in hex. Mixed case must carry a right checksum (EIP-55).",
                ),
                json!(super::SIGNER),
            ),
        ),
        ("Hash", example(matching("^0x[0-9a-fA-F]{64}$", "32 bytes in hex"), json!(hash))),
        ("Bytes", matching("^0x([0-9a-fA-F]{2})*$", "bytes in hex")),
        (
            "Wei",
            example(matching("^[0-9]+$", "an amount in wei, or a price in wei per gas"), json!("1000000000")),
        ),
        (
            "Amount",
            example(
                matching(
                    "^([0-9]+|0[xX][0-9a-fA-F]+)$",
                    "an amount in wei, or a price in wei per gas: decimal, or hex after 0x. Never a JSON number: those lose digits.",
                ),
                json!("1000000000000000000"),
            ),
        ),
        (
            "Quantity",
            said(any_of([number(), refer("Amount")]), "a number below 2^64, or the same as a string"),
        ),
        ("Nonce", said(number(), "a nonce of the account")),
        (
            "Time",
            example(
                json!({ "type": "string", "format": "date-time", "description": "RFC 3339, in UTC" }),
                json!("2030-01-31T12:00:00.000Z"),
            ),
        ),
        (
            "RequestId",
            example(
                json!({
                    "type": "string", "minLength": 1, "maxLength": RequestId::MAX_BYTES,
                    "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$",
                    "description": "The idempotency key: 1 to 255 bytes without control characters, kept as written. It \
                                    belongs to the signer, for ever.",
                }),
                json!("invoice-4711"),
            ),
        ),
        (
            "Version",
            said(
                json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
                "a content of a transaction: 1 as asked, later ones by replace, cancel, expiry or failure",
            ),
        ),
        (
            "State",
            said(
                words(TxState::ALL.map(TxState::name)),
                "where a transaction is; docs/states.md says what each means",
            ),
        ),
        (
            "Outcome",
            said(
                words(SendOutcome::ALL.map(SendOutcome::name)),
                "what a node answered to a send, as a class; docs/errors.md says what follows",
            ),
        ),
        (
            "Role",
            said(
                words(Role::ALL.map(Role::name)),
                "what an API key may do; each may do what those before it may",
            ),
        ),
        ("Speed", said(words(["slow", "normal", "fast"]), "which of the recent tips is offered")),
        (
            "Reason",
            object(
                "why it ended as it did, or waits for a person",
                [
                    has("code", words(ReasonCode::ALL.map(ReasonCode::name))),
                    has("text", said(text(), "the same for people")),
                ],
            ),
        ),
        (
            "Block",
            object(
                "a block by number and hash; the hash decides",
                [has("number", number()), has("hash", refer("Hash"))],
            ),
        ),
    ]
}

pub(super) fn uuid(what: &str) -> Value {
    json!({ "type": "string", "format": "uuid", "description": what })
}

fn matching(pattern: &str, what: &str) -> Value {
    json!({ "type": "string", "pattern": pattern, "description": what })
}
