//! What callers send. `null` counts as left out, and what is not named here is refused.

use landfall_core::RequestId;
use serde_json::{Value, json};

use super::schema::{any_of, example, has, list, may, number, object, optional, refer, said, text, words};
use super::{RECEIVER, SIGNER, TX_ID};
use crate::body::limits;

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("Submission", submission()),
        ("Batch", batch()),
        ("PayloadAsked", payload()),
        ("AccessItemAsked", access_item()),
        ("AuthorizationAsked", authorization()),
        ("OptionsAsked", options()),
        ("AfterAsked", after()),
        ("Replacement", replacement()),
        ("SpeedUp", speed_up()),
        ("Settlement", settlement()),
        (
            "Decision",
            object(
                "",
                [
                    optional(
                        "version",
                        said(refer("Version"), "the content that is meant; the newest if left out"),
                    ),
                    optional(
                        "heldFor",
                        said(number(), "the nonce that was looked at, of one that may have landed"),
                    ),
                ],
            ),
        ),
        (
            "Retry",
            object(
                "",
                [optional(
                    "options",
                    said(
                        refer("OptionsAsked"),
                        "in place of all of the old ones; those without their deadline if left out",
                    ),
                )],
            ),
        ),
        ("SlotRange", slot_range()),
        ("NewApiKey", new_key()),
    ]
}

/// A transfer, as examples have it.
pub(super) fn transfer() -> Value {
    json!({
        "chainId": 31_337, "signer": SIGNER, "requestId": "invoice-4711",
        "payload": { "to": RECEIVER, "value": "1000000000000000000" },
    })
}

fn submission() -> Value {
    let schema = object(
        "a transaction to hand over",
        [
            has("chainId", refer("ChainId")),
            has("signer", said(refer("Address"), "a configured signer of that chain")),
            optional("requestId", refer("RequestId")),
            has("payload", refer("PayloadAsked")),
            optional("options", refer("OptionsAsked")),
        ],
    );
    example(schema, transfer())
}

fn batch() -> Value {
    let items = said(
        list(refer("Submission")),
        "up to `[server] max_batch` of them; one that cannot be read is answered in its place",
    );
    any_of([items.clone(), object("", [has("items", items)])])
}

fn payload() -> Value {
    let kind = any_of([
        json!({ "type": "integer", "enum": [0, 1, 2, 4] }),
        json!({ "type": "string", "pattern": "^0x0*[0124]$" }),
    ]);
    let bytes = |text: &str| {
        let longest = 2 + 2 * limits::LARGEST_DATA;
        json!({ "type": "string", "pattern": "^0x([0-9a-fA-F]{2})*$", "maxLength": longest, "description": text })
    };
    object(
        "what to do on chain",
        [
            optional("to", said(refer("Address"), "the recipient; left out: create a contract from `data`")),
            optional("value", said(refer("Amount"), "wei; 0 if left out")),
            optional("data", bytes("bytes in hex, up to 127 KB")),
            optional("input", bytes("another name of `data`")),
            optional("gas", said(refer("Quantity"), "estimated if left out")),
            optional(
                "maxFeePerGas",
                said(
                    refer("Amount"),
                    "the first price of an EIP-1559 transaction; a later attempt may offer more",
                ),
            ),
            optional("maxPriorityFeePerGas", refer("Amount")),
            optional("gasPrice", said(refer("Amount"), "the first price of a legacy transaction")),
            optional(
                "accessList",
                json!({ "type": "array", "items": refer("AccessItemAsked"), "maxItems": limits::MOST_ACCESS_ITEMS }),
            ),
            optional(
                "authorizationList",
                json!({ "type": "array", "items": refer("AuthorizationAsked"), "minItems": 1, "maxItems": limits::MOST_AUTHORIZATIONS, "description": "EIP-7702" }),
            ),
            optional("type", said(kind, "the EIP-2718 type; follows from the other fields if left out")),
        ],
    )
}

fn access_item() -> Value {
    object("", [has("address", refer("Address")), optional("storageKeys", list(refer("Hash")))])
}

fn authorization() -> Value {
    object(
        "others' signed authorizations have all fields; the sender's own has `address` alone, and Landfall signs it if the signer's delegate_to lists that",
        [
            has("address", refer("Address")),
            optional(
                "chainId",
                said(
                    refer("Quantity"),
                    "in a signed one 0 or left out: any chain; in the sender's own left out: the transaction's",
                ),
            ),
            optional("nonce", refer("Quantity")),
            optional("yParity", said(refer("Quantity"), "0 or 1")),
            optional("r", refer("Amount")),
            optional("s", refer("Amount")),
        ],
    )
}

/// A number of blocks, or a tag.
pub(super) fn finality() -> Value {
    any_of([json!({ "type": "integer", "minimum": 0, "maximum": 1_000 }), words(["safe", "finalized"])])
}

fn options() -> Value {
    object(
        "how to carry it",
        [
            optional("speed", refer("Speed")),
            optional(
                "maxFeePerGas",
                said(refer("Amount"), "the ceiling of every attempt of this transaction"),
            ),
            optional(
                "deadline",
                said(refer("Time"), "if it is not in a block by then, it expires; judged by block time"),
            ),
            optional(
                "finality",
                said(
                    finality(),
                    "when it is done: blocks on top of its own, or a tag; the chain's if left out",
                ),
            ),
            optional("onDisplaced", words(["requeue", "fail"])),
            optional("onReorg", words(["resend", "cancel"])),
            optional("onInsufficientFunds", words(["hold", "fail"])),
            optional("after", refer("AfterAsked")),
            may("metadata", said(json!({}), "any JSON up to 4,096 bytes, handed back with the transaction")),
        ],
    )
}

fn after() -> Value {
    let schema = object(
        "the transaction that this one is to follow",
        [
            has("txId", refer("TxId")),
            optional("state", words(["confirmed", "mined"])),
            optional("onFailure", words(["cancel", "hold"])),
        ],
    );
    example(schema, json!({ "txId": TX_ID, "state": "confirmed", "onFailure": "cancel" }))
}

fn replacement() -> Value {
    let terms = object(
        "",
        [
            optional("speed", refer("Speed")),
            optional("maxFeePerGas", refer("Amount")),
            optional("deadline", refer("Time")),
        ],
    );
    let schema = object("", [has("payload", refer("PayloadAsked")), optional("options", terms)]);
    example(schema, json!({ "payload": { "to": RECEIVER, "value": "2" }, "options": { "speed": "fast" } }))
}

fn speed_up() -> Value {
    let schema = object(
        "",
        [
            optional("maxFeePerGas", refer("Amount")),
            optional("maxPriorityFeePerGas", refer("Amount")),
            optional("speed", refer("Speed")),
        ],
    );
    example(schema, json!({ "speed": "fast" }))
}

fn settlement() -> Value {
    let whose = said(words(["ours", "foreign"]), "whose transaction took the nonce and does the same");
    let hash = said(refer("Hash"), "the one that was looked at; refused if it is another by now");
    example(object("", [has("taken", whose), may("hash", hash)]), json!({ "taken": "ours" }))
}

fn slot_range() -> Value {
    let schema = object("both ends included", [has("from", refer("Nonce")), has("to", refer("Nonce"))]);
    example(schema, json!({ "from": 7, "to": 9 }))
}

fn new_key() -> Value {
    let name = json!({ "type": "string", "minLength": 1, "maxLength": limits::LONGEST_KEY_NAME, "description": "what it is for" });
    let signers = json!({ "type": "array", "items": refer("Address"), "minItems": 1, "maxItems": limits::MOST_SIGNERS });
    let chains =
        json!({ "type": "array", "items": refer("ChainId"), "minItems": 1, "maxItems": limits::MOST_CHAINS });
    let schema = object(
        "",
        [
            has("name", name),
            has("role", refer("Role")),
            optional(
                "signers",
                said(
                    signers,
                    "the signers it may see and use; all if left out. For viewers, approvers and submitters",
                ),
            ),
            optional("chains", said(chains, "the chains it may see and use them on; all if left out")),
            optional(
                "ratePerS",
                json!({ "type": "integer", "minimum": 0, "maximum": 1_000_000, "description": "requests per second; 0: no limit; as the configuration says if left out" }),
            ),
            optional("expiresAt", refer("Time")),
        ],
    );
    example(schema, json!({ "name": "shop", "role": "submitter", "signers": [SIGNER], "ratePerS": 50 }))
}

/// The header that makes a call idempotent.
pub(super) fn idempotency_key() -> Value {
    json!({
        "name": "Idempotency-Key", "in": "header", "required": false,
        "description": "The same call with the same key is done once.",
        "schema": { "type": "string", "minLength": 1, "maxLength": RequestId::MAX_BYTES, "pattern": "^[ -~]+$" },
    })
}

/// Free text, where nothing more can be said.
pub(super) fn anything(what: &str) -> Value {
    said(text(), what)
}

/// How many a page may have.
pub(super) fn limit() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": 500, "default": 50 })
}

/// Blocks and numbers of events.
pub(super) fn position() -> Value {
    number()
}
